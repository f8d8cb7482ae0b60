//! Processors that come and go while sessions run, or none does.

use crate::{Running, World, agent, allowed, moves, signal, skipped, wait, wait_for};
use castell_host::topology::{Processors, print_list};
use rustix::process::Signal;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// An agent that lasts has the processors that there are when nobody has any.
pub fn come_and_go(world: &World) {
    if world.slots < 2 {
        skipped::skip("one-processor", "processors come and go");
        return;
    }
    let mut lasting = Command::new(std::env::current_exe().expect("a program"));
    let lasting = Running(lasting.arg("lasting").arg(&world.place.socket).spawn().expect("it starts"));
    let bind = |cpus: &str| {
        // A thread that ends meanwhile is an error to it.
        wait_for("all of its threads are bound", || {
            let pid = lasting.0.id().to_string();
            let bound =
                Command::new("taskset").args(["-a", "-p", "-c", cpus, &pid]).output().expect("taskset");
            eprint!("{}", String::from_utf8_lossy(&bound.stderr));
            bound.status.success()
        });
    };
    let has = |count: usize| {
        // All that there are.
        let session =
            world.start("wait", 0, "touch started; while [ ! -e end ]; do sleep 0.01; done; exit 7");
        wait_for("it runs", || world.started());
        assert_eq!(world.sessions()[0].parts[0].cpus.len(), count);
        session
    };
    let end = |session: Running| {
        world.tell();
        assert_eq!(wait(session), Some(7));
        wait_for("it is forgotten", || world.sessions().is_empty());
        for file in ["started", "end"] {
            fs::remove_file(world.folder.path().join(file)).expect("a file");
        }
    };
    wait_for("it listens", || UnixStream::connect(&world.place.socket).is_ok());
    let all = Processors::usable().cpus.clone();
    let list = print_list(&all);
    let first = has(all.len());
    bind(&all[0].to_string());
    end(first);
    let second = has(1);
    bind(&list);
    end(second);
    end(has(all.len()));
}

/// A control group that holds processors, as one that a container or a service manager makes.
struct CpuSet(PathBuf);

impl CpuSet {
    /// None where this process may make none.
    fn new(cpus: &[u32]) -> Option<CpuSet> {
        let name = format!("castell-test-{}", std::process::id());
        let usable = print_list(cpus);
        for (root, file) in [("/sys/fs/cgroup/cpuset", "tasks"), ("/sys/fs/cgroup", "cgroup.procs")] {
            let folder = Path::new(root).join(&name);
            let set = CpuSet(folder.clone());
            let made = fs::create_dir(&folder)
                .and_then(|()| fs::write(folder.join("cpuset.cpus"), &usable))
                .and_then(|()| fs::read_to_string(Path::new(root).join("cpuset.mems")).or(Ok("0".into())))
                .and_then(|mems| fs::write(folder.join("cpuset.mems"), mems.trim()))
                .and_then(|()| fs::metadata(folder.join(file)));
            if made.is_ok() {
                return Some(set);
            }
        }
        None
    }

    /// Whoever the calling thread starts from now on is in it.
    fn enter(&self) {
        fs::write(self.0.join("cgroup.procs"), std::process::id().to_string()).expect("a process may move");
    }

    /// In the first version, groups within have to have less before this one has.
    fn only(&self, cpus: &[u32]) {
        let set = castell_host::control_group::CpuSet::at(&self.0).expect("it is there");
        set.hold(cpus, || panic!("nobody is outside")).expect("processors");
    }
}

impl Drop for CpuSet {
    fn drop(&mut self) {
        // Whoever is left goes where this process came from.
        let above = self.0.parent().expect("a root").join("cgroup.procs");
        for process in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(&above, process);
        }
        // Guards remove the groups of sessions that have just ended.
        let begun = Instant::now();
        while fs::remove_dir(&self.0).is_err() && begun.elapsed() < Duration::from_secs(10) {
            sleep(Duration::from_millis(10));
        }
    }
}

/// A processor leaves the control group in which all run, and comes back.
pub fn are_taken_from_sessions_that_run(world: &World) {
    if world.slots < 2 {
        skipped::skip("one-processor", "processors are taken from sessions");
        return;
    }
    let all = Processors::usable().cpus.clone();
    let Some(set) = CpuSet::new(&all[..2]) else {
        skipped::skip("cpuset", "this process may make no control group for processors");
        return;
    };
    set.enter();
    let spin = "while :; do :; done";
    // Where they run is known a moment after it is decided that they do.
    let both_run = || {
        let all = world.sessions();
        all.len() == 2 && all.iter().all(|shown| shown.state == "running" && !shown.parts.is_empty())
    };
    let [stays, moves_] = [(); 2].map(|()| world.start("wait", 1, spin));
    wait_for("both run", both_run);
    let shown = |pid: u32| world.sessions().into_iter().find(|shown| shown.pid == pid).expect("it lives");
    let cpu = |session: &Running| shown(session.0.id()).parts[0].cpus.clone();
    let (mine, its) = (cpu(&stays), cpu(&moves_));
    assert!(mine != its && mine.len() == 1 && its.len() == 1);
    // The one that is left is the other's.
    set.only(&mine);
    wait_for("it shares what is left", || {
        cpu(&moves_) == mine && allowed(&moves_).iter().all(|cpus| *cpus == mine)
    });
    moves(&moves_);
    let explained = world.explain(shown(stays.0.id()).session);
    assert_eq!((explained.online, &explained.gone), (1, &its), "what it shares, and why");
    assert_eq!(explained.holders.len(), 1, "the other one is on its processor");
    let explained = world.explain(shown(moves_.0.id()).session);
    assert_eq!((&explained.home[0].cpus, &explained.shown.parts[0].cpus), (&its, &mine));
    // Nobody is given what is gone, and who wants more than is left holds up nobody.
    let wide = world.start("wait", 2, "exit 3");
    wait_for("it waits", || world.states().len() == 3);
    let narrow = world.until_told("wait");
    wait_for("it waits, too", || world.states().len() == 4);
    let explained = world.explain(shown(wide.0.id()).session);
    assert_eq!((explained.free, explained.offline), (0, 1));
    drop(moves_);
    sleep(Duration::from_millis(300));
    assert!(!world.started(), "it was given a processor that is gone");
    // The next agent finds one processor less than stands in the books.
    signal(agent(&world.place.socket), Signal::KILL);
    wait_for("the next agent has them all", || world.states() == ["running", "waiting", "waiting"]);
    assert_eq!(world.explain(shown(wide.0.id()).session).offline, 1);
    drop(stays);
    wait_for("the narrow one runs", || world.started());
    assert_eq!(cpu(&narrow), mine);
    set.only(&all[..2]);
    world.tell();
    assert_eq!((wait(narrow), wait(wide)), (Some(7), Some(3)));
    // Who shares goes home when its processor is back.
    let [one, other] = [(); 2].map(|()| world.start("wait", 1, spin));
    wait_for("both run", both_run);
    let homes = [cpu(&one), cpu(&other)];
    let all_on = |session: &Running, cpus: &[u32]| {
        let allowed = allowed(session);
        !allowed.is_empty() && allowed.iter().all(|has| has == cpus)
    };
    // Perhaps before they have begun: they are started where there is room.
    set.only(&its);
    wait_for("they share", || [&one, &other].iter().all(|session| all_on(session, &its)));
    set.only(&all[..2]);
    wait_for("they are at home", || all_on(&one, &homes[0]) && all_on(&other, &homes[1]));
}
