//! Bytes that simulations carry: where they come from, where they go, and what is refused.

use castell_base::{Rank, Tag};
use castell_goal::op::{Arithmetic, Block, ElementType, Memory, Operator, Place};
use castell_goal::program::Program;
use castell_model::Model;
use castell_sim::{Machine, Outcome, SimError, Simulation};

const MODELS: [&str; 4] = ["bsp", "plb", "loggops", "loggops:S=0"];

fn run(program: &Program, model: &str, start: &[Vec<u8>]) -> Result<Outcome, SimError> {
    let machine = Machine::new(Model::parse(model).unwrap());
    Simulation::new(program, &machine).with_memory(start.to_vec()).run()
}

fn at(offset: u64) -> Place {
    Place { memory: Memory::Scratch, offset }
}

/// Two ranks with so many bytes each, numbered from 1 and from 101 on.
fn two(bytes: u8) -> (Program, Vec<Vec<u8>>) {
    let mut program = Program::new(2);
    (0..2).for_each(|rank| program.rank_mut(Rank(rank)).allocate_scratchpad(bytes.into()));
    (program, vec![(1..=bytes).collect(), (101..=100 + bytes).collect()])
}

/// Puts and gets reach to the last byte of the other side's scratchpad, and no further.
#[test]
fn puts_and_gets_end_where_the_scratchpad_ends() {
    for model in MODELS {
        for (offset, fits) in [(0, true), (4, true), (5, false), (8, false)] {
            let (mut program, start) = two(8);
            program.rank_mut(Rank(0)).put(at(2), 4, Rank(1), at(offset)).unwrap();
            let put = run(&program, model, &start);
            let (mut program, start) = two(8);
            program.rank_mut(Rank(0)).get(at(2), 4, Rank(1), at(offset)).unwrap();
            let get = run(&program, model, &start);
            if !fits {
                let told = format!("bytes {offset} to {} of rank 1's scratchpad, which has 8", offset + 4);
                for error in [put.unwrap_err(), get.unwrap_err()] {
                    assert!(error.to_string().contains(&told), "{model}: {error}");
                }
                continue;
            }
            let (mut to, mut from) = (start[1].clone(), start[0].clone());
            to[offset as usize..][..4].copy_from_slice(&start[0][2..6]);
            from[2..6].copy_from_slice(&start[1][offset as usize..][..4]);
            assert_eq!(put.unwrap().memory.unwrap(), [start[0].clone(), to], "{model}, {offset}");
            assert_eq!(get.unwrap().memory.unwrap(), [from, start[1].clone()], "{model}, {offset}");
        }
    }
}

/// Bytes of several pieces come in their order, into pieces of other lengths; what has no memory is zeros.
#[test]
fn pieces_are_sent_and_received_in_order() {
    let block = |offset, bytes| Block { offset, bytes };
    for model in MODELS {
        let (mut program, start) = two(12);
        program
            .rank_mut(Rank(0))
            .send_vec(Memory::Scratch, &[block(8, 3), block(0, 2), block(5, 1)], Rank(1), Tag(0))
            .unwrap();
        program
            .rank_mut(Rank(1))
            .recv_vec(Memory::Scratch, &[block(1, 1), block(6, 5)], Some(Rank(0)), Some(Tag(0)))
            .unwrap();
        let outcome = run(&program, model, &start).unwrap();
        let [from, to] = &outcome.memory.unwrap()[..] else { panic!("two ranks") };
        assert_eq!(from, &start[0]);
        assert_eq!(to, &[101, 9, 103, 104, 105, 106, 10, 11, 1, 2, 6, 112], "{model}");

        let (mut program, start) = two(4);
        program.rank_mut(Rank(0)).send(Place::VOID, 3, Rank(1), Tag(0)).unwrap();
        program.rank_mut(Rank(1)).recv(at(1), 3, None, None).unwrap();
        assert_eq!(run(&program, model, &start).unwrap().memory.unwrap()[1], [101, 0, 0, 0], "{model}");
    }
}

/// Elements are taken from both operands and written behind one another; a clock is read when it is its turn.
#[test]
fn local_operations_compute_at_their_time() {
    let sum = Arithmetic::new(Operator::Add, ElementType::U16).unwrap();
    for (model, began_ns) in [("bsp", 1500.0), ("plb", 1500.0), ("loggops", 1500.0), ("lb:gamma=1ns", 1500.0)]
    {
        let (mut program, _) = two(24);
        let graph = program.rank_mut(Rank(0));
        let calc = graph.calc(1500).unwrap();
        let clock = graph.wtime(at(16)).unwrap();
        let local = graph.local(at(0), at(4), at(8), sum, 2).unwrap();
        graph.requires(calc, clock).unwrap();
        graph.requires(clock, local).unwrap();
        let words: [u16; 12] = [1, 500, 30, 7, 9, 9, 9, 9, 9, 9, 9, 9];
        let start = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let memory = run(&program, model, &[start]).unwrap().memory.unwrap();
        let word = |at: usize| u16::from_ne_bytes(memory[0][2 * at..][..2].try_into().unwrap());
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(word), [1, 500, 30, 7, 31, 507, 9, 9], "{model}");
        let seconds = f64::from_ne_bytes(memory[0][16..].try_into().unwrap());
        assert!((seconds - began_ns * 1e-9).abs() < 1e-15, "{model}: {seconds}");
        // Ranks of which no scratchpad was given begin with zeros.
        assert_eq!(memory[1], [0; 24], "{model}");
    }
}

#[test]
fn what_came_and_was_never_received_is_counted() {
    let mut program = Program::new(2);
    for _ in 0..3 {
        program.rank_mut(Rank(0)).send(Place::VOID, 8, Rank(1), Tag(0)).unwrap();
    }
    program.rank_mut(Rank(1)).recv(Place::VOID, 8, None, None).unwrap();
    for model in ["bsp", "plb", "lb", "loggops", "logp", "lop", "logfp"] {
        let machine = Machine::new(Model::parse(model).unwrap());
        assert_eq!(Simulation::new(&program, &machine).run().unwrap().unreceived, 2, "{model}");
    }
}

#[test]
fn the_last_rank_is_the_lowest_of_those_that_end_last() {
    use castell_base::Time;
    let outcome =
        |ends: &[u64]| Outcome { end: ends.iter().copied().map(Time).collect(), ..Outcome::default() };
    for (ends, makespan, skew, last) in [
        (&[5, 9, 7, 9][..], 9, 4, Some(1)),
        (&[3, 3], 3, 0, Some(0)),
        (&[2, 1], 2, 1, Some(0)),
        (&[], 0, 0, None),
    ] {
        let outcome = outcome(ends);
        assert_eq!((outcome.makespan(), outcome.skew()), (Time(makespan), Time(skew)), "{ends:?}");
        assert_eq!(outcome.last_rank(), last.map(Rank), "{ends:?}");
    }
}
