//! Messages of one sender in the order in which they were sent, whichever path each took.

use crate::Header;
use std::collections::BTreeMap;

/// What one sender's messages pass through: the next in order goes on at once, those that overtook it wait.
///
/// Sequence numbers count modulo 2^32; a sender is never 2^31 messages ahead of its receiver, since paths are bounded.
#[derive(Debug, Default)]
pub struct Reorder {
    next: u32,
    /// By sequence number.
    early: BTreeMap<u32, (Header, Box<[u8]>)>,
}

impl Reorder {
    /// One whose next message is `next`.
    pub fn starting_at(next: u32) -> Reorder {
        Reorder { next, early: BTreeMap::new() }
    }

    /// The number of the next message in order: how many have been taken in.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Whether a message is the next one, and counts it then. If not, [`Reorder::keep`] it.
    #[inline(always)]
    pub fn admit(&mut self, sequence: u32) -> bool {
        let is_next = sequence == self.next;
        self.next = self.next.wrapping_add(u32::from(is_next));
        is_next
    }

    /// Keeps a message that came before its turn. False: it had come already, and is dropped.
    #[cold]
    pub fn keep(&mut self, header: &Header, payload: &[u8]) -> bool {
        let is_behind = header.sequence.wrapping_sub(self.next) > u32::MAX / 2;
        if is_behind || self.early.contains_key(&header.sequence) {
            return false;
        }
        self.early.insert(header.sequence, (*header, payload.into()));
        true
    }

    /// Whether messages wait for one before them.
    #[inline(always)]
    pub fn is_waiting(&self) -> bool {
        !self.early.is_empty()
    }

    /// The next message, if it has come already; it is counted.
    pub fn take(&mut self) -> Option<(Header, Box<[u8]>)> {
        let found = self.early.remove(&self.next)?;
        self.next = self.next.wrapping_add(1);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_base::Rank;
    use castell_base::random::Philox;
    use rand_core::RngCore;

    fn header(sequence: u32) -> Header {
        Header { kind: 1, sequence, ..Header::default() }
    }

    /// Any order in, duplicates among them, around the end of the numbers: each message once and in order out.
    #[test]
    fn whatever_the_order_each_comes_out_once_and_in_order() {
        for seed in 0..500 {
            let mut random = Philox::new(seed, Rank(0), 0, 0);
            let first = u32::MAX - 20;
            let mut under_way: Vec<u32> = (0..40).map(|at| first.wrapping_add(at)).collect();
            under_way.extend_from_within(..10);
            let (mut reorder, mut taken) = (Reorder::starting_at(first), Vec::new());
            while !under_way.is_empty() {
                let sequence = under_way.swap_remove(random.next_u32() as usize % under_way.len());
                if !reorder.admit(sequence) {
                    reorder.keep(&header(sequence), &sequence.to_ne_bytes());
                    continue;
                }
                taken.push(sequence);
                while let Some((header, payload)) = reorder.take() {
                    assert_eq!(*payload, header.sequence.to_ne_bytes());
                    taken.push(header.sequence);
                }
            }
            assert!(!reorder.is_waiting(), "seed {seed}");
            let expected: Vec<u32> = (0..40).map(|at| first.wrapping_add(at)).collect();
            assert_eq!(taken, expected, "seed {seed}");
        }
    }
}
