//! What the process and the kernel's program share, as in `bpf/layout.h`: limits, and where things lie in the maps' values.

use std::mem::{offset_of, size_of};

/// Schedules that one interface serves at once.
pub const SCHEDULES_MAX: usize = 16;
/// Runs of one schedule that may be under way at once.
pub const RUNS: usize = 8;
/// Operations of a schedule.
pub const OPERATIONS_MAX: usize = 1024;
/// Edges of a schedule.
pub const EDGES_MAX: usize = 8192;
/// Ranks that a schedule exchanges messages with.
pub const PEERS_MAX: usize = 64;
/// Bytes of a schedule's scratchpad, and of all that it receives and all that it sends in a run.
pub const AREA_BYTES: usize = 32768;
/// Bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 1400;
/// Messages that one look at a run sends at most.
pub const SENDS_MAX: usize = 64;

/// Bytes behind an area, which no message or element that begins in it goes beyond.
const SLACK_BYTES: usize = 2048;

/// No memory.
pub const NOWHERE: u32 = u32::MAX;

/// In a run's `pending`: the process has asked to look again.
pub const KICKED: u64 = 1 << 16;
/// The lower bits of a message's word when it is there; the run stands above.
pub const FULL: u64 = 2;

/// An operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    pub kind: u32,
    pub bytes: u32,
    pub channel: u32,
    pub needs: u32,
    pub b1: u32,
    pub b2: u32,
    pub b3: u32,
    pub count: u32,
    pub operator: u32,
    pub element: u32,
    pub successors_at: u32,
    pub successors: u32,
    pub starts_at: u32,
    pub starts: u32,
}

impl Step {
    /// As the program reads it.
    pub fn words(&self) -> [u32; STEP_WORDS] {
        [
            self.kind,
            self.bytes,
            self.channel,
            self.needs,
            self.b1,
            self.b2,
            self.b3,
            self.count,
            self.operator,
            self.element,
            self.successors_at,
            self.successors,
            self.starts_at,
            self.starts,
            0,
            0,
        ]
    }
}

/// Words of a step.
pub const STEP_WORDS: usize = 16;
pub const PROXY: u32 = 0;
pub const SEND: u32 = 1;
pub const RECV: u32 = 2;
pub const LOCAL: u32 = 3;

pub const RECEIVES: u32 = 0;
pub const SENDS_TO: u32 = 1;
pub const KNOWS: u32 = 2;

#[repr(C)]
struct PeerValue {
    mac: [u8; 6],
    _padding: u16,
    rank: u32,
    acknowledged: u32,
    heard_ns: u64,
}

#[repr(C)]
struct ScheduleValue {
    session: u64,
    done: u64,
    sleeping: u64,
    me: u32,
    operations: u32,
    frame_bytes: u32,
    redirects: u32,
    mac: [u8; 6],
    _padding: u16,
    peers: [PeerValue; PEERS_MAX],
}

#[repr(C)]
struct RunValue {
    pending: u64,
    completed: u64,
    armed_ns: u64,
    completed_ns: u64,
    error: u64,
    number: u64,
    _live: u32,
    _head: u32,
    tail: u32,
    unfinished: u32,
    sends: u32,
    _padding: u32,
    _owner: [u64; 5],
    sent: [u32; SENDS_MAX],
    _arrived: [u64; OPERATIONS_MAX / 64],
    inbound: [u64; OPERATIONS_MAX],
    outbound: [u64; OPERATIONS_MAX],
    _inbound_bytes: [u32; OPERATIONS_MAX],
    outbound_bytes: [u32; OPERATIONS_MAX],
    counters: [u32; OPERATIONS_MAX],
    ring: [u32; OPERATIONS_MAX],
    numbers: [u32; OPERATIONS_MAX],
    waiting: [u32; OPERATIONS_MAX],
}

#[repr(C)]
struct MemoryValue {
    _scratch: [u8; AREA_BYTES + SLACK_BYTES],
    _inbox: [u8; AREA_BYTES + SLACK_BYTES],
    outbox: [u8; AREA_BYTES + SLACK_BYTES],
}

/// Of a schedule's value.
pub mod schedule {
    use super::*;
    pub const BYTES: usize = size_of::<ScheduleValue>();
    pub const SESSION: usize = offset_of!(ScheduleValue, session);
    pub const DONE: usize = offset_of!(ScheduleValue, done);
    pub const SLEEPING: usize = offset_of!(ScheduleValue, sleeping);
    pub const ME: usize = offset_of!(ScheduleValue, me);
    pub const OPERATIONS: usize = offset_of!(ScheduleValue, operations);
    pub const FRAME_BYTES: usize = offset_of!(ScheduleValue, frame_bytes);
    pub const REDIRECTS: usize = offset_of!(ScheduleValue, redirects);
    pub const MAC: usize = offset_of!(ScheduleValue, mac);
    pub const PEERS: usize = offset_of!(ScheduleValue, peers);
}

/// Of a peer, in a schedule's value.
pub mod peer {
    use super::*;
    pub const BYTES: usize = size_of::<PeerValue>();
    pub const MAC: usize = offset_of!(PeerValue, mac);
    pub const RANK: usize = offset_of!(PeerValue, rank);
    pub const ACKNOWLEDGED: usize = offset_of!(PeerValue, acknowledged);
    pub const HEARD_NS: usize = offset_of!(PeerValue, heard_ns);
}

/// Of a run's value.
pub mod run {
    use super::*;
    pub const BYTES: usize = size_of::<RunValue>();
    pub const PENDING: usize = offset_of!(RunValue, pending);
    pub const COMPLETED: usize = offset_of!(RunValue, completed);
    pub const ARMED_NS: usize = offset_of!(RunValue, armed_ns);
    pub const COMPLETED_NS: usize = offset_of!(RunValue, completed_ns);
    pub const ERROR: usize = offset_of!(RunValue, error);
    pub const NUMBER: usize = offset_of!(RunValue, number);
    pub const TAIL: usize = offset_of!(RunValue, tail);
    pub const UNFINISHED: usize = offset_of!(RunValue, unfinished);
    pub const SENDS: usize = offset_of!(RunValue, sends);
    pub const SENT: usize = offset_of!(RunValue, sent);
    pub const INBOUND: usize = offset_of!(RunValue, inbound);
    pub const OUTBOUND: usize = offset_of!(RunValue, outbound);
    pub const OUTBOUND_BYTES: usize = offset_of!(RunValue, outbound_bytes);
    pub const COUNTERS: usize = offset_of!(RunValue, counters);
    pub const RING: usize = offset_of!(RunValue, ring);
    pub const NUMBERS: usize = offset_of!(RunValue, numbers);
    pub const WAITING: usize = offset_of!(RunValue, waiting);
}

/// Of a run's memory.
pub mod memory {
    use super::*;
    pub const BYTES: usize = size_of::<MemoryValue>();
    pub const SCRATCH: usize = 0;
    pub const OUTBOX: usize = offset_of!(MemoryValue, outbox);
}

/// Words of a channel: base, count, peer, stride, data, tag.
pub const CHANNEL_WORDS: usize = 6;
/// Counters of what came.
pub const COUNTERS: usize = 13;
