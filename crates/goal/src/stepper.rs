//! The interpreter that simulator and engine share: which operation may start next.

use crate::codec::{COUNT_ESCAPE, COUNT_SHIFT, Layout, SOLE, STARTS};
use crate::schedule::{ANY_JOIN, OpId, Schedule};

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
#[derive(Clone, Debug, Default)]
pub struct Stepper {
    /// Unmet dependencies of each join.
    counters: Vec<u32>,
    /// A power of two of places; `head` and `tail` count on and are masked.
    ring: Vec<u32>,
    head: u32,
    tail: u32,
    unfinished: u32,
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
        let places = schedule.ready_max().next_power_of_two();
        if self.ring.len() < places {
            self.ring.resize(places, 0);
        }
        self.unfinished = schedule.len() as u32;
        self.head = 0;
        self.tail = 0;
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
    #[inline]
    pub fn take_ready(&mut self) -> Option<OpId> {
        if self.head == self.tail {
            return None;
        }
        let at = self.ring[self.head as usize & (self.ring.len() - 1)];
        self.head = self.head.wrapping_add(1);
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
    #[inline]
    pub fn finish(&mut self, schedule: &Schedule, op: OpId) {
        self.unfinished = self.unfinished.checked_sub(1).expect("each operation finishes once");
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
        self.unfinished == 0
    }

    /// How many operations have not finished.
    #[inline]
    pub fn unfinished(&self) -> u64 {
        u64::from(self.unfinished)
    }

    /// How many operations are ready to be taken.
    #[inline]
    pub fn ready(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    #[inline]
    fn push(&mut self, at: u32) {
        let mask = self.ring.len() - 1;
        self.ring[self.tail as usize & mask] = at;
        self.tail = self.tail.wrapping_add(1);
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
