//! Which tests come by which mutants, and whether they notice them.

use super::tree::Program;
use anyhow::{Context as _, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// One test of a program.
pub struct Test<'p> {
    program: &'p Program,
    name: String,
    took: Duration,
    /// The places that it comes by.
    places: BTreeSet<usize>,
}

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Noticed,
    /// By a test that did not end.
    Endless,
    /// By none of so many tests that come by it.
    Survived(usize),
}

/// A test that takes longer than so many times what it takes, and so long, does not end.
const TIMES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(5);
/// Tests of a program that take less together are started together.
const TOGETHER: Duration = Duration::from_secs(1);
/// What may be the first run of a test.
const FIRST: Duration = Duration::from_secs(180);
/// So many may fail without a mutant.
const FAILED_MAX: usize = 3;
const PAUSE: Duration = Duration::from_millis(2);

/// Runs each test once, and notes what it comes by. One that fails is named and left out: it may be one that the switches disturb, as
/// those that count what is allocated.
///
/// # Errors
/// More than a few fail without any mutant.
pub fn tests<'p>(programs: &'p [Program], notes: &Path) -> anyhow::Result<Vec<Test<'p>>> {
    let (mut tests, mut failed) = (Vec::new(), 0);
    for program in programs {
        let mut list = Command::new(&program.executable);
        let output = list.args(["--list", "--format", "terse"]).current_dir(&program.folder).output()?;
        let names = String::from_utf8(output.stdout)?;
        for name in names.lines().filter_map(|line| line.strip_suffix(": test")) {
            let _ = fs::remove_file(notes);
            let began = Instant::now();
            let passed =
                run(program, &[name], ("CASTELL_MUTANT_NOTES", &notes.display().to_string()), FIRST)?;
            if passed != Some(true) {
                println!(
                    "mutants: without {name} of {}, which fails where there is no mutant",
                    program.executable.display()
                );
                failed += 1;
                ensure!(failed <= FAILED_MAX, "that many have another reason");
                continue;
            }
            let took = began.elapsed();
            let places = fs::read_to_string(notes).unwrap_or_default();
            let places =
                places.lines().map(str::parse).collect::<Result<_, _>>().context("a list of numbers")?;
            tests.push(Test { program, name: name.to_owned(), took, places });
        }
    }
    if tests.is_empty() {
        bail!("there are no tests");
    }
    // Fast ones first: most mutants are noticed by the first that comes by.
    tests.sort_by_key(|test| test.took);
    Ok(tests)
}

/// Whether those that come by the place of a mutant notice it.
///
/// # Errors
/// A test cannot be started.
pub fn trial(tests: &[Test<'_>], mutant: usize, place: usize) -> anyhow::Result<Outcome> {
    let concerned: Vec<&Test<'_>> = tests.iter().filter(|test| test.places.contains(&place)).collect();
    for group in groups(&concerned) {
        let names: Vec<&str> = group.iter().map(|test| test.name.as_str()).collect();
        let took: Duration = group.iter().map(|test| test.took).sum();
        let limit = PATIENCE + took * TIMES;
        match run(group[0].program, &names, ("CASTELL_MUTANT", &mutant.to_string()), limit)? {
            Some(true) => (),
            Some(false) => return Ok(Outcome::Noticed),
            None => return Ok(Outcome::Endless),
        }
    }
    Ok(Outcome::Survived(concerned.len()))
}

/// In order, several of a program together.
fn groups<'t, 'p>(tests: &[&'t Test<'p>]) -> Vec<Vec<&'t Test<'p>>> {
    let mut groups: Vec<(Duration, Vec<&Test<'_>>)> = Vec::new();
    let mut open: BTreeMap<&Path, usize> = BTreeMap::new();
    for test in tests {
        let program = test.program.executable.as_path();
        match open.get(program).map(|at| &mut groups[*at]) {
            Some((took, group)) if *took + test.took < TOGETHER => {
                *took += test.took;
                group.push(test);
            }
            _ => {
                open.insert(program, groups.len());
                groups.push((test.took, vec![test]));
            }
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Whether they passed; `None` if they did not end in time.
fn run(
    program: &Program,
    names: &[&str],
    (key, value): (&str, &str),
    limit: Duration,
) -> anyhow::Result<Option<bool>> {
    // Whoever breaks this off leaves no test behind that does not end.
    let mut tests = Command::new("setpriv");
    tests.args(["--pdeathsig", "KILL", "--"]).arg(&program.executable);
    tests.args(["--exact", "--test-threads", "1", "--quiet"]).args(names).current_dir(&program.folder);
    tests.env("CARGO_MANIFEST_DIR", &program.folder).env("RUST_BACKTRACE", "0").env(key, value);
    // A group of its own, which is ended with all that it started.
    tests.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = tests.spawn().with_context(|| program.executable.display().to_string())?;
    let began = Instant::now();
    // On a busy machine most of the time may go to others.
    while began.elapsed() < limit || began.elapsed() < limit + queued(child.id()) {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        thread::sleep(PAUSE);
    }
    Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).stderr(Stdio::null()).status()?;
    child.wait()?;
    Ok(None)
}

/// How long a process could have run and did not, because others did.
fn queued(process: u32) -> Duration {
    let statistics = fs::read_to_string(format!("/proc/{process}/schedstat")).unwrap_or_default();
    second_number(&statistics)
}

/// Of the numbers in /proc/PID/schedstat, which are nanoseconds, that of waiting.
fn second_number(statistics: &str) -> Duration {
    let waited = statistics.split(' ').nth(1).and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_tests_of_a_program_are_started_together() {
        let program = |name: &str| Program { executable: name.into(), folder: "/".into() };
        let (one, other) = (program("one"), program("other"));
        let test = |program, milliseconds| Test {
            program,
            name: String::new(),
            took: Duration::from_millis(milliseconds),
            places: BTreeSet::new(),
        };
        let tests = [test(&one, 10), test(&other, 20), test(&one, 300), test(&one, 900), test(&other, 3000)];
        let groups = groups(&tests.iter().collect::<Vec<_>>());
        let took: Vec<Vec<u128>> =
            groups.iter().map(|group| group.iter().map(|test| test.took.as_millis()).collect()).collect();
        assert_eq!(took, [vec![10, 300], vec![20], vec![900], vec![3000]]);
    }

    #[test]
    fn time_that_went_to_others_is_known() {
        assert_eq!(second_number("17 250000000 3\n"), Duration::from_millis(250));
        assert_eq!(queued(u32::MAX), Duration::ZERO, "there is no such process");
        let statistics = fs::read_to_string("/proc/self/schedstat").expect("Linux counts that");
        assert!(queued(std::process::id()) >= second_number(&statistics));
    }

    #[test]
    fn what_does_not_end_is_ended() {
        let script = |text: &str| {
            let folder = tempfile::tempdir().expect("a folder");
            let executable = folder.path().join("tests");
            fs::write(&executable, format!("#!/bin/sh\n{text}\n")).expect("a file");
            let mut mode = Command::new("chmod");
            assert!(mode.arg("+x").arg(&executable).status().expect("chmod").success());
            let program = Program { executable, folder: folder.path().to_owned() };
            run(&program, &["a"], ("CASTELL_MUTANT", "1"), Duration::from_millis(500)).expect("sh starts")
        };
        assert_eq!(script("test $CASTELL_MUTANT = 1"), Some(true));
        assert_eq!(script("test $CASTELL_MUTANT = 2"), Some(false));
        assert_eq!(script("sleep 603"), None);
    }
}
