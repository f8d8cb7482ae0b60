//! Collective operations as graphs: generators of patterns by name, and the allreduce schedule language.
//!
//! This room turns a name, a number of ranks and a size into graphs; it runs nothing and knows no machine. Start at
//! [`pattern`] (what a generator gives) and [`generator`] (from names to patterns). [`collective`] has the algorithms that
//! move data; [`language`] holds the words for butterfly-like allreduces, [`search`] chooses among them; [`decision`] chooses an algorithm for any operation.
#![forbid(unsafe_code)]

pub mod collective;
pub mod decision;
pub mod dissemination;
pub mod generator;
pub mod halving;
pub mod language;
pub mod linear;
pub mod operation;
pub mod pattern;
pub mod point;
pub mod ring;
pub mod search;
pub mod tree;
