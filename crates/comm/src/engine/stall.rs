//! Who waits for whom, in words: after long silence, or when somebody asks.

use super::core::{Core, Engine};
use super::run::RunRef;
use super::straight::Waiting;
use crate::job::Job;
use castell_base::Rank;
use castell_goal::schedule::OpId;
use castell_host::clock;
use std::fmt::Write;
use std::sync::Arc;

/// Lines a rank prints at most.
const LINES_MAX: usize = 16;

/// How long nothing has moved, and what was said about it.
#[derive(Default)]
pub(super) struct Silence {
    /// Since when; 0: something moved since it was last looked at.
    since_ns: u64,
    reported: bool,
    requests_seen: u32,
}

impl Silence {
    /// Something moved.
    #[inline]
    pub(super) fn moved(&mut self) {
        self.since_ns = 0;
        self.reported = false;
    }

    /// A run starts: requests from before do not concern it if it is the only one.
    pub(super) fn run_starts(&mut self, job: &Job, alone: bool) {
        self.moved();
        if alone {
            self.requests_seen = job.stall_requests();
        }
    }
}

impl Engine {
    /// Looks after what nobody rings for: peers that die unwatched, and long silence.
    pub(super) fn look_around(&mut self) {
        let job = Arc::clone(&self.core.job);
        self.core.liveness.look(&job, self.core.me);
        self.core.compare_calls();
        let now = clock::now_ns();
        let silence = &mut self.core.liveness.silence;
        if silence.since_ns == 0 {
            silence.since_ns = now;
        }
        let (stall_ms, silent_ms) = (u64::from(job.stall_ms()), (now - silence.since_ns) / 1_000_000);
        if self.report_if_asked() {
            return;
        }
        let going_on = self.core.going_on();
        let silence = &mut self.core.liveness.silence;
        if stall_ms > 0 && silent_ms >= stall_ms && !silence.reported && going_on > 0 {
            silence.reported = true;
            let waits = self.core.waits();
            // Who only sleeps waits for nobody.
            let is_waiting = !waits.is_empty() || self.core.waiting.is_some();
            if is_waiting || !self.core.calculations.is_any() {
                let why = format!("nothing moved for {} s", silent_ms as f64 / 1000.0);
                eprint!("{}", self.core.print_waits(&why, &waits));
            }
        }
    }

    /// Prints who waits for whom if somebody asked since the last time.
    pub(super) fn report_if_asked(&mut self) -> bool {
        let requests = self.core.job.stall_requests();
        let silence = &mut self.core.liveness.silence;
        let asked = requests != silence.requests_seen;
        if asked {
            silence.requests_seen = requests;
            let waits = self.core.waits();
            eprint!("{}", self.core.print_waits("asked who waits for whom", &waits));
        }
        asked
    }
}

impl Core {
    /// What this rank waits for: operations, and for whom each of them waits.
    fn waits(&mut self) -> Vec<(RunRef, OpId, String)> {
        let mut waits: Vec<(RunRef, OpId, String)> = Vec::new();
        let posted: Vec<_> =
            self.matcher.posted().map(|(pattern, at)| (at.run, at.op, pattern.source)).collect();
        for (run, op, source) in posted.into_iter().filter(|(run, ..)| *run != RunRef::NONE) {
            let whom = match source {
                Some(source) => format!("waits for rank {source}{}", self.standing(source)),
                None => "waits for any rank".to_string(),
            };
            waits.push((run, op, whom));
        }
        for (run, op, source) in self.shared_waits() {
            waits.push((run, op, format!("waits for rank {source}{}", self.standing(source))));
        }
        for &(run, op) in &self.deferred {
            waits.push((run, op, "waits for what its function has started".to_owned()));
        }
        let transfers: Vec<_> = self.transfers.waits().collect();
        for (run, op, peer) in transfers {
            waits.push((run, op, format!("large message under way with rank {peer}{}", self.standing(peer))));
        }
        for rank in self.blocked.clone() {
            let standing = self.standing(rank);
            let items = self.peer(rank).pending.iter();
            let ops: Vec<_> = items.filter_map(|item| item.operation()).collect();
            let whom = format!("no room in the receive queue of rank {rank}{standing}");
            waits.extend(ops.into_iter().map(|(run, op)| (run, op, whom.clone())));
        }
        waits
    }

    /// A line for each operation that waits: rank, operation, label, peer, tag.
    fn print_waits(&mut self, why: &str, waits: &[(RunRef, OpId, String)]) -> String {
        let going_on = self.going_on();
        let runs = if going_on == 1 { "1 run".to_string() } else { format!("{going_on} runs") };
        let mut text = format!("castell: rank {}: {why}; {} going on\n", self.me, runs);
        if let Some(Waiting { operation, peer }) = &self.waiting {
            let standing = self.standing(*peer);
            let _ =
                writeln!(text, "castell: rank {}:   `{operation}` waits for rank {peer}{standing}", self.me);
        }
        for (run, op, whom) in waits.iter().take(LINES_MAX) {
            if self.run(*run).is_some() {
                let operation = self.describe(*run, *op);
                let _ = writeln!(text, "castell: rank {}:   `{operation}` {whom}", self.me);
            }
        }
        if waits.len() > LINES_MAX {
            let _ = writeln!(text, "castell: rank {}:   … and {} more", self.me, waits.len() - LINES_MAX);
        }
        if waits.is_empty() && self.waiting.is_none() && self.calculations.is_any() {
            let _ = writeln!(text, "castell: rank {}:   computes or sleeps", self.me);
        }
        text
    }

    /// Runs, and the call that the thread that drives waits for.
    fn going_on(&self) -> usize {
        self.running + usize::from(self.waiting.is_some())
    }

    fn standing(&self, rank: Rank) -> &'static str {
        match self.job.control(rank).state() {
            crate::job::RankState::Unborn => " (has not started)",
            crate::job::RankState::Alive => "",
            crate::job::RankState::Finished => " (has left)",
            crate::job::RankState::Dead(_) => " (is dead)",
        }
    }
}
