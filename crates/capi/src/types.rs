//! The types and codes of `goal.h`, under the header's names so that the two can be compared by a test.
#![allow(non_camel_case_types)]

use std::ffi::{c_int, c_uint, c_void};

/// What a `GOAL_Graph` seems to point to; there is no such thing, the pointer is an id (see `registry`).
#[repr(C)]
pub struct GOAL_GraphObject {
    _nothing: [u8; 0],
}

/// What a `GOAL_Schedule` seems to point to.
#[repr(C)]
pub struct GOAL_ScheduleObject {
    _nothing: [u8; 0],
}

/// What a `GOAL_Handle` seems to point to.
#[repr(C)]
pub struct GOAL_HandleObject {
    _nothing: [u8; 0],
}

/// Operations and dependencies of this process, as they are added.
pub type GOAL_Graph = *mut GOAL_GraphObject;
/// A compiled graph.
pub type GOAL_Schedule = *mut GOAL_ScheduleObject;
/// One run of a schedule.
pub type GOAL_Handle = *mut GOAL_HandleObject;
/// An operation: its number in the low half, a mark of its graph in the high half.
pub type GOAL_Vertex = i64;
/// Enumerations come as integers: C does not promise that they hold one of their constants.
pub type GOAL_MemType = c_uint;
/// See [`crate::operation`].
pub type GOAL_Op = c_uint;
/// See [`crate::operation`].
pub type GOAL_DataType = c_uint;
/// See [`crate::extension`].
pub type GOAL_ExtensionId = c_uint;
/// A local operation of the user.
pub type GOAL_Function = Option<unsafe extern "C" fn(*mut c_void)>;

/// No vertex.
pub const GOAL_INVALID_VERTEX: GOAL_Vertex = -1;
/// Memory of the process.
pub const GOAL_USERSPACE: GOAL_MemType = 0;
/// The schedule's scratchpad.
pub const GOAL_SCRATCHPAD: GOAL_MemType = 1;
/// The first operator; the others follow in the order of `Operator::ALL`.
pub const GOAL_MAX: GOAL_Op = 65;
/// The operator behind those of `Operator::ALL`.
pub const GOAL_WTIME: GOAL_Op = 75;
/// Signed integers.
pub const GOAL_SINT: GOAL_DataType = 97;
/// Unsigned integers.
pub const GOAL_UINT: GOAL_DataType = 98;
/// Floating point.
pub const GOAL_FLOAT: GOAL_DataType = 99;
/// bfloat16.
pub const GOAL_BFLOAT: GOAL_DataType = 100;
/// Any source, and any tag.
pub const GOAL_ANY: c_int = -1;
/// The extensions have the numbers from 1 to this one.
pub const LAST_EXTENSION: GOAL_ExtensionId = 11;

/// What went wrong: the header's `GOAL_Error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    NotInitialized = -2,
    AlreadyInitialized = -3,
    Finalized = -4,
    Launch = -5,
    Graph = -6,
    Schedule = -7,
    Handle = -8,
    Vertex = -9,
    Rank = -10,
    Tag = -11,
    Count = -12,
    Buffer = -13,
    Operation = -14,
    Incomplete = -15,
    Cycle = -16,
    Format = -17,
    Limit = -18,
    Run = -19,
    Failed = -20,
    Peer = -21,
    Size = -22,
    Internal = -99,
}

impl Code {
    /// Every code with its name in the header.
    pub const ALL: [(Code, &std::ffi::CStr); 22] = [
        (Code::NotInitialized, c"GOAL_ERR_NOT_INITIALIZED"),
        (Code::AlreadyInitialized, c"GOAL_ERR_ALREADY_INITIALIZED"),
        (Code::Finalized, c"GOAL_ERR_FINALIZED"),
        (Code::Launch, c"GOAL_ERR_LAUNCH"),
        (Code::Graph, c"GOAL_ERR_GRAPH"),
        (Code::Schedule, c"GOAL_ERR_SCHEDULE"),
        (Code::Handle, c"GOAL_ERR_HANDLE"),
        (Code::Vertex, c"GOAL_ERR_VERTEX"),
        (Code::Rank, c"GOAL_ERR_RANK"),
        (Code::Tag, c"GOAL_ERR_TAG"),
        (Code::Count, c"GOAL_ERR_COUNT"),
        (Code::Buffer, c"GOAL_ERR_BUFFER"),
        (Code::Operation, c"GOAL_ERR_OPERATION"),
        (Code::Incomplete, c"GOAL_ERR_INCOMPLETE"),
        (Code::Cycle, c"GOAL_ERR_CYCLE"),
        (Code::Format, c"GOAL_ERR_FORMAT"),
        (Code::Limit, c"GOAL_ERR_LIMIT"),
        (Code::Run, c"GOAL_ERR_RUN"),
        (Code::Failed, c"GOAL_ERR_FAILED"),
        (Code::Peer, c"GOAL_ERR_PEER"),
        (Code::Size, c"GOAL_ERR_SIZE"),
        (Code::Internal, c"GOAL_ERR_INTERNAL"),
    ];
}
