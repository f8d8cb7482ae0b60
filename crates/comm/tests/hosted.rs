//! Groups by functions of the program: forked processes that have a group of their own making, with an exchange over memory that
//! they share. A program without the usual test harness: forking wants a process with one thread.

use castell_base::Rank;
use castell_comm::Comm;
use castell_comm::bootstrap::HostFunctions;
use castell_comm::collective::Reduction;
use castell_host::board::{Board, Membership};
use castell_host::process::{self, Ended};
use castell_host::shm::Segment;
use castell_host::topology::Processors;
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What one rank may exchange at once. Bytes.
const ROOM: usize = 64 * 1024;

/// A rank of a group that castell did not make.
struct Forked<'a> {
    rank: u32,
    ranks: u32,
    host: Option<u64>,
    board: &'a Segment,
    turns: u64,
}

impl Forked<'_> {
    /// Waits until all have come so far. The first word of the board counts.
    fn meet(&mut self) -> Result<(), String> {
        self.turns += 1;
        let came: &AtomicU64 = &self.board.words()[0];
        came.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while came.load(Ordering::SeqCst) < self.turns * u64::from(self.ranks) {
            if start.elapsed() > Duration::from_secs(60) {
                return Err("somebody does not come".into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    fn place(&self, rank: u32) -> *mut u8 {
        // SAFETY: the board has room for each rank behind its first page.
        unsafe { self.board.as_ptr().add(4096 + rank as usize * ROOM) }
    }
}

impl HostFunctions for Forked<'_> {
    fn rank(&self) -> Rank {
        Rank(self.rank)
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn allgather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), String> {
        assert!(mine.len() <= ROOM);
        // SAFETY: inside the rank's own place, which others read between the next two meetings only.
        unsafe { std::ptr::copy_nonoverlapping(mine.as_ptr(), self.place(self.rank), mine.len()) };
        self.meet()?;
        for (rank, place) in (0..).zip(all.chunks_exact_mut(mine.len())) {
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(self.place(rank), place.as_mut_ptr(), place.len()) };
        }
        self.meet()
    }

    fn host(&mut self) -> Result<Option<u64>, String> {
        Ok(self.host)
    }
}

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let cases: [(&str, fn()); 4] = [
        ("forked_ranks_join", forked_ranks_join),
        ("ranks_of_several_hosts_talk_over_tcp", ranks_of_several_hosts_talk_over_tcp),
        ("the_dead_are_named", the_dead_are_named),
        ("who_waits_lends_its_processor", who_waits_lends_its_processor),
    ];
    for (name, case) in
        cases.iter().filter(|(name, _)| wanted.as_deref().is_none_or(|part| name.contains(part)))
    {
        case();
        println!("test {name} ... ok");
    }
    assert!(process::children().is_empty(), "a child is left");
}

/// Runs `body` in so many forked processes and returns how they ended.
fn fork(ranks: u32, host: fn(u32) -> Option<u64>, body: &dyn Fn(&mut Forked) -> i32) -> Vec<Ended> {
    let board = Segment::create("castell-test", 4096 + ranks as usize * ROOM).expect("a segment");
    let start = |rank| {
        let mut forked = Forked { rank, ranks, host: host(rank), board: &board, turns: 0 };
        // SAFETY: this process has one thread.
        unsafe { process::fork(|| body(&mut forked)) }.expect("fork")
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    children.iter().map(|child| child.wait().expect("wait")).collect()
}

/// What castell left where shared memory can have names.
fn left_behind() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("castell-job")).collect()
}

fn forked_ranks_join() {
    // What a launcher set is not asked, whatever it says.
    for (name, value) in [("PMI_FD", "4711"), ("PMI_RANK", "0"), ("PMI_SIZE", "9"), ("CASTELL_RANK", "x")] {
        // SAFETY: this process has one thread.
        unsafe { std::env::set_var(name, value) };
    }
    let hosts: [fn(u32) -> Option<u64>; 2] = [|_| None, |_| Some(5)];
    for (ranks, host) in [(1, hosts[0]), (2, hosts[1]), (5, hosts[0])] {
        let ended = fork(ranks, host, &|forked| {
            let comm = Comm::init_by(forked).expect("a group");
            assert_eq!((comm.rank().0, comm.size()), (forked.rank, ranks));
            let mut sum = [forked.rank + 1];
            comm.world().allreduce_in_place(&mut sum, Reduction::Sum).expect("a sum");
            assert_eq!(sum[0], ranks * (ranks + 1) / 2);
            assert_eq!(left_behind(), Vec::<String>::new());
            comm.finalize();
            0
        });
        assert_eq!(ended, vec![Ended::Exited(0); ranks as usize]);
    }
    assert_eq!(left_behind(), Vec::<String>::new());
}

fn ranks_of_several_hosts_talk_over_tcp() {
    let ended = fork(5, |rank| Some(u64::from(rank % 2)), &|forked| {
        let comm = Comm::init_by(forked).expect("a group");
        let job = comm.job();
        assert!(
            job.is_networked() && job.share_memory(Rank(0), Rank(2)) && !job.share_memory(Rank(0), Rank(1))
        );
        let mut sum = [forked.rank + 1];
        comm.world().allreduce_in_place(&mut sum, Reduction::Sum).expect("a sum");
        assert_eq!(sum[0], 15);
        comm.finalize();
        0
    });
    assert_eq!(ended, [Ended::Exited(0); 5]);
}

fn the_dead_are_named() {
    let ended = fork(3, |_| None, &|forked| {
        let comm = Comm::init_by(forked).expect("a group");
        if forked.rank == 1 {
            // SAFETY: no arguments but a signal.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        let error = comm.world().barrier().expect_err("rank 1 does not come").to_string();
        assert!(error.contains("rank 1"), "{error}");
        0
    });
    assert_eq!(ended, [Ended::Exited(0), Ended::Killed(libc::SIGKILL), Ended::Exited(0)]);
}

/// Words of the segment behind the first, which counts.
const GO: usize = 1;
const LENT: usize = 2;
const ROUNDS: u64 = 20;

/// Waits until something is so, awake: who is counted would lend what it has if it slept.
fn spin_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never is");
        std::thread::yield_now();
    }
}

/// Two ranks, and somebody who borrows the processor of the one that waits: it has that back when its message comes, whatever the borrower does.
fn who_waits_lends_its_processor() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("board");
    // SAFETY: this process has one thread.
    unsafe { std::env::set_var("CASTELL_SHARE", &path) };
    let cpus: Vec<u32> = Processors::usable().cpus.into_iter().take(2).collect();
    let ended = fork(3, |_| None, &|forked| {
        castell_host::topology::move_thread(&cpus).expect("these may be used");
        forked.ranks = 2;
        match forked.rank {
            2 => borrow(forked, &path, &cpus),
            _ => wait_in_turns(forked),
        }
        0
    });
    assert_eq!(ended, [Ended::Exited(0); 3]);
    let board = Board::open(&path).expect("a board").expect("it is there");
    assert_eq!(board.programs(), [], "all have left");
    // SAFETY: this process has one thread.
    unsafe { std::env::remove_var("CASTELL_SHARE") };
}

/// Rank 0 waits for rank 1, which comes when somebody has borrowed rank 0's processor.
fn wait_in_turns(forked: &mut Forked) {
    let words = forked.board.words();
    let comm = Comm::init_by(forked).expect("a group");
    for round in 1..=ROUNDS {
        if forked.rank == 1 {
            spin_until(|| words[LENT].load(Ordering::SeqCst) >= 2 * round);
        }
        comm.world().barrier().expect("both come");
        if forked.rank == 0 {
            words[GO].store(round, Ordering::SeqCst);
        }
        // The borrower sees who has it while both compute.
        spin_until(|| words[LENT].load(Ordering::SeqCst) > 2 * round);
        comm.world().barrier().expect("both come");
    }
    comm.finalize();
}

fn borrow(forked: &Forked, path: &Path, cpus: &[u32]) {
    let words = forked.board.words();
    spin_until(|| {
        Board::open(path).is_ok_and(|board| board.is_some_and(|board| board.programs().len() == 2))
    });
    let board = Board::open(path).expect("a board").expect("it is there");
    let place = Membership::join(path, 1, cpus).expect("there is room");
    for round in 1..=ROUNDS {
        let taken = Cell::new(None);
        spin_until(|| {
            // Without being hungry: nobody is asked for anything.
            taken.set(place.try_take(None));
            taken.get().is_some()
        });
        let turn = taken.get().expect("it was just there");
        words[LENT].store(2 * round, Ordering::SeqCst);
        spin_until(|| words[GO].load(Ordering::SeqCst) == round);
        assert_ne!(place.word(turn.cpu()).load(Ordering::SeqCst), turn.word(), "it is still the borrower's");
        let lending = board.lendings()[turn.cpu() as usize];
        assert!(lending.holder.is_some_and(|holder| holder != std::process::id()), "{lending:?}");
        assert!(lending.right == lending.holder && lending.seized >= 1, "{lending:?}");
        place.give(turn); // which it has no more
        words[LENT].store(2 * round + 1, Ordering::SeqCst);
    }
}
