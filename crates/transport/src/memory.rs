//! One-sided access: memory that a rank exports, by which key others name it, how operations end.

use castell_base::Rank;

/// Names memory that a rank has exported, for whoever gets it in a message. What is in `cookie` only the transport that made
/// the key understands; a key that was withdrawn, or that nobody made, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteKey {
    /// Whose memory it is.
    pub owner: Rank,
    /// Its length.
    pub bytes: u64,
    /// The transport's own.
    pub cookie: [u64; 2],
}

impl RemoteKey {
    /// Bytes of a key in a message.
    pub const BYTES: usize = 32;

    /// As it travels, little-endian.
    pub fn to_bytes(self) -> [u8; RemoteKey::BYTES] {
        let words = [u64::from(self.owner.0), self.bytes, self.cookie[0], self.cookie[1]];
        let mut bytes = [0; RemoteKey::BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`RemoteKey::to_bytes`] wrote. Nothing is trusted: the transport checks a key when it is used.
    pub fn from_bytes(bytes: [u8; RemoteKey::BYTES]) -> RemoteKey {
        let word = |at: usize| u64::from_le_bytes(bytes[at * 8..][..8].try_into().expect("eight bytes"));
        RemoteKey { owner: Rank(word(0) as u32), bytes: word(1), cookie: [word(2), word(3)] }
    }
}

/// The caller's name for an operation that goes on; handed back when it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// Why a one-sided operation did not take place. Nothing was written then, except where only `Down` ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Too much is under way: poll, then try again.
    #[error("too many operations are under way; poll, and try again")]
    Full,
    /// The path is down.
    #[error("the path is down")]
    Down,
    /// This transport does not do that, as its limits say, or not as much at a time.
    #[error("the transport does not do that: ask its limits first")]
    Unsupported,
    /// Outside the exported memory.
    #[error("outside the memory that the key names")]
    OutOfBounds,
    /// A word that is not aligned to its size.
    #[error("an atomic operation on a word that is not aligned to 8 bytes")]
    Misaligned,
    /// The key was withdrawn, or nobody made it.
    #[error("the key names no memory, or none any more")]
    Stale,
    /// The system does not let this process into the other's memory.
    #[error("the system forbids access to the other process's memory")]
    Forbidden,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_travel_in_bytes() {
        let key = RemoteKey { owner: Rank(7), bytes: 1 << 40, cookie: [u64::MAX, 3] };
        assert_eq!(RemoteKey::from_bytes(key.to_bytes()), key);
    }
}
