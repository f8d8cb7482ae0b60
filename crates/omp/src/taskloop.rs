//! Loops whose iterations are tasks. The first two words of a piece's argument are its bounds.

use crate::place::Place;
use crate::reduction::GOMP_taskgroup_reduction_register;
use crate::task::{
    Argument, Clauses, GOMP_taskgroup_end, GOMP_taskgroup_start, create, creates_no_more, priority, run,
    run_piece_at_once, with,
};
use crate::{Body, Copy};
use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

/// How many iterations there are from `start` on, `step` apart, before `end`.
fn iterations(start: i128, end: i128, step: i128) -> i128 {
    if step > 0 && start < end {
        (end - start + step - 1) / step
    } else if step < 0 && start > end {
        (start - end - step - 1) / -step
    } else {
        0
    }
}

/// How a loop is cut: numbers of iterations.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pieces: i128,
    /// Each piece has so many,
    size: i128,
    /// and so many of the first ones have one more,
    larger: i128,
    /// but the last no more than are left.
    total: i128,
}

impl Cut {
    /// `wanted`: how many pieces, or, with the flag, how many iterations each; 0: as many as there are threads.
    pub(crate) fn of(total: i128, wanted: u64, flags: u32, threads: usize) -> Cut {
        let wanted = i128::from(wanted);
        if flags & with::GRAINSIZE != 0 {
            let size = wanted.max(1);
            if flags & with::STRICT != 0 {
                return Cut { pieces: (total + size - 1) / size, size, larger: 0, total };
            }
            return Cut::into((total / size).max(1), total);
        }
        Cut::into(if wanted == 0 { threads as i128 } else { wanted }.min(total), total)
    }

    fn into(pieces: i128, total: i128) -> Cut {
        Cut { pieces, size: total / pieces, larger: total % pieces, total }
    }

    /// The first iteration of each piece and the one behind its last.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (i128, i128)> {
        let start = |piece: i128| (piece * self.size + piece.min(self.larger)).min(self.total);
        (0..self.pieces).map(move |piece| (start(piece), start(piece + 1)))
    }
}

/// A loop, and what its clauses say.
struct Loop {
    argument: Argument,
    flags: u32,
    wanted: u64,
    priority: c_int,
    start: i128,
    end: i128,
    step: i128,
}

impl Loop {
    /// # Safety
    /// As the compiler made it.
    unsafe fn run(&self) {
        let place = Place::current();
        let total = iterations(self.start, self.end, self.step);
        if total == 0 || place.is_some_and(creates_no_more) {
            // SAFETY: the caller's promise.
            return unsafe { self.refuse_reductions() };
        }
        let is_grouped = self.flags & with::NOGROUP == 0;
        if is_grouped {
            // SAFETY: closed below.
            unsafe { GOMP_taskgroup_start() };
            if self.flags & with::REDUCTION != 0 {
                // SAFETY: the caller's promise.
                unsafe { GOMP_taskgroup_reduction_register(self.reductions()) };
            }
        }
        let threads = place.map_or(1, |place| place.team_size());
        let clauses = Clauses {
            is_final: self.flags & with::FINAL != 0,
            is_deferred: self.flags & with::IF != 0,
            priority: priority(self.priority),
        };
        for (first, behind) in Cut::of(total, self.wanted, self.flags, threads).ranges() {
            let bounds = self.bounds(first, behind, total);
            // SAFETY: the first two words of the argument.
            let put = |block: *mut c_void| unsafe { block.cast::<[u64; 2]>().write(bounds) };
            // SAFETY: the caller's promise.
            unsafe {
                match place {
                    Some(place) if place.runs_at_once(clauses.is_deferred, clauses.priority != 0) => {
                        run(place, &self.argument, clauses.is_final, put);
                    }
                    Some(place) => create(place, &self.argument, &clauses, &[], None, put),
                    None => run_piece_at_once(&self.argument, clauses.is_final, put),
                }
            }
        }
        if is_grouped {
            // SAFETY: opened above.
            unsafe { GOMP_taskgroup_end() };
        }
    }

    /// Bounds of a piece as the compiler's code compares them; the loop's own end where there is no other, so that nothing runs over.
    fn bounds(&self, first: i128, behind: i128, total: i128) -> [u64; 2] {
        let end = if behind == total { self.end } else { self.start + behind * self.step };
        [self.start + first * self.step, end].map(|bound| bound as u64)
    }

    /// The block of its reductions is the third word.
    ///
    /// # Safety
    /// It has reductions.
    unsafe fn reductions(&self) -> *mut usize {
        // SAFETY: the caller's promise.
        unsafe { self.argument.data.cast::<*mut usize>().add(2).read() }
    }

    /// Nothing runs: the compiler's code learns that there are no copies.
    ///
    /// # Safety
    /// As the compiler made it.
    unsafe fn refuse_reductions(&self) {
        if self.flags & (with::NOGROUP | with::REDUCTION) == with::REDUCTION {
            // SAFETY: the caller's promise.
            unsafe { self.reductions().add(2).write(0) };
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskloop(
    body: Body,
    data: *mut c_void,
    copy: Option<Copy>,
    bytes: c_long,
    align: c_long,
    flags: c_uint,
    wanted: c_ulong,
    priority: c_int,
    start: c_long,
    end: c_long,
    step: c_long,
) {
    let argument = Argument::new(body, data, copy, bytes, align);
    let [start, end, step] = [start, end, step].map(i128::from);
    // SAFETY: the caller's promise.
    unsafe { Loop { argument, flags, wanted, priority, start, end, step }.run() };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskloop_ull(
    body: Body,
    data: *mut c_void,
    copy: Option<Copy>,
    bytes: c_long,
    align: c_long,
    flags: c_uint,
    wanted: c_ulong,
    priority: c_int,
    start: u64,
    end: u64,
    step: u64,
) {
    let argument = Argument::new(body, data, copy, bytes, align);
    // Downward steps are passed as what they wrap around to.
    let step = if flags & with::UP != 0 { i128::from(step) } else { i128::from(step.cast_signed()) };
    let [start, end] = [start, end].map(i128::from);
    // SAFETY: the caller's promise.
    unsafe { Loop { argument, flags, wanted, priority, start, end, step }.run() };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(total: i128, wanted: u64, flags: u32) -> Vec<i128> {
        Cut::of(total, wanted, flags, 4).ranges().map(|(first, behind)| behind - first).collect()
    }

    #[test]
    fn loops_are_cut_as_their_clauses_say() {
        assert_eq!(sizes(10, 0, 0), [3, 3, 2, 2]);
        assert_eq!(sizes(3, 0, 0), [1, 1, 1]);
        assert_eq!(sizes(10, 3, 0), [4, 3, 3]);
        assert_eq!(sizes(10, 4, with::GRAINSIZE), [5, 5]);
        assert_eq!(sizes(3, 4, with::GRAINSIZE), [3]);
        assert_eq!(sizes(10, 4, with::GRAINSIZE | with::STRICT), [4, 4, 2]);
    }

    #[test]
    fn iterations_are_counted_in_both_directions() {
        assert_eq!(iterations(0, 10, 3), 4);
        assert_eq!(iterations(10, 0, -3), 4);
        assert_eq!(iterations(10, 0, 3), 0);
        assert_eq!(iterations(i128::from(i64::MIN), i128::from(i64::MAX), 1), (1 << 64) - 1);
    }
}
