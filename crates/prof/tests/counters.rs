//! Counters around real programs. What the kernel counts itself is there on every machine that has `perf_event_open`.

use castell_host::process::Pid;
use castell_prof::counters::{Ended, Plan, Recording, Subject, WatchError, Watched, watch};
use castell_prof::prints::Prints;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(10);

fn count(recording: &Recording, event: &str) -> f64 {
    recording.count(event).unwrap_or_else(|| panic!("{event} of {:?}", recording.events)).count
}

#[test]
fn a_command_is_counted_with_all_that_it_starts_and_nothing_else_is() {
    let plan = Plan::of_machine(Path::new("/"));
    let faults_of = |script: &str| {
        let words: Vec<OsString> = ["sh", "-c", script].iter().map(OsString::from).collect();
        let Watched { recording, ended, .. } =
            watch(Subject::Command(&words, Prints::ToOutput), &plan, EVERY, None).expect("watched");
        assert!(matches!(ended, Ended::Command(status) if status.code() == Some(3)), "{ended:?}");
        assert!(recording.samples.len() >= 2);
        count(&recording, "page-faults")
    };
    let few = faults_of("exit 3");
    let many = faults_of("for i in 1 2 3 4 5 6 7 8 9 10; do sh -c 'sh -c :; :'; done; exit 3");
    assert!(few > 10.0 && many > 10.0 * few, "{few} {many}");
}

/// Ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it was there");
    }
}

#[test]
fn a_process_that_runs_already_is_counted_from_now_on() {
    let plan = Plan::of_machine(Path::new("/"));
    let child = Command::new("sh").args(["-c", "while :; do /bin/true; done"]).spawn().expect("sh is there");
    let child = Running(child);
    let pid = Pid::from_raw(child.0.id() as i32).expect("a number");
    let limit = Some(Duration::from_millis(400));
    let Watched { recording, ended, .. } =
        watch(Subject::Process(pid), &plan, EVERY, limit).expect("watched");
    assert_eq!(ended, Ended::Stopped);
    assert!(count(&recording, "page-faults") > 0.0 && count(&recording, "task-clock") > 0.0);
    drop(child);
    let gone = watch(Subject::Process(Pid::from_raw(i32::MAX).expect("a number")), &plan, EVERY, limit);
    assert!(matches!(gone, Err(WatchError::NoProcess(_))), "{gone:?}");
}

#[test]
fn a_command_is_ended_when_its_time_is_over() {
    let plan = Plan::of_machine(Path::new("/"));
    let words: Vec<OsString> = ["sleep", "1000"].iter().map(OsString::from).collect();
    let limit = Some(Duration::from_millis(100));
    let Watched { ended, .. } =
        watch(Subject::Command(&words, Prints::ToOutput), &plan, EVERY, limit).expect("watched");
    assert!(matches!(ended, Ended::Command(status) if !status.success()), "{ended:?}");
}

#[test]
fn a_commands_memory_is_seen_with_that_of_what_it_starts() {
    let plan = Plan::of_machine(Path::new("/"));
    // The text of a variable, in a shell that another one waits for: it is there until the end.
    let script = "sh -c 'x=$(head -c 30000000 /dev/zero | tr \\\\0 x); sleep .3; exit ${#x}'; exit 0";
    let words: Vec<OsString> = ["sh", "-c", script].iter().map(OsString::from).collect();
    let watched = watch(Subject::Command(&words, Prints::ToOutput), &plan, EVERY, None).expect("watched");
    let seen = watched.memory_bytes.expect("it ran for a while");
    assert!(seen > 30_000_000, "{seen}");
}
