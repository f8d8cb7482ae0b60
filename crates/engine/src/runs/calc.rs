//! Time that passes in a rank: computing (spins), sleeping and concurrent computing (timers).
//!
//! A rank computes one thing at a time, in the order in which computations became ready, and takes messages in
//! meanwhile. Only time that the processor really gave counts: a gap in the clock means that another process ran.

use super::reference::RunRef;
use castell_goal::schedule::OpId;
use castell_host::clock;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A step of the clock beyond which the processor was with somebody else.
const STEP_NS_MAX: u64 = 20_000;

struct Computation {
    run: RunRef,
    op: OpId,
    left_ns: u64,
}

pub(crate) struct Calculations {
    queue: VecDeque<Computation>,
    /// When the computation at the front of the queue was last looked at; 0: not begun.
    looked_ns: u64,
    timers: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    /// Factor on every `calc` and `sleep`.
    pub(crate) scale: f64,
}

impl Default for Calculations {
    fn default() -> Calculations {
        Calculations { queue: VecDeque::new(), looked_ns: 0, timers: BinaryHeap::new(), scale: 1.0 }
    }
}

impl Calculations {
    pub(crate) fn is_any(&self) -> bool {
        !self.queue.is_empty() || !self.timers.is_empty()
    }

    /// Whether the processor is needed all the time.
    pub(crate) fn is_computing(&self) -> bool {
        !self.queue.is_empty()
    }

    /// When the next timer is due.
    pub(crate) fn next_timer_ns(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((due, ..))| *due)
    }

    /// Starts a computation; says whether it is over at once.
    pub(crate) fn calc(&mut self, run: RunRef, op: OpId, ns: u64, concurrent: bool) -> bool {
        if concurrent {
            return self.sleep(run, op, ns);
        }
        let left_ns = scaled(ns, self.scale);
        if left_ns == 0 && self.queue.is_empty() {
            return true;
        }
        if self.queue.is_empty() {
            self.looked_ns = clock::now_ns();
        }
        self.queue.push_back(Computation { run, op, left_ns });
        false
    }

    /// Starts a timer; says whether it is over at once.
    pub(crate) fn sleep(&mut self, run: RunRef, op: OpId, ns: u64) -> bool {
        let ns = scaled(ns, self.scale);
        if ns > 0 {
            let due = clock::now_ns().saturating_add(ns);
            self.timers.push(Reverse((due, run.serial, run.slot, op.0)));
        }
        ns == 0
    }

    /// The next operation whose time is over.
    pub(super) fn next_due(&mut self, now: u64) -> Option<(RunRef, OpId)> {
        let &Reverse((due, serial, slot, op)) = self.timers.peek()?;
        (due <= now).then(|| {
            self.timers.pop();
            (RunRef { slot, serial }, OpId(op))
        })
    }

    /// How long the processor was here since this was asked last. Nanoseconds.
    pub(super) fn passed(&mut self, now: u64) -> u64 {
        now.saturating_sub(std::mem::replace(&mut self.looked_ns, now)).min(STEP_NS_MAX)
    }

    /// The computation that comes to its end in the time that has `passed`, of which it takes its part.
    pub(super) fn next_computed(&mut self, passed: &mut u64) -> Option<(RunRef, OpId)> {
        let front = self.queue.front_mut()?;
        if front.left_ns > *passed {
            front.left_ns -= std::mem::take(passed);
            return None;
        }
        *passed -= front.left_ns;
        self.queue.pop_front().map(|over| (over.run, over.op))
    }

    /// The operations of a run for which time passes.
    pub(crate) fn operations_of(&self, run: RunRef) -> impl Iterator<Item = OpId> + '_ {
        let computing = self.queue.iter().filter(move |computation| computation.run == run);
        let timed = self.timers.iter().filter(move |Reverse((_, serial, ..))| *serial == run.serial);
        computing.map(|computation| computation.op).chain(timed.map(|Reverse((.., op))| OpId(*op)))
    }

    /// Forgets what a failed run waits for.
    pub(crate) fn drop_run(&mut self, run: RunRef) {
        self.queue.retain(|computation| computation.run != run);
        self.timers.retain(|Reverse((_, serial, ..))| *serial != run.serial);
    }
}

fn scaled(ns: u64, scale: f64) -> u64 {
    if scale == 1.0 { ns } else { (ns as f64 * scale) as u64 }
}
