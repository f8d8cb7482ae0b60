//! Other processes: starting them so that none outlives its launcher, and learning at once that one has ended.

use crate::domain::Entrance;
use crate::{HostError, descriptor, signal, topology};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::{fmt, fs};

/// A process's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pid(i32);

impl Pid {
    /// This process.
    pub fn current() -> Pid {
        Pid(std::process::id() as i32)
    }

    /// A process by its number; none for numbers that no process can have.
    pub fn from_raw(raw: i32) -> Option<Pid> {
        (raw > 0).then_some(Pid(raw))
    }

    /// The number.
    pub fn raw(self) -> i32 {
        self.0
    }

    /// When the process started, in clock ticks since the host booted; none if there is no such process, or if it
    /// has ended and only waits for its parent to take notice. Number and start time together never come again.
    pub fn start_time(self) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{self}/stat")).ok()?;
        // The second field is the name in parentheses, which may hold anything, parentheses included.
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        fields.nth(18)?.parse().ok()
    }

    /// Whether it is stopped, by a signal or by whoever debugs it: none of its threads goes on. Of a process that cannot be seen, no.
    pub fn is_stopped(self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{self}/task")) else { return false };
        let mut is_stopped = false;
        for thread in threads.flatten() {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // Behind the name, as above.
            let state = stat.rfind(')').and_then(|end| stat[end + 1..].trim_start().chars().next());
            match state {
                Some('T' | 't') => is_stopped = true,
                // One that has ended does not go on either.
                Some('Z' | 'X') | None => {}
                Some(_) => return false,
            }
        }
        is_stopped
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It ended by itself, with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
}

impl Ended {
    /// Decodes what `waitpid` gives for a process that has ended.
    pub fn from_wait_status(status: i32) -> Ended {
        if libc::WIFSIGNALED(status) {
            Ended::Killed(libc::WTERMSIG(status))
        } else {
            Ended::Exited(libc::WEXITSTATUS(status))
        }
    }

    /// The code that a shell would show: the exit code, or 128 + signal.
    pub fn code(self) -> i32 {
        match self {
            Ended::Exited(code) => code,
            Ended::Killed(signal) => 128 + signal,
        }
    }

    /// Whether the process ended by itself with code 0.
    pub fn is_success(self) -> bool {
        self == Ended::Exited(0)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exited(code) => write!(f, "ended with exit code {code}"),
            Ended::Killed(signal) => write!(f, "was killed by {}", signal::name(*signal)),
        }
    }
}

/// A process by a descriptor: it names the same process for ever, even when its number is used again.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    descriptor: OwnedFd,
}

impl Process {
    /// Takes hold of a running process. For children of this process, or others that are known to be alive.
    pub fn open(pid: Pid) -> Result<Process, HostError> {
        // SAFETY: pidfd_open takes two integers and gives a new descriptor (closed on exec) or -1.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.raw(), 0) };
        if raw < 0 {
            return Err(HostError::last(format!("open process {pid}")));
        }
        // SAFETY: the kernel just gave us this descriptor.
        Ok(Process { pid, descriptor: unsafe { OwnedFd::from_raw_fd(raw as RawFd) } })
    }

    /// The number that it has, or had.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether it has ended; never blocks, works for any process, not only children.
    pub fn has_ended(&self) -> bool {
        let mut entry = libc::pollfd { fd: self.descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry.
        unsafe { libc::poll(&mut entry, 1, 0) == 1 }
    }

    /// Sends a signal; fine if it has ended meanwhile.
    pub fn signal(&self, signal: i32) -> Result<(), HostError> {
        // SAFETY: a descriptor of ours, an integer, no further information.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.descriptor.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::ESRCH) if result < 0 => Ok(()),
            _ if result < 0 => Err(HostError::last(format!("signal process {}", self.pid))),
            _ => Ok(()),
        }
    }

    /// A copy of a descriptor that the process has open under a number, if the kernel lets this one have it.
    ///
    /// # Errors
    /// It does not, or there is none.
    pub fn descriptor_of(&self, number: RawFd) -> io::Result<OwnedFd> {
        // SAFETY: integers; what comes back is a new descriptor or -1.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.descriptor.as_raw_fd(), number, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(raw as RawFd) })
    }

    /// Waits until a child has ended, and takes notice of it, so that its number may be used again.
    pub fn wait(&self) -> Result<Ended, HostError> {
        let mut status = 0;
        loop {
            // SAFETY: `status` is live; the number is that of a child nobody else waits for, so it cannot be reused.
            let result = unsafe { libc::waitpid(self.pid.raw(), &mut status, 0) };
            if result == self.pid.raw() {
                return Ok(Ended::from_wait_status(status));
            }
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return Err(HostError::last(format!("wait for process {}", self.pid)));
            }
        }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// What a new process gets from its parent, besides what [`Command`] says.
#[derive(Clone, Debug, Default)]
pub struct Birth {
    /// Descriptors that stay open under their number.
    pub inherited: Vec<RawFd>,
    /// The processors that it may run on; all of its parent's where empty.
    pub cpus: Vec<u32>,
    /// The signal that it gets when the thread that started it ends, for whatever reason.
    pub parent_death_signal: Option<i32>,
    /// Descriptors that it gets as standard input, output and error; its parent's where none.
    pub standard: [Option<RawFd>; 3],
    /// Its limit of open files; its parent's where none.
    pub open_files: Option<OpenFilesLimit>,
    /// The `cgroup.procs` of the control groups that it lives in, before it is put on its processors; its parent's where none.
    pub groups: Vec<RawFd>,
    /// The domain that it lives in.
    pub domain: Option<Entrance>,
}

/// How many files a process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFilesLimit {
    soft: u64,
    hard: u64,
}

impl OpenFilesLimit {
    /// How many may be open.
    pub fn count(self) -> u64 {
        self.soft
    }

    /// Whether the process may raise it itself.
    pub fn can_be_raised(self) -> bool {
        self.soft < self.hard
    }
}

/// Raises this process's limit of open files as far as it may go; gives the limit before.
pub fn raise_open_files_limit() -> OpenFilesLimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live; the calls read or fill it.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let before = OpenFilesLimit { soft: limit.rlim_cur, hard: limit.rlim_max };
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        before
    }
}

impl Birth {
    /// Carries this out in the new process. Only system calls: it may run between fork and exec.
    fn settle(&self, parent: i32) -> io::Result<()> {
        signal::restore_defaults();
        if let Some(signal) = self.parent_death_signal {
            // SAFETY: prctl with integers.
            if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have ended before the line above; then nobody sends the signal.
            // SAFETY: no arguments.
            if unsafe { libc::getppid() } != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        for &descriptor in &self.inherited {
            // SAFETY: fcntl with integers.
            if unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        for (target, source) in self.standard.iter().enumerate() {
            // SAFETY: dup2 with integers.
            if source.is_some_and(|source| unsafe { libc::dup2(source, target as RawFd) } < 0) {
                return Err(io::Error::last_os_error());
            }
        }
        if let Some(limit) = self.open_files {
            let limit = libc::rlimit { rlim_cur: limit.soft, rlim_max: limit.hard };
            // SAFETY: a live limit that the call reads. Failure leaves more than was asked for.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        }
        for &group in &self.groups {
            // SAFETY: one byte that lives as long as the program; the system takes it for this process.
            if unsafe { libc::write(group, c"0".as_ptr().cast(), 1) } != 1 {
                return Err(io::Error::last_os_error());
            }
        }
        if !self.cpus.is_empty() {
            topology::set_affinity_raw(&self.cpus)?;
        }
        match &self.domain {
            Some(entrance) => entrance.enter(parent, self.parent_death_signal),
            None => Ok(()),
        }
    }
}

/// Hears which process goes on in a domain, where one is to.
struct Born(Option<[OwnedFd; 2]>);

impl Born {
    /// Before the fork: where the process that enters tells who goes on.
    fn expect(birth: &mut Birth) -> Result<Born, HostError> {
        let Some(entrance) = &mut birth.domain else { return Ok(Born(None)) };
        let (read, write) = descriptor::pipe()?;
        entrance.report = write.as_raw_fd();
        Ok(Born(Some([read, write])))
    }

    /// Takes hold of the process that goes on. `child` is the one that was forked.
    fn take_hold(self, child: Pid) -> Result<Process, HostError> {
        if self.0.is_none() {
            return take_hold(child);
        }
        let inside = self.hear();
        let forked = take_hold(child)?.wait()?;
        match inside {
            Some(pid) => take_hold(pid),
            // It ended before it was inside, with the code for that.
            None => Err(HostError::system(
                format!("enter an isolation domain: the process {forked}"),
                io::Error::from(io::ErrorKind::UnexpectedEof),
            )),
        }
    }

    /// The process that goes on, if it came so far.
    fn hear(self) -> Option<Pid> {
        let [read, write] = self.0?;
        drop(write);
        let mut number = [0; 4];
        File::from(read).read_exact(&mut number).ok()?;
        Pid::from_raw(i32::from_ne_bytes(number))
    }
}

/// Starts a program as a child. It begins with default signal actions and no signal blocked.
pub fn spawn(command: &mut Command, birth: &Birth) -> Result<Process, HostError> {
    let mut birth = birth.clone();
    let born = Born::expect(&mut birth)?;
    let parent = Pid::current().raw();
    // SAFETY: `settle` makes system calls only (its lists were allocated before).
    unsafe { command.pre_exec(move || birth.settle(parent)) };
    let program = command.get_program().to_string_lossy().into_owned();
    match command.spawn() {
        Ok(child) => born.take_hold(Pid(child.id() as i32)),
        Err(error) => {
            // It may have entered a domain before it found no program.
            if let Some(pid) = born.hear() {
                let _ = take_hold(pid).and_then(|process| process.wait());
            }
            Err(HostError::system(format!("start `{program}`"), error))
        }
    }
}

/// Lets a command's process be terminated when this one ends, however that may be. The thread that starts it has to live as long.
pub fn ends_with_this(command: &mut Command) {
    let birth = Birth { parent_death_signal: Some(libc::SIGTERM), ..Birth::default() };
    let parent = Pid::current().raw();
    // SAFETY: `settle` makes system calls only.
    unsafe { command.pre_exec(move || birth.settle(parent)) };
}

/// Forks a child that runs `body` and ends with the code that it gives (101 where it panics).
///
/// What this process has printed so far is flushed first; what the child prints is flushed when it ends. Destructors
/// of the parent's values don't run in the child.
///
/// # Safety
/// Best called while this process has one thread. With more, the child must not take a lock (or allocate, print, …)
/// that another thread may have held.
pub unsafe fn fork(body: impl FnOnce() -> i32) -> Result<Process, HostError> {
    // SAFETY: as the caller promises.
    unsafe { fork_with(&Birth::default(), body) }
}

/// [`fork`], with what the child gets.
///
/// # Safety
/// As for [`fork`].
pub unsafe fn fork_with(birth: &Birth, body: impl FnOnce() -> i32) -> Result<Process, HostError> {
    let parent = Pid::current().raw();
    let mut birth = birth.clone();
    let born = Born::expect(&mut birth)?;
    // Whatever is left in the buffer would be printed twice. Both locks are held across the fork, so that no other
    // thread holds them in the child for ever.
    let (mut out, err) = (io::stdout().lock(), io::stderr().lock());
    let _ = out.flush();
    // SAFETY: as the caller promises.
    match unsafe { libc::fork() } {
        -1 => Err(HostError::last("fork a process")),
        0 => {
            drop((out, err));
            let code = match birth.settle(parent) {
                Ok(()) => std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101),
                Err(_) => 127,
            };
            let _ = io::stdout().flush();
            // SAFETY: ends this process without running the parent's destructors and exit handlers.
            unsafe { libc::_exit(code) }
        }
        pid => born.take_hold(Pid(pid)),
    }
}

/// Has `handler` called in every child that this process forks from now on, by the thread that forked.
///
/// # Errors
/// No memory.
pub fn after_forks(handler: extern "C" fn()) -> Result<(), HostError> {
    let handler: unsafe extern "C" fn() = handler;
    // SAFETY: a function that lives as long as the process.
    match unsafe { libc::pthread_atfork(None, None, Some(handler)) } {
        0 => Ok(()),
        error => Err(HostError::system("watch forks", io::Error::from_raw_os_error(error))),
    }
}

/// Ends this process at once, without its destructors and exit handlers: for a forked child in a state that nobody can go on from.
pub fn end_now(code: i32) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

/// Opens a child that was just started; if that fails, it is killed rather than lost.
fn take_hold(pid: Pid) -> Result<Process, HostError> {
    Process::open(pid).inspect_err(|_| {
        // SAFETY: integers; the child has not been waited for, so the number is still its own.
        unsafe {
            libc::kill(pid.raw(), libc::SIGKILL);
            libc::waitpid(pid.raw(), std::ptr::null_mut(), 0);
        }
    })
}

/// How many threads this process has; none where `/proc` does not tell.
pub fn threads() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

/// Makes this process inherit the orphans among its descendants, so that [`children`] finds every one of them.
pub fn adopt_orphans() -> Result<(), HostError> {
    // SAFETY: prctl with integers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } != 0 {
        return Err(HostError::last("adopt orphaned processes"));
    }
    Ok(())
}

/// The children of this process that exist now, those that ended but were not waited for included.
pub fn children() -> Vec<Pid> {
    children_of(Pid::current(), Path::new("/proc"))
}

fn children_of(parent: Pid, proc: &Path) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let Ok(stat) = fs::read_to_string(proc.join(format!("{pid}/stat"))) else { return false };
        let Some(end) = stat.rfind(')') else { return false };
        stat[end + 1..].split_ascii_whitespace().nth(1) == Some(parent.to_string().as_str())
    };
    numbers.filter(is_child).map(Pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    #[test]
    fn a_process_is_stopped_until_it_goes_on() {
        let mut child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep");
        let pid = Pid::from_raw(child.id() as i32).expect("a process");
        let process = Process::open(pid).expect("it lives");
        let becomes = |is_stopped: bool| {
            let begun = Instant::now();
            while pid.is_stopped() != is_stopped {
                assert!(begun.elapsed() < Duration::from_secs(60), "is it stopped? {}", !is_stopped);
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for _ in 0..3 {
            becomes(false);
            process.signal(libc::SIGSTOP).expect("it is ours");
            becomes(true);
            process.signal(libc::SIGCONT).expect("it is ours");
        }
        child.kill().expect("it is ours");
        child.wait().expect("a child");
        assert!(!pid.is_stopped() && !Pid::current().is_stopped());
    }

    #[test]
    fn decodes_endings() {
        // SAFETY: the child ends at once.
        let exited = unsafe { fork(|| 7) }.expect("fork").wait().expect("wait");
        assert_eq!(exited, Ended::Exited(7));
        assert_eq!((exited.code(), exited.to_string().as_str()), (7, "ended with exit code 7"));
        // SAFETY: the child sleeps.
        let child = unsafe { fork(sleep) }.expect("fork");
        assert!(!child.has_ended());
        child.signal(libc::SIGKILL).expect("signal");
        let killed = child.wait().expect("wait");
        assert_eq!(killed, Ended::Killed(9));
        assert_eq!((killed.code(), killed.to_string().as_str()), (137, "was killed by SIGKILL"));
        assert!(child.has_ended());
        child.signal(libc::SIGTERM).expect("signals to the dead are fine");
    }

    #[test]
    fn threads_are_counted() {
        let before = threads().expect("/proc");
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(threads().expect("/proc") >= 2));
        });
        assert!(before >= 1);
    }

    #[test]
    fn knows_others_by_number_and_start_time() {
        let me = Pid::current();
        assert!(me.start_time().is_some_and(|ticks| ticks > 0));
        assert_eq!(me.start_time(), me.start_time());
        // SAFETY: the child sleeps.
        let child = unsafe { fork(sleep) }.expect("fork");
        assert!(child.pid().start_time() >= me.start_time());
        assert!(children().contains(&child.pid()));
        child.signal(libc::SIGKILL).expect("signal");
        while !child.has_ended() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(child.pid().start_time(), None, "ended, not waited for");
        child.wait().expect("wait");
        assert_eq!(child.pid().start_time(), None);
    }

    #[test]
    fn programs_get_descriptors_and_lose_the_rest() {
        let file = tempfile::tempfile().expect("a file");
        let number = file.as_raw_fd();
        let run = |birth: Birth| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("test -e /proc/self/fd/{number}")]).stdin(Stdio::null());
            spawn(&mut command, &birth).expect("sh starts").wait().expect("wait").code()
        };
        assert_eq!(run(Birth::default()), 1);
        assert_eq!(run(Birth { inherited: vec![number], ..Birth::default() }), 0);
        let error = spawn(&mut Command::new("./no-such-program"), &Birth::default()).expect_err("no program");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn dies_with_its_parent() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        // SAFETY: parent and child write to a pipe and sleep.
        let parent = unsafe {
            fork(|| {
                let birth = Birth { parent_death_signal: Some(libc::SIGKILL), ..Birth::default() };
                let child = fork_with(&birth, sleep).expect("fork");
                rustix::io::write(&write, &child.pid().raw().to_ne_bytes()).expect("write");
                sleep()
            })
        }
        .expect("fork");
        let mut number = [0; 4];
        rustix::io::read(&read, &mut number).expect("read");
        let orphan = Process::open(Pid(i32::from_ne_bytes(number))).expect("the grandchild");
        parent.signal(libc::SIGKILL).expect("kill");
        parent.wait().expect("wait");
        let start = Instant::now();
        while !orphan.has_ended() {
            assert!(start.elapsed() < Duration::from_secs(60), "the grandchild lives on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn sleep() -> i32 {
        std::thread::sleep(Duration::from_secs(30));
        0
    }
}
