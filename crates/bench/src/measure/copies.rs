//! What the copies of a collective call take alone: each rank moves what it would have to, in the memory and the number of ranks of
//! the call, and nobody waits for anybody between the barriers.

use castell_base::Rank;
use castell_collectives::decision::Operation;
use castell_comm::Comm;
use castell_comm::collective::CallError;
use castell_comm::pool::{AllocationError, SharedBuffer};
use castell_goal::arithmetic::{apply, apply_onto_first};
use castell_goal::op::{Arithmetic, ElementType, Operator};
use castell_host::clock::thread_cpu_ns;
use std::ops::Range;

/// What is reduced stays in the nearest cache from one operand to the next.
const BLOCK_BYTES: usize = 16 << 10;
const LINE_BYTES: usize = 64;

/// Copies could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CopiesError {
    /// There is no memory that all ranks can read.
    #[error(transparent)]
    Memory(#[from] AllocationError),
    /// The ranks could not wait for each other.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// Where the data of a call lies when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// Where all ranks can read it: whoever needs it copies or reduces it there.
    InView,
    /// In each rank's own memory: it is copied to where the others can read it, and from there.
    Apart,
}

/// Bytes that a rank takes, from whom and from where there to where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Move {
    from: Rank,
    there: Range<usize>,
    to: usize,
    /// Added to what is there already.
    is_added: bool,
}

/// What one rank does in a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Part {
    /// What of its input others need.
    out: Vec<Range<usize>>,
    /// What it takes of inputs.
    moves: Vec<Move>,
    /// What of its result others need then.
    result: Option<Range<usize>>,
    /// What it takes of their results.
    fetched: Vec<(Rank, Range<usize>)>,
}

/// The part of `rank` in a call on vectors or blocks of so many bytes, with rank 0 as root; `None`: other things decide than copies.
fn part_of(operation: Operation, bytes: usize, ranks: u32, rank: Rank) -> Option<Part> {
    let block = |of: Rank| of.index() * bytes..(of.index() + 1) * bytes;
    let all = || (0..ranks).map(Rank);
    let others = || all().filter(|other| *other != rank);
    let is_root = rank == Rank(0);
    let taken = |from, there, to| Move { from, there, to, is_added: false };
    let reduced = |there: Range<usize>, to| {
        all().map(move |from| Move { from, there: there.clone(), to, is_added: from != Rank(0) }).collect()
    };
    let whole = 0..bytes;
    Some(match operation {
        Operation::Broadcast if is_root => Part { out: vec![whole], ..Part::default() },
        Operation::Broadcast => Part { moves: vec![taken(Rank(0), whole, 0)], ..Part::default() },
        Operation::Scatter => Part {
            out: others().filter(|_| is_root).map(block).collect(),
            moves: vec![taken(Rank(0), block(rank), 0)],
            ..Part::default()
        },
        Operation::Gather | Operation::Reduce if !is_root => Part { out: vec![whole], ..Part::default() },
        Operation::Gather => Part {
            moves: all().map(|from| taken(from, 0..bytes, block(from).start)).collect(),
            ..Part::default()
        },
        Operation::Reduce => Part { moves: reduced(whole, 0), ..Part::default() },
        Operation::Allgather => Part {
            out: vec![whole],
            moves: all().map(|from| taken(from, 0..bytes, block(from).start)).collect(),
            ..Part::default()
        },
        Operation::Alltoall => Part {
            out: others().map(block).collect(),
            moves: all().map(|from| taken(from, block(rank), block(from).start)).collect(),
            ..Part::default()
        },
        Operation::ReduceScatter => {
            Part { out: others().map(block).collect(), moves: reduced(block(rank), 0), ..Part::default() }
        }
        Operation::Allreduce => {
            let unit = (bytes / 8).div_ceil(ranks as usize) * 8;
            let part = |of: Rank| (of.index() * unit).min(bytes)..((of.index() + 1) * unit).min(bytes);
            Part {
                out: others().map(part).collect(),
                moves: reduced(part(rank), part(rank).start),
                result: Some(part(rank)),
                fetched: others().map(|other| (other, part(other))).collect(),
            }
        }
        _ => return None,
    })
}

/// Where each rank's memory lies in its pool.
struct View<'a> {
    comm: &'a Comm,
    offsets: Vec<[u64; 4]>,
}

/// The memory of a rank that others read.
#[derive(Clone, Copy)]
enum Which {
    Input,
    /// What of it they read where it does not lie in view.
    Shown,
    Output,
    ShownOutput,
}

impl View<'_> {
    /// What a rank wrote before the last barrier.
    fn of(&self, rank: Rank, which: Which, at: &Range<usize>) -> &[u8] {
        let offset = self.offsets[rank.index()][which as usize] + at.start as u64;
        let lies = self.comm.job().of_pool(rank, offset, at.len());
        // SAFETY: that rank has allocated it there; it writes there only before the barrier that lets others read.
        unsafe { std::slice::from_raw_parts(lies, at.len()) }
    }
}

/// A rank's own memory, in the order of [`Which`].
type Memory = [SharedBuffer<u8>; 4];

fn memory<'a>(comm: &'a Comm, bytes: usize) -> Result<(Memory, View<'a>), CopiesError> {
    let all = bytes * comm.size() as usize;
    let buffer = || {
        let mut buffer = comm.allocate::<u8>(all)?;
        // Pages that nobody has written would be mapped while they are read.
        buffer.fill(0);
        Ok::<_, AllocationError>(buffer)
    };
    let memory = [buffer()?, buffer()?, buffer()?, buffer()?];
    let place = |buffer: &SharedBuffer<u8>| {
        comm.job().in_pool(comm.rank(), buffer.as_ptr(), all).expect("in the pool")
    };
    let own = memory.each_ref().map(place);
    let mut offsets = vec![0; 4 * comm.size() as usize];
    comm.world().allgather(&own, &mut offsets)?;
    let offsets = offsets.as_chunks().0.to_vec();
    Ok((memory, View { comm, offsets }))
}

/// What the copies and reductions of a call take this rank alone; nanoseconds of its processor, one a sample. The call has vectors or blocks of
/// so many bytes, rank 0 as root, and sums of doubles (of bytes, where the size is no multiple of 8). A collective call of the world.
///
/// # Errors
/// The job has no memory that all ranks can read, or a rank failed.
pub fn copies(
    comm: &Comm,
    (operation, bytes): (Operation, usize),
    lies: Lies,
    samples: u32,
) -> Result<Vec<f64>, CopiesError> {
    let Some(part) = part_of(operation, bytes, comm.size(), comm.rank()) else { return Ok(Vec::new()) };
    let element = if bytes.is_multiple_of(8) { ElementType::F64 } else { ElementType::U8 };
    let add = Arithmetic::new(Operator::Add, element).expect("numbers are added");
    let (mut memory, view) = memory(comm, bytes)?;
    let world = comm.world();
    let mut taken = Vec::new();
    for _ in 0..samples {
        let [input, shown, output, shown_output] = &mut memory;
        // As programs do that send what they have computed.
        input.chunks_mut(LINE_BYTES).for_each(|line| line[0] = std::hint::black_box(line[0]));
        world.barrier()?;
        let mut ns = timed(|| {
            if lies == Lies::Apart {
                part.out.iter().for_each(|at| shown[at.clone()].copy_from_slice(&input[at.clone()]));
            }
        });
        world.barrier()?;
        ns += timed(|| take(&part.moves, &view, lies, add, output));
        if let Some(result) = &part.result {
            ns += timed(|| {
                if lies == Lies::Apart {
                    shown_output[result.clone()].copy_from_slice(&output[result.clone()]);
                }
            });
            world.barrier()?;
            let which = if lies == Lies::Apart { Which::ShownOutput } else { Which::Output };
            ns += timed(|| {
                for (from, at) in &part.fetched {
                    output[at.clone()].copy_from_slice(view.of(*from, which, at));
                }
            });
        }
        world.barrier()?;
        taken.push(ns);
    }
    Ok(taken)
}

/// Nanoseconds of this thread's processor.
fn timed(work: impl FnOnce()) -> f64 {
    let start = thread_cpu_ns();
    work();
    (thread_cpu_ns() - start) as f64
}

/// Copies or reduces what comes from others' inputs, and from the rank's own.
fn take(moves: &[Move], view: &View<'_>, lies: Lies, add: Arithmetic, output: &mut [u8]) {
    let me = view.comm.rank();
    let source = |step: &Move| {
        let is_shown = lies == Lies::Apart && step.from != me;
        view.of(step.from, if is_shown { Which::Shown } else { Which::Input }, &step.there)
    };
    if !moves.iter().any(|step| step.is_added) {
        for step in moves {
            output[step.to..step.to + step.there.len()].copy_from_slice(source(step));
        }
        return;
    }
    let operands: Vec<&[u8]> = moves.iter().map(source).collect();
    let into = &mut output[moves[0].to..][..operands[0].len()];
    for (index, into) in into.chunks_mut(BLOCK_BYTES).enumerate() {
        let block = index * BLOCK_BYTES..index * BLOCK_BYTES + into.len();
        apply(add, &operands[0][block.clone()], &operands[1][block.clone()], into);
        operands[2..].iter().for_each(|operand| apply_onto_first(add, into, &operand[block.clone()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte of every result comes from where it should: each rank's part is carried out on numbers that tell of their place.
    #[test]
    fn parts_make_up_the_calls() {
        let (ranks, bytes) = (3_u32, 48_usize);
        let input = |rank: Rank, at: usize| rank.index() * 1000 + at;
        let run = |operation, rank| {
            let part = part_of(operation, bytes, ranks, rank).expect("copies decide");
            let mut output = vec![None; bytes * ranks as usize];
            for Move { from, there, to, is_added } in &part.moves {
                for (offset, at) in there.clone().enumerate() {
                    let slot = &mut output[to + offset];
                    assert_eq!(slot.is_some(), *is_added);
                    *slot = Some(slot.unwrap_or(0) + input(*from, at));
                    let seen = part_of(operation, bytes, ranks, *from).expect("as above").out;
                    assert!(
                        *from == rank || seen.iter().any(|out| out.contains(&at)),
                        "{operation}: not shown"
                    );
                }
            }
            for (from, range) in &part.fetched {
                assert_eq!(
                    part_of(operation, bytes, ranks, *from).expect("as above").result.as_ref(),
                    Some(range)
                );
                range
                    .clone()
                    .for_each(|at| output[at] = Some((0..3).map(|rank| input(Rank(rank), at)).sum()));
            }
            output
        };
        for rank in (0..ranks).map(Rank) {
            let sums =
                |first: usize| move |at| (0..3).map(|rank| input(Rank(rank), first + at)).sum::<usize>();
            let is = |operation, expected: &dyn Fn(usize) -> usize, count: usize| {
                let output = run(operation, rank);
                assert!((0..count).all(|at| output[at] == Some(expected(at))), "{operation}, rank {rank}");
                assert!(output[count..].iter().all(Option::is_none), "{operation}, rank {rank}");
            };
            let mine = rank.index() * bytes;
            let at_root = |count| if rank == Rank(0) { count } else { 0 };
            let of_all = |first: usize| move |at| input(Rank((at / 48) as u32), first + at % 48);
            is(Operation::Broadcast, &|at| input(Rank(0), at), bytes - at_root(bytes));
            is(Operation::Scatter, &|at| input(Rank(0), mine + at), bytes);
            is(Operation::Gather, &of_all(0), at_root(3 * bytes));
            is(Operation::Allgather, &of_all(0), 3 * bytes);
            is(Operation::Alltoall, &of_all(mine), 3 * bytes);
            is(Operation::Reduce, &sums(0), at_root(bytes));
            is(Operation::ReduceScatter, &sums(mine), bytes);
            is(Operation::Allreduce, &sums(0), bytes);
        }
        assert_eq!(part_of(Operation::Barrier, bytes, ranks, Rank(0)), None);
    }
}
