//! LLVM's interface: what clang, flang and Intel's compilers call. It differs from GCC's in who owns a task's memory (the compiler's code
//! fills it between two calls), in regions (a function with as many arguments as there are shared variables), and in reductions (functions
//! of the compiler make, combine and end the copies). The rest is the same core: `region`, `depend`, `taskloop::Cut`, `serial`.
//!
//! | file | what |
//! |---|---|
//! | `fork` | parallel regions |
//! | `barrier` | barriers, and what ends in one |
//! | `task` | tasks, waits, groups, events, cancellation |
//! | `block` | a task's memory |
//! | `depend` | what a depend clause is when it arrives here |
//! | `taskloop` | loops whose iterations are tasks |
//! | `reduction` | private copies of task reductions |
//!
//! What the functions get is described by LLVM's OpenMP runtime interface; `location` is where in the source a construct stands, `thread`
//! the number by which libomp knows the calling thread.

mod barrier;
mod block;
mod depend;
mod fork;
mod reduction;
mod task;
mod taskloop;

pub(crate) use block::fulfil;

use std::ffi::c_void;

/// Where a construct stands in the source: only passed on.
type Location = *mut c_void;
