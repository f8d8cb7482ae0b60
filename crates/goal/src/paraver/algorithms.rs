//! The messages that stand for a collective call.
//!
//! A trace says of a collective call who took part, how many bytes each gave and got, and who was the root, but not how
//! the library carried it out. What stands here instead are the algorithms that MPI libraries use for short messages
//! (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005): binomial trees,
//! recursive doubling, Bruck's allgather, dissemination, pairwise exchange.

/// What a member does at once: both may be there, and the next step waits for both. Members by their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub send: Option<(usize, u64)>,
    pub recv: Option<(usize, u64)>,
}

/// Each member sends to one further and further up, and hears from as far down.
pub(super) fn dissemination(members: usize, me: usize, bytes: u64) -> Vec<Step> {
    let distances = std::iter::successors(Some(1), |distance| Some(distance * 2));
    let exchange = |distance: usize| {
        let (to, from) = ((me + distance) % members, (me + members - distance) % members);
        Step { send: Some((to, bytes)), recv: Some((from, bytes)) }
    };
    distances.take_while(|distance| *distance < members).map(exchange).collect()
}

/// The largest power of two of the members exchange in a hypercube; the others give theirs to a neighbour before and
/// get the result after.
pub(super) fn recursive_doubling(members: usize, me: usize, bytes: u64) -> Vec<Step> {
    let core = if members.is_power_of_two() { members } else { members.next_power_of_two() / 2 };
    let folded = 2 * (members - core);
    let give = |to: usize| Step { send: Some((to, bytes)), recv: None };
    let take = |from: usize| Step { send: None, recv: Some((from, bytes)) };
    if me < folded && me.is_multiple_of(2) {
        return vec![give(me + 1), take(me + 1)];
    }
    let place = if me < folded { me / 2 } else { me - folded / 2 };
    let member = |place: usize| if place < folded / 2 { 2 * place + 1 } else { place + folded / 2 };
    let mut steps = Vec::new();
    if me < folded {
        steps.push(take(me - 1));
    }
    let mut distance = 1;
    while distance < core {
        let other = member(place ^ distance);
        steps.push(Step { send: Some((other, bytes)), recv: Some((other, bytes)) });
        distance *= 2;
    }
    if me < folded {
        steps.push(give(me - 1));
    }
    steps
}

/// In round i each member sends to the i-th behind it. `bytes`: what a member gives each other.
pub(super) fn pairwise(members: usize, me: usize, bytes: impl Fn(usize) -> u64) -> Vec<Step> {
    let exchange = |distance: usize| {
        let (to, from) = ((me + distance) % members, (me + members - distance) % members);
        Step { send: Some((to, bytes(me))), recv: Some((from, bytes(from))) }
    };
    (1..members).map(exchange).collect()
}

/// In each round a member sends to one further and further up, as long as there is one.
pub(super) fn scan(members: usize, me: usize, bytes: u64) -> Vec<Step> {
    let distances = std::iter::successors(Some(1), |distance| Some(distance * 2));
    let exchange = |distance: usize| Step {
        send: (me + distance < members).then_some((me + distance, bytes)),
        recv: (me >= distance).then(|| (me - distance, bytes)),
    };
    distances.take_while(|distance| *distance < members).map(exchange).collect()
}

/// All gather from all: in each round a member hands on all that it has, up to as much as is missing. `bytes`: what a
/// member gives.
pub(super) fn bruck(members: usize, me: usize, bytes: impl Fn(usize) -> u64) -> Vec<Step> {
    let sum = |first: usize, count: usize| -> u64 {
        (first..first + count).map(|member| bytes(member % members)).fold(0, u64::saturating_add)
    };
    let mut steps = Vec::new();
    let mut have = 1;
    while have < members {
        let (to, from) = ((me + members - have) % members, (me + have) % members);
        let count = have.min(members - have);
        steps.push(Step { send: Some((to, sum(me, count))), recv: Some((from, sum(from, count))) });
        have += count;
    }
    steps
}

/// A member's place in a binomial tree.
pub(super) struct Tree {
    pub members: usize,
    pub root: usize,
    pub me: usize,
}

impl Tree {
    /// Distance from the root, of which a member's children and parent follow.
    fn distance(&self) -> usize {
        (self.me + self.members - self.root) % self.members
    }

    /// The lowest bit of the distance, or the power of two above all members at the root: how far the subtree reaches.
    fn reach(&self) -> usize {
        match self.distance() {
            0 => self.members.next_power_of_two(),
            distance => 1 << distance.trailing_zeros(),
        }
    }

    /// All members of the subtree at a distance that reaches so far.
    fn subtree(&self, distance: usize, reach: usize) -> impl Iterator<Item = usize> {
        let (root, members) = (self.root, self.members);
        (distance..(distance + reach).min(members)).map(move |distance| (root + distance) % members)
    }

    /// Children at distances `reach / 2`, …, 2, 1 from here, as far as there are any; with how far they reach.
    fn children(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let (distance, members) = (self.distance(), self.members);
        let bits = (0..self.reach().trailing_zeros()).rev();
        bits.map(|bit| 1usize << bit)
            .map(move |reach| (distance + reach, reach))
            .filter(move |(child, _)| *child < members)
    }

    fn member(&self, distance: usize) -> usize {
        (self.root + distance) % self.members
    }

    /// What comes from the parent goes to the children, the farthest first. `bytes`: what a subtree gets.
    pub fn down(&self, bytes: impl Fn(&mut dyn Iterator<Item = usize>) -> u64) -> Vec<Step> {
        let (distance, reach) = (self.distance(), self.reach());
        let mut steps = Vec::new();
        if distance > 0 {
            let bytes = bytes(&mut self.subtree(distance, reach));
            steps.push(Step { send: None, recv: Some((self.member(distance - reach), bytes)) });
        }
        for (child, reach) in self.children() {
            let bytes = bytes(&mut self.subtree(child, reach));
            steps.push(Step { send: Some((self.member(child), bytes)), recv: None });
        }
        steps
    }

    /// The same the other way round.
    pub fn up(&self, bytes: impl Fn(&mut dyn Iterator<Item = usize>) -> u64) -> Vec<Step> {
        let mut steps = self.down(bytes);
        steps.reverse();
        for step in &mut steps {
            (step.send, step.recv) = (step.recv, step.send);
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashMap, VecDeque};

    /// What became of all members when each carried out its steps, each of which takes one round.
    struct Outcome {
        /// Whose data each has in the end; a message carries all that its sender had before that step.
        has: Vec<BTreeSet<usize>>,
        /// Bytes got by each.
        got: Vec<u64>,
        /// Every message: from, to.
        sent: Vec<(usize, usize)>,
        rounds: usize,
    }

    /// Messages from one to another: bytes, and whose data they carry.
    type Sent = HashMap<(usize, usize), VecDeque<(u64, BTreeSet<usize>)>>;

    fn carry_out(members: usize, steps: impl Fn(usize) -> Vec<Step>) -> Outcome {
        let mut steps: Vec<VecDeque<Step>> = (0..members).map(|me| steps(me).into()).collect();
        let mut has: Vec<BTreeSet<usize>> = (0..members).map(|me| BTreeSet::from([me])).collect();
        let (mut got, mut sent, mut rounds) = (vec![0; members], Vec::new(), 0);
        let mut on_the_way = Sent::new();
        let mut is_sent = vec![false; members];
        while steps.iter().any(|steps| !steps.is_empty()) {
            rounds += 1;
            assert!(rounds <= 10 * members + 10, "somebody waits for ever");
            for me in 0..members {
                if let Some(&Step { send: Some((to, bytes)), .. }) = steps[me].front()
                    && !std::mem::replace(&mut is_sent[me], true)
                {
                    assert!(to < members && to != me, "{me} to {to}");
                    sent.push((me, to));
                    on_the_way.entry((me, to)).or_default().push_back((bytes, has[me].clone()));
                }
            }
            for me in 0..members {
                let Some(step) = steps[me].front() else { continue };
                if let Some((from, bytes)) = step.recv {
                    let next = on_the_way.get_mut(&(from, me)).and_then(VecDeque::pop_front);
                    let Some((came, data)) = next else { continue };
                    assert_eq!(came, bytes, "{from} to {me}");
                    got[me] += bytes;
                    has[me].extend(data);
                }
                steps[me].pop_front();
                is_sent[me] = false;
            }
        }
        assert!(on_the_way.values().all(VecDeque::is_empty), "somebody does not listen");
        Outcome { has, got, sent, rounds }
    }

    /// Rounds in which as many as these can hear of one, if whoever has heard tells one more in each.
    fn doublings(members: usize) -> usize {
        (0..).find(|&rounds| 1 << rounds >= members).unwrap()
    }

    fn own(me: usize) -> u64 {
        100 + 7 * me as u64
    }

    #[test]
    fn all_hear_of_all_in_as_few_rounds_as_can_be() {
        for members in 1..=33 {
            let all: BTreeSet<usize> = (0..members).collect();
            let total: u64 = all.iter().map(|me| own(*me)).sum();
            let rounds = doublings(members);
            let barrier = carry_out(members, |me| dissemination(members, me, 1));
            assert!(barrier.has.iter().all(|has| *has == all));
            assert_eq!((barrier.rounds, barrier.sent.len()), (rounds, rounds * members));
            let gathered = carry_out(members, |me| bruck(members, me, own));
            assert!(gathered.has.iter().all(|has| *has == all));
            assert_eq!((gathered.rounds, gathered.sent.len()), (rounds, rounds * members));
            // Each gets what the others give, and nothing twice.
            assert!(gathered.got.iter().enumerate().all(|(me, got)| got + own(me) == total));
            let reduced = carry_out(members, |me| recursive_doubling(members, me, 8));
            assert!(reduced.has.iter().all(|has| *has == all));
            // Beyond a power of two some give theirs away before, and get the result after.
            let core = 1 << (usize::BITS - 1 - members.leading_zeros());
            let beyond = members - core;
            let (before_and_after, inside) = (2 * usize::from(beyond > 0), core.trailing_zeros() as usize);
            assert_eq!(reduced.rounds, inside + before_and_after);
            assert_eq!(reduced.sent.len(), core * inside + 2 * beyond);
            let exchanged = carry_out(members, |me| pairwise(members, me, own));
            assert!(exchanged.got.iter().enumerate().all(|(me, got)| got + own(me) == total));
            let pairs: BTreeSet<(usize, usize)> = exchanged.sent.iter().copied().collect();
            assert_eq!(
                (pairs.len(), exchanged.sent.len()),
                (members * (members - 1), members * (members - 1))
            );
            assert_eq!(exchanged.rounds, members - 1);
        }
    }

    #[test]
    fn a_scan_hears_of_all_below() {
        for members in 1..=33 {
            let scanned = carry_out(members, |me| scan(members, me, 8));
            for (me, has) in scanned.has.iter().enumerate() {
                assert_eq!(*has, (0..=me).collect(), "{me} of {members}");
            }
            assert_eq!(scanned.rounds, doublings(members));
            assert!(scanned.sent.iter().all(|(from, to)| from < to));
        }
    }

    #[test]
    fn trees_reach_all_once_and_in_as_few_rounds_as_can_be() {
        for members in 1..=33 {
            for root in 0..members {
                let all: BTreeSet<usize> = (0..members).collect();
                let tree = |me| Tree { members, root, me };
                let sum = |subtree: &mut dyn Iterator<Item = usize>| subtree.map(own).sum();
                let down = carry_out(members, |me| tree(me).down(sum));
                assert!(down.has.iter().all(|has| has.contains(&root)));
                let up = carry_out(members, |me| tree(me).up(sum));
                assert_eq!(up.has[root], all);
                for (outcome, hears) in [(&down, false), (&up, true)] {
                    assert_eq!((outcome.rounds, outcome.sent.len()), (doublings(members), members - 1));
                    // Everybody but the root has one above it.
                    let below: BTreeSet<usize> =
                        outcome.sent.iter().map(|&(from, to)| if hears { from } else { to }).collect();
                    assert!(below.len() == members - 1 && !below.contains(&root));
                }
                // What comes down to a member is its own and what it sends on; the other way round the same.
                for me in (0..members).filter(|me| *me != root) {
                    let (down, up) = (tree(me).down(sum), tree(me).up(sum));
                    let sent: u64 = down.iter().filter_map(|step| step.send).map(|(_, bytes)| bytes).sum();
                    assert_eq!(down[0].recv.map(|(_, bytes)| bytes), Some(own(me) + sent));
                    let got: u64 = up.iter().filter_map(|step| step.recv).map(|(_, bytes)| bytes).sum();
                    assert_eq!(
                        up.last().and_then(|step| step.send).map(|(_, bytes)| bytes),
                        Some(own(me) + got)
                    );
                }
            }
        }
    }
}
