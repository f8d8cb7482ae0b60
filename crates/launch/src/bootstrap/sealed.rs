//! The job's secret on its way from rank 0 to a rank of each other host: sealed, so that neither what carries it (a launcher's store, the
//! buffers of a program's MPI) nor a core file that has those gives it away.
//!
//! X25519, with a key of each side's that is used once. Who could change what is carried could take the place of a rank, as with
//! everything that is told there; who only reads it learns nothing.

use castell_host::secret::Secret;
use rustls::crypto::ActiveKeyExchange;
use rustls::crypto::ring::kx_group::X25519;
use sha2::{Digest, Sha256};

const KEY_BYTES: usize = 32;

/// A secret as it is carried: the public key of who has sealed it, and what it is hidden in.
pub(super) type Sealed = [u8; 2 * KEY_BYTES];

/// Who opens one, once.
pub(super) struct Opener(Box<dyn ActiveKeyExchange>);

impl Opener {
    /// One with a new key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn new() -> Result<Opener, String> {
        let key = X25519.start().map_err(|error| format!("no key to exchange: {error}"))?;
        Ok(Opener(key))
    }

    /// What it is sealed to.
    pub(super) fn public_key(&self) -> &[u8] {
        self.0.pub_key()
    }

    /// `None`: it is nothing that was sealed.
    pub(super) fn open(self, sealed: &[u8]) -> Option<Secret> {
        let (key, hidden) = <&Sealed>::try_from(sealed).ok()?.split_at(KEY_BYTES);
        let own = self.0.pub_key().to_vec();
        let shared = self.0.complete(key).ok()?;
        Some(Secret::filled(|place| {
            place.copy_from_slice(hidden);
            hide(place, shared.secret_bytes(), key, &own);
        }))
    }
}

/// Seals a secret to a public key.
///
/// # Errors
/// It is no key, or the system has no random numbers.
pub(super) fn seal(secret: &Secret, to: &[u8]) -> Result<Sealed, String> {
    let sealer = Opener::new()?.0;
    let own = sealer.pub_key().to_vec();
    let shared = sealer.complete(to).map_err(|error| format!("no key to exchange: {error}"))?;
    let mut sealed = [0; 2 * KEY_BYTES];
    let (key, hidden) = sealed.split_at_mut(KEY_BYTES);
    key.copy_from_slice(&own);
    for (index, byte) in secret.bytes().iter().enumerate() {
        hidden[index] = *byte;
    }
    hide(hidden, shared.secret_bytes(), &own, to);
    Ok(sealed)
}

/// Adds what both sides come to, or takes it away.
fn hide(bytes: &mut [u8], shared: &[u8], sealer: &[u8], opener: &[u8]) {
    let parts = [&b"castell job secret"[..], shared, sealer, opener];
    let mask = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize();
    for (byte, mask) in bytes.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whom_it_is_sealed_to_opens_it() {
        let secret = Secret::random().expect("the system has random numbers");
        let [right, wrong] = [(); 2].map(|()| Opener::new().expect("a key"));
        let sealed = seal(&secret, right.public_key()).expect("sealed");
        assert!(!sealed.windows(8).any(|bytes| secret.bytes().windows(8).any(|own| own == bytes)));
        assert_ne!(sealed, seal(&secret, right.public_key()).expect("sealed"), "a key is used once");
        assert_ne!(wrong.open(&sealed), Some(secret.clone()));
        assert_eq!(right.open(&sealed), Some(secret.clone()));
        for garbage in [&[0; 64][..], &sealed[1..], &[]] {
            assert_eq!(Opener::new().expect("a key").open(garbage), None);
        }
        assert!(seal(&secret, &[1, 2, 3]).is_err());
    }
}
