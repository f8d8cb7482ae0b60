//! The control groups of sessions: nobody leaves the processors of his, and whoever dies leaves none.

use crate::{
    Random, Running, World, agent, allowed, find_agent, members, moves, number, signal, skipped, wait,
    wait_for,
};
use castell_host::control_group::Home;
use castell_host::topology::{Processors, parse_list, print_list};
use castell_policy::session::protocol::{PinnedBy, StoppedBy};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

const SPIN: &str = "while :; do :; done";

/// Says so where there is nothing to share out, or this process may make no control groups for processors.
fn has_cpusets(world: &World) -> bool {
    if world.slots < 2 {
        skipped::skip("one-processor", "control groups of processors");
        return false;
    }
    let home = here();
    let groups = home.make(&format!("{}-1@test", std::process::id()));
    let has = groups.cpuset.is_some();
    groups.remove();
    if !has {
        skipped::skip("cpuset", "this process may make no control group for processors");
    }
    has
}

fn here() -> Home {
    Home::new(Path::new("/sys/fs/cgroup"), &fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
}

/// The processors of a session.
fn cpus(world: &World, session: &Running) -> Vec<u32> {
    let shown = world.sessions().into_iter().find(|shown| shown.pid == session.0.id()).expect("it lives");
    assert_eq!((shown.pinned_by, shown.stopped_by), (PinnedBy::Cpuset, StoppedBy::Freezer));
    shown.parts[0].cpus.clone()
}

/// A program that binds itself to all processors, and one that wants another one's.
pub fn nobody_leaves_its_processors(world: &World) {
    if !has_cpusets(world) {
        return;
    }
    let all = print_list(&Processors::usable().cpus);
    let script = format!("taskset -a -p -c {all} $$ > bound-$$; echo $$ >> bound; {SPIN}");
    let both = [(); 2].map(|()| world.start("wait", 1, &script));
    let bound = || fs::read_to_string(world.folder.path().join("bound")).unwrap_or_default().lines().count();
    wait_for("both have bound themselves", || bound() == 2);
    let has = [0, 1].map(|which| cpus(world, &both[which]));
    assert!(has[0] != has[1] && has.iter().all(|cpus| cpus.len() == 1));
    for (session, has) in both.iter().zip(&has) {
        assert!(allowed(session).iter().all(|allowed| allowed == has), "whatever it asks for");
        let process = members(session)[0];
        let other = print_list(&[has
            .iter()
            .chain(&[0, 1])
            .copied()
            .find(|cpu| !has.contains(cpu))
            .expect("another")]);
        let refused = Command::new("taskset").args(["-p", "-c", &other, &process.to_string()]).output();
        assert!(!refused.expect("taskset").status.success());
        let explained = world.explain(if session.0.id() == both[0].0.id() { 1 } else { 2 });
        assert_eq!(explained.shown.pinned_by, PinnedBy::Cpuset);
    }
}

/// Open MPI's looks at the control group, and not at the mask of whoever starts it.
pub fn launchers_bind_inside(world: &World) {
    if !has_cpusets(world) {
        return;
    }
    if Command::new("mpirun.openmpi").arg("--version").output().is_err() {
        skipped::skip("openmpi", "there is no mpirun.openmpi");
        return;
    }
    let bind = "mpirun.openmpi --allow-run-as-root --oversubscribe --bind-to core:overload-allowed -n 2 \
                sh -c 'grep Cpus_allowed_list /proc/self/status' > ranks-$1 2> errors-$1 && touch done-$1";
    // Each of them has one of two processors: one of them has not the first.
    let both =
        ["a", "b"].map(|name| world.start("wait", 1, &format!("set -- x {name}; shift; {bind}; {SPIN}")));
    let file = |name: &str| fs::read_to_string(world.folder.path().join(name)).unwrap_or_default();
    for (session, name) in both.iter().zip(["a", "b"]) {
        wait_for(&format!("{name} has started its ranks: {}", file(&format!("errors-{name}"))), || {
            world.folder.path().join(format!("done-{name}")).exists()
        });
        let ranks = file(&format!("ranks-{name}"));
        let ranks =
            ranks.lines().filter_map(|line| parse_list(line.strip_prefix("Cpus_allowed_list:")?.trim()).ok());
        assert_eq!(ranks.collect::<Vec<_>>(), [cpus(world, session), cpus(world, session)]);
    }
}

/// What has bound itself to one processor is on another one when that is gone, and has all when they are back.
pub fn bound_programs_step_aside(world: &World) {
    if !has_cpusets(world) {
        return;
    }
    let all = Processors::usable().cpus.clone();
    let bound = |cpu: &u32| format!("taskset -c {cpu} sh -c '{SPIN}' & ");
    let script: String = all.iter().map(bound).collect();
    let long = world.start("sidestep", world.slots, &format!("{script} {SPIN}"));
    let each = || {
        let alone: BTreeSet<Vec<u32>> = allowed(&long).into_iter().filter(|cpus| cpus.len() == 1).collect();
        alone.len() == all.len()
    };
    wait_for("all are bound", each);
    let short = world.until_told("sidestep");
    wait_for("the short one runs", || world.started());
    let mine = world.sessions()[1].parts[0].cpus.clone();
    let left: Vec<u32> = all.iter().copied().filter(|cpu| !mine.contains(cpu)).collect();
    let all_on = |cpus: &[u32]| allowed(&long).iter().all(|allowed| allowed == cpus);
    wait_for("all are aside", || all_on(&left));
    assert_eq!(cpus(world, &long), left);
    moves(&long);
    // The next agent brings them back.
    signal(agent(&world.place.socket), Signal::KILL);
    world.tell();
    assert_eq!(wait(short), Some(7));
    wait_for("they are back", || all_on(&all));
    assert_eq!(cpus(world, &long), all);
    moves(&long);
}

/// Runners, guards, agents and programs are killed at any moment, some of them or all.
pub fn nobody_leaves_groups(world: &World) {
    let trials = number("CASTELL_TEST_TRIALS").unwrap_or(1);
    let mut random = Random::new();
    let mut pids = BTreeSet::new();
    for _ in 0..20 * trials {
        let session = world.start("overbook", 1, &format!("(setsid sh -c '{SPIN}' &) ; {SPIN}"));
        pids.insert(session.0.id().to_string());
        sleep(Duration::from_millis(random.below(120)));
        let process = session.0.id();
        let mut doomed: Vec<u32> = [guard(process), find_agent(&world.place.socket), Some(process)]
            .into_iter()
            .flatten()
            .chain(members(&session))
            .filter(|_| random.below(2) == 0)
            .collect();
        if random.below(2) == 0 {
            doomed.reverse();
        }
        for process in doomed {
            // It may have ended with another one.
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(process as i32).expect("a process"),
                Signal::KILL,
            );
            sleep(Duration::from_millis(random.below(3)));
        }
        if random.below(2) == 0 {
            signal(process, Signal::TERM);
        }
        let mut session = session;
        let _ = session.0.kill();
        session.0.wait().expect("it is dead");
        // What is left of it is left to the agents.
        std::mem::forget(session);
    }
    assert_eq!(wait(world.start("overbook", 1, "exit 3")), Some(3));
    let left = || {
        let marks = here().sessions().into_iter();
        marks.filter(|mark| pids.contains(mark.split('-').next().unwrap_or_default())).collect::<Vec<_>>()
    };
    wait_for("nothing is left", || world.sessions().is_empty());
    // An agent that lives sees to those of runners that have died before they had told it anything.
    let last = world.until_told("overbook");
    wait_for("no group is left but one", || left().is_empty() && world.started());
    world.tell();
    assert_eq!(wait(last), Some(7));
    println!("{} sessions killed", 20 * trials);
}

/// The process that guards the groups of a runner.
fn guard(runner: u32) -> Option<u32> {
    let name = format!("castell-session-{runner}-");
    let is_guard = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("\0guard\0") && line.contains(&name)
    };
    let numbers = fs::read_dir("/proc").expect("processes");
    numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).find(is_guard)
}
