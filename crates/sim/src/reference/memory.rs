//! Scratchpads of all ranks, where a simulation carries data.

use crate::error::SimError;
use crate::instrument::Flight;
use crate::source::Schedules;
use castell_base::{Rank, Time};
use castell_goal::arithmetic;
use castell_goal::op::{Block, Buffer, Memory as Kind, Op, Place};
use castell_goal::schedule::OpId;

/// The bytes.
pub(super) struct Memory {
    scratchpads: Vec<Vec<u8>>,
}

impl Memory {
    /// Starts from these scratchpads, one a rank; those that are missing are zeros.
    pub fn new(schedules: &Schedules<'_>, mut bytes: Vec<Vec<u8>>) -> Result<Memory, SimError> {
        for (rank, schedule) in schedules.iter() {
            let expected = schedule.scratchpad_bytes();
            match bytes.get(rank.index()) {
                None => bytes.push(vec![0; expected as usize]),
                Some(given) if given.len() as u64 == expected => {}
                Some(given) => {
                    return Err(SimError::Scratchpad { rank, given: given.len() as u64, expected });
                }
            }
            let mut addresses = schedule.operations().filter(|&id| schedule.op(id).names_address());
            if let Some(id) = addresses.next() {
                return Err(SimError::Address { operation: schedules.name(rank, id) });
            }
        }
        Ok(Memory { scratchpads: bytes })
    }

    pub fn into_bytes(self) -> Vec<Vec<u8>> {
        self.scratchpads
    }

    /// Carries out an operation that concerns its rank only.
    pub fn execute(&mut self, schedules: &Schedules<'_>, rank: Rank, operation: OpId, now: Time) {
        match schedules.of(rank).op(operation) {
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let bytes = count * arithmetic.element().bytes();
                let (first, second) = (self.read(rank, b1, bytes), self.read(rank, b2, bytes));
                let mut result = vec![0; bytes as usize];
                arithmetic::apply(arithmetic, &first, &second, &mut result);
                self.write(rank, b3, &result);
            }
            Op::Wtime { b3 } => {
                let seconds = now.0 as f64 / 1e12;
                self.write(rank, Buffer::Plain(b3), &seconds.to_ne_bytes());
            }
            _ => {}
        }
    }

    /// What a send or put sends.
    pub fn gather(&self, schedules: &Schedules<'_>, rank: Rank, operation: OpId) -> Vec<u8> {
        match schedules.of(rank).op(operation) {
            Op::Send { buffer, bytes, .. } => self.read(rank, buffer, bytes),
            Op::Put { local, bytes, .. } => self.read(rank, Buffer::Plain(local), bytes),
            _ => Vec::new(),
        }
    }

    /// Stores what a receive or get was given.
    pub fn scatter(&mut self, schedules: &Schedules<'_>, rank: Rank, operation: OpId, data: &[u8]) {
        match schedules.of(rank).op(operation) {
            Op::Recv { buffer, .. } => self.write(rank, buffer, data),
            Op::Get { local, .. } => self.write(rank, Buffer::Plain(local), data),
            _ => {}
        }
    }

    /// Stores what a put brought.
    pub fn write_put(
        &mut self,
        schedules: &Schedules<'_>,
        flight: &Flight,
        data: &[u8],
    ) -> Result<(), SimError> {
        let Op::Put { remote, dest, .. } = schedules.of(flight.from).op(flight.operation) else {
            return Ok(());
        };
        self.check_remote(schedules, flight, dest, remote, data.len() as u64)?;
        self.write(dest, Buffer::Plain(remote), data);
        Ok(())
    }

    /// What a get asks for; `question` is the message that asks.
    pub fn read_get(&self, schedules: &Schedules<'_>, question: &Flight) -> Result<Vec<u8>, SimError> {
        let Op::Get { remote, source, bytes, .. } = schedules.of(question.from).op(question.operation) else {
            return Ok(Vec::new());
        };
        self.check_remote(schedules, question, source, remote, bytes)?;
        Ok(self.read(source, Buffer::Plain(remote), bytes))
    }

    fn check_remote(
        &self,
        schedules: &Schedules<'_>,
        flight: &Flight,
        peer: Rank,
        remote: Place,
        bytes: u64,
    ) -> Result<(), SimError> {
        let available = self.scratchpads[peer.index()].len() as u64;
        let (offset, end) = (remote.offset, remote.offset.saturating_add(bytes));
        if remote.memory == Kind::Scratch && end > available {
            let operation = schedules.name(flight.from, flight.operation);
            return Err(SimError::RemoteBounds { operation, peer, offset, end, available });
        }
        Ok(())
    }

    /// The bytes of a buffer; zeros where it has no memory. Buffers lie in the scratchpad: schedules are verified.
    fn read(&self, rank: Rank, buffer: Buffer<'_>, bytes: u64) -> Vec<u8> {
        let mut data = Vec::with_capacity(bytes as usize);
        let scratchpad = &self.scratchpads[rank.index()];
        for_blocks(buffer, bytes, |Block { offset, bytes }| {
            data.extend_from_slice(&scratchpad[offset as usize..][..bytes as usize]);
        });
        data.resize(bytes as usize, 0);
        data
    }

    fn write(&mut self, rank: Rank, buffer: Buffer<'_>, mut data: &[u8]) {
        let scratchpad = &mut self.scratchpads[rank.index()];
        for_blocks(buffer, data.len() as u64, |Block { offset, bytes }| {
            let (now, later) = data.split_at(bytes as usize);
            scratchpad[offset as usize..][..bytes as usize].copy_from_slice(now);
            data = later;
        });
    }
}

/// Tells the pieces of a buffer in the scratchpad, in order.
fn for_blocks(buffer: Buffer<'_>, bytes: u64, mut tell: impl FnMut(Block)) {
    match buffer {
        Buffer::Plain(Place { memory: Kind::Scratch, offset }) => tell(Block { offset, bytes }),
        Buffer::Vector(Kind::Scratch, blocks) => blocks.iter().for_each(tell),
        _ => {}
    }
}
