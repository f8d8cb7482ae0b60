//! What `include/castell.h` declares. Start at `calls`, the table of all operations.

mod arguments;
mod calls;
mod clock;
mod communicator;
mod door;
mod host;
mod memory;
mod operator;
mod request;

use std::ffi::c_uint;

/// What a `castell_comm` seems to point to; there is no such thing, the pointer is an id (see `registry`).
#[repr(C)]
pub struct castell_comm_object {
    _nothing: [u8; 0],
}

/// What a `castell_request` seems to point to.
#[repr(C)]
pub struct castell_request_object {
    _nothing: [u8; 0],
}

/// What a `castell_op` seems to point to.
#[repr(C)]
pub struct castell_op_object {
    _nothing: [u8; 0],
}

/// A communicator.
pub type castell_comm = *mut castell_comm_object;
/// A call that goes on, or that was prepared.
pub type castell_request = *mut castell_request_object;
/// An operator.
pub type castell_op = *mut castell_op_object;
/// The type of elements; enumerations come as integers.
pub type castell_type = c_uint;
