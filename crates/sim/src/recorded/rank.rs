//! One rank's graph.

use super::Tags;
use castell_goal::graph::{Graph, GraphError, Vertex};
use castell_goal::op::Place;
use castell_trace::joined::{Joined, Noted, OWN, Row, TaskNote, Waited};
use castell_trace::journal::Action;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The processor of what is done for graphs; 0 is the program's.
const CARRIES_ON: u8 = 1;
/// The processor of worker 0.
const WORKS: u8 = 2;

/// A rank's graph, and the messages that are not in it.
pub(super) struct Rebuilt {
    pub graph: Graph,
    pub left_out: u64,
}

/// Something that the program did, or that happened while it was somewhere.
#[derive(Clone, Copy)]
enum Moment {
    Begins(u64),
    Task(usize),
    Waits(Waited),
}

struct Builder<'a> {
    joined: &'a Joined<'a>,
    row: &'a Row<'a>,
    graph: Graph,
    /// Of each operation.
    vertices: Vec<Vertex>,
    /// By run: its operations, by their starts.
    runs: HashMap<u64, Vec<usize>>,
    /// Operations that others of their run wait for, and those that wait.
    has_next: Vec<bool>,
    waits: Vec<bool>,
    edges: HashSet<(Vertex, Vertex)>,
    left_out: u64,
}

impl Rebuilt {
    pub fn of(joined: &Joined<'_>, row: &Row<'_>, tags: &mut Tags) -> Result<Rebuilt, GraphError> {
        let count = row.operations.len();
        let mut builder = Builder {
            joined,
            row,
            graph: Graph::new(),
            vertices: Vec::with_capacity(count),
            runs: HashMap::new(),
            has_next: vec![false; count],
            waits: vec![false; count],
            edges: HashSet::new(),
            left_out: 0,
        };
        builder.operations(tags)?;
        builder.dependences()?;
        builder.program()?;
        Ok(Rebuilt { graph: builder.graph, left_out: builder.left_out })
    }
}

impl Builder<'_> {
    fn operations(&mut self, tags: &mut Tags) -> Result<(), GraphError> {
        let (joined, row) = (self.joined, self.row);
        for (at, noted) in row.operations.iter().enumerate() {
            let Noted { operation, began_ns, is_met, .. } = noted;
            let vertex = match (operation.action, operation.peer) {
                (Action::Send, Some(peer)) if *is_met => {
                    let tag = tags.of(row.rank, peer, operation);
                    self.graph.send(Place::VOID, operation.bytes, peer, tag)?
                }
                (Action::Recv, Some(peer)) if *is_met => {
                    let tag = tags.of(peer, row.rank, operation);
                    self.graph.recv(Place::VOID, operation.bytes, Some(peer), Some(tag))?
                }
                (Action::Send | Action::Recv, _) => {
                    self.left_out += 1;
                    self.graph.proxy()?
                }
                (Action::Proxy, _) => self.graph.proxy()?,
                (Action::Calc | Action::Call | Action::Local | Action::Put | Action::Get, _) => {
                    self.graph.calc(operation.end_ns.saturating_sub(*began_ns))?
                }
            };
            let label = match operation.action {
                Action::Send | Action::Recv | Action::Calc | Action::Proxy => joined.label(row, operation),
                _ => Some(joined.describe(row, operation)),
            };
            if let Some(label) = label {
                self.graph.set_label(vertex, &label)?;
            }
            self.graph.set_cpu(vertex, CARRIES_ON)?;
            self.vertices.push(vertex);
            self.runs.entry(operation.run).or_default().push(at);
        }
        Ok(())
    }

    /// Who waits for whom within runs, as their graphs have it: where one did begin when the other one was over.
    fn dependences(&mut self) -> Result<(), GraphError> {
        let row = self.row;
        let mut by_id: HashMap<(u64, u32), Vec<usize>> = HashMap::new();
        for (at, noted) in row.operations.iter().enumerate() {
            by_id.entry((noted.operation.run, noted.operation.id)).or_default().push(at);
        }
        let operations = row.operations.iter().map(|noted| &noted.operation);
        let first = operations.map(|one| (one.run, one.id, false, &one.next[..]));
        let more = row.edges.iter().map(|(run, id, at_start, next)| (*run, *id, *at_start, &next[..]));
        for (run, id, at_start, next) in first.chain(more) {
            for target in next.iter().filter(|target| **target != 0) {
                let (Some(froms), Some(tos)) = (by_id.get(&(run, id)), by_id.get(&(run, *target))) else {
                    continue;
                };
                for &from in froms {
                    let one = &row.operations[from].operation;
                    // What one step does is begun together.
                    let since_ns = if at_start || one.is_step { one.start_ns } else { one.end_ns };
                    // A call that is cut into segments does it again for each; what had enough of its prerequisites did not wait for all.
                    let of_same = tos.partition_point(|to| row.operations[*to].operation.start_ns < since_ns);
                    let Some(&to) = tos.get(of_same) else { continue };
                    self.has_next[from] |= !at_start;
                    self.waits[to] = true;
                    let (from, to) = (self.vertices[from], self.vertices[to]);
                    if from != to && self.edges.insert((from, to)) {
                        match at_start {
                            true => self.graph.irequires(from, to)?,
                            false => self.graph.requires(from, to)?,
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// What the program did: it computed, began runs, and waited.
    fn program(&mut self) -> Result<(), GraphError> {
        let row = self.row;
        let mut moments: Vec<(u64, Moment)> = Vec::new();
        for (run, operations) in &self.runs {
            moments.push((row.operations[operations[0]].operation.start_ns, Moment::Begins(*run)));
        }
        let tasks = pieces(&row.tasks);
        moments.extend(tasks.iter().enumerate().map(|(at, task)| (task.start_ns, Moment::Task(at))));
        moments.extend(row.waited.iter().map(|one| (one.start_ns, Moment::Waits(*one))));
        moments.sort_by_key(|(at_ns, moment)| match moment {
            Moment::Begins(run) => (*at_ns, 0, *run),
            Moment::Task(task) => (*at_ns, 1, *task as u64),
            Moment::Waits(_) => (*at_ns, 2, 0),
        });
        let mut own = Thread { now_ns: self.joined.zero_ns, ..Thread::default() };
        if row.entered_ns > own.now_ns {
            let start = self.graph.sleep(row.entered_ns - own.now_ns)?;
            (own.here, own.now_ns) = (Some(start), row.entered_ns);
        }
        for (at_ns, moment) in moments {
            own.goes_on(self, at_ns)?;
            match moment {
                Moment::Begins(run) => self.begin(run, own.here)?,
                Moment::Task(at) => own.tasks.add(self, &tasks[at], own.here)?,
                Moment::Waits(waited) => {
                    own.inside_ns = own.inside_ns.max(waited.end_ns);
                    own.ends.extend(self.ends_of(&waited));
                    own.awaits_tasks |= waited.run.is_none();
                }
            }
        }
        own.goes_on(self, row.left_ns)
    }

    /// The run begins when the program is here. Steps follow one another.
    fn begin(&mut self, run: u64, here: Option<Vertex>) -> Result<(), GraphError> {
        let operations = self.runs[&run].clone();
        let mut by_end: Vec<usize> = operations.clone();
        by_end.sort_by_key(|at| self.row.operations[*at].operation.end_ns);
        for at in operations {
            if self.waits[at] {
                continue;
            }
            let operation = &self.row.operations[at].operation;
            // Two that took no time at the same moment are in no order.
            let until_ns = operation.start_ns.min(operation.end_ns.saturating_sub(1));
            let over = |other: &usize| self.row.operations[*other].operation.end_ns <= until_ns;
            let before = by_end.partition_point(over).checked_sub(1).map(|before| by_end[before]);
            let before = before.filter(|_| operation.is_step);
            if let Some(before) = before.map(|before| self.vertices[before]).or(here) {
                self.requires(before, self.vertices[at])?;
            }
        }
        Ok(())
    }

    /// What ended such a wait: all that the run did until then.
    fn ends_of(&self, waited: &Waited) -> Vec<Vertex> {
        let Some(operations) = waited.run.and_then(|run| self.runs.get(&run)) else { return Vec::new() };
        let over = |at: &&usize| self.row.operations[**at].operation.end_ns <= waited.end_ns;
        let over = operations.iter().filter(over).filter(|at| !self.has_next[**at]);
        over.map(|at| self.vertices[*at]).collect()
    }

    fn requires(&mut self, from: Vertex, to: Vertex) -> Result<(), GraphError> {
        if from != to && self.edges.insert((from, to)) { self.graph.requires(from, to) } else { Ok(()) }
    }
}

/// Where the program's thread is.
#[derive(Default)]
struct Thread {
    /// What it did last.
    here: Option<Vertex>,
    now_ns: u64,
    /// It waits until then, for these, and for the tasks that were over by then.
    inside_ns: u64,
    ends: Vec<Vertex>,
    awaits_tasks: bool,
    tasks: Tasks,
}

impl Thread {
    /// It goes on until this moment: to the end of its wait, then it computes.
    fn goes_on(&mut self, builder: &mut Builder<'_>, at_ns: u64) -> Result<(), GraphError> {
        if at_ns < self.inside_ns {
            return Ok(());
        }
        if self.inside_ns > 0 {
            if std::mem::take(&mut self.awaits_tasks) {
                self.ends.extend(self.tasks.last_until(self.inside_ns));
            }
            if !self.ends.is_empty() {
                let waited = builder.graph.proxy()?;
                for end in self.ends.drain(..).chain(self.here) {
                    builder.requires(end, waited)?;
                }
                self.here = Some(waited);
            }
            self.now_ns = self.now_ns.max(self.inside_ns);
            self.inside_ns = 0;
        }
        if at_ns > self.now_ns {
            let computes = builder.graph.calc(at_ns - self.now_ns)?;
            builder.graph.set_label(computes, OWN)?;
            if let Some(here) = self.here {
                builder.requires(here, computes)?;
            }
            (self.here, self.now_ns) = (Some(computes), at_ns);
        }
        Ok(())
    }
}

/// The parts of tasks in which their workers ran no others meanwhile, as where a task waits for those that it created; by their starts.
fn pieces(tasks: &[TaskNote]) -> Vec<TaskNote> {
    let mut begun: HashMap<u32, Vec<TaskNote>> = HashMap::new();
    let mut pieces = Vec::with_capacity(tasks.len());
    // Of two that begin together, the longer one has the other within it.
    let mut tasks = tasks.to_vec();
    tasks.sort_by_key(|task| (task.start_ns, Reverse(task.end_ns)));
    for task in tasks {
        let begun = begun.entry(task.worker).or_default();
        end_until(begun, task.start_ns, &mut pieces);
        if let Some(around) = begun.last_mut() {
            pieces.push(TaskNote { end_ns: task.start_ns, ..*around });
            around.start_ns = task.end_ns.min(around.end_ns);
        }
        begun.push(task);
    }
    for begun in begun.values_mut() {
        end_until(begun, u64::MAX, &mut pieces);
    }
    pieces.retain(|piece| piece.start_ns < piece.end_ns);
    pieces.sort_unstable();
    pieces
}

/// Those that were over by then have their last piece.
fn end_until(begun: &mut Vec<TaskNote>, at_ns: u64, pieces: &mut Vec<TaskNote>) {
    while let Some(task) = begun.pop_if(|task| task.end_ns <= at_ns) {
        pieces.push(task);
    }
}

/// Tasks that have been seen. One waits for its worker, for the program to have come as far as it had, and for the task whose end made it
/// ready; where that is not known, for the one that ended last before it began.
#[derive(Default)]
struct Tasks {
    by_worker: HashMap<u32, BTreeMap<u64, Vertex>>,
    by_end: BTreeMap<u64, Vertex>,
    /// With their ends, the last one of each number.
    by_id: HashMap<u64, (u64, Vertex)>,
}

impl Tasks {
    fn add(
        &mut self,
        builder: &mut Builder<'_>,
        task: &TaskNote,
        here: Option<Vertex>,
    ) -> Result<(), GraphError> {
        let vertex = builder.graph.calc(task.end_ns.saturating_sub(task.start_ns))?;
        builder.graph.set_label(vertex, &builder.row.describe_task(task))?;
        builder.graph.set_cpu(vertex, WORKS + (task.worker % u32::from(u8::MAX - WORKS)) as u8)?;
        let of_worker = self.by_worker.entry(task.worker).or_default();
        let last =
            |ends: &BTreeMap<u64, Vertex>| ends.range(..=task.start_ns).next_back().map(|(_, end)| *end);
        let maker =
            self.by_id.get(&task.after).filter(|(end_ns, _)| task.after != 0 && *end_ns <= task.start_ns);
        let maker = maker.map(|(_, maker)| *maker).or_else(|| last(&self.by_end));
        for before in [last(of_worker), maker, here].into_iter().flatten() {
            builder.requires(before, vertex)?;
        }
        self.by_id.insert(task.id, (task.end_ns, vertex));
        of_worker.insert(task.end_ns, vertex);
        self.by_end.insert(task.end_ns, vertex);
        Ok(())
    }

    /// The last of each worker that was over by then.
    fn last_until(&self, at_ns: u64) -> impl Iterator<Item = Vertex> {
        self.by_worker.values().filter_map(move |ends| ends.range(..=at_ns).next_back().map(|(_, end)| *end))
    }
}
