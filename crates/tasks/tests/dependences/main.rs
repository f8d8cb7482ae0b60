//! The engine that finds dependences, compared with the oracle step by step.

mod node;
mod steps;
mod threads;
