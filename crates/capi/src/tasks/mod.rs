//! What `include/castell_tasks.h` and `alpi.h` declare.
//!
//! As for `goal.h`, this only translates. Start at `submit`.

mod alpi;
mod failure;
mod reduction;
mod runtime;
mod submit;
mod world;
