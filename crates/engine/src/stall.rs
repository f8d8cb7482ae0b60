//! Who waits for whom, in words: after long silence, or when somebody asks.

use super::describe::describe;
use super::liveness::Waiting;
use super::messages::Wait;
use super::runs::RunRef;
use super::turn::Engine;
use castell_base::Rank;
use castell_goal::schedule::OpId;
use castell_host::clock;
use std::fmt::Write;
use std::sync::Arc;

/// Lines a rank prints at most.
const LINES_MAX: usize = 16;

impl Engine {
    /// Looks after what nobody rings for: peers that die unwatched, and long silence.
    pub(super) fn look_around(&mut self) {
        let job = Arc::clone(&self.messages.job);
        self.liveness.look(&job, self.messages.me);
        self.runs.compare_calls(&mut self.messages);
        let now = clock::now_ns();
        let silence = &mut self.liveness.silence;
        if silence.since_ns == 0 {
            silence.since_ns = now;
        }
        let (stall_ms, silent_ms) = (u64::from(job.stall_ms()), (now - silence.since_ns) / 1_000_000);
        if self.report_if_asked() {
            return;
        }
        let going_on = self.going_on();
        let silence = &mut self.liveness.silence;
        if stall_ms > 0 && silent_ms >= stall_ms && !silence.reported && going_on > 0 {
            silence.reported = true;
            let waits = self.waits();
            // Who only sleeps waits for nobody.
            let is_waiting = !waits.is_empty() || self.waiting.is_some();
            if is_waiting || !self.runs.calculations.is_any() {
                let why = format!("nothing moved for {} s", silent_ms as f64 / 1000.0);
                castell_host::say::raw(&self.print_waits(&why, &waits));
            }
        }
    }

    /// Prints who waits for whom if somebody asked since the last time.
    pub(super) fn report_if_asked(&mut self) -> bool {
        let requests = self.messages.job.stall_requests();
        let silence = &mut self.liveness.silence;
        let asked = requests != silence.requests_seen;
        if asked {
            silence.requests_seen = requests;
            let waits = self.waits();
            castell_host::say::raw(&self.print_waits("asked who waits for whom", &waits));
        }
        asked
    }
}

impl Engine {
    /// What this rank waits for: operations, and for whom each of them waits.
    fn waits(&mut self) -> Vec<(RunRef, OpId, String)> {
        let mut waits: Vec<(RunRef, OpId, String)> = Vec::new();
        for (token, wait) in self.messages.waits() {
            let whom = match wait {
                Wait::Message(None) => "waits for any rank".to_owned(),
                Wait::Message(Some(rank)) => format!("waits for rank {rank}{}", self.state_of(rank)),
                Wait::Transfer(rank) => {
                    format!("large message under way with rank {rank}{}", self.state_of(rank))
                }
                Wait::Room(rank) => {
                    format!("no room in the receive queue of rank {rank}{}", self.state_of(rank))
                }
                Wait::Leave(rank) => {
                    format!(
                        "waits for a receive of rank {rank}, which has much to receive{}",
                        self.state_of(rank)
                    )
                }
            };
            waits.push((self.runs.table.run_of(token), OpId(token.part), whom));
        }
        for (run, op, source) in self.runs.peer_progress.waits() {
            waits.push((run, op, format!("waits for rank {source}{}", self.state_of(source))));
        }
        for &(run, op) in &self.runs.deferred {
            waits.push((run, op, "waits for what its function has started".to_owned()));
        }
        waits
    }

    /// A line for each operation that waits: rank, operation, label, peer, tag.
    fn print_waits(&mut self, why: &str, waits: &[(RunRef, OpId, String)]) -> String {
        let going_on = self.going_on();
        let runs = if going_on == 1 { "1 run".to_string() } else { format!("{going_on} runs") };
        let mut text = format!("castell: rank {}: {why}; {} going on\n", self.messages.me, runs);
        if let Some(Waiting { schedule, op, peer }) = &self.waiting {
            let operation = describe(schedule, *op);
            let state = self.state_of(*peer);
            let _ = writeln!(
                text,
                "castell: rank {}:   `{operation}` waits for rank {peer}{state}",
                self.messages.me
            );
        }
        for (run, op, whom) in waits.iter().take(LINES_MAX) {
            if self.runs.is_live(*run) {
                let operation = self.runs.describe(*run, *op);
                let _ = writeln!(text, "castell: rank {}:   `{operation}` {whom}", self.messages.me);
            }
        }
        if waits.len() > LINES_MAX {
            let _ = writeln!(
                text,
                "castell: rank {}:   … and {} more",
                self.messages.me,
                waits.len() - LINES_MAX
            );
        }
        if waits.is_empty() && self.waiting.is_none() && self.runs.calculations.is_any() {
            let _ = writeln!(text, "castell: rank {}:   computes or sleeps", self.messages.me);
        }
        text
    }

    /// Runs, and the call that the thread that drives waits for.
    fn going_on(&self) -> usize {
        self.runs.table.len() + usize::from(self.waiting.is_some())
    }

    fn state_of(&self, rank: Rank) -> &'static str {
        match self.messages.job.control(rank).state() {
            castell_shm::job::RankState::Unborn => " (has not started)",
            castell_shm::job::RankState::Alive => "",
            castell_shm::job::RankState::Finished => " (has left)",
            castell_shm::job::RankState::Dead(_) => " (is dead)",
        }
    }
}
