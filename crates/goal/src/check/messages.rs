//! Sends without receives, receives without sends, and sizes that cannot agree.
//!
//! A message goes to the receives of its own source and tag in order. So where no receive takes any source or tag, a
//! destination's messages and receives are compared key by key. Keys that a wildcard touches are compared together,
//! by a largest matching of classes (`flow`): an alarm is raised only where every choice at run time leaves something
//! over.

use super::flow::{self, Fits, Leftover};
use super::order::Order;
use super::reach::{Reach, VISITS_MAX};
use super::{Found, Kind, Severity};
use crate::graph::Vertex;
use crate::op::Op;
use castell_base::Rank;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// A send or a receive.
#[derive(Clone, Copy, Debug)]
struct Entry {
    dest: u32,
    /// [`ANY`] in receives from any source.
    source: u32,
    /// [`ANY`] in receives under any tag.
    tag: u32,
    /// Place in its rank's order.
    place: u32,
    vertex: Vertex,
    bytes: u64,
}

const ANY: u32 = u32::MAX;

impl Entry {
    fn key(&self) -> (u32, u32) {
        (self.source, self.tag)
    }
}

/// Messages or receives that are left over.
struct Left {
    first: Entry,
    count: u64,
}

pub(super) fn check(orders: &[Order], found: &mut Found) {
    let (mut messages, mut receives) = gather(orders, found);
    let key = |entry: &Entry| (entry.dest, entry.source, entry.tag, entry.place);
    messages.sort_unstable_by_key(key);
    receives.sort_unstable_by_key(key);
    let mut checker = Checker { orders, reaches: HashMap::new(), budget: VISITS_MAX, found };
    let (mut messages, mut receives) = (&messages[..], &receives[..]);
    while let Some(dest) = messages.first().into_iter().chain(receives.first()).map(|entry| entry.dest).min()
    {
        let (own_messages, own_receives);
        (own_messages, messages) = messages.split_at(messages.partition_point(|entry| entry.dest == dest));
        (own_receives, receives) = receives.split_at(receives.partition_point(|entry| entry.dest == dest));
        checker.destination(own_messages, own_receives);
    }
}

/// All sends and all receives whose peers exist.
fn gather(orders: &[Order], found: &Found) -> (Vec<Entry>, Vec<Entry>) {
    let (mut messages, mut receives) = (Vec::new(), Vec::new());
    let ranks = found.program.num_ranks();
    for ((rank, graph), order) in found.program.graphs().zip(orders) {
        for vertex in graph.vertices() {
            let place = order.place[vertex.index()];
            match graph.op(vertex) {
                Op::Send { bytes, dest, tag, .. } if dest.0 < ranks => {
                    messages.push(Entry { dest: dest.0, source: rank.0, tag: tag.0, place, vertex, bytes });
                }
                Op::Recv { bytes, source, tag, .. } if source.is_none_or(|source| source.0 < ranks) => {
                    let (source, tag) = (source.map_or(ANY, |rank| rank.0), tag.map_or(ANY, |tag| tag.0));
                    receives.push(Entry { dest: rank.0, source, tag, place, vertex, bytes });
                }
                _ => (),
            }
        }
    }
    (messages, receives)
}

struct Checker<'a, 'b, 'c> {
    orders: &'a [Order],
    reaches: HashMap<u32, Reach<'a>>,
    budget: u64,
    found: &'c mut Found<'b>,
}

/// Entries of one key.
type Class<'a> = &'a [Entry];

impl<'a, 'b: 'a> Checker<'a, 'b, '_> {
    /// Everything that goes to one rank; both lists are sorted by key, then place.
    fn destination(&mut self, messages: &[Entry], receives: &[Entry]) {
        let wild = Wildcards::of(receives);
        let (mut left_messages, mut left_receives) = (Vec::new(), Vec::new());
        let (mut shared_messages, mut shared_receives): (Vec<Class>, Vec<Class>) = (Vec::new(), Vec::new());
        let mut messages = messages.chunk_by(|a, b| a.key() == b.key()).peekable();
        let mut receives = receives.chunk_by(|a, b| a.key() == b.key()).peekable();
        loop {
            let order = match (messages.peek(), receives.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(message), Some(receive)) => message[0].key().cmp(&receive[0].key()),
            };
            let message = if order.is_le() { messages.next() } else { None }.unwrap_or_default();
            let receive = if order.is_ge() { receives.next() } else { None }.unwrap_or_default();
            let key = message.first().or(receive.first()).map(Entry::key).unwrap_or_default();
            if wild.touch(key) {
                shared_messages.extend((!message.is_empty()).then_some(message));
                shared_receives.extend((!receive.is_empty()).then_some(receive));
                continue;
            }
            let matched = message.len().min(receive.len());
            let left = |class: Class| {
                class.get(matched).map(|&first| Left { first, count: (class.len() - matched) as u64 })
            };
            left_messages.extend(left(message));
            left_receives.extend(left(receive));
            if message.len() == receive.len() {
                self.sizes_in_order(message, receive);
            }
        }
        if !shared_receives.is_empty() {
            self.shared(&shared_messages, &shared_receives, &mut left_messages, &mut left_receives);
        }
        self.report(&left_messages, &left_receives);
    }

    /// Sizes of as many messages as receives of one key.
    fn sizes_in_order(&mut self, messages: Class, receives: Class) {
        let mut pairs = messages.iter().zip(receives);
        let Some((message, receive)) = pairs.find(|(message, receive)| message.bytes != receive.bytes) else {
            return;
        };
        let (message, receive) = (*message, *receive);
        let in_any_order = common(messages, receives);
        let certain =
            in_any_order < messages.len() || (self.ordered(messages, true) && self.ordered(receives, false));
        let severity = if certain { Severity::Error } else { Severity::Warning };
        let (rank, vertex) = (Rank(message.source), message.vertex);
        self.found.add(severity, Kind::Size, (rank, vertex), |found| {
            let other = found.name(Rank(receive.dest), receive.vertex);
            let because = if certain {
                ""
            } else {
                "; the sizes would agree in another order, and no dependencies fix the order"
            };
            format!(
                "it sends {} bytes, but meets {other}, which receives {}{because}",
                message.bytes, receive.bytes
            )
        });
    }

    /// Whether each of these operations of one rank has surely started when the next one starts.
    fn ordered(&mut self, class: Class, is_send: bool) -> bool {
        let rank = if is_send { class[0].source } else { class[0].dest };
        let order = &self.orders[rank as usize];
        if !order.acyclic {
            return false;
        }
        let graph = self.found.program.rank(Rank(rank));
        let reach = self.reaches.entry(rank).or_insert_with(|| Reach::of(graph, order));
        let budget = &mut self.budget;
        class
            .windows(2)
            .all(|pair| reach.started_before(pair[0].vertex, pair[1].vertex, budget) == Some(true))
    }

    /// Keys that wildcards touch: first whether all can be matched, then whether all can with equal sizes.
    fn shared(
        &mut self,
        messages: &[Class],
        receives: &[Class],
        left_messages: &mut Vec<Left>,
        left_receives: &mut Vec<Left>,
    ) {
        let Some(left) = largest_matching(messages, receives, |_| 0) else { return self.skipped(receives) };
        if !left.is_empty() {
            let left_over = |classes: &[Class], counts: &[u64]| -> Vec<Left> {
                let pairs = classes.iter().zip(counts).filter(|&(_, &count)| count > 0);
                pairs
                    .map(|(class, &count)| Left { first: class[class.len() - count as usize], count })
                    .collect()
            };
            left_messages.extend(left_over(messages, &left.messages));
            left_receives.extend(left_over(receives, &left.receives));
            return;
        }
        let size = messages[0][0].bytes;
        if messages.iter().chain(receives).all(|class| class.iter().all(|entry| entry.bytes == size)) {
            return;
        }
        let sorted = |classes: &[Class]| -> Vec<Entry> {
            let mut entries: Vec<Entry> = classes.concat();
            entries.sort_by_key(|entry| (entry.key(), entry.bytes, entry.place));
            entries
        };
        let (messages, receives) = (sorted(messages), sorted(receives));
        let split = |entry: &Entry, other: &Entry| entry.key() == other.key() && entry.bytes == other.bytes;
        let messages: Vec<Class> = messages.chunk_by(split).collect();
        let receives: Vec<Class> = receives.chunk_by(split).collect();
        let Some(left) = largest_matching(&messages, &receives, |entry| entry.bytes) else {
            return self.skipped(&receives);
        };
        let first = |classes: &[Class], counts: &[u64]| {
            let (class, count) = classes.iter().zip(counts).find(|&(_, &count)| count > 0)?;
            Some(class[class.len() - *count as usize])
        };
        if let (Some(message), Some(receive)) =
            (first(&messages, &left.messages), first(&receives, &left.receives))
        {
            let count: u64 = left.messages.iter().sum();
            self.found.add(Severity::Error, Kind::Size, (Rank(message.source), message.vertex), |found| {
                let other = found.name(Rank(receive.dest), receive.vertex);
                format!(
                    "however wildcards choose, {count} of the messages to rank {} find no receive of their size: \
                     it sends {} bytes, {other} receives {}",
                    message.dest, message.bytes, receive.bytes
                )
            });
        }
    }

    fn skipped(&mut self, receives: &[Class]) {
        let rank = Rank(receives[0][0].dest);
        let message = format!(
            "messages to rank {rank} that its receives from any rank or under any tag can take were not checked: it \
             would take too long"
        );
        self.found.skipped(Some(rank), message);
    }

    /// Reports what one destination has left over, with what was perhaps meant instead.
    fn report(&mut self, messages: &[Left], receives: &[Left]) {
        for left in messages {
            let Entry { dest, source, tag, vertex, .. } = left.first;
            self.found.add(Severity::Error, Kind::SendUnmatched, (Rank(source), vertex), |found| {
                let (sends, have) = if left.count == 1 { ("send", "has") } else { ("sends", "have") };
                let hint = likely(&left.first, receives).map_or(String::new(), |other| {
                    let name = found.name(Rank(dest), other.vertex);
                    match other.source == source {
                        true => format!("; {name} waits for {} instead", tag_name(other.tag)),
                        false => format!("; {name} waits for it from {} instead", source_name(other.source)),
                    }
                });
                format!(
                    "{} {sends} of rank {source} to rank {dest} with tag {tag} {have} no receive{hint}",
                    left.count
                )
            });
        }
        for left in receives {
            let Entry { dest, source, tag, vertex, .. } = left.first;
            self.found.add(Severity::Error, Kind::RecvUnmatched, (Rank(dest), vertex), |found| {
                let (receives, get) = if left.count == 1 { ("receive", "gets") } else { ("receives", "get") };
                let hint = likely(&left.first, messages).map_or(String::new(), |other| {
                    let name = found.name(Rank(other.source), other.vertex);
                    match other.source == source {
                        true => format!("; {name} sends with tag {} instead", other.tag),
                        false => format!("; {name} sends with this tag"),
                    }
                });
                let (from, with) = (source_name(source), tag_name(tag));
                format!(
                    "{} {receives} of rank {dest} from {from} with {with} {get} no message{hint}",
                    left.count
                )
            });
        }
    }
}

/// Which keys of one destination are touched by receives from any source or under any tag.
struct Wildcards {
    all: bool,
    /// Sources from which some receive takes any tag.
    sources: HashSet<u32>,
    /// Tags that some receive takes from any source.
    tags: HashSet<u32>,
}

impl Wildcards {
    fn of(receives: &[Entry]) -> Wildcards {
        let mut wild = Wildcards { all: false, sources: HashSet::new(), tags: HashSet::new() };
        for receive in receives {
            match receive.key() {
                (ANY, ANY) => wild.all = true,
                (ANY, tag) => drop(wild.tags.insert(tag)),
                (source, ANY) => drop(wild.sources.insert(source)),
                _ => (),
            }
        }
        wild
    }

    /// Whether a key is touched; those of such receives themselves are.
    fn touch(&self, (source, tag): (u32, u32)) -> bool {
        self.all || self.sources.contains(&source) || self.tags.contains(&tag)
    }
}

/// Matches classes of messages with classes of receives; only what has the same `size` fits.
fn largest_matching(
    messages: &[Class],
    receives: &[Class],
    size: impl Fn(&Entry) -> u64,
) -> Option<Leftover> {
    let class =
        |(index, class): (usize, &Class)| ((class[0].source, class[0].tag, size(&class[0])), index as u32);
    let index: HashMap<(u32, u32, u64), u32> = receives.iter().enumerate().map(class).collect();
    let fits = |class: &Class| -> (u64, Fits) {
        let Entry { source, tag, .. } = class[0];
        let patterns = [(source, tag), (source, ANY), (ANY, tag), (ANY, ANY)];
        let fits = patterns.map(|(source, tag)| index.get(&(source, tag, size(&class[0]))).copied());
        (class.len() as u64, fits)
    };
    let messages: Vec<_> = messages.iter().map(fits).collect();
    let receives: Vec<u64> = receives.iter().map(|class| class.len() as u64).collect();
    flow::leftover(&messages, &receives)
}

/// What is left over on the other side and differs in the tag only, or else in the source only.
fn likely(left: &Entry, others: &[Left]) -> Option<Entry> {
    let others = || others.iter().map(|other| other.first);
    let same_tag = || others().find(|other| other.tag == left.tag);
    others().find(|other| other.source == left.source).or_else(same_tag)
}

fn source_name(source: u32) -> String {
    if source == ANY { "any rank".into() } else { format!("rank {source}") }
}

fn tag_name(tag: u32) -> String {
    if tag == ANY { "any tag".into() } else { format!("tag {tag}") }
}

/// How many sizes both lists have in common.
fn common(messages: Class, receives: Class) -> usize {
    let sorted = |class: Class| {
        let mut sizes: Vec<u64> = class.iter().map(|entry| entry.bytes).collect();
        sizes.sort_unstable();
        sizes
    };
    let (a, b) = (sorted(messages), sorted(receives));
    let (mut i, mut j, mut common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Problem;
    use crate::program::Program;

    #[test]
    fn what_takes_too_long_is_said_of_its_rank() {
        let program = Program::new(9);
        let mut found = Found::new(&program);
        let receive = Entry { dest: 7, source: ANY, tag: 0, place: 0, vertex: Vertex(0), bytes: 8 };
        Checker { orders: &[], reaches: HashMap::new(), budget: 0, found: &mut found }.skipped(&[&[receive]]);
        let report = found.into_report();
        assert!(report.is_ok());
        let message = "messages to rank 7 that its receives from any rank or under any tag can take were not checked: \
                       it would take too long";
        let (severity, kind, rank) = (Severity::Warning, Kind::Skipped, Some(Rank(7)));
        let (label, line, column) = (None, None, None);
        let problem = Problem { severity, kind, rank, label, line, column, message: message.into() };
        assert_eq!(report.problems, [problem]);
    }
}
