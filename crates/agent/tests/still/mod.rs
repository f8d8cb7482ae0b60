//! Sessions stand still for moments, as an agent's process asks for to measure something, and go on by themselves, whatever happens to that one.

use crate::{Running, World, is_stopped, members, moves, number, signal, times, wait_for};
use castell_agent::{Life, MARK, Marks, NO_MARK, Options, Place, Stills, serve};
use castell_host::users::Others;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::Duration;

/// An agent in whose process somebody wants the session that runs to stand still all the time. It writes a line for each time that it has asked, and for each
/// time that a session has stood.
pub fn as_agent(socket: &str) {
    let (stills, running) = (Stills::default(), Arc::new(Mutex::new(None)));
    let open = |kind: &str| {
        let path = Path::new(socket).with_extension(kind);
        File::options().create(true).append(true).open(path).expect("a file")
    };
    let (seen, asks, mut asked) = (running.clone(), stills.clone(), open("asked"));
    let stood = Arc::new(Mutex::new(open("stood")));
    thread::spawn(move || {
        loop {
            let mark: Option<String> = seen.lock().expect("nobody panics").clone();
            if let Some(mark) = mark {
                let stood = stood.clone();
                asks.ask(&mark, Duration::from_secs(5), move |it| {
                    assert!(it.from_ns <= it.until_ns && it.cost_ns >= it.until_ns - it.from_ns, "{it:?}");
                    // On a busy machine it may take too long to stop it.
                    if it.from_ns == it.until_ns {
                        return;
                    }
                    writeln!(stood.lock().expect("nobody panics"), "{it:?}").expect("a line");
                });
                writeln!(asked, "{mark}").expect("a line");
            }
            sleep(Duration::from_millis(100));
        }
    });
    serve(Options {
        place: &Place::at(socket),
        rules: "overbook".parse().expect("a policy"),
        others: Others::Nobody,
        life: Life::Lasting,
        allocation: None,
        watcher: Some(Box::new(move |marks: &Marks| {
            *running.lock().expect("nobody panics") = marks.running.first().cloned();
        })),
        foresight: None,
        stills: Some(stills),
        ready: Box::new(|| {}),
    })
    .expect("an agent");
}

impl World {
    fn measuring_agent(&self) -> Running {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command.arg("measuring-agent").arg(&self.place.socket).env(MARK, NO_MARK).stdin(Stdio::null());
        let agent = Running(command.spawn().expect("it starts"));
        wait_for("it listens", || self.place.socket.exists());
        agent
    }

    fn lines(&self, kind: &str) -> usize {
        fs::read_to_string(self.place.socket.with_extension(kind)).unwrap_or_default().lines().count()
    }

    #[track_caller]
    fn more(&self, kind: &str, count: usize) {
        let before = self.lines(kind);
        wait_for(kind, || self.lines(kind) >= before + count);
    }
}

/// Whether all stand still that would spin otherwise: frozen ones sleep or wait, in words of the system, others are stopped.
fn are_held(members: &[u32]) -> bool {
    let stands = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat[stat.rfind(')').unwrap_or(0)..].starts_with(") R"))
    };
    members.iter().all(stands)
}

/// Both ways of stopping: by a control group where there may be one, and, as in batch jobs, by signals.
const WAYS: [&[(&str, &str)]; 2] = [&[], &[("SLURM_JOB_ID", "1")]];

/// The agent is killed while a session stands still: it goes on.
pub fn killed_agents_leave_nobody_standing(world: &World) {
    let mut agent = world.measuring_agent();
    for way in WAYS {
        let spin = "while :; do :; done";
        let session = world.session(
            way,
            &format!("({spin}) & (setsid sh -c '{spin}' &) ; (setsid sh -c '{spin}' &) ; {spin}"),
        );
        wait_for("all of its processes", || members(&session).len() >= 4);
        for _ in 0..5 * number("CASTELL_TEST_TRIALS").unwrap_or(1) {
            world.more("stood", 1);
            let all = members(&session);
            wait_for("it stands still", || are_held(&all));
            signal(agent.0.id(), Signal::KILL);
            agent.0.wait().expect("it is dead");
            moves(&session);
            agent = world.measuring_agent();
        }
        world.more("stood", 3);
        // Somebody who kills the runner at such a moment ends the session, as always.
        let all = members(&session);
        wait_for("it stands still", || are_held(&all));
        signal(session.0.id(), Signal::KILL);
        wait_for("nothing is left", || {
            times(&all).iter().all(Option::is_none) && world.sessions().is_empty()
        });
    }
}

/// Nobody else goes on because of it: a process that has stopped itself stays so; nor is one stopped who may not be.
pub fn moments_touch_nobody_else(world: &World) {
    let agent = world.measuring_agent();
    let file = |name: &str| world.folder.path().join(name);
    for way in WAYS {
        let _ = fs::remove_file(file("stopped"));
        // Beside others nobody is stopped. Of two signals at once, its own and the agent's, nobody could tell whose is meant to last.
        let other = world.session(way, "while :; do :; done");
        wait_for("it runs", || world.states() == ["running"]);
        let stops = "echo $$ > new; mv new stopped; kill -STOP $$; touch woken";
        let session = world.session(way, &format!("sh -c '{stops}' & while :; do :; done"));
        wait_for("it has stopped itself", || {
            fs::read_to_string(file("stopped"))
                .is_ok_and(|pid| is_stopped(pid.trim().parse().expect("a number")))
        });
        drop(other);
        world.more("stood", 5);
        assert!(!file("woken").exists());
        let other = world.session(way, "while :; do :; done");
        wait_for("both run", || world.states() == ["running", "running"]);
        world.more("asked", 2);
        let before = world.lines("stood");
        world.more("asked", 5);
        assert_eq!(world.lines("stood"), before, "nobody is stopped beside others");
        drop(other);
        world.more("stood", 2);
        drop(session);
        wait_for("it has ended", || world.sessions().is_empty());
    }
    let session = world.session(&[("UNPROBED", "1")], "while :; do :; done");
    wait_for("it runs", || world.states() == ["running"]);
    let before = world.lines("stood");
    world.more("asked", 10);
    assert_eq!(world.lines("stood"), before, "nobody is stopped who has refused");
    drop((session, agent));
}

impl World {
    fn session(&self, environment: &[(&str, &str)], script: &str) -> Running {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command.arg("run").arg(&self.place.socket).args(["overbook", "1", "sh", "-c", script]);
        command.envs(environment.iter().copied());
        Running(command.current_dir(self.folder.path()).stdin(Stdio::null()).spawn().expect("it starts"))
    }
}
