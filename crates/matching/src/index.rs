//! What the matcher keeps many entries in: a slab, and first-in-first-out chains through it, found by hashing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// Emptied tables keep room for so many entries; the room of greater numbers is given back.
const KEPT: usize = 1 << 16;

/// Context, source and tag; [`ANY`] in source or tag where the chain takes any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Triple {
    pub context: u64,
    pub source: u32,
    pub tag: u32,
}

/// Any source or tag.
pub(crate) const ANY: u32 = u32::MAX;
/// No entry.
const NONE: u32 = u32::MAX;

/// The four shapes of patterns: bit 0 any source, bit 1 any tag.
pub(crate) const CLASSES: usize = 4;

impl Triple {
    /// The triple as patterns of that class see it.
    pub fn masked(self, class: usize) -> Triple {
        let source = if class & 1 == 0 { self.source } else { ANY };
        let tag = if class & 2 == 0 { self.tag } else { ANY };
        Triple { source, tag, ..self }
    }

    /// The class of the triple as a pattern.
    pub fn class(self) -> usize {
        (self.source == ANY) as usize | ((self.tag == ANY) as usize) << 1
    }

    /// Whether a pattern's triple takes in a key's.
    #[inline]
    fn covers(self, key: Triple) -> bool {
        self.context == key.context
            && (self.source == key.source || self.source == ANY)
            && (self.tag == key.tag || self.tag == ANY)
    }
}

impl std::hash::Hash for Triple {
    /// Multiply and fold, as the keys are small numbers of our own. Eight successive tags come to lie side by side
    /// (the low bits choose a table's place, the top bits tell neighbours apart): messages in great numbers often have tags that count
    /// up, and are then found with an eighth of the cache misses.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let neighbour = u64::from(self.tag & 7);
        let rest = u64::from(self.source) | u64::from(self.tag >> 3) << 32;
        let mixed = fold(fold(self.context) ^ rest);
        state.write_u64((mixed << 3 | neighbour) ^ neighbour << 57);
    }
}

#[inline]
fn fold(word: u64) -> u64 {
    let product = u128::from(word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product >> 64) as u64 ^ product as u64
}

/// Takes the hash that a [`Triple`] makes of itself as it is.
#[derive(Default)]
pub(crate) struct TripleHasher(u64);

impl Hasher for TripleHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a triple hashes itself to one word");
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

#[derive(Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
}

/// First-in-first-out chains of slab entries, one a triple.
#[derive(Default)]
pub(crate) struct Chains {
    chains: HashMap<Triple, Chain, BuildHasherDefault<TripleHasher>>,
    /// Neighbours of each entry: before, behind.
    links: Vec<[u32; 2]>,
}

impl Chains {
    pub fn first(&self, triple: Triple) -> Option<u32> {
        self.chains.get(&triple).map(|chain| chain.first)
    }

    pub fn push(&mut self, triple: Triple, entry: u32) {
        if self.links.len() <= entry as usize {
            self.links.resize(entry as usize + 1, [NONE; 2]);
        }
        match self.chains.entry(triple) {
            Entry::Vacant(vacant) => {
                vacant.insert(Chain { first: entry, last: entry });
                self.links[entry as usize] = [NONE; 2];
            }
            Entry::Occupied(mut occupied) => {
                let last = std::mem::replace(&mut occupied.get_mut().last, entry);
                self.links[last as usize][1] = entry;
                self.links[entry as usize] = [last, NONE];
            }
        }
    }

    /// Takes the entry out of its chain; an empty chain goes, so that only keys in use take room.
    pub fn remove(&mut self, triple: Triple, entry: u32) {
        let [before, behind] = self.links[entry as usize];
        if before != NONE && behind != NONE {
            self.links[before as usize][1] = behind;
            self.links[behind as usize][0] = before;
            return;
        }
        let Entry::Occupied(mut chain) = self.chains.entry(triple) else {
            panic!("an entry is in its chain")
        };
        match (before, behind) {
            (NONE, NONE) => {
                chain.remove();
            }
            (NONE, behind) => {
                chain.get_mut().first = behind;
                self.links[behind as usize][0] = NONE;
            }
            (before, _) => {
                chain.get_mut().last = before;
                self.links[before as usize][1] = NONE;
            }
        }
    }

    /// All entries have gone.
    fn reset(&mut self) {
        self.chains.shrink_to(KEPT);
        self.links.clear();
        self.links.shrink_to(KEPT);
    }
}

/// How one side finds the first entry that goes with what the other side brings.
pub(crate) trait Index: Default {
    /// Whether an entry goes with what the other side brings.
    fn goes_with(entry: Triple, wanted: Triple) -> bool;
    /// The entry, the last of all in order, comes in.
    fn insert(&mut self, triple: Triple, entry: u32);
    /// The entry goes.
    fn remove(&mut self, triple: Triple, entry: u32);
    /// The first entry in order that goes with `wanted`.
    fn find<T>(&mut self, entries: &Slab<T>, wanted: Triple) -> Option<u32>;
    /// All entries have gone.
    fn reset(&mut self);
}

/// Receives: each in the chain of its own pattern; a message may match four of them.
#[derive(Default)]
pub(crate) struct ReceiveIndex {
    chains: Chains,
    of_class: [usize; CLASSES],
}

impl Index for ReceiveIndex {
    #[inline]
    fn goes_with(entry: Triple, wanted: Triple) -> bool {
        entry.covers(wanted)
    }

    fn insert(&mut self, triple: Triple, entry: u32) {
        self.of_class[triple.class()] += 1;
        self.chains.push(triple, entry);
    }

    fn remove(&mut self, triple: Triple, entry: u32) {
        self.of_class[triple.class()] -= 1;
        self.chains.remove(triple, entry);
    }

    fn find<T>(&mut self, entries: &Slab<T>, wanted: Triple) -> Option<u32> {
        let classes = (0..CLASSES).filter(|&class| self.of_class[class] > 0);
        let firsts = classes.filter_map(|class| self.chains.first(wanted.masked(class)));
        firsts.min_by_key(|&entry| entries.get(entry).sequence)
    }

    fn reset(&mut self) {
        self.chains.reset();
    }
}

/// Messages: each in a chain for every class of patterns that was asked for since there were many. A class that is
/// asked for the first time is set up from all entries, so programs without wildcards do not pay for them.
#[derive(Default)]
pub(crate) struct MessageIndex {
    chains: [Chains; CLASSES],
    in_use: [bool; CLASSES],
}

impl Index for MessageIndex {
    #[inline]
    fn goes_with(entry: Triple, wanted: Triple) -> bool {
        wanted.covers(entry)
    }

    fn insert(&mut self, triple: Triple, entry: u32) {
        for class in (0..CLASSES).filter(|&class| self.in_use[class]) {
            self.chains[class].push(triple.masked(class), entry);
        }
    }

    fn remove(&mut self, triple: Triple, entry: u32) {
        for class in (0..CLASSES).filter(|&class| self.in_use[class]) {
            self.chains[class].remove(triple.masked(class), entry);
        }
    }

    fn find<T>(&mut self, entries: &Slab<T>, wanted: Triple) -> Option<u32> {
        let class = wanted.class();
        if !self.in_use[class] {
            let mut order: Vec<(u64, u32)> = entries.iter().map(|(entry, w)| (w.sequence, entry)).collect();
            order.sort_unstable();
            for (_, entry) in order {
                self.chains[class].push(entries.get(entry).triple.masked(class), entry);
            }
            self.in_use[class] = true;
        }
        self.chains[class].first(wanted)
    }

    fn reset(&mut self) {
        self.chains.iter_mut().for_each(Chains::reset);
        self.in_use = [false; CLASSES];
    }
}

/// An entry among many.
pub(crate) struct Waiting<T> {
    pub triple: Triple,
    /// Order of insertion.
    pub sequence: u64,
    pub value: T,
}

/// A place of the slab.
enum Slot<T> {
    Free { next: u32 },
    Used(Waiting<T>),
}

/// Entries under numbers that stay; freed ones are used again.
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
    sequence: u64,
}

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: NONE, len: 0, sequence: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn insert(&mut self, triple: Triple, value: T) -> u32 {
        self.len += 1;
        self.sequence += 1;
        let waiting = Waiting { triple, sequence: self.sequence, value };
        if self.free == NONE {
            assert!(self.slots.len() < NONE as usize, "fewer than 2^32 - 1 entries wait at a time");
            self.slots.push(Slot::Used(waiting));
            return (self.slots.len() - 1) as u32;
        }
        let entry = self.free;
        let slot = std::mem::replace(&mut self.slots[entry as usize], Slot::Used(waiting));
        let Slot::Free { next } = slot else { panic!("the free list holds free slots") };
        self.free = next;
        entry
    }

    pub fn get(&self, entry: u32) -> &Waiting<T> {
        match &self.slots[entry as usize] {
            Slot::Used(value) => value,
            Slot::Free { .. } => panic!("chains hold used slots"),
        }
    }

    pub fn remove(&mut self, entry: u32) -> Waiting<T> {
        let slot = std::mem::replace(&mut self.slots[entry as usize], Slot::Free { next: self.free });
        let Slot::Used(value) = slot else { panic!("chains hold used slots") };
        self.free = entry;
        self.len -= 1;
        value
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Waiting<T>)> {
        self.slots.iter().enumerate().filter_map(|(entry, slot)| match slot {
            Slot::Used(value) => Some((entry as u32, value)),
            Slot::Free { .. } => None,
        })
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiting<T>> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Used(value) => Some(value),
            Slot::Free { .. } => None,
        })
    }

    /// All entries have gone.
    pub fn reset(&mut self) {
        self.slots.clear();
        self.slots.shrink_to(KEPT);
        self.free = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emptied_index_has_no_chains_for_classes_that_were_asked_for() {
        let (mut entries, mut index) = (Slab::new(), MessageIndex::default());
        let message = Triple { context: 1, source: 2, tag: 3 };
        let entry = entries.insert(message, ());
        index.insert(message, entry);
        let any = message.masked(3);
        assert_eq!((index.find(&entries, any), index.in_use[any.class()]), (Some(entry), true));
        index.remove(message, entry);
        index.reset();
        assert_eq!(index.in_use, [false; CLASSES]);
    }

    #[test]
    fn an_emptied_index_keeps_no_links() {
        let (mut receives, mut messages) = (ReceiveIndex::default(), MessageIndex::default());
        let receive = Triple { context: 1, source: ANY, tag: 3 };
        receives.insert(receive, 9);
        messages.in_use[0] = true;
        messages.insert(receive, 9);
        receives.remove(receive, 9);
        messages.remove(receive, 9);
        assert_eq!((receives.chains.links.len(), messages.chains[0].links.len()), (10, 10));
        receives.reset();
        messages.reset();
        assert!(receives.chains.links.is_empty() && messages.chains[0].links.is_empty());
    }
}
