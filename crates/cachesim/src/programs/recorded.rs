//! A program that was observed: the accesses of a trace, from the first to the last, again and again.
//!
//! A trace has the order of a program's accesses, not their times, and it does not say which of them wait for others. So each access
//! takes equally long on a core that is stalled by nothing, and how many requests are under way at most is for the user to say.

use super::{Access, FRESH, Program, Sink};
use crate::machine::BLOCK_BYTES;
use crate::trace::{Event, TraceError, read_trace};
use std::collections::BTreeMap;

/// What a trace does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Requests that the core has under way at most; 1 for a program that follows pointers.
    pub window: usize,
    /// What an access costs a core that is stalled by nothing, with all that is computed until the next one. Picoseconds.
    pub access_ps: u32,
}

impl Default for Pace {
    /// Ten requests under way, as hardware prefetches for loops; two accesses a nanosecond.
    fn default() -> Pace {
        Pace { window: 10, access_ps: 500 }
    }
}

/// Which part of a trace is run, where all of it would take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The process's accesses before it.
    pub skip: u64,
    /// How many it has at most.
    pub accesses: u64,
}

impl Default for Part {
    /// All.
    fn default() -> Part {
        Part { skip: 0, accesses: u64::MAX }
    }
}

impl Part {
    /// How many of `count` accesses lie in it, of which `before` come before.
    fn share(self, before: u64, count: u64) -> u64 {
        let end = self.skip.saturating_add(self.accesses);
        before.saturating_add(count).min(end).saturating_sub(before.max(self.skip))
    }
}

/// Why a trace cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// It is damaged.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// There is nothing in it.
    #[error("the trace has no access")]
    Empty,
    /// It is over before that part.
    #[error("the program has {0} accesses in this trace, and all of them are left out")]
    Part(u64),
    /// Larger blocks than the chip's.
    #[error(
        "the trace has blocks of {0} bytes, the chip's are of {BLOCK_BYTES}: observe the program once more with --block {BLOCK_BYTES}"
    )]
    BlockBytes(u64),
    /// An address that no program has.
    #[error("the trace names block {0:#x}, which lies outside of what a program can address")]
    Block(u64),
    /// No request at all.
    #[error("no request under way: a core needs a window of 1 or more")]
    Window,
}

/// The program whose accesses these are, in the bytes of a trace. Of several processes it is the one with the most accesses; threads run on
/// one core, in the order in which they were observed. The bytes are kept, and read in each pass.
///
/// # Errors
/// The bytes are no whole trace, or what is in it cannot be run.
pub fn recorded(name: &str, bytes: Vec<u8>, pace: Pace, part: Part) -> Result<Program, RecordedError> {
    if pace.window == 0 {
        return Err(RecordedError::Window);
    }
    let Busiest { process, shift, accesses } = busiest(&bytes)?;
    if part.skip >= accesses || part.accesses == 0 {
        return Err(RecordedError::Part(accesses));
    }
    Ok(Program::new(name, pace.window, move |sink| {
        let Ok((_, events)) = read_trace(&bytes) else { return };
        let mut own = Own { access_ps: pace.access_ps, shift, ..Own::default() };
        let (mut running, mut seen) = (0, 0u64);
        // Nothing is an error here: all of it was read before.
        for event in events.map_while(Result::ok) {
            if let Event::Process(other) = event {
                running = other;
            } else if running == process {
                let count = match event {
                    Event::Block(_) => 1,
                    Event::Repeats(count) => count,
                    Event::Thread(_) | Event::Process(_) => 0,
                };
                match (event, part.share(seen, count)) {
                    (Event::Repeats(_), share) if share > 0 => own.note(Event::Repeats(share), sink),
                    (Event::Block(block), 0) => own.last = Some(block >> own.shift),
                    (Event::Block(_), _) => own.note(event, sink),
                    _ => {}
                }
                seen = seen.saturating_add(count);
            }
        }
        own.hand_over(0, sink);
    }))
}

/// The process with the most accesses.
struct Busiest {
    process: u32,
    accesses: u64,
    /// By how many bits its blocks are smaller than the chip's.
    shift: u32,
}

fn busiest(bytes: &[u8]) -> Result<Busiest, RecordedError> {
    let (block_shift, events) = read_trace(bytes)?;
    let chip_shift = BLOCK_BYTES.trailing_zeros();
    let shift = chip_shift.checked_sub(block_shift).ok_or(RecordedError::BlockBytes(1 << block_shift))?;
    let mut accesses: BTreeMap<u32, u64> = BTreeMap::new();
    let mut process = 0;
    for event in events {
        match event? {
            Event::Process(other) => process = other,
            Event::Thread(_) => {}
            Event::Block(block) if block >> shift >= FRESH => return Err(RecordedError::Block(block)),
            Event::Block(_) => *accesses.entry(process).or_default() += 1,
            // Without a block before they go nowhere.
            Event::Repeats(count) => {
                if let Some(own) = accesses.get_mut(&process) {
                    *own = own.saturating_add(count);
                }
            }
        }
    }
    let most = accesses.into_iter().max_by_key(|(_, accesses)| *accesses);
    let (process, accesses) = most.ok_or(RecordedError::Empty)?;
    Ok(Busiest { process, accesses, shift })
}

/// The process's accesses that have not been handed over: how often blocks are touched again is told only behind a few of them.
#[derive(Default)]
struct Own {
    access_ps: u32,
    shift: u32,
    blocks: Vec<u64>,
    last: Option<u64>,
}

/// At most so many wait for what is told behind them.
const WAITING_MAX: usize = 1 << 14;

impl Own {
    fn note(&mut self, event: Event, sink: Sink) {
        match event {
            Event::Block(block) => {
                self.blocks.push(block >> self.shift);
                if self.blocks.len() == WAITING_MAX {
                    self.hand_over(0, sink);
                }
            }
            Event::Repeats(count) => self.hand_over(count, sink),
            Event::Thread(_) | Event::Process(_) => {}
        }
    }

    /// Repeated accesses hit in any cache and only take time: it is spread over the blocks that they may belong to.
    fn hand_over(&mut self, repeats: u64, sink: Sink) {
        let access_ps = u64::from(self.access_ps);
        let ps = |count: u64| u32::try_from(count.saturating_mul(access_ps)).unwrap_or(u32::MAX);
        if let (true, Some(block)) = (self.blocks.is_empty() && repeats > 0, self.last) {
            return sink(Access { block, compute_ps: ps(repeats) });
        }
        self.last = self.blocks.last().copied().or(self.last);
        let count = self.blocks.len() as u64;
        for (at, block) in (0..).zip(self.blocks.drain(..)) {
            // The shares of all blocks together are all repeats.
            let share = |at: u64| (u128::from(repeats) * u128::from(at) / u128::from(count.max(1))) as u64;
            sink(Access { block, compute_ps: ps(1 + share(at + 1) - share(at)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceWriter;

    fn trace(block_shift: u32, events: &[Event]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = TraceWriter::new(&mut bytes, block_shift).expect("memory");
        events.iter().for_each(|event| writer.write(*event).expect("memory"));
        writer.finish().expect("memory");
        bytes
    }

    fn pass(block_shift: u32, events: &[Event]) -> Result<Vec<(u64, u32)>, RecordedError> {
        pass_of(Part::default(), block_shift, events)
    }

    fn pass_of(part: Part, block_shift: u32, events: &[Event]) -> Result<Vec<(u64, u32)>, RecordedError> {
        let program = recorded("it", trace(block_shift, events), Pace { window: 1, access_ps: 100 }, part)?;
        let mut all = Vec::new();
        program.pass(0, &mut |access| all.push((access.block, access.compute_ps)));
        let mut again = Vec::new();
        program.pass(0, &mut |access| again.push((access.block, access.compute_ps)));
        assert_eq!(all, again, "every pass is the same");
        Ok(all)
    }

    #[test]
    fn repeats_take_time_where_they_were() {
        let events =
            [Event::Block(7), Event::Block(8), Event::Repeats(5), Event::Repeats(3), Event::Block(9)];
        let expected = vec![(7, 300), (8, 400), (8, 300), (9, 100)];
        assert_eq!(pass(6, &events), Ok(expected));
        // What cannot be said in a number of picoseconds is as much as can.
        assert_eq!(pass(6, &[Event::Block(7), Event::Repeats(1 << 59)]), Ok(vec![(7, u32::MAX)]));
        assert_eq!(pass(6, &[Event::Repeats(5), Event::Block(7)]), Ok(vec![(7, 100)]));
    }

    #[test]
    fn a_part_is_what_lies_in_it() {
        let (mine, other) = (Event::Process(1), Event::Process(2));
        let events = [
            mine,
            Event::Block(4),
            Event::Block(5),
            Event::Repeats(6),
            other,
            Event::Block(9),
            mine,
            Event::Block(7),
        ];
        let part = |skip, accesses| pass_of(Part { skip, accesses }, 6, &events);
        assert_eq!(part(0, 1), Ok(vec![(4, 100)]));
        assert_eq!(part(1, 2), Ok(vec![(5, 200)]), "repeats come behind the block");
        assert_eq!(part(4, 2), Ok(vec![(5, 200)]), "also where it lies before the part");
        assert_eq!(part(8, u64::MAX), Ok(vec![(7, 100)]), "others' do not count");
        assert_eq!((part(9, 1), part(0, 0)), (Err(RecordedError::Part(9)), Err(RecordedError::Part(9))));
    }

    #[test]
    fn the_process_with_the_most_accesses_is_run_on_the_chips_blocks() {
        let (one, other) = (Event::Process(1), Event::Process(2));
        let events = [
            one,
            Event::Block(4),
            Event::Block(5),
            other,
            Event::Block(8),
            Event::Repeats(2),
            one,
            Event::Thread(3),
        ];
        assert_eq!(pass(6, &events), Ok(vec![(8, 300)]));
        // Blocks of 16 bytes: four of them are one of the chip's.
        assert_eq!(pass(4, &events), Ok(vec![(2, 300)]));
        assert_eq!(pass(7, &events), Err(RecordedError::BlockBytes(128)));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        assert_eq!(pass(6, &[]), Err(RecordedError::Empty));
        assert_eq!(pass(6, &[Event::Repeats(3)]), Err(RecordedError::Empty));
        assert_eq!(pass(6, &[Event::Block(FRESH)]), Err(RecordedError::Block(FRESH)));
        let mut cut = trace(6, &[Event::Block(1)]);
        cut.pop();
        assert_eq!(
            recorded("it", cut, Pace::default(), Part::default()).err(),
            Some(TraceError::CutOff.into())
        );
        let still = Pace { window: 0, ..Pace::default() };
        assert_eq!(
            recorded("it", trace(6, &[Event::Block(1)]), still, Part::default()).err(),
            Some(RecordedError::Window)
        );
    }

    #[test]
    fn many_blocks_do_not_wait() {
        let events: Vec<Event> = (0..3 * WAITING_MAX as u64 + 5).map(Event::Block).collect();
        let all = pass(6, &events).expect("it runs");
        assert!(all.iter().map(|(block, _)| *block).eq(0..events.len() as u64));
    }
}
