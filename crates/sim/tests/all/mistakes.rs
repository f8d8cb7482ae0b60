//! What is said of programs that have no result, word by word.

use castell_base::{Rank, Tag};
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{Arithmetic, ElementType, Memory, Operator, Place};
use castell_goal::program::Program;
use castell_goal::schedule::Schedule;
use castell_goal::text;
use castell_model::Model;
use castell_sim::{Machine, Schedules, SimError, Simulation};

fn machine(model: &str) -> Machine {
    Machine::new(Model::parse(model).unwrap_or_else(|error| panic!("{error}")))
}

/// Why a program has no result, on whatever engine looks first.
fn refused(text: &str, model: &str) -> String {
    let program = text::parse(text, "").unwrap_or_else(|error| panic!("{error}"));
    let machine = machine(model);
    Simulation::new(&program, &machine).run().expect_err(text).to_string()
}

#[test]
fn a_circle_is_told_and_not_what_waits_for_it() {
    // Rank 0 waits for the circle of the ranks 1 and 2, and is no part of it.
    let text = "num_ranks 3\n\
        rank 0 { r: recv 8b from 1 tag 0 }\n\
        rank 1 { r: recv 8b from 2 tag 5\n s: send 9b to 2 tag 3\n s requires r\n t: send 8b to 0 tag 0\n t requires r }\n\
        rank 2 { r: recv 9b from 1 tag 3\n s: send 8b to 1 tag 5\n s requires r }";
    for model in ["loggops", "plb", "bsp"] {
        assert_eq!(
            refused(text, model),
            "deadlock: 6 operations of 3 ranks never finish; a circle of ranks wait for one another:\n  \
             rank 1: `r` (recv of 8 bytes from rank 2, tag 5) waits for rank 2\n  \
             rank 2: `r` (recv of 9 bytes from rank 1, tag 3) waits for rank 1",
            "{model}"
        );
    }
}

#[test]
fn a_chain_without_a_circle_ends_at_who_could_have_helped() {
    let text = "num_ranks 4\n\
        rank 0 { r: recv 8b from 1 tag 0 }\n\
        rank 1 { r: recv 8b from 3 tag 0\n s: send 8b to 0 tag 0\n s requires r }\n\
        rank 2 { c: calc 5 }\n\
        rank 3 { }";
    for model in ["loggops", "plb", "bsp"] {
        assert_eq!(
            refused(text, model),
            "deadlock: 3 operations of 2 ranks never finish:\n  \
             rank 0: `r` (recv of 8 bytes from rank 1, tag 0) waits for rank 1\n  \
             rank 1: `r` (recv of 8 bytes from rank 3, tag 0) waits for rank 3\n  \
             but rank 3 has nothing left to do that would end this",
            "{model}"
        );
        assert_eq!(
            refused("num_ranks 1\nrank 0 { r: recv 8b from -1 tag -1 }", model),
            "deadlock: 1 operations of 1 ranks never finish:\n  \
             rank 0: `r` (recv of 8 bytes from any rank, any tag) waits for any rank\n  \
             but no message comes that it could take",
            "{model}"
        );
    }
    // Of several that are as long the first is told, of others the longest.
    let chains = |lengths: [u32; 3]| {
        let ranks = lengths.iter().sum::<u32>() + 3;
        let (mut text, mut rank) = (format!("num_ranks {ranks}\n"), 0);
        for length in lengths {
            for _ in 0..length {
                text += &format!("rank {rank} {{ r: recv 8b from {} tag 0 }}\n", rank + 1);
                rank += 1;
            }
            text += &format!("rank {rank} {{ }}\n");
            rank += 1;
        }
        let told = refused(&text, "plb");
        let first = told.lines().nth(1).and_then(|line| line.split(':').next()).map(str::to_owned);
        (first.unwrap_or_default(), told.lines().count())
    };
    assert_eq!(chains([2, 2, 2]), ("  rank 0".into(), 4));
    assert_eq!(chains([1, 2, 2]), ("  rank 2".into(), 4));
    assert_eq!(chains([1, 2, 3]), ("  rank 5".into(), 5));
    // A send that waits for its receive is told, one that does not is none of it.
    assert_eq!(
        refused(
            "num_ranks 2\nrank 0 { s: send 9b to 1 tag 0\n e: send 8b to 1 tag 0 }\nrank 1 { }",
            "loggops:S=8"
        ),
        "deadlock: 1 operations of 1 ranks never finish:\n  \
         rank 0: `s` (send of 9 bytes to rank 1, tag 0) waits for rank 1\n  \
         but rank 1 has nothing left to do that would end this"
    );
}

/// Of a long circle the first 16 ranks are told.
#[test]
fn of_a_long_circle_the_beginning_is_told() {
    let circle = |ranks: u32| {
        let rank = |rank: u32| format!("rank {rank} {{ r: recv 8b from {} tag 0 }}\n", (rank + 1) % ranks);
        format!("num_ranks {ranks}\n{}", (0..ranks).map(rank).collect::<String>())
    };
    let lines = |ranks| refused(&circle(ranks), "plb").lines().map(str::to_owned).collect::<Vec<_>>();
    let (whole, cut) = (lines(16), lines(18));
    assert_eq!(whole.len(), 17);
    assert_eq!(whole[16], "  rank 15: `r` (recv of 8 bytes from rank 0, tag 0) waits for rank 0");
    assert_eq!(cut.len(), 18);
    assert_eq!(
        cut[16..],
        ["  rank 15: `r` (recv of 8 bytes from rank 16, tag 0) waits for rank 16", "  ... and 2 more"]
    );
}

/// Peers that do not exist are named with the operation, whatever kind it is and wherever the program comes from.
#[test]
fn peers_outside_of_the_program_are_named() {
    let (here, there) = (Place::VOID, Rank(7));
    type Add = fn(&mut Graph, Place, Rank) -> Result<Vertex, GraphError>;
    let kinds: [(Add, &str); 4] = [
        (|graph, here, there| graph.send(here, 8, there, Tag(3)), "send of 8 bytes to rank 7, tag 3"),
        (|graph, here, there| graph.recv(here, 8, Some(there), None), "recv of 8 bytes from rank 7, any tag"),
        (|graph, here, there| graph.put(here, 8, there, here), "put of 8 bytes to rank 7"),
        (|graph, here, there| graph.get(here, 8, there, here), "get of 8 bytes from rank 7"),
    ];
    for (add, what) in kinds {
        let told = format!(
            "rank 1: operation 1 ({what}): there is no rank 7 in a program of 7 ranks; correct the peer"
        );
        let mut program = Program::new(7);
        program.rank_mut(Rank(1)).calc(5).unwrap();
        add(program.rank_mut(Rank(1)), here, there).unwrap();
        assert_eq!(Schedules::new(&program).err().unwrap().to_string(), told);
        for model in ["loggops", "plb", "bsp"] {
            let machine = machine(model);
            assert_eq!(Simulation::new(&program, &machine).run().unwrap_err().to_string(), told, "{model}");
        }
        let compile = |rank| program.rank(Rank(rank)).compile().unwrap();
        let schedules: Vec<Schedule> = (0..7).map(compile).collect();
        assert_eq!(Schedules::new(&schedules[..]).err().unwrap().to_string(), told);
        // The last rank that there is.
        let mut program = Program::new(8);
        add(program.rank_mut(Rank(1)), here, there).unwrap();
        assert_eq!(Schedules::new(&program).unwrap().ranks(), 8);
    }
}

#[test]
fn messages_of_another_size_than_their_receive_are_told_with_both_ends() {
    let text = "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0 }\nrank 1 { recv 9b from 0 }";
    for model in ["loggops", "plb", "lb", "bsp"] {
        assert_eq!(
            refused(text, model),
            "a message of 8 bytes met a receive of 9 bytes: rank 0: `s` (send of 8 bytes to rank 1, tag 0) - \
             rank 1: operation 0 (recv of 9 bytes from rank 0, tag 0); make the sizes equal",
            "{model}"
        );
    }
}

/// All that operations are called.
#[test]
fn operations_are_named_by_what_they_do() {
    let mut graph = Graph::new();
    let (void, me) = (Place::VOID, Rank(0));
    let sum = Arithmetic::new(Operator::Add, ElementType::U64).unwrap();
    graph.proxy().unwrap();
    graph.send(void, 8, me, Tag(2)).unwrap();
    graph.recv(void, 9, None, Some(Tag(4))).unwrap();
    graph.calc(10).unwrap();
    graph.sleep(11).unwrap();
    graph.local(void, void, void, sum, 12).unwrap();
    graph.wtime(void).unwrap();
    graph.call(1, 2).unwrap();
    graph.put(void, 13, me, void).unwrap();
    graph.get(void, 14, me, void).unwrap();
    let mut program = Program::new(1);
    *program.rank_mut(me) = graph;
    let schedules = Schedules::new(&program).unwrap();
    let names: Vec<String> =
        schedules.of(me).operations().map(|id| schedules.name(me, id).to_string()).collect();
    let expected = [
        "proxy",
        "send of 8 bytes to rank 0, tag 2",
        "recv of 9 bytes from any rank, tag 4",
        "calc of 10 ns",
        "sleep of 11 ns",
        "add of 12 u64",
        "wtime",
        "call",
        "put of 13 bytes to rank 0",
        "get of 14 bytes from rank 0",
    ];
    for (number, (name, what)) in names.iter().zip(expected).enumerate() {
        assert_eq!(*name, format!("rank 0: operation {number} ({what})"));
    }
    assert_eq!(names.len(), expected.len());
}

/// A time that does not fit is an operation's fault, which is named.
#[test]
fn times_beyond_what_there_is_are_told() {
    let long = "num_ranks 1\nrank 0 { c: calc 18446744073709551\n d: calc 18446744073709551\n d requires c }";
    for model in ["loggops", "plb", "bsp"] {
        let told = refused(long, model);
        assert!(told.starts_with("rank 0: `") && told.contains("beyond 213 days"), "{model}: {told}");
    }
    // Just before that it is a result.
    let text = "num_ranks 1\nrank 0 { c: calc 9000000000000000\n d: calc 9000000000000000\n d requires c }";
    for model in ["loggops", "plb", "bsp"] {
        let program = text::parse(text, "").unwrap();
        let machine = machine(model);
        let end = Simulation::new(&program, &machine).run().unwrap().makespan();
        assert_eq!(end.0, 18_000_000_000_000_000_000, "{model}");
    }
}

/// Data are carried within the simulation only: addresses of a process are refused, wherever they stand.
#[test]
fn addresses_of_processes_are_refused_where_data_are_carried() {
    let address = Place { memory: Memory::User, offset: 64 };
    let mut program = Program::new(2);
    program.rank_mut(Rank(0)).calc(1).unwrap();
    program.rank_mut(Rank(1)).send(address, 8, Rank(0), Tag(0)).unwrap();
    program.rank_mut(Rank(0)).recv(Place::VOID, 8, Some(Rank(1)), None).unwrap();
    for model in ["plb", "bsp"] {
        let machine = machine(model);
        let error = Simulation::new(&program, &machine).with_memory(Vec::new()).run().unwrap_err();
        assert!(matches!(&error, SimError::Address { operation } if operation.rank == Rank(1)), "{error}");
        assert!(Simulation::new(&program, &machine).run().is_ok(), "{model}");
    }
}
