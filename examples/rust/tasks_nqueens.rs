//! How many ways there are to put n queens on a board: a task a placement, inline below a depth (`final_if`), values through
//! handles.

#[path = "argument.rs"]
mod argument;

use argument::argument;
use castell::tasks::{Context, Runtime};
use std::sync::LazyLock;
use std::time::Instant;

/// Queens, and rows for which there are tasks; deeper, they cost more than they bring: `tasks_nqueens [QUEENS [DEPTH]]`.
static QUEENS: LazyLock<u32> = LazyLock::new(|| argument(1, 10).clamp(1, 16) as u32);
static DEPTH: LazyLock<u32> = LazyLock::new(|| argument(2, 3) as u32);

/// Columns and diagonals that are taken, as bits.
#[derive(Clone, Copy, Default)]
struct Board {
    row: u32,
    columns: u32,
    rising: u32,
    falling: u32,
}

impl Board {
    /// The boards with one queen more.
    fn next(self) -> impl Iterator<Item = Board> {
        let queens = *QUEENS;
        let free = !(self.columns | self.rising | self.falling) & ((1 << queens) - 1);
        (0..queens).map(|column| 1 << column).filter(move |bit| free & bit != 0).map(move |bit| Board {
            row: self.row + 1,
            columns: self.columns | bit,
            rising: (self.rising | bit) << 1,
            falling: (self.falling | bit) >> 1,
        })
    }

    fn count_serially(self) -> u64 {
        if self.row == *QUEENS { 1 } else { self.next().map(Board::count_serially).sum() }
    }
}

fn count(context: &Context<'_>, board: Board) -> u64 {
    if board.row == *QUEENS {
        return 1;
    }
    if context.is_final() {
        return board.count_serially();
    }
    let task = |next: Board| {
        let task = context.task().label("queen").final_if(next.row >= *DEPTH);
        task.spawn((), move |context, ()| count(context, next))
    };
    let handles: Vec<_> = board.next().map(task).collect();
    handles.into_iter().map(|handle| handle.wait(context).expect("no task fails")).sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let queens = *QUEENS;
    let runtime = Runtime::builder().build()?;
    let begun = Instant::now();
    let found = runtime.run(|context| count(context, Board::default()))?;
    let time = begun.elapsed();
    assert_eq!(found, Board::default().count_serially());
    println!("{queens} queens: {found} ways, with {} tasks in {time:.3?}", runtime.tasks_created());
    Ok(())
}
