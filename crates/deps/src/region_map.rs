//! A map from disjoint regions to values: a look-up of an exact match is one probe, everything else goes by order.

use crate::region::Region;

/// Neighbouring starts have neighbouring slots, so many at a time; a power of two.
const NEAR: usize = 8;

/// Regions an ordered block holds at most; a block is searched by halving, an insertion moves half of it.
const BLOCK_REGIONS: usize = 64;

/// A map whose keys are disjoint regions.
///
/// An exact match is found through a hash of its start. A region that is not in the map is inserted only if it overlaps
/// nothing, which the ordered list of regions tells; the list is quickest for regions that come near the last one.
#[derive(Debug)]
pub struct RegionMap<V> {
    /// A power of two of slots, at most five eighths full; linear probing.
    slots: Vec<Option<(Region, V)>>,
    shift: u32,
    /// In what the starts differ from the first of them: all bits below the lowest one of these are the same.
    mixed: usize,
    first: usize,
    /// As many of these as the slots were placed by.
    grain: u32,
    length: usize,
    order: Order,
}

impl<V: Copy> Default for RegionMap<V> {
    fn default() -> Self {
        RegionMap::new()
    }
}

impl<V: Copy> RegionMap<V> {
    /// An empty map; allocates with the first insertion.
    pub const fn new() -> Self {
        RegionMap {
            slots: Vec::new(),
            shift: 0,
            mixed: 0,
            first: 0,
            grain: 0,
            length: 0,
            order: Order::new(),
        }
    }

    /// The number of regions.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether the map has no region.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The value of exactly this region.
    #[inline]
    pub fn get_mut(&mut self, region: Region) -> Option<&mut V> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut index = self.home(region.start());
        // Two loops would be one borrow simpler and one probe dearer.
        loop {
            match &self.slots[index & mask] {
                None => return None,
                Some((found, _)) if found.start() == region.start() => break,
                Some(_) => index += 1,
            }
        }
        match &mut self.slots[index & mask] {
            Some((found, value)) if found.length() == region.length() => Some(value),
            _ => None,
        }
    }

    /// Inserts a region that overlaps none; gives the value back otherwise.
    ///
    /// # Errors
    /// `Err(value)` if some region of the map overlaps `region`.
    pub fn insert(&mut self, region: Region, value: V) -> Result<(), V> {
        if !self.order.insert(region) {
            return Err(value);
        }
        if self.length == 0 {
            (self.first, self.mixed) = (region.start(), 0);
        }
        self.mixed |= region.start() ^ self.first;
        if self.is_full() {
            self.rebuild((self.slots.len() * 2).max(16));
        }
        self.place(region, value);
        self.length += 1;
        Ok(())
    }

    /// Whether the next insertion needs more room: the moment to [`retain`](RegionMap::retain) only what is needed.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.length * 8 >= self.slots.len() * 5
    }

    /// Removes exactly this region.
    pub fn remove(&mut self, region: Region) -> Option<V> {
        self.get_mut(region)?;
        self.order.remove(region);
        let mask = self.slots.len() - 1;
        let mut hole = self.slot_of(region);
        let (_, value) = self.slots[hole].take()?;
        // Whoever probed past the hole moves into it.
        let mut index = (hole + 1) & mask;
        while let Some((found, _)) = &self.slots[index] {
            let home = self.home(found.start()) & mask;
            if (index.wrapping_sub(home) & mask) >= (index.wrapping_sub(hole) & mask) {
                self.slots.swap(hole, index);
                hole = index;
            }
            index = (index + 1) & mask;
        }
        self.length -= 1;
        Some(value)
    }

    /// Appends the regions that overlap `region`, ascending, with their values to `found`.
    pub fn overlapping(&self, region: Region, found: &mut Vec<(Region, V)>) {
        for key in self.order.overlapping(region) {
            found.extend(self.slots[self.slot_of(key)]);
        }
    }

    /// Appends the slots of the regions that together are just `region`, ascending, to `slots`, if they are at most `most`; false if
    /// there are no such, or more. [`RegionMap::at`] takes slots until the next insertion or removal.
    pub fn tiles(&self, region: Region, most: usize, slots: &mut Vec<usize>) -> bool {
        let mut end = region.start();
        for _ in 0..most {
            let Some((slot, key)) = self.find(end) else { return false };
            end = key.end();
            slots.push(slot);
            if end >= region.end() {
                return end == region.end();
            }
        }
        false
    }

    /// Whether a region of the map starts there.
    #[inline]
    pub fn has_start(&self, start: usize) -> bool {
        self.find(start).is_some()
    }

    /// The region that starts there, and its slot.
    #[inline]
    fn find(&self, start: usize) -> Option<(usize, Region)> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = self.home(start) & mask;
        loop {
            let (found, _) = self.slots[slot].as_ref()?;
            if found.start() == start {
                return Some((slot, *found));
            }
            slot = (slot + 1) & mask;
        }
    }

    /// What lies in a slot.
    ///
    /// # Panics
    /// If nothing does.
    #[inline]
    pub fn at(&mut self, slot: usize) -> (Region, &mut V) {
        let (region, value) = self.slots[slot].as_mut().expect("a slot of a region");
        (*region, value)
    }

    /// Keeps the regions for which `keep` says so. Room that would be less than a quarter used is given back.
    pub fn retain(&mut self, mut keep: impl FnMut(Region, &mut V) -> bool) {
        let mut kept = Vec::with_capacity(self.length);
        for slot in &mut self.slots {
            if let Some((region, mut value)) = slot.take()
                && keep(region, &mut value)
            {
                kept.push((region, value));
            }
        }
        kept.sort_unstable_by_key(|(region, _)| region.start());
        self.order.refill(kept.iter().map(|(region, _)| *region));
        self.length = kept.len();
        if self.slots.len() > 16 && self.length * 4 < self.slots.len() {
            self.rebuild((self.length * 4).next_power_of_two().max(16));
        }
        for (region, value) in kept {
            self.place(region, value);
        }
    }

    /// All regions with their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Region, V)> + '_ {
        self.slots.iter().flatten().copied()
    }

    /// The slot of a region that is in the map.
    fn slot_of(&self, region: Region) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = self.home(region.start()) & mask;
        while self.slots[slot].as_ref().is_some_and(|(found, _)| found.start() != region.start()) {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Where the search for a start begins; taken modulo the number of slots. What lies side by side in memory lies so here, a
    /// few at a time: programs often go on with the neighbours.
    #[inline]
    fn home(&self, start: usize) -> usize {
        let number = start >> (self.grain & (usize::BITS - 1));
        let group = (number / NEAR).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
        (group >> (self.shift & (usize::BITS - 1))) * NEAR + number % NEAR
    }

    fn place(&mut self, region: Region, value: V) {
        let mask = self.slots.len() - 1;
        let mut index = self.home(region.start()) & mask;
        while self.slots[index].is_some() {
            index = (index + 1) & mask;
        }
        self.slots[index] = Some((region, value));
    }

    fn rebuild(&mut self, slots: usize) {
        let old = std::mem::take(&mut self.slots);
        self.slots.resize_with(slots, || None);
        self.shift = usize::BITS - (slots / NEAR).trailing_zeros();
        self.grain = self.mixed.trailing_zeros().min(usize::BITS - 1);
        for (region, value) in old.into_iter().flatten() {
            self.place(region, value);
        }
    }
}

/// Disjoint regions in ascending order, in blocks.
#[derive(Debug)]
struct Order {
    /// Never empty blocks, ascending.
    blocks: Vec<Vec<Region>>,
    /// The start of each block's first region.
    firsts: Vec<usize>,
    /// The block of the last insertion.
    hint: usize,
}

impl Order {
    const fn new() -> Order {
        Order { blocks: Vec::new(), firsts: Vec::new(), hint: 0 }
    }

    /// The block in which a region with this start is or belongs: the last that starts no later, or the first.
    #[inline]
    fn block_of(&self, start: usize) -> usize {
        let hint = self.hint;
        let after_first = self.firsts.get(hint).is_some_and(|first| *first <= start);
        if after_first && self.firsts.get(hint + 1).is_none_or(|next| start < *next) {
            return hint;
        }
        self.firsts.partition_point(|first| *first <= start).saturating_sub(1)
    }

    /// Inserts a region unless it overlaps one.
    fn insert(&mut self, region: Region) -> bool {
        if self.append(region) {
            return true;
        }
        if self.blocks.is_empty() {
            self.push_block(0, vec![region]);
            return true;
        }
        let index = self.block_of(region.start());
        let block = &self.blocks[index];
        let at_end = block.last().is_some_and(|last| last.start() < region.start());
        let position =
            if at_end { block.len() } else { block.partition_point(|found| found.start() < region.start()) };
        let before = if position > 0 { block.get(position - 1) } else { None };
        let behind = block.get(position).or_else(|| self.blocks.get(index + 1).and_then(|next| next.first()));
        if before.is_some_and(|found| found.overlaps(region))
            || behind.is_some_and(|found| found.overlaps(region))
        {
            return false;
        }
        self.insert_at(index, position, region);
        true
    }

    /// Ascending programs: inserts a region that comes right behind the last one of the block of the last insertion.
    #[inline]
    fn append(&mut self, region: Region) -> bool {
        let next = self.firsts.get(self.hint + 1).copied();
        let Some(block) = self.blocks.get_mut(self.hint) else { return false };
        let follows = block.last().is_some_and(|last| last.end() <= region.start())
            && next.is_none_or(|next| region.end() <= next)
            && block.len() < BLOCK_REGIONS;
        if follows {
            block.push(region);
        }
        follows
    }

    fn insert_at(&mut self, index: usize, position: usize, region: Region) {
        let block = &mut self.blocks[index];
        self.hint = index;
        if block.len() < BLOCK_REGIONS {
            block.insert(position, region);
            self.firsts[index] = block[0].start();
        } else if position == block.len() {
            // Ascending programs fill block after block.
            self.push_block(index + 1, vec![region]);
        } else {
            let mut upper = block.split_off(BLOCK_REGIONS / 2);
            if position <= block.len() {
                block.insert(position, region);
            } else {
                upper.insert(position - block.len(), region);
            }
            self.firsts[index] = block[0].start();
            self.push_block(index + 1, upper);
        }
    }

    fn push_block(&mut self, index: usize, mut block: Vec<Region>) {
        block.reserve_exact(BLOCK_REGIONS - block.len());
        self.firsts.insert(index, block[0].start());
        self.blocks.insert(index, block);
        self.hint = index;
    }

    fn remove(&mut self, region: Region) {
        let index = self.block_of(region.start());
        let block = &mut self.blocks[index];
        if let Ok(position) = block.binary_search_by_key(&region.start(), |found| found.start()) {
            block.remove(position);
        }
        if let Some(first) = block.first() {
            self.firsts[index] = first.start();
        } else {
            self.blocks.remove(index);
            self.firsts.remove(index);
            self.hint = 0;
        }
    }

    fn overlapping(&self, region: Region) -> impl Iterator<Item = Region> + '_ {
        let index = self.block_of(region.start());
        let blocks = self.blocks.get(index..).unwrap_or_default();
        let skipped =
            blocks.first().map_or(0, |block| block.partition_point(|found| found.end() <= region.start()));
        let from_there = blocks.iter().flatten().skip(skipped);
        from_there.take_while(move |found| found.start() < region.end()).copied()
    }

    fn refill(&mut self, regions: impl Iterator<Item = Region>) {
        self.blocks.clear();
        self.firsts.clear();
        self.hint = 0;
        for region in regions {
            match self.blocks.last_mut() {
                Some(block) if block.len() < BLOCK_REGIONS => block.push(region),
                _ => self.push_block(self.blocks.len(), vec![region]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::{BTreeMap, BTreeSet};

    fn region(start: usize, length: usize) -> Region {
        Region::new(start, length).expect("not empty")
    }

    fn overlapping<V: Copy>(map: &RegionMap<V>, region: Region) -> Vec<(Region, V)> {
        let mut found = Vec::new();
        map.overlapping(region, &mut found);
        found
    }

    #[test]
    fn behaves_like_an_ordered_map() {
        for seed in 0..40 {
            println!("seed {seed}");
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut map = RegionMap::new();
            let mut model: BTreeMap<usize, (Region, u64)> = BTreeMap::new();
            let span = random.random_range(50..4000);
            for step in 0..2000 {
                let found = region(random.random_range(0..span), random.random_range(1..20));
                let overlapping: Vec<_> =
                    model.values().copied().filter(|(other, _)| other.overlaps(found)).collect();
                assert_eq!(super::tests::overlapping(&map, found), overlapping);
                assert_eq!(map.has_start(found.start()), model.contains_key(&found.start()));
                let mut slots = Vec::new();
                let end = overlapping
                    .iter()
                    .try_fold(found.start(), |end, (tile, _)| (tile.start() == end).then_some(tile.end()));
                let is_tiled = map.tiles(found, 8, &mut slots);
                assert_eq!(is_tiled, end == Some(found.end()) && overlapping.len() <= 8);
                if is_tiled {
                    let mut tile = |&slot: &usize| {
                        let (tile, value) = map.at(slot);
                        (tile, *value)
                    };
                    let tiles: Vec<_> = slots.iter().map(&mut tile).collect();
                    assert_eq!(tiles, overlapping);
                }
                match random.random_range(0..10) {
                    0..6 => {
                        let fits = overlapping.is_empty();
                        assert_eq!(map.insert(found, step).is_ok(), fits);
                        if fits {
                            model.insert(found.start(), (found, step));
                        }
                    }
                    6..9 => {
                        let target = overlapping.first().map_or(found, |(other, _)| *other);
                        let removed = overlapping.first().map(|(_, value)| *value);
                        assert_eq!(map.remove(target), removed);
                        assert_eq!(model.remove(&target.start()).map(|(_, value)| value), removed);
                    }
                    _ if step % 50 == 0 => {
                        map.retain(|_, value| *value % 3 != 0);
                        model.retain(|_, (_, value)| *value % 3 != 0);
                    }
                    _ => assert_eq!(
                        map.get_mut(found).copied(),
                        overlapping.iter().find(|(other, _)| *other == found).map(|(_, value)| *value)
                    ),
                }
                assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
            }
            let mut all: Vec<_> = map.iter().collect();
            all.sort_by_key(|(found, _)| found.start());
            assert_eq!(all, model.into_values().collect::<Vec<_>>());
        }
    }

    #[test]
    fn ascending_and_descending_insertions() {
        for descending in [false, true] {
            let mut map = RegionMap::new();
            for index in 0..1000_usize {
                let index = if descending { 999 - index } else { index };
                map.insert(region(64 * index, 64), index).expect("disjoint");
            }
            assert!(map.insert(region(100, 1), 0).is_err());
            assert_eq!(map.get_mut(region(64 * 500, 64)), Some(&mut 500));
            assert_eq!(map.get_mut(region(64 * 500, 32)), None);
            assert_eq!(overlapping(&map, region(63, 66)).len(), 3);
        }
    }

    #[test]
    fn neighbours_lie_side_by_side_and_others_far_apart() {
        let mut map = RegionMap::new();
        for index in 0..512 {
            map.insert(region(64 * index, 64), index).expect("disjoint");
        }
        let mask = map.slots.len() - 1;
        let home = |index: usize| map.home(64 * index) & mask;
        for index in (0..512).filter(|index| index % NEAR != 0) {
            assert_eq!(home(index), home(index - 1) + 1);
        }
        let groups: BTreeSet<usize> = (0..512).step_by(NEAR).map(home).collect();
        assert!(groups.len() > 32, "64 groups begin at {} places", groups.len());
    }

    /// So that an insertion neither moves many regions nor takes memory where a block has room.
    #[test]
    fn no_block_outgrows_its_memory() {
        let mut map = RegionMap::new();
        for index in 0..1000_usize {
            map.insert(region(64 * (index * 7 % 1000), 64), index).expect("disjoint");
        }
        let check = |map: &RegionMap<usize>| {
            let blocks = &map.order.blocks;
            assert!(blocks.iter().all(|block| !block.is_empty() && block.capacity() == BLOCK_REGIONS));
            assert_eq!(blocks.iter().map(Vec::len).sum::<usize>(), map.len());
        };
        check(&map);
        map.retain(|_, value| *value % 3 != 0);
        check(&map);
        assert_eq!(map.order.blocks.len(), map.len().div_ceil(BLOCK_REGIONS));
    }

    #[test]
    fn room_that_few_regions_need_not_have_is_given_back() {
        let mut map = RegionMap::new();
        for index in 0..1000_usize {
            map.insert(region(64 * index, 64), index).expect("disjoint");
        }
        assert_eq!(map.slots.len(), 2048);
        for (kept, slots) in
            [(700, 2048), (512, 2048), (511, 2048), (300, 2048), (100, 512), (10, 64), (1, 16), (0, 16)]
        {
            map.retain(|_, value| *value < kept);
            assert_eq!((map.len(), map.slots.len()), (kept, slots));
            assert!((0..kept).all(|index| map.get_mut(region(64 * index, 64)) == Some(&mut { index })));
        }
    }
}
