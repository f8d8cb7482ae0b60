//! Groups of ranks that make collective calls together, without meeting the messages of others.
//!
//! Each communicator has a *context*, a number that its messages carry and that none of its members uses for anything
//! else; docs/decisions/0006 says why. To agree on one is a collective call of the communicator that a new one is made from.

mod agree;
mod calls;
mod clock;

pub use agree::{Exchange, SplitError};
pub use clock::JobClock;

use crate::collective::instance::{Certificates, Instance, Key, STAGED_BYTES_MAX, Surroundings};
use crate::collective::{Cache, Call, CallError, Counts};
use castell_base::Rank;
use castell_collectives::collective::Placement;
use castell_engine::slot::{self, SlotSet};
use castell_engine::{Handle, Process, RunError};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::collective::choice::wants_same_bits;
use crate::collective::error::Reason;
use crate::collective::layout::{Seat, count_of};

/// A process's place in a communicator. The context is closed when the last one goes.
pub(crate) struct Member {
    pub(crate) process: Process,
    pub(crate) context: u32,
    pub(crate) seat: Seat,
    /// The rank in the job of each rank; of the world they are the same.
    members: Arc<[Rank]>,
    is_world: bool,
    /// On which hosts they are, if on several.
    placement: Option<Arc<Placement>>,
}

impl Member {
    fn new(process: Process, context: u32, rank: u32, members: Arc<[Rank]>, is_world: bool) -> Member {
        let seat = Seat { rank, size: members.len() as u32 };
        let job = process.job();
        let host_of = |member: &Rank| if job.is_networked() { job.host_of(*member) } else { 0 };
        let matters = job.is_networked() || wants_same_bits();
        let placement = matters.then(|| Placement::new(members.iter().map(host_of)));
        let placement =
            placement.filter(|placement| placement.hosts() > 1 || wants_same_bits()).map(Arc::new);
        Member { process, context, seat, members, is_world, placement }
    }

    /// Starts a call.
    ///
    /// # Safety
    /// The instance is the caller's, and it and the call's memory stay as they are until the call has ended.
    pub(crate) unsafe fn start(&self, instance: &Instance) -> Result<Handle, RunError> {
        let Instance { schedule, record, segments, sends_first, .. } = instance;
        // SAFETY: the caller's promise.
        unsafe {
            match segments {
                Some(segments) => self.process.start_program(segments, self.context, record),
                None => self.process.run_call(schedule, self.context, record, *sends_first),
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.is_world {
            self.process.close_context(self.context);
        }
    }
}

/// A group of ranks that make collective calls together: all make the same calls in the same order.
///
/// One thread at a time uses a communicator; threads that communicate at the same time have one each ([`Communicator::dup`]).
///
/// ```
/// use castell_coll::Communicator;
/// use castell_coll::collective::Reduction;
///
/// let world = Communicator::world(&castell_coll::alone()?);
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

impl Communicator {
    /// All ranks. Each call gives another handle to the same communicator: their calls count as one sequence.
    pub fn world(process: &Process) -> Communicator {
        process.open_world();
        let members = (0..process.size()).map(Rank).collect();
        Communicator::new(Member::new(process.clone(), 0, process.rank().0, members, true))
    }

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
    /// [`Reads`](castell_shm::job::Reads).
    pub fn reads_peers(&self) -> Option<bool> {
        self.member.process.reads_peers(self.member.context)
    }

    pub(crate) fn member(&self) -> &Arc<Member> {
        &self.member
    }

    /// Makes a call and waits until this rank's part of it is over.
    ///
    /// # Errors
    /// Arguments that cannot be; a rank died, or called something else.
    #[inline(always)]
    pub fn call(&self, call: Call<'_>) -> Result<(), CallError> {
        if self.member.seat.size == 1 && self.is_done_alone(&call) {
            return Ok(());
        }
        self.call_others(&call)
    }

    /// Makes a call that is the last one again and that concerns nobody but this rank.
    #[inline]
    fn is_done_alone(&self, call: &Call<'_>) -> bool {
        let Some(last) = self.last.take() else { return false };
        let process = &self.member.process;
        let bytes = last
            .alone
            .filter(|_| last.is_again(call) && process.may_call().is_ok() && !process.records_operations());
        self.last.set(Some(last));
        let Some(bytes) = bytes else { return false };
        // SAFETY: the call's memory is borrowed, and as large as it was when it was checked.
        unsafe { Instance::pass_on(call, bytes) };
        self.again.set(self.again.get() + 1);
        true
    }

    fn call_others(&self, call: &Call<'_>) -> Result<(), CallError> {
        let instance = match self.last_again(call) {
            Some(instance) => instance,
            None => self.instance(call, true)?,
        };
        let member = &*self.member;
        // SAFETY: the call's memory is borrowed until this returns, and by then the run is over; the instance was taken.
        let outcome = unsafe {
            instance.bring_in(call);
            let (process, context, record) = (&member.process, member.context, &instance.record);
            let run = match &instance.segments {
                Some(segments) => process.execute_program(segments, context, record),
                None => process.execute_call(&instance.schedule, context, record),
            };
            if matches!(run, Ok(Ok(()))) {
                instance.bring_out(call);
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
        let (job, me) = (self.member.process.job(), self.member.process.rank());
        let context = self.member.context;
        let set = if blocking { SlotSet::blocking } else { SlotSet::started };
        let members_of_slots = &self.member.members;
        // Slots lie in shared memory.
        let all_share = || members_of_slots.iter().all(|member| job.share_memory(me, *member));
        let has_slots = job.has_slots(context) && (!job.is_networked() || all_share());
        let seat_of_slots =
            has_slots.then(|| slot::program::Seat { job, set: set(context), me, members: members_of_slots });
        let (slots, known) = (seat_of_slots, &self.certificates);
        let placement = self.member.placement.as_ref();
        let surroundings = Surroundings { job, seat, members, placement, slots, known };
        let instance = Instance::new(call, key, needs, &surroundings);
        let instance = Arc::new(instance.map_err(|reason| reason.of(call.operation))?);
        self.cache.borrow_mut().keep(&instance);
        Ok(instance)
    }
}
