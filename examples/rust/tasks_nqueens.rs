//! How many ways there are to put n queens on a board: a task a placement, inline below a depth (`final_if`), values through
//! handles.

use castell::tasks::{Context, Runtime};

const QUEENS: u32 = 10;
/// Deeper, tasks cost more than they bring.
const DEPTH: u32 = 3;

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
        let free = !(self.columns | self.rising | self.falling) & ((1 << QUEENS) - 1);
        (0..QUEENS).map(|column| 1 << column).filter(move |bit| free & bit != 0).map(move |bit| Board {
            row: self.row + 1,
            columns: self.columns | bit,
            rising: (self.rising | bit) << 1,
            falling: (self.falling | bit) >> 1,
        })
    }

    fn count_serially(self) -> u64 {
        if self.row == QUEENS { 1 } else { self.next().map(Board::count_serially).sum() }
    }
}

fn count(context: &Context<'_>, board: Board) -> u64 {
    if board.row == QUEENS {
        return 1;
    }
    if context.is_final() {
        return board.count_serially();
    }
    let task = |next: Board| {
        let task = context.task().label("queen").final_if(next.row >= DEPTH);
        task.spawn((), move |context, ()| count(context, next))
    };
    let handles: Vec<_> = board.next().map(task).collect();
    handles.into_iter().map(|handle| handle.wait(context).expect("no task fails")).sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder().build()?;
    let found = runtime.run(|context| count(context, Board::default()))?;
    assert_eq!(found, Board::default().count_serially());
    println!("{QUEENS} queens: {found} ways, with {} tasks", runtime.tasks_created());
    Ok(())
}
