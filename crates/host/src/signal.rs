//! Signals as something to wait for, next to processes and pipes.

use crate::HostError;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::{mem, ptr};

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether the kernel sent it (a key press on the terminal, a hang-up), so that the whole process group has it
    /// already, rather than another process sent it to this one.
    pub from_kernel: bool,
}

/// Signals of a chosen set, read from a descriptor instead of interrupting.
///
/// While it lives, the set is blocked in the thread that made it and in threads started later; make it before any
/// other thread starts. Afterwards the thread's mask is as before.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes over `signals`.
    pub fn take_over(signals: &[i32]) -> Result<Signals, HostError> {
        // SAFETY: sigset_t is plain data, filled by sigemptyset and sigaddset; the calls get live pointers.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&mut set);
            for &signal in signals {
                libc::sigaddset(&mut set, signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) != 0 {
                return Err(HostError::last("block signals"));
            }
            let raw = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if raw < 0 {
                let error = HostError::last("wait for signals");
                libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
                return Err(error);
            }
            Ok(Signals { descriptor: OwnedFd::from_raw_fd(raw), before })
        }
    }

    /// The next signal that has arrived, if any. Never blocks.
    pub fn next(&self) -> Option<Arrived> {
        // SAFETY: plain data, filled by the kernel.
        let mut information: libc::signalfd_siginfo = unsafe { mem::zeroed() };
        let bytes = mem::size_of_val(&information);
        let target = ptr::from_mut(&mut information).cast();
        // SAFETY: `information` is live and `bytes` long.
        let count = unsafe { libc::read(self.descriptor.as_raw_fd(), target, bytes) };
        let arrived = Arrived {
            signal: information.ssi_signo as i32,
            from_kernel: information.ssi_code == libc::SI_KERNEL,
        };
        (count == bytes as isize).then_some(arrived)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: `before` was filled when this was made.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

/// Makes files that would grow beyond the limit on their size (`ulimit -f`) errors, instead of ends of the process.
pub fn ignore_file_size_limit() {
    // SAFETY: two integers; the call touches no memory of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Unblocks all signals and gives the usual ones their default action: a child must not start with what its launcher
/// had set up for itself. Only system calls.
pub fn restore_defaults() {
    // SAFETY: plain data and integers; these calls may run between fork and exec.
    unsafe {
        let usual = [libc::SIGPIPE, libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGCHLD];
        for signal in usual.into_iter().chain([libc::SIGXFSZ]) {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

/// Lets a command start with what [`restore_defaults`] sets: a child inherits blocked signals otherwise.
pub fn restore_defaults_in(command: &mut std::process::Command) {
    // SAFETY: only system calls run between fork and exec.
    unsafe {
        command.pre_exec(|| {
            restore_defaults();
            Ok(())
        });
    }
}

/// A signal's name, such as `SIGKILL`.
pub fn name(signal: i32) -> String {
    let name = match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL (illegal instruction)",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT (abort)",
        libc::SIGBUS => "SIGBUS (bus error)",
        libc::SIGFPE => "SIGFPE (arithmetic error)",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV (segmentation fault)",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE (broken pipe)",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU (processor time limit)",
        libc::SIGSYS => "SIGSYS (forbidden system call)",
        _ => return format!("signal {signal}"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_and_the_mask_restored() {
        // In a child, since the mask belongs to a thread but a process-wide signal may go to any thread.
        // SAFETY: the child makes system calls and small allocations; the test's other threads hold no lock for long.
        let child = unsafe {
            crate::process::fork(|| {
                let signals = Signals::take_over(&[libc::SIGTERM, libc::SIGUSR1]).expect("take over");
                assert_eq!(signals.next(), None);
                libc::raise(libc::SIGTERM);
                crate::descriptor::wait_readable(&[signals.as_fd()], 10_000).expect("wait");
                let arrived = signals.next().expect("a signal");
                assert_eq!(arrived, Arrived { signal: libc::SIGTERM, from_kernel: false });
                drop(signals);
                libc::raise(libc::SIGUSR1);
                0
            })
        }
        .expect("fork");
        assert_eq!(child.wait().expect("wait"), crate::process::Ended::Killed(libc::SIGUSR1));
    }

    #[test]
    fn names() {
        assert_eq!(name(9), "SIGKILL");
        assert_eq!(name(40), "signal 40");
    }
}
