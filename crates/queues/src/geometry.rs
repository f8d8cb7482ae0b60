//! Which queue, and how large.

use std::fmt;
use std::str::FromStr;

use castell_shm::queue::{self as scmp, HEADER_BYTES, SLOT_BYTES};

/// The four designs of a receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// One double-buffered slot array a receiver, no lock: memory does not grow with ranks.
    #[default]
    Scmp,
    /// One ring per sender.
    Smsg,
    /// One ring per node of senders.
    Msgq,
    /// One double-buffered slot array a receiver under a lock.
    Rlock,
}

impl QueueKind {
    /// All designs.
    pub const ALL: [QueueKind; 4] = [QueueKind::Scmp, QueueKind::Smsg, QueueKind::Msgq, QueueKind::Rlock];

    /// The design's name, as it is read and printed.
    pub fn name(self) -> &'static str {
        match self {
            QueueKind::Scmp => "scmp",
            QueueKind::Smsg => "smsg",
            QueueKind::Msgq => "msgq",
            QueueKind::Rlock => "rlock",
        }
    }
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no queue's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no receive queue is called `{0}`; take one of scmp, smsg, msgq, rlock")]
pub struct UnknownQueue(String);

impl FromStr for QueueKind {
    type Err = UnknownQueue;

    fn from_str(name: &str) -> Result<QueueKind, UnknownQueue> {
        QueueKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownQueue(name.to_owned()))
    }
}

/// The shape of every rank's receive queue; all ranks use the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The design.
    pub kind: QueueKind,
    /// Ranks of the job.
    pub ranks: u32,
    /// Ranks that count as one node (`msgq` only).
    pub ranks_per_node: u32,
    /// 64-byte slots of each half of a double buffer (`scmp`, `rlock`): a power of two, 4 … 65536.
    pub slots: u32,
    /// 64-byte slots of each ring (`smsg`, `msgq`): a power of two, 4 … 65536.
    pub ring_slots: u32,
}

impl Geometry {
    /// The usual sizes: halves of 2048 slots (128 KiB), rings of 64 slots (4 KiB), all ranks on one node.
    pub fn new(kind: QueueKind, ranks: u32) -> Geometry {
        Geometry { kind, ranks, ranks_per_node: ranks.max(1), slots: 2048, ring_slots: 64 }
    }

    /// Nodes of the job as `msgq` counts them.
    pub fn nodes(&self) -> u32 {
        self.ranks.div_ceil(self.ranks_per_node)
    }

    /// As the queue of a job has it.
    pub(crate) fn scmp(&self) -> scmp::Geometry {
        scmp::Geometry { ranks: self.ranks, slots: self.slots }
    }

    /// The largest payload of a message.
    pub fn message_bytes_max(&self) -> usize {
        match self.kind {
            QueueKind::Scmp | QueueKind::Rlock => self.scmp().message_bytes_max(),
            // Half a ring: wherever the ring stands, the message fits once the ring is empty.
            QueueKind::Smsg | QueueKind::Msgq => self.ring_slots as usize / 2 * SLOT_BYTES - HEADER_BYTES,
        }
    }

    /// Asserts what the fields' documentation promises.
    pub(crate) fn assert_sane(&self) {
        let fine = |slots: u32| slots.is_power_of_two() && (4..=65536).contains(&slots);
        assert!(fine(self.slots), "a half has 4 … 65536 slots, a power of two, not {}", self.slots);
        assert!(fine(self.ring_slots), "a ring has 4 … 65536 slots, a power of two, not {}", self.ring_slots);
        assert!(self.ranks_per_node > 0, "a node has at least one rank");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for kind in QueueKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        let error = "fifo".parse::<QueueKind>().expect_err("no such queue");
        assert!(error.to_string().contains("`fifo`"), "{error}");
    }

    #[test]
    fn scmp_does_not_grow_with_ranks() {
        let bytes = |kind, ranks| Geometry::new(kind, ranks).bytes_per_rank();
        assert_eq!(bytes(QueueKind::Scmp, 2), bytes(QueueKind::Scmp, 10_000));
        assert_eq!(bytes(QueueKind::Rlock, 2), bytes(QueueKind::Rlock, 10_000));
        assert!(bytes(QueueKind::Smsg, 10_000) > 1000 * bytes(QueueKind::Smsg, 2));
        let nodes = Geometry { ranks_per_node: 24, ..Geometry::new(QueueKind::Msgq, 10_000) };
        assert_eq!(nodes.nodes(), 417);
        assert!(nodes.bytes_per_rank() < bytes(QueueKind::Smsg, 10_000) / 20);
    }
}
