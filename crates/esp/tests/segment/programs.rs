//! Programs on a segment that send each other streams of known bytes, and check what comes: each byte once and in order, and one end, told
//! once.

use super::{Segment, address};
use castell_esp::{Communicator, Handle, What, Why};
use std::collections::BTreeMap;

/// What one side of a connection has written and read.
#[derive(Clone, Debug)]
pub struct Side {
    pub host: usize,
    pub peer: usize,
    pub handle: Handle,
    /// What it sends: the number of its stream, and how long that is.
    pub stream: u64,
    pattern: Pattern,
    pub bytes: u64,
    pub written: u64,
    /// The stream that it receives, by its first eight bytes, and how much has come.
    pub hears: Option<u64>,
    heard: Option<Pattern>,
    pub read: u64,
    /// Reads only now and then.
    pub is_slow: bool,
    pub is_finished: bool,
    pub end: Option<What>,
    pub ended_at: u64,
    /// Its program has died.
    pub is_gone: bool,
}

/// A stream begins with its number in these bytes.
const NUMBER_BYTES: u64 = 8;
/// Behind them a stream is the same again after so many bytes.
const PERIOD: u64 = 256;

/// What a stream says from any place on that is behind its number and a multiple of [`PERIOD`].
#[derive(Clone)]
struct Pattern(Box<[u8; PERIOD as usize]>);

impl Pattern {
    fn of(stream: u64) -> Pattern {
        let mixed = stream.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let byte = |at: usize| (mixed.rotate_left(at as u32 % 64) as u8) ^ at as u8;
        Pattern(Box::new(std::array::from_fn(byte)))
    }

    /// The bytes from a place on, up to so many: at least one.
    fn from(&self, at: u64, bytes_max: usize) -> &[u8] {
        let all = &self.0[(at % PERIOD) as usize..];
        &all[..all.len().min(bytes_max)]
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("..")
    }
}

pub struct Programs {
    pub sides: Vec<Side>,
    by_handle: BTreeMap<(usize, Handle), usize>,
    next_stream: u64,
    pub bytes_max: u64,
    pub slow_in_thousand: u32,
    /// What a program writes at a time, at most.
    pub write_bytes_max: u64,
    /// What is written next.
    bytes: Vec<u8>,
}

impl Programs {
    pub fn new(bytes_max: u64) -> Programs {
        Programs {
            sides: Vec::new(),
            by_handle: BTreeMap::new(),
            next_stream: 1,
            bytes_max,
            slow_in_thousand: 0,
            write_bytes_max: 4096,
            bytes: Vec::new(),
        }
    }

    fn add(&mut self, segment: &mut Segment, (host, peer): (usize, usize), handle: Handle) -> usize {
        let bytes = 8 + segment.below(self.bytes_max);
        let is_slow = segment.happens(self.slow_in_thousand);
        let stream = self.next_stream;
        self.next_stream += 1;
        self.by_handle.insert((host, handle), self.sides.len());
        self.sides.push(Side {
            host,
            peer,
            handle,
            stream,
            pattern: Pattern::of(stream),
            bytes,
            written: 0,
            hears: None,
            heard: None,
            read: 0,
            is_slow,
            is_finished: false,
            end: None,
            ended_at: 0,
            is_gone: false,
        });
        self.sides.len() - 1
    }

    pub fn connect(&mut self, segment: &mut Segment, host: usize, peer: usize, communicator: u64) -> usize {
        let now = segment.now;
        let made = segment.at(host).connect(address(peer), Communicator(communicator), now);
        let handle = made.expect("there are not too many");
        match self.by_handle.get(&(host, handle)) {
            // The peer was faster.
            Some(side) => *side,
            None => {
                let side = self.add(segment, (host, peer), handle);
                self.write(segment, side);
                side
            }
        }
    }

    /// A host's program dies.
    pub fn restart(&mut self, segment: &mut Segment, host: usize) {
        segment.restart(host);
        for side in self.sides.iter_mut().filter(|side| side.host == host) {
            side.is_gone = true;
        }
        self.by_handle.retain(|(of, _), _| *of != host);
    }

    fn write(&mut self, segment: &mut Segment, which: usize) {
        let side = &mut self.sides[which];
        let now = segment.now;
        while side.written < side.bytes {
            let wants = (side.bytes - side.written).min(1 + segment.below(self.write_bytes_max));
            self.bytes.clear();
            while (self.bytes.len() as u64) < wants {
                let (at, left) = (side.written + self.bytes.len() as u64, wants as usize - self.bytes.len());
                match at {
                    0..NUMBER_BYTES => self.bytes.push(side.stream.to_le_bytes()[at as usize]),
                    _ => self.bytes.extend_from_slice(side.pattern.from(at, left)),
                }
            }
            match segment.at(side.host).write(side.handle, &self.bytes, now) {
                Ok(taken) => {
                    side.written += taken as u64;
                    if (taken as u64) < wants {
                        return;
                    }
                }
                // It is told why.
                Err(_) => return,
            }
        }
        segment.at(side.host).close(side.handle, now);
    }

    /// Reads up to so many bytes.
    pub fn read(&mut self, segment: &mut Segment, which: usize, bytes_max: usize) {
        let now = segment.now;
        let side = &mut self.sides[which];
        let mut read = 0;
        for part in segment.at(side.host).peek(side.handle) {
            let mut part = &part[..part.len().min(bytes_max - read)];
            while let Some((first, rest)) = part.split_first() {
                let at = side.read;
                let known = match at {
                    0..NUMBER_BYTES => {
                        side.hears = Some(side.hears.unwrap_or(0) | u64::from(*first) << (8 * at));
                        part = rest;
                        1
                    }
                    _ => {
                        let number = side.hears.expect("its number came");
                        let expected =
                            side.heard.get_or_insert_with(|| Pattern::of(number)).from(at, part.len());
                        let (came, rest) = part.split_at(expected.len());
                        assert!(
                            came == expected,
                            "behind byte {at} of what host {} reads: {side:?}",
                            side.host
                        );
                        part = rest;
                        came.len()
                    }
                };
                side.read += known as u64;
                read += known;
            }
        }
        segment.at(side.host).consume(side.handle, read, now);
    }

    /// Looks at what endpoints tell.
    pub fn react(&mut self, segment: &mut Segment, hosts: usize) {
        for host in 0..hosts {
            while let Some(event) = segment.at(host).event() {
                if let What::Accepted { from, .. } = event.what {
                    let peer = usize::from(from.mac.0[4]) << 8 | usize::from(from.mac.0[5]);
                    let side = self.add(segment, (host, peer), event.connection);
                    self.write(segment, side);
                    continue;
                }
                let which =
                    *self.by_handle.get(&(host, event.connection)).expect("only what is known is told of");
                self.tell(segment, which, event.what);
            }
        }
    }

    fn tell(&mut self, segment: &mut Segment, which: usize, what: What) {
        assert_eq!(self.sides[which].end, None, "{what:?} is told after the end of {:?}", self.sides[which]);
        match what {
            What::Accepted { .. } | What::Connected => {}
            What::Readable if self.sides[which].is_slow => {}
            What::Readable => self.read(segment, which, usize::MAX),
            What::Room => self.write(segment, which),
            What::Finished => {
                self.sides[which].is_finished = true;
                self.read(segment, which, usize::MAX);
            }
            What::Closed | What::Down(_) => {
                self.read(segment, which, usize::MAX);
                let now = segment.now;
                let side = &mut self.sides[which];
                (side.end, side.ended_at) = (Some(what), now);
                assert!(side.is_finished || what != What::Closed, "{side:?}");
                segment.at(side.host).release(side.handle, now);
                self.by_handle.remove(&(side.host, side.handle));
            }
        }
    }

    /// Slow readers read something.
    pub fn read_slowly(&mut self, segment: &mut Segment) {
        for which in 0..self.sides.len() {
            let side = &self.sides[which];
            if side.is_slow && side.end.is_none() && !side.is_gone {
                let bytes = 1 + segment.below(3000) as usize;
                self.read(segment, which, bytes);
            }
        }
    }

    pub fn are_all_over(&self) -> bool {
        self.sides.iter().all(|side| side.end.is_some() || side.is_gone)
    }

    /// Whoever closed has everything; whoever did not was told why; no stream was heard by two.
    pub fn check(&self, may_fail: bool) {
        let mut heard: BTreeMap<u64, &Side> = BTreeMap::new();
        let by_stream: BTreeMap<u64, &Side> = self.sides.iter().map(|side| (side.stream, side)).collect();
        for side in self.sides.iter().filter(|side| side.read >= 8) {
            let stream = side.hears.expect("it has read");
            let sender = by_stream.get(&stream).unwrap_or_else(|| panic!("{side:?} hears what nobody sends"));
            assert_eq!((sender.host, sender.peer), (side.peer, side.host), "{side:?} hears {sender:?}");
            assert!(side.read <= sender.written, "{side:?} hears more than {sender:?} has written");
            if let Some(other) = heard.insert(stream, side) {
                panic!("{side:?} and {other:?} hear the same");
            }
            if side.end == Some(What::Closed) {
                assert_eq!((side.read, side.written), (sender.bytes, side.bytes), "{side:?} of {sender:?}");
            }
        }
        for side in &self.sides {
            match side.end {
                Some(What::Closed) => assert!(side.read >= 8, "{side:?} has ended well, and heard nothing"),
                Some(_) => assert!(may_fail, "{side:?} failed"),
                None => assert!(side.is_gone, "{side:?} was not told how it ends"),
            }
        }
    }

    pub fn failures(&self, why: Why) -> usize {
        self.sides.iter().filter(|side| side.end == Some(What::Down(why))).count()
    }
}
