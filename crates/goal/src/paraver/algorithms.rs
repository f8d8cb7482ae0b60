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
