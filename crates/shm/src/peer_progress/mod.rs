//! What shared memory knows of runs that any process may carry on: who holds one, and the memory that they lie in.

pub mod combiner;
pub mod heap;
