//! Tables of the objects that C programs hold: an id names one object for ever.
//!
//! An id has 3 bits for the kind of object, 24 for the place in its table and 37 for how often that place was used
//! before. A freed place is used again under a new id, and after 2^37 uses never again: so an id that was freed, made
//! up or is of another kind is always noticed, and never reaches another object. Places never move, so a look-up
//! takes the lock of its own place only.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const KIND_BITS: u32 = 3;
const INDEX_BITS: u32 = 24;
const GENERATION_MAX: u64 = (1 << (64 - KIND_BITS - INDEX_BITS)) - 1;
/// Places in the first chunk; each further chunk has twice as many as the one before.
const FIRST_CHUNK: usize = 64;
const CHUNKS_MAX: usize = 18;
/// Objects that one table can hold at a time.
pub(crate) const PLACES_MAX: usize = FIRST_CHUNK * ((1 << CHUNKS_MAX) - 1);

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Graph = 1,
    Schedule = 2,
    Handle = 3,
    Communicator = 4,
    Request = 5,
    Operator = 6,
}

/// Why an id leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// It is 0.
    Null,
    /// It is no id of this kind of object, or was never given out.
    Foreign,
    /// Its object was removed.
    Gone,
}

/// What becomes of an object that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stays,
    Goes,
}

/// All places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Objects of one kind; tests make small ones with fewer chunks.
pub(crate) struct Table<T, const CHUNKS: usize = CHUNKS_MAX> {
    kind: Kind,
    chunks: [OnceLock<Chunk<T>>; CHUNKS],
    free: Mutex<Free>,
}

type Chunk<T> = Box<[Mutex<Place<T>>]>;

struct Place<T> {
    /// Times that the place was given out; the last id has this number.
    generation: u64,
    object: Option<T>,
}

/// Places to give out: those given back, then those never used.
struct Free {
    returned: Vec<u32>,
    unused: usize,
}

impl<T, const CHUNKS: usize> Table<T, CHUNKS> {
    const PLACES: usize = FIRST_CHUNK * ((1 << CHUNKS) - 1);

    pub(crate) const fn new(kind: Kind) -> Table<T, CHUNKS> {
        let free = Free { returned: Vec::new(), unused: 0 };
        Table { kind, chunks: [const { OnceLock::new() }; CHUNKS], free: Mutex::new(free) }
    }

    /// Puts an object into the table and returns its id, which is never 0.
    pub(crate) fn insert(&self, object: T) -> Result<u64, Full> {
        let index = self.free_place()?;
        let mut place = self.place(index);
        place.generation += 1;
        place.object = Some(object);
        Ok(self.id(index, place.generation))
    }

    /// Works on an object; others that want the same one wait. `work` must not look the same id up again.
    pub(crate) fn with<R>(&self, id: u64, work: impl FnOnce(&mut T) -> R) -> Result<R, Unknown> {
        let mut place = self.find(id)?;
        place.object.as_mut().map(work).ok_or(Unknown::Gone)
    }

    /// Takes an object out; its id is [`Unknown::Gone`] from now on.
    pub(crate) fn remove(&self, id: u64) -> Result<T, Unknown> {
        let mut place = self.find(id)?;
        let object = place.object.take().ok_or(Unknown::Gone)?;
        self.give_back(id, place);
        Ok(object)
    }

    /// As [`Table::with`]; takes the object out if `work` says so.
    pub(crate) fn with_or_remove<R>(
        &self,
        id: u64,
        work: impl FnOnce(&mut T) -> (Fate, R),
    ) -> Result<R, Unknown> {
        let mut place = self.find(id)?;
        let (fate, result) = place.object.as_mut().map(work).ok_or(Unknown::Gone)?;
        if fate == Fate::Goes {
            let object = place.object.take();
            self.give_back(id, place);
            drop(object);
        }
        Ok(result)
    }

    /// Takes all objects out. Other threads may be faster with some.
    pub(crate) fn clear(&self) {
        self.ids().into_iter().for_each(|id| drop(self.remove(id)));
    }

    /// The ids of all objects.
    pub(crate) fn ids(&self) -> Vec<u64> {
        let used = lock(&self.free).unused;
        let live = |index: usize| {
            let place = self.place(index);
            place.object.is_some().then(|| self.id(index, place.generation))
        };
        (0..used).filter_map(live).collect()
    }

    fn id(&self, index: usize, generation: u64) -> u64 {
        generation << (KIND_BITS + INDEX_BITS) | (index as u64) << KIND_BITS | self.kind as u64
    }

    /// Locks the place of an id whose generation is the place's own.
    fn find(&self, id: u64) -> Result<MutexGuard<'_, Place<T>>, Unknown> {
        let (index, generation) = (index_of(id), id >> (KIND_BITS + INDEX_BITS));
        if id == 0 {
            return Err(Unknown::Null);
        }
        if id & ((1 << KIND_BITS) - 1) != self.kind as u64 || generation == 0 || !self.has(index) {
            return Err(Unknown::Foreign);
        }
        let place = self.place(index);
        match place.generation {
            now if now == generation => Ok(place),
            now if now > generation => Err(Unknown::Gone),
            _ => Err(Unknown::Foreign),
        }
    }

    fn give_back(&self, id: u64, place: MutexGuard<'_, Place<T>>) {
        let worn_out = place.generation == GENERATION_MAX;
        drop(place);
        if !worn_out {
            lock(&self.free).returned.push(index_of(id) as u32);
        }
    }

    fn free_place(&self) -> Result<usize, Full> {
        let mut free = lock(&self.free);
        if let Some(index) = free.returned.pop() {
            return Ok(index as usize);
        }
        let index = free.unused;
        if index == Self::PLACES {
            return Err(Full);
        }
        let (chunk, _) = position(index);
        self.chunks[chunk].get_or_init(|| {
            (0..FIRST_CHUNK << chunk).map(|_| Mutex::new(Place { generation: 0, object: None })).collect()
        });
        free.unused += 1;
        Ok(index)
    }

    fn has(&self, index: usize) -> bool {
        index < Self::PLACES && self.chunks[position(index).0].get().is_some()
    }

    fn place(&self, index: usize) -> MutexGuard<'_, Place<T>> {
        let (chunk, offset) = position(index);
        lock(&self.chunks[chunk].get().expect("places below `unused` have their chunk")[offset])
    }
}

fn index_of(id: u64) -> usize {
    (id >> KIND_BITS) as usize & ((1 << INDEX_BITS) - 1)
}

/// Chunk and offset in it.
fn position(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, index - FIRST_CHUNK * ((1 << chunk) - 1))
}

/// A panic under a lock was reported to the caller; the object behind it is still one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
