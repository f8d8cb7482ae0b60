//! What can be learned of a runtime: what happened (`record`), who waited for whom (`journal`), who waits now (`stall`), and
//! who touched what he had not declared (`watched`).

pub(crate) mod drawn;
pub mod journal;
pub mod record;
pub mod stall;
pub mod watched;
