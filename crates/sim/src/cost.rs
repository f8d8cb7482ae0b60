//! What the reference engine asks a cost model.

use castell_base::{Rank, Time};

/// Which operation the question is about: what costs and noise may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion {
    /// The rank that pays.
    pub rank: Rank,
    /// The rank whose operation it is: for an arrival the sender.
    pub owner: Rank,
    /// The rank at the other end of the message; the rank itself where there is no message.
    pub peer: Rank,
    /// Number of the operation among its owner's, in the order of their records; 0 where costs are not
    /// [`keyed`](Costs::keyed).
    pub operation: u64,
    pub now: Time,
    /// Size of the message.
    pub bytes: u64,
    /// How many messages were sent directly before this one, each as soon as the one before let it.
    pub burst: u32,
    /// Since when, counted back from now.
    pub elapsed: Time,
    /// How many sends of the rank became ready at the same time as this one, with it.
    pub together: u32,
}

impl Occasion {
    /// An operation of `owner` that `rank` pays for, without what depends on the message.
    pub fn of(owner: Rank, rank: Rank, operation: u64, now: Time) -> Occasion {
        Occasion {
            rank,
            owner,
            peer: rank,
            operation,
            now,
            bytes: 0,
            burst: 0,
            elapsed: Time::ZERO,
            together: 1,
        }
    }
}

/// What a message costs where it leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendCost {
    /// The processor is occupied so long.
    pub processor: Time,
    /// The network interface cannot send so long.
    pub interface: Time,
    /// From the start of the send until the message's first byte is on the wire; not later than it is at its receiver.
    pub wire: Time,
    /// From the start of the send until the message is at its receiver.
    pub transit: Time,
    /// What of `transit` its bytes take.
    pub bytes: Time,
    /// From then until all its bytes are there.
    pub tail: Time,
}

/// What a message costs where it arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArrivalCost {
    /// The processor is occupied so long.
    pub processor: Time,
    /// What of that the message's bytes take on their way.
    pub bytes: Time,
    /// The network interface cannot receive so long.
    pub interface: Time,
}

/// A cost model, as the engine sees it.
pub(crate) trait Costs {
    /// Whether costs depend on which operation it is.
    fn keyed(&self) -> bool {
        false
    }

    /// A message is sent, put, or asked for by a get.
    fn send(&self, occasion: &Occasion) -> SendCost;

    /// A message arrives.
    fn arrival(&self, occasion: &Occasion) -> ArrivalCost;

    /// Whether an arrival waits for the receiver's processor and interface.
    fn arrival_waits(&self) -> bool;

    /// Whether a message of this size waits for its receive (rendezvous).
    fn rendezvous(&self, _bytes: u64) -> bool {
        false
    }

    /// The same for a message between these two ranks.
    fn rendezvous_between(&self, bytes: u64, _ranks: (Rank, Rank)) -> bool {
        self.rendezvous(bytes)
    }

    /// How long computing of nominally `time` takes.
    fn compute(&self, _occasion: &Occasion, time: Time) -> Time {
        time
    }

    /// How long a local operation on `bytes` bytes takes.
    fn local(&self, _occasion: &Occasion, _bytes: u64) -> Time {
        Time::ZERO
    }

    /// How many messages may be on their way from or to one rank at the same time, if that is limited.
    fn capacity(&self) -> Option<u32> {
        None
    }

    /// What the slowest link of a network may take for all bytes without delaying the message: they are paid for.
    fn bytes_paid(&self, _bytes: u64) -> Time {
        Time::ZERO
    }
}
