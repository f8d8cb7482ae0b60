//! The commands in the book's pages: run as they stand there, each section in a terminal of its own, with castell as it is installed;
//! [`NOT_RUN`] says which are not, and why.
//! A block behind "as `NAME`:" is that file; a line below a command stands in what it prints; a picture is what a command wrote.

#[path = "../../capi/tests/installed/mod.rs"]
mod installed;
mod pages;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use installed::{Installed, root};
use pages::{Terminal, Typed, blocks, is_printed};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// In front of a program in the folder.
const OWN: &str = "./";

/// Why a command is not run.
enum Why {
    Always(&'static str),
    Without(Lack),
}
use Why::{Always, Without};

/// What a machine may lack.
#[derive(Clone, Copy, PartialEq)]
enum Lack {
    Hosts,
    TwoProcessors,
    Cuda,
}

impl Lack {
    const ALL: [Lack; 3] = [Lack::Hosts, Lack::TwoProcessors, Lack::Cuda];

    /// Counts as skipped then.
    fn is_so(&self) -> bool {
        let castell = INSTALLED.prefix.join("bin/castell");
        let castell = castell.to_str().expect("a path");
        let (name, words): (&str, &[&str]) = match self {
            Lack::Hosts => ("lab", &[castell, "lab", "1", "--", "true"]),
            Lack::TwoProcessors => ("one-processor", &["sh", "-c", "test $(nproc) -ge 2"]),
            Lack::Cuda => ("cuda", &["nvidia-smi"]),
        };
        let tried = Command::new(words[0]).args(&words[1..]).output();
        let is_there = tried.as_ref().is_ok_and(|output| output.status.success());
        if !is_there {
            let said = tried.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
            skipped::skip(name, &said.unwrap_or_else(|error| error.to_string()));
        }
        !is_there
    }
}

/// A part of the commands that are not run here, and why. All others are run.
const NOT_RUN: &[(&str, Why)] = &[
    ("mpicxx", Always("a program and a library of the reader's")),
    ("castell mpi", Always("mpi.rs, with MPI programs")),
    ("cargo ", Always("builds or installs: done before this test")),
    ("alias ", Always("for the shell that the reader types into")),
    ("castell xdp", Always("measures for half a minute; xdp.rs")),
    ("fabric=verbs", Always("an InfiniBand network of the reader's")),
    ("castell lab", Without(Lack::Hosts)),
    ("--isolate", Without(Lack::Hosts)),
    ("mpirun --host", Always("hosts_launchers.rs")),
    ("mpiexec -hosts", Always("hosts_launchers.rs")),
    ("--host", Without(Lack::Hosts)),
    ("ssh ", Without(Lack::Hosts)),
    ("castell bench tasks", Always("minutes; bench_tasks.rs, small")),
    ("castell bench metg", Always("minutes; bench_tasks.rs, small")),
    ("castell bench omp --only-programs", Always("a benchmark of the reader's")),
    ("sweep3d.goal", Always("a trace of the reader's; bench_sim.rs")),
    ("castell predict --trace", Always("traces of the reader's programs; predict.rs")),
    ("castell slowdown", Always("half a minute of a program and more; profile.rs, probed.rs")),
    (
        "predicting: castell session explain",
        Always("knows nothing before a daemon has seen programs for a while; learned.rs"),
    ),
    ("castell learned", Always("knows nothing before a daemon has seen programs for a while; learned.rs")),
    (
        "castell profile -p",
        Always("needs the processor's counters, and a process of the reader's; profile.rs"),
    ),
    ("castell tune knobs --profile", Always("changes what is set on this machine; knobs.rs")),
    ("castell tune knobs --knob swappiness", Always("the same")),
    ("trace.swf.gz", Always("a trace of the reader's; session.rs")),
    ("srun", Always("a cluster with Slurm; slurm.rs")),
    ("salloc", Always("the same; sessions_slurm.rs")),
    ("mpirun ./analysis", Always("in an allocation of Slurm's; sessions_slurm.rs")),
    ("--slurm", Always("a queue of Slurm's; sessions_slurm.rs, slurm.rs")),
    ("castell session", Without(Lack::TwoProcessors)),
    (" cuda", Without(Lack::Cuda)),
    ("--split", Always("programs and times of the reader's; place.rs")),
    ("jq ", Always("files of the reader's, by a program that castell does not need")),
    (OWN, Always("a program of the reader's, unless the page has it; tests have some of their own")),
];

/// Programs that pages only name, and those that reach hosts: hosts of a lab here.
const PROGRAMS: &[(&str, &str)] = &[
    ("simulation", "exec sleep 600"),
    ("analysis", "exec sleep 600"),
    ("test", "exec sleep 600"),
    ("controller", "exit 0"),
    ("bt", "timeout 1 sha256sum /dev/zero; exit 0"),
    ("cg", "timeout 1 md5sum /dev/zero; exit 0"),
    (
        ".bin/ssh",
        "while :; do case $1 in -o) shift 2;; -*) shift;; *) break;; esac; done; \
         case $1 in node1|a) host=h1;; *) host=h2;; esac; shift; CASTELL_LAB_HOSTS=h1,h2 exec castell lab --on $host -- sh -c \"$*\"",
    ),
    (
        ".bin/docker",
        "case $3 in web1) host=h1;; *) host=h2;; esac; shift 3; CASTELL_LAB_HOSTS=h1,h2 exec castell lab --on $host -- \"$@\"",
    ),
];

/// Commands for hosts with names, and what runs them where these are.
const ON_HOSTS: &[(&str, &str)] = &[("--host", IN_LAB), ("ssh ", IN_LAB)];
/// As if it was none: castell reaches its hosts as any others.
const IN_LAB: &str = "castell lab 2 -- env -u CASTELL_LAB_HOSTS bash";

/// What would take long, and what is run instead.
const SMALLER: &[(&str, &str)] = &[
    ("--ops allreduce --ranks 4", "--samples 2 --rounds 1 --ops allreduce --ranks 4 --bytes 8"),
    ("castell bench collectives --", "castell bench collectives --samples 2 --rounds 1 --"),
    ("castell bench collectives", "castell bench collectives --samples 2 --rounds 1 --ops barrier"),
    ("castell bench pingpong", "castell bench pingpong --bytes 8 --samples 2 --rounds 1"),
    (
        "castell bench localops --bytes 4096,1048576 --samples 100 --rounds 9",
        "castell bench localops --bytes 64 --samples 1 --rounds 1",
    ),
    (
        "castell bench net --net tcp,tcp+tls,esp=eth0,fabric",
        "castell bench net --no-peers --per-host 1 --samples 1 --rounds 1 --ops barrier --net tcp,tcp+tls",
    ),
    (
        "castell bench net --hosts node1,node2 --per-host 1,8",
        "castell bench net --no-peers --samples 1 --rounds 1 --ops barrier --hosts node1,node2 --per-host 1",
    ),
    ("castell bench net", "castell bench net --no-peers --samples 2 --rounds 1 --ops barrier"),
    ("castell bench omp", "castell bench omp --samples 1 --rounds 1"),
    ("castell tune knobs", "castell tune knobs --samples 8 --budget 8 --rounds 1"),
    ("castell tune hosts", "castell tune hosts --bytes 8"),
    ("castell tune export", "castell tune export"),
    ("castell tune", "castell tune --ops barrier --ranks 2 --rounds 1 --no-peers"),
    ("ls -lR /usr", "ls -l /usr"),
    ("castell probe --distance 1G", "castell probe --seconds 0.1 --distance 64M"),
    ("castell probe", "castell probe --seconds 0.1"),
    ("lublin:jobs=100000", "lublin:jobs=1000"),
    ("--every 5", "--every 1"),
    ("seq 300000", "seq 3000"),
    ("matrix 1024 100 4", "matrix 128 20 2"),
    ("castell predict --simulate", "castell predict --scale 64 --simulate"),
];

/// Whose numbers are those of a machine or of a moment.
const MEASURES: &[&str] = &[
    "castell session",
    "castell strategy status",
    "castell strategy replay",
    "castell strategy simulate --recorded",
    "castell cpus",
    "./matrix",
    "./product",
    "-v -- ./program",
    "--ways -- ./program",
];

/// Where nothing of what is printed has to be the same elsewhere.
const VARIES: &[&str] = &["castell ways --explain", "castell tune knobs"];

/// What a command has started, or ended, is there, or gone, when another one succeeds: readers type more slowly.
const AFTER: &[(&str, &str)] = &[
    ("castell daemon", "castell strategy status"),
    ("kill %1", "! castell strategy status"),
    ("castell session run", "castell session list | grep -qF \"PROGRAM\""),
    ("castell omp --malleable", "castell cpus | grep -q $!"),
    ("CASTELL_TASKS_MAILBOX", "castell cpus | grep -q $!"),
];

/// What goes on behind a command says at the latest what the page says that it does.
const SAYS_WITHIN: Duration = Duration::from_secs(20);

static INSTALLED: LazyLock<Installed> = LazyLock::new(|| Installed::new("book"));

/// Pages whose commands other tests run.
const OTHER_TESTS: &[&str] = &["tutorial", "pictures", "charts"];

/// A folder that a reader works in: what the checkout has, and programs that pages speak of and do not have.
struct Reader {
    folder: tempfile::TempDir,
    /// What commands need that is not here.
    lacks: Vec<Lack>,
    used: Vec<bool>,
}

impl Reader {
    fn new() -> Reader {
        // Hosts of a lab have a /tmp of their own.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["examples", "vectors"] {
            symlink(root().join(name), path(name)).expect("a link");
        }
        symlink(&INSTALLED.prefix, path("castell")).expect("a link");
        // The README's program is that of all pages.
        symlink("ring", path("program")).expect("a link");
        fs::create_dir(path(".bin")).expect("a folder");
        for (name, script) in PROGRAMS {
            fs::write(path(name), format!("#!/bin/sh\n{script}\n")).expect("a file");
            fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).expect("rights");
        }
        let lacks = Lack::ALL.into_iter().filter(|lack| lack.is_so()).collect();
        Reader { folder, lacks, used: vec![false; NOT_RUN.len()] }
    }

    /// Whether the command is one of those that are not run.
    fn leaves_out(&mut self, page: &str, command: &str) -> bool {
        let named = format!("{page}: {command}");
        let mut own =
            command.split(OWN).skip(1).map(|rest| rest.split([' ', ':']).next().unwrap_or_default());
        let is_there = own.all(|program| self.folder.path().join(program).exists());
        let at = NOT_RUN.iter().position(|(part, why)| {
            let holds = match why {
                Why::Always(_) => *part != OWN || !is_there,
                Why::Without(what) => self.lacks.contains(what),
            };
            holds && named.contains(part)
        });
        if let Some(at) = at {
            self.used[at] = true;
            let why = if let Why::Always(why) = NOT_RUN[at].1 { why } else { "this machine lacks something" };
            println!("not run ({why}): {command}");
        }
        at.is_some()
    }

    /// Follows a page; how many commands were run, and how many not.
    fn follow(&mut self, path: &Path) -> (usize, usize) {
        let name = path.file_stem().expect("a page has a name").to_string_lossy();
        let page = fs::read_to_string(path).expect("a page");
        let (mut commands, mut others) = (0, 0);
        let (mut terminal, mut elsewhere) = (None, None);
        for block in blocks(&page) {
            block.save(self.folder.path());
            for typed in block.commands() {
                // What follows is typed in that job.
                if typed.command.starts_with("salloc") {
                    elsewhere = Some(block.section);
                }
                if self.leaves_out(&name, &typed.command) || elsewhere == Some(block.section) {
                    others += 1;
                    continue;
                }
                let (_, terminal) = match terminal.take() {
                    Some((section, open)) if section == block.section => terminal.insert((section, open)),
                    // Which ends what the section before has started.
                    _ => terminal.insert((block.section, Terminal::new(self.folder.path(), &INSTALLED))),
                };
                run(&typed, terminal);
                commands += 1;
            }
        }
        (commands, others)
    }
}

/// Runs a command and compares what it prints with the page.
fn run(typed: &Typed<'_>, terminal: &mut Terminal) {
    let of = |table: &[(&str, &'static str)]| {
        let row = table.iter().find(|(part, _)| typed.command.contains(part));
        row.map(|(_, value)| *value)
    };
    let smaller = SMALLER.iter().find(|(part, _)| typed.command.contains(part));
    let command = smaller.map_or(typed.command.clone(), |(part, small)| typed.command.replace(part, small));
    let (succeeds, printed) = terminal.run(&command, of(ON_HOSTS));
    println!("{command}");
    // A refusal is what the page has under the command.
    let is_refused = typed.prints.first().is_some_and(|line| line.starts_with("castell: "));
    assert!(succeeds || is_refused, "`{command}` has failed:\n{printed}");
    let compared =
        if VARIES.iter().any(|part| typed.command.contains(part)) { &[] } else { &typed.prints[..] };
    let with_numbers = !MEASURES.iter().any(|part| typed.command.contains(part));
    let number = terminal.typed();
    let begun = Instant::now();
    for line in compared.iter().map(|line| terminal.here(line)) {
        // What stays says it when it comes to that.
        while !is_printed(&line, &terminal.said(number), with_numbers) {
            let printed = terminal.said(number);
            let is_over = !command.ends_with('&') || begun.elapsed() > SAYS_WITHIN;
            assert!(!is_over, "below `{command}` the book says `{line}`, and what came is:\n{printed}");
            thread::sleep(Duration::from_millis(20));
        }
    }
    let ends_or_stays = command.ends_with('&') || command.contains("kill %1");
    if let Some(check) = of(AFTER).filter(|_| ends_or_stays) {
        let program = command.split(" -- ").nth(1).map_or("", |rest| rest.trim_end_matches(" &"));
        let check = check.replace("PROGRAM", program);
        let (succeeds, said) = terminal.run(&format!("until {check}; do sleep 0.05; done"), None);
        assert!(succeeds, "`{check}`: {said}");
    }
}

/// The pictures of a page that a command of its has written are those in the book.
fn compare_pictures(page: &str, folder: &Path) -> usize {
    let names: Vec<&str> =
        page.split("(pictures/").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    for name in &names {
        let [drawn, kept] = [folder.join(name), root().join("docs/src/pictures").join(name)]
            .map(|path| std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        assert!(drawn == kept, "docs/src/pictures/{name} is not what its command draws: draw it again");
    }
    names.len()
}

#[test]
fn the_tutorial_and_the_pictures_are_what_their_commands_give() {
    for (page, commands, pictures) in [("tutorial", 11, 3), ("pictures", 7, 7), ("charts", 3, 2)] {
        let path = root().join(format!("docs/src/{page}.md"));
        let text = fs::read_to_string(&path).expect("the page is there");
        let mut reader = Reader::new();
        assert_eq!(reader.follow(&path), (commands, 0), "commands of {page}");
        assert_eq!(compare_pictures(&text, reader.folder.path()), pictures, "pictures of {page}");
    }
}

/// Files of pages, without those that other tests follow.
fn all_pages() -> Vec<PathBuf> {
    let book = fs::read_dir(root().join("docs/src")).expect("the book is there");
    let mut pages: Vec<PathBuf> = book.map(|entry| entry.expect("it can be read").path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.retain(|path| !OTHER_TESTS.iter().any(|name| path.ends_with(format!("{name}.md"))));
    pages.sort();
    // It has the program that is everybody's.
    pages.insert(0, root().join("README.md"));
    pages
}

#[test]
fn commands_of_all_pages_do_what_the_pages_say() {
    let mut reader = Reader::new();
    let (mut commands, mut others) = (0, 0);
    for page in all_pages() {
        println!("{}", page.display());
        let (run, not_run) = reader.follow(&page);
        (commands, others) = (commands + run, others + not_run);
    }
    println!("{commands} commands run, {others} not");
    assert!(commands > 0);
    for ((part, why), used) in NOT_RUN.iter().zip(&reader.used) {
        let is_needed = *used || matches!(why, Why::Without(_));
        assert!(is_needed, "no command of the book has `{part}`: NOT_RUN needs it no more");
    }
}
