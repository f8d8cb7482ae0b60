//! Accesses that step aside: what the children pass need not go up through every task that has ended, nor split its accesses.

use super::access::Access;
use super::delivery::{Delivery, Parcel};
use super::dependent::{Dependent, Outcome};
use castell_base::sync::Ordering;
use castell_deps::{Message, Region};
use std::ptr::NonNull;

impl<T: Dependent, O: Outcome<T>> Delivery<'_, T, O> {
    /// `piece`, an access of a task that has ended well or a piece of one, steps aside for `last`, the end of the children's chain
    /// there, which gets the neighbour behind. False if it has to stay between.
    ///
    /// # Safety
    /// On the thread that ends the task, whose accesses are there; the rest as for [`Delivery::link_last`], for the region of
    /// `piece`.
    pub(super) unsafe fn step_aside(&mut self, piece: &Access<T>, last: NonNull<Access<T>>) -> bool {
        // SAFETY: the caller's promise.
        let kind = unsafe { last.as_ref() }.kind();
        let mut state = piece.state();
        let aside = loop {
            let Some(aside) = state.steps_aside(kind) else { return false };
            piece.expect(aside.comes);
            match piece.replace(state, aside.state) {
                Ok(()) => break aside,
                Err(seen) => state = seen,
            }
        };
        let (next, region) = (piece.next.load(Ordering::Acquire), piece.region());
        if aside.comes.is_empty() {
            self.outcome.gone(piece.task(), 1);
        }
        // SAFETY: linked before the state said so; it waits for what now comes from the chain.
        unsafe {
            let next = NonNull::new_unchecked(next);
            let (parent, had) = (aside.next_is_parent, aside.had);
            let last_access = last.as_ref();
            let shares = if parent {
                last_access.shares_with_parent(next.as_ref())
            } else {
                last_access.shares_with(next.as_ref())
            };
            let message = Message::Linked { shares, parent, had };
            let passing = if parent { Message::ChildrenPassed } else { Message::Satisfied };
            self.link_last(last, region, next, message, passing);
        }
        true
    }

    /// A message to an access that has stepped aside: tokens go on to the first child's access.
    ///
    /// # Safety
    /// The access is alive: it waits for what the message brings.
    #[cold]
    pub(super) unsafe fn pass_through(&mut self, access: &Access<T>, region: Region, message: Message) {
        let (Message::Satisfied(permits), Some(part)) = (message, access.region().intersection(region))
        else {
            return; // its task's end, which it has anticipated
        };
        let (task, child) = (access.task(), access.child());
        // SAFETY: set before the state said that there is one; it waits for these tokens.
        let to = unsafe { NonNull::new_unchecked(child) };
        self.parcels.push(Parcel { to, region: part, message });
        if access.came(part.length(), permits.tokens) {
            self.outcome.gone(task, 1);
        }
    }
}
