//! One card of a rank: its socket, and the protocol's end behind it.

use crate::address::CardAt;
use castell_esp::{Communicator, Endpoint, Event, Mac};
use castell_host::packet::PacketSocket;
use std::io::ErrorKind;

/// Frames that are taken from a socket before anything else is done.
const FRAMES_AT_A_TIME: usize = 256;

pub(crate) struct Card {
    pub(crate) at: CardAt,
    pub(crate) endpoint: Endpoint,
    socket: PacketSocket,
    input: Box<[u8]>,
    output: Box<[u8]>,
    /// So many bytes of `output` are a frame that the socket has not taken.
    waiting: usize,
    /// Frames that the interface had no room for, or did not take.
    pub(crate) unsent: u64,
    pub(crate) watches_room: bool,
}

impl Card {
    pub(crate) fn new(at: CardAt, endpoint: Endpoint, socket: PacketSocket) -> Card {
        let frame_bytes = castell_esp::frame::ETHERNET_BYTES + usize::from(at.mtu_bytes);
        Card {
            at,
            endpoint,
            socket,
            // One byte more shows frames that are too long.
            input: vec![0; frame_bytes + 1].into(),
            output: vec![0; frame_bytes].into(),
            waiting: 0,
            unsent: 0,
            watches_room: false,
        }
    }

    pub(crate) fn mac(&self) -> Mac {
        self.at.mac
    }

    pub(crate) fn socket(&self) -> &PacketSocket {
        &self.socket
    }

    /// Whether a frame waits for the socket's room.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    pub(crate) fn open(&mut self, communicator: Communicator, now: u64) {
        self.endpoint.open(communicator, now);
    }

    /// Sends what there is, as far as the socket takes it; whether it took all.
    pub(crate) fn transmit(&mut self, now: u64) -> bool {
        loop {
            if self.waiting == 0 {
                match self.endpoint.transmit(&mut self.output, now) {
                    Some(length) => self.waiting = length,
                    None => return true,
                }
            }
            match self.socket.send(&self.output[..self.waiting]) {
                Ok(()) => self.waiting = 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Lost, as frames are: the protocol sees to it.
                Err(_) => (self.waiting, self.unsent) = (0, self.unsent + 1),
            }
        }
    }

    /// Sends a frame that is asked for again if it gets lost.
    pub(crate) fn try_send(&mut self, frame: &[u8]) {
        self.unsent += u64::from(self.socket.send(frame).is_err());
    }

    /// Takes in what has come. Datagrams of searches are for whoever is lent.
    pub(crate) fn listen(&mut self, now: u64, mut datagram: impl FnMut(&[u8])) {
        for _ in 0..FRAMES_AT_A_TIME {
            match self.socket.receive(&mut self.input) {
                Ok(bytes) => {
                    let frame = &self.input[..bytes];
                    if castell_esp::datagram::is_one(frame) {
                        datagram(frame);
                    } else {
                        self.endpoint.receive(frame, now);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.endpoint.tick(now);
    }

    pub(crate) fn event(&mut self) -> Option<Event> {
        self.endpoint.event()
    }
}
