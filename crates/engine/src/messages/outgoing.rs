//! Messages going out: at once, or when there is room, in order for each peer.

use super::Messages;
use super::peer::{Body, Outbound, Pending, Unexpected};
use super::token::{OPEN_CONTEXT, Sent, Token};
use super::wire::{GRANTED, Kind, control};
use crate::failure::Cause;
use castell_base::Rank;
use castell_matching::Key;
use castell_transport::Header;

impl Outbound {
    #[inline]
    fn header(&self, me: Rank) -> Header {
        let extra = self.extra + if self.kind == Kind::Fragment { 0 } else { self.sent };
        let mut header = control(self.kind, self.number, self.tag.0, self.flags, extra);
        header.source = me.0;
        header
    }

    /// Whether its operation is done when it has gone out.
    fn is_done_when_sent(&self) -> bool {
        match self.kind {
            Kind::Fragment => self.granted.is_some(),
            kind => matches!(kind, Kind::Eager | Kind::Put),
        }
    }
}

impl Messages {
    /// Sends a message. Whether that is done; else the token comes back when it is, or with the event that it has failed.
    ///
    /// # Safety
    /// The message's memory is readable, and nobody writes to it until the operation has ended or was cancelled.
    #[inline]
    pub(crate) unsafe fn send(&mut self, dest: Rank, mut message: Outbound) -> Result<bool, Cause> {
        if dest == self.me {
            return Ok(self.send_to_self(&message));
        }
        self.check_peer(dest)?;
        if self.peer(dest).pending.is_empty() {
            match self.transmit(dest, &mut message) {
                Sent::Whole => return Ok(true),
                Sent::Announced => return Ok(false),
                Sent::Refused => {}
            }
        }
        self.peer(dest).pending.push_back(Pending::Message { message, owned: None });
        self.block(dest);
        Ok(false)
    }

    /// Tries to hand a message over: whole, in pieces, or word of it.
    #[inline(always)]
    fn transmit(&mut self, dest: Rank, message: &mut Outbound) -> Sent {
        let is_eager = message.memory.bytes() <= self.eager_bytes_to(dest) as u64;
        let peer = self.peers[dest.index()].as_deref_mut().expect("a peer that was looked at");
        if message.kind != Kind::Eager || !is_eager || (peer.holds && message.granted.is_none()) {
            return self.transmit_rare(dest, message, is_eager);
        }
        let mut header = message.header(self.me);
        // SAFETY: who sends answers for the memory.
        let payload = unsafe { message.memory.gather(&mut self.gathered) };
        if !peer.way.try_send(&mut header, payload) {
            return Sent::Refused;
        }
        self.bells.touch(dest);
        self.count(message.memory.bytes());
        Sent::Whole
    }

    #[inline(never)]
    fn transmit_rare(&mut self, dest: Rank, message: &mut Outbound, is_eager: bool) -> Sent {
        let must_ask = self.peer(dest).holds && message.granted.is_none();
        let shares = self.job.share_memory(self.me, dest);
        match message.kind {
            Kind::Eager if !is_eager && shares => self.announce(dest, message),
            // Memory that is not shared is reached by messages only, and those go when a receive is there.
            Kind::Eager if !is_eager && message.granted.is_none() => self.request(dest, message),
            Kind::Eager | Kind::Put | Kind::Get if must_ask => self.request(dest, message),
            Kind::Get => self.ask(dest, message),
            _ => self.transmit_pieces(dest, message),
        }
    }

    /// A message of more than fits, in pieces of eager size. It is only begun when the first one fits.
    fn transmit_pieces(&mut self, dest: Rank, message: &mut Outbound) -> Sent {
        let (bytes, most) = (message.memory.bytes(), self.eager_bytes_to(dest).max(8) as u64);
        loop {
            let length = most.min(bytes - message.sent);
            let mut header = message.header(self.me);
            let start = message.memory.start().map(|start| start.wrapping_add(message.sent as usize));
            let payload = match start {
                _ if length == 0 => &[],
                // SAFETY: who sends answers for the memory.
                Some(start) => unsafe { std::slice::from_raw_parts(start, length as usize) },
                None => {
                    self.gathered.clear();
                    for piece in message.memory.cut(message.sent, length) {
                        // SAFETY: as above.
                        let piece = unsafe { std::slice::from_raw_parts(piece.start, piece.bytes) };
                        self.gathered.extend_from_slice(piece);
                    }
                    &self.gathered[..]
                }
            };
            let peer = self.peers[dest.index()].as_deref_mut().expect("a peer that was looked at");
            if !peer.way.try_send(&mut header, payload) {
                return Sent::Refused;
            }
            self.bells.touch(dest);
            self.outcomes.progressed = true;
            message.sent += length;
            if message.sent >= bytes {
                break;
            }
        }
        if message.is_done_when_sent() {
            self.count(bytes);
        }
        Sent::Whole
    }

    /// Asks for bytes of a window.
    fn ask(&mut self, dest: Rank, message: &Outbound) -> Sent {
        let mut header = message.header(self.me);
        if !self.peer(dest).way.try_send(&mut header, &message.memory.bytes().to_ne_bytes()) {
            return Sent::Refused;
        }
        self.bells.touch(dest);
        self.counters.messages += 1;
        Sent::Announced
    }

    /// A message was sent.
    #[inline]
    pub(super) fn count(&mut self, bytes: u64) {
        self.counters.messages += 1;
        self.counters.bytes += bytes;
    }

    /// A message from this rank to itself: copied at once if it is small or expected, else left where it is.
    fn send_to_self(&mut self, message: &Outbound) -> bool {
        let (me, memory, token) = (self.me, message.memory, message.token);
        self.count(memory.bytes());
        let context = match message.number.checked_sub(1) {
            None => OPEN_CONTEXT,
            Some(number) => self.peer(me).channel(number).expect("an open channel").channel.context,
        };
        let key = Key { context, source: me, tag: message.tag };
        let is_eager = memory.bytes() <= self.job.eager_bytes() as u64;
        let mut gathered = std::mem::take(&mut self.gathered);
        // SAFETY: who sends answers for the memory.
        let payload = unsafe { memory.gather(&mut gathered) };
        let unexpected = || match is_eager {
            true => Unexpected::copy_of(me, message.tag, payload),
            false => Unexpected { source: me, tag: message.tag, body: Body::Own { token, memory } },
        };
        let is_done = match self.matcher.arrive(key, unexpected) {
            Some(posted) if posted.is_tombstone() && !is_eager => {
                self.counters.orphans += 1;
                self.fail(token, Cause::PeerFailed { peer: me, culprit: me });
                false
            }
            Some(posted) => {
                if let Some(senders) = &mut self.senders {
                    senders.met(posted.token, me, message.tag);
                }
                self.deliver(posted, me, payload);
                true
            }
            None => {
                self.counters.unexpected += 1;
                if let Some(number) = message.number.checked_sub(1) {
                    self.peer(me).channel(number).expect("an open channel").unexpected += 1;
                }
                is_eager
            }
        };
        self.gathered = gathered;
        is_done
    }

    /// Tries again what is pending, in order, peer by peer.
    pub(crate) fn retry_pending(&mut self) {
        let mut at = 0;
        while at < self.blocked.len() {
            let dest = self.blocked[at];
            while let Some(next) = self.peer(dest).pending.pop_front() {
                if let Some(refused) = self.retry(dest, next) {
                    self.peer(dest).pending.push_front(refused);
                    break;
                }
                self.outcomes.progressed = true;
            }
            if self.peer(dest).pending.is_empty() {
                self.blocked.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// One pending item; gives it back if there is still no room.
    fn retry(&mut self, dest: Rank, item: Pending) -> Option<Pending> {
        match item {
            Pending::Message { mut message, owned } => match self.transmit(dest, &mut message) {
                Sent::Whole if message.is_done_when_sent() => self.finish(message.token),
                Sent::Whole | Sent::Announced => {}
                Sent::Refused => return Some(Pending::Message { message, owned }),
            },
            Pending::Control { mut header, payload } => {
                if !self.peer(dest).way.try_send(&mut header, &payload) {
                    return Some(Pending::Control { header, payload });
                }
                self.bells.touch(dest);
            }
        }
        None
    }

    /// A message of the protocol's own to `dest`; queues up if there is no room.
    pub(crate) fn send_control(&mut self, dest: Rank, mut header: Header, payload: &[u8]) {
        if dest == self.me {
            return;
        }
        header.source = self.me.0;
        let peer = self.peer(dest);
        if peer.gone.is_some() {
            return;
        }
        if peer.pending.is_empty() && peer.way.try_send(&mut header, payload) {
            self.bells.touch(dest);
        } else {
            peer.pending.push_back(Pending::Control { header, payload: payload.into() });
            self.block(dest);
        }
    }

    /// Notes that something is pending to `dest`.
    pub(super) fn block(&mut self, dest: Rank) {
        if !self.blocked.contains(&dest) {
            self.blocked.push(dest);
        }
        self.bells.press(dest);
    }

    /// A message that was asked for goes out in pieces.
    pub(super) fn pend_fragments(
        &mut self,
        dest: Rank,
        mut message: Outbound,
        handle: u64,
        granted: Option<u64>,
    ) {
        let flags = if granted.is_some() { GRANTED } else { 0 };
        message =
            Outbound { kind: Kind::Fragment, flags, number: 0, extra: handle, sent: 0, granted, ..message };
        self.peer(dest).pending.push_back(Pending::Message { message, owned: None });
        self.block(dest);
        self.outcomes.progressed = true;
    }

    /// An owner's memory goes: what has yet to be answered out of it is copied.
    #[inline]
    pub(crate) fn copy_replies_of(&mut self, owner: u32) {
        if !self.blocked.is_empty() {
            self.copy_pending_replies(owner);
        }
    }

    #[cold]
    fn copy_pending_replies(&mut self, owner: u32) {
        for item in self.peers.iter_mut().flatten().flat_map(|peer| &mut peer.pending) {
            if let Pending::Message { message, owned } = item
                && message.kind == Kind::GetReply
                && message.token.owner == owner
            {
                let mut copy = Vec::new();
                // SAFETY: the owner's memory is still there.
                let copy = Box::from(unsafe { message.memory.gather(&mut copy) });
                let start = owned.insert(copy).as_mut_ptr();
                message.memory = super::Memory::plain(start, message.memory.bytes());
                message.token = Token::NONE;
            }
        }
    }
}
