//! The C interface: what `include/goal.h`, `include/castell.h`, `include/castell_tasks.h` and `include/castell_kernels.h` declare, as `libcastell.so` and `libcastell.a`.
//!
//! This room translates and nothing else: arguments into graphs, errors into codes and texts. It keeps the objects
//! that C programs hold in checked tables, so that a freed, foreign or made-up one is an error and no crash, and lets
//! no panic out. Start at `graph` and `run`; `objects` has all tables, `registry` is what a table is,
//! `error` the way of every failure.

// The exported functions have the names of the paper.
#![allow(non_snake_case)]
// The types of `castell.h` and `castell_tasks.h` have their names.
#![allow(non_camel_case_types)]

mod collective;
mod error;
mod extension;
mod graph;
mod kernels;
mod objects;
mod operation;
mod process;
mod registry;
mod run;
mod schedule;
mod tasks;
mod types;
