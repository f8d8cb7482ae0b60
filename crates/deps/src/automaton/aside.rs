//! An access that steps aside: its task is over, and the children's chain inside it goes on directly to the neighbour behind.

use super::{ASIDE, FEEDS_CHILD, FINISHED, HAS_CHILDREN, NEXT, NEXT_IS_PARENT, SPLIT, State, Tokens};
use crate::access::Kind;

/// What stepping aside comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The state after: the access takes no part any more, but for handing on what still comes to the first child's access.
    pub state: State,
    /// What still comes; none if nobody needs the access any more.
    pub comes: Tokens,
    /// What the neighbour behind has had from here.
    pub had: Tokens,
    /// The neighbour behind is the parent's access.
    pub next_is_parent: bool,
}

impl State {
    /// The step by which an access whose task has ended well leaves its place to the children's chain inside it, of the kind
    /// `child`, which ends: everything that the access passes on from now on is what that chain passes to it. `None` where
    /// more depends on the access: nobody is behind it, something failed, or somebody still looks at it.
    ///
    /// The caller puts the neighbour behind the chain, which has had [`Aside::had`] already.
    pub fn steps_aside(self, child: Kind) -> Option<Aside> {
        let chain = self.0 & (HAS_CHILDREN | FEEDS_CHILD);
        let is_whole = match chain {
            0 => self.tokens() == Tokens::ALL,
            _ => chain == HAS_CHILDREN | FEEDS_CHILD && self.children_passed().is_empty(),
        };
        let plain = |kind| !matches!(kind, Kind::Commutative | Kind::Reduction);
        let usual = self.0 & (NEXT | FINISHED | SPLIT) == NEXT && self.is_clean();
        let had = self.passed();
        if !(usual && is_whole && plain(self.kind()) && plain(child) && self.acknowledged().contains(had)) {
            return None;
        }
        let state = State(self.0 | FINISHED | ASIDE);
        // What the neighbour had from an access that stepped aside before this one, it has had, too.
        let had = self.acknowledged();
        Some(Aside { state, comes: !self.tokens(), had, next_is_parent: self.has(NEXT_IS_PARENT) })
    }

    /// Whether the access has stepped aside.
    #[inline]
    pub const fn is_aside(self) -> bool {
        self.has(ASIDE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Message, Permits};
    use super::*;
    use crate::access::Access;
    use crate::region::Region;

    const FED: Message = Message::ChildrenLinked { feeds: true };

    fn linked(shares: bool, had: Tokens) -> Message {
        Message::Linked { shares, parent: false, had }
    }

    fn has(tokens: Tokens) -> Message {
        Message::Satisfied(Permits::clean(tokens))
    }

    fn run(kind: Kind, messages: &[Message]) -> State {
        let region = Region::new(64, 8).expect("not empty");
        let weak = State::new(&Access { weak: true, ..Access::strong(kind, region) }, Permits::default());
        messages.iter().fold(weak, |state, message| state.after(*message).0)
    }

    #[test]
    fn who_has_everything_may_go() {
        let state = run(Kind::InOut, &[has(Tokens::ALL), linked(false, Tokens::NONE)]);
        let aside = state.steps_aside(Kind::InOut).expect("nothing else depends on it");
        assert!(aside.comes.is_empty() && aside.had.is_empty() && !aside.next_is_parent);
        assert!(aside.state.is_aside() && !state.is_aside());
        let (after, effects) = aside.state.after(Message::Finished { failed: false });
        assert_eq!((after, effects.dispose), (aside.state, false), "its end has been anticipated");
    }

    #[test]
    fn who_feeds_children_stays_until_everything_has_come() {
        let fed = [FED, has(Tokens::READ), linked(true, Tokens::NONE)];
        let aside = run(Kind::In, &fed).steps_aside(Kind::In).expect("it feeds its children");
        assert_eq!((aside.comes, aside.had), (!Tokens::READ, Tokens::READ));
        // The chain of the children does not pass on again what the neighbour has had.
        let child = run(Kind::In, &[has(Tokens::READ), linked(true, aside.had)]);
        let (child, effects) = child.after(has(!Tokens::READ));
        assert!(effects.to_next.is_empty());
        let (_, effects) = child.after(Message::Finished { failed: false });
        assert!(effects.to_next.tokens == !Tokens::READ && effects.dispose);
    }

    #[test]
    fn who_is_needed_stays() {
        let all = has(Tokens::ALL);
        let link = linked(false, Tokens::NONE);
        let poisoned = Message::Satisfied(Permits { tokens: Tokens::ALL, poisoned: Tokens::WRITE });
        for (kind, messages) in [
            (Kind::InOut, &[all][..]), // nobody is behind it
            (Kind::InOut, &[link]),    // what comes is for nobody else
            (Kind::InOut, &[poisoned, link]),
            (Kind::Commutative, &[all, link]),
            (Kind::InOut, &[all, link, Message::Finished { failed: false }]),
            (Kind::In, &[linked(true, Tokens::NONE), FED, has(Tokens::READ)]), // somebody still looks at it
        ] {
            assert_eq!(run(kind, messages).steps_aside(Kind::InOut), None, "{kind:?} {messages:?}");
        }
        assert_eq!(run(Kind::InOut, &[all, link]).steps_aside(Kind::Reduction), None);
    }
}
