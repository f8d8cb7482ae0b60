//! Marks in a row of slots, and how many there are behind one of them.

/// Words of a line, the unit of the lowest sums.
const LINE_WORDS: usize = 4;
/// Slots of a line.
const LINE: usize = LINE_WORDS * 64;
/// Sums of one level that one of the next level is the sum of.
const FAN: usize = 16;

/// Slots of a group of lines: the last ones that were marked are counted bit by bit, up to so many.
const GROUP: usize = LINE * FAN;

/// A bit a slot, and a tree of sums over them. Slots are marked one after the other, and only groups of lines that are behind them have sums.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    words: Vec<u64>,
    /// Marks in each line, in sixteen lines, and so on; the last level has one group of sums.
    levels: Vec<Vec<[u32; FAN]>>,
    /// The next slot to be marked.
    next: usize,
    /// Marks in the group that it lies in.
    newest: u32,
}

impl Marks {
    /// `slots` slots, or a few more; the first `marked` of which have marks.
    pub(crate) fn new(slots: usize, marked: usize) -> Marks {
        let slots = slots.next_multiple_of(GROUP);
        let mut marks = Marks { words: vec![0; slots / 64], levels: Vec::new(), next: 0, newest: 0 };
        let mut groups = slots / GROUP;
        marks.levels.push(vec![[0; FAN]; groups]);
        while groups > 1 {
            groups = groups.div_ceil(FAN);
            marks.levels.push(vec![[0; FAN]; groups]);
        }
        (0..marked).for_each(|_| marks.set());
        marks
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.words.len() * 64
    }

    /// Memory held. Bytes.
    pub(crate) fn bytes(&self) -> usize {
        let sums: usize = self.levels.iter().map(|level| level.capacity() * size_of::<[u32; FAN]>()).sum();
        self.words.capacity() * size_of::<u64>() + sums
    }

    /// The next slot to be marked; as many as there are slots if there is none.
    #[inline(always)]
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// Marks the next slot.
    #[inline(always)]
    pub(crate) fn set(&mut self) {
        self.words[self.next / 64] |= 1 << (self.next % 64);
        self.newest += 1;
        self.next += 1;
        if self.next.is_multiple_of(GROUP) {
            self.sum_up();
        }
    }

    /// Counts the lines of the group before the next slot.
    fn sum_up(&mut self) {
        let group = self.next / GROUP - 1;
        let lines = self.words[group * GROUP / 64..].chunks_exact(LINE_WORDS);
        for (sum, line) in self.levels[0][group].iter_mut().zip(lines) {
            *sum = count(line);
        }
        let mut at = group;
        for level in &mut self.levels[1..] {
            level[at / FAN][at % FAN] += self.newest;
            at /= FAN;
        }
        self.newest = 0;
    }

    /// Takes the mark of a slot away, which has one.
    #[inline(always)]
    pub(crate) fn clear(&mut self, slot: usize) {
        self.words[slot / 64] &= !(1 << (slot % 64));
        if slot >= self.next / GROUP * GROUP {
            self.newest -= 1;
            return;
        }
        let mut at = slot / LINE;
        for level in &mut self.levels {
            level[at / FAN][at % FAN] -= 1;
            at /= FAN;
        }
    }

    /// Marks behind a slot.
    #[inline(always)]
    pub(crate) fn behind(&self, slot: usize) -> u64 {
        let word = slot / 64;
        let own = (self.words[word] >> (slot % 64) >> 1).count_ones();
        if slot >= self.next / GROUP * GROUP {
            let end = self.next.div_ceil(64).max(word + 1);
            return u64::from(own + count(&self.words[word + 1..end]));
        }
        let mut at = slot / LINE;
        let mut sum = own + count(&self.words[word + 1..(at + 1) * LINE_WORDS]) + self.newest;
        for level in &self.levels {
            // Adds all, some as nothing, which takes no branches.
            for (own, mask) in level[at / FAN].iter().zip(&BEHIND[at % FAN]) {
                sum += own & mask;
            }
            at /= FAN;
        }
        u64::from(sum)
    }

    /// For each word of slots how many marks there are before it, and its marks.
    pub(crate) fn words(&self) -> Vec<(u32, u64)> {
        let mut before = 0;
        let of_word = |word: &u64| {
            let so_far = before;
            before += word.count_ones();
            (so_far, *word)
        };
        self.words.iter().map(of_word).collect()
    }
}

/// For each place in a group of sums, all bits for those behind it.
const BEHIND: [[u32; FAN]; FAN] = {
    let mut masks = [[0; FAN]; FAN];
    let mut at = 0;
    while at < FAN * FAN {
        if at % FAN > at / FAN {
            masks[at / FAN][at % FAN] = u32::MAX;
        }
        at += 1;
    }
    masks
};

#[inline(always)]
fn count(words: &[u64]) -> u32 {
    words.iter().map(|word| word.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_as_a_list_does() {
        let mut state = 3u64;
        for slots in [GROUP, 2 * GROUP, 40 * GROUP] {
            let mut marks = Marks::new(slots, 70);
            assert_eq!(marks.slots(), slots);
            let mut list = vec![true; 70];
            while list.len() < slots {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let slot = (state >> 33) as usize % list.len();
                if list[slot] && state >> 62 > 0 {
                    marks.clear(slot);
                    list[slot] = false;
                } else {
                    assert_eq!(marks.next(), list.len());
                    marks.set();
                    list.push(true);
                }
                let asked = (state >> 20) as usize % list.len();
                if list.len() < 5000 || state >> 57 == 0 {
                    let expected = list[asked + 1..].iter().filter(|mark| **mark).count();
                    assert_eq!(marks.behind(asked), expected as u64, "{asked} of {}", list.len());
                }
            }
            let (before, last) = marks.words()[slots / 64 - 1];
            assert_eq!(before + last.count_ones(), list.iter().filter(|mark| **mark).count() as u32);
        }
    }
}
