//! Sessions on this host, with real programs: suspended ones stand still, whatever their processes do, and nothing stays frozen,
//! whoever dies. The test starts itself as runner (`run`) and as agent (`agent`).

use castell_agent::{AgentError, Asked, Place, Tree, list, run, serve, steer};
use castell_host::topology::{Processors, parse_list};
use castell_policy::session::protocol::{Explained, FromAgent, Order, Shown, ToAgent, Wanted};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("run") => as_runner(&arguments[2..]),
        Some("agent") => {
            let place = Place::at(&arguments[2]);
            serve(&place, "wait".parse().expect("a policy"), Duration::from_secs(1), None).expect("an agent");
        }
        Some("session") => {
            castell_agent::guard(Path::new(&arguments[3]), std::io::stdin()).expect("a guard");
        }
        _ => tests(arguments.get(1).map_or("", String::as_str)),
    }
}

/// `run SOCKET POLICY SLOTS CMD…`
fn as_runner(arguments: &[String]) {
    let place = Place::at(&arguments[0]);
    let slots = arguments[2].parse().expect("a number");
    let wanted = Wanted { slots, policy: Some(arguments[1].clone()), ..Wanted::default() };
    let asked = Asked {
        command: arguments[3..].iter().map(OsString::from).collect(),
        wanted,
        allocation: None,
        castell: std::env::current_exe().expect("a program"),
    };
    let start = || {
        let program = std::env::current_exe()?;
        // As a daemon is: in a session of its own, and nobody's child for long.
        let mut starter = Command::new("setsid");
        starter
            .arg("--fork")
            .arg(program)
            .arg("agent")
            .arg(&place.socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        starter.status().map(drop)
    };
    let code = run(&asked, &place, &start, &|text| eprintln!("runner: {text}")).unwrap_or_else(|error| {
        eprintln!("runner: {error}");
        1
    });
    std::process::exit(code);
}

type Case = (&'static str, fn(&World));

fn tests(filter: &str) {
    let cases: [Case; 13] = [
        ("suspended sessions stand still", suspended_sessions_stand_still),
        ("a killed runner leaves nothing", a_killed_runner_leaves_nothing),
        ("a killed agent leaves nothing frozen", a_killed_agent_leaves_nothing_frozen),
        ("killed runner and agent leave nothing frozen", killed_runner_and_agent_leave_nothing_frozen),
        ("stopping and continuing the runner", stopping_and_continuing_the_runner),
        ("waiting, and giving up", waiting_and_giving_up),
        ("stepping aside", stepping_aside),
        ("what never fits", what_never_fits),
        ("its user stops a session", its_user_stops_a_session),
        ("a stopped session makes room", a_stopped_session_makes_room),
        ("its user ends a session", its_user_ends_a_session),
        ("another policy takes over", another_policy_takes_over),
        ("what cannot be steered", what_cannot_be_steered),
    ];
    for (name, case) in cases.iter().filter(|(name, _)| name.contains(filter)) {
        let world = World::new();
        case(&world);
        println!("{name}: ok");
    }
}

struct World {
    folder: tempfile::TempDir,
    place: Place,
    slots: usize,
}

/// A session that a test has started; whatever happens to the test, it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let tree = Tree::of(self.0.id());
        let _ = self.0.kill();
        let _ = self.0.wait();
        tree.iter().for_each(|tree| tree.end(Duration::ZERO));
    }
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::at(folder.path().join("sessions.sock"));
        World { folder, place, slots: Processors::usable().cpus.len() }
    }

    fn start(&self, policy: &str, slots: usize, script: &str) -> Running {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command
            .arg("run")
            .arg(&self.place.socket)
            .arg(policy)
            .arg(slots.to_string())
            .args(["sh", "-c", script]);
        Running(command.current_dir(self.folder.path()).stdin(Stdio::null()).spawn().expect("it starts"))
    }

    /// A session on all slots whose processes do all they can to run on: one ignores the signal, one leaves the group.
    fn stubborn(&self, policy: &str) -> Running {
        let spin = "while :; do :; done";
        let script = format!(
            "trap '' TSTP; (trap '' TSTP; {spin}) & setsid sh -c \"trap '' TSTP; {spin}\" & (setsid sh -c '{spin}' &) ; {spin}"
        );
        let session = self.start(policy, self.slots, &script);
        wait_for("all of its processes", || members(&session).len() >= 4);
        session
    }

    fn sessions(&self) -> Vec<Shown> {
        match list(&self.place, None) {
            Ok(Some(FromAgent::Sessions { sessions, .. })) => sessions,
            _ => Vec::new(),
        }
    }

    fn ask(&self, message: ToAgent) -> Result<FromAgent, AgentError> {
        steer(&self.place, None, &[message])
    }

    /// Gives an order, and the session's state when it is carried out.
    fn order(&self, session: u64, order: Order) -> Option<String> {
        match self.ask(ToAgent::Order { session, order }) {
            Ok(FromAgent::Ordered { session, .. }) => session.map(|shown| shown.state),
            other => panic!("{other:?}"),
        }
    }

    fn explain(&self, session: u64) -> Explained {
        match self.ask(ToAgent::Explain { session }) {
            Ok(FromAgent::Explained(explained)) => *explained,
            other => panic!("{other:?}"),
        }
    }

    fn states(&self) -> Vec<String> {
        self.sessions().into_iter().map(|session| session.state).collect()
    }

    /// A session on one slot that ends when it is told.
    fn until_told(&self, policy: &str) -> Running {
        self.start(policy, 1, "touch started; while [ ! -e end ]; do sleep 0.01; done; exit 7")
    }

    fn tell(&self) {
        fs::write(self.folder.path().join("end"), "").expect("a file");
    }

    fn started(&self) -> bool {
        self.folder.path().join("started").exists()
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for a minute: {what}");
        sleep(Duration::from_millis(10));
    }
}

fn members(session: &Running) -> Vec<u32> {
    Tree::of(session.0.id()).map_or_else(Vec::new, |tree| tree.members())
}

/// Processor time of each of these processes, in ticks; none for those that have ended.
fn times(members: &[u32]) -> Vec<Option<u64>> {
    let time = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
        if matches!(fields[0], "Z" | "X") {
            return None;
        }
        Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
    };
    members.iter().map(time).collect()
}

fn stand_still(session: &Running) {
    let all = members(session);
    assert!(all.len() >= 4, "they live on: {all:?}");
    let before = times(&all);
    sleep(Duration::from_millis(500));
    assert_eq!((times(&all), members(session)), (before, all));
}

fn moves(session: &Running) {
    let all = members(session);
    let before = times(&all);
    wait_for("each process gets on", || {
        times(&all)
            .iter()
            .zip(&before)
            .all(|(now, before)| now.zip(*before).is_none_or(|(now, before)| now > before))
    });
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).expect("a process"), signal).expect("a signal");
}

fn suspended_sessions_stand_still(world: &World) {
    let mut long = world.stubborn("surpass");
    let mut short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    assert_eq!(world.states(), ["suspended", "running"]);
    stand_still(&long);
    world.tell();
    assert_eq!(short.0.wait().expect("it ends").code(), Some(7));
    wait_for("the long one runs again", || world.states() == ["running"]);
    moves(&long);
    let all = members(&long);
    signal(long.0.id(), Signal::TERM);
    assert_eq!(long.0.wait().expect("it ends").code(), Some(143));
    assert!(times(&all).iter().all(Option::is_none), "nothing is left");
}

fn a_killed_runner_leaves_nothing(world: &World) {
    let mut long = world.stubborn("surpass");
    let mut short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    let all = members(&long);
    signal(long.0.id(), Signal::KILL);
    long.0.wait().expect("it is dead");
    wait_for("all of its processes have ended", || times(&all).iter().all(Option::is_none));
    wait_for("the agent knows", || world.states() == ["running"]);
    world.tell();
    assert_eq!(short.0.wait().expect("it ends").code(), Some(7));
}

fn a_killed_agent_leaves_nothing_frozen(world: &World) {
    let long = world.stubborn("surpass");
    let mut short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    stand_still(&long);
    signal(agent(&world.place.socket), Signal::KILL);
    moves(&long);
    world.tell();
    assert_eq!(short.0.wait().expect("it ends").code(), Some(7));
    // The next session finds nobody, and starts another agent.
    let mut next = world.start("wait", 1, "exit 3");
    assert_eq!(next.0.wait().expect("it ends").code(), Some(3));
}

/// Where there is a freezer all processes are let go on, else the program is.
fn killed_runner_and_agent_leave_nothing_frozen(world: &World) {
    let long = world.stubborn("surpass");
    let _short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    let all = members(&long);
    let group = fs::read_to_string(format!("/proc/{}/cgroup", all[0])).expect("it lives");
    let going_on = if group.contains("castell-") { &all[..] } else { &all[..1] };
    for process in [agent(&world.place.socket), long.0.id()] {
        signal(process, Signal::KILL);
    }
    let before = times(going_on);
    wait_for("they get on", || {
        times(going_on).iter().zip(&before).all(|(now, before)| now.is_some() && now > before)
    });
    // The next agent ends what nobody answers for.
    let mut next = world.start("wait", 1, "exit 3");
    assert_eq!(next.0.wait().expect("it ends").code(), Some(3));
    wait_for("all of its processes have ended", || times(&all).iter().all(Option::is_none));
}

/// The process that holds the lock's file open as its agent.
fn agent(socket: &Path) -> u32 {
    let wanted = format!("agent\0{}\0", socket.display());
    let processes = fs::read_dir("/proc")
        .expect("processes")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_agent = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).ends_with(&wanted)
    };
    processes.into_iter().find(is_agent).expect("an agent")
}

fn is_stopped(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(") T "))
}

fn stopping_and_continuing_the_runner(world: &World) {
    let long = world.stubborn("wait");
    signal(long.0.id(), Signal::TSTP);
    wait_for("the runner is stopped", || is_stopped(long.0.id()));
    stand_still(&long);
    signal(long.0.id(), Signal::CONT);
    moves(&long);
}

fn waiting_and_giving_up(world: &World) {
    let long = world.stubborn("wait");
    let mut short = world.until_told("wait");
    wait_for("the short one waits", || world.states() == ["running", "waiting"]);
    signal(short.0.id(), Signal::INT);
    assert_eq!(short.0.wait().expect("it ends").code(), Some(130));
    wait_for("the agent knows", || world.states() == ["running"]);
    assert!(!world.started());
    let mut other = world.until_told("wait");
    drop(long);
    wait_for("its turn has come", || world.started());
    world.tell();
    assert_eq!(other.0.wait().expect("it ends").code(), Some(7));
}

fn stepping_aside(world: &World) {
    if world.slots < 2 {
        println!("stepping aside: there is one processor only, and nowhere to step");
        return;
    }
    let long = world.stubborn("sidestep");
    let allowed = || -> Vec<Vec<u32>> {
        let list = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            parse_list(line.trim()).ok()
        };
        members(&long).into_iter().filter_map(list).collect()
    };
    let before = allowed();
    assert!(before.iter().all(|cpus| cpus.len() == world.slots));
    let mut short = world.until_told("sidestep");
    wait_for("the short one runs", || world.started());
    let mine = world.sessions()[1].parts[0].cpus.clone();
    assert_eq!(mine.len(), 1);
    wait_for("all of the other's processes are elsewhere", || {
        allowed().iter().flatten().all(|cpu| *cpu != mine[0])
    });
    moves(&long);
    world.tell();
    assert_eq!(short.0.wait().expect("it ends").code(), Some(7));
    wait_for("they are back", || allowed() == before);
}

fn what_never_fits(world: &World) {
    let mut large = world.start("wait", world.slots + 1, "true");
    assert_eq!(large.0.wait().expect("it ends").code(), Some(1));
    let mut other = world.start("wait+spread", 1, "true");
    assert_eq!(other.0.wait().expect("it ends").code(), Some(1));
    let mut missing = Command::new(std::env::current_exe().expect("a program"));
    missing.arg("run").arg(&world.place.socket).args(["wait", "1", "./there-is-no-such-program"]);
    assert_eq!(missing.status().expect("it starts").code(), Some(1));
}

fn its_user_stops_a_session(world: &World) {
    let long = world.stubborn("wait");
    let mut short = world.until_told("wait");
    wait_for("the short one waits", || world.states() == ["running", "waiting"]);
    assert_eq!(world.order(1, Order::Stop {}).as_deref(), Some("suspended"));
    // It keeps its processors, and stands still when the order is answered.
    stand_still(&long);
    assert_eq!(world.states(), ["suspended", "waiting"]);
    assert!(world.sessions()[0].stopped && !world.started());
    assert_eq!(world.order(1, Order::Stop {}).as_deref(), Some("suspended"), "once more is the same");
    assert_eq!(world.explain(1).stops, 1);
    assert_eq!(world.order(1, Order::Resume {}).as_deref(), Some("running"));
    moves(&long);
    // Who waits can be kept from starting.
    assert_eq!(world.order(2, Order::Stop {}).as_deref(), Some("waiting"));
    drop(long);
    wait_for("the long one has ended", || world.states() == ["waiting"]);
    assert!(!world.started());
    assert_eq!(world.order(2, Order::Resume {}).as_deref(), Some("running"));
    world.tell();
    assert_eq!(short.0.wait().expect("it ends").code(), Some(7));
}

fn a_stopped_session_makes_room(world: &World) {
    let long = world.stubborn("surpass");
    let mut short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    stand_still(&long);
    assert_eq!(world.order(2, Order::Stop {}).as_deref(), Some("suspended"));
    assert_eq!(world.states(), ["running", "suspended"]);
    moves(&long);
    assert_eq!(world.order(2, Order::Resume {}).as_deref(), Some("running"));
    assert_eq!(world.states(), ["suspended", "running"]);
    stand_still(&long);
    let explained = world.explain(1);
    assert_eq!((explained.suspensions, explained.suspended_by, explained.stops), (2, vec![2], 0));
    assert_eq!(explained.holders.iter().map(|holder| holder.session).collect::<Vec<_>>(), [2]);
    world.tell();
    assert_eq!(short.0.wait().expect("it ends").code(), Some(7));
    moves(&long);
}

fn its_user_ends_a_session(world: &World) {
    let mut deaf = world.start(
        "wait",
        world.slots,
        "trap '' TERM; touch started; (setsid sh -c \"trap '' TERM; while :; do :; done\" &) ; while :; do sleep 0.01; done",
    );
    wait_for("it runs", || world.started());
    let mut waiting = world.start("wait", 1, "true");
    wait_for("the other one waits", || world.states() == ["running", "waiting"]);
    assert_eq!(world.order(2, Order::End {}), None);
    assert_eq!(waiting.0.wait().expect("it ends").code(), Some(143));
    let all = members(&deaf);
    assert_eq!(world.order(1, Order::Stop {}).as_deref(), Some("suspended"));
    // Also one that stands still, and does not want to.
    assert_eq!(world.order(1, Order::End {}), None);
    assert!(times(&all).iter().all(Option::is_none), "nothing is left");
    assert_eq!(deaf.0.wait().expect("it ends").code(), Some(137));
    assert!(world.states().is_empty());
}

fn another_policy_takes_over(world: &World) {
    let long = world.stubborn("wait");
    let mut short = world.until_told("wait");
    wait_for("the short one waits", || world.states() == ["running", "waiting"]);
    let to = |policy: &str| world.ask(ToAgent::Policy { policy: policy.into() });
    let Ok(FromAgent::Ordered { policy, session: None }) = to("surpass") else { panic!("another answer") };
    assert_eq!((&*policy, world.states()), ("surpass", vec!["suspended".to_owned(), "running".into()]));
    stand_still(&long);
    let Err(AgentError::Refused(reason)) = to("wait") else { panic!("a suspended session would run") };
    assert!(
        reason.starts_with("sessions 1 and 2 have processors in common, which wait gives to one at a time"),
        "{reason}"
    );
    assert_eq!(world.states(), ["suspended", "running"], "nothing has changed");
    to("overbook").expect("both may run");
    assert_eq!(world.states(), ["running", "running"]);
    moves(&long);
    world.tell();
    assert_eq!(short.0.wait().expect("it ends").code(), Some(7));
    to("wait").expect("one is left");
    let mut other = world.start("overbook", 1, "true");
    assert_eq!(other.0.wait().expect("it ends").code(), Some(1), "the policy is another one");
}

fn what_cannot_be_steered(world: &World) {
    let refused = |message: ToAgent| match world.ask(message) {
        Err(error) => error.to_string(),
        Ok(answer) => panic!("{answer:?}"),
    };
    let order = |session, order| ToAgent::Order { session, order };
    assert!(refused(ToAgent::Explain { session: 1 }).contains("no agent listens at"));
    let long = world.stubborn("wait");
    for message in [order(9, Order::Stop {}), order(9, Order::End {}), ToAgent::Explain { session: 9 }] {
        assert!(refused(message).starts_with("there is no session 9: `castell session list`"));
    }
    assert_eq!(refused(order(1, Order::Resume {})), "session 1 is not stopped: it runs");
    assert!(refused(ToAgent::Policy { policy: "polite".into() }).contains("`polite` is no policy"));
    // Nobody continues or ends what hears nobody.
    signal(long.0.id(), Signal::TSTP);
    wait_for("the runner is stopped, and the agent knows", || {
        is_stopped(long.0.id()) && world.sessions()[0].paused
    });
    for message in [order(1, Order::Resume {}), order(1, Order::End {})] {
        assert!(refused(message).ends_with(&format!("or with `kill -CONT {}`", long.0.id())));
    }
    signal(long.0.id(), Signal::CONT);
    wait_for("the agent knows", || !world.sessions()[0].paused);
    moves(&long);
}
