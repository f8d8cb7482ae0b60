//! Building and compiling: what is refused, what comes out, and that nothing recurses.

use castell_base::{Rank, Tag};
use castell_goal::compile::CompileError;
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::{Arithmetic, Block, Blocks, Buffer, ElementType, Memory, Op, Operator, Place, Traits};
use castell_goal::schedule::Schedule;
use castell_goal::stepper::Stepper;

fn add_f64() -> Arithmetic {
    Arithmetic::new(Operator::Add, ElementType::F64).unwrap()
}

fn blocks(list: &[(u64, u64)]) -> Vec<Block> {
    list.iter().map(|&(offset, bytes)| Block { offset, bytes }).collect()
}

/// Steps to the end and returns the order of operations, by their `calc` durations.
fn run(schedule: &Schedule) -> Vec<u64> {
    let mut stepper = Stepper::new(schedule);
    let mut order = Vec::new();
    while let Some(id) = stepper.take(schedule) {
        if let Op::Calc { ns } = schedule.op(id) {
            order.push(ns);
        }
        stepper.finish(schedule, id);
    }
    assert!(stepper.is_finished(), "{} operations never became ready", stepper.unfinished());
    order
}

#[test]
fn every_operation_reads_back_from_graph_and_schedule() {
    let mut graph = Graph::new();
    graph.allocate_scratchpad(1 << 40);
    let far = Place::scratch(1 << 33);
    let user = Place::user(0x7fff_0000_1234);
    let list = blocks(&[(0, 8), (64, 16)]);
    let other = blocks(&[(100, 24)]);
    graph.send(Place::VOID, 10, Rank(1), Tag(0)).unwrap();
    graph.send(far, 1 << 35, Rank(2), Tag(9)).unwrap();
    graph.recv(user, 7, None, None).unwrap();
    graph.recv(Place::scratch(3), 7, Some(Rank(4)), Some(Tag(5))).unwrap();
    graph.send_vec(Memory::Scratch, &list, Rank(1), Tag(2)).unwrap();
    graph.recv_vec(Memory::User, &list, None, Some(Tag(0))).unwrap();
    graph.local(Place::scratch(0), user, far, add_f64(), 3).unwrap();
    graph
        .local_vec((Memory::Scratch, &list), (Memory::User, &other), (Memory::Scratch, &other), add_f64())
        .unwrap();
    graph.wtime(Place::scratch(8)).unwrap();
    graph.calc(5_000_000_000).unwrap();
    graph.sleep(12).unwrap();
    graph.call(0xdead_beef_0000, 1).unwrap();
    graph.put(far, 4, Rank(3), Place::scratch(16)).unwrap();
    graph.get(Place::VOID, 4, Rank(3), Place::VOID).unwrap();
    graph.proxy().unwrap();

    let (schedule, ids) = graph.compile_with_ids().unwrap();
    for vertex in graph.vertices() {
        assert_eq!(graph.op(vertex), schedule.op(ids[vertex.index()]), "{vertex:?}");
    }
    assert_eq!(
        graph.op(Vertex(1)),
        Op::Send { buffer: Buffer::Plain(far), bytes: 1 << 35, dest: Rank(2), tag: Tag(9) }
    );
    assert_eq!(
        graph.op(Vertex(2)),
        Op::Recv { buffer: Buffer::Plain(user), bytes: 7, source: None, tag: None }
    );
    let Op::Local { b1: Buffer::Vector(Memory::Scratch, b1), b2, count: 3, .. } = graph.op(Vertex(7)) else {
        panic!("{:?}", graph.op(Vertex(7)));
    };
    assert_eq!(b1.iter().collect::<Vec<_>>(), list);
    assert!(matches!(b2, Buffer::Vector(Memory::User, blocks) if Blocks::bytes(blocks) == 24));
    assert_eq!(schedule.max_message_bytes(), 1 << 35);
    assert_eq!(schedule.peers().destinations, [Rank(1), Rank(2), Rank(3)]);
    assert_eq!(schedule.peers().sources, [Rank(3), Rank(4)]);
    assert!(schedule.peers().any_source);
}

#[test]
fn what_can_never_be_legal_is_refused_at_once() {
    let mut graph = Graph::new();
    let any_tag = Tag(u32::MAX);
    let check = |result: Result<Vertex, GraphError>, expected: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(graph.send(Place::VOID, 1, Rank(0), any_tag), "any tag");
    check(graph.recv(Place::VOID, 1, None, Some(any_tag)), "any tag");
    check(graph.send(Place::VOID, 1, Rank(u32::MAX), Tag(0)), "any source");
    check(graph.send(Place::user(u64::MAX), 2, Rank(0), Tag(0)), "beyond 64 bits");
    let huge = blocks(&[(0, u64::MAX), (0, 1)]);
    check(graph.send_vec(Memory::Scratch, &huge, Rank(0), Tag(0)), "add up");
    check(graph.local(Place::VOID, Place::VOID, Place::VOID, add_f64(), 1 << 61), "add up");
    let (whole, part, longer) = (blocks(&[(0, 8)]), blocks(&[(0, 7)]), blocks(&[(0, 8), (8, 8)]));
    fn scratch(list: &[Block]) -> (Memory, &[Block]) {
        (Memory::Scratch, list)
    }
    check(graph.local_vec(scratch(&whole), scratch(&whole), scratch(&part), add_f64()), "b1 holds 8 bytes");
    check(
        graph.local_vec(scratch(&part), scratch(&part), scratch(&part), add_f64()),
        "multiple of the element",
    );
    check(graph.local_vec(scratch(&whole), scratch(&longer), scratch(&whole), add_f64()), "b2 holds 16");
    check(graph.put(Place::VOID, 1, Rank(0), Place::user(1)), "scratchpad");
    assert!(graph.is_empty() && graph.bytes() == 0, "a refusal leaves the graph as it was");

    let vertex = graph.proxy().unwrap();
    assert!(!graph.is_empty());
    for outside in [Vertex(1), Vertex(7)] {
        let refused = GraphError::NoSuchVertex { vertex: outside, vertices: 1 };
        assert_eq!(graph.set_cpu(outside, 0), Err(refused));
    }
    let outside = Vertex(7);
    assert!(matches!(graph.requires(vertex, outside), Err(GraphError::NoSuchVertex { vertices: 1, .. })));
    assert!(matches!(graph.irequires(outside, vertex), Err(GraphError::NoSuchVertex { .. })));
    assert!(matches!(graph.requires(vertex, vertex), Err(GraphError::SelfDependency { .. })));
    assert!(matches!(graph.set_any(vertex, 0), Err(GraphError::AnyZero { .. })));
    assert!(matches!(graph.set_label(outside, "x"), Err(GraphError::NoSuchVertex { .. })));
    assert_eq!(graph.edges().count(), 0);
}

#[test]
fn cycles_are_named() {
    let mut graph = Graph::new();
    let v: Vec<Vertex> = (0..6).map(|ns| graph.calc(ns).unwrap()).collect();
    graph.set_label(v[3], "three").unwrap();
    for (from, to) in [(0, 1), (1, 2), (2, 3), (4, 2), (3, 5)] {
        graph.requires(v[from], v[to]).unwrap();
    }
    graph.irequires(v[3], v[4]).unwrap();
    let Err(CompileError::Cycle { vertices, names }) = graph.compile() else { panic!("no cycle found") };
    assert_eq!(vertices, [v[2], v[3], v[4]]);
    assert_eq!(names, "vertex 2 -> `three` -> vertex 4 -> vertex 2");
}

#[test]
fn scratchpad_and_any_are_checked_when_compiling() {
    let mut graph = Graph::new();
    let send = graph.send(Place::scratch(8), 16, Rank(0), Tag(0)).unwrap();
    graph.set_label(send, "out").unwrap();
    graph.allocate_scratchpad(23);
    let error = graph.compile().unwrap_err().to_string();
    assert!(error.contains("`out`: needs bytes 8 to 24 of the scratchpad, which has 23"), "{error}");
    graph.allocate_scratchpad(24);
    graph.compile().unwrap();
    graph.set_any(send, 1).unwrap();
    let error = graph.compile().unwrap_err().to_string();
    assert!(error.contains("`out`: starts once any 1 dependencies are met, but has only 0"), "{error}");
}

#[test]
fn any_starts_once_and_ignores_the_rest() {
    let mut graph = Graph::new();
    let v: Vec<Vertex> = (0..6).map(|ns| graph.calc(ns).unwrap()).collect();
    for from in 0..4 {
        graph.requires(v[from], v[4]).unwrap();
    }
    graph.requires(v[4], v[5]).unwrap();
    graph.set_any(v[4], 2).unwrap();
    let (schedule, ids) = graph.compile_with_ids().unwrap();
    assert_eq!(run(&schedule), [0, 1, 2, 3, 4, 5]);
    assert_eq!(schedule.traits(ids[4]), Traits { any: Some(2), ..Traits::default() });

    let mut stepper = Stepper::new(&schedule);
    let started: Vec<_> = (0..4).map(|_| stepper.take(&schedule).unwrap()).collect();
    assert_eq!(stepper.take(&schedule), None);
    stepper.finish(&schedule, started[3]);
    assert_eq!(stepper.take(&schedule), None);
    stepper.finish(&schedule, started[1]);
    assert_eq!(stepper.take(&schedule), Some(ids[4]));
    stepper.finish(&schedule, ids[4]);
    assert_eq!(stepper.take(&schedule), Some(ids[5]));
    for id in [started[0], started[2], ids[5]] {
        assert!(!stepper.is_finished());
        stepper.finish(&schedule, id);
    }
    assert!(stepper.is_finished() && stepper.take(&schedule).is_none());
}

#[test]
fn start_edges_release_when_taken() {
    let mut graph = Graph::new();
    let (a, b, c) = (graph.calc(0).unwrap(), graph.calc(1).unwrap(), graph.calc(2).unwrap());
    graph.irequires(a, b).unwrap();
    graph.irequires(a, c).unwrap();
    graph.requires(a, c).unwrap();
    let (schedule, ids) = graph.compile_with_ids().unwrap();
    assert_eq!(schedule.start_successors(ids[0]).collect::<Vec<_>>(), [ids[1], ids[2]]);
    assert_eq!(schedule.successors(ids[0]).collect::<Vec<_>>(), [ids[2]]);
    let mut stepper = Stepper::new(&schedule);
    assert_eq!(stepper.take(&schedule), Some(ids[0]));
    assert_eq!(stepper.take(&schedule), Some(ids[1]), "b needs only that a has started");
    assert_eq!(stepper.take(&schedule), None, "c needs a's end too");
    stepper.finish(&schedule, ids[0]);
    assert_eq!(stepper.take(&schedule), Some(ids[2]));
}

#[test]
fn wide_fans_and_traits_survive_compilation() {
    let mut graph = Graph::new();
    let root = graph.proxy().unwrap();
    let last = graph.calc(7).unwrap();
    for ns in 0..40_000 {
        let leaf = graph.calc(ns).unwrap();
        graph.requires(root, leaf).unwrap();
        graph.requires(leaf, last).unwrap();
    }
    graph.set_cpu(last, 3).unwrap();
    graph.set_nic(last, 200).unwrap();
    graph.set_concurrent(last).unwrap();
    graph.set_label(last, "end").unwrap();
    let (schedule, ids) = graph.compile_with_ids().unwrap();
    assert_eq!(schedule.successors(ids[0]).len(), 40_000);
    assert_eq!(schedule.traits(ids[1]), Traits { any: None, concurrent: true, cpu: 3, nic: 200 });
    assert_eq!(schedule.label(ids[1]), Some("end"));
    assert_eq!(schedule.label(ids[0]), None);
    assert_eq!(run(&schedule).last(), Some(&7));
}

#[test]
fn a_million_in_a_row_need_no_stack() {
    let chain = || {
        let mut graph = Graph::new();
        let mut last = graph.calc(0).unwrap();
        for _ in 1..1_000_000 {
            let next = graph.calc(0).unwrap();
            graph.requires(last, next).unwrap();
            last = next;
        }
        let schedule = graph.compile().unwrap();
        assert_eq!(run(&schedule).len(), 1_000_000);
        assert_eq!(schedule.ready_max(), 1);
        graph.requires(last, Vertex(0)).unwrap();
        let Err(CompileError::Cycle { vertices, names }) = graph.compile() else { panic!("no cycle found") };
        assert_eq!(vertices.len(), 1_000_000);
        assert!(names.len() < 1000);
    };
    std::thread::Builder::new().stack_size(64 << 10).spawn(chain).unwrap().join().unwrap();
}

#[test]
fn an_empty_graph_is_finished_before_it_starts() {
    let schedule = Graph::new().compile().unwrap();
    let mut stepper = Stepper::new(&schedule);
    assert!(stepper.is_finished() && stepper.take(&schedule).is_none());
}

#[test]
fn a_graph_tells_how_much_memory_it_holds() {
    let mut graph = Graph::new();
    assert_eq!(graph.bytes(), 0);
    let first = graph.calc(5).unwrap();
    let alone = graph.bytes();
    // A head, its duration, and where it begins.
    assert!((8..=16).contains(&alone), "{alone}");
    let second = graph.calc(5).unwrap();
    assert_eq!(graph.bytes(), 2 * alone);
    let mut expected = 2 * alone;
    let mut grows = |graph: &Graph, by: usize| {
        expected += by;
        assert_eq!(graph.bytes(), expected);
    };
    graph.requires(first, second).unwrap();
    grows(&graph, 8);
    // A vertex and its `any`, both of 4 bytes.
    graph.set_any(second, 1).unwrap();
    grows(&graph, 8);
    // Two bytes, and a line and column of 6, for each vertex up to the last that has any.
    graph.set_nic(second, 1).unwrap();
    grows(&graph, 4);
    graph.set_cpu(first, 1).unwrap();
    grows(&graph, 0);
    graph.set_position(second, 7, 3).unwrap();
    grows(&graph, 12);
    // Where each label begins and its length; and the label.
    graph.set_label(second, "label").unwrap();
    grows(&graph, 16 + 5);
    graph.set_label(first, "one").unwrap();
    grows(&graph, 3);
    // Head, bytes, peer, first block, number of blocks, where it begins; and 16 bytes a block.
    graph.send_vec(Memory::Scratch, &blocks(&[(0, 8), (8, 8)]), Rank(1), Tag(0)).unwrap();
    grows(&graph, 4 * 6 + 32);
}

#[test]
fn only_what_names_memory_or_a_function_of_the_process_names_an_address() {
    let (user, scratch) = (Place::user(8), Place::scratch(8));
    let list = blocks(&[(8, 8)]);
    type Add<'a> = &'a dyn Fn(&mut Graph, bool) -> Result<Vertex, GraphError>;
    let either = |is_user| if is_user { user } else { scratch };
    let memory = |is_user| if is_user { Memory::User } else { Memory::Scratch };
    let local = |g: &mut Graph, p: [Place; 3]| g.local(p[0], p[1], p[2], add_f64(), 1);
    let lists =
        |g: &mut Graph, m: [Memory; 3]| g.local_vec((m[0], &list), (m[1], &list), (m[2], &list), add_f64());
    let adds: [Add<'_>; 13] = [
        &|g, is| g.send(either(is), 8, Rank(0), Tag(0)),
        &|g, is| g.recv(either(is), 8, None, None),
        &|g, is| g.send_vec(memory(is), &list, Rank(0), Tag(0)),
        &|g, is| g.recv_vec(memory(is), &list, None, None),
        &|g, is| local(g, [either(is), scratch, scratch]),
        &|g, is| local(g, [scratch, either(is), scratch]),
        &|g, is| local(g, [scratch, scratch, either(is)]),
        &|g, is| lists(g, [memory(is), Memory::Scratch, Memory::Scratch]),
        &|g, is| lists(g, [Memory::Scratch, Memory::Scratch, memory(is)]),
        &|g, is| g.wtime(either(is)),
        &|g, is| g.put(either(is), 8, Rank(0), scratch),
        &|g, is| g.get(either(is), 8, Rank(0), scratch),
        &|g, is| if is { g.call(1, 2) } else { g.calc(1) },
    ];
    for (index, add) in adds.into_iter().enumerate() {
        for names_address in [false, true] {
            let mut graph = Graph::new();
            graph.allocate_scratchpad(16);
            let vertex = add(&mut graph, names_address).unwrap();
            assert!(!graph.is_empty());
            assert_eq!(graph.op(vertex).names_address(), names_address, "{index}");
            let schedule = graph.compile().unwrap();
            assert!(!schedule.is_empty());
            // A schedule with addresses is refused where they would mean nothing.
            assert_eq!(Schedule::from_bytes(&schedule.to_bytes()).is_err(), names_address, "{index}");
        }
    }
    let mut graph = Graph::new();
    for add in [Graph::sleep, Graph::calc] {
        let vertex = add(&mut graph, 8).unwrap();
        assert!(!graph.op(vertex).names_address());
    }
    let proxy = graph.proxy().unwrap();
    assert!(!graph.op(proxy).names_address());
}
