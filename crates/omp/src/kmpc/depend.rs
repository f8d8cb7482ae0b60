//! Depend clauses: arrays of three words, an address, a length (of which nothing follows) and a kind. Depend objects are such arrays, which
//! the compiler's code copies.

use crate::depend::{Declarations, everything, named, settle};
use crate::place::Place;
use castell_tasks::dependences::Kind;
use std::ffi::c_int;

/// What is named.
#[repr(C)]
pub(super) struct Dependence {
    address: usize,
    bytes: usize,
    kind: u8,
}

const IN: u8 = 1;
const OUT: u8 = 2;
const MUTEXINOUTSET: u8 = 4;
const INOUTSET: u8 = 8;
const ALL_MEMORY: u8 = 0x80;
/// Another way to say so.
const EVERYWHERE: usize = usize::MAX;

/// Two lists, as the interface passes them.
pub(super) struct Lists {
    pub(super) first: (c_int, *const Dependence),
    pub(super) second: (c_int, *const Dependence),
}

/// What the lists declare, of a task that `place`'s current one creates.
///
/// # Safety
/// A compiler made them.
pub(super) unsafe fn read(place: &Place<'_>, lists: &Lists) -> Declarations {
    let mut declared = Declarations::new();
    for &(count, list) in [&lists.first, &lists.second] {
        for index in 0..if list.is_null() { 0 } else { count.max(0) as usize } {
            // SAFETY: the caller's promise.
            let one = unsafe { &*list.add(index) };
            declared.extend(match one.kind {
                kind if kind & ALL_MEMORY != 0 || one.address == EVERYWHERE => Some(everything()),
                // An empty place in the array.
                _ if one.address == 0 => None,
                kind if kind & OUT != 0 => Some(named(one.address, Kind::InOut)),
                kind if kind & MUTEXINOUTSET != 0 => Some(named(one.address, Kind::Commutative)),
                kind if kind & INOUTSET != 0 => Some(named(one.address, Kind::Concurrent)),
                kind if kind & IN != 0 => Some(named(one.address, Kind::In)),
                _ => None,
            });
        }
    }
    settle(place, &mut declared);
    declared
}
