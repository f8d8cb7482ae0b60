//! Applications that bring a strategy for their own collections: what it holds back stands in the application's slots only; what it sends
//! somewhere is registered with that kernel and for one step.

use super::{Counts, Desk, Kept, Member};
use crate::mailbox::SLOTS;
use crate::protocol::ShownOwn;
use castell_base::Moment;
use castell_strategy::own::{Chosen, News, Ticket, Told};
use castell_strategy::{Input, Kernels, Place, ResourceId};
use std::sync::Arc;

/// What an own strategy knows, and has to be told.
pub(super) struct Books {
    told: Vec<Told>,
    tickets: [Option<Ticket>; SLOTS],
}

impl Member {
    fn told(&mut self, slot: usize, what: impl FnOnce(Ticket) -> Told) -> bool {
        let Some(own) = &mut self.own else { return false };
        let told = own.tickets[slot].map(what);
        own.told.extend(told.iter().cloned());
        told.is_some()
    }

    /// With the kernel for this resource only.
    fn only(&mut self, shape: u32, on: ResourceId) -> Option<Arc<Kernels>> {
        let registered = self.shapes.get_mut(shape as usize)?.as_mut()?;
        if let Some(known) = registered.only.get(&on) {
            return Some(known.clone());
        }
        let only = Arc::new(registered.kernels.only(on)?);
        registered.only.insert(on, only.clone());
        Some(only)
    }
}

impl Desk {
    /// From now on this application's own strategy says where each of its collections goes: also those that wait. What runs is run to its
    /// end as it was begun. One that was there before has no say any more.
    pub fn set_own(&mut self, now: impl Into<Moment>, member: u64) {
        let now = now.into();
        let Some(found) = self.members.get_mut(&member) else { return };
        found.own = Some(Books { told: Vec::new(), tickets: [None; SLOTS] });
        for slot in 0..SLOTS {
            if let Some(kept) = self.take_back(now, member, slot) {
                self.hold(member, slot, kept);
            }
        }
        self.with_news.insert(member);
    }

    /// This application's own strategy has no say any more: the node's decides about all that waits.
    pub fn end_own(&mut self, now: impl Into<Moment>, member: u64) {
        let now = now.into();
        let Some(found) = self.members.get_mut(&member) else { return };
        let Some(own) = found.own.take() else { return };
        self.with_news.remove(&member);
        for slot in (0..SLOTS).filter(|slot| own.tickets[*slot].is_some()) {
            if let Some(kept) = self.take_back(now, member, slot) {
                self.keep(member, slot, kept);
                self.go_on_without_own(now, member, slot);
            }
        }
    }

    /// All kernels that this application has registered.
    pub fn kernels_of(&self, member: u64) -> Vec<Arc<Kernels>> {
        let shapes = self.members.get(&member).map(|member| member.shapes.iter().flatten());
        shapes.into_iter().flatten().map(|registered| registered.kernels.clone()).collect()
    }

    /// Whether this application's own strategy has a say.
    pub fn has_own(&self, member: u64) -> bool {
        self.members.get(&member).is_some_and(|member| member.own.is_some())
    }

    /// What an own strategy has chosen. What does not stand any more is left out.
    pub fn own_says(&mut self, now: impl Into<Moment>, member: u64, chosen: &[Chosen]) {
        let now = now.into();
        for Chosen { ticket, resource } in chosen {
            let Some(found) = self.members.get_mut(&member) else { return };
            let is_that = |own: &Books| own.tickets.iter().position(|known| *known == Some(*ticket));
            let Some(slot) = found.own.as_ref().and_then(is_that) else { continue };
            let Kept::Own { shape, steps_done, steps_left, since } = found.slots[slot] else { continue };
            let Some(kernels) = found.only(shape, *resource) else { continue };
            let application = found.held.name.clone();
            if self.keeper.node().resources()[resource.0].is_forbidden {
                found.told(slot, Told::Back);
                self.with_news.insert(member);
                continue;
            }
            let came = self.apply(now, Input::Register { application, kernels, steps: 1 });
            let Ok(Some(id)) = came else { continue };
            let (done_before, after) = (steps_done, steps_left - 1);
            self.keep(member, slot, Kept::Collection { id, shape, done_before, after });
            self.whose.insert(id, (member, slot));
            if steps_done == 0 {
                self.counts.waited(now, since);
            }
            self.decide();
        }
    }

    /// What own strategies have to be told, by members.
    pub fn take_news(&mut self) -> Vec<(u64, News)> {
        let with_news = std::mem::take(&mut self.with_news);
        with_news.into_iter().filter_map(|member| Some((member, self.news(member)?))).collect()
    }

    /// What people are to know of an application's own strategy.
    pub fn show_own(&mut self, member: u64, strategy: Option<ShownOwn>) {
        self.members.get_mut(&member).into_iter().for_each(|member| member.shown_own = strategy.clone());
    }

    fn news(&mut self, number: u64) -> Option<News> {
        let told = std::mem::take(&mut self.members.get_mut(&number)?.own.as_mut()?.told);
        let node = self.keeper.node();
        let running = node.resources().iter().map(|resource| resource.running);
        let is_others = |id| self.whose.get(&id).is_none_or(|(member, _)| *member != number);
        let busy = running.enumerate().filter(|(_, running)| running.is_some_and(is_others));
        let busy = busy.map(|(at, _)| ResourceId(at)).collect();
        Some(News { told, busy, governor: node.governor().into(), sensors: node.sensors().clone() })
    }

    /// Out of the node's books, if it waits there or stands in line; what its own strategy holds back stays as it is.
    fn take_back(&mut self, now: Moment, member: u64, slot: usize) -> Option<Kept> {
        match self.members.get(&member)?.slots[slot] {
            kept @ Kept::Own { .. } => Some(kept),
            Kept::Collection { id, shape, done_before, after } => {
                let collection = self.keeper.node().collection(id)?;
                if matches!(collection.place, Place::Running(_)) {
                    return None;
                }
                let (steps_done, since) = (done_before + collection.steps_done, collection.arrived);
                let steps_left = collection.steps - collection.steps_done + after;
                let kept = Kept::Own { shape, steps_done, steps_left, since };
                self.keep(member, slot, kept);
                self.withdraw(now, id);
                Some(kept)
            }
            Kept::Nothing | Kept::Stray => None,
        }
    }

    /// From now on the own strategy knows of it, under another ticket than before.
    pub(super) fn hold(&mut self, number: u64, slot: usize, kept: Kept) {
        let Kept::Own { shape, steps_left, .. } = kept else { return };
        self.keep(number, slot, kept);
        let Some(member) = self.members.get_mut(&number) else { return };
        let shape = member.shapes.get(shape as usize).and_then(Option::as_ref);
        let (Some(own), Some(shape)) = (&mut member.own, shape) else { return };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        own.tickets[slot] = Some(ticket);
        let (application, kernels) = (member.held.name.clone(), shape.kernels.clone());
        own.told.push(Told::Came { ticket, application, kernels, steps: steps_left });
        self.with_news.insert(number);
    }

    /// A step has ended that its own strategy had sent there, and it was not the last.
    pub(super) fn own_ended(&mut self, number: u64, slot: usize, kept: Kept) {
        let Some(member) = self.members.get_mut(&number) else { return };
        member.slots[slot] = kept;
        if member.told(slot, Told::Ended) {
            self.with_news.insert(number);
        }
    }

    /// What is left of a collection whose own strategy is another one by now, or none.
    pub(super) fn go_on_without_own(&mut self, now: Moment, number: u64, slot: usize) {
        let Some(member) = self.members.get(&number) else { return };
        let kept = member.slots[slot];
        let Kept::Own { steps_done, since, .. } = kept else { return };
        match &member.own {
            Some(own) if own.tickets[slot].is_some() => {}
            Some(_) => self.hold(number, slot, kept),
            None => {
                let said = member.held.mailbox.words().slot(slot);
                self.keep(number, slot, Kept::Nothing);
                if steps_done == 0 {
                    self.counts.waited(now, since);
                }
                self.ask(now, number, slot, said, steps_done);
            }
        }
    }

    pub(super) fn own_began(&mut self, number: u64, slot: usize) {
        if self.members.get_mut(&number).is_some_and(|member| member.told(slot, Told::Began)) {
            self.with_news.insert(number);
        }
    }

    /// The slot's collection is over, or given up.
    pub(super) fn own_is_over(&mut self, number: u64, slot: usize, how: fn(Ticket) -> Told) {
        let Some(member) = self.members.get_mut(&number) else { return };
        if member.told(slot, how) {
            member.own.as_mut().expect("it was told").tickets[slot] = None;
            self.with_news.insert(number);
        }
    }

    /// The governor has another level, or a sensor says something else. What stands in line for what is forbidden is its own strategy's again.
    pub(super) fn node_changed(&mut self, now: Moment) {
        let owners = self.members.iter().filter(|(_, member)| member.own.is_some());
        for number in owners.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.with_news.insert(number);
            for slot in 0..SLOTS {
                if self.is_forbidden(number, slot) && self.take_back(now, number, slot).is_some() {
                    self.members.get_mut(&number).into_iter().for_each(|member| {
                        member.told(slot, Told::Back);
                    });
                }
            }
        }
    }

    /// Whether it stands in line for what is forbidden.
    fn is_forbidden(&self, number: u64, slot: usize) -> bool {
        let Some(member) = self.members.get(&number) else { return false };
        let has_ticket = member.own.as_ref().is_some_and(|own| own.tickets[slot].is_some());
        let Kept::Collection { id, .. } = member.slots[slot] else { return false };
        let node = self.keeper.node();
        let kernels = node.collection(id).map(|collection| &collection.kernels);
        let forbidden = |on: ResourceId| node.resources()[on.0].is_forbidden;
        has_ticket
            && kernels.is_some_and(|kernels| kernels.all().iter().all(|kernel| forbidden(kernel.resource)))
    }
}

impl Counts {
    /// A collection has waited until now.
    pub(super) fn waited(&mut self, now: Moment, since: Moment) {
        self.waited_ns += (now - since).0 / 1_000;
    }
}
