//! Delivers messages between accesses and carries out what the automaton asks for, with a list instead of recursion.

use super::access::Access;
use super::dependent::{Dependent, EXCLUSIVE, Outcome};
use super::domain::poisoned_under;
use castell_base::sync::Ordering;
use castell_deps::{Effects, Message, Permits, Region, State, Stepped, Tokens};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};

/// A message on its way: to those bytes of an access.
pub(super) struct Parcel<T> {
    pub(super) to: NonNull<Access<T>>,
    pub(super) region: Region,
    pub(super) message: Message,
}

/// Parcels kept without allocating; deeper nests and many pieces go to the heap.
const FEW: usize = 4;

/// Parcels not yet delivered; the last goes first.
pub(super) struct Parcels<T> {
    few: [MaybeUninit<Parcel<T>>; FEW],
    count: usize,
    /// Made when it is needed: a vector, even an empty one, is let go of by a call.
    many: Option<Vec<Parcel<T>>>,
}

/// One round of deliveries.
pub(super) struct Delivery<'o, T: Dependent, O: Outcome<T>> {
    pub(super) outcome: &'o mut O,
    pub(super) parcels: Parcels<T>,
}

/// What a new access has after it was put behind another.
pub(super) enum Placed {
    /// All tokens; poisoned if the access before it failed.
    Held(Permits),
    /// Not all, or what a parcel brings.
    Waits {
        /// It is strong and has what it needs already, and nobody else will say so.
        satisfied: bool,
    },
}

impl<'o, T: Dependent, O: Outcome<T>> Delivery<'o, T, O> {
    #[inline]
    pub(super) fn new(outcome: &'o mut O) -> Self {
        let few = [const { MaybeUninit::uninit() }; FEW];
        Delivery { outcome, parcels: Parcels { few, count: 0, many: None } }
    }

    /// Delivers a message and all that follow from it.
    ///
    /// # Safety
    /// The access is alive and stays so until it has got this message.
    #[inline]
    pub(super) unsafe fn deliver(&mut self, to: NonNull<Access<T>>, region: Region, message: Message) {
        // SAFETY: the caller's promise; an access that a parcel is for waits for what the parcel brings.
        unsafe {
            self.step(to, region, message);
            self.drain();
        }
    }

    /// Delivers tokens, none of them poisoned, and what follows from that.
    ///
    /// # Safety
    /// As for [`Delivery::deliver`].
    #[inline]
    unsafe fn satisfy(&mut self, mut to: NonNull<Access<T>>, region: Region, mut tokens: Tokens) {
        loop {
            // SAFETY: it waits for these tokens.
            let access = unsafe { to.as_ref() };
            let (task, state) = (access.task(), access.state());
            let Some(Stepped { state: after, satisfied, to_next, dispose, alone }) =
                state.receives_simply(tokens).filter(|_| access.region() == region)
            else {
                break;
            };
            // The task may run and end, and the access go, with the exchange.
            let next = access.next.load(Ordering::Relaxed);
            if !access.step(state, after, alone) {
                continue;
            }
            if satisfied {
                // SAFETY: the task cannot have started without this.
                unsafe { self.satisfied(task, false, 1) };
            }
            if dispose {
                self.outcome.gone(task, 1);
            }
            let Some(next) = NonNull::new(next).filter(|_| !to_next.is_empty()) else { return };
            (to, tokens) = (next, to_next);
        }
        let message = Message::Satisfied(Permits::clean(tokens));
        // SAFETY: the caller's promise.
        unsafe { self.deliver(to, region, message) };
    }

    /// An access of a task that has completed, or a piece of one, finishes.
    ///
    /// # Safety
    /// As for [`complete`].
    #[inline]
    unsafe fn finish(&mut self, access: &Access<T>, failed: bool) {
        let state = access.state();
        if let Some(Stepped { state: after, to_next, dispose, alone, .. }) = state.finishes_simply()
            && !failed
            && access.step(state, after, alone)
        {
            if !to_next.is_empty() {
                let next = access.next.load(Ordering::Relaxed);
                // SAFETY: linked before the state said so; it waits for this. The task stays for another reason.
                unsafe { self.satisfy(NonNull::new_unchecked(next), access.region(), to_next) };
            }
            if dispose {
                self.outcome.gone(access.task(), 1);
            }
        } else if state.is_split() {
            // SAFETY: the caller's promise.
            unsafe { self.finish_pieces(access, failed) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.deliver(NonNull::from(access), access.region(), Message::Finished { failed }) };
        }
    }

    #[cold]
    unsafe fn finish_pieces(&mut self, access: &Access<T>, failed: bool) {
        if let Some(pieces) = access.first_split() {
            // SAFETY: pieces live as long as the record, which the caller keeps.
            return pieces.iter().for_each(|piece| unsafe { self.finish(piece, failed) });
        }
        for piece in access.current(access.region()) {
            // SAFETY: pieces live as long as the record, which the caller keeps.
            unsafe { self.finish(piece.as_ref(), failed) };
        }
    }

    /// Delivers what has been collected.
    ///
    /// # Safety
    /// As for [`Delivery::deliver`], for each.
    #[inline]
    pub(super) unsafe fn drain(&mut self) {
        while let Some(parcel) = self.parcels.pop() {
            // SAFETY: the caller's promise.
            unsafe { self.step(parcel.to, parcel.region, parcel.message) };
        }
    }

    #[inline]
    unsafe fn step(&mut self, to: NonNull<Access<T>>, region: Region, message: Message) {
        // SAFETY: the receiver is alive until it has got the message: until the exchange below succeeds.
        let access = unsafe { to.as_ref() };
        let (own, task) = (access.region(), access.task());
        let mut state = access.state();
        loop {
            if state.is_aside() {
                // SAFETY: as above.
                unsafe { self.pass_through(access, region, message) };
                return;
            }
            if state.is_split() || !region.covers(own) {
                // SAFETY: as above.
                unsafe { self.step_pieces(access, region, message) };
                return;
            }
            let (after, effects) = state.after(message);
            if after == state {
                return;
            }
            // Behind the exchange the access may step aside and go.
            let child = if effects.to_child.is_empty() { null_mut() } else { access.child() };
            match access.replace(state, after) {
                Ok(()) => {
                    if let Some(to) = NonNull::new(child) {
                        let message = Message::Satisfied(effects.to_child);
                        self.parcels.push(Parcel { to, region: own, message });
                    }
                    // SAFETY: the effects say what is still there.
                    unsafe { self.carry_out(to, own, task, effects) };
                    return;
                }
                Err(seen) => state = seen,
            }
        }
    }

    /// A message about part of an access, or to one that was split.
    #[cold]
    unsafe fn step_pieces(&mut self, access: &Access<T>, region: Region, message: Message) {
        if let Some(to) = access.only_piece(region) {
            self.parcels.push(Parcel { to, region, message });
            return;
        }
        for piece in access.aligned(region, self.outcome) {
            // SAFETY: pieces live as long as the record, and each waits for its part of the message.
            let part = unsafe { piece.as_ref() }.region().intersection(region);
            self.parcels.push(Parcel { to: piece, region: part.expect("it touches the region"), message });
        }
    }

    /// Does what a step of `access` asked for. The access may be gone already, but for what the effects concern.
    #[inline]
    unsafe fn carry_out(
        &mut self,
        at: NonNull<Access<T>>,
        region: Region,
        task: NonNull<T>,
        mut effects: Effects,
    ) {
        if effects.forgiven && !effects.to_next.is_empty() {
            // SAFETY: the access stays, as said below.
            unsafe { take_poison_from_parent(task, region, &mut effects) };
        }
        if effects.combine || effects.exclusion_ends {
            // SAFETY: passed on.
            unsafe { self.carry_out_seldom(at, region, task, &effects) };
        }
        if !effects.to_next.is_empty() {
            // SAFETY: the access stays until the acknowledgement, or until the task may start, or is ours to dispose of.
            let next = unsafe { at.as_ref() }.next.load(Ordering::Acquire);
            debug_assert!(!next.is_null(), "a neighbour is linked before the state says so");
            // SAFETY: linked before the state said so.
            let to = unsafe { NonNull::new_unchecked(next) };
            self.parcels.push(Parcel { to, region, message: passing(effects) });
            if effects.acknowledge {
                let message = Message::Acknowledged(effects.to_next.tokens);
                // SAFETY: alive until acknowledged; this step passes nothing on, so it goes no deeper.
                unsafe { self.acknowledge(at, region, message) };
            }
        }
        if effects.satisfied {
            // SAFETY: the task cannot have started without this.
            unsafe { self.satisfied(task, effects.poisons, 1) };
        }
        if effects.dispose {
            self.outcome.gone(task, 1);
        }
    }

    unsafe fn acknowledge(&mut self, at: NonNull<Access<T>>, region: Region, message: Message) {
        // SAFETY: alive until acknowledged.
        let access = unsafe { at.as_ref() };
        let task = access.task();
        let mut state = access.state();
        loop {
            if state.is_split() {
                self.parcels.push(Parcel { to: at, region, message });
                return;
            }
            let (after, effects) = state.after(message);
            match access.replace(state, after) {
                Ok(()) => {
                    if effects.dispose {
                        self.outcome.gone(task, 1);
                    }
                    return;
                }
                Err(seen) => state = seen,
            }
        }
    }

    #[cold]
    unsafe fn carry_out_seldom(
        &mut self,
        at: NonNull<Access<T>>,
        region: Region,
        task: NonNull<T>,
        effects: &Effects,
    ) {
        if effects.combine {
            self.outcome.combine(task, region, effects.group_ends);
            self.parcels.push(Parcel { to: at, region, message: Message::Combined });
        }
        if effects.exclusion_ends {
            // SAFETY: exclusion keeps a place of its own among what keeps the task alive.
            let table = unsafe { task.as_ref() }.exclusive();
            for turn in table.release(task, region) {
                self.outcome.ready(turn);
            }
            self.outcome.gone(task, 1);
        }
    }

    /// `count` accesses of the task, which is not ready yet, were satisfied.
    #[inline]
    pub(super) unsafe fn satisfied(&mut self, task: NonNull<T>, poisons: bool, count: u32) {
        // SAFETY: the caller's promise: not ready, so not gone.
        let record = unsafe { task.as_ref() };
        if poisons {
            record.poison();
        }
        match record.unblock(count) {
            0 => self.outcome.ready(task),
            // SAFETY: alive, and only its turn blocks it.
            EXCLUSIVE if unsafe { record.exclusive().acquire(task) } => self.outcome.ready(task),
            _ => {}
        }
    }

    /// Puts the new access `next` behind `before`, both of the same region.
    ///
    /// # Safety
    /// `before` is the last of its chain, only this thread links behind it, and nobody else sees `next` yet.
    #[inline]
    pub(super) unsafe fn place_behind(
        &mut self,
        before: NonNull<Access<T>>,
        next: NonNull<Access<T>>,
    ) -> Placed {
        // SAFETY: nobody disposes of an access behind which something may be put.
        let access = unsafe { before.as_ref() };
        let state = access.state();
        if !state.is_split() && state.is_done() && state.is_clean() {
            // Nobody else looks at it any more.
            self.outcome.gone(access.task(), 1);
            return Placed::Held(Permits::clean(Tokens::ALL));
        }
        if state.is_split() && access.is_quiet() {
            // SAFETY: as above.
            unsafe { self.deliver(before, access.region(), Message::Closed) };
            return Placed::Held(Permits::clean(Tokens::ALL));
        }
        // SAFETY: `next` is ours.
        let shares = access.shares_with(unsafe { next.as_ref() });
        access.next.store(next.as_ptr(), Ordering::Relaxed);
        if let Some((after, to_next)) = state.linked_simply(shares)
            && access.replace(state, after).is_ok()
        {
            // SAFETY: `next` waits for more than these, so it stays; `before` may be gone, which has the same region.
            return Placed::Waits { satisfied: unsafe { self.share(next, next.as_ref().region(), to_next) } };
        }
        let message = Message::Linked { shares, parent: false, had: Tokens::NONE };
        // SAFETY: the caller's promise.
        match unsafe { self.link(before, access.region(), next, message) } {
            Some(permits) if permits.tokens == Tokens::ALL => Placed::Held(permits),
            Some(permits) if !permits.is_empty() => {
                // SAFETY: as above.
                let region = unsafe { next.as_ref() }.region();
                self.parcels.push(Parcel { to: next, region, message: Message::Satisfied(permits) });
                Placed::Waits { satisfied: false }
            }
            _ => Placed::Waits { satisfied: false },
        }
    }

    /// Gives tokens to an access that was just put behind another: true if that satisfies it; otherwise a parcel may.
    ///
    /// # Safety
    /// Nothing is behind it yet, and only this thread links.
    #[inline]
    unsafe fn share(&mut self, next: NonNull<Access<T>>, region: Region, tokens: Tokens) -> bool {
        if tokens.is_empty() {
            return false;
        }
        // SAFETY: it waits for these tokens. Whoever is before it may be sending the others, or parts of them.
        let access = unsafe { next.as_ref() };
        let state = access.state();
        if let Some(received) = state.receives_simply(tokens)
            && access.replace(state, received.state).is_ok()
        {
            return received.satisfied;
        }
        let message = Message::Satisfied(Permits::clean(tokens));
        self.parcels.push(Parcel { to: next, region, message });
        false
    }

    /// Links `next` behind the part of `before` that touches `region`, and disposes of `before` if that was all it waited
    /// for. What `before` passes is returned if `before` is whole, otherwise collected as parcels.
    ///
    /// # Safety
    /// As for [`Delivery::place_behind`]; no piece of `before` crosses the border of `region`.
    #[inline]
    unsafe fn link(
        &mut self,
        before: NonNull<Access<T>>,
        region: Region,
        next: NonNull<Access<T>>,
        message: Message,
    ) -> Option<Permits> {
        // SAFETY: as above.
        match unsafe { link_one(before, next, message) } {
            Some((effects, task)) => {
                if effects.dispose {
                    self.outcome.gone(task, 1);
                }
                Some(effects.to_next)
            }
            None => {
                // SAFETY: as above.
                unsafe { self.link_pieces(before, region, next, message) };
                None
            }
        }
    }

    #[cold]
    unsafe fn link_pieces(
        &mut self,
        before: NonNull<Access<T>>,
        region: Region,
        next: NonNull<Access<T>>,
        message: Message,
    ) {
        // SAFETY: as in `link`.
        let mut left = unsafe { before.as_ref() }.current(region);
        while let Some(piece) = left.pop() {
            // SAFETY: as in `link`; pieces of what can be linked can be.
            let access = unsafe { piece.as_ref() };
            let part = access.region();
            // SAFETY: as in `link`.
            match unsafe { link_one(piece, next, message) } {
                None => left.extend(access.current(part)),
                Some((effects, task)) => {
                    if !effects.to_next.is_empty() {
                        self.parcels.push(Parcel { to: next, region: part, message: passing(effects) });
                    }
                    if effects.dispose {
                        self.outcome.gone(task, 1);
                    }
                }
            }
        }
    }

    /// Puts `parent`'s access behind the part of `last`, the end of a chain of children's accesses, that touches `region`.
    ///
    /// # Safety
    /// As for [`Delivery::place_behind`]; the parent's access has been told of the children and has not finished there; no
    /// piece of `last` crosses the border of `region`.
    pub(super) unsafe fn link_parent(
        &mut self,
        last: NonNull<Access<T>>,
        region: Region,
        parent: NonNull<Access<T>>,
    ) {
        // SAFETY: the caller's promise.
        let shares = unsafe { last.as_ref().shares_with_parent(parent.as_ref()) };
        let message = Message::Linked { shares, parent: true, had: Tokens::NONE };
        // SAFETY: as above; the parent's access waits for what the children pass.
        unsafe { self.link_last(last, region, parent, message, Message::ChildrenPassed) };
    }

    /// Puts `next` behind the part of `last`, which nothing else will be put behind, that touches `region`.
    ///
    /// # Safety
    /// As for [`Delivery::place_behind`]; `next` waits for what the chain passes, and no piece of `last` crosses the border of
    /// `region`.
    pub(super) unsafe fn link_last(
        &mut self,
        last: NonNull<Access<T>>,
        region: Region,
        next: NonNull<Access<T>>,
        message: Message,
        passing: impl Fn(Permits) -> Message,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(permits) = self.link(last, region, next, message)
                && !permits.is_empty()
            {
                self.parcels.push(Parcel { to: next, region, message: passing(permits) });
            }
            self.drain();
        }
    }

    /// Lets the part of `from`, a parent's access, that touches `region` feed its tokens to `child`.
    ///
    /// # Safety
    /// Only the thread of the task of `from` calls this; nothing was fed there before.
    pub(super) unsafe fn feed(
        &mut self,
        from: NonNull<Access<T>>,
        region: Region,
        child: NonNull<Access<T>>,
    ) {
        // SAFETY: the task runs, so its accesses are there.
        let mut left = unsafe { from.as_ref() }.aligned(region, self.outcome);
        while let Some(piece) = left.pop() {
            // SAFETY: as above.
            let access = unsafe { piece.as_ref() };
            access.child.store(child.as_ptr(), Ordering::Release);
            let mut state = access.state();
            loop {
                if state.is_split() {
                    left.extend(access.current(access.region()));
                    break;
                }
                let (after, effects) = state.after(Message::ChildrenLinked { feeds: true });
                match access.replace(state, after) {
                    Ok(()) => {
                        if !effects.to_child.is_empty() {
                            let message = Message::Satisfied(effects.to_child);
                            self.parcels.push(Parcel { to: child, region: access.region(), message });
                        }
                        break;
                    }
                    Err(seen) => state = seen,
                }
            }
        }
    }
}

/// What a step passes to its neighbour, as the neighbour wants to hear it.
#[inline]
fn passing(effects: Effects) -> Message {
    if effects.next_is_parent {
        Message::ChildrenPassed(effects.to_next)
    } else {
        Message::Satisfied(effects.to_next)
    }
}

/// What a forgiven access of `task` passes on is poisoned as its parent's access has it.
///
/// # Safety
/// The access is there. So is the parent's: it waits for what the chain passes.
#[cold]
unsafe fn take_poison_from_parent<T: Dependent>(task: NonNull<T>, region: Region, effects: &mut Effects) {
    // SAFETY: an access keeps its task's record.
    let parent = unsafe { task.as_ref() }.parent();
    effects
        .poison_from_parent(parent.map_or(Tokens::NONE, |parent| poisoned_under(parent.accesses(), region)));
}

/// Links one access unless it is split; gives what follows, and its task.
#[inline]
unsafe fn link_one<T: Dependent>(
    before: NonNull<Access<T>>,
    next: NonNull<Access<T>>,
    message: Message,
) -> Option<(Effects, NonNull<T>)> {
    // SAFETY: the caller's promise: it stays until something is linked behind it.
    let access = unsafe { before.as_ref() };
    let task = access.task();
    access.next.store(next.as_ptr(), Ordering::Relaxed);
    let mut state: State = access.state();
    loop {
        if state.is_split() {
            return None;
        }
        let (after, mut effects) = state.after(message);
        match access.replace(state, after) {
            Ok(()) => {
                if effects.forgiven && !effects.to_next.is_empty() {
                    // SAFETY: it stays until the caller says otherwise.
                    unsafe { take_poison_from_parent(task, access.region(), &mut effects) };
                }
                return Some((effects, task));
            }
            Err(seen) => state = seen,
        }
    }
}

impl<T> Parcels<T> {
    #[inline]
    pub(super) fn push(&mut self, parcel: Parcel<T>) {
        if self.count < FEW {
            self.few[self.count].write(parcel);
            self.count += 1;
        } else {
            self.many.get_or_insert_default().push(parcel);
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Parcel<T>> {
        if self.count == 0 {
            return None;
        }
        if self.count == FEW
            && let Some(parcel) = self.many.as_mut().and_then(Vec::pop)
        {
            return Some(parcel);
        }
        self.count -= 1;
        // SAFETY: written by `push`, and not read since.
        Some(unsafe { self.few[self.count].assume_init_read() })
    }
}

/// A task has completed, and its domain is closed: its accesses finish.
///
/// # Safety
/// Called once a task, which stays alive meanwhile for another reason than its accesses.
#[inline]
pub unsafe fn complete<T: Dependent>(accesses: &[Access<T>], failed: bool, outcome: &mut impl Outcome<T>) {
    let mut delivery = Delivery::new(outcome);
    for access in accesses {
        // SAFETY: the caller's promise.
        unsafe { delivery.finish(access, failed) };
    }
}

/// A running task and its later children need `region` no more.
///
/// # Safety
/// As for [`complete`], from the task's body; its domain has been released there.
pub unsafe fn complete_part<T: Dependent>(
    accesses: &[Access<T>],
    region: Region,
    outcome: &mut impl Outcome<T>,
) {
    let mut delivery = Delivery::new(outcome);
    for access in accesses {
        if let Some(part) = access.region().intersection(region) {
            // SAFETY: the caller's promise.
            unsafe { delivery.deliver(NonNull::from(access), part, Message::Finished { failed: false }) };
        }
    }
}
