//! Sizes and times.

use crate::frame::{ETHERNET_BYTES, FRAME_BYTES_MIN};

/// Sizes and times of an endpoint, which both sides need not have alike, but for the longest frame. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest that a frame may be behind Ethernet's own header, bytes: the MTU of the segment.
    pub mtu_bytes: usize,
    /// What one connection keeps until it was acknowledged, bytes.
    pub send_bytes: usize,
    /// What one connection keeps until it is read, bytes.
    pub receive_bytes: usize,
    /// Frames that a sender sends, or sends again, before the receiver has said that it knows of the transfer.
    pub initial_burst: u32,
    /// How far frames may overtake each other before one that is missing counts as lost.
    pub reorder_frames: u32,
    /// What came is acknowledged within this time, if nothing goes out that tells it sooner.
    pub acknowledge_ns: u64,
    /// How long an answer is waited for: at first, at least, at most.
    pub timeout_first_ns: u64,
    /// At least.
    pub timeout_min_ns: u64,
    /// At most.
    pub timeout_max_ns: u64,
    /// Who connects gives up after this time.
    pub handshake_ns: u64,
    /// A peer from which nothing came for so long is asked.
    pub heartbeat_ns: u64,
    /// A peer from which nothing came for so long is given up.
    pub silence_ns: u64,
    /// How long a connection that has ended still answers its peer.
    pub linger_ns: u64,
    /// Connections at a time; who wants one more is refused.
    pub connections_max: usize,
    /// Connections that wait for their communicator; of more the oldest goes.
    pub held_max: usize,
    /// Frames that all senders together may have under way to this endpoint, at most.
    pub pace_frames_max: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        const MS: u64 = 1_000_000;
        Settings {
            mtu_bytes: 1500,
            send_bytes: 256 * 1024,
            receive_bytes: 256 * 1024,
            initial_burst: 8,
            reorder_frames: 3,
            acknowledge_ns: MS / 10,
            timeout_first_ns: 10 * MS,
            timeout_min_ns: MS,
            timeout_max_ns: 100 * MS,
            handshake_ns: 10_000 * MS,
            heartbeat_ns: 1000 * MS,
            silence_ns: 5000 * MS,
            linger_ns: 2000 * MS,
            connections_max: 4096,
            held_max: 1024,
            pace_frames_max: 512,
        }
    }
}

impl Settings {
    /// The most that a frame carries, bytes.
    pub fn payload_bytes_max(&self) -> usize {
        self.mtu_bytes + ETHERNET_BYTES - FRAME_BYTES_MIN
    }

    /// The longest frame, bytes.
    pub fn frame_bytes_max(&self) -> usize {
        self.mtu_bytes + ETHERNET_BYTES
    }

    pub(crate) fn receive_frames(&self) -> usize {
        self.receive_bytes / self.payload_bytes_max()
    }

    pub(crate) fn check(&self) {
        assert!(self.mtu_bytes >= 128 && self.mtu_bytes <= 65_000, "an MTU is 128 to 65,000 bytes");
        assert!(self.initial_burst >= 1 && self.reorder_frames >= 1, "at least one frame goes at once");
        let burst_bytes = self.initial_burst as usize * self.payload_bytes_max();
        assert!(self.receive_bytes >= 2 * burst_bytes, "there is room for two initial bursts");
        assert!(self.send_bytes >= self.payload_bytes_max(), "there is room for a frame");
    }
}
