//! Strategies as Luau scripts, and those that come with castell ([`shipped`]).
//!
//! A script returns a table: `choose(node)` gives one decision (a collection and a resource) or nothing for now; `tick` is an interval
//! in seconds for `on_tick(node)`; `parameters` can be set from outside. `castell.d.luau` has the types of all that a script sees.
//! [`sandbox`] bounds what it can do and use up, `mirror` shows it the node.
//!
//! A crate of its own, since programs that only keep a node's books (`castell_strategy`) do without an interpreter. Start at [`Script`].
#![forbid(unsafe_code)]

mod mirror;
pub mod sandbox;
mod script;
mod seen;
pub mod shipped;

pub use script::{DEFINITIONS, Parameter, Script};
