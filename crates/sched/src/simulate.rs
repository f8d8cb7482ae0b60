//! A described machine in virtual time: leaves that run a program's tasks under a scheduler, and what each step costs.
//!
//! One event at a time, in order of time and then of leaf, so a run depends on its arguments only. Locks are resources:
//! who finds one taken waits until it is free, and pays for moving it between leaves.

use crate::places::Vote;
use crate::program::{Creation, Datum, Program, Step};
use crate::{AnyScheduler, Design, Effect, LeafId, Node, Options, Ready, Topology};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// What things cost on the described machine, in nanoseconds.
///
/// The defaults are round numbers of the order that the paper's profiles suggest, not measurements of any machine:
/// compare shapes, not times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Making a task's record, without its memory.
    pub create: u64,
    /// A record's memory, taken and given back, from the thread's own stack.
    pub memory: u64,
    /// How long a record's memory keeps a lock that all leaves share; 0 with an allocator of the leaf's own.
    pub memory_lock: u64,
    /// Looking up or releasing one dependence.
    pub dependence: u64,
    /// Ending a task.
    pub finish: u64,
    /// How long the leaf's own queue is used a task.
    pub leaf: u64,
    /// How long an inner node's or the central queue's lock is held a visit.
    pub node: u64,
    /// More of that for each task moved.
    pub moved: u64,
    /// Getting a lock that another leaf had last; with delegation, being served.
    pub transfer: u64,
    /// For each leaf that spins on the lock: it slows the holder down. Delegation and the tree's own leaves don't have it.
    pub contention: u64,
    /// From being handed a task until a polling leaf sees it.
    pub poll: u64,
    /// How long a leaf polls before it sleeps.
    pub patience: u64,
    /// How often a leaf asks its parents while it polls, the first time included.
    pub asks: u64,
    /// What waking a sleeper costs the one who wakes.
    pub wake_call: u64,
    /// From the wake-up until the sleeper runs.
    pub wake: u64,
    /// What a task takes longer for each KiB of its data that was written last on another NUMA node.
    pub remote_kib: u64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            create: 100,
            memory: 20,
            memory_lock: 0,
            dependence: 100,
            finish: 50,
            leaf: 10,
            node: 40,
            moved: 2,
            transfer: 100,
            contention: 10,
            poll: 100,
            patience: 20_000,
            asks: 1,
            wake_call: 1_500,
            wake: 5_000,
            remote_kib: 50,
        }
    }
}

impl Costs {
    /// Nothing costs anything: what the graph and the scheduler's decisions alone come to.
    pub const FREE: Costs = Costs {
        create: 0,
        memory: 0,
        memory_lock: 0,
        dependence: 0,
        finish: 0,
        leaf: 0,
        node: 0,
        moved: 0,
        transfer: 0,
        contention: 0,
        poll: 0,
        // A leaf that asks again without a cost would ask forever.
        patience: 20_000,
        asks: 1,
        wake_call: 0,
        wake: 0,
        remote_kib: 0,
    };

    /// For recorded tasks, whose times hold their creation and their end already: only what the machine adds.
    pub fn of_recorded() -> Costs {
        Costs { create: 0, memory: 0, memory_lock: 0, dependence: 0, finish: 0, ..Costs::default() }
    }
}

/// What came out of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// From the start of main to the end of the last task.
    pub time_ns: u64,
    /// Tasks that ran, main included.
    pub tasks: u64,
    /// Of each leaf: how long its tasks computed ([`Step::Work`]).
    pub work_ns: Vec<u64>,
    /// Tasks that each leaf began.
    pub tasks_of: Vec<u64>,
    /// How long leaves waited for locks, all together.
    pub lock_wait_ns: u64,
    /// How much of that for the lock around records' memory.
    pub memory_lock_wait_ns: u64,
    /// What else leaves were busy with.
    pub spent: Spent,
    /// How often a sleeping leaf was woken.
    pub wakes: u64,
    /// Bytes of the tasks' data that were written last on another NUMA node than the one where the task ran.
    pub remote_bytes: u64,
    /// Tasks that never became ready: their predecessors wait for each other or never came.
    pub stuck: u64,
}

/// Where leaves' time went besides tasks' work and waiting for locks, all leaves together. What is left of it, they had
/// nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Making records and ending tasks.
    pub records_ns: u64,
    /// Taking and giving back records' memory, its lock held included.
    pub memory_ns: u64,
    /// Looking up and releasing dependences.
    pub dependences_ns: u64,
    /// Queueing and taking tasks, the queues' locks held included.
    pub queues_ns: u64,
    /// Waking others.
    pub wake_calls_ns: u64,
}

/// Runs `program` on `topology` under the scheduler that `options` describe. Deterministic: `seed` decides where chance
/// is asked.
///
/// ```
/// use castell_sched::{Options, program::Multiaxpy, simulate, simulate::Costs};
/// let axpy = Multiaxpy { elements: 1 << 16, block: 1 << 10, iterations: 2, element_ps: 500, dependences: false };
/// let topology = "numa:2 cpu:24".parse().unwrap();
/// let report = simulate(&axpy, &topology, "tree:lifo".parse().unwrap(), &Costs::default(), 1);
/// assert_eq!(report.tasks, axpy.tasks());
/// ```
pub fn simulate<P: Program>(
    program: &P,
    topology: &Topology,
    options: Options,
    costs: &Costs,
    seed: u64,
) -> Report {
    simulate_watched(program, topology, options, costs, seed, &mut |_| ())
}

/// Work that a leaf did without a break. Nanoseconds from the start of main.
pub struct Worked<'a, Task> {
    /// Which leaf.
    pub leaf: LeafId,
    /// Whose work.
    pub task: &'a Task,
    /// From when on.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
}

/// As [`simulate`], and tells of all work, in the order in which it begins.
pub fn simulate_watched<P: Program>(
    program: &P,
    topology: &Topology,
    options: Options,
    costs: &Costs,
    seed: u64,
    watch: &mut dyn FnMut(Worked<'_, P::Task>),
) -> Report {
    let mut machine = Machine::new(program, topology, options, *costs, seed);
    machine.start();
    while let Some(Reverse((time, leaf, turn))) = machine.events.pop() {
        machine.turn(time, leaf as usize, turn, watch);
    }
    machine.report
}

/// A task that has been created and is not done.
struct Live<Task> {
    task: Task,
    step: u64,
    parent: Option<usize>,
    /// Children that are not done.
    children: u64,
    waits: bool,
    ended: bool,
    key: Option<u64>,
    priority: i32,
    missing: usize,
    successors: Vec<usize>,
    data: Vec<Datum>,
}

#[derive(Clone, Default)]
struct Cpu {
    running: Option<usize>,
    /// Since when it has nothing, and how often it has asked.
    idle_since: u64,
    asked: u64,
    idle: bool,
    /// Counts its turns: older events are void.
    turn: u64,
}

#[derive(Default)]
struct Lock {
    last: Option<usize>,
    /// When those that came are done with it; at most one a leaf.
    line: VecDeque<u64>,
}

struct Machine<'a, P: Program> {
    program: &'a P,
    costs: Costs,
    options: Options,
    scheduler: AnyScheduler<usize>,
    live: Vec<Option<Live<P::Task>>>,
    free: Vec<usize>,
    by_key: HashMap<u64, usize>,
    cpus: Vec<Cpu>,
    /// Time, leaf, its turn.
    events: BinaryHeap<Reverse<(u64, u32, u64)>>,
    locks: HashMap<Node, Lock>,
    memory: Lock,
    topology: Topology,
    /// By piece of data: the NUMA node where it was written last.
    written: HashMap<u64, usize>,
    report: Report,
}

impl<'a, P: Program> Machine<'a, P> {
    fn new(program: &'a P, topology: &Topology, options: Options, costs: Costs, seed: u64) -> Self {
        let leaves = topology.leaves();
        Machine {
            program,
            costs,
            options,
            scheduler: AnyScheduler::new(topology.clone(), options, seed),
            live: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            cpus: vec![Cpu { idle: true, ..Cpu::default() }; leaves],
            events: BinaryHeap::new(),
            locks: HashMap::new(),
            memory: Lock::default(),
            topology: topology.clone(),
            written: HashMap::new(),
            report: Report {
                time_ns: 0,
                tasks: 0,
                work_ns: vec![0; leaves],
                tasks_of: vec![0; leaves],
                lock_wait_ns: 0,
                memory_lock_wait_ns: 0,
                spent: Spent::default(),
                wakes: 0,
                remote_bytes: 0,
                stuck: 0,
            },
        }
    }

    fn start(&mut self) {
        let main = self.insert(Creation::new(self.program.main()), None);
        self.scheduler.add(None, Ready::new(main));
        self.scheduler.drain_log().for_each(drop);
        (0..self.cpus.len()).for_each(|cpu| self.schedule(cpu, 0));
        self.report.stuck = 1;
    }

    fn schedule(&mut self, cpu: usize, time: u64) {
        self.cpus[cpu].turn += 1;
        self.events.push(Reverse((time, cpu as u32, self.cpus[cpu].turn)));
    }

    /// A leaf's next move: a step of its task, or a look for one.
    fn turn(&mut self, time: u64, cpu: usize, turn: u64, watch: &mut dyn FnMut(Worked<'_, P::Task>)) {
        if self.cpus[cpu].turn != turn {
            return;
        }
        match self.cpus[cpu].running {
            Some(task) => self.run_step(time, cpu, task, watch),
            None => self.look(time, cpu),
        }
    }

    fn look(&mut self, time: u64, cpu: usize) {
        let found = self.scheduler.get(LeafId(cpu as u32));
        let now = self.charge(time, cpu) + self.costs.leaf;
        self.report.spent.queues_ns += self.costs.leaf;
        let state = &mut self.cpus[cpu];
        let Some(ready) = found else {
            if !state.idle || state.asked == 0 {
                (state.idle, state.idle_since, state.asked) = (true, now, 0);
            }
            state.asked += 1;
            if state.asked < self.costs.asks {
                let pause = self.costs.patience / self.costs.asks.max(1);
                self.schedule(cpu, now + pause.max(1));
            } else {
                // Nothing more until it is woken: what it does meanwhile is polling, then sleep.
                state.turn += 1;
            }
            return;
        };
        (state.idle, state.asked, state.running) = (false, 0, Some(ready.task));
        let task = self.live[ready.task].as_ref().expect("queued tasks are live");
        let mut remote = 0;
        if task.step == 0 {
            self.report.tasks += 1;
            self.report.tasks_of[cpu] += 1;
            let here = self.topology.numa_of(LeafId(cpu as u32));
            let elsewhere = |datum: &&Datum| self.written.get(&datum.piece).is_some_and(|&numa| numa != here);
            remote = task.data.iter().filter(elsewhere).map(|datum| datum.bytes).sum();
        }
        self.report.remote_bytes += remote;
        self.schedule(cpu, now + remote * self.costs.remote_kib / 1024);
    }

    /// A task that became ready, as the scheduler wants it: with the place of its data.
    fn ready(&self, index: usize) -> Ready<usize> {
        let task = self.live[index].as_ref().expect("not begun");
        let mut vote = Vote::new();
        for datum in &task.data {
            if let Some(&numa) = self.written.get(&datum.piece) {
                vote.add(numa, datum.bytes);
            }
        }
        Ready { priority: task.priority, place: vote.winner(), ..Ready::new(index) }
    }

    fn run_step(&mut self, time: u64, cpu: usize, index: usize, watch: &mut dyn FnMut(Worked<'_, P::Task>)) {
        let live = self.live[index].as_mut().expect("running tasks are live");
        let step = self.program.step(&live.task, live.step);
        live.step += 1;
        let now = match step {
            Some(Step::Work { ns }) => {
                self.report.work_ns[cpu] += ns;
                let leaf = LeafId(cpu as u32);
                watch(Worked { leaf, task: &live.task, start_ns: time, end_ns: time + ns });
                time + ns
            }
            Some(Step::Create(creation)) => self.create(time, cpu, index, creation),
            Some(Step::Wait) if live.children == 0 => time,
            Some(Step::Wait) => {
                live.waits = true;
                self.cpus[cpu].running = None;
                time
            }
            None => self.finish(time, cpu, index),
        };
        self.schedule(cpu, now);
    }

    fn insert(&mut self, creation: Creation<P::Task>, parent: Option<usize>) -> usize {
        let Creation { task, key, after, priority, data } = creation;
        let live = Live {
            task,
            step: 0,
            parent,
            children: 0,
            waits: false,
            ended: false,
            key,
            priority,
            missing: 0,
            successors: Vec::new(),
            data,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.live.push(None);
            self.live.len() - 1
        });
        self.live[index] = Some(live);
        for predecessor in after.iter().filter_map(|key| self.by_key.get(key)) {
            let predecessor = self.live[*predecessor].as_mut().expect("keys of live tasks only");
            predecessor.successors.push(index);
            self.live[index].as_mut().expect("just made").missing += 1;
        }
        if let Some(key) = key {
            self.by_key.insert(key, index);
        }
        index
    }

    fn create(&mut self, time: u64, cpu: usize, parent: usize, creation: Creation<P::Task>) -> u64 {
        let dependences = creation.after.len() as u64;
        let dependences_ns = dependences * self.costs.dependence;
        self.report.spent.records_ns += self.costs.create;
        self.report.spent.memory_ns += self.costs.memory;
        self.report.spent.dependences_ns += dependences_ns;
        let now = time + self.costs.create + self.costs.memory + dependences_ns;
        let now = self.lock_memory(now, cpu);
        let index = self.insert(creation, Some(parent));
        self.live[parent].as_mut().expect("running").children += 1;
        self.report.stuck += 1;
        let task = self.live[index].as_ref().expect("just made");
        if task.missing > 0 {
            return now;
        }
        let ready = self.ready(index);
        self.scheduler.add(Some(LeafId(cpu as u32)), ready);
        self.charge(now, cpu)
    }

    /// A body has ended: successors become ready, a parent that waited for it goes on.
    fn finish(&mut self, time: u64, cpu: usize, index: usize) -> u64 {
        let live = self.live[index].as_mut().expect("running");
        live.ended = true;
        self.cpus[cpu].running = None;
        let successors = std::mem::take(&mut live.successors);
        let here = self.topology.numa_of(LeafId(cpu as u32));
        for datum in live.data.iter().filter(|datum| datum.writes) {
            self.written.insert(datum.piece, here);
        }
        if let Some(key) = live.key {
            self.by_key.remove(&key);
        }
        let dependences_ns = successors.len() as u64 * self.costs.dependence;
        self.report.spent.records_ns += self.costs.finish;
        self.report.spent.dependences_ns += dependences_ns;
        let mut now = time + self.costs.finish + dependences_ns;
        let mut ready = Vec::new();
        for successor in successors {
            let task = self.live[successor].as_mut().expect("not begun");
            task.missing -= 1;
            if task.missing == 0 {
                ready.push(self.ready(successor));
            }
        }
        let mut done = Some(index);
        while let Some(index) = done {
            let live = self.live[index].as_ref().expect("not gone");
            if !live.ended || live.children > 0 {
                if live.waits && live.children == 0 {
                    self.live[index].as_mut().expect("waits").waits = false;
                    ready.push(Ready::new(index));
                }
                break;
            }
            done = live.parent;
            self.live[index] = None;
            self.free.push(index);
            self.report.stuck -= 1;
            if let Some(parent) = done {
                self.live[parent].as_mut().expect("outlives its children").children -= 1;
            }
        }
        now = self.lock_memory(now, cpu);
        self.scheduler.add_ready(LeafId(cpu as u32), ready);
        let now = self.charge(now, cpu);
        self.report.time_ns = self.report.time_ns.max(now);
        now
    }

    /// Charges what the scheduler has just done to the leaf that asked for it, and sets off whom it woke.
    fn charge(&mut self, time: u64, cpu: usize) -> u64 {
        let log: Vec<Effect> = self.scheduler.drain_log().collect();
        let mut now = time;
        for effect in log {
            match effect {
                Effect::Touched { node: Node::Leaf(leaf), tasks } if leaf.index() == cpu => {
                    let used = self.costs.leaf + self.costs.moved * (tasks as u64).saturating_sub(1);
                    self.report.spent.queues_ns += used;
                    now += used;
                }
                Effect::Touched { node, tasks } => {
                    let hold = self.costs.node + self.costs.moved * tasks as u64;
                    self.report.spent.queues_ns += hold;
                    now = self.lock(node, now, cpu, hold);
                }
                Effect::Woken(leaf) => now += self.wake(now, leaf.index()),
            }
        }
        now
    }

    fn lock(&mut self, node: Node, now: u64, cpu: usize, hold: u64) -> u64 {
        let delegated = self.options.design == Design::Delegation;
        let contention = if delegated { 0 } else { self.costs.contention };
        let lock = self.locks.entry(node).or_default();
        let done = pass(lock, now, cpu, hold, self.costs.transfer, contention);
        self.report.lock_wait_ns += done - now - hold;
        done
    }

    fn lock_memory(&mut self, now: u64, cpu: usize) -> u64 {
        let hold = self.costs.memory_lock;
        if hold == 0 {
            return now;
        }
        let done = pass(&mut self.memory, now, cpu, hold, self.costs.transfer, self.costs.contention);
        self.report.spent.memory_ns += hold;
        self.report.lock_wait_ns += done - now - hold;
        self.report.memory_lock_wait_ns += done - now - hold;
        done
    }

    /// What it costs the one who wakes; the woken leaf gets its turn.
    fn wake(&mut self, now: u64, cpu: usize) -> u64 {
        let state = &mut self.cpus[cpu];
        if !state.idle {
            return 0; // it is on its way to a look of its own
        }
        state.asked = 0;
        let asleep = now > state.idle_since + self.costs.patience;
        let (delay, call) =
            if asleep { (self.costs.wake, self.costs.wake_call) } else { (self.costs.poll, 0) };
        self.report.wakes += u64::from(asleep);
        self.report.spent.wake_calls_ns += call;
        self.schedule(cpu, now + delay);
        call
    }
}

/// Gets a lock, holds it, and gives it back: returns when.
fn pass(lock: &mut Lock, now: u64, cpu: usize, hold: u64, transfer: u64, contention: u64) -> u64 {
    while lock.line.front().is_some_and(|&done| done <= now) {
        lock.line.pop_front();
    }
    let moved = if lock.last == Some(cpu) { 0 } else { transfer };
    let start = lock.line.back().map_or(now, |&free_at| now.max(free_at));
    let done = start + moved + hold + contention * lock.line.len() as u64;
    lock.line.push_back(done);
    lock.last = Some(cpu);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Cholesky, Multiaxpy, Sweeps};

    fn run(program: &impl Program, topology: &str, scheduler: &str) -> Report {
        let (topology, options) = (topology.parse().unwrap(), scheduler.parse().unwrap());
        simulate(program, &topology, options, &Costs::default(), 7)
    }

    #[test]
    fn every_task_runs_once_under_every_scheduler() {
        let axpy = Multiaxpy {
            elements: 1 << 16,
            block: 1 << 9,
            iterations: 3,
            element_ps: 500,
            dependences: false,
        };
        let cholesky = Cholesky::new(8, [3000, 4000, 4000, 7000]);
        for scheduler in [
            "tree",
            "tree:fifo,threshold=20",
            "tree:lifo,rebalance=off",
            "tree:priority",
            "central",
            "central:lifo,slots=off,successor=off",
            "delegation:fifo",
        ] {
            for topology in ["cpu:1", "numa:2 cpu:3", "numa:2 cpu:24"] {
                let report = run(&axpy, topology, scheduler);
                assert_eq!((report.tasks, report.stuck), (axpy.tasks(), 0), "{scheduler} {topology}");
                assert_eq!(report.work_ns.iter().sum::<u64>(), 3 * (1 << 16) / 2);
                let report = run(&cholesky, topology, scheduler);
                assert_eq!((report.tasks, report.stuck), (cholesky.tasks(), 0), "{scheduler} {topology}");
                assert_eq!(report, run(&cholesky, topology, scheduler), "the same again");
            }
        }
    }

    #[test]
    fn more_leaves_take_less_time() {
        let axpy = Multiaxpy {
            elements: 1 << 20,
            block: 1 << 14,
            iterations: 1,
            element_ps: 1000,
            dependences: false,
        };
        let times = ["cpu:1", "cpu:4", "numa:2 cpu:24"].map(|topology| run(&axpy, topology, "tree").time_ns);
        assert!(times[0] > 2 * times[1] && times[1] > 2 * times[2], "{times:?}");
    }

    #[test]
    fn small_tasks_want_the_tree() {
        let axpy = Multiaxpy {
            elements: 1 << 22,
            block: 1 << 10,
            iterations: 1,
            element_ps: 500,
            dependences: false,
        };
        let [tree, central] = ["tree", "central"].map(|name| run(&axpy, "numa:2 cpu:24", name));
        assert!(central.time_ns > 5 * tree.time_ns, "{} {}", central.time_ns, tree.time_ns);
        assert!(central.lock_wait_ns > tree.lock_wait_ns);
    }

    #[test]
    fn what_a_leaf_is_busy_with_adds_up() {
        let cholesky = Cholesky::new(12, [300, 400, 400, 700]);
        let options = "central:priority".parse().unwrap();
        let costs = Costs { memory_lock: 20, ..Costs::default() };
        for topology in ["cpu:1", "numa:2 cpu:24"] {
            let topology: Topology = topology.parse().unwrap();
            let report = simulate(&cholesky, &topology, options, &costs, 1);
            let Spent { records_ns, memory_ns, dependences_ns, queues_ns, wake_calls_ns } = report.spent;
            let created = cholesky.tasks() - 1;
            assert_eq!(records_ns, created * costs.create + (created + 1) * costs.finish);
            assert_eq!(memory_ns, created * (costs.memory + 20) + (created + 1) * 20);
            let spent = records_ns + memory_ns + dependences_ns + queues_ns + wake_calls_ns;
            let busy = spent + report.lock_wait_ns + report.work_ns.iter().sum::<u64>();
            let leaves = topology.leaves() as u64;
            // Looks that begin before the end may take a little longer.
            let late = leaves * leaves * 200;
            assert!(busy <= leaves * report.time_ns + late, "{busy} of {} {report:?}", report.time_ns);
            assert!(leaves > 1 || busy + 200 >= report.time_ns, "one leaf is always busy: {busy} {report:?}");
        }
    }

    /// A frontier that never grows: nothing overflows, and the other leaves have to be given some of it all the same.
    #[test]
    fn few_ready_tasks_are_shared() {
        let cholesky = Cholesky::new(6, [3000, 4000, 4000, 7000]);
        let [one, two] = ["cpu:1", "cpu:2"].map(|topology| run(&cholesky, topology, "tree").time_ns);
        assert!(two * 3 < one * 2, "{one} {two}");
    }

    #[test]
    fn tasks_go_where_their_data_was_written() {
        let sweeps = Sweeps { blocks: 480, block_bytes: 1 << 18, iterations: 10, block_ns: 26_214 };
        for (rules, part) in [("tree:lifo", 1), ("tree:pull=off", 2)] {
            let [there, anywhere] = ["on", "off"]
                .map(|locality| run(&sweeps, "numa:2 cpu:24", &format!("{rules},locality={locality}")));
            assert_eq!([there.tasks, anywhere.tasks], [sweeps.tasks(); 2]);
            assert!(there.remote_bytes * part < anywhere.remote_bytes, "{there:?} {anywhere:?}");
        }
        let [once, again] = [1, 2].map(|_| run(&sweeps, "numa:2 cpu:24", "tree"));
        assert_eq!(once, again, "the same again");
        assert_eq!(run(&sweeps, "cpu:48", "tree").remote_bytes, 0);
    }

    #[test]
    fn a_lock_is_passed_on_in_order() {
        let mut lock = Lock::default();
        assert_eq!(pass(&mut lock, 0, 0, 10, 100, 1), 110);
        assert_eq!(pass(&mut lock, 5, 1, 10, 100, 1), 110 + 110 + 1);
        assert_eq!(pass(&mut lock, 300, 1, 10, 100, 1), 310);
    }
}
