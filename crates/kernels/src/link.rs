//! The thread of an application that looks after its mailbox: takes it to the daemon, and to the next one when that dies, and answers
//! itself where there is none.

use crate::mailbox::{Mailbox, SLOTS, State};
use crate::own::{OwnState, Stand};
use crate::protocol::{FromDaemon, Shape, ToDaemon, VERSION};
use crate::{Desk, Held, KernelsError};
use castell_base::Moment;
use castell_host::{HostError, clock, descriptor, futex};
use castell_policy::session::protocol::{Lines, decode, encode};
use castell_strategy::{FirstFit, Keeper, Node, ResourceKind};
use rustix::event::{EventfdFlags, eventfd};
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// How long an application waits for another daemon when its own has died, before it decides by itself.
const ORPHAN: Duration = Duration::from_secs(2);
/// How often it looks for one meanwhile.
const RETRY: Duration = Duration::from_millis(20);
/// How often an application that decides by itself looks for a daemon.
const LOOK: Duration = Duration::from_millis(1000);

/// How long a daemon may take to greet, unless it stands still.
const GREETED_WITHIN_MS: i32 = 1_000;
/// How long it may take to answer until it is looked whether it stands still.
const ANSWERED_WITHIN_MS: i32 = 2_000;

/// What the threads of an application share.
#[derive(Debug)]
pub(crate) struct Shared {
    name: Arc<str>,
    mailbox: Arc<Mailbox>,
    /// Wakes whoever decides.
    bell: OwnedFd,
    /// Wakes the thread that looks after the mailbox.
    nudge: OwnedFd,
    slots: Mutex<Slots>,
    freed: Condvar,
    shapes: Mutex<Vec<Told>>,
    answered: Condvar,
    own: Stand,
    socket: Option<PathBuf>,
    has_daemon: AtomicBool,
    /// It was said that the daemon stands still, and it has not gone on since.
    is_told_to_stand: AtomicBool,
    is_closed: AtomicBool,
}

/// Slots that no run has.
#[derive(Debug)]
struct Slots {
    free: Vec<usize>,
    /// Their runs are over; whoever decides has not heard of that as yet, or not been heard.
    ending: Vec<usize>,
}

/// A shape and what was said of it when it was registered first.
#[derive(Debug)]
struct Told {
    shape: Shape,
    answer: Option<Result<(), String>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn bell() -> Result<OwnedFd, HostError> {
    let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    made.map_err(|error| HostError::System { what: "make an eventfd".into(), source: error.into() })
}

fn ring(bell: &OwnedFd) {
    // It says no only where it has been rung 2^64 times.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

fn silence(bell: &OwnedFd) {
    // Not rung is no error.
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

impl Shared {
    pub(crate) fn new(name: &str, socket: Option<&Path>) -> Result<Shared, KernelsError> {
        Ok(Shared {
            name: name.into(),
            mailbox: Arc::new(Mailbox::create()?),
            bell: bell()?,
            nudge: bell()?,
            slots: Mutex::new(Slots { free: (0..SLOTS).rev().collect(), ending: Vec::new() }),
            freed: Condvar::new(),
            shapes: Mutex::new(Vec::new()),
            answered: Condvar::new(),
            own: Stand::new(),
            socket: socket.map(PathBuf::from),
            has_daemon: AtomicBool::new(false),
            is_told_to_stand: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// The strategy that it has brought.
    pub(crate) fn own(&self) -> &Stand {
        &self.own
    }

    /// Something has changed that whoever decides has to be told over the socket.
    pub(crate) fn nudge(&self) {
        ring(&self.nudge);
    }

    pub(crate) fn has_daemon(&self) -> bool {
        self.has_daemon.load(Ordering::Relaxed)
    }

    /// Whether the daemon is stopped; says so, once. Whoever has to do with it waits: by its books others run, and where they do nobody
    /// else knows.
    pub(crate) fn does_daemon_stand(&self) -> bool {
        let daemon = self.socket.as_deref().and_then(crate::stopped_daemon);
        let was_told = self.is_told_to_stand.swap(daemon.is_some(), Ordering::Relaxed);
        if let Some(pid) = daemon.filter(|_| !was_told) {
            castell_host::say(&format!(
                "the daemon (process {pid}) stands still: kernels of `{}` wait until it goes on (kill -CONT {pid}), or is ended (kill -9 {pid})",
                self.name
            ));
        }
        daemon.is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Rings the bell where it has to be.
    pub(crate) fn ring_if(&self, rings: bool) {
        if rings {
            ring(&self.bell);
        }
    }

    /// The application has said something in this slot that it wants an answer to.
    pub(crate) fn said(&self, slot: usize, rings: bool) {
        self.ring_if(rings);
        // Who closes sees what was said, or is seen here: both have a fence in between.
        if self.is_closed() {
            self.mailbox.words().shut(slot);
        }
    }

    /// A slot for a run; waits while all are taken.
    pub(crate) fn take_slot(&self) -> Result<usize, KernelsError> {
        let mut slots = lock(&self.slots);
        loop {
            if self.is_closed() {
                return Err(KernelsError::Closed(self.name().into()));
            }
            if let Some(slot) = slots.free.pop() {
                return Ok(slot);
            }
            let words = self.mailbox.words();
            let has_ended = |slot: &usize| words.slot(*slot).state != Some(State::Ended);
            let at = slots.ending.iter().position(has_ended);
            if let Some(slot) = at.map(|at| slots.ending.swap_remove(at)) {
                words.release(slot);
                return Ok(slot);
            }
            slots = match slots.ending.first().copied() {
                Some(first) => {
                    drop(slots);
                    self.wait_while(first, State::Ended, 0);
                    lock(&self.slots)
                }
                None => self.freed.wait(slots).unwrap_or_else(std::sync::PoisonError::into_inner),
            };
        }
    }

    /// Nobody uses the slot any more.
    pub(crate) fn give_slot(&self, slot: usize) {
        lock(&self.slots).free.push(slot);
        self.freed.notify_one();
    }

    /// The last step of the run in this slot has ended, and was said to have.
    pub(crate) fn end_slot(&self, slot: usize) {
        lock(&self.slots).ending.push(slot);
        self.freed.notify_one();
    }

    /// Registers a shape, under the number that it gets.
    pub(crate) fn register(&self, shape: Shape) -> Result<u32, KernelsError> {
        let mut shapes = lock(&self.shapes);
        let number = shapes.len();
        shapes.push(Told { shape, answer: None });
        self.nudge();
        loop {
            match &shapes[number].answer {
                Some(Ok(())) => return Ok(u32::try_from(number).expect("there are few")),
                Some(Err(reason)) => return Err(KernelsError::Registration(reason.clone())),
                None if self.is_closed() => return Err(KernelsError::Closed(self.name().into())),
                None => {
                    shapes = self.answered.wait(shapes).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
            }
        }
    }

    /// Nobody waits any more; the thread ends.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.nudge();
        self.own.close();
        // With the locks held, so that whoever is about to wait has not looked yet, or waits by now.
        drop(lock(&self.shapes));
        self.answered.notify_all();
        let ending = lock(&self.slots).ending.clone();
        self.freed.notify_all();
        let words = self.mailbox.words();
        // What waits in the mailbox is refused by another state, so that nobody falls asleep on the old one. What is over still counts.
        (0..SLOTS).filter(|slot| !ending.contains(slot)).filter_map(|slot| words.shut(slot)).for_each(
            |word| {
                futex::wake(word, i32::MAX, u32::MAX);
            },
        );
    }

    fn answer(&self, number: usize, answer: Result<(), String>) {
        if let Some(told) = lock(&self.shapes).get_mut(number)
            && told.answer.is_none()
        {
            told.answer = Some(answer);
            self.answered.notify_all();
        }
    }

    /// The shapes from this number on.
    fn shapes_from(&self, number: usize) -> Vec<Shape> {
        lock(&self.shapes)[number..].iter().map(|told| told.shape.clone()).collect()
    }
}

/// Who decides now.
enum Link {
    Daemon(Connection),
    /// The daemon has died; until then the next one is waited for.
    Orphan(Instant),
    Alone(Box<Alone>),
}

/// Until the application is closed.
pub(crate) fn keep(shared: &Shared, socket: Option<&Path>) {
    let connect = || socket.and_then(|socket| Connection::open(shared, socket));
    let stands = || socket.is_some_and(|socket| crate::stopped_daemon(socket).is_some());
    let mut link = connect().map_or_else(|| Link::Alone(Box::new(Alone::new(shared))), Link::Daemon);
    while !shared.is_closed() {
        shared.has_daemon.store(matches!(link, Link::Daemon(_)), Ordering::Relaxed);
        link = match link {
            Link::Daemon(mut connection) => match connection.work(shared) {
                Some(()) => Link::Daemon(connection),
                None => Link::Orphan(Instant::now() + ORPHAN),
            },
            Link::Orphan(until) => match connect() {
                Some(connection) => Link::Daemon(connection),
                None if Instant::now() >= until => Link::Alone(Box::new(Alone::new(shared))),
                None => {
                    thread::sleep(RETRY);
                    Link::Orphan(until)
                }
            },
            Link::Alone(mut alone) => {
                let patience = if socket.is_some() { LOOK } else { Duration::MAX };
                match alone.work(shared, patience) {
                    // Nothing but this thread looks at the mailbox between the two.
                    // While it would wait for one that stands still, nobody would.
                    true if !stands() => connect().map_or(Link::Alone(alone), Link::Daemon),
                    _ => Link::Alone(alone),
                }
            }
        };
    }
}

/// The way to a daemon that has the mailbox.
struct Connection {
    stream: UnixStream,
    lines: Lines,
    /// Shapes that were told.
    told: usize,
    /// Shapes of which the answer has come.
    answers: usize,
    /// Which version of the application's own strategy was told.
    own: u64,
    /// How many own strategies were.
    owns: u64,
}

impl Connection {
    /// Nothing where nobody listens, or whoever does will not have us.
    fn open(shared: &Shared, socket: &Path) -> Option<Connection> {
        let stream = UnixStream::connect(socket).ok()?;
        let (lines, told, answers) = (Lines::default(), 0, 0);
        let mut connection = Connection { stream, lines, told, answers, own: 0, owns: 0 };
        let hello = ToDaemon::Application {
            version: VERSION,
            name: shared.name.to_string(),
            pid: std::process::id(),
        };
        let descriptors = [shared.mailbox.descriptor(), shared.bell.as_fd()];
        descriptor::send_with(connection.stream.as_fd(), &encode(&hello), &descriptors).ok()?;
        match connection.greeting(shared)? {
            FromDaemon::Hello { version: VERSION } => {}
            FromDaemon::Refused { reason } => {
                castell_host::say(&format!(
                    "the daemon at {} refuses this program: {reason}",
                    socket.display()
                ));
                return None;
            }
            _ => return None,
        }
        connection.tell(shared)?;
        connection.send(&ToDaemon::Open {})?;
        Some(connection)
    }

    fn send(&mut self, message: &ToDaemon) -> Option<()> {
        descriptor::send_with(self.stream.as_fd(), &encode(message), &[]).ok()
    }

    fn tell(&mut self, shared: &Shared) -> Option<()> {
        for shape in shared.shapes_from(self.told) {
            self.told += 1;
            self.send(&ToDaemon::Shape(shape))?;
        }
        if let Some((version, strategy)) = shared.own.to_tell(self.own) {
            (self.own, self.owns) = (version, self.owns + 1);
            self.send(&ToDaemon::Own(strategy))?;
        }
        Some(())
    }

    /// The first message; nothing if there will be none. A daemon that is stopped takes connections, too, and is waited for.
    fn greeting(&mut self, shared: &Shared) -> Option<FromDaemon> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return decode(&line).ok();
            }
            let watched = [self.stream.as_fd(), shared.nudge.as_fd()];
            let ready = descriptor::wait_readable(&watched, GREETED_WITHIN_MS).ok()?;
            match (ready[0], ready[1]) {
                (true, _) => self.read()?,
                // What is to be told is told behind the greeting.
                (false, true) if !shared.is_closed() => silence(&shared.nudge),
                (false, false) if shared.does_daemon_stand() => {}
                _ => return None,
            }
        }
    }

    fn read(&mut self) -> Option<()> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => None,
            Ok(count) => self.lines.push(&bytes[..count]).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Some(()),
            Err(_) => None,
        }
    }

    /// Sleeps until there is something to do, and does it; nothing when the daemon has gone.
    fn work(&mut self, shared: &Shared) -> Option<()> {
        let waits = self.answers < self.told || shared.own.state() == OwnState::Tried;
        let patience_ms = if waits { ANSWERED_WITHIN_MS } else { -1 };
        let watched = [self.stream.as_fd(), shared.nudge.as_fd()];
        let ready = descriptor::wait_readable(&watched, patience_ms).ok()?;
        if waits && ready == [false, false] {
            shared.does_daemon_stand();
        }
        if ready[1] {
            silence(&shared.nudge);
            self.tell(shared)?;
        }
        if ready[0] {
            self.read()?;
            while let Some(line) = self.lines.next_line() {
                match decode(&line).ok()? {
                    FromDaemon::Registered { refused } => {
                        shared.answer(self.answers, refused.map_or(Ok(()), Err));
                        self.answers += 1;
                    }
                    FromDaemon::Own { number, stopped } if number == self.owns => {
                        shared.own.answer(self.own, stopped);
                    }
                    _ => {}
                }
            }
        }
        Some(())
    }
}

/// No daemon: the books of a node of its own.
struct Alone {
    desk: Desk,
    registered: usize,
    looked: Instant,
}

impl Alone {
    fn new(shared: &Shared) -> Alone {
        // A node with nothing but what the application has kernels for; some name has to be there from the beginning.
        let first = [("one_core".to_owned(), ResourceKind::Cores)];
        let node = Node::new(first).expect("one name");
        let mut desk = Desk::new(Keeper::new(node, Box::new(FirstFit)));
        desk.join(
            0,
            Held {
                name: shared.name.clone(),
                pid: std::process::id(),
                user: descriptor::own_user(),
                mailbox: shared.mailbox.clone(),
            },
        );
        let mut alone = Alone { desk, registered: 0, looked: Instant::now() };
        shared.own.alone();
        alone.register(shared, &shared.shapes_from(0));
        // Itself it does not write what it must not.
        let _ = alone.desk.take_in(now(), 0);
        let _ = alone.desk.open(now());
        alone
    }

    fn register(&mut self, shared: &Shared, shapes: &[Shape]) {
        for shape in shapes {
            shape.kernels.iter().for_each(|(name, _)| self.desk.add_resource(name));
            let answer = self.desk.register(0, shape).map_err(|error| error.to_string());
            shared.answer(self.registered, answer);
            self.registered += 1;
        }
    }

    /// Answers what was asked, or sleeps until something is; whether it is time to look for a daemon.
    fn work(&mut self, shared: &Shared, patience: Duration) -> bool {
        self.desk.take_log();
        let words = shared.mailbox.words();
        if words.unwatch() {
            let left = patience.saturating_sub(self.looked.elapsed());
            let ms = left.as_millis().try_into().unwrap_or(-1);
            let ready = descriptor::wait_readable(&[shared.bell.as_fd(), shared.nudge.as_fd()], ms);
            if ready.is_ok_and(|ready| ready[1]) {
                silence(&shared.nudge);
                self.register(shared, &shared.shapes_from(self.registered));
                shared.own.alone();
            }
        }
        words.watch();
        silence(&shared.bell);
        // As above.
        let _ = self.desk.serve(now(), 0);
        let looks = self.looked.elapsed() >= patience;
        if looks {
            self.looked = Instant::now();
        }
        looks
    }
}

/// The host's clock, as the books have it.
pub(crate) fn now() -> Moment {
    Moment::from_ns(clock::now_ns())
}
