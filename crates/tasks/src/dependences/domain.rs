//! The accesses of a parent's children: which was the last to each byte.

use super::access::Access;
use super::delivery::{Delivery, Placed};
use super::dependent::{Dependent, EXCLUSIVE, Outcome};
use castell_deps::{Kind, Message, Permits, Region, RegionMap, State, Stepped, Tokens};
use smallvec::SmallVec;
use std::ptr::NonNull;

/// Regions that a domain remembers before it forgets those that are done: programs come back to the same regions, and each
/// that is remembered keeps a task's record.
const REMEMBERED: usize = 10_000;

/// Regions that a domain remembers beyond a wait for all children: many programs come back to the same few.
const KEPT: usize = 1024;

/// Up to so many regions of the map that make up a new one get a piece of it each without being looked for again.
const TILES: usize = 8;

/// What was last to touch each byte, among the children of one task. Only the parent's body uses it.
pub struct Domain<T> {
    last: RegionMap<Entry<T>>,
    /// Empty between calls; kept for their room.
    found: Vec<(Region, Entry<T>)>,
    places: Vec<Place<T>>,
    tiles: Vec<usize>,
    /// Failures of children were reported to the parent and count no more: what poison came to the parent must be known.
    forgave: bool,
}

/// What whoever registers a task holds of the count of what blocks it, so that it cannot start in between. It is large: pieces
/// beyond the accesses are counted by taking them out of it, without another atomic operation.
const GUARD: u32 = 1 << 30;

/// A task that is being registered.
struct Newcomer {
    /// Its strong accesses, in pieces where they are split.
    strong: u32,
    /// What is held of its count by whoever registers it: nothing if it has only one access.
    guard: u32,
    /// Whether others may know it.
    is_seen: bool,
}

impl Newcomer {
    /// So many pieces more delay `task`.
    fn delay(&mut self, task: &impl Dependent, more: u32) {
        if self.guard == 0 {
            // Its only access, so nobody knows it yet.
            task.begin_blocking(self.strong + GUARD);
            self.guard = GUARD;
        }
        self.guard -= more;
        self.strong += more;
    }
}

struct Entry<T> {
    access: NonNull<Access<T>>,
    /// The chain begins at the parent's access, which waits for it to end.
    fed: bool,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Entry<T> {}

impl<T> Default for Domain<T> {
    fn default() -> Self {
        Domain {
            last: RegionMap::new(),
            found: Vec::new(),
            places: Vec::new(),
            tiles: Vec::new(),
            forgave: false,
        }
    }
}

/// Where part of a new access belongs.
struct Place<T> {
    region: Region,
    behind: Behind<T>,
    /// The map has an entry for just this region.
    in_map: bool,
}

impl<T> Place<T> {
    fn new(region: Region, behind: Behind<T>) -> Place<T> {
        Place { region, behind, in_map: false }
    }
}

enum Behind<T> {
    /// Another child's access.
    Sibling(Entry<T>),
    /// The parent's access, whose tokens it waits for.
    Parent(NonNull<Access<T>>),
    /// Nothing that it would wait for.
    Nothing,
}

impl<T: Dependent> Domain<T> {
    /// Registers the accesses of a new task; true if it is ready. Otherwise somebody will hear that it is, perhaps the caller
    /// from `outcome`.
    ///
    /// # Safety
    /// Called once a task, on the thread of the parent's body, whose accesses are `parent`; the task's accesses are disjoint,
    /// written and not yet seen by anybody. A task that is not ready is not to be touched afterwards.
    #[inline]
    pub unsafe fn register(
        &mut self,
        parent: &[Access<T>],
        task: NonNull<T>,
        outcome: &mut impl Outcome<T>,
    ) -> bool {
        // SAFETY: the caller's promise.
        let record = unsafe { task.as_ref() };
        let accesses = record.accesses();
        let (mut strong, mut exclusive) = (0, 0);
        for access in accesses {
            let state = access.state();
            strong += u32::from(!state.is_weak());
            exclusive += u32::from(state.kind() == Kind::Commutative && !state.is_weak());
        }
        // SAFETY: passed on.
        unsafe { self.register_counted(parent, task, [strong, exclusive], outcome) }
    }

    /// [`Domain::register`] for a task with so many strong accesses, and so many commutative ones among them.
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn register_counted(
        &mut self,
        parent: &[Access<T>],
        task: NonNull<T>,
        [strong, exclusive]: [u32; 2],
        outcome: &mut impl Outcome<T>,
    ) -> bool {
        // SAFETY: the caller's promise.
        let record = unsafe { task.as_ref() };
        let accesses = record.accesses();
        // With several accesses the caller holds a part of the count, so that the task cannot start in between.
        let guard = if accesses.len() > 1 || strong == 0 || exclusive > 0 { GUARD } else { 0 };
        let turn = if exclusive > 0 { EXCLUSIVE } else { 0 };
        record.begin_blocking(strong + guard + turn);
        record.begin_retaining(accesses.len() as u32 + exclusive);
        let mut delivery = Delivery::new(outcome);
        let mut newcomer = Newcomer { strong, guard, is_seen: false };
        let mut held = 0;
        for access in accesses {
            // SAFETY: passed on.
            held +=
                unsafe { self.register_access(parent, NonNull::from(access), &mut newcomer, &mut delivery) };
            newcomer.is_seen = true;
        }
        let Newcomer { strong, guard, .. } = newcomer;
        if held + guard == 0 {
            return false;
        }
        if held == strong && turn == 0 {
            return true; // nobody else has a part in it
        }
        match record.unblock(held + guard) {
            0 => true,
            // SAFETY: alive, and only its turn blocks it.
            EXCLUSIVE => unsafe { record.exclusive().acquire(task) },
            _ => false,
        }
    }

    /// Registers one access; returns 1 if it is strong and satisfied, otherwise 0.
    #[inline]
    unsafe fn register_access(
        &mut self,
        parent: &[Access<T>],
        access: NonNull<Access<T>>,
        newcomer: &mut Newcomer,
        delivery: &mut Delivery<'_, T, impl Outcome<T>>,
    ) -> u32 {
        // SAFETY: ours until it is linked, and it is not copied below.
        let region = unsafe { access.as_ref() }.region();
        let Some(entry) = self.last.get_mut(region) else {
            // SAFETY: passed on.
            return unsafe { self.register_elsewhere(parent, access, newcomer, delivery) };
        };
        let before = std::mem::replace(&mut entry.access, access);
        // SAFETY: the last of its chain, and only this thread links in this domain.
        unsafe {
            let placed = delivery.place_behind(before, access);
            let held = hold(access, placed);
            delivery.drain();
            held
        }
    }

    /// Registers an access to a region that is not in the map as such.
    #[cold]
    #[inline(never)]
    unsafe fn register_elsewhere(
        &mut self,
        parent: &[Access<T>],
        access: NonNull<Access<T>>,
        newcomer: &mut Newcomer,
        delivery: &mut Delivery<'_, T, impl Outcome<T>>,
    ) -> u32 {
        if self.last.is_full() && self.is_worth_forgetting() {
            self.forget(delivery, Access::is_quiet);
        }
        // SAFETY: ours until it is linked.
        let region = unsafe { access.as_ref() }.region();
        let mut places = std::mem::take(&mut self.places);
        // Usual with fragments: a look at the start costs less than to find out by order that there is no room.
        let is_free = !self.last.has_start(region.start());
        if is_free && self.last.insert(region, Entry { access, fed: false }).is_ok() {
            let feeds =
                |outer: &Access<T>| outer.region().intersection(region).is_some_and(|part| outer.feeds(part));
            let Some(outer) = parent.iter().find(|outer| feeds(outer)) else {
                self.places = places;
                // SAFETY: as above.
                return unsafe { hold(access, Placed::Held(Permits::clean(Tokens::ALL))) };
            };
            if outer.region().covers(region) {
                // Usual in trees: all of it waits for one access of the parent.
                self.places = places;
                *self.last.get_mut(region).expect("just put there") = Entry { access, fed: true };
                // SAFETY: the parent's task is running; what is fed to the access comes with the parcels.
                unsafe {
                    delivery.feed(NonNull::from(outer), region, access);
                    delivery.drain();
                }
                return 0;
            }
            self.last.remove(region);
            places_under(parent, region, &mut places);
        } else if self.is_tiled(region) {
            self.places = places;
            // SAFETY: passed on.
            return unsafe { self.register_tiles(access, newcomer, delivery) };
        } else {
            self.isolate(region, true, delivery, &mut places);
            fill_gaps(parent, region, &mut places);
        }
        // SAFETY: passed on.
        let held = unsafe { self.register_places(access, &mut places, newcomer, delivery) };
        self.places = places;
        held
    }

    /// Whether few regions of the map, `tiles`, are just `region` together, and most of them are still in use: programs that come
    /// back to their fragments pay for each about what an exact match costs.
    fn is_tiled(&mut self, region: Region) -> bool {
        self.tiles.clear();
        if !self.last.tiles(region, TILES, &mut self.tiles) || self.tiles.len() < 2 {
            return false;
        }
        let last = &mut self.last;
        let is_used = |&&slot: &&usize| {
            let entry = *last.at(slot).1;
            // SAFETY: what the map holds is alive: nobody disposes of an access behind which something may be put.
            entry.fed || !unsafe { entry.access.as_ref() }.is_quiet()
        };
        2 * self.tiles.iter().filter(is_used).count() >= self.tiles.len()
    }

    /// Registers an access whose region the `tiles` make up: a piece for each.
    unsafe fn register_tiles(
        &mut self,
        access: NonNull<Access<T>>,
        newcomer: &mut Newcomer,
        delivery: &mut Delivery<'_, T, impl Outcome<T>>,
    ) -> u32 {
        // SAFETY: ours until it is linked; then the task's count keeps it.
        let whole = unsafe { access.as_ref() };
        let last = &mut self.last;
        let regions = self.tiles.iter().map(|&slot| last.at(slot).0);
        // SAFETY: ours until it is linked.
        let first = unsafe { begin_pieces(whole, regions, newcomer, delivery) };
        let mut held = 0;
        for (index, &slot) in self.tiles.iter().enumerate() {
            // SAFETY: a piece for each tile, one behind the other; the rest as in `register_access`.
            unsafe {
                let piece = first.add(index);
                let before = std::mem::replace(&mut self.last.at(slot).1.access, piece);
                let placed = delivery.place_behind(before, piece);
                held += hold(piece, placed);
                delivery.drain();
            }
        }
        held
    }

    /// Finds what overlaps `region` in the map: what is quiet goes, the rest is cut at the region's border and becomes places;
    /// what lies outside stays in the map. What lies inside goes from the map, unless it `stays` to be replaced.
    fn isolate(
        &mut self,
        region: Region,
        stays: bool,
        delivery: &mut Delivery<'_, T, impl Outcome<T>>,
        places: &mut Vec<Place<T>>,
    ) {
        let mut all = std::mem::take(&mut self.found);
        self.last.overlapping(region, &mut all);
        for (found, entry) in all.drain(..) {
            // SAFETY: what the map holds is alive: nobody disposes of an access behind which something may be put.
            let access = unsafe { entry.access.as_ref() };
            if !entry.fed && access.is_quiet() {
                self.last.remove(found);
                // SAFETY: as above, and nothing will be put behind it.
                unsafe { end(entry.access, found, delivery) };
                continue;
            }
            if region.covers(found) {
                if !stays {
                    self.last.remove(found);
                }
                places.push(Place { region: found, behind: Behind::Sibling(entry), in_map: stays });
                continue;
            }
            self.last.remove(found);
            access.aligned(region, delivery.outcome);
            for piece in access.current(found) {
                // SAFETY: pieces live as long as their record.
                let part = unsafe { piece.as_ref() }.region();
                let entry = Entry { access: piece, fed: entry.fed };
                if region.covers(part) {
                    places.push(Place::new(part, Behind::Sibling(entry)));
                } else {
                    let put = self.last.insert(part, entry);
                    assert!(put.is_ok(), "pieces of one entry are disjoint");
                }
            }
        }
        self.found = all;
    }

    /// Registers an access, in pieces if it has several places.
    unsafe fn register_places(
        &mut self,
        access: NonNull<Access<T>>,
        places: &mut Vec<Place<T>>,
        newcomer: &mut Newcomer,
        delivery: &mut Delivery<'_, T, impl Outcome<T>>,
    ) -> u32 {
        // SAFETY: ours until it is linked; with pieces, the task's count keeps it.
        let whole = unsafe { access.as_ref() };
        let several = places.len() > 1;
        let mut first = access;
        if several {
            let regions = places.iter().map(|place| place.region);
            // SAFETY: as above.
            first = unsafe { begin_pieces(whole, regions, newcomer, delivery) };
        }
        let mut held = 0;
        for (index, place) in places.drain(..).enumerate() {
            // SAFETY: a piece for each place, one behind the other.
            let piece = unsafe { first.add(index) };
            let fed = match &place.behind {
                Behind::Sibling(entry) => entry.fed,
                Behind::Parent(_) => true,
                Behind::Nothing => false,
            };
            let entry = Entry { access: piece, fed };
            if place.in_map {
                *self.last.get_mut(place.region).expect("it stayed in the map") = entry;
            } else {
                let put = self.last.insert(place.region, entry);
                assert!(put.is_ok(), "places of one access are disjoint and isolated");
            }
            // SAFETY: as in `register_access`; the parent's task is running.
            unsafe {
                let placed = match place.behind {
                    Behind::Sibling(entry) => delivery.place_behind(entry.access, piece),
                    Behind::Parent(from) => {
                        delivery.feed(from, place.region, piece);
                        Placed::Waits { satisfied: false }
                    }
                    Behind::Nothing => Placed::Held(Permits::clean(Tokens::ALL)),
                };
                held += hold(piece, placed);
                delivery.drain();
            }
        }
        held
    }

    /// The parent, whose accesses are `parent`, has waited for all its children and reported what `failed`: what is done is
    /// forgotten if it is much, failures always, but for those that came to the parent itself.
    ///
    /// # Safety
    /// On the thread of the parent's body; no child is live.
    pub unsafe fn children_done(
        &mut self,
        parent: &[Access<T>],
        failed: bool,
        outcome: &mut impl Outcome<T>,
    ) {
        if !failed && self.last.len() < KEPT {
            return; // who comes behind finds that they are done
        }
        let mut delivery = Delivery::new(outcome);
        self.forget(&mut delivery, Access::is_done);
        if failed {
            self.forgave = true;
            // SAFETY: what the map holds is alive.
            self.last.iter().for_each(|(region, entry)| unsafe { forgive(parent, region, entry.access) });
        }
    }

    /// Whether there are many entries, and at least half of a few, which come in no order, could go: then looking at all is
    /// cheaper than growing.
    fn is_worth_forgetting(&self) -> bool {
        const FEW: usize = 32;
        if self.last.len() < REMEMBERED {
            return false;
        }
        // SAFETY: what the map holds is alive.
        let quiet = |entry: &Entry<T>| !entry.fed && unsafe { entry.access.as_ref() }.is_quiet();
        self.last.iter().take(FEW).filter(|(_, entry)| quiet(entry)).count() >= FEW / 2
    }

    /// Takes what is finished and not fed out of the map.
    fn forget(
        &mut self,
        delivery: &mut Delivery<'_, T, impl Outcome<T>>,
        is_over: impl Fn(&Access<T>) -> bool,
    ) {
        self.last.retain(|region, entry| {
            // SAFETY: what the map holds is alive.
            if entry.fed || !is_over(unsafe { entry.access.as_ref() }) {
                return true;
            }
            // SAFETY: as above, and nothing will be put behind it.
            unsafe { end(entry.access, region, delivery) };
            false
        });
    }

    /// The parent and its later children do not use `region` any more: the ends of the chains there report to the parent's
    /// accesses.
    ///
    /// # Safety
    /// On the thread of the parent's body, or after it; `parent` are the parent's accesses.
    pub unsafe fn release(&mut self, parent: &[Access<T>], region: Region, outcome: &mut impl Outcome<T>) {
        let mut delivery = Delivery::new(outcome);
        let mut places = std::mem::take(&mut self.places);
        self.isolate(region, false, &mut delivery, &mut places);
        for place in places.drain(..) {
            if let Behind::Sibling(entry) = place.behind {
                // SAFETY: passed on.
                unsafe { end_chain(parent, place.region, entry, false, &mut delivery) };
            }
        }
        self.places = places;
    }

    /// The parent has completed, and `failed` or not: no further child comes.
    ///
    /// # Safety
    /// As for [`Domain::release`].
    pub unsafe fn close(&mut self, parent: &[Access<T>], failed: bool, outcome: &mut impl Outcome<T>) {
        let steps_aside = !failed && !self.forgave;
        let mut delivery = Delivery::new(outcome);
        for (region, entry) in self.last.iter() {
            // SAFETY: passed on.
            unsafe { end_chain(parent, region, entry, steps_aside, &mut delivery) };
        }
        self.last = RegionMap::new();
    }
}

/// Splits a new access into pieces, which are returned, one behind the other.
///
/// # Safety
/// Its task is being registered, as `newcomer` says, and nobody else sees the access.
unsafe fn begin_pieces<T: Dependent>(
    whole: &Access<T>,
    regions: impl ExactSizeIterator<Item = Region>,
    newcomer: &mut Newcomer,
    delivery: &mut Delivery<'_, T, impl Outcome<T>>,
) -> NonNull<Access<T>> {
    // SAFETY: the caller's promise.
    let record = unsafe { whole.task().as_ref() };
    let (state, more) = (whole.state(), regions.len() as u32 - 1);
    let references = if state.holds_exclusion() { 2 * more } else { more };
    if newcomer.is_seen {
        record.retain(references);
    } else {
        record.begin_retaining(references);
    }
    if state.delays_task() {
        newcomer.delay(record, more);
    }
    whole.split_new(regions, delivery.outcome)
}

/// Gives a new access what it starts with; returns 1 if it is strong and that satisfies it.
#[inline(always)]
unsafe fn hold<T: Dependent>(access: NonNull<Access<T>>, placed: Placed) -> u32 {
    match placed {
        Placed::Held(permits) => {
            // SAFETY: it holds all tokens, so nobody else has any business with it before its task has run.
            let new = unsafe { access.as_ref() };
            let usual = new.state().receives_simply(Tokens::ALL).filter(|_| permits.poisoned.is_empty());
            if let Some(Stepped { state, satisfied, .. }) = usual {
                new.set(state);
                return u32::from(satisfied);
            }
            // SAFETY: as above.
            unsafe { hold_all(access, permits) }
        }
        Placed::Waits { satisfied } => u32::from(satisfied),
    }
}

/// # Safety
/// `permits` are all tokens.
#[cold]
#[inline(never)]
unsafe fn hold_all<T: Dependent>(access: NonNull<Access<T>>, permits: Permits) -> u32 {
    // SAFETY: it holds all tokens, so nobody else has any business with it before its task has run.
    let access = unsafe { access.as_ref() };
    let (state, effects): (State, _) = access.state().after(Message::Satisfied(permits));
    access.set(state);
    if effects.satisfied && effects.poisons {
        // SAFETY: not ready yet.
        unsafe { access.task().as_ref() }.poison();
    }
    u32::from(effects.satisfied)
}

/// Nothing will be put behind an access.
///
/// # Safety
/// It is the last of its chain, and the map forgets it.
unsafe fn end<T: Dependent>(
    access: NonNull<Access<T>>,
    region: Region,
    delivery: &mut Delivery<'_, T, impl Outcome<T>>,
) {
    // SAFETY: nobody disposes of an access behind which something may be put.
    let last = unsafe { access.as_ref() };
    let state = last.state();
    if !state.is_split() && state.is_done() {
        delivery.outcome.gone(last.task(), 1); // nobody else looks at it any more
    } else {
        // SAFETY: as above.
        unsafe { delivery.deliver(access, region, Message::Closed) };
    }
}

/// Where parts of `region` belong that no sibling has touched: behind a parent's access that does not hold everything, or
/// behind nothing.
fn places_under<T: Dependent>(parent: &[Access<T>], region: Region, places: &mut Vec<Place<T>>) {
    let mut feeders: Vec<(Region, &Access<T>)> = parent
        .iter()
        .filter_map(|access| access.region().intersection(region).map(|part| (part, access)))
        .filter(|(part, access)| access.feeds(*part))
        .collect();
    feeders.sort_unstable_by_key(|(part, _)| part.start());
    let mut start = region.start();
    for (part, access) in feeders {
        let gap = Region::between(start, part.start());
        places.extend(gap.map(|gap| Place::new(gap, Behind::Nothing)));
        places.push(Place::new(part, Behind::Parent(NonNull::from(access))));
        start = part.end();
    }
    let gap = Region::between(start, region.end());
    places.extend(gap.map(|gap| Place::new(gap, Behind::Nothing)));
}

/// The failures that `last`, the end of a chain of children that are all done, has met do not count any more in `region`.
///
/// # Safety
/// It is alive and has no neighbour behind, and only this thread could put one there.
unsafe fn forgive<T: Dependent>(parent: &[Access<T>], region: Region, last: NonNull<Access<T>>) {
    // SAFETY: the caller's promise.
    let mut left = unsafe { last.as_ref() }.current(region);
    while let Some(piece) = left.pop() {
        // SAFETY: pieces live as long as their record.
        let access = unsafe { piece.as_ref() };
        let mut state = access.state();
        loop {
            if state.is_split() {
                left.extend(access.current(access.region()));
                break;
            }
            if state.is_done() {
                // Nobody else changes an access that is done and has no neighbour behind.
                if !state.is_clean() {
                    access.set(state.forgiven(poisoned_under(parent, access.region())));
                }
                break;
            }
            // Tokens are still to come, perhaps poisoned by those before it.
            match access.replace(state, state.after(Message::Forgiven).0) {
                Ok(()) => break,
                Err(seen) => state = seen,
            }
        }
    }
}

/// Which tokens came poisoned to the parent for bytes of `region`.
pub(super) fn poisoned_under<T: Dependent>(parent: &[Access<T>], region: Region) -> Tokens {
    let inside = parent.iter().filter_map(|access| Some((access, access.region().intersection(region)?)));
    let pieces = inside.flat_map(|(access, part)| access.current(part));
    // SAFETY: the parent's record is alive, and pieces as long as it.
    pieces.fold(Tokens::NONE, |tokens, piece| tokens | unsafe { piece.as_ref() }.state().poisoned())
}

/// Completes places behind siblings, which ascend, by those between them.
fn fill_gaps<T: Dependent>(parent: &[Access<T>], region: Region, places: &mut Vec<Place<T>>) {
    let siblings = places.len();
    let mut start = region.start();
    for index in 0..siblings {
        let found = places[index].region;
        if let Some(gap) = Region::between(start, found.start()) {
            places_under(parent, gap, places);
        }
        start = found.end();
    }
    if let Some(gap) = Region::between(start, region.end()) {
        places_under(parent, gap, places);
    }
    if places.len() > siblings {
        places.sort_unstable_by_key(|place| place.region.start());
    }
}

/// No further child comes behind `entry`: its chain reports to the parent's accesses where it lies inside them, or to who is behind
/// these, if they can step aside.
unsafe fn end_chain<T: Dependent>(
    parent: &[Access<T>],
    region: Region,
    entry: Entry<T>,
    steps_aside: bool,
    delivery: &mut Delivery<'_, T, impl Outcome<T>>,
) {
    // SAFETY: what the map holds is alive.
    let last = unsafe { entry.access.as_ref() };
    if !entry.fed && last.is_quiet() {
        // SAFETY: as above, and nothing will be put behind it.
        unsafe { end(entry.access, region, delivery) };
        return;
    }
    let mut outside: SmallVec<[Region; 2]> = SmallVec::from_slice(&[region]);
    for access in parent {
        let Some(inside) = access.region().intersection(region) else { continue };
        for piece in access.aligned(inside, delivery.outcome) {
            // SAFETY: the parent's record is alive, and pieces as long as it.
            let piece = unsafe { piece.as_ref() };
            if piece.state().is_finished() {
                continue; // released before: nothing waits for what comes after
            }
            let part = piece.region();
            last.aligned(part, delivery.outcome);
            // SAFETY: the parent's access hears of the children first; it has not finished, so it is there.
            unsafe {
                if steps_aside && delivery.step_aside(piece, entry.access) {
                    // The chain has its neighbour.
                } else if entry.fed {
                    delivery.link_parent(entry.access, part, NonNull::from(access));
                } else {
                    let message = Message::ChildrenLinked { feeds: false };
                    delivery.deliver(NonNull::from(access), part, message);
                    delivery.link_parent(entry.access, part, NonNull::from(access));
                }
            }
            if part.covers(region) {
                return;
            }
            outside =
                outside.into_iter().flat_map(|rest| <[_; 2]>::from(rest.without(part))).flatten().collect();
        }
    }
    for part in outside {
        // SAFETY: nothing will be put behind it.
        unsafe { delivery.deliver(entry.access, part, Message::Closed) };
    }
}
