//! Steps for the kernel's program, from a rank's schedule.

use crate::layout::{
    AREA_BYTES, EDGES_MAX, LOCAL, MESSAGE_BYTES_MAX, NOWHERE, OPERATIONS_MAX, PEERS_MAX, PROXY, RECV, SEND,
    Step,
};
use castell_base::{Rank, Tag};
use castell_goal::op::{Arithmetic, Buffer, ElementType, Memory, Op, Operator};
use castell_goal::schedule::{OpId, Schedule};
use std::collections::BTreeMap;
use std::fmt;

/// A schedule as the kernel's program takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    pub(crate) steps: Vec<Step>,
    pub(crate) edges: Vec<u32>,
    pub(crate) independent: u32,
    pub(crate) channels: Vec<Channel>,
    pub(crate) peers: Vec<Rank>,
    pub(crate) scratchpad_bytes: usize,
    pub(crate) message_bytes_max: usize,
}

/// All messages of one tag that go one way between this rank and a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub is_inbound: bool,
    pub peer: u32,
    pub tag: Tag,
    pub base: u32,
    pub count: u32,
    pub stride: u32,
    pub data: u32,
}

/// Why a schedule does not fit into the kernel: which operation, or what of all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The operation, as it is called in messages; `None`: it is all of them together.
    pub operation: Option<String>,
    /// What is the matter.
    pub why: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.operation {
            Some(operation) => write!(f, "{operation} cannot be carried out in the kernel: {}", self.why),
            None => write!(f, "the schedule cannot be carried out in the kernel: {}", self.why),
        }
    }
}

impl std::error::Error for Misfit {}

type Key = (bool, Rank, Tag);

impl Compiled {
    /// The steps of rank `me`'s schedule.
    ///
    /// # Errors
    /// Something of it needs a processor, or more room than there is: [`Misfit`] says what.
    pub fn new(schedule: &Schedule, me: Rank) -> Result<Compiled, Misfit> {
        if schedule.len() > OPERATIONS_MAX {
            return Err(all(format!(
                "it has {} operations, and at most {OPERATIONS_MAX} fit",
                schedule.len()
            )));
        }
        if schedule.scratchpad_bytes() > AREA_BYTES as u64 {
            return Err(all(format!(
                "its scratchpad has {} bytes, and at most {AREA_BYTES} fit",
                schedule.scratchpad_bytes()
            )));
        }
        let ids: Vec<OpId> = schedule.operations().collect();
        let mut compiler = Compiler { schedule, me, ids, sizes: BTreeMap::new() };
        let mut steps = Vec::with_capacity(schedule.len());
        for at in 0..compiler.ids.len() {
            let step = compiler.step(at).map_err(|why| Misfit { operation: Some(compiler.name(at)), why })?;
            steps.push(step);
        }
        let (channels, peers) = compiler.channels()?;
        compiler.enter_channels(&mut steps, &channels, &peers);
        let edges = compiler.edges(&mut steps)?;
        Ok(Compiled {
            steps,
            edges,
            independent: schedule.independent() as u32,
            channels,
            peers,
            scratchpad_bytes: schedule.scratchpad_bytes() as usize,
            message_bytes_max: schedule.max_message_bytes() as usize,
        })
    }

    /// With whom messages are exchanged.
    pub fn peers(&self) -> &[Rank] {
        &self.peers
    }

    /// Bytes of the scratchpad.
    pub fn scratchpad_bytes(&self) -> usize {
        self.scratchpad_bytes
    }

    /// Number of operations.
    pub fn operations(&self) -> usize {
        self.steps.len()
    }
}

fn all(why: String) -> Misfit {
    Misfit { operation: None, why }
}

struct Compiler<'a> {
    schedule: &'a Schedule,
    me: Rank,
    ids: Vec<OpId>,
    /// How many messages, and how long the longest is.
    sizes: BTreeMap<Key, (u32, u64)>,
}

impl Compiler<'_> {
    fn name(&self, at: usize) -> String {
        let id = self.ids[at];
        let label = self.schedule.label(id).map_or(String::new(), |label| format!(" `{label}`"));
        let rank = self.me;
        let what = match self.schedule.op(id) {
            Op::Send { bytes, dest, tag, .. } => {
                format!("the send of {bytes} bytes to rank {dest} with tag {tag}")
            }
            Op::Recv { bytes, source: Some(source), .. } => {
                format!("the receive of {bytes} bytes from rank {source}")
            }
            Op::Recv { bytes, source: None, .. } => format!("the receive of {bytes} bytes from any rank"),
            Op::Calc { ns } => format!("the calc of {ns} ns"),
            Op::Sleep { ns } => format!("the sleep of {ns} ns"),
            Op::Local { arithmetic, count, .. } => {
                format!("the {} of {count} {}", arithmetic.operator().name(), arithmetic.element().name())
            }
            Op::Proxy => "the proxy".into(),
            Op::Wtime { .. } => "the wtime".into(),
            Op::Call { .. } => "the call".into(),
            Op::Put { bytes, dest, .. } => format!("the put of {bytes} bytes to rank {dest}"),
            Op::Get { bytes, source, .. } => format!("the get of {bytes} bytes from rank {source}"),
        };
        format!("rank {rank}: {what} (operation {at}{label})")
    }

    fn step(&mut self, at: usize) -> Result<Step, String> {
        match self.schedule.op(self.ids[at]) {
            Op::Proxy | Op::Calc { ns: 0 } | Op::Sleep { ns: 0 } => {
                Ok(Step { kind: PROXY, ..Step::default() })
            }
            Op::Send { buffer, bytes, dest, tag } => {
                self.enter_message((false, dest, tag), bytes)?;
                Ok(Step { kind: SEND, bytes: bytes as u32, b1: place(buffer)?, ..Step::default() })
            }
            Op::Recv { buffer, bytes, source, tag } => {
                let source = source.ok_or("it takes messages from any rank; name the rank")?;
                let tag = tag.ok_or("it takes messages with any tag; name the tag")?;
                self.enter_message((true, source, tag), bytes)?;
                Ok(Step { kind: RECV, bytes: bytes as u32, b3: place(buffer)?, ..Step::default() })
            }
            Op::Local { b1, b2, b3, arithmetic, count } => local(arithmetic, [b1, b2, b3], count),
            Op::Calc { .. } => Err("computing takes a processor".into()),
            Op::Sleep { .. } => Err("nothing there waits for a time".into()),
            Op::Wtime { .. } => {
                Err("it writes a floating-point number, which the kernel's programs cannot make".into())
            }
            Op::Call { .. } => Err("functions of the process cannot be called from there".into()),
            Op::Put { .. } | Op::Get { .. } => {
                Err("nobody's memory is written or read from there, only messages go".into())
            }
        }
    }

    fn enter_message(&mut self, key: Key, bytes: u64) -> Result<(), String> {
        if key.1 == self.me {
            return Err("it is between a rank and itself, and an interface does not hear itself".into());
        }
        if bytes > MESSAGE_BYTES_MAX as u64 {
            return Err(format!("it does not fit into one frame; up to {MESSAGE_BYTES_MAX} bytes do"));
        }
        let (count, longest) = self.sizes.entry(key).or_default();
        *count += 1;
        *longest = bytes.max(*longest);
        Ok(())
    }

    fn channels(&self) -> Result<(Vec<Channel>, Vec<Rank>), Misfit> {
        let mut peers: Vec<Rank> = self.sizes.keys().map(|(_, rank, _)| *rank).collect();
        peers.sort_unstable();
        peers.dedup();
        if peers.len() > PEERS_MAX {
            return Err(all(format!(
                "it exchanges messages with {} ranks, and at most {PEERS_MAX} fit",
                peers.len()
            )));
        }
        let mut channels = Vec::new();
        let (mut base, mut data) = ([0; 2], [0_u64; 2]);
        for (&(is_inbound, rank, tag), &(count, longest)) in &self.sizes {
            let side = usize::from(is_inbound);
            let stride = longest.next_multiple_of(8);
            let peer = peers.binary_search(&rank).expect("all are listed") as u32;
            channels.push(Channel {
                is_inbound,
                peer,
                tag,
                base: base[side],
                count,
                stride: stride as u32,
                data: data[side] as u32,
            });
            base[side] += count;
            data[side] += stride * u64::from(count);
        }
        for (what, bytes) in [("sends", data[0]), ("receives", data[1])] {
            if bytes > AREA_BYTES as u64 {
                return Err(all(format!(
                    "it {what} {bytes} bytes in all (each message rounded up to 8), and at most {AREA_BYTES} fit"
                )));
            }
        }
        Ok((channels, peers))
    }

    fn enter_channels(&self, steps: &mut [Step], channels: &[Channel], peers: &[Rank]) {
        let keys: BTreeMap<Key, u32> = (0..)
            .zip(channels)
            .map(|(at, channel)| ((channel.is_inbound, peers[channel.peer as usize], channel.tag), at))
            .collect();
        for (step, id) in steps.iter_mut().zip(&self.ids) {
            let key = match self.schedule.op(*id) {
                Op::Send { dest, tag, .. } => (false, dest, tag),
                Op::Recv { source: Some(source), tag: Some(tag), .. } => (true, source, tag),
                _ => continue,
            };
            step.channel = keys[&key];
        }
    }

    /// The successors of all, one behind the other; who waits for how many.
    fn edges(&self, steps: &mut [Step]) -> Result<Vec<u32>, Misfit> {
        let index: BTreeMap<OpId, u32> = self.ids.iter().copied().zip(0..).collect();
        let mut edges = Vec::new();
        for (at, &id) in self.ids.iter().enumerate() {
            let successors = self.schedule.successors(id).map(|next| index[&next]);
            let at_first = edges.len();
            edges.extend(successors);
            let at_starts = edges.len();
            edges.extend(self.schedule.start_successors(id).map(|next| index[&next]));
            let step = &mut steps[at];
            (step.successors_at, step.successors) = (at_first as u32, (at_starts - at_first) as u32);
            (step.starts_at, step.starts) = (at_starts as u32, (edges.len() - at_starts) as u32);
        }
        if edges.len() > EDGES_MAX {
            return Err(all(format!("it has {} dependencies, and at most {EDGES_MAX} fit", edges.len())));
        }
        for &next in &edges {
            steps[next as usize].needs += 1;
        }
        for (step, &id) in steps.iter_mut().zip(&self.ids) {
            step.needs = self.schedule.traits(id).any.unwrap_or(step.needs);
        }
        Ok(edges)
    }
}

/// The offset in the scratchpad, or [`NOWHERE`].
fn place(buffer: Buffer<'_>) -> Result<u32, String> {
    match buffer {
        Buffer::Plain(place) => match place.memory {
            Memory::Void => Ok(NOWHERE),
            Memory::Scratch => Ok(place.offset as u32),
            Memory::User => {
                Err("its buffer is memory of the process; only the scratchpad is seen there".into())
            }
        },
        Buffer::Vector(..) => {
            Err("its buffer is a list of blocks; only contiguous ones are taken there".into())
        }
    }
}

fn local(arithmetic: Arithmetic, buffers: [Buffer<'_>; 3], count: u64) -> Result<Step, String> {
    let (operator, element) = (arithmetic.operator(), arithmetic.element());
    if element.is_float() && operator != Operator::Copy {
        return Err(
            "the kernel's programs have no floating point; integers are computed, others only copied".into(),
        );
    }
    let bytes = count.saturating_mul(element.bytes());
    if bytes > AREA_BYTES as u64 {
        return Err(format!("it has {bytes} bytes, and at most {AREA_BYTES} fit"));
    }
    let [b1, b2, b3] = buffers;
    let (b1, b3) = (place(b1)?, place(b3)?);
    let b2 = if operator == Operator::Copy { b1 } else { place(b2)? };
    if [b1, b2, b3].contains(&NOWHERE) {
        return Err("it names no memory".into());
    }
    let overlaps = |from: u32| from != b3 && u64::from(from.abs_diff(b3)) < bytes;
    if overlaps(b1) || overlaps(b2) {
        return Err("its result overlaps an operand in part".into());
    }
    let element = ElementType::ALL.iter().position(|one| *one == element).expect("all are listed");
    let operator = Operator::ALL.iter().position(|one| *one == operator).expect("all are listed");
    let (bytes, count) = (bytes as u32, count as u32);
    let step = Step {
        kind: LOCAL,
        bytes,
        b1,
        b2,
        b3,
        count,
        operator: operator as u32,
        element: element as u32,
        ..Step::default()
    };
    Ok(step)
}
