//! A cache that drops the least recently used block: of a set, or of all.

use super::MachineError;
use std::collections::HashMap;

/// How large a cache is and how it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    blocks: usize,
    /// `None`: fully associative.
    ways: Option<usize>,
}

impl Shape {
    /// So many blocks, in sets of so many ways.
    ///
    /// # Panics
    /// The ways do not divide the blocks, or are none or more than 64.
    pub fn sets(blocks: usize, ways: usize) -> Shape {
        assert!((1..=64).contains(&ways) && blocks > 0 && blocks.is_multiple_of(ways), "{blocks} by {ways}");
        Shape { blocks, ways: Some(ways) }
    }

    /// So many blocks, any block anywhere.
    ///
    /// # Panics
    /// Without a block.
    pub fn full(blocks: usize) -> Shape {
        assert!(blocks > 0, "a cache of no block");
        Shape { blocks, ways: None }
    }

    /// Blocks that it holds.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Ways of a set; none where any block may lie anywhere.
    pub fn ways(&self) -> Option<usize> {
        self.ways
    }

    /// The mask that allows every way.
    pub fn all_ways(&self) -> u64 {
        self.ways.map_or(u64::MAX, |ways| u64::MAX >> (64 - ways))
    }

    /// Whether new blocks can be kept to the ways of this mask.
    ///
    /// # Errors
    /// The mask names no way, or ways that are not there.
    pub fn allows(&self, mask: u64) -> Result<(), MachineError> {
        match self.ways {
            _ if mask == self.all_ways() => Ok(()),
            None => Err(MachineError::NoWays),
            Some(ways) if mask == 0 || mask & !self.all_ways() != 0 => Err(MachineError::Mask { mask, ways }),
            Some(_) => Ok(()),
        }
    }
}

/// A cache's contents.
#[derive(Clone, Debug)]
pub struct Cache(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Sets(Sets),
    Full(Full),
}

impl Cache {
    /// An empty cache.
    pub fn new(shape: Shape) -> Cache {
        Cache(match shape.ways {
            Some(ways) => Kind::Sets(Sets::new(shape.blocks / ways, ways)),
            None => Kind::Full(Full::new(shape.blocks)),
        })
    }

    /// The next access: whether the block was there. If it was not it is now, in one of the ways of `mask` (bit 0 is the first).
    /// As with Intel's allocation technology, a block is found in any way.
    #[inline]
    pub fn access(&mut self, block: u64, mask: u64) -> bool {
        match &mut self.0 {
            Kind::Sets(sets) => sets.access(block, mask),
            Kind::Full(full) => full.access(block),
        }
    }
}

/// Sets of ways; which one is oldest tells the clock of its last access.
#[derive(Clone, Debug)]
struct Sets {
    ways: usize,
    sets: u64,
    /// Blocks plus one; 0 is an empty way.
    tags: Vec<u64>,
    used: Vec<u64>,
    clock: u64,
}

impl Sets {
    fn new(sets: usize, ways: usize) -> Sets {
        Sets { ways, sets: sets as u64, tags: vec![0; sets * ways], used: vec![0; sets * ways], clock: 0 }
    }

    #[inline]
    fn access(&mut self, block: u64, mask: u64) -> bool {
        self.clock += 1;
        let set = if self.sets.is_power_of_two() { block & (self.sets - 1) } else { block % self.sets };
        let first = set as usize * self.ways;
        let tags = &mut self.tags[first..first + self.ways];
        let used = &mut self.used[first..first + self.ways];
        if let Some(way) = tags.iter().position(|tag| *tag == block + 1) {
            used[way] = self.clock;
            return true;
        }
        let allowed = (0..self.ways).filter(|way| mask >> way & 1 == 1);
        let oldest = allowed.min_by_key(|way| used[*way]);
        let Some(way) = oldest else { return false };
        (tags[way], used[way]) = (block + 1, self.clock);
        false
    }
}

/// A list of all blocks by age, in an arena, and a map into it.
#[derive(Clone, Debug)]
struct Full {
    at: HashMap<u64, usize>,
    /// (block, newer, older); entry 0 is the head of the ring: its older one is the newest, its newer one the oldest.
    ring: Vec<(u64, usize, usize)>,
    blocks: usize,
}

impl Full {
    fn new(blocks: usize) -> Full {
        Full { at: HashMap::new(), ring: vec![(0, 0, 0)], blocks }
    }

    fn access(&mut self, block: u64) -> bool {
        if let Some(&entry) = self.at.get(&block) {
            self.take_out(entry);
            self.put_first(entry);
            return true;
        }
        let entry = if self.at.len() < self.blocks {
            self.ring.push((block, 0, 0));
            self.ring.len() - 1
        } else {
            let oldest = self.ring[0].1;
            self.take_out(oldest);
            self.at.remove(&self.ring[oldest].0);
            self.ring[oldest].0 = block;
            oldest
        };
        self.at.insert(block, entry);
        self.put_first(entry);
        false
    }

    fn take_out(&mut self, entry: usize) {
        let (_, newer, older) = self.ring[entry];
        self.ring[newer].2 = older;
        self.ring[older].1 = newer;
    }

    fn put_first(&mut self, entry: usize) {
        let newest = self.ring[0].2;
        (self.ring[entry].1, self.ring[entry].2) = (0, newest);
        self.ring[newest].1 = entry;
        self.ring[0].2 = entry;
    }
}
