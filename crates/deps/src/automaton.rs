//! The automaton of one access: a state of 64 bits, messages that only ever set bits, and the effects of each step.
//!
//! The idea of one atomic word of flags an access, whose changes say what to tell the neighbours, is that of D. Álvarez,
//! K. Sala, M. Maroñas, A. Roca, V. Beltran, "Advanced synchronization techniques for task-based runtime systems", PPoPP
//! 2021. The states, the rules and a drawing are in `automaton.md` beside this file.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

use crate::access::{Access, Kind};

mod aside;
mod short_steps;

pub use aside::Aside;
pub use short_steps::Stepped;

/// A set of the five permissions that travel along a chain of accesses to the same bytes.
///
/// An access holds the token of a kind once every access before it that conflicts with that kind is complete. `WRITE`
/// conflicts with everything, so who holds it holds, or is about to get, all of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Tokens(u8);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In the order of the bits: read, concurrent, commutative, reduce, write.
        "rcmxw"
            .chars()
            .enumerate()
            .filter(|(bit, _)| self.0 >> bit & 1 == 1)
            .try_for_each(|(_, name)| write!(f, "{name}"))
    }
}

impl Tokens {
    /// No token.
    pub const NONE: Tokens = Tokens(0);
    /// Readers may run.
    pub const READ: Tokens = Tokens(1);
    /// Concurrent accesses may run.
    pub const CONCURRENT: Tokens = Tokens(2);
    /// Commutative accesses may run, one at a time.
    pub const COMMUTATIVE: Tokens = Tokens(4);
    /// Reductions of the group may run, each on its private copy.
    pub const REDUCE: Tokens = Tokens(8);
    /// Everything before is complete.
    pub const WRITE: Tokens = Tokens(16);
    /// All five.
    pub const ALL: Tokens = Tokens(31);

    /// The token without which an access of this kind cannot start.
    #[inline]
    pub const fn needed_by(kind: Kind) -> Tokens {
        match kind {
            Kind::In => Tokens::READ,
            Kind::Out | Kind::InOut => Tokens::WRITE,
            Kind::Commutative => Tokens::COMMUTATIVE,
            Kind::Concurrent => Tokens::CONCURRENT,
            Kind::Reduction => Tokens::REDUCE,
        }
    }

    /// What an access of this kind lets pass while it is not complete.
    #[inline]
    const fn shared_by(kind: Kind) -> Tokens {
        if kind.shares() { Tokens::needed_by(kind) } else { Tokens::NONE }
    }

    /// The bits of a state's word that say this at `shift`.
    #[inline]
    const fn at(self, shift: u32) -> u64 {
        (self.0 as u64) << shift
    }

    /// What a state's word says at `shift`.
    #[inline]
    const fn of(word: u64, shift: u32) -> Tokens {
        Tokens((word >> shift) as u8 & Tokens::ALL.0)
    }

    /// How many there are.
    #[inline]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether every token of `other` is among these.
    #[inline]
    pub const fn contains(self, other: Tokens) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Tokens {
    type Output = Tokens;
    #[inline]
    fn bitor(self, other: Tokens) -> Tokens {
        Tokens(self.0 | other.0)
    }
}

impl BitOrAssign for Tokens {
    #[inline]
    fn bitor_assign(&mut self, other: Tokens) {
        self.0 |= other.0;
    }
}

impl BitAnd for Tokens {
    type Output = Tokens;
    #[inline]
    fn bitand(self, other: Tokens) -> Tokens {
        Tokens(self.0 & other.0)
    }
}

impl Not for Tokens {
    type Output = Tokens;
    #[inline]
    fn not(self) -> Tokens {
        Tokens(!self.0 & Tokens::ALL.0)
    }
}

/// Tokens on their way, and which of them are poisoned: a task on whose data they depend has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Permits {
    /// The tokens.
    pub tokens: Tokens,
    /// Those of `tokens` that are poisoned: a task that starts by one of them must not run its body.
    pub poisoned: Tokens,
}

impl Permits {
    /// Tokens that nothing has poisoned.
    #[inline]
    pub const fn clean(tokens: Tokens) -> Permits {
        Permits { tokens, poisoned: Tokens::NONE }
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.tokens.is_empty()
    }
}

const CHILD_SHIFT: u32 = 5;
const ACKNOWLEDGED_SHIFT: u32 = 10;
const FINISHED: u64 = 1 << 15;
const NEXT: u64 = 1 << 16;
const NEXT_SHARES: u64 = 1 << 17;
const NEXT_IS_PARENT: u64 = 1 << 18;
const CLOSED: u64 = 1 << 19;
const HAS_CHILDREN: u64 = 1 << 20;
const FEEDS_CHILD: u64 = 1 << 21;
const COMBINED: u64 = 1 << 22;
const SPLIT: u64 = 1 << 23;
const WEAK: u64 = 1 << 24;
const KIND_SHIFT: u32 = 25;
const POISONED_SHIFT: u32 = 32;
const CHILD_POISONED_SHIFT: u32 = 37;
const FAILED: u64 = 1 << 42;
const FORGIVEN: u64 = 1 << 43;
const ASIDE: u64 = 1 << 44;
/// What poison and failures set.
const POISON: u64 = FORGIVEN - (1 << POISONED_SHIFT);
const KINDS: [Kind; 8] = [
    Kind::In,
    Kind::Out,
    Kind::InOut,
    Kind::Commutative,
    Kind::Concurrent,
    Kind::Reduction,
    // Never written: two numbers more keep the look-up free of a bounds check.
    Kind::InOut,
    Kind::InOut,
];

/// Five bits for each of [`KINDS`]: the token that it needs, and the one that it lets pass.
const NEEDED: u64 = packed(false);
const SHARED: u64 = packed(true);

const fn packed(shared: bool) -> u64 {
    let (mut word, mut kind) = (0, 0);
    while kind < KINDS.len() {
        let tokens = if shared { Tokens::shared_by(KINDS[kind]) } else { Tokens::needed_by(KINDS[kind]) };
        word |= tokens.at(5 * kind as u32);
        kind += 1;
    }
    word
}

/// What can happen to an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// From the neighbour before, or from the parent's access: these tokens are yours. Each token comes once.
    Satisfied(Permits),
    /// From the end of the chain of children's accesses inside this one: they hold these tokens no longer. Each comes once.
    ChildrenPassed(Permits),
    /// The task's body has finished, or has released these bytes: neither it nor later children will use them.
    Finished {
        /// It failed or was skipped: what it would have written is not there.
        failed: bool,
    },
    /// A neighbour has been put behind.
    Linked {
        /// The neighbour can use a token of this access' own kind before this access is complete.
        shares: bool,
        /// The neighbour is the parent's access: tokens go there as [`Message::ChildrenPassed`].
        parent: bool,
        /// What the neighbour has had already, from an access that has stepped aside.
        had: Tokens,
    },
    /// Nobody will ever be put behind.
    Closed,
    /// Children have accesses inside this one, and it is not complete before they pass on their tokens.
    ChildrenLinked {
        /// Their first access wants this one's tokens.
        feeds: bool,
    },
    /// The private copy of a reduction is in the original.
    Combined,
    /// Whoever carried out an effect with `acknowledge` no longer looks at this access.
    Acknowledged(Tokens),
    /// The parent has waited for its children, this access' task among them, and reported what failed. Only to an access that
    /// has finished and has no neighbour behind.
    Forgiven,
}

impl Message {
    /// The bits that the message sets.
    #[inline]
    const fn bits(self) -> u64 {
        match self {
            Message::Satisfied(permits) => permits.tokens.at(0) | permits.poisoned.at(POISONED_SHIFT),
            Message::ChildrenPassed(permits) => {
                permits.tokens.at(CHILD_SHIFT) | permits.poisoned.at(CHILD_POISONED_SHIFT)
            }
            Message::Finished { failed } => FINISHED | if failed { FAILED } else { 0 },
            Message::Linked { shares, parent, had } => {
                let parent = if parent { NEXT_IS_PARENT } else { 0 };
                NEXT | if shares { NEXT_SHARES } else { 0 } | parent | had.at(ACKNOWLEDGED_SHIFT)
            }
            Message::Closed => CLOSED,
            Message::ChildrenLinked { feeds } => HAS_CHILDREN | if feeds { FEEDS_CHILD } else { 0 },
            Message::Combined => COMBINED,
            Message::Acknowledged(tokens) => tokens.at(ACKNOWLEDGED_SHIFT),
            Message::Forgiven => FORGIVEN,
        }
    }
}

/// What a step asks of whoever carries it out. Several may be asked at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Send these to the neighbour behind, as `Satisfied`, or `ChildrenPassed` if it is the parent's access.
    pub to_next: Permits,
    /// The neighbour behind is the parent's access.
    pub next_is_parent: bool,
    /// Send these to the first child's access, as `Satisfied`.
    pub to_child: Permits,
    /// The task has one access less to wait for. It is to be told after the address of the neighbour has been read.
    pub satisfied: bool,
    /// With `satisfied`: by a poisoned token, so the task's body must not run.
    pub poisons: bool,
    /// Add the private copy to the original, then send `Combined` to this access.
    pub combine: bool,
    /// With `combine`: no neighbour of the same group is behind so far.
    pub group_ends: bool,
    /// With `to_next`: what failed before it among its siblings does not count any more. Of the tokens, those are poisoned that are
    /// so in the parent's access: to be put in with [`Effects::poison_from_parent`].
    pub forgiven: bool,
    /// Give back the exclusive use of a commutative access' bytes.
    pub exclusion_ends: bool,
    /// Once the address of the neighbour has been read, send `Acknowledged` with `to_next`'s tokens to this access.
    pub acknowledge: bool,
    /// Nobody needs this access any more, but for `to_next`: it can go.
    pub dispose: bool,
}

impl Effects {
    /// For an access that is forgiven: `poisoned` are the poisoned tokens that the parent's access holds there.
    pub fn poison_from_parent(&mut self, poisoned: Tokens) {
        // Who is behind a group of reductions waits for the whole of it.
        let all = if self.group_ends && !poisoned.is_empty() { Tokens::REDUCE } else { Tokens::NONE };
        self.to_next.poisoned = self.to_next.tokens & (poisoned | all);
    }
}

/// The state of an access: a word to be changed with compare-and-swap.
///
/// ```
/// use castell_deps::{Access, Kind, Message, Permits, Region, State, Tokens};
/// let region = Region::new(0x1000, 8).unwrap();
/// let state = State::new(&Access::strong(Kind::InOut, region), Permits::default());
/// let (state, effects) = state.after(Message::Satisfied(Permits::clean(Tokens::ALL)));
/// assert!(effects.satisfied && state.is_satisfied());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State(u64);

impl State {
    /// The state of a new access that starts with some tokens.
    #[inline]
    pub fn new(access: &Access, held: Permits) -> State {
        let weak = if access.weak { WEAK } else { 0 };
        State(Message::Satisfied(held).bits() | weak | (access.kind as u64) << KIND_SHIFT)
    }

    /// The word.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The state in a word that [`State::bits`] gave.
    #[inline]
    pub const fn from_bits(bits: u64) -> State {
        State(bits)
    }

    /// The step that a message causes. The caller has seen that the access is not split.
    #[inline(always)]
    pub fn after(self, message: Message) -> (State, Effects) {
        // What was released before a task failed goes on unharmed.
        let again = self.has(FINISHED) && matches!(message, Message::Finished { .. });
        let mut new = State(self.0 | if again { 0 } else { message.bits() });
        let is_link = matches!(message, Message::Linked { .. });
        let before = self.passed();
        let passed = new.passed();
        // Besides what has been passed, what the neighbour had before it became one is acknowledged.
        let to_next = passed & !before & !new.acknowledged();
        let acknowledged = self.acknowledged();
        let mut effects = Effects {
            to_next: Permits { tokens: to_next, poisoned: new.poisoned_behind(to_next) },
            next_is_parent: new.has(NEXT_IS_PARENT),
            to_child: new.feed(new.fed() & !self.fed()),
            satisfied: !new.has(WEAK) && new.is_satisfied() && !self.is_satisfied(),
            poisons: new.poisoned().contains(Tokens::needed_by(new.kind())),
            forgiven: new.has(FORGIVEN),
            group_ends: new.has(FORGIVEN) && new.ends_group(),
            ..Effects::default()
        };
        if new.kind() == Kind::Reduction && new.is_combinable() && !self.is_combinable() {
            effects.combine = true;
            effects.group_ends = !new.has(NEXT_SHARES);
        }
        if new.kind() == Kind::Commutative {
            effects.exclusion_ends = new.ends_exclusion() && !self.ends_exclusion();
        }
        if new.has(NEXT) {
            if is_link || effects.satisfied || new.is_done() && acknowledged.contains(before) {
                // The caller knows the neighbour; or the task cannot finish before the caller lets it start; or nobody else is
                // about to read the neighbour's address, and the caller is the one who disposes.
                new.0 |= to_next.at(ACKNOWLEDGED_SHIFT);
            } else {
                effects.acknowledge = !to_next.is_empty();
            }
            effects.dispose = new.is_disposable() && !self.is_disposable();
        } else {
            effects.dispose = new.has(CLOSED) && new.is_done() && !(self.has(CLOSED) && self.is_done());
        }
        (new, effects)
    }

    /// Marks the access as split: from now on its pieces get its messages.
    #[inline]
    pub const fn split(self) -> State {
        State(self.0 | SPLIT)
    }

    /// Whether the access was split into pieces that get its messages.
    #[inline]
    pub const fn is_split(self) -> bool {
        self.has(SPLIT)
    }

    /// Whether everything before is complete and so is the access, children's included: what comes behind need not wait.
    #[inline]
    pub fn is_done(self) -> bool {
        self.tokens() == Tokens::ALL && self.opened() == Tokens::ALL
    }

    /// What an access that is done hands to a neighbour behind: all tokens.
    #[inline]
    pub fn handed_on(self) -> Permits {
        Permits { tokens: Tokens::ALL, poisoned: self.poisoned_behind(Tokens::ALL) }
    }

    /// Forgets failures but for tokens that came `poisoned` from outside: for an access that is done and will be linked later, once
    /// the failure has been reported.
    #[inline]
    pub const fn forgiven(self, poisoned: Tokens) -> State {
        State(self.0 & ((1 << POISONED_SHIFT) - 1) | poisoned.at(POISONED_SHIFT))
    }

    /// The tokens that the access holds.
    #[inline]
    pub const fn tokens(self) -> Tokens {
        Tokens::of(self.0, 0)
    }

    /// Whether the access holds the token of its kind.
    #[inline]
    pub const fn is_satisfied(self) -> bool {
        self.tokens().contains(self.of_kind(NEEDED))
    }

    /// What a table of five bits a kind says of this access' kind.
    #[inline]
    const fn of_kind(self, table: u64) -> Tokens {
        Tokens::of(table, 5 * ((self.0 >> KIND_SHIFT) as u32 & 7))
    }

    /// Whether the access delays its task: strong, and without the token of its kind.
    #[inline]
    pub fn delays_task(self) -> bool {
        !self.has(WEAK) && !self.is_satisfied()
    }

    /// Whether the access keeps, or will keep, other commutative tasks from its bytes.
    #[inline]
    pub fn holds_exclusion(self) -> bool {
        self.kind() == Kind::Commutative && !self.has(WEAK) && !self.ends_exclusion()
    }

    /// Whether nothing that failed has touched the access.
    #[inline]
    pub const fn is_clean(self) -> bool {
        self.0 & POISON == 0
    }

    /// Whether the access is weak.
    #[inline]
    pub const fn is_weak(self) -> bool {
        self.has(WEAK)
    }

    /// Whether the task has finished with the bytes.
    #[inline]
    pub const fn is_finished(self) -> bool {
        self.has(FINISHED)
    }

    /// Whether a sibling has been put behind, which gets the tokens.
    #[inline]
    pub const fn has_sibling_behind(self) -> bool {
        self.has(NEXT) && !self.has(NEXT_IS_PARENT)
    }

    /// Whether that sibling can go on at the same time as this access' task.
    #[inline]
    pub const fn shares_with_sibling(self) -> bool {
        self.has_sibling_behind() && self.has(NEXT_SHARES)
    }

    /// The kind of access.
    #[inline]
    pub const fn kind(self) -> Kind {
        KINDS[(self.0 >> KIND_SHIFT) as usize & 7]
    }

    #[inline]
    const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    #[inline]
    const fn children_passed(self) -> Tokens {
        Tokens::of(self.0, CHILD_SHIFT)
    }

    #[inline]
    const fn acknowledged(self) -> Tokens {
        Tokens::of(self.0, ACKNOWLEDGED_SHIFT)
    }

    /// The poisoned tokens among those held.
    #[inline]
    pub const fn poisoned(self) -> Tokens {
        Tokens::of(self.0, POISONED_SHIFT)
    }

    /// Which of these tokens leave poisoned: those that came so, from before or from the children, and all that an access
    /// that failed did not let pass before.
    #[inline]
    fn poisoned_behind(self, tokens: Tokens) -> Tokens {
        if self.is_clean() {
            return Tokens::NONE;
        }
        let children = Tokens::of(self.0, CHILD_POISONED_SHIFT);
        let own = if self.has(FAILED) { !self.shared() } else { Tokens::NONE };
        let poisoned = self.poisoned() | children | own;
        let all = if self.ends_group() && !poisoned.is_empty() { Tokens::REDUCE } else { Tokens::NONE };
        tokens & (poisoned | all)
    }

    /// These tokens on their way to the first child's access.
    #[inline]
    fn feed(self, tokens: Tokens) -> Permits {
        Permits { tokens, poisoned: tokens & self.poisoned() }
    }

    /// What passes early.
    #[inline]
    fn shared(self) -> Tokens {
        if self.has(NEXT_SHARES) { self.of_kind(SHARED) } else { Tokens::NONE }
    }

    /// What the task and its children no longer hold back.
    #[inline]
    fn opened(self) -> Tokens {
        let copied = self.kind() == Kind::Reduction && !self.has(WEAK) && !self.has(COMBINED);
        if !self.has(FINISHED) || copied {
            Tokens::NONE
        } else if self.has(HAS_CHILDREN) {
            self.children_passed()
        } else {
            Tokens::ALL
        }
    }

    /// What has gone to the neighbour behind.
    #[inline]
    fn passed(self) -> Tokens {
        if !self.has(NEXT) {
            return Tokens::NONE;
        }
        let passed = self.tokens() & (self.opened() | self.shared());
        // A group lets its token pass inside it; who is behind the group waits until all of it is complete.
        if self.ends_group() && passed != Tokens::ALL { passed & !Tokens::REDUCE } else { passed }
    }

    /// Whether a reduction's neighbour behind is of another group.
    #[inline]
    fn ends_group(self) -> bool {
        self.kind() == Kind::Reduction && !self.has(NEXT_SHARES)
    }

    /// Whether every token has come, has been passed on, and no passer still looks at this access.
    #[inline]
    fn is_disposable(self) -> bool {
        self.has(NEXT) && self.is_done() && self.acknowledged() == Tokens::ALL
    }

    /// What has gone to the first child's access.
    #[inline]
    fn fed(self) -> Tokens {
        if self.has(FEEDS_CHILD) { self.tokens() } else { Tokens::NONE }
    }

    /// Whether the private copy of a reduction is final and its turn has come.
    fn is_combinable(self) -> bool {
        let children_done = !self.has(HAS_CHILDREN) || self.children_passed() == Tokens::ALL;
        !self.has(WEAK) && self.has(FINISHED) && self.tokens().contains(Tokens::WRITE) && children_done
    }

    /// Whether a commutative task and its children have finished with the bytes.
    fn ends_exclusion(self) -> bool {
        !self.has(WEAK) && self.opened() == Tokens::ALL
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.has(WEAK) { "weak " } else { "" }, self.kind())?;
        for (title, tokens) in [
            ("has", self.tokens()),
            ("children passed", self.children_passed()),
            ("acknowledged", self.acknowledged()),
            ("poisoned", self.poisoned()),
            ("poisoned by children", Tokens::of(self.0, CHILD_POISONED_SHIFT)),
        ] {
            if !tokens.is_empty() {
                write!(f, ", {title} {tokens:?}")?;
            }
        }
        let flags = [
            (FINISHED, "finished"),
            (NEXT, "next"),
            (NEXT_SHARES, "next shares"),
            (NEXT_IS_PARENT, "next is parent"),
            (CLOSED, "closed"),
            (HAS_CHILDREN, "has children"),
            (FEEDS_CHILD, "feeds child"),
            (COMBINED, "combined"),
            (SPLIT, "split"),
            (FAILED, "failed"),
            (FORGIVEN, "forgiven"),
            (ASIDE, "aside"),
        ];
        flags.iter().filter(|(bit, _)| self.has(*bit)).try_for_each(|(_, name)| write!(f, ", {name}"))
    }
}

#[cfg(test)]
mod tests;
