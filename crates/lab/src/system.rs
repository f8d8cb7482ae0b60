//! What a lab asks of the kernel: namespaces and mounts.

use castell_host::signal;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn unshare(flags: i32) -> io::Result<()> {
    // SAFETY: unshare with an integer.
    check(unsafe { libc::unshare(flags) })
}

fn path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Leaves the machine's network, mounts and, where that needs no right, its users: this process is alone in new ones afterwards.
pub(crate) fn isolate() -> io::Result<()> {
    let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWNET;
    if unshare(namespaces).is_err() {
        // SAFETY: no arguments.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        unshare(libc::CLONE_NEWUSER | namespaces)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    }
    // What is mounted from here on, nobody outside sees.
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE)
}

/// Starts a command as the first process of new namespaces of all kinds that a host has; its clocks since boot are ahead by so much. It is
/// killed when this process ends. The child is a process between the two, outside of the host's processes and inside all its other
/// namespaces, which ends with it.
pub(crate) fn spawn_isolated(command: &mut Command, clock_offset_s: i64) -> io::Result<Child> {
    let offsets = CString::new(format!("monotonic {clock_offset_s} 0\nboottime {clock_offset_s} 0\n"))?;
    // SAFETY: only system calls run between fork and exec.
    unsafe { command.pre_exec(move || isolate_host(&offsets)) };
    command.spawn()
}

/// In the child: returns in its own child, the host's first process.
fn isolate_host(clock_offsets: &CStr) -> io::Result<()> {
    signal::restore_defaults();
    // SAFETY: prctl with integers.
    let dies_with_parent = || check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) });
    dies_with_parent()?;
    let others = libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC;
    unshare(others | libc::CLONE_NEWPID | libc::CLONE_NEWTIME)?;
    let (file, text) = (c"/proc/self/timens_offsets", clock_offsets.to_bytes());
    // SAFETY: strings that live as long as the calls, and a descriptor of this function's own.
    let written = unsafe {
        let file = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(file)?;
        libc::write(file, text.as_ptr().cast(), text.len())
    };
    if written != text.len() as isize {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: this process has one thread, as it was forked; both sides go on with system calls only.
    match unsafe { libc::fork() } {
        0 => dies_with_parent(),
        -1 => Err(io::Error::last_os_error()),
        host => end_with(host),
    }
}

/// Ends when that child does.
fn end_with(child: i32) -> ! {
    let mut status = 0;
    // SAFETY: integers, and `status` is live. What is closed is this process's own: it never returns to who opened it.
    unsafe {
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        while libc::waitpid(child, &mut status, 0) < 0 && *libc::__errno_location() == libc::EINTR {}
        libc::_exit(1)
    }
}

pub(crate) fn set_host_name(name: &str) -> io::Result<()> {
    // SAFETY: so many bytes, which the call reads.
    check(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) })
}

fn mount(source: Option<&Path>, target: &Path, kind: Option<&str>, flags: libc::c_ulong) -> io::Result<()> {
    let source = path(source.unwrap_or(Path::new("none")))?;
    let target = path(target)?;
    let kind = kind.map(|kind| CString::new(kind).expect("no zero in it"));
    let kind = kind.as_ref().map_or(std::ptr::null(), |kind| kind.as_ptr());
    // SAFETY: strings that live as long as the call.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, std::ptr::null()) })
}

/// Mounts an empty file system in memory.
pub(crate) fn mount_tmpfs(target: &Path) -> io::Result<()> {
    mount(None, target, Some("tmpfs"), libc::MS_NOSUID | libc::MS_NODEV)
}

/// Mounts what shows the processes of this namespace.
pub(crate) fn mount_proc(target: &Path) -> io::Result<()> {
    mount(None, target, Some("proc"), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
}

/// Lets what lies at `source` be seen at `target`, too.
pub(crate) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    mount(Some(source), target, None, libc::MS_BIND | libc::MS_REC)
}

/// Takes notice of one child that has ended, if any has: its number and status.
pub(crate) fn reap() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` is live.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    (pid > 0).then_some((pid, status))
}

/// Sends a signal to a process, or to its group where the number is negative. Whoever is gone is gone.
pub(crate) fn kill(pid: i32, signal: i32) {
    // SAFETY: kill with integers.
    let _ = unsafe { libc::kill(pid, signal) };
}
