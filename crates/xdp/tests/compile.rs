//! What fits into the kernel, and what is said about the rest.

use castell_base::{Rank, Tag};
use castell_collectives::collective::{ALGORITHMS, Collective, Memory, Shape};
use castell_goal::graph::Graph;
use castell_goal::op::{Arithmetic, Block, ElementType, Memory as Kind, Operator, Place};
use castell_xdp::{Compiled, Misfit};

fn compile(build: impl FnOnce(&mut Graph)) -> Result<Compiled, Misfit> {
    let mut graph = Graph::new();
    graph.allocate_scratchpad(4096);
    build(&mut graph);
    Compiled::new(&graph.compile().expect("a schedule"), Rank(1))
}

fn said(build: impl FnOnce(&mut Graph)) -> String {
    compile(build).expect_err("it does not fit").to_string()
}

#[test]
fn what_does_not_fit_is_named() {
    let (here, peer, tag) = (Place::scratch(0), Rank(2), Tag(7));
    let sum = |element| Arithmetic::new(Operator::Add, element).expect("legal");
    let cases: [(String, &str); 12] = [
        (
            said(|graph| drop(graph.calc(5))),
            "rank 1: the calc of 5 ns (operation 0) cannot be carried out in the kernel: computing takes a processor",
        ),
        (said(|graph| drop(graph.sleep(5))), "nothing there waits for a time"),
        (
            said(|graph| drop(graph.recv(here, 8, None, Some(tag)))),
            "the receive of 8 bytes from any rank (operation 0) cannot be carried out in the kernel: it takes messages from any rank",
        ),
        (said(|graph| drop(graph.recv(here, 8, Some(peer), None))), "messages with any tag"),
        (
            said(|graph| drop(graph.send(here, 1401, peer, tag))),
            "the send of 1401 bytes to rank 2 with tag 7 (operation 0) cannot be carried out in the kernel: it does not fit into one frame; up to 1400 bytes do",
        ),
        (said(|graph| drop(graph.send(here, 8, Rank(1), tag))), "between a rank and itself"),
        (said(|graph| drop(graph.send(Place::user(4096), 8, peer, tag))), "memory of the process"),
        (
            said(|graph| drop(graph.send_vec(Kind::Scratch, &[Block { offset: 0, bytes: 8 }], peer, tag))),
            "list of blocks",
        ),
        (
            said(|graph| drop(graph.local(here, here, here, sum(ElementType::F64), 3))),
            "the add of 3 f64 (operation 0) cannot be carried out in the kernel: the kernel's programs have no floating point",
        ),
        (
            said(|graph| {
                drop(graph.local(here, Place::scratch(8), Place::scratch(4), sum(ElementType::I64), 1))
            }),
            "overlaps an operand in part",
        ),
        (said(|graph| drop(graph.wtime(here))), "floating-point number"),
        (
            said(|graph| {
                let long = graph.sleep(9).expect("legal");
                graph.set_label(long, "nap").expect("a label");
            }),
            "(operation 0 `nap`)",
        ),
    ];
    for (said, expected) in cases {
        assert!(said.contains(expected), "{said}");
    }
    let many = said(|graph| (0..1025).for_each(|_| drop(graph.proxy())));
    assert!(many.contains("it has 1025 operations, and at most 1024 fit"), "{many}");
    let many = said(|graph| (0..70).for_each(|rank| drop(graph.send(here, 8, Rank(rank + 100), tag))));
    assert!(many.contains("with 70 ranks, and at most 64 fit"), "{many}");
    let much = said(|graph| (0..30).for_each(|_| drop(graph.send(here, 1400, peer, tag))));
    assert!(much.contains("it sends 42000 bytes in all"), "{much}");
}

#[test]
fn what_is_as_large_as_can_be_fits() {
    let fits = compile(|graph| {
        for operation in 0..1024 {
            let (peer, tag) = (Rank(100 + operation % 64), Tag(operation / 256));
            let vertex = match operation % 2 {
                0 => graph.send(Place::scratch(0), 16, peer, tag),
                _ => graph.recv(Place::scratch(16), 16, Some(peer), Some(tag)),
            };
            vertex.expect("legal");
        }
    });
    let fits = fits.unwrap_or_else(|misfit| panic!("{misfit}"));
    assert_eq!((fits.operations(), fits.peers().len()), (1024, 64));
    // Floats are moved, and time that is none takes none.
    let copy = Arithmetic::new(Operator::Copy, ElementType::F32).expect("legal");
    let moved = compile(|graph| {
        graph.local(Place::scratch(0), Place::scratch(0), Place::scratch(64), copy, 4).expect("legal");
        graph.calc(0).expect("legal");
    });
    assert!(moved.is_ok());
}

#[test]
fn every_collective_operation_of_integers_fits() {
    let sum = Arithmetic::new(Operator::Add, ElementType::I32).expect("legal");
    for algorithm in ALGORITHMS {
        for ranks in [2, 4, 16] {
            let collective = Collective::new(algorithm.name, Shape::new(ranks, 4, 4))
                .unwrap_or_else(|error| panic!("{error}"));
            for me in (0..ranks).map(Rank) {
                let mut graph = Graph::new();
                let block = 4 * 4 * u64::from(ranks);
                let [input, output, temporary] = [0, block, 2 * block].map(Place::scratch);
                graph.allocate_scratchpad(2 * block);
                let memory = Memory { input, output, temporary, in_place: false, combine: &sum };
                collective.weave(me, &memory, &mut graph).expect("legal");
                let schedule = graph.compile().expect("a schedule");
                Compiled::new(&schedule, me)
                    .unwrap_or_else(|misfit| panic!("{} of {ranks}: {misfit}", algorithm.name));
            }
        }
    }
}
