//! castell: see ARCHITECTURE.md.

/// The book's Rust examples, compiled and run with the documentation tests.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../docs/src/goal-graphs.md")]
    struct GoalGraphs;
    #[doc = include_str!("../../../docs/src/schedules.md")]
    struct Schedules;
}
