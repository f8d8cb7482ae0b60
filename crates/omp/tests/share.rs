//! OpenMP programs on one node that lend processors to each other: compiled by GCC and clang, with a board of their own, told apart by when their
//! tasks ran.

mod compiled;
#[path = "../../tasks/tests/stamps/mod.rs"]
mod stamps;

use castell_host::board::Board;
use compiled::{PATIENCE, Program, door};
use stamps::{Stamp, end, eventually, has_begun, overlap, processors};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A board, and the program that comes to it.
struct Node {
    folder: tempfile::TempDir,
    program: Program,
}

impl Node {
    fn new() -> Node {
        Node { folder: tempfile::tempdir().expect("a folder"), program: Program::new("share.c") }
    }

    fn board(&self) -> PathBuf {
        self.folder.path().join("board")
    }

    fn look(&self) -> Board {
        Board::open(&self.board()).expect("a board").expect("it is there")
    }

    fn start(&self, threads: usize, arguments: &str) -> Child {
        self.start_program(&self.program.path, threads, arguments)
    }

    fn start_program(&self, path: &Path, threads: usize, arguments: &str) -> Child {
        Command::new(path)
            .args(arguments.split(' '))
            .env("OMP_NUM_THREADS", threads.to_string())
            .env("OMP_WAIT_POLICY", "passive")
            .env("CASTELL_SHARE", self.board())
            .env("LD_PRELOAD", door())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts")
    }

    /// A program that always has tasks, and has begun.
    fn holder(&self, threads: usize) -> Child {
        has_begun(self.start(threads, "hold"))
    }
}

/// Waits for the child's end; what it said.
fn said(child: Child) -> String {
    let output = child.wait_with_output().expect("ends");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

/// When its tasks ran.
fn stamps(child: Child) -> Vec<Stamp> {
    let text = said(child);
    stamps::read(&text)
}

#[test]
fn a_program_alone_has_a_processor_for_each_thread_and_leaves_nothing_behind() {
    let node = Node::new();
    for threads in [1, processors(), processors() + 3] {
        let ran = stamps(node.start(threads, "phases 5 200 200 1"));
        assert_eq!((ran.len(), overlap(&ran)), (1000, threads.min(processors())), "{threads} threads");
        assert_eq!(node.look().programs(), []);
    }
    let lendings = node.look().lendings();
    assert!(lendings.iter().all(|lending| lending.holder.is_none() && lending.right.is_none()));
}

#[test]
fn two_programs_lend_to_each_other_and_never_run_on_more_than_there_are() {
    let node = Node::new();
    for path in std::iter::once(&node.program.path).chain(&node.program.by_llvm) {
        let start = || node.start_program(path, processors(), "phases 30 100 100 5");
        let ran = [start(), start()].map(stamps);
        assert_eq!(ran.each_ref().map(Vec::len), [3000; 2]);
        assert_eq!(ran.each_ref().map(|ran| overlap(ran)), [processors(); 2], "each has all at times");
        assert_eq!(overlap(&ran.concat()), processors());
        let lent: u64 = node.look().lendings().iter().map(|lending| lending.lent).sum();
        assert!(lent > 0);
    }
}

/// Parts of loops, which are no tasks: threads come to their part one after the other if they have to.
#[test]
fn threads_outside_of_tasks_are_counted_as_well() {
    let node = Node::new();
    for path in std::iter::once(&node.program.path).chain(&node.program.by_llvm) {
        let start = || node.start_program(path, processors() + 1, "loops 50 200 1");
        let ran = [start(), start()].map(stamps);
        assert_eq!(ran.each_ref().map(Vec::len), [100 * (processors() + 1); 2]);
        assert!(overlap(&ran.concat()) <= processors());
    }
}

#[test]
fn who_has_the_right_has_it_back_from_one_that_always_has_work() {
    let node = Node::new();
    let holder = node.holder(processors());
    for _ in 0..3 {
        assert_eq!(stamps(node.start(processors(), "phases 20 50 100 3")).len(), 1000);
        let board = node.look();
        eventually("all are the holder's", || {
            board.programs().first().is_some_and(|program| program.held == processors())
        });
        assert_eq!(board.programs().len(), 1);
    }
    let returned: u64 = node.look().lendings().iter().map(|lending| lending.returned).sum();
    assert!(returned > 0);
    end(holder);
}

#[test]
fn more_programs_than_processors_take_turns() {
    let node = Node::new();
    let start = |_| node.start(2, "phases 3 100 200 1");
    let children: Vec<Child> = (0..processors() + 3).map(start).collect();
    let ran: Vec<Vec<Stamp>> = children.into_iter().map(stamps).collect();
    assert!(ran.iter().all(|ran| ran.len() == 300));
    assert!(overlap(&ran.concat()) <= processors());
}

#[test]
fn programs_that_are_killed_or_stopped_leave_their_processors_to_others() {
    let node = Node::new();
    let holder = node.holder(processors());
    let mut random = 12345_u64;
    for _ in 0..50 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mut child = node.start(processors(), &format!("phases 1000 20 50 {}", (random >> 60) % 3));
        std::thread::sleep(Duration::from_micros((random >> 33) % 30_000));
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
    }
    let board = node.look();
    let has_all = || {
        let programs = board.programs();
        programs.len() == 1 && programs[0].held == processors()
    };
    eventually("all are the holder's", has_all);
    let signal = |signal: &str| {
        let done = Command::new("kill").args([signal, &holder.id().to_string()]).status();
        assert!(done.expect("kill starts").success());
    };
    signal("-STOP");
    let ran = stamps(node.start(processors(), "phases 3 400 500 1"));
    assert_eq!((ran.len(), overlap(&ran)), (1200, processors()));
    signal("-CONT");
    eventually("all are the holder's again", has_all);
    end(holder);
}

/// Beside programs that never have enough, so that there is one processor for several threads.
#[test]
fn threads_that_wait_for_each_other_get_on() {
    let node = Node::new();
    let holders: Vec<Child> = (1..processors().max(2)).map(|_| node.holder(processors())).collect();
    for path in std::iter::once(&node.program.path).chain(&node.program.by_llvm) {
        assert_eq!(said(node.start_program(path, 2, "flags 3")), "6 turns\n", "{}", path.display());
        let alone = Command::new(&node.program.path)
            .args(["waits", "20"])
            .env("OMP_NUM_THREADS", "3")
            .output()
            .expect("starts");
        let expected = String::from_utf8(alone.stdout).expect("text");
        assert_eq!(said(node.start_program(path, 3, "waits 20")), expected, "{}", path.display());
    }
    holders.into_iter().for_each(end);
}

/// What programs compute does not depend on who has how many processors.
#[test]
fn results_are_the_same_beside_others() {
    let node = Node::new();
    let holder = node.holder(processors());
    let board = node.board();
    let variables =
        [("CASTELL_SHARE", board.to_str().expect("a path of text")), ("OMP_WAIT_POLICY", "passive")];
    for source in ["tasks.c", "depend.c", "undeferred.c", "loops.c", "locked.c"] {
        let program = Program::new(source);
        for threads in [1, 2, 5] {
            let expected = Program::run(&program.path, &[], threads, &[], None);
            for path in std::iter::once(&program.path).chain(&program.by_llvm) {
                let found = Program::run(path, &[], threads, &variables, Some(&door()));
                assert_eq!(found, expected, "{} on {threads} threads", path.display());
            }
        }
    }
    end(holder);
}

#[test]
fn threads_that_are_bound_share_nothing() {
    let node = Node::new();
    let mut command = Command::new("timeout");
    command
        .arg(PATIENCE.as_secs().to_string())
        .arg(&node.program.path)
        .args(["phases", "1", "10", "10", "0"]);
    command.env("OMP_NUM_THREADS", "2").env("OMP_PROC_BIND", "true").env("CASTELL_SHARE", node.board());
    let output = command.env("LD_PRELOAD", door()).output().expect("timeout is everywhere");
    assert!(output.status.success(), "{output:?}");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("bound to processors share none"), "{err}");
    assert!(Board::open(&node.board()).expect("nothing").is_none());
}
