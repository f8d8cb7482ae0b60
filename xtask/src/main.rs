//! Housekeeping commands.
fn main() {}
