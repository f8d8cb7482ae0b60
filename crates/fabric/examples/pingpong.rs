//! What 8 bytes take one way over a provider, between two processes, as plain and as tagged messages, spinning and sleeping; and what gets of 64 KiB
//! and 1 MiB take.
//!
//! `cargo run --release -p castell-fabric --example pingpong -- 'tcp;ofi_rxm' [DEVICE]`. What is in `PINGPONG_WITH` stands before the second
//! process's command, such as `ip netns exec other`.

use castell_base::{Lent, Rank};
use castell_fabric::{Fabric, FabricEndpoint, FabricOptions, Reach, Wish};
use castell_transport::{
    AccessError, Address, Armed, Connector, Down, Endpoint, Events, Header, RemoteKey, Sleeper, Token,
    Transport, Urgency,
};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

const OTHER: &str = "--other";
const LARGE_BYTES: usize = 1 << 20;
const ROUNDS: usize = 5000;

#[derive(Default)]
struct Inbox {
    came: usize,
    last: Vec<u8>,
    completed: u64,
    is_over: bool,
}

impl Events for Inbox {
    fn message(&mut self, _header: &Header, payload: &[u8]) {
        self.came += 1;
        self.last.clear();
        self.last.extend_from_slice(payload);
    }

    fn completed(&mut self, _token: Token, outcome: Result<u64, AccessError>) {
        outcome.expect("a get ends well");
        self.completed += 1;
    }

    fn down(&mut self, _peer: Rank, _delivered: u32, _why: Down) {
        self.is_over = true;
    }
}

/// One of the two.
struct End {
    fabric: Fabric,
    out: FabricEndpoint,
    inbox: Inbox,
    sleeps: bool,
}

impl End {
    fn until(&mut self, is_so: impl Fn(&Inbox) -> bool) {
        while !is_so(&self.inbox) {
            if self.fabric.poll(64, &mut self.inbox) > 0 || !self.sleeps {
                continue;
            }
            if let Armed::Fd(epoll) = self.fabric.arm(Sleeper::Thread) {
                let _ = poll(&mut [PollFd::new(&epoll, PollFlags::IN)], None);
            }
            self.fabric.disarm(Sleeper::Thread);
        }
    }

    fn send(&mut self, payload: &[u8]) {
        let header = Header { kind: 1, bytes: payload.len() as u32, ..Header::default() };
        while self.out.try_send(&header, payload).is_err() {
            self.fabric.poll(64, &mut self.inbox);
        }
        self.out.flush(Urgency::NOW);
    }

    /// Microseconds that one there and back takes.
    fn round(&mut self) -> f64 {
        let (since, came) = (Instant::now(), self.inbox.came);
        self.send(&[7; 8]);
        self.until(|inbox| inbox.came > came);
        since.elapsed().as_secs_f64() * 1e6
    }

    fn get(&mut self, key: &RemoteKey, into: Lent) -> f64 {
        let (since, completed) = (Instant::now(), self.inbox.completed);
        while self.out.get(key, 0, into, Token(completed)).is_err() {
            self.fabric.poll(64, &mut self.inbox);
        }
        self.out.flush(Urgency::NOW);
        self.until(|inbox| inbox.completed > completed);
        since.elapsed().as_secs_f64() * 1e6
    }
}

fn to_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn address_of(text: &str) -> Address {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    Address((0..text.len() / 2).map(|at| byte(2 * at)).collect())
}

/// Provider, way, and perhaps a device.
fn join(me: u32, words: &[String]) -> Fabric {
    let wish = Wish { provider: Some(words[0].clone()), domain: words.get(2).cloned() };
    let reach = if wish.domain.is_some() { Reach::OtherHosts } else { Reach::ThisHost };
    let options =
        FabricOptions { prefers_tagged: words[1].contains("tagged"), ..FabricOptions::by(wish, reach) };
    Fabric::new(Rank(me), 2, &[1; 32], &options).unwrap_or_else(|error| panic!("{error}"))
}

/// Answers what comes; the first answer is the key of some memory.
fn other(words: &[String]) {
    let mut fabric = join(1, words);
    println!("{}", to_hexadecimal(&fabric.address().0));
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("an address");
    let out = fabric.connector().connect(Rank(0), &address_of(line.trim())).expect("a way");
    let key = fabric.export(Lent::leak(LARGE_BYTES)).expect("a key").to_bytes();
    let mut end = End { fabric, out, inbox: Inbox::default(), sleeps: words[1].contains("sleeping") };
    let mut answered = 0;
    loop {
        end.until(|inbox| inbox.came > answered || inbox.is_over);
        if end.inbox.is_over {
            return;
        }
        end.send(if answered == 0 { &key } else { &[7; 8] });
        answered += 1;
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn measure(words: &[String]) {
    let mut fabric = join(0, words);
    let me = std::env::current_exe().expect("a program knows its path");
    let before = std::env::var("PINGPONG_WITH").unwrap_or_default();
    let mut command: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
    command.extend([me.to_string_lossy().into_owned(), OTHER.to_owned()]);
    command.extend_from_slice(words);
    let child =
        Command::new(&command[0]).args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("an address");
    writeln!(child.stdin.as_mut().expect("a pipe"), "{}", to_hexadecimal(&fabric.address().0))
        .expect("it reads");
    let out = fabric.connector().connect(Rank(1), &address_of(line.trim())).expect("a way");
    let mut end = End { fabric, out, inbox: Inbox::default(), sleeps: words[1].contains("sleeping") };
    end.round();
    let key = RemoteKey::from_bytes(*end.inbox.last.first_chunk().expect("a key"));
    let memory = Lent::leak(LARGE_BYTES);
    let mut told = format!("{}, {}:", words[0], words[1]);
    let eight: Vec<f64> = (0..ROUNDS).map(|_| end.round() / 2.0).collect();
    told += &format!(" 8 B one way {:.2} us", median(eight));
    for bytes in [64 << 10, LARGE_BYTES] {
        let into = memory.part(0, bytes as u64).expect("inside");
        let gets: Vec<f64> = (0..ROUNDS / 10).map(|_| end.get(&key, into)).collect();
        told += &format!(", get of {} KiB {:.1} us", bytes >> 10, median(gets));
    }
    println!("{told}");
    end.fabric.leave();
    while !end.fabric.has_left() {
        end.fabric.poll(64, &mut end.inbox);
    }
    child.wait().expect("it ends");
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        None => println!("which provider? As in: pingpong 'tcp;ofi_rxm' [DEVICE]"),
        Some((first, rest)) if first == OTHER => other(rest),
        Some((provider, device)) => {
            for way in ["tagged", "plain", "tagged", "plain", "tagged, sleeping", "plain, sleeping"] {
                let words = [provider.clone(), way.to_owned()].into_iter().chain(device.first().cloned());
                measure(&words.collect::<Vec<_>>());
            }
        }
    }
}
