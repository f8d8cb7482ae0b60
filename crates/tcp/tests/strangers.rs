//! Whoever does not know the job's secret disturbs nobody: over real sockets, with the host's clock.

use castell_base::Rank;
use castell_tcp::handshake::{self, CHALLENGE_BYTES, Hello};
use castell_tcp::{Secret, Tcp, TcpEndpoint, TcpOptions, address};
use castell_transport::{Connector, Down, Endpoint, Events, Header, Transport, Urgency};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: [u8; 32] = [42; 32];

#[derive(Default)]
struct Inbox {
    came: u32,
    downs: Vec<(Rank, u32, Down)>,
}

impl Events for Inbox {
    fn message(&mut self, header: &Header, _payload: &[u8]) {
        assert_eq!(header.tag, self.came);
        self.came += 1;
    }

    fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
        self.downs.push((peer, delivered, why));
    }
}

fn tcp(me: u32, secret: [u8; 32]) -> Tcp {
    end(me, secret, false)
}

fn end(me: u32, secret: [u8; 32], encrypts: bool) -> Tcp {
    let options = TcpOptions { encrypts, ..TcpOptions::at(&[IpAddr::V4(Ipv4Addr::LOCALHOST)]) };
    Tcp::new(Rank(me), 2, Secret::new(secret), &options).expect("a socket")
}

struct Pair {
    ends: [Tcp; 2],
    inboxes: [Inbox; 2],
    way: TcpEndpoint,
    sent: u32,
}

impl Pair {
    fn new(secrets: [[u8; 32]; 2]) -> Pair {
        Pair::of([tcp(0, secrets[0]), tcp(1, secrets[1])])
    }

    fn of(mut ends: [Tcp; 2]) -> Pair {
        let there = ends[1].address();
        let way = ends[0].connector().connect(Rank(1), &there).expect("an address");
        Pair { ends, inboxes: Default::default(), way, sent: 0 }
    }

    fn door(&self) -> SocketAddr {
        address::from_bytes(&self.ends[1].address()).expect("an address")[0]
    }

    fn poll_until(&mut self, what: &str, is_done: impl Fn(&Pair) -> bool) {
        let started = Instant::now();
        while !is_done(self) {
            for (end, inbox) in self.ends.iter_mut().zip(&mut self.inboxes) {
                end.poll(16, inbox);
            }
            assert!(started.elapsed() < PATIENCE, "{what}");
            std::thread::yield_now();
        }
    }

    /// A message gets through.
    fn works(&mut self) {
        self.way.try_send(&Header { kind: 1, tag: self.sent, ..Header::default() }, &[]).expect("room");
        self.sent += 1;
        self.way.flush(Urgency::NOW);
        self.poll_until("a message gets lost", |pair| pair.inboxes[1].came == pair.sent);
    }
}

fn call(door: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(door).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

#[test]
fn strangers_disturb_nobody() {
    let mut pair = Pair::new([SECRET; 2]);
    pair.works();
    let door = pair.door();
    // Who connects and says nothing, many of them; the oldest have to go.
    let silent: Vec<TcpStream> = (0..400).map(|_| call(door)).collect();
    pair.works();
    // Who says something else.
    let mut garbage = call(door);
    garbage.write_all(&[b'G'; 104]).expect("a socket");
    let before = pair.ends[1].counters().strangers;
    pair.poll_until("garbage is kept", |pair| pair.ends[1].counters().strangers > before);
    // Who repeats what a rank has said: the question was another.
    let said =
        Hello { from: Rank(0), to: Rank(1), instance: 5, attempt: 1, welcomed: 0, taken: 0, window: 4096 };
    let other = handshake::challenge(&[0; 32], false);
    let replayed =
        handshake::hello(&Secret::new(SECRET), &other, &[1; 32], &said, false).expect("a challenge");
    let mut replay = call(door);
    replay.write_all(&replayed).expect("a socket");
    let before = pair.ends[1].counters().strangers;
    pair.poll_until("a replay is kept", |pair| pair.ends[1].counters().strangers > before);
    // Who says half of it, and waits.
    let mut half = call(door);
    half.write_all(&replayed[..50]).expect("a socket");
    pair.works();
    // A rank of the job that calls the wrong one is no reason to trust it further.
    let mut lost = call(door);
    let mut challenge = [0; CHALLENGE_BYTES];
    let asks = Instant::now();
    lost.set_nonblocking(true).expect("a socket");
    let mut filled = 0;
    while filled < CHALLENGE_BYTES {
        pair.works();
        filled += lost.read(&mut challenge[filled..]).unwrap_or(0);
        assert!(asks.elapsed() < PATIENCE, "nobody asks");
    }
    let wrong = Hello { to: Rank(0), ..said };
    let hello = handshake::hello(&Secret::new(SECRET), &challenge, &[1; 32], &wrong, false);
    let hello = hello.expect("a challenge");
    lost.set_nonblocking(false).expect("a socket");
    lost.write_all(&hello).expect("a socket");
    let before = pair.ends[1].counters().strangers;
    pair.poll_until("it is let in", |pair| pair.ends[1].counters().strangers > before);
    drop(silent);
    pair.works();
    let counters = pair.ends[1].counters();
    assert_eq!((counters.connections, counters.breaks, counters.garbled), (1, 0, 0), "{counters:?}");
    assert!(pair.inboxes.iter().all(|inbox| inbox.downs.is_empty()));
}

/// Ten thousand of them, who say nothing, something else, half of what a rank said once, or all of it.
#[test]
fn a_storm_of_strangers_disturbs_nobody() {
    let said =
        Hello { from: Rank(0), to: Rank(1), instance: 5, attempt: 1, welcomed: 0, taken: 0, window: 4096 };
    for encrypts in [false, true] {
        let mut pair = Pair::of([end(0, SECRET, encrypts), end(1, SECRET, encrypts)]);
        pair.works();
        let door = pair.door();
        let other = handshake::challenge(&[0; 32], encrypts);
        let replayed = handshake::hello(&Secret::new(SECRET), &other, &[1; 32], &said, encrypts);
        let replayed = replayed.expect("a challenge");
        let says: [&[u8]; 4] = [&[], &[b'G'; 104], &replayed[..50], &replayed];
        let mut calls = VecDeque::new();
        for number in 0..5000 {
            if calls.len() == 300 {
                calls.pop_front();
            }
            let mut stream = call(door);
            // It may have been sent away already.
            let _ = stream.write_all(says[number % says.len()]);
            calls.push_back(stream);
            if number % 50 == 0 {
                pair.works();
            }
        }
        pair.works();
        let most = |pair: &Pair| pair.ends[1].counters().strangers > 4000;
        pair.poll_until("strangers are kept", most);
        let counters = pair.ends[1].counters();
        assert_eq!((counters.connections, counters.breaks, counters.garbled), (1, 0, 0), "{counters:?}");
        assert!(pair.inboxes.iter().all(|inbox| inbox.downs.is_empty()));
    }
}

#[test]
fn a_rank_with_another_secret_is_no_rank_and_both_say_why() {
    let mut pair = Pair::new([SECRET, [43; 32]]);
    pair.way.try_send(&Header { kind: 1, ..Header::default() }, &[]).expect("room");
    pair.way.flush(Urgency::NOW);
    pair.poll_until("nobody is told", |pair| {
        pair.ends[1].counters().strangers > 3 && pair.ends[0].trouble(Rank(1)).is_some()
    });
    assert_eq!((pair.inboxes[1].came, pair.ends[1].counters().connections), (0, 0));
}

#[test]
fn a_rank_that_does_not_encrypt_as_the_other_does_is_told_so() {
    for encrypts in [false, true] {
        let mut pair = Pair::of([end(0, SECRET, encrypts), end(1, SECRET, !encrypts)]);
        pair.way.try_send(&Header { kind: 1, ..Header::default() }, &[]).expect("room");
        pair.way.flush(Urgency::NOW);
        let says = |pair: &Pair| pair.ends[0].trouble(Rank(1)).is_some_and(|why| why.contains("encrypts"));
        pair.poll_until("nobody says what is wrong", says);
        assert_eq!((pair.inboxes[1].came, pair.ends[1].counters().connections), (0, 0));
    }
    let mut pair = Pair::of([end(0, SECRET, true), end(1, SECRET, true)]);
    pair.works();
}

#[test]
fn who_is_called_and_is_no_castell_is_named() {
    let mut pair = Pair::new([SECRET; 2]);
    let web = TcpListener::bind("127.0.0.1:0").expect("a port");
    let there = address::to_bytes(&[web.local_addr().expect("bound")]);
    let mut way = pair.ends[0].connector().connect(Rank(1), &there).expect("an address");
    way.try_send(&Header { kind: 1, ..Header::default() }, &[]).expect("room");
    way.flush(Urgency::NOW);
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = web.accept().expect("a caller");
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").expect("a socket");
        drop(stream);
    });
    let says =
        |pair: &Pair| pair.ends[0].trouble(Rank(1)).is_some_and(|why| why.contains("does not speak castell"));
    pair.poll_until("nobody says that it is something else", says);
    serving.join().expect("it served");
}

#[test]
fn who_leaves_is_heard_out_and_who_dies_is_missed() {
    let mut pair = Pair::new([SECRET; 2]);
    pair.works();
    for _ in 0..50 {
        pair.way.try_send(&Header { kind: 1, tag: pair.sent, ..Header::default() }, &[]).expect("room");
        pair.sent += 1;
    }
    pair.ends[0].leave();
    pair.poll_until("it never leaves", |pair| pair.ends[0].has_left() && !pair.inboxes[1].downs.is_empty());
    assert_eq!(pair.inboxes[1].downs, [(Rank(0), 51, Down::Left)]);
    assert_eq!(pair.inboxes[1].came, 51);

    let mut pair = Pair::new([SECRET; 2]);
    pair.works();
    // Its sockets close, as when its process is killed; then the launcher tells.
    let dead = std::mem::replace(&mut pair.ends[0], tcp(0, SECRET));
    drop(dead);
    pair.ends[1].is_gone(Rank(0), Down::Died);
    pair.poll_until("nobody misses it", |pair| !pair.inboxes[1].downs.is_empty());
    assert_eq!(pair.inboxes[1].downs, [(Rank(0), 1, Down::Died)]);
}
