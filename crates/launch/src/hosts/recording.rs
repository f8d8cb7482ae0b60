//! What a launcher keeps of a job that notes what it does: what ranks noted, and what the clocks of their hosts said meanwhile.
//!
//! Each agent is asked for its clock in series of questions, the next one when the last was answered: before the ranks start, now and then
//! while they run, and when they have ended. What that says is [`castell_model::clocks`]' to find out.

use super::notes;
use castell_base::Rank;
use castell_host::journal::Noted;
use castell_model::clocks::{ClockMap, RoundTrip};
use std::time::{Duration, Instant};

/// Questions of a series before and after.
const QUESTIONS: u32 = 40;
/// Those of a series meanwhile.
const QUESTIONS_MEANWHILE: u32 = 8;
/// The time to the next series is doubled from one to the next, up to the second of these.
const MEANWHILE_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What was recorded of a job on several hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// By rank.
    pub noted: Vec<Noted>,
    /// The clocks of the hosts that have ranks.
    pub clocks: Vec<HostClock>,
    /// By rank: which of them is its host's.
    pub clock_of: Vec<usize>,
}

/// A host's clock, seen from the launcher's.
#[derive(Clone, Debug, PartialEq)]
pub struct HostClock {
    /// The host.
    pub host: String,
    /// Its times as the launcher's.
    pub map: ClockMap,
    /// From the first to the last answer, on the host's clock.
    pub asked_ns: (u64, u64),
    /// How many answers there were.
    pub answers: usize,
}

impl HostClock {
    /// How far off its times are at most, compared with the launcher's, between the first and the last answer. Nanoseconds.
    pub fn error_ns(&self) -> f64 {
        // The error is greatest at one of the ends.
        self.map.error_ns(self.asked_ns.0).max(self.map.error_ns(self.asked_ns.1))
    }
}

impl Recorded {
    /// How far off times of two hosts are at most when they are compared: the worst pair of hosts. Nanoseconds.
    pub fn error_ns(&self) -> f64 {
        let mut errors: Vec<f64> = self.clocks.iter().map(HostClock::error_ns).collect();
        errors.sort_by(|a, b| b.total_cmp(a));
        if errors.len() < 2 { 0.0 } else { errors[0] + errors[1] }
    }

    /// A time of a rank's clock on the launcher's.
    pub fn to_own(&self, rank: Rank, theirs_ns: u64) -> u64 {
        self.clocks[self.clock_of[rank.index()]].map.to_own(theirs_ns)
    }
}

/// What is known so far.
pub(super) struct Recording {
    pieces: Vec<Vec<u8>>,
    hosts: Vec<Asked>,
}

/// One host's answers.
struct Asked {
    round_trips: Vec<RoundTrip>,
    /// When the question left that is not answered yet.
    open: Option<u64>,
    /// How many more are asked in this series.
    left: u32,
    next: Option<Instant>,
    pause: Duration,
}

impl Recording {
    pub(super) fn new(ranks: usize, hosts: usize) -> Recording {
        let asked =
            || Asked { round_trips: Vec::new(), open: None, left: 0, next: None, pause: MEANWHILE_EVERY.0 };
        Recording { pieces: vec![Vec::new(); ranks], hosts: (0..hosts).map(|_| asked()).collect() }
    }

    /// A piece of what a rank noted.
    pub(super) fn keep(&mut self, rank: Rank, piece: &[u8]) {
        self.pieces[rank.index()].extend_from_slice(piece);
    }

    /// Begins a series, before or after: when the question leaves, if one may.
    pub(super) fn begin(&mut self, host: usize) -> Option<u64> {
        self.series(host, QUESTIONS)
    }

    fn series(&mut self, host: usize, questions: u32) -> Option<u64> {
        let asked = &mut self.hosts[host];
        asked.left = asked.left.max(questions);
        if asked.open.is_some() { None } else { self.ask(host) }
    }

    fn ask(&mut self, host: usize) -> Option<u64> {
        let asked = &mut self.hosts[host];
        asked.left = asked.left.checked_sub(1)?;
        asked.open = Some(castell_host::clock::now_ns());
        asked.open
    }

    /// An answer: when the next question leaves, if there is one.
    pub(super) fn answered(&mut self, host: usize, sent_ns: u64, theirs_ns: u64) -> Option<u64> {
        let back_ns = castell_host::clock::now_ns();
        let asked = &mut self.hosts[host];
        if asked.open != Some(sent_ns) {
            return None;
        }
        asked.open = None;
        asked.round_trips.push(RoundTrip { sent_ns, theirs_ns, back_ns });
        self.ask(host)
    }

    /// Whether a series is under way.
    pub(super) fn is_asking(&self, host: usize) -> bool {
        self.hosts[host].open.is_some()
    }

    /// When the host is to be asked again, while its ranks run.
    pub(super) fn next(&mut self, host: usize) -> Instant {
        let asked = &mut self.hosts[host];
        *asked.next.get_or_insert_with(|| Instant::now() + asked.pause)
    }

    /// Begins a series meanwhile, if it is time: when the question leaves, if one may.
    pub(super) fn meanwhile(&mut self, host: usize) -> Option<u64> {
        if Instant::now() < self.next(host) {
            return None;
        }
        let asked = &mut self.hosts[host];
        asked.pause = (asked.pause * 2).min(MEANWHILE_EVERY.1);
        asked.next = Some(Instant::now() + asked.pause);
        self.series(host, QUESTIONS_MEANWHILE)
    }

    /// What it comes to. What was noted on a host that was lost is lost with it.
    pub(super) fn finish(self, names: &[String], clock_of: Vec<usize>) -> Recorded {
        let noted = self.pieces.iter().map(|bytes| notes::from_bytes(bytes).unwrap_or_default()).collect();
        let clock = |(asked, host): (Asked, &String)| {
            let theirs = asked.round_trips.iter().map(|trip| trip.theirs_ns);
            let asked_ns = (theirs.clone().min().unwrap_or(0), theirs.max().unwrap_or(0));
            // Ranks start when there are answers.
            let map = ClockMap::of(&asked.round_trips).unwrap_or_else(ClockMap::same);
            HostClock { host: host.clone(), map, asked_ns, answers: asked.round_trips.len() }
        };
        let clocks = self.hosts.into_iter().zip(names).map(clock).collect();
        Recorded { noted, clocks, clock_of }
    }
}
