//! What leaders hold and pass to each other: named parts, of which a message has several one behind the other.

use super::super::broadcast::{children_in_order, subtree_end};
use super::super::weaver::{Span, Weaver};
use super::levels::Levels;
use castell_base::Rank;
use castell_goal::graph::GraphError;

/// What a part is: ranks from and to, or a host; parts are kept in this order.
pub(super) type Key = (u32, u32);

/// A part, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub key: Key,
    pub span: Span,
}

/// What the parts are that hosts have together.
pub(super) trait Parts {
    /// Those of these hosts, and how many elements each has.
    fn of(&self, hosts: &[u32]) -> Vec<(Key, u64)>;

    /// Makes what hosts have together of what each of them has.
    fn join(&self, weaver: &mut Weaver<'_>, held: Vec<Held>) -> Result<Vec<Held>, GraphError>;
}

/// Sends parts in one message.
pub(super) fn send(weaver: &mut Weaver<'_>, peer: Rank, held: &[Held]) -> Result<(), GraphError> {
    let spans: Vec<Span> = held.iter().map(|part| part.span).collect();
    let packed = pack(weaver, &spans)?;
    weaver.send(peer, packed).map(|_| ())
}

/// Where these lie one behind the other: there, or in a copy.
pub(super) fn pack(weaver: &mut Weaver<'_>, spans: &[Span]) -> Result<Span, GraphError> {
    let count = spans.iter().map(|span| span.count).sum();
    let follows =
        |pair: &[Span]| pair[0].region == pair[1].region && pair[0].first + pair[0].count == pair[1].first;
    if let Some(first) = spans.first().filter(|_| spans.windows(2).all(follows)) {
        return Ok(Span { count, ..*first });
    }
    let packed = weaver.temporary(count);
    let mut at = 0;
    for &span in spans {
        weaver.copy(span, packed.part(at, span.count))?;
        at += span.count;
    }
    Ok(packed)
}

/// Receives parts in one message.
pub(super) fn recv(
    weaver: &mut Weaver<'_>,
    peer: Rank,
    parts: &[(Key, u64)],
) -> Result<Vec<Held>, GraphError> {
    let packed = weaver.temporary(parts.iter().map(|(_, count)| count).sum());
    weaver.recv(peer, packed)?;
    Ok(cut(packed, parts))
}

/// The parts of a message.
fn cut(packed: Span, parts: &[(Key, u64)]) -> Vec<Held> {
    let ends = parts.iter().scan(0, |end, (_, count)| {
        *end += count;
        Some(*end)
    });
    let part = |(&(key, count), end): (&(Key, u64), u64)| Held { key, span: packed.part(end - count, count) };
    parts.iter().zip(ends).map(part).collect()
}

/// Leaders exchange what they have until each has what all have: recursive doubling over the hosts. Where these are no power of two,
/// some of them first give what they have to a neighbour, and take the result from it.
pub(super) fn everywhere(
    levels: &Levels<'_>,
    weaver: &mut Weaver<'_>,
    parts: &dyn Parts,
    mine: Vec<Held>,
) -> Result<Vec<Held>, GraphError> {
    let (hosts, host) = (levels.hosts(), levels.host());
    let all: Vec<u32> = (0..hosts).collect();
    let power = 1 << hosts.ilog2();
    let paired = hosts - power;
    let is_paired = host < 2 * paired;
    if is_paired && host % 2 == 1 {
        let neighbour = levels.leader(host - 1);
        send(weaver, neighbour, &mine)?;
        return recv(weaver, neighbour, &parts.of(&all));
    }
    let mut held = mine;
    if is_paired {
        let theirs = recv(weaver, levels.leader(host + 1), &parts.of(&[host + 1]))?;
        held = joined(parts, weaver, held, theirs)?;
    }
    // Those that go on have new numbers; each stands for itself and, if it has one, its neighbour.
    let first_of = |number: u32| if number < paired { 2 * number } else { number + paired };
    let number = if is_paired { host / 2 } else { host - paired };
    let mut distance = 1;
    while distance < power {
        let peer = number ^ distance;
        let leader = levels.leader(first_of(peer));
        send(weaver, leader, &held)?;
        let from = peer & !(distance - 1);
        let theirs: Vec<u32> = (first_of(from)..first_of(from + distance)).collect();
        let theirs = recv(weaver, leader, &parts.of(&theirs))?;
        held = joined(parts, weaver, held, theirs)?;
        distance *= 2;
    }
    if is_paired {
        send(weaver, levels.leader(host + 1), &held)?;
    }
    Ok(held)
}

/// Up a binomial tree of the hosts to host 0, whose leader alone has what all have.
pub(super) fn up(
    levels: &Levels<'_>,
    weaver: &mut Weaver<'_>,
    parts: &dyn Parts,
    mine: Vec<Held>,
) -> Result<Option<Vec<Held>>, GraphError> {
    let (hosts, host) = (levels.hosts(), levels.host());
    let mut held = mine;
    for child in children_in_order(host, hosts).rev() {
        let theirs: Vec<u32> = (child..subtree_end(child, hosts)).collect();
        let theirs = recv(weaver, levels.leader(child), &parts.of(&theirs))?;
        held = joined(parts, weaver, held, theirs)?;
    }
    if host == 0 {
        return Ok(Some(held));
    }
    send(weaver, levels.leader(host & (host - 1)), &held)?;
    Ok(None)
}

pub(super) fn joined(
    parts: &dyn Parts,
    weaver: &mut Weaver<'_>,
    mut mine: Vec<Held>,
    theirs: Vec<Held>,
) -> Result<Vec<Held>, GraphError> {
    mine.extend(theirs);
    mine.sort_by_key(|part| part.key);
    parts.join(weaver, mine)
}
