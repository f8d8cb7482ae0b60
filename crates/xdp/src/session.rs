//! A rank's schedule in the kernel, and its runs.

use crate::compile::{Channel, Compiled};
use crate::error::XdpError;
use crate::interface::{Interface, Shared, Taken};
use crate::layout::{self, FULL, KICKED, KNOWS, RECEIVES, RUNS, SCHEDULES_MAX, SENDS_MAX, SENDS_TO};
use crate::wire::{self, HEAD_BYTES, Kind, Message, Way};
use castell_base::{Rank, Tag};
use castell_esp::Mac;
use castell_host::epoll;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Requests that are sent at once.
const REQUESTS_MAX: usize = 64;
/// A destination is asked how far it is when it is known to be so many runs behind, so that nobody has to wait for its answer.
const ASK_AT: u32 = RUNS as u32 / 2;
/// So many runs has a session: frames tell them apart by 32 bits, and room is left for what is said of the runs to come.
pub const RUNS_END: u32 = u32::MAX - 2 * RUNS as u32 + 1;

/// For how long who leaves waits for peers that say nothing.
const LINGER: Duration = Duration::from_millis(500);

/// Who takes part.
#[derive(Clone, Debug)]
pub struct Group {
    /// This rank.
    pub me: Rank,
    /// The number of the session, which all ranks know and nobody else: 64 random bits. One schedule, one number.
    pub session: u64,
    /// The others' hardware addresses.
    pub macs: Vec<(Rank, Mac)>,
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Looking at the word again and again before this process sleeps; nothing where it has one processor.
    pub spin: Duration,
    /// Before what is missing is asked for; twice as long each time.
    pub request: Duration,
    /// Before a peer is given up that says nothing.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            spin: Duration::from_micros(20),
            request: Duration::from_millis(2),
            silence: Duration::from_secs(5),
        }
    }
}

/// A run that was started: the how-many-th of its session, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run(pub u32);

/// When a run began and ended on this host, on the kernel's monotonic clock, ns: one clock for all namespaces of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamps {
    /// The process had it begin.
    pub armed_ns: u64,
    /// The last operation was through.
    pub completed_ns: u64,
}

/// A rank's schedule, in the kernel for as long as this lives.
pub struct Session {
    shared: Arc<Shared>,
    place: usize,
    group: Group,
    compiled: Compiled,
    patience: Patience,
    frame_bytes: usize,
    /// Each peer's address.
    macs: Vec<Mac>,
    /// Peers that messages go to, as they are numbered among the peers.
    destinations: Vec<u32>,
    next: u32,
    /// No run gets this number, or a larger one.
    end: u32,
    /// How often what was missing was asked for.
    attempts: u16,
    epoll: OwnedFd,
    bell: Arc<OwnedFd>,
    frame: Vec<u8>,
}

impl Session {
    /// Puts the schedule into the kernel. From here on it takes messages of the group's, also of runs that are started later.
    ///
    /// # Errors
    /// There is no room for it, its messages are too long for the interface, or a peer's address is missing.
    pub fn new(
        interface: &Interface,
        compiled: Compiled,
        group: Group,
        patience: Patience,
    ) -> Result<Session, XdpError> {
        let shared = Arc::clone(&interface.shared);
        let name = || shared.name.clone();
        let fits = (shared.mtu_bytes + 14).saturating_sub(HEAD_BYTES);
        if compiled.message_bytes_max > fits {
            return Err(XdpError::Mtu { interface: name(), bytes: compiled.message_bytes_max, max: fits });
        }
        let mac_of = |rank: &Rank| {
            let found = group.macs.iter().find(|(other, _)| other == rank);
            found.map(|(_, mac)| *mac).ok_or(XdpError::Unknown(*rank))
        };
        let macs = compiled.peers.iter().map(mac_of).collect::<Result<Vec<Mac>, XdpError>>()?;
        let system = |what| {
            move |error: rustix::io::Errno| XdpError::System {
                interface: interface.shared.name.clone(),
                what,
                error: error.into(),
            }
        };
        let epoll = epoll::epoll().map_err(system("make an epoll"))?;
        let taken = shared.take_place().map_err(system("make an eventfd"))?;
        let Taken { at: place, bell, used } =
            taken.ok_or_else(|| XdpError::Full { interface: name(), max: SCHEDULES_MAX })?;
        let mut destinations: Vec<u32> = compiled
            .channels
            .iter()
            .filter(|channel| !channel.is_inbound)
            .map(|channel| channel.peer)
            .collect();
        destinations.sort_unstable();
        destinations.dedup();
        let frame_bytes = (HEAD_BYTES + compiled.message_bytes_max).max(wire::FRAME_BYTES_MIN);
        let session = Session {
            place,
            group,
            patience,
            frame_bytes,
            macs,
            destinations,
            next: 0,
            end: RUNS_END,
            attempts: 0,
            epoll,
            bell,
            frame: Vec::new(),
            compiled,
            shared: Arc::clone(&interface.shared),
        };
        // From here on dropping it takes everything back.
        let failed = system("watch for the kernel's events");
        session
            .shared
            .kernel
            .watch_events(&session.epoll, 0)
            .and_then(|()| epoll::watch(&session.epoll, &*session.bell, 1, false))
            .map_err(failed)?;
        session.write_schedule();
        session.clear_runs(used);
        session.enter()?;
        Ok(session)
    }

    fn write_schedule(&self) {
        let (kernel, place) = (&self.shared.kernel, self.place);
        for (at, step) in self.compiled.steps.iter().enumerate() {
            let words = kernel.steps.words(place, 4 * layout::STEP_WORDS * at, layout::STEP_WORDS);
            words.iter().zip(step.words()).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        }
        let edges = kernel.edges.words(place, 0, self.compiled.edges.len());
        edges.iter().zip(&self.compiled.edges).for_each(|(to, edge)| to.store(*edge, Ordering::Relaxed));
        for (at, channel) in self.compiled.channels.iter().enumerate() {
            let words = kernel.channels.words(place, 4 * layout::CHANNEL_WORDS * at, layout::CHANNEL_WORDS);
            let Channel { base, count, peer, stride, data, tag, .. } = *channel;
            words
                .iter()
                .zip([base, count, peer, stride, data, tag.0])
                .for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        }
        let schedules = &kernel.schedules;
        schedules.write(place, 0, &[0; layout::schedule::BYTES]);
        schedules.long(place, layout::schedule::SESSION).store(self.group.session, Ordering::Relaxed);
        for (at, word) in [
            (layout::schedule::ME, self.group.me.0),
            (layout::schedule::OPERATIONS, self.compiled.steps.len() as u32),
            (layout::schedule::FRAME_BYTES, self.frame_bytes as u32),
            (layout::schedule::REDIRECTS, self.shared.redirects.into()),
        ] {
            schedules.word(place, at).store(word, Ordering::Relaxed);
        }
        schedules.write(place, layout::schedule::MAC, &self.shared.mac.0);
        for (at, (rank, mac)) in self.compiled.peers.iter().zip(&self.macs).enumerate() {
            let value = layout::schedule::PEERS + at * layout::peer::BYTES;
            schedules.write(place, value + layout::peer::MAC, &mac.0);
            schedules.word(place, value + layout::peer::RANK).store(rank.0, Ordering::Relaxed);
        }
    }

    /// Runs as they were before any schedule was here. The words of messages tell which runs they are of.
    fn clear_runs(&self, [inbound, outbound]: [usize; 2]) {
        let runs = &self.shared.kernel.runs;
        for run in self.place * RUNS..(self.place + 1) * RUNS {
            runs.write(run, 0, &[0; layout::run::INBOUND]);
            (0..inbound)
                .for_each(|at| runs.long(run, layout::run::INBOUND + 8 * at).store(0, Ordering::Relaxed));
            (0..outbound)
                .for_each(|at| runs.long(run, layout::run::OUTBOUND + 8 * at).store(0, Ordering::Relaxed));
        }
    }

    /// How many messages come and go in a run.
    fn messages(&self) -> [usize; 2] {
        [true, false].map(|is_inbound| {
            let channels = self.compiled.channels.iter().filter(|channel| channel.is_inbound == is_inbound);
            channels.map(|channel| channel.count as usize).sum()
        })
    }

    /// What finds the schedule and its parts: all of it, or nothing any more.
    fn entries(&self, is_there: bool) -> Result<(), XdpError> {
        let (kernel, place) = (&self.shared.kernel, self.place as u32);
        let mut outcome = Ok(());
        let mut note = |done: Result<(), XdpError>| {
            if outcome.is_ok() {
                outcome = done
            }
        };
        for (at, rank) in (0..).zip(&self.compiled.peers) {
            note(kernel.enter([place, rank.0, 0, KNOWS], is_there.then_some(at)));
        }
        for (at, channel) in (0..).zip(&self.compiled.channels) {
            let direction = if channel.is_inbound { RECEIVES } else { SENDS_TO };
            let rank = self.compiled.peers[channel.peer as usize];
            note(kernel.enter([place, rank.0, channel.tag.0, direction], is_there.then_some(at)));
        }
        outcome
    }

    fn enter(&self) -> Result<(), XdpError> {
        self.entries(true)?;
        self.shared.kernel.enter_session(self.group.session, self.group.me.0, Some(self.place as u32))
    }

    /// How many peers messages go to.
    pub fn destinations(&self) -> usize {
        self.destinations.len()
    }

    fn slot(&self, run: u32) -> usize {
        self.place * RUNS + run as usize % RUNS
    }

    /// For tests: as if run `end` were the one behind the last that can be told apart.
    #[doc(hidden)]
    pub fn ends_before(&mut self, end: u32) {
        self.end = end;
    }

    /// For tests: as if all runs before this one had been, here and at the peers. Before the first is started.
    #[doc(hidden)]
    pub fn begins_at(&mut self, run: u32) {
        let schedules = &self.shared.kernel.schedules;
        for before in run.saturating_sub(RUNS as u32)..run {
            self.completed(before).store(u64::from(before) + 1, Ordering::Relaxed);
        }
        for peer in 0..self.macs.len() {
            let at = layout::schedule::PEERS + peer * layout::peer::BYTES + layout::peer::ACKNOWLEDGED;
            schedules.word(self.place, at).store(run, Ordering::Relaxed);
        }
        schedules.long(self.place, layout::schedule::DONE).store(run.into(), Ordering::Release);
        self.next = run;
    }

    /// Starts the next run, with these bytes at the start of its scratchpad. Up to [`RUNS`] may be under way; where that many are, the first of
    /// them is waited for.
    ///
    /// # Errors
    /// As [`Session::wait`].
    pub fn start(&mut self, input: &[u8]) -> Result<Run, XdpError> {
        let run = self.next;
        if run >= self.end {
            return Err(XdpError::Exhausted);
        }
        if let Some(before) = run.checked_sub(RUNS as u32) {
            self.wait(Run(before))?;
            self.wait_for_destinations(before + 1, self.patience.silence)?;
        }
        self.ask_destinations(run);
        self.next += 1;
        self.prepare(run, input);
        self.look(run, true)?;
        Ok(Run(run))
    }

    /// Everything of the run, but that it begins.
    fn prepare(&self, run: u32, input: &[u8]) {
        let (runs, slot) = (&self.shared.kernel.runs, self.slot(run));
        let set = |at: usize, words: usize, value: &dyn Fn(usize) -> u32| {
            runs.words(slot, at, words)
                .iter()
                .enumerate()
                .for_each(|(at, word)| word.store(value(at), Ordering::Relaxed));
        };
        let operations = self.compiled.steps.len();
        set(layout::run::COUNTERS, operations, &|at| self.compiled.steps[at].needs);
        set(layout::run::NUMBERS, self.compiled.channels.len(), &|_| 0);
        set(layout::run::WAITING, self.messages()[0], &|_| 0);
        assert!(
            input.len() <= self.compiled.scratchpad_bytes,
            "{} bytes into a scratchpad of {}",
            input.len(),
            self.compiled.scratchpad_bytes
        );
        self.shared.kernel.memories.write(slot, layout::memory::SCRATCH, input);
        runs.long(slot, layout::run::NUMBER).store(run.into(), Ordering::Relaxed);
        runs.long(slot, layout::run::ERROR).store(0, Ordering::Relaxed);
        runs.word(slot, layout::run::UNFINISHED).store(operations as u32, Ordering::Relaxed);
        // Whoever owned the run before has let its ring run empty.
        let tail = runs.word(slot, layout::run::TAIL).load(Ordering::Relaxed);
        let ring = runs.words(slot, layout::run::RING, layout::OPERATIONS_MAX);
        for operation in 0..self.compiled.independent {
            ring[tail.wrapping_add(operation) as usize % layout::OPERATIONS_MAX]
                .store(operation, Ordering::Relaxed);
        }
        runs.word(slot, layout::run::TAIL)
            .store(tail.wrapping_add(self.compiled.independent), Ordering::Release);
    }

    /// Has the kernel look at a run, and sends what that brings forth.
    fn look(&mut self, run: u32, mut begins: bool) -> Result<(), XdpError> {
        let slot = self.slot(run);
        loop {
            if !self.shared.kernel.look(self.place, run, begins)? {
                // Another processor is at it, and sends.
                return Ok(());
            }
            begins = false;
            let shared = Arc::clone(&self.shared);
            let runs = &shared.kernel.runs;
            let sends = runs.word(slot, layout::run::SENDS).load(Ordering::Acquire) as usize;
            for word in &runs.words(slot, layout::run::SENT, SENDS_MAX)[..sends] {
                let word = word.load(Ordering::Relaxed);
                self.send(run, (word >> 16) as usize, word & 0xffff);
            }
            let waits = runs.long(slot, layout::run::PENDING).load(Ordering::Acquire) & KICKED != 0;
            if sends < SENDS_MAX || !waits {
                return Ok(());
            }
        }
    }

    fn way(&self, peer: u32) -> Way {
        Way {
            session: self.group.session,
            from: (self.group.me, self.shared.mac),
            to: (self.compiled.peers[peer as usize], self.macs[peer as usize]),
            done: self.done() as u32,
        }
    }

    /// So many runs, from the first on, are through.
    fn done(&self) -> u64 {
        self.shared.kernel.schedules.long(self.place, layout::schedule::DONE).load(Ordering::Acquire)
    }

    fn acknowledged(&self, peer: u32) -> u32 {
        let at = layout::schedule::PEERS + peer as usize * layout::peer::BYTES + layout::peer::ACKNOWLEDGED;
        self.shared.kernel.schedules.word(self.place, at).load(Ordering::Acquire)
    }

    fn heard_ns(&self, peer: u32) -> u64 {
        let at = layout::schedule::PEERS + peer as usize * layout::peer::BYTES + layout::peer::HEARD_NS;
        self.shared.kernel.schedules.long(self.place, at).load(Ordering::Relaxed)
    }

    /// A message that lies in the outbox. What the system does not take is lost, and asked for.
    fn send(&mut self, run: u32, channel: usize, number: u32) {
        let Channel { base, peer, stride, data, tag, .. } = self.compiled.channels[channel];
        let (slot, way) = (self.slot(run), self.way(peer));
        let kernel = &self.shared.kernel;
        let bytes = kernel.runs.words(slot, layout::run::OUTBOUND_BYTES, layout::OPERATIONS_MAX)
            [(base + number) as usize]
            .load(Ordering::Relaxed);
        let message = Message { tag, run, number: number as u16, attempt: 0 };
        let payload =
            wire::write(&mut self.frame, Kind::Data, &way, &message, bytes as usize, self.frame_bytes);
        kernel.memories.read(slot, layout::memory::OUTBOX + (data + number * stride) as usize, payload);
        self.transmit();
    }

    /// What the system does not take is lost, as frames are.
    fn transmit(&self) {
        if let Some(socket) = &self.shared.socket {
            let _ = socket.send(&self.frame);
        }
    }

    fn ask(&mut self, kind: Kind, peer: u32, message: &Message) {
        let way = self.way(peer);
        wire::write(&mut self.frame, kind, &way, message, 0, self.frame_bytes);
        self.transmit();
    }

    /// Those that may be far behind are asked in time.
    fn ask_destinations(&mut self, run: u32) {
        for at in 0..self.destinations.len() {
            let peer = self.destinations[at];
            if run.is_multiple_of(2) && run.saturating_sub(self.acknowledged(peer)) >= ASK_AT {
                self.ask(Kind::Query, peer, &Message::default());
            }
        }
    }

    /// Until all that messages go to have had those of the runs before.
    fn wait_for_destinations(&mut self, run: u32, patience: Duration) -> Result<(), XdpError> {
        for at in 0..self.destinations.len() {
            let peer = self.destinations[at];
            let (mut silence, mut pause) = (Silence::new(self, peer), Duration::from_micros(50));
            while self.acknowledged(peer) < run {
                self.ask(Kind::Query, peer, &Message::default());
                std::thread::sleep(pause);
                pause = (2 * pause).min(Duration::from_millis(20));
                silence.look(self, run, patience)?;
            }
        }
        Ok(())
    }

    fn completed(&self, run: u32) -> &AtomicU64 {
        self.shared.kernel.runs.long(self.slot(run), layout::run::COMPLETED)
    }

    /// Whether a run has ended.
    pub fn has_ended(&self, run: Run) -> bool {
        self.completed(run.0).load(Ordering::Acquire) > u64::from(run.0)
    }

    /// Whether a run has ended; one that stands still, because it has more to send at once than one frame brings forth, is carried on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn poll(&mut self, run: Run) -> Result<bool, XdpError> {
        let pending =
            self.shared.kernel.runs.long(self.slot(run.0), layout::run::PENDING).load(Ordering::Acquire);
        if pending & KICKED != 0 && !self.has_ended(run) {
            self.look(run.0, false)?;
        }
        Ok(self.has_ended(run))
    }

    /// Waits until a run has ended: looks for a moment, then sleeps. What got lost is asked for meanwhile.
    ///
    /// # Errors
    /// A peer says nothing for too long; a message had another size than its receive.
    pub fn wait(&mut self, run: Run) -> Result<(), XdpError> {
        if self.shared.spins && !self.patience.spin.is_zero() {
            let start = Instant::now();
            while start.elapsed() < self.patience.spin {
                if self.has_ended(run) {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        let shared = Arc::clone(&self.shared);
        let sleeping = shared.kernel.schedules.long(self.place, layout::schedule::SLEEPING);
        let outcome = self.sleep_until_ended(run, sleeping);
        sleeping.store(0, Ordering::Relaxed);
        outcome
    }

    fn sleep_until_ended(&mut self, run: Run, sleeping: &AtomicU64) -> Result<(), XdpError> {
        let mut silences: Vec<Silence> =
            (0..self.macs.len() as u32).map(|peer| Silence::new(self, peer)).collect();
        let mut pause = self.patience.request;
        let mut request_at = Instant::now() + pause;
        loop {
            // Either the kernel sees that somebody sleeps, or this sees the end.
            sleeping.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.poll(run)? {
                return Ok(());
            }
            self.look_for_errors(run)?;
            let mut tokens = Vec::new();
            epoll::wait(&self.epoll, &mut tokens, Some(request_at.saturating_duration_since(Instant::now())));
            if tokens.contains(&0) {
                self.shared.hear(self.place);
            }
            if tokens.contains(&1) {
                let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
            }
            if !self.has_ended(run) && Instant::now() >= request_at {
                pause = (2 * pause).min(Duration::from_millis(64));
                request_at = Instant::now() + pause;
                self.look(run.0, false)?;
                for peer in self.request(run.0) {
                    silences[peer as usize].look(self, run.0, self.patience.silence)?;
                }
            }
        }
    }

    fn look_for_errors(&self, run: Run) -> Result<(), XdpError> {
        let error =
            self.shared.kernel.runs.long(self.slot(run.0), layout::run::ERROR).load(Ordering::Relaxed);
        if error == 0 { Ok(()) } else { Err(XdpError::Size { run: run.0, bytes: (error >> 32) as u32 }) }
    }

    /// Asks for what the run waits for; gives the peers that were asked.
    fn request(&mut self, run: u32) -> Vec<u32> {
        let shared = Arc::clone(&self.shared);
        let (runs, slot) = (&shared.kernel.runs, self.slot(run));
        let waiting = runs.words(slot, layout::run::WAITING, layout::OPERATIONS_MAX);
        let mut missing = Vec::new();
        for channel in self.compiled.channels.iter().filter(|channel| channel.is_inbound) {
            for number in 0..channel.count {
                let at = (channel.base + number) as usize;
                let word = runs.long(slot, layout::run::INBOUND + 8 * at).load(Ordering::Acquire);
                if waiting[at].load(Ordering::Relaxed) != 0
                    && word != 4 * u64::from(run) + FULL
                    && missing.len() < REQUESTS_MAX
                {
                    missing.push((
                        channel.peer,
                        Message { tag: channel.tag, run, number: number as u16, attempt: self.attempts },
                    ));
                }
            }
        }
        self.attempts = self.attempts.wrapping_add(1);
        for (peer, message) in &missing {
            self.ask(Kind::Request, *peer, message);
        }
        missing.into_iter().map(|(peer, _)| peer).collect()
    }

    /// What a run that has ended left in its scratchpad, from its start. It lies there until as many more runs are started as may be under way.
    pub fn read(&self, run: Run, into: &mut [u8]) {
        self.shared.kernel.memories.read(self.slot(run.0), layout::memory::SCRATCH, into);
    }

    /// A message that this rank has sent in a run, as it lies there for who asks for it once more: the `number`th to that rank with that tag.
    pub fn sent(&self, run: Run, to: Rank, tag: Tag, number: u32) -> Option<Vec<u8>> {
        let is_it = |channel: &&Channel| {
            !channel.is_inbound && channel.tag == tag && self.compiled.peers[channel.peer as usize] == to
        };
        let channel = self.compiled.channels.iter().find(is_it).filter(|channel| number < channel.count)?;
        let (runs, slot, at) = (&self.shared.kernel.runs, self.slot(run.0), (channel.base + number) as usize);
        let word = runs.long(slot, layout::run::OUTBOUND + 8 * at).load(Ordering::Acquire);
        let bytes = runs.word(slot, layout::run::OUTBOUND_BYTES + 4 * at).load(Ordering::Relaxed);
        let mut message = vec![0; bytes as usize];
        self.shared.kernel.memories.read(
            slot,
            layout::memory::OUTBOX + (channel.data + number * channel.stride) as usize,
            &mut message,
        );
        (word == 4 * u64::from(run.0) + FULL).then_some(message)
    }

    /// When a run that has ended began and ended.
    pub fn stamps(&self, run: Run) -> Stamps {
        let at = |offset| self.shared.kernel.runs.long(self.slot(run.0), offset).load(Ordering::Acquire);
        Stamps { armed_ns: at(layout::run::ARMED_NS), completed_ns: at(layout::run::COMPLETED_NS) }
    }

    /// Waits until all runs have ended here, and all that messages went to have had them, or are gone: nobody asks for anything any more then.
    ///
    /// # Errors
    /// As [`Session::wait`].
    pub fn finish(&mut self) -> Result<(), XdpError> {
        for run in self.next.saturating_sub(RUNS as u32)..self.next {
            self.wait(Run(run))?;
        }
        let outcome = self.wait_for_destinations(self.next, self.patience.silence.min(LINGER));
        // Who was asked leaves when it has all that it was sent, so silence means that.
        match outcome {
            Err(XdpError::Silent { .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
        for peer in 0..self.macs.len() as u32 {
            self.ask(Kind::Done, peer, &Message::default());
        }
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // What is not there any more need not be taken away.
        let _ = self.shared.kernel.enter_session(self.group.session, self.group.me.0, None);
        let _ = self.entries(false);
        self.shared.give_place_back(self.place, self.messages());
    }
}

/// For how long a peer has said nothing while it was asked.
struct Silence {
    peer: u32,
    heard_ns: u64,
    since: Instant,
}

impl Silence {
    fn new(session: &Session, peer: u32) -> Silence {
        Silence { peer, heard_ns: session.heard_ns(peer), since: Instant::now() }
    }

    fn look(&mut self, session: &Session, run: u32, patience: Duration) -> Result<(), XdpError> {
        let heard_ns = session.heard_ns(self.peer);
        if heard_ns != self.heard_ns {
            (self.heard_ns, self.since) = (heard_ns, Instant::now());
        }
        let silent = self.since.elapsed();
        if silent < patience {
            return Ok(());
        }
        let peer = session.compiled.peers[self.peer as usize];
        Err(XdpError::Silent { run, peer, silent_s: silent.as_secs_f64() })
    }
}
