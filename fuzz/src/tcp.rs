//! What has to hold for any bytes that come over a connection: the fuzz target asserts it, and so does a quick test of `castell-tcp`.

use castell_base::Rank;
use castell_tcp::frame::{FRAME_BYTES, Frame, Kind};
use castell_tcp::handshake::{self, CHALLENGE_BYTES, HELLO_BYTES, Hello, Secret, Verdict, WELCOME_BYTES};
use castell_tcp::link::{Link, Step};
use castell_tcp::{Settings, address};
use castell_transport::{Address, HEADER_BYTES, Header};

/// Bytes are refused wherever they come in, or are the one way to write what they say; a link takes whatever frames come.
pub fn any_bytes(bytes: &[u8]) {
    if let Some(addresses) = address::from_bytes(&Address(bytes.into())) {
        assert_eq!(&*address::to_bytes(&addresses).0, bytes);
    }
    if let Some(head) = bytes.first_chunk::<FRAME_BYTES>()
        && let Ok(frame) = Frame::from_bytes(head, 1 << 20)
    {
        assert_eq!(frame.to_bytes(), *head);
    }
    strangers(bytes);
    feed(&mut link(), bytes, bytes.len() % 50 + 1);
    feed(&mut link(), &mended(bytes), bytes.len() % 50 + 1);
}

/// Nobody's bytes are a proof.
fn strangers(bytes: &[u8]) {
    let secret = Secret::new([1; 32]);
    let challenge = handshake::challenge(&[2; 32], false);
    let said =
        Hello { from: Rank(1), to: Rank(0), instance: 1, attempt: 1, welcomed: 0, taken: 0, window: 0 };
    if let Some(hello) = bytes.first_chunk::<HELLO_BYTES>() {
        assert!(handshake::check_hello(&secret, &challenge, hello).is_err());
    }
    if let Some(challenge) = bytes.first_chunk::<CHALLENGE_BYTES>() {
        let _ = handshake::hello(&secret, challenge, &[3; 32], &said, false);
    }
    if let Some(welcome) = bytes.first_chunk::<WELCOME_BYTES>() {
        let hello = handshake::hello(&secret, &challenge, &[3; 32], &said, false).expect("a challenge");
        assert!(handshake::check_welcome(&secret, &challenge, &hello, welcome).is_err());
    }
}

/// A link of rank 0 to rank 1, connected, with something under way.
fn link() -> Link {
    let settings =
        Settings { message_bytes_max: 300, placed_bytes_min: 20, window_bytes: 4096, ..Settings::default() };
    let mut link = Link::new(Rank(0), Rank(1), &settings);
    for _ in 0..5 {
        link.try_send(&Header { kind: 1, ..Header::default() }, &[7; 100]).expect("room");
    }
    let hello =
        Hello { from: Rank(1), to: Rank(0), instance: 1, attempt: 1, welcomed: 0, taken: 0, window: 4096 };
    assert_eq!(link.meet(&hello, 1, 0).verdict, Verdict::Welcome);
    let written = link.output(0).concat().len();
    link.wrote(written, 0);
    link
}

/// Frames with right checksums, whatever else they say: mutations would get no further otherwise.
fn mended(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut rest, mut number) = (Vec::new(), bytes, 0_u32);
    while let Some(([kind, odd, taken, length], behind)) = rest.split_first_chunk::<4>() {
        let length = usize::from(*length).min(behind.len());
        let (payload, behind) = behind.split_at(length);
        rest = behind;
        let kind =
            [Kind::Message, Kind::Message, Kind::Message, Kind::Note, Kind::Leave][usize::from(kind % 5)];
        let is_true = *odd < 250;
        let header = Header {
            kind: if is_true { 1 } else { *odd },
            bytes: payload.len() as u32,
            source: if is_true { 1 } else { 5 },
            tag: number,
            ..Header::default()
        };
        let body: Vec<u8> = match kind {
            Kind::Message => {
                let words = header.to_words(u16::from(*odd == 251));
                words.iter().flat_map(|word| word.to_le_bytes()).chain(payload.iter().copied()).collect()
            }
            Kind::Leave | Kind::Note => Vec::new(),
        };
        assert!(kind != Kind::Message || body.len() >= HEADER_BYTES);
        let frame = Frame {
            kind,
            bytes: body.len() as u32,
            number: if *odd == 252 { number.wrapping_sub(1) } else { number },
            taken: u32::from(*taken % 8),
            checksum: crc32fast::hash(&body),
        };
        number += u32::from(kind.is_numbered() && *odd != 252);
        out.extend_from_slice(&frame.to_bytes());
        out.extend_from_slice(&body);
    }
    out
}

/// In pieces: no panic, nothing that was not sent, nothing twice.
fn feed(link: &mut Link, bytes: &[u8], piece: usize) {
    let mut came = 0;
    for piece in bytes.chunks(piece) {
        let mut at = 0;
        loop {
            if let Some(left) = link.begun().map(|begun| begun.left()) {
                let part = &piece[at..(at + left).min(piece.len())];
                at += part.len();
                match link.placed(part, 1) {
                    Ok(None) => break,
                    Ok(Some(_)) => came += 1,
                    Err(_) => {
                        link.lost(2);
                        assert_eq!(link.delivered(), came);
                        return;
                    }
                }
            }
            match link.input(&piece[at..], 1) {
                Ok((used, Step::Begun(header))) => {
                    at += used;
                    if header.tag % 2 == 0 {
                        link.keep_begun();
                    }
                }
                Ok((used, Step::Message(header, body))) => {
                    at += used;
                    assert_eq!(body.payload(&piece[at - used..]).len(), header.bytes as usize);
                    assert_eq!(header.source, 1);
                    came += 1;
                    link.reuse(body);
                }
                Ok((used, Step::More)) => {
                    assert_eq!(used, piece.len() - at);
                    break;
                }
                Err(_) => {
                    link.lost(2);
                    assert!(!link.is_together());
                    assert_eq!(link.delivered(), came);
                    return;
                }
            }
        }
        let written = link.output(1).concat().len();
        link.wrote(written, 1);
        link.tick(1);
    }
    assert_eq!(link.delivered(), came);
}
