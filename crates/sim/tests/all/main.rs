//! The tests of this room, a module for each matter: most of what it takes to build a small program is the same in all of them.

mod arrows;
mod closed_forms;
mod data;
mod fast;
mod flat_programs;
mod loggopsim;
mod machines;
mod mistakes;
mod plb;
mod programs;
mod properties;
mod timelines;
mod windows;
