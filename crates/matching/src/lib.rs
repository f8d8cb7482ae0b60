//! Which message goes to which receive: posted receives and unexpected messages of one rank.
//!
//! A receive takes the message that arrived first among those it matches; a message goes to the receive that was
//! posted first among those that match it. Entries of a side lie in a row, where one is found that is near the front; when
//! one is not, or there are very many, all are hashed, with one chain a key, so that no number of waiting entries makes a
//! step slow.
//!
//! This room knows nothing of runs, times or transports. Start at [`Matcher`].
#![forbid(unsafe_code)]

mod index;

use castell_base::{Rank, Tag};
use index::{ANY, Index, MessageIndex, ReceiveIndex, Slab, Triple};
use std::collections::VecDeque;

/// So many entries of one side are compared one by one, before all are hashed.
const COMPARED: usize = 32;
/// So many lie in a row at most, since one step may have to hash them all.
const ROW: usize = 16_384;

/// What a message carries to be matched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Communicator and run number.
    pub context: u64,
    /// Sender.
    pub source: Rank,
    /// Label.
    pub tag: Tag,
}

/// What a receive asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Communicator and run number; there is no wildcard for it.
    pub context: u64,
    /// Sender; `None`: any.
    pub source: Option<Rank>,
    /// Label; `None`: any.
    pub tag: Option<Tag>,
}

impl Pattern {
    /// Whether a receive with this pattern takes a message with this key.
    pub fn matches(self, key: Key) -> bool {
        let source = self.source.is_none_or(|source| source == key.source);
        self.context == key.context && source && self.tag.is_none_or(|tag| tag == key.tag)
    }
}

impl From<Key> for Triple {
    #[inline]
    fn from(key: Key) -> Triple {
        Triple { context: key.context, source: key.source.0, tag: key.tag.0 }
    }
}

impl From<Pattern> for Triple {
    #[inline]
    fn from(pattern: Pattern) -> Triple {
        let (source, tag) = (pattern.source.map_or(ANY, |rank| rank.0), pattern.tag.map_or(ANY, |tag| tag.0));
        Triple { context: pattern.context, source, tag }
    }
}

impl From<Triple> for Key {
    fn from(triple: Triple) -> Key {
        Key { context: triple.context, source: Rank(triple.source), tag: Tag(triple.tag) }
    }
}

impl From<Triple> for Pattern {
    fn from(triple: Triple) -> Pattern {
        let some = |word: u32| (word != ANY).then_some(word);
        Pattern {
            context: triple.context,
            source: some(triple.source).map(Rank),
            tag: some(triple.tag).map(Tag),
        }
    }
}

/// Posted receives and unexpected messages, each with something of the caller's.
///
/// ```
/// use castell_base::{Rank, Tag};
/// use castell_matching::{Key, Matcher, Pattern};
///
/// let mut matcher = Matcher::new();
/// let key = Key { context: 0, source: Rank(3), tag: Tag(7) };
/// // A message that nobody waits for yet is kept, as what the closure makes of it.
/// assert_eq!(matcher.arrive(key, || "early"), None);
/// let any = Pattern { context: 0, source: None, tag: Some(Tag(7)) };
/// assert_eq!(matcher.post(any, 1), Some("early"));
/// // Now the receives are first: the one posted first takes it.
/// assert_eq!(matcher.post(any, 2), None);
/// assert_eq!(matcher.post(any, 3), None);
/// assert_eq!(matcher.arrive(key, || unreachable!()), Some(2));
/// assert_eq!((matcher.posted_len(), matcher.unexpected_len()), (1, 0));
/// ```
pub struct Matcher<Posted, Unexpected> {
    posted: Side<Posted, ReceiveIndex>,
    unexpected: Side<Unexpected, MessageIndex>,
}

impl<Posted, Unexpected> Default for Matcher<Posted, Unexpected> {
    fn default() -> Self {
        Matcher::new()
    }
}

impl<Posted, Unexpected> Matcher<Posted, Unexpected> {
    /// No receives, no messages.
    pub fn new() -> Matcher<Posted, Unexpected> {
        Matcher { posted: Side::new(), unexpected: Side::new() }
    }

    /// A receive is posted: it takes the unexpected message that arrived first among those that match, which is
    /// returned; without one the receive waits.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, posted: Posted) -> Option<Unexpected> {
        let triple = pattern.into();
        let found = self.unexpected.take(triple);
        if found.is_none() {
            self.posted.push(triple, posted);
        }
        found
    }

    /// A message arrives: it goes to the receive that was posted first among those that match, which is returned;
    /// without one, what `make` returns waits as an unexpected message.
    #[inline]
    pub fn arrive(&mut self, key: Key, make: impl FnOnce() -> Unexpected) -> Option<Posted> {
        let triple = key.into();
        let found = self.posted.take(triple);
        if found.is_none() {
            self.unexpected.push(triple, make());
        }
        found
    }

    /// Number of receives that wait.
    #[inline]
    pub fn posted_len(&self) -> usize {
        self.posted.len()
    }

    /// Number of messages that wait.
    #[inline]
    pub fn unexpected_len(&self) -> usize {
        self.unexpected.len()
    }

    /// The receives that wait, in no particular order.
    pub fn posted(&self) -> impl Iterator<Item = (Pattern, &Posted)> {
        self.posted.iter().map(|(triple, posted)| (triple.into(), posted))
    }

    /// The messages that wait, in no particular order.
    pub fn unexpected(&self) -> impl Iterator<Item = (Key, &Unexpected)> {
        self.unexpected.iter().map(|(triple, message)| (triple.into(), message))
    }

    /// The receives that wait, in no particular order; what belongs to them may be changed.
    pub fn posted_mut(&mut self) -> impl Iterator<Item = (Pattern, &mut Posted)> {
        self.posted.iter_mut().map(|(triple, posted)| (triple.into(), posted))
    }

    /// The messages that wait, in no particular order; what belongs to them may be changed.
    pub fn unexpected_mut(&mut self) -> impl Iterator<Item = (Key, &mut Unexpected)> {
        self.unexpected.iter_mut().map(|(triple, message)| (triple.into(), message))
    }

    /// Takes out all receives that `choose` says yes to, in posting order: those of a run that failed, as a rule.
    /// Looks at every receive that waits.
    pub fn take_posted(&mut self, mut choose: impl FnMut(Pattern, &Posted) -> bool) -> Vec<Posted> {
        self.posted.take_all(|triple, value| choose(triple.into(), value))
    }

    /// Takes out all messages that `choose` says yes to, in order of arrival. Looks at every message that waits.
    pub fn take_unexpected(&mut self, mut choose: impl FnMut(Key, &Unexpected) -> bool) -> Vec<Unexpected> {
        self.unexpected.take_all(|triple, value| choose(triple.into(), value))
    }

    /// Takes out everything of one context: receives in posting order, messages in order of arrival.
    pub fn take_context(&mut self, context: u64) -> (Vec<Posted>, Vec<Unexpected>) {
        let posted = self.take_posted(|pattern, _| pattern.context == context);
        (posted, self.take_unexpected(|key, _| key.context == context))
    }
}

/// The entries of one side.
struct Side<T, I: Index> {
    /// All entries in order, while `many` is empty.
    row: VecDeque<(Triple, T)>,
    many: Slab<T>,
    index: I,
}

impl<T, I: Index> Side<T, I> {
    fn new() -> Side<T, I> {
        Side { row: VecDeque::with_capacity(COMPARED), many: Slab::new(), index: I::default() }
    }

    #[inline]
    fn len(&self) -> usize {
        self.row.len() + self.many.len()
    }

    fn iter(&self) -> impl Iterator<Item = (Triple, &T)> {
        let many = self.many.iter().map(|(_, waiting)| (waiting.triple, &waiting.value));
        self.row.iter().map(|(triple, value)| (*triple, value)).chain(many)
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (Triple, &mut T)> {
        let many = self.many.iter_mut().map(|waiting| (waiting.triple, &mut waiting.value));
        self.row.iter_mut().map(|(triple, value)| (*triple, value)).chain(many)
    }

    #[inline]
    fn push(&mut self, triple: Triple, value: T) {
        if self.many.len() == 0 && self.row.len() < ROW {
            self.row.push_back((triple, value));
        } else {
            self.push_many(triple, value);
        }
    }

    #[inline(never)]
    fn push_many(&mut self, triple: Triple, value: T) {
        self.row.push_back((triple, value));
        self.hash_row();
    }

    fn hash_row(&mut self) {
        for (triple, value) in self.row.drain(..) {
            let entry = self.many.insert(triple, value);
            self.index.insert(triple, entry);
        }
    }

    /// Takes out the first entry that goes with `wanted`.
    #[inline]
    fn take(&mut self, wanted: Triple) -> Option<T> {
        match self.row.front() {
            // Those that go together come in the same order as a rule.
            Some((first, _)) if I::goes_with(*first, wanted) => self.row.pop_front().map(|(_, value)| value),
            Some(_) => self.take_from_row(wanted),
            None if self.many.len() == 0 => None,
            None => self.take_many(wanted),
        }
    }

    fn take_from_row(&mut self, wanted: Triple) -> Option<T> {
        let compared = self.row.iter().take(COMPARED);
        if let Some(found) = compared.skip(1).position(|&(triple, _)| I::goes_with(triple, wanted)) {
            return self.row.remove(1 + found).map(|(_, value)| value);
        }
        if self.row.len() <= COMPARED {
            return None;
        }
        self.hash_row();
        self.take_many(wanted)
    }

    #[inline(never)]
    fn take_many(&mut self, wanted: Triple) -> Option<T> {
        let entry = self.index.find(&self.many, wanted)?;
        Some(self.remove_many(entry))
    }

    fn remove_many(&mut self, entry: u32) -> T {
        let waiting = self.many.remove(entry);
        self.index.remove(waiting.triple, entry);
        if self.many.len() == 0 {
            self.many.reset();
            self.index.reset();
        }
        waiting.value
    }

    /// Takes out all entries that `choose` says yes to, in order.
    fn take_all(&mut self, mut choose: impl FnMut(Triple, &T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for (triple, value) in std::mem::take(&mut self.row) {
            if choose(triple, &value) {
                taken.push(value);
            } else {
                self.row.push_back((triple, value));
            }
        }
        let chosen = self.many.iter().filter(|(_, waiting)| choose(waiting.triple, &waiting.value));
        let mut chosen: Vec<(u64, u32)> = chosen.map(|(entry, waiting)| (waiting.sequence, entry)).collect();
        chosen.sort_unstable();
        taken.extend(chosen.into_iter().map(|(_, entry)| self.remove_many(entry)));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tag: usize) -> Key {
        Key { context: 0, source: Rank(0), tag: Tag(tag as u32) }
    }

    fn filled(count: usize) -> Matcher<(), usize> {
        let mut matcher = Matcher::new();
        for tag in 0..count {
            assert_eq!(matcher.arrive(key(tag), || tag), None);
        }
        matcher
    }

    fn lie(matcher: &Matcher<(), usize>) -> (usize, usize) {
        (matcher.unexpected.row.len(), matcher.unexpected.many.len())
    }

    /// Hashing costs more than it gains where the wanted one is among the first.
    #[test]
    fn entries_lie_in_a_row_until_there_are_many_or_one_is_far_back() {
        assert_eq!(lie(&filled(ROW)), (ROW, 0));
        assert_eq!(lie(&filled(ROW + 1)), (0, ROW + 1));
        let mut matcher = filled(COMPARED + 2);
        for (tag, expected) in [(COMPARED - 1, (COMPARED + 1, 0)), (COMPARED + 1, (0, COMPARED))] {
            let Key { context, source, tag: label } = key(tag);
            let pattern = Pattern { context, source: Some(source), tag: Some(label) };
            assert_eq!((matcher.post(pattern, ()), lie(&matcher)), (Some(tag), expected));
        }
    }
}
