//! The kernel's interpreter beside goal's stepper: random schedules, and random frames, one at a time. After each frame both must have sent the
//! same messages and be through or not; at the end the scratchpads are the same bytes.

use castell_base::{Rank, Tag};
use castell_esp::Mac;
use castell_goal::arithmetic;
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, Buffer, ElementType, Memory, Op, Operator, Place};
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::stepper::Stepper;
use castell_xdp::{Compiled, Group, Interface, Patience, Run, Session, Verdict};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};

const ME: Rank = Rank(3);
pub const MY_MAC: Mac = Mac([2, 0, 0, 0, 0, 3]);
const SCRATCH_BYTES: u64 = 512;

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub schedules: u64,
    pub operations: u64,
    pub frames: u64,
    pub runs: u64,
}

/// How many operations the schedule of a seed has at most: a few have as many as fit.
pub fn operations_of(seed: u64) -> usize {
    if seed.is_multiple_of(200) { 1024 } else { 24 }
}

/// Tries one schedule, drawn from a seed.
pub fn try_one(interface: &Interface, seed: u64, operations_max: usize, tally: &mut Tally) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let schedule = draw_schedule(&mut random, operations_max);
    let compiled = Compiled::new(&schedule, ME).unwrap_or_else(|misfit| panic!("seed {seed}: {misfit}"));
    let macs = (0..8).map(|rank| (Rank(rank), mac_of(Rank(rank)))).collect();
    let group = Group { me: ME, session: random.random(), macs };
    let session_number = group.session;
    let session = Session::new(interface, compiled, group, Patience::default())
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let runs = random.random_range(1..=3);
    let frames = draw_frames(&schedule, runs, &mut random);
    let inputs = (0..runs).map(|_| (0..SCRATCH_BYTES).map(|_| random.random()).collect()).collect();
    tally.schedules += 1;
    tally.operations += schedule.len() as u64;
    tally.runs += u64::from(runs);
    let mut trial = Trial {
        seed,
        interface,
        schedule: &schedule,
        session,
        session_number,
        inputs,
        models: BTreeMap::new(),
        early: Vec::new(),
        sent_to: sent_to(&schedule),
    };
    trial.run(frames, runs, &mut random, tally);
}

pub fn mac_of(rank: Rank) -> Mac {
    Mac([2, 0, 0, 0, 0, rank.0 as u8])
}

/// Each channel of sends, and how many messages go through it.
fn sent_to(schedule: &Schedule) -> BTreeMap<(Rank, Tag), u32> {
    let mut sent = BTreeMap::new();
    for id in schedule.operations() {
        if let Op::Send { dest, tag, .. } = schedule.op(id) {
            *sent.entry((dest, tag)).or_default() += 1;
        }
    }
    sent
}

/// A frame that will be given to the program.
#[derive(Clone, Debug)]
struct Frame {
    run: u32,
    from: Rank,
    tag: Tag,
    number: u16,
    payload: Vec<u8>,
}

impl Frame {
    /// As README.md has it, byte by byte; of another session or from another card if asked for.
    fn to_bytes(&self, session: u64, from_mac: Mac) -> Vec<u8> {
        let mut bytes = [&MY_MAC.0[..], &from_mac.0, &[0x88, 0xB5, 0x81, 1]].concat();
        bytes.extend((self.payload.len() as u16).to_le_bytes());
        bytes.extend(session.to_le_bytes());
        for word in [self.from.0, ME.0, self.tag.0, self.run, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.number.to_le_bytes());
        bytes.extend([0; 6]);
        bytes.extend(&self.payload);
        bytes.resize(bytes.len().max(60), 0);
        bytes
    }
}

fn draw_schedule(random: &mut ChaCha8Rng, operations_max: usize) -> Schedule {
    let mut graph = Graph::new();
    graph.allocate_scratchpad(SCRATCH_BYTES);
    // Both sides agree on each message's size: all of a channel have one.
    let size = |rank: Rank, tag: Tag| u64::from(rank.0 * 7 + tag.0 * 5) % 41;
    let ranks: Vec<Rank> = (0..8).map(Rank).filter(|rank| *rank != ME).collect();
    let place = |random: &mut ChaCha8Rng, bytes: u64| match random.random_range(0..8) {
        0 => Place::VOID,
        _ => Place::scratch(random.random_range(0..=SCRATCH_BYTES - bytes)),
    };
    let count = random.random_range(1..=operations_max);
    let mut vertices: Vec<Vertex> = Vec::new();
    while vertices.len() < count {
        let (rank, tag) = (*ranks.choose(random).expect("there are some"), Tag(random.random_range(0..3)));
        let vertex = match random.random_range(0..10) {
            0..3 => graph.send(place(random, 41), size(ME, tag), rank, tag),
            3..6 => graph.recv(place(random, 41), size(rank, tag), Some(rank), Some(tag)),
            6 => graph.proxy(),
            _ => match draw_local(random, &mut graph) {
                Some(vertex) => Ok(vertex),
                None => continue,
            },
        };
        let vertex = vertex.expect("legal");
        // Mostly a chain of those near by, with starts, alternatives and much that waits for nothing.
        for _ in 0..random.random_range(0..3) {
            if let Some(&before) = vertices.choose(random) {
                if random.random_bool(0.8) {
                    graph.requires(before, vertex).expect("legal");
                } else {
                    graph.irequires(before, vertex).expect("legal");
                }
            }
        }
        vertices.push(vertex);
    }
    for &vertex in &vertices {
        let degree = graph.edges().filter(|edge| edge.target == vertex).count() as u32;
        if degree > 1 && random.random_bool(0.2) {
            graph.set_any(vertex, random.random_range(1..=degree)).expect("legal");
        }
    }
    graph.compile().expect("what comes later waits for what came before")
}

fn draw_local(random: &mut ChaCha8Rng, graph: &mut Graph) -> Option<Vertex> {
    let element = *ElementType::ALL.choose(random).expect("some");
    let operator = *Operator::ALL.choose(random).expect("some");
    let arithmetic =
        Arithmetic::new(if element.is_float() { Operator::Copy } else { operator }, element).expect("legal");
    let count = random.random_range(0..=7);
    let bytes = count * element.bytes();
    let mut at = || random.random_range(0..=SCRATCH_BYTES - bytes);
    let (b1, b2, mut b3) = (at(), at(), at());
    match random.random_range(0..4) {
        0 => b3 = b1,
        1 => b3 = b2,
        _ => {}
    }
    let apart = |from: u64| from == b3 || from.abs_diff(b3) >= bytes;
    if !apart(b1) || !apart(b2) {
        return None;
    }
    Some(
        graph
            .local(Place::scratch(b1), Place::scratch(b2), Place::scratch(b3), arithmetic, count)
            .expect("legal"),
    )
}

/// All messages of some runs, mixed up.
fn draw_frames(schedule: &Schedule, runs: u32, random: &mut ChaCha8Rng) -> Vec<Frame> {
    let mut frames = Vec::new();
    for run in 0..runs {
        let mut numbers: BTreeMap<(Rank, Tag), u16> = BTreeMap::new();
        for id in schedule.operations() {
            if let Op::Recv { bytes, source: Some(from), tag: Some(tag), .. } = schedule.op(id) {
                let number = numbers.entry((from, tag)).or_default();
                let payload = (0..bytes).map(|_| random.random()).collect();
                frames.push(Frame { run, from, tag, number: *number, payload });
                *number += 1;
            }
        }
    }
    for at in (1..frames.len()).rev() {
        frames.swap(at, random.random_range(0..=at));
    }
    frames
}

/// A run by the rules: goal's stepper, and the messages of each channel in their order.
struct Model {
    stepper: Stepper,
    scratch: Vec<u8>,
    arrived: BTreeMap<(Rank, Tag, u16), Vec<u8>>,
    posted: BTreeMap<(Rank, Tag, u16), OpId>,
    numbers: BTreeMap<(bool, Rank, Tag), u16>,
    sent: BTreeMap<(Rank, Tag, u16), (Vec<u8>, bool)>,
}

impl Model {
    fn number(&mut self, key: (bool, Rank, Tag)) -> u16 {
        let number = self.numbers.entry(key).or_default();
        *number += 1;
        *number - 1
    }

    fn arrive(&mut self, schedule: &Schedule, frame: &Frame) {
        let key = (frame.from, frame.tag, frame.number);
        if self.arrived.contains_key(&key) {
            return;
        }
        self.arrived.insert(key, frame.payload.clone());
        if let Some(id) = self.posted.remove(&key) {
            self.receive(schedule, id, key);
        }
        self.go_on(schedule);
    }

    fn receive(&mut self, schedule: &Schedule, id: OpId, key: (Rank, Tag, u16)) {
        let Op::Recv { buffer, .. } = schedule.op(id) else { unreachable!() };
        if let Some(at) = offset(buffer) {
            let payload = &self.arrived[&key];
            self.scratch[at..][..payload.len()].copy_from_slice(payload);
        }
        self.stepper.finish(schedule, id);
    }

    fn go_on(&mut self, schedule: &Schedule) {
        while let Some(id) = self.stepper.take(schedule) {
            match schedule.op(id) {
                Op::Recv { source, tag, .. } => {
                    let (source, tag) = (source.expect("named"), tag.expect("named"));
                    let key = (source, tag, self.number((true, source, tag)));
                    if self.arrived.contains_key(&key) {
                        self.receive(schedule, id, key);
                    } else {
                        self.posted.insert(key, id);
                    }
                    continue;
                }
                Op::Send { buffer, bytes, dest, tag } => {
                    let number = self.number((false, dest, tag));
                    let at = offset(buffer);
                    let message = at
                        .map_or(vec![0; bytes as usize], |at| self.scratch[at..][..bytes as usize].to_vec());
                    self.sent.insert((dest, tag, number), (message, at.is_some()));
                }
                Op::Local { b1, b2, b3, arithmetic, count } => {
                    let bytes = (count * arithmetic.element().bytes()) as usize;
                    let operand =
                        |buffer| offset(buffer).map_or(Vec::new(), |at| self.scratch[at..][..bytes].to_vec());
                    let (first, second) = (operand(b1), operand(b2));
                    let at = offset(b3).expect("a result");
                    arithmetic::apply(arithmetic, &first, &second, &mut self.scratch[at..][..bytes]);
                }
                _ => {}
            }
            self.stepper.finish(schedule, id);
        }
    }
}

fn offset(buffer: Buffer<'_>) -> Option<usize> {
    match buffer {
        Buffer::Plain(place) if place.memory == Memory::Scratch => Some(place.offset as usize),
        _ => None,
    }
}

struct Trial<'a> {
    seed: u64,
    interface: &'a Interface,
    schedule: &'a Schedule,
    session: Session,
    session_number: u64,
    inputs: Vec<Vec<u8>>,
    models: BTreeMap<u32, Model>,
    /// Frames of runs that were not started yet.
    early: Vec<Frame>,
    sent_to: BTreeMap<(Rank, Tag), u32>,
}

impl Trial<'_> {
    fn run(&mut self, frames: Vec<Frame>, runs: u32, random: &mut ChaCha8Rng, tally: &mut Tally) {
        let mut frames = VecDeque::from(frames);
        let mut given: Vec<Frame> = Vec::new();
        while !frames.is_empty() || self.models.len() < runs as usize {
            let starts = self.models.len() < runs as usize && (frames.is_empty() || random.random_bool(0.1));
            if starts {
                self.start();
            } else if let Some(frame) = frames.pop_front() {
                tally.frames += 1;
                self.give(&frame);
                given.push(frame);
            }
            if random.random_bool(0.1) {
                tally.frames += self.give_what_is_wrong(&given, random);
            }
        }
        for run in 0..runs {
            self.compare(run);
            assert!(self.models[&run].stepper.is_finished(), "seed {}: the model is not through", self.seed);
            let mut scratch = vec![0; SCRATCH_BYTES as usize];
            self.session.read(Run(run), &mut scratch);
            assert_eq!(scratch, self.models[&run].scratch, "seed {}: scratchpad of run {run}", self.seed);
        }
    }

    fn start(&mut self) {
        let at = self.models.len() as u32;
        let scratch = self.inputs[at as usize].clone();
        let run = self.session.start(&scratch).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        assert_eq!(run, Run(at));
        let mut model = Model {
            stepper: Stepper::new(self.schedule),
            scratch,
            arrived: BTreeMap::new(),
            posted: BTreeMap::new(),
            numbers: BTreeMap::new(),
            sent: BTreeMap::new(),
        };
        for frame in self.early.iter().filter(|frame| frame.run == at) {
            model.arrived.insert((frame.from, frame.tag, frame.number), frame.payload.clone());
        }
        model.go_on(self.schedule);
        self.models.insert(at, model);
        self.compare(at);
    }

    fn give(&mut self, frame: &Frame) {
        let before = self.models.get(&frame.run).map_or(0, |model| model.sent.len());
        let verdict = self.verdict(&frame.to_bytes(self.session_number, mac_of(frame.from)));
        // The process does that, woken, where more is to be sent than a frame brings forth.
        self.session.poll(Run(frame.run)).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        match self.models.get_mut(&frame.run) {
            None => self.early.push(frame.clone()),
            Some(model) => model.arrive(self.schedule, frame),
        }
        let sends = self.models.get(&frame.run).map_or(0, |model| model.sent.len()) - before;
        match (sends, verdict) {
            (0, Verdict::Taken) | (2.., Verdict::Copied) => {}
            (1, Verdict::Turned(bytes)) => self.look_at_turned(frame.run, &bytes),
            (sends, verdict) => {
                panic!("seed {}: {sends} messages were to be sent, and the frame was {verdict:?}", self.seed)
            }
        }
        if self.models.contains_key(&frame.run) {
            self.compare(frame.run);
        }
    }

    /// The frame that leaves carries a message that the model has sent.
    fn look_at_turned(&self, run: u32, bytes: &[u8]) {
        let word = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("a whole head"));
        let short = |at: usize| u16::from_le_bytes(*bytes[at..].first_chunk().expect("a whole head"));
        let to = Rank(word(30));
        assert_eq!((&bytes[..6], &bytes[6..12]), (&mac_of(to).0[..], &MY_MAC.0[..]), "seed {}", self.seed);
        assert_eq!((word(26), word(38)), (ME.0, run), "seed {}", self.seed);
        let (message, counts) = &self.models[&run].sent[&(to, Tag(word(34)), short(46))];
        let length = usize::from(short(16));
        assert_eq!(length, message.len(), "seed {}", self.seed);
        assert!(!counts || &bytes[54..][..length] == message, "seed {}: what was sent", self.seed);
    }

    /// Frames that change nothing: again, of others, too short, from elsewhere, of runs long gone or far ahead. Gives how many.
    fn give_what_is_wrong(&mut self, given: &[Frame], random: &mut ChaCha8Rng) -> u64 {
        let Some(frame) = given.choose(random) else { return 0 };
        let (session, mac) = (self.session_number, mac_of(frame.from));
        let bytes = match random.random_range(0..7) {
            0 => frame.to_bytes(session, mac),
            1 => frame.to_bytes(session ^ 1 << random.random_range(0..64), mac),
            2 => frame.to_bytes(session, Mac([9; 6])),
            3 => Frame { number: frame.number + 1000, ..frame.clone() }.to_bytes(session, mac),
            4 => Frame { run: frame.run + 8 + random.random_range(0..1000), ..frame.clone() }
                .to_bytes(session, mac),
            5 => Frame { from: ME, ..frame.clone() }.to_bytes(session, MY_MAC),
            _ => {
                let mut bytes = frame.to_bytes(session, mac);
                bytes.truncate(random.random_range(14..54));
                assert_eq!(
                    self.verdict(&bytes),
                    Verdict::Passed,
                    "seed {}: what is too short is not castell's",
                    self.seed
                );
                return 1;
            }
        };
        assert_eq!(self.verdict(&bytes), Verdict::Taken, "seed {}: a frame that changes nothing", self.seed);
        for run in 0..self.models.len() as u32 {
            self.compare(run);
        }
        1
    }

    fn verdict(&self, bytes: &[u8]) -> Verdict {
        self.interface.try_frame(bytes).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed))
    }

    /// The same messages were sent, and both are through or both are not.
    fn compare(&self, run: u32) {
        let model = &self.models[&run];
        assert_eq!(
            self.session.has_ended(Run(run)),
            model.stepper.is_finished(),
            "seed {}: end of run {run}",
            self.seed
        );
        for (&(to, tag), &count) in &self.sent_to {
            for number in 0..count {
                let here = self.session.sent(Run(run), to, tag, number);
                let there = model.sent.get(&(to, tag, number as u16));
                let same = match (&here, there) {
                    (None, None) => true,
                    (Some(here), Some((there, counts))) => {
                        here.len() == there.len() && (!counts || here == there)
                    }
                    _ => false,
                };
                assert!(
                    same,
                    "seed {}: run {run}, message {number} to {to} with tag {tag:?}: {here:?}, not {there:?}",
                    self.seed
                );
            }
        }
    }
}
