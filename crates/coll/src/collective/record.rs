//! What all ranks of a communicator must agree on in a call, as words in shared memory and in words for people.

use super::{DataType, Operation, operator::operator_name};
use castell_engine::board::Record;

const NAME_BYTES: usize = 24;

/// A call in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    /// Which operation: a name, known to the reader by its number.
    pub(crate) operation: u8,
    /// Which operator, by number; 0: none.
    pub(crate) operator: u8,
    /// Which type of elements, by number; 0: bytes.
    pub(crate) element: u8,
    /// The root, of operations that have one.
    pub(crate) root: Option<u32>,
    /// Elements of a vector or of each block, where all ranks must agree on it.
    pub(crate) count: u64,
    /// Size of an element.
    pub(crate) element_bytes: u64,
    /// Whether the caller goes on meanwhile.
    pub(crate) is_started: bool,
    /// The algorithm.
    pub(crate) algorithm: &'a str,
}

/// Notes a call.
pub(crate) fn note(parts: &Parts<'_>) -> Record {
    let mut name = [0; NAME_BYTES];
    // The operation is there already.
    let algorithm = parts.algorithm.split_once(':').map_or(parts.algorithm, |(_, algorithm)| algorithm);
    let kept = algorithm.len().min(NAME_BYTES);
    name[..kept].copy_from_slice(&algorithm.as_bytes()[..kept]);
    let [a, b, c] = [0, 8, 16].map(|at| u64::from_le_bytes(name[at..at + 8].try_into().expect("8 bytes")));
    let kind = u64::from(parts.operation)
        | u64::from(parts.operator) << 8
        | u64::from(parts.element) << 16
        | u64::from(parts.is_started) << 24
        | u64::from(parts.root.map_or(0, |root| root.wrapping_add(1))) << 32;
    let mut signature = 0xcbf2_9ce4_8422_2325;
    for word in [kind, parts.count, parts.element_bytes] {
        signature = mix(signature, word);
    }
    for byte in parts.algorithm.bytes() {
        signature = mix(signature, u64::from(byte));
    }
    Record::from_words([kind, parts.count, parts.element_bytes, a, b, c, signature])
}

fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Says in words what was called.
pub(crate) fn describe(record: &Record) -> String {
    let [kind, count, element_bytes, name @ .., _] = *record.words();
    let operation = Operation::ALL.get(kind as u8 as usize).map_or("?", |found| found.name());
    let started = if kind >> 24 & 1 == 1 { "non-blocking " } else { "" };
    let mut text = format!("{started}{operation}");
    if count > 0 {
        text += &match DataType::from_code((kind >> 16) as u8).map(DataType::name) {
            Some(name) => format!(" of {count} {name}"),
            None => format!(" of {} bytes", count * element_bytes),
        };
    }
    if let Some(operator) = operator_name((kind >> 8) as u8) {
        text += &format!(" by {operator}");
    }
    if kind >> 32 > 0 {
        text += &format!(", root {}", (kind >> 32) - 1);
    }
    let name: Vec<u8> = name.iter().flat_map(|word| word.to_le_bytes()).collect();
    match String::from_utf8_lossy(&name).trim_end_matches('\0') {
        "" => text,
        name => text + &format!(" ({name})"),
    }
}
