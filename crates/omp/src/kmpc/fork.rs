//! Parallel regions. Their function has two numbers as arguments and then as many words as the region shares variables; how many, only the
//! caller says, so the way in and the way out are a few instructions here.

use super::Location;
use super::reduction::Slots;
use crate::region::{self, Crew};
use crate::{Microtask, below};
use smallvec::SmallVec;
use std::arch::naked_asm;
use std::cell::Cell;
use std::ffi::{c_int, c_void};

/// As many words are read from registers, on the way in and on the way out, whether they are arguments or not.
#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: (usize, usize) = (3, 4);
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: (usize, usize) = (5, 6);

/// A parallel region, on the stack of the thread that came to it.
struct Region {
    microtask: Microtask,
    /// Filled up to what [`invoke`] reads.
    words: SmallVec<[usize; 16]>,
    count: usize,
    crew: Crew,
    slots: Slots,
}

thread_local! {
    static REGION: Cell<*const Region> = const { Cell::new(std::ptr::null()) };
    /// libomp's number of the calling thread; below 0: not known.
    static NUMBER: Cell<c_int> = const { Cell::new(-1) };
}

/// What threads of the innermost region share for reductions over tasks of the whole region or loop; `None` outside of regions.
pub(super) fn slots<'a>() -> Option<&'a Slots> {
    // SAFETY: set by `run` while what it points to is on the stack of the thread that waits for this one.
    unsafe { REGION.get().as_ref() }.map(|region| &region.slots)
}

/// The number by which libomp knows the calling thread.
pub(super) fn number() -> c_int {
    let number = NUMBER.get();
    if number >= 0 {
        return number;
    }
    // SAFETY: it does not look at the location.
    unsafe { below::__kmpc_global_thread_num(std::ptr::null_mut()) }
}

/// What a thread of the region does instead of the program's function.
unsafe extern "C" fn run(number: *const c_int, place: *const c_int, region: *const c_void) {
    // SAFETY: `start` passes the region, which outlives its threads' part in it, and libomp the two numbers.
    unsafe {
        let region = &*region.cast::<Region>();
        let threads = below::__kmpc_bound_num_threads(std::ptr::null_mut());
        let outer = (REGION.replace(region), NUMBER.replace(*number));
        region.crew.run(threads.max(1) as usize, *place as usize, || {
            invoke(region.microtask, number, place, region.count, region.words.as_ptr());
        });
        REGION.set(outer.0);
        NUMBER.set(outer.1);
    }
}

/// Passes a region to libomp, with [`run`] in place of the program's function.
///
/// # Safety
/// As the compiler made it.
unsafe fn start(location: Location, microtask: Microtask, words: SmallVec<[usize; 16]>) {
    let count = words.len();
    let mut words = words;
    words.resize(count.max(IN_REGISTERS.1), 0);
    let region = Region { microtask, words, count, crew: Crew::new(), slots: Slots::default() };
    // SAFETY: the caller's promise.
    unsafe { below::fork_call(location, run, (&raw const region).cast()) };
    region.crew.end();
    region::go_on_outside();
}

/// `registers`: the words that came in registers; `stack`: those behind.
unsafe extern "C" fn fork(
    location: Location,
    count: c_int,
    microtask: Microtask,
    registers: *const usize,
    stack: *const usize,
) {
    let count = count.max(0) as usize;
    let near = count.min(IN_REGISTERS.0);
    // SAFETY: the caller's arguments lie there, as many as it says.
    unsafe {
        let mut words = SmallVec::from_slice(std::slice::from_raw_parts(registers, near));
        words.extend_from_slice(std::slice::from_raw_parts(stack, count - near));
        start(location, microtask, words);
    }
}

/// `(location, count, microtask, ...)`: makes the words behind an array.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_fork_call() {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 32",
        "mov [rsp], rcx",
        "mov [rsp + 8], r8",
        "mov [rsp + 16], r9",
        "mov rcx, rsp",
        "lea r8, [rbp + 16]",
        "call {fork}",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        fork = sym fork,
    )
}

/// Calls `microtask` with the two numbers and the words.
///
/// # Safety
/// That is what it takes; so many words are there, and at least four.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn invoke(
    microtask: Microtask,
    number: *const c_int,
    place: *const c_int,
    count: usize,
    words: *const usize,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rax, rdi",
        "mov r10, rcx",
        "mov r11, r8",
        // Room for what goes over the stack, and as much more as keeps it aligned.
        "lea rcx, [r10 - 4]",
        "cmp r10, 4",
        "jbe 3f",
        "lea r8, [rcx * 8 + 8]",
        "and r8, -16",
        "sub rsp, r8",
        "2:",
        "mov r8, [r11 + rcx * 8 + 24]",
        "mov [rsp + rcx * 8 - 8], r8",
        "dec rcx",
        "jnz 2b",
        "3:",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, [r11]",
        "mov rcx, [r11 + 8]",
        "mov r8, [r11 + 16]",
        "mov r9, [r11 + 24]",
        "call rax",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_fork_call() {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-64]!",
        ".cfi_def_cfa_offset 64",
        ".cfi_offset x29, -64",
        ".cfi_offset x30, -56",
        "mov x29, sp",
        "stp x3, x4, [sp, #16]",
        "stp x5, x6, [sp, #32]",
        "str x7, [sp, #48]",
        "add x3, sp, #16",
        "add x4, sp, #64",
        "bl {fork}",
        "ldp x29, x30, [sp], #64",
        "ret",
        ".cfi_endproc",
        fork = sym fork,
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn invoke(
    microtask: Microtask,
    number: *const c_int,
    place: *const c_int,
    count: usize,
    words: *const usize,
) {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov x9, x0",
        "mov x10, x4",
        "mov x0, x1",
        "mov x1, x2",
        "subs x11, x3, #6",
        "b.ls 3f",
        "lsl x12, x11, #3",
        "add x12, x12, #15",
        "and x12, x12, #-16",
        "sub sp, sp, x12",
        "add x13, x10, #48",
        "2:",
        "sub x11, x11, #1",
        "ldr x14, [x13, x11, lsl #3]",
        "str x14, [sp, x11, lsl #3]",
        "cbnz x11, 2b",
        "3:",
        "ldp x2, x3, [x10]",
        "ldp x4, x5, [x10, #16]",
        "ldp x6, x7, [x10, #32]",
        "blr x9",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        "ret",
        ".cfi_endproc",
    )
}

/// With `condition` 0 the region has one thread, which libomp sees to.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_fork_call_if(
    location: Location,
    count: c_int,
    microtask: Microtask,
    condition: c_int,
    argument: *mut c_void,
) {
    // SAFETY: the caller's arguments.
    unsafe {
        if condition == 0 {
            return below::__kmpc_fork_call_if(location, count, microtask, condition, argument);
        }
        let words = if argument.is_null() {
            SmallVec::new()
        } else {
            SmallVec::from_slice(&[argument.expose_provenance()])
        };
        start(location, microtask, words);
    }
}

/// A region of one thread, whose function the compiler's code calls itself: tasks in it run at once.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_serialized_parallel(location: Location, thread: c_int) {
    region::step_out();
    // SAFETY: passed on.
    unsafe { below::__kmpc_serialized_parallel(location, thread) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_end_serialized_parallel(location: Location, thread: c_int) {
    // SAFETY: passed on.
    unsafe { below::__kmpc_end_serialized_parallel(location, thread) };
    region::step_back();
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn sum_of_none(number: *const c_int, place: *const c_int, _: *const c_void) {
        // SAFETY: the test passes them.
        assert_eq!(unsafe { (*number, *place) }, (7, 3));
    }

    unsafe extern "C" fn weighted(
        _number: *const c_int,
        _place: *const c_int,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
        g: usize,
        h: usize,
        i: usize,
        into: *mut usize,
    ) {
        let words = [a, b, c, d, e, f, g, h, i];
        // SAFETY: the test passes it.
        unsafe { *into = words.iter().enumerate().map(|(index, word)| (index + 1) * word).sum() };
    }

    #[test]
    fn functions_get_their_words() {
        let mut into = 0usize;
        let mut words: Vec<usize> = (1..=9).map(|word| word * 10).collect();
        words.push((&raw mut into).expose_provenance());
        // SAFETY: the functions take such arguments; four words are always there.
        unsafe {
            invoke(sum_of_none, &7, &3, 0, [0; 6].as_ptr());
            let weighted: Microtask = std::mem::transmute(weighted as *const c_void);
            invoke(weighted, &7, &3, words.len(), words.as_ptr());
        }
        assert_eq!(into, (1..=9).map(|index| index * index * 10).sum::<usize>());
    }
}
