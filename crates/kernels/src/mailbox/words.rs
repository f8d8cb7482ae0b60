//! The words of a mailbox and who does what with them, in memory of any origin; README.md has the protocol.

use castell_base::sync::{AtomicU32, Ordering, fence};

/// Runs that an application can have under way at a time.
pub const SLOTS: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"ckrn");
const VERSION: u32 = 2;
const WATCHED: usize = 2;
const PENDING: usize = 3;
const HEADER: usize = 16;
const STRIDE: usize = 16;
/// Words of a mailbox.
pub(crate) const WORDS: usize = HEADER + SLOTS * STRIDE;

const SLEEPS: u32 = 1 << 8;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nobody uses it.
    Free = 0,
    /// A collection waits for its first step.
    Asked,
    /// A step may run, or runs.
    Granted,
    /// A step has ended.
    Ended,
    /// All steps have.
    Done,
    /// What it asks for cannot be.
    Refused,
    /// Its application gives it up.
    Abandoned,
}

impl State {
    const ALL: [State; 7] = [
        State::Free,
        State::Asked,
        State::Granted,
        State::Ended,
        State::Done,
        State::Refused,
        State::Abandoned,
    ];

    fn of(word: u32) -> Option<State> {
        State::ALL.get((word & !SLEEPS) as usize).copied()
    }
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// `None`: no state at all; the application writes what it must not.
    pub state: Option<State>,
    /// Which registered kernels.
    pub shape: u32,
    /// How many steps.
    pub steps: u32,
    /// How many of them were done when the last one was granted, and with which kernel of the shape's it runs: whole only while it is
    /// granted, since whoever grants may be killed halfway.
    pub steps_done: u32,
    /// See above.
    pub kernel: u32,
    /// How many of them have ended, as the application says.
    pub steps_ended: u32,
    /// Since when it asks, by the host's clock.
    pub asked_ns: u64,
}

/// A mailbox's words.
#[derive(Clone, Copy)]
pub struct Words<'a>(&'a [AtomicU32]);

impl<'a> Words<'a> {
    /// # Panics
    /// If there are too few.
    pub fn new(words: &'a [AtomicU32]) -> Words<'a> {
        assert!(words.len() >= WORDS);
        Words(words)
    }

    /// Says what it is; all slots are free.
    pub fn begin(&self) {
        self.0[0].store(MAGIC, Ordering::Relaxed);
        self.0[1].store(VERSION, Ordering::Release);
    }

    /// Whether it is a mailbox of this version.
    pub fn is_sound(&self) -> bool {
        self.0[1].load(Ordering::Acquire) == VERSION && self.0[0].load(Ordering::Relaxed) == MAGIC
    }

    fn word(&self, slot: usize, at: usize) -> &'a AtomicU32 {
        &self.0[HEADER + slot * STRIDE + at]
    }

    fn get(&self, slot: usize, at: usize) -> u32 {
        self.word(slot, at).load(Ordering::Relaxed)
    }

    fn set(&self, slot: usize, at: usize, value: u32) {
        self.word(slot, at).store(value, Ordering::Relaxed);
    }

    /// The word on which whoever waits for an answer in this slot sleeps.
    pub fn state_word(&self, slot: usize) -> &'a AtomicU32 {
        self.word(slot, 0)
    }

    /// All that a slot says. Acquire: what was written before its state is seen.
    pub fn slot(&self, slot: usize) -> Slot {
        let state = State::of(self.word(slot, 0).load(Ordering::Acquire));
        let [shape, steps, steps_done, kernel, low, high, steps_ended] =
            [1, 2, 3, 4, 5, 6, 7].map(|at| self.get(slot, at));
        let asked_ns = u64::from(low) | u64::from(high) << 32;
        Slot { state, shape, steps, steps_done, kernel, steps_ended, asked_ns }
    }

    // What the application does.

    /// A collection of so many steps asks for a place. Whether the bell has to be rung.
    #[must_use]
    pub fn ask(&self, slot: usize, shape: u32, steps: u32, now_ns: u64) -> bool {
        let values = [shape, steps, 0, 0, now_ns as u32, (now_ns >> 32) as u32, 0];
        (1..).zip(values).for_each(|(at, value)| self.set(slot, at, value));
        self.say(slot, State::Asked)
    }

    /// The step that was granted has ended. Whether the bell has to be rung.
    #[must_use]
    pub fn end_step(&self, slot: usize) -> bool {
        // A word of the application's own: the next grant writes over the other one before it is one.
        // It says that all have ended, rather than none, if that one says something that can't be.
        self.set(slot, 7, self.get(slot, 3).saturating_add(1));
        self.say(slot, State::Ended)
    }

    /// The collection is given up while a step of it was granted. Whether the bell has to be rung.
    #[must_use]
    pub fn abandon(&self, slot: usize) -> bool {
        self.say(slot, State::Abandoned)
    }

    /// The slot can be used again.
    pub fn release(&self, slot: usize) {
        self.word(slot, 0).store(State::Free as u32, Ordering::Relaxed);
    }

    fn say(&self, slot: usize, state: State) -> bool {
        // Release: who sees the state sees what was asked.
        self.word(slot, 0).store(state as u32, Ordering::Release);
        // The bit is for who looks, so it comes after what is to be seen.
        let before = self.0[PENDING + slot / 32].fetch_or(1 << (slot % 32), Ordering::Release);
        // With the one in `unwatch`: either that one sees the bit, or this one sees that nobody watches.
        fence(Ordering::SeqCst);
        before == 0 && self.0[WATCHED].load(Ordering::Relaxed) == 0
    }

    /// Says that somebody sleeps on the slot's word while it is in this state: the value to sleep on; none if it is in another by now.
    pub fn doze(&self, slot: usize, state: State) -> Option<(&'a AtomicU32, u32)> {
        let (word, awake) = (self.word(slot, 0), state as u32);
        match word.compare_exchange(awake, awake | SLEEPS, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Some((word, awake | SLEEPS)),
            Err(found) => (found == awake | SLEEPS).then_some((word, found)),
        }
    }

    /// Nobody waits for an answer any more. The word to wake.
    pub fn shut(&self, slot: usize) -> Option<&'a AtomicU32> {
        let word = self.word(slot, 0);
        let waits = |found: u32| match State::of(found) {
            Some(State::Asked | State::Ended | State::Abandoned) => Some(State::Refused as u32),
            _ => None,
        };
        word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, waits).is_ok().then_some(word)
    }

    // What whoever decides does.

    /// It looks at the mailbox by itself from now on: the bell is not rung.
    pub fn watch(&self) {
        self.0[WATCHED].store(1, Ordering::Relaxed);
    }

    /// The bell is rung from now on; whether nothing is pending, so that it may sleep.
    #[must_use]
    pub fn unwatch(&self) -> bool {
        self.0[WATCHED].store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.0[PENDING].load(Ordering::Relaxed) == 0 && self.0[PENDING + 1].load(Ordering::Relaxed) == 0
    }

    /// Takes the slots that have something to say, a bit each.
    pub fn take_pending(&self) -> u64 {
        let take = |at: usize| match self.0[PENDING + at].load(Ordering::Relaxed) {
            0 => 0,
            _ => u64::from(self.0[PENDING + at].swap(0, Ordering::Acquire)),
        };
        take(0) | take(1) << 32
    }

    /// What is written before a step is granted, and counts for nothing until it is.
    pub fn begin_grant(&self, slot: usize, kernel: u32, steps_done: u32) {
        self.set(slot, 3, steps_done);
        self.set(slot, 4, kernel);
    }

    /// The next step may run with this kernel. The word to wake, if somebody sleeps on it.
    #[must_use]
    pub fn grant(&self, slot: usize, kernel: u32, steps_done: u32) -> Option<&'a AtomicU32> {
        self.begin_grant(slot, kernel, steps_done);
        self.answer(slot, State::Granted)
    }

    /// All steps have ended, or it was given up. The word to wake.
    #[must_use]
    pub fn finish(&self, slot: usize) -> Option<&'a AtomicU32> {
        self.answer(slot, State::Done)
    }

    /// What it asks for cannot be. The word to wake.
    #[must_use]
    pub fn refuse(&self, slot: usize) -> Option<&'a AtomicU32> {
        self.answer(slot, State::Refused)
    }

    fn answer(&self, slot: usize, state: State) -> Option<&'a AtomicU32> {
        let word = self.word(slot, 0);
        // Release: who sees it granted sees with which kernel.
        let before = word.swap(state as u32, Ordering::Release);
        (before & SLEEPS != 0).then_some(word)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn words() -> Arc<Vec<AtomicU32>> {
        Arc::new((0..WORDS).map(|_| AtomicU32::new(0)).collect())
    }

    /// Who falls asleep has seen the question, or is woken by the bell.
    #[test]
    fn no_question_is_left_behind() {
        loom::model(|| {
            let memory = words();
            Words::new(&memory).watch();
            let asks = {
                let memory = memory.clone();
                thread::spawn(move || Words::new(&memory).ask(3, 7, 2, 1))
            };
            let words = Words::new(&memory);
            let mut seen = words.take_pending();
            let sleeps = words.unwatch();
            if !sleeps {
                seen |= words.take_pending();
            }
            let rung = asks.join().expect("no panic");
            assert!(seen == 1 << 3 || rung, "asleep, and nobody rings");
            if seen != 0 {
                let slot = words.slot(3);
                assert_eq!((slot.state, slot.shape, slot.steps), (Some(State::Asked), 7, 2));
            }
        });
    }

    /// Two who ask at once: one of them rings for both, or both are seen.
    #[test]
    fn one_bell_is_enough_for_two() {
        loom::model(|| {
            let memory = words();
            let asks = |slot| {
                let memory = memory.clone();
                thread::spawn(move || Words::new(&memory).ask(slot, 0, 1, 1))
            };
            let (one, other) = (asks(0), asks(1));
            let rung = [one, other].map(|asks| asks.join().expect("no panic"));
            assert_eq!(rung.iter().filter(|rung| **rung).count(), 1);
            assert_eq!(Words::new(&memory).take_pending(), 3);
        });
    }

    /// Who sleeps on a slot is woken by the answer, and then sees with which kernel.
    #[test]
    fn sleepers_are_woken() {
        loom::model(|| {
            let memory = words();
            let _ = Words::new(&memory).ask(0, 0, 1, 1);
            let decides = {
                let memory = memory.clone();
                thread::spawn(move || Words::new(&memory).grant(0, 5, 0).is_some())
            };
            let words = Words::new(&memory);
            let sleeps = words.doze(0, State::Asked).is_some();
            let woken = decides.join().expect("no panic");
            assert_eq!(sleeps, woken);
            assert_eq!((words.slot(0).state, words.slot(0).kernel), (Some(State::Granted), 5));
        });
    }
}
