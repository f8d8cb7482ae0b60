//! The commands in the book's pages: run as they stand there, in an empty folder, with castell as it is installed; [`NOT_RUN`] says which
//! are not, and why.
//! A block behind "as `NAME`:" is that file; a line below a command stands in what it prints; a picture is what a command wrote.

#[path = "../../capi/tests/installed/mod.rs"]
mod installed;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use installed::{Installed, root};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// What makes hosts, or what is like them.
const LAB: &str = "castell lab";
const ISOLATED: &str = "--isolate";
/// In front of a program in the folder.
const OWN: &str = "./";

/// A part of the commands that are not run here, and why. All others are run.
const NOT_RUN: &[(&str, &str)] = &[
    (OWN, "a program of the reader's, unless the page has it; tests have some of their own"),
    ("mpicxx", "a program and a library of the reader's"),
    ("castell mpi", "mpi.rs, with MPI programs"),
    ("cargo ", "builds or installs: done before this test"),
    ("alias ", "for the shell that the reader types into"),
    ("castell xdp", "prints what was measured; xdp.rs"),
    ("-v -- ./program", "prints how far clocks are apart; over_hosts.rs"),
    ("--ways -- ./program", "prints a job's number and its ports; ways.rs"),
    (LAB, "where hosts cannot be made; hosts.rs, lab.rs, isolation.rs"),
    (ISOLATED, "the same"),
    ("--host", "hosts_reached.rs, over_hosts.rs: names of the reader's hosts"),
    ("mpirun", "hosts_launchers.rs, c_examples.rs: of each MPI by its own name"),
    ("mpiexec", "the same"),
    ("srun", "slurm.rs: a cluster"),
    ("CASTELL_TASKS_", "a program with tasks; tasks.rs, cpus.rs"),
    ("--record tasks.goal", "a program with OpenMP's tasks; omp.rs"),
    ("castell slowdown", "wants half a minute of a program; probed.rs"),
    ("castell bench", "takes minutes; bench_ends.rs, bench_sim.rs, bench_tasks.rs, small"),
    ("castell tune", "takes minutes, and writes what it found where the user's is; tune.rs, knobs.rs, small"),
    ("castell daemon", "goes on until it is stopped; daemon.rs and its neighbours"),
    ("castell session", "asks a daemon or an agent; session.rs and its neighbours"),
    ("castell learned", "asks a daemon; learned.rs"),
    ("castell top", "asks a daemon; top.rs"),
    ("castell cpus", "changes a program that runs; cpus.rs"),
    ("castell ways", "asks about runs that go on, and prints what this machine has; ways.rs"),
    ("castell distances", "builds Valgrind's tool; distances.rs"),
    ("castell pro", "profile, profiles, probe: needs the processor's counters; profile.rs, probed.rs"),
    ("castell predict", "from profiles of the reader's programs, or minutes of simulation; predict.rs"),
    ("castell strategy status", "asks a daemon; daemon.rs"),
    ("castell strategy load", "asks a daemon; daemon.rs"),
    ("castell strategy sensor", "asks a daemon; daemon.rs"),
    ("kill %1", "ends such a daemon"),
    ("monday.jsonl", "a recording of the reader's; daemon_recorded.rs"),
    ("jq ", "files of the reader's, by a program that castell does not need"),
    ("salloc", "an allocation of Slurm's; sessions_slurm.rs"),
    ("--slurm", "a queue of Slurm's; sessions_slurm.rs, slurm.rs"),
    ("--split", "programs and times of the reader's; place.rs"),
    ("--rule predicted", "profiles of the reader's programs; place.rs"),
    ("app.prv", "a trace of the reader's; paraver.rs"),
    ("app.goal", "made of a trace of the reader's; paraver.rs"),
    ("trace.bin", "a trace of the reader's; simulate.rs"),
    (" g.goal", "made by a program of the reader's; tasks.rs"),
    ("tasks.goal", "made by a program of the reader's; tasks.rs"),
];

static INSTALLED: LazyLock<Installed> = LazyLock::new(|| Installed::new("book"));

/// Pages whose commands other tests run.
const OTHER_TESTS: &[&str] = &["tutorial", "pictures", "charts", "timelines"];

/// A block of code with what stands before it.
struct Block<'a> {
    before: &'a str,
    language: &'a str,
    text: &'a str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = page.split("```").collect();
    let pairs = parts.chunks(2).filter(|pair| pair.len() == 2);
    let found = pairs.filter_map(|pair| {
        let (language, text) = pair[1].split_once('\n')?;
        Some(Block { before: pair[0], language, text })
    });
    found.collect()
}

/// The name that the block is to be saved under.
fn file_name<'a>(block: &Block<'a>) -> Option<&'a str> {
    let (before, name) = block.before.trim_end().strip_suffix("`:")?.rsplit_once('`')?;
    before.trim_end().ends_with("as").then_some(name)
}

fn run(line: &str, folder: &Path, installed: &Installed) -> String {
    let paths = std::env::var("PATH").unwrap_or_default();
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder);
    shell.env("PATH", format!("{}:{paths}", installed.prefix.join("bin").display()));
    shell.env("PKG_CONFIG_PATH", installed.prefix.join("lib/pkgconfig"));
    // Where the pages have it installed: a link.
    shell.env("HOME", folder);
    installed::output(&mut shell)
}

/// Runs a page's commands, without those that are left out; how many were run, and how many not.
fn follow(
    page: &str,
    folder: &Path,
    installed: &Installed,
    is_left_out: &mut dyn FnMut(&str) -> bool,
) -> (usize, usize) {
    let (mut commands, mut others) = (0, 0);
    for block in blocks(page) {
        if let Some(name) = file_name(&block) {
            std::fs::write(folder.join(name), block.text).expect("the folder can be written");
        }
        if block.language != "console" {
            continue;
        }
        let mut printed = None;
        // A command that goes on on the next line is one.
        for line in block.text.replace("\\\n", "").lines() {
            match (line.strip_prefix("$ "), &printed) {
                (Some(command), _) if !is_left_out(command) => {
                    printed = Some(run(command, folder, installed));
                    commands += 1;
                }
                (Some(_), _) => {
                    printed = None;
                    others += 1;
                }
                (None, Some(printed)) => {
                    assert!(printed.contains(line), "the book says `{line}`, and what came is:\n{printed}")
                }
                (None, None) => {}
            }
        }
    }
    (commands, others)
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
        let text =
            std::fs::read_to_string(root().join(format!("docs/src/{page}.md"))).expect("the page is there");
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).expect("a link");
        let followed = follow(&text, folder.path(), &INSTALLED, &mut |_| false);
        assert_eq!(followed, (commands, 0), "commands of {page}");
        assert_eq!(compare_pictures(&text, folder.path()), pictures, "pictures of {page}");
    }
}

/// Whether hosts can be made here; else that counts as skipped.
fn makes_hosts() -> bool {
    let tried = Command::new(INSTALLED.prefix.join("bin/castell")).args(["lab", "1", "--", "true"]).output();
    let tried = tried.expect("castell starts");
    if !tried.status.success() {
        skipped::skip("lab", &String::from_utf8_lossy(&tried.stderr));
    }
    tried.status.success()
}

#[test]
fn commands_of_all_pages_do_what_the_pages_say() {
    // Hosts of a lab have a /tmp of their own.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for name in ["examples", "vectors"] {
        std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).expect("a link");
    }
    std::os::unix::fs::symlink(&INSTALLED.prefix, folder.path().join("castell")).expect("a link");
    // The README's program is that of all pages.
    std::os::unix::fs::symlink("ring", folder.path().join("program")).expect("a link");
    let makes_hosts = makes_hosts();
    let mut pages = vec![root().join("README.md")];
    for entry in std::fs::read_dir(root().join("docs/src")).expect("the book is there") {
        let path = entry.expect("it can be read").path();
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        if path.extension().is_some_and(|extension| extension == "md")
            && !OTHER_TESTS.contains(&name.as_str())
        {
            pages.push(path);
        }
    }
    let mut used = vec![false; NOT_RUN.len()];
    let (mut commands, mut others) = (0, 0);
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page");
        let mut is_left_out = |command: &str| {
            let mut own = command.split(OWN).skip(1).map(|rest| rest.split(' ').next().unwrap_or_default());
            let is_there = own.all(|program| folder.path().join(program).exists());
            let is_fine = |part: &str| match part {
                OWN => is_there,
                LAB | ISOLATED => makes_hosts,
                _ => false,
            };
            let at = NOT_RUN.iter().position(|(part, _)| command.contains(part) && !is_fine(part));
            at.into_iter().for_each(|at| used[at] = true);
            at.is_some()
        };
        println!("{}", page.display());
        let (run, not_run) = follow(&text, folder.path(), &INSTALLED, &mut is_left_out);
        (commands, others) = (commands + run, others + not_run);
    }
    println!("{commands} commands run, {others} not");
    assert!(commands > 0);
    for ((part, _), used) in NOT_RUN.iter().zip(used) {
        let is_not = |of: &str| makes_hosts && [LAB, ISOLATED].contains(&of);
        assert!(used || is_not(part), "no command of the book has `{part}`: NOT_RUN needs it no more");
    }
}
