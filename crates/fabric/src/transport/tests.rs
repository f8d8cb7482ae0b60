//! Whoever can reach a rank's endpoint can send it anything: nothing of it is heard.

use super::*;
use crate::frame::{FRAME_BYTES, Frame, Key, Kind};
use crate::hello::{Pair, Secret};
use crate::port::Contexts;
use castell_transport::{Connector as _, Endpoint as _, Header, Urgency};

const SECRET: [u8; 32] = [9; 32];

#[derive(Default)]
struct Inbox {
    messages: Vec<u32>,
    downs: usize,
    delivered: u32,
}

impl Events for Inbox {
    fn message(&mut self, header: &Header, _payload: &[u8]) {
        self.messages.push(header.sequence);
    }

    fn down(&mut self, _peer: Rank, delivered: u32, _why: Down) {
        self.downs += 1;
        self.delivered = delivered;
    }
}

fn options() -> FabricOptions {
    FabricOptions::by(Wish::of("tcp;ofi_rxm"), Reach::ThisHost)
}

/// Frames that somebody sends who knows all but the secret, and where what is known is `place`.
fn forged(place: &Place) -> Vec<Vec<u8>> {
    let header = Header { kind: 7, source: 1, ..Header::default() };
    let other = Secret::of(&[8; 32]);
    let framed = |kind, number, key: Option<&Key>, payload: &[u8]| {
        let mut bytes = vec![0; FRAME_BYTES + payload.len()];
        bytes[FRAME_BYTES..].copy_from_slice(payload);
        let header = Header { bytes: payload.len() as u32, ..header };
        Frame { kind, number, taken: 0, header }.write(key, &mut bytes);
        bytes
    };
    let pair = Pair { from: (Rank(1), [3; 16]), to: (Rank(0), place.nonce) };
    let at = address::to_bytes(place);
    let mut frames = vec![vec![], vec![1], vec![0xFF; FRAME_BYTES], vec![1; 5000]];
    for kind in [Kind::Note, Kind::Message, Kind::Leave, Kind::Ask, Kind::Piece, Kind::Done] {
        for number in 0..4 {
            frames.push(framed(kind, number, None, &[0; 64]));
            frames.push(framed(kind, number, Some(&other.key(pair)), &[0; 64]));
        }
    }
    // Hellos: with a wrong secret, and with the right one, but to another process of the same rank.
    frames.push(framed(Kind::Hello, 0, None, &other.hello(pair, &at)));
    let stale = Pair { to: (Rank(0), [0; 16]), ..pair };
    frames.push(framed(Kind::Hello, 0, None, &Secret::of(&SECRET).hello(stale, &at)));
    frames
}

#[test]
fn what_strangers_send_is_dropped_before_and_after_a_rank_was_met() {
    let [mut me, mut peer] = [0, 1].map(|rank| {
        Fabric::new(Rank(rank), 2, &SECRET, &options()).unwrap_or_else(|error| panic!("{error}"))
    });
    let (mut stranger, ..) = open(&options(), 2).unwrap_or_else(|error| panic!("{error}"));
    let place = address::from_bytes(&me.address()).expect("an address");
    let mut name = [0; 256];
    name[..place.name.len()].copy_from_slice(&place.name);
    let to = stranger.insert(&name).expect("an address of the provider's");
    let frames = forged(&place);
    let contexts = Contexts::new(0..frames.len() as u64);
    let (mut inbox, mut others, mut done) = (Inbox::default(), Inbox::default(), Vec::new());
    let mut out = peer.connector().connect(Rank(0), &me.address()).expect("a way");
    for round in 1..4_u64 {
        let before = me.counters().strangers;
        for (index, frame) in frames.iter().enumerate() {
            let mut memory = stranger.memory(frame.len().max(1)).expect("memory");
            memory.part_mut(0, frame.len()).copy_from_slice(frame);
            while stranger.send(to, (&memory, 0, frame.len()), contexts.at(index)).is_err() {
                stranger.look(&mut done, 1000);
                me.poll(16, &mut inbox);
            }
            done.clear();
            // Until it was heard, since the memory goes.
            while me.counters().strangers < before + index as u64 + 1 {
                stranger.look(&mut done, 1000);
                me.poll(16, &mut inbox);
            }
        }
        assert_eq!(me.counters().strangers, before + frames.len() as u64);
        // The real one is heard, before, in between and after.
        let header = Header { kind: 7, sequence: round as u32, ..Header::default() };
        while inbox.messages.len() < round as usize {
            if others.messages.len() < round as usize && out.try_send(&header, &[]).is_ok() {
                others.messages.push(0);
            }
            out.flush(Urgency::NOW);
            peer.poll(16, &mut others);
            me.poll(16, &mut inbox);
        }
        // Their number begins again with the second.
        if round == 1 {
            lock(&me.shared).peer(Rank(1)).delivered = u32::MAX;
        }
    }
    me.is_gone(Rank(1), Down::Died);
    while inbox.downs == 0 {
        me.poll(16, &mut inbox);
    }
    assert_eq!((inbox.delivered, inbox.downs), (1, 1));
    assert_eq!((inbox.messages.as_slice(), me.counters().met), (&[1, 2, 3][..], 1));
}
