//! Counters of the kernel and the processor (`perf_event_open`): how often something happened in threads, and in all that they start.

use crate::process::Pid;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What is counted, as the kernel's header names it: a kind and a number that the kind gives a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// `PERF_TYPE_*`.
    pub kind: u32,
    /// The event within its kind.
    pub config: u64,
}

impl Event {
    /// `PERF_TYPE_HARDWARE`: what most processors count, by the kernel's own names.
    pub const fn generic(config: u64) -> Event {
        Event { kind: 0, config }
    }

    /// `PERF_TYPE_SOFTWARE`: what the kernel counts itself.
    pub const fn software(config: u64) -> Event {
        Event { kind: 1, config }
    }

    /// `PERF_TYPE_HW_CACHE`: a cache, an operation (0 read, 1 write, 2 prefetch) and a result (0 access, 1 miss).
    pub const fn cache(cache: u64, operation: u64, result: u64) -> Event {
        Event { kind: 3, config: cache | operation << 8 | result << 16 }
    }

    /// `PERF_TYPE_RAW` on x86: the number and the unit mask of the processor's manual.
    pub const fn raw(code: u64, mask: u64) -> Event {
        Event { kind: 4, config: code & 0xff | mask << 8 | (code >> 8 & 0xf) << 32 }
    }
}

/// Which thread is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// What the calling thread starts from now on, each process from its first `exec` on; the thread itself is not counted.
    Started,
    /// A thread, by its number, and all that it starts.
    Thread(Pid),
}

/// A count, and for how long it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How often it happened while it was counted.
    pub value: u64,
    /// Nanoseconds in which it was to be counted, over all threads.
    pub enabled_ns: u64,
    /// Nanoseconds in which a counter was there for it.
    pub running_ns: u64,
}

/// An event that is being counted.
#[derive(Debug)]
pub struct Counter(File);

/// Bytes of the kernel's `perf_event_attr`, version 5.
const ATTRIBUTE_BYTES: usize = 112;
/// Times are read with the count.
const READ_TIMES: u64 = 1 | 2;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;

impl Counter {
    /// Counts an event, in the program only, not in the kernel. With a leader, both are counted at the same times or not at all.
    ///
    /// # Errors
    /// The system's: ENOENT where there is no such event here, EACCES or EPERM where it may not be counted, EINVAL where it does not go
    /// with its group.
    pub fn open(event: Event, target: Target, leader: Option<&Counter>) -> io::Result<Counter> {
        let (thread, when) = match target {
            Target::Started => (0, DISABLED | ENABLE_ON_EXEC),
            Target::Thread(thread) => (thread.raw(), 0),
        };
        // The members of a group follow their leader.
        let when = if leader.is_some() && target == Target::Started { ENABLE_ON_EXEC } else { when };
        let mut attribute = [0u8; ATTRIBUTE_BYTES];
        let mut put = |at: usize, bytes: &[u8]| attribute[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &event.kind.to_ne_bytes());
        put(4, &(ATTRIBUTE_BYTES as u32).to_ne_bytes());
        put(8, &event.config.to_ne_bytes());
        put(32, &READ_TIMES.to_ne_bytes());
        // Context switches and the like happen in the kernel alone.
        let outside = if event.kind == 1 { 0 } else { EXCLUDE_KERNEL };
        put(40, &(INHERIT | outside | EXCLUDE_HYPERVISOR | when).to_ne_bytes());
        let group = leader.map_or(-1, |leader| leader.0.as_raw_fd());
        let close_on_exec: libc::c_ulong = 8;
        // SAFETY: the attribute is live and as long as it says; the call keeps nothing of it.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attribute.as_ptr(),
                thread,
                -1 as libc::c_int,
                group,
                close_on_exec,
            )
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor as i32) };
        Ok(Counter(File::from(owned)))
    }

    /// The count so far, of the thread and of all that it has started.
    ///
    /// # Errors
    /// The system's.
    pub fn read(&self) -> io::Result<Count> {
        let mut bytes = [0u8; 24];
        let read = (&self.0).read(&mut bytes)?;
        if read != bytes.len() {
            // A group that has no room in the processor at all, ever.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Ok(Count { value: word(0), enabled_ns: word(8), running_ns: word(16) })
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd as _;
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_as_the_kernel_does() {
        assert_eq!(Event::raw(0x44, 0x48).config, 0x4844);
        assert_eq!(Event::raw(0x18e, 0x1f).config, 0x1_0000_1f8e);
        assert_eq!(Event::cache(0, 0, 1).config, 0x1_0000);
    }

    /// The kernel's own events are there on every machine that has `perf_event_open`.
    #[test]
    fn faults_of_a_child_are_counted_and_ours_are_not() {
        let faults = match Counter::open(Event::software(2), Target::Started, None) {
            Ok(counter) => counter,
            Err(error) => return crate::skipped::skip("perf_event_open", &error.to_string()),
        };
        std::hint::black_box(vec![1u8; 1 << 24]);
        assert_eq!(faults.read().expect("a count").value, 0, "nothing of this process is counted");
        let status = std::process::Command::new("/bin/true").status().expect("it starts");
        assert!(status.success());
        let count = faults.read().expect("a count");
        assert!(count.value > 0 && count.running_ns == count.enabled_ns, "{count:?}");
    }
}
