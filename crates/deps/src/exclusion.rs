//! Commutative accesses: one task at a time on the same bytes, in any order.
//!
//! The automaton lets the commutative tasks of a group start in any order; this table sees to it that no two of them use
//! the same bytes at once. A task takes all its commutative regions together or none, so nobody waits while holding.

use std::collections::BTreeMap;

use crate::region::Region;

/// Who holds which bytes, and who waits for them.
///
/// ```
/// use castell_deps::{Exclusion, Region};
/// let mut table = Exclusion::new();
/// let bytes = Region::new(0, 8).unwrap();
/// assert!(table.acquire("first", &[bytes], |_| false));
/// assert!(!table.acquire("second", &[bytes], |_| false));
/// assert_eq!(table.in_the_way(&[bytes], |_| false), Some("first"));
/// assert_eq!(table.release("first", bytes), ["second"]);
/// assert!(table.acquire("second", &[bytes], |_| false));
/// ```
#[derive(Debug)]
pub struct Exclusion<T> {
    /// By start and an arbitrary number: a task's ancestors may hold the same bytes.
    held: BTreeMap<(usize, u64), Holder<T>>,
    /// No held region is longer, in bytes.
    longest: usize,
    issued: u64,
}

#[derive(Debug)]
struct Holder<T> {
    region: Region,
    owner: T,
    waiting: Vec<T>,
}

impl<T> Default for Exclusion<T> {
    fn default() -> Self {
        Exclusion { held: BTreeMap::new(), longest: 0, issued: 0 }
    }
}

impl<T: Copy + PartialEq> Exclusion<T> {
    /// Nobody holds anything.
    pub fn new() -> Self {
        Exclusion::default()
    }

    /// Takes all `regions` for `task` if nobody but its ancestors holds a byte of them; otherwise notes that it waits, and
    /// [`release`](Exclusion::release) will name it when it is worth asking again.
    pub fn acquire(&mut self, task: T, regions: &[Region], is_ancestor: impl Fn(T) -> bool) -> bool {
        if let Some(holder) = self.obstacle(regions, is_ancestor).and_then(|key| self.held.get_mut(&key)) {
            holder.waiting.push(task);
            return false;
        }
        for region in regions {
            self.hold(*region, task);
        }
        true
    }

    /// Who is in the way of a task that wants all `regions` now: the first, if there is somebody.
    pub fn in_the_way(&self, regions: &[Region], is_ancestor: impl Fn(T) -> bool) -> Option<T> {
        self.obstacle(regions, is_ancestor).and_then(|key| self.held.get(&key)).map(|holder| holder.owner)
    }

    /// The first entry of somebody else than an ancestor that has a byte of these.
    fn obstacle(&self, regions: &[Region], is_ancestor: impl Fn(T) -> bool) -> Option<(usize, u64)> {
        let is_other =
            |key: &(usize, u64)| self.held.get(key).is_some_and(|holder| !is_ancestor(holder.owner));
        regions.iter().find_map(|region| self.overlapping(*region).into_iter().find(is_other))
    }

    /// Gives back what `owner` holds of `region`; the tasks that waited for it, in the order in which they came, should
    /// [`acquire`](Exclusion::acquire) again.
    pub fn release(&mut self, owner: T, region: Region) -> Vec<T> {
        let mut waiting = Vec::new();
        for key in self.overlapping(region) {
            if self.held.get(&key).is_none_or(|holder| holder.owner != owner) {
                continue;
            }
            let Some(holder) = self.held.remove(&key) else { continue };
            let (before, behind) = holder.region.without(region);
            for rest in [before, behind].into_iter().flatten() {
                self.hold(rest, owner);
            }
            waiting.extend(holder.waiting);
        }
        if self.held.is_empty() {
            self.longest = 0;
        }
        waiting
    }

    fn hold(&mut self, region: Region, owner: T) {
        self.issued += 1;
        self.longest = self.longest.max(region.length());
        self.held.insert((region.start(), self.issued), Holder { region, owner, waiting: Vec::new() });
    }

    fn overlapping(&self, region: Region) -> Vec<(usize, u64)> {
        let first = region.start().saturating_sub(self.longest);
        let candidates = self.held.range((first, 0)..(region.end(), 0));
        candidates.filter(|(_, holder)| holder.region.overlaps(region)).map(|(key, _)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: usize, end: usize) -> Region {
        Region::between(start, end).expect("not empty")
    }

    #[test]
    fn all_or_nothing() {
        let mut table = Exclusion::new();
        assert!(table.acquire(1, &[region(0, 8)], |_| false));
        assert!(!table.acquire(2, &[region(8, 16), region(4, 8)], |_| false));
        assert!(table.acquire(3, &[region(8, 16)], |_| false), "whoever waits holds nothing");
        assert_eq!(table.release(1, region(0, 8)), [2]);
        assert!(!table.acquire(2, &[region(8, 16), region(4, 8)], |_| false));
        assert_eq!(table.release(3, region(8, 16)), [2]);
        assert!(table.acquire(2, &[region(8, 16), region(4, 8)], |_| false));
    }

    #[test]
    fn parts_are_given_back() {
        let mut table = Exclusion::new();
        assert!(table.acquire(1, &[region(0, 30)], |_| false));
        assert!(!table.acquire(2, &[region(10, 20)], |_| false));
        assert_eq!(table.release(1, region(10, 20)), [2]);
        assert!(table.acquire(2, &[region(10, 20)], |_| false));
        assert!(!table.acquire(3, &[region(29, 40)], |_| false));
        assert_eq!(table.release(1, region(0, 30)), [3]);
    }

    #[test]
    fn children_share_what_their_ancestors_hold_but_not_with_each_other() {
        let mut table = Exclusion::new();
        let parent_is_one = |task| task == 1;
        assert!(table.acquire(1, &[region(0, 8)], |_| false));
        assert!(table.acquire(2, &[region(0, 4)], parent_is_one));
        assert!(!table.acquire(3, &[region(2, 6)], parent_is_one));
        assert_eq!(table.release(2, region(0, 4)), [3]);
        assert!(table.acquire(3, &[region(2, 6)], parent_is_one));
    }

    #[test]
    fn what_a_child_gives_back_its_parent_holds_still() {
        let mut table = Exclusion::new();
        let parent_is_one = |task| task == 1;
        assert!(table.acquire(1, &[region(0, 8)], |_| false));
        assert!(table.acquire(2, &[region(0, 8)], parent_is_one));
        assert_eq!(table.in_the_way(&[region(4, 6)], parent_is_one), Some(2));
        assert!(table.release(2, region(0, 8)).is_empty());
        assert_eq!(table.in_the_way(&[region(4, 6)], parent_is_one), None);
        assert_eq!(table.in_the_way(&[region(8, 9), region(7, 8)], |_| false), Some(1));
        assert!(!table.acquire(4, &[region(0, 8)], |_| false));
        assert_eq!(table.release(1, region(0, 8)), [4]);
    }
}
