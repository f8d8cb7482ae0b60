//! What has to hold for any bytes that are given as a trace of accesses: the fuzz target asserts it, and so does a quick test of
//! `castell-cachesim`.

use castell_cachesim::programs::recorded::{Pace, Part, recorded};
use castell_cachesim::trace::{Event, TraceWriter, read_trace};

const HEADER_BYTES: usize = 16;

/// A trace is refused, or read to its end or to where it is damaged; what is read is written as a trace that reads as the same, and as
/// a program it is refused, or makes no more accesses than it has events, the same ones in each pass.
pub fn any_bytes(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend(&mut bytes);
    let Ok((block_shift, mut events)) = read_trace(&bytes) else { return };
    let read: Vec<Event> = events.by_ref().map_while(Result::ok).collect();
    assert!(events.next().is_none(), "behind an error there is no more");
    let mut written = Vec::new();
    let mut writer = TraceWriter::new(&mut written, block_shift).expect("memory can be written");
    read.iter().try_for_each(|event| writer.write(*event)).expect("memory can be written");
    writer.finish().expect("memory can be written");
    let (again, events) = read_trace(&written).expect("what was written can be read");
    assert_eq!(again, block_shift);
    assert!(events.map(|event| event.expect("it is whole")).eq(read.iter().copied()));
    let Ok(program) = recorded("it", written, Pace::default(), Part::default()) else { return };
    let passes = [0, 1].map(|_| {
        let mut accesses = Vec::new();
        program.pass(0, &mut |access| accesses.push(access));
        accesses
    });
    assert!(passes[0] == passes[1] && !passes[0].is_empty() && passes[0].len() <= read.len());
}

/// Makes the checksums right, as far as the chunks' lengths allow: else no mutation would get past them.
fn mend(bytes: &mut [u8]) {
    let mut at = HEADER_BYTES;
    while let Some(head) = bytes.get(at..at + 8) {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(chunk) = bytes.get(at + 8..at + 8 + length).filter(|chunk| !chunk.is_empty()) else {
            return;
        };
        let sum = crc32fast::hash(chunk);
        bytes[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        at += 8 + length;
    }
}
