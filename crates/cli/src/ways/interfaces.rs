//! Over which network interfaces raw frames go.

use castell_base::Rank;
use castell_comm::job::Job;
use castell_comm::jobs;
use std::collections::BTreeSet;

/// Of so many ranks of a place the ways are looked at, as only to the first is kept who reaches them how.
const RANKS_MAX: usize = 64;

/// The interfaces between ranks of two hosts: those over which some have met, by name, `eth0` or `eth0-eth2` where they are called differently.
pub fn met_over(views: &[&Job], ones: &[u32], others: &[u32]) -> Vec<String> {
    let pairs =
        ones.iter().take(RANKS_MAX).flat_map(|one| others.iter().take(RANKS_MAX).map(|other| (*one, *other)));
    let of_pair = |(one, other): (u32, u32)| {
        let seen = |from, to| views.iter().find_map(|job| over(job, Rank(from), Rank(to)));
        let back = || seen(other, one).map(|(there, here)| (here, there));
        let (here, there) = seen(one, other)
            .map(|(here, there)| (Some(here), there))
            .or_else(|| back().map(|(here, there)| (here, Some(there))))?;
        let both = [here?, there?];
        Some(if both[0] == both[1] { both[0].clone() } else { both.join("-") })
    };
    pairs.filter_map(of_pair).collect::<BTreeSet<_>>().into_iter().collect()
}

/// What a rank calls its own interface to another one, and what that calls its.
fn over(job: &Job, rank: Rank, other: Rank) -> Option<(String, Option<String>)> {
    let (own, theirs) = job.cards(rank, other)?;
    let name = |rank, card: usize| jobs::interfaces_of(job, rank)?.get(card).cloned();
    Some((name(rank, own)?, theirs.and_then(|card| name(other, card))))
}

/// All interfaces that ranks have, while none have met: with commas.
pub fn tried(views: &[&Job], ranks: impl Iterator<Item = u32>) -> String {
    let of = |rank| views.iter().find_map(|job| jobs::interfaces_of(job, Rank(rank)));
    ranks.filter_map(of).flatten().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", ")
}
