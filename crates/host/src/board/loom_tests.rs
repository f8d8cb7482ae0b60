//! Processors go from program to program under loom: never to two at once, and nobody sleeps beside a free one.

use super::words::{Header, MEMBERS_MAX, Member, Slot, Turn, Words};
use castell_base::sync::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

struct Memory {
    header: Header,
    members: Vec<Member>,
    slots: Vec<Slot>,
    /// By processor: how many have it.
    running: Vec<AtomicU32>,
}

impl Memory {
    /// Programs with a worker each, whose rights are these.
    fn new(rights: &[usize]) -> Memory {
        let memory = Memory {
            header: Header::default(),
            members: (0..MEMBERS_MAX).map(|_| Member::default()).collect(),
            slots: rights.iter().map(|_| Slot::default()).collect(),
            running: rights.iter().map(|_| AtomicU32::new(0)).collect(),
        };
        for member in &memory.members {
            member.usable[0].store(u64::MAX, Ordering::Relaxed);
        }
        for (slot, right) in memory.slots.iter().zip(rights) {
            slot.set_right(Some(*right), 0);
        }
        memory
    }

    fn words(&self) -> Words<'_> {
        Words { header: &self.header, members: &self.members, slots: &self.slots }
    }

    fn begin(&self, turn: Turn) {
        assert_eq!(
            self.running[turn.cpu() as usize].fetch_add(1, Ordering::Relaxed),
            0,
            "two on one processor"
        );
    }

    /// A task boundary at which the turn ends.
    fn end(&self, turn: Turn) {
        self.running[turn.cpu() as usize].fetch_sub(1, Ordering::Relaxed);
        assert!(self.words().give(turn, |_| ()), "nobody takes it away");
    }

    /// Waits for a processor, as `Membership::take` does.
    fn take(&self, member: usize) -> Turn {
        let words = self.words();
        if let Some(turn) = words.take(member, None, false, 0) {
            return turn;
        }
        words.begin_hunger(member);
        loop {
            let news = words.news_before_look(member);
            if let Some(turn) = words.take(member, None, false, 0) {
                words.end_hunger(member, true, |_| ());
                return turn;
            }
            words.want_back(member, 1, 0);
            while words.members[member].news.load(Ordering::Acquire) == news {
                thread::yield_now();
            }
        }
    }
}

fn check(rights: &'static [usize], test: impl Fn(Arc<Memory>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || test(Arc::new(Memory::new(rights))));
}

/// A worker of `member` that waits for a processor, has it, and gives it back.
fn worker(memory: &Arc<Memory>, member: usize) -> thread::JoinHandle<()> {
    let memory = Arc::clone(memory);
    thread::spawn(move || {
        let turn = memory.take(member);
        memory.begin(turn);
        memory.end(turn);
    })
}

#[test]
fn who_has_the_right_gets_it_back_from_one_that_always_has_work() {
    check(&[0], |memory| {
        let borrowed = memory.words().take(1, None, false, 0).expect("nobody has it");
        memory.begin(borrowed);
        let owner = worker(&memory, 0);
        while memory.slots[0].state.load(Ordering::Relaxed) == borrowed.word() {
            thread::yield_now(); // another task
        }
        memory.end(borrowed);
        owner.join().expect("the owner gets it");
    });
}

#[test]
fn what_is_given_up_reaches_who_waits() {
    check(&[0], |memory| {
        let own = memory.words().take(0, None, false, 0).expect("nobody has it");
        memory.begin(own);
        let borrower = worker(&memory, 1);
        memory.end(own);
        borrower.join().expect("the borrower gets it");
        assert_eq!((memory.words().hungry(), memory.slots[0].lent.load(Ordering::Relaxed)), (0, 1));
    });
}

#[test]
fn two_that_wait_both_get_it() {
    check(&[0], |memory| {
        let held = memory.words().take(2, None, false, 0).expect("nobody has it");
        memory.begin(held);
        let workers = [worker(&memory, 0), worker(&memory, 1)];
        memory.end(held);
        workers.into_iter().for_each(|worker| worker.join().expect("it gets it"));
        assert_eq!(memory.words().hungry(), 0);
    });
}

#[test]
fn a_turn_that_was_taken_away_frees_nothing() {
    check(&[0], |memory| {
        let words = memory.words();
        let stopped = words.take(1, None, false, 0).expect("nobody has it");
        let owner = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.words().replace(0, stopped.word(), 0, 0))
        };
        let gave = words.give(stopped, |_| ());
        let seized = owner.join().expect("it ends");
        assert_eq!(gave, seized.is_none(), "one of the two");
        assert_eq!(words.take(2, None, false, 0).is_some(), gave);
    });
}

/// It gets it from the borrower, from the one that waits, or when both have given it up; and the one that waits gets it in the end.
#[test]
fn who_has_it_back_at_once_leaves_nobody_asleep() {
    check(&[0], |memory| {
        let borrowed = memory.words().take(1, None, false, 0).expect("nobody has it");
        let waiter = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let turn = memory.take(2);
                memory.words().give(turn, |_| ());
            })
        };
        let owner = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let words = memory.words();
                words.reclaim(0, None, 0).into_iter().for_each(|turn| {
                    assert!(words.give(turn, |_| ()), "nobody takes it from who has the right");
                });
            })
        };
        memory.words().give(borrowed, |_| ());
        owner.join().expect("it does not wait");
        waiter.join().expect("it gets it");
        assert_eq!(memory.words().hungry(), 0);
    });
}

/// One is told of a processor and goes elsewhere without it: the other one hears of it.
#[test]
fn who_goes_on_without_a_processor_tells_others_of_it() {
    check(&[0], |memory| {
        let held = memory.words().take(1, None, false, 0).expect("nobody has it");
        let leaver = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let words = memory.words();
                words.begin_hunger(0);
                words.news_before_look(0);
                // Whoever has the right is told first.
                let turn = words.take(0, None, false, 0);
                words.end_hunger(0, true, |_| ());
                turn.into_iter().for_each(|turn| assert!(words.give(turn, |_| ()), "nobody takes it away"));
            })
        };
        let waiter = worker(&memory, 2);
        memory.words().give(held, |_| ());
        leaver.join().expect("it does not wait");
        waiter.join().expect("it gets it");
    });
}
