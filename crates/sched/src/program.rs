//! Programs for [`simulate()`](crate::simulate()): what tasks create, wait for and depend on, and the paper's two benchmarks.

use std::cmp::Ordering;

/// What a body does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<Task> {
    /// It computes for so long.
    Work {
        /// In nanoseconds.
        ns: u64,
    },
    /// It creates a task.
    Create(Creation<Task>),
    /// It waits for the tasks that it has created.
    Wait,
}

/// A task to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation<Task> {
    /// What it is.
    pub task: Task,
    /// A number by which later tasks name it, unique in a run; needed where others depend on it.
    pub key: Option<u64>,
    /// The keys of the tasks that have to finish first; each of them was created before.
    pub after: Vec<u64>,
    /// Larger runs earlier, under the policy that looks at it.
    pub priority: i32,
    /// What it reads and writes: where that was written last says where the task should run, and what it costs elsewhere.
    pub data: Vec<Datum>,
}

/// A piece of memory that a task uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datum {
    /// Which: other tasks name the same piece by the same number.
    pub piece: u64,
    /// How large it is.
    pub bytes: u64,
    /// Whether the task writes it.
    pub writes: bool,
}

impl<Task> Creation<Task> {
    /// A task that depends on nothing.
    pub fn new(task: Task) -> Creation<Task> {
        Creation { task, key: None, after: Vec::new(), priority: 0, data: Vec::new() }
    }
}

/// A program: the same steps for the same task, however often it is asked.
pub trait Program {
    /// What tells one task from another.
    type Task: Clone;
    /// The main task.
    fn main(&self) -> Self::Task;
    /// The step of a task's body with this number, counted from 0; `None` behind the last.
    fn step(&self, task: &Self::Task, number: u64) -> Option<Step<Self::Task>>;
}

/// multiaxpy-noop (paper, appendix A.1): a vector is split in two until a block is left, for which a leaf computes, and
/// that several times over.
#[derive(Clone, Copy, Debug)]
pub struct Multiaxpy {
    /// Elements of the vector: a power of two times the block.
    pub elements: u64,
    /// Elements of a block.
    pub block: u64,
    /// How often.
    pub iterations: u64,
    /// What a leaf computes for each element, in picoseconds.
    pub element_ps: u64,
    /// Whether the iterations depend on each other block by block instead of waiting for each other (multiaxpy-recursive,
    /// section 6.3). Here a part waits until the one before it in its place has been split; with weak accesses it would not.
    pub dependences: bool,
}

/// A task of [`Multiaxpy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxpyTask {
    /// Creates one tree an iteration.
    Main,
    /// Splits so many elements, or computes them.
    Part {
        /// How many.
        elements: u64,
        /// In which iteration.
        iteration: u64,
        /// Its place in the iteration's tree: the root is 1, below `n` lie `2 n` and `2 n + 1`.
        node: u64,
    },
}

impl Multiaxpy {
    /// How many tasks it creates, main included: 1 + iterations × nodes of the tree.
    pub fn tasks(&self) -> u64 {
        let leaves = (self.elements / self.block.max(1)).max(1).next_power_of_two();
        1 + self.iterations * (2 * leaves - 1)
    }

    fn part(&self, elements: u64, iteration: u64, node: u64) -> Step<AxpyTask> {
        let creation = Creation::new(AxpyTask::Part { elements, iteration, node });
        if !self.dependences {
            return Step::Create(creation);
        }
        let key = |iteration: u64| node * self.iterations + iteration;
        let after = iteration.checked_sub(1).map(key).into_iter().collect();
        Step::Create(Creation { key: Some(key(iteration)), after, ..creation })
    }
}

impl Program for Multiaxpy {
    type Task = AxpyTask;

    fn main(&self) -> AxpyTask {
        AxpyTask::Main
    }

    fn step(&self, task: &AxpyTask, number: u64) -> Option<Step<AxpyTask>> {
        match *task {
            AxpyTask::Main if self.dependences => match number.cmp(&self.iterations) {
                Ordering::Less => Some(self.part(self.elements, number, 1)),
                Ordering::Equal => Some(Step::Wait),
                Ordering::Greater => None,
            },
            AxpyTask::Main if number >= 2 * self.iterations => None,
            AxpyTask::Main if number.is_multiple_of(2) => Some(self.part(self.elements, number / 2, 1)),
            AxpyTask::Main => Some(Step::Wait),
            AxpyTask::Part { elements, .. } if elements <= self.block => {
                (number == 0).then_some(Step::Work { ns: elements * self.element_ps / 1000 })
            }
            AxpyTask::Part { elements, iteration, node } => {
                (number < 2).then(|| self.part(elements.div_ceil(2), iteration, 2 * node + number))
            }
        }
    }
}

/// Cholesky factorisation by tiles (paper, appendix A.2): one creator, dependences between the tiles' tasks.
#[derive(Clone, Debug)]
pub struct Cholesky {
    tiles: u64,
    /// What one task computes, in nanoseconds: potrf, trsm, syrk, gemm.
    kernels_ns: [u64; 4],
    order: Vec<CholeskyTask>,
}

/// A task of [`Cholesky`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CholeskyTask {
    /// Creates all others.
    Main,
    /// Factorises tile (k, k).
    Potrf(u64),
    /// Solves for tile (i, k).
    Trsm(u64, u64),
    /// Updates tile (i, i) with tile (i, k).
    Syrk(u64, u64),
    /// Updates tile (i, j) with tiles (i, k) and (j, k).
    Gemm(u64, u64, u64),
}

impl Cholesky {
    /// A matrix of `tiles` × `tiles` tiles, whose kernels take so many nanoseconds: potrf, trsm, syrk, gemm.
    pub fn new(tiles: u64, kernels_ns: [u64; 4]) -> Cholesky {
        let mut order = Vec::new();
        for k in 0..tiles {
            order.push(CholeskyTask::Potrf(k));
            order.extend((k + 1..tiles).map(|i| CholeskyTask::Trsm(i, k)));
            for i in k + 1..tiles {
                order.extend((k + 1..i).map(|j| CholeskyTask::Gemm(i, j, k)));
                order.push(CholeskyTask::Syrk(i, k));
            }
        }
        Cholesky { tiles, kernels_ns, order }
    }

    /// How many tasks it creates, main included.
    pub fn tasks(&self) -> u64 {
        1 + self.order.len() as u64
    }

    /// The task's number: the tile that it writes, and the step of the elimination.
    fn key(&self, i: u64, j: u64, k: u64) -> u64 {
        (i * self.tiles + j) * self.tiles + k
    }

    fn creation(&self, task: CholeskyTask) -> Creation<CholeskyTask> {
        // Tile (i, j) was last written by its update in step k - 1, and is final after step j.
        let updated = |i, j, k: u64| k.checked_sub(1).map(|k| self.key(i, j, k));
        let (key, after) = match task {
            CholeskyTask::Main => return Creation::new(task),
            CholeskyTask::Potrf(k) => (self.key(k, k, k), vec![updated(k, k, k)]),
            CholeskyTask::Trsm(i, k) => (self.key(i, k, k), vec![updated(i, k, k), Some(self.key(k, k, k))]),
            CholeskyTask::Syrk(i, k) => (self.key(i, i, k), vec![updated(i, i, k), Some(self.key(i, k, k))]),
            CholeskyTask::Gemm(i, j, k) => {
                let panels = [self.key(i, k, k), self.key(j, k, k)];
                (self.key(i, j, k), vec![updated(i, j, k), Some(panels[0]), Some(panels[1])])
            }
        };
        Creation { key: Some(key), after: after.into_iter().flatten().collect(), ..Creation::new(task) }
    }
}

impl Program for Cholesky {
    type Task = CholeskyTask;

    fn main(&self) -> CholeskyTask {
        CholeskyTask::Main
    }

    fn step(&self, task: &CholeskyTask, number: u64) -> Option<Step<CholeskyTask>> {
        let kernel = match task {
            CholeskyTask::Main => {
                let creation = self.order.get(number as usize).map(|&task| Step::Create(self.creation(task)));
                return creation.or((number == self.order.len() as u64).then_some(Step::Wait));
            }
            CholeskyTask::Potrf(..) => 0,
            CholeskyTask::Trsm(..) => 1,
            CholeskyTask::Syrk(..) => 2,
            CholeskyTask::Gemm(..) => 3,
        };
        (number == 0).then_some(Step::Work { ns: self.kernels_ns[kernel] })
    }
}

/// A vector in blocks, swept over several times: each sweep reads and writes every block in a task of its own, and ends with a
/// wait. Nothing but the blocks' place tells where to run a task.
#[derive(Clone, Copy, Debug)]
pub struct Sweeps {
    /// Blocks of the vector.
    pub blocks: u64,
    /// How large a block is.
    pub block_bytes: u64,
    /// How often.
    pub iterations: u64,
    /// What a task computes, in nanoseconds.
    pub block_ns: u64,
}

/// A task of [`Sweeps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepTask {
    /// Creates all others.
    Main,
    /// Updates this block.
    Block(u64),
}

impl Sweeps {
    /// How many tasks it creates, main included.
    pub fn tasks(&self) -> u64 {
        1 + self.blocks * self.iterations
    }
}

impl Program for Sweeps {
    type Task = SweepTask;

    fn main(&self) -> SweepTask {
        SweepTask::Main
    }

    fn step(&self, task: &SweepTask, number: u64) -> Option<Step<SweepTask>> {
        let SweepTask::Main = *task else {
            return (number == 0).then_some(Step::Work { ns: self.block_ns });
        };
        let (sweep, step) = (number / (self.blocks + 1), number % (self.blocks + 1));
        if sweep >= self.iterations {
            return None;
        }
        if step == self.blocks {
            return Some(Step::Wait);
        }
        let data = vec![Datum { piece: step, bytes: self.block_bytes, writes: true }];
        Some(Step::Create(Creation { data, ..Creation::new(SweepTask::Block(step)) }))
    }
}

/// Pieces of work that are all known beforehand, and which of them wait for which: a recorded graph. Main creates them
/// without doing anything itself.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    pieces: Vec<(u64, Vec<u64>)>,
}

impl Pieces {
    /// Adds a piece that computes for `ns` nanoseconds once those in `after`, numbers of earlier pieces, are over; its number.
    ///
    /// # Panics
    /// If one of `after` is not an earlier piece.
    pub fn add(&mut self, ns: u64, after: Vec<u64>) -> u64 {
        let number = self.pieces.len() as u64;
        assert!(after.iter().all(|&before| before < number), "piece {number} waits for one that comes later");
        self.pieces.push((ns, after));
        number
    }

    /// The pieces that one waits for.
    ///
    /// # Panics
    /// If there is no such piece.
    pub fn after(&self, number: u64) -> &[u64] {
        &self.pieces[number as usize].1
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// All work, in nanoseconds.
    pub fn work_ns(&self) -> u64 {
        self.pieces.iter().map(|(ns, _)| ns).sum()
    }

    /// The longest chain of pieces that wait for each other, in nanoseconds: no machine is faster.
    pub fn longest_ns(&self) -> u64 {
        let mut ends: Vec<u64> = Vec::with_capacity(self.pieces.len());
        for (ns, after) in &self.pieces {
            ends.push(ns + after.iter().map(|&before| ends[before as usize]).max().unwrap_or(0));
        }
        ends.into_iter().max().unwrap_or(0)
    }
}

impl Program for Pieces {
    /// `None`: main.
    type Task = Option<u64>;

    fn main(&self) -> Option<u64> {
        None
    }

    fn step(&self, task: &Option<u64>, number: u64) -> Option<Step<Option<u64>>> {
        match task {
            Some(piece) => (number == 0).then(|| Step::Work { ns: self.pieces[*piece as usize].0 }),
            None if number < self.pieces.len() as u64 => Some(Step::Create(Creation {
                key: Some(number),
                after: self.pieces[number as usize].1.clone(),
                ..Creation::new(Some(number))
            })),
            None => (number == self.pieces.len() as u64).then_some(Step::Wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn counts_are_the_papers() {
        // Tables A.1 and A.2.
        let axpy = |block| {
            Multiaxpy { elements: 1 << 30, block, iterations: 10, element_ps: 1, dependences: false }.tasks()
        };
        assert_eq!([1024, 8192, 131_072].map(axpy), [20_971_511, 2_621_431, 163_831]);
        let counts = [2, 4, 8, 16, 32, 64].map(|tiles| Cholesky::new(tiles, [1; 4]).tasks());
        assert_eq!(counts, [5, 21, 121, 817, 5985, 45_761]);
    }

    /// Every part of every iteration has a key of its own and comes behind the same part of the iteration before.
    #[test]
    fn parts_are_told_apart_and_compute_what_their_elements_take() {
        let axpy = Multiaxpy { elements: 64, block: 16, iterations: 3, element_ps: 500, dependences: true };
        let (mut left, mut keys, mut parts, mut work_ns) = (vec![axpy.main()], HashMap::new(), 0, 0);
        let mut waits = Vec::new();
        while let Some(task) = left.pop() {
            for step in (0..).map_while(|number| axpy.step(&task, number)) {
                match step {
                    Step::Work { ns } => work_ns += ns,
                    Step::Wait => {}
                    Step::Create(Creation { task, key, after, .. }) => {
                        let AxpyTask::Part { iteration, node, .. } = task else { panic!("{task:?}") };
                        keys.insert(key.expect("others depend on it"), (iteration, node));
                        parts += 1;
                        left.push(task);
                        let before = after.iter().map(|key| (key, (iteration - 1, node)));
                        // Created before, but perhaps not looked at yet: compared below.
                        waits.extend(before.map(|(key, part)| (*key, part)));
                        assert_eq!(after.len(), usize::from(iteration > 0));
                    }
                }
            }
        }
        assert_eq!((keys.len(), parts, work_ns), (21, 21, 3 * 64 / 2));
        assert!(waits.iter().all(|(key, part)| keys[key] == *part), "{waits:?}");
    }

    #[test]
    fn iterations_that_depend_run_side_by_side_in_order() {
        let axpy = Multiaxpy {
            elements: 1 << 10,
            block: 1 << 8,
            iterations: 6,
            element_ps: 1000,
            dependences: true,
        };
        let run = |machine: &str| {
            let options = "central".parse().expect("a scheduler");
            let topology = machine.parse().expect("a machine");
            crate::simulate(&axpy, &topology, options, &crate::simulate::Costs::FREE, 1)
        };
        let [one, many] = ["cpu:1", "cpu:64"].map(run);
        assert_eq!((one.tasks, one.stuck, one.time_ns), (axpy.tasks(), 0, 6 * 1024));
        // The six leaves of a place one after the other, the four places at once.
        assert_eq!((many.tasks, many.stuck, many.time_ns), (axpy.tasks(), 0, 6 * 256));
    }

    #[test]
    fn pieces_run_after_those_they_wait_for() {
        let mut pieces = Pieces::default();
        let first = pieces.add(1000, Vec::new());
        let pair = [pieces.add(500, vec![first]), pieces.add(700, vec![first])];
        pieces.add(100, pair.to_vec());
        assert_eq!((pieces.work_ns(), pieces.longest_ns()), (2300, 1800));
        assert_eq!((pieces.len(), pieces.after(first), pieces.after(3)), (4, &[][..], &pair[..]));
        assert!(!pieces.is_empty() && Pieces::default().is_empty());
        let run = |machine: &str| {
            let options = "central".parse().expect("a scheduler");
            let topology = machine.parse().expect("a machine");
            crate::simulate(&pieces, &topology, options, &crate::simulate::Costs::FREE, 1)
        };
        let [one, two] = ["cpu:1", "cpu:2"].map(run);
        assert_eq!((one.tasks, one.stuck, one.time_ns), (5, 0, 2300));
        assert_eq!(two.time_ns, 1800);
    }

    #[test]
    fn cholesky_depends_on_what_was_created_before() {
        let cholesky = Cholesky::new(5, [1; 4]);
        let mut seen = HashSet::new();
        for &task in &cholesky.order {
            let creation = cholesky.creation(task);
            assert!(creation.after.iter().all(|key| seen.contains(key)), "{task:?}");
            assert!(seen.insert(creation.key.expect("others depend on it")), "{task:?}");
        }
    }
}
