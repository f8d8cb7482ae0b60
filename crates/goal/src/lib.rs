//! GOAL graphs: build, read and print, check, compile to a compact schedule, step.
//!
//! A graph is one rank's part in a communication pattern: vertices are operations, an edge `u -> v` lets `v`
//! start only once `u` has finished (or has started). This room does no I/O, reads no clock and has no `unsafe`.
//! Start at [`op`] (what a vertex can be), then [`graph`] (the builder), [`schedule`] (the compiled form) and
//! [`stepper`] (the interpreter that the simulator and the engine share). All ranks together are a [`program`]: [`text`]
//! and [`binary`] read and write it, [`paraver`] makes one of an MPI trace, [`check`] says what is wrong with it,
//! [`schedule_set`] is what it compiles to.
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod binary;
pub mod check;
mod codec;
pub mod compile;
pub mod file;
pub mod graph;
mod graph_error;
pub mod op;
pub mod paraver;
pub mod program;
pub mod schedule;
pub mod schedule_set;
pub mod stepper;
pub mod text;
pub mod verify;
