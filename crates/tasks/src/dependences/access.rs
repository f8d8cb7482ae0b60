//! The record of an access, and of the pieces into which it is split.

use super::dependent::{Dependent, Outcome};
use super::pieces::{Few, Pieces, drop_all};
use castell_base::sync::{AtomicPtr, AtomicU64, Ordering};
use castell_deps::{Kind, Permits, Region, State, Tokens};
use smallvec::SmallVec;
use std::ptr::{NonNull, null_mut};

/// An access of a task: lies in the task's record, or in a chunk of pieces if it is a piece of one that does.
pub struct Access<T> {
    state: AtomicU64,
    region: Region,
    /// The neighbour behind; valid once the state says that there is one.
    pub(super) next: AtomicPtr<Access<T>>,
    /// The first access of the task's children that is fed; valid once the state says so.
    pub(super) child: AtomicPtr<Access<T>>,
    task: NonNull<T>,
    /// Shared by an access and all pieces into which it was ever split; null until the first split.
    pieces: AtomicPtr<Pieces<T>>,
    /// Which reduction; of an access that has stepped aside, which is none, what still comes through it: bytes times tokens.
    more: AtomicU64,
}

impl<T: Dependent> Access<T> {
    /// A new access without tokens.
    #[inline]
    pub fn new(task: NonNull<T>, declared: &castell_deps::Access) -> Self {
        Access {
            state: AtomicU64::new(State::new(declared, Permits::default()).bits()),
            region: declared.region,
            next: AtomicPtr::new(null_mut()),
            child: AtomicPtr::new(null_mut()),
            task,
            pieces: AtomicPtr::new(null_mut()),
            more: AtomicU64::new(declared.reduction.0.into()),
        }
    }

    /// The bytes.
    #[inline]
    pub fn region(&self) -> Region {
        self.region
    }

    /// The task that declared it.
    #[inline]
    pub fn task(&self) -> NonNull<T> {
        self.task
    }

    /// The state now.
    #[inline]
    pub fn state(&self) -> State {
        State::from_bits(self.state.load(Ordering::Acquire))
    }

    /// Replaces the state if it still is `expected`.
    ///
    /// # Errors
    /// The state that it is instead.
    #[inline]
    pub(super) fn replace(&self, expected: State, new: State) -> Result<(), State> {
        // Release: what a passer wrote before it passed is seen behind. Acquire: what the neighbour wrote before it was linked,
        // and what earlier tasks wrote, is seen by whoever acts on the change.
        self.state
            .compare_exchange(expected.bits(), new.bits(), Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(State::from_bits)
    }

    /// [`Access::replace`] for a step after which nobody else changes `expected` any more if it `is_alone`: then an exchange, which
    /// locks the cache line, is not needed. False if somebody else was quicker.
    #[inline]
    pub(super) fn step(&self, expected: State, new: State, is_alone: bool) -> bool {
        if is_alone {
            debug_assert_eq!(
                self.state(),
                expected,
                "somebody else changes an access that is its owner's alone"
            );
            self.state.store(new.bits(), Ordering::Release);
            return true;
        }
        self.replace(expected, new).is_ok()
    }

    /// Sets the state while nobody else can change it.
    #[inline]
    pub(super) fn set(&self, state: State) {
        self.state.store(state.bits(), Ordering::Relaxed);
    }

    /// Whether the neighbour `next` can use this access' shared token.
    #[inline]
    pub(super) fn shares_with(&self, next: &Access<T>) -> bool {
        let (kind, state) = (self.kind(), next.state());
        match kind {
            Kind::Reduction => state.kind() == kind && self.reduction() == next.reduction(),
            _ => kind.shares() && (state.is_weak() || kind == state.kind()),
        }
    }

    /// Whether `parent`, inside which this access lies, can use this access' shared token.
    pub(super) fn shares_with_parent(&self, parent: &Access<T>) -> bool {
        self.kind() != Kind::Reduction
            || parent.kind() == Kind::Reduction && self.reduction() == parent.reduction()
    }

    /// Which reduction it is.
    fn reduction(&self) -> u64 {
        self.more.load(Ordering::Relaxed)
    }

    /// It is about to step aside, and so much still comes through it.
    pub(super) fn expect(&self, tokens: Tokens) {
        self.more.store(self.region.length() as u64 * u64::from(tokens.count()), Ordering::Relaxed);
    }

    /// So much has come through this access, which has stepped aside; true if that is all.
    pub(super) fn came(&self, bytes: usize, tokens: Tokens) -> bool {
        let came = bytes as u64 * u64::from(tokens.count());
        self.more.fetch_sub(came, Ordering::AcqRel) == came
    }

    /// The first access of the children that is fed.
    #[inline]
    pub(super) fn child(&self) -> *mut Access<T> {
        self.child.load(Ordering::Acquire)
    }

    /// The kind of access.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.state().kind()
    }

    /// Whether this access, all pieces included, is done, and nothing in it failed: what comes behind may have all tokens.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.state();
        if !state.is_split() {
            return state.is_done() && state.is_clean();
        }
        self.current(self.region).iter().all(|piece| {
            // SAFETY: pieces live as long as the record.
            let state = unsafe { piece.as_ref() }.state();
            !state.is_split() && state.is_done() && state.is_clean()
        })
    }

    /// Calls `see` with each task that waits for its data directly behind this access, perhaps several times.
    ///
    /// # Safety
    /// The access' task has not completed, and does not complete nor release anything meanwhile.
    pub(super) unsafe fn for_each_held_up(&self, mut see: impl FnMut(NonNull<T>)) {
        for piece in self.current(self.region) {
            // SAFETY: pieces live as long as the record.
            let mut last = unsafe { piece.as_ref() };
            if last.state().is_split() || last.state().is_finished() || !last.state().has_sibling_behind() {
                continue;
            }
            // SAFETY: a neighbour stays until it has all tokens, the last of which leaves `piece` when its task has finished; and so
            // do those behind it.
            while let Some(next) = unsafe { last.next.load(Ordering::Acquire).as_ref() } {
                for behind in next.current(self.region) {
                    // SAFETY: as above.
                    let behind = unsafe { behind.as_ref() };
                    if behind.state().delays_task() {
                        see(behind.task);
                    }
                }
                // Readers, one behind the other, wait for the same.
                if next.state().is_split() || !next.state().shares_with_sibling() {
                    break;
                }
                last = next;
            }
        }
    }

    /// The pieces that touch `region` now; the access itself if it is not split.
    pub(super) fn current(&self, region: Region) -> Few<T> {
        if !self.state().is_split() {
            return Few::from_buf_and_len([NonNull::from(self); 6], 1);
        }
        // The map also has the pieces of what this access was split from.
        let own = self.region.intersection(region);
        own.map_or(Few::new(), |own| self.pieces().with(|map| map.touching(own)))
    }

    /// The pieces of the first split of this access, which was split when it was new, without the lock; some may have been split
    /// again, and say so.
    #[inline]
    pub(super) fn first_split(&self) -> Option<&[Access<T>]> {
        self.pieces().first_split(self.region)
    }

    /// The only piece that touches `region`, if there is one and it need not be split.
    pub(super) fn only_piece(&self, region: Region) -> Option<NonNull<Access<T>>> {
        if !self.state().is_split() {
            return None;
        }
        let piece = self.pieces().with(|map| map.first_behind(region.start()))?;
        // SAFETY: pieces live as long as their record.
        let found = unsafe { piece.as_ref() };
        let is_whole = found.region == region || found.region.covers(region) && found.state().is_aside();
        is_whole.then_some(piece)
    }

    /// The pieces that touch `region`, after splits so that none crosses its border but those that have stepped aside.
    pub(super) fn aligned(&self, region: Region, outcome: &mut impl Outcome<T>) -> Few<T> {
        loop {
            let pieces = self.current(region);
            let whole = |piece: &Access<T>| region.covers(piece.region) || piece.state().is_aside();
            // SAFETY: pieces live as long as their record.
            let crossing = pieces.iter().find(|piece| !whole(unsafe { piece.as_ref() }));
            match crossing {
                // SAFETY: as above.
                Some(piece) => unsafe { piece.as_ref() }.split_at(region, outcome),
                None => return pieces,
            }
        }
    }

    /// Whether children inside `region` of this access have to wait for tokens that it does not hold yet.
    pub(super) fn feeds(&self, region: Region) -> bool {
        let state = self.state();
        if !state.is_weak() && state.kind() != Kind::Reduction {
            return false;
        }
        self.current(region).iter().any(|piece| {
            // SAFETY: pieces live as long as the record.
            let state = unsafe { piece.as_ref() }.state();
            state.tokens() != Tokens::ALL || !state.is_clean()
        })
    }

    /// Whether this access, all pieces included, is done.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        // SAFETY: pieces live as long as the record.
        self.current(self.region).iter().all(|piece| unsafe { piece.as_ref() }.state().is_done())
    }

    /// The pieces of an access that was split.
    fn pieces(&self) -> &Pieces<T> {
        // SAFETY: set before the state said that the access is split, and there as long as the record.
        unsafe { &*self.pieces.load(Ordering::Acquire) }
    }

    /// The pieces, made if there are none yet.
    fn pieces_or_new(&self, outcome: &mut impl Outcome<T>) -> &Pieces<T> {
        if self.pieces.load(Ordering::Acquire).is_null() {
            let (fresh, _) = Pieces::new(0, outcome);
            let null = null_mut();
            let set = self.pieces.compare_exchange(null, fresh.as_ptr(), Ordering::AcqRel, Ordering::Acquire);
            if set.is_err() {
                // SAFETY: just made, and nobody else saw it.
                unsafe { Pieces::dispose(fresh, &mut |chunk, bytes| outcome.free(chunk, bytes)) };
            }
        }
        self.pieces()
    }

    /// Writes a piece of this access, in nobody's list.
    ///
    /// # Safety
    /// There is room at `at`.
    unsafe fn write_piece(
        &self,
        at: NonNull<Access<T>>,
        region: Region,
        state: State,
        pieces: *mut Pieces<T>,
    ) {
        let piece = Access {
            state: AtomicU64::new(state.bits()),
            region,
            next: AtomicPtr::new(self.next.load(Ordering::Relaxed)),
            child: AtomicPtr::new(self.child.load(Ordering::Relaxed)),
            task: self.task,
            pieces: AtomicPtr::new(pieces),
            more: AtomicU64::new(self.more.load(Ordering::Relaxed)),
        };
        // SAFETY: the caller's promise.
        unsafe { at.write(piece) };
    }

    /// Splits a new access, which nobody else sees yet, into these regions; the pieces lie one behind the other.
    pub(super) fn split_new(
        &self,
        regions: impl ExactSizeIterator<Item = Region>,
        outcome: &mut impl Outcome<T>,
    ) -> NonNull<Access<T>> {
        let whole = self.state();
        let (pieces, first) = Pieces::new(regions.len(), outcome);
        for (index, region) in regions.enumerate() {
            // SAFETY: there is room for so many.
            unsafe { self.write_piece(first.add(index), region, whole, pieces.as_ptr()) };
        }
        self.pieces.store(pieces.as_ptr(), Ordering::Release);
        self.set(whole.split());
        first
    }

    /// Splits off `part`, unless somebody else has just split this access, or it has stepped aside.
    pub(super) fn split_at(&self, part: Region, outcome: &mut impl Outcome<T>) {
        let (before, behind) = self.region.without(part);
        let regions: SmallVec<[Region; 3]> =
            [before, self.region.intersection(part), behind].into_iter().flatten().collect();
        let more = regions.len() as u32 - 1;
        let pieces = self.pieces_or_new(outcome);
        pieces.with(|map| {
            let mut state = self.state();
            if state.is_split() || state.is_aside() || more == 0 {
                return;
            }
            let made = outcome.allocate(regions.len() * size_of::<Access<T>>()).cast::<Access<T>>();
            // SAFETY: allocated so.
            let piece = |index: usize| unsafe { made.add(index) };
            for (index, region) in regions.iter().enumerate() {
                // SAFETY: there is room for so many.
                unsafe {
                    self.write_piece(piece(index), *region, state, std::ptr::from_ref(pieces).cast_mut())
                };
            }
            loop {
                match self.replace(state, state.split()) {
                    Ok(()) => break,
                    Err(seen) => state = seen,
                }
                if state.is_aside() {
                    // SAFETY: just made, and nobody else has seen them.
                    unsafe {
                        drop_all(made, regions.len());
                        outcome.free(made.cast(), regions.len() * size_of::<Access<T>>());
                    }
                    return;
                }
                for index in 0..regions.len() {
                    // SAFETY: just made, and nobody else has seen it.
                    let piece = unsafe { piece(index).as_ref() };
                    piece.set(state);
                    piece.next.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
                    piece.child.store(self.child.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            // Nobody reaches the pieces before the lock is given back, so what this access stood for, they stand for together,
            // and the counts can follow.
            // SAFETY: the caller keeps the access alive, and so its task.
            let task = unsafe { self.task.as_ref() };
            task.retain(if state.holds_exclusion() { 2 * more } else { more });
            if state.delays_task() {
                task.block(more);
            }
            map.replace(self.region, made, regions.len());
        });
    }

    /// Gives back what the access has beside its record through `free`, before the record goes.
    ///
    /// # Safety
    /// Nobody looks at the access or its pieces any more, and this is called once; `free` takes what [`Outcome::allocate`] gave.
    #[inline]
    pub unsafe fn dispose(&self, free: &mut impl FnMut(NonNull<u8>, usize)) {
        if let Some(pieces) = NonNull::new(self.pieces.load(Ordering::Acquire)) {
            // SAFETY: the caller's promise.
            unsafe { Pieces::dispose(pieces, free) };
        }
    }
}
