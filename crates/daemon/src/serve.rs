//! The daemon's loop.

use crate::answer::Loaded;
use crate::client::Client;
use crate::journal::Journal;
use crate::own::OwnStrategies;
use crate::recording::Recording;
use crate::sessions::Sessions;
use crate::standing::Standing;
use crate::stopped::Stopped;
use crate::told::{Claim, Told};
use crate::{DaemonError, Source};
use castell_base::Moment;
use castell_host::process::raise_open_files_limit;
use castell_host::signal::Signals;
use castell_host::users::Others;
use castell_host::{clock, descriptor, epoll, say};
use castell_kernels::Desk;
use castell_kernels::mailbox::Mailbox;
use castell_kernels::protocol::FromDaemon;
use castell_strategy::{Event, Happened, Input, Keeper};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Connections at a time: applications and others.
const CLIENTS_MAX: usize = 2_000;
/// Connections that come in one turn.
const ACCEPTED_A_TURN: usize = 64;
/// How long a daemon waits for the applications of the last one.
const RETURN_WITHIN: Duration = Duration::from_secs(3);
/// Applications that are looked at without being woken.
const WATCHED_MAX: usize = 16;
/// How often sockets are looked at meanwhile.
const GLANCE: Duration = Duration::from_micros(20);

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const LOADED: u64 = 2;
const OWN: u64 = 3;
const STANDING: u64 = 4;
/// Of client n: 2 n further on is its socket, and behind that its bell.
pub(crate) const CLIENTS: u64 = 16;

/// Where to get the strategy anew when somebody asks for that by a signal (SIGHUP).
pub type Reload = Box<dyn Fn() -> Result<Source, String>>;

/// How a daemon serves.
pub struct Options {
    /// Where it listens.
    pub claim: Claim,
    /// Somebody listens there already, for it: a service manager, who also sees to the file.
    pub listener: Option<UnixListener>,
    /// How long it looks out for more, after it has answered, before it sleeps.
    pub spin: Duration,
    /// By SIGHUP.
    pub reload: Option<Reload>,
    /// Where all that happens is written down.
    pub recording: Option<Recording>,
    /// The sessions that it keeps as well.
    pub sessions: Option<Sessions>,
    /// Who else is served on this node.
    pub others: Others,
}

pub(crate) struct Daemon {
    pub(crate) epoll: OwnedFd,
    pub(crate) desk: Desk,
    pub(crate) clients: BTreeMap<u64, Client>,
    pub(crate) next: u64,
    pub(crate) journal: Journal,
    pub(crate) told: Told,
    /// The process of each application that was with the last daemon and has not come back.
    pub(crate) expected: Vec<i32>,
    pub(crate) open_by: Instant,
    pub(crate) loads: usize,
    pub(crate) post: Sender<Loaded>,
    pub(crate) inbox: Receiver<Loaded>,
    pub(crate) loaded: Arc<OwnedFd>,
    pub(crate) own: OwnStrategies,
    /// What has happened, as it is told once.
    pub(crate) ready: Vec<u64>,
    /// Who has said much, and when the rest of it is read.
    pub(crate) left: BTreeSet<(u64, u64)>,
    /// Who was heard in this turn.
    pub(crate) active: Vec<u64>,
    pub(crate) spin: Duration,
    pub(crate) recording: Option<Recording>,
    /// Which sessions stand still.
    pub(crate) standing: Arc<Standing>,
    /// Which applications are stopped.
    pub(crate) stopped: Stopped,
    others: Others,
}

/// Serves until SIGTERM or SIGINT: answers the applications of this user by what the keeper's strategy decides. `ready` is called when
/// it listens.
///
/// # Errors
/// Another daemon is there, or the system refuses what is needed.
pub fn serve(options: Options, keeper: Keeper, ready: impl FnOnce()) -> Result<(), DaemonError> {
    let signals = Signals::take_over(&[Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw))?;
    raise_open_files_limit();
    let socket = options.claim.socket().to_owned();
    let listener = listen(&options)?;
    let (told, _lock) = options.claim.open();
    let mut daemon = Daemon::new(&socket, told, keeper)?;
    (daemon.spin, daemon.others) = (options.spin, options.others);
    if let Some(recording) = options.recording {
        daemon.record(recording);
    }
    let watch = |what: &OwnedFd, token| epoll::watch(&daemon.epoll, what, token, false);
    let watched = epoll::watch(&daemon.epoll, &listener, LISTENER, false)
        .and_then(|()| epoll::watch(&daemon.epoll, &signals, SIGNALS, false))
        .and_then(|()| watch(&daemon.loaded, LOADED))
        .and_then(|()| watch(daemon.own.bell(), OWN))
        .and_then(|()| watch(&daemon.standing.bell, STANDING));
    watched.map_err(DaemonError::system("watch sockets"))?;
    options.sessions.into_iter().for_each(|sessions| sessions.keep(&daemon.standing, &daemon.others));
    ready();
    daemon.work(&listener, &signals, options.reload.as_ref());
    daemon.recording.into_iter().for_each(Recording::end);
    daemon.told.end();
    if options.listener.is_none() {
        let _ = fs::remove_file(&socket);
    }
    Ok(())
}

fn listen(options: &Options) -> Result<UnixListener, DaemonError> {
    let socket = options.claim.socket();
    let listen = || match &options.listener {
        Some(listener) => listener.try_clone(),
        None => {
            // Left by a daemon that died: the lock says that none lives.
            let _ = fs::remove_file(socket);
            UnixListener::bind(socket)
        }
    };
    let open = |listener: UnixListener| {
        if options.others != Others::Nobody {
            // Who is served is asked of the system when somebody has connected.
            fs::set_permissions(socket, Permissions::from_mode(0o666))?;
        }
        listener.set_nonblocking(true).map(|()| listener)
    };
    let listener = listen().and_then(open);
    listener.map_err(DaemonError::system(format!("listen at {}", socket.display())))
}

impl Daemon {
    fn new(socket: &Path, told: Told, keeper: Keeper) -> Result<Daemon, DaemonError> {
        let journal = Journal::new(socket.with_extension("journal"));
        let expected = journal.living();
        let (post, inbox) = channel();
        let bell = || {
            let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            made.map_err(DaemonError::system("make an eventfd"))
        };
        Ok(Daemon {
            epoll: epoll::epoll().map_err(DaemonError::system("watch sockets"))?,
            desk: Desk::new(keeper),
            clients: BTreeMap::new(),
            next: 0,
            journal,
            told,
            expected,
            open_by: Instant::now() + RETURN_WITHIN,
            loads: 0,
            post,
            inbox,
            loaded: Arc::new(bell()?),
            own: OwnStrategies::new(bell()?),
            active: Vec::new(),
            left: BTreeSet::new(),
            ready: Vec::new(),
            spin: Duration::ZERO,
            recording: None,
            standing: Arc::new(Standing::new()?),
            stopped: Stopped::default(),
            others: Others::Nobody,
        })
    }

    fn record(&mut self, recording: Recording) {
        self.desk.keep_inputs();
        self.recording = Some(recording);
    }

    fn work(&mut self, listener: &UnixListener, signals: &Signals, reload: Option<&Reload>) {
        loop {
            self.open_if_due();
            if self.ready.is_empty() {
                self.recording.iter_mut().for_each(Recording::flush);
                let patience = self.patience();
                epoll::wait(&self.epoll, &mut self.ready, patience);
            }
            for token in std::mem::take(&mut self.ready) {
                match token {
                    LISTENER => self.accept(listener),
                    SIGNALS => {
                        if self.heed(signals, reload) {
                            return;
                        }
                    }
                    LOADED => self.take_loaded(),
                    OWN => self.hear_own(),
                    STANDING => self.look_who_stands(),
                    _ if token % 2 == 0 => self.hear((token - CLIENTS) / 2),
                    _ => self.look((token - CLIENTS) / 2),
                }
            }
            self.hear_left();
            self.tick();
            self.look_who_is_stopped();
            self.journal.write();
            self.tell_log();
            self.stay_awake();
        }
    }

    /// How long nothing has to be done without somebody saying so.
    fn patience(&self) -> Option<Duration> {
        let until = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(clock::now_ns()));
        let left = self.left.first().map(|(at_ns, _)| until(*at_ns));
        let due = match self.desk.is_open() {
            false => Some(self.open_by.saturating_duration_since(Instant::now())),
            true => self.desk.keeper().next_tick().map(|tick| pause(tick, now())),
        };
        let look = self.next_look_ns().map(until);
        left.into_iter().chain(due).chain(look).min()
    }

    fn open_if_due(&mut self) {
        if !self.desk.is_open() && (self.expected.is_empty() || Instant::now() >= self.open_by) {
            let wrong = self.desk.open(now());
            wrong.into_iter().for_each(|(client, violation)| self.violated(client, violation));
        }
    }

    fn tick(&mut self) {
        if self.desk.is_open() && self.desk.keeper().next_tick().is_some_and(|due| due <= now()) {
            self.desk.change(now(), Input::Tick);
        }
    }

    /// What has happened goes into the recording and to own strategies, and what people have to know to standard error.
    pub(crate) fn tell_log(&mut self) {
        self.tell_own();
        let log = self.desk.take_log();
        if let Some(recording) = &mut self.recording {
            self.desk.take_inputs().iter().for_each(|(at, input)| recording.input(*at, input));
            log.iter().for_each(|event| recording.event(event));
        }
        for Event { what, .. } in log {
            match what {
                Happened::Fault(fault) => {
                    say(&format!("strategy stopped: {fault}"));
                    self.told.strategy_failed();
                }
                Happened::Strategy(name) => say(&format!("strategy {name} decides")),
                Happened::Governor(level) => say(&format!("governor {level}")),
                _ => {}
            }
        }
    }

    /// Looks out for more from those who were heard, without sleeping, for as long as was wished.
    fn stay_awake(&mut self) {
        let mut active = std::mem::take(&mut self.active);
        active.dedup();
        active.truncate(WATCHED_MAX);
        if self.spin.is_zero() || active.is_empty() {
            return;
        }
        self.mailboxes(&active, |mailbox| mailbox.words().watch());
        let (mut heard, mut glanced) = (Instant::now(), Instant::now());
        // Whoever keeps the daemon awake does not keep a tick from coming.
        let due = self.patience().map(|patience| heard + patience);
        while heard.elapsed() < self.spin && due.is_none_or(|due| Instant::now() < due) {
            for client in &active {
                if self.serve(*client) {
                    heard = Instant::now();
                    self.tell_log();
                }
            }
            if glanced.elapsed() >= GLANCE {
                epoll::wait(&self.epoll, &mut self.ready, Some(Duration::ZERO));
                if !self.ready.is_empty() {
                    break;
                }
                glanced = Instant::now();
            }
            std::hint::spin_loop();
        }
        // What is said from here on is rung for; what was said before is looked at below.
        self.mailboxes(&active, |mailbox| _ = mailbox.words().unwatch());
        active.into_iter().for_each(|client| _ = self.serve(client));
        self.tell_log();
    }

    pub(crate) fn mailboxes(&self, of: &[u64], apply: impl Fn(&Mailbox)) {
        let members = self.desk.members().filter(|(member, _)| of.contains(member));
        members.for_each(|(_, held)| apply(&held.mailbox));
    }

    fn accept(&mut self, listener: &UnixListener) {
        for _ in 0..ACCEPTED_A_TURN {
            let Ok((stream, _)) = listener.accept() else { return };
            let Ok(peer) = descriptor::peer(stream.as_fd()) else { continue };
            let reason = match (self.others.admit(peer.user), self.has_room_for(peer.user)) {
                (false, _) => Some("this daemon does not serve you (castell daemon --allow)"),
                (true, false) => Some("there are too many connections: ask again later"),
                (true, true) => None,
            };
            let Ok(mut client) = Client::new(stream, peer) else { continue };
            if let Some(reason) = reason {
                // As far as that goes at once; then it is closed.
                let _ = client.send(&FromDaemon::Refused { reason: reason.into() });
                continue;
            }
            let number = self.next;
            if epoll::watch(&self.epoll, &client, CLIENTS + 2 * number, false).is_ok() {
                self.clients.insert(number, client);
                self.next += 1;
            }
        }
    }

    /// No other user has more than half of all connections.
    fn has_room_for(&self, user: u32) -> bool {
        let of_user = || self.clients.values().filter(|client| client.peer.user == user).count();
        self.clients.len() < CLIENTS_MAX && (user == descriptor::own_user() || of_user() < CLIENTS_MAX / 2)
    }

    /// Whether to end.
    fn heed(&mut self, signals: &Signals, reload: Option<&Reload>) -> bool {
        while let Some(arrived) = signals.next() {
            if arrived.signal != Signal::HUP.as_raw() {
                return true;
            }
            match reload.map(|reload| reload()) {
                Some(Ok(source)) => self.load(None, source),
                Some(Err(reason)) => say(&format!("the strategy stays: {reason}")),
                None => {}
            }
        }
        false
    }
}

/// How long it is until then.
pub(crate) fn pause(until: Moment, now: Moment) -> Duration {
    Duration::from_nanos((until - now).0 / 1_000)
}

/// The host's clock since this process has first asked.
pub(crate) fn now() -> Moment {
    static BEGIN_NS: OnceLock<u64> = OnceLock::new();
    let now_ns = clock::now_ns();
    Moment::from_ns(now_ns - BEGIN_NS.get_or_init(|| now_ns))
}
