//! Wakes who sleeps on something else than a descriptor.

use crate::epoll;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::thread::JoinHandle;

const NEWS: u64 = 0;
const END: u64 = 1;

/// A thread that sleeps on a descriptor and calls a function when that is readable, once each time that it is armed. For those whose other
/// threads sleep on a word of memory.
pub struct Watcher {
    outer: Arc<OwnedFd>,
    inner: Arc<OwnedFd>,
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// One that calls `wake`.
    ///
    /// # Errors
    /// The system has no file or thread left.
    pub fn new(inner: &Arc<OwnedFd>, wake: impl Fn() + Send + 'static) -> std::io::Result<Watcher> {
        let outer = Arc::new(epoll::epoll()?);
        let inner = Arc::clone(inner);
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::watch(&outer, &end, END, false)?;
        epoll::watch_once(&outer, &inner, NEWS, true)?;
        let watched = Arc::clone(&outer);
        let watch = move || {
            loop {
                match epoll::next(&watched) {
                    Ok(NEWS) => wake(),
                    Err(Errno::INTR) => {}
                    Ok(_) | Err(_) => return,
                }
            }
        };
        let thread = std::thread::Builder::new().name("castell-network".into()).spawn(watch)?;
        Ok(Watcher { outer, inner, end, thread: Some(thread) })
    }

    /// From here on the function is called when the descriptor is readable, at once if it is already.
    pub fn arm(&self) {
        // It was added when the watcher was made, and both live as long as that.
        let _ = epoll::watch_once(&self.outer, &self.inner, NEWS, false);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
