//! Costs in whole numbers, and what proves that nothing costs less.

/// What it costs to put two jobs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// So much; an even number, so that half of a difference is a whole one.
    Of(i64),
    /// They must not be together.
    Never,
}
