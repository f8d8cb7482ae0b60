//! A kernel that runs until it is told to end.

use castell_kernels::{Collection, KernelsError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

/// One that was asked for.
pub struct Held {
    /// Hears when it runs.
    pub has_begun: Receiver<()>,
    /// Ends it.
    pub end: Sender<()>,
    /// Whoever asked for it.
    pub runs: JoinHandle<Result<(), KernelsError>>,
}

/// Runs a step of a collection, from a thread of its own.
pub fn held(collection: Collection) -> Held {
    let (begun, has_begun) = channel();
    let (end, ends) = channel::<()>();
    let runs = thread::spawn(move || {
        collection.run(1, |_| {
            begun.send(()).expect("it is waited for");
            let _ = ends.recv();
        })
    });
    Held { has_begun, end, runs }
}
