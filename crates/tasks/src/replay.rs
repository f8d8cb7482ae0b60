//! Graphs of tasks that run again and again: their dependences are found once.
//!
//! The tasks of one iteration are described in order, as if they were created. From that follow the edges within an
//! iteration, and, by describing it twice, those from one iteration to the next; so iterations overlap as far as their data
//! allow (the *taskiter* of Álvarez and Beltran 2023). Running is counting down: a task that is over takes one from the count of each
//! successor, runs the first that comes to zero itself and creates a task for each other.
//!
//! Why the counts need no numbers of iterations: a task sets its count for the next iteration when it begins. Whoever counts it down
//! later conflicts with it on some bytes, so it comes after it in the order of those bytes, in whichever iteration.

use crate::context::Context;
use crate::dependences::{Declaration, Kind};
use crate::error::TaskError;
use crate::record::graph::Dependences;
use crate::task::Attributes;
use castell_base::sync::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// Iterations between two waits for all: what is created on top of each other stays bounded by that.
const ITERATIONS_AT_ONCE: u64 = 32;

/// What a task of a graph does in an iteration, counted from 0.
type Body = Box<dyn Fn(&Context<'_>, u64) + Send + Sync>;

/// The tasks of an iteration, to be run several times: [`TaskGraph::run`].
///
/// ```
/// use castell_tasks::{Runtime, replay::TaskGraph, dependences::{Declaration, Kind}};
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// let sum = Arc::new(AtomicU64::new(0));
/// let place = Declaration { start: Arc::as_ptr(&sum) as usize, length: 8, kind: Kind::InOut, weak: false, reduction: 0 };
/// let mut graph = TaskGraph::new();
/// for number in 1..=3 {
///     let sum = Arc::clone(&sum);
///     // SAFETY: what the body touches is an atomic.
///     unsafe { graph.task(&[place], move |_, _| { sum.fetch_add(number, Ordering::Relaxed); })? };
/// }
/// let runtime = Runtime::builder().workers(2).build()?;
/// runtime.run(|context| graph.run(context, 10))??;
/// assert_eq!(sum.load(Ordering::Relaxed), 60);
/// # Ok::<(), castell_tasks::TaskError>(())
/// ```
#[derive(Default)]
pub struct TaskGraph {
    described: Vec<(Vec<Declaration>, Body)>,
    /// Made when it runs first.
    nodes: Option<Arc<[Node]>>,
}

/// A task.
struct Node {
    body: Body,
    /// What it waits for in the first iteration, and in every other.
    first: u32,
    each: u32,
    /// Who waits for it in the same iteration, and in the next.
    same: Box<[u32]>,
    next: Box<[u32]>,
    /// What it still waits for.
    missing: AtomicU32,
    /// In which iteration it is or comes next.
    iteration: AtomicU64,
}

impl TaskGraph {
    /// Without tasks.
    pub fn new() -> TaskGraph {
        TaskGraph::default()
    }

    /// Adds the next task of an iteration. If its body creates tasks, it has to wait for them. Commutative tasks run in the
    /// order in which they are added.
    ///
    /// # Errors
    /// A weak access or a reduction: these are for tasks that are created.
    ///
    /// # Safety
    /// The bytes that `body` accesses must be among the declared ones, live while the graph runs, and be left alone by
    /// everything that is not ordered with [`TaskGraph::run`]; the regions must lie inside those that the running task declared.
    pub unsafe fn task(
        &mut self,
        declared: &[Declaration],
        body: impl Fn(&Context<'_>, u64) + Send + Sync + 'static,
    ) -> Result<(), TaskError> {
        let in_order = |access: &Declaration| match access.kind {
            _ if access.weak || access.kind == Kind::Reduction => {
                Err(TaskError::NotInGraphs { kind: access.kind, weak: access.weak })
            }
            Kind::Commutative => Ok(Declaration { kind: Kind::InOut, ..*access }),
            _ => Ok(*access),
        };
        let declared = declared.iter().map(in_order).collect::<Result<_, _>>()?;
        self.described.push((declared, Box::new(body)));
        Ok(())
    }

    /// How many tasks an iteration has.
    pub fn len(&self) -> usize {
        self.nodes.as_ref().map_or(self.described.len(), |nodes| nodes.len())
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs so many iterations below the current task and waits for them. Tasks that were created before with accesses to the
    /// same data have to be waited for first.
    ///
    /// # Errors
    /// The first failure of a task; what depended on it has not run.
    pub fn run(&mut self, context: &Context<'_>, iterations: u64) -> Result<(), TaskError> {
        let nodes = self.nodes.get_or_insert_with(|| link(std::mem::take(&mut self.described)));
        let mut first = 0;
        while first < iterations {
            let end = iterations.min(first + ITERATIONS_AT_ONCE);
            for node in &**nodes {
                node.missing.store(node.first, Ordering::Relaxed);
                node.iteration.store(first, Ordering::Relaxed);
            }
            for (number, _) in nodes.iter().enumerate().filter(|(_, node)| node.first == 0) {
                start(context, nodes, number, end);
            }
            context.taskwait()?;
            first = end;
        }
        Ok(())
    }
}

/// Finds the edges.
fn link(described: Vec<(Vec<Declaration>, Body)>) -> Arc<[Node]> {
    let count = described.len();
    let mut dependences = Dependences::default();
    dependences.declare(0, None, &[]);
    for iteration in 0..2 {
        for (index, (declared, _)) in described.iter().enumerate() {
            dependences.declare(1 + iteration * count + index, Some(0), declared);
        }
    }
    let mut edges: Vec<(u32, u32, Vec<u32>, Vec<u32>)> = vec![Default::default(); count];
    for (task, after) in dependences.resolve().into_iter().enumerate().skip(1) {
        let (iteration, index) = ((task - 1) / count, (task - 1) % count);
        for before in after {
            let before_index = (before - 1) % count;
            match (iteration, (before - 1) / count) {
                (0, _) => {
                    edges[index].0 += 1;
                    edges[before_index].2.push(index as u32);
                }
                (_, 0) if before_index != index => {
                    edges[index].1 += 1;
                    edges[before_index].3.push(index as u32);
                }
                _ => (), // the same as in the first iteration, or itself
            }
        }
    }
    let mut nodes = Vec::with_capacity(count);
    for (index, ((_, body), edges)) in described.into_iter().zip(edges).enumerate() {
        let (first, from_last, same, mut next) = edges;
        // Always behind itself, whatever it accesses.
        next.push(index as u32);
        nodes.push(Node {
            body,
            first,
            each: first + from_last + 1,
            same: same.into(),
            next: next.into(),
            missing: AtomicU32::new(0),
            iteration: AtomicU64::new(0),
        });
    }
    nodes.into()
}

/// Creates a task that runs from this one on.
fn start(context: &Context<'_>, nodes: &Arc<[Node]>, number: usize, iterations: u64) {
    let nodes = Arc::clone(nodes);
    // SAFETY: the promise of whoever added the tasks; the counts order them.
    unsafe {
        context.submit_raw(Attributes::NONE, &[], move |context| follow(context, &nodes, number, iterations))
    }
}

/// Runs a task whose count is zero, and of those that this releases one after the other.
fn follow(context: &Context<'_>, nodes: &Arc<[Node]>, number: usize, iterations: u64) {
    let mut current = Some(number);
    while let Some(number) = current.take() {
        let node = &nodes[number];
        let iteration = node.iteration.load(Ordering::Relaxed);
        node.iteration.store(iteration + 1, Ordering::Relaxed);
        node.missing.store(node.each, Ordering::Relaxed);
        (node.body)(context, iteration);
        let next = if iteration + 1 < iterations { &*node.next } else { &[] };
        for &successor in node.same.iter().chain(next) {
            // Acquire and release: what was written before, counts included, is seen by whoever runs it.
            if nodes[successor as usize].missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                match current {
                    None => current = Some(successor as usize),
                    Some(_) => start(context, nodes, successor as usize, iterations),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use std::sync::Mutex;

    fn access(start: usize, kind: Kind) -> Declaration {
        Declaration { start, length: 1, kind, weak: false, reduction: 0 }
    }

    /// Random graphs on a few cells: every cell sees its accesses in the order of the program.
    #[test]
    fn cells_are_touched_in_order() {
        for seed in 0..20_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let (cells, tasks, iterations) = (5, 1 + random(12) as usize, 70);
            let mut program: Vec<Vec<(usize, Kind)>> = Vec::new();
            for _ in 0..tasks {
                let mut touched = Vec::new();
                for cell in 0..cells {
                    match random(5) {
                        0 => touched.push((cell, Kind::In)),
                        1 => touched.push((cell, Kind::InOut)),
                        _ => (),
                    }
                }
                program.push(touched);
            }
            // By cell: the last writer, as (iteration, task), and readers since.
            let log: Arc<Mutex<Vec<(u64, usize)>>> = Arc::default();
            let mut graph = TaskGraph::new();
            for (task, touched) in program.iter().enumerate() {
                let declared: Vec<_> =
                    touched.iter().map(|&(cell, kind)| access(1000 + cell, kind)).collect();
                let log = Arc::clone(&log);
                let body = move |_: &Context<'_>, iteration| {
                    log.lock().expect("nobody panics").push((iteration, task));
                };
                // SAFETY: the addresses are only names.
                unsafe { graph.task(&declared, body) }.expect("usual accesses");
            }
            let runtime = Runtime::builder().workers(3).build().expect("threads start");
            runtime.run(|context| graph.run(context, iterations)).expect("it runs").expect("nothing fails");
            let log = log.lock().expect("nobody panics");
            assert_eq!(log.len(), tasks * iterations as usize, "seed {seed}");
            for cell in 0..cells {
                let touches =
                    |task: usize| program[task].iter().find(|(at, _)| *at == cell).map(|(_, kind)| *kind);
                let order: Vec<_> =
                    log.iter().filter_map(|&(i, task)| Some(((i, task), touches(task)?))).collect();
                let mut sorted = order.clone();
                sorted.sort_by_key(|(at, _)| *at);
                // Between two writers the same readers, in any order.
                let by_writer = |order: &[((u64, usize), Kind)]| {
                    let mut groups: Vec<Vec<_>> =
                        order.split_inclusive(|(_, kind)| *kind == Kind::InOut).map(<[_]>::to_vec).collect();
                    groups
                        .iter_mut()
                        .for_each(|group| group.sort_by_key(|(at, kind)| (*kind == Kind::InOut, *at)));
                    groups
                };
                assert_eq!(by_writer(&order), by_writer(&sorted), "seed {seed}, cell {cell}: {program:?}");
            }
        }
    }

    #[test]
    fn failures_end_it_and_some_accesses_are_refused() {
        let mut graph = TaskGraph::new();
        let weak = Declaration { weak: true, ..access(8, Kind::InOut) };
        // SAFETY: nothing is touched.
        unsafe {
            assert!(matches!(graph.task(&[weak], |_, _| ()), Err(TaskError::NotInGraphs { .. })));
            graph
                .task(&[access(8, Kind::InOut)], |_, iteration| assert!(iteration < 3, "too far"))
                .expect("usual");
            graph.task(&[access(8, Kind::In)], |_, _| ()).expect("usual");
        }
        let runtime = Runtime::builder().workers(2).build().expect("threads start");
        let ran = runtime.run(|context| graph.run(context, 3)).expect("it runs");
        assert!(ran.is_ok());
        let failed = runtime.run(|context| graph.run(context, 5)).expect("reported inside");
        assert!(matches!(failed, Err(TaskError::Panicked { .. })), "{failed:?}");
        // And it can run again.
        assert!(runtime.run(|context| graph.run(context, 2)).expect("it runs").is_ok());
    }
}
