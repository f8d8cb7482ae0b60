//! Programs on one node that lend processors to each other: real processes with a board of their own, told apart by when their tasks ran.

mod stamps;

use castell_host::board::Board;
use castell_tasks::Runtime;
use stamps::{Stamp, end, eventually, has_begun, overlap, processors};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// What a child is to do; this program starts itself again with it.
const ROLE: &str = "CASTELL_TEST_SHARE_ROLE";

/// A program with tasks: what it is to do, as it stands in [`ROLE`].
#[derive(Clone, Copy)]
struct Phases {
    phases: u32,
    tasks: u32,
    task_us: u64,
    pause_ms: u64,
}

impl Phases {
    fn start(self, board: &Path, workers: Option<usize>) -> Child {
        let Phases { phases, tasks, task_us, pause_ms } = self;
        let workers = workers.unwrap_or(0);
        start(board, &format!("phases {phases} {tasks} {task_us} {pause_ms} {workers}"))
    }
}

fn start(board: &Path, role: &str) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_child_does_what_it_is_told", "--nocapture"])
        .env(ROLE, role)
        .env("CASTELL_SHARE", board)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Waits for the child's end; when its tasks ran.
fn stamps(child: Child) -> Vec<Stamp> {
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let text = String::from_utf8(output.stdout).expect("text");
    stamps::read(&text)
}

fn spin(time: Duration) -> Stamp {
    let begin = castell_host::clock::now_ns();
    let mut now = begin;
    while now < begin + time.as_nanos() as u64 {
        std::hint::spin_loop();
        now = castell_host::clock::now_ns();
    }
    (begin, now)
}

/// Not a test of its own: what the other tests start.
#[test]
fn a_child_does_what_it_is_told() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().expect("a number");
    match words[0] {
        "phases" => run_phases(number(1), number(2), number(3), number(4), number(5) as usize),
        "pairs" => run_pairs(),
        "hold" => hold(),
        other => panic!("no role {other}"),
    }
}

fn runtime(workers: usize) -> Runtime {
    let builder = Runtime::builder();
    if workers == 0 { builder } else { builder.workers(workers) }.build().expect("threads start")
}

fn run_phases(phases: u64, tasks: u64, task_us: u64, pause_ms: u64, workers: usize) {
    let runtime = runtime(workers);
    let ran: Arc<Mutex<Vec<Stamp>>> = Arc::default();
    for _ in 0..phases {
        let ran = Arc::clone(&ran);
        runtime
            .run(move |context| {
                for _ in 0..tasks {
                    let ran = Arc::clone(&ran);
                    context.submit((), move |_, ()| {
                        let stamp = spin(Duration::from_micros(task_us));
                        ran.lock().expect("no panic").push(stamp);
                    });
                }
                context.taskwait().expect("nothing fails");
            })
            .expect("nothing fails");
        std::thread::sleep(Duration::from_millis(pause_ms));
    }
    drop(runtime);
    let mut text = String::from("\n");
    for (begin, end) in &*ran.lock().expect("no panic") {
        text.push_str(&format!("ran {begin} {end}\n"));
    }
    std::io::stdout().write_all(text.as_bytes()).expect("written");
}

/// Tasks that wait for each other without telling the runtime.
fn run_pairs() {
    runtime(2)
        .run(|context| {
            for _ in 0..20 {
                let (sender, receiver) = mpsc::channel();
                context.submit((), move |_, ()| receiver.recv().expect("sent"));
                context.submit((), move |_, ()| sender.send(()).expect("received"));
                context.taskwait().expect("nothing fails");
            }
        })
        .expect("nothing fails");
}

/// Runs tasks until its standard input ends, on as many processors as it gets, and says when it has begun.
fn hold() {
    let runtime = runtime(0);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::stdin().read_line(&mut String::new());
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        println!("\nbegins");
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            let body = |context: &castell_tasks::Context<'_>| {
                (0..64).for_each(|_| context.submit((), |_, ()| _ = spin(Duration::from_micros(100))));
            };
            runtime.run(body).expect("nothing fails");
        }
    });
}

/// A child that holds, and has begun.
fn holder(board: &Path) -> Child {
    has_begun(start(board, "hold"))
}

fn signal(child: &Child, signal: &str) {
    let done = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill starts");
    assert!(done.success());
}

fn board_in(folder: &tempfile::TempDir) -> std::path::PathBuf {
    folder.path().join("board")
}

fn look(path: &Path) -> Board {
    Board::open(path).expect("a board").expect("it is there")
}

#[test]
fn a_program_alone_has_all_processors_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = Phases { phases: 5, tasks: 200, task_us: 200, pause_ms: 1 }.start(&board_in(&folder), None);
    let ran = stamps(child);
    assert_eq!((ran.len(), overlap(&ran)), (1000, processors()));
    let board = look(&board_in(&folder));
    assert_eq!(board.programs(), []);
    assert!(board.lendings().iter().all(|lending| lending.holder.is_none() && lending.right.is_none()));
}

#[test]
fn two_programs_lend_to_each_other_and_never_run_on_more_than_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let phases = Phases { phases: 30, tasks: 100, task_us: 100, pause_ms: 5 };
    let children = [phases.start(&board_in(&folder), None), phases.start(&board_in(&folder), None)];
    let ran = children.map(stamps);
    assert_eq!(ran.each_ref().map(Vec::len), [3000; 2]);
    assert_eq!(ran.each_ref().map(|ran| overlap(ran)), [processors(); 2], "each has all at times");
    assert_eq!(overlap(&ran.concat()), processors());
    let lent: u64 = look(&board_in(&folder)).lendings().iter().map(|lending| lending.lent).sum();
    assert!(lent > 0);
}

#[test]
fn who_has_the_right_has_it_back_from_one_that_always_has_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let holder = holder(&board_in(&folder));
    for _ in 0..3 {
        let ran = stamps(
            Phases { phases: 20, tasks: 50, task_us: 100, pause_ms: 3 }.start(&board_in(&folder), None),
        );
        assert_eq!(ran.len(), 1000);
        let board = look(&board_in(&folder));
        eventually("all are the holder's", || {
            board.programs().first().is_some_and(|program| program.held == processors())
        });
        assert_eq!(board.programs().len(), 1);
    }
    let returned: u64 = look(&board_in(&folder)).lendings().iter().map(|lending| lending.returned).sum();
    assert!(returned > 0);
    end(holder);
}

#[test]
fn more_programs_than_processors_take_turns() {
    let folder = tempfile::tempdir().expect("a folder");
    let phases = Phases { phases: 3, tasks: 100, task_us: 200, pause_ms: 1 };
    let count = processors() + 3;
    let children: Vec<Child> = (0..count).map(|_| phases.start(&board_in(&folder), Some(2))).collect();
    let ran: Vec<Vec<Stamp>> = children.into_iter().map(stamps).collect();
    assert!(ran.iter().all(|ran| ran.len() == 300));
    assert!(overlap(&ran.concat()) <= processors());
}

#[test]
fn programs_that_are_killed_leave_their_processors_to_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let holder = holder(&board_in(&folder));
    let mut random = 12345_u64;
    for _ in 0..200 {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let phases = Phases { phases: 1000, tasks: 20, task_us: 50, pause_ms: (random >> 60) % 3 };
        let mut child = phases.start(&board_in(&folder), None);
        std::thread::sleep(Duration::from_micros((random >> 33) % 30_000));
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
    }
    let board = look(&board_in(&folder));
    eventually("all are the holder's", || {
        let programs = board.programs();
        programs.len() == 1 && programs[0].held == processors()
    });
    let ran =
        stamps(Phases { phases: 10, tasks: 100, task_us: 100, pause_ms: 1 }.start(&board_in(&folder), None));
    assert_eq!(ran.len(), 1000);
    end(holder);
}

#[test]
fn a_stopped_program_lends_what_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let holder = holder(&board_in(&folder));
    let board = look(&board_in(&folder));
    eventually("it has all", || board.programs().first().is_some_and(|program| program.held == processors()));
    signal(&holder, "-STOP");
    let ran =
        stamps(Phases { phases: 3, tasks: 400, task_us: 500, pause_ms: 1 }.start(&board_in(&folder), None));
    assert_eq!((ran.len(), overlap(&ran)), (1200, processors()));
    signal(&holder, "-CONT");
    eventually("it has all again", || {
        board.programs().first().is_some_and(|program| program.held == processors())
    });
    end(holder);
}

#[test]
fn tasks_that_wait_for_each_other_do_not_wait_for_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    // None of them has the right to two processors.
    let holders: Vec<Child> = (1..processors().max(2)).map(|_| holder(&board_in(&folder))).collect();
    let output = start(&board_in(&folder), "pairs").wait_with_output().expect("ends");
    assert!(output.status.success());
    holders.into_iter().for_each(end);
}
