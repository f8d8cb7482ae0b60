//! What `include/castell_tasks.h` declares.
//!
//! As for `goal.h`, this only translates. Start at `submit`.

mod failure;
mod reduction;
mod runtime;
mod submit;
mod world;
