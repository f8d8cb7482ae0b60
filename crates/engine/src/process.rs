//! A process's membership in its group: what can be asked of the engine.

use super::call::{Home, inside_call};
use super::contexts::Mask;
use super::drive::{RETRY_PAUSE, Shared};
use super::failure::Failure;
use super::handle_state::{HandleState, Told};
use super::messages::{Counters, attach};
use super::runs::{Arrived, Recorded, Runs, Scope};
use super::turn::Engine;
use crate::board::{Describe, Record};
use castell_base::Rank;
use castell_goal::schedule::Schedule;
use castell_host::clock::now_ns;
use castell_host::journal::{self, Journal};
use castell_host::topology::Processors;
use castell_shm::job::{Job, JobError};
use castell_shm::pool::Pool;
use castell_shm::watch::Watch;
use castell_trace::journal::Event;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};

/// The largest scratchpad that a run may ask for. Bytes.
pub const SCRATCHPAD_BYTES_MAX: u64 = 1 << 40;

/// This process's membership in its group. Clones share it; all methods may be called from any thread.
#[derive(Clone)]
pub struct Process {
    pub(super) shared: Arc<Shared>,
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

impl Process {
    /// Joins a job as `rank`. `watch`: nobody else watches the ranks' processes. `describe` says in errors what was called, where ranks
    /// called different things.
    ///
    /// # Errors
    /// Each rank is joined by exactly one process, once.
    pub fn join(job: Job, rank: Rank, watch: Option<Watch>, describe: Describe) -> Result<Process, JobError> {
        let job = Arc::new(job);
        let (pid, start_time) = Watch::own_identity();
        castell_host::memory::permit_peers();
        job.join(rank, pid, start_time, &Processors::usable().cpus)?;
        // SAFETY: the job lets each rank be joined once, and this process is that rank now; the engine's lock lets one thread at
        // a time through.
        let port = unsafe { attach(&job, rank)? };
        let engine = Engine::new(&job, rank, port, watch, describe);
        let shared = Arc::new(Shared::new(engine, job, rank));
        let mut engine = shared.enter();
        let home: Weak<dyn Home> = Arc::<Shared>::downgrade(&shared);
        engine.runs.home = Some(home);
        shared.leave(engine);
        Ok(Process { shared })
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
    pub fn pool(&self) -> &Pool {
        &self.shared.pool
    }

    /// Starts a schedule and returns; it goes on by itself, also if the application never calls castell again.
    ///
    /// The run carries a number with each of its peers: how many runs with that peer were started here before.
    /// Its messages meet only those of the peer's run of the same number. So both sides of every pair have to run
    /// their parts of patterns in the same order, and any number of runs may go on at once without meeting each
    /// other's messages, also of the same schedule. A schedule that receives from any source counts as a run with
    /// every rank: use [`Process::run_open`] for it where not all ranks take part.
    ///
    /// # Safety
    /// Buffers in user memory must stay valid, and be left alone as their operations demand, until the run has
    /// ended; functions of `call` operations must be callable from any thread.
    ///
    /// # Errors
    /// The schedule does not fit the group, or the group was left.
    #[inline]
    pub unsafe fn run(&self, schedule: &Arc<Schedule>) -> Result<Handle, RunError> {
        self.start(schedule, Scope::Numbered)
    }

    /// Like [`Process::run`] but without a number: sends and receives of all open runs meet by source and tag in
    /// posting order, as in MPI's point-to-point communication. The two sides may cut their operations into runs
    /// differently.
    ///
    /// If it fails, each of its operations that did not take place is matched all the same, and the run that holds the
    /// counterpart fails, too (a send whose message was small has ended; it is dropped). Receives from any source are
    /// withdrawn.
    ///
    /// # Safety
    /// As for [`Process::run`].
    ///
    /// # Errors
    /// As for [`Process::run`].
    pub unsafe fn run_open(&self, schedule: &Arc<Schedule>) -> Result<Handle, RunError> {
        self.start(schedule, Scope::Open)
    }

    /// Runs a schedule to its end: the same as [`Process::run`] and [`Handle::wait`], but faster. The run lies in this process
    /// and is driven by the caller, even where peers carry other runs on.
    ///
    /// # Safety
    /// As for [`Process::run`].
    ///
    /// # Errors
    /// As for [`Process::run`]; the inner result is the run's.
    pub unsafe fn execute(&self, schedule: &Arc<Schedule>) -> Result<Result<(), Failure>, RunError> {
        let since = self.shared.programs.begins_to_wait();
        let (state, engine) = self.begin(schedule, Scope::Numbered, true)?;
        self.shared.drive_for(engine, &state);
        self.shared.wait(&state);
        self.shared.programs.has_waited(since, state.number_in_journal());
        Ok(state.outcome().expect("the run has ended"))
    }

    /// Runs a schedule to its end that names neither user memory nor functions, as one from a file.
    ///
    /// # Errors
    /// As for [`Process::execute`]; and the schedule names an address.
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

    /// Starts the next call of a context, see [`Process::run`]. `stays`: in this process, since nobody waits for it but its own rank.
    ///
    /// # Safety
    /// As for [`Process::run`].
    ///
    /// # Errors
    /// As for [`Process::run`].
    pub unsafe fn run_call(
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

    /// Makes the next call of a context, see [`Process::execute`].
    ///
    /// # Safety
    /// As for [`Process::run`].
    ///
    /// # Errors
    /// As for [`Process::execute`].
    pub unsafe fn execute_call(
        &self,
        schedule: &Arc<Schedule>,
        context: u32,
        record: &Record,
    ) -> Result<Result<(), Failure>, RunError> {
        let since = self.shared.programs.begins_to_wait();
        let (state, engine) = self.begin_call(schedule, context, record, true)?;
        self.shared.drive_for(engine, &state);
        self.shared.wait(&state);
        self.shared.programs.has_waited(since, state.number_in_journal());
        Ok(state.outcome().expect("the run has ended"))
    }

    fn begin_call(
        &self,
        schedule: &Arc<Schedule>,
        context: u32,
        record: &Record,
        stays: bool,
    ) -> Result<(Arc<HandleState>, MutexGuard<'_, Engine>), RunError> {
        self.begin_as(schedule, stays, None, |runs| {
            let word = runs.contexts.take(context);
            runs.board.write(word, record);
            runs.contexts.compare_heard(word, record);
            if let Some(recorder) = &runs.recorder {
                recorder.calls(runs.table.next_serial(), record);
            }
            Scope::Call { context, word }
        })
    }

    /// Opens a context for calls, the first of which has this sequence number.
    pub fn open_context(&self, context: u32, members: Arc<[Rank]>, first: u64) {
        self.with_runs(|runs| runs.contexts.open(context, members, first));
        self.shared.programs.open(context);
    }

    /// Closes a context. It is not used again before its calls have ended.
    pub fn close_context(&self, context: u32) {
        self.with_runs(|runs| runs.contexts.close(context));
    }

    /// The sequence number of a context's next call.
    pub fn next_call(&self, context: u32) -> u64 {
        self.with_runs(|runs| runs.contexts.next(context))
    }

    /// Opens the world's context if this is the first to ask for it.
    pub fn open_world(&self) {
        self.with_runs(|runs| {
            if !runs.contexts.is_open(0) {
                let ranks = (0..runs.job.ranks()).map(Rank).collect();
                let first = runs.contexts.next(0);
                runs.contexts.open(0, ranks, first);
            }
        });
    }

    /// Says that a new context is wanted in the name of `parent`, or no more.
    pub fn want_context(&self, parent: u32, wanted: bool) {
        self.with_runs(|runs| match wanted {
            true => runs.contexts.want(parent),
            false => runs.contexts.want_no_more(parent),
        });
    }

    /// The contexts that are free here, which nobody else gets until [`Process::settle_offer`]; `None`: it is somebody else's
    /// turn.
    pub fn offer_contexts(&self, parent: u32) -> Option<Mask> {
        self.with_runs(|runs| runs.offer_contexts(parent))
    }

    /// Reserves the context that was found, if any, and lets others have their turn.
    pub fn settle_offer(&self, parent: u32, found: Option<u32>) {
        self.with_runs(|runs| runs.contexts.settle(parent, found));
    }

    fn with_runs<R>(&self, work: impl FnOnce(&mut Runs) -> R) -> R {
        let mut engine = self.shared.enter();
        let result = work(&mut engine.runs);
        self.shared.leave(engine);
        result
    }

    #[inline]
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

    pub(super) fn begin_telling(
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
        scope: impl FnOnce(&mut Runs) -> Scope,
    ) -> Result<(Arc<HandleState>, MutexGuard<'_, Engine>), RunError> {
        self.admit(schedule)?;
        let mut engine = self.shared.enter();
        if self.shared.shut_down.load(Ordering::Relaxed) {
            self.shared.leave(engine);
            return Err(RunError::Finalized);
        }
        engine.settle();
        let Engine { messages, runs, liveness, .. } = &mut *engine;
        let state = Arc::new(HandleState::new(runs.table.next_serial(), told, None));
        liveness.silence.run_starts(&runs.job, runs.is_empty());
        let scope = scope(runs);
        runs.start(messages, schedule, scope, Arc::clone(&state), stays);
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
        let counters = engine.counters();
        self.shared.leave(engine);
        let [messages, bytes] = self.shared.programs.sent();
        Counters { messages: counters.messages + messages, bytes: counters.bytes + bytes, ..counters }
    }

    /// What threads of the application do from now on while they wait in vain, again and again, between their looks: to let another
    /// library go on, say, whose calls these replace. It makes no calls of this one. Only the first one counts.
    pub fn set_meanwhile(&self, work: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.meanwhile.set(Box::new(work));
    }

    /// Factor on the times of `calc` and `sleep` from now on (1 at first).
    pub fn set_calc_scale(&self, scale: f64) {
        let mut engine = self.shared.enter();
        engine.runs.calculations.scale = scale;
        self.shared.leave(engine);
    }

    /// How many bytes of messages without a receive this rank keeps from now on before senders have to hold theirs
    /// ([`crate::UNEXPECTED_BUDGET_BYTES`] at first).
    pub fn set_unexpected_budget(&self, bytes: u64) {
        let mut engine = self.shared.enter();
        engine.messages.set_budget(bytes);
        self.shared.leave(engine);
    }

    /// Starts to record when operations start and finish.
    pub fn record(&self) {
        let mut engine = self.shared.enter();
        engine.runs.recorder.get_or_insert_default();
        self.shared.leave(engine);
        self.shared.programs.records.store(true, Ordering::Relaxed);
    }

    /// Notes from now on what operations do, which calls are made and when threads wait for them, until the group is left: if whoever
    /// started this process has made a journal for it.
    pub fn note_if_wanted(&self) {
        if let Some(journal) = journal::of_this_process() {
            self.note_in(journal);
        }
    }

    fn note_in(&self, journal: &Arc<Journal>) {
        if self.shared.programs.journal.set(Arc::clone(journal)).is_ok() {
            self.record();
            let mut engine = self.shared.enter();
            if let Some(recorder) = &mut engine.runs.recorder {
                recorder.note_in(Arc::clone(journal));
            }
            engine.messages.senders.get_or_insert_default();
            self.shared.leave(engine);
            self.shared.programs.note(Event::Entered { at_ns: now_ns() });
        }
    }

    /// Whether [`Process::record`] was called.
    #[inline]
    pub fn records_operations(&self) -> bool {
        self.shared.programs.records.load(Ordering::Relaxed)
    }

    /// What was recorded since [`Process::record`] or the last call.
    pub fn take_record(&self) -> Vec<Recorded> {
        let mut engine = self.shared.enter();
        let recorder = engine.runs.recorder.as_deref_mut();
        let recorded = recorder.map(|recorder| std::mem::take(&mut recorder.done)).unwrap_or_default();
        self.shared.leave(engine);
        recorded
    }

    /// What came in since [`Process::record`] or the last call: the messages of sends, in the order in which they came. Not those of runs that
    /// peers carry on, nor of calls with slots.
    pub fn take_arrivals(&self) -> Vec<Arrived> {
        self.with_runs(|runs| {
            let recorder = runs.recorder.as_deref_mut();
            recorder.map(|recorder| std::mem::take(&mut recorder.arrived)).unwrap_or_default()
        })
    }

    /// Leaves the group: waits for the runs that are going on, then tells the others. Calling it again does nothing.
    ///
    /// # Panics
    /// Inside a function of a `call` operation, which would wait for itself.
    pub fn finalize(&self) {
        assert!(!inside_call(), "a function of a `call` operation cannot leave the group");
        if !self.shared.shut_down.load(Ordering::SeqCst) {
            self.shared.programs.note(Event::Left { at_ns: now_ns() });
        }
        loop {
            self.end_started();
            let mut engine = self.shared.enter();
            match engine.runs.any_run() {
                Some(state) => {
                    self.shared.drive_for(engine, &state);
                    self.shared.wait(&state);
                }
                None if engine.messages.is_blocked() => {
                    engine.turn();
                    self.shared.leave(engine);
                    std::thread::sleep(RETRY_PAUSE);
                }
                None => {
                    // With the engine in hand, so that no other thread starts a run that nobody would look after.
                    let was_shut_down = self.shared.shut_down.swap(true, Ordering::SeqCst);
                    let met = engine.messages.met();
                    self.shared.leave(engine);
                    if !was_shut_down {
                        // What another thread has started in the last moment.
                        self.end_started();
                        self.shared.stop();
                        self.shared.leave_network();
                        self.shared.job.mark_finished(self.shared.me, &met);
                    }
                    return;
                }
            }
        }
    }
}

impl Process {
    fn end_started(&self) {
        while let Some(state) = self.shared.any_started() {
            self.shared.wait(&state);
        }
    }
}

/// A run: ask whether it has ended, or wait for it. Dropping the handle does not stop the run.
#[derive(Clone)]
pub struct Handle {
    pub(super) state: Arc<HandleState>,
    pub(super) shared: Arc<Shared>,
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
        let since = self.shared.programs.begins_to_wait();
        self.shared.wait(&self.state);
        self.shared.programs.has_waited(since, self.state.number_in_journal());
        self.state.outcome().expect("the run has ended")
    }

    /// When the run ended, nanoseconds on the job's clock; 0 before.
    pub fn end_ns(&self) -> u64 {
        self.state.end_ns()
    }
}
