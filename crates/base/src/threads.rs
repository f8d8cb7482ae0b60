//! Threads that a caller lends: pure rooms start none of their own.

/// Something to be done on one of the threads.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Threads that a caller has. Results do not depend on how many there are.
///
/// ```
/// use castell_base::{Job, Threads};
///
/// struct Two;
///
/// impl Threads for Two {
///     fn count(&self) -> usize {
///         2
///     }
///
///     fn run(&self, jobs: Vec<Job<'_>>) {
///         std::thread::scope(|scope| {
///             for job in jobs {
///                 scope.spawn(job);
///             }
///         });
///     }
/// }
/// ```
pub trait Threads: Sync {
    /// How many jobs can run at the same time; at least 1.
    fn count(&self) -> usize;

    /// Runs each of the jobs once, in any order or at the same time, and returns when all of them have ended. None waits
    /// for another one.
    fn run(&self, jobs: Vec<Job<'_>>);
}

/// The thread that asks, and no other.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnThread;

impl Threads for OwnThread {
    fn count(&self) -> usize {
        1
    }

    fn run(&self, jobs: Vec<Job<'_>>) {
        for job in jobs {
            job();
        }
    }
}
