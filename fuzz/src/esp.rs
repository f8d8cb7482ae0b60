//! What has to hold for any frames that a card brings: the fuzz target asserts it, and so does a quick test of `castell-esp`.

use castell_esp::datagram;
use castell_esp::frame::{self, Flags, Head};
use castell_esp::{Address, Communicator, Endpoint, Handle, Key, Mac, Settings, What};

const KEY: [u8; 16] = [7; 16];

fn address(host: u8) -> Address {
    Address { mac: Mac([2, 0, 0, 0, 0, host]), port: 7 }
}

/// Bytes are refused, or are the one way to write what they say; an endpoint takes whatever frames come.
pub fn any_bytes(bytes: &[u8]) {
    let key = Key::new(&KEY);
    if let Ok((head, payload)) = frame::read(bytes, &key) {
        let mut again = vec![0; bytes.len()];
        let length = frame::write(&mut again, &key, &head, [payload, &[]]);
        assert_eq!(again[..length], bytes[..length]);
    }
    if let Ok(one) = datagram::read(bytes, &key) {
        let mut again = [0; datagram::DATAGRAM_BYTES];
        datagram::write(&mut again, &key, &one);
        assert!(datagram::is_one(bytes) && bytes.starts_with(&again));
    }
    let mut told = Told::default();
    let (mut endpoint, connections) = endpoint();
    let before = endpoint.counters().frames;
    for piece in bytes.chunks(90) {
        endpoint.receive(piece, 1_000_000);
    }
    told.look(&mut endpoint, 1_000_000);
    let counters = endpoint.counters();
    let dropped = counters.garbled + counters.forged + counters.not_mine;
    assert_eq!(
        dropped + counters.frames - before,
        bytes.chunks(90).count() as u64,
        "each is taken or counted"
    );
    mended(endpoint, connections, bytes, &mut told);
}

/// An endpoint with a connection that is there, with something under way, and one that is begun.
fn endpoint() -> (Endpoint, [Heard; 2]) {
    let settings = Settings { mtu_bytes: 200, receive_bytes: 8000, send_bytes: 2000, ..Settings::default() };
    let mut endpoint = Endpoint::new(address(0), Key::new(&KEY), &[1; 16], &settings);
    let mut other = Endpoint::new(address(1), Key::new(&KEY), &[2; 16], &settings);
    let now = 1_000_000;
    other.open(Communicator(1), now);
    let there = endpoint.connect(address(1), Communicator(1), now).expect("room");
    endpoint.write(there, &[9; 1500], now).expect("room");
    let begun = endpoint.connect(address(2), Communicator(1), now).expect("room");
    let mut out = [0; 300];
    let mut heads = [Head::default(); 2];
    for _ in 0..4 {
        endpoint.tick(now);
        while let Some(length) = endpoint.transmit(&mut out, now) {
            let (head, _) = frame::read(&out[..length], &Key::new(&KEY)).expect("it sends frames");
            heads[usize::from(head.to == address(2))] = head;
            other.receive(&out[..length], now);
        }
        other.tick(now);
        // Of data only the first is answered: the rest is under way.
        if let Some(length) = other.transmit(&mut out, now) {
            endpoint.receive(&out[..length], now);
        }
    }
    (endpoint, [Heard { handle: there, head: heads[0] }, Heard { handle: begun, head: heads[1] }])
}

struct Heard {
    handle: Handle,
    /// What it sent last.
    head: Head,
}

/// How often each connection's end was told.
#[derive(Default)]
struct Told {
    ends: Vec<Handle>,
}

impl Told {
    fn look(&mut self, endpoint: &mut Endpoint, now: u64) {
        while let Some(event) = endpoint.event() {
            assert!(!self.ends.contains(&event.connection), "{event:?} is told after the end");
            match event.what {
                What::Closed | What::Down(_) => self.ends.push(event.connection),
                What::Readable => {
                    let bytes = endpoint.peek(event.connection).iter().map(|part| part.len()).sum();
                    endpoint.consume(event.connection, bytes, now);
                }
                _ => {}
            }
        }
    }
}

/// Frames with the right tag, whatever else they say: mutations would get no further otherwise.
fn mended(mut endpoint: Endpoint, connections: [Heard; 2], bytes: &[u8], told: &mut Told) {
    let (mut rest, mut now, mut out) = (bytes, 1_000_000, [0; 300]);
    while let Some(([which, flags, odd, number, acknowledged, length], behind)) =
        rest.split_first_chunk::<6>()
    {
        let length = usize::from(*length).min(behind.len()).min(130);
        let (payload, behind) = behind.split_at(length);
        rest = behind;
        let of = &connections[usize::from(which % 2)].head;
        let near = |of: u32, by: u8| of.wrapping_add(u32::from(by)).wrapping_sub(4);
        let peer_first = of.acknowledged;
        let head = Head {
            to: address(0),
            from: if *odd == 255 { address(3) } else { of.to },
            communicator: Communicator(u64::from(odd % 16 != 1)),
            flags: Flags(*flags),
            to_session: if *odd == 2 || Flags(*flags) == Flags::SYN { 0 } else { of.from_session },
            from_session: if *odd == 3 { u32::from(*number) } else { of.to_session },
            sequence: near(peer_first, *number),
            acknowledged: near(of.sequence, *acknowledged),
            edge: near(of.sequence, *acknowledged ^ 0x55),
            stamp: u32::from(*odd),
            echo: u32::from(*number),
        };
        let size = frame::write(&mut out, &Key::new(&KEY), &head, [payload, &[]]);
        endpoint.receive(&out[..size], now);
        if odd % 8 == 7 {
            now += u64::from(*number) * 10_000_000;
            endpoint.tick(now);
        }
        for _ in 0..*which / 64 {
            if let Some(length) = endpoint.transmit(&mut out, now) {
                assert!(frame::read(&out[..length], &Key::new(&KEY)).is_ok());
            }
        }
        told.look(&mut endpoint, now);
    }
    for Heard { handle, .. } in connections {
        endpoint.abort(handle, now);
    }
    told.look(&mut endpoint, now);
}
