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

/// How often so many arcs may be looked at.
fn phases_max(arcs: usize) -> usize {
    (ARCS_MAX / arcs.max(1)).max(20)
}

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
    if !network.maximise(source, sink, phases_max(network.arcs.len())) {
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

    /// Returns whether so many phases sufficed.
    fn maximise(&mut self, source: usize, sink: usize, phases: usize) -> bool {
        for _ in 0..phases {
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

    /// Against messages that are matched one by one, each making room by moving others.
    #[test]
    fn as_many_as_one_by_one() {
        use rand::{Rng, SeedableRng};
        for seed in 0..600 {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let receives: Vec<u64> =
                (0..random.random_range(1..9)).map(|_| random.random_range(0..4)).collect();
            let class = |random: &mut rand_chacha::ChaCha8Rng| random.random_range(-1..receives.len() as i32);
            let messages: Vec<_> = (0..random.random_range(1..9))
                .map(|_| (random.random_range(0..4), fits([0; 4].map(|_| class(&mut random)))))
                .collect();
            let left = leftover(&messages, &receives).unwrap();
            let units: Vec<Fits> =
                messages.iter().flat_map(|&(count, fits)| vec![fits; count as usize]).collect();
            let matched = units.len() as u64 - left.messages.iter().sum::<u64>();
            assert_eq!(matched, most(&units, &receives), "seed {seed}");
            assert_eq!(
                receives.iter().sum::<u64>() - left.receives.iter().sum::<u64>(),
                matched,
                "seed {seed}"
            );
        }
    }

    fn most(units: &[Fits], receives: &[u64]) -> u64 {
        // Of each single receive: its class, and the message that it has.
        let mut places: Vec<(u32, Option<usize>)> = receives
            .iter()
            .enumerate()
            .flat_map(|(class, &count)| vec![(class as u32, None); count as usize])
            .collect();
        let matched = |&unit: &usize| {
            let mut tried = vec![false; places.len()];
            make_room(unit, units, &mut places, &mut tried)
        };
        (0..units.len()).filter(matched).count() as u64
    }

    fn make_room(
        unit: usize,
        units: &[Fits],
        places: &mut [(u32, Option<usize>)],
        tried: &mut [bool],
    ) -> bool {
        for place in 0..places.len() {
            let (class, other) = places[place];
            if units[unit].contains(&Some(class)) && !std::mem::replace(&mut tried[place], true) {
                let is_free = other.is_none_or(|other| make_room(other, units, places, tried));
                if is_free {
                    places[place].1 = Some(unit);
                    return true;
                }
            }
        }
        false
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        assert_eq!([0, 1, 1_000_000, 1 << 40].map(phases_max), [ARCS_MAX, ARCS_MAX, 1000, 20]);
        // One message through one class: a phase for it, and one to see that there is no more.
        for (phases, suffice) in [(0, false), (1, false), (2, true)] {
            let mut network = Network::new(3);
            network.add(0, 1, 1);
            network.add(1, 2, 1);
            assert_eq!(network.maximise(0, 2, phases), suffice, "{phases}");
        }
    }
}
