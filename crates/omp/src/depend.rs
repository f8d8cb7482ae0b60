//! Depend clauses. GCC passes an array of words, in one of two forms:
//!
//! | word | first form | second form |
//! |---|---|---|
//! | 0 | how many addresses | 0 |
//! | 1 | how many of them, the first ones, are written | how many of all kinds |
//! | 2 | the addresses | written |
//! | 3 | | mutexinoutset |
//! | 4 | | read |
//! | 5 | | the addresses in this order, then depend objects |
//!
//! A depend object is two words, an address and a kind. Only the first byte of what is named counts. `omp_all_memory` is a null address
//! that is written.

use crate::place::Place;
use castell_tasks::dependences::{Declaration, Kind};
use smallvec::SmallVec;
use std::ffi::c_void;

/// What a task declares.
pub(crate) type Declarations = SmallVec<[Declaration; 8]>;

/// Kinds in depend objects.
const IN: usize = 1;
const OUT: usize = 2;
const INOUT: usize = 3;
const MUTEXINOUTSET: usize = 4;
const INOUTSET: usize = 5;

/// What the clause at `words` declares, of a task that `place`'s current one creates.
///
/// The runtime's turns are taken for bytes, whoever their tasks' parents are: a task that waits for its children inside its turn would wait for ever
/// for one that wants the same. So only tasks of implicit tasks take turns; below them, mutexinoutset orders tasks as inout does.
///
/// # Safety
/// A compiler made it.
pub(crate) unsafe fn read(place: &Place<'_>, words: *const *mut c_void) -> Declarations {
    // SAFETY: the caller's promise.
    let mut declared = unsafe { read_kinds(words) };
    settle(place, &mut declared);
    declared
}

/// Who takes turns: see [`read`].
pub(crate) fn settle(place: &Place<'_>, declared: &mut Declarations) {
    let exclusive = if place.is_in_explicit_task() { Kind::InOut } else { Kind::Commutative };
    declared.iter_mut().filter(|one| one.kind == Kind::Commutative).for_each(|one| one.kind = exclusive);
}

/// # Safety
/// As for [`read`].
unsafe fn read_kinds(words: *const *mut c_void) -> Declarations {
    // SAFETY: the caller's promise.
    let word = |index: usize| unsafe { words.add(index).read() }.addr();
    let mut declared = Declarations::new();
    let count = word(0);
    if count > 0 {
        let written = word(1);
        declared.extend(
            (0..count).map(|index| {
                declaration(word(2 + index), if index < written { Kind::InOut } else { Kind::In })
            }),
        );
        return declared;
    }
    let (count, written, exclusive, read) = (word(1), word(2), word(3), word(4));
    let named = written + exclusive + read;
    declared.extend((0..count).map(|index| {
        let at = word(5 + index);
        match index {
            index if index < written => declaration(at, Kind::InOut),
            index if index < written + exclusive => declaration(at, Kind::Commutative),
            index if index < named => declaration(at, Kind::In),
            // SAFETY: behind the addresses there are those of depend objects, which are two words each.
            _ => unsafe { object(std::ptr::with_exposed_provenance(at)) },
        }
    }));
    declared
}

/// # Safety
/// A depend object lies there.
unsafe fn object(at: *const usize) -> Declaration {
    // SAFETY: the caller's promise.
    let (address, kind) = unsafe { (at.read(), at.add(1).read()) };
    let kind = match kind {
        IN => Kind::In,
        OUT | INOUT => Kind::InOut,
        MUTEXINOUTSET => Kind::Commutative,
        INOUTSET => Kind::Concurrent,
        unknown => {
            eprintln!("castell: an omp_depend_t has the unknown kind {unknown}: the strictest is taken");
            Kind::InOut
        }
    };
    declaration(address, kind)
}

fn declaration(address: usize, kind: Kind) -> Declaration {
    if address == 0 && kind == Kind::InOut { everything() } else { named(address, kind) }
}

/// What an address in a clause declares.
pub(crate) fn named(address: usize, kind: Kind) -> Declaration {
    Declaration { start: address.max(1), length: 1, kind, weak: false, reduction: 0 }
}

/// What `omp_all_memory` declares.
pub(crate) fn everything() -> Declaration {
    Declaration { start: 1, length: usize::MAX - 1, ..named(1, Kind::InOut) }
}
