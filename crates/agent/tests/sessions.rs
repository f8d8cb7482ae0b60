//! Sessions on this host, with real programs: suspended ones stand still, whatever their processes do, and nothing stays frozen,
//! whoever dies. The test starts itself as runner (`run`) and as agent (`agent`).

mod groups;
mod lost;
mod processors;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
mod still;

use castell_agent::{
    AgentError, Asked, Life, MARK, NO_MARK, Options, Place, Tree, list, mark_of, named_in, run, serve, steer,
};
use castell_host::mailbox::{Agent, FOLDER, Mailbox, Place as At, default_path, found_in};
use castell_host::topology::{Processors, parse_list};
use castell_host::users::Others;
use castell_policy::session::protocol::{
    Explained, FromAgent, Order, Shown, ToAgent, VERSION, Wanted, encode,
};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("run") => as_runner(&arguments[2..]),
        Some("agent") => as_agent(&arguments[2], Life::Idle(Duration::from_secs(1))),
        Some("lasting") => as_agent(&arguments[2], Life::Lasting),
        Some("measuring-agent") => still::as_agent(&arguments[2]),
        Some("workers") => as_workers(Path::new(&arguments[2])),
        Some("session") => {
            let folders: Vec<_> = arguments[3..].iter().map(Into::into).collect();
            castell_agent::guard(&folders, std::io::stdin()).expect("a guard");
        }
        _ => tests(arguments.get(1).map_or("", String::as_str)),
    }
}

/// A program that listens as castell's tasks do, and writes down how many of its workers run.
fn as_workers(file: &Path) {
    let path = default_path(Path::new(FOLDER), std::process::id());
    assert_eq!(std::env::var("CASTELL_TASKS_MAILBOX").as_deref(), Ok("1"));
    let count = Processors::usable().cpus.len();
    let mailbox = Mailbox::create(&path, &vec![At { cpu: None, kind: 0 }; count]).expect("a mailbox");
    loop {
        let attended = mailbox.attend(|_, _| true);
        let running =
            Agent::open(&path).expect("it is there").workers().iter().filter(|it| it.enabled).count();
        fs::write(file.with_extension("new"), running.to_string()).expect("a file");
        fs::rename(file.with_extension("new"), file).expect("a file");
        mailbox.sleep(attended);
    }
}

fn as_agent(socket: &str, life: Life) {
    let rules = "wait".parse().expect("a policy");
    let others = Others::Nobody;
    let (place, ready) = (&Place::at(socket), Box::new(|| {}));
    let options = Options {
        place,
        rules,
        others,
        life,
        allocation: None,
        watcher: None,
        foresight: None,
        stills: None,
        ready,
    };
    serve(options).expect("an agent");
}

/// `run SOCKET POLICY SLOTS CMD…`
fn as_runner(arguments: &[String]) {
    let place = Place::at(&arguments[0]);
    let slots = arguments[2].parse().expect("a number");
    let wanted = Wanted {
        slots,
        policy: Some(arguments[1].clone()),
        unprobed: std::env::var_os("UNPROBED").is_some(),
        ..Wanted::default()
    };
    let asked = Asked {
        command: arguments[3..].iter().map(OsString::from).collect(),
        wanted,
        allocation: None,
        castell: std::env::current_exe().expect("a program"),
    };
    let start = || {
        if place.socket.with_extension("no-agent").exists() {
            return Err(std::io::Error::other("there shall be none"));
        }
        let program = std::env::current_exe()?;
        // As a daemon is: in a session of its own, and nobody's child for long.
        let mut starter = Command::new("setsid");
        starter
            .arg("--fork")
            .arg(program)
            .arg("agent")
            .arg(&place.socket)
            .env(MARK, NO_MARK)
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
    let cases: [Case; 29] = [
        ("suspended sessions stand still", suspended_sessions_stand_still),
        ("a killed runner leaves nothing", a_killed_runner_leaves_nothing),
        ("sessions outlive their agent", sessions_outlive_their_agent),
        ("runners know what they have", lost::runners_know_what_they_have),
        ("who was stopped or stepped aside stays so", lost::who_was_stopped_or_stepped_aside_stays_so),
        ("who waits keeps its turn", who_waits_keeps_its_turn),
        ("an agent hands over", an_agent_hands_over),
        ("without any agent all go on", without_any_agent_all_go_on),
        ("agents killed at any moment", agents_killed_at_any_moment),
        ("clients that do as they like", clients_that_do_as_they_like),
        ("killed runner and agent leave nothing frozen", killed_runner_and_agent_leave_nothing_frozen),
        ("stopping and continuing the runner", stopping_and_continuing_the_runner),
        ("waiting, and giving up", waiting_and_giving_up),
        ("stepping aside", stepping_aside),
        ("workers step aside", workers_step_aside),
        ("processors come and go", processors::come_and_go),
        ("processors are taken from sessions that run", processors::are_taken_from_sessions_that_run),
        ("nobody leaves its processors", groups::nobody_leaves_its_processors),
        ("launchers bind inside", groups::launchers_bind_inside),
        ("bound programs step aside", groups::bound_programs_step_aside),
        ("nobody leaves groups", groups::nobody_leaves_groups),
        ("killed agents leave nobody standing", still::killed_agents_leave_nobody_standing),
        ("moments touch nobody else", still::moments_touch_nobody_else),
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

/// What has not happened in so many looks never will: with many trials, an agent on busy processors has minutes of work in front of it.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let looks = 6_000 * number("CASTELL_TEST_TRIALS").unwrap_or(1).max(1);
    let is_there = (0..looks).any(|_| {
        let is_so = is_so();
        if !is_so {
            sleep(Duration::from_millis(10));
        }
        is_so
    });
    assert!(is_there, "looked {looks} times in vain: {what}");
}

/// The processes of a session, but for those that have ended and are not waited for as yet.
fn members(session: &Running) -> Vec<u32> {
    let all = Tree::of(session.0.id()).map_or_else(Vec::new, |tree| tree.members());
    let times = times(&all);
    all.into_iter().zip(times).filter_map(|(pid, time)| time.map(|_| pid)).collect()
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

/// Who is suspended stays so while there is no agent, and goes on when its turn comes under the next one, which runners start.
fn sessions_outlive_their_agent(world: &World) {
    let mut long = world.stubborn("surpass");
    let short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    stand_still(&long);
    let before = world.sessions();
    signal(agent(&world.place.socket), Signal::KILL);
    wait_for("there is another agent", || world.sessions().len() == 2);
    stand_still(&long);
    let after = world.sessions();
    let known = |shown: &Shown| (shown.session, shown.state.clone(), shown.pid, shown.parts.clone());
    assert_eq!(after.iter().map(known).collect::<Vec<_>>(), before.iter().map(known).collect::<Vec<_>>());
    assert!(after[1].for_ms > before[1].for_ms, "time goes on");
    let third = world.start("surpass", world.slots, "sleep 0.1; exit 5");
    assert_eq!(wait(third), Some(5), "it surpasses both, and ends");
    wait_for("they are as before", || world.states() == ["suspended", "running"]);
    world.tell();
    assert_eq!(wait(short), Some(7));
    wait_for("the long one runs again", || world.states() == ["running"]);
    moves(&long);
    signal(long.0.id(), Signal::TERM);
    assert_eq!(long.0.wait().expect("it ends").code(), Some(143));
}

fn wait(mut session: Running) -> Option<i32> {
    session.0.wait().expect("it ends").code()
}

/// Whoever waits does not lose its turn; whose runner dies while there is no agent is seen to by the next one.
fn who_waits_keeps_its_turn(world: &World) {
    let long = world.stubborn("wait");
    let next = world.start("wait", world.slots, "exit 4");
    wait_for("it waits", || world.states() == ["running", "waiting"]);
    let last = world.start("wait", world.slots, "exit 5");
    wait_for("both wait", || world.states() == ["running", "waiting", "waiting"]);
    let all = members(&long);
    signal(agent(&world.place.socket), Signal::KILL);
    signal(long.0.id(), Signal::KILL);
    assert_eq!((wait(next), wait(last)), (Some(4), Some(5)));
    assert!(times(&all).iter().all(Option::is_none), "nothing is left of the first");
}

/// Who is to last gets the sessions from whoever has them.
fn an_agent_hands_over(world: &World) {
    let long = world.stubborn("surpass");
    let short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    let first = agent(&world.place.socket);
    let mut lasting = Command::new(std::env::current_exe().expect("a program"));
    let lasting = Running(lasting.arg("lasting").arg(&world.place.socket).spawn().expect("it starts"));
    wait_for("the first one has ended", || times(&[first]) == [None]);
    wait_for("the other one knows all", || world.states() == ["suspended", "running"]);
    stand_still(&long);
    world.tell();
    assert_eq!(wait(short), Some(7));
    wait_for("the long one runs again", || world.states() == ["running"]);
    moves(&long);
    drop(lasting);
    wait_for("its runner starts another one", || world.states() == ["running"]);
}

/// Where nobody can be an agent nothing stays frozen, and the next one finds what there is.
fn without_any_agent_all_go_on(world: &World) {
    let long = world.stubborn("surpass");
    let short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    let obstacle = world.place.socket.with_extension("no-agent");
    fs::write(&obstacle, "").expect("a file");
    signal(agent(&world.place.socket), Signal::KILL);
    moves(&long);
    world.tell();
    assert_eq!(wait(short), Some(7));
    fs::remove_file(&obstacle).expect("it is there");
    assert_eq!(wait(world.start("surpass", world.slots, "exit 3")), Some(3));
    wait_for("the long one is known", || world.states() == ["running"]);
    moves(&long);
}

/// Agents are killed at any moment, while sessions come and go.
fn agents_killed_at_any_moment(world: &World) {
    let trials: u64 = number("CASTELL_TEST_TRIALS").unwrap_or(1);
    let mut random = Random::new();
    let mut below = |limit| random.below(limit);
    let mut running: Vec<(Running, i32)> = Vec::new();
    let mut kills = 0;
    for round in 0..30 * trials {
        let slots = 1 + below(world.slots as u64) as usize;
        let code = 2 + below(100) as i32;
        let script = format!("sleep 0.{:03}; exit {code}", below(60));
        running.push((world.start("surpass", slots, &script), code));
        sleep(Duration::from_millis(below(40)));
        if round % 2 == 0
            && let Some(agent) = find_agent(&world.place.socket)
        {
            signal(agent, Signal::KILL);
            kills += 1;
        }
        if running.len() > 6 {
            let (session, code) = running.remove(0);
            assert_eq!(wait(session), Some(code), "after {kills} kills");
        }
    }
    for (session, code) in running {
        assert_eq!(wait(session), Some(code), "after {kills} kills");
    }
    wait_for("nothing is left", || world.sessions().is_empty());
    println!("trial: {kills} agents of sessions killed at any moment; sessions 0");
}

/// Clients of all kinds, most of which do not know how to behave: nothing of them stays.
fn clients_that_do_as_they_like(world: &World) {
    let trials: u64 = number("CASTELL_TEST_TRIALS").unwrap_or(1);
    let mut random = Random::new();
    let session = world.until_told("surpass");
    wait_for("it runs", || world.started());
    // No process of this user has this number and began then.
    let mark = |which: u64| format!("{}-{which}@{}", i32::MAX, castell_agent::here());
    let mut kept = Vec::new();
    for which in 0..500 * trials {
        let Ok(mut stream) = UnixStream::connect(&world.place.socket) else { panic!("the agent has died") };
        let run = Wanted { slots: 1, pid: 1, mark: mark(which), ..Wanted::default() };
        let messages = [
            ToAgent::Hello { version: VERSION + random.below(2) as u32 },
            ToAgent::Run(Box::new(run)),
            ToAgent::Run(Box::new(Wanted {
                slots: u32::MAX,
                spawned_by: Some(mark(0)),
                ..Wanted::default()
            })),
            ToAgent::Return {
                mark: mark(which),
                started: true,
                suspended: true,
                paused: false,
                parts: Vec::new(),
                known: Box::default(),
            },
            ToAgent::Join { mark: mark(which) },
            ToAgent::Paused { paused: true },
            ToAgent::Done {},
            ToAgent::Ended {},
            ToAgent::List {},
            ToAgent::Order { session: random.below(20), order: Order::Priority { priority: 3 } },
            ToAgent::Policy { policy: "nonsense".into() },
            ToAgent::Explain { session: 1 },
        ];
        if random.below(4) > 0 {
            let _ = stream.write_all(&encode(&ToAgent::Hello { version: VERSION }));
        }
        for _ in 0..random.below(6) {
            let message = encode(&messages[random.below(messages.len() as u64) as usize]);
            let cut = if random.below(8) == 0 {
                random.below(message.len() as u64) as usize
            } else {
                message.len()
            };
            // It may have been sent away.
            let _ = stream.write_all(&message[..cut]);
        }
        if random.below(8) == 0 {
            let _ = stream.write_all(&random.below(u64::MAX).to_le_bytes());
        }
        match random.below(10) {
            0 => kept.push(stream),
            1 => drop(kept.pop()),
            _ => {}
        }
    }
    drop(kept);
    wait_for("nothing is left of them", || world.states() == ["running"]);
    world.tell();
    assert_eq!(wait(session), Some(7));
    wait_for("nothing is left", || world.sessions().is_empty());
    println!("trial: {} clients of sessions that say anything; sessions 0", 500 * trials);
}

/// Numbers that follow from a seed, which is printed.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let seed = number("CASTELL_TEST_SEED").unwrap_or_else(|| u64::from(std::process::id()));
        println!("CASTELL_TEST_SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
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
    let mut next = world.start("surpass", 1, "exit 3");
    assert_eq!(next.0.wait().expect("it ends").code(), Some(3));
    wait_for("all of its processes have ended", || times(&all).iter().all(Option::is_none));
}

fn agent(socket: &Path) -> u32 {
    find_agent(socket).expect("an agent")
}

/// The process that is the agent of a socket, if there is one.
fn find_agent(socket: &Path) -> Option<u32> {
    let wanted = format!("agent\0{}\0", socket.display());
    let processes = fs::read_dir("/proc")
        .expect("processes")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_agent = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).ends_with(&wanted)
    };
    processes.into_iter().find(is_agent)
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

/// The processors that are allowed to all of a session's processes.
fn allowed(session: &Running) -> Vec<Vec<u32>> {
    let list = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        parse_list(line.trim()).ok()
    };
    members(session).into_iter().filter_map(list).collect()
}

fn stepping_aside(world: &World) {
    if world.slots < 2 {
        skipped::skip("one-processor", "stepping aside: there is nowhere to step");
        return;
    }
    let long = world.stubborn("sidestep");
    let allowed = || allowed(&long);
    let have_all = || allowed().iter().all(|cpus| cpus.len() == world.slots);
    assert!(have_all());
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
    wait_for("they are back", have_all);
}

/// Programs of castell's tasks run as many workers as their session has processors.
fn workers_step_aside(world: &World) {
    if world.slots < 2 {
        skipped::skip("one-processor", "workers step aside: there is nowhere to step");
        return;
    }
    let me = std::env::current_exe().expect("a program");
    let long = world.start("sidestep", world.slots, &format!("{} workers running", me.display()));
    let running = || fs::read_to_string(world.folder.path().join("running")).unwrap_or_default();
    wait_for("all of them run", || running() == world.slots.to_string());
    let short = world.until_told("sidestep");
    wait_for("one has none any more", || running() == (world.slots - 1).to_string());
    world.tell();
    assert_eq!(wait(short), Some(7));
    wait_for("all of them run again", || running() == world.slots.to_string());
    // Whom somebody has taken away by hand comes back only by hand, however the session moves.
    let program = found_in(Path::new(FOLDER)).expect("a folder");
    let program = program.iter().filter_map(|path| Agent::open(path).ok());
    let of_it = |it: &Agent| mark_of(it.owner() as i32).and_then(|mark| named_in(&mark)) == Some(long.0.id());
    let program = { program }.find(of_it).expect("it listens");
    let mark = mark_of(program.owner() as i32).expect("it is of a session");
    let count = || {
        let steered = steer(&world.place, None, &[ToAgent::Count { mark: mark.clone() }]);
        assert!(matches!(steered, Ok(FromAgent::Ordered { session: Some(_), .. })), "{steered:?}");
    };
    program.hold(&[0], &[]).expect("there is such a worker");
    count();
    wait_for("one is taken by hand", || running() == (world.slots - 1).to_string());
    assert!(!program.workers()[0].wanted);
    let short = world.until_told("sidestep");
    world.tell();
    assert_eq!(wait(short), Some(7));
    assert_eq!(running(), (world.slots - 1).to_string());
    program.hold(&[], &[0]).expect("there is such a worker");
    count();
    wait_for("it is given back", || running() == world.slots.to_string());
    signal(long.0.id(), Signal::TERM);
    assert_eq!(wait(long), Some(143));
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
    let Ok(FromAgent::Ordered { policy, session: None, .. }) = to("surpass") else {
        panic!("another answer")
    };
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
