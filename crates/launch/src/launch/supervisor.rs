//! Watches a job's ranks until all have ended.
//!
//! - A rank that ends is reported in the job at once, so that the others' operations that wait for it fail.
//! - When a rank has failed, the others may go on for the grace time (most end by themselves); then they are terminated
//!   (SIGTERM), and two seconds later killed (SIGKILL).
//! - SIGINT, SIGTERM and SIGHUP are passed on, then the same times run; a second one kills at once. A key press on the
//!   terminal reaches the whole process group by itself and is not passed on twice.
//! - SIGUSR1 makes every rank print who waits for whom.
//! - In the end, descendants that outlived their rank are ended, too. If the supervisor itself is killed, the kernel
//!   kills the ranks.

use super::relay::{Relay, Running};
use super::start::RankProcesses;
use super::{Domains, Launch, Outcome};
use castell_base::Rank;
use castell_host::process::{self, Ended, Pid, Process};
use castell_host::signal::{self, Arrived, Signals};
use castell_host::{HostError, descriptor};
use castell_shm::job::{Death, Job, RankState};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Between SIGTERM and SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(2);
/// Signals closer together than this count as one: `timeout` sends its own to the process and to its group.
const SIGNALS_APART: Duration = Duration::from_millis(100);
/// How long descendants that outlived their rank have between SIGTERM and SIGKILL.
const ORPHAN_GRACE: Duration = Duration::from_millis(500);
/// How often ranks that have not joined are looked at, at first and later.
const UNBORN_PERIOD: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(250));

/// Takes over the signals that a supervisor handles; before any rank or thread starts.
pub(super) fn take_over_signals() -> Result<Signals, HostError> {
    Signals::take_over(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1])
}

/// What is being done about the ranks that still run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// All is well.
    Running,
    /// Somebody failed or ending was asked for: they may end by themselves until then.
    Ending(Instant),
    /// SIGTERM was sent; SIGKILL follows then.
    Terminating(Instant),
    /// SIGKILL was sent.
    Killing,
}

/// A rank's process, and the one that joined the job in its place, if that is another (a program that a script starts).
struct Member {
    rank: Rank,
    process: Process,
    joined: Joined,
    ended: Option<Ended>,
}

enum Joined {
    /// Nobody yet.
    Nobody,
    /// The process itself, or one that cannot be watched.
    Itself,
    /// A descendant.
    Other(Process),
    /// A descendant that has ended.
    Gone,
}

/// Somebody who watches ranks of the same job on other hosts.
pub(crate) trait Elsewhere {
    /// What becomes readable when there is something to exchange; `None`: there is already.
    fn arm(&mut self) -> Option<BorrowedFd<'_>>;

    /// Whether something about ranks here is still to be told that nobody wakes this one for.
    fn expects_more(&self, job: &Job) -> bool;

    /// Tells what is new about ranks here, and says what is to be done.
    fn exchange(&mut self, job: &Job) -> Vec<Demand>;

    /// The process of a rank here has ended.
    fn tell_ended(&mut self, rank: Rank, ended: Ended);
}

/// What is demanded from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// A signal has come.
    Signal(i32),
    /// A rank has failed: the others may go on for the grace time.
    Grace,
    /// End, the time is up.
    Terminate,
    /// End at once: nobody is left who would take notice.
    Kill,
}

/// The loop's state.
pub(super) struct Supervisor<'a, 'e> {
    launch: &'a Launch,
    job: &'a Job,
    elsewhere: Option<&'e mut (dyn Elsewhere + 'e)>,
    members: Vec<Member>,
    domains: Domains,
    signals: Signals,
    relay: Option<Relay>,
    strangers: Vec<Pid>,
    phase: Phase,
    timeout_at: Option<Instant>,
    next_look: Instant,
    look_period: Duration,
    first_failure: Option<Rank>,
    timed_out: bool,
    last_signal: Option<Instant>,
    has_joined: bool,
    /// The first one that asked the job to end.
    ended_by: Option<i32>,
}

impl<'a, 'e> Supervisor<'a, 'e> {
    /// Watches `processes`, each of a rank. `strangers` are children of this process that are none of its business.
    pub(super) fn new(
        launch: &'a Launch,
        (job, elsewhere): (&'a Job, Option<&'e mut (dyn Elsewhere + 'e)>),
        (processes, domains): RankProcesses,
        signals: Signals,
        relay: Option<Relay>,
        strangers: Vec<Pid>,
    ) -> Supervisor<'a, 'e> {
        let now = Instant::now();
        let member = |(rank, process)| Member { rank, process, joined: Joined::Nobody, ended: None };
        Supervisor {
            launch,
            job,
            elsewhere,
            members: processes.into_iter().map(member).collect(),
            domains,
            signals,
            relay,
            strangers,
            phase: Phase::Running,
            timeout_at: launch.timeout.map(|timeout| now + timeout),
            next_look: now + UNBORN_PERIOD.0,
            look_period: UNBORN_PERIOD.0,
            first_failure: None,
            timed_out: false,
            last_signal: None,
            has_joined: false,
            ended_by: None,
        }
    }

    /// Returns when all ranks have ended, all their output is passed on and no descendant is left.
    pub(super) fn run(mut self) -> Result<Outcome, HostError> {
        let result = self.watch();
        if result.is_err() {
            self.signal_all(libc::SIGKILL);
            for member in self.members.iter().filter(|member| member.ended.is_none()) {
                let _ = member.process.wait();
            }
        }
        // What ranks left behind in a domain ends with it.
        self.domains.clear();
        end_orphans(&self.strangers);
        if let Some(relay) = result? {
            self.drain(&relay)?;
        }
        let endings = self.members.iter().map(|member| member.ended.expect("all have ended")).collect();
        let Supervisor { first_failure, timed_out, ended_by: signal, .. } = self;
        Ok(Outcome { endings, first_failure, timed_out, signal })
    }

    /// Returns when all ranks have ended; the output may still be on its way.
    fn watch(&mut self) -> Result<Option<Running>, HostError> {
        let relay = self.relay.take().map(Relay::start).transpose()?;
        while self.members.iter().any(|member| member.ended.is_none()) {
            let ended = self.wait()?;
            while let Some(arrived) = self.signals.next() {
                self.take_signal(arrived);
            }
            for member in ended {
                self.take_ending(member)?;
            }
            self.look_who_joined();
            self.exchange();
            self.check_deadlines();
        }
        Ok(relay)
    }

    /// Sleeps until a process ends, a signal arrives, somebody elsewhere says something or a deadline passes; gives the members whose processes
    /// ended.
    fn wait(&mut self) -> Result<Vec<usize>, HostError> {
        let mut patience_ms = self.patience_ms();
        let (mut waiting, mut members) = (vec![self.signals.as_fd()], Vec::new());
        for (index, member) in self.members.iter().enumerate().filter(|(_, member)| member.ended.is_none()) {
            let other = if let Joined::Other(process) = &member.joined { Some(process) } else { None };
            for process in [Some(&member.process), other].into_iter().flatten() {
                waiting.push(process.as_fd());
                members.push(index);
            }
        }
        match self.elsewhere.as_mut().map(|elsewhere| elsewhere.arm()) {
            None => {}
            Some(None) => patience_ms = 0,
            Some(Some(descriptor)) => waiting.push(descriptor),
        }
        let ready = descriptor::wait_readable(&waiting, patience_ms)?;
        let ended = members.into_iter().zip(&ready[1..]).filter(|(_, ready)| **ready);
        Ok(ended.map(|(member, _)| member).collect())
    }

    /// How long to sleep at most; negative for ever.
    fn patience_ms(&self) -> i32 {
        let phase_end = match self.phase {
            Phase::Ending(end) | Phase::Terminating(end) => Some(end),
            Phase::Running | Phase::Killing => None,
        };
        let is_unborn = |member: &Member| matches!(member.joined, Joined::Nobody);
        let expects_more = |elsewhere: &dyn Elsewhere| elsewhere.expects_more(self.job);
        let looks = self.members.iter().any(is_unborn) || self.elsewhere.as_deref().is_some_and(expects_more);
        let look = looks.then_some(self.next_look);
        let timeout = self.timeout_at.filter(|_| self.phase == Phase::Running);
        let next = [phase_end, look, timeout].into_iter().flatten().min();
        next.map_or(-1, |next| {
            let left = next.saturating_duration_since(Instant::now());
            // Rounded up, so as not to wake up just before.
            i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
        })
    }

    fn take_signal(&mut self, arrived: Arrived) {
        if arrived.signal == libc::SIGUSR1 {
            self.job.request_stall_report();
            return;
        }
        let now = Instant::now();
        let is_echo = self.last_signal.is_some_and(|last| now < last + SIGNALS_APART);
        self.last_signal = Some(now);
        if is_echo {
            return;
        }
        let name = signal::name(arrived.signal);
        self.ended_by.get_or_insert(arrived.signal);
        if self.phase != Phase::Running {
            self.say(&format!("{name} again: killing the ranks that are left"));
            self.kill_all();
            return;
        }
        self.verbose(&format!("{name} goes to all ranks"));
        if !arrived.from_kernel {
            self.signal_all(arrived.signal);
        }
        self.phase = Phase::Ending(now + self.launch.grace);
    }

    /// Hears what is demanded from elsewhere.
    fn exchange(&mut self) {
        let Some(elsewhere) = &mut self.elsewhere else { return };
        for demand in elsewhere.exchange(self.job) {
            let now = Instant::now();
            match demand {
                Demand::Signal(signal) => self.take_signal(Arrived { signal, from_kernel: false }),
                Demand::Grace if self.phase == Phase::Running => {
                    self.phase = Phase::Ending(now + self.launch.grace);
                }
                Demand::Terminate if matches!(self.phase, Phase::Running | Phase::Ending(_)) => {
                    self.terminate(now)
                }
                Demand::Kill => self.kill_all(),
                Demand::Grace | Demand::Terminate => {}
            }
        }
    }

    /// Takes notice of the end of a rank's process, or of the one that joined in its place.
    fn take_ending(&mut self, index: usize) -> Result<(), HostError> {
        let member = &mut self.members[index];
        let rank = member.rank;
        if member.ended.is_none() && member.process.has_ended() {
            let ended = member.process.wait()?;
            member.ended = Some(ended);
            self.job.mark_dead(rank, death(ended));
            self.judge(index, ended);
            if let Some(elsewhere) = &mut self.elsewhere {
                elsewhere.tell_ended(rank, ended);
            }
        } else if let Joined::Other(process) = &member.joined
            && process.has_ended()
        {
            // The job knows whether it had left in order before.
            member.joined = Joined::Gone;
            self.job.mark_dead(rank, Death::Vanished);
        }
        Ok(())
    }

    /// Decides what a rank's end means for the job.
    fn judge(&mut self, index: usize, ended: Ended) {
        let Member { rank, ref process, .. } = self.members[index];
        if ended.is_success() {
            self.verbose(&format!("rank {rank} {ended}"));
            return;
        }
        if self.first_failure.is_none() {
            self.first_failure = Some(rank);
            if self.phase == Phase::Running {
                self.say(&format!("rank {rank} (process {}) {ended}", process.pid()));
            }
        } else {
            self.verbose(&format!("rank {rank} {ended}"));
        }
        if self.phase == Phase::Running {
            self.phase = Phase::Ending(Instant::now() + self.launch.grace);
        }
    }

    /// Finds the processes that joined the job below a rank's own process: their end counts as the rank's.
    fn look_who_joined(&mut self) {
        if Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + self.look_period;
        self.look_period = (self.look_period * 2).min(UNBORN_PERIOD.1);
        for member in &mut self.members {
            let control = self.job.control(member.rank);
            if !matches!(member.joined, Joined::Nobody) || control.state() != RankState::Alive {
                continue;
            }
            let hides = self.launch.isolation.is_some_and(|isolation| isolation.kinds.pid);
            let pid = i32::try_from(control.pid()).ok().and_then(Pid::from_raw).filter(|_| !hides);
            member.joined = match pid.filter(|pid| *pid != member.process.pid()).map(Process::open) {
                // Unless the number means another process here (the rank is in a container), or by now.
                Some(Ok(process)) if process.pid().start_time() == Some(control.start_time()) => {
                    Joined::Other(process)
                }
                _ => Joined::Itself,
            };
        }
        if self.job.is_complete() && !std::mem::replace(&mut self.has_joined, true) {
            self.launch.tell_joined(self.job);
        }
    }

    fn check_deadlines(&mut self) {
        let now = Instant::now();
        if self.phase == Phase::Running && self.timeout_at.is_some_and(|end| now >= end) {
            self.timed_out = true;
            self.say("the job took too long: terminating it");
            self.terminate(now);
        }
        match self.phase {
            Phase::Ending(end) if now >= end => {
                let seconds = self.launch.grace.as_secs_f64();
                self.say(&format!("{} ranks still run {seconds} s later: terminating them", self.living()));
                self.terminate(now);
            }
            Phase::Terminating(end) if now >= end => {
                self.say(&format!("{} ranks ignore SIGTERM: killing them", self.living()));
                self.kill_all();
            }
            _ => {}
        }
    }

    fn living(&self) -> usize {
        self.members.iter().filter(|member| member.ended.is_none()).count()
    }

    fn terminate(&mut self, now: Instant) {
        self.signal_all(libc::SIGTERM);
        // Stopped processes take notice of nothing else.
        self.signal_all(libc::SIGCONT);
        self.phase = Phase::Terminating(now + KILL_AFTER);
    }

    fn kill_all(&mut self) {
        self.signal_all(libc::SIGKILL);
        self.phase = Phase::Killing;
    }

    fn signal_all(&self, signal: i32) {
        for member in self.members.iter().filter(|member| member.ended.is_none()) {
            let _ = member.process.signal(signal);
            if let Joined::Other(process) = &member.joined {
                let _ = process.signal(signal);
            }
        }
    }

    /// Waits until all output is passed on. Whoever reads it may take their time; a signal ends the waiting.
    fn drain(&self, relay: &Running) -> Result<(), HostError> {
        relay.close();
        loop {
            let ready = descriptor::wait_readable(&[relay.done(), self.signals.as_fd()], -1)?;
            let is_over =
                ready[1] && self.signals.next().is_some_and(|arrived| arrived.signal != libc::SIGUSR1);
            if ready[0] || is_over {
                return Ok(());
            }
        }
    }

    fn say(&self, text: &str) {
        castell_host::say(text);
    }

    fn verbose(&self, text: &str) {
        if self.launch.verbose {
            self.say(text);
        }
    }
}

fn death(ended: Ended) -> Death {
    match ended {
        Ended::Exited(code) => Death::Exited(code),
        Ended::Killed(signal) => Death::Signaled(signal),
    }
}

/// Ends all children but `strangers`: what the ranks started and left behind has become ours.
fn end_orphans(strangers: &[Pid]) {
    let orphans = || {
        let ours = process::children().into_iter().filter(|pid| !strangers.contains(pid));
        // Those that have ended by themselves are taken notice of here.
        ours.filter(|pid| {
            Process::open(*pid).is_ok_and(|process| !process.has_ended() || process.wait().is_err())
        })
        .collect::<Vec<Pid>>()
    };
    let start = Instant::now();
    // Each that ends may leave children of its own to us; the bound is for a process that keeps on starting others.
    while start.elapsed() < ORPHAN_GRACE * 4 {
        let left = orphans();
        if left.is_empty() {
            return;
        }
        let signal = if start.elapsed() < ORPHAN_GRACE { libc::SIGTERM } else { libc::SIGKILL };
        for process in left.into_iter().filter_map(|pid| Process::open(pid).ok()) {
            let _ = process.signal(signal);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
