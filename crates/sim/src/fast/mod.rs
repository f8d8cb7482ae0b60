//! The fast engines: programs of sends, receives and calcs on machines of the LogGOPS family, of PLB and of LB.
//!
//! They give exactly the results of the reference engine, tests say so, and know nothing else: whatever a program or a
//! machine has beyond that, and whatever is wrong with a program, they decline, and the reference engine takes over.
//! [`Flat`] is the program as flat arrays; it can be run any number of times. `exact` is the sequential engine, `queue` its
//! events, `slot` what is kept for each operation that waits for something; `windows` is the engine for several threads.

mod cost;
mod encode;
mod exact;
mod flat;
mod queue;
mod slot;
mod windows;

pub use exact::Finished;
pub use flat::{Declined, Flat};
