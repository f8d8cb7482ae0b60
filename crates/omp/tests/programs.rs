//! Programs give the same results with castell's library as with libgomp: C, C++ and Fortran of GCC, C and C++ of clang, on one to eight
//! threads, also more than there are processors. What clang's do without castell is not asked: libomp 14 hangs in some and aborts in others.

mod compiled;

use castell_host::mailbox::Agent;
use compiled::{PATIENCE, Program, door};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Threads of a region.
const THREADS: [u32; 4] = [1, 2, 3, 8];
impl Program {
    /// What it prints.
    fn output(
        &self,
        arguments: &[&str],
        threads: u32,
        variables: &[(&str, &str)],
        door: Option<&Path>,
    ) -> String {
        Program::run(&self.path, arguments, threads, variables, door)
    }

    /// Runs it with and without castell.
    fn compare(&self, arguments: &[&str], variables: &[(&str, &str)]) {
        for threads in THREADS {
            let expected = self.output(arguments, threads, variables, None);
            for path in std::iter::once(&self.path).chain(&self.by_llvm) {
                let found = Program::run(path, arguments, threads, variables, Some(&door()));
                assert_eq!(found, expected, "{} on {threads} threads", path.display());
            }
        }
    }
}

#[test]
fn tasks_groups_and_barriers() {
    Program::new("tasks.c").compare(&[], &[]);
}

#[test]
fn tasks_that_run_where_they_are_created() {
    let program = Program::new("undeferred.c");
    program.compare(&[], &[]);
    program.compare(&[], &[("OMP_CANCELLATION", "true")]);
}

#[test]
fn what_interfaces_do_in_different_ways() {
    let program = Program::new("clauses.cpp");
    program.compare(&[], &[]);
    program.compare(&[], &[("OMP_CANCELLATION", "true")]);
}

#[test]
fn tasks_have_their_own_settings_and_locks() {
    Program::new("own.c").compare(&[], &[]);
    Program::new("own.f90").compare(&[], &[]);
}

#[test]
fn the_example() {
    let program = Program::compile(Path::new("../../examples/omp/wave.c"));
    let expected = program.output(&["60"], 2, &[], None);
    assert_eq!(program.output(&["60"], 2, &[], Some(&door())), expected);
}

#[test]
fn loops_and_reductions() {
    Program::new("loops.c").compare(&[], &[]);
}

#[test]
fn depend_clauses() {
    Program::new("depend.c").compare(&[], &[]);
}

#[test]
fn loops_groups_and_target_regions_around_tasks() {
    Program::new("around.c").compare(&[], &[("OMP_CANCELLATION", "true")]);
}

/// Where recursion is as deep as the data, a program that has enough of the stack with libgomp is to have enough of it here.
#[test]
fn tasks_that_lie_one_in_the_other_take_no_more_of_the_stack() {
    let program = Program::new("deep.c");
    let bytes = |path: &Path, door: Option<&Path>| {
        let said = Program::run(path, &[], 2, &[], door);
        said.trim().parse::<u32>().expect("a number of bytes")
    };
    let alone = bytes(&program.path, None);
    for path in std::iter::once(&program.path).chain(&program.by_llvm) {
        let with = bytes(path, Some(&door()));
        println!("{}: {with} bytes a task, {alone} with libgomp", path.display());
        assert!(with <= alone, "{}: {with} bytes a task, {alone} with libgomp", path.display());
    }
}

/// libgomp waits for the event where the task is created, which would be for ever here.
#[test]
fn events_outside_of_regions_are_waited_for_where_the_program_waits() {
    let program = Program::new("events.c");
    for path in std::iter::once(&program.path).chain(&program.by_llvm) {
        for threads in THREADS {
            let said = Program::run(path, &[], threads, &[], Some(&door()));
            let expected = "1 0 7\nin regions: 55, in a child: 56\nin a group: 2\n";
            assert_eq!(said, expected, "{} on {threads} threads", path.display());
        }
    }
}

#[test]
fn what_newer_compilers_call() {
    Program::new("newer.c").compare(&[], &[]);
}

/// libgomp runs what it creates once many wait, and would wait for ever here.
#[test]
fn users_may_say_that_no_task_runs_before_its_creator_goes_on() {
    let program = Program::new("plenty.c");
    for path in std::iter::once(&program.path).chain(&program.by_llvm) {
        for threads in [2, 3, 8] {
            let variables = [("KMP_ENABLE_TASK_THROTTLING", "0")];
            let said = Program::run(path, &[], threads, &variables, Some(&door()));
            assert_eq!(said, "2000 tasks\n", "{} on {threads} threads", path.display());
        }
    }
}

#[test]
fn objects_threads_and_exceptions() {
    Program::new("objects.cpp").compare(&[], &[]);
}

#[test]
fn fortran() {
    Program::new("tasks.f90").compare(&[], &[]);
}

#[test]
fn a_child_after_a_fork() {
    Program::new("fork.c").compare(&[], &[]);
}

#[test]
fn cancellation_where_it_is_allowed() {
    let program = Program::new("cancel.c");
    program.compare(&[], &[("OMP_CANCELLATION", "true")]);
    program.compare(&[], &[("OMP_CANCELLATION", "false")]);
    let groups = Program { by_llvm: None, ..Program::new("cancel_groups.c") };
    groups.compare(&[], &[("OMP_CANCELLATION", "true")]);
}

#[test]
fn other_schedulers_and_priorities() {
    let program = Program::new("tasks.c");
    for scheduler in ["tree:fifo", "tree:pull=off", "central", "tree:priority"] {
        program.compare(&[], &[("CASTELL_TASKS_SCHEDULER", scheduler)]);
    }
    program.compare(&[], &[("OMP_MAX_TASK_PRIORITY", "10")]);
}

/// What the clauses mean, checked by the program itself: libgomp keeps these rules, too, and so would show a wrong check.
#[test]
fn random_graphs_are_ordered_as_their_clauses_say() {
    let program = Program::new("random.c");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("the clock is set");
    let seed = now.subsec_nanos();
    println!("seed {seed}");
    let seed = seed.to_string();
    program.output(&[&seed, "20"], 3, &[], None);
    for threads in THREADS {
        for path in std::iter::once(&program.path).chain(&program.by_llvm) {
            Program::run(path, &[&seed, "60"], threads, &[], Some(&door()));
        }
    }
    // clang's undeferred tasks did not keep their turns: seen in a third of the runs.
    for _ in 0..20 {
        Program::run(program.by_llvm.as_ref().expect("C"), &["1199318317", "1"], 8, &[], Some(&door()));
    }
}

/// All tasks, those that run where they were created as well, and the threads' implicit ones.
#[test]
fn what_tasks_did_is_written_at_the_end() {
    let program = Program::compile(Path::new("../../examples/omp/wave.c"));
    for path in std::iter::once(&program.path).chain(&program.by_llvm) {
        let trace = path.with_extension("json");
        let mut command = Command::new("timeout");
        command.arg(PATIENCE.as_secs().to_string()).arg(path).arg("20").env("OMP_NUM_THREADS", "2");
        command.env("LD_PRELOAD", door()).env("CASTELL_TASKS_SUMMARY", "1");
        // Of this process only: timeout has no tasks.
        command.env("CASTELL_TASKS_TRACE", &trace);
        let output = command.output().expect("timeout is a part of every system");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{err}");
        assert!(err.contains("  omp task: 400 tasks"), "{err}");
        let longest = err.lines().find(|line| line.contains("longest chain")).expect("in the statistics");
        assert!(longest.starts_with("  work ") && err.contains("of 4"), "{err}");
        assert!(err.contains("  implicit: ") && err.contains("on 2 workers"), "{err}");
        let text = std::fs::read_to_string(&trace).expect("a timeline");
        assert_eq!(text.matches("\"name\":\"omp task\"").count(), 400, "{}", path.display());
    }
}

/// How many tasks a graph has, and how many of them lie on its longest chain.
fn longest(goal: &str) -> (usize, usize) {
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in goal.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if let Some((vertex, _)) = line.split_once(": ") {
            before.insert(vertex, Vec::new());
        } else if let Some((vertex, other)) = line.split_once(" requires ") {
            before.get_mut(vertex).expect("vertices come first").push(other);
        }
    }
    let is_task = |vertex: &str| vertex.starts_with("omp_task") && vertex.ends_with("_0");
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    // As often as there are vertices would do; what comes before mostly stands before.
    while known.len() < before.len() {
        let found = known.len();
        for (&vertex, others) in &before {
            if others.iter().all(|other| known.contains_key(other)) {
                let most = others.iter().map(|other| known[other]).max().unwrap_or(0);
                known.insert(vertex, most + usize::from(is_task(vertex)));
            }
        }
        assert!(known.len() > found, "vertices wait for each other:\n{goal}");
    }
    let tasks = before.keys().filter(|vertex| is_task(vertex)).count();
    (tasks, known.values().copied().max().unwrap_or(0))
}

#[test]
fn recorded_graphs_know_what_tasks_waited_for() {
    let cases = [
        (Path::new("tests/programs/recorded.c"), (13, 9)),
        (Path::new("../../examples/omp/wave.c"), (400, 39)),
    ];
    for (source, expected) in cases {
        let program = Program::compile(source);
        for path in std::iter::once(&program.path).chain(&program.by_llvm) {
            for threads in [1, 3] {
                let graph = path.with_extension(format!("{threads}.goal"));
                let mut command = Command::new("timeout");
                command.arg(PATIENCE.as_secs().to_string()).arg(path).arg("20");
                command.env("OMP_NUM_THREADS", threads.to_string()).env("LD_PRELOAD", door());
                let output = command.env("CASTELL_TASKS_RECORD", &graph).output();
                let output = output.expect("timeout is a part of every system");
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let text = std::fs::read_to_string(&graph).expect("a graph");
                assert_eq!(longest(&text), expected, "{} on {threads} threads", path.display());
            }
        }
    }
}

/// The mailbox of a program that has begun, or is about to.
fn agent(mailbox: &Path) -> Agent {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Agent::open(mailbox) {
            Ok(agent) => return agent,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ask(agent: &Agent, take: &[u32], give: &[u32]) -> Vec<bool> {
    let request = agent.ask(take, give).expect("there are such threads");
    agent.wait(request, PATIENCE).expect("an answer");
    agent.workers().iter().map(|state| state.enabled).collect()
}

/// `malleable.c` with two threads.
struct Batches {
    child: Child,
    lines: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Batches {
    fn start(path: &Path, mailbox: &Path) -> Batches {
        let mut command = Command::new("timeout");
        command.arg((4 * PATIENCE.as_secs()).to_string()).arg(path).env("OMP_NUM_THREADS", "2");
        command.env("LD_PRELOAD", door()).env("CASTELL_TASKS_MAILBOX", mailbox);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("timeout is everywhere");
        let answers = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Batches { lines: child.stdin.take(), child, answers }
    }

    fn answer(&mut self) -> Vec<u32> {
        let line = self.answers.next().expect("the program answers").expect("text");
        line.split_whitespace().map(|word| word.parse().expect("a thread")).collect()
    }

    /// The threads that ran tasks of the next batch.
    fn next(&mut self) -> Vec<u32> {
        self.lines.as_mut().expect("a pipe").write_all(b"\n").expect("the program reads");
        self.answer()
    }

    /// Goes on until both have run tasks of a batch.
    fn until_both(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.next() != [0, 1] {
            assert!(Instant::now() < deadline, "only one thread runs tasks");
        }
    }

    fn only(&mut self, thread: u32) {
        self.next(); // a task may have been on its way
        for _ in 0..20 {
            assert_eq!(self.next(), [thread]);
        }
    }
}

#[test]
fn threads_are_taken_from_tasks_and_given_back() {
    let program = Program::new("malleable.c");
    for path in std::iter::once(&program.path).chain(&program.by_llvm) {
        let mailbox = path.with_extension("cpus");
        let mut batches = Batches::start(path, &mailbox);
        let creator = batches.answer()[0];
        let other = 1 - creator;
        let agent = agent(&mailbox);
        batches.until_both();
        assert!(!ask(&agent, &[other], &[])[other as usize]);
        batches.only(creator);
        ask(&agent, &[], &[other]);
        batches.until_both();
        // What creates, and waits for what it has created, leaves that to the other.
        ask(&agent, &[creator], &[]);
        batches.only(other);
        assert!(ask(&agent, &[other], &[])[other as usize], "the last one stays");
        assert_eq!(agent.refusals(), 1);
        ask(&agent, &[other], &[creator]);
        batches.only(creator);
        ask(&agent, &[], &[other]);
        batches.until_both();
        drop(batches.lines.take());
        assert!(batches.child.wait().expect("it ends").success());
        assert!(!mailbox.exists(), "the mailbox goes with the program");
    }
}

/// Random ones, and all but one as soon as there are any, to the end.
#[test]
fn programs_end_alike_whatever_is_taken_from_them() {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("the clock is set");
    let mut state = u64::from(now.subsec_nanos()) | 1;
    println!("seed {state}");
    for source in ["locked.c", "tasks.c", "depend.c", "undeferred.c", "loops.c"] {
        let program = Program::new(source);
        for threads in [2, 3, 8] {
            let expected = program.output(&[], threads, &[], None);
            for (path, to_the_last) in [(&program.path, false), (&program.path, true)]
                .into_iter()
                .chain(program.by_llvm.iter().map(|path| (path, false)))
            {
                let mailbox = path.with_extension("taken");
                let over = &AtomicBool::new(false);
                let found = std::thread::scope(|scope| {
                    let run = scope.spawn(|| {
                        let at = mailbox.to_str().expect("a path");
                        let found = std::panic::catch_unwind(|| {
                            Program::run(path, &[], threads, &[("CASTELL_TASKS_MAILBOX", at)], Some(&door()))
                        });
                        over.store(true, Ordering::Release);
                        found
                    });
                    while !over.load(Ordering::Acquire) {
                        disturb(&mailbox, to_the_last, &mut state);
                    }
                    run.join().expect("it catches what happens")
                });
                let found = found.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                assert_eq!(found, expected, "{} on {threads} threads", path.display());
            }
        }
    }
}

/// Takes threads from the program that has this mailbox, if there is one, and gives some back.
fn disturb(mailbox: &Path, to_the_last: bool, state: &mut u64) {
    let Ok(agent) = Agent::open(mailbox) else {
        return std::thread::sleep(Duration::from_micros(200));
    };
    let threads = agent.workers().len() as u32;
    let mut draw = |below: u32| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 32) as u32 % below
    };
    let (take, give): (Vec<u32>, Vec<u32>) = if to_the_last {
        ((0..threads).collect(), Vec::new())
    } else {
        (vec![draw(threads), draw(threads)], vec![draw(threads)])
    };
    if let Ok(request) = agent.ask(&take, &give) {
        let _ = agent.wait(request, Duration::from_secs(1)); // it may end
    }
    std::thread::sleep(Duration::from_micros(u64::from(draw(500))));
}
