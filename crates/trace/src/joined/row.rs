//! What one rank noted, by kind.

use super::{Notes, Reading};
use crate::journal::{Action, EDGES_MAX, Event, Operation};
use castell_base::{Rank, Tag};
use std::cmp::Reverse;
use std::collections::HashMap;

/// One rank's notes. Times are nanoseconds on the clock of all.
pub struct Row<'a> {
    /// Whose they are.
    pub rank: Rank,
    /// By their starts.
    pub operations: Vec<Noted>,
    /// Which runs were collective calls, in the words of who made them.
    pub calls: HashMap<u64, [u64; 6]>,
    /// When threads of the program waited in castell, by their starts.
    pub waited: Vec<Waited>,
    /// By their starts.
    pub tasks: Vec<TaskNote>,
    /// More of who waits for whom: of which run, for which of its operations, whether for its start, and who.
    pub edges: Vec<(u64, u32, bool, [u32; EDGES_MAX])>,
    /// When its first event was.
    pub entered_ns: u64,
    /// When its last one was.
    pub left_ns: u64,
    pub(super) arrived: Vec<(Rank, u32, Tag, u32, u64)>,
    pub(super) notes: &'a Notes,
}

/// An operation, and what others noted about its message.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    /// As its rank noted it.
    pub operation: Operation,
    /// When it truly began: what it waited for was there.
    pub began_ns: u64,
    /// When the message of a receive came, if that is known.
    pub landed_ns: Option<u64>,
    /// Of a send or receive: whether the other side was noted, too.
    pub is_met: bool,
}

/// A thread of the program was inside of a call until something had happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waited {
    /// When the call began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The end of which run it was for, if it was for that.
    pub run: Option<u64>,
}

/// A task's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskNote {
    /// When it began.
    pub start_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// Who ran it.
    pub worker: u32,
    /// Number of its label; 0: none.
    pub name: u32,
    /// Which one it is, of those that are there at the same time.
    pub id: u64,
    /// Which one made it ready, by its end or within its body; 0: none did.
    pub after: u64,
    /// When; 0: it is not known.
    pub ready_ns: u64,
}

impl<'a> Row<'a> {
    pub(super) fn of(rank: Rank, notes: &'a Notes) -> Row<'a> {
        let mut row = Row {
            rank,
            notes,
            operations: Vec::new(),
            calls: HashMap::new(),
            waited: Vec::new(),
            tasks: Vec::new(),
            edges: Vec::new(),
            arrived: Vec::new(),
            entered_ns: notes.events.iter().filter_map(Event::first_ns).min().unwrap_or(0),
            left_ns: notes.events.iter().filter_map(Event::last_ns).max().unwrap_or(0),
        };
        for event in &notes.events {
            match *event {
                Event::Entered { .. } | Event::Left { .. } => {}
                Event::Operation(operation) => row.operations.push(Noted {
                    operation,
                    began_ns: operation.start_ns,
                    landed_ns: None,
                    is_met: false,
                }),
                Event::Edges { run, id, at_start, next } => row.edges.push((run, id, at_start, next)),
                Event::Call { run, words } => {
                    row.calls.insert(run, words);
                }
                Event::Waited { start_ns, end_ns, run } => row.waited.push(Waited { start_ns, end_ns, run }),
                Event::Arrived { source, tag, word, sequence, at_ns } => {
                    row.arrived.push((source, sequence, tag, word, at_ns));
                }
                Event::Task { worker, name, start_ns, end_ns, id, after, ready_ns } => {
                    row.tasks.push(TaskNote { start_ns, end_ns, worker, name, id, after, ready_ns });
                }
            }
        }
        row.operations.sort_by_key(|noted| (noted.operation.start_ns, noted.operation.run));
        row.waited.sort_unstable();
        row.tasks.sort_unstable();
        // They are counted from 0 on, far below where the count begins again.
        row.arrived.sort_unstable();
        row
    }

    fn name_of(&self, number: u32) -> Option<&str> {
        self.notes.names.get(&number).map(String::as_str)
    }

    /// A task in words.
    pub fn describe_task(&self, task: &TaskNote) -> String {
        format!("{} (worker {})", self.name_of(task.name).unwrap_or("task"), task.worker)
    }

    /// For each task, which one made it ready. Numbers are given again: it is the one that began last before that.
    pub fn makers(&self) -> Vec<Option<usize>> {
        let mut by_id: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, task) in self.tasks.iter().enumerate() {
            by_id.entry(task.id).or_default().push(at);
        }
        let maker = |task: &TaskNote| {
            let of_id = by_id.get(&task.after).filter(|_| task.after != 0)?;
            let begun = of_id.partition_point(|at| self.tasks[*at].start_ns <= task.ready_ns);
            begun.checked_sub(1).map(|last| of_id[last])
        };
        self.tasks.iter().map(maker).collect()
    }

    /// For each task, when that was there that it had waited for last: its worker, or who made it ready. `None`: nothing is known of it.
    pub(super) fn met_ns(&self) -> Vec<Option<u64>> {
        let makers = self.makers();
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        // Of two that begin together, the longer one has the other within it.
        order.sort_by_key(|at| (self.tasks[*at].start_ns, Reverse(self.tasks[*at].end_ns)));
        let (mut met_ns, mut workers) = (vec![None; order.len()], HashMap::<u32, (Vec<u64>, u64)>::new());
        for at in order {
            let task = &self.tasks[at];
            // Ends of what goes on there, and when it was free last.
            let (begun, free_ns) = workers.entry(task.worker).or_default();
            while let Some(end_ns) = begun.pop_if(|end_ns| *end_ns <= task.start_ns) {
                *free_ns = end_ns.max(*free_ns);
            }
            let made_ns = match makers[at].map(|maker| self.tasks[maker].end_ns) {
                Some(end_ns) if end_ns <= task.start_ns => end_ns,
                _ => task.ready_ns,
            };
            // What runs within another one's body waited for that body to wait.
            let last_ns = if begun.is_empty() { made_ns.max(*free_ns) } else { task.start_ns };
            met_ns[at] = (task.ready_ns > 0).then_some(last_ns);
            begun.push(task.end_ns);
        }
        met_ns
    }

    /// An operation in words, with the call that it belongs to.
    pub(super) fn describe(&self, operation: &Operation, reading: &Reading<'_>) -> String {
        let bytes = operation.bytes;
        let peer = operation.peer.map_or("any".to_owned(), |peer| peer.to_string());
        let tag = match operation.tag {
            // The tags of calls are castell's own.
            _ if self.calls.contains_key(&operation.run) => String::new(),
            Some(tag) => format!(" tag {tag}"),
            None => " tag any".to_owned(),
        };
        let text = match operation.action {
            Action::Send => format!("send {bytes}b to {peer}{tag}"),
            Action::Recv => format!("recv {bytes}b from {peer}{tag}"),
            Action::Calc => format!("calc {bytes}"),
            Action::Call => "call".to_owned(),
            Action::Local => "local".to_owned(),
            Action::Put => format!("put {bytes}b to {peer}"),
            Action::Get => format!("get {bytes}b from {peer}"),
            Action::Proxy => "proxy".to_owned(),
        };
        match self.label(operation, reading) {
            Some(label) => format!("{label}: {text}"),
            None => text,
        }
    }

    /// The call that an operation belongs to, and its label.
    pub(super) fn label(&self, operation: &Operation, reading: &Reading<'_>) -> Option<String> {
        let call = self.calls.get(&operation.run).map(|words| (reading.describe)(words));
        match (call, self.name_of(operation.name)) {
            (Some(call), Some(label)) => Some(format!("{call}: {label}")),
            (call, label) => call.or(label.map(str::to_owned)),
        }
    }

    /// When each operation began, once it is known when messages came. What one step of a call does with several of them, it does when the
    /// last one is there.
    pub(super) fn begin_steps(&mut self) {
        let mut begun: HashMap<(u64, u64, u64), u64> = HashMap::new();
        for noted in &self.operations {
            if let Some(came_ns) = noted.landed_ns.filter(|_| noted.operation.is_step) {
                let last_ns = begun.entry(step_of(&noted.operation)).or_insert(came_ns);
                *last_ns = came_ns.max(*last_ns);
            }
        }
        for Noted { operation, began_ns, landed_ns, .. } in &mut self.operations {
            let of_step = begun.get(&step_of(operation)).filter(|_| operation.is_step);
            let came_ns = (*landed_ns).max(of_step.copied()).unwrap_or(0);
            *began_ns = operation.start_ns.max(came_ns).min(operation.end_ns);
        }
    }

    /// When the program was not waiting in castell, from its first to its last event.
    pub fn outside(&self) -> Vec<(u64, u64)> {
        let (mut outside, mut free_ns) = (Vec::new(), self.entered_ns);
        for &Waited { start_ns, end_ns, .. } in &self.waited {
            if start_ns > free_ns {
                outside.push((free_ns, start_ns));
            }
            free_ns = free_ns.max(end_ns);
        }
        if self.left_ns > free_ns {
            outside.push((free_ns, self.left_ns));
        }
        outside
    }
}

/// What operations of one step have in common.
fn step_of(operation: &Operation) -> (u64, u64, u64) {
    (operation.run, operation.start_ns, operation.end_ns)
}
