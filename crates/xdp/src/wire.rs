//! Frames that the process sends itself: the first messages of a run, and requests.

use crate::layout::{self, SCHEDULES_MAX};
use castell_base::{Rank, Tag};
use castell_esp::Mac;
use castell_esp::frame::ETHERTYPE;

/// Of this layout; ESP's frames of the same EtherType have others.
pub const VERSION: u8 = 0x81;
/// Bytes before the message.
pub const HEAD_BYTES: usize = 54;
/// Ethernet's shortest frame, without its checksum.
pub const FRAME_BYTES_MIN: usize = 60;

const _: () = assert!(layout::MESSAGE_BYTES_MAX + HEAD_BYTES <= 14 + 1500 && SCHEDULES_MAX <= 16);

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message.
    Data = 1,
    /// A message is missing.
    Request = 2,
    /// How far are you?
    Query = 4,
    /// So far.
    Done = 5,
}

/// From whom to whom.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub session: u64,
    pub from: (Rank, Mac),
    pub to: (Rank, Mac),
    /// So many runs are through at the sender.
    pub done: u32,
}

/// Which message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message {
    pub tag: Tag,
    pub run: u32,
    pub number: u16,
    /// How often it was asked for.
    pub attempt: u16,
}

/// Writes a frame of at least so many bytes, and gives where its payload lies.
pub fn write<'a>(
    into: &'a mut Vec<u8>,
    kind: Kind,
    way: &Way,
    message: &Message,
    payload_bytes: usize,
    frame_bytes: usize,
) -> &'a mut [u8] {
    into.clear();
    into.extend_from_slice(&way.to.1.0);
    into.extend_from_slice(&way.from.1.0);
    into.extend_from_slice(&ETHERTYPE.to_be_bytes());
    into.extend_from_slice(&[VERSION, kind as u8]);
    into.extend_from_slice(&(payload_bytes as u16).to_le_bytes());
    into.extend_from_slice(&way.session.to_le_bytes());
    for word in [way.from.0.0, way.to.0.0, message.tag.0, message.run, way.done] {
        into.extend_from_slice(&word.to_le_bytes());
    }
    into.extend_from_slice(&message.number.to_le_bytes());
    into.extend_from_slice(&message.attempt.to_le_bytes());
    into.resize(frame_bytes.max(FRAME_BYTES_MIN).max(HEAD_BYTES + payload_bytes), 0);
    &mut into[HEAD_BYTES..][..payload_bytes]
}
