//! Traces of accesses as bytes: what `castell distances --trace` writes.
//!
//! A header of 16 bytes (magic, version, bits of a block's size), then chunks: 4 bytes of length, 4 of checksum (CRC-32), and so many
//! bytes of events. Little-endian. An event is a number of 7-bit groups, lowest first: its lower two bits say what it is, the others
//! its value. A block's value is its difference to the last block of the trace, as a signed number folded into an unsigned one. The
//! last chunk is empty, with the number of events in place of the checksum: a trace without it was cut off.

use std::io::{self, Write};

const MAGIC: [u8; 8] = *b"CASTTRAC";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 16;
/// Bytes of events in a chunk, about.
const CHUNK_BYTES: usize = 1 << 16;
/// The most bytes of one event.
const EVENT_BYTES_MAX: usize = 10;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An access to this block, another one than that before (of the same process).
    Block(u64),
    /// What follows is this thread's.
    Thread(u64),
    /// So many further accesses since the last such event, each to the block touched just before it.
    Repeats(u64),
    /// What follows is this process's.
    Process(u32),
}

/// Why bytes are no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The header.
    #[error("this is no trace of castell's")]
    NoTrace,
    /// The version.
    #[error("this trace is of version {0}; this castell reads version {VERSION}")]
    Version(u32),
    /// A chunk.
    #[error("the trace is damaged at byte {0}")]
    Damaged(usize),
    /// The end is missing.
    #[error("the trace was cut off: its end is missing")]
    CutOff,
}

/// Writes a trace.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    chunk: Vec<u8>,
    last: u64,
    events: u32,
}

impl<W: Write> TraceWriter<W> {
    /// A trace of blocks of 2^`block_shift` bytes.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(mut out: W, block_shift: u32) -> io::Result<TraceWriter<W>> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&block_shift.to_le_bytes())?;
        Ok(TraceWriter { out, chunk: Vec::with_capacity(CHUNK_BYTES + EVENT_BYTES_MAX), last: 0, events: 0 })
    }

    /// The next event. Blocks and counts are below 2^60.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&mut self, event: Event) -> io::Result<()> {
        let (kind, value) = match event {
            Event::Block(block) => {
                let step = block.wrapping_sub(self.last) as i64;
                self.last = block;
                (0, (step << 1 ^ step >> 63) as u64)
            }
            Event::Thread(thread) => (1, thread),
            Event::Repeats(count) => (2, count),
            Event::Process(process) => (3, process.into()),
        };
        let mut rest = value << 2 | kind;
        while rest >= 0x80 {
            self.chunk.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.chunk.push(rest as u8);
        self.events = self.events.wrapping_add(1);
        if self.chunk.len() >= CHUNK_BYTES { self.end_chunk() } else { Ok(()) }
    }

    /// Writes the end.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            self.end_chunk()?;
        }
        self.out.write_all(&0u32.to_le_bytes())?;
        self.out.write_all(&self.events.to_le_bytes())?;
        self.out.flush()
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        self.out.write_all(&(self.chunk.len() as u32).to_le_bytes())?;
        self.out.write_all(&crc32fast::hash(&self.chunk).to_le_bytes())?;
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }
}

/// Reads a trace, event by event; after an error there is no more.
#[derive(Debug)]
pub struct TraceReader<'a> {
    bytes: &'a [u8],
    /// Where the next chunk begins, and what is left of the one before.
    next: usize,
    chunk: &'a [u8],
    last: u64,
    events: u32,
    has_ended: bool,
}

/// Starts to read a trace; gives the bits of a block's size, too.
///
/// # Errors
/// It is no trace, or one of another version.
pub fn read_trace(bytes: &[u8]) -> Result<(u32, TraceReader<'_>), TraceError> {
    let Some(header) = bytes.get(..HEADER_BYTES).filter(|header| header[..8] == MAGIC) else {
        return Err(TraceError::NoTrace);
    };
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if word(8) != VERSION {
        return Err(TraceError::Version(word(8)));
    }
    if word(12) > 20 {
        return Err(TraceError::Damaged(12));
    }
    let reader = TraceReader { bytes, next: HEADER_BYTES, chunk: &[], last: 0, events: 0, has_ended: false };
    Ok((word(12), reader))
}

impl TraceReader<'_> {
    /// The next chunk; false: there is none, as it should be.
    fn begin_chunk(&mut self) -> Result<bool, TraceError> {
        let at = self.next;
        let head = self.bytes.get(at..at + 8).ok_or(TraceError::CutOff)?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let (length, sum) = (word(0) as usize, word(4));
        if length == 0 {
            return if sum == self.events && self.bytes.len() == at + 8 {
                Ok(false)
            } else {
                Err(TraceError::Damaged(at))
            };
        }
        if length > CHUNK_BYTES + EVENT_BYTES_MAX {
            return Err(TraceError::Damaged(at));
        }
        self.chunk = self.bytes.get(at + 8..at + 8 + length).ok_or(TraceError::CutOff)?;
        if crc32fast::hash(self.chunk) != sum {
            return Err(TraceError::Damaged(at));
        }
        self.next = at + 8 + length;
        Ok(true)
    }

    fn event(&mut self) -> Result<Option<Event>, TraceError> {
        if self.chunk.is_empty() && !self.begin_chunk()? {
            return Ok(None);
        }
        let damaged = TraceError::Damaged(self.next);
        let mut value = 0u64;
        let length = self.chunk.iter().position(|byte| byte & 0x80 == 0).ok_or(damaged)? + 1;
        let (own, rest) = self.chunk.split_at(length);
        if length > EVENT_BYTES_MAX {
            return Err(damaged);
        }
        for (at, byte) in own.iter().enumerate() {
            value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32).ok_or(damaged)?;
        }
        self.chunk = rest;
        self.events = self.events.wrapping_add(1);
        let (kind, value) = (value & 3, value >> 2);
        Ok(Some(match kind {
            0 => {
                let step = (value >> 1) as i64 ^ -((value & 1) as i64);
                self.last = self.last.wrapping_add(step as u64);
                Event::Block(self.last)
            }
            1 => Event::Thread(value),
            2 => Event::Repeats(value),
            _ => Event::Process(u32::try_from(value).map_err(|_| damaged)?),
        }))
    }
}

impl Iterator for TraceReader<'_> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let event = self.event();
        self.has_ended = !matches!(event, Ok(Some(_)));
        event.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(events: &[Event]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = TraceWriter::new(&mut bytes, 6).expect("memory");
        events.iter().for_each(|event| writer.write(*event).expect("memory"));
        writer.finish().expect("memory");
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Event>, TraceError> {
        read_trace(bytes)?.1.collect()
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0..1u64 << 60).prop_map(Event::Block),
            (0..50u64).prop_map(Event::Block),
            (0..1u64 << 60).prop_map(Event::Thread),
            (0..1u64 << 60).prop_map(Event::Repeats),
            any::<u32>().prop_map(Event::Process),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in prop::collection::vec(event(), 0..300)) {
            prop_assert_eq!(read(&written(&events)), Ok(events));
        }

        #[test]
        fn damage_is_noticed(events in prop::collection::vec(event(), 1..50), at in any::<prop::sample::Index>(), change in 1..=255u8) {
            let mut bytes = written(&events);
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            // Another size of blocks is no damage that could be seen.
            if !(12..16).contains(&at) {
                prop_assert!(read(&bytes).is_err(), "byte {}", at);
            }
            prop_assert!(read(&bytes[..at]).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let with_header = [&written(&[])[..HEADER_BYTES], &bytes].concat();
            let _ = (read(&bytes), read(&with_header));
        }
    }

    #[test]
    fn long_traces_have_many_chunks() {
        let events: Vec<Event> =
            (0..100_000u64).map(|at| Event::Block(at.wrapping_mul(0x9e37_79b9_7f4a) % (1 << 40))).collect();
        let bytes = written(&events);
        assert!(bytes.len() > 3 * CHUNK_BYTES);
        assert_eq!(read(&bytes), Ok(events));
    }
}
