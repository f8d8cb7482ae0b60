//! The engine: runs compiled schedules over shared memory.
//!
//! Start at [`Comm`]. Inside, read `core.rs` (the state and one turn), then `execute.rs` (operations going out) and
//! `message.rs` (messages coming in); `drive.rs` says which thread turns the crank.

mod calc;
mod call;
mod carry;
mod contexts;
mod core;
mod crowd;
mod deferred;
mod describe;
mod drive;
mod execute;
mod failure;
mod fault;
mod fold;
mod hold;
mod memory;
mod message;
mod number;
mod onesided;
mod peer;
mod poison;
mod record;
mod run;
mod shown;
mod stall;
mod straight;
mod transfer;

pub use call::inside_call;
pub(crate) use contexts::{MASK_WORDS, Mask};
pub use core::Counters;
pub use deferred::{Deferred, defer};
pub use describe::describe;
pub use failure::{Cause, Failure};
pub use hold::UNEXPECTED_BUDGET_BYTES;
pub(crate) use number::CONTEXTS;
pub use record::Recorded;

use crate::bootstrap::{self, BootstrapError, Watch};
use crate::collective::board::Record;
use crate::job::{Job, JobError, JobOptions};
use crate::pool::Pool;
use castell_base::Rank;
use castell_goal::schedule::Schedule;
use castell_host::topology::Processors;
use core::Engine;
use drive::Shared;
use run::{HandleState, Scope, Told};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

/// The largest scratchpad that a run may ask for. Bytes.
pub const SCRATCHPAD_BYTES_MAX: u64 = 1 << 40;

/// This process's membership in its group. Clones share it; all methods may be called from any thread.
///
/// ```
/// use castell_base::Rank;
/// use castell_comm::Comm;
/// use castell_goal::graph::Graph;
/// use std::sync::Arc;
///
/// // Started without a launcher, a process is a group of one.
/// let comm = Comm::init()?;
/// let mut graph = Graph::new();
/// graph.calc(1000);
/// let schedule = Arc::new(graph.compile()?);
/// // SAFETY: the schedule names no user memory.
/// let handle = unsafe { comm.run(&schedule) }?;
/// handle.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Comm {
    shared: Arc<Shared>,
}

/// Why a schedule could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The schedule names a rank that the group does not have.
    #[error("the schedule names rank {rank}, but the group has ranks 0 to {} only", size - 1)]
    NoSuchRank {
        /// The rank named.
        rank: Rank,
        /// Ranks in the group.
        size: u32,
    },
    /// The schedule names addresses where none are allowed.
    #[error(
        "the schedule names an address of user memory or a function; only scratchpad buffers are allowed here"
    )]
    NamesAddresses,
    /// The scratchpad cannot be had.
    #[error("a scratchpad of {bytes} bytes cannot be had: allocate less in the graph")]
    Scratchpad {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The group was left already.
    #[error("castell was finalized: nothing can be run any more")]
    Finalized,
    /// From inside a function of a `call` operation.
    #[error(
        "a function that a `call` operation calls cannot start runs: let an operation behind it do what follows"
    )]
    InsideCall,
}

impl Comm {
    /// Finds this process's group and joins it: the launcher's, that of an `mpirun` or `srun`, or a group of one.
    ///
    /// # Errors
    /// Signs of a launcher without a way to find the group; never silently a group of one.
    pub fn init() -> Result<Comm, BootstrapError> {
        let create = |ranks| {
            let job = Job::create(&JobOptions::new(ranks))?;
            job.fd()
                .try_clone_to_owned()
                .map_err(|error| JobError::Option(format!("no descriptor left: {error}")))
        };
        let membership = bootstrap::join::<JobError>(create)?;
        let job =
            Job::attach(membership.segment).map_err(|error| BootstrapError::Group(error.to_string()))?;
        if membership.rank.0 >= job.ranks() {
            let (rank, ranks) = (membership.rank, job.ranks());
            return Err(BootstrapError::Group(format!("rank {rank} is not one of the job's {ranks} ranks")));
        }
        let looks_itself = !membership.is_supervised && membership.processes_visible && job.ranks() > 1;
        let watch = looks_itself.then(|| Watch::new(job.ranks()));
        Comm::join_watching(job, membership.rank, watch)
            .map_err(|error| BootstrapError::Group(error.to_string()))
    }

    /// Joins a job, whose ranks somebody watches, as `rank`.
    ///
    /// # Panics
    /// Each rank is joined by exactly one process, once.
    pub fn join(job: Job, rank: Rank) -> Comm {
        Comm::join_watching(job, rank, None).unwrap_or_else(|error| panic!("{error}"))
    }

    fn join_watching(job: Job, rank: Rank, watch: Option<Watch>) -> Result<Comm, JobError> {
        let job = Arc::new(job);
        let (pid, start_time) = Watch::own_identity();
        castell_host::memory::permit_peers();
        job.join(rank, pid, start_time, &Processors::usable().cpus)?;
        let engine = core::Engine::new(Arc::clone(&job), rank, watch);
        let shared = Arc::new(Shared::new(engine, job, rank));
        let mut engine = shared.enter();
        engine.core.home = Arc::downgrade(&shared);
        shared.leave(engine);
        Ok(Comm { shared })
    }

    /// This process's rank.
    pub fn rank(&self) -> Rank {
        self.shared.me
    }

    /// Ranks in the group.
    pub fn size(&self) -> u32 {
        self.shared.job.ranks()
    }

    /// The job behind the group.
    pub fn job(&self) -> &Job {
        &self.shared.job
    }

    /// What is free of this rank's memory that all can read.
    pub(crate) fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// Starts a schedule and returns; it goes on by itself, also if the application never calls castell again.
    ///
    /// The run carries a number with each of its peers: how many runs with that peer were started here before.
    /// Its messages meet only those of the peer's run of the same number. So both sides of every pair have to run
    /// their parts of patterns in the same order, and any number of runs may go on at once without meeting each
    /// other's messages, also of the same schedule. A schedule that receives from any source counts as a run with
    /// every rank: use [`Comm::run_open`] for it where not all ranks take part.
    ///
    /// # Safety
    /// Buffers in user memory must stay valid, and be left alone as their operations demand, until the run has
    /// ended; functions of `call` operations must be callable from any thread.
    ///
    /// # Errors
    /// The schedule does not fit the group, or the group was left.
    pub unsafe fn run(&self, schedule: &Arc<Schedule>) -> Result<Handle, RunError> {
        self.start(schedule, Scope::Numbered)
    }

    /// Like [`Comm::run`] but without a number: sends and receives of all open runs meet by source and tag in
    /// posting order, as in MPI's point-to-point communication. The two sides may cut their operations into runs
    /// differently.
    ///
    /// If it fails, each of its operations that did not take place is matched all the same, and the run that holds the
    /// counterpart fails, too (a send whose message was small has ended; it is dropped). Receives from any source are
    /// withdrawn.
    ///
    /// # Safety
    /// As for [`Comm::run`].
    ///
    /// # Errors
    /// As for [`Comm::run`].
    pub unsafe fn run_open(&self, schedule: &Arc<Schedule>) -> Result<Handle, RunError> {
        self.start(schedule, Scope::Open)
    }

    /// Runs a schedule to its end: the same as [`Comm::run`] and [`Handle::wait`], but faster. The run lies in this process
    /// and is driven by the caller, even where peers carry other runs on.
    ///
    /// # Safety
    /// As for [`Comm::run`].
    ///
    /// # Errors
    /// As for [`Comm::run`]; the inner result is the run's.
    pub unsafe fn execute(&self, schedule: &Arc<Schedule>) -> Result<Result<(), Failure>, RunError> {
        let (state, engine) = self.begin(schedule, Scope::Numbered, true)?;
        self.shared.drive_for(engine, &state);
        self.shared.wait(&state);
        Ok(state.outcome().expect("the run has ended"))
    }

    /// Runs a schedule to its end that names neither user memory nor functions, as one from a file.
    ///
    /// # Errors
    /// As for [`Comm::execute`]; and the schedule names an address.
    pub fn execute_without_addresses(
        &self,
        schedule: &Arc<Schedule>,
    ) -> Result<Result<(), Failure>, RunError> {
        if schedule.operations().any(|op| schedule.op(op).names_address()) {
            return Err(RunError::NamesAddresses);
        }
        // SAFETY: the schedule's buffers lie in its scratchpad, whose bounds were checked when it was compiled.
        unsafe { self.execute(schedule) }
    }

    /// Starts the next call of a context, see [`Comm::run`]. `stays`: in this process, since nobody waits for it but its own rank.
    ///
    /// # Safety
    /// As for [`Comm::run`].
    ///
    /// # Errors
    /// As for [`Comm::run`].
    pub(crate) unsafe fn run_call(
        &self,
        schedule: &Arc<Schedule>,
        context: u32,
        record: &Record,
        stays: bool,
    ) -> Result<Handle, RunError> {
        let (state, engine) = self.begin_call(schedule, context, record, stays)?;
        self.shared.leave(engine);
        Ok(Handle { state, shared: Arc::clone(&self.shared) })
    }

    /// Makes the next call of a context, see [`Comm::execute`].
    ///
    /// # Safety
    /// As for [`Comm::run`].
    ///
    /// # Errors
    /// As for [`Comm::execute`].
    pub(crate) unsafe fn execute_call(
        &self,
        schedule: &Arc<Schedule>,
        context: u32,
        record: &Record,
    ) -> Result<Result<(), Failure>, RunError> {
        let (state, engine) = self.begin_call(schedule, context, record, true)?;
        self.shared.drive_for(engine, &state);
        self.shared.wait(&state);
        Ok(state.outcome().expect("the run has ended"))
    }

    fn begin_call(
        &self,
        schedule: &Arc<Schedule>,
        context: u32,
        record: &Record,
        stays: bool,
    ) -> Result<(Arc<HandleState>, MutexGuard<'_, Engine>), RunError> {
        self.begin_as(schedule, stays, None, |core| {
            let word = core.contexts.take(context);
            core.board.write(word, record);
            Scope::Call { context, word }
        })
    }

    /// Opens a context for calls, the first of which has this sequence number.
    pub(crate) fn open_context(&self, context: u32, members: Arc<[Rank]>, first: u64) {
        self.with_core(|core| core.contexts.open(context, members, first));
        self.shared.straight.open(context);
    }

    /// Closes a context. It is not used again before its calls have ended.
    pub(crate) fn close_context(&self, context: u32) {
        self.with_core(|core| core.contexts.close(context));
    }

    /// The sequence number of a context's next call.
    pub(crate) fn next_call(&self, context: u32) -> u64 {
        self.with_core(|core| core.contexts.next(context))
    }

    /// Opens the world's context if this is the first to ask for it.
    pub(crate) fn open_world(&self) {
        self.with_core(|core| {
            if !core.contexts.is_open(0) {
                core.contexts.open(0, (0..core.size).map(Rank).collect(), 0);
            }
        });
    }

    /// Says that a new context is wanted in the name of `parent`, or no more.
    pub(crate) fn want_context(&self, parent: u32, wanted: bool) {
        self.with_core(|core| match wanted {
            true => core.contexts.want(parent),
            false => core.contexts.want_no_more(parent),
        });
    }

    /// The contexts that are free here, which nobody else gets until [`Comm::settle_offer`]; `None`: it is somebody else's
    /// turn.
    pub(crate) fn offer_contexts(&self, parent: u32) -> Option<Mask> {
        self.with_core(|core| core.offer_contexts(parent))
    }

    /// Reserves the context that was found, if any, and lets others have their turn.
    pub(crate) fn settle_offer(&self, parent: u32, found: Option<u32>) {
        self.with_core(|core| core.contexts.settle(parent, found));
    }

    fn with_core<R>(&self, work: impl FnOnce(&mut core::Core) -> R) -> R {
        let mut engine = self.shared.enter();
        let result = work(&mut engine.core);
        self.shared.leave(engine);
        result
    }

    fn start(&self, schedule: &Arc<Schedule>, scope: Scope) -> Result<Handle, RunError> {
        let (state, engine) = self.begin(schedule, scope, false)?;
        self.shared.leave(engine);
        Ok(Handle { state, shared: Arc::clone(&self.shared) })
    }

    fn begin(
        &self,
        schedule: &Arc<Schedule>,
        scope: Scope,
        stays: bool,
    ) -> Result<(Arc<HandleState>, MutexGuard<'_, Engine>), RunError> {
        self.begin_as(schedule, stays, None, |_| scope)
    }

    fn begin_telling(
        &self,
        schedule: &Arc<Schedule>,
        scope: Scope,
        told: Told,
    ) -> Result<(Arc<HandleState>, MutexGuard<'_, Engine>), RunError> {
        self.begin_as(schedule, true, Some(told), |_| scope)
    }

    /// `scope` is asked once it is certain that the run starts.
    fn begin_as(
        &self,
        schedule: &Arc<Schedule>,
        stays: bool,
        told: Option<Told>,
        scope: impl FnOnce(&mut core::Core) -> Scope,
    ) -> Result<(Arc<HandleState>, MutexGuard<'_, Engine>), RunError> {
        self.admit(schedule)?;
        let mut engine = self.shared.enter();
        if self.shared.shut_down.load(Ordering::Relaxed) {
            self.shared.leave(engine);
            return Err(RunError::Finalized);
        }
        let core = &mut engine.core;
        core.start_ready();
        let state = Arc::new(HandleState::new(core.next_serial(), told));
        core.liveness.silence.run_starts(&core.job, core.running == 0);
        let scope = scope(core);
        core.start(schedule, scope, Arc::clone(&state), stays);
        Ok((state, engine))
    }

    fn admit(&self, schedule: &Schedule) -> Result<(), RunError> {
        if inside_call() {
            return Err(RunError::InsideCall);
        }
        let (peers, size) = (schedule.peers(), self.size());
        let highest = peers.destinations.last().max(peers.sources.last());
        if let Some(&rank) = highest.filter(|rank| rank.0 >= size) {
            return Err(RunError::NoSuchRank { rank, size });
        }
        let bytes = schedule.scratchpad_bytes();
        let mut probe: Vec<u64> = Vec::new();
        if bytes > SCRATCHPAD_BYTES_MAX
            || (bytes > 1 << 20 && probe.try_reserve_exact(bytes.div_ceil(8) as usize).is_err())
        {
            return Err(RunError::Scratchpad { bytes });
        }
        Ok(())
    }

    /// What was sent and received so far.
    pub fn counters(&self) -> Counters {
        let engine = self.shared.enter();
        let counters = engine.core.counters;
        self.shared.leave(engine);
        let [messages, bytes] = self.shared.straight.sent();
        Counters { messages: counters.messages + messages, bytes: counters.bytes + bytes, ..counters }
    }

    /// Factor on the times of `calc` and `sleep` from now on (1 at first).
    pub fn set_calc_scale(&self, scale: f64) {
        let mut engine = self.shared.enter();
        engine.core.calculations.scale = scale;
        self.shared.leave(engine);
    }

    /// How many bytes of messages without a receive this rank keeps from now on before senders have to hold theirs
    /// ([`UNEXPECTED_BUDGET_BYTES`] at first).
    pub fn set_unexpected_budget(&self, bytes: u64) {
        let mut engine = self.shared.enter();
        engine.core.budget.limit_bytes = bytes;
        self.shared.leave(engine);
    }

    /// Starts to record when operations start and finish.
    pub fn record(&self) {
        let mut engine = self.shared.enter();
        engine.core.recorder.get_or_insert_default();
        self.shared.leave(engine);
        self.shared.straight.records.store(true, Ordering::Relaxed);
    }

    /// What was recorded since [`Comm::record`] or the last call.
    pub fn take_record(&self) -> Vec<Recorded> {
        let mut engine = self.shared.enter();
        let recorder = engine.core.recorder.as_deref_mut();
        let recorded = recorder.map(|recorder| std::mem::take(&mut recorder.done)).unwrap_or_default();
        self.shared.leave(engine);
        recorded
    }

    /// Leaves the group: waits for the runs that are going on, then tells the others. Calling it again does nothing.
    ///
    /// # Panics
    /// Inside a function of a `call` operation, which would wait for itself.
    pub fn finalize(&self) {
        assert!(!inside_call(), "a function of a `call` operation cannot leave the group");
        loop {
            let mut engine = self.shared.enter();
            if engine.core.running == 0 {
                engine.core.stop_keeping_all();
            }
            match engine.core.any_run() {
                Some(state) => {
                    self.shared.drive_for(engine, &state);
                    self.shared.wait(&state);
                }
                None if !engine.core.blocked.is_empty() => {
                    engine.turn();
                    self.shared.leave(engine);
                    std::thread::sleep(drive::RETRY_PAUSE);
                }
                None => {
                    // With the engine in hand, so that no other thread starts a run that nobody would look after.
                    let was_shut_down = self.shared.shut_down.swap(true, Ordering::SeqCst);
                    let met = engine.core.met();
                    self.shared.leave(engine);
                    if !was_shut_down {
                        self.shared.stop();
                        self.shared.job.mark_finished(self.shared.me, &met);
                    }
                    return;
                }
            }
        }
    }
}

/// A run: ask whether it has ended, or wait for it. Dropping the handle does not stop the run.
#[derive(Clone)]
pub struct Handle {
    state: Arc<HandleState>,
    shared: Arc<Shared>,
}

impl Handle {
    /// The outcome if the run has ended. Reads one memory location, as a rule.
    pub fn test(&self) -> Option<Result<(), Failure>> {
        self.shared.ask(&self.state);
        self.state.outcome()
    }

    /// Whether the run has ended. Reads one memory location, as a rule.
    pub fn is_done(&self) -> bool {
        self.shared.ask(&self.state)
    }

    /// Waits until the run has ended.
    ///
    /// # Errors
    /// The run failed; the error names the operation and the peer.
    ///
    /// # Panics
    /// Inside a function of a `call` operation, which would wait for itself.
    pub fn wait(&self) -> Result<(), Failure> {
        assert!(self.is_done() || !inside_call(), "a function of a `call` operation cannot wait for a run");
        self.shared.wait(&self.state);
        self.state.outcome().expect("the run has ended")
    }

    /// When the run ended, nanoseconds on the job's clock; 0 before.
    pub fn end_ns(&self) -> u64 {
        self.state.end_ns()
    }
}
