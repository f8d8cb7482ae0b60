//! Ready-made instruments: recorder, message counts, bandwidth, waiting, queue lengths, critical path.

mod measures;
mod path;
mod recorder;

pub use measures::{Bandwidth, Counts, Queues, Waits};
pub use path::{CriticalPath, Step};
pub use recorder::Recorder;
