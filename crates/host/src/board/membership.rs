//! A program on the board.

use super::care::{Care, QUANTUM_NS};
use super::file::Board;
use super::words::{MEMBERS_MAX, SLOTS_MAX, Turn, Words};
use crate::HostError;
use crate::clock::now_ns;
use crate::futex;
use crate::process::Pid;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// For how long a hungry worker sleeps before it looks whether all is well with the others.
const PATIENCE: Duration = Duration::from_millis(10);

/// A program's place on a board. Dropping it gives everything back.
#[derive(Debug)]
pub struct Membership {
    pub(super) board: Board,
    pub(super) member: usize,
    /// How many of its workers are hungry.
    hungry: Mutex<usize>,
    process: u32,
    cpus: Vec<u32>,
}

impl Membership {
    /// The process comes to the board at `path`, which is made if there is none; its `workers` may use the processors `cpus`.
    ///
    /// # Errors
    /// The board cannot be used, or is full.
    pub fn join(path: &Path, workers: usize, cpus: &[u32]) -> Result<Membership, HostError> {
        let board = Board::open_or_make(path)?;
        let lock = board.lock(true)?;
        let (me, image) = (std::process::id(), image());
        let cpus = cpus.to_vec();
        if let Some(member) = board.words().place_of(me, image) {
            let place = &board.words().members[member];
            place.users.fetch_add(1, Ordering::Relaxed);
            place.workers.fetch_max(workers.min(SLOTS_MAX) as u32, Ordering::Relaxed);
            board.words().share_out(now_ns());
            drop(lock);
            return Ok(Membership { board, member, hungry: Mutex::new(0), process: me, cpus });
        }
        board.remove_dead(&lock, Some(me));
        let free = (0..MEMBERS_MAX).find(|&member| !board.words().is_there(member));
        let Some(member) = free else {
            return Err(HostError::NotABoard {
                path: path.into(),
                found: format!("{MEMBERS_MAX} programs are on it already"),
            });
        };
        let words = board.words();
        let place = &words.members[member];
        place.workers.store(workers.min(SLOTS_MAX) as u32, Ordering::Relaxed);
        place.image.store(image, Ordering::Relaxed);
        place.users.store(1, Ordering::Relaxed);
        place.never_waits.store(0, Ordering::Relaxed);
        place.number.store(words.header.joined.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        place.start_time.store(Pid::current().start_time().unwrap_or(0), Ordering::Relaxed);
        place.usable.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        for cpu in cpus.iter().map(|&cpu| cpu as usize).filter(|&cpu| cpu < words.slots.len()) {
            place.usable[cpu / 64].fetch_or(1 << (cpu % 64), Ordering::Relaxed);
        }
        place.pid.store(me, Ordering::Release);
        words.count_present();
        words.share_out(now_ns());
        drop(lock);
        Ok(Membership { board, member, hungry: Mutex::new(0), process: me, cpus })
    }

    /// More workers of this process, or fewer.
    ///
    /// # Errors
    /// The board's lock cannot be had.
    pub fn set_workers(&self, workers: usize) -> Result<(), HostError> {
        let _lock = self.board.lock(true)?;
        self.words().members[self.member].workers.store(workers.min(SLOTS_MAX) as u32, Ordering::Relaxed);
        self.words().share_out(now_ns());
        Ok(())
    }

    pub(super) fn words(&self) -> Words<'_> {
        self.board.words()
    }

    /// What it may use, as it said when it came.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// Whether no other program is on the board.
    pub fn is_alone(&self) -> bool {
        self.words().header.present.load(Ordering::Relaxed) <= 1
    }

    /// The process that has come: a fork's child is not on the board.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// What holds [`Turn::word`] as long as a turn on this processor is not over, and is not to be.
    pub fn word(&self, cpu: u32) -> &AtomicU64 {
        &self.words().slots[cpu as usize].state
    }

    /// A processor for one of the program's workers, if one is free for it: `last` rather than another.
    pub fn try_take(&self, last: Option<u32>) -> Option<Turn> {
        let turn = self.words().take(self.member, last.map(|cpu| cpu as usize), false, now_ns());
        turn.inspect(|turn| self.note_thread(*turn))
    }

    /// A processor for a thread that does not wait: one that the program has the right to, whoever has it, or a free one.
    pub fn take_at_once(&self, last: Option<u32>) -> Option<Turn> {
        let reclaim = || self.words().reclaim(self.member, last.map(|cpu| cpu as usize), now_ns());
        let turn = reclaim().or_else(|| {
            self.take_right_back();
            reclaim()
        });
        turn.inspect(|turn| self.note_thread(*turn))
    }

    /// Somebody who waited for very long has the right to what this had.
    fn take_right_back(&self) {
        let (words, now) = (self.words(), now_ns());
        if words.census().rights(self.member) > 0 {
            return;
        }
        let may_take = |has_it: Option<usize>, since_ns| {
            let never_waits = has_it.is_some_and(|has_it| words.never_waits(has_it));
            !never_waits && now.saturating_sub(since_ns) >= QUANTUM_NS
        };
        if let Ok(_lock) = self.board.lock(false) {
            words.take_right(self.member, may_take, now);
        }
    }

    /// The program has threads that never wait for a processor: [`Membership::take_at_once`].
    ///
    /// # Errors
    /// The board's lock cannot be had.
    pub(super) fn never_wait(&self) -> Result<(), HostError> {
        let _lock = self.board.lock(true)?;
        self.words().members[self.member].never_waits.store(1, Ordering::Relaxed);
        self.words().share_out(now_ns());
        Ok(())
    }

    /// The calling thread has this processor from now on.
    pub fn note_thread(&self, turn: Turn) {
        self.words().slots[turn.slot as usize].thread.store(current_thread(), Ordering::Relaxed);
    }

    /// A processor for one of the program's workers, for which this sleeps if it has to; `None` if the worker `is_elsewhere` meanwhile: whoever
    /// makes it so calls [`Membership::rouse`].
    pub fn take(&self, last: Option<u32>, is_elsewhere: impl Fn() -> bool) -> Option<Turn> {
        self.try_take(last).or_else(|| self.take_hungry(last, is_elsewhere))
    }

    #[cold]
    fn take_hungry(&self, last: Option<u32>, is_elsewhere: impl Fn() -> bool) -> Option<Turn> {
        let _hunger = Hunger::begin(self);
        let mut care = Care::new(self);
        loop {
            let words = self.words();
            words.begin_hunger(self.member); // another library of the process may have ended it
            let news = words.news_before_look(self.member);
            if let Some(turn) = self.try_take(last) {
                return Some(turn);
            }
            if is_elsewhere() {
                return None;
            }
            words.want_back(self.member, *self.hungry(), now_ns());
            let word = &words.members[self.member].news;
            if futex::wait(word, news, u32::MAX, Some(PATIENCE)) == futex::Woken::TimedOut
                && let Some(turn) = care.take()
            {
                self.note_thread(turn);
                return Some(turn);
            }
        }
    }

    /// The turn is over; nothing happens if the processor was taken from it meanwhile.
    pub fn give(&self, turn: Turn) {
        self.words().give(turn, wake_one);
    }

    /// All workers of this program that wait in [`Membership::take`] look whether they are to be elsewhere.
    pub fn rouse(&self) {
        let news = &self.words().members[self.member].news;
        news.fetch_add(1, Ordering::AcqRel);
        futex::wake(news, i32::MAX, u32::MAX);
    }

    fn hungry(&self) -> MutexGuard<'_, usize> {
        self.hungry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return; // a fork's copy
        }
        // If the lock cannot be had: who finds that this process has ended does it.
        if let Ok(_lock) = self.board.lock(true)
            && self.words().members[self.member].users.fetch_sub(1, Ordering::Relaxed) == 1
        {
            self.words().remove(self.member, now_ns(), wake_one);
        }
    }
}

/// A worker is hungry as long as it lives.
struct Hunger<'a>(&'a Membership);

impl Hunger<'_> {
    fn begin(membership: &Membership) -> Hunger<'_> {
        let mut hungry = membership.hungry();
        *hungry += 1;
        if *hungry == 1 {
            membership.words().begin_hunger(membership.member);
        }
        Hunger(membership)
    }
}

impl Drop for Hunger<'_> {
    fn drop(&mut self) {
        let mut hungry = self.0.hungry();
        *hungry -= 1;
        self.0.words().end_hunger(self.0.member, *hungry == 0, wake_one);
    }
}

/// Of this process until it executes another program: the system gives each one random bytes.
fn image() -> u64 {
    // SAFETY: asks for a number: where 16 bytes lie that nobody changes, or 0.
    let bytes = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const [u64; 2];
    // SAFETY: as above.
    unsafe { bytes.as_ref() }.map_or(0, |words| words[1])
}

pub(super) fn wake_one(news: &AtomicU32) {
    futex::wake(news, 1, u32::MAX);
}

fn current_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_libraries_of_one_process_have_one_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("board");
        let one = Membership::join(&path, 1, &[0, 1]).expect("it can be made");
        let turn = one.try_take(Some(0)).expect("nobody has it");
        let other = Membership::join(&path, 2, &[0, 1]).expect("there is room");
        assert!(one.is_alone() && other.is_alone());
        let programs = || one.board.programs();
        assert_eq!((programs().len(), programs()[0].workers, programs()[0].held), (1, 2, 1));
        assert!(other.try_take(None).expect("the other one").cpu() != turn.cpu());
        drop(other);
        assert_eq!((programs().len(), programs()[0].held), (1, 2), "the first one is still there");
        one.give(turn);
        assert_eq!(programs()[0].held, 1);
    }

    /// Who came first chooses first, also where the numbers by which that is known begin again between two of them.
    #[test]
    fn who_came_first_has_its_rights_first_wherever_the_numbers_stand() {
        for joined in [0, u32::MAX - 1, u32::MAX, 7] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("board");
            Board::open_or_make(&path)
                .expect("it can be made")
                .words()
                .header
                .joined
                .store(joined, Ordering::Relaxed);
            let first = Membership::join(&path, 1, &[0]).expect("there is room");
            // Two more programs, as other processes would come.
            let words = first.words();
            for member in [first.member + 1, first.member + 2] {
                let place = &words.members[member];
                let number = words.header.joined.fetch_add(1, Ordering::Relaxed);
                place.number.store(number, Ordering::Relaxed);
                place.workers.store(1, Ordering::Relaxed);
                place.usable[0].store(1, Ordering::Relaxed);
                place.pid.store(u32::MAX, Ordering::Relaxed);
            }
            let has_right = || words.slots[0].right();
            words.slots[0].set_right(None, now_ns());
            words.share_out(now_ns());
            assert_eq!(has_right(), Some(first.member), "{joined} had come before");
            // When it has gone, the next one has it.
            words.members[first.member].pid.store(0, Ordering::Relaxed);
            words.share_out(now_ns());
            assert_eq!(has_right(), Some(first.member + 1), "{joined} had come before");
            words.members[first.member].pid.store(std::process::id(), Ordering::Relaxed);
        }
    }

    /// A worker that sleeps for a processor is told where the number of what it is told begins again.
    #[test]
    fn who_is_hungry_is_told_wherever_the_numbers_stand() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Membership::join(&folder.path().join("board"), 2, &[0]).expect("it can be made");
        let news = || place.words().members[place.member].news.load(Ordering::Relaxed);
        for before in [u32::MAX - 1, u32::MAX, 0] {
            place.words().members[place.member].news.store(before, Ordering::Relaxed);
            let held = place.try_take(None).expect("nobody has it");
            std::thread::scope(|scope| {
                let hungry = scope.spawn(|| place.take(None, || false));
                while *place.hungry() == 0 {
                    std::thread::yield_now();
                }
                place.give(held);
                let turn = hungry.join().expect("it is told").expect("it is nowhere else");
                place.give(turn);
            });
            assert_eq!(news(), before.wrapping_add(1), "it was told once");
        }
    }

    #[test]
    fn who_does_not_wait_has_back_at_once_what_it_has_the_right_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("board");
        let place = Membership::join(&path, 1, &[0]).expect("it can be made");
        let turn = place.take_at_once(None).expect("nobody has it");
        assert_eq!(place.take_at_once(None), None, "it has what it has the right to");
        place.give(turn);
        // Another program borrows it.
        let member = place.member;
        let words = place.words();
        words.members[member + 1].usable[0].store(1, Ordering::Relaxed);
        let borrowed = words.take(member + 1, None, false, now_ns()).expect("it is free");
        let back = place.take_at_once(Some(0)).expect("it has the right to it");
        assert!(!words.give(borrowed, wake_one), "the borrower's turn is over");
        assert_eq!(place.word(0).load(Ordering::Relaxed), back.word());
        place.give(back);
    }
}
