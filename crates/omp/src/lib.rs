//! The OpenMP door: a library that is loaded before GCC's or LLVM's OpenMP library (`LD_PRELOAD`, `castell omp`) and takes the tasks of
//! unmodified programs, and every place where threads wait for tasks. Teams, loops, sections, locks, target regions and queries stay with
//! libgomp or libomp: what is caught here does its part and hands the rest on.
//!
//! | file | what |
//! |---|---|
//! | `below` | libgomp's functions, behind those of the same name here |
//! | `region` | a parallel region: its threads become a team of castell's |
//! | `place` | what a thread is in its region, and the tasks that run on it at once |
//! | `barrier` | barriers, and what ends in one |
//! | `task` | `GOMP_task`, waits, groups, events, cancellation |
//! | `own` | values that tasks set and locks that they hold, which the library below keeps by threads |
//! | `depend` | what a depend clause is when it arrives here |
//! | `taskloop` | how a loop is cut |
//! | `reduction` | private copies of task reductions |
//! | `shared_work` | loops and sections in whose reductions tasks take part |
//! | `target` | target regions that wait for tasks |
//! | `kmpc` | the same for LLVM's interface, whose library is libomp |
//! | `cpus` | threads that other processes take away from tasks and give back |
//! | `serial` | the same outside of parallel regions, where tasks run at once |
//!
//! Refuses to start threads (but one that listens, if asked to), to change what a program sees of its team, and to know OpenMP's rules about anything but tasks. Start
//! at `region`. The interface is that of GCC 9 to 15.

// A name that programs call is its documentation.
#![allow(non_snake_case, clippy::missing_safety_doc)]
// Nor are its arguments ours to choose.
#![allow(clippy::too_many_arguments)]

mod barrier;
mod below;
mod cpus;
mod depend;
mod kmpc;
mod own;
mod place;
mod reduction;
mod region;
mod serial;
mod shared_work;
mod target;
mod task;
mod taskloop;

use std::ffi::{c_int, c_void};

/// What compilers make of the body of a region or of a task.
type Body = unsafe extern "C" fn(*mut c_void);
/// Copies the argument block of a task, and the objects in it.
type Copy = unsafe extern "C" fn(*mut c_void, *mut c_void);
/// What LLVM's compilers make of the body of a region: two numbers, and what it shares, of which `kmpc` knows how it is passed.
type Microtask = unsafe extern "C" fn(*const c_int, *const c_int, *const c_void);

/// When the library is loaded there is one thread, and what the kernel does for this costs nothing; in a process of several it waits for
/// all processors, some milliseconds.
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = prepare;

extern "C" fn prepare() {
    castell_host::barrier::prepare();
}
