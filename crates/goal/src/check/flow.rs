//! How many messages can be matched at most, where receives take any source or tag.
//!
//! Messages with the same source and tag form a class, and so do receives with the same pattern. A class of messages
//! fits at most four classes of receives (its own key, any tag, any source, any of both), so the network has at most
//! four arcs a class; a maximum flow through it (Dinic's algorithm) matches as many as any choice at run time can.

use std::collections::VecDeque;

/// What is left over by a largest matching.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Leftover {
    /// Of each class of messages.
    pub messages: Vec<u64>,
    /// Of each class of receives.
    pub receives: Vec<u64>,
}

impl Leftover {
    pub fn is_empty(&self) -> bool {
        self.messages.iter().chain(&self.receives).all(|&left| left == 0)
    }
}

/// Classes of messages that fit a class of receives: indices into the list of receives, most specific first.
pub(super) type Fits = [Option<u32>; 4];

/// Arcs that all phases of the algorithm together may look at; real programs need a few phases.
const ARCS_MAX: usize = 1_000_000_000;

/// Matches as many messages as possible. `messages` holds the number of each class and what it fits, `receives` the
/// number of each class. `None` where it took too long.
pub(super) fn leftover(messages: &[(u64, Fits)], receives: &[u64]) -> Option<Leftover> {
    let receive_node = |receive: usize| messages.len() + receive;
    let (source, sink) = (receive_node(receives.len()), receive_node(receives.len()) + 1);
    let mut network = Network::new(sink + 1);
    // The arc that is added last is tried first.
    let from_source: Vec<usize> = messages
        .iter()
        .enumerate()
        .map(|(message, (count, _))| network.add(source, message, *count))
        .collect();
    let to_sink: Vec<usize> = receives
        .iter()
        .enumerate()
        .map(|(receive, count)| network.add(receive_node(receive), sink, *count))
        .collect();
    for (message, (count, fits)) in messages.iter().enumerate() {
        for receive in fits.iter().rev().flatten() {
            network.add(message, receive_node(*receive as usize), *count);
        }
    }
    if !network.maximise(source, sink) {
        return None;
    }
    let left = |arcs: Vec<usize>| arcs.into_iter().map(|arc| network.arcs[arc].capacity).collect();
    Some(Leftover { messages: left(from_source), receives: left(to_sink) })
}

/// A flow network; each arc lies beside its reverse, so that number `arc ^ 1` is the other direction.
struct Network {
    /// Last arc added to each node.
    last: Vec<usize>,
    arcs: Vec<Arc>,
}

struct Arc {
    to: usize,
    /// What may still flow.
    capacity: u64,
    /// The arc of the same node that was added before.
    before: usize,
}

const NONE: usize = usize::MAX;

impl Network {
    fn new(nodes: usize) -> Network {
        Network { last: vec![NONE; nodes], arcs: Vec::new() }
    }

    fn add(&mut self, from: usize, to: usize, capacity: u64) -> usize {
        let arc = self.arcs.len();
        self.arcs.push(Arc { to, capacity, before: self.last[from] });
        self.arcs.push(Arc { to: from, capacity: 0, before: self.last[to] });
        self.last[from] = arc;
        self.last[to] = arc + 1;
        arc
    }

    /// Returns whether the phases sufficed.
    fn maximise(&mut self, source: usize, sink: usize) -> bool {
        for _ in 0..(ARCS_MAX / self.arcs.len().max(1)).max(20) {
            let level = self.levels(source);
            if level[sink] == u32::MAX {
                return true;
            }
            let mut next = self.last.clone();
            while let Some(path) = self.path(source, sink, &level, &mut next) {
                let most = path.iter().map(|&arc| self.arcs[arc].capacity).min().unwrap_or(0);
                for arc in path {
                    self.arcs[arc].capacity -= most;
                    self.arcs[arc ^ 1].capacity += most;
                }
            }
        }
        false
    }

    /// Distance of each node from the source over arcs that may still flow.
    fn levels(&self, source: usize) -> Vec<u32> {
        let mut level = vec![u32::MAX; self.last.len()];
        let mut queue = VecDeque::from([source]);
        level[source] = 0;
        while let Some(node) = queue.pop_front() {
            let mut arc = self.last[node];
            while arc != NONE {
                let Arc { to, capacity, before } = self.arcs[arc];
                if capacity > 0 && level[to] == u32::MAX {
                    level[to] = level[node] + 1;
                    queue.push_back(to);
                }
                arc = before;
            }
        }
        level
    }

    /// A path that goes up one level an arc. Arcs that lead nowhere are passed over for good (`next`).
    fn path(&self, source: usize, sink: usize, level: &[u32], next: &mut [usize]) -> Option<Vec<usize>> {
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        while node != sink {
            let arc = next[node];
            if arc == NONE {
                // A dead end: back, and past the arc that led here.
                let back = path.pop()?;
                node = self.arcs[back ^ 1].to;
                next[node] = self.arcs[back].before;
                continue;
            }
            let Arc { to, capacity, before } = self.arcs[arc];
            if capacity > 0 && level[to] == level[node] + 1 {
                path.push(arc);
                node = to;
            } else {
                next[node] = before;
            }
        }
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(classes: [i32; 4]) -> Fits {
        classes.map(|class| u32::try_from(class).ok())
    }

    #[test]
    fn specific_receives_make_room_for_wildcards() {
        // Receives: 0 from any source under tag 1; 1 from source 0 under any tag. Both messages fit the first; only
        // one fits the second, so it has to go there.
        let messages = [(1, fits([-1, 1, 0, -1])), (1, fits([-1, -1, 0, -1]))];
        assert!(leftover(&messages, &[1, 1]).unwrap().is_empty());
        let messages = [(1, fits([-1, 0, 1, -1])), (1, fits([-1, -1, 0, -1]))];
        assert!(leftover(&messages, &[1, 1]).unwrap().is_empty());
    }

    #[test]
    fn what_fits_nowhere_is_left() {
        let left = leftover(&[(3, fits([0, -1, -1, -1])), (2, fits([-1; 4]))], &[2, 4]).unwrap();
        assert_eq!(left, Leftover { messages: vec![1, 2], receives: vec![0, 4] });
    }

    /// Against trying every assignment, on small random problems.
    #[test]
    fn as_many_as_by_trying_all() {
        use rand::{Rng, SeedableRng};
        for seed in 0..300 {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let receives: Vec<u64> =
                (0..random.random_range(1..4)).map(|_| random.random_range(0..3)).collect();
            let class = |random: &mut rand_chacha::ChaCha8Rng| random.random_range(-1..receives.len() as i32);
            let messages: Vec<_> = (0..random.random_range(1..4))
                .map(|_| (random.random_range(0..3), fits([0; 4].map(|_| class(&mut random)))))
                .collect();
            let left = leftover(&messages, &receives).unwrap();
            let units: Vec<Fits> =
                messages.iter().flat_map(|&(count, fits)| vec![fits; count as usize]).collect();
            let matched = units.len() as u64 - left.messages.iter().sum::<u64>();
            assert_eq!(matched, most(&units, &mut receives.clone()), "seed {seed}");
            assert_eq!(
                receives.iter().sum::<u64>() - left.receives.iter().sum::<u64>(),
                matched,
                "seed {seed}"
            );
        }
    }

    fn most(units: &[Fits], receives: &mut [u64]) -> u64 {
        let Some((first, rest)) = units.split_first() else { return 0 };
        let mut best = most(rest, receives);
        for receive in first.iter().flatten() {
            if receives[*receive as usize] > 0 {
                receives[*receive as usize] -= 1;
                best = best.max(1 + most(rest, receives));
                receives[*receive as usize] += 1;
            }
        }
        best
    }
}
