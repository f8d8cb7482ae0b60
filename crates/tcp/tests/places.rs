//! Long messages come to where they are to lie, also where that place is taken away meanwhile: over real sockets.

use castell_base::Rank;
use castell_tcp::{Secret, Tcp, TcpOptions};
use castell_transport::{Connector, Endpoint, Events, Header, Refused, Transport, Urgency};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// So many come in parts, of each kind: when the system hands on parts, it decides.
const IN_PARTS: u32 = 5;
const BYTES: usize = 60_000;

/// Takes messages; of those with an odd tag it has places, of every other one of these only for the first part.
struct Inbox {
    came: u32,
    placed: u32,
    withdrawn: u32,
    /// Of the message with this tag: asked for so often.
    asked: (u32, u32),
    place: Vec<u8>,
}

fn payload(tag: u32) -> Vec<u8> {
    (0..BYTES as u32).map(|at| ((at / 7) ^ tag) as u8).collect()
}

impl Events for Inbox {
    fn message(&mut self, header: &Header, came: &[u8]) {
        assert_eq!(header.tag, self.came, "in order");
        assert_eq!(came, payload(header.tag), "undamaged");
        self.came += 1;
    }

    fn place(&mut self, header: &Header) -> Option<&mut [u8]> {
        assert_eq!(header.tag, self.came, "only the next one comes");
        self.asked = (header.tag, if self.asked.0 == header.tag { self.asked.1 + 1 } else { 1 });
        let is_there = header.tag % 2 == 1 && (header.tag % 4 == 1 || self.asked.1 <= 2);
        is_there.then_some(&mut self.place[..])
    }

    fn placed(&mut self, header: &Header) {
        assert_eq!(header.tag, self.came, "in order");
        if header.tag % 4 == 1 || self.asked.1 <= 2 {
            assert_eq!(self.place, payload(header.tag), "where it is to lie");
            self.placed += 1;
        } else {
            self.withdrawn += 1;
        }
        self.came += 1;
        self.place.fill(0);
    }
}

fn end(me: u32, encrypts: bool) -> Tcp {
    let options = TcpOptions { encrypts, ..TcpOptions::at(&[IpAddr::V4(Ipv4Addr::LOCALHOST)]) };
    Tcp::new(Rank(me), 2, Secret::new([7; 32]), &options).expect("a socket")
}

fn long_messages_come_to_their_places(encrypts: bool) {
    let mut ends = [end(0, encrypts), end(1, encrypts)];
    let there = ends[1].address();
    let mut way = ends[0].connector().connect(Rank(1), &there).expect("an address");
    let mut here = Inbox { came: 0, placed: 0, withdrawn: 0, asked: (0, 0), place: vec![0; BYTES] };
    let mut nobody = Inbox { place: Vec::new(), ..here };
    let (mut sent, started) = (0, Instant::now());
    while here.placed < IN_PARTS || here.withdrawn < IN_PARTS {
        let mut is_full = false;
        while !is_full {
            let header =
                Header { kind: 1, sequence: sent, tag: sent, bytes: BYTES as u32, ..Header::default() };
            match way.try_send(&header, &payload(sent)) {
                Ok(()) => sent += 1,
                Err(Refused::Full) => is_full = true,
                Err(Refused::Down) => panic!("the path is down"),
            }
        }
        way.flush(Urgency::NOW);
        ends[0].poll(16, &mut nobody);
        ends[1].poll(16, &mut here);
        let Inbox { came, placed, withdrawn, .. } = here;
        assert!(started.elapsed() < PATIENCE, "{came} came, {placed} to their places, {withdrawn} lost them");
    }
}

#[test]
fn long_messages_come_to_their_places_as_they_are() {
    long_messages_come_to_their_places(false);
}

#[test]
fn long_messages_come_to_their_places_encrypted() {
    long_messages_come_to_their_places(true);
}
