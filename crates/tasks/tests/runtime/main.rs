//! The task runtime in this process, a module for each matter. What forks or starts programs, counts its threads or handles faults is a
//! program of its own beside this one.

mod clauses;
mod control;
mod counts;
mod data;
mod debug;
mod devices;
mod failures;
mod life;
mod loops;
mod mailbox;
mod overlaps;
mod place;
mod record;
mod stacks;
mod stress;
mod versions;
mod workers;
