//! A recording as a graph in GOAL text.

use super::Recording;
use castell_sched::Kind as LeafKind;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

/// What is kept of a task's label in the names of its vertices.
const NAME_MAX: usize = 40;

impl Recording {
    /// As GOAL text for one rank: a calc a stretch of a body, in nanoseconds, on the cpu that is its worker, and an edge for each
    /// thing that it waited for: its creation, its accesses, its children, its team. A vertex is named after its task's label, number and
    /// stretch, as `gemm_12_0`. Where a thread outside of tasks made a root after it had waited for another, its steps are
    /// vertices, too (`thread0_2`), and so are the meetings of a team's threads (`round_1`), which take what the program did alone before a region. Comments have labels, accesses and times.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_goal(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "// {} tasks on {} workers, {} ns", self.tasks.len(), self.workers, self.span_ns())?;
        writeln!(out, "num_ranks 1\nrank 0 {{")?;
        let graph = Graph::of(self);
        graph.vertices(out)?;
        graph.thread_vertices(out)?;
        graph.each_edge(&mut |vertex, before| {
            writeln!(out, "  {} requires {}", graph.name(vertex), graph.name(before))
        })?;
        writeln!(out, "}}")
    }
}

/// What is looked up while a recording is written, or gone through.
pub(super) struct Graph<'a> {
    recording: &'a Recording,
    children: BTreeMap<usize, Vec<usize>>,
    /// The last step of each thread outside that is written: the last one after which it made a root; none if it has waited for
    /// no other before.
    last_steps: Vec<Option<usize>>,
    /// What a unit of cost takes, by label.
    rates: BTreeMap<&'a str, Option<f64>>,
}

/// A vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Vertex {
    /// A stretch of a task's body.
    Stretch(usize, usize),
    /// A task with all that it created.
    Done(usize),
    /// A step of a thread outside.
    Thread(usize, usize),
    /// The meeting of a team's threads from which on this round goes.
    Round(usize),
}

/// As it is called.
struct Name<'a>(&'a Recording, Vertex);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = match self.1 {
            Vertex::Stretch(task, _) | Vertex::Done(task) => task,
            Vertex::Thread(thread, step) => return write!(f, "thread{thread}_{step}"),
            Vertex::Round(round) => return write!(f, "round_{round}"),
        };
        // Number and stretch at the end tell all apart, whatever the label is.
        let label = self.0.tasks[task].label;
        if label.is_empty() {
            write!(f, "t{task}_")?;
        } else {
            if !label.starts_with(|first: char| first.is_ascii_alphabetic()) {
                write!(f, "t")?;
            }
            for letter in label.chars().take(NAME_MAX) {
                write!(f, "{}", if letter.is_ascii_alphanumeric() { letter } else { '_' })?;
            }
            write!(f, "_{task}_")?;
        }
        match self.1 {
            Vertex::Stretch(_, stretch) => write!(f, "{stretch}"),
            _ => write!(f, "done"),
        }
    }
}

impl Graph<'_> {
    pub(super) fn of(recording: &Recording) -> Graph<'_> {
        let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut made: Vec<Option<usize>> = vec![None; recording.outside.len()];
        for (index, task) in recording.tasks.iter().enumerate() {
            if let Some((parent, _)) = task.parent {
                children.entry(parent).or_default().push(index);
            }
            if let Some((thread, step)) = task.maker {
                made[thread] = made[thread].max(Some(step));
            }
        }
        let orders = |(thread, &last): (usize, &Option<usize>)| {
            last.filter(|&last| recording.outside[thread].orders(last))
        };
        let last_steps = made.iter().enumerate().map(orders).collect();
        let mut rates = BTreeMap::new();
        for task in recording.tasks.iter().filter(|task| task.ran.is_none() && task.cost > 0) {
            rates.entry(task.label).or_insert_with(|| recording.ns_per_cost(task.label));
        }
        Graph { recording, children, last_steps, rates }
    }

    fn name(&self, vertex: Vertex) -> Name<'_> {
        Name(self.recording, vertex)
    }

    /// The last stretch of a body.
    fn end_of(&self, task: usize) -> Vertex {
        Vertex::Stretch(task, self.recording.tasks[task].stretches.len() - 1)
    }

    /// Whoever waits for a task with all its descendants waits for this.
    fn done(&self, task: usize) -> Vertex {
        if self.children.contains_key(&task) { Vertex::Done(task) } else { self.end_of(task) }
    }

    /// All vertices, and how long each takes in nanoseconds.
    pub(super) fn each_vertex(&self, action: &mut dyn FnMut(Vertex, u64)) {
        for index in 0..self.recording.tasks.len() {
            self.stretches(index).for_each(|(vertex, ns)| action(vertex, ns));
        }
        self.children.keys().for_each(|&parent| action(Vertex::Done(parent), 0));
        for (thread, last) in self.last_steps.iter().enumerate() {
            let steps = last.map_or(&[][..], |last| &self.recording.outside[thread].steps[..=last]);
            let steps = steps.iter().enumerate();
            steps.for_each(|(number, step)| action(Vertex::Thread(thread, number), step.ns));
        }
        for (number, round) in self.recording.rounds.iter().enumerate().skip(1) {
            action(Vertex::Round(number), round.serial_ns);
        }
    }

    /// A task's stretches: as long as they were or, if it did not run and gave a cost, as long as that says.
    fn stretches(&self, task: usize) -> impl Iterator<Item = (Vertex, u64)> {
        let recorded = &self.recording.tasks[task];
        let estimated = recorded.ran.is_none() && recorded.cost > 0;
        let estimate = estimated.then(|| {
            // Going by those that ran.
            let rate = self.rates.get(recorded.label).copied().flatten();
            rate.map_or(0, |rate| (rate * f64::from(recorded.cost)).round() as u64)
        });
        let stretches = recorded.stretches.iter().enumerate();
        stretches
            .map(move |(number, stretch)| (Vertex::Stretch(task, number), estimate.unwrap_or(stretch.ns)))
    }

    fn vertices(&self, out: &mut impl Write) -> io::Result<()> {
        for (index, task) in self.recording.tasks.iter().enumerate() {
            self.comment(index, out)?;
            let cpu = task.ran.map_or(0, |(.., worker)| worker);
            for (vertex, ns) in self.stretches(index) {
                writeln!(out, "  {}: calc {ns} cpu {cpu}", self.name(vertex))?;
            }
        }
        for &parent in self.children.keys() {
            writeln!(out, "  {}: calc 0", self.name(Vertex::Done(parent)))?;
        }
        for (number, round) in self.recording.rounds.iter().enumerate().skip(1) {
            writeln!(out, "  // the team's threads have met {number} times")?;
            writeln!(out, "  {}: calc {} cpu 0", self.name(Vertex::Round(number)), round.serial_ns)?;
        }
        Ok(())
    }

    fn comment(&self, index: usize, out: &mut impl Write) -> io::Result<()> {
        let task = &self.recording.tasks[index];
        write!(out, "  // task {index}")?;
        if !task.label.is_empty() {
            let label: String = task.label.chars().filter(|c| !c.is_control()).collect();
            write!(out, " `{label}`")?;
        }
        if task.cost > 0 {
            write!(out, ", cost {}", task.cost)?;
        }
        write!(out, ", created {} ns", task.created_ns)?;
        if let Some((begin, end, worker)) = task.ran {
            write!(out, ", ran {begin} to {end} ns on worker {worker}")?;
            if let Some(kind) = self.recording.kind_of(task).filter(|&kind| kind != LeafKind::CPU) {
                write!(out, " (devices of kind {})", kind.0)?;
            }
        }
        for access in &task.declared {
            let weak = if access.weak { "weak " } else { "" };
            write!(out, "; {weak}{} {:#x}+{}", access.kind, access.start, access.length)?;
        }
        writeln!(out)
    }

    /// All edges: what waits, and for what.
    pub(super) fn each_edge<E>(
        &self,
        action: &mut impl FnMut(Vertex, Vertex) -> Result<(), E>,
    ) -> Result<(), E> {
        for (index, task) in self.recording.tasks.iter().enumerate() {
            let first = Vertex::Stretch(index, 0);
            if let Some((parent, stretch)) = task.parent {
                action(first, Vertex::Stretch(parent, stretch))?;
            }
            if let Some(round) = task.round.filter(|&round| round > 0) {
                action(first, Vertex::Round(round))?;
            }
            for &before in &task.after {
                action(first, self.end_of(before))?;
            }
            for number in 1..task.stretches.len() {
                action(Vertex::Stretch(index, number), Vertex::Stretch(index, number - 1))?;
                for &awaited in &task.stretches[number].waits_for {
                    action(Vertex::Stretch(index, number), self.done(awaited))?;
                }
            }
            if let Some(children) = self.children.get(&index) {
                self.waits(index, children, action)?;
            }
        }
        for (number, round) in self.recording.rounds.iter().enumerate().skip(1) {
            for &root in &self.recording.rounds[number - 1].roots {
                action(Vertex::Round(number), self.done(root))?;
            }
            if number > 1 {
                action(Vertex::Round(number), Vertex::Round(number - 1))?;
            }
            debug_assert!(round.roots.iter().all(|&root| self.recording.tasks[root].round == Some(number)));
        }
        self.thread_edges(action)
    }

    /// What a task with children waited for, and its end with theirs.
    fn waits<E>(
        &self,
        index: usize,
        children: &[usize],
        action: &mut impl FnMut(Vertex, Vertex) -> Result<(), E>,
    ) -> Result<(), E> {
        let stretches = &self.recording.tasks[index].stretches;
        let mut waited = 0;
        for wait in (0..stretches.len()).filter(|&number| stretches[number].waits) {
            let created =
                |child: usize| self.recording.tasks[child].parent.is_some_and(|(_, stretch)| stretch < wait);
            while let Some(&child) = children.get(waited).filter(|&&child| created(child)) {
                action(Vertex::Stretch(index, wait), self.done(child))?;
                waited += 1;
            }
        }
        action(Vertex::Done(index), self.end_of(index))?;
        children[waited..].iter().try_for_each(|&child| action(Vertex::Done(index), self.done(child)))
    }

    fn thread_vertices(&self, out: &mut impl Write) -> io::Result<()> {
        for (thread, last) in self.last_steps.iter().enumerate() {
            let Some(last) = *last else { continue };
            writeln!(out, "  // what thread {thread}, which is no worker, did between")?;
            for (number, step) in self.recording.outside[thread].steps[..=last].iter().enumerate() {
                let cpu = self.recording.workers as usize + thread;
                let name = self.name(Vertex::Thread(thread, number));
                writeln!(out, "  {name}: calc {} cpu {cpu}", step.ns)?;
            }
        }
        Ok(())
    }

    fn thread_edges<E>(&self, action: &mut impl FnMut(Vertex, Vertex) -> Result<(), E>) -> Result<(), E> {
        for (thread, last) in self.last_steps.iter().enumerate() {
            let Some(last) = *last else { continue };
            for (number, step) in self.recording.outside[thread].steps[..=last].iter().enumerate().skip(1) {
                action(Vertex::Thread(thread, number), Vertex::Thread(thread, number - 1))?;
                if let Some(root) = step.joined {
                    action(Vertex::Thread(thread, number), self.done(root))?;
                }
            }
        }
        for (index, task) in self.recording.tasks.iter().enumerate() {
            if let Some((thread, step)) = task.maker.filter(|&(thread, _)| self.last_steps[thread].is_some())
            {
                action(Vertex::Stretch(index, 0), Vertex::Thread(thread, step))?;
            }
        }
        Ok(())
    }
}
