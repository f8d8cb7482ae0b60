//! Schedules as bytes: little-endian words, magic, version, length and checksum.

use crate::schedule::{Schedule, header};

/// First word of a schedule: "CSTL".
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"CSTL");
/// Version of the format that `SCHEDULE.md` documents.
pub(crate) const VERSION: u32 = 1;

impl Schedule {
    /// The schedule as bytes, as `SCHEDULE.md` documents them; the same on every machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        let labels = self.labels();
        let text_words = labels.text.len().div_ceil(4);
        let total = 4 * (self.words().len() + 2 * labels.ids.len() + text_words);
        let mut bytes = Vec::with_capacity(total);
        for &word in self.words().iter().chain(&labels.ids).chain(&labels.ends) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(labels.text.as_bytes());
        bytes.resize(total, 0);
        put(&mut bytes, header::MAGIC, MAGIC);
        put(&mut bytes, header::VERSION, VERSION);
        put(&mut bytes, header::BYTES, total as u32);
        put(&mut bytes, header::BYTES + 1, (total as u64 >> 32) as u32);
        let checksum = crc32fast::hash(&bytes[4 * (header::CHECKSUM + 1)..]);
        put(&mut bytes, header::CHECKSUM, checksum);
        bytes
    }
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
}
