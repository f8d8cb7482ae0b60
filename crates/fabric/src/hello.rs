//! Who is there: a rank's first frame to another proves that it knows the job's secret, and nothing else of it is heard before.
//!
//! Each process draws a *nonce* when it joins, and tells it with its address, which the job's own memory carries. A hello names both sides'
//! ranks and nonces and where its sender is found, and proves that by HMAC-SHA256 with the job's secret. It is good for this process of the
//! receiver only, whose nonce is in it: nothing can be replayed to another. From secret, ranks and nonces both sides make the keys of their
//! frames' tags, one for each direction; the receiver's answer is its first frame with a tag.

use crate::address::{self, Place};
use crate::frame::Key;
use castell_base::Rank;
use castell_transport::Address;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub(crate) const NONCE_BYTES: usize = 16;
const PROOF_BYTES: usize = 32;
const FIXED_BYTES: usize = 8 + 2 * NONCE_BYTES;
/// The longest there is, bytes.
pub(crate) const HELLO_BYTES_MAX: usize = FIXED_BYTES + address::BYTES_MAX + PROOF_BYTES;

/// Drawn by each process.
pub(crate) type Nonce = [u8; NONCE_BYTES];

/// What only the processes of a job know.
#[derive(Clone)]
pub(crate) struct Secret(castell_host::secret::Secret);

/// Of whom to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) from: (Rank, Nonce),
    pub(crate) to: (Rank, Nonce),
}

impl Pair {
    fn to_bytes(self) -> [u8; FIXED_BYTES] {
        let mut bytes = [0; FIXED_BYTES];
        bytes[..4].copy_from_slice(&self.from.0.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.to.0.0.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.from.1);
        bytes[24..].copy_from_slice(&self.to.1);
        bytes
    }
}

impl Secret {
    /// The same, in a place of its own.
    pub(crate) fn of(bytes: &[u8; 32]) -> Secret {
        Secret(castell_host::secret::Secret::filled(|place| *place = *bytes))
    }

    fn mac(&self, purpose: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.bytes()).expect("a key of any length will do");
        mac.update(purpose);
        parts.iter().for_each(|part| mac.update(part));
        mac
    }

    /// The key of what one sends to the other.
    pub(crate) fn key(&self, pair: Pair) -> Key {
        let bytes: [u8; 32] =
            self.mac(b"castell fabric key", &[&pair.to_bytes()]).finalize().into_bytes().into();
        Key::new(bytes.first_chunk().expect("sixteen bytes"))
    }

    /// What a hello says.
    pub(crate) fn hello(&self, pair: Pair, at: &Address) -> Vec<u8> {
        let mut said = pair.to_bytes().to_vec();
        said.extend_from_slice(&at.0);
        let proof = self.mac(b"castell fabric hello", &[&said]).finalize().into_bytes();
        said.extend_from_slice(&proof);
        said
    }

    /// Reads a hello to `me`; `None`: whoever sent it does not know the secret, or means somebody else.
    pub(crate) fn check(&self, said: &[u8], me: (Rank, Nonce)) -> Option<(Rank, Place)> {
        let (said, proof) = said.split_at_checked(said.len().checked_sub(PROOF_BYTES)?)?;
        self.mac(b"castell fabric hello", &[said]).verify_slice(proof).ok()?;
        let (head, at) = said.split_first_chunk::<FIXED_BYTES>()?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let place = address::from_bytes(&Address(at.into()))?;
        let pair = Pair { from: (Rank(word(0)), place.nonce), to: me };
        (pair.to_bytes() == *head).then_some((pair.from.0, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_knows_the_secret_is_believed_and_nobody_else() {
        let (secret, other) = (Secret::of(&[7; 32]), Secret::of(&[8; 32]));
        let place =
            Place { provider: "tcp;ofi_rxm".into(), format: 2, nonce: [1; 16], name: vec![2, 0, 80].into() };
        let pair = Pair { from: (Rank(3), place.nonce), to: (Rank(5), [9; 16]) };
        let said = secret.hello(pair, &address::to_bytes(&place));
        assert_eq!(secret.check(&said, pair.to), Some((Rank(3), place)));
        assert_eq!(other.check(&said, pair.to), None);
        // Not for another rank, nor for another process of this rank.
        assert_eq!(secret.check(&said, (Rank(4), [9; 16])), None);
        assert_eq!(secret.check(&said, (Rank(5), [8; 16])), None);
        for bit in 0..said.len() * 8 {
            let mut changed = said.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(secret.check(&changed, pair.to), None, "bit {bit}");
        }
        for length in 0..said.len() {
            assert_eq!(secret.check(&said[..length], pair.to), None);
        }
    }
}
