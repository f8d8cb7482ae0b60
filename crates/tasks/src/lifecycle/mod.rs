//! A task from its creation to its end, and what the threads that see to it share.
//!
//! `task` is the record, `execute` what happens to it in order, `children` and `group` how its parent hears of its end, `ancestry`
//! whether it descends from another one;
//! `current` is the calling thread, `shared` what all threads of a runtime have in common.

#[cfg(not(loom))]
mod ancestry;
pub(crate) mod assembly;
#[cfg(not(loom))]
pub(crate) mod awaited;
pub(crate) mod children;
#[cfg(not(loom))]
pub mod counts;
#[cfg(not(loom))]
pub(crate) mod current;
pub(crate) mod events;
#[cfg(not(loom))]
pub(crate) mod execute;
#[cfg(not(loom))]
pub mod extras;
#[cfg(not(loom))]
pub(crate) mod forked;
#[cfg(not(loom))]
pub(crate) mod grants;
#[cfg(not(loom))]
pub(crate) mod group;
#[cfg(not(loom))]
pub(crate) mod places;
#[cfg(not(loom))]
pub(crate) mod shared;
#[cfg(not(loom))]
pub mod task;
#[cfg(not(loom))]
pub(crate) mod versions;
