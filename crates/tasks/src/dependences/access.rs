//! The record of an access, and of the pieces into which it is split.

use super::dependent::Dependent;
use super::lock::Lock;
use castell_base::sync::{AtomicPtr, AtomicU64, Ordering};
use castell_deps::{Kind, Permits, ReductionId, Region, State, Tokens};
use std::collections::BTreeMap;
use std::ptr::{NonNull, null_mut};

/// An access of a task: lies in the task's record, or on the heap if it is a piece of one that does.
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
    reduction: ReductionId,
}

/// The pieces of an access that was split.
pub(super) struct Pieces<T> {
    inner: Lock<PieceMap<T>>,
}

/// Which pieces there are now, and all that there ever were.
pub(super) struct PieceMap<T> {
    by_start: BTreeMap<usize, NonNull<Access<T>>>,
    made: Vec<NonNull<Access<T>>>,
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
            reduction: declared.reduction,
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
            Kind::Reduction => state.kind() == kind && self.reduction == next.reduction,
            _ => kind.shares() && (state.is_weak() || kind == state.kind()),
        }
    }

    /// Whether `parent`, inside which this access lies, can use this access' shared token.
    pub(super) fn shares_with_parent(&self, parent: &Access<T>) -> bool {
        self.kind() != Kind::Reduction
            || parent.kind() == Kind::Reduction && self.reduction == parent.reduction
    }

    /// The kind of access.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.state().kind()
    }

    /// Whether this access, all pieces included, is done, and nothing in it failed: what comes behind may have all tokens.
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

    /// The pieces that touch `region` now; the access itself if it is not split.
    pub(super) fn current(&self, region: Region) -> Vec<NonNull<Access<T>>> {
        if self.state().is_split() {
            // The map also has the pieces of what this access was split from.
            let own = self.region.intersection(region);
            own.map_or(Vec::new(), |own| self.pieces().inner.with(|map| map.touching(own)))
        } else {
            vec![NonNull::from(self)]
        }
    }

    /// The pieces that touch `region`, after splits so that none crosses its border.
    pub(super) fn aligned(&self, region: Region) -> Vec<NonNull<Access<T>>> {
        loop {
            let pieces = self.current(region);
            // SAFETY: pieces live as long as the record.
            let crossing = pieces.iter().find(|piece| !region.covers(unsafe { piece.as_ref() }.region));
            match crossing {
                // SAFETY: as above.
                Some(piece) => unsafe { piece.as_ref() }.split_at(region),
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
    pub(super) fn is_done(&self) -> bool {
        // SAFETY: pieces live as long as the record.
        self.current(self.region).iter().all(|piece| unsafe { piece.as_ref() }.state().is_done())
    }

    /// The pieces, made if there are none yet.
    pub(super) fn pieces(&self) -> &Pieces<T> {
        let mut pieces = self.pieces.load(Ordering::Acquire);
        if pieces.is_null() {
            let fresh = Box::into_raw(Box::new(Pieces { inner: Lock::new(PieceMap::new()) }));
            match self.pieces.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => pieces = fresh,
                Err(theirs) => {
                    // SAFETY: just made, and nobody else saw it.
                    drop(unsafe { Box::from_raw(fresh) });
                    pieces = theirs;
                }
            }
        }
        // SAFETY: they go with the record.
        unsafe { &*pieces }
    }

    /// A piece of this access with no tokens and no neighbours, in nobody's list.
    fn piece(&self, region: Region, state: State) -> NonNull<Access<T>> {
        let piece = Access {
            state: AtomicU64::new(state.bits()),
            region,
            next: AtomicPtr::new(self.next.load(Ordering::Relaxed)),
            child: AtomicPtr::new(self.child.load(Ordering::Relaxed)),
            task: self.task,
            pieces: AtomicPtr::new(self.pieces.load(Ordering::Relaxed)),
            reduction: self.reduction,
        };
        // SAFETY: a box is not null.
        unsafe { NonNull::new_unchecked(Box::into_raw(Box::new(piece))) }
    }

    /// Splits a new access, which nobody else sees yet, into these regions.
    pub(super) fn split_new(&self, regions: impl Iterator<Item = Region>) -> Vec<NonNull<Access<T>>> {
        let whole = self.state();
        let made = self
            .pieces()
            .inner
            .with(|map| regions.map(|region| map.add(self.piece(region, whole))).collect());
        self.set(whole.split());
        made
    }

    /// Splits off `part`, unless somebody else has just split this access.
    pub(super) fn split_at(&self, part: Region) {
        let (before, behind) = self.region.without(part);
        let regions = [before, self.region.intersection(part), behind];
        let more = regions.iter().flatten().count() as u32 - 1;
        self.pieces().inner.with(|map| {
            let mut state = self.state();
            if state.is_split() || more == 0 {
                return;
            }
            let made: Vec<_> = regions.iter().flatten().map(|region| self.piece(*region, state)).collect();
            loop {
                for piece in &made {
                    // SAFETY: just made, and nobody else has seen it.
                    let piece = unsafe { piece.as_ref() };
                    piece.set(state);
                    piece.next.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
                    piece.child.store(self.child.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                match self.replace(state, state.split()) {
                    Ok(()) => break,
                    Err(seen) => state = seen,
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
            map.by_start.remove(&self.region.start());
            for piece in made {
                map.add(piece);
            }
        });
    }

    /// Gives back what the access has beside its record, before the record goes.
    #[inline]
    pub fn dispose(&self) {
        let pieces = self.pieces.load(Ordering::Acquire);
        if !pieces.is_null() {
            // SAFETY: made from a box; the record goes, so nobody looks at it or at its pieces any more.
            drop(unsafe { Box::from_raw(pieces) });
        }
    }
}

impl<T> PieceMap<T> {
    fn new() -> Self {
        PieceMap { by_start: BTreeMap::new(), made: Vec::new() }
    }

    fn add(&mut self, piece: NonNull<Access<T>>) -> NonNull<Access<T>> {
        // SAFETY: pieces live as long as this map.
        self.by_start.insert(unsafe { piece.as_ref() }.region.start(), piece);
        self.made.push(piece);
        piece
    }

    fn touching(&self, region: Region) -> Vec<NonNull<Access<T>>> {
        let first = self.by_start.range(..=region.start()).next_back();
        let others = self.by_start.range(region.start() + 1..region.end());
        // SAFETY: as above.
        let touches = |piece: &NonNull<Access<T>>| unsafe { piece.as_ref() }.region.overlaps(region);
        first.into_iter().chain(others).map(|(_, piece)| *piece).filter(touches).collect()
    }
}

impl<T> Drop for PieceMap<T> {
    fn drop(&mut self) {
        for piece in self.made.drain(..) {
            // SAFETY: made from boxes, once each.
            drop(unsafe { Box::from_raw(piece.as_ptr()) });
        }
    }
}
