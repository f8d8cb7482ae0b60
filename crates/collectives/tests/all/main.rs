//! The tests of this room, a module for each matter: most of what it takes to build a small program is the same in all of them.

mod collectives;
mod decisions;
mod economy;
mod executor;
mod exports;
mod flow;
mod literature;
mod patterns;
mod search;
mod words;
