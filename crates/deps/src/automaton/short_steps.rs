//! The usual steps of an access without all that [`State::after`] has to look at. Each is such a step, which a test checks.

use super::{
    ACKNOWLEDGED_SHIFT, CLOSED, FEEDS_CHILD, FINISHED, HAS_CHILDREN, KIND_SHIFT, NEXT, NEXT_IS_PARENT,
    NEXT_SHARES, POISONED_SHIFT, SHARED, SPLIT, State, Tokens, WEAK,
};
use crate::access::Kind;

/// What [`State::receives_simply`] comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The state after.
    pub state: State,
    /// The task has one access less to wait for. It is to be told after the address of the neighbour has been read.
    pub satisfied: bool,
    /// Send these to the neighbour behind, which is a sibling's access.
    pub to_next: Tokens,
}

impl State {
    /// The step that [`Message::Finished`](super::Message::Finished) without failure causes in the usual cases. Without a neighbour behind nothing follows.
    /// With one, if all tokens have come and none is on its way there: it gets those that it has not had, which are returned,
    /// and the access can go.
    #[inline]
    pub fn finishes_simply(self) -> Option<(State, Tokens)> {
        const NOT: u64 = FINISHED | NEXT_IS_PARENT | CLOSED | HAS_CHILDREN | SPLIT | !0 << POISONED_SHIFT;
        if self.0 & NOT != 0 || !self.is_plain() {
            return None;
        }
        if !self.has(NEXT) {
            return Some((State(self.0 | FINISHED), Tokens::NONE));
        }
        let before = self.shared();
        if self.tokens() != Tokens::ALL || self.acknowledged() != before {
            return None;
        }
        Some((State(self.0 | FINISHED | Tokens::ALL.at(ACKNOWLEDGED_SHIFT)), Tokens::ALL & !before))
    }

    /// The step that tokens, none of them poisoned, cause in the usual cases: a strong access that waits, whose kind's token, if it
    /// is among them, goes on to a neighbour that shares it; or one that has finished and has no neighbour yet.
    #[inline]
    pub fn receives_simply(self, tokens: Tokens) -> Option<Received> {
        const NOT: u64 = NEXT_IS_PARENT | FEEDS_CHILD | SPLIT | WEAK | !0 << POISONED_SHIFT;
        // Usually all come at once, and go no further.
        if tokens == Tokens::ALL && self.0 & (NOT | FINISHED | NEXT_SHARES | Tokens::ALL.at(0)) == 0 {
            let state = State(self.0 | Tokens::ALL.at(0));
            return Some(Received { state, satisfied: true, to_next: Tokens::NONE });
        }
        if self.0 & NOT != 0 || !self.is_plain() {
            return None;
        }
        let had = self.is_satisfied();
        if self.has(FINISHED) {
            let nothing_follows = had && self.0 & (NEXT | CLOSED) == 0;
            return nothing_follows.then_some(Received {
                state: State(self.0 | tokens.at(0)),
                satisfied: false,
                to_next: Tokens::NONE,
            });
        }
        let new = State(self.0 | tokens.at(0));
        let satisfied = !had && new.is_satisfied();
        let to_next = if satisfied && new.has(NEXT) { new.shared() } else { Tokens::NONE };
        Some(Received { state: State(new.0 | to_next.at(ACKNOWLEDGED_SHIFT)), satisfied, to_next })
    }

    /// The step that [`Message::Linked`](super::Message::Linked) to a sibling causes in the usual cases, for an access without a neighbour: it has not
    /// finished, and passes on at most the token of its kind, which is returned.
    #[inline]
    pub fn linked_simply(self, shares: bool) -> Option<(State, Tokens)> {
        if self.0 & (FINISHED | SPLIT) != 0 {
            return None;
        }
        let shared = self.of_kind(SHARED);
        let linked = self.0 | NEXT | if shares { NEXT_SHARES } else { 0 };
        if !shares || shared.is_empty() || !self.tokens().contains(shared) {
            return Some((State(linked), Tokens::NONE));
        }
        let usual = self.is_plain() && self.is_clean();
        usual.then_some((State(linked | shared.at(ACKNOWLEDGED_SHIFT)), shared))
    }

    /// Whether tokens are all that the access deals with: no turns, no private copies.
    #[inline]
    const fn is_plain(self) -> bool {
        const OTHERS: u64 = 1 << Kind::Commutative as u32 | 1 << Kind::Reduction as u32;
        OTHERS >> (self.0 >> KIND_SHIFT & 7) & 1 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Effects, Message, Permits};
    use super::*;

    const FINISHES: Message = Message::Finished { failed: false };

    #[test]
    fn the_short_steps_are_steps() {
        let mut word: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut taken = [0; 5];
        for _ in 0..2_000_000 {
            word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Of the high bits, which are the random ones; the sparse words that occur, oftener than chance would have them.
            let bits =
                (word >> 20) & if word >> 63 == 0 { !0 } else { !(!0 << POISONED_SHIFT) & !(word >> 5) };
            let state =
                State(bits | if word >> 62 == 3 { 31 } else { 0 } | if word >> 61 == 5 { NEXT } else { 0 });
            if state.0 >> KIND_SHIFT & 7 > 5 {
                continue;
            }
            if let Some((short, to_next)) = state.finishes_simply() {
                let (after, effects) = state.after(FINISHES);
                let dispose = !to_next.is_empty();
                let expected = Effects { to_next: Permits::clean(to_next), dispose, ..Effects::default() };
                assert_eq!((after, effects), (short, expected), "{state:?}");
                taken[0] += 1;
            }
            for tokens in [Tokens::ALL, Tokens::READ, Tokens::CONCURRENT, !Tokens::READ] {
                // Each token comes once.
                if let Some(short) = state.receives_simply(tokens)
                    && (state.tokens() & tokens).is_empty()
                {
                    let (after, effects) = state.after(Message::Satisfied(Permits::clean(tokens)));
                    let Received { state: new, satisfied, to_next } = short;
                    let to_next = Permits::clean(to_next);
                    assert_eq!(
                        (after, effects),
                        (new, Effects { to_next, satisfied, ..Effects::default() }),
                        "{state:?}"
                    );
                    taken[1] += 1;
                    taken[3] += u32::from(!to_next.is_empty());
                }
            }
            let shares = word & 1 << 40 != 0;
            if state.0 & (NEXT | NEXT_SHARES | NEXT_IS_PARENT | CLOSED) == 0
                && state.0 >> ACKNOWLEDGED_SHIFT & 31 == 0
                && let Some((short, to_next)) = state.linked_simply(shares)
            {
                let (after, effects) = state.after(Message::Linked { shares, parent: false });
                let (poisons, to_next) = (effects.poisons, Permits::clean(to_next));
                let expected = Effects { poisons, to_next, ..Effects::default() };
                assert_eq!((after, effects), (short, expected), "{state:?}");
                taken[2] += 1;
                taken[4] += u32::from(!to_next.is_empty());
            }
        }
        assert!(taken.iter().all(|count| *count > 100), "{taken:?} is too few to say something");
    }
}
