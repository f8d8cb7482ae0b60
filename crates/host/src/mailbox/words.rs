//! The words of a mailbox and who does what with them, in memory of any origin; see README.md for the layout.

use castell_base::sync::{AtomicU32, Ordering};

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"ccpu");
pub(super) const VERSION: u32 = 2;
/// What the table says of a worker that is not bound.
pub(super) const UNBOUND: u32 = u32::MAX;

const CHECKSUM: usize = 6;
const STATE: usize = 7;
const REQUESTS: usize = 8;
const ANSWERS: usize = 9;
const REFUSALS: usize = 10;
const HEADER: usize = 16;
const OPEN: u32 = 1;
const CLOSED: u32 = 2;

/// How many words a mailbox for so many workers has.
pub(super) const fn count(workers: usize) -> usize {
    HEADER + 3 * workers.div_ceil(32) + 2 * workers
}

/// A mailbox's words.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(&'a [AtomicU32]);

impl<'a> Words<'a> {
    /// `words` are as many as [`count`] says for the number of workers in them, or that number is not believed.
    pub(super) fn new(words: &'a [AtomicU32]) -> Words<'a> {
        Words(words)
    }

    /// Fills it in and opens it: all workers run.
    pub(super) fn begin(&self, pid: u32, start_time: u64, workers: &[(u32, u32)]) {
        let header =
            [MAGIC, VERSION, workers.len() as u32, pid, start_time as u32, (start_time >> 32) as u32];
        header.iter().enumerate().for_each(|(index, value)| self.0[index].store(*value, Ordering::Relaxed));
        for (worker, (cpu, kind)) in workers.iter().enumerate() {
            self.0[self.table() + worker].store(*cpu, Ordering::Relaxed);
            self.0[self.table() + workers.len() + worker].store(*kind, Ordering::Relaxed);
            self.set(self.wanted_at(worker), true);
            self.set(self.enabled_at(worker), true);
        }
        self.0[CHECKSUM].store(self.checksum(), Ordering::Relaxed);
        // Release: who sees it open sees all of the above.
        self.0[STATE].store(OPEN, Ordering::Release);
    }

    /// What is wrong with it, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        let word = |index: usize| self.0[index].load(Ordering::Relaxed);
        if self.0.len() < HEADER {
            return Some("it is too short".to_owned());
        }
        let state = self.0[STATE].load(Ordering::Acquire);
        if word(0) != MAGIC {
            return Some("it does not begin as a mailbox does".to_owned());
        }
        if word(1) != VERSION {
            return Some(format!("its version is {}, and this program knows version {VERSION}", word(1)));
        }
        if self.workers() > self.0.len() || count(self.workers()) != self.0.len() {
            return Some(format!("its size does not fit its {} workers", word(2)));
        }
        match state {
            0 => return Some("it is being made".to_owned()),
            OPEN => {}
            _ => return Some("its runtime has ended".to_owned()),
        }
        (word(CHECKSUM) != self.checksum()).then(|| "its checksum is wrong".to_owned())
    }

    pub(super) fn workers(&self) -> usize {
        self.0[2].load(Ordering::Relaxed) as usize
    }

    /// The owner's number and start time.
    pub(super) fn owner(&self) -> (u32, u64) {
        let word = |index: usize| self.0[index].load(Ordering::Relaxed);
        (word(3), u64::from(word(4)) | u64::from(word(5)) << 32)
    }

    /// The processor and the kind of a worker.
    pub(super) fn place(&self, worker: usize) -> (u32, u32) {
        let word = |index: usize| self.0[index].load(Ordering::Relaxed);
        (word(self.table() + worker), word(self.table() + self.workers() + worker))
    }

    pub(super) fn is_wanted(&self, worker: usize) -> bool {
        self.get(self.wanted_at(worker))
    }

    pub(super) fn is_enabled(&self, worker: usize) -> bool {
        self.get(self.enabled_at(worker))
    }

    /// Somebody else wants a worker to run or not; [`Words::post`] tells the owner.
    pub(super) fn want(&self, worker: usize, wanted: bool) {
        self.set(self.wanted_at(worker), wanted);
    }

    /// Whether somebody has taken it away by hand: others who count workers leave it out.
    pub(super) fn is_held(&self, worker: usize) -> bool {
        self.get(self.held_at(worker))
    }

    /// Somebody takes it away by hand, or gives it back; others have to be told that they count again.
    pub(super) fn hold(&self, worker: usize, held: bool) {
        self.set(self.held_at(worker), held);
    }

    /// The wishes are complete: the number by which they will be answered.
    pub(super) fn post(&self) -> u32 {
        // Release: the owner that sees this number sees the wishes.
        let request = self.0[REQUESTS].fetch_add(1, Ordering::Release).wrapping_add(1);
        wake(&self.0[REQUESTS]);
        request
    }

    /// Whether the owner has acted upon a request.
    pub(super) fn is_answered(&self, request: u32) -> bool {
        // Acquire: what the owner did before it answered.
        self.0[ANSWERS].load(Ordering::Acquire).wrapping_sub(request) as i32 >= 0
    }

    pub(super) fn answers(&self) -> &'a AtomicU32 {
        &self.0[ANSWERS]
    }

    pub(super) fn requests(&self) -> &'a AtomicU32 {
        &self.0[REQUESTS]
    }

    pub(super) fn refusals(&self) -> u32 {
        self.0[REFUSALS].load(Ordering::Relaxed)
    }

    /// The owner acts upon everything that was asked for: `set` does so for one worker and says whether it did. Returns the
    /// number of the last request that is in it.
    pub(super) fn attend(&self, mut set: impl FnMut(usize, bool) -> bool) -> u32 {
        let request = self.0[REQUESTS].load(Ordering::Acquire);
        // First what is to be given: so that what is to be taken is not refused for want of it.
        for (worker, wanted) in
            [true, false].into_iter().flat_map(|way| (0..self.workers()).map(move |w| (w, way)))
        {
            if self.is_wanted(worker) != wanted || self.is_enabled(worker) == wanted {
                continue;
            }
            if set(worker, wanted) {
                self.set(self.enabled_at(worker), wanted);
            } else {
                self.set(self.wanted_at(worker), !wanted);
                self.0[REFUSALS].fetch_add(1, Ordering::Relaxed);
            }
        }
        self.0[ANSWERS].store(request, Ordering::Release);
        wake(&self.0[ANSWERS]);
        request
    }

    /// The owner's program has decided by itself.
    pub(super) fn note(&self, worker: usize, enabled: bool) {
        self.set(self.enabled_at(worker), enabled);
        self.set(self.wanted_at(worker), enabled);
    }

    /// The owner goes.
    pub(super) fn close(&self) {
        self.0[STATE].store(CLOSED, Ordering::Release);
        self.post();
        wake(&self.0[ANSWERS]);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0[STATE].load(Ordering::Acquire) == CLOSED
    }

    fn masks(&self) -> usize {
        self.workers().div_ceil(32)
    }

    fn table(&self) -> usize {
        HEADER + 3 * self.masks()
    }

    /// A worker's bit: its word and its mask.
    fn wanted_at(&self, worker: usize) -> (usize, u32) {
        (HEADER + worker / 32, 1 << (worker % 32))
    }

    fn held_at(&self, worker: usize) -> (usize, u32) {
        (HEADER + 2 * self.masks() + worker / 32, 1 << (worker % 32))
    }

    fn enabled_at(&self, worker: usize) -> (usize, u32) {
        (HEADER + self.masks() + worker / 32, 1 << (worker % 32))
    }

    fn get(&self, (word, bit): (usize, u32)) -> bool {
        self.0[word].load(Ordering::Relaxed) & bit != 0
    }

    fn set(&self, (word, bit): (usize, u32), value: bool) {
        if value {
            self.0[word].fetch_or(bit, Ordering::Relaxed);
        } else {
            self.0[word].fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// FNV-1a (Fowler, Noll, Vo) over what never changes.
    fn checksum(&self) -> u32 {
        let constant = self.0[..CHECKSUM].iter().chain(&self.0[self.table()..]);
        let bytes = constant.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }
}

#[cfg(not(loom))]
fn wake(word: &AtomicU32) {
    crate::futex::wake(word, i32::MAX, u32::MAX);
}

/// Loom's threads look again and again instead of sleeping.
#[cfg(loom)]
fn wake(_word: &AtomicU32) {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn memory(workers: usize) -> Vec<AtomicU32> {
        let memory: Vec<AtomicU32> = (0..count(workers)).map(|_| AtomicU32::new(0)).collect();
        let table: Vec<(u32, u32)> = (0..workers as u32).map(|worker| (worker * 2, 0)).collect();
        Words::new(&memory).begin(77, 1 << 40 | 5, &table);
        memory
    }

    #[test]
    fn what_is_written_is_read() {
        for workers in [1, 31, 32, 33, 200] {
            let memory = memory(workers);
            let words = Words::new(&memory);
            assert_eq!(words.fault(), None, "{workers}");
            assert_eq!((words.workers(), words.owner()), (workers, (77, 1 << 40 | 5)));
            assert_eq!(words.place(workers - 1), (workers as u32 * 2 - 2, 0));
            assert!((0..workers).all(|worker| words.is_wanted(worker) && words.is_enabled(worker)));
            assert!((0..workers).all(|worker| !words.is_held(worker)));
            words.hold(workers - 1, true);
            assert_eq!(
                (words.is_held(workers - 1), words.is_held(0), words.fault()),
                (true, workers == 1, None)
            );
            assert!((0..workers).all(|worker| words.is_wanted(worker) && words.is_enabled(worker)));
        }
    }

    #[test]
    fn every_changed_word_is_noticed() {
        let constants = (0..8).chain(HEADER + 6..count(40));
        for index in constants {
            let memory = memory(40);
            memory[index].fetch_add(2, Ordering::Relaxed);
            assert!(Words::new(&memory).fault().is_some(), "word {index}");
        }
        let memory = memory(40);
        assert!(Words::new(&memory[..20]).fault().is_some_and(|fault| fault.contains("size")));
        assert!(Words::new(&memory[..4]).fault().is_some_and(|fault| fault.contains("short")));
        Words::new(&memory).close();
        assert!(Words::new(&memory).fault().is_some_and(|fault| fault.contains("ended")));
    }

    #[test]
    fn requests_are_answered_and_refused() {
        let memory = memory(3);
        let words = Words::new(&memory);
        words.want(1, false);
        words.want(2, false);
        let request = words.post();
        assert!(!words.is_answered(request));
        assert_eq!(words.attend(|worker, wanted| !wanted && worker == 1), request);
        assert!(words.is_answered(request) && words.is_answered(request.wrapping_sub(5)));
        assert!(!words.is_answered(request.wrapping_add(1)));
        assert_eq!([0, 1, 2].map(|worker| words.is_enabled(worker)), [true, false, true]);
        assert_eq!((words.is_wanted(2), words.refusals()), (true, 1));
        words.note(0, false);
        words.attend(|worker, _| panic!("worker {worker}: nothing was asked for"));
    }

    #[test]
    fn numbers_wrap_around() {
        let memory = memory(1);
        memory[REQUESTS].store(u32::MAX, Ordering::Relaxed);
        memory[ANSWERS].store(u32::MAX, Ordering::Relaxed);
        let words = Words::new(&memory);
        let request = words.post();
        assert!(request == 0 && !words.is_answered(request));
        words.attend(|_, _| true);
        assert!(words.is_answered(request));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two agents each take a worker away while the owner looks: each is answered only after its worker is away. A
    /// look at the workers is many loads, so that only schedules with few preemptions can be searched.
    #[test]
    fn no_request_is_lost() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let memory: Arc<Vec<AtomicU32>> = Arc::new((0..count(2)).map(|_| AtomicU32::new(0)).collect());
            Words::new(&memory).begin(1, 1, &[(0, 0); 2]);
            let agent = |worker: usize| {
                let memory = memory.clone();
                thread::spawn(move || {
                    let words = Words::new(&memory);
                    words.want(worker, false);
                    let request = words.post();
                    if words.is_answered(request) {
                        assert!(!words.is_enabled(worker));
                    }
                })
            };
            let agents = [agent(0), agent(1)];
            let words = Words::new(&memory);
            let mut seen = words.attend(|_, _| true);
            while seen != 2 {
                // Sleeps until the number is another one.
                thread::yield_now();
                if words.requests().load(Ordering::Relaxed) != seen {
                    seen = words.attend(|_, _| true);
                }
            }
            agents.into_iter().for_each(|agent| agent.join().expect("the agent ends"));
            assert_eq!([0, 1].map(|worker| words.is_enabled(worker)), [false, false]);
            assert!(words.is_answered(2));
        });
    }
}
