//! Which kernel of a collection runs when, and on which resource of a node (after VarySched: D. Feld, E. Schricker, T. Soddemann,
//! "The Impact of Scheduling Strategies on Co-Scheduled Applications on Heterogeneous Nodes", COSH 2016).
//!
//! An application brings a *kernel collection* for a computation: a kernel for each kind of resource that it has code for, and
//! rankings of them. A [`Node`] has the queues and what runs; a [`Strategy`] chooses; a [`Keeper`] asks the strategy, carries out what
//! it says on the node's books, and goes on with the last good strategy where one fails; [`own`] has an application decide about its own
//! collections, in front of that. `castell_luau` makes strategies of scripts, [`simulate`] runs collections in virtual time, [`check`] tries
//! a strategy out.
//!
//! This room starts nothing and reads no clock: times are arguments, and the same calls give the same decisions in a simulator and
//! in a daemon. Start at [`Node`].
#![forbid(unsafe_code)]

pub mod applications;
pub mod check;
mod collection;
pub mod difference;
mod input;
mod keeper;
mod node;
pub mod own;
pub mod simulate;

pub use collection::{Collection, CollectionId, Kernel, Kernels, KernelsError, Place, Ranking};
pub use input::Input;
pub use keeper::{During, Event, Fault, FirstFit, Happened, Keeper, Strategy};
pub use node::{Decision, Ended, Node, NodeError, Refusal, Resource, ResourceId, ResourceKind, Start};
