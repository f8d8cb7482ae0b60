//! Graphs of tasks that run again and again: their dependences are found once.
//!
//! The tasks of one iteration are described in order, as if they were created. From that follow the edges within an
//! iteration, and, by describing it twice, those from one iteration to the next; so iterations overlap as far as their data
//! allow (the *taskiter* of Álvarez and Beltran 2023). Running is counting down: a task that is over takes one from the count of each
//! successor, runs the first that comes to zero itself and creates a task for each other.
//!
//! Why the counts need no numbers of iterations: a task sets its count for the next iteration when it begins. Whoever counts it down
//! later conflicts with it on some bytes, so it comes after it in the order of those bytes, in whichever iteration.

use crate::api::context::Context;
use crate::api::data::{Accesses, Declarations};
use crate::api::versions::{self, Also, NoBody, RepeatedBodies};
use crate::dependences::{Declaration, Kind};
use crate::diagnostics::record::graph::Dependences;
use crate::error::TaskError;
use crate::lifecycle::extras::Life;
use crate::lifecycle::task::{Attributes, flag};
use castell_base::sync::{AtomicU32, AtomicU64, Ordering};
use castell_sched::Kind as LeafKind;
use castell_sched::versions::Versions;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// Iterations between two waits for all: what is created on top of each other stays bounded by that.
const ITERATIONS_AT_ONCE: u64 = 32;

/// How long a task whose events are not fulfilled sleeps before it looks again.
const NAP: Duration = Duration::from_micros(20);

/// What a task of a graph does in an iteration, counted from 0, on workers of this kind.
type Body = Arc<dyn Fn(&Context<'_>, u64, LeafKind) + Send + Sync>;

/// The tasks of an iteration, to be run several times: [`TaskGraph::run`]. It borrows the data that its tasks access.
///
/// ```
/// use castell_tasks::{Runtime, data::Data, replay::TaskGraph};
///
/// let runtime = Runtime::builder().workers(2).build()?;
/// let sum = runtime.run(|context| {
///     let mut numbers = Data::from(vec![1_u64, 2, 3]);
///     let mut sum = Data::new(0_u64);
///     let mut graph = TaskGraph::new();
///     for place in 0..3 {
///         // Each iteration doubles a number after it was added.
///         let accesses = (sum.write(), numbers.part(place..place + 1).read());
///         graph.add(context, accesses, |_, _, (mut sum, number)| *sum += number[0])?;
///         graph.add(context, numbers.part(place..place + 1).write(), |_, _, mut number| number[0] *= 2)?;
///     }
///     graph.run(context, 10)?;
///     drop(graph);
///     assert_eq!(numbers.get(context)?[2], 3 << 10);
///     Ok::<u64, castell_tasks::TaskError>(*sum.get(context)?)
/// })??;
/// assert_eq!(sum, 6 * ((1 << 10) - 1));
/// # Ok::<(), castell_tasks::TaskError>(())
/// ```
#[derive(Default)]
pub struct TaskGraph<'d> {
    described: Vec<Described>,
    /// Made when it runs for the first time after a task was added.
    nodes: Option<Arc<[Node]>>,
    /// Who described tasks with data, and alone may run them.
    owner: Option<Arc<Life>>,
    data: PhantomData<&'d ()>,
}

/// What was said of a task.
struct Described {
    attributes: Attributes,
    /// If it has several bodies, which ones.
    versions: Option<Versions>,
    declared: Vec<Declaration>,
    body: Body,
}

/// A task.
struct Node {
    attributes: Attributes,
    versions: Option<Versions>,
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

/// The data of a task. One thread at a time runs the task, one after the other.
struct Stored<S>(S);

// SAFETY: see above; `S` is `Send`.
unsafe impl<S: Send> Sync for Stored<S> {}

impl<'d> TaskGraph<'d> {
    /// Without tasks.
    pub fn new() -> TaskGraph<'d> {
        TaskGraph::default()
    }

    /// Adds the next task of an iteration. Its body finds guards for what was asked for, anew in every iteration, and may do what
    /// bodies do; children and events of it are waited for before those that depend on it begin. Commutative tasks run in the order in
    /// which they are added.
    ///
    /// # Errors
    /// A weak access, a reduction, or data that the current task has access to only weakly: these are for tasks that are created.
    /// Two requests overlap; somebody else owns the data; another task has described the tasks so far.
    pub fn add<A: Accesses + 'd>(
        &mut self,
        context: &Context<'_>,
        accesses: A,
        body: impl for<'t> Fn(&Context<'_>, u64, A::Guards<'t>) + Send + Sync + 'static,
    ) -> Result<(), TaskError> {
        self.add_with(context, Attributes::NONE, accesses, body)
    }

    /// [`TaskGraph::add`] with a label, a priority, or for a device.
    ///
    /// # Errors
    /// As there.
    pub fn add_with<A: Accesses + 'd>(
        &mut self,
        context: &Context<'_>,
        attributes: Attributes,
        accesses: A,
        body: impl for<'t> Fn(&Context<'_>, u64, A::Guards<'t>) + Send + Sync + 'static,
    ) -> Result<(), TaskError> {
        self.describe(context, attributes, None, accesses, move |context, iteration, _, guards| {
            body(context, iteration, guards);
        })
    }

    /// [`TaskGraph::add`] for a task with [versions](crate::versions): in each iteration one of them is chosen when it is ready.
    ///
    /// ```
    /// use castell_tasks::{LeafKind, Runtime, data::Data, replay::TaskGraph, task::Attributes};
    ///
    /// let runtime = Runtime::builder().workers(2).device(LeafKind::ACCELERATOR, ()).build()?;
    /// let count = runtime.run(|context| {
    ///     let mut count = Data::new(0_u64);
    ///     let mut graph = TaskGraph::new();
    ///     let attributes = Attributes { label: "count", ..Attributes::NONE };
    ///     let versions = graph.add_versions(context, attributes, count.write());
    ///     let versions = versions.version(LeafKind::CPU, |_, _, mut count| *count += 1);
    ///     versions.version(LeafKind::ACCELERATOR, |_, _, mut count| *count += 1).add()?;
    ///     graph.run(context, 10)?;
    ///     drop(graph);
    ///     count.get(context).copied()
    /// })??;
    /// assert_eq!(count, 10);
    /// # Ok::<(), castell_tasks::TaskError>(())
    /// ```
    pub fn add_versions<'g, 'c, 't, A: Accesses + 'd>(
        &'g mut self,
        context: &'c Context<'t>,
        attributes: Attributes,
        accesses: A,
    ) -> GraphVersions<'g, 'd, 'c, 't, A, NoBody> {
        let (versions, bodies) = (Versions::default(), NoBody);
        GraphVersions { graph: self, context, attributes, accesses, versions, bodies, refused: None }
    }

    fn describe<A: Accesses + 'd>(
        &mut self,
        context: &Context<'_>,
        attributes: Attributes,
        versions: Option<Versions>,
        accesses: A,
        body: impl for<'t> Fn(&Context<'_>, u64, LeafKind, A::Guards<'t>) + Send + Sync + 'static,
    ) -> Result<(), TaskError> {
        let mut declarations = Declarations::new();
        accesses.declare(context.current(), &mut declarations)?;
        declarations.check_disjoint(attributes.label)?;
        let declared = declarations.as_slice();
        let by_parent = |one: &Declaration| {
            context.current().accesses().iter().find(|access| {
                let region = access.region();
                access.state().is_weak()
                    && region.start() < one.start + one.length
                    && one.start < region.end()
            })
        };
        if let Some(one) = declared.iter().find(|one| by_parent(one).is_some()) {
            return Err(TaskError::NotInGraphs { kind: one.kind, weak: true });
        }
        self.belong_to(context)?;
        let declared = declared.to_vec();
        let stored = Stored(accesses.store());
        // SAFETY: the guards are for what was declared; what they borrow is borrowed for as long as the graph exists, and the task
        // that owns the rest is the only one that runs it and waits for it.
        unsafe {
            self.push(attributes, versions, &declared, move |context, iteration, kind| {
                let stored = &stored;
                // SAFETY: the task runs, and no other guards of it are left.
                let guards = A::guards(&stored.0);
                body(context, iteration, kind, guards);
            })
        }
    }

    /// The current task describes tasks with data.
    fn belong_to(&mut self, context: &Context<'_>) -> Result<(), TaskError> {
        let life = context.current().life();
        match &self.owner {
            Some(owner) if !Arc::ptr_eq(owner, &life) => {
                Err(TaskError::NotOwner { label: context.label().to_owned() })
            }
            _ => {
                self.owner = Some(life);
                Ok(())
            }
        }
    }

    /// Adds the next task of an iteration, which accesses raw regions.
    ///
    /// # Errors
    /// A weak access or a reduction.
    ///
    /// # Safety
    /// The bytes that `body` accesses must be among the declared ones, live while the graph runs, and be left alone by
    /// everything that is not ordered with [`TaskGraph::run`]; the regions must lie inside those that the running task declared, and
    /// not weakly.
    pub unsafe fn task(
        &mut self,
        declared: &[Declaration],
        body: impl Fn(&Context<'_>, u64) + Send + Sync + 'static,
    ) -> Result<(), TaskError> {
        // SAFETY: the caller's promise.
        unsafe { self.task_with(Attributes::NONE, declared, body) }
    }

    /// [`TaskGraph::task`] with a label, a priority, or for a device.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn task_with(
        &mut self,
        attributes: Attributes,
        declared: &[Declaration],
        body: impl Fn(&Context<'_>, u64) + Send + Sync + 'static,
    ) -> Result<(), TaskError> {
        // SAFETY: the caller's promise.
        unsafe {
            self.push(attributes, None, declared, move |context, iteration, _| body(context, iteration))
        }
    }

    /// [`TaskGraph::task`] for a task with [versions](crate::versions): `body` gets the kind of the one that was chosen.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn task_with_versions(
        &mut self,
        attributes: Attributes,
        versions: Versions,
        declared: &[Declaration],
        body: impl Fn(&Context<'_>, u64, LeafKind) + Send + Sync + 'static,
    ) -> Result<(), TaskError> {
        // SAFETY: the caller's promise.
        unsafe { self.push(attributes, Some(versions), declared, body) }
    }

    /// # Safety
    /// As for [`TaskGraph::task`].
    unsafe fn push(
        &mut self,
        attributes: Attributes,
        versions: Option<Versions>,
        declared: &[Declaration],
        body: impl Fn(&Context<'_>, u64, LeafKind) + Send + Sync + 'static,
    ) -> Result<(), TaskError> {
        TaskGraph::check(declared)?;
        let in_order = |access: &Declaration| match access.kind {
            Kind::Commutative => Declaration { kind: Kind::InOut, ..*access },
            _ => *access,
        };
        let declared = declared.iter().map(in_order).collect();
        let attributes = Attributes { flags: 0, ..attributes };
        self.described.push(Described { attributes, versions, declared, body: Arc::new(body) });
        self.nodes = None;
        Ok(())
    }

    /// Whether a task with these accesses can be added.
    ///
    /// # Errors
    /// A weak access or a reduction.
    pub fn check(declared: &[Declaration]) -> Result<(), TaskError> {
        match declared.iter().find(|access| access.weak || access.kind == Kind::Reduction) {
            Some(access) => Err(TaskError::NotInGraphs { kind: access.kind, weak: access.weak }),
            None => Ok(()),
        }
    }

    /// How many tasks an iteration has.
    pub fn len(&self) -> usize {
        self.described.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.described.is_empty()
    }

    /// Waits for what the current task has created before, runs so many iterations below it, and waits for them.
    ///
    /// # Errors
    /// The first failure of a task; what depended on it has not run. Tasks with data were described by another task.
    pub fn run(&mut self, context: &Context<'_>, iterations: u64) -> Result<(), TaskError> {
        if self.owner.is_some() {
            self.belong_to(context)?;
        }
        if context.current().children.live() > 0 {
            context.taskwait()?;
        }
        let nodes = self.nodes.get_or_insert_with(|| link(&self.described));
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

/// A task with versions that is about to be added to a graph: [`TaskGraph::add_versions`].
#[must_use = "`add` adds the task"]
pub struct GraphVersions<'g, 'd, 'c, 't, A, V> {
    graph: &'g mut TaskGraph<'d>,
    context: &'c Context<'t>,
    attributes: Attributes,
    accesses: A,
    versions: Versions,
    bodies: V,
    refused: Option<TaskError>,
}

impl<'g, 'd, 'c, 't, A: Accesses + 'd, V> GraphVersions<'g, 'd, 'c, 't, A, V> {
    /// One more version, for workers of this kind.
    pub fn version<F>(self, kind: LeafKind, body: F) -> GraphVersions<'g, 'd, 'c, 't, A, Also<V, F>>
    where
        F: for<'b> Fn(&Context<'_>, u64, A::Guards<'b>) + Send + Sync + 'static,
    {
        let GraphVersions { graph, context, attributes, accesses, mut versions, bodies, refused } = self;
        let refused = refused.or(versions::add(&mut versions, kind, attributes.label).err());
        let bodies = Also::new(bodies, kind, body);
        GraphVersions { graph, context, attributes, accesses, versions, bodies, refused }
    }

    /// How long the version takes that was added last: this is believed, whatever is measured.
    pub fn taking(mut self, time: Duration) -> Self {
        versions::take(&mut self.versions, time);
        self
    }

    /// The versions were added best first: see [`NewVersions::ranked`](crate::versions::NewVersions::ranked).
    pub fn ranked(mut self) -> Self {
        self.versions.is_ranked = true;
        self
    }

    /// Adds it.
    ///
    /// # Errors
    /// As for [`TaskGraph::add`]; or two versions are for one kind. That there is no worker for any of them fails the run.
    pub fn add(self) -> Result<(), TaskError>
    where
        V: RepeatedBodies<A> + Send + Sync + 'static,
    {
        let GraphVersions { graph, context, attributes, accesses, versions, bodies, refused } = self;
        refused.map_or(Ok(()), Err)?;
        graph.describe(
            context,
            attributes,
            Some(versions),
            accesses,
            move |context, iteration, kind, guards| {
                bodies.call(kind, context, iteration, guards);
            },
        )
    }
}

/// Finds the edges.
fn link(described: &[Described]) -> Arc<[Node]> {
    let count = described.len();
    let mut dependences = Dependences::default();
    dependences.declare(0, None, &[]);
    for iteration in 0..2 {
        for (index, task) in described.iter().enumerate() {
            dependences.declare(1 + iteration * count + index, Some(0), &task.declared);
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
    for (index, (task, edges)) in described.iter().zip(edges).enumerate() {
        let (first, from_last, same, mut next) = edges;
        // Always behind itself, whatever it accesses.
        next.push(index as u32);
        nodes.push(Node {
            attributes: task.attributes,
            versions: task.versions,
            body: Arc::clone(&task.body),
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
    let Node { attributes, versions, .. } = nodes[number];
    let nodes = Arc::clone(nodes);
    // SAFETY: the promise of whoever added the tasks; the counts order them.
    unsafe {
        match versions {
            None => context.submit_raw(attributes, &[], move |context| {
                follow(context, &nodes, number, iterations);
            }),
            Some(versions) => context.submit_versions_raw(attributes, versions, &[], move |context, _| {
                follow(context, &nodes, number, iterations);
            }),
        }
    }
}

/// Runs a task whose count is zero, and of those that this releases one after the other, if nobody wants to see them apart.
fn follow(context: &Context<'_>, nodes: &Arc<[Node]>, number: usize, iterations: u64) {
    // What a version takes is its own time.
    let apart = context.is_recorded() || nodes[number].versions.is_some();
    let mut current = Some(number);
    while let Some(number) = current.take() {
        let node = &nodes[number];
        let iteration = node.iteration.load(Ordering::Relaxed);
        node.iteration.store(iteration + 1, Ordering::Relaxed);
        node.missing.store(node.each, Ordering::Relaxed);
        if !run_body(context, node, iteration) {
            return;
        }
        let next = if iteration + 1 < iterations { &*node.next } else { &[] };
        for &successor in node.same.iter().chain(next) {
            // Acquire and release: what was written before, counts included, is seen by whoever runs it.
            if nodes[successor as usize].missing.fetch_sub(1, Ordering::AcqRel) == 1 {
                let successor = successor as usize;
                let next = &nodes[successor];
                let is_alike = next.attributes.kind == node.attributes.kind && next.versions.is_none();
                if current.is_none() && !apart && is_alike {
                    current = Some(successor);
                } else {
                    start(context, nodes, successor, iterations);
                }
            }
        }
    }
}

/// Runs a body, and waits for what it leaves behind; false if it failed.
fn run_body(context: &Context<'_>, node: &Node, iteration: u64) -> bool {
    let task = context.current();
    let leaves_some = task.children.watch(|| (node.body)(context, iteration, context.kind()));
    // For its own, and then as well for those of whoever it is run behind.
    if leaves_some && let Err(error) = context.taskwait() {
        context.fail(error);
    }
    while task.events.pending() != 1 {
        context.block_for(NAP);
    }
    !task.has(flag::POISONED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::api::data::{Data, Read};
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
    /// Waits, one iteration after the other, for a child of its body and for an event that another thread fulfils.
    #[test]
    fn children_and_events_are_waited_for() {
        let runtime = Runtime::builder().workers(2).build().expect("threads start");
        let seen = runtime.run(|context| -> Result<Vec<u64>, TaskError> {
            let (mut log, place) = (Data::new(Vec::new()), Data::new(0_u64));
            let mut graph = TaskGraph::new();
            graph.add(context, place.write(), |context, iteration, place| {
                let place = place.lend();
                context.submit(place.all().write(), move |_, mut place| *place = 10 * iteration);
            })?;
            graph.add(context, place.write(), |context, _, place| {
                let mut held = place.hold(context);
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_micros(300));
                    *held += 1;
                });
            })?;
            graph.add(context, (log.write(), place.read()), |_, _, (mut log, place)| log.push(*place))?;
            graph.run(context, 5)?;
            // One more task, and on it goes.
            graph.add(context, log.write(), |_, _, mut log| log.push(0))?;
            graph.run(context, 2)?;
            drop(graph);
            Ok(log.get(context)?.clone())
        });
        let seen = seen.expect("it runs").expect("nothing fails");
        assert_eq!(seen, [1, 11, 21, 31, 41, 1, 0, 11, 0]);
    }

    #[test]
    fn what_fails_in_any_way_ends_it() {
        let runtime = Runtime::builder().workers(2).build().expect("threads start");
        for way in 0..3 {
            let after = runtime.run(|context| {
                let place = Data::new(0_u64);
                let after = Arc::new(AtomicU64::new(0));
                let mut graph = TaskGraph::new();
                graph
                    .add(context, place.write(), move |context, iteration, _| match (iteration, way) {
                        (2, 0) => context.fail("said so"),
                        (2, 1) => context.submit((), |context, ()| context.fail("a child")),
                        (2, _) => context.event().fail("an event"),
                        _ => (),
                    })
                    .expect("usual");
                let counted = Arc::clone(&after);
                let count = move |_: &Context<'_>, _, _: Read<'_, u64>| {
                    counted.fetch_add(1, Ordering::Relaxed);
                };
                graph.add(context, place.read(), count).expect("usual");
                graph.run(context, 5).expect_err("it fails");
                after.load(Ordering::Relaxed)
            });
            assert_eq!(after.expect("reported inside"), 2, "way {way}");
        }
    }

    #[test]
    fn data_stays_with_its_owner() {
        let runtime = Runtime::builder().workers(2).build().expect("threads start");
        let checked = runtime.run(|context| {
            let place: &'static Data<u64> = Box::leak(Box::new(Data::new(0)));
            let numbers = Data::from(vec![0_u64; 4]);
            let mut graph = TaskGraph::new();
            graph.add(context, place.write(), |_, _, mut place| *place += 1).expect("its own");
            let twice = (numbers.part(0..3).write(), numbers.part(2..4).read());
            let overlap = TaskGraph::new().add(context, twice, |_, _, _| ());
            assert!(matches!(overlap, Err(TaskError::Overlap { .. })), "{overlap:?}");
            let elsewhere = context.spawn((), move |context, ()| graph.run(context, 1)).wait(context);
            assert!(matches!(elsewhere, Ok(Err(TaskError::NotOwner { .. }))), "{elsewhere:?}");
            context.submit(numbers.all().weak_write(), |context, numbers| {
                let mut graph = TaskGraph::new();
                let weak = graph.add(context, numbers.part(0..2).write(), |_, _, _| ());
                assert!(matches!(weak, Err(TaskError::NotInGraphs { .. })), "{weak:?}");
            });
            context.taskwait()
        });
        checked.expect("it runs").expect("nothing fails");
    }

    #[test]
    fn a_recording_shows_each_task_by_its_label() {
        let runtime = Runtime::builder().workers(2).record(true).build().expect("threads start");
        let ran = runtime.run(|context| {
            let place = Data::new(0_u64);
            let mut graph = TaskGraph::new();
            for label in ["first", "second"] {
                let attributes = Attributes { label, ..Attributes::NONE };
                graph.add_with(context, attributes, place.write(), |_, _, mut place| *place += 1)?;
            }
            graph.run(context, 3)
        });
        ran.expect("it runs").expect("nothing fails");
        let recording = runtime.recording().expect("asked for");
        for label in ["first", "second"] {
            let ran = recording.tasks.iter().filter(|task| task.label == label && task.ran.is_some());
            assert_eq!(ran.count(), 3);
        }
    }
}
