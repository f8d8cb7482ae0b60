//! What tasks declare about memory and what follows from it: which task must wait for which.
//!
//! This room holds the parts that need no threads: the kinds of access ([`access`]), regions of bytes ([`region`]), the
//! automaton of one access as a transition function ([`automaton`], drawn in `automaton.md` beside it), the map from
//! regions to what touched them last ([`region_map`]) and who of the commutative tasks is on ([`exclusion`]). The [`oracle`] says by definition what they must come to. It does no I/O, reads no clock, has no `unsafe`, and runs nothing:
//! whoever executes tasks, on threads or in virtual time, carries out the effects that the automaton asks for.
//! Start at [`access`], then read `automaton.md`.
#![forbid(unsafe_code)]

pub mod access;
pub mod automaton;
pub mod exclusion;
pub mod oracle;
pub mod region;
pub mod region_map;

pub use access::{Access, AccessError, Kind, ReductionId};
pub use automaton::{Aside, Effects, Message, Permits, State, Stepped, Tokens};
pub use exclusion::Exclusion;
pub use region::{Region, Strided};
pub use region_map::RegionMap;
