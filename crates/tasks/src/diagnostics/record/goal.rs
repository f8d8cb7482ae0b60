//! A recording as a graph in GOAL text.

use super::Recording;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

/// What is kept of a task's label in the names of its vertices.
const NAME_MAX: usize = 40;

impl Recording {
    /// As GOAL text for one rank: a calc a stretch of a body, in nanoseconds, on the cpu that is its worker, and an edge for each
    /// thing that it waited for: its creation, its accesses, its children. A vertex is named after its task's label, number and
    /// stretch, as `gemm_12_0`. Where a thread outside of tasks made a root after it had waited for another, its steps are
    /// vertices, too (`thread0_2`). Comments have labels, accesses and times.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_goal(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "// {} tasks on {} workers, {} ns", self.tasks.len(), self.workers, self.span_ns())?;
        writeln!(out, "num_ranks 1\nrank 0 {{")?;
        let graph = Graph::of(self);
        graph.vertices(out)?;
        graph.thread_vertices(out)?;
        graph.edges(out)?;
        graph.thread_edges(out)?;
        writeln!(out, "}}")
    }
}

/// What is looked up while a recording is written.
struct Graph<'a> {
    recording: &'a Recording,
    children: BTreeMap<usize, Vec<usize>>,
    /// The last step of each thread outside that is written: the last one after which it made a root; none if it has waited for
    /// no other before.
    last_steps: Vec<Option<usize>>,
}

/// A vertex: a stretch of a task's body, or, without a stretch, the task with all that it created.
struct Name<'a>(&'a str, usize, Option<usize>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Name(label, task, stretch) = self;
        // Number and stretch at the end tell all apart, whatever the label is.
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
        match stretch {
            Some(stretch) => write!(f, "{stretch}"),
            None => write!(f, "done"),
        }
    }
}

impl Graph<'_> {
    fn of(recording: &Recording) -> Graph<'_> {
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
        Graph { recording, children, last_steps }
    }

    fn stretch(&self, task: usize, stretch: usize) -> Name<'_> {
        Name(self.recording.tasks[task].label, task, Some(stretch))
    }

    /// The last stretch of a body.
    fn end_of(&self, task: usize) -> Name<'_> {
        self.stretch(task, self.recording.tasks[task].stretches.len() - 1)
    }

    /// Whoever waits for a task with all its descendants waits for this.
    fn done(&self, task: usize) -> Name<'_> {
        match self.children.contains_key(&task) {
            true => Name(self.recording.tasks[task].label, task, None),
            false => self.end_of(task),
        }
    }

    fn vertices(&self, out: &mut impl Write) -> io::Result<()> {
        let mut rates: BTreeMap<&str, Option<f64>> = BTreeMap::new();
        for (index, task) in self.recording.tasks.iter().enumerate() {
            self.comment(index, out)?;
            let cpu = task.ran.map_or(0, |(.., worker)| worker);
            if task.ran.is_none() && task.cost > 0 {
                // As long as its cost says, going by those that ran.
                let rate = *rates.entry(task.label).or_insert_with(|| self.recording.ns_per_cost(task.label));
                let ns = rate.map_or(0, |rate| (rate * f64::from(task.cost)).round() as u64);
                writeln!(out, "  {}: calc {ns} cpu {cpu}", self.stretch(index, 0))?;
                continue;
            }
            for (number, stretch) in task.stretches.iter().enumerate() {
                writeln!(out, "  {}: calc {} cpu {cpu}", self.stretch(index, number), stretch.ns)?;
            }
        }
        for &parent in self.children.keys() {
            writeln!(out, "  {}: calc 0", self.done(parent))?;
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
        }
        for access in &task.declared {
            let weak = if access.weak { "weak " } else { "" };
            write!(out, "; {weak}{} {:#x}+{}", access.kind, access.start, access.length)?;
        }
        writeln!(out)
    }

    fn edges(&self, out: &mut impl Write) -> io::Result<()> {
        for (index, task) in self.recording.tasks.iter().enumerate() {
            let first = self.stretch(index, 0);
            if let Some((parent, stretch)) = task.parent {
                writeln!(out, "  {first} requires {}", self.stretch(parent, stretch))?;
            }
            for &before in &task.after {
                writeln!(out, "  {first} requires {}", self.end_of(before))?;
            }
            for number in 1..task.stretches.len() {
                writeln!(
                    out,
                    "  {} requires {}",
                    self.stretch(index, number),
                    self.stretch(index, number - 1)
                )?;
            }
            if let Some(children) = self.children.get(&index) {
                self.waits(index, children, out)?;
            }
        }
        Ok(())
    }

    /// What a task with children waited for, and its end with theirs.
    fn waits(&self, index: usize, children: &[usize], out: &mut impl Write) -> io::Result<()> {
        let stretches = &self.recording.tasks[index].stretches;
        let mut waited = 0;
        for wait in (0..stretches.len()).filter(|&number| stretches[number].waits) {
            let created =
                |child: usize| self.recording.tasks[child].parent.is_some_and(|(_, stretch)| stretch < wait);
            while let Some(&child) = children.get(waited).filter(|&&child| created(child)) {
                writeln!(out, "  {} requires {}", self.stretch(index, wait), self.done(child))?;
                waited += 1;
            }
        }
        writeln!(out, "  {} requires {}", self.done(index), self.end_of(index))?;
        for &child in &children[waited..] {
            writeln!(out, "  {} requires {}", self.done(index), self.done(child))?;
        }
        Ok(())
    }

    fn thread_vertices(&self, out: &mut impl Write) -> io::Result<()> {
        for (thread, last) in self.last_steps.iter().enumerate() {
            let Some(last) = *last else { continue };
            writeln!(out, "  // what thread {thread}, which is no worker, did between")?;
            for (number, step) in self.recording.outside[thread].steps[..=last].iter().enumerate() {
                let cpu = self.recording.workers as usize + thread;
                writeln!(out, "  thread{thread}_{number}: calc {} cpu {cpu}", step.ns)?;
            }
        }
        Ok(())
    }

    fn thread_edges(&self, out: &mut impl Write) -> io::Result<()> {
        for (thread, last) in self.last_steps.iter().enumerate() {
            let Some(last) = *last else { continue };
            for (number, step) in self.recording.outside[thread].steps[..=last].iter().enumerate().skip(1) {
                writeln!(out, "  thread{thread}_{number} requires thread{thread}_{}", number - 1)?;
                if let Some(root) = step.joined {
                    writeln!(out, "  thread{thread}_{number} requires {}", self.done(root))?;
                }
            }
        }
        for (index, task) in self.recording.tasks.iter().enumerate() {
            if let Some((thread, step)) = task.maker.filter(|&(thread, _)| self.last_steps[thread].is_some())
            {
                writeln!(out, "  {} requires thread{thread}_{step}", self.stretch(index, 0))?;
            }
        }
        Ok(())
    }
}
