//! A recording: tasks with their stretches, and what each had to wait for.

use super::graph::Dependences;
use super::outside::{Outside, Outsiders};
use super::rounds::{Round, Rounds};
use super::{Awaited, Event, Maker, Note};
use crate::dependences::Declaration;
use castell_sched::Kind as LeafKind;
use std::collections::HashMap;

/// What tasks did: [`Runtime::recording`](crate::Runtime::recording).
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// In the order in which they were created.
    pub tasks: Vec<Recorded>,
    /// How many workers there were; a larger number of a worker stands for all other threads.
    pub workers: u32,
    /// What each worker runs; those that are missing are processors.
    pub kinds: Vec<LeafKind>,
    /// Whether all tasks are in it: beyond four million none is noted.
    pub is_whole: bool,
    /// The scheduler's queues, looked at now and then, in order of time.
    pub levels: Vec<Level>,
    /// The threads that made roots or waited for some, outside of tasks.
    pub outside: Vec<Outside>,
    /// Of a team: what lies between two meetings of its threads, in order.
    pub rounds: Vec<Round>,
}

/// How long the scheduler's queues were at a moment, about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Nanoseconds from the start of the recording.
    pub ns: u64,
    /// The tree's threshold; 0 for the other designs.
    pub threshold: u32,
    /// Tasks in each worker's queue; empty for the other designs.
    pub workers: Vec<usize>,
    /// Tasks in the queues that workers share.
    pub shared: usize,
}

/// A task. Times are nanoseconds from the start of the recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What its creator calls it.
    pub label: &'static str,
    /// Its creator's estimate of its work, in units of the program's own; 0: none.
    pub cost: u32,
    /// Its creator, and in which of the creator's stretches it was created; none for a root.
    pub parent: Option<(usize, usize)>,
    /// Of a root: which of the threads outside made it, and after which of its steps.
    pub maker: Option<(usize, usize)>,
    /// Of a team's root: in which of the rounds it began. It waited for all of the round before, with what they created.
    pub round: Option<usize>,
    /// What it declared.
    pub declared: Vec<Declaration>,
    /// When it was created.
    pub created_ns: u64,
    /// The worker that created it.
    pub creator: u32,
    /// When its body began and was over, and the worker that began it; none if it has not run.
    pub ran: Option<(u64, u64, u32)>,
    /// When its body waited for others, from when to when; other tasks may have run on its stack meanwhile.
    pub pauses: Vec<(u64, u64)>,
    /// Its body's own time, cut where it created a task or waited. Other tasks' time on its stack is not in it.
    pub stretches: Vec<Stretch>,
    /// The stretches of other tasks that had to be over before it could begin, by task: what its accesses demand. A task among
    /// them stands for its body; where its descendants' accesses count, they are in the list themselves.
    pub after: Vec<usize>,
}

/// A part of a body in which it created nothing and waited for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// How long, in nanoseconds.
    pub ns: u64,
    /// It begins when all children that were created before it are done.
    pub waits: bool,
    /// It begins when these are done, with all that they created: children of a group, or one that ran before it went on.
    pub waits_for: Vec<usize>,
}

/// A body on a worker's stack.
struct Open {
    task: usize,
    /// Since when the current stretch has the worker to itself.
    since: u64,
    /// What it does now is to wait: nobody's work.
    waits: bool,
    /// Since when, if it does.
    waits_since: u64,
}

/// What bodies have created, and where they opened groups.
#[derive(Default)]
struct Created {
    /// By task.
    children: HashMap<usize, Vec<usize>>,
    /// By task, the innermost group last: how many children there were.
    groups: HashMap<usize, Vec<usize>>,
}

impl Created {
    fn open_group(&mut self, task: usize) {
        let count = self.children.get(&task).map_or(0, Vec::len);
        self.groups.entry(task).or_default().push(count);
    }

    /// The children in the innermost group. One that was opened by another implicit task of this thread's has those of all of this one.
    fn close_group(&mut self, task: usize) -> Vec<usize> {
        let first = self.groups.get_mut(&task).and_then(Vec::pop).unwrap_or(0);
        self.children.get(&task).map_or(Vec::new(), |children| children[first..].to_vec())
    }
}

/// Where tasks are in a recording, by number. Numbers are given out a moment before they are noted: not in order of time.
#[derive(Default)]
struct Places(Vec<Option<u32>>);

impl Places {
    fn set(&mut self, task: u32, place: usize) {
        let least = task as usize + 1;
        if self.0.len() < least {
            self.0.resize(least, None);
        }
        self.0[task as usize] = Some(place as u32);
    }

    fn get(&self, task: u32) -> Option<usize> {
        self.0.get(task as usize).copied().flatten().map(|place| place as usize)
    }
}

/// Puts a recording together, note by note.
#[derive(Default)]
struct Reader {
    recording: Recording,
    places: Places,
    dependences: Dependences,
    bodies: Created,
    outsiders: Outsiders,
    rounds: Rounds,
}

impl Reader {
    fn read(&mut self, note: &Note, stack: &mut Vec<Open>) {
        let place = |task: &u32| self.places.get(*task);
        match &note.event {
            Event::Created { .. } => self.create(note, stack),
            Event::Region { round } => self.rounds.begins_region(*round, note.ns),
            Event::Joins { thread } => self.outsiders.joins(*thread, note.ns),
            Event::Joined { task, thread } => {
                if let Some(task) = place(task) {
                    self.outsiders.joined(*thread, task, note.ns);
                }
            }
            Event::Began { task } => {
                if let Some(task) = place(task) {
                    self.recording.begin(task, stack, note);
                }
            }
            Event::Ended { task } => {
                if let Some(task) = place(task) {
                    self.recording.end(task, stack, note.ns);
                    self.rounds.ends_body(note.ns);
                }
            }
            Event::Opens { task } => {
                if let Some(task) = place(task) {
                    self.bodies.open_group(task);
                }
            }
            Event::Waits { task, awaited } => {
                if let Some(task) = place(task) {
                    self.wait(task, *awaited, note.ns, stack);
                }
            }
            Event::GoesOn { task } => {
                if let Some(open) = stack.last_mut().filter(|open| place(task) == Some(open.task)) {
                    if open.waits {
                        self.recording.tasks[open.task].pauses.push((open.waits_since, note.ns));
                    }
                    (open.since, open.waits) = (note.ns, false);
                }
            }
        }
    }

    fn create(&mut self, note: &Note, stack: &mut [Open]) {
        let Event::Created { task, parent, label, cost, declared, maker } = &note.event else { return };
        let parent = parent.and_then(|parent| self.places.get(parent));
        let place = self.recording.tasks.len();
        self.places.set(*task, place);
        let cut = |parent| (parent, self.recording.cut(parent, stack, note.ns, Stretch::default()));
        let parent = parent.map(cut);
        self.dependences.declare(place, parent.map(|(parent, _)| parent), declared);
        if let Some((parent, _)) = parent {
            self.bodies.children.entry(parent).or_default().push(place);
        }
        let (maker, round) = match maker {
            Some(Maker::Outsider(thread)) => (Some(self.outsiders.makes(*thread, note.ns)), None),
            Some(Maker::Member(round)) => (None, Some(self.rounds.begins(*round, place))),
            None => (None, None),
        };
        self.recording.tasks.push(Recorded {
            label,
            cost: *cost,
            parent,
            maker,
            round,
            declared: declared.to_vec(),
            created_ns: note.ns,
            creator: note.worker,
            ran: None,
            pauses: Vec::new(),
            stretches: vec![Stretch::default()],
            after: Vec::new(),
        });
    }

    fn wait(&mut self, task: usize, awaited: Awaited, now: u64, stack: &mut [Open]) {
        let mut stretch = Stretch::default();
        match awaited {
            Awaited::Children => stretch.waits = true,
            Awaited::Group => stretch.waits_for = self.bodies.close_group(task),
            Awaited::Task(awaited) => stretch.waits_for.extend(self.places.get(awaited)),
        }
        self.recording.cut(task, stack, now, stretch);
        if let Some(open) = stack.last_mut().filter(|open| open.task == task) {
            (open.waits, open.waits_since) = (true, now);
        }
    }
}

impl Recorded {
    /// Its body's own time, in nanoseconds.
    pub fn own_ns(&self) -> u64 {
        self.stretches.iter().map(|stretch| stretch.ns).sum()
    }
}

impl Recording {
    /// What a unit of cost took, in nanoseconds, over all tasks with this label that gave a cost and ran; none if there is none.
    pub fn ns_per_cost(&self, label: &str) -> Option<f64> {
        let alike = |task: &&Recorded| task.label == label && task.cost > 0 && task.ran.is_some();
        let (ns, cost) = self
            .tasks
            .iter()
            .filter(alike)
            .fold((0, 0), |(ns, cost), task| (ns + task.own_ns(), cost + u64::from(task.cost)));
        (cost > 0).then(|| ns as f64 / cost as f64)
    }

    /// The kind of workers that ran it.
    pub fn kind_of(&self, task: &Recorded) -> Option<LeafKind> {
        let kind = |worker: u32| self.kinds.get(worker as usize).copied().unwrap_or(LeafKind::CPU);
        task.ran.map(|(.., worker)| kind(worker))
    }

    /// From notes in order of time.
    pub(super) fn of(notes: &[&Note], workers: u32, is_whole: bool) -> Recording {
        let recording = Recording { workers, is_whole, ..Recording::default() };
        let mut reader = Reader { recording, ..Reader::default() };
        let mut stacks: Vec<Vec<Open>> = (0..=workers).map(|_| Vec::new()).collect();
        for note in notes {
            reader.read(note, &mut stacks[note.worker as usize]);
        }
        let Reader { mut recording, outsiders, rounds, dependences, .. } = reader;
        for (task, after) in recording.tasks.iter_mut().zip(dependences.resolve()) {
            task.after = after;
        }
        recording.outside = outsiders.all();
        recording.rounds = rounds.all();
        recording
    }

    /// Ends the current stretch of `task`, which is on top of the stack if all is well; its number.
    fn cut(&mut self, task: usize, stack: &mut [Open], now: u64, next: Stretch) -> usize {
        let stretches = &mut self.tasks[task].stretches;
        let number = stretches.len() - 1;
        if let Some(open) = stack.last_mut().filter(|open| open.task == task) {
            stretches[number].ns += now.saturating_sub(open.since);
            open.since = now;
        }
        stretches.push(next);
        number
    }

    fn begin(&mut self, task: usize, stack: &mut Vec<Open>, note: &Note) {
        if let Some(below) = stack.last().filter(|below| !below.waits) {
            let stretch = self.tasks[below.task].stretches.last_mut();
            stretch.into_iter().for_each(|stretch| stretch.ns += note.ns.saturating_sub(below.since));
        }
        self.tasks[task].ran = Some((note.ns, note.ns, note.worker));
        stack.push(Open { task, since: note.ns, waits: false, waits_since: note.ns });
    }

    fn end(&mut self, task: usize, stack: &mut Vec<Open>, now: u64) {
        if let Some(at) = stack.iter().rposition(|open| open.task == task) {
            let since = stack[at].since;
            stack.truncate(at);
            let stretch = self.tasks[task].stretches.last_mut();
            stretch.into_iter().for_each(|stretch| stretch.ns += now.saturating_sub(since));
        } // else it paused and came back on another worker: the rest of its time is not known
        if let Some((_, end, _)) = &mut self.tasks[task].ran {
            *end = now;
        }
        if let Some(below) = stack.last_mut() {
            below.since = now;
        }
    }

    /// From the first creation to the last end, in nanoseconds.
    pub fn span_ns(&self) -> u64 {
        let first = self.tasks.iter().map(|task| task.created_ns).min().unwrap_or(0);
        let last = self.tasks.iter().filter_map(|task| task.ran).map(|(_, end, _)| end).max().unwrap_or(0);
        last.saturating_sub(first)
    }

    /// When a task could have begun: created, and the bodies before it over.
    pub fn ready_ns(&self, task: usize) -> u64 {
        let task = &self.tasks[task];
        let ends = task.after.iter().filter_map(|&before| self.tasks[before].ran).map(|(_, end, _)| end);
        ends.fold(task.created_ns, u64::max)
    }
}
