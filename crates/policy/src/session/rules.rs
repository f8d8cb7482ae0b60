//! The policies by name, and the bounds that keep everybody moving.

use super::foreseen::Slowdown;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What happens to a session for which too few slots are free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// It waits; others that do not delay it may go first.
    Wait,
    /// It suspends those that started before it until it has ended.
    Surpass,
    /// All share slots.
    Overbook,
    /// It has its slots alone: processes that were there are pinned to others of their node, and share those.
    Sidestep,
    /// Who is due first goes first, and a session is due some multiple of its estimate after it came. It may suspend those that
    /// need much longer still, until they are due themselves.
    GiveWay,
}

impl Policy {
    /// All of them; the paper's first.
    pub const ALL: [Policy; 5] =
        [Policy::Wait, Policy::Surpass, Policy::Overbook, Policy::Sidestep, Policy::GiveWay];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Wait => "wait",
            Policy::Surpass => "surpass",
            Policy::Overbook => "overbook",
            Policy::Sidestep => "sidestep",
            Policy::GiveWay => "give-way",
        }
    }

    /// Whether sessions that have nothing to do with each other share slots.
    pub fn shares(self) -> bool {
        matches!(self, Policy::Overbook | Policy::Sidestep)
    }

    /// Whether sessions are suspended.
    pub fn suspends(self) -> bool {
        matches!(self, Policy::Surpass | Policy::GiveWay)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no policy: there are wait, surpass, overbook, sidestep and give-way; the middle two also as overbook+spread, sidestep+spread"
)]
pub struct NoPolicy(String);

/// A policy and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// The policy.
    pub policy: Policy,
    /// Overbook and sidestep: a session that has to share is placed thinly over all nodes, not compactly on the first.
    pub spread: bool,
    /// Sessions that share a slot, at most.
    pub sharing_max: u16,
    /// So many sessions may start before one that waits although its turn comes first, if nobody knows that they do not delay
    /// it; then it is the next. Under give-way those count that start when it is due already.
    pub overtaken_max: u32,
    /// Surpass: so many sessions may run on the slots of one while it is suspended, or suspend it; then it is left alone.
    pub surpassed_max: u32,
    /// So many of those that wait are looked at when the first does not fit.
    pub backfill_depth: usize,
    /// By how much a session may be slowed down, and slow down others, that says nothing else: it waits where more is foreseen.
    #[serde(default)]
    pub slowdown_max: Option<Slowdown>,
    /// Overbook and sidestep: sessions of different users may be on the same slot, and sessions may talk to those of others.
    #[serde(default)]
    pub share_users: bool,
    /// Give way: who suspends another takes at most this part of the time that the other one still needs.
    pub shorter: u64,
    /// Give way: a session is due this many times its estimate after it came; nobody suspends it then.
    pub patience: u64,
    /// Give way: what a session without an estimate is taken to need, for when it is due, in the unit of `now`: an hour in
    /// milliseconds.
    pub assumed: u64,
}

impl Rules {
    /// A policy with the usual bounds.
    pub fn new(policy: Policy) -> Rules {
        Rules {
            policy,
            spread: false,
            sharing_max: 4,
            overtaken_max: if policy == Policy::GiveWay { 256 } else { 32 },
            surpassed_max: 8,
            backfill_depth: 256,
            slowdown_max: None,
            share_users: false,
            shorter: 16,
            patience: 12,
            assumed: 3_600_000,
        }
    }
}

impl FromStr for Rules {
    type Err = NoPolicy;

    /// Reads `sidestep`, `overbook+spread` and so on; bounds are the usual ones.
    fn from_str(text: &str) -> Result<Rules, NoPolicy> {
        let (name, spread) = match text.strip_suffix("+spread") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let policy =
            Policy::ALL.into_iter().find(|policy| policy.name() == name && (policy.shares() || !spread));
        policy.map(|policy| Rules { spread, ..Rules::new(policy) }).ok_or_else(|| NoPolicy(text.to_owned()))
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", self.policy.name(), if self.spread { "+spread" } else { "" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_printed() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(Rules::new(policy)));
        }
        let spread: Rules = "sidestep+spread".parse().expect("a policy");
        assert!(spread.spread && spread.to_string() == "sidestep+spread");
        assert!("wait+spread".parse::<Rules>().is_err() && "sidestop".parse::<Rules>().is_err());
    }
}
