//! What can be computed without running a program: ping-pong, multicast, trees, exchanges.
//!
//! All formulas assume what the models' authors assume: one message at a time is under way to each receiver, receives are
//! posted before their messages arrive, and nothing else runs.

use castell_base::Time;
use std::collections::BTreeMap;
use std::num::NonZero;

/// A tree along which a root's message reaches all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tree {
    /// The root sends to every other rank.
    Linear,
    /// Each rank sends to the next.
    Chain,
    /// In round r each rank below kʳ that has the message sends it to the k-1 ranks that are kʳ, 2kʳ, … further; k = 2
    /// is the binomial tree.
    KNomial {
        /// Messages that a rank sends in a round: k - 1.
        sends: NonZero<u32>,
    },
}

impl Tree {
    /// The binomial tree.
    pub const BINOMIAL: Tree = Tree::KNomial { sends: NonZero::<u32>::MIN };

    /// Sizes of the subtrees below the root of a tree of `ranks` ranks, in the order in which the root sends to them.
    fn subtrees(self, ranks: u64) -> Vec<u64> {
        match self {
            _ if ranks <= 1 => Vec::new(),
            Tree::Linear => vec![1; usize::try_from(ranks - 1).expect("a number of ranks fits")],
            Tree::Chain => vec![ranks - 1],
            Tree::KNomial { sends } => {
                let radix = u64::from(sends.get()) + 1;
                let rounds = std::iter::successors(Some(1u64), |below| below.checked_mul(radix));
                let children = rounds.take_while(|&below| below < ranks).flat_map(|below| {
                    let peers = (1..radix).map(move |peer| peer * below);
                    peers.take_while(|&child| child < ranks).map(move |child| (child, below))
                });
                // The ranks that the child informs are those that differ from it by multiples of the next rounds' steps.
                children.map(|(child, below)| (ranks - child).div_ceil(below.saturating_mul(radix))).collect()
            }
        }
    }
}

impl Tree {
    /// How many messages the busiest rank of each level sends, from the root down to the last level that sends any.
    pub(crate) fn sends_by_level(self, ranks: u64, known: &mut BTreeMap<u64, Vec<u64>>) -> Vec<u64> {
        if let Some(levels) = known.get(&ranks) {
            return levels.clone();
        }
        let subtrees = self.subtrees(ranks);
        let mut levels = if subtrees.is_empty() { Vec::new() } else { vec![subtrees.len() as u64] };
        for size in subtrees {
            for (level, sends) in self.sends_by_level(size, known).into_iter().enumerate() {
                levels.resize(levels.len().max(level + 2), 0);
                levels[level + 1] = levels[level + 1].max(sends);
            }
        }
        known.insert(ranks, levels.clone());
        levels
    }
}

/// The times that follow from a model's parameters.
///
/// A model says two things, [`ClosedForms::arrival`] and [`ClosedForms::exchange`]; the rest follows. All times are
/// exact; they saturate at [`Time::MAX`].
pub trait ClosedForms {
    /// From the start of the first of `count` messages of `bytes` bytes, which an idle rank sends one after the other to
    /// different idle ranks, until the receiver of the `index`-th (from 1) can use it.
    fn arrival(&self, index: u64, count: u64, bytes: u64) -> Time;

    /// For how long a round keeps two ranks busy that send each other `bytes` bytes at the same time and go on when they
    /// have received: `(time, interval)`, where the next round can start after the larger of the two.
    fn exchange(&self, bytes: u64) -> (Time, Time);

    /// What reducing `bytes` received bytes takes; 0 in models that leave computation to the program.
    fn reduction(&self, _bytes: u64) -> Time {
        Time::ZERO
    }

    /// A message there and one back, of `bytes` bytes each.
    fn ping_pong(&self, bytes: u64) -> Time {
        self.arrival(1, 1, bytes) * 2
    }

    /// One rank sends a message of `bytes` bytes to each of `peers` ranks: until the last can use it.
    fn multicast(&self, peers: u64, bytes: u64) -> Time {
        // The last message need not be the last to arrive if the cost depends on the index in odd ways.
        (1..=peers).map(|index| self.arrival(index, peers, bytes)).max().unwrap_or(Time::ZERO)
    }

    /// A broadcast of `bytes` bytes to `ranks` ranks along a tree: until the last rank has it.
    fn broadcast(&self, tree: Tree, ranks: u64, bytes: u64) -> Time {
        match tree {
            Tree::Linear => self.multicast(ranks.saturating_sub(1), bytes),
            Tree::Chain => self.arrival(1, 1, bytes) * ranks.saturating_sub(1),
            Tree::KNomial { .. } => broadcast_from(
                &|index, count| self.arrival(index, count, bytes),
                tree,
                ranks,
                &mut BTreeMap::new(),
            ),
        }
    }

    /// `rounds` exchanges one after the other, each followed by a reduction and `compute`.
    fn exchanges(&self, rounds: u64, bytes: u64, compute: Time) -> Time {
        let (time, interval) = self.exchange(bytes);
        let round = time + self.reduction(bytes) + compute;
        match rounds {
            0 => Time::ZERO,
            _ => round.max(interval) * (rounds - 1) + round,
        }
    }

    /// An allreduce of `bytes` bytes by recursive doubling, where each rank also computes for `compute` a stage.
    ///
    /// With a number of ranks that is no power of two, the ranks beyond the largest one below hand their part to another
    /// first and get the result last: two stages more ("Larger-scale collectives", 2020, equations 5.2 and 5.3). In the
    /// LogP family that is an upper bound, because ranks without such a partner start earlier.
    fn recursive_doubling(&self, ranks: u64, bytes: u64, compute: Time) -> Time {
        let Some(stages) = ranks.checked_ilog2() else { return Time::ZERO };
        let extra = if ranks.is_power_of_two() { 0 } else { 2 };
        self.exchanges(u64::from(stages) + extra, bytes, compute)
    }

    /// A dissemination of `bytes` bytes a message, such as a barrier's: ⌈log₂ ranks⌉ rounds in which each rank sends one
    /// message and waits for one.
    fn dissemination(&self, ranks: u64, bytes: u64) -> Time {
        let rounds = ranks.saturating_sub(1).checked_ilog2().map_or(0, |log| log + 1);
        let (time, interval) = self.exchange(bytes);
        match rounds {
            0 => Time::ZERO,
            _ => time.max(interval) * u64::from(rounds - 1) + time,
        }
    }
}

/// Until the last of `ranks` ranks has what the root of their tree has now. There are at most two sizes of subtrees a
/// level, so that the memory stays small and the time is that of a few levels.
fn broadcast_from(
    arrival: &dyn Fn(u64, u64) -> Time,
    tree: Tree,
    ranks: u64,
    known: &mut BTreeMap<u64, Time>,
) -> Time {
    if let Some(&time) = known.get(&ranks) {
        return time;
    }
    let subtrees = tree.subtrees(ranks);
    let count = subtrees.len() as u64;
    let branches = (1..)
        .zip(subtrees)
        .map(|(index, size)| arrival(index, count) + broadcast_from(arrival, tree, size, known));
    let time = branches.max().unwrap_or(Time::ZERO);
    known.insert(ranks, time);
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as its definition says it, rank by rank: when each rank has the message.
    fn rank_by_rank(arrival: &dyn Fn(u64, u64) -> Time, radix: usize, ranks: usize) -> Time {
        let mut children = vec![Vec::new(); ranks];
        let mut below = 1;
        while below < ranks {
            for (rank, children) in children[..below].iter_mut().enumerate() {
                let peers = (1..radix).map(|peer| rank + peer * below).filter(|&child| child < ranks);
                children.extend(peers);
            }
            below *= radix;
        }
        let mut times = vec![Time::ZERO; ranks];
        for rank in 0..ranks {
            for (index, &child) in (1..).zip(&children[rank]) {
                times[child] = times[rank] + arrival(index, children[rank].len() as u64);
            }
        }
        times.into_iter().max().unwrap()
    }

    #[test]
    fn trees_are_those_of_their_definition() {
        // Dear first messages, cheap later ones that get dearer with the number of messages: every term shows.
        let arrival = |index: u64, count: u64| Time(1_000 + 300 * index + 7 * count);
        for radix in 2..6u32 {
            let tree = Tree::KNomial { sends: NonZero::new(radix - 1).unwrap() };
            for ranks in 1..150 {
                let expected = rank_by_rank(&arrival, radix as usize, ranks);
                let found = broadcast_from(&arrival, tree, ranks as u64, &mut BTreeMap::new());
                assert_eq!(found, expected, "radix {radix}, {ranks} ranks");
            }
        }
    }

    /// A model in which rounds take 100 and start 250 apart, and a byte that is reduced takes 3.
    struct Rounds;

    impl ClosedForms for Rounds {
        fn arrival(&self, index: u64, count: u64, bytes: u64) -> Time {
            Time(1000 * index + 10 * count + bytes)
        }

        fn exchange(&self, _bytes: u64) -> (Time, Time) {
            (Time(100), Time(250))
        }

        fn reduction(&self, bytes: u64) -> Time {
            Time(3 * bytes)
        }
    }

    #[test]
    fn rounds_follow_each_other() {
        let dissemination = [0, 1, 2, 3, 4, 5, 8, 9].map(|ranks| Rounds.dissemination(ranks, 8).0);
        assert_eq!(dissemination, [0, 0, 100, 350, 350, 600, 600, 850]);
        let doubling = |compute| [0, 1, 2, 3, 4].map(|ranks| Rounds.recursive_doubling(ranks, 8, compute).0);
        assert_eq!(doubling(Time(6)), [0, 0, 130, 2 * 250 + 130, 250 + 130]);
        assert_eq!(doubling(Time(176)), [0, 0, 300, 900, 600]);
    }

    #[test]
    fn one_rank_tells_others() {
        assert_eq!([0, 1, 3].map(|peers| Rounds.multicast(peers, 8).0), [0, 1018, 3038]);
        assert_eq!([0, 1, 4].map(|ranks| Rounds.broadcast(Tree::Linear, ranks, 8).0), [0, 0, 3038]);
        assert_eq!([0, 1, 4].map(|ranks| Rounds.broadcast(Tree::Chain, ranks, 8).0), [0, 0, 3 * 1018]);
        assert_eq!(Rounds.broadcast(Tree::BINOMIAL, 4, 8), Time(1028 + 1018));
        assert_eq!(Rounds.ping_pong(8), Time(2036));
    }

    #[test]
    fn huge_trees_take_no_time() {
        let mut known = BTreeMap::new();
        let time = broadcast_from(&|_, _| Time(1), Tree::BINOMIAL, u64::MAX, &mut known);
        // The longest path is that of the rank with the most ones in its number.
        assert_eq!(time, Time(63));
        assert!(known.len() < 200);
    }
}
