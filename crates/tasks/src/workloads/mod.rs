//! The small programs by which task runtimes are measured against each other: many tasks, bodies that do next to nothing.
//!
//! `castell bench tasks` runs them beside the same programs for other runtimes, in `benches/tasks`; dependences are found from
//! byte regions while the tasks are created, one creator for all.

use crate::api::context::Context;
use crate::api::replay::TaskGraph;
use crate::dependences::{Declaration, Kind};
use crate::error::TaskError;
use crate::lifecycle::task::Attributes;
use std::sync::Arc;

mod potrf;

use potrf::Factorisation;

/// A program and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// Tasks without accesses, created by one task.
    Empty {
        /// How many.
        tasks: u64,
    },
    /// multiaxpy-noop: halves a number of elements, a task each, down to a block, for which a leaf spins as many times as
    /// it has elements; waits once, at the end (Marí 2018, appendix A.1).
    Axpy {
        /// Of the vector, a power of two times the block.
        elements: u64,
        /// Of a block.
        block: u64,
    },
    /// multiaxpy-recursive: the tree of [`Workload::Axpy`] several times over; a task declares the elements that it stands for,
    /// weakly unless it is a leaf, so that the iterations depend on each other block by block (Marí 2018, section 6.3). The
    /// vector is `inout`, and a second one is read.
    Sweeps {
        /// Of each vector, a power of two times the block.
        elements: u64,
        /// Of a block.
        block: u64,
        /// How often.
        iterations: u64,
    },
    /// Fibonacci's numbers by recursion: each task creates two and waits for them.
    Fib {
        /// Which number.
        number: u64,
    },
    /// Tasks that all write the same bytes: one after the other.
    Chain {
        /// How many.
        tasks: u64,
    },
    /// Chains side by side, created in turns.
    Chains {
        /// How many tasks in all.
        tasks: u64,
        /// How many chains.
        chains: u64,
    },
    /// A square of cells, each of which reads the one above and the one to the left.
    Wave {
        /// Cells in a row.
        side: u64,
    },
    /// The tasks of a Cholesky factorisation by tiles, with one to three accesses, without its arithmetic.
    Cholesky {
        /// Tiles in a row.
        tiles: u64,
    },
    /// The same tasks with their arithmetic, on OpenBLAS, each kernel in one thread.
    Potrf {
        /// Rows of the matrix; what is left of it behind the last whole tile is left out.
        order: u64,
        /// Rows of a tile.
        tile: u64,
    },
    /// Task Bench's stencil in one dimension: a task reads three neighbours of the step before and spins (Slaughter et al.
    /// 2020, section 2).
    Stencil {
        /// Tasks in a step.
        width: u64,
        /// How many steps.
        steps: u64,
        /// Rounds of the loop in each task.
        spins: u64,
    },
}

/// Bytes from one chain's cell to the next: cells share no cache line.
const CHAIN_STRIDE: usize = 64;

impl Workload {
    /// How many tasks it creates.
    pub fn tasks(&self) -> u64 {
        match *self {
            Workload::Empty { tasks } | Workload::Chain { tasks } | Workload::Chains { tasks, .. } => tasks,
            Workload::Axpy { elements, block } => 2 * axpy_leaves(elements, block) - 2,
            Workload::Sweeps { elements, block, iterations } => {
                iterations * (2 * axpy_leaves(elements, block) - 1)
            }
            Workload::Fib { number } => 2 * fibonacci(number + 1) - 2,
            Workload::Wave { side } => side * side,
            Workload::Stencil { width, steps, .. } => width * steps,
            Workload::Cholesky { .. } | Workload::Potrf { .. } => {
                let n = self.tiles();
                n + n * n.saturating_sub(1) + n * n.saturating_sub(1) * n.saturating_sub(2) / 6
            }
        }
    }

    /// Creates the tasks as children of the current one and waits for them.
    ///
    /// # Errors
    /// A limit of the runtime was reached.
    ///
    /// # Panics
    /// If [`Workload::prepare`] fails or a result is wrong.
    pub fn run(&self, context: &Context<'_>) -> Result<(), TaskError> {
        let mut prepared = self.prepare().unwrap_or_else(|reason| panic!("{reason}"));
        prepared.reset();
        let done = prepared.run(context);
        done.and_then(|()| prepared.check().map_err(|wrong| panic!("{wrong}")))
    }

    /// The memory that it runs on.
    ///
    /// # Errors
    /// There is no OpenBLAS, for [`Workload::Potrf`]; what to do about it.
    pub fn prepare(&self) -> Result<Prepared, String> {
        let matrix = match *self {
            Workload::Potrf { tile, .. } => Some(Factorisation::new(self.tiles() as usize, tile as usize)?),
            _ => None,
        };
        Ok(Prepared { workload: *self, cells: self.cells(), matrix })
    }

    fn tiles(&self) -> u64 {
        match *self {
            Workload::Cholesky { tiles } => tiles,
            Workload::Potrf { order, tile } => order / tile.max(1),
            _ => 0,
        }
    }

    /// The memory that the accesses of its tasks name.
    fn cells(&self) -> Vec<u64> {
        let count = match *self {
            Workload::Chain { .. } => 1,
            Workload::Chains { chains, .. } => chains * CHAIN_STRIDE as u64 / 8,
            Workload::Wave { side } => side * side,
            Workload::Cholesky { .. } | Workload::Potrf { .. } => self.tiles() * self.tiles(),
            Workload::Stencil { width, .. } => 2 * width,
            Workload::Sweeps { elements, .. } => 2 * elements,
            Workload::Empty { .. } | Workload::Axpy { .. } | Workload::Fib { .. } => 0,
        };
        vec![0; count as usize]
    }

    /// The same tasks as a graph that can run again; `None` for those whose tasks have no accesses, and for those that work on a
    /// matrix of their own.
    pub fn graph(&self) -> Option<TaskGraph<'static>> {
        let cells = self.cells();
        if cells.is_empty() || matches!(self, Workload::Potrf { .. } | Workload::Sweeps { .. }) {
            return None;
        }
        let (mut graph, cells) = (TaskGraph::new(), Arc::new(cells));
        let spins = if let Workload::Stencil { spins, .. } = *self { spins } else { 0 };
        dependent(*self, cells.as_ptr() as usize, &mut |declared| {
            let cells = Arc::clone(&cells);
            let body = move |_: &Context<'_>, _| {
                let _kept = &cells; // what the accesses name stays there
                spin(spins);
            };
            // SAFETY: the bodies touch nothing that is declared.
            unsafe { graph.task(declared, body) }.expect("the accesses are usual ones");
        });
        Some(graph)
    }
}

/// A program and its memory: it may run several times.
pub struct Prepared {
    workload: Workload,
    cells: Vec<u64>,
    matrix: Option<Factorisation>,
}

impl Prepared {
    /// Before each run: what the last one changed is as it was.
    pub fn reset(&mut self) {
        if let Some(matrix) = &mut self.matrix {
            matrix.fill();
        }
    }

    /// Creates the tasks as children of the current one and waits for them.
    ///
    /// # Errors
    /// A limit of the runtime was reached.
    ///
    /// # Panics
    /// If the tasks of [`Workload::Fib`] come to a wrong number.
    pub fn run(&mut self, context: &Context<'_>) -> Result<(), TaskError> {
        let start = self.cells.as_ptr() as usize;
        if let Some(matrix) = &mut self.matrix {
            return matrix.run(context, start);
        }
        match self.workload {
            Workload::Empty { tasks } => (0..tasks).for_each(|_| spawn(context, &[], |_| ())),
            Workload::Axpy { elements, block } => halve(context, elements, block),
            Workload::Sweeps { elements, block, iterations } => {
                let block = elements.div_ceil(axpy_leaves(elements, block));
                for _ in 0..iterations {
                    sweep(context, start, elements, elements, block);
                }
            }
            Workload::Fib { number } => {
                let mut result = 0_u64;
                fib(context, number, std::ptr::from_mut(&mut result) as usize);
                // SAFETY: written through the address, by this thread.
                let result = unsafe { std::ptr::read_volatile(&raw const result) };
                assert_eq!(result, fibonacci(number), "the tasks add up");
            }
            Workload::Stencil { spins, .. } => {
                dependent(self.workload, start, &mut |declared| {
                    spawn(context, declared, move |_| spin(spins));
                });
            }
            workload => dependent(workload, start, &mut |declared| spawn(context, declared, |_| ())),
        }
        context.taskwait()
    }

    /// After a run: whether its results are right, as far as there are any.
    ///
    /// # Errors
    /// They are not; what is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.matrix.as_ref().map_or(Ok(()), Factorisation::check)
    }
}

/// The number with this index: 0, 1, 1, 2, …
pub fn fibonacci(number: u64) -> u64 {
    (0..number).fold((0, 1), |(this, next), _| (next, this + next)).0
}

/// Leaves of [`Workload::Axpy`]'s tree.
pub fn axpy_leaves(elements: u64, block: u64) -> u64 {
    elements.div_ceil(block.max(1)).max(1).next_power_of_two()
}

/// A loop of so many rounds that nothing can shorten.
#[inline]
pub fn spin(rounds: u64) {
    // Not over a range, whose steps are calls in what is not optimised: a round would take ten times as long there.
    let mut round = 0;
    while round < rounds {
        std::hint::black_box(round);
        round += 1;
    }
}

#[inline]
fn spawn(context: &Context<'_>, declared: &[Declaration], body: impl FnOnce(&Context<'_>) + Send + 'static) {
    // SAFETY: the bodies here touch nothing that is declared: the addresses are only names.
    unsafe { context.submit_raw(Attributes::NONE, declared, body) }
}

fn halve(context: &Context<'_>, elements: u64, block: u64) {
    if elements <= block {
        spin(elements);
        return;
    }
    let half = elements / 2;
    spawn(context, &[], move |context| halve(context, half, block));
    spawn(context, &[], move |context| halve(context, elements - half, block));
}

/// A task for these elements of two vectors, the second of which begins `apart` elements behind the first.
fn sweep(context: &Context<'_>, start: usize, elements: u64, apart: u64, block: u64) {
    const BYTES: usize = size_of::<u64>();
    let leaf = elements <= block;
    let declare =
        |start, kind| Declaration { length: elements as usize * BYTES, weak: !leaf, ..access(start, kind) };
    let declared = [declare(start + apart as usize * BYTES, Kind::In), declare(start, Kind::InOut)];
    spawn(context, &declared, move |context| {
        if leaf {
            return spin(elements);
        }
        let half = elements / 2;
        sweep(context, start, half, apart, block);
        sweep(context, start + half as usize * BYTES, elements - half, apart, block);
    });
}

/// Writes the number to the address `result`.
fn fib(context: &Context<'_>, number: u64, result: usize) {
    let mut parts = [0_u64; 2];
    let value = if number < 2 {
        number
    } else {
        for (part, before) in parts.iter_mut().zip([number - 1, number - 2]) {
            let place = std::ptr::from_mut(part) as usize;
            spawn(context, &[], move |context| fib(context, before, place));
        }
        context.taskwait().expect("nothing fails");
        // SAFETY: written by the children, which are done.
        unsafe { std::ptr::read_volatile(&raw const parts[0]) + std::ptr::read_volatile(&raw const parts[1]) }
    };
    // SAFETY: the place of whoever waits, who reads it after its wait.
    unsafe { (result as *mut u64).write(value) };
}

fn access(start: usize, kind: Kind) -> Declaration {
    Declaration { start, length: size_of::<u64>(), kind, weak: false, reduction: 0 }
}

/// What the tasks of a program with dependences declare, in order; the cells whose addresses they name lie at `start`.
fn dependent(workload: Workload, start: usize, node: &mut dyn FnMut(&[Declaration])) {
    match workload {
        Workload::Chain { tasks } => chains(start, tasks, 1, node),
        Workload::Chains { tasks, chains: count } => chains(start, tasks, count, node),
        Workload::Wave { side } => wave(start, side as usize, node),
        Workload::Cholesky { .. } | Workload::Potrf { .. } => {
            cholesky(start, workload.tiles() as usize, node)
        }
        Workload::Stencil { width, steps, .. } => stencil(start, width as usize, steps, node),
        Workload::Empty { .. } | Workload::Axpy { .. } | Workload::Sweeps { .. } | Workload::Fib { .. } => (),
    }
}

fn chains(start: usize, tasks: u64, count: u64, node: &mut dyn FnMut(&[Declaration])) {
    for task in 0..tasks {
        let cell = start + (task % count) as usize * CHAIN_STRIDE;
        node(&[access(cell, Kind::InOut)]);
    }
}

fn wave(start: usize, side: usize, node: &mut dyn FnMut(&[Declaration])) {
    let cell = |row: usize, column: usize| start + (row * side + column) * size_of::<u64>();
    for row in 0..side {
        for column in 0..side {
            let own = access(cell(row, column), Kind::InOut);
            match (row.checked_sub(1), column.checked_sub(1)) {
                (None, None) => node(&[own]),
                (Some(up), None) => node(&[access(cell(up, column), Kind::In), own]),
                (None, Some(left)) => node(&[access(cell(row, left), Kind::In), own]),
                (Some(up), Some(left)) => {
                    let (up, left) = (cell(up, column), cell(row, left));
                    node(&[access(up, Kind::In), access(left, Kind::In), own]);
                }
            }
        }
    }
}

fn cholesky(start: usize, tiles: usize, node: &mut dyn FnMut(&[Declaration])) {
    let tile = |row: usize, column: usize| start + (row * tiles + column) * size_of::<u64>();
    for k in 0..tiles {
        node(&[access(tile(k, k), Kind::InOut)]);
        for i in k + 1..tiles {
            node(&[access(tile(k, k), Kind::In), access(tile(i, k), Kind::InOut)]);
        }
        for i in k + 1..tiles {
            for j in k + 1..i {
                let panels = [access(tile(i, k), Kind::In), access(tile(j, k), Kind::In)];
                node(&[panels[0], panels[1], access(tile(i, j), Kind::InOut)]);
            }
            node(&[access(tile(i, k), Kind::In), access(tile(i, i), Kind::InOut)]);
        }
    }
}

fn stencil(start: usize, width: usize, steps: u64, node: &mut dyn FnMut(&[Declaration])) {
    let cell = size_of::<u64>();
    for step in 0..steps {
        let [to, from] = [step % 2, (step + 1) % 2].map(|row| start + row as usize * width * cell);
        for column in 0..width {
            let mut declared = [access(to + column * cell, Kind::InOut); 4];
            let neighbours = column.saturating_sub(1)..(column + 2).min(width);
            let count = neighbours.len();
            for (place, neighbour) in declared.iter_mut().zip(neighbours) {
                *place = access(from + neighbour * cell, Kind::In);
            }
            node(&declared[..=count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;

    #[test]
    fn each_creates_as_many_tasks_as_it_says() {
        let workloads = [
            Workload::Empty { tasks: 100 },
            Workload::Axpy { elements: 1000, block: 64 },
            Workload::Axpy { elements: 64, block: 64 },
            Workload::Sweeps { elements: 1024, block: 64, iterations: 3 },
            Workload::Sweeps { elements: 1000, block: 64, iterations: 3 },
            Workload::Fib { number: 10 },
            Workload::Fib { number: 1 },
            Workload::Chain { tasks: 100 },
            Workload::Chains { tasks: 100, chains: 7 },
            Workload::Wave { side: 9 },
            Workload::Cholesky { tiles: 6 },
            Workload::Cholesky { tiles: 1 },
            Workload::Potrf { order: 100, tile: 16 },
            Workload::Stencil { width: 5, steps: 4, spins: 10 },
        ];
        let runtime = Runtime::builder().workers(2).build().expect("two workers");
        for workload in workloads {
            let before = runtime.tasks_created();
            runtime.run(|context| workload.run(context)).expect("it runs").expect("nothing fails");
            assert_eq!(runtime.tasks_created() - before, 1 + workload.tasks(), "{workload:?}");
        }
        assert_eq!(Workload::Cholesky { tiles: 48 }.tasks(), 19_600);
        assert_eq!(Workload::Fib { number: 22 }.tasks(), 57_312);
        assert_eq!(Workload::Axpy { elements: 1 << 30, block: 1024 }.tasks(), 2_097_150);
    }
}
