//! Ready-made instruments: recorder, message counts, bandwidth, waiting, queue lengths, loads of links. The critical path is `castell_trace::path`, of what was
//! recorded.

mod links;
mod measures;
mod recorder;

pub use links::{LinkLoad, Links};
pub use measures::{Bandwidth, Counts, Queues, Waits};
pub use recorder::Recorder;
