//! The machine: shared memory, futexes, processes, processors. Knows nothing of graphs or messages.
//!
//! Every path into the system that a test may want elsewhere is an argument. Start at [`futex`].

pub mod futex;
