//! The barrier at which a team's lent threads meet.

use castell_base::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// A barrier for the threads that are lent. Each of them ends its implicit task there; with that task's last descendant it has
/// arrived.
pub(crate) struct Assembly {
    size: u32,
    absent: AtomicU32,
    /// How many of those that have arrived may have to be told that all have.
    away: AtomicU32,
    /// How often all have arrived.
    rounds: AtomicU32,
    /// In the lower half, if the region is cancelled, how often they will have when it ends; the upper half says that it is.
    last: AtomicU64,
    /// Of the last even and the last odd round in which something was noted, its number; the upper half says that there is one.
    noted: [AtomicU64; 2],
}

const NOTED: u64 = 1 << 32;
const CANCELLED: u64 = 1 << 32;

impl Assembly {
    pub(crate) fn of(size: usize) -> Assembly {
        let size = size as u32;
        let zero = || AtomicU32::new(0);
        let (last, noted) = (AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
        Assembly { size, absent: AtomicU32::new(size), away: zero(), rounds: zero(), last, noted }
    }

    /// How often all have arrived. Whoever sees a new number sees what all had done before they arrived.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::Acquire)
    }

    /// One that has arrived stops looking for the next round all the time, unless it has come: somebody is to tell it.
    pub(crate) fn goes_away(&self, round: u32) -> bool {
        self.away.fetch_add(1, Ordering::Relaxed);
        // Between the last one's round and its look at who is away there is one, too: one of the two sees the other.
        fence(Ordering::SeqCst);
        if self.rounds() != round {
            self.comes_back();
            return false;
        }
        true
    }

    /// It looks again.
    pub(crate) fn comes_back(&self) {
        self.away.fetch_sub(1, Ordering::Relaxed);
    }

    /// One has arrived; true if it was the last, and some of the others are to be told.
    pub(crate) fn arrive(&self) -> bool {
        // Release and acquire: the last one has what the others did, and hands it on with the round.
        let is_last = self.absent.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            // Nobody can arrive for the next round before this one is over.
            self.absent.store(self.size, Ordering::Relaxed);
            self.rounds.fetch_add(1, Ordering::Release);
            fence(Ordering::SeqCst); // see `goes_away`
        }
        is_last && self.away.load(Ordering::Relaxed) != 0
    }

    /// The region is cancelled by one that has not arrived: when all have, it is over. Who waits does not have to, and is to look.
    pub(crate) fn cancel(&self) {
        self.last.store(CANCELLED | u64::from(self.rounds().wrapping_add(1)), Ordering::Release);
    }

    /// One that has not arrived, or a task that it waits for, notes something for all to know behind the next round.
    pub(crate) fn note(&self) {
        let round = self.rounds();
        self.noted[round as usize % 2].store(NOTED | u64::from(round), Ordering::Release);
    }

    /// Whether something was noted after `round`, and before the round behind it, which is over. Those that look at it late find it, too: nobody is further
    /// than in the round behind that one, which has another place.
    pub(crate) fn was_noted(&self, round: u32) -> bool {
        self.noted[round as usize % 2].load(Ordering::Acquire) == NOTED | u64::from(round)
    }

    /// Another region begins.
    pub(crate) fn renew(&self) {
        self.last.store(0, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.last.load(Ordering::Acquire) != 0
    }

    /// Whether the region was over with the arrival of all that came after `round`.
    pub(crate) fn was_last(&self, round: u32) -> bool {
        self.last.load(Ordering::Acquire) == CANCELLED | u64::from(round.wrapping_add(1))
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Team {
        assembly: Assembly,
        written: [AtomicU32; 2],
    }

    /// So that rounds wrap around in the tests.
    const FIRST: u32 = u32::MAX;

    impl Team {
        fn new() -> Arc<Team> {
            let written = [AtomicU32::new(0), AtomicU32::new(0)];
            let assembly = Assembly::of(2);
            assembly.rounds.store(FIRST, Ordering::Relaxed);
            Arc::new(Team { assembly, written })
        }

        /// Arrives, and waits for the others; the round before that.
        fn meet(&self) -> u32 {
            let round = self.assembly.rounds(); // it cannot change before this one has come
            self.assembly.arrive();
            while self.assembly.rounds() == round {
                thread::yield_now();
            }
            round
        }
    }

    #[test]
    fn all_see_what_each_did_before() {
        loom::model(|| {
            let team = Team::new();
            let member = |number: usize| {
                let team = team.clone();
                move || {
                    for round in 1..=2 {
                        team.written[number].store(round, Ordering::Relaxed);
                        assert_eq!(team.meet(), FIRST.wrapping_add(round - 1));
                        // The other may be in its next round already, no further.
                        let seen = team.written[1 - number].load(Ordering::Relaxed);
                        assert!(seen == round || seen == round + 1, "{seen} in round {round}");
                    }
                }
            };
            let other = thread::spawn(member(1));
            member(0)();
            other.join().expect("it ends");
            assert_eq!(team.assembly.rounds(), FIRST.wrapping_add(2));
        });
    }

    /// One looks no more, and waits to be told: the last one tells it, or it has seen the round.
    #[test]
    fn who_is_away_is_told() {
        loom::model(|| {
            let team = Team::new();
            let told = Arc::new((loom::sync::Mutex::new(false), loom::sync::Condvar::new()));
            let meet = |team: &Team, told: &(loom::sync::Mutex<bool>, loom::sync::Condvar)| {
                let round = team.assembly.rounds();
                if team.assembly.arrive() {
                    *told.0.lock().expect("no panic") = true;
                    told.1.notify_all();
                }
                if team.assembly.goes_away(round) {
                    let mut is_told = told.0.lock().expect("no panic");
                    while !*is_told {
                        is_told = told.1.wait(is_told).expect("no panic");
                    }
                    team.assembly.comes_back();
                }
                assert_ne!(team.assembly.rounds(), round);
            };
            let other = {
                let (team, told) = (team.clone(), told.clone());
                thread::spawn(move || meet(&team, &told))
            };
            meet(&team, &told);
            other.join().expect("it ends");
        });
    }

    /// What one notes in its first round both find behind that, and not behind the second, however late one of them looks.
    #[test]
    fn a_note_is_for_one_round() {
        loom::model(|| {
            let team = Team::new();
            let other = {
                let team = team.clone();
                thread::spawn(move || {
                    team.assembly.note();
                    let first = team.meet();
                    assert!(team.assembly.was_noted(first));
                    let second = team.meet();
                    assert!(!team.assembly.was_noted(second));
                    team.assembly.note();
                })
            };
            let first = team.meet();
            assert!(team.assembly.was_noted(first));
            let second = team.meet();
            assert!(!team.assembly.was_noted(second));
            other.join().expect("it ends");
        });
    }

    /// One cancels on its way, the other perhaps not yet at the barrier: both find that the region is over when they have met.
    #[test]
    fn a_cancelled_region_ends_for_all() {
        loom::model(|| {
            let team = Team::new();
            let other = {
                let team = team.clone();
                thread::spawn(move || {
                    team.assembly.cancel();
                    let round = team.meet();
                    assert!(team.assembly.is_cancelled() && team.assembly.was_last(round));
                })
            };
            let round = team.meet();
            assert!(team.assembly.is_cancelled() && team.assembly.was_last(round));
            other.join().expect("it ends");
            team.assembly.renew();
            assert!(!team.assembly.is_cancelled() && !team.assembly.was_last(round));
        });
    }
}
