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
use castell_base::{Job, OwnThread, Rank, Threads};
use castell_collectives::pattern::{Pattern, Rounds};
use castell_goal::graph::Graph;
use castell_goal::op::Op;
use castell_model::LogGops;
use std::ops::Range;

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
    run_on(pattern, model, &OwnThread)
}

/// The same on threads that the caller lends: each looks at the messages of some of the ranks.
///
/// # Errors
/// As [`run`].
pub fn run_on(pattern: &dyn Pattern, model: &LogGops, threads: &dyn Threads) -> Result<Finished, Declined> {
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
    let shares = Shares::of(ranks, places.count, threads);
    let partners = partners(rounds, ranks, &places, &shares)?;
    let sources = sources(rounds, ranks, &places, &shares)?;
    let sends: Vec<u32> = partners.iter().map(|&partner| sources[partner as usize]).collect();
    let first = Flat::of_first(&graph, ranks)?;
    let one = first.representative(&sends, &sources)?.run_without_ties(model)?;
    let end = one.end.first().copied().ok_or(Declined::Symmetry)?;
    let events = one.events.checked_mul(u64::from(ranks)).ok_or(Declined::Size)?;
    Ok(Finished { events, end: vec![end; ranks as usize] })
}

/// Ranks dealt out among threads.
struct Shares<'a> {
    ranks: u32,
    each: u32,
    threads: &'a dyn Threads,
}

impl Shares<'_> {
    /// For `messages` to be looked at a rank.
    fn of(ranks: u32, messages: u32, threads: &dyn Threads) -> Shares<'_> {
        /// Fewer are looked at sooner than another thread wakes up.
        const MESSAGES_MIN: u64 = 1 << 17;
        let useful = u64::from(ranks) * u64::from(messages) / MESSAGES_MIN;
        let count = useful.clamp(1, threads.count() as u64);
        Shares { ranks, each: (u64::from(ranks).div_ceil(count) as u32).max(1), threads }
    }

    /// What each thread finds out about its ranks, in their order.
    fn map<T: Send>(&self, find: impl Fn(Range<u32>) -> T + Sync) -> Vec<T> {
        let firsts = (0..self.ranks).step_by(self.each as usize);
        let mut shares: Vec<(Range<u32>, Option<T>)> =
            firsts.map(|first| (first..first.saturating_add(self.each).min(self.ranks), None)).collect();
        let find = &find;
        let job = |(ranks, found): &mut (Range<u32>, Option<T>)| *found = Some(find(ranks.clone()));
        if shares.len() == 1 {
            shares.iter_mut().for_each(job);
        } else {
            let jobs = shares.iter_mut().map(|share| Box::new(move || job(share)) as Job<'_>);
            self.threads.run(jobs.collect());
        }
        shares.into_iter().filter_map(|(_, found)| found).collect()
    }

    /// Whether something holds for all ranks.
    fn all(&self, holds: impl Fn(Range<u32>) -> bool + Sync) -> bool {
        self.map(holds).into_iter().all(|holds| holds)
    }
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
fn partners(
    rounds: &dyn Rounds,
    ranks: u32,
    places: &Places,
    shares: &Shares<'_>,
) -> Result<Vec<u32>, Declined> {
    let mut partners = Vec::with_capacity(places.count as usize);
    let mut pairs = Vec::with_capacity(places.count as usize);
    for round in 0..rounds.count() {
        let fan = rounds.fan(round);
        for i in 0..fan {
            let dest = rounds.to(round, Rank(0), i);
            let is_its = |&j: &u32| dest.0 < ranks && rounds.from(round, dest, j) == Rank(0);
            let j = (0..fan).find(is_its).ok_or(Declined::Symmetry)?;
            pairs.push((round, i, j));
            partners.push(places.first[round as usize] + j);
        }
    }
    let is_paired = |ranks_of: Range<u32>| {
        pairs.iter().all(|&(round, i, j)| rounds.is_paired(round, ranks, ranks_of.clone(), i, j))
    };
    if shares.all(is_paired) { Ok(partners) } else { Err(Declined::Symmetry) }
}

/// For each message that a rank receives, the first one with the same sender and tag: the same at every rank.
fn sources(
    rounds: &dyn Rounds,
    ranks: u32,
    places: &Places,
    shares: &Shares<'_>,
) -> Result<Vec<u32>, Declined> {
    let tags: Vec<_> = (0..rounds.count()).map(|round| rounds.tag(round)).collect();
    // Each message's first one with the same sender, if that is so at all of the ranks.
    let alike = |looked_at: Range<u32>| {
        let mut seen = Seen::new(places.count);
        let mut same_sender: Vec<u32> = Vec::with_capacity(places.count as usize);
        let mut senders = Vec::with_capacity(places.count as usize);
        for rank in looked_at.clone() {
            senders.clear();
            rounds.senders(Rank(rank), &mut senders);
            if senders.len() != places.count as usize || senders.iter().any(|sender| sender.0 >= ranks) {
                return None;
            }
            for (at, &sender) in (0..).zip(&senders) {
                let first = seen.first(rank, sender, at);
                if rank == looked_at.start {
                    same_sender.push(first);
                } else if same_sender.get(at as usize) != Some(&first) {
                    return None;
                }
            }
        }
        Some(same_sender)
    };
    let same_sender = match are_shifted(rounds, ranks, shares) {
        true => alike(0..1),
        false => {
            shares.map(alike).into_iter().reduce(|one, other| if one == other { one } else { None }).flatten()
        }
    };
    let same_sender = same_sender.ok_or(Declined::Symmetry)?;
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
fn are_shifted(rounds: &dyn Rounds, ranks: u32, shares: &Shares<'_>) -> bool {
    let shifted = shares.map(|among| shifts(rounds, ranks, among));
    let (ring, bits) = shifted.into_iter().fold((true, true), |both, one| (both.0 && one.0, both.1 && one.1));
    ring || bits
}

/// Whether that is so with a shift along the ring, and with one of bits, among some ranks.
fn shifts(rounds: &dyn Rounds, ranks: u32, among: Range<u32>) -> (bool, bool) {
    let (mut ring, mut bits) = (true, true);
    for round in 0..rounds.count() {
        for i in 0..rounds.fan(round) {
            let shifted = rounds.is_shifted(round, ranks, among.clone(), i);
            (ring, bits) = (ring && shifted.0, bits && shifted.1);
            if !ring && !bits {
                return (false, false);
            }
        }
    }
    (ring, bits)
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
    use castell_collectives::generator::{GENERATORS, Generator, Options};

    /// A shift round a ring whose receivers are wrong at one rank.
    struct Ring {
        ranks: u32,
        wrong: Option<u32>,
    }

    impl Rounds for Ring {
        fn count(&self) -> u32 {
            2
        }

        fn fan(&self, _round: u32) -> u32 {
            1
        }

        fn to(&self, _round: u32, rank: Rank, _i: u32) -> Rank {
            Rank((rank.0 + if self.wrong == Some(rank.0) { 2 } else { 1 }) % self.ranks)
        }

        fn from(&self, _round: u32, rank: Rank, _i: u32) -> Rank {
            Rank((rank.0 + self.ranks - 1) % self.ranks)
        }

        fn bytes(&self, _round: u32) -> u64 {
            8
        }

        fn compute(&self, _round: u32) -> castell_base::Time {
            castell_base::Time(0)
        }
    }

    /// What is found out about the ranks, looked at in shares of so many.
    fn found(
        rounds: &dyn Rounds,
        ranks: u32,
        each: u32,
    ) -> (Result<Vec<u32>, Declined>, Result<Vec<u32>, Declined>) {
        let (places, shares) = (Places::of(rounds), Shares { ranks, each, threads: &OwnThread });
        (partners(rounds, ranks, &places, &shares), sources(rounds, ranks, &places, &shares))
    }

    #[test]
    fn shares_of_the_ranks_tell_what_all_of_them_do() {
        let mut looked_at = 0;
        let names = GENERATORS.iter().map(|generator| generator.name);
        for name in names.chain(["allreduce:a3,a3,a3", "allreduce:a5,a2", "allreduce:r2,r2,g2,g2"]) {
            for ranks in [1, 2, 5, 8, 10, 27, 64, 100] {
                let options = Options { ways: 1 + ranks % 3, ..Options::new(ranks) };
                let Ok(pattern) = Generator::parse(name, &options) else { continue };
                let Some(rounds) = pattern.rounds() else { continue };
                let whole = found(rounds, ranks, ranks);
                for each in [1, 3, 7, 50] {
                    assert_eq!(found(rounds, ranks, each), whole, "{name}, {ranks} ranks by {each}");
                }
                looked_at += 1;
            }
        }
        assert!(looked_at > 30, "{looked_at} were looked at");
        for wrong in [None, Some(0), Some(1), Some(12), Some(19)] {
            let ring = Ring { ranks: 20, wrong };
            for each in [1, 6, 19, 20] {
                assert_eq!(found(&ring, 20, each).0.is_ok(), wrong.is_none(), "{wrong:?} by {each}");
            }
        }
    }

    /// Two rounds whose messages come from these ranks, by rank.
    struct From<'a>([&'a [u32]; 2]);

    impl Rounds for From<'_> {
        fn count(&self) -> u32 {
            2
        }

        fn fan(&self, _round: u32) -> u32 {
            1
        }

        fn to(&self, round: u32, rank: Rank, _i: u32) -> Rank {
            Rank(self.0[round as usize].iter().position(|&from| from == rank.0).expect("each sends") as u32)
        }

        fn from(&self, round: u32, rank: Rank, _i: u32) -> Rank {
            Rank(self.0[round as usize][rank.index()])
        }

        fn bytes(&self, _round: u32) -> u64 {
            8
        }

        fn compute(&self, _round: u32) -> castell_base::Time {
            castell_base::Time(0)
        }
    }

    /// Whether two messages come from one rank or from two has to be the same everywhere, whatever the shifts are.
    #[test]
    fn senders_that_coincide_at_some_ranks_only_are_noticed() {
        let (ring, back) = (&[3, 0, 1, 2][..], &[1, 2, 3, 0][..]);
        let (bits, across) = (&[1, 0, 3, 2][..], &[2, 3, 0, 1][..]);
        for (from, expected) in [
            // One kind of shift for both rounds: two senders each, or one.
            ([ring, back], Some(vec![0, 1])),
            ([ring, ring], Some(vec![0, 0])),
            ([bits, across], Some(vec![0, 1])),
            ([bits, bits], Some(vec![0, 0])),
            // Along the ring in one round, in the bits in the other: ranks 0 and 2 hear from one rank twice, the others not.
            ([back, bits], None),
            ([bits, back], None),
            ([ring, bits], None),
            // No shift: the first rank hears from two, the last one from one, and the other way round.
            ([&[1, 0, 2, 3], &[2, 1, 0, 3]], None),
            ([&[0, 2, 1, 3], &[0, 1, 2, 3]], None),
            // No shift, and two senders everywhere.
            ([&[1, 0, 3, 2], &[2, 3, 1, 0]], Some(vec![0, 1])),
            ([&[2, 3, 1, 0], &[1, 0, 3, 2]], Some(vec![0, 1])),
        ] {
            for each in [1, 2, 3, 4] {
                let (partners, sources) = found(&From(from), 4, each);
                assert_eq!(partners, Ok(vec![0, 1]), "{from:?} by {each}");
                assert_eq!(sources.ok(), expected, "{from:?} by {each}");
            }
        }
    }

    /// The kinds of shift that lead to all senders are those that lead to each of them.
    #[test]
    fn shifts_are_those_of_all_messages() {
        let (ring, bits, none) = (&[3, 0, 1, 2][..], &[1, 0, 3, 2][..], &[1, 0, 2, 3][..]);
        let (both, whole) = (&[2, 3, 0, 1][..], 0..4);
        for (from, expected) in [
            ([ring, ring], (true, false)),
            ([bits, bits], (false, true)),
            ([both, both], (true, true)),
            ([both, ring], (true, false)),
            ([ring, both], (true, false)),
            ([both, bits], (false, true)),
            ([bits, both], (false, true)),
            ([ring, bits], (false, false)),
            ([both, none], (false, false)),
            ([none, both], (false, false)),
        ] {
            assert_eq!(shifts(&From(from), 4, whole.clone()), expected, "{from:?}");
            let are = are_shifted(&From(from), 4, &Shares { ranks: 4, each: 2, threads: &OwnThread });
            assert_eq!(are, expected.0 || expected.1, "{from:?}");
        }
    }

    /// Two messages a round to the ranks behind, of which the nearer one's sender is received from last; by how many ranks the
    /// ring has, and how many of them there are.
    struct Crossed(u32, u32);

    impl Rounds for Crossed {
        fn count(&self) -> u32 {
            1
        }

        fn fan(&self, _round: u32) -> u32 {
            2
        }

        fn to(&self, _round: u32, rank: Rank, i: u32) -> Rank {
            Rank((rank.0 + 1 + i) % self.0)
        }

        fn from(&self, _round: u32, rank: Rank, i: u32) -> Rank {
            assert!(rank.0 < self.1, "there is no rank {rank}");
            Rank((rank.0 + self.0 - 2 + i) % self.0)
        }

        fn bytes(&self, _round: u32) -> u64 {
            8
        }

        fn compute(&self, _round: u32) -> castell_base::Time {
            castell_base::Time(0)
        }
    }

    #[test]
    fn messages_are_paired_by_their_ends_and_not_by_their_places() {
        assert_eq!(found(&Crossed(7, 7), 7, 3), (Ok(vec![1, 0]), Ok(vec![0, 1])));
        // The receiver of the first one is no rank, and is not asked.
        assert_eq!(found(&Crossed(7, 1), 1, 1).0, Err(Declined::Symmetry));
    }

    /// Two rounds of which this is said: each rank's senders, and the rounds' tags.
    struct Heard([Vec<Rank>; 4], [u32; 2]);

    impl Rounds for Heard {
        fn count(&self) -> u32 {
            2
        }

        fn fan(&self, _round: u32) -> u32 {
            1
        }

        fn to(&self, _round: u32, _rank: Rank, _i: u32) -> Rank {
            unreachable!("senders are asked for")
        }

        fn from(&self, round: u32, rank: Rank, _i: u32) -> Rank {
            // No shift of the ranks.
            Rank([[1, 0, 2, 3], [2, 1, 3, 0]][round as usize][rank.index()])
        }

        fn bytes(&self, _round: u32) -> u64 {
            8
        }

        fn compute(&self, _round: u32) -> castell_base::Time {
            castell_base::Time(0)
        }

        fn tag(&self, round: u32) -> castell_base::Tag {
            castell_base::Tag(self.1[round as usize])
        }

        fn senders(&self, rank: Rank, into: &mut Vec<Rank>) {
            into.extend_from_slice(&self.0[rank.index()]);
        }
    }

    /// What is found out where each rank has two senders, but for `wrong`, which has these.
    fn heard(wrong: usize, senders: &[u32], tags: [u32; 2]) -> Result<Vec<u32>, Declined> {
        let mut of = [0, 1, 2, 3].map(|rank| vec![Rank((rank + 1) % 4), Rank((rank + 2) % 4)]);
        of[wrong] = senders.iter().map(|&sender| Rank(sender)).collect();
        let rounds = Heard(of, tags);
        sources(&rounds, 4, &Places::of(&rounds), &Shares { ranks: 4, each: 4, threads: &OwnThread })
    }

    #[test]
    fn senders_are_as_many_as_messages_and_all_of_them_ranks() {
        assert_eq!(heard(0, &[1, 2], [0, 0]), Ok(vec![0, 1]));
        for wrong in [0, 2, 3] {
            for senders in [&[1][..], &[], &[1, 4], &[4, 1], &[1, 2, 3]] {
                assert_eq!(heard(wrong, senders, [0, 0]), Err(Declined::Symmetry), "{wrong}: {senders:?}");
            }
        }
    }

    /// Messages of one sender are mistaken for one another if they have one tag, too.
    #[test]
    fn messages_are_alike_by_sender_and_tag() {
        let once = |tags| {
            let rounds = Heard([0, 1, 2, 3].map(|rank| vec![Rank((rank + 1) % 4); 2]), tags);
            sources(&rounds, 4, &Places::of(&rounds), &Shares { ranks: 4, each: 4, threads: &OwnThread })
        };
        assert_eq!(once([5, 5]), Ok(vec![0, 0]));
        assert_eq!(once([5, 6]), Ok(vec![0, 1]));
        assert_eq!(heard(0, &[1, 2], [5, 5]), Ok(vec![0, 1]));
    }

    /// Beside a map, for many ranks and senders of which several have the same place in the table.
    #[test]
    fn first_messages_of_senders_are_found() {
        use rand::{Rng, SeedableRng};
        for seed in 0..20 {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let count = random.random_range(1..20);
            let mut seen = Seen::new(count);
            for rank in 0..400 {
                let mut first = std::collections::HashMap::new();
                for at in 0..count {
                    let sender = random.random_range(0..3 * count) << random.random_range(0..20);
                    let expected = *first.entry(sender).or_insert(at);
                    assert_eq!(seen.first(rank, Rank(sender), at), expected, "seed {seed}, rank {rank}");
                }
            }
        }
    }

    /// One share needs no thread.
    #[test]
    fn threads_get_a_share_each() {
        struct Counted(std::sync::atomic::AtomicUsize);
        impl Threads for Counted {
            fn count(&self) -> usize {
                4
            }
            fn run(&self, jobs: Vec<Job<'_>>) {
                self.0.fetch_add(jobs.len(), std::sync::atomic::Ordering::Relaxed);
                jobs.into_iter().for_each(|job| job());
            }
        }
        for (each, shared) in [(20, 0), (19, 2), (5, 4), (6, 4)] {
            let threads = Counted(0.into());
            let shares = Shares { ranks: 20, each, threads: &threads };
            let found = shares.map(|ranks| ranks);
            assert_eq!(found.into_iter().flatten().collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
            assert_eq!(threads.0.into_inner(), shared, "{each} each");
        }
    }

    /// A graph that has other messages than the rounds say, or fewer, or more, is none of them.
    #[test]
    fn graphs_with_other_messages_are_not_of_the_rounds() {
        let rounds = From([&[3, 0, 1, 2], &[1, 2, 3, 0]]);
        let graph = |messages: &[(bool, u64, u32, u32)]| {
            let (mut graph, void) = (Graph::new(), castell_goal::op::Place::VOID);
            for &(sends, bytes, peer, tag) in messages {
                let (peer, tag) = (Rank(peer), castell_base::Tag(tag));
                match sends {
                    true => graph.send(void, bytes, peer, tag).expect("a small graph"),
                    false => graph.recv(void, bytes, Some(peer), Some(tag)).expect("a small graph"),
                };
                graph.calc(1).expect("a small graph");
            }
            is_of_rounds(&graph, &rounds)
        };
        let whole = [(true, 8, 1, 0), (false, 8, 3, 0), (true, 8, 3, 0), (false, 8, 1, 0)];
        assert!(graph(&whole));
        assert!(graph(&[whole[0], whole[2], whole[1], whole[3]]));
        assert!(!graph(&[]));
        for at in 0..4 {
            let mut fewer = whole.to_vec();
            fewer.remove(at);
            assert!(!graph(&fewer), "without message {at}");
            let mut more = whole.to_vec();
            more.push(whole[at]);
            assert!(!graph(&more), "message {at} twice");
            for (bytes, peer, tag) in [(9, whole[at].2, 0), (8, 2, 0), (8, whole[at].2, 1)] {
                let mut other = whole;
                other[at] = (whole[at].0, bytes, peer, tag);
                assert!(!graph(&other), "{other:?}");
            }
        }
        assert!(!graph(&[whole[2], whole[1], whole[0], whole[3]]), "in another order");
    }

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
