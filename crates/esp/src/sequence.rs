//! Numbers of frames, which wrap around.

/// How far `number` is ahead of `of`; negative: behind.
pub(crate) fn ahead(number: u32, of: u32) -> i32 {
    number.wrapping_sub(of).cast_signed()
}

/// Whichever is further.
pub(crate) fn later(one: u32, other: u32) -> u32 {
    if ahead(one, other) > 0 { one } else { other }
}
