//! The interpreter that simulator and engine share: which operation may start next.

use crate::codec::{COUNT_ESCAPE, COUNT_SHIFT, Layout, SOLE, STARTS};
use crate::schedule::{ANY_JOIN, OpId, Schedule};
use std::ops::DerefMut;

/// The state of one run of a [`Schedule`]: a counter for each operation that waits for several, and a ring of those
/// that are ready, first in, first out.
///
/// The caller takes an operation, carries it out in whatever time or order that takes, and says when it has finished.
/// No step allocates or recurses. Every call must name the schedule that the stepper was made (or last reset) for;
/// with another one it steps nonsense or panics.
///
/// ```
/// use castell_goal::graph::Graph;
/// use castell_goal::op::Op;
/// use castell_goal::stepper::Stepper;
///
/// let mut graph = Graph::new();
/// let (first, second) = (graph.calc(1)?, graph.calc(2)?);
/// graph.requires(first, second)?;
/// let schedule = graph.compile()?;
///
/// let mut stepper = Stepper::new(&schedule);
/// let mut order = Vec::new();
/// while let Some(id) = stepper.take(&schedule) {
///     if let Op::Calc { ns } = schedule.op(id) {
///         order.push(ns);
///     }
///     stepper.finish(&schedule, id);
/// }
/// assert_eq!(order, [1, 2]);
/// assert!(stepper.is_finished());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The state lies in vectors of its own, or in memory that is lent ([`Stepper::begin_in`], [`Stepper::resume_in`]): so
/// a run can be carried on by several processes in turn.
#[derive(Clone, Debug, Default)]
pub struct Stepper<M = Vec<u32>> {
    /// Unmet dependencies of each join.
    counters: M,
    /// A power of two of places; `head` and `tail` count on and are masked.
    ring: M,
    cursor: Cursor,
}

/// Where a run stands, beside its counters and its ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    head: u32,
    tail: u32,
    unfinished: u32,
}

/// The memory that a run's state takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateWords {
    /// Words of counters.
    pub counters: usize,
    /// Words of the ring.
    pub ring: usize,
}

impl StateWords {
    /// What a run of this schedule takes.
    pub fn of(schedule: &Schedule) -> StateWords {
        StateWords { counters: schedule.needs().len(), ring: schedule.ready_max().next_power_of_two() }
    }
}

impl Stepper {
    /// The state of a run that has not begun.
    pub fn new(schedule: &Schedule) -> Stepper {
        let mut stepper = Stepper::default();
        stepper.reset(schedule);
        stepper
    }

    /// Back to the beginning, for this or another schedule; allocates only where that one is larger.
    pub fn reset(&mut self, schedule: &Schedule) {
        self.counters.clear();
        self.counters.extend_from_slice(schedule.needs());
        let places = StateWords::of(schedule).ring;
        if self.ring.len() < places {
            self.ring.resize(places, 0);
        }
        self.begin(schedule);
    }
}

impl<'a> Stepper<&'a mut [u32]> {
    /// The state of a run that has not begun, in memory of the sizes that [`StateWords::of`] tells.
    pub fn begin_in(schedule: &Schedule, counters: &'a mut [u32], ring: &'a mut [u32]) -> Self {
        counters.copy_from_slice(schedule.needs());
        let mut stepper = Stepper { counters, ring, cursor: Cursor::default() };
        stepper.begin(schedule);
        stepper
    }

    /// The state of a run that stands where [`Stepper::cursor`] told, in the memory that it was in.
    pub fn resume_in(counters: &'a mut [u32], ring: &'a mut [u32], cursor: Cursor) -> Self {
        Stepper { counters, ring, cursor }
    }

    /// Where the run stands.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }
}

impl<M: DerefMut<Target = [u32]>> Stepper<M> {
    fn begin(&mut self, schedule: &Schedule) {
        self.cursor = Cursor { head: 0, tail: 0, unfinished: schedule.len() as u32 };
        for id in schedule.operations().take(schedule.independent()) {
            self.push(id.0);
        }
    }

    /// The next operation that is ready, if any. It counts as started from now on: what waits for its start is
    /// released.
    #[inline]
    pub fn take(&mut self, schedule: &Schedule) -> Option<OpId> {
        let op = self.take_ready()?;
        self.start(schedule, op);
        Some(op)
    }

    /// The next operation that is ready, if any, without starting it: for callers that know only later when it starts,
    /// and say so with [`Stepper::start`] before they say that it has finished.
    #[inline(always)]
    pub fn take_ready(&mut self) -> Option<OpId> {
        if self.cursor.head == self.cursor.tail {
            return None;
        }
        let at = self.ring[self.cursor.head as usize & (self.ring.len() - 1)];
        self.cursor.head = self.cursor.head.wrapping_add(1);
        Some(OpId(at))
    }

    /// The operation, taken by [`Stepper::take_ready`], starts: what waits for that is released.
    #[inline]
    pub fn start(&mut self, schedule: &Schedule, op: OpId) {
        if schedule.words()[op.0 as usize] & STARTS != 0 {
            self.started(schedule, op.0);
        }
    }

    /// The operation, taken before, has finished: what waits for that is released.
    ///
    /// # Panics
    /// Where more operations finish than the schedule has.
    #[inline(always)]
    pub fn finish(&mut self, schedule: &Schedule, op: OpId) {
        self.cursor.unfinished = self.cursor.unfinished.checked_sub(1).expect("each operation finishes once");
        let words = schedule.words();
        let at = op.0 as usize;
        let head = words[at];
        let successors = head >> COUNT_SHIFT;
        if head & STARTS == 0 && successors < COUNT_ESCAPE {
            // The entries follow the head word directly.
            for &entry in &words[at + 1..][..successors as usize] {
                self.release(schedule, entry);
            }
        } else {
            self.finished_with_counts(schedule, at);
        }
    }

    /// Whether all operations have finished.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.cursor.unfinished == 0
    }

    /// How many operations have not finished.
    #[inline]
    pub fn unfinished(&self) -> u64 {
        u64::from(self.cursor.unfinished)
    }

    /// Whether an operation lacks nothing but the end of one that it waits for, which is known to go on.
    pub fn lacks_one(&self, schedule: &Schedule, op: OpId) -> bool {
        match schedule.joins().binary_search_by_key(&op.0, |join| join & !ANY_JOIN) {
            Ok(join) => self.counters[join] == 1,
            Err(_) => true,
        }
    }

    /// How many operations are ready to be taken.
    #[inline]
    pub fn ready(&self) -> usize {
        self.cursor.tail.wrapping_sub(self.cursor.head) as usize
    }

    #[inline]
    fn push(&mut self, at: u32) {
        let mask = self.ring.len() - 1;
        self.ring[self.cursor.tail as usize & mask] = at;
        self.cursor.tail = self.cursor.tail.wrapping_add(1);
    }

    #[inline]
    fn release(&mut self, schedule: &Schedule, entry: u32) {
        if entry & SOLE != 0 {
            self.push(entry & !SOLE);
            return;
        }
        let counter = &mut self.counters[entry as usize];
        // 0 already: a dependency beyond the ones that `any` asks for.
        if *counter > 0 {
            *counter -= 1;
            if *counter == 0 {
                self.push(schedule.joins()[entry as usize] & !ANY_JOIN);
            }
        }
    }

    #[inline(never)]
    fn started(&mut self, schedule: &Schedule, at: u32) {
        let layout = Layout::of(schedule.words(), at as usize).expect("an operation of this schedule");
        let entries = layout.entries + layout.successors;
        for &entry in &schedule.words()[entries..entries + layout.start_successors] {
            self.release(schedule, entry);
        }
    }

    #[inline(never)]
    fn finished_with_counts(&mut self, schedule: &Schedule, at: usize) {
        let layout = Layout::of(schedule.words(), at).expect("an operation of this schedule");
        for &entry in &schedule.words()[layout.entries..layout.entries + layout.successors] {
            self.release(schedule, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Graph;

    #[test]
    fn who_lacks_one_lacks_no_more() {
        let mut graph = Graph::new();
        let [first, second, both, alone] = [1, 2, 3, 4].map(|ns| graph.calc(ns).expect("legal"));
        for (before, after) in [(first, both), (second, both), (first, alone)] {
            graph.requires(before, after).expect("legal");
        }
        let schedule = graph.compile().expect("compiles");
        let named = |ns| {
            let is_named =
                |id: &OpId| matches!(schedule.op(*id), crate::op::Op::Calc { ns: found } if found == ns);
            schedule.operations().find(is_named).expect("an operation")
        };
        let mut stepper = Stepper::new(&schedule);
        assert!(!stepper.lacks_one(&schedule, named(3)) && stepper.lacks_one(&schedule, named(4)));
        let taken = stepper.take(&schedule).expect("two are ready");
        stepper.finish(&schedule, taken);
        assert!(stepper.lacks_one(&schedule, named(3)));
    }
}
