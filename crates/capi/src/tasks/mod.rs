//! What `include/castell_tasks.h`, `alpi.h` and `castell_vertices.h` declare.
//!
//! As for `goal.h`, this only translates. Start at `submit`.

mod alpi;
pub(crate) mod failure;
mod iterate;
mod reduction;
mod runtime;
mod submit;
mod versions;
mod vertices;
mod world;
