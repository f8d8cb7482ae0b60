//! Starts the processes of a job on this host, watches them, and leaves nothing behind.
//!
//! Start at [`Launch`]. `supervisor.rs` has the rules by which ranks are waited for, signalled and ended, `relay.rs`
//! what happens to their output, `isolation.rs` which of them live in which domain.

mod isolation;
mod relay;
mod start;
mod supervisor;

use castell_base::Rank;
use castell_host::HostError;
use castell_host::domain::{Domain, DomainError};
use castell_host::process::{self, Ended};
use castell_host::topology::{self, Processors};
use castell_shm::job::{Job, JobError, JobOptions};
pub use isolation::Isolation;
use start::Started;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use supervisor::Supervisor;
pub(crate) use supervisor::{Demand, Elsewhere};

/// Which processors the ranks are bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// The kernel places them.
    #[default]
    None,
    /// Rank r to the r-th usable core (all its hardware threads), round robin.
    Core,
    /// Rank r to the r-th processor of the list, round robin.
    List(Vec<u32>),
}

impl FromStr for Binding {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Binding, HostError> {
        match text {
            "none" => Ok(Binding::None),
            "core" => Ok(Binding::Core),
            list => topology::parse_list(list).map(Binding::List),
        }
    }
}

impl Binding {
    /// The processors of each rank in turn; empty where they are not bound.
    fn places(&self, processors: &Processors) -> Result<Vec<Vec<u32>>, HostError> {
        match self {
            Binding::None => Ok(Vec::new()),
            Binding::Core => Ok(processors.cores(Path::new("/"))),
            Binding::List(list) => {
                if let Some(&cpu) = list.iter().find(|cpu| !processors.cpus.contains(cpu)) {
                    return Err(HostError::CpuNotUsable {
                        cpu,
                        usable: topology::print_list(&processors.cpus),
                    });
                }
                Ok(list.iter().map(|&cpu| vec![cpu]).collect())
            }
        }
    }
}

/// How to start a job: fill it in, then [`Launch::program`] or [`Launch::fork`].
///
/// While the job runs, the calling process belongs to it: its signals are taken over, orphans among its descendants
/// become its children, and descendants that are left in the end are killed.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The job's size and memory.
    pub job: JobOptions,
    /// Which processors the ranks are bound to.
    pub binding: Binding,
    /// How ranks of a host are kept apart, if they are.
    pub isolation: Option<Isolation>,
    /// Whether each line of output gets its rank in front.
    pub prefix: bool,
    /// How long the others may go on after a rank has failed, or after a signal to end, before they are terminated.
    pub grace: Duration,
    /// How long the whole job may take.
    pub timeout: Option<Duration>,
    /// Whether to tell on standard error what happens.
    pub verbose: bool,
    /// Descriptors that programs inherit, by the variables that have their numbers.
    pub inherited: Vec<(&'static str, RawFd)>,
    /// What some ranks inherit beside that.
    pub inherited_by: Vec<Handed>,
    /// What the ranks of [`Launch::program`] get in their environment besides this process's.
    pub environment: Vec<(OsString, OsString)>,
    /// Called once, when all ranks have joined.
    pub when_joined: Option<fn(&Job)>,
}

/// Descriptors that one rank inherits.
#[derive(Clone, Debug)]
pub struct Handed {
    /// Which rank.
    pub rank: Rank,
    /// The variable that has their numbers, with commas.
    pub variable: &'static str,
    /// What it gets.
    pub descriptors: Vec<Arc<OwnedFd>>,
}

/// Why a job was not started. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The job's memory cannot be had.
    #[error(transparent)]
    Job(#[from] JobError),
    /// Ranks cannot be kept apart.
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// Something that all ranks need cannot be had.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A process with several threads cannot be forked: locks that the others hold would stay locked in the child.
    #[error(
        "ranks cannot be forked from a process with {threads} threads (0: /proc does not tell): fork them first"
    )]
    Threads {
        /// How many it has.
        threads: usize,
    },
    /// There is no such program.
    #[error("`{program}` was not found: {}", if program.contains('/') {
        "there is no such file, or what its first line names is not there".to_owned()
    } else {
        format!("give a path such as ./{program}, or the name of a program in PATH")
    })]
    NotFound {
        /// What was asked for.
        program: String,
    },
    /// It is there but cannot be executed.
    #[error("`{program}` cannot be executed ({source}): is it a program with execute permission?")]
    NotExecutable {
        /// What was asked for.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A host that its ranks cannot be started on.
    #[error(transparent)]
    Hosts(#[from] crate::hosts::HostsError),
    /// Not all ranks could be started; those that were are gone again.
    #[error(
        "rank {rank} of {ranks} could not be started ({source}): ask for fewer ranks, or raise the limits on \
         processes and open files (ulimit -u, ulimit -n, the container's pids limit)"
    )]
    Start {
        /// The rank.
        rank: Rank,
        /// Of how many.
        ranks: u32,
        /// The system's answer.
        source: HostError,
    },
}

impl LaunchError {
    /// The code to exit with, as shells use it: 127 and 126 for programs that are not there or not executable, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            LaunchError::NotFound { .. } => 127,
            LaunchError::NotExecutable { .. } => 126,
            LaunchError::Hosts(error) => error.exit_code(),
            _ => 1,
        }
    }
}

/// How a job ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How each rank ended.
    pub endings: Vec<Ended>,
    /// The rank that failed first, if any did.
    pub first_failure: Option<Rank>,
    /// Whether the job was ended because it took too long.
    pub timed_out: bool,
    /// The signal by which somebody asked the job to end, if one came.
    pub signal: Option<i32>,
}

impl Outcome {
    /// Why the job did not end well, if so, as `rank 1 of 4 was killed by SIGSEGV`.
    pub fn failure(&self) -> Option<String> {
        let ranks = self.endings.len();
        match self.first_failure {
            _ if self.timed_out => Some(format!("{ranks} ranks took too long")),
            Some(rank) => Some(format!("rank {rank} of {ranks} {}", self.endings[rank.index()])),
            None => None,
        }
    }

    /// The code to exit with: that of the rank that failed first (128 + signal if it was killed); 124 where the job
    /// took too long; else 0.
    pub fn exit_code(&self) -> u8 {
        match self.first_failure {
            _ if self.timed_out => 124,
            Some(rank) => self.endings[rank.index()].code() as u8,
            None => 0,
        }
    }
}

/// Domains by number.
type Domains = BTreeMap<u32, Domain>;

impl Launch {
    /// A job of that many ranks, with nothing special.
    pub fn new(ranks: u32) -> Launch {
        Launch {
            job: JobOptions::new(ranks),
            binding: Binding::None,
            isolation: None,
            prefix: false,
            grace: Duration::from_secs(10),
            timeout: None,
            verbose: false,
            inherited: Vec::new(),
            inherited_by: Vec::new(),
            environment: Vec::new(),
            when_joined: None,
        }
    }

    pub(crate) fn tell_joined(&self, job: &Job) {
        if let Some(tell) = self.when_joined {
            tell(job);
        }
    }

    /// Runs `program` as every rank, and returns when all have ended. Rank 0 gets this process's standard input.
    ///
    /// # Errors
    /// Not all ranks could be started. That a rank fails is an outcome, not an error.
    pub fn program(&self, program: &OsStr, arguments: &[OsString]) -> Result<Outcome, LaunchError> {
        let ranks: Vec<Rank> = (0..self.job.ranks).map(Rank).collect();
        let outcome = self.run(&ranks, None, |started, rank| started.spawn(rank, program, arguments))?;
        Ok(outcome)
    }

    /// Runs `program` as these ranks of a job whose others run elsewhere, and returns when these have ended.
    pub(crate) fn part(
        &self,
        ranks: &[Rank],
        elsewhere: &mut dyn Elsewhere,
        program: &OsStr,
        arguments: &[OsString],
    ) -> Result<Outcome, LaunchError> {
        self.run(ranks, Some(elsewhere), |started, rank| started.spawn(rank, program, arguments))
    }

    /// Runs `body` as every rank in a child of this process, which ends with the code that it returns.
    ///
    /// # Errors
    /// This process has more than one thread, or not all ranks could be started. That a rank fails is an outcome, not
    /// an error.
    pub fn fork(&self, body: &dyn Fn(Rank, Job) -> i32) -> Result<Outcome, LaunchError> {
        match process::threads() {
            Some(1) => {}
            threads => return Err(LaunchError::Threads { threads: threads.unwrap_or(0) }),
        }
        // SAFETY: there is one thread, this one.
        let fork = |started: &mut Started, rank: Rank| unsafe { started.fork(rank, body) };
        self.run(&(0..self.job.ranks).map(Rank).collect::<Vec<_>>(), None, fork)
    }

    fn run(
        &self,
        ranks: &[Rank],
        elsewhere: Option<&mut dyn Elsewhere>,
        start: impl Fn(&mut Started, Rank) -> Result<(), LaunchError>,
    ) -> Result<Outcome, LaunchError> {
        let mut options = self.job.clone();
        if let Some(isolation) = self.isolation {
            options.domains = isolation.domains_of(options.ranks, &options.hosts);
        }
        let job = Job::create(&options)?;
        let domains = self.domains(&job, ranks)?;
        let processors = Processors::usable();
        let places = self.binding.places(&processors)?;
        process::adopt_orphans()?;
        let strangers = process::children();
        let signals = supervisor::take_over_signals()?;
        let mut started = Started::new(&job, places, domains, self)?;
        if self.verbose {
            self.describe(&job, &processors);
        }
        for rank in ranks {
            start(&mut started, *rank)?;
        }
        let (processes, relay) = started.finish()?;
        let outcome = Supervisor::new(self, (&job, elsewhere), processes, signals, relay, strangers).run()?;
        Ok(outcome)
    }

    /// The domains that these ranks live in, by number.
    fn domains(&self, job: &Job, ranks: &[Rank]) -> Result<Domains, LaunchError> {
        let mut all = Domains::new();
        for domain in ranks.iter().filter_map(|rank| job.domain_of(*rank)) {
            if let (Some(isolation), false) = (self.isolation, all.contains_key(&domain)) {
                all.insert(domain, Domain::make(isolation.kinds)?);
            }
        }
        Ok(all)
    }

    fn describe(&self, job: &Job, processors: &Processors) {
        let (ranks, count) = (job.ranks(), processors.count());
        let shared = if ranks as usize > count { ", more ranks than processors" } else { "" };
        let mib = job.bytes() as f64 / f64::from(1 << 20);
        castell_host::say(&format!(
            "{ranks} ranks on {count} processors ({}{shared}), {mib:.1} MiB of shared memory at most",
            topology::print_list(&processors.cpus)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings() {
        let processors = Processors { cpus: vec![0, 1, 3], quota: None };
        let places = |text: &str| text.parse::<Binding>().and_then(|binding| binding.places(&processors));
        assert_eq!(places("none").expect("none"), Vec::<Vec<u32>>::new());
        assert_eq!(places("3,0").expect("a list"), [[3], [0]]);
        assert_eq!(places("core").expect("cores").concat().len(), 3);
        assert!(places("2").expect_err("not ours").to_string().contains("usable are 0-1,3"));
        assert!(places("cores").expect_err("a typing error").to_string().contains("`cores`"));
    }

    #[test]
    fn exit_codes() {
        let endings = vec![Ended::Exited(0), Ended::Killed(9), Ended::Exited(3)];
        let mut outcome = Outcome { endings, first_failure: None, timed_out: false, signal: None };
        assert_eq!((outcome.exit_code(), outcome.failure()), (0, None));
        outcome.first_failure = Some(Rank(2));
        assert_eq!(outcome.exit_code(), 3);
        outcome.first_failure = Some(Rank(1));
        assert_eq!(outcome.exit_code(), 137);
        assert_eq!(outcome.failure().as_deref(), Some("rank 1 of 3 was killed by SIGKILL"));
        outcome.timed_out = true;
        assert_eq!(outcome.exit_code(), 124);
    }
}
