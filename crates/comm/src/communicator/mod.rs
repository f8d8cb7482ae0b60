//! Groups of ranks that make collective calls together, without meeting the messages of others.
//!
//! Each communicator has a *context*, a number that its messages carry and that none of its members uses for anything
//! else; docs/decisions/0006 says why. To agree on one is a collective call of the communicator that a new one is made from.

mod agree;
mod calls;

pub use agree::SplitError;

use crate::collective::instance::{Certificates, Instance, Key, STAGED_BYTES_MAX, Surroundings};
use crate::collective::{Cache, Call, CallError, Counts};
use crate::engine::Comm;
use crate::slot;
use castell_base::Rank;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::collective::error::Reason;
use crate::collective::layout::{Seat, count_of};

/// A process's place in a communicator. The context is closed when the last one goes.
pub(crate) struct Member {
    pub(crate) comm: Comm,
    pub(crate) context: u32,
    pub(crate) seat: Seat,
    /// The rank in the job of each rank; of the world they are the same.
    members: Arc<[Rank]>,
    is_world: bool,
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.is_world {
            self.comm.close_context(self.context);
        }
    }
}

/// A group of ranks that make collective calls together: all make the same calls in the same order.
///
/// One thread at a time uses a communicator; threads that communicate at the same time have one each ([`Communicator::dup`]).
///
/// ```
/// use castell_comm::Comm;
/// use castell_comm::collective::Reduction;
///
/// let comm = Comm::init()?;
/// let world = comm.world();
/// // Ranks of one parity, the highest first.
/// let half = world.split(Some(world.rank().0 % 2), -i64::from(world.rank().0))?.expect("all have a colour");
/// let mut highest = [0u32];
/// half.allreduce(&[world.rank().0], &mut highest, Reduction::Maximum)?;
/// assert_eq!(highest[0], half.world_rank(castell_base::Rank(0)).unwrap().0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Communicator {
    member: Arc<Member>,
    cache: RefCell<Cache>,
    certificates: Certificates,
    /// The last blocking call: as a rule the next one is like it. Nobody but the cache has it besides.
    last: Cell<Option<Arc<Instance>>>,
    /// How often it was.
    again: Cell<u64>,
}

impl Comm {
    /// All ranks. Each call gives another handle to the same communicator: their calls count as one sequence.
    pub fn world(&self) -> Communicator {
        self.open_world();
        let seat = Seat { rank: self.rank().0, size: self.size() };
        let members = (0..self.size()).map(Rank).collect();
        Communicator::new(Member { comm: self.clone(), context: 0, seat, members, is_world: true })
    }
}

impl Communicator {
    fn new(member: Member) -> Communicator {
        Communicator {
            member: Arc::new(member),
            cache: RefCell::default(),
            certificates: Certificates::default(),
            last: Cell::default(),
            again: Cell::default(),
        }
    }

    /// This process's rank among those of the communicator.
    pub fn rank(&self) -> Rank {
        Rank(self.member.seat.rank)
    }

    /// Ranks of the communicator.
    pub fn size(&self) -> u32 {
        self.member.seat.size
    }

    /// The group that it is a part of.
    pub fn comm(&self) -> &Comm {
        &self.member.comm
    }

    /// The rank in the world of a rank of the communicator, if there is one.
    pub fn world_rank(&self, rank: Rank) -> Option<Rank> {
        self.member.members.get(rank.index()).copied()
    }

    /// The rank in the communicator of a rank of the world, if it is a member.
    pub fn rank_of(&self, world: Rank) -> Option<Rank> {
        let found = self.member.members.iter().position(|member| *member == world);
        found.map(|rank| Rank(rank as u32))
    }

    /// The rank in `other` of a rank of this communicator, if it is a member of both.
    pub fn translate(&self, rank: Rank, other: &Communicator) -> Option<Rank> {
        other.rank_of(self.world_rank(rank)?)
    }

    /// How often calls were found compiled.
    pub fn cache_counts(&self) -> Counts {
        let counts = self.cache.borrow().counts();
        Counts { hits: counts.hits + self.again.get(), ..counts }
    }

    /// Whether large calls read the memory of the other ranks; `None`: there was no call yet that would. All ranks come to the same
    /// verdict: false if the kernel forbids it to any of them, or if it copies so slowly that nothing is gained, see
    /// [`Reads`](crate::job::Reads).
    pub fn reads_peers(&self) -> Option<bool> {
        self.member.comm.reads_peers(self.member.context)
    }

    pub(crate) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Makes a call and waits until this rank's part of it is over.
    ///
    /// # Errors
    /// Arguments that cannot be; a rank died, or called something else.
    pub fn call(&self, call: Call<'_>) -> Result<(), CallError> {
        let instance = match self.last_again(&call) {
            Some(instance) => instance,
            None => self.instance(&call, true)?,
        };
        let member = &*self.member;
        // SAFETY: the call's memory is borrowed until this returns, and by then the run is over; the instance was taken.
        let outcome = unsafe {
            instance.bring_in(&call);
            let (comm, context, record) = (&member.comm, member.context, &instance.record);
            let run = match &instance.strips {
                Some(strips) => comm.execute_straight(strips, context, record),
                None => comm.execute_call(&instance.schedule, context, record),
            };
            if matches!(run, Ok(Ok(()))) {
                instance.bring_out(&call);
            }
            run
        };
        instance.release();
        self.last.set(Some(instance));
        match outcome {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(Reason::Failed(failure).of(call.operation)),
            Err(error) => Err(Reason::Run(error).of(call.operation)),
        }
    }

    /// The compiled call, taken, if the last one was the same.
    #[inline(always)]
    fn last_again(&self, call: &Call<'_>) -> Option<Arc<Instance>> {
        let instance = self.last.take()?;
        let is_again = instance.is_again(call) && instance.take();
        self.again.set(self.again.get() + u64::from(is_again));
        is_again.then_some(instance)
    }

    /// The compiled call, taken. `blocking`: its buffers may be copied.
    #[inline]
    pub(crate) fn instance(&self, call: &Call<'_>, blocking: bool) -> Result<Arc<Instance>, CallError> {
        let seat = self.member.seat;
        let count = count_of(call, seat);
        let (count, needs) = match count {
            Ok(Some(count)) => (count, seat.needs(call, count)),
            Ok(None) => (u64::MAX, seat.needs_of_blocks(call)),
            Err(reason) => return Err(reason.of(call.operation)),
        };
        let needs = needs.and_then(|needs| seat.check(call, needs).map(|()| needs));
        let needs = needs.map_err(|reason| reason.of(call.operation))?;
        let width = call.element.bytes();
        let elements = needs.input.unwrap_or(0).saturating_add(needs.output.unwrap_or(0));
        let is_staged = blocking && count != u64::MAX && elements.saturating_mul(width) <= STAGED_BYTES_MAX;
        let address = |address: u64| if is_staged { 0 } else { address };
        let key = Key {
            operation: call.operation,
            in_place: call.in_place,
            is_staged,
            is_blocking: blocking,
            root: call.root.unwrap_or(0),
            element: call.element,
            reduction: call.reduction.as_ref().map_or(0, crate::collective::Reduction::id),
            count,
            input: address(call.input.address),
            output: address(call.output.address),
        };
        if let Some(instance) = self.cache.borrow_mut().take(&key, call) {
            return Ok(instance);
        }
        let members = (!self.member.is_world).then_some(&self.member.members);
        let (job, me) = (self.member.comm.job(), self.member.comm.rank());
        let context = self.member.context;
        let seat_of_slots = (blocking && job.has_slots(context)).then(|| slot::program::Seat {
            job,
            context,
            me,
            members: &self.member.members,
        });
        let (slots, known) = (seat_of_slots, &self.certificates);
        let instance = Instance::new(call, key, needs, &Surroundings { job, seat, members, slots, known });
        let instance = Arc::new(instance.map_err(|reason| reason.of(call.operation))?);
        self.cache.borrow_mut().keep(&instance);
        Ok(instance)
    }
}
