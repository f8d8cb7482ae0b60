//! Who waits for whom, in words.

use super::core::Core;
use super::run::RunRef;
use castell_base::Rank;
use castell_goal::schedule::OpId;
use std::fmt::Write;

/// Lines a rank prints at most.
const LINES_MAX: usize = 16;

impl Core {
    /// What this rank waits for, a line an operation: rank, operation, label, peer, tag.
    pub(super) fn stall_report(&mut self, why: &str) -> String {
        let mut waits: Vec<(RunRef, OpId, String)> = Vec::new();
        let posted: Vec<_> =
            self.matcher.posted().map(|(pattern, at)| (at.run, at.op, pattern.source)).collect();
        for (run, op, source) in posted {
            let whom = match source {
                Some(source) => format!("waits for rank {source}{}", self.standing(source)),
                None => "waits for any rank".to_string(),
            };
            waits.push((run, op, whom));
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
        self.print_waits(why, &waits)
    }

    fn print_waits(&mut self, why: &str, waits: &[(RunRef, OpId, String)]) -> String {
        let mut text = format!("castell: rank {}: {why}; {} runs going on\n", self.me, self.running);
        for (run, op, whom) in waits.iter().take(LINES_MAX) {
            if self.run(*run).is_some() {
                let operation = self.describe(*run, *op);
                let _ = writeln!(text, "castell: rank {}:   `{operation}` {whom}", self.me);
            }
        }
        if waits.len() > LINES_MAX {
            let _ = writeln!(text, "castell: rank {}:   … and {} more", self.me, waits.len() - LINES_MAX);
        }
        if waits.is_empty() && self.calculations.is_any() {
            let _ = writeln!(text, "castell: rank {}:   computes or sleeps", self.me);
        }
        text
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
