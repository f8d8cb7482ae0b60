//! How a runtime is to be.

use crate::api::environment;
use crate::api::runtime::Runtime;
use crate::dependences::Exclusive;
use crate::diagnostics::drawn::Drawn;
use crate::diagnostics::journal::Journal;
use crate::diagnostics::record::{Recorder, Wanted};
use crate::diagnostics::stall::{Report, Stall, Stalls};
use crate::error::TaskError;
use crate::lifecycle::assembly::Assembly;
use crate::lifecycle::counts::{Counts, Limits};
use crate::lifecycle::grants::{Daemon, Granting, Grants};
use crate::lifecycle::places::Places;
use crate::lifecycle::shared::{Roots, Shared};
use crate::lifecycle::versions::Deciding;
use crate::memory::{Memory, MemoryOptions};
use crate::scheduler::Scheduler;
use crate::waiting::services::Services;
use crate::waiting::suspend::Suspended;
use crate::workers::devices::Devices;
use crate::workers::share::Share;
use crate::workers::{Plan, Workers, mailbox_from_environment};
use castell_sched::{Design, Kind, Options, Topology};
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Describes the scheduler of programs that don't.
const SCHEDULER: &str = "CASTELL_TASKS_SCHEDULER";

/// How a runtime is to be: [`Runtime::builder`].
#[derive(Clone)]
pub struct Builder {
    workers: Option<usize>,
    bind: bool,
    scheduler: Option<String>,
    topology: Option<String>,
    seed: u64,
    stack_bytes: usize,
    limits: Option<Limits>,
    memory: MemoryOptions,
    watchdog: Option<(Duration, Report)>,
    debug: Option<bool>,
    record: bool,
    devices: Devices,
    mailbox: Option<PathBuf>,
    share: Option<bool>,
    daemon: Daemon,
    resources: Vec<(Kind, String)>,
}

impl Default for Builder {
    fn default() -> Self {
        Builder {
            workers: None,
            bind: false,
            scheduler: None,
            topology: None,
            seed: 0,
            stack_bytes: 8 << 20,
            limits: None,
            memory: MemoryOptions::default(),
            watchdog: None,
            debug: None,
            record: false,
            devices: Devices::default(),
            mailbox: None,
            share: None,
            daemon: Daemon::default(),
            resources: Vec::new(),
        }
    }
}

impl Runtime {
    /// How it is to be.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Builder {
    /// This many workers; without a call, one for each processor that the process may use: what its affinity mask, its
    /// control groups' quota and Slurm leave.
    pub fn workers(mut self, count: usize) -> Self {
        self.workers = Some(count.max(1));
        self
    }

    /// Whether each worker's threads are bound to a processor of their own, with the tree mirroring this machine's NUMA
    /// nodes. Not without a call, nor for a described machine: several runtimes would sit on the same processors. A [`Team`](crate::Team)'s threads
    /// are bound by who lends them, if this says so.
    pub fn bind(mut self, bind: bool) -> Self {
        self.bind = bind;
        self
    }

    /// The scheduler, as [`Options`] reads it: `tree`, `tree:fifo,threshold=20`, `central`, `delegation`, ... Without a call,
    /// what the environment variable `CASTELL_TASKS_SCHEDULER` says, or else `tree`.
    pub fn scheduler(mut self, description: &str) -> Self {
        self.scheduler = Some(description.to_owned());
        self
    }

    /// Pretends to be another machine: `numa:2 cpu:24`. One worker for each of its processors, unless
    /// [`Builder::workers`] says something else.
    pub fn topology(mut self, description: &str) -> Self {
        self.topology = Some(description.to_owned());
        self
    }

    /// For the scheduler's random choices; 0 without a call.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The size of each worker's stack in bytes; 8 MiB without a call. Address space: pages are taken when touched.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// When creators help instead of creating, and when creating becomes an error; [`Limits::for_workers`] without a call.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// How the memory of records is taken from the system and from worker to worker.
    pub fn memory(mut self, options: MemoryOptions) -> Self {
        self.memory = options;
        self
    }

    /// Calls `report` when no task has completed for `patience` although some wait for the world outside.
    pub fn watchdog(mut self, patience: Duration, report: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.watchdog = Some((patience, Arc::new(report)));
        self
    }

    /// Whether to keep a journal of who waited for whom ([`Runtime::waits`]), and to fail tasks that pass on to children,
    /// as raw addresses, what they did not declare. It takes a lock a task. Without a call, whether the environment variable
    /// `CASTELL_TASKS_DEBUG` is 1.
    pub fn debug(mut self, debug: bool) -> Self {
        self.debug = Some(debug);
        self
    }

    /// Whether to note who is created when, runs where and declares what ([`Runtime::recording`]), up to four
    /// million tasks; each note reads the clock. Not without a call, unless the environment variables `CASTELL_TASKS_TRACE`, `CASTELL_TASKS_RECORD`
    /// (files that are written when the runtime is dropped) or `CASTELL_TASKS_SUMMARY=1` ask for it.
    pub fn record(mut self, record: bool) -> Self {
        self.record = record;
        self
    }

    /// Other processes of this user may take workers away and give them back, through a file at `path` (`castell cpus`; the
    /// protocol is in castell-host, `src/mailbox/README.md`). Without a call, what the environment variable `CASTELL_TASKS_MAILBOX`
    /// says: `1` for `/dev/shm/castell-cpus.PID`, or a path; a process's second runtime needs another one.
    pub fn mailbox(mut self, path: impl Into<PathBuf>) -> Self {
        self.mailbox = Some(path.into());
        self
    }

    /// Whether it lends processors to other programs of this user while it has nothing to do, and borrows theirs: its workers run only as many at a
    /// time as it has processors on the node's board (`castell cpus --node` shows it). Each program has the right to an equal share, and has that back at
    /// the next task boundary of who borrowed it. While there are others, a worker is bound to the processor that it has, and so are threads that its
    /// task starts. Without a call, what the environment variable `CASTELL_SHARE` says: a switch, or a path of a board.
    pub fn share(mut self, share: bool) -> Self {
        self.share = Some(share);
        self
    }

    /// A device with a worker of its own, besides the others: it runs the tasks that are made for this `kind`
    /// ([`NewTask::on`](crate::NewTask::on)), and these find `device` by [`Context::device`](crate::Context::device). Kinds are
    /// numbers from 1 to 7 whose meaning is the program's; devices of one kind share the tasks for it.
    pub fn device(mut self, kind: Kind, device: impl Any + Send + Sync) -> Self {
        self.devices.add(kind, Arc::new(device));
        self
    }

    /// What the node's daemon (`castell daemon`) calls workers of this `kind`, for tasks with versions. Without a call `one_core` for the processors, `gpu` for
    /// kind 1, and `device_2` and so on for the others.
    pub fn resource(mut self, kind: Kind, name: &str) -> Self {
        self.resources.retain(|(other, _)| *other != kind);
        self.resources.extend((kind.index() < Kind::COUNT).then(|| (kind, name.to_owned())));
        self
    }

    /// The socket of the daemon that decides about tasks with versions, or none: the runtime decides by itself. Without a call, what the environment variable
    /// `CASTELL_DAEMON` says, or the usual place. It is looked for when the first such task is ready.
    pub fn daemon(mut self, socket: Option<PathBuf>) -> Self {
        self.daemon = Daemon::At(socket);
        self
    }

    /// The scheduler: the program's wish, that of whoever starts it, or the usual one.
    fn options(&self, from_environment: Option<String>) -> Result<Options, TaskError> {
        match (&self.scheduler, from_environment) {
            (Some(wanted), _) => Ok(wanted.parse()?),
            (None, Some(wanted)) => {
                wanted.parse().map_err(|source| TaskError::Variable { name: SCHEDULER, source })
            }
            (None, None) => Ok(Options::default()),
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// A description that cannot be read, a device under a kind that devices cannot have, a mailbox that cannot be made, or a thread that could not be
    /// started.
    pub fn build(self) -> Result<Runtime, TaskError> {
        let grants = Arc::new(Grants::new(self.daemon.clone(), &self.resources));
        let runtime = Runtime::around(self.shared(false, Some(grants))?);
        let mailbox = self.mailbox.or_else(mailbox_from_environment);
        runtime.start_threads(mailbox.as_deref(), self.watchdog)?;
        Ok(runtime)
    }

    /// What its threads share: threads of its own, or such as somebody lends; and who asks the node's daemon, if anybody does.
    pub(crate) fn shared(
        &self,
        is_lent: bool,
        grants: Option<Arc<dyn Granting>>,
    ) -> Result<Arc<Shared>, TaskError> {
        let options = self.options(environment::lookup(SCHEDULER))?;
        // Lent threads are where their owner binds them.
        let plan = self.plan(self.bind && !is_lent)?;
        let is_bound = self.bind && is_lent || plan.cpus.iter().any(|cpus| !cpus.is_empty());
        let share = Share::wanted(self.share, plan.workers(), is_bound)?;
        let wanted = Wanted::from_environment();
        let records = self.record || wanted.any();
        let timeline = Drawn::wanted();
        let devices = self.devices.clone().behind(plan.workers());
        let plan = plan.with_devices(&devices.kinds()?);
        let numa_nodes = plan.topology.numa_nodes();
        let has_places = options.locality && options.design == Design::Tree && numa_nodes > 1;
        crate::lifecycle::forked::watch();
        let debug = self.debug.unwrap_or_else(|| environment::switch("CASTELL_TASKS_DEBUG"));
        Ok(Arc::new(Shared {
            memory: Memory::new(self.memory, &plan.numa()),
            worker_count: plan.cpu_workers(),
            versions: Deciding::new(plan.of_kinds(), grants),
            devices,
            scheduler: Scheduler::new(options, &plan.topology, self.seed),
            workers: Workers::new(&plan, self.stack_bytes, is_lent, share),
            counts: Counts::new(self.limits.unwrap_or_else(|| Limits::for_workers(plan.workers()))),
            exclusive: Exclusive::default(),
            places: has_places.then(Places::new),
            watches_ready: has_places || debug || timeline.is_some(),
            watches: has_places || debug || records || timeline.is_some(),
            timeline,
            stall: Stalls::default(),
            roots: Roots::default(),
            assembly: is_lent.then(|| Assembly::of(plan.workers())),
            services: Services::default(),
            journal: debug.then(Journal::default),
            suspended: Suspended::default(),
            recorder: records.then(|| Recorder::new(plan.kinds(), wanted)),
            process: std::process::id(),
        }))
    }

    /// A leaf a worker, on the NUMA nodes that are described.
    fn plan(&self, bind: bool) -> Result<Plan, TaskError> {
        let Some(description) = &self.topology else { return Ok(Plan::new(self.workers, bind)) };
        let described: Topology = description.parse()?;
        let count = self.workers.unwrap_or(described.leaves());
        if count == described.leaves() {
            return Ok(Plan::described(described));
        }
        let leaf = |worker: usize| ((worker * described.numa_nodes() / count) as u32, Kind::CPU);
        Ok(Plan::described(Topology::from_leaves((0..count).map(leaf).collect())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_decides_then_whoever_starts_it() {
        let from = |variable: &str| Some(variable.to_owned());
        let design = |builder: Builder, variable| builder.options(variable).expect("described well").design;
        assert_eq!(design(Runtime::builder(), None), Design::Tree);
        assert_eq!(design(Runtime::builder(), from("central")), Design::Central);
        assert_eq!(design(Runtime::builder().scheduler("delegation"), from("central")), Design::Delegation);
        let refused = Runtime::builder().options(from("trees")).expect_err("there is none");
        assert!(refused.to_string().starts_with("CASTELL_TASKS_SCHEDULER: scheduler `trees`: "), "{refused}");
    }
}
