//! The engine under loom: every interleaving of threads that register, complete and split accesses of small graphs.

use super::dependent::{Dependent, Outcome};
use super::engine::{Access, Domain, complete, free_chunk};
use super::exclusive::Exclusive;
use castell_base::sync::{AtomicU32, Ordering};
use castell_deps::{Kind, Region};
use std::ptr::NonNull;

struct Node {
    blocking: AtomicU32,
    references: AtomicU32,
    readied: AtomicU32,
    accesses: Vec<Access<Node>>,
    exclusive: *const Exclusive<Node>,
}

// SAFETY: plain atomic counters; the tests free nodes after all threads are joined.
unsafe impl Dependent for Node {
    fn begin_blocking(&self, count: u32) {
        self.blocking.store(count, Ordering::Relaxed);
    }

    fn block(&self, count: u32) {
        self.blocking.fetch_add(count, Ordering::Relaxed);
    }

    fn unblock(&self, count: u32) -> u32 {
        if self.blocking.load(Ordering::Acquire) == count {
            return 0;
        }
        self.blocking.fetch_sub(count, Ordering::AcqRel) - count
    }

    fn poison(&self) {}

    fn begin_retaining(&self, accesses: u32) {
        self.references.store(self.references.load(Ordering::Relaxed) + accesses, Ordering::Relaxed);
    }

    fn retain(&self, accesses: u32) {
        self.references.fetch_add(accesses, Ordering::Relaxed);
    }

    fn descends_from(&self, _ancestor: &Self) -> bool {
        false
    }

    fn parent(&self) -> Option<&Self> {
        None
    }

    fn accesses(&self) -> &[Access<Self>] {
        &self.accesses
    }

    fn exclusive(&self) -> &Exclusive<Self> {
        // SAFETY: the graph outlives its nodes.
        unsafe { &*self.exclusive }
    }
}

/// Counts how often tasks become ready, and ends references.
struct Counted;

impl Outcome<Node> for Counted {
    fn ready(&mut self, task: NonNull<Node>) {
        // SAFETY: nodes are freed at the end.
        unsafe { task.as_ref() }.readied.fetch_add(1, Ordering::AcqRel);
    }

    fn gone(&mut self, task: NonNull<Node>, accesses: u32) {
        // SAFETY: as above.
        let before = unsafe { task.as_ref() }.references.fetch_sub(accesses, Ordering::AcqRel);
        assert!(before >= accesses, "an access goes twice");
    }

    fn combine(&mut self, _task: NonNull<Node>, _region: Region, _group_ends: bool) {}
}

/// The tasks of one test.
struct Graph {
    exclusive: Box<Exclusive<Node>>,
    domain: Domain<Node>,
    nodes: Vec<NonNull<Node>>,
}

/// A node on its way to another thread.
#[derive(Clone, Copy)]
struct Sent(NonNull<Node>);

// SAFETY: nodes can be looked at from any thread.
unsafe impl Send for Sent {}

impl Sent {
    fn node(&self) -> &Node {
        // SAFETY: nodes are freed at the end.
        unsafe { self.0.as_ref() }
    }

    fn times_ready(&self) -> u32 {
        self.node().readied.load(Ordering::Acquire)
    }

    /// Ends the task's body and domain.
    fn finish(self, domain: &mut Domain<Node>) {
        // SAFETY: once a node.
        unsafe {
            domain.close(&self.node().accesses, false, &mut Counted);
            complete(&self.node().accesses, false, &mut Counted);
        }
    }

    fn finish_alone(self) {
        self.finish(&mut Domain::default());
    }
}

impl Graph {
    fn new() -> Self {
        Graph { exclusive: Box::default(), domain: Domain::default(), nodes: Vec::new() }
    }

    fn node(&mut self, declared: &[(Kind, bool, usize, usize)]) -> Sent {
        let node = NonNull::from(Box::leak(Box::new(Node {
            blocking: AtomicU32::new(0),
            references: AtomicU32::new(0),
            readied: AtomicU32::new(0),
            accesses: Vec::new(),
            exclusive: &*self.exclusive,
        })));
        let access = |(kind, weak, start, end): &(Kind, bool, usize, usize)| {
            let region = Region::between(*start, *end).expect("not empty");
            Access::new(
                node,
                &castell_deps::Access { weak: *weak, ..castell_deps::Access::strong(*kind, region) },
            )
        };
        // SAFETY: nobody else sees it yet.
        unsafe { (*node.as_ptr()).accesses = declared.iter().map(access).collect() };
        self.nodes.push(node);
        Sent(node)
    }

    /// Creates a task below the root.
    fn task(&mut self, declared: &[(Kind, bool, usize, usize)]) -> Sent {
        let node = self.node(declared);
        register(&mut self.domain, &[], node);
        node
    }

    /// The root's body ends: every task was ready once, and nothing is left.
    fn end(mut self) {
        // SAFETY: all threads are joined.
        unsafe { self.domain.close(&[], false, &mut Counted) };
        for node in self.nodes.drain(..) {
            // SAFETY: made from a box, and everybody else has gone.
            let node = unsafe { Box::from_raw(node.as_ptr()) };
            assert_eq!(node.readied.load(Ordering::Acquire), 1, "ready exactly once");
            assert_eq!(node.references.load(Ordering::Acquire), 0, "no access is left");
            // SAFETY: all threads are joined; the memory is what `Outcome::allocate` takes by itself.
            node.accesses.iter().for_each(|access| unsafe {
                access.dispose(&mut |chunk, bytes| free_chunk(chunk, bytes));
            });
        }
    }
}

fn register(domain: &mut Domain<Node>, parent: &[Access<Node>], node: Sent) {
    // SAFETY: each domain is used by one thread; accesses are disjoint.
    if unsafe { domain.register(parent, node.0, &mut Counted) } {
        Counted.ready(node.0);
    }
}

/// Explores what threads can do to each other with up to three preemptions.
fn explore(test: impl Fn() + Sync + Send + 'static) {
    explore_within(3, test);
}

fn explore_within(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(test);
}

const IN: Kind = Kind::In;
const INOUT: Kind = Kind::InOut;

#[test]
fn a_writer_completes_while_the_next_is_registered() {
    explore(|| {
        let mut graph = Graph::new();
        let first = graph.task(&[(INOUT, false, 0, 8)]);
        let other = loom::thread::spawn(move || first.finish_alone());
        let second = graph.task(&[(INOUT, false, 0, 8)]);
        other.join().expect("no panic");
        assert_eq!(second.times_ready(), 1);
        second.finish_alone();
        graph.end();
    });
}

#[test]
fn readers_complete_while_a_writer_is_registered() {
    explore(|| {
        let mut graph = Graph::new();
        let readers = [graph.task(&[(IN, false, 0, 8)]), graph.task(&[(IN, false, 0, 8)])];
        let others = readers.map(|reader| loom::thread::spawn(move || reader.finish_alone()));
        let writer = graph.task(&[(INOUT, false, 0, 8)]);
        others.into_iter().for_each(|other| other.join().expect("no panic"));
        assert_eq!(writer.times_ready(), 1);
        writer.finish_alone();
        graph.end();
    });
}

#[test]
fn readers_complete_in_any_order_before_a_writer() {
    // Three threads: a third preemption takes minutes.
    explore_within(2, || {
        let mut graph = Graph::new();
        let readers = [(); 3].map(|()| graph.task(&[(IN, false, 0, 8)]));
        let writer = graph.task(&[(INOUT, false, 0, 8)]);
        let others = [readers[0], readers[1]].map(|one| loom::thread::spawn(move || one.finish_alone()));
        readers[2].finish_alone();
        others.into_iter().for_each(|other| other.join().expect("no panic"));
        assert_eq!(writer.times_ready(), 1);
        writer.finish_alone();
        graph.end();
    });
}

#[test]
fn a_writer_completes_while_readers_are_registered() {
    explore(|| {
        let mut graph = Graph::new();
        let writer = graph.task(&[(INOUT, false, 0, 8)]);
        let other = loom::thread::spawn(move || writer.finish_alone());
        let readers = [graph.task(&[(IN, false, 0, 8)]), graph.task(&[(IN, false, 0, 8)])];
        other.join().expect("no panic");
        for reader in readers {
            assert_eq!(reader.times_ready(), 1);
            reader.finish_alone();
        }
        graph.end();
    });
}

#[test]
fn the_middle_of_a_chain_gets_its_tokens_while_the_last_is_registered() {
    explore(|| {
        let mut graph = Graph::new();
        let [first, second] = [(); 2].map(|()| graph.task(&[(INOUT, false, 0, 8)]));
        let other = loom::thread::spawn(move || {
            first.finish_alone();
            assert_eq!(second.times_ready(), 1);
            second.finish_alone();
        });
        let third = graph.task(&[(INOUT, false, 0, 8)]);
        other.join().expect("no panic");
        assert_eq!(third.times_ready(), 1);
        third.finish_alone();
        graph.end();
    });
}

#[test]
fn readers_behind_a_writer_complete_while_the_next_is_registered() {
    explore(|| {
        let mut graph = Graph::new();
        let writer = graph.task(&[(INOUT, false, 0, 8)]);
        let readers = [(); 2].map(|()| graph.task(&[(IN, false, 0, 8)]));
        let other = loom::thread::spawn(move || {
            writer.finish_alone();
            readers.iter().for_each(|reader| assert_eq!(reader.times_ready(), 1));
            readers[1].finish_alone();
            readers[0].finish_alone();
        });
        let last = graph.task(&[(INOUT, false, 0, 8)]);
        other.join().expect("no panic");
        assert_eq!(last.times_ready(), 1);
        last.finish_alone();
        graph.end();
    });
}

#[test]
fn two_that_are_waited_for_complete_at_once() {
    explore(|| {
        let mut graph = Graph::new();
        let before = [graph.task(&[(INOUT, false, 0, 8)]), graph.task(&[(INOUT, false, 8, 16)])];
        let others = before.map(|task| loom::thread::spawn(move || task.finish_alone()));
        let after = graph.task(&[(IN, false, 0, 8), (IN, false, 8, 16)]);
        others.into_iter().for_each(|other| other.join().expect("no panic"));
        assert_eq!(after.times_ready(), 1);
        after.finish_alone();
        graph.end();
    });
}

#[test]
fn a_task_completes_while_it_is_split() {
    explore(|| {
        let mut graph = Graph::new();
        let whole = graph.task(&[(INOUT, false, 0, 8)]);
        let other = loom::thread::spawn(move || whole.finish_alone());
        let part = graph.task(&[(INOUT, false, 2, 4)]);
        other.join().expect("no panic");
        assert_eq!(part.times_ready(), 1);
        part.finish_alone();
        graph.end();
    });
}

#[test]
fn a_task_in_pieces_waits_for_two() {
    explore(|| {
        let mut graph = Graph::new();
        let before = [graph.task(&[(INOUT, false, 0, 4)]), graph.task(&[(INOUT, false, 4, 8)])];
        let others = before.map(|task| loom::thread::spawn(move || task.finish_alone()));
        let whole = graph.task(&[(INOUT, false, 2, 6)]);
        others.into_iter().for_each(|other| other.join().expect("no panic"));
        assert_eq!(whole.times_ready(), 1);
        whole.finish_alone();
        graph.end();
    });
}

#[test]
fn a_task_over_two_tiles_waits_for_both() {
    explore(|| {
        let mut graph = Graph::new();
        let before = [graph.task(&[(INOUT, false, 0, 4)]), graph.task(&[(INOUT, false, 4, 8)])];
        let others = before.map(|task| loom::thread::spawn(move || task.finish_alone()));
        let whole = graph.task(&[(INOUT, false, 0, 8)]);
        others.into_iter().for_each(|other| other.join().expect("no panic"));
        assert_eq!(whole.times_ready(), 1);
        whole.finish_alone();
        graph.end();
    });
}

#[test]
fn a_child_of_a_weak_parent_is_registered_while_tokens_come() {
    // Three threads and two levels: a third preemption takes minutes.
    explore_within(2, || {
        let mut graph = Graph::new();
        let before = graph.task(&[(INOUT, false, 0, 8)]);
        let parent = graph.task(&[(INOUT, true, 0, 8)]);
        let child = graph.node(&[(INOUT, false, 0, 4)]);
        let other = loom::thread::spawn(move || before.finish_alone());
        let body = loom::thread::spawn(move || {
            let mut domain = Domain::default();
            register(&mut domain, &parent.node().accesses, child);
            parent.finish(&mut domain);
        });
        let behind = graph.task(&[(INOUT, false, 0, 8)]);
        other.join().expect("no panic");
        body.join().expect("no panic");
        assert_eq!((child.times_ready(), behind.times_ready()), (1, 0));
        child.finish_alone();
        assert_eq!(behind.times_ready(), 1);
        behind.finish_alone();
        graph.end();
    });
}

/// Two tasks before a weak parent end while it does: it steps aside for its child at any moment, and what comes in parts goes
/// through it or splits it.
#[test]
fn a_weak_parent_steps_aside_while_tokens_come_in_parts() {
    explore_within(2, || {
        let mut graph = Graph::new();
        let before = [graph.task(&[(INOUT, false, 0, 4)]), graph.task(&[(INOUT, false, 4, 8)])];
        let parent = graph.task(&[(INOUT, true, 0, 8)]);
        let behind = graph.task(&[(INOUT, false, 0, 8)]);
        let child = graph.node(&[(INOUT, false, 0, 8)]);
        let other = loom::thread::spawn(move || before[0].finish_alone());
        let mut domain = Domain::default();
        register(&mut domain, &parent.node().accesses, child);
        let more = loom::thread::spawn(move || before[1].finish_alone());
        parent.finish(&mut domain);
        other.join().expect("no panic");
        more.join().expect("no panic");
        assert_eq!((child.times_ready(), behind.times_ready()), (1, 0));
        child.finish_alone();
        assert_eq!(behind.times_ready(), 1);
        behind.finish_alone();
        graph.end();
    });
}

/// A reader's token runs ahead of the others, through a weak reader that steps aside meanwhile.
#[test]
fn a_weak_reader_steps_aside_while_readers_before_it_end() {
    explore_within(2, || {
        let mut graph = Graph::new();
        let before = graph.task(&[(INOUT, false, 0, 8)]);
        let reader = graph.task(&[(IN, false, 0, 8)]);
        let parent = graph.task(&[(IN, true, 0, 8)]);
        let behind = [graph.task(&[(IN, false, 0, 8)]), graph.task(&[(INOUT, false, 0, 8)])];
        let child = graph.node(&[(IN, false, 0, 8)]);
        let other = loom::thread::spawn(move || {
            before.finish_alone();
            reader.finish_alone();
        });
        let mut domain = Domain::default();
        register(&mut domain, &parent.node().accesses, child);
        parent.finish(&mut domain);
        other.join().expect("no panic");
        assert_eq!([child, behind[0], behind[1]].map(|one| one.times_ready()), [1, 1, 0]);
        behind[0].finish_alone();
        assert_eq!(behind[1].times_ready(), 0);
        child.finish_alone();
        assert_eq!(behind[1].times_ready(), 1);
        behind[1].finish_alone();
        graph.end();
    });
}

#[test]
fn commutative_tasks_take_turns() {
    explore(|| {
        let mut graph = Graph::new();
        let first = graph.task(&[(Kind::Commutative, false, 0, 8)]);
        let other = loom::thread::spawn(move || first.finish_alone());
        let second = graph.task(&[(Kind::Commutative, false, 0, 8)]);
        other.join().expect("no panic");
        assert_eq!(second.times_ready(), 1);
        second.finish_alone();
        graph.end();
    });
}
