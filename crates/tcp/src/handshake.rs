//! Who is there: before any frame, both sides of a connection prove that they know the job's secret.
//!
//! ```text
//!   listener                                     dialer
//!   CHALLENGE  magic, version, nonce        ───▶
//!              ◀───  HELLO   magic, version, nonce, from, to, instance, attempt, welcomed, taken, window, proof over all before
//!   WELCOME    verdict, from, instance, taken, window, proof over all before                       ───▶
//! ```
//! A proof is HMAC-SHA256 by the secret, over a word for the direction and over all that was said. It is checked in constant time, before
//! anything else that came with it is looked at. Both sides contribute 32 random bytes, so nothing can be replayed.

use crate::frame::{VERSION, word};
use castell_base::Rank;
pub use castell_host::secret::Secret;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Another secret, for one purpose, which says nothing of this one.
pub(crate) fn derive(secret: &Secret, purpose: &[u8]) -> [u8; 32] {
    keyed(secret, purpose, &[]).finalize().into_bytes().into()
}

fn keyed(secret: &Secret, direction: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("a key of any length will do");
    mac.update(direction);
    parts.iter().for_each(|part| mac.update(part));
    mac
}

const MAGIC: [u8; 8] = [b'C', b'A', b'S', b'T', b'E', b'L', b'L', VERSION];
/// In the version: what follows the proofs is encrypted.
const ENCRYPTED: u8 = 0x80;
const DIALER: &[u8] = b"castell tcp dialer";
const LISTENER: &[u8] = b"castell tcp listener";
const PROOF_BYTES: usize = 32;

/// Bytes of what the listener says first.
pub const CHALLENGE_BYTES: usize = 40;
/// Bytes of what the dialer says.
pub const HELLO_BYTES: usize = 104;
/// Bytes of the listener's answer.
pub const WELCOME_BYTES: usize = 64;

/// Why a connection is given up before it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    /// Not this protocol.
    #[error("whoever is there does not speak castell's protocol")]
    Foreign,
    /// Another version of it.
    #[error(
        "castell of another version is there: it speaks version {0} of the protocol, this one {VERSION}; install the same on both hosts"
    )]
    Version(u8),
    /// One side encrypts, and the other does not.
    #[error(
        "one of the two encrypts what it sends, the other does not: give all ranks the same --net or CASTELL_NET"
    )]
    Encryption,
    /// It does not know the secret.
    #[error("whoever is there does not belong to this job: its proof is wrong")]
    Proof,
    /// It belongs to the job, but is not who was meant, or says what nobody says.
    #[error("a process of this job is there, but not the rank that was called")]
    NotMeant,
}

/// What the dialer says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who dials.
    pub from: Rank,
    /// Whom it wants.
    pub to: Rank,
    /// Drawn at random by each process: one that was started again is another.
    pub instance: u64,
    /// Counts the dialer's attempts at this peer.
    pub attempt: u32,
    /// The listener's latest attempt at the dialer that was welcome.
    pub welcomed: u32,
    /// Numbered frames of the listener that the dialer has taken.
    pub taken: u32,
    /// Bytes that the dialer keeps until they are acknowledged.
    pub window: u32,
}

/// What the listener says to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Welcome,
    /// Not now: the listener is dialing itself.
    Busy,
    /// Never again: the listener has given this path up, or has left.
    Gone,
}

/// The listener's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Whether to go on.
    pub verdict: Verdict,
    /// Who it is.
    pub from: Rank,
    /// See [`Hello::instance`].
    pub instance: u64,
    /// Numbered frames of the dialer that the listener has taken.
    pub taken: u32,
    /// See [`Hello::window`].
    pub window: u32,
}

fn magic(encrypts: bool) -> [u8; 8] {
    let mut bytes = MAGIC;
    bytes[7] |= if encrypts { ENCRYPTED } else { 0 };
    bytes
}

/// What the listener says first.
pub fn challenge(nonce: &[u8; 32], encrypts: bool) -> [u8; CHALLENGE_BYTES] {
    let mut bytes = [0; CHALLENGE_BYTES];
    bytes[..8].copy_from_slice(&magic(encrypts));
    bytes[8..].copy_from_slice(nonce);
    bytes
}

fn check_magic(bytes: &[u8], encrypts: bool) -> Result<(), Stranger> {
    let version = bytes[7] & !ENCRYPTED;
    match bytes[..7] == MAGIC[..7] {
        false => Err(Stranger::Foreign),
        true if version != VERSION => Err(Stranger::Version(version)),
        true if bytes[..8] != magic(encrypts) => Err(Stranger::Encryption),
        true => Ok(()),
    }
}

/// Answers a challenge of one who encrypts, or does not, as this side does.
///
/// # Errors
/// It is none of this protocol and version.
pub fn hello(
    secret: &Secret,
    challenge: &[u8; CHALLENGE_BYTES],
    nonce: &[u8; 32],
    hello: &Hello,
    encrypts: bool,
) -> Result<[u8; HELLO_BYTES], Stranger> {
    check_magic(challenge, encrypts)?;
    let mut bytes = [0; HELLO_BYTES];
    bytes[..8].copy_from_slice(&magic(encrypts));
    bytes[8..40].copy_from_slice(nonce);
    put(&mut bytes, 40, &hello.from.0.to_le_bytes());
    put(&mut bytes, 44, &hello.to.0.to_le_bytes());
    put(&mut bytes, 48, &hello.instance.to_le_bytes());
    put(&mut bytes, 56, &hello.attempt.to_le_bytes());
    put(&mut bytes, 60, &hello.welcomed.to_le_bytes());
    put(&mut bytes, 64, &hello.taken.to_le_bytes());
    put(&mut bytes, 68, &hello.window.to_le_bytes());
    let (said, proof) = bytes.split_at_mut(HELLO_BYTES - PROOF_BYTES);
    proof.copy_from_slice(&keyed(secret, DIALER, &[challenge, said]).finalize().into_bytes());
    Ok(bytes)
}

/// Reads a hello that answers this challenge.
///
/// # Errors
/// Whoever sent it does not know the secret, or does not encrypt as this side does.
pub fn check_hello(
    secret: &Secret,
    challenge: &[u8; CHALLENGE_BYTES],
    bytes: &[u8; HELLO_BYTES],
) -> Result<Hello, Stranger> {
    check_magic(bytes, challenge[7] & ENCRYPTED != 0)?;
    let (said, proof) = bytes.split_at(HELLO_BYTES - PROOF_BYTES);
    keyed(secret, DIALER, &[challenge, said]).verify_slice(proof).map_err(|_| Stranger::Proof)?;
    Ok(Hello {
        from: Rank(word(said, 40)),
        to: Rank(word(said, 44)),
        instance: u64::from(word(said, 48)) | u64::from(word(said, 52)) << 32,
        attempt: word(said, 56),
        welcomed: word(said, 60),
        taken: word(said, 64),
        window: word(said, 68),
    })
}

/// The answer to a hello.
pub fn welcome(
    secret: &Secret,
    challenge: &[u8; CHALLENGE_BYTES],
    hello: &[u8; HELLO_BYTES],
    welcome: &Welcome,
) -> [u8; WELCOME_BYTES] {
    let mut bytes = [0; WELCOME_BYTES];
    bytes[0] = match welcome.verdict {
        Verdict::Welcome => 1,
        Verdict::Busy => 2,
        Verdict::Gone => 3,
    };
    put(&mut bytes, 4, &welcome.from.0.to_le_bytes());
    put(&mut bytes, 8, &welcome.instance.to_le_bytes());
    put(&mut bytes, 16, &welcome.taken.to_le_bytes());
    put(&mut bytes, 20, &welcome.window.to_le_bytes());
    let (said, proof) = bytes.split_at_mut(WELCOME_BYTES - PROOF_BYTES);
    proof.copy_from_slice(&keyed(secret, LISTENER, &[challenge, hello, said]).finalize().into_bytes());
    bytes
}

/// Reads the answer to a hello that was sent.
///
/// # Errors
/// Whoever sent it does not know the secret.
pub fn check_welcome(
    secret: &Secret,
    challenge: &[u8; CHALLENGE_BYTES],
    hello: &[u8; HELLO_BYTES],
    bytes: &[u8; WELCOME_BYTES],
) -> Result<Welcome, Stranger> {
    let (said, proof) = bytes.split_at(WELCOME_BYTES - PROOF_BYTES);
    keyed(secret, LISTENER, &[challenge, hello, said]).verify_slice(proof).map_err(|_| Stranger::Proof)?;
    let verdict = match said[0] {
        1 => Verdict::Welcome,
        2 => Verdict::Busy,
        3 => Verdict::Gone,
        _ => return Err(Stranger::NotMeant),
    };
    Ok(Welcome {
        verdict,
        from: Rank(word(said, 4)),
        instance: u64::from(word(said, 8)) | u64::from(word(said, 12)) << 32,
        taken: word(said, 16),
        window: word(said, 20),
    })
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: Hello = Hello {
        from: Rank(3),
        to: Rank(5),
        instance: u64::MAX - 9,
        attempt: 2,
        welcomed: 9,
        taken: 77,
        window: 1 << 18,
    };
    const ANSWERED: Welcome =
        Welcome { verdict: Verdict::Welcome, from: Rank(5), instance: 11, taken: 12, window: 13 };

    #[test]
    fn who_knows_the_secret_is_believed_and_nobody_else() {
        let secret = Secret::new([7; 32]);
        let asked = challenge(&[1; 32], false);
        let said = hello(&secret, &asked, &[2; 32], &SAID, false).expect("a challenge");
        assert_eq!(check_hello(&secret, &asked, &said), Ok(SAID));
        let answered = welcome(&secret, &asked, &said, &ANSWERED);
        assert_eq!(check_welcome(&secret, &asked, &said, &answered), Ok(ANSWERED));

        let other = Secret::new([8; 32]);
        assert_eq!(check_hello(&other, &asked, &said), Err(Stranger::Proof));
        assert_eq!(check_welcome(&other, &asked, &said, &answered), Err(Stranger::Proof));
        // A proof is good for the connection for which it was made only, and never for the other direction.
        assert_eq!(check_hello(&secret, &challenge(&[3; 32], false), &said), Err(Stranger::Proof));
        assert_eq!(
            check_welcome(&secret, &challenge(&[3; 32], false), &said, &answered),
            Err(Stranger::Proof)
        );
    }

    #[test]
    fn any_changed_bit_is_found() {
        let secret = Secret::new([7; 32]);
        let asked = challenge(&[1; 32], false);
        let said = hello(&secret, &asked, &[2; 32], &SAID, false).expect("a challenge");
        for bit in 0..HELLO_BYTES * 8 {
            let mut changed = said;
            changed[bit / 8] ^= 1 << (bit % 8);
            let found = check_hello(&secret, &asked, &changed).expect_err("it was changed");
            assert!(bit < 64 || found == Stranger::Proof, "bit {bit}: {found}");
        }
        let answered = welcome(&secret, &asked, &said, &ANSWERED);
        for bit in 0..WELCOME_BYTES * 8 {
            let mut changed = answered;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(check_welcome(&secret, &asked, &said, &changed), Err(Stranger::Proof), "bit {bit}");
        }
    }

    #[test]
    fn other_versions_and_other_programs_are_told_apart() {
        let mut asked = challenge(&[1; 32], false);
        asked[7] = 9;
        let secret = Secret::new([7; 32]);
        assert_eq!(hello(&secret, &asked, &[2; 32], &SAID, false), Err(Stranger::Version(9)));
        let other = b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n";
        assert_eq!(hello(&secret, other, &[2; 32], &SAID, false), Err(Stranger::Foreign));
        for encrypts in [false, true] {
            let asked = challenge(&[1; 32], encrypts);
            assert_eq!(hello(&secret, &asked, &[2; 32], &SAID, !encrypts), Err(Stranger::Encryption));
            let said = hello(&secret, &asked, &[2; 32], &SAID, encrypts).expect("both do the same");
            assert_eq!(check_hello(&secret, &asked, &said), Ok(SAID));
            let before = check_hello(&secret, &challenge(&[1; 32], !encrypts), &said);
            assert_eq!(before, Err(Stranger::Encryption));
        }
    }
}
