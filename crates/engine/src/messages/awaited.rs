//! Messages for which their senders have asked, and that come in pieces. There may be many of them, unlike those that descriptors announce.

use super::Memory;
use super::token::{Posted, Token};
use castell_base::Rank;
use std::collections::BTreeMap;

/// A receive whose message was granted.
struct Awaited {
    posted: Posted,
    taken: u64,
}

/// By sender and by the number of its request.
#[derive(Default)]
pub(super) struct AwaitedMessages(BTreeMap<(Rank, u64), Awaited>);

impl AwaitedMessages {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, source: Rank, request: u64, posted: Posted) {
        self.0.insert((source, request), Awaited { posted, taken: 0 });
    }

    /// Takes out one that will not come.
    pub(super) fn remove(&mut self, source: Rank, request: u64) -> Option<Token> {
        self.0.remove(&(source, request)).map(|awaited| awaited.posted.token)
    }

    /// Takes out those whose owner failed.
    pub(super) fn drop_of(&mut self, owner: u32) {
        self.0.retain(|_, awaited| awaited.posted.token.owner != owner);
    }

    /// Who waits, and for whom.
    pub(super) fn waits(&self) -> impl Iterator<Item = (Token, Rank)> + '_ {
        self.0.iter().map(|((source, _), awaited)| (awaited.posted.token, *source))
    }

    /// Where the next piece lies, and how many bytes come before it.
    pub(super) fn next(&self, source: Rank, request: u64) -> Option<(&Memory, u64)> {
        self.0.get(&(source, request)).map(|awaited| (&awaited.posted.memory, awaited.taken))
    }

    /// The next piece is there; who waited, if it was the last one.
    pub(super) fn count(&mut self, source: Rank, request: u64, bytes: u64) -> Option<Token> {
        let awaited = self.0.get_mut(&(source, request))?;
        awaited.taken += bytes;
        if awaited.taken == awaited.posted.memory.bytes() { self.remove(source, request) } else { None }
    }
}
