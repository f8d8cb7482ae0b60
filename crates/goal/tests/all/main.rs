//! The tests of this room, a module for each matter: most of what it takes to build a small program is the same in all of them.

mod arithmetic;
mod binary;
mod boundaries;
mod buffers;
mod bytes;
mod check;
mod cycles;
mod deadlocks;
mod files;
mod graphs;
mod messages;
mod mutated_vectors;
mod paraver;
mod printed;
#[path = "../../../../fuzz/src/lib.rs"]
mod properties;
mod random;
mod random_program;
mod schedule_set;
mod steps;
mod text;
mod text_errors;
mod text_round_trip;
