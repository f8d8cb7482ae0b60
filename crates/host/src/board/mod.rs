//! The board: programs of one user on one node lend processors to each other.
//!
//! The protocol and its states are in README.md beside this file; `words` carries it out, `file` is where its memory comes from, `membership` what a
//! program does with it, `care` what it does about programs that are gone or stopped; `process` finds the process's place, `counted` is for threads that are
//! no workers. Start at [`Membership`] (a program on the board) and
//! [`Board`] (whoever only looks).

mod words;

#[cfg(not(loom))]
mod care;
#[cfg(not(loom))]
mod counted;
#[cfg(not(loom))]
mod file;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
mod membership;
#[cfg(not(loom))]
mod process;
#[cfg(not(loom))]
pub use counted::{Counted, Lent};
#[cfg(not(loom))]
pub use file::{Board, Lending, Program, default_path};
#[cfg(not(loom))]
pub use membership::Membership;
#[cfg(not(loom))]
pub use process::{join, wanted};
pub use words::Turn;
