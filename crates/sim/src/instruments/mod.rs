//! Ready-made instruments: recorder, message counts, bandwidth, waiting, queue lengths. The critical path is `castell_trace::path`, of what was
//! recorded.

mod measures;
mod recorder;

pub use measures::{Bandwidth, Counts, Queues, Waits};
pub use recorder::Recorder;
