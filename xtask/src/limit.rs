//! A time limit for a program: one that hangs is described and killed with all that it started.

use crate::setup;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How often is looked whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// How a program ended.
pub struct Ended {
    /// None if it took too long.
    pub status: Option<ExitStatus>,
    pub took: Duration,
    /// Of processors, by it and by those that it waited for; but for the last moment.
    pub computed: Duration,
}

/// Runs it for so many seconds at most. Where its threads were goes to `log` if it took longer.
///
/// # Errors
/// It cannot be started.
pub fn run(command: &mut Command, seconds: u64, log: &mut impl Write) -> anyhow::Result<Ended> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("start {program}"))?;
    let (began, limit) = (Instant::now(), Duration::from_secs(seconds));
    let mut computed = Duration::ZERO;
    while began.elapsed() < limit {
        computed = computed.max(computed_by(child.id()));
        if let Some(status) = child.try_wait()? {
            return Ok(Ended { status: Some(status), took: began.elapsed(), computed });
        }
        thread::sleep(PAUSE);
    }
    writeln!(
        log,
        "{program} has not ended after {seconds} s; it and what it started, with where each thread is:"
    )?;
    kill(&mut child, log)?;
    Ok(Ended { status: None, took: began.elapsed(), computed })
}

/// Describes and ends it and all that descend from it.
fn kill(child: &mut Child, log: &mut impl Write) -> anyhow::Result<()> {
    let family = descendants(child.id());
    for process in &family {
        describe(*process, log)?;
    }
    for process in family.iter().rev() {
        // One that has ended by now needs no more.
        let _ = Command::new("kill").args(["-KILL", &process.to_string()]).stderr(Stdio::null()).status();
    }
    child.wait()?;
    Ok(())
}

/// What stands behind the name in its `stat`, from the state on; the name may hold anything.
fn stat(process: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}

/// In user and system mode, its own and that of its children that it waited for; in ticks, of which Linux tells 100 a second.
fn computed_by(process: u32) -> Duration {
    let ticks: u64 =
        stat(process).iter().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

/// The process and all that descend from it, parents first.
fn descendants(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let parent = stat(process).get(1).and_then(|field| field.parse().ok());
        parent.into_iter().for_each(|parent| children.entry(parent).or_default().push(process));
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(process) = family.get(next) {
        family.extend(children.get(process).into_iter().flatten());
        next += 1;
    }
    family
}

/// Where its threads are: by the debugger, or what the kernel says.
fn describe(process: u32, log: &mut impl Write) -> std::io::Result<()> {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    writeln!(log, "-- process {process}: {}", String::from_utf8_lossy(&arguments).replace('\0', " "))?;
    if setup::find_program("gdb").is_some() {
        let arguments = ["-p", &process.to_string(), "-batch", "-ex", "thread apply all backtrace 30"];
        let said = Command::new("gdb").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output()?;
        return log.write_all(&said.stdout);
    }
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        writeln!(log, "   {} waits in {}", read("comm").trim(), read("wchan"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(seconds: u64, script: &str) -> (Ended, String) {
        let mut log = Vec::new();
        let ended = run(Command::new("sh").args(["-c", script]), seconds, &mut log).expect("sh starts");
        (ended, String::from_utf8(log).expect("text"))
    }

    #[test]
    fn how_it_ended_is_told() {
        let (ended, log) = outcome(60, "exit 7");
        assert_eq!((ended.status.and_then(|status| status.code()), log.as_str()), (Some(7), ""));
        // A child's time counts, too.
        let (ended, _) = outcome(60, "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; sleep .1");
        assert!(ended.computed > Duration::ZERO, "{:?}", ended.computed);
    }

    #[test]
    fn what_hangs_is_killed_with_all_that_it_started() {
        let (ended, log) = outcome(1, "sleep 601 & wait");
        assert!(ended.status.is_none());
        assert!(log.contains("has not ended after 1 s") && log.contains("sleep 601"), "{log}");
        let left = Command::new("pgrep").args(["-f", "^sleep 601$"]).output().expect("pgrep");
        assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    }

    #[test]
    fn children_are_found() {
        let mut child = Command::new("sh").args(["-c", "sleep 602 & wait"]).spawn().expect("sh");
        while descendants(child.id()).len() < 2 {
            std::thread::yield_now();
        }
        for process in descendants(child.id()).into_iter().rev() {
            Command::new("kill").arg(process.to_string()).status().expect("kill");
        }
        child.wait().expect("ends");
    }
}
