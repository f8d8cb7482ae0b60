//! What goes out: bytes that were written, cut into numbered frames, kept until they are acknowledged.
//!
//! A *transfer* is as many frames as go out without a pause. Its first frame has TXS, its last TXF. Until the first one is acknowledged
//! (the *initial stage*) this side sends at most an initial burst, and again what got no answer. From then on the receiver asks for what
//! it misses, and says how far this side may go. Frames are cut when they go out, so that writes which follow while a
//! transfer waits become part of it, and only TXR shows where each ended.

use crate::Settings;
use crate::frame::{Flags, Range};
use crate::round_trip::RoundTrip;
use crate::sequence::{ahead, later};
use std::collections::VecDeque;

/// A frame that was not acknowledged.
struct Sent {
    /// Its payload, as bytes of the stream.
    at: u64,
    bytes: usize,
    flags: Flags,
    sent_at: u64,
    /// Waits to be sent again.
    goes_again: bool,
}

/// A frame that is to go out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) sequence: u32,
    pub(crate) flags: Flags,
    at: u64,
    bytes: usize,
}

pub(crate) struct Sending {
    /// From the first byte that was not acknowledged.
    bytes: VecDeque<u8>,
    /// Which byte of the stream that is, and which one is the first that is in no frame yet.
    first_byte: u64,
    next_byte: u64,
    /// Where writes ended, behind `next_byte`.
    ends: VecDeque<u64>,
    sent: VecDeque<Sent>,
    /// Of `sent`.
    first: u32,
    /// Of the next new frame.
    pub(crate) next: u32,
    /// The first that the receiver does not allow.
    edge: u32,
    /// Of the first frame of the last transfer.
    start: u32,
    /// The last transfer is not finished.
    in_transfer: bool,
    again: VecDeque<u32>,
    is_closing: bool,
    /// FIN has gone out.
    is_closed: bool,
    /// Whoever writes was refused and is to be told.
    is_refused: bool,
    /// When this side has to do something if nothing is heard, and how often it has done so in vain.
    due: Option<u64>,
    fruitless: u32,
}

impl Sending {
    pub(crate) fn new(first: u32) -> Sending {
        Sending {
            bytes: VecDeque::new(),
            first_byte: 0,
            next_byte: 0,
            ends: VecDeque::new(),
            sent: VecDeque::new(),
            first,
            next: first,
            edge: first,
            start: first.wrapping_sub(1),
            in_transfer: false,
            again: VecDeque::new(),
            is_closing: false,
            is_closed: false,
            is_refused: false,
            due: None,
            fruitless: 0,
        }
    }

    pub(crate) fn free_bytes(&self, settings: &Settings) -> usize {
        settings.send_bytes - self.bytes.len()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Takes as many of these bytes as there is room for.
    pub(crate) fn write(&mut self, bytes: &[u8], settings: &Settings) -> usize {
        let taken = bytes.len().min(self.free_bytes(settings));
        self.bytes.extend(&bytes[..taken]);
        self.is_refused |= taken < bytes.len();
        taken
    }

    /// A write ends here.
    pub(crate) fn end_write(&mut self) {
        if self.unframed_bytes() > 0 {
            self.ends.push_back(self.first_byte + self.bytes.len() as u64);
        }
    }

    /// The next write that does not fit will be told of room.
    pub(crate) fn tell_room(&mut self) {
        self.is_refused = true;
    }

    /// Nothing is written any more.
    pub(crate) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Everything, the end included, has been acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        self.is_closed && self.sent.is_empty()
    }

    /// Nothing is missing but the acknowledgement of the end.
    pub(crate) fn lacks_only_the_end(&self) -> bool {
        self.is_closed && self.sent.len() <= 1
    }

    /// Nothing goes out any more.
    pub(crate) fn stop(&mut self) {
        (self.bytes, self.ends, self.sent, self.again) = Default::default();
        (self.is_closing, self.is_closed, self.due) = (true, true, None);
        // An acknowledgement that comes late finds nothing to acknowledge.
        (self.first_byte, self.first) = (self.next_byte, self.next);
    }

    fn unframed_bytes(&self) -> usize {
        (self.first_byte + self.bytes.len() as u64 - self.next_byte) as usize
    }

    fn wants_more(&self) -> bool {
        self.unframed_bytes() > 0 || self.is_closing && !self.is_closed
    }

    /// The receiver knows of the last transfer.
    fn is_known(&self) -> bool {
        ahead(self.first, self.start) > 0
    }

    /// Whether a new frame may go out.
    fn may_go_on(&self, settings: &Settings) -> bool {
        let burst_end = self.first.wrapping_add(settings.initial_burst);
        let is_initial = !self.in_transfer || !self.is_known();
        ahead(self.edge, self.next) > 0 && (!is_initial || ahead(burst_end, self.next) > 0)
    }

    /// Whether there is something to send now.
    pub(crate) fn is_ready(&self, settings: &Settings) -> bool {
        !self.again.is_empty() || self.wants_more() && self.may_go_on(settings)
    }

    /// What goes out now.
    pub(crate) fn take(&mut self, now: u64, settings: &Settings, timeout_ns: u64) -> Option<Outgoing> {
        while let Some(sequence) = self.again.pop_front() {
            let behind = ahead(sequence, self.first);
            let Some(frame) = usize::try_from(behind).ok().and_then(|at| self.sent.get_mut(at)) else {
                continue;
            };
            (frame.goes_again, frame.sent_at) = (false, now);
            return Some(Outgoing { sequence, flags: frame.flags, at: frame.at, bytes: frame.bytes });
        }
        if !self.wants_more() || !self.may_go_on(settings) {
            return None;
        }
        let frame = self.cut(settings.payload_bytes_max());
        self.sent.push_back(Sent {
            at: frame.at,
            bytes: frame.bytes,
            flags: frame.flags,
            sent_at: now,
            goes_again: false,
        });
        self.next = self.next.wrapping_add(1);
        self.due.get_or_insert(now + timeout_ns);
        Some(frame)
    }

    /// The next new frame.
    fn cut(&mut self, bytes_max: usize) -> Outgoing {
        let (sequence, at) = (self.next, self.next_byte);
        let bytes = self.unframed_bytes().min(bytes_max);
        if !self.in_transfer {
            self.start = sequence;
        }
        if bytes == 0 {
            (self.is_closed, self.in_transfer) = (true, false);
            return Outgoing { sequence, flags: Flags::ACK | Flags::FIN, at, bytes };
        }
        let mut flags = if self.in_transfer { Flags::ACK } else { Flags::ACK | Flags::TXS };
        self.next_byte += bytes as u64;
        while self.ends.front().is_some_and(|end| *end <= self.next_byte) {
            self.ends.pop_front();
            flags = flags | Flags::TXR;
        }
        self.in_transfer = self.unframed_bytes() > 0;
        if !self.in_transfer {
            flags = flags | Flags::TXF | Flags::TXR;
        }
        Outgoing { sequence, flags, at, bytes }
    }

    /// The payload of a frame that was just taken.
    pub(crate) fn payload(&self, frame: &Outgoing) -> [&[u8]; 2] {
        let (from, bytes) = ((frame.at - self.first_byte) as usize, frame.bytes);
        let (front, back) = self.bytes.as_slices();
        if from >= front.len() {
            let from = from - front.len();
            return [&back[from..from + bytes], &[]];
        }
        let of_front = bytes.min(front.len() - from);
        [&front[from..from + of_front], &back[..bytes - of_front]]
    }

    /// The receiver has all before `acknowledged`, and allows all before `edge`. Whether there is room that somebody waits for.
    pub(crate) fn acknowledge(
        &mut self,
        acknowledged: u32,
        edge: u32,
        now: u64,
        (settings, timeout_ns): (&Settings, u64),
    ) -> bool {
        let newly = ahead(acknowledged, self.first);
        if newly < 0 || ahead(acknowledged, self.next) > 0 {
            // It came late, or says what cannot be.
            return false;
        }
        let wider = later(edge, self.edge);
        if newly > 0 || wider != self.edge {
            self.fruitless = 0;
            self.due = None;
        }
        self.edge = wider;
        for _ in 0..newly {
            let frame = self.sent.pop_front().expect("it was sent");
            self.bytes.drain(..frame.bytes);
            self.first_byte += frame.bytes as u64;
        }
        self.first = acknowledged;
        self.arm(now, timeout_ns);
        let has_room = self.is_refused && self.free_bytes(settings) >= settings.send_bytes / 2;
        self.is_refused &= !has_room;
        has_room
    }

    /// As long as something is not acknowledged, or cannot go out, this side has a timer: whatever gets lost, it asks in the end. A
    /// receiver that has a transfer's last frame asks for nothing any more, so its last word may be lost and must not be needed.
    fn arm(&mut self, now: u64, timeout_ns: u64) {
        let needs_timer = !self.sent.is_empty() || self.wants_more();
        self.due = needs_timer.then(|| self.due.unwrap_or(now + timeout_ns));
    }

    /// The receiver asks for these.
    pub(crate) fn resend(&mut self, range: Range, now: u64, settings: &Settings, trip: &RoundTrip) {
        let from = ahead(range.first, self.first).max(0) as usize;
        let end = ahead(range.first, self.first) as i64 + i64::from(range.count.min(u16::MAX.into()));
        let end = usize::try_from(end).unwrap_or(0).min(self.sent.len());
        for at in from..end.max(from) {
            let frame = &mut self.sent[at];
            // What has just gone out the receiver cannot have missed.
            if !frame.goes_again && now >= frame.sent_at + trip.soonest_ns() {
                frame.goes_again = true;
                self.again.push_back(self.first.wrapping_add(at as u32));
            }
        }
        // It sees to it itself now.
        (self.fruitless, self.due) = (0, None);
        self.was_changed(now, settings, trip);
    }

    /// When [`Sending::tick`] has something to do.
    pub(crate) fn due(&self) -> Option<u64> {
        self.due
    }

    /// The answer is overdue: in the initial stage the oldest frame goes out again. True: the receiver is to be asked where it is.
    pub(crate) fn tick(&mut self, now: u64, settings: &Settings, trip: &RoundTrip) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.fruitless = (self.fruitless + 1).min(16);
        self.due = None;
        self.arm(now, self.timeout_ns(settings, trip));
        if !self.is_known() && self.sent.front().is_some_and(|frame| !frame.goes_again) {
            self.sent[0].goes_again = true;
            self.again.push_front(self.first);
            return false;
        }
        self.due.is_some()
    }

    /// How long this side waits now: longer once the receiver has a timer, too.
    pub(crate) fn timeout_ns(&self, settings: &Settings, trip: &RoundTrip) -> u64 {
        let once = trip.timeout_ns(settings, self.fruitless);
        if self.is_known() { (4 * once).min(settings.timeout_max_ns) } else { once }
    }

    /// Something was written or closed: if it cannot go out now, somebody has to ask in time.
    pub(crate) fn was_changed(&mut self, now: u64, settings: &Settings, trip: &RoundTrip) {
        let timeout_ns = self.timeout_ns(settings, trip);
        self.arm(now, timeout_ns);
    }
}
