//! The launcher's side: starts the agents, passes on what they tell, and finds out how the job ended.

use super::control::{Control, Heard, LAUNCHER};
use super::place::HostSlots;
use super::recording::{Recorded, Recording};
use super::wire::{Description, Gone, News, Order, Told};
use super::{HostsError, agent, options};
use crate::launch::{Launch, LaunchError, Outcome};
use castell_base::Rank;
use castell_host::process::{self, Birth, Ended, Process};
use castell_host::signal::{self, Arrived, Signals};
use castell_host::{descriptor, say};
use castell_shm::job::{Death, Job, JobOptions, Place, draw_secret};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the commands of agents that are done may take to pass on their last output.
const LAST_OUTPUT_WITHIN: Duration = Duration::from_secs(10);

/// How long the last word of an agent may take whose command has ended.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(1);

/// How to start a job on several hosts: fill it in, then [`HostsLaunch::program`].
#[derive(Clone, Debug)]
pub struct HostsLaunch {
    /// What holds for all hosts.
    pub launch: Launch,
    /// The hosts.
    pub hosts: Vec<HostSlots>,
    /// By rank, which of them, see [`super::place::place`].
    pub places: Vec<u32>,
    /// The words of the command that starts another command on a host; `{host}` in them is its name, which else follows behind.
    pub remote: Vec<String>,
    /// Where castell is on the hosts.
    pub castell: PathBuf,
    /// Variables for the ranks, `NAME=VALUE`.
    pub environment: Vec<OsString>,
    /// How long the hosts may take until all are ready.
    pub patience: Duration,
}

/// A host that has ranks.
struct Host {
    name: String,
    client: Process,
    state: State,
    ranks: Vec<Rank>,
    /// Since when its command has ended, for hosts that run.
    deserted: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Starting,
    Ready {
        processors: u32,
    },
    Running,
    /// Its ranks have ended, its clock is asked for once more.
    Resting,
    Done,
    Lost,
}

impl Host {
    /// Whether its agent has not said its last word.
    fn has_more(&self) -> bool {
        matches!(self.state, State::Running | State::Resting)
    }
}

impl HostsLaunch {
    /// Runs `program` as every rank, each on its host, and returns when all have ended. Rank 0 gets this process's standard input.
    ///
    /// # Errors
    /// Not all ranks could be started; nothing of the job is left then. That a rank fails is an outcome, not an error.
    pub fn program(&self, program: &OsStr, arguments: &[OsString]) -> Result<Outcome, LaunchError> {
        Ok(self.start(program, arguments, 0)?.0)
    }

    /// The same, and each rank has room for so many rows of notes ([`castell_host::journal`]), which are here when it returns, with what is
    /// needed to compare their times.
    ///
    /// # Errors
    /// As [`HostsLaunch::program`].
    ///
    /// # Panics
    /// Without rows.
    pub fn program_recorded(
        &self,
        program: &OsStr,
        arguments: &[OsString],
        rows: u32,
    ) -> Result<(Outcome, Recorded), LaunchError> {
        assert!(rows > 0, "a journal has room for something");
        let (outcome, recorded) = self.start(program, arguments, rows)?;
        Ok((outcome, recorded.expect("it was recorded")))
    }

    fn start(
        &self,
        program: &OsStr,
        arguments: &[OsString],
        journal_rows: u32,
    ) -> Result<(Outcome, Option<Recorded>), LaunchError> {
        let signals = Signals::take_over(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1])?;
        let used = self.used();
        let [control_secret, job_secret] = [draw_secret()?, draw_secret()?];
        let parties = used.len() as u32 + 1;
        let control =
            Control::open(LAUNCHER, parties, control_secret.clone(), self.launch.job.net, &self.listen());
        let control = control.map_err(HostsError::from)?;
        let mut command = vec![program.as_bytes().to_vec()];
        command.extend(arguments.iter().map(|word| word.as_bytes().to_vec()));
        let description = Description {
            agent: 0,
            agents: used.len() as u32,
            control_secret,
            job_secret,
            launcher: control.address(),
            places: self
                .places
                .iter()
                .map(|place| 1 + used.iter().position(|host| host == place).expect("it is used") as u32)
                .collect(),
            host_names: used
                .iter()
                .map(|host| self.hosts[*host as usize].host.clone().into_bytes())
                .collect(),
            folder: std::env::current_dir()
                .unwrap_or_else(|_| "/".into())
                .into_os_string()
                .as_bytes()
                .to_vec(),
            command,
            environment: self.environment.iter().map(|one| one.as_bytes().to_vec()).collect(),
            options: options::to_words(&self.launch),
            journal_rows,
        };
        let job = self.view(&description)?;
        let mut running = Running::new(self, job, control, signals);
        running.recording = (journal_rows > 0).then(|| Recording::new(description.places.len(), used.len()));
        running.start_agents(&used, &description)?;
        running.wait_until_ready()?;
        let outcome = running.watch()?;
        let clock_of = description.places.iter().map(|agent| *agent as usize - 1).collect();
        let recorded =
            running.recording.take().map(|recording| recording.finish(&description.host_names(), clock_of));
        Ok((outcome, recorded))
    }

    /// A segment that no rank maps: what is known of the ranks stands in it, as on their hosts, for who asks at this one.
    fn view(&self, description: &Description) -> Result<Job, LaunchError> {
        let (hosts, host_names) = (description.places.clone(), description.host_names());
        let (net, secret) = (self.launch.job.net, Some(description.job_secret.clone()));
        let ranks = JobOptions::new(hosts.len() as u32);
        let domains = self.launch.isolation.map(|isolation| isolation.domains_of(ranks.ranks, &hosts));
        let domains = domains.unwrap_or_default();
        Ok(Job::create(&JobOptions { net, hosts, host_names, domains, secret, ..ranks })?)
    }

    /// Where this process listens. It need not be on a host of the job, so what was chosen for those may not be here.
    fn listen(&self) -> Vec<IpAddr> {
        let chosen = self.launch.job.net.place().addresses();
        chosen.or_else(|_| Place::Anywhere.addresses()).unwrap_or_default()
    }

    /// The hosts that get ranks, by their places in the list.
    fn used(&self) -> Vec<u32> {
        let mut used = self.places.clone();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// The command for a host.
    fn command(&self, host: &str) -> Command {
        let mut command = castell_host::remote::on(&self.remote, host);
        command.arg(&self.castell).arg("agent");
        command
    }
}

struct Running<'a> {
    plan: &'a HostsLaunch,
    job: Job,
    has_joined: bool,
    recording: Option<Recording>,
    control: Control,
    signals: Signals,
    hosts: Vec<Host>,
    endings: Vec<Option<Ended>>,
    first_failure: Option<Rank>,
    ended_by: Option<i32>,
    timed_out: bool,
    timeout_at: Option<Instant>,
}

/// The agents see that the launcher is gone; their commands are ended.
impl Drop for Running<'_> {
    fn drop(&mut self) {
        for host in &self.hosts {
            let _ = host.client.signal(libc::SIGKILL);
            let _ = host.client.wait();
        }
    }
}

impl<'a> Running<'a> {
    fn new(plan: &'a HostsLaunch, job: Job, control: Control, signals: Signals) -> Running<'a> {
        Running {
            plan,
            job,
            has_joined: false,
            recording: None,
            control,
            signals,
            hosts: Vec::new(),
            endings: vec![None; plan.places.len()],
            first_failure: None,
            ended_by: None,
            timed_out: false,
            timeout_at: plan.launch.timeout.map(|timeout| Instant::now() + timeout),
        }
    }

    fn start_agents(&mut self, used: &[u32], description: &Description) -> Result<(), LaunchError> {
        let mut pipes = Vec::new();
        for (agent, host) in (1..).zip(used) {
            let name = self.plan.hosts[*host as usize].host.clone();
            let (theirs, ours) = descriptor::pipe()?;
            // Keys on the terminal are passed on by us, not by everybody.
            let mut command = self.plan.command(&name);
            command.process_group(0);
            let birth = Birth {
                parent_death_signal: Some(libc::SIGKILL),
                standard: [Some(theirs.as_raw_fd()), None, None],
                ..Birth::default()
            };
            let failed = |error: castell_host::HostError| HostsError::Remote {
                command: self.plan.remote[0].clone(),
                host: name.clone(),
                source: io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(0)),
            };
            let client = process::spawn(&mut command, &birth).map_err(failed)?;
            let ranks: Vec<Rank> = (0..)
                .map(Rank)
                .zip(&self.plan.places)
                .filter(|(_, place)| *place == host)
                .map(|(rank, _)| rank)
                .collect();
            self.verbose(&format!("host {name} (process {}): {} ranks", client.pid(), ranks.len()));
            let described = Description { agent, ..description.clone() };
            pipes.push((ours, described, ranks.contains(&Rank(0))));
            self.hosts.push(Host { name, client, state: State::Starting, ranks, deserted: None });
        }
        for (pipe, described, gets_input) in pipes {
            let write = move || describe(pipe, described, gets_input);
            let thread = std::thread::Builder::new().name("castell-describe".into()).spawn(write);
            thread.map_err(|source| castell_host::HostError::System {
                what: "start a thread".into(),
                source,
            })?;
        }
        Ok(())
    }

    /// Waits until every agent is there, or says why one is not.
    fn wait_until_ready(&mut self) -> Result<(), LaunchError> {
        let until = Instant::now() + self.plan.patience;
        while self.hosts.iter().any(|host| host.state == State::Starting) || self.is_asking() {
            self.sleep(Some(until))?;
            self.hear()?;
            while let Some(arrived) = self.signals.next() {
                if arrived.signal != libc::SIGUSR1 {
                    self.give_up();
                    return Err(HostsError::Interrupted(signal::name(arrived.signal).to_string()).into());
                }
            }
            if let Some(at) = self.hosts.iter().position(|host| host.state == State::Lost) {
                let host = self.hosts[at].name.clone();
                self.give_up();
                return Err(HostsError::Lost { host }.into());
            }
            self.check_clients()?;
            if Instant::now() >= until {
                return Err(self.silent());
            }
        }
        let processors =
            |host: &Host| if let State::Ready { processors } = host.state { processors } else { 0 };
        let processors = self.hosts.iter().map(processors).fold(0u32, u32::saturating_add);
        for at in 0..self.hosts.len() {
            self.hosts[at].state = State::Running;
            self.order(at, &Order::Start { processors });
        }
        self.verbose(&format!("{} hosts with {processors} processors are ready", self.hosts.len()));
        Ok(())
    }

    /// A command that ended before its agent was there.
    fn check_clients(&mut self) -> Result<(), LaunchError> {
        let ended = |host: &Host| host.state == State::Starting && host.client.has_ended();
        let Some(host) = self.hosts.iter().find(|host| ended(host)) else { return Ok(()) };
        let error = HostsError::Ended {
            host: host.name.clone(),
            command: self.plan.remote[0].clone(),
            castell: self.plan.castell.display().to_string(),
            ended: host.client.wait()?,
        };
        self.give_up();
        Err(error.into())
    }

    fn silent(&mut self) -> LaunchError {
        let is_silent = |at: &usize| self.hosts[*at].state == State::Starting || self.asks(*at);
        let at = (0..self.hosts.len()).find(is_silent).expect("one is missing");
        let addresses = self.plan.listen().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let error = HostsError::Silent {
            host: self.hosts[at].name.clone(),
            seconds: self.plan.patience.as_secs(),
            trouble: self.control.trouble(party(at)),
            addresses,
        };
        self.give_up();
        error.into()
    }

    /// Nothing is to be started after all.
    fn give_up(&mut self) {
        self.order_all(&Order::Terminate);
        self.control.leave(Duration::from_secs(2));
    }

    /// Passes on what is told until no rank is left.
    fn watch(&mut self) -> Result<Outcome, LaunchError> {
        while self.hosts.iter().any(Host::has_more) {
            let running = self.hosts.iter().filter(|host| host.has_more());
            let deserted = running.filter_map(|host| Some(host.deserted? + LAST_WORD_WITHIN));
            let next = deserted.chain(self.timeout_at.filter(|_| !self.timed_out)).min();
            let next = next.into_iter().chain(self.next_question()).min();
            self.sleep(next)?;
            self.hear()?;
            self.ask_meanwhile();
            self.check_deserted();
            while let Some(arrived) = self.signals.next() {
                self.take_signal(arrived);
            }
            if !self.timed_out && self.timeout_at.is_some_and(|at| Instant::now() >= at) {
                self.timed_out = true;
                say("the job took too long: terminating it");
                self.order_all(&Order::Terminate);
            }
        }
        self.wait_for_output()?;
        let endings =
            self.endings.iter().map(|ended| ended.unwrap_or(Ended::Killed(libc::SIGKILL))).collect();
        Ok(Outcome {
            endings,
            first_failure: self.first_failure,
            timed_out: self.timed_out,
            signal: self.ended_by,
        })
    }

    /// Begins to ask for a host's clock, if that is wanted.
    fn begin_series(&mut self, at: usize) {
        if let Some(sent_ns) = self.recording.as_mut().and_then(|all| all.begin(at)) {
            self.order(at, &Order::Clock { sent_ns });
        }
    }

    fn ask_meanwhile(&mut self) {
        for at in 0..self.hosts.len() {
            let Some(recording) = self.recording.as_mut().filter(|_| self.hosts[at].state == State::Running)
            else {
                continue;
            };
            if let Some(sent_ns) = recording.meanwhile(at) {
                self.order(at, &Order::Clock { sent_ns });
            }
        }
    }

    /// When a host that runs is to be asked for its clock.
    fn next_question(&mut self) -> Option<Instant> {
        let recording = self.recording.as_mut()?;
        let running = (0..self.hosts.len()).filter(|at| self.hosts[*at].state == State::Running);
        running.map(|at| recording.next(at)).min()
    }

    fn asks(&self, at: usize) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.is_asking(at))
    }

    fn is_asking(&self) -> bool {
        (0..self.hosts.len()).any(|at| self.asks(at))
    }

    /// Sleeps until somebody says something, a command ends, a signal comes or the time is up.
    fn sleep(&mut self, until: Option<Instant>) -> Result<(), LaunchError> {
        let mut patience_ms = until.map_or(-1, |until| {
            let left = until.saturating_duration_since(Instant::now());
            i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX)
        });
        let mut waiting: Vec<BorrowedFd<'_>> = vec![self.signals.as_fd()];
        let is_watched =
            |host: &&Host| (host.state == State::Starting || host.has_more()) && host.deserted.is_none();
        waiting.extend(self.hosts.iter().filter(is_watched).map(|host| host.client.as_fd()));
        match self.control.arm() {
            None => patience_ms = 0,
            Some(descriptor) => waiting.push(descriptor),
        }
        descriptor::wait_readable(&waiting, patience_ms)?;
        Ok(())
    }

    fn hear(&mut self) -> Result<(), LaunchError> {
        let mut all = self.control.poll().into_iter();
        while let Some(heard) = all.next() {
            let done = match heard {
                Heard::Message(from, bytes) => {
                    // Whoever proves to be an agent is of this version, and says what can be read.
                    Told::from_bytes(&bytes).map_or(Ok(()), |told| self.take(from.index() - 1, told))
                }
                Heard::Down(from, _) => {
                    self.lose(from.index() - 1);
                    Ok(())
                }
            };
            if done.is_err() {
                self.control.put_back(all.collect());
                self.drain();
                return done;
            }
        }
        Ok(())
    }

    fn take(&mut self, at: usize, told: Told) -> Result<(), LaunchError> {
        match told {
            Told::Ready { processors, address } => {
                // That it has no address to be found at shows when its connection breaks.
                let _ = self.control.introduce(party(at), &address);
                self.hosts[at].state = State::Ready { processors };
                self.begin_series(at);
            }
            Told::News(News::Address(rank, _) | News::Gone(rank, _))
                if !self.hosts[at].ranks.contains(&rank) => {}
            Told::News(news) => {
                self.pass_on(at, &Order::News(news.clone()));
                agent::note(&self.job, news);
                if self.job.is_complete() && !std::mem::replace(&mut self.has_joined, true) {
                    self.plan.launch.tell_joined(&self.job);
                }
            }
            Told::Ended(rank, ended) if self.hosts[at].ranks.contains(&rank) => {
                self.endings[rank.index()] = Some(ended);
                if !ended.is_success() {
                    self.fail(rank, at);
                }
            }
            Told::Ended(..) => {}
            Told::Clock { sent_ns, theirs_ns } => {
                let next = self.recording.as_mut().and_then(|all| all.answered(at, sent_ns, theirs_ns));
                match next {
                    Some(sent_ns) => self.order(at, &Order::Clock { sent_ns }),
                    None if self.hosts[at].state == State::Resting => self.order(at, &Order::Leave),
                    None => {}
                }
            }
            Told::Noted(rank, piece) if self.hosts[at].ranks.contains(&rank) => {
                if let Some(recording) = &mut self.recording {
                    recording.keep(rank, &piece);
                }
            }
            Told::Noted(..) => {}
            Told::Resting => {
                self.hosts[at].state = State::Resting;
                self.begin_series(at);
            }
            Told::Failed { why, code } => {
                let host = self.hosts[at].name.clone();
                self.hosts[at].state = State::Done;
                self.order_all(&Order::Terminate);
                return Err(HostsError::Start { host, why, code }.into());
            }
            Told::Done => self.hosts[at].state = State::Done,
        }
        Ok(())
    }

    /// A host could not start its ranks: those of the others are ended before that is said.
    fn drain(&mut self) {
        let until = Instant::now() + self.plan.launch.grace;
        while self.hosts.iter().any(Host::has_more) && Instant::now() < until {
            let _ = self.sleep(Some(until));
            for heard in self.control.poll() {
                let (at, is_last) = match heard {
                    Heard::Message(from, bytes) => (
                        from.index() - 1,
                        matches!(Told::from_bytes(&bytes), Some(Told::Done | Told::Failed { .. })),
                    ),
                    Heard::Down(from, _) => (from.index() - 1, true),
                };
                if is_last {
                    self.hosts[at].state = State::Done;
                }
            }
        }
    }

    /// Agents whose command has ended: if that was their own end, their last word comes soon or never.
    fn check_deserted(&mut self) {
        for at in 0..self.hosts.len() {
            let host = &mut self.hosts[at];
            if !host.has_more() || !host.client.has_ended() {
                continue;
            }
            if host.deserted.get_or_insert_with(Instant::now).elapsed() >= LAST_WORD_WITHIN {
                self.lose(at);
            }
        }
    }

    /// Nothing is heard of an agent any more.
    fn lose(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        match host.state {
            State::Done | State::Lost => return,
            State::Starting | State::Ready { .. } => {
                host.state = State::Lost;
                return;
            }
            State::Running | State::Resting => host.state = State::Lost,
        }
        let lost: Vec<Rank> =
            host.ranks.iter().copied().filter(|rank| self.endings[rank.index()].is_none()).collect();
        say(&format!(
            "host {} is gone: nothing is heard of its agent any more; {} lost with it",
            host.name,
            match &lost[..] {
                [] => "no rank is".to_owned(),
                [rank] => format!("rank {rank} is"),
                [first, .., last] => format!("{} ranks ({first} to {last}) are", lost.len()),
            }
        ));
        let _ = self.hosts[at].client.signal(libc::SIGKILL);
        for rank in lost {
            self.job.mark_dead(rank, Death::Vanished);
            self.pass_on(at, &Order::News(News::Gone(rank, Gone::Died(Death::Vanished))));
            self.fail(rank, at);
        }
    }

    /// A rank has failed: the ranks of other hosts may go on for the grace time. Those of its own are told by their agent.
    fn fail(&mut self, rank: Rank, at: usize) {
        if self.first_failure.is_none() {
            self.first_failure = Some(rank);
            self.pass_on(at, &Order::Failed);
        }
    }

    fn take_signal(&mut self, arrived: Arrived) {
        if arrived.signal != libc::SIGUSR1 {
            self.ended_by.get_or_insert(arrived.signal);
            self.verbose(&format!("{} goes to all hosts", signal::name(arrived.signal)));
        }
        self.order_all(&Order::Signal(arrived.signal));
    }

    fn order(&mut self, at: usize, order: &Order) {
        self.control.say(party(at), order.to_bytes());
    }

    fn order_all(&mut self, order: &Order) {
        for at in 0..self.hosts.len() {
            if matches!(self.hosts[at].state, State::Ready { .. } | State::Running | State::Resting)
                && self.control.is_up(party(at))
            {
                self.order(at, order);
            }
        }
    }

    /// To all hosts but one.
    fn pass_on(&mut self, from: usize, order: &Order) {
        for at in (0..self.hosts.len()).filter(|at| *at != from) {
            if self.hosts[at].state == State::Running {
                self.order(at, order);
            }
        }
    }

    /// All agents are done: what their commands still have to pass on is waited for.
    fn wait_for_output(&mut self) -> Result<(), LaunchError> {
        let until = Instant::now() + LAST_OUTPUT_WITHIN;
        self.control.leave(Duration::from_secs(2));
        for host in self.hosts.iter().filter(|host| host.state == State::Done) {
            let left = until.saturating_duration_since(Instant::now());
            descriptor::wait_readable(&[host.client.as_fd()], left.as_millis() as i32)?;
        }
        Ok(())
    }

    fn verbose(&self, text: &str) {
        if self.plan.launch.verbose {
            say(text);
        }
    }
}

/// The number of the host's agent.
fn party(at: usize) -> Rank {
    Rank(at as u32 + 1)
}

/// Writes the description for an agent; behind it rank 0 gets this process's standard input.
fn describe(pipe: OwnedFd, described: Description, gets_input: bool) {
    let mut pipe = File::from(pipe);
    let body = described.to_bytes();
    let all = [agent::first_line().as_bytes(), &(body.len() as u32).to_le_bytes(), &body].concat();
    let secrets = [&described.control_secret, &described.job_secret];
    let written = pipe.write_all(&all);
    let written = written.and_then(|()| secrets.iter().try_for_each(|secret| pipe.write_all(secret.bytes())));
    // A command that reads nothing ends, or its silence is noticed.
    if written.is_ok() && gets_input {
        let _ = io::copy(&mut io::stdin().lock(), &mut pipe);
    }
}
