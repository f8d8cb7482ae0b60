//! What a rank noted, as bytes: how many rows found no room, its names behind their numbers and lengths, and its rows.

use castell_host::journal::{Noted, ROW_WORDS, Row};
use std::collections::HashMap;

/// As it travels, in pieces.
pub(super) fn to_bytes(noted: &Noted) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + noted.rows.len() * ROW_WORDS * 8);
    bytes.extend_from_slice(&noted.dropped.to_le_bytes());
    bytes.extend_from_slice(&(noted.names.len() as u32).to_le_bytes());
    for (number, name) in &noted.names {
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
    }
    noted.rows.iter().flatten().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    bytes
}

/// Reads what [`to_bytes`] wrote, all of it; `None`: it is something else, or ends too soon.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<Noted> {
    let (dropped, rest) = bytes.split_first_chunk::<8>()?;
    let (count, mut rest) = number(rest)?;
    let mut names = HashMap::new();
    for _ in 0..count {
        let (at, behind) = number(rest)?;
        let (length, behind) = number(behind)?;
        let (name, behind) = behind.split_at_checked(length as usize)?;
        names.insert(at, String::from_utf8(name.to_vec()).ok()?);
        rest = behind;
    }
    let (words, behind) = rest.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (rows, left) = words.as_chunks::<ROW_WORDS>();
    let rows: Vec<Row> = rows.to_vec();
    let fits = behind.is_empty() && left.is_empty();
    fits.then(|| Noted { rows, names, dropped: u64::from_le_bytes(*dropped) })
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (bytes, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*bytes), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read() {
        let names = HashMap::from([(1, "forces".to_owned()), (9, "Ü".to_owned()), (12, String::new())]);
        let noted = Noted { rows: vec![[1; ROW_WORDS], [u64::MAX; ROW_WORDS]], names, dropped: 3 };
        let bytes = to_bytes(&noted);
        assert_eq!(from_bytes(&bytes).as_ref(), Some(&noted));
        let empty = to_bytes(&Noted::default());
        assert_eq!(from_bytes(&empty), Some(Noted::default()));
        // Whole rows may be missing, which nobody can see: the one who sends them says when they are through.
        let rows_at = bytes.len() - 2 * ROW_WORDS * 8;
        let cut = (0..bytes.len())
            .filter(|length| *length < rows_at || !(length - rows_at).is_multiple_of(ROW_WORDS * 8));
        for length in cut {
            assert_eq!(from_bytes(&bytes[..length]), None, "{length}");
        }
    }
}
