//! The usual steps of an access without all that [`State::after`] has to look at. Each is such a step, which a test checks.

use super::{
    ACKNOWLEDGED_SHIFT, CLOSED, FEEDS_CHILD, FINISHED, HAS_CHILDREN, KIND_SHIFT, NEXT, NEXT_IS_PARENT,
    NEXT_SHARES, POISONED_SHIFT, SHARED, SPLIT, State, Tokens, WEAK,
};
use crate::access::Kind;

/// What a short step comes to. Whoever takes it has read the neighbour's address before, so it is acknowledged already what goes
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stepped {
    /// The state after.
    pub state: State,
    /// The task has one access less to wait for.
    pub satisfied: bool,
    /// Send these to the neighbour behind, which is a sibling's access.
    pub to_next: Tokens,
    /// Nobody needs the access any more.
    pub dispose: bool,
    /// Nobody else has a message for the access before this step, or during it: all tokens have come with it or before, each that has
    /// gone on is acknowledged, a sibling is behind, and its task is not running or is who takes the step.
    pub alone: bool,
}

impl State {
    /// The step that [`Message::Finished`](super::Message::Finished) without failure causes in the usual cases: no children, no
    /// failures, and behind it nobody yet or a sibling, which gets the tokens that have come and that it has not had.
    #[inline]
    pub fn finishes_simply(self) -> Option<Stepped> {
        const NOT: u64 = FINISHED | NEXT_IS_PARENT | CLOSED | HAS_CHILDREN | SPLIT | !0 << POISONED_SHIFT;
        if self.0 & NOT != 0 || !self.is_plain() {
            return None;
        }
        if !self.has(NEXT) {
            let state = State(self.0 | FINISHED);
            return Some(Stepped {
                state,
                satisfied: false,
                to_next: Tokens::NONE,
                dispose: false,
                alone: false,
            });
        }
        let to_next = self.tokens() & !self.shared() & !self.acknowledged();
        Some(State(self.0 | FINISHED).passing(to_next, false))
    }

    /// The step that tokens, none of them poisoned, cause in the usual cases: what may pass, because the task has finished or since the
    /// neighbour shares it, goes on to the sibling behind.
    #[inline]
    pub fn receives_simply(self, tokens: Tokens) -> Option<Stepped> {
        const NOT: u64 = NEXT_IS_PARENT | CLOSED | HAS_CHILDREN | FEEDS_CHILD | SPLIT | !0 << POISONED_SHIFT;
        // Usually all come at once, and go no further.
        if tokens == Tokens::ALL && self.0 & (NOT | WEAK | FINISHED | NEXT_SHARES | Tokens::ALL.at(0)) == 0 {
            let state = State(self.0 | Tokens::ALL.at(0));
            let alone = self.has(NEXT);
            return Some(Stepped { state, satisfied: true, to_next: Tokens::NONE, dispose: false, alone });
        }
        if self.0 & NOT != 0 || !self.is_plain() {
            return None;
        }
        let new = State(self.0 | tokens.at(0));
        let satisfied = !self.has(WEAK) && !self.is_satisfied() && new.is_satisfied();
        if !self.has(NEXT) {
            return Some(Stepped {
                state: new,
                satisfied,
                to_next: Tokens::NONE,
                dispose: false,
                alone: false,
            });
        }
        let passes = if self.has(FINISHED) { Tokens::ALL } else { self.shared() };
        Some(new.passing(tokens & !self.tokens() & !self.acknowledged() & passes, satisfied))
    }

    /// The step to `self`, which has a sibling behind that gets `to_next` now.
    #[inline]
    fn passing(self, to_next: Tokens, satisfied: bool) -> Stepped {
        const OVER: u64 = FINISHED | Tokens::ALL.at(0) | Tokens::ALL.at(ACKNOWLEDGED_SHIFT);
        let state = State(self.0 | to_next.at(ACKNOWLEDGED_SHIFT));
        let dispose = state.0 & OVER == OVER;
        Stepped { state, satisfied, to_next, dispose, alone: dispose }
    }

    /// The step that [`Message::Linked`](super::Message::Linked) to a sibling causes in the usual cases, for an access without a
    /// neighbour that is not done: it passes on the token of its kind, if the neighbour shares it, or all that it has if it has finished.
    /// What it passes is returned.
    #[inline]
    pub fn linked_simply(self, shares: bool) -> Option<(State, Tokens)> {
        if self.0 & SPLIT != 0 {
            return None;
        }
        let linked = self.0 | NEXT | if shares { NEXT_SHARES } else { 0 };
        if self.has(FINISHED) {
            let usual = self.is_plain() && self.is_clean() && self.0 & HAS_CHILDREN == 0;
            let to_next = self.tokens();
            let state = State(linked | to_next.at(ACKNOWLEDGED_SHIFT));
            return (usual && to_next != Tokens::ALL).then_some((state, to_next));
        }
        let shared = self.of_kind(SHARED);
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

    /// The short step is the long one and the acknowledgement that follows it at once.
    fn check(state: State, message: Message, short: Stepped) {
        let (mut after, effects) = state.after(message);
        let mut expected = Effects {
            to_next: Permits::clean(short.to_next),
            satisfied: short.satisfied,
            dispose: short.dispose,
            ..Effects::default()
        };
        if effects.acknowledge {
            let (acknowledged, then) = after.after(Message::Acknowledged(effects.to_next.tokens));
            expected.acknowledge = true;
            expected.dispose = false;
            assert_eq!(then, Effects { dispose: short.dispose, ..Effects::default() }, "{state:?}");
            after = acknowledged;
        }
        assert_eq!((after, effects), (short.state, expected), "{state:?}");
    }

    #[test]
    fn the_short_steps_are_steps() {
        let mut word: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut taken = [0; 8];
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
            // What has gone to the neighbour is acknowledged, or somebody is about to do so; and so is what the neighbour had before.
            if state.has(NEXT) || state.acknowledged().is_empty() {
                if let Some(short) = state.finishes_simply() {
                    check(state, FINISHES, short);
                    taken[0] += 1;
                }
                for tokens in [Tokens::ALL, Tokens::READ, Tokens::CONCURRENT, !Tokens::READ] {
                    // Each token comes once.
                    if let Some(short) = state.receives_simply(tokens)
                        && (state.tokens() & tokens).is_empty()
                    {
                        check(state, Message::Satisfied(Permits::clean(tokens)), short);
                        taken[1] += 1;
                        taken[3] += u32::from(!short.to_next.is_empty());
                        taken[5] += u32::from(short.dispose);
                    }
                }
            }
            let shares = word & 1 << 40 != 0;
            if state.0 & (NEXT | NEXT_SHARES | NEXT_IS_PARENT | CLOSED) == 0
                && state.0 >> ACKNOWLEDGED_SHIFT & 31 == 0
                && let Some((short, to_next)) = state.linked_simply(shares)
            {
                let (after, effects) =
                    state.after(Message::Linked { shares, parent: false, had: Tokens::NONE });
                let (poisons, to_next) = (effects.poisons, Permits::clean(to_next));
                let expected = Effects { poisons, to_next, ..Effects::default() };
                assert_eq!((after, effects), (short, expected), "{state:?}");
                taken[2] += 1;
                taken[4] += u32::from(!to_next.is_empty());
                taken[if state.has(FINISHED) { 6 } else { 7 }] += 1;
            }
        }
        assert!(taken.iter().all(|count| *count > 100), "{taken:?} is too few to say something");
    }
}
