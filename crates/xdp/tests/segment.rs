//! Schedules in the kernel between hosts that are network namespaces, over real interfaces.

#[path = "../../frames/tests/hosts/mod.rs"]
mod hosts;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
mod team;
mod weather;

use castell_base::Rank;
use castell_collectives::collective::{Collective, Shape};
use castell_esp::Mac;
use castell_host::packet::{Frames, PacketSocket};
use castell_xdp::{Compiled, Group, Interface, Mode, Patience, RUNS_END, Session, XdpError};
use hosts::Hosts;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weather::{Relay, Weather};

/// Long enough for a busy machine.
const PATIENT: Patience = Patience { silence: Duration::from_secs(60), ..PATIENCE };
const PATIENCE: Patience = Patience {
    spin: Duration::ZERO,
    request: Duration::from_millis(2),
    silence: Duration::from_millis(1500),
};

/// In a network namespace of its own, and able to put programs there.
fn is_inside(name: &str) -> bool {
    match Interface::detached(Mac([2; 6])) {
        Err(error @ (XdpError::NotBuilt { .. } | XdpError::Forbidden { .. })) => {
            skipped::skip("xdp", &error.to_string());
            false
        }
        _ => hosts::is_inside(name, &["--net"]),
    }
}

const COLLECTIVES: [(&str, u64); 6] = [
    ("barrier:dissemination", 1),
    ("barrier:recursive-doubling", 1),
    ("bcast:binomial", 100),
    ("bcast:linear", 1),
    ("allreduce:recursive-doubling", 16),
    ("allreduce:linear", 3),
];

#[test]
fn collective_operations_go_on_in_the_kernel() {
    if !is_inside("collective_operations_go_on_in_the_kernel") {
        return;
    }
    let hosts = Hosts::new(8, 1500, true);
    for port in 0..8 {
        castell_host::interfaces::gather_frames(&format!("v{port}"), true).expect("a veth can");
    }
    for mode in [Mode::Native, Mode::Generic] {
        for ranks in [2, 4, 8] {
            let interfaces = team::interfaces(&hosts, ranks, mode);
            for (name, count) in COLLECTIVES {
                for deep in [1, 3] {
                    let sessions = team::sessions(&interfaces, name, count, PATIENT);
                    team::run(sessions, name, count, 40, deep);
                }
            }
            let all: Vec<_> = interfaces.iter().map(Interface::counters).collect();
            assert!(
                all.iter().any(|one| one.alone > 0) || ranks == 2,
                "frames brought frames forth: {all:?}"
            );
            assert!(all.iter().any(|one| one.cloned > 0) || ranks < 8, "some several: {all:?}");
        }
    }
}

#[test]
fn whatever_frames_suffer_the_results_are_the_same() {
    if !is_inside("whatever_frames_suffer_the_results_are_the_same") {
        return;
    }
    let hosts = Hosts::new(4, 1500, false);
    let interfaces = team::interfaces(&hosts, 4, Mode::Auto);
    for seed in 1..4 {
        println!("seed {seed}");
        let relay = Relay::start(&interfaces, Weather { lost: 0.1, doubled: 0.1, delayed: 0.1 }, seed);
        for (name, count) in COLLECTIVES {
            let sessions = team::sessions(&interfaces, name, count, PATIENT);
            team::run(sessions, name, count, 10, 2);
        }
        assert!(relay.lost.load(Ordering::Relaxed) > 0, "some frames were lost");
    }
}

#[test]
fn one_program_an_interface() {
    if !is_inside("one_program_an_interface") {
        return;
    }
    let hosts = Hosts::new(1, 1500, true);
    hosts.on(0, || {
        let open = || Interface::open("e0", Mode::Auto);
        let first = open().unwrap_or_else(|error| panic!("{error}"));
        let second = open().err().expect("an error");
        assert!(matches!(second, XdpError::Busy { .. }), "{second}");
        assert!(second.to_string().contains("`ip link show e0` names it"), "{second}");
        drop(first);
        drop(open().unwrap_or_else(|error| panic!("it is free again: {error}")));
        let none = Interface::open("nosuch0", Mode::Auto).err().expect("an error");
        assert!(matches!(none, XdpError::NoInterface { .. }), "{none}");
    });
}

#[test]
fn there_are_as_many_runs_as_numbers() {
    if !is_inside("there_are_as_many_runs_as_numbers") {
        return;
    }
    let hosts = Hosts::new(2, 1500, true);
    let interfaces = team::interfaces(&hosts, 2, Mode::Auto);
    let mut sessions = team::sessions(&interfaces, "barrier:dissemination", 1, PATIENT);
    sessions.iter_mut().for_each(|session| session.ends_before(5));
    runs_out_after_five(sessions);
}

fn runs_out_after_five(sessions: Vec<Session>) {
    std::thread::scope(|scope| {
        for mut session in sessions {
            scope.spawn(move || {
                for _ in 0..5 {
                    let run = session.start(&[]).unwrap_or_else(|error| panic!("{error}"));
                    session.wait(run).unwrap_or_else(|error| panic!("{error}"));
                }
                for _ in 0..2 {
                    let error = session.start(&[]).expect_err("there is no number left");
                    assert!(matches!(error, XdpError::Exhausted), "{error}");
                }
                session.finish().unwrap_or_else(|error| panic!("{error}"));
            });
        }
    });
}

/// The kernel's words for runs, and those of frames, up to the last that there is.
#[test]
fn the_last_runs_are_as_the_first() {
    if !is_inside("the_last_runs_are_as_the_first") {
        return;
    }
    let hosts = Hosts::new(4, 1500, false);
    let interfaces = team::interfaces(&hosts, 4, Mode::Auto);
    let _relay = Relay::start(&interfaces, Weather { lost: 0.1, doubled: 0.1, delayed: 0.1 }, 5);
    for first in [1 << 30, u32::MAX / 2 - 20, RUNS_END - 40] {
        for (name, count) in COLLECTIVES.into_iter().step_by(2) {
            let mut sessions = team::sessions(&interfaces, name, count, PATIENT);
            sessions.iter_mut().for_each(|session| session.begins_at(first));
            team::run(sessions, name, count, 40, 3);
        }
    }
    let mut sessions = team::sessions(&interfaces, "barrier:dissemination", 1, PATIENT);
    sessions.iter_mut().for_each(|session| session.begins_at(RUNS_END - 5));
    runs_out_after_five(sessions);
}

#[test]
fn other_frames_pass() {
    if !is_inside("other_frames_pass") {
        return;
    }
    let hosts = Hosts::new(2, 1500, true);
    for mode in [Mode::Native, Mode::Generic] {
        let interfaces = team::interfaces(&hosts, 2, mode);
        let socket = |host: usize| {
            hosts.on(host, || {
                let address = format!("10.9.0.{}", host + 1);
                hosts::ip(&["address", "replace", &format!("{address}/24"), "dev", "e0"]);
                UdpSocket::bind((address, 5000)).expect("its own address")
            })
        };
        let (here, there) = (socket(0), socket(1));
        for length in [0, 1, 1000, 1472] {
            here.send_to(&vec![7; length], "10.9.0.2:5000").expect("it is sent");
            let mut into = [0; 2000];
            there.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
            assert_eq!(there.recv(&mut into).expect("it comes"), length);
        }
        // Of castell's EtherType, but ESP's; then one that is for the program.
        let every = Frames::Only { ethertype: 0x88B5, pairs: &[] };
        let [from, to] =
            [0, 1].map(|host| hosts.on(host, || PacketSocket::open("e0", every).expect("a socket")));
        for version in [0x81, 1] {
            let mut frame =
                [&interfaces[1].mac().0[..], &interfaces[0].mac().0, &[0x88, 0xB5, version]].concat();
            frame.resize(100, 0);
            from.send(&frame).expect("it is sent");
        }
        let mut frame = [0; 200];
        let start = Instant::now();
        let bytes = loop {
            match to.receive(&mut frame) {
                Ok(bytes) => break bytes,
                Err(_) if start.elapsed() < Duration::from_secs(20) => {
                    std::thread::sleep(Duration::from_millis(1))
                }
                Err(error) => panic!("ESP's frame does not come: {error}"),
            }
        };
        assert_eq!((bytes, frame[14]), (100, 1), "the program keeps its own, and no other");
        assert_eq!(interfaces[1].counters().foreign, 1);
    }
}

/// Set in the process that is killed.
const VICTIM: &str = "CASTELL_TEST_VICTIM";

/// The process that is rank 1: says its address, hears rank 0's, does two barriers, and then nothing any more.
fn be_the_victim() -> ! {
    let interface = Interface::open("e0", Mode::Auto).unwrap_or_else(|error| panic!("{error}"));
    println!("mac {}", interface.mac());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("a line");
    let mut session = barrier_of_two(&interface, Rank(1), line.trim());
    for _ in 0..2 {
        let run = session.start(&[]).unwrap_or_else(|error| panic!("{error}"));
        session.wait(run).unwrap_or_else(|error| panic!("{error}"));
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}

fn barrier_of_two(interface: &Interface, me: Rank, other: &str) -> Session {
    let bytes: Vec<u8> = other.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("a byte")).collect();
    let mac = Mac(bytes.try_into().expect("six bytes"));
    let collective = Collective::new("barrier:dissemination", Shape::new(2, 1, 8)).expect("it is there");
    let compiled = Compiled::new(&team::schedule(&collective, me), me).expect("it fits");
    let group = Group { me, session: 0xDEAD_0000_BEEF, macs: vec![(Rank(1 - me.0), mac)] };
    Session::new(interface, compiled, group, PATIENCE).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn who_is_killed_is_missed_and_leaves_nothing() {
    if std::env::var_os(VICTIM).is_some() {
        be_the_victim();
    }
    if !is_inside("who_is_killed_is_missed_and_leaves_nothing") {
        return;
    }
    let hosts = Hosts::new(2, 1500, true);
    let interface = &team::interfaces(&hosts, 1, Mode::Auto)[0];
    let mut victim = hosts.on(1, || {
        let me = std::env::current_exe().expect("a program knows its path");
        let mut command = Command::new(me);
        command
            .args(["who_is_killed_is_missed_and_leaves_nothing", "--exact", "--nocapture"])
            .env(VICTIM, "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts")
    });
    let mut said =
        BufReader::new(victim.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    let mac =
        said.find_map(|line| line.split_once("mac ").map(|(_, mac)| mac.to_owned())).expect("its address");
    let mut session = barrier_of_two(interface, Rank(0), &mac);
    writeln!(victim.stdin.as_mut().expect("a pipe"), "{}", interface.mac()).expect("it reads");
    let mut start = || session.start(&[]).unwrap_or_else(|error| panic!("{error}"));
    let runs = [start(), start(), start()];
    for run in &runs[..2] {
        session.wait(*run).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(said.any(|line| line == "ready"), "it has done its part");
    let program = program_at(&hosts, 1).expect("there is a program");
    let is_loaded = || aya::programs::loaded_programs().flatten().any(|one| one.id() == program);
    assert!(is_loaded());
    victim.kill().expect("it is ours");
    victim.wait().expect("it ends");
    let error = session.wait(runs[2]).expect_err("nobody else ends it");
    assert!(matches!(error, XdpError::Silent { peer: Rank(1), .. }), "{error}");
    assert!(error.to_string().contains("waits for rank 1"), "{error}");
    assert_eq!(program_at(&hosts, 1), None, "the interface is as it was");
    let start = Instant::now();
    while is_loaded() {
        // The kernel takes its time for that.
        assert!(start.elapsed() < Duration::from_secs(60), "the program is still in the kernel");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number of the program at a host's interface.
fn program_at(hosts: &Hosts, host: usize) -> Option<u32> {
    let output =
        hosts.on(host, || Command::new("ip").args(["link", "show", "e0"]).output().expect("`ip` is there"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("e0"), "{text}");
    let (_, number) = text.split_once("prog/xdp id ")?;
    number.split_whitespace().next()?.parse().ok()
}
