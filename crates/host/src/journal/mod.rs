//! What the processes of a job note for whoever started them: rows of words in memory that the starter made and keeps, whatever
//! becomes of the processes. What the rows mean is for those who write and read them.
//!
//! Each process has a part of a fixed size. What does not fit is counted, and left out. `rows` has the rows, `memory` what they lie in.
//! Start at `Journals` (who starts) and `of_this_process` (who is started).

mod memory;
mod rows;

pub use memory::{DESCRIPTOR_VARIABLE, Journal, Journals, Noted, of_this_process};
pub use rows::ROW_WORDS;

/// A row: the first word is not 0.
pub type Row = [u64; ROW_WORDS];
