//! Bodies that wait: for tasks (`wait`), for room to create more (`room`), for others' calls (`pause`, `suspend`), and the
//! services that look for what tasks wait for outside (`services`).

pub mod pause;
pub(crate) mod room;
pub mod services;
pub(crate) mod suspend;
pub(crate) mod wait;
pub(crate) mod yielding;
