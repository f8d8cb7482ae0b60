//! Two links in virtual time, from seeds: connections that are cut anywhere, cross each other, carry garbage and come late; whatever
//! happens, each message comes once and in order, or the link is over. No sockets, no clock.

use castell_base::Rank;
use castell_base::random::Philox;
use castell_tcp::Settings;
use castell_tcp::handshake::{self, CHALLENGE_BYTES, HELLO_BYTES, Secret, Verdict, WELCOME_BYTES};
use castell_tcp::link::{Link, News, Step};
use castell_transport::{Down, Header, Refused};
use rand_core::RngCore;

const MS: u64 = 1_000_000;
/// Steps after which a pair counts as hanging.
const STEPS_MAX: usize = 400_000;
const SEEDS: u64 = 300;

struct Random(Philox);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn happens(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.below(one_in) == 0
    }
}

/// What happens to connections: one time in so many, 0: never.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    cuts: u64,
    corrupts: u64,
    /// What is on its way is looked at by its receiver one time in so many: connections cross each other then.
    slow: u64,
}

/// One of the two ends of a connection, and how far it has come.
enum Stage {
    Accepted([u8; CHALLENGE_BYTES]),
    Asked,
    Proved([u8; CHALLENGE_BYTES], [u8; HELLO_BYTES]),
    Open,
    Closed,
}

struct Wire {
    /// By side.
    stages: [Stage; 2],
    /// What is on its way to each side.
    coming: [Vec<u8>; 2],
    /// Whether the other side has closed, behind what is on its way.
    ends: [bool; 2],
}

struct Side {
    link: Link,
    wire: Option<usize>,
    to_send: u32,
    sent: u32,
    came: u32,
    /// Where messages with odd tags are to lie.
    place: Vec<u8>,
    down: Option<(Down, u32)>,
    waits_for_room: bool,
}

struct Pair {
    random: Random,
    weather: Weather,
    now: u64,
    secret: Secret,
    sides: [Side; 2],
    wires: Vec<Wire>,
    cuts: u32,
}

fn payload(number: u32) -> Vec<u8> {
    (0..number.wrapping_mul(7919) % 900).map(|at| (number ^ at) as u8).collect()
}

impl Pair {
    fn new(seed: u64, weather: Weather, messages: u32, first: u32) -> Pair {
        let settings = Settings {
            message_bytes_max: 1000,
            placed_bytes_min: 100,
            window_bytes: 1 << 14,
            ..Settings::default()
        };
        let side = |me: u32| {
            let mut link = Link::new(Rank(me), Rank(1 - me), &settings);
            link.start_at(first);
            link.may_dial();
            Side {
                link,
                wire: None,
                to_send: messages,
                sent: 0,
                came: 0,
                place: Vec::new(),
                down: None,
                waits_for_room: false,
            }
        };
        Pair {
            random: Random(Philox::new(seed, Rank(0), 3, 0)),
            weather,
            now: 1000 * MS,
            secret: Secret::new([3; 32]),
            sides: [side(0), side(1)],
            wires: Vec::new(),
            cuts: 0,
        }
    }

    /// Side `me` closes its end, and the other will see that behind what it still gets.
    fn close(&mut self, wire: usize, me: usize) {
        self.wires[wire].stages[me] = Stage::Closed;
        self.wires[wire].ends[1 - me] = true;
        if self.sides[me].wire == Some(wire) {
            self.sides[me].wire = None;
        }
    }

    fn replace(&mut self, wire: usize, me: usize) {
        if let Some(before) = self.sides[me].wire.filter(|before| *before != wire) {
            self.close(before, me);
        }
        self.wires[wire].stages[me] = Stage::Open;
        self.sides[me].wire = Some(wire);
    }

    fn lost(&mut self, wire: usize, me: usize) {
        let was_its = self.sides[me].wire == Some(wire);
        let was_open = matches!(self.wires[wire].stages[me], Stage::Open);
        self.close(wire, me);
        let (now, link) = (self.now, &mut self.sides[me].link);
        match (was_its, was_open) {
            (true, true) => link.lost(now),
            (true, false) => link.dial_failed(false, now),
            _ => {}
        }
    }

    /// A step of one side.
    fn step(&mut self, me: usize) {
        self.send_something(me);
        let now = self.now;
        if self.sides[me].link.wants_dial(now) {
            self.sides[me].link.dial(me as u64, now);
            let mut nonce = [0; 32];
            self.random.0.fill_bytes(&mut nonce);
            let challenge = handshake::challenge(&nonce, false);
            let mut stages = [Stage::Asked, Stage::Accepted(challenge)];
            let mut coming = [challenge.to_vec(), Vec::new()];
            if me == 1 {
                stages.reverse();
                coming.reverse();
            }
            self.sides[me].wire = Some(self.wires.len());
            self.wires.push(Wire { stages, coming, ends: [false; 2] });
        }
        for wire in 0..self.wires.len() {
            self.read(wire, me);
        }
        self.write(me);
        let side = &mut self.sides[me];
        if side.link.next_time().is_some_and(|time| time <= now) {
            side.link.tick(now);
        }
        while let Some(news) = side.link.take_news() {
            assert_eq!(side.down, None, "nothing is told after the end");
            match news {
                News::Room => side.waits_for_room = false,
                News::Down(why) => side.down = Some((why, side.link.delivered())),
            }
        }
    }

    fn send_something(&mut self, me: usize) {
        let side = &mut self.sides[me];
        while side.sent < side.to_send && !side.waits_for_room && !self.random.happens(3) {
            let bytes = payload(side.sent);
            let header = Header { kind: 1, bytes: bytes.len() as u32, tag: side.sent, ..Header::default() };
            match side.link.try_send(&header, &bytes) {
                Ok(()) => side.sent += 1,
                Err(Refused::Full) => side.waits_for_room = true,
                Err(Refused::Down) => return,
            }
        }
    }

    fn write(&mut self, me: usize) {
        let Some(wire) = self.sides[me].wire else { return };
        if !matches!(self.wires[wire].stages[me], Stage::Open) {
            return;
        }
        loop {
            let parts = self.sides[me].link.output(self.now).concat();
            // As much as there is room for.
            let most = (8192_usize).saturating_sub(self.wires[wire].coming[1 - me].len());
            let bytes = (self.random.below(5000) as usize).min(most).min(parts.len());
            if bytes == 0 {
                break;
            }
            self.wires[wire].coming[1 - me].extend_from_slice(&parts[..bytes]);
            self.sides[me].link.wrote(bytes, self.now);
        }
        if self.sides[me].link.is_over() {
            self.close(wire, me);
        }
    }

    /// Side `me` reads some of what has come by a wire.
    fn read(&mut self, wire: usize, me: usize) {
        let slow = self.weather.slow;
        if matches!(self.wires[wire].stages[me], Stage::Closed) || (slow > 0 && !self.random.happens(slow)) {
            return;
        }
        if self.random.happens(self.weather.cuts) {
            // What is on its way is lost, both ways.
            self.cuts += 1;
            self.wires[wire].coming = [Vec::new(), Vec::new()];
            self.wires[wire].ends[1 - me] = true;
            return self.lost(wire, me);
        }
        let coming = std::mem::take(&mut self.wires[wire].coming[me]);
        if coming.is_empty() {
            if self.wires[wire].ends[me] {
                self.lost(wire, me);
            }
            return;
        }
        let is_shaking = !matches!(self.wires[wire].stages[me], Stage::Open);
        let mut taken = 1 + self.random.below(coming.len() as u64) as usize;
        if is_shaking {
            taken = coming.len();
        }
        let (mut bytes, rest) = (coming[..taken].to_vec(), coming[taken..].to_vec());
        self.wires[wire].coming[me] = rest;
        if self.random.happens(self.weather.corrupts) {
            let bit = self.random.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let is_fine = if is_shaking { self.shake_hands(wire, me, &bytes) } else { self.take(me, &bytes) };
        if !is_fine {
            self.lost(wire, me);
        }
    }

    /// What is said before frames comes whole here; how it is cut into pieces, the sockets' tests try.
    fn shake_hands(&mut self, wire: usize, me: usize, bytes: &[u8]) -> bool {
        let now = self.now;
        match self.wires[wire].stages[me] {
            Stage::Accepted(challenge) => {
                let said = bytes.first_chunk::<HELLO_BYTES>().expect("it is sent whole");
                let Ok(hello) = handshake::check_hello(&self.secret, &challenge, said) else { return false };
                let welcome = self.sides[me].link.meet(&hello, me as u64, now);
                let answer = handshake::welcome(&self.secret, &challenge, said, &welcome);
                self.wires[wire].coming[1 - me].extend_from_slice(&answer);
                match welcome.verdict {
                    Verdict::Welcome => self.replace(wire, me),
                    Verdict::Busy | Verdict::Gone => self.close(wire, me),
                }
            }
            Stage::Asked => {
                let challenge = *bytes.first_chunk::<CHALLENGE_BYTES>().expect("it is sent whole");
                let said = self.sides[me].link.hello(me as u64);
                let Ok(hello) = handshake::hello(&self.secret, &challenge, &[9; 32], &said, false) else {
                    return false;
                };
                self.wires[wire].coming[1 - me].extend_from_slice(&hello);
                self.wires[wire].stages[me] = Stage::Proved(challenge, hello);
            }
            Stage::Proved(challenge, hello) => {
                let (answer, frames) = bytes.split_first_chunk::<WELCOME_BYTES>().expect("it is sent whole");
                let answer = handshake::check_welcome(&self.secret, &challenge, &hello, answer);
                let Ok(welcome) = answer else { return false };
                self.sides[me].link.welcomed(&welcome, now);
                match self.sides[me].link.is_together() {
                    true => self.replace(wire, me),
                    false => self.close(wire, me),
                }
                return self.take(me, frames);
            }
            Stage::Open | Stage::Closed => unreachable!("looked at before"),
        }
        true
    }

    fn take(&mut self, me: usize, bytes: &[u8]) -> bool {
        let (side, mut at) = (&mut self.sides[me], 0);
        loop {
            if let Some((came, left)) = side.link.begun().map(|begun| (begun.came, begun.left())) {
                let part = &bytes[at..(at + left).min(bytes.len())];
                side.place[came..came + part.len()].copy_from_slice(part);
                at += part.len();
                match side.link.placed(part, self.now) {
                    Ok(None) => return true,
                    Ok(Some(header)) => {
                        assert_eq!((header.tag, header.source), (side.came, 1 - me as u32));
                        assert_eq!(side.place, payload(side.came), "in its place, undamaged");
                        side.came += 1;
                    }
                    Err(_) => return false,
                }
            }
            match side.link.input(&bytes[at..], self.now) {
                Ok((used, Step::Begun(header))) => {
                    at += used;
                    side.place.resize(header.bytes as usize, 0);
                    if header.tag % 2 == 0 {
                        side.link.keep_begun();
                    }
                }
                Ok((used, Step::Message(header, body))) => {
                    assert_eq!(header.tag, side.came, "in order, each once");
                    assert_eq!(body.payload(&bytes[at..]), payload(side.came), "undamaged");
                    assert_eq!((header.source, side.down), (1 - me as u32, None));
                    side.came += 1;
                    side.link.reuse(body);
                    at += used;
                }
                Ok((_, Step::More)) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Steps until `is_done`.
    fn run(&mut self, seed: u64, is_done: impl Fn(&Pair) -> bool) {
        for _ in 0..STEPS_MAX {
            if is_done(self) {
                return;
            }
            let me = self.random.below(2) as usize;
            self.step(me);
            self.now += self.random.below(MS);
            self.wires.iter_mut().for_each(|wire| {
                if wire.stages.iter().all(|stage| matches!(stage, Stage::Closed)) {
                    wire.coming = [Vec::new(), Vec::new()];
                }
            });
        }
        let [one, other] = &self.sides;
        panic!(
            "seed {seed}: hangs after {} cuts: {} of {} and {} of {} came, {:?} {:?}",
            self.cuts, other.came, one.to_send, one.came, other.to_send, one.down, other.down
        );
    }
}

fn have_all_come(pair: &Pair) -> bool {
    let [one, other] = &pair.sides;
    (one.came, other.came) == (other.to_send, one.to_send)
}

#[test]
fn whatever_breaks_each_message_comes_once_and_in_order() {
    let mut cuts = 0;
    for seed in 0..SEEDS {
        let weathers = [(0, 0), (30, 0), (0, 30), (40, 40)];
        let (cut, corrupts) = weathers[seed as usize % 4];
        // Around the end of the numbers, too.
        let first = if seed % 2 == 0 { 0 } else { u32::MAX - 20 };
        let mut pair = Pair::new(
            seed,
            Weather { cuts: cut, corrupts, slow: [0, 3, 200][seed as usize % 3] },
            300,
            first,
        );
        pair.run(seed, have_all_come);
        assert_eq!(pair.sides.each_ref().map(|side| side.down), [None; 2], "seed {seed}");
        cuts += pair.cuts;
    }
    assert!(cuts > 1000, "{cuts} connections were cut");
}

#[test]
fn who_leaves_is_heard_out() {
    for seed in 0..SEEDS {
        let weather = Weather { cuts: if seed % 2 == 0 { 0 } else { 30 }, corrupts: 0, slow: 2 };
        let first = if seed % 4 < 2 { 0 } else { u32::MAX - 20 };
        let mut pair = Pair::new(seed, weather, 30, first);
        pair.run(seed, |pair| pair.sides[0].sent == pair.sides[0].to_send);
        pair.sides[0].link.leave();
        assert_eq!(
            pair.sides[0].link.try_send(&Header { kind: 1, ..Header::default() }, &[]),
            Err(Refused::Down)
        );
        pair.run(seed, |pair| pair.sides[0].link.has_left() && pair.sides[1].down.is_some());
        assert_eq!(pair.sides[1].down, Some((Down::Left, first.wrapping_add(30))), "seed {seed}");
    }
}

#[test]
fn who_is_silent_is_given_up_in_time_and_who_only_has_nothing_to_say_is_not() {
    for seed in 0..20 {
        let mut pair = Pair::new(seed, Weather::default(), 5, 0);
        pair.run(seed, have_all_come);
        // An hour with nothing to do.
        let idle_until = pair.now + 3_600_000 * MS;
        while pair.now < idle_until {
            pair.step(0);
            pair.step(1);
            pair.now += pair.random.below(700 * MS);
        }
        assert_eq!(pair.sides.each_ref().map(|side| side.down), [None; 2], "seed {seed}");
        // From now on rank 1 does nothing, and nobody says that its host is gone.
        let silent_since = pair.now;
        while pair.sides[0].down.is_none() {
            pair.step(0);
            pair.now += pair.random.below(100 * MS);
        }
        assert_eq!(pair.sides[0].down, Some((Down::PathLost, 5)), "seed {seed}");
        let took = pair.now - silent_since;
        assert!(took <= 6000 * MS, "seed {seed}: {took} ns of silence");
    }
}

#[test]
fn a_connection_that_does_not_come_back_is_given_up_in_time() {
    let mut link = Link::new(Rank(0), Rank(1), &Settings::default());
    link.may_dial();
    link.try_send(&Header { kind: 1, ..Header::default() }, &[]).expect("room");
    let (mut now, mut dialed) = (1000 * MS, 0);
    let started = now;
    let down = loop {
        if link.wants_dial(now) {
            link.dial(0, now);
            link.dial_failed(true, now);
            dialed += 1;
        }
        link.tick(now);
        if let Some(news) = link.take_news() {
            break news;
        }
        now = link.next_time().expect("it is not over").max(now + 1);
    };
    // Nobody listened there, ever.
    assert_eq!((down, (now - started) / (1000 * MS)), (News::Down(Down::Died), 10));
    assert!((100..=201).contains(&dialed), "{dialed} attempts");
}

#[test]
fn a_rank_that_was_started_again_is_another() {
    let mut pair = Pair::new(1, Weather::default(), 5, 0);
    pair.run(1, have_all_come);
    let hello = handshake::Hello {
        from: Rank(1),
        to: Rank(0),
        instance: 77,
        attempt: 9,
        welcomed: 9,
        taken: 0,
        window: 1 << 14,
    };
    let welcome = pair.sides[0].link.meet(&hello, 0, pair.now);
    assert_eq!(welcome.verdict, Verdict::Gone);
    assert_eq!(pair.sides[0].link.take_news(), Some(News::Down(Down::Died)));
}
