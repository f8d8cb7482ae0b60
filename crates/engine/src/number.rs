//! The number by which messages name the run that they are for.
//!
//! A message carries a word: 0 for open runs; `1 … 2^31 - 1` for the pairwise number of a run, plus one; and from 2^31 on
//! for a call of a communicator: 10 bits for its context, 21 for how many calls were made in that context before.

/// Pairwise numbers are `0 … PAIRWISE - 1`, then begin again.
pub(super) const PAIRWISE: u32 = (1 << 31) - 1;
const CALL: u32 = 1 << 31;
const SEQUENCE_BITS: u32 = 21;

/// Contexts that a process can have at a time, the world's among them.
pub const CONTEXTS: u32 = 1 << (31 - SEQUENCE_BITS);

/// The word of a call.
pub(crate) fn call_word(context: u32, sequence: u32) -> u32 {
    CALL | context << SEQUENCE_BITS | sequence & ((1 << SEQUENCE_BITS) - 1)
}

/// The context that a word names, if it is a call's.
#[inline]
pub(super) fn context_of(word: u32) -> Option<u32> {
    (word & CALL != 0).then_some((word & !CALL) >> SEQUENCE_BITS)
}

/// The bits of a call's sequence number that its word has.
pub(super) const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

/// The sequence number that a call's word names, as far as it does.
pub(super) fn sequence_of(word: u32) -> u32 {
    word & SEQUENCE_MASK as u32
}

/// The pairwise number behind this one.
#[inline]
pub(super) fn after(number: u32) -> u32 {
    if number + 1 == PAIRWISE { 0 } else { number + 1 }
}

/// Whether the pairwise number has not been given out yet where `next` is the next one: numbers go round, and later ones
/// are those less than half the way ahead.
pub(super) fn is_pairwise_ahead(number: u32, next: u32) -> bool {
    let distance = (u64::from(number) + u64::from(PAIRWISE) - u64::from(next)) % u64::from(PAIRWISE);
    distance < u64::from(PAIRWISE / 2)
}

/// So many calls the word of a call may be ahead: later ones look as if they were over.
pub const CALLS_AHEAD: u32 = 1 << (SEQUENCE_BITS - 1);

/// The same for the word of a call, where the next call in its context has this sequence number.
pub(super) fn is_call_ahead(word: u32, next: u32) -> bool {
    let distance = word.wrapping_sub(next) & ((1 << SEQUENCE_BITS) - 1);
    distance < CALLS_AHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_round() {
        assert_eq!(after(PAIRWISE - 1), 0);
        assert!(is_pairwise_ahead(0, PAIRWISE - 1) && is_pairwise_ahead(5, 5));
        assert!(!is_pairwise_ahead(PAIRWISE - 1, 0) && !is_pairwise_ahead(4, 5));
        let last = (1 << SEQUENCE_BITS) - 1;
        assert!(is_call_ahead(call_word(7, 0), last) && is_call_ahead(call_word(7, last), last));
        assert!(!is_call_ahead(call_word(7, last), last + 1) && !is_call_ahead(call_word(0, 3), 4));
    }

    #[test]
    fn words_of_calls_are_no_pairwise_numbers() {
        assert_eq!(context_of(PAIRWISE), None);
        assert_eq!(context_of(call_word(0, 0)), Some(0));
        assert_eq!(context_of(call_word(CONTEXTS - 1, u32::MAX)), Some(CONTEXTS - 1));
    }
}
