//! Two processes over libfabric: who sleeps is woken, who comes late is waited for, who stops or dies is missed, and strangers are not heard.

use castell_base::{Lent, Rank};
use castell_fabric::{Fabric, FabricEndpoint, FabricError, FabricOptions, Hidden, Reach, Settings, Wish};
use castell_transport::{
    AccessError, Address, Armed, Connector, Down, Endpoint, Events, Header, Refused, RemoteKey, Sleeper,
    Token, Transport, Urgency,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Tells the second process what it is to do.
const PART: &str = "CASTELL_TEST_PART";
/// Loaded machines are normal.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: [u8; 32] = [42; 32];

fn by(provider: &str) -> FabricOptions {
    FabricOptions::by(Wish::of(provider), Reach::ThisHost)
}

#[derive(Default)]
struct Inbox {
    messages: Vec<(Header, Vec<u8>)>,
    downs: Vec<(u32, Down)>,
    completed: Vec<(Token, Result<u64, AccessError>)>,
}

impl Events for Inbox {
    fn message(&mut self, header: &Header, payload: &[u8]) {
        self.messages.push((*header, payload.to_vec()));
    }

    fn completed(&mut self, token: Token, outcome: Result<u64, AccessError>) {
        self.completed.push((token, outcome));
    }

    fn down(&mut self, peer: Rank, _delivered: u32, why: Down) {
        self.downs.push((peer.0, why));
    }
}

/// Sleeps until the transport has something, as an engine does.
fn sleep(fabric: &mut Fabric) {
    if let Armed::Fd(epoll) = fabric.arm(Sleeper::Thread) {
        let step = Timespec { tv_sec: 1, tv_nsec: 0 };
        let _ = poll(&mut [PollFd::new(&epoll, PollFlags::IN)], Some(&step));
    }
    fabric.disarm(Sleeper::Thread);
}

/// Polls and sleeps until something is so.
fn until(fabric: &mut Fabric, inbox: &mut Inbox, what: &str, mut is_so: impl FnMut(&Inbox) -> bool) {
    let since = Instant::now();
    while !is_so(inbox) {
        assert!(since.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}; {:?}", fabric.counters());
        if fabric.poll(64, inbox) == 0 {
            sleep(fabric);
        }
    }
}

fn send(fabric: &mut Fabric, to: &mut FabricEndpoint, inbox: &mut Inbox, sequence: u32, payload: &[u8]) {
    let header =
        Header { kind: 7, sequence, bytes: payload.len() as u32, tag: !sequence, ..Header::default() };
    let since = Instant::now();
    loop {
        match to.try_send(&header, payload) {
            Ok(()) => break,
            Err(Refused::Down) => panic!("the path is down: {:?}, {:?}", inbox.downs, fabric.trouble()),
            Err(Refused::Full) => {
                assert!(since.elapsed() < PATIENCE, "it stays full; {:?}", fabric.counters());
                if fabric.poll(64, inbox) == 0 {
                    sleep(fabric);
                }
            }
        }
    }
    to.flush(Urgency::NOW);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Box<[u8]> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len() / 2).map(|at| byte(2 * at)).collect()
}

/// The other process: rank 1.
struct Other {
    child: Child,
    address: Address,
}

impl Other {
    /// Starts it, and tells it where rank 0 is.
    fn start(part: &str, provider: &str, at: &Address) -> Other {
        let me = std::env::current_exe().expect("a program knows its path");
        let mut child = Command::new(me)
            .args(["the_other_process", "--exact", "--nocapture", "--test-threads=1"])
            .env(PART, format!("{part} {provider} {}", hex(&at.0)))
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let found = lines.map_while(Result::ok).find_map(|line| {
            line.split_once("castell-address ").map(|(_, text)| Address(unhex(text.trim())))
        });
        Other { child, address: found.expect("it tells its address") }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it is there");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the second process does; nothing, if this is the first.
#[test]
fn the_other_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let words: Vec<&str> = part.split(' ').collect();
    let [part, provider, at] = words[..] else { panic!("{words:?}") };
    let (secret, rank) = if part == "stranger" { ([43; 32], Rank(1)) } else { (SECRET, Rank(1)) };
    let mut fabric = Fabric::new(rank, 2, &secret, &by(provider)).unwrap_or_else(|error| panic!("{error}"));
    println!("castell-address {}", hex(&fabric.address().0));
    let mut out = fabric.connector().connect(Rank(0), &Address(unhex(at))).expect("a way");
    let mut inbox = Inbox::default();
    if part == "stranger" {
        let header = Header { kind: 7, bytes: 3, ..Header::default() };
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(1) {
            let _ = out.try_send(&header, b"let");
            fabric.poll(64, &mut inbox);
            std::thread::sleep(Duration::from_millis(5));
        }
        return;
    }
    // An echo, until the other leaves; the number of looks goes with each answer.
    let mut looks = 0_u32;
    let mut sent = 0;
    while inbox.downs.is_empty() {
        looks += 1;
        if fabric.poll(64, &mut inbox) == 0 {
            sleep(&mut fabric);
        }
        for (header, payload) in std::mem::take(&mut inbox.messages) {
            assert_eq!(header.source, 0);
            let mut answer = looks.to_le_bytes().to_vec();
            answer.extend_from_slice(&payload);
            send(&mut fabric, &mut out, &mut inbox, sent, &answer);
            sent += 1;
        }
    }
}

/// Both are there, and the other has answered once.
fn pair(provider: &str, options: &FabricOptions) -> (Fabric, FabricEndpoint, Inbox, Other) {
    let mut fabric = Fabric::new(Rank(0), 2, &SECRET, options).unwrap_or_else(|error| panic!("{error}"));
    let other = Other::start("echo", provider, &fabric.address());
    let mut out = fabric.connector().connect(Rank(1), &other.address).expect("a way");
    let mut inbox = Inbox::default();
    send(&mut fabric, &mut out, &mut inbox, 0, b"hello");
    until(&mut fabric, &mut inbox, "the first answer", |inbox| !inbox.messages.is_empty());
    (fabric, out, inbox, other)
}

fn echoes(provider: &str, looks_max: Option<u32>) {
    let (mut fabric, mut out, mut inbox, _other) = pair(provider, &by(provider));
    let longest = fabric.limits().message_bytes_max - 4;
    for turn in 1..100_usize {
        // Each time the other sleeps by then.
        std::thread::sleep(Duration::from_millis(3));
        let bytes = [0, 1, 8, 100, 5000, longest][turn % 6];
        let payload: Vec<u8> = (0..bytes).map(|at| (at * turn) as u8).collect();
        send(&mut fabric, &mut out, &mut inbox, turn as u32, &payload);
        until(&mut fabric, &mut inbox, "an answer", |inbox| inbox.messages.len() > turn);
        let (header, answer) = &inbox.messages[turn];
        assert_eq!((header.source, header.sequence), (1, turn as u32));
        assert!(answer[4..] == payload[..], "turn {turn}");
    }
    let looks = |inbox: &Inbox| {
        let (_, answer) = inbox.messages.last().expect("an answer");
        u32::from_le_bytes(*answer.first_chunk().expect("looks"))
    };
    // It does not look all the time: now nothing is to be seen for a while.
    let before = looks(&inbox);
    std::thread::sleep(Duration::from_millis(500));
    send(&mut fabric, &mut out, &mut inbox, 100, b"once more");
    until(&mut fabric, &mut inbox, "the last answer", |inbox| inbox.messages.len() > 100);
    let looked = looks(&inbox) - before;
    assert!(
        looks_max.is_none_or(|most| looked <= most),
        "{provider}: {looked} looks in half a second of nothing"
    );
    fabric.leave();
    until(&mut fabric, &mut inbox, "the end", |_| true);
    let since = Instant::now();
    while !fabric.has_left() {
        assert!(since.elapsed() < PATIENCE, "the other does not take the end");
        fabric.poll(64, &mut inbox);
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn who_sleeps_is_woken_over_tcp() {
    echoes("tcp;ofi_rxm", Some(40));
}

#[test]
fn who_sleeps_is_woken_over_udp() {
    echoes("udp;ofi_rxd", None);
}

/// It has nothing to sleep on: ranks look once in a while.
#[test]
fn who_sleeps_looks_again_over_shared_memory() {
    echoes("shm", None);
}

fn impatient(provider: &str) -> FabricOptions {
    let settings = Settings { note_ns: 700_000_000, silence_ns: 2_500_000_000, ..Settings::default() };
    FabricOptions { settings, ..by(provider) }
}

#[test]
fn a_process_that_stops_is_missed() {
    for provider in ["tcp;ofi_rxm", "udp;ofi_rxd"] {
        let (mut fabric, mut out, mut inbox, other) = pair(provider, &impatient(provider));
        other.signal(rustix::process::Signal::STOP);
        until(&mut fabric, &mut inbox, "the end", |inbox| !inbox.downs.is_empty());
        assert_eq!(inbox.downs, [(1, Down::PathLost)], "{provider}");
        let header = Header { kind: 1, ..Header::default() };
        assert_eq!(out.try_send(&header, &[]), Err(Refused::Down));
        other.signal(rustix::process::Signal::CONT);
    }
}

#[test]
fn a_process_that_is_killed_is_missed_and_who_knows_why_is_believed() {
    let (mut fabric, _out, mut inbox, mut other) = pair("tcp;ofi_rxm", &by("tcp;ofi_rxm"));
    other.child.kill().expect("it is there");
    other.child.wait().expect("it has ended");
    fabric.is_gone(Rank(1), Down::Died);
    until(&mut fabric, &mut inbox, "the end", |inbox| !inbox.downs.is_empty());
    assert_eq!(inbox.downs, [(1, Down::Died)]);
    // Nobody says anything: silence does.
    let (mut fabric, _out, mut inbox, mut other) = pair("tcp;ofi_rxm", &impatient("tcp;ofi_rxm"));
    other.child.kill().expect("it is there");
    other.child.wait().expect("it has ended");
    until(&mut fabric, &mut inbox, "the end", |inbox| !inbox.downs.is_empty());
    assert_eq!(inbox.downs, [(1, Down::PathLost)]);
}

#[test]
fn who_comes_late_is_waited_for() {
    let mut fabric = Fabric::new(Rank(0), 2, &SECRET, &by("tcp;ofi_rxm")).expect("a provider");
    let other = Other::start("echo", "tcp;ofi_rxm", &fabric.address());
    other.signal(rustix::process::Signal::STOP);
    let mut out = fabric.connector().connect(Rank(1), &other.address).expect("a way");
    let mut inbox = Inbox::default();
    let header = Header { kind: 7, ..Header::default() };
    for _ in 0..100 {
        assert_eq!(out.try_send(&header, &[]), Err(Refused::Full), "nobody has answered yet");
        fabric.poll(64, &mut inbox);
        std::thread::sleep(Duration::from_millis(5));
    }
    other.signal(rustix::process::Signal::CONT);
    send(&mut fabric, &mut out, &mut inbox, 0, b"at last");
    until(&mut fabric, &mut inbox, "an answer", |inbox| !inbox.messages.is_empty());
    assert_eq!(&inbox.messages[0].1[4..], b"at last");
}

/// Who does not know the secret is dropped, and counted, and harms nobody.
#[test]
fn strangers_are_not_heard() {
    let mut fabric = Fabric::new(Rank(0), 2, &SECRET, &by("tcp;ofi_rxm")).expect("a provider");
    let stranger = Other::start("stranger", "tcp;ofi_rxm", &fabric.address());
    let mut inbox = Inbox::default();
    let since = Instant::now();
    while fabric.counters().strangers < 3 {
        assert!(since.elapsed() < PATIENCE, "the stranger does not knock");
        fabric.poll(64, &mut inbox);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(inbox.messages.is_empty() && inbox.downs.is_empty());
    assert_eq!(fabric.counters().met, 0);
    // The real one is heard nevertheless.
    let other = Other::start("echo", "tcp;ofi_rxm", &fabric.address());
    let mut out = fabric.connector().connect(Rank(1), &other.address).expect("a way");
    send(&mut fabric, &mut out, &mut inbox, 0, b"friend");
    until(&mut fabric, &mut inbox, "an answer", |inbox| !inbox.messages.is_empty());
    assert_eq!((&inbox.messages[0].1[4..], fabric.counters().met), (&b"friend"[..], 1));
    drop(stranger);
}

/// Two ranks of this process.
fn two(options: &FabricOptions) -> [(Fabric, Inbox); 2] {
    [0, 1].map(|rank| {
        let fabric = Fabric::new(Rank(rank), 2, &SECRET, options).unwrap_or_else(|error| panic!("{error}"));
        (fabric, Inbox::default())
    })
}

fn get(ends: &mut [(Fabric, Inbox); 2], out: &mut FabricEndpoint, key: &RemoteKey, into: Lent, token: Token) {
    let since = Instant::now();
    let mut has_begun = false;
    while !ends[0].1.completed.iter().any(|(ended, _)| *ended == token) {
        assert!(since.elapsed() < PATIENCE, "a get does not end");
        if !has_begun {
            match out.get(key, 0, into, token) {
                Ok(_) => has_begun = true,
                Err(AccessError::Full) => {}
                Err(error) => panic!("{error}"),
            }
        }
        out.flush(Urgency::NOW);
        for (fabric, inbox) in ends.iter_mut() {
            fabric.poll(64, inbox);
        }
        std::thread::yield_now();
    }
    assert_eq!(ends[0].1.completed.last(), Some(&(token, Ok(0))));
}

fn map(at: *mut std::ffi::c_void, bytes: usize) -> *mut u8 {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let flags = if at.is_null() { MapFlags::PRIVATE } else { MapFlags::PRIVATE | MapFlags::FIXED };
    // SAFETY: new memory, or at a place that was unmapped just now.
    unsafe { mmap_anonymous(at, bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }.expect("memory").cast()
}

fn unmap(memory: *mut u8, bytes: usize) {
    // SAFETY: mapped above, and nobody uses it any more.
    unsafe { rustix::mm::munmap(memory.cast(), bytes) }.expect("it was mapped");
}

/// Nothing remembers memory that is not there any more: at the same addresses there is new memory each time, on both sides.
#[test]
fn memory_that_is_mapped_again_is_new_memory() {
    const BYTES: usize = 1 << 20;
    let none = Hidden::default();
    for hidden in [none, Hidden { wants_registration: true, ..none }, Hidden { remote_access: true, ..none }]
    {
        let mut ends = two(&FabricOptions { hidden, ..by("tcp;ofi_rxm") });
        let address = ends[1].0.address();
        let mut out = ends[0].0.connector().connect(Rank(1), &address).expect("a way");
        let (mut there, mut here) = (map(std::ptr::null_mut(), BYTES), map(std::ptr::null_mut(), BYTES));
        for turn in 0..10_u64 {
            // SAFETY: so many bytes, mapped just now, which nobody else uses.
            let lend = |memory: *mut u8| unsafe { Lent::new(memory, BYTES) };
            let content: Vec<u8> = (0..BYTES).map(|at| (at as u64 ^ (turn * 37)) as u8).collect();
            lend(there).write(0, &content);
            let key = ends[1].0.export(lend(there)).expect("a key");
            get(&mut ends, &mut out, &key, lend(here), Token(turn));
            let mut found = vec![0; BYTES];
            lend(here).read(0, &mut found);
            assert!(found == content, "turn {turn}, {hidden:?}");
            ends[1].0.withdraw(&key);
            for memory in [&mut there, &mut here] {
                unmap(*memory, BYTES);
                let again = map(memory.cast(), BYTES);
                assert_eq!(again, *memory);
            }
        }
    }
}

/// An address of another provider's is told with both names.
#[test]
fn providers_that_do_not_go_together_are_told() {
    let mut tcp = Fabric::new(Rank(0), 2, &SECRET, &by("tcp;ofi_rxm")).expect("a provider");
    let udp = Fabric::new(Rank(1), 2, &SECRET, &by("udp;ofi_rxd")).expect("a provider");
    let refused = tcp.connector().connect(Rank(1), &udp.address()).err().expect("no way").to_string();
    assert!(refused.contains("udp;ofi_rxd") && refused.contains("tcp;ofi_rxm"), "{refused}");
    assert!(tcp.connector().route(&udp.address()).is_none());
    let options = FabricOptions { libfabric: Some("/nowhere/libfabric.so.1".into()), ..by("") };
    let Err(FabricError::Offer(error)) = Fabric::new(Rank(0), 2, &SECRET, &options) else {
        panic!("no library")
    };
    assert!(error.to_string().contains("CASTELL_LIBFABRIC"), "{error}");
}
