//! Who waits for whom when nothing moves any more.

use crate::error::{OperationName, SimError};
use crate::instrument::Flight;
use crate::source::Schedules;
use castell_base::Rank;
use castell_goal::schedule::OpId;
use castell_matching::Pattern;
use std::fmt;

/// So many ranks of a circle are printed.
const SHOWN: usize = 16;

/// A program that came to a halt before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Operations that have not finished.
    pub unfinished: u64,
    /// Ranks that have any.
    pub ranks: u32,
    /// A chain of ranks each of which waits for the next. Where it is closed, the last waits for the first; otherwise the
    /// last waits for a message or receive that never comes, though its peer has nothing left to do.
    pub chain: Vec<Waiting>,
    /// Whether the chain is a circle.
    pub closed: bool,
}

/// A rank that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The operation that does not finish.
    pub operation: Box<OperationName>,
    /// For whom it waits; `None`: for anybody.
    pub peer: Option<Rank>,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unfinished, ranks) = (self.unfinished, self.ranks);
        write!(f, "deadlock: {unfinished} operations of {ranks} ranks never finish")?;
        f.write_str(if self.closed { "; a circle of ranks wait for one another:" } else { ":" })?;
        for waiting in self.chain.iter().take(SHOWN) {
            write!(f, "\n  {} waits for ", waiting.operation)?;
            match waiting.peer {
                Some(peer) => write!(f, "rank {peer}")?,
                None => f.write_str("any rank")?,
            }
        }
        if self.chain.len() > SHOWN {
            write!(f, "\n  ... and {} more", self.chain.len() - SHOWN)?;
        }
        match self.chain.last() {
            Some(last) if !self.closed => match last.peer {
                Some(peer) => write!(f, "\n  but rank {peer} has nothing left to do that would end this"),
                None => f.write_str("\n  but no message comes that it could take"),
            },
            _ => Ok(()),
        }
    }
}

/// A rank when nothing moves any more.
pub(crate) struct Stuck {
    pub unfinished: u64,
    pub posted: Vec<(Pattern, OpId)>,
}

/// Makes the report. `sends` are those whose receive was never posted and that last until then.
pub(crate) fn report(schedules: &Schedules<'_>, mut states: Vec<Stuck>, sends: Vec<Flight>) -> SimError {
    let mut waits: Vec<Vec<(OpId, Option<Rank>)>> = vec![Vec::new(); states.len()];
    for (state, waits) in states.iter_mut().zip(&mut waits) {
        // The matcher tells them in no particular order.
        state.posted.sort_by_key(|&(_, op)| op);
        waits.extend(state.posted.iter().map(|&(pattern, op)| (op, pattern.source)));
    }
    for send in sends {
        waits[send.from.index()].push((send.operation, Some(send.to)));
    }
    let (chain, closed) = find_chain(&waits);
    let chain = chain
        .into_iter()
        .map(|(rank, operation, peer)| Waiting { operation: schedules.name(rank, operation), peer });
    SimError::Deadlock(Box::new(Deadlock {
        unfinished: states.iter().map(|state| state.unfinished).sum(),
        ranks: states.iter().filter(|state| state.unfinished > 0).count() as u32,
        chain: chain.collect(),
        closed,
    }))
}

type Link = (Rank, OpId, Option<Rank>);

/// Follows who waits for whom until a rank comes up twice, depth first; without a circle, the first of the longest chains.
/// Each rank is visited once.
fn find_chain(waits: &[Vec<(OpId, Option<Rank>)>]) -> (Vec<Link>, bool) {
    /// Not on the path that is followed.
    const OFF: usize = usize::MAX;
    let stuck = |rank: Rank| !waits[rank.index()].is_empty();
    let mut visited = vec![false; waits.len()];
    let mut depth = vec![OFF; waits.len()];
    let mut longest = Vec::new();
    for first in (0..waits.len() as u32).map(Rank).filter(|&rank| stuck(rank)) {
        if std::mem::replace(&mut visited[first.index()], true) {
            continue;
        }
        // A path of ranks, with the number of the wait that is followed next.
        let mut path: Vec<(Rank, usize)> = vec![(first, 0)];
        depth[first.index()] = 0;
        while let Some(&mut (rank, ref mut next)) = path.last_mut() {
            let Some(&(_, peer)) = waits[rank.index()].get(*next) else {
                if path.len() > longest.len() {
                    longest = links(waits, &path);
                }
                depth[rank.index()] = OFF;
                path.pop();
                continue;
            };
            *next += 1;
            let Some(peer) = peer.filter(|&peer| stuck(peer)) else { continue };
            if depth[peer.index()] != OFF {
                return (links(waits, &path[depth[peer.index()]..]), true);
            }
            if !std::mem::replace(&mut visited[peer.index()], true) {
                depth[peer.index()] = path.len();
                path.push((peer, 0));
            }
        }
    }
    (longest, false)
}

fn links(waits: &[Vec<(OpId, Option<Rank>)>], path: &[(Rank, usize)]) -> Vec<Link> {
    let link = |&(rank, next): &(Rank, usize)| {
        let (operation, peer) = waits[rank.index()][next - 1];
        (rank, operation, peer)
    };
    path.iter().map(link).collect()
}
