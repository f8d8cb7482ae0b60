//! One message's place, a rank's consumer index, and what a rank knows of the others'. `README.md` beside this file has the
//! protocol.

#[cfg(not(loom))]
use super::INLINE_BYTES;
use super::{Cycle, GENERATIONS, SEGMENTS_MAX, bounce_of, turn_of};
use crate::queue::area::Area;
#[cfg(not(loom))]
use castell_base::sync::AtomicU64;
use castell_base::sync::Ordering;

const NUMBER: usize = 0;
const SIGNATURE: usize = 1;
const PAYLOAD: usize = 2;

/// A message's place: a line, and a page for what does not fit it.
#[derive(Clone, Copy)]
pub struct Line {
    words: Area,
    page: *mut u8,
}

impl Line {
    /// The place at these addresses.
    ///
    /// # Safety
    /// Both lie in slots that stay mapped; they belong together; one thread at a time sends there and one receives, and the
    /// sender writes call k's message only when the receiver has passed the calls of its generation before.
    pub unsafe fn new(line: *mut u8, page: *mut u8) -> Line {
        // SAFETY: handed on from the caller.
        Line { words: unsafe { Area::new(line) }, page }
    }

    /// Writes the call's message there.
    ///
    /// # Safety
    /// `from` is readable for so many bytes, of which there are not more than a place takes.
    #[inline(always)]
    pub unsafe fn publish(self, number: u64, signature: u64, from: *const u8, bytes: usize) {
        // SAFETY: handed on from the caller; the receiver does not read before it sees the number.
        unsafe { self.write(from, bytes) };
        self.words.word(SIGNATURE).store(signature, Ordering::Relaxed);
        self.words.word(NUMBER).store(number, Ordering::Release);
    }

    /// The place that lies so many generations behind this one, of which the next one is `stride` bytes further.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn behind(self, generation: usize, stride: usize) -> Line {
        let bytes = generation * stride;
        let words = self.words.word(0).as_ptr().cast::<u8>().wrapping_add(bytes);
        let page = self.page.wrapping_add(bytes * (super::BYTES_MAX / super::geometry::LINE_BYTES));
        // SAFETY: whoever made this place says where the generations lie.
        unsafe { Line::new(words, page) }
    }

    /// The line will be written soon: asks for it, and does not wait until it comes.
    #[inline(always)]
    pub fn prepare(self) {
        self.words.prefetch(NUMBER);
    }

    /// Whether the call's message is there.
    #[inline(always)]
    pub fn has(self, number: u64) -> bool {
        // Acquire: the message was written before.
        self.words.word(NUMBER).load(Ordering::Acquire) == number
    }

    /// The word that becomes the call's number, when the message is there.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn word(&self) -> &AtomicU64 {
        self.words.word(NUMBER)
    }

    /// What the sender of the message that is there has called.
    #[inline(always)]
    pub fn signature(self) -> u64 {
        self.words.word(SIGNATURE).load(Ordering::Relaxed)
    }

    #[cfg(not(loom))]
    #[inline(always)]
    unsafe fn write(self, from: *const u8, bytes: usize) {
        let inside = self.words.word(PAYLOAD).as_ptr().cast::<u8>();
        // SAFETY: handed on from the caller.
        unsafe { copy(from, if bytes <= INLINE_BYTES { inside } else { self.page }, bytes) };
    }

    /// Copies the message that is there.
    ///
    /// # Safety
    /// `to` is writable for so many bytes; the message has as many.
    #[cfg(not(loom))]
    #[inline(always)]
    pub unsafe fn read(self, to: *mut u8, bytes: usize) {
        let inside = self.words.word(PAYLOAD).as_ptr().cast::<u8>();
        // SAFETY: handed on from the caller; the sender has written it before the number, and leaves it alone until this
        // rank has passed the call.
        unsafe { copy(if bytes <= INLINE_BYTES { inside } else { self.page }, to, bytes) };
    }

    /// Where a message of so many bytes that is there lies, until this rank has passed the call.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn lies(self, bytes: usize) -> *mut u8 {
        if bytes <= INLINE_BYTES { self.words.word(PAYLOAD).as_ptr().cast::<u8>() } else { self.page }
    }

    #[cfg(loom)]
    unsafe fn write(self, from: *const u8, bytes: usize) {
        assert!(bytes == 8 && self.page.is_null());
        // SAFETY: handed on from the caller.
        let word = unsafe { from.cast::<u64>().read_unaligned() };
        self.words.word(PAYLOAD).store(word, Ordering::Relaxed);
    }

    /// # Safety
    /// As without loom.
    #[cfg(loom)]
    pub unsafe fn read(self, to: *mut u8, bytes: usize) {
        assert!(bytes == 8);
        let word = self.words.word(PAYLOAD).load(Ordering::Relaxed);
        // SAFETY: handed on from the caller.
        unsafe { to.cast::<u64>().write_unaligned(word) };
    }
}

/// # Safety
/// Both are valid for so many bytes, and apart.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    match bytes {
        0 => {}
        // The commonest length, without a call.
        // SAFETY: the caller's promise.
        8 => unsafe { to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()) },
        // SAFETY: the caller's promise.
        _ => unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) },
    }
}

const PASSED: usize = 0;
/// The last calls that were given up, each with whom the rank blamed, in one word: a rank may give up several before
/// another one looks.
const FAILED: usize = 1;
const FAILED_WORDS: u64 = 7;
const CULPRIT_BITS: u32 = 16;

/// How far a rank has come in a context.
#[derive(Clone, Copy)]
pub struct ConsumerIndex(Area);

impl ConsumerIndex {
    /// The consumer index that lies at this address.
    ///
    /// # Safety
    /// It lies in slots that stay mapped; only its rank writes to it, one thread at a time.
    pub unsafe fn new(at: *mut u8) -> ConsumerIndex {
        // SAFETY: handed on from the caller.
        ConsumerIndex(unsafe { Area::new(at) })
    }

    /// The last turn that the rank has passed; it does not look at older messages any more.
    #[inline(always)]
    pub fn passed(self) -> u64 {
        // Acquire: what the rank sent in that call was written before.
        self.0.word(PASSED).load(Ordering::Acquire)
    }

    /// The word that holds it.
    #[cfg(not(loom))]
    pub fn word(&self) -> &AtomicU64 {
        self.0.word(PASSED)
    }

    /// This rank has passed the turn.
    #[inline(always)]
    pub fn pass(self, turn: u64) {
        // Release: this rank has read what was sent to it.
        self.0.word(PASSED).store(turn, Ordering::Release);
    }

    /// This rank gives the call up with all its segments, because of `culprit`.
    pub fn fail(self, number: u64, culprit: u32) {
        self.give_up(number, culprit);
        self.pass(turn_of(number, SEGMENTS_MAX - 1));
    }

    /// The same of a started call, while others before it may go on: then it has not been passed yet.
    pub fn give_up(self, number: u64, culprit: u32) {
        let word = number << CULPRIT_BITS | u64::from(culprit) & ((1 << CULPRIT_BITS) - 1);
        // Release: what the rank sent in that call was written before.
        self.0.word(FAILED + (number % FAILED_WORDS) as usize).store(word, Ordering::Release);
    }

    /// Whether the rank gave up this very call, as far as is still known.
    pub fn gave_up(self, number: u64) -> bool {
        self.0.word(FAILED + (number % FAILED_WORDS) as usize).load(Ordering::Acquire) >> CULPRIT_BITS
            == number
    }

    /// Whom the rank blamed when it gave the call up, or the first behind it that is still known.
    pub fn culprit(self, number: u64) -> Option<u32> {
        let failed = (0..FAILED_WORDS as usize).map(|at| self.0.word(FAILED + at).load(Ordering::Relaxed));
        let first = failed.filter(|word| word >> CULPRIT_BITS >= number).min()?;
        Some((first & ((1 << CULPRIT_BITS) - 1)) as u32)
    }
}

/// What a rank knows of how far all others have come in a context.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// All ranks have passed all turns up to this one.
    all_passed: u64,
    /// The last turn of each generation.
    last: [u64; GENERATIONS],
    /// The last turn in which this rank had messages in each of its bounce buffers.
    bounces: [u64; 2],
}

impl Progress {
    /// The turn that a receiver must have passed before a message of this turn is written to it, unless it is known that it
    /// has.
    #[inline(always)]
    pub fn must_have_passed(&self, turn: u64, cycle: Cycle) -> Option<u64> {
        let last = self.last[cycle.generation(turn)];
        (last > self.all_passed).then_some(last)
    }

    /// The turn that all must have passed before this rank's bounce buffer is written to in this one, unless it is known that they have.
    #[inline(always)]
    pub fn bounce_must_have_passed(&self, turn: u64) -> Option<u64> {
        let last = self.bounces[bounce_of(turn)];
        (last > self.all_passed).then_some(last)
    }

    /// This rank passes the turn. `has_heard_all`: messages of all ranks in this turn have come here, also by way of others.
    /// `has_bounce`: it has messages in its bounce buffer.
    #[inline(always)]
    pub fn pass(&mut self, turn: u64, cycle: Cycle, has_heard_all: bool, has_bounce: bool) {
        self.last[cycle.generation(turn)] = turn;
        if has_bounce {
            self.bounces[bounce_of(turn)] = turn;
        }
        if has_heard_all {
            // They had entered it, behind all turns before it.
            self.all_passed = turn - 1;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::BYTES_MAX;
    use super::*;

    #[repr(align(4096))]
    struct Page([u8; 4096]);

    fn pages(count: usize) -> Vec<Page> {
        (0..count).map(|_| Page([0; 4096])).collect()
    }

    fn at(pages: &[Page], offset: usize) -> *mut u8 {
        pages.as_ptr().cast::<u8>().cast_mut().wrapping_add(offset)
    }

    /// Short messages lie in their line, longer ones in their page, and neither touches what is beside it.
    #[test]
    fn messages_lie_in_their_line_or_in_their_page() {
        let (lines, area) = (pages(1), pages(3));
        for (number, bytes) in (1..).zip([0, 1, 7, 8, 9, 47, 48, 49, 64, 4095, 4096]) {
            let (line, page) = (at(&lines, 64), at(&area, 4096));
            // SAFETY: both are alive; nobody else looks.
            let place = unsafe { Line::new(line, page) };
            assert!(!place.has(number));
            let sent: Vec<u8> = (0..bytes).map(|byte| (byte * 7 + number as usize) as u8).collect();
            // SAFETY: as long as a page takes.
            unsafe { place.publish(number, 1000 + number, sent.as_ptr(), bytes) };
            assert!(place.has(number) && !place.has(number - 1) && !place.has(number + 1));
            assert_eq!((place.word().load(Ordering::Relaxed), place.signature()), (number, 1000 + number));
            let mut received = vec![0; bytes];
            // SAFETY: as long as what was sent.
            unsafe { place.read(received.as_mut_ptr(), bytes) };
            assert_eq!(received, sent);
            let lies = if bytes <= 48 { line.wrapping_add(16) } else { page };
            assert_eq!(place.lies(bytes), lies, "{bytes} bytes");
            // SAFETY: there it lies.
            assert_eq!(unsafe { std::slice::from_raw_parts(lies, bytes) }, sent);
        }
        let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        assert!(is_untouched(&lines[0].0[..64]) && is_untouched(&lines[0].0[128..]));
        assert!(is_untouched(&area[0].0) && is_untouched(&area[2].0));
    }

    /// Generations of a place are one stride apart in lines, and so many times further in pages as these are longer.
    #[test]
    fn generations_lie_behind_one_another() {
        let (lines, area) = (pages(1), pages(12));
        // SAFETY: both are alive; nobody else looks.
        let first = unsafe { Line::new(at(&lines, 64), at(&area, 4096)) };
        for generation in 0..5 {
            let place = first.behind(generation, 128);
            assert_eq!(place.lies(0), at(&lines, 64 + 16 + 128 * generation));
            assert_eq!(place.lies(BYTES_MAX), at(&area, 4096 + 2 * 4096 * generation));
        }
    }

    /// The last seven calls that were given up are known, each with the rank that was blamed.
    #[test]
    fn the_last_calls_that_were_given_up_are_known() {
        let memory = pages(1);
        // SAFETY: alive; nobody else writes.
        let index = unsafe { ConsumerIndex::new(at(&memory, 64)) };
        assert_eq!((index.passed(), index.culprit(1), index.gave_up(1)), (0, None, false));
        index.pass(5);
        assert_eq!((index.passed(), index.word().load(Ordering::Relaxed)), (5, 5));
        for number in 10..20 {
            index.give_up(number, 0x1_0000 + number as u32);
            assert!(index.gave_up(number) && !index.gave_up(number + 1));
        }
        assert_eq!(index.passed(), 5, "calls before may go on");
        for number in 0..22 {
            assert_eq!(index.gave_up(number), (13..20).contains(&number), "{number}");
            // The call itself, or the first behind it; of a rank's number 16 bits.
            let first = (number < 20).then(|| number.max(13) as u32);
            assert_eq!(index.culprit(number), first, "{number}");
        }
        index.fail(30, 3);
        assert_eq!(
            (index.passed(), index.culprit(25), index.gave_up(30)),
            ((30 << 12) + 4095, Some(3), true)
        );
        assert!(memory[0].0[..64].iter().chain(&memory[0].0[128..]).all(|byte| *byte == 0));
    }

    /// A place is written again once its last call has been passed by all, which is known of those in which all were heard.
    #[test]
    fn places_that_are_used_again_have_been_passed() {
        let (cycle, mut progress) = (Cycle::AHEAD_IN_PAGES, Progress::default());
        let turn = |number| turn_of(number, 0);
        for number in 1..=8 {
            assert_eq!(progress.must_have_passed(turn(number), cycle), None);
            progress.pass(turn(number), cycle, false, number % 3 == 0);
        }
        for number in 9..17 {
            assert_eq!(progress.must_have_passed(turn(number), cycle), Some(turn(number - 8)));
        }
        assert_eq!(
            [10, 11].map(|number| progress.bounce_must_have_passed(turn(number))),
            [Some(turn(6)), Some(turn(3))]
        );
        // Who has heard all in turn 9 knows that all have passed what was before.
        progress.pass(turn(9), cycle, true, true);
        assert_eq!(progress.must_have_passed(turn(10), cycle), None, "2 has been passed");
        assert_eq!(progress.must_have_passed(turn(16), cycle), None, "8 has been passed");
        assert_eq!(progress.must_have_passed(turn(17), cycle), Some(turn(9)));
        assert_eq!(
            [10, 11].map(|number| progress.bounce_must_have_passed(turn(number))),
            [None, Some(turn(9))]
        );
        // Of the turn directly before the one in which all were heard it is known, and of that one itself not.
        let mut progress = Progress::default();
        progress.pass(100, cycle, false, true);
        progress.pass(101, cycle, true, true);
        let generations: Vec<Option<u64>> =
            (100..108).map(|turn| progress.must_have_passed(turn, cycle)).collect();
        assert_eq!(generations.iter().flatten().collect::<Vec<_>>(), [&101]);
        assert_eq!([102, 103].map(|turn| progress.bounce_must_have_passed(turn)), [None, Some(101)]);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::queue::area::Word;
    use crate::slot::window::Window;
    use loom::thread;
    use std::sync::Arc;

    /// Two ranks' consumer indices and the two generations of one place each way.
    struct Scene(Vec<Word>);

    #[derive(Clone, Copy)]
    struct View {
        consumer_indices: [ConsumerIndex; 2],
        lines: [[Line; 2]; 2],
    }

    impl Scene {
        fn new() -> Arc<Scene> {
            Arc::new(Scene((0..6 * 8).map(|_| Word::default()).collect()))
        }

        fn view(&self) -> View {
            let at = |line: usize| self.0[8 * line..].as_ptr().cast_mut().cast::<u8>();
            // SAFETY: the words outlive the model's threads, which keep to the protocol.
            unsafe {
                let line = |index: usize| Line::new(at(index), std::ptr::null_mut());
                View {
                    consumer_indices: [ConsumerIndex::new(at(0)), ConsumerIndex::new(at(1))],
                    lines: [[line(2), line(3)], [line(4), line(5)]],
                }
            }
        }
    }

    fn send(view: View, to: usize, number: u64, value: u64) {
        let line = view.lines[to][(number & 1) as usize];
        // SAFETY: a word; the caller made sure that there is room.
        unsafe { line.publish(number, 7, (&raw const value).cast(), 8) };
    }

    fn receive(view: View, me: usize, number: u64) -> u64 {
        let line = view.lines[me][(number & 1) as usize];
        while !line.has(number) {
            thread::yield_now();
        }
        let mut value = 0u64;
        // SAFETY: a word.
        unsafe { line.read((&raw mut value).cast(), 8) };
        assert_eq!(line.signature(), 7);
        value
    }

    fn explore(scene: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = model.preemption_bound.or(Some(3));
        model.check(scene);
    }

    /// A broadcast's root hears of nobody: it has to look before it writes a place again.
    #[test]
    fn a_sender_does_not_overtake_its_receiver() {
        explore(|| {
            let scene = Scene::new();
            let view = scene.view();
            let of_receiver = Arc::clone(&scene);
            let receiver = thread::spawn(move || {
                let view = of_receiver.view();
                for number in 1..=4 {
                    assert_eq!(receive(view, 1, number), 100 + number);
                    view.consumer_indices[1].pass(number);
                }
            });
            let mut progress = Progress::default();
            for number in 1..=4 {
                while progress
                    .must_have_passed(number, Cycle::AHEAD)
                    .is_some_and(|last| view.consumer_indices[1].passed() < last)
                {
                    thread::yield_now();
                }
                send(view, 1, number, 100 + number);
                progress.pass(number, Cycle::AHEAD, false, false);
            }
            receiver.join().expect("no panic");
        });
    }

    /// A line that several read is written again only when each of them has passed what lay there. Nobody waits: what does not come
    /// in time is another one of the model's runs.
    #[test]
    fn a_multicast_is_not_written_before_all_have_read_it() {
        explore(|| {
            let scene = Scene::new();
            let view = scene.view();
            // The model has two consumer indices: the writer's own is of no use to it, and serves the second reader.
            let readers = [0, 1].map(|reader| {
                let of_reader = Arc::clone(&scene);
                thread::spawn(move || {
                    let view = of_reader.view();
                    // Two turns of one generation.
                    for number in [1, 3] {
                        if view.lines[0][1].has(number) {
                            assert_eq!(receive(view, 0, number), 100 + number);
                            view.consumer_indices[reader].pass(number);
                        }
                    }
                })
            });
            let mut progress = Progress::default();
            send(view, 0, 1, 101);
            progress.pass(1, Cycle::AHEAD, false, false);
            let last = progress.must_have_passed(3, Cycle::AHEAD).expect("nobody was heard of");
            if view.consumer_indices.iter().all(|consumer_index| consumer_index.passed() >= last) {
                send(view, 0, 3, 103);
            }
            readers.into_iter().for_each(|reader| reader.join().expect("no panic"));
        });
    }

    /// Where both hear from both nobody looks, and still nothing is overwritten too early.
    #[test]
    fn who_has_heard_all_need_not_look() {
        explore(|| {
            let scene = Scene::new();
            let rank = |me: usize, scene: Arc<Scene>| {
                move || {
                    let (view, mut progress) = (scene.view(), Progress::default());
                    for number in 1..=4 {
                        assert_eq!(progress.must_have_passed(number, Cycle::AHEAD), None);
                        send(view, 1 - me, number, 10 * number + me as u64);
                        assert_eq!(receive(view, me, number), 10 * number + 1 - me as u64);
                        progress.pass(number, Cycle::AHEAD, true, false);
                        view.consumer_indices[me].pass(number);
                    }
                }
            };
            let other = thread::spawn(rank(1, Arc::clone(&scene)));
            rank(0, scene)();
            other.join().expect("no panic");
        });
    }

    /// Started calls: the sender has two under way, the receiver ends the second one first. A place is written again only when its
    /// call and all before it have been passed.
    #[test]
    fn started_calls_end_in_any_order_and_are_passed_in_theirs() {
        explore(|| {
            let scene = Scene::new();
            let view = scene.view();
            let of_receiver = Arc::clone(&scene);
            let receiver = thread::spawn(move || {
                let (view, mut window) = (of_receiver.view(), Window::default());
                [1, 2, 3].into_iter().for_each(|number| window.begin(number, number));
                // As far as messages have come: what has not is another one of the model's runs.
                for number in [2, 1, 3] {
                    if view.lines[1][(number & 1) as usize].has(number) {
                        assert_eq!(receive(view, 1, number), 100 + number);
                        let at = (0..3).find(|at| window.get_mut(*at).copied() == Some(number));
                        window.end(at.expect("it has not ended"));
                        window.passed().into_iter().for_each(|turn| view.consumer_indices[1].pass(turn));
                    }
                }
            });
            let mut progress = Progress::default();
            for number in 1..=3 {
                let last = progress.must_have_passed(number, Cycle::AHEAD);
                progress.pass(number, Cycle::AHEAD, false, false);
                if last.is_none_or(|last| view.consumer_indices[1].passed() >= last) {
                    send(view, 1, number, 100 + number);
                }
            }
            receiver.join().expect("no panic");
        });
    }

    /// A message that was sent before its sender passed or gave up is seen by whoever sees that.
    #[test]
    fn who_passed_without_a_message_has_failed() {
        explore(|| {
            let scene = Scene::new();
            let of_sender = Arc::clone(&scene);
            let sender = thread::spawn(move || {
                let view = of_sender.view();
                send(view, 1, 1, 5);
                view.consumer_indices[0].pass(1);
                view.consumer_indices[0].fail(2, 9);
            });
            let view = scene.view();
            let passed = view.consumer_indices[0].passed();
            if passed >= 1 {
                assert!(view.lines[1][1].has(1));
            }
            if passed >= 2 {
                assert!(!view.lines[1][0].has(2));
                assert_eq!(view.consumer_indices[0].culprit(2), Some(9));
            }
            sender.join().expect("no panic");
        });
    }
}
