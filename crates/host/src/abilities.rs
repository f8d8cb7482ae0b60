//! What this kernel lets a process do, found by trying it.

use crate::memory::{self, CopyError};
use crate::perf::{Counter, Event, Target};
use crate::process::{self, Pid};
use crate::shm::Segment;
use std::io;

/// Something that castell or its tests can make use of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// A short name.
    pub name: &'static str,
    /// What it is good for here.
    pub purpose: &'static str,
    /// Why it is not there; `None` where it is.
    pub missing: Option<String>,
}

/// Tries one; the error says why it is not there.
type Attempt = fn() -> Result<(), String>;

/// Tries all of them. Nothing of it outlives the call.
pub fn all() -> Vec<Ability> {
    let tried: [(&str, &str, Attempt); 8] = [
        ("memfd", "memory that the ranks of a job share", shared_memory),
        ("copies-between-processes", "large messages are copied once (process_vm_readv)", copies),
        ("membarrier", "a rank that goes to sleep pays for the order, not the one that sends", membarrier),
        ("hardware-counters", "castell profile by counters (perf_event_open)", hardware_counters),
        ("software-counters", "context switches and faults (perf_event_open)", software_counters),
        ("protection-keys", "debugging tasks: who touches memory without saying so", protection_keys),
        ("namespaces", "several hosts on this one, with networks of their own", namespaces),
        ("xdp-sockets", "messages past the kernel's network stack (AF_XDP)", xdp_sockets),
    ];
    tried.map(|(name, purpose, attempt)| Ability { name, purpose, missing: attempt().err() }).into()
}

fn shared_memory() -> Result<(), String> {
    Segment::create("castell-info", 4096).map(drop).map_err(|error| error.to_string())
}

/// As ranks do it: out of a process that permits it and is no ancestor.
fn copies() -> Result<(), String> {
    let data = [7u8; 64];
    let address = data.as_ptr() as usize;
    let parent = Pid::current();
    memory::permit_peers();
    // SAFETY: the child reads memory of its parent, and ends; it takes no lock and allocates nothing.
    let child = unsafe {
        process::fork(move || {
            let mut copy = [0u8; 64];
            match memory::read(parent, address, &mut copy) {
                Ok(()) => 0,
                Err(CopyError::Forbidden { .. }) => 1,
                Err(_) => 2,
            }
        })
    };
    match child.and_then(|child| child.wait()).map(process::Ended::code) {
        Ok(0) => Ok(()),
        Ok(1) => Err("the kernel forbids it (a seccomp filter, or kernel.yama.ptrace_scope)".into()),
        Ok(code) => Err(format!("a trial ended with {code}")),
        Err(error) => Err(error.to_string()),
    }
}

fn membarrier() -> Result<(), String> {
    if crate::barrier::prepare() { Ok(()) } else { Err("the kernel does not know it".into()) }
}

fn hardware_counters() -> Result<(), String> {
    // Event 0 of the generic ones is processor cycles.
    Counter::open(Event::generic(0), Target::Started, None).map(drop).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP) => {
                "the processor shows none (usual in virtual machines)".into()
            }
            _ => not_permitted(&error),
        }
    })
}

fn software_counters() -> Result<(), String> {
    // Event 2 of the software ones is page faults.
    let opened = Counter::open(Event::software(2), Target::Started, None);
    opened.map(drop).map_err(|error| not_permitted(&error))
}

fn not_permitted(error: &io::Error) -> String {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match level.trim() {
        "" => error.to_string(),
        level => format!("{error} (kernel.perf_event_paranoid is {level})"),
    }
}

fn protection_keys() -> Result<(), String> {
    // SAFETY: asks for a key with all rights for the calling thread, and gives it back.
    let given = unsafe {
        let key = libc::syscall(libc::SYS_pkey_alloc, 0_usize, 0_usize);
        key >= 0 && libc::syscall(libc::SYS_pkey_free, key) == 0
    };
    if given { Ok(()) } else { Err("the processor or the kernel has none".into()) }
}

/// A network namespace, with one of users around it where this user is not root.
fn namespaces() -> Result<(), String> {
    // SAFETY: no arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    let users = if is_root { 0 } else { libc::CLONE_NEWUSER };
    // SAFETY: the child makes one system call and ends.
    let child = unsafe {
        process::fork(move || match libc::unshare(libc::CLONE_NEWNET | users) {
            0 => 0,
            _ => io::Error::last_os_error().raw_os_error().unwrap_or(1),
        })
    };
    match child.and_then(|child| child.wait()).map(process::Ended::code) {
        Ok(0) => Ok(()),
        Ok(code) => Err(io::Error::from_raw_os_error(code).to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn xdp_sockets() -> Result<(), String> {
    use std::os::fd::{FromRawFd as _, OwnedFd};
    // SAFETY: integers only.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error().to_string());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(socket) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_tried_and_refusals_have_reasons() {
        let all = all();
        assert_eq!(all.len(), 8);
        for ability in &all {
            assert!(ability.missing.as_deref() != Some(""), "{ability:?}");
        }
        // Without it no test of castell's would run.
        assert_eq!(all[0].missing, None);
        assert_eq!(all, super::all(), "a trial leaves nothing behind");
    }
}
