//! The MPI door (`doors/mpi`): programs of the MPI libraries that are installed give the same results with it as without, and
//! their collective calls go through castell.

mod installed;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_host::board::{Board, Membership};
use castell_host::topology::Processors;
use installed::{Installed, root};
use skipped::skip;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// An MPI that a program is built and started with.
struct Mpi {
    /// What its library is called.
    family: &'static str,
    compiler: &'static str,
    fortran: &'static str,
    launcher: &'static [&'static str],
    /// How its launcher is told a variable, `NAME` and its value.
    variable: fn(&str, &str) -> Vec<String>,
}

const MPIS: [Mpi; 2] = [
    Mpi {
        family: "ompi",
        compiler: "mpicc.openmpi",
        fortran: "mpif90.openmpi",
        launcher: &["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
        variable: |name, value| vec!["-x".into(), format!("{name}={value}")],
    },
    Mpi {
        family: "mpich",
        compiler: "mpicc.mpich",
        fortran: "mpif90.mpich",
        launcher: &["mpiexec.mpich"],
        variable: |name, value| vec!["-genv".into(), name.into(), value.into()],
    },
];

/// What makes ranks of MPICH yield, where it is built.
const YIELDS: &str = "yields.so";

/// Builds it: with more ranks than processors a program takes ten times as long without, and all of it computing.
fn build_what_yields(installed: &Installed) {
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC"])
        .arg(root().join("doors/mpi/tests/yields.c"));
    installed::output(compiler.arg("-o").arg(installed.prefix.join(YIELDS)));
}

impl Mpi {
    /// Builds a program by one of its compilers.
    fn compile(&self, installed: &Installed, compiler: &str, source: &str) -> PathBuf {
        let program = installed.prefix.join(format!("{source}.{}", self.family));
        let mut command = Command::new(compiler);
        command.args(["-O1", "-g", "-w"]).arg(root().join("doors/mpi/tests").join(source));
        if source.ends_with(".f90") {
            // One name for arguments of many types, as programs with mpif.h have it.
            command.arg("-fallow-argument-mismatch");
        }
        installed::output(command.arg("-o").arg(&program));
        program
    }

    /// Runs a program with so many ranks and returns what it printed; `door`: with the library, its statistics, and everything
    /// through castell.
    fn run(
        &self,
        installed: &Installed,
        ranks: u32,
        door: bool,
        program: &Path,
        arguments: &[&str],
    ) -> String {
        let always = [("CASTELL_MPI_ALWAYS", "1")];
        self.run_with(installed, ranks, door.then_some(&always), program, arguments)
    }

    /// The same; with the library, if there are variables for it.
    fn run_with(
        &self,
        installed: &Installed,
        ranks: u32,
        variables: Option<&[(&str, &str)]>,
        program: &Path,
        arguments: &[&str],
    ) -> String {
        let (code, said) = self.end_of(installed, ranks, variables, program, arguments);
        assert_eq!(code, Some(0), "{} {arguments:?} on {ranks} ranks:\n{said}", program.display());
        said
    }

    /// How it ends, and what it has printed.
    fn end_of(
        &self,
        installed: &Installed,
        ranks: u32,
        variables: Option<&[(&str, &str)]>,
        program: &Path,
        arguments: &[&str],
    ) -> (Option<i32>, String) {
        let mut command = Command::new("timeout");
        command.args(["-k", "2", "120"]).args(self.launcher).args(["-n", &ranks.to_string()]);
        let door = variables.map(|_| installed.prefix.join(format!("lib/libcastell_mpi_{}.so", self.family)));
        // Whose ranks do not yield by themselves; those of the others are as they are.
        let is_crowded = ranks as usize > Processors::usable().cpus.len();
        let yields = (self.family == "mpich" && is_crowded).then(|| installed.prefix.join(YIELDS));
        let first: Vec<String> =
            door.into_iter().chain(yields).map(|library| library.display().to_string()).collect();
        if !first.is_empty() {
            command.args((self.variable)("LD_PRELOAD", &first.join(":")));
        }
        if let Some(variables) = variables {
            for (name, value) in variables.iter().copied().chain([("CASTELL_MPI_STATS", "1")]) {
                command.args((self.variable)(name, value));
            }
        }
        let output = command.arg(program).args(arguments).output().expect("timeout runs");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    }
}

/// How many collective calls there were, and how many went through castell.
fn calls(said: &str) -> (u64, u64) {
    let line = said.lines().find(|line| line.contains("collective calls of all ranks")).expect("statistics");
    let mut numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    (numbers.next().expect("all calls"), numbers.next().expect("calls through castell"))
}

/// Segments that programs left in shared memory. Mailboxes and boards are not asked for: programs of other tests make and remove them at any time.
fn left_behind() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let is_segment = |path: &PathBuf| path.to_string_lossy().contains("castell-job");
    entries.map(|entry| entry.path()).filter(is_segment).collect()
}

#[test]
fn programs_give_the_same_results() {
    let before = left_behind();
    let doors: Vec<_> = MPIS.iter().flat_map(|mpi| ["--mpi", mpi.compiler]).collect();
    let installed = Installed::with("capi-mpi-door", &doors);
    build_what_yields(&installed);
    for mpi in &MPIS {
        if Command::new(mpi.compiler).arg("--version").output().is_err() {
            skip(mpi.compiler, "not installed");
            continue;
        }
        compare(mpi, &installed);
        behave(mpi, &installed);
        both_doors(mpi, &installed);
        choose(mpi, &installed);
        survive(mpi, &installed);
        lend(mpi, &installed);
        draw(mpi, &installed);
        over_networks(mpi, &installed);
        spawn(mpi, &installed);
        for source in ["old.f90", "module.f90", "f08.f90"] {
            if Command::new(mpi.fortran).arg("--version").output().is_err() {
                skip(mpi.fortran, "not installed");
                break;
            }
            let program = mpi.compile(&installed, mpi.fortran, source);
            let said = mpi.run(&installed, 3, true, &program, &[]);
            assert!(said.contains("fine"), "{said}");
            let (all, through) = calls(&said);
            assert!(all > 0 && all == through, "{source}: {said}");
        }
    }
    assert_eq!(left_behind(), before);
}

/// A program with MPI between processes and OpenMP tasks inside: as it is, and with both doors, by either of the two commands that say so.
fn both_doors(mpi: &Mpi, installed: &Installed) {
    let program = installed.prefix.join(format!("hybrid.{}", mpi.family));
    let mut compile = Command::new(mpi.compiler);
    compile.args(["-O1", "-g", "-fopenmp"]).arg(root().join("doors/mpi/tests/hybrid.c"));
    installed::output(compile.arg("-o").arg(&program));
    let castell = installed.prefix.join("bin/castell");
    let run = |words: Vec<&OsStr>| {
        let mut command = Command::new("timeout");
        command.args(["-k", "2", "120"]).args(words);
        let output = command.output().expect("timeout runs");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?} ended with {}:\n{said}", output.status);
        said
    };
    let launcher: Vec<&OsStr> = mpi.launcher.iter().copied().chain(["-n", "2"]).map(OsStr::new).collect();
    let words = ["omp", "mpi", "--stats", "--always", "--"].map(OsStr::new);
    let (castell, [omp, with_mpi, stats, always, stop]) = (castell.as_os_str(), words);
    let program = program.as_os_str();
    let said = run([&launcher[..], &[program]].concat());
    assert!(said.contains("0 wrong of 40, omp 0, mpi 0"), "{said}");
    let said = run([&[castell, omp, stop][..], &launcher, &[program]].concat());
    assert!(said.contains("0 wrong of 40, omp 1, mpi 0"), "{said}");
    let inner = [castell, omp, stop, program];
    let said = run([&[castell, with_mpi, stats, always, stop][..], &launcher, &inner].concat());
    assert!(said.contains("0 wrong of 40, omp 1, mpi 1"), "{said}");
    let (all, through) = calls(&said);
    assert!(all == 42 && all == through, "{said}");
}

/// A program that spawns others within a session asks for their slots; they are a session of their own.
fn spawn(mpi: &Mpi, installed: &Installed) {
    let processors = castell_host::topology::Processors::usable().cpus.len();
    if processors < 2 {
        skip("spawning in a session", "there is one processor");
        return;
    }
    let program = mpi.compile(installed, mpi.compiler, "spawn.c");
    let (_, plain) = mpi.end_of(installed, 1, None, &program, &["1"]);
    if plain.contains("refused") {
        skip("mpich-spawn", "this MPI cannot spawn");
        return;
    }
    let castell = installed.prefix.join("bin/castell");
    let socket = installed.prefix.join(format!("{}.sock", mpi.family));
    let run = |arguments: &[&str]| {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "2", "120"])
            .arg(&castell)
            .args(["session", "run", "-n", "1", "--socket"])
            .arg(&socket);
        command.arg("--").arg(&castell).args(["mpi", "--"]).args(mpi.launcher).args(["-n", "1"]);
        let output = command.arg(&program).args(arguments).output().expect("timeout runs");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    };
    let words = |said: &str, who: &str| {
        let mut lines = said.lines().filter(|line| line.starts_with(who));
        let line = lines.next().unwrap_or_else(|| panic!("no {who}: {said}"));
        let (mark, cpus) = line.split_once(" on ").unwrap_or_else(|| panic!("{said}"));
        (mark.split(' ').nth(1).expect("a mark").to_owned(), cpus.to_owned())
    };
    let said = run(&["1"]);
    let ((parent, its_cpus), (child, cpus)) = (words(&said, "parent"), words(&said, "child"));
    assert!(child.starts_with(&format!("{parent}/")), "{said}");
    assert!(its_cpus != cpus && cpus.split(' ').count() == 1, "each on slots of its own: {said}");
    let said = run(&["2", "multiple"]);
    let (child, second) = (words(&said, "child"), words(&said, "second"));
    assert!(child == second && child.1.split(' ').count() == 2, "one session of two slots: {said}");
    // More than there are: an error at once.
    let said = run(&[&(processors + 1).to_string()]);
    assert!(said.contains("refused") && said.contains("slots are more than there are"), "{said}");
}

/// Random calls from a seed, without the door and with it.
fn compare(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, mpi.compiler, "compare.c");
    for (ranks, number) in [(1, "400"), (2, "300"), (3, "300"), (5, "100")] {
        let file = installed.prefix.join(format!("{}.{ranks}", mpi.family));
        let file = file.to_str().expect("a path of UTF-8");
        // The MPIs fail in some of these calls themselves; not with this seed.
        let arguments = |does| [does, file, "21", number];
        mpi.run(installed, ranks, false, &program, &arguments("write"));
        let said = mpi.run(installed, ranks, true, &program, &arguments("read"));
        let (all, through) = calls(&said);
        assert!(all >= u64::from(ranks) * 50 && all == through, "{said}");
        for rank in 0..ranks {
            std::fs::remove_file(format!("{file}.{rank}")).expect("a rank's results");
        }
    }
}

/// The same program where castell's messages go over TCP, and over libfabric.
fn over_networks(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, mpi.compiler, "compare.c");
    let file = installed.prefix.join(format!("{}.networks", mpi.family));
    let file = file.to_str().expect("a path of UTF-8");
    let arguments = |does| [does, file, "21", "100"];
    mpi.run(installed, 3, false, &program, &arguments("write"));
    for net in ["tcp", "fabric=tcp;ofi_rxm"] {
        let variables = [("CASTELL_MPI_ALWAYS", "1"), ("CASTELL_NET", net)];
        let said = mpi.run_with(installed, 3, Some(&variables), &program, &arguments("read"));
        let (all, through) = calls(&said);
        assert!(all >= 150 && all == through, "{net}: {said}");
    }
    for rank in 0..3 {
        std::fs::remove_file(format!("{file}.{rank}")).expect("a rank's results");
    }
}

/// What results do not show. Below goes what crosses an intercommunicator.
fn behave(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, mpi.compiler, "behaviour.c");
    for ranks in [1, 2, 3] {
        let said = mpi.run(installed, ranks, true, &program, &[]);
        let (all, through) = calls(&said);
        let across = if ranks == 1 { 0 } else { u64::from(ranks) };
        assert!(said.contains("fine") && all - through == across, "{said}");
    }
}

/// Ranks measure what is faster, keep it, and decide alike; what is kept decides.
fn choose(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, mpi.compiler, "choices.c");
    // A folder that is not there yet.
    let folder = installed.prefix.join(format!("choices.{}", mpi.family));
    let _ = std::fs::remove_dir_all(&folder);
    let seed = castell_host::clock::now_ns().to_string();
    let run = |ranks: u32, steps: &str, file: &Path| {
        let variables = [("CASTELL_MPI_CHOICES", file.to_str().expect("a path of UTF-8"))];
        let said = mpi.run_with(installed, ranks, Some(&variables), &program, &[&seed, steps]);
        assert!(said.contains("fine"), "seed {seed}: {said}");
        said
    };
    // One rank has measured all before its second is over; of several, the MPI may need that for the first kind of call.
    let alone = folder.join("alone");
    run(1, "60", &alone);
    assert!(measured(&alone).iter().any(|words| words[6..8] == ["allreduce", "started"]), "seed {seed}");
    let file = folder.join("kept");
    let said = run(4, "12", &file);
    assert!(said.contains("was measured for"), "seed {seed}: {said}");
    let key = measured(&file)[0][..5].join(" ");
    // As if castell's sums were slow.
    let mut rigged = "garbage\n1 \n1 2 3 4 -5 x y z\n".to_owned();
    for (ranks, form) in
        [2, 3, 4].into_iter().flat_map(|ranks| ["blocking", "started"].map(|form| (ranks, form)))
    {
        for power in 0..20 {
            rigged += &format!("{key} {ranks} allreduce {form} {} 9 1\n", 1 << power);
        }
    }
    std::fs::write(&file, rigged + "the last line has no end").expect("a file");
    let said = run(4, "12", &file);
    let mut below = said.lines().filter(|line| line.ends_with("the MPI below is faster here"));
    assert!(below.any(|line| line.contains(" allreduce ")), "seed {seed}: {said}");
}

/// The words of the lines of what was kept.
fn measured(file: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(file).expect("what was measured");
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = text.lines().map(words).collect();
    for line in &lines {
        assert_eq!(line.len(), 11, "{line:?}");
        let times: Vec<f64> = line[9..].iter().filter_map(|word| word.parse().ok()).collect();
        assert!(times.len() == 2 && times.iter().all(|time| *time > 0.0), "{line:?}");
    }
    lines
}

/// Threads, children, communicators without end, and ranks that die: their launcher ends the others.
fn survive(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, mpi.compiler, "hard.c");
    for what in ["threads", "fork", "open", "many", "order"] {
        let said = mpi.run(installed, 2, true, &program, &[what]);
        assert!(said.contains("fine"), "{what}: {said}");
    }
    let always: &[_] = &[("CASTELL_MPI_ALWAYS", "1")];
    for what in ["dies", "exits", "abort"] {
        let (code, said) = mpi.end_of(installed, 3, Some(always), &program, &[what]);
        // 124 and 137 with nothing said: the time was up.
        assert!(code != Some(0) && code != Some(124), "{what}: {code:?}: {said}");
        assert!(!said.contains("fine"), "{what}: {said}");
    }
}

/// A rank that waits in a call of its MPI's lends its processor, and has it back when the call ends.
fn lend(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, mpi.compiler, "hard.c");
    let path = |what: &str| installed.prefix.join(format!("{what}.{}", mpi.family));
    let (board, file) = (path("board"), path("lends"));
    let text = |path: &Path| path.to_str().expect("a path of UTF-8").to_owned();
    let cpus: Vec<u32> = Processors::usable().cpus.into_iter().take(2).collect();
    let bound = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let words = ["-c", &bound, &text(&program), "lends", &text(&file)];
    let (ready, shared) = (PathBuf::from(text(&file) + ".ready"), text(&board));
    for old in [&board, &file, &ready] {
        let _ = std::fs::remove_file(old);
    }
    std::thread::scope(|scope| {
        let variables = [("CASTELL_MPI_ALWAYS", "1"), ("CASTELL_SHARE", &shared)];
        let ranks =
            scope.spawn(move || mpi.run_with(installed, 2, Some(&variables), Path::new("taskset"), &words));
        until(|| ready.exists());
        let seen = Board::open(&board).expect("a board").expect("the ranks have come");
        assert_eq!(seen.programs().len(), 2, "the ranks");
        let place = Membership::join(&board, 1, &cpus).expect("there is room");
        let mut turn = None;
        until(|| {
            // Without being hungry: nobody is asked for anything.
            turn = place.try_take(None);
            turn.is_some()
        });
        let turn = turn.expect("it was just there");
        let lending = seen.lendings()[turn.cpu() as usize];
        assert!(
            lending.right.is_some_and(|right| right != std::process::id()),
            "it is a rank's: {lending:?}"
        );
        std::fs::write(&file, "").expect("written");
        let said = ranks.join().expect("they end");
        assert!(said.contains("fine"), "{said}");
        let lending = seen.lendings()[turn.cpu() as usize];
        assert!(lending.seized >= 1, "it was taken back: {lending:?}");
    });
    assert_eq!(Board::open(&board).expect("a board").expect("it is there").programs(), [], "all have left");
}

fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never is");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Each call of each rank stands in the timeline.
fn draw(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, mpi.compiler, "hard.c");
    let file = installed.prefix.join(format!("timeline.{}.json", mpi.family));
    let path = file.to_str().expect("a path of UTF-8");
    let variables: &[_] = &[("CASTELL_MPI_ALWAYS", "1"), ("CASTELL_MPI_TIMELINE", path)];
    let said = mpi.run_with(installed, 2, Some(variables), &program, &["open"]);
    let text = std::fs::read_to_string(&file).expect("a timeline");
    assert!(text.starts_with('{') && text.trim_end().ends_with("]}"), "{text}");
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    // Of each rank 21 sums, a barrier, and two started calls from their start to their end.
    assert_eq!(count("\"ph\":\"X\"") as u64 + count("\"ph\":\"b\"") as u64, calls(&said).0, "{said}{text}");
    assert_eq!((count("\"name\":\"allreduce\""), count("\"ph\":\"e\"")), (42, 4), "{text}");
    assert_eq!((count("\"name\":\"rank 0\""), count("\"name\":\"rank 1\"")), (1, 1), "{text}");
    // Nobody leaves a sum before all have come to it: the ranks of one host have one clock.
    let number = |line: &str, key: &str| -> f64 {
        let text = line.split(key).nth(1).and_then(|rest| rest.split([',', '}']).next()).expect("a key");
        text.parse().expect("a number")
    };
    let sums = |rank: &str| -> Vec<[f64; 2]> {
        let lines =
            text.lines().filter(|line| line.contains("\"ph\":\"X\"") && line.contains("\"allreduce\""));
        let own = lines.filter(|line| line.contains(&format!("\"pid\":{rank},")));
        let times = own.map(|line| [number(line, "\"ts\":"), number(line, "\"dur\":")]);
        times.map(|[from, lasts]| [from, from + lasts]).collect()
    };
    assert_eq!((sums("0").len(), sums("1").len()), (21, 21), "{text}");
    for (one, other) in sums("0").iter().zip(sums("1")) {
        assert!(one[0] <= other[1] && other[0] <= one[1], "{one:?} {other:?}: {text}");
    }
    // The same drawn, by the command that starts it.
    let drawing = installed.prefix.join(format!("timeline.{}.svg", mpi.family));
    let mut command = Command::new("timeout");
    command.args(["-k", "2", "120"]).arg(installed.prefix.join("bin/castell")).args([
        "mpi",
        "--always",
        "--timeline",
    ]);
    command.arg(&drawing).arg("--").args(mpi.launcher).args(["-n", "2"]).arg(&program).arg("open");
    let output = command.output().expect("timeout runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let svg = std::fs::read_to_string(&drawing).expect("a drawing");
    assert!(svg.contains("allreduce of 8 b") && svg.contains("Critical path: "), "{svg}");
}
