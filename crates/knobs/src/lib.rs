//! Settings of integer knobs, searched by measuring: which of them matter, and which are best.
//!
//! What this room does: it says what is measured next ([`random`], [`genetic`], [`cross_entropy`]) and what the measurements
//! say ([`Effects`]: a linear model; [`Boxes`]: quartiles). What it refuses to do: it measures nothing and sets nothing; who
//! calls it does, and gives the seed of all random numbers.
//!
//! The method is that of chapter 6.2 of "Group Operation Assembly Language" (ESPGOAL, 2011): random settings, a linear model, a genetic
//! search. [`cross_entropy`] needs fewer measurements than the last, and stands noise and flat regions as well.
//!
//! Start at [`Knob`] and [`Space`].

#![forbid(unsafe_code)]

mod boxes;
mod effects;
mod search;
mod space;

pub use boxes::{Boxes, Quartiles};
pub use effects::{Effect, Effects};
pub use search::{CrossEntropy, Ended, Genetic, Goal, cross_entropy, genetic, random};
pub use space::{Knob, KnobError, Setting, Space};
