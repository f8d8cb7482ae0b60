//! Domains: namespaces in which some of this process's children live apart from all others.
//!
//! A domain lasts as long as its first process, which does nothing but take notice of what ends around it. Nothing of it has a name,
//! so nothing can be left over: where the process that made a domain ends, however that may be, the kernel ends the first process, and
//! with it all that live in the domain's process namespace.

use crate::process::{Pid, Process};
use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::{fs, ptr};

/// What a domain has of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Users and their rights.
    pub user: bool,
    /// Processes and their numbers.
    pub pid: bool,
    /// System V shared memory, message queues.
    pub ipc: bool,
    /// Mounts: an empty `/dev/shm` and, where it has processes of its own, a `/proc` that shows these only.
    pub mount: bool,
    /// Network interfaces, ports and abstract sockets; only a loopback interface is there.
    pub net: bool,
}

impl Kinds {
    fn flags(self) -> i32 {
        let kinds = [
            (self.user, libc::CLONE_NEWUSER),
            (self.pid, libc::CLONE_NEWPID),
            (self.ipc, libc::CLONE_NEWIPC),
            (self.mount, libc::CLONE_NEWNS),
            (self.net, libc::CLONE_NEWNET),
        ];
        kinds.iter().filter(|(is_own, _)| *is_own).fold(0, |flags, (_, flag)| flags | flag)
    }
}

/// Why there is no domain.
#[derive(Debug, thiserror::Error)]
#[error("isolation domains cannot be made: {step}: {source}; {advice}", advice = self.advice())]
pub struct DomainError {
    step: &'static str,
    source: io::Error,
}

impl DomainError {
    fn advice(&self) -> &'static str {
        match self.step {
            MOUNT_PROC => {
                "a container that hides parts of /proc allows this to root only: leave out pid or mnt"
            }
            _ => {
                "run as root, or have user namespaces allowed (`sysctl user.max_user_namespaces` above 0, \
                 `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu; in a container, CAP_SYS_ADMIN: `docker run --privileged`)"
            }
        }
    }
}

const MOUNT_PROC: &str = "mount its own /proc";
/// What the new processes do, by the numbers under which they report that it failed.
const STEPS: [&str; 7] = [
    "make a user namespace",
    "make namespaces",
    "start its first process",
    "keep its mounts apart",
    "mount its own /dev/shm",
    MOUNT_PROC,
    "bring its loopback interface up",
];

/// A domain, which ends when this is dropped, and its processes with it where it has a process namespace.
#[derive(Debug)]
pub struct Domain {
    init: Process,
    flags: i32,
}

/// The way into a domain for a process that is being born.
#[derive(Clone, Debug)]
pub struct Entrance {
    init: RawFd,
    flags: i32,
    /// Mounts of one's own come with the root folder as working folder.
    folder: CString,
    /// Where the number of the process is written that goes on inside.
    pub(crate) report: RawFd,
}

/// What a new process says: that it has come so far, or the step that failed and the system's answer.
#[derive(Clone, Copy)]
enum Word {
    /// Users are apart: somebody outside has to say which are which.
    Users,
    /// The domain's first process has this number.
    Init(i32),
    Ready,
    Failed(usize, i32),
}

impl Word {
    fn to_bytes(self) -> [u8; 8] {
        let (kind, value) = match self {
            Word::Users => (-1, 0),
            Word::Init(pid) => (-2, pid),
            Word::Ready => (-3, 0),
            Word::Failed(step, error) => (step as i32, error),
        };
        ((kind as u32 as u64) << 32 | u64::from(value as u32)).to_le_bytes()
    }

    fn from_bytes(bytes: [u8; 8]) -> Word {
        let word = u64::from_le_bytes(bytes);
        match ((word >> 32) as i32, word as i32) {
            (-1, _) => Word::Users,
            (-2, pid) => Word::Init(pid),
            (-3, _) => Word::Ready,
            (step, error) => Word::Failed(step as usize, error),
        }
    }
}

impl Domain {
    /// Makes a domain. Without the right to (CAP_SYS_ADMIN) it has users of its own, asked for or not.
    ///
    /// # Errors
    /// Which step the kernel refused; nothing is left then.
    pub fn make(kinds: Kinds) -> Result<Domain, DomainError> {
        let failed = |source| DomainError { step: "talk to its first process", source };
        let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
        let kinds = Kinds { user: kinds.user || !may_make_namespaces(), ..kinds };
        let newborn = Newborn { kinds, socket: theirs.as_raw_fd(), closes: ours.as_raw_fd() };
        // SAFETY: the child makes system calls only, and never returns.
        let maker = match unsafe { libc::fork() } {
            0 => newborn.make(),
            -1 => return Err(failed(io::Error::last_os_error())),
            maker => maker,
        };
        drop(theirs);
        let mut init = None;
        let made = accompany(&mut ours, maker, &mut init);
        // Where it failed, both see that they are alone.
        drop(ours);
        reap(maker);
        match (made, init) {
            (Ok(()), Some(init)) => Ok(Domain { init, flags: kinds.flags() }),
            (made, init) => {
                drop(init.map(|init| Domain { init, flags: 0 }));
                Err(made.err().unwrap_or_else(|| failed(io::ErrorKind::UnexpectedEof.into())))
            }
        }
    }

    /// The way in, for [`Birth`](crate::process::Birth). The domain has to be there when the process starts.
    ///
    /// # Errors
    /// This process's working folder is gone.
    pub fn entrance(&self) -> io::Result<Entrance> {
        let folder = CString::new(std::env::current_dir()?.into_os_string().into_vec())?;
        Ok(Entrance { init: self.init.as_fd().as_raw_fd(), flags: self.flags, folder, report: -1 })
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let _ = self.init.signal(libc::SIGKILL);
        let _ = self.init.wait();
    }
}

/// Hears what the new processes say until the domain is ready.
fn accompany(ours: &mut UnixStream, maker: i32, init: &mut Option<Process>) -> Result<(), DomainError> {
    let failed = |step| move |source| DomainError { step, source };
    loop {
        let mut bytes = [0; 8];
        ours.read_exact(&mut bytes).map_err(failed("hear from its first process"))?;
        match Word::from_bytes(bytes) {
            Word::Users => name_users(maker).map_err(failed("say who its users are"))?,
            Word::Init(pid) => {
                let pid = Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::InvalidData.into());
                let opened = pid.and_then(|pid| Process::open(pid).map_err(io::Error::other));
                *init = Some(opened.map_err(failed("take hold of its first process"))?);
            }
            Word::Ready => return Ok(()),
            Word::Failed(step, error) => {
                let step = STEPS.get(step).copied().unwrap_or("make it");
                return Err(failed(step)(io::Error::from_raw_os_error(error)));
            }
        }
        ours.write_all(b"g").map_err(failed("answer its first process"))?;
    }
}

fn reap(pid: i32) {
    // SAFETY: a child's number that nobody else waits for.
    unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
}

/// Whether namespaces are allowed without one of users.
fn may_make_namespaces() -> bool {
    const CAP_SYS_ADMIN: u64 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .is_some_and(|all| all >> CAP_SYS_ADMIN & 1 != 0)
}

/// Users keep their numbers: all that this process can name, or where that is not allowed its own.
fn name_users(maker: i32) -> io::Result<()> {
    // SAFETY: no arguments.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    for (map, own) in [("uid_map", user), ("gid_map", group)] {
        let place = format!("/proc/{maker}/{map}");
        let ours = fs::read_to_string(format!("/proc/self/{map}"))?;
        let kept = ours.lines().filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (first, count) = (fields.next()?, fields.nth(1)?);
            Some(format!("{first} {first} {count}\n"))
        });
        if fs::write(&place, kept.collect::<String>()).is_ok() {
            continue;
        }
        if map == "gid_map" {
            fs::write(format!("/proc/{maker}/setgroups"), "deny")?;
        }
        fs::write(place, format!("{own} {own} 1"))?;
    }
    Ok(())
}

/// The processes of a domain before there is anybody else: they make system calls only.
struct Newborn {
    kinds: Kinds,
    socket: RawFd,
    closes: RawFd,
}

impl Newborn {
    /// The process that makes the namespaces; its child becomes the first one inside.
    fn make(&self) -> ! {
        // SAFETY: integers, and a set that is filled before it is used. Keys on the terminal are not for these processes.
        unsafe {
            libc::close(self.closes);
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::sigprocmask(libc::SIG_BLOCK, &all, ptr::null_mut());
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        if self.kinds.user {
            self.check(0, unshare(libc::CLONE_NEWUSER));
            self.say(Word::Users);
            self.wait_for_word();
        }
        self.check(1, unshare(self.kinds.flags() & !libc::CLONE_NEWUSER));
        match clone_beside() {
            -1 => self.check(2, -1),
            0 => self.live(),
            pid => {
                self.say(Word::Init(pid));
                end();
            }
        }
        end()
    }

    /// The first process inside.
    fn live(&self) -> ! {
        // SAFETY: integers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // If whoever made the domain ended before that line, nobody answers.
        self.wait_for_word();
        if self.kinds.mount {
            self.check(3, mount(c"none", c"/", None, libc::MS_REC | libc::MS_PRIVATE));
            let hidden = libc::MS_NOSUID | libc::MS_NODEV;
            self.check(4, mount(c"castell-domain", c"/dev/shm", Some(c"tmpfs"), hidden));
            if self.kinds.pid {
                self.check(5, mount(c"proc", c"/proc", Some(c"proc"), hidden | libc::MS_NOEXEC));
            }
        }
        if self.kinds.net {
            self.check(6, bring_loopback_up());
        }
        self.say(Word::Ready);
        // SAFETY: what is closed is this process's own: it never returns to who opened it. A name that lives as long as the process.
        unsafe {
            libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
            libc::prctl(libc::PR_SET_NAME, c"castell-domain".as_ptr());
        }
        loop {
            // SAFETY: a set that is filled before it is used; signals are blocked, so this waits for a child's end.
            unsafe {
                while libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) > 0 {}
                let mut ends: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut ends);
                libc::sigaddset(&mut ends, libc::SIGCHLD);
                libc::sigwaitinfo(&ends, ptr::null_mut());
            }
        }
    }

    fn say(&self, word: Word) {
        let bytes = word.to_bytes();
        // SAFETY: a live buffer of that length. Whoever does not hear it is gone.
        unsafe { libc::write(self.socket, bytes.as_ptr().cast(), bytes.len()) };
    }

    /// Ends where nobody is there to say it.
    fn wait_for_word(&self) {
        let mut byte = 0u8;
        // SAFETY: a live byte.
        if unsafe { libc::read(self.socket, (&raw mut byte).cast(), 1) } != 1 {
            end()
        }
    }

    fn check(&self, step: usize, result: i32) {
        if result < 0 {
            let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            self.say(Word::Failed(step, error));
            end()
        }
    }
}

impl Entrance {
    /// In a process that is being born: its child goes on inside, as a child of `parent`, and this one ends.
    pub(crate) fn enter(&self, parent: i32, death_signal: Option<i32>) -> io::Result<()> {
        // SAFETY: integers, and a string that lives as long as the call.
        unsafe {
            if libc::setns(self.init, self.flags) != 0 || libc::chdir(self.folder.as_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let mut settled = [0; 2];
        // SAFETY: room for two descriptors, which end with the program or with the process.
        if unsafe { libc::pipe2(settled.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        match clone_beside() {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // New rights have taken it away. Both ends closed say that it is done.
                // SAFETY: integers.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, death_signal.unwrap_or(0));
                    libc::close(settled[1]);
                    libc::close(settled[0]);
                    libc::close(self.report);
                }
                Ok(())
            }
            pid => {
                let (bytes, mut byte) = (pid.to_ne_bytes(), 0u8);
                // SAFETY: integers and live buffers of these lengths.
                unsafe {
                    libc::close(settled[1]);
                    libc::read(settled[0], (&raw mut byte).cast(), 1);
                    // From now on the kernel looks whether the parent lives.
                    if death_signal.is_some() && libc::getppid() != parent {
                        libc::kill(pid, libc::SIGKILL);
                    }
                    libc::write(self.report, bytes.as_ptr().cast(), bytes.len());
                }
                end()
            }
        }
    }
}

/// From now on the kernel refuses these system calls to the calling thread and all that it starts, as the filters of containers do:
/// for tests of what happens then.
///
/// # Errors
/// The kernel has no such filters, or they are forbidden.
pub fn forbid_system_calls(calls: &[libc::c_long]) -> io::Result<()> {
    let statement =
        |code: u32, k: u32, skips: u8| libc::sock_filter { code: code as u16, jt: 0, jf: skips, k };
    // The number of the call is the first word of what a filter looks at.
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for call in calls {
        filter.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, *call as u32, 1));
        filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a filter that lives as long as the calls.
    let is_set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if is_set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A child of this process's parent.
fn clone_beside() -> i32 {
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: no memory is shared, and no pointer given; both sides go on with system calls only.
    unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as i32 }
}

fn unshare(flags: i32) -> i32 {
    // SAFETY: an integer.
    unsafe { libc::unshare(flags) }
}

fn mount(source: &CStr, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> i32 {
    let kind = kind.map_or(ptr::null(), CStr::as_ptr);
    // SAFETY: strings that live as long as the call.
    unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, ptr::null()) }
}

fn bring_loopback_up() -> i32 {
    // SAFETY: plain data that the calls read and fill; a descriptor of this function's own.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[..2].copy_from_slice(&[b'l' as libc::c_char, b'o' as libc::c_char]);
        request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 { -1 } else { libc::ioctl(socket, libc::SIOCSIFFLAGS, &request) }
    }
}

fn end() -> ! {
    // SAFETY: ends this process without running the parent's destructors and exit handlers.
    unsafe { libc::_exit(0) }
}
