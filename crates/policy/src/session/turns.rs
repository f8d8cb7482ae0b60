//! Those that wait, in the order of their turns, and how often each was overtaken.
//!
//! Entries stand in blocks, so that a session that goes first is counted for all whose turn came before its own block by block, however
//! many wait: a block keeps what all of its entries have to add, and the most that one of them would have without it.

use super::request::SessionId;
use std::cmp::Reverse;

/// The order of those that wait: who was overtaken too often, then by priority, by what is due first, by arrival.
pub(crate) type Turn = (bool, Reverse<i32>, u64, u64, SessionId);

/// Entries of a block; one with twice as many is split.
const BLOCK: usize = 256;

/// Who waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    blocks: Vec<Block>,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Block {
    entries: Vec<Entry>,
    /// To be added to each entry that is not overdue.
    added: u32,
    /// The most of any that is not overdue, without `added`.
    most: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    turn: Turn,
    wish: Wish,
    overtaken: u32,
}

/// What a session cannot start without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Slots; 0 where that says nothing, since it may use those of others.
    pub(crate) slots: u64,
    /// How long others must still need for it to suspend them; `u64::MAX` where it may suspend nobody.
    pub(crate) gap: u64,
}

impl Block {
    /// Writes `added` down in the entries.
    fn settle(&mut self) {
        let added = std::mem::take(&mut self.added);
        self.most = 0;
        for entry in self.entries.iter_mut().filter(|entry| entry.turn.0) {
            entry.overtaken += added;
            self.most = self.most.max(entry.overtaken);
        }
    }
}

impl Turns {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn first(&self) -> Option<Turn> {
        Some(self.blocks.first()?.entries[0].turn)
    }

    /// All turns and what each needs, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Turn, Wish)> + '_ {
        self.blocks.iter().flat_map(|block| &block.entries).map(|entry| (entry.turn, entry.wish))
    }

    pub(crate) fn contains(&self, turn: &Turn) -> bool {
        let block = self.block_of(turn);
        self.blocks.get(block).is_some_and(|block| place(block, turn).is_ok())
    }

    /// Puts a session among those that wait; nobody has overtaken it.
    pub(crate) fn insert(&mut self, turn: Turn, wish: Wish) {
        self.len += 1;
        let entry = Entry { turn, wish, overtaken: 0 };
        if self.blocks.is_empty() {
            self.blocks.push(Block { entries: vec![entry], ..Block::default() });
            return;
        }
        let at = self.block_of(&turn).min(self.blocks.len() - 1);
        let block = &mut self.blocks[at];
        block.settle();
        let place = place(block, &turn).expect_err("each session waits once");
        block.entries.insert(place, entry);
        if block.entries.len() == 2 * BLOCK {
            let mut second = Block { entries: block.entries.split_off(BLOCK), ..Block::default() };
            block.settle();
            second.settle();
            self.blocks.insert(at + 1, second);
        }
    }

    /// Takes one out, and says whether it was there.
    pub(crate) fn remove(&mut self, turn: &Turn) -> bool {
        let at = self.block_of(turn);
        let Some(block) = self.blocks.get_mut(at) else { return false };
        let Ok(place) = place(block, turn) else { return false };
        // `most` may stay too large: then a block is looked through once for nothing.
        block.entries.remove(place);
        self.len -= 1;
        if block.entries.is_empty() {
            self.blocks.remove(at);
        }
        true
    }

    /// From now on nobody knows what it needs.
    pub(crate) fn forget_wish(&mut self, turn: &Turn) {
        let at = self.block_of(turn);
        let Some(block) = self.blocks.get_mut(at) else { return };
        if let Ok(place) = place(block, turn) {
            block.entries[place].wish = Wish::default();
        }
    }

    /// One started whose turn was `turn`: counts for those before it, and says who was overtaken so often now.
    pub(crate) fn overtake_before(&mut self, turn: &Turn, most: u32) -> Vec<Turn> {
        let mut overdue = Vec::new();
        for block in &mut self.blocks {
            if block.entries[0].turn >= *turn {
                break;
            }
            if block.entries[block.entries.len() - 1].turn < *turn {
                block.added += 1;
                if block.most + block.added >= most {
                    block.settle();
                    overdue.extend(reached(block, most));
                }
                continue;
            }
            overdue.extend(count(block, most, |other| other < turn));
        }
        overdue
    }

    /// The same for those of whom it is said.
    pub(crate) fn overtake(&mut self, most: u32, whom: impl Fn(&Turn) -> bool) -> Vec<Turn> {
        self.blocks.iter_mut().flat_map(|block| count(block, most, &whom)).collect()
    }

    /// The block in which a turn is, or would be; one too many for a turn behind all.
    fn block_of(&self, turn: &Turn) -> usize {
        self.blocks.partition_point(|block| block.entries[block.entries.len() - 1].turn < *turn)
    }
}

fn place(block: &Block, turn: &Turn) -> Result<usize, usize> {
    block.entries.binary_search_by(|entry| entry.turn.cmp(turn))
}

/// Counts for some of a block, and says who has reached `most`.
fn count(block: &mut Block, most: u32, whom: impl Fn(&Turn) -> bool) -> Vec<Turn> {
    block.settle();
    for entry in block.entries.iter_mut().filter(|entry| entry.turn.0 && whom(&entry.turn)) {
        entry.overtaken += 1;
        block.most = block.most.max(entry.overtaken);
    }
    reached(block, most)
}

fn reached(block: &Block, most: u32) -> Vec<Turn> {
    let waiting = block.entries.iter().filter(|entry| entry.turn.0 && entry.overtaken >= most);
    waiting.map(|entry| entry.turn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn turn(due: u64) -> Turn {
        (true, Reverse(0), due, due, SessionId(due))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        /// The same as counting one by one.
        #[test]
        fn blocks_count_as_a_list_does(steps in proptest::collection::vec((0u8..8, 0u64..3_000), 1..4_000)) {
            const MOST: u32 = 6;
            let (mut turns, mut list) = (Turns::default(), BTreeMap::<Turn, u32>::new());
            for (what, due) in steps {
                match what {
                    0..=4 if !list.contains_key(&turn(due)) => {
                        turns.insert(turn(due), Wish::default());
                        list.insert(turn(due), 0);
                    }
                    5 => prop_assert_eq!(turns.remove(&turn(due)), list.remove(&turn(due)).is_some()),
                    6 | 7 => {
                        let odd = |other: &Turn| what == 6 || other.2 % 2 == 1;
                        for (other, count) in list.iter_mut() {
                            *count += u32::from(*other < turn(due) && odd(other));
                        }
                        let found = match what {
                            6 => turns.overtake_before(&turn(due), MOST),
                            _ => turns.overtake(MOST, |other| *other < turn(due) && odd(other)),
                        };
                        let expected: Vec<Turn> =
                            list.iter().filter(|(_, count)| **count >= MOST).map(|(turn, _)| *turn).collect();
                        prop_assert_eq!(&found, &expected);
                        for overdue in found {
                            prop_assert!(turns.remove(&overdue));
                            list.remove(&overdue);
                        }
                    }
                    _ => prop_assert_eq!(turns.contains(&turn(due)), list.contains_key(&turn(due))),
                }
                prop_assert_eq!((turns.len(), turns.first()), (list.len(), list.keys().next().copied()));
            }
            prop_assert!(turns.iter().map(|(turn, _)| turn).eq(list.into_keys()));
        }
    }
}
