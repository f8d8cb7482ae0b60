//! The fast engine: programs of sends, receives and calcs on machines of the LogGOPS family.
//!
//! It gives exactly the results of the reference engine, tests say so, and knows nothing else: whatever a program or a
//! machine has beyond that, and whatever is wrong with a program, it declines, and the reference engine takes over.
//! [`Flat`] is the program as flat arrays; it can be run any number of times. `exact` is the engine, `queue` its
//! events, `slot` what it keeps for each operation that waits for something.

mod cost;
mod encode;
mod exact;
mod flat;
mod queue;
mod slot;

pub use exact::Finished;
pub use flat::{Declined, Flat};
