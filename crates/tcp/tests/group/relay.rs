//! A relay between ranks: connections go through it, byte by byte, and things happen to them, from one seed.

use castell_base::Rank;
use castell_base::random::Philox;
use castell_tcp::address;
use castell_transport::Address;
use rand_core::RngCore;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often what happens: to one chunk in so many, 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// The connection is cut, wherever it is.
    pub cuts: u32,
    /// One bit is changed.
    pub corrupts: u32,
    /// The chunk waits, and with it what comes behind.
    pub delays: u32,
}

/// Looks for which a chunk waits at most.
const DELAY_MAX: u32 = 8;
/// What is under way in one direction at most.
const HELD_BYTES_MAX: usize = 1 << 17;

pub struct Relay {
    weather: Weather,
    random: Philox,
    /// By who dials and whom: where it listens for that, and where it dials itself.
    doors: BTreeMap<(u32, u32), (TcpListener, SocketAddr)>,
    severed: BTreeSet<(u32, u32)>,
    pairs: Vec<Pair>,
    harmed: Arc<AtomicU64>,
}

struct Pair {
    who: (u32, u32),
    ways: [Way; 2],
}

struct Way {
    from: TcpStream,
    to: TcpStream,
    held: VecDeque<Chunk>,
    is_over: bool,
}

struct Chunk {
    bytes: Vec<u8>,
    written: usize,
    waits: u32,
}

impl Relay {
    pub fn new(seed: u64, weather: Weather, harmed: Arc<AtomicU64>) -> Relay {
        let random = Philox::new(seed, Rank(0), 7, 0);
        let (doors, severed) = (BTreeMap::new(), BTreeSet::new());
        Relay { weather, random, doors, severed, pairs: Vec::new(), harmed }
    }

    /// The address by which one rank reaches another through the relay.
    pub fn stand_before(&mut self, from: u32, to: u32, at: &Address) -> Address {
        let there = address::from_bytes(at).expect("an address of TCP's")[0];
        let (listener, _) = self.doors.entry((from, to)).or_insert_with(|| {
            let listener = TcpListener::bind((there.ip(), 0)).expect("a port");
            listener.set_nonblocking(true).expect("a socket");
            (listener, there)
        });
        address::to_bytes(&[listener.local_addr().expect("it is bound")])
    }

    /// Nothing passes between two ranks any more.
    pub fn sever(&mut self, one: u32, other: u32) {
        self.severed.extend([(one, other), (other, one)]);
        self.pairs.retain(|pair| !self.severed.contains(&pair.who));
    }

    fn happens(&mut self, one_in: u32) -> bool {
        one_in > 0 && self.random.next_u32().is_multiple_of(one_in)
    }

    /// Moves everything on.
    pub fn pump(&mut self) {
        let mut new = Vec::new();
        for (who, (listener, there)) in &self.doors {
            while let Ok((dialer, _)) = listener.accept() {
                if self.severed.contains(who) {
                    continue;
                }
                let Ok(listening) = TcpStream::connect(*there) else { continue };
                new.push((*who, dialer, listening));
            }
        }
        for (who, dialer, listening) in new {
            for stream in [&dialer, &listening] {
                stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).expect("a socket");
            }
            let clone = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
            let way = |from, to| Way { from, to, held: VecDeque::new(), is_over: false };
            let ways = [way(clone(&dialer), clone(&listening)), way(listening, dialer)];
            self.pairs.push(Pair { who, ways });
        }
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.retain_mut(|pair| {
            let lives = pair.ways.each_mut().map(|way| self.carry(way));
            lives == [true, true]
        });
        self.pairs.append(&mut pairs);
    }

    /// One direction of a connection; false: it is to be cut.
    fn carry(&mut self, way: &mut Way) -> bool {
        let mut buffer = [0; 16 * 1024];
        while !way.is_over && way.held.iter().map(|chunk| chunk.bytes.len()).sum::<usize>() < HELD_BYTES_MAX {
            match way.from.read(&mut buffer) {
                Ok(0) => way.is_over = true,
                Ok(bytes) => {
                    if self.happens(self.weather.cuts) {
                        self.harmed.fetch_add(1, Ordering::Relaxed);
                        return false;
                    }
                    let mut bytes = buffer[..bytes].to_vec();
                    if self.happens(self.weather.corrupts) {
                        let bit = self.random.next_u32() as usize % (bytes.len() * 8);
                        bytes[bit / 8] ^= 1 << (bit % 8);
                        self.harmed.fetch_add(1, Ordering::Relaxed);
                    }
                    let waits = if self.happens(self.weather.delays) {
                        self.random.next_u32() % DELAY_MAX
                    } else {
                        0
                    };
                    way.held.push_back(Chunk { bytes, written: 0, waits });
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => way.is_over = true,
            }
        }
        while let Some(chunk) = way.held.front_mut() {
            if chunk.waits > 0 {
                chunk.waits -= 1;
                return true;
            }
            match way.to.write(&chunk.bytes[chunk.written..]) {
                Ok(bytes) => chunk.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
            if chunk.written == chunk.bytes.len() {
                way.held.pop_front();
            }
        }
        !way.is_over
    }
}
