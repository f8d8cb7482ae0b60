//! Programs in which every rank does the same: one rank stands for all.
//!
//! In a [`Rounds`] pattern each rank sends and receives the same sizes in the same rounds, and all begin at the same time.
//! Without noise, then, all ranks do the same at the same times, and one of them tells when all are done. That holds if
//! two things do, which are looked at for each message of each rank: what `p` sends as its i-th message of a round, its
//! receiver receives as its j-th, with the same j for every `p`; and two messages come from the same rank either at all
//! ranks or at none, so that messages that could be mistaken for one another are the same ones everywhere.
//!
//! It does not hold where events happen at the same time in an order that depends on the number of the rank. Such ties are
//! noticed and declined, and so are messages that wait for their receives, which let one rank change another one's clock.

use crate::fast::{Declined, Finished, Flat};
use castell_base::Rank;
use castell_collectives::pattern::{Pattern, Rounds};
use castell_goal::graph::Graph;
use castell_goal::op::Op;
use castell_model::LogGops;

/// Runs a pattern in rounds on a machine of the LogGOPS family; the results are those of its graphs.
///
/// ```
/// use castell_collectives::generator::{Generator, Options};
/// use castell_model::LogGops;
///
/// let barrier = Generator::parse("barrier:dissemination", &Options::new(100_000))?;
/// let finished = castell_sim::rounds::run(&*barrier, &LogGops::default()).expect("rounds");
/// assert_eq!(finished.events, 3 * 17 * 100_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Declined`] where the pattern is not one in rounds, keeps not what [`Rounds`] says, or might not do the same
/// everywhere: the other engines know more.
pub fn run(pattern: &dyn Pattern, model: &LogGops) -> Result<Finished, Declined> {
    let (rounds, ranks) = (pattern.rounds().ok_or(Declined::Symmetry)?, pattern.ranks());
    if (0..rounds.count()).any(|round| !model.is_eager(rounds.bytes(round))) {
        return Err(Declined::Symmetry);
    }
    let mut graph = Graph::new();
    pattern.build(Rank(0), &mut graph).map_err(|_| Declined::Size)?;
    if !is_of_rounds(&graph, rounds) {
        return Err(Declined::Symmetry);
    }
    let places = Places::of(rounds);
    let partners = partners(rounds, ranks, &places)?;
    let sources = sources(rounds, ranks, &places)?;
    let sends: Vec<u32> = partners.iter().map(|&partner| sources[partner as usize]).collect();
    let first = Flat::of_first(&graph, ranks)?;
    let one = first.representative(&sends, &sources)?.run_without_ties(model)?;
    let end = one.end.first().copied().ok_or(Declined::Symmetry)?;
    let events = one.events.checked_mul(u64::from(ranks)).ok_or(Declined::Size)?;
    Ok(Finished { events, end: vec![end; ranks as usize] })
}

/// Messages of a rank in order: the first of each round, and how many there are.
struct Places {
    first: Vec<u32>,
    count: u32,
}

impl Places {
    fn of(rounds: &dyn Rounds) -> Places {
        let mut count = 0;
        let first = (0..rounds.count()).map(|round| {
            count += rounds.fan(round);
            count - rounds.fan(round)
        });
        let first = first.collect();
        Places { first, count }
    }
}

/// Whether rank 0's graph has the rounds' messages and no others, in order.
pub(crate) fn is_of_rounds(graph: &Graph, rounds: &dyn Rounds) -> bool {
    let all = || (0..rounds.count()).flat_map(|round| (0..rounds.fan(round)).map(move |i| (round, i)));
    let (mut sends, mut receives) = (all(), all());
    let fits = graph.vertices().all(|vertex| match graph.op(vertex) {
        Op::Send { bytes, dest, tag, .. } => sends.next().is_some_and(|(round, i)| {
            (dest, bytes, tag) == (rounds.to(round, Rank(0), i), rounds.bytes(round), rounds.tag(round))
        }),
        Op::Recv { bytes, source, tag, .. } => receives.next().is_some_and(|(round, i)| {
            let source_is = source == Some(rounds.from(round, Rank(0), i));
            source_is && (bytes, tag) == (rounds.bytes(round), Some(rounds.tag(round)))
        }),
        _ => true,
    });
    fits && sends.next().is_none() && receives.next().is_none()
}

/// For each message that a rank sends, which of the messages that its receiver receives it is: the same at every rank.
fn partners(rounds: &dyn Rounds, ranks: u32, places: &Places) -> Result<Vec<u32>, Declined> {
    let mut partners = Vec::with_capacity(places.count as usize);
    for round in 0..rounds.count() {
        let fan = rounds.fan(round);
        for i in 0..fan {
            let dest = rounds.to(round, Rank(0), i);
            let is_its = |&j: &u32| dest.0 < ranks && rounds.from(round, dest, j) == Rank(0);
            let j = (0..fan).find(is_its).ok_or(Declined::Symmetry)?;
            if !rounds.is_paired(round, ranks, i, j) {
                return Err(Declined::Symmetry);
            }
            partners.push(places.first[round as usize] + j);
        }
    }
    Ok(partners)
}

/// For each message that a rank receives, the first one with the same sender and tag: the same at every rank.
fn sources(rounds: &dyn Rounds, ranks: u32, places: &Places) -> Result<Vec<u32>, Declined> {
    let tags: Vec<_> = (0..rounds.count()).map(|round| rounds.tag(round)).collect();
    let mut seen = Seen::new(places.count);
    let mut same_sender: Vec<u32> = Vec::with_capacity(places.count as usize);
    let mut senders = Vec::with_capacity(places.count as usize);
    let ranks_looked_at = if are_shifted(rounds, ranks) { 1 } else { ranks };
    for rank in 0..ranks_looked_at {
        senders.clear();
        rounds.senders(Rank(rank), &mut senders);
        if senders.len() != places.count as usize || senders.iter().any(|sender| sender.0 >= ranks) {
            return Err(Declined::Symmetry);
        }
        for (at, &sender) in (0..).zip(&senders) {
            let first = seen.first(rank, sender, at);
            if rank == 0 {
                same_sender.push(first);
            } else if same_sender.get(at as usize) != Some(&first) {
                return Err(Declined::Symmetry);
            }
        }
    }
    // Senders are the same everywhere, tags anyway.
    let round_of: Vec<usize> = (0..rounds.count())
        .flat_map(|round| std::iter::repeat_n(round as usize, rounds.fan(round) as usize))
        .collect();
    let first_alike = |at: usize| {
        let alike = |&before: &usize| {
            same_sender[before] == same_sender[at] && tags[round_of[before]] == tags[round_of[at]]
        };
        (same_sender[at] as usize..=at).find(alike).unwrap_or(at) as u32
    };
    Ok((0..same_sender.len()).map(first_alike).collect())
}

/// Whether one kind of shift leads from each rank to the sender of each message: those that differ at one rank differ at every
/// rank, then.
fn are_shifted(rounds: &dyn Rounds, ranks: u32) -> bool {
    let (mut ring, mut bits) = (true, true);
    for round in 0..rounds.count() {
        for i in 0..rounds.fan(round) {
            let shifted = rounds.is_shifted(round, ranks, i);
            (ring, bits) = (ring && shifted.0, bits && shifted.1);
            if !ring && !bits {
                return false;
            }
        }
    }
    true
}

/// The senders of one rank's messages after the other's: a table by sender, no larger than a rank's messages ask for, so that
/// it stays near however many ranks there are.
struct Seen {
    /// The rank that entered it (what others entered is empty), the sender, and the first message from it.
    entries: Vec<(u32, Rank, u32)>,
}

impl Seen {
    /// For at most `count` messages a rank.
    fn new(count: u32) -> Seen {
        let size = (4 * count as usize).next_power_of_two().max(16);
        Seen { entries: vec![(u32::MAX, Rank(0), 0); size] }
    }

    /// The first of `rank`'s messages from that sender; it is this one, the `at`-th, if none was before.
    #[inline]
    fn first(&mut self, rank: u32, sender: Rank, at: u32) -> u32 {
        // Distances are often powers of two: a multiplication by the golden section spreads them.
        const GOLDEN: u32 = 0x9E37_79B9;
        let mask = self.entries.len() - 1;
        let mut place = (sender.0.wrapping_mul(GOLDEN) >> 7) as usize & mask;
        loop {
            let entry = &mut self.entries[place];
            if entry.0 != rank {
                *entry = (rank, sender, at);
                return at;
            }
            if entry.1 == sender {
                return entry.2;
            }
            place = (place + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_collectives::generator::{Generator, Options};

    #[test]
    fn only_what_is_in_rounds_is_taken() {
        let run = |name: &str, bytes| {
            let pattern =
                Generator::parse(name, &Options { bytes, ..Options::new(8) }).expect("a known pattern");
            run(&*pattern, &LogGops::default()).map(|finished| finished.events)
        };
        assert_eq!(run("barrier:dissemination", 8), Ok(72));
        assert_eq!(run("bcast:binomial", 8), Err(Declined::Symmetry));
        assert_eq!(run("barrier:dissemination", 100_000), Err(Declined::Symmetry), "rendezvous");
    }
}
