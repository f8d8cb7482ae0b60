//! Counters on threads: of a program that is started, or of processes that run already.

use castell_host::perf::{Counter, Event, Target};
use castell_host::process::Pid;
use std::collections::BTreeSet;
use std::io;

/// How often new threads are looked for before it is enough.
const LOOKS: usize = 10;

/// The same events, counted in some threads and in all that those start.
#[derive(Debug)]
pub struct Counted {
    /// Events that are counted at the same times.
    groups: Vec<Vec<Event>>,
    /// A set of counters a thread; of a command that is started there is one.
    sets: Vec<Vec<Counter>>,
    threads: BTreeSet<i32>,
}

impl Counted {
    /// Nothing is counted yet.
    pub fn new(groups: Vec<Vec<Event>>) -> Counted {
        Counted { groups, sets: Vec::new(), threads: BTreeSet::new() }
    }

    /// Counts in one more thread, or in what this thread starts.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&mut self, target: Target) -> io::Result<()> {
        let mut set: Vec<Counter> = Vec::new();
        for group in &self.groups {
            let leader = set.len();
            for event in group {
                let counter = Counter::open(*event, target, set.get(leader))?;
                set.push(counter);
            }
        }
        self.sets.push(set);
        Ok(())
    }

    /// Counts in each thread of a process and of its children that is not counted yet. Those that they start meanwhile are found by looking
    /// again.
    ///
    /// # Errors
    /// The system's, but for threads that end meanwhile.
    pub fn attach(&mut self, pid: Pid) -> io::Result<()> {
        castell_host::process::raise_open_files_limit();
        for _ in 0..LOOKS {
            let mut is_new = false;
            for thread in threads_of(pid) {
                let Some(target) = Pid::from_raw(thread).filter(|_| self.threads.insert(thread)) else {
                    continue;
                };
                is_new = true;
                match self.open(Target::Thread(target)) {
                    Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
                    _ => {}
                }
            }
            if !is_new {
                break;
            }
        }
        Ok(())
    }

    /// Whether nothing is counted.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Of each event, group by group: its count in all threads, and nanoseconds in which it was to be counted, and was. A counter that cannot
    /// be read counts as one that never ran.
    pub fn read(&self) -> Vec<[u64; 3]> {
        let mut counts = vec![[0u64; 3]; self.groups.iter().map(Vec::len).sum()];
        for set in &self.sets {
            for (sum, counter) in counts.iter_mut().zip(set) {
                let count = counter.read().unwrap_or_default();
                for (sum, more) in sum.iter_mut().zip([count.value, count.enabled_ns, count.running_ns]) {
                    *sum += more;
                }
            }
        }
        counts
    }
}

/// The threads of a process and of all processes below it, as far as they are there.
fn threads_of(pid: Pid) -> Vec<i32> {
    let mut threads = Vec::new();
    let mut processes = vec![pid.raw()];
    while let Some(process) = processes.pop() {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/task")) else { continue };
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for thread in numbers {
            threads.push(thread);
            let children = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/children"));
            processes.extend(
                children
                    .unwrap_or_default()
                    .split_ascii_whitespace()
                    .filter_map(|text| text.parse::<i32>().ok()),
            );
        }
    }
    threads
}
