//! What the daemon does about what it is told.

use crate::Source;
use crate::client::{Lost, Next, Role};
use crate::serve::{CLIENTS, Daemon, now};
use castell_host::descriptor::own_user;
use castell_host::users::name_of;
use castell_host::{clock, epoll, say};
use castell_kernels::mailbox::Mailbox;
use castell_kernels::protocol::{FromDaemon, ToDaemon, VERSION};
use castell_kernels::{Held, Violation};
use castell_policy::session::protocol::ProtocolError;
use castell_strategy::{Input, Strategy};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread;

/// Strategies that are being tried out at a time.
const LOADS_MAX: usize = 4;
/// What is answered of one connection before the others have their turn.
const MESSAGES_A_TURN: usize = 16;
/// Bytes of a governor's level or an application's name.
const NAME_BYTES_MAX: usize = 256;

/// A strategy that was tried out, and who has asked for it.
pub(crate) type Loaded = (Option<u64>, Result<(Source, Box<dyn Strategy>), String>);

impl Daemon {
    /// Somebody has said something over his socket, or can hear again.
    pub(crate) fn hear(&mut self, number: u64) {
        if let Err(lost) = self.hear_all(number) {
            self.lose(number, &lost);
        }
    }

    fn hear_all(&mut self, number: u64) -> Result<(), Lost> {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        client.flush()?;
        if client.is_left {
            return Ok(());
        }
        client.read()?;
        self.answer_some(number)?;
        self.watch_again(number);
        Ok(())
    }

    /// Answers what has come, but not so much that others have to wait for long.
    fn answer_some(&mut self, number: u64) -> Result<(), Lost> {
        for _ in 0..MESSAGES_A_TURN {
            let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
            match client.next(clock::now_ns())? {
                Next::Message(message) => self.answer(number, message)?,
                Next::Nothing => return Ok(()),
                Next::Later { at_ns } => {
                    self.leave_until(number, at_ns);
                    return Ok(());
                }
            }
        }
        self.leave_until(number, 0);
        Ok(())
    }

    /// What this one has to say more is read after this time, and after the others had their turn.
    fn leave_until(&mut self, number: u64, at_ns: u64) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.is_left = true;
            self.left.insert((at_ns, number));
        }
    }

    /// Hears those whose time has come to say more.
    pub(crate) fn hear_left(&mut self) {
        let later = self.left.split_off(&(clock::now_ns() + 1, 0));
        for (_, number) in std::mem::replace(&mut self.left, later) {
            self.clients.get_mut(&number).into_iter().for_each(|client| client.is_left = false);
            self.hear(number);
        }
    }

    pub(crate) fn watch_again(&self, number: u64) {
        let Some(client) = self.clients.get(&number) else { return };
        let token = CLIENTS + 2 * number;
        // One that is watched already can be watched otherwise.
        let _ = match client.is_left {
            true => epoll::leave_unread(&self.epoll, client, token, client.has_unsent()),
            false => epoll::watch_again(&self.epoll, client, token, true, client.has_unsent()),
        };
    }

    pub(crate) fn send(&mut self, number: u64, message: &FromDaemon) -> Result<(), Lost> {
        self.clients.get_mut(&number).map_or(Ok(()), |client| client.send(message))
    }

    fn refuse(&mut self, number: u64, reason: String) -> Result<(), Lost> {
        self.send(number, &FromDaemon::Refused { reason })?;
        Err(Lost::Gone)
    }

    fn answer(&mut self, number: u64, message: ToDaemon) -> Result<(), Lost> {
        let Some(client) = self.clients.get(&number) else { return Ok(()) };
        let (role, is_own) = (client.role(), client.peer.user == own_user());
        // What this process itself says of the machine, the next one finds out by itself.
        let is_by_people = client.peer.pid != std::process::id();
        match (role, message) {
            (Role::Unknown, ToDaemon::Hello { version } | ToDaemon::Application { version, .. })
                if version != VERSION =>
            {
                let wrong = ProtocolError::Version { theirs: version };
                self.refuse(number, format!("{wrong} (this is the daemon's protocol, of version {VERSION})"))
            }
            (Role::Unknown, ToDaemon::Hello { .. }) => {
                self.set_role(number, Role::Control);
                self.send(number, &FromDaemon::Hello { version: VERSION })
            }
            (Role::Unknown, ToDaemon::Application { name, pid, .. }) => self.join(number, &name, pid),
            (Role::Application { .. }, ToDaemon::Shape(shape)) => {
                let refused = self.desk.register(number, &shape).err().map(|error| error.to_string());
                self.send(number, &FromDaemon::Registered { refused })
            }
            (Role::Application { .. }, ToDaemon::Own(strategy)) => self.bring(number, strategy),
            (Role::Application { is_open: false }, ToDaemon::Open {}) => self.open(number),
            (Role::Control, ToDaemon::Status {}) => {
                let status = match is_own {
                    true => self.desk.status(),
                    false => self.desk.status_for(client.peer.user),
                };
                let status = FromDaemon::Status(status);
                self.send(number, &status)
            }
            (Role::Control, ToDaemon::Load { .. } | ToDaemon::Governor { .. } | ToDaemon::Sensor { .. })
                if !is_own =>
            {
                let owner = name_of(own_user());
                self.send(
                    number,
                    &FromDaemon::Done { refused: Some(format!("only {owner} looks after this daemon")) },
                )
            }
            (Role::Control, ToDaemon::Load { name, script, parameters }) => {
                if self.loads >= LOADS_MAX {
                    let refused = Some(format!("{LOADS_MAX} strategies are being tried out: ask again"));
                    return self.send(number, &FromDaemon::Done { refused });
                }
                self.load(Some(number), Source { name, script, parameters });
                Ok(())
            }
            (Role::Control, ToDaemon::Governor { level }) => {
                let refused = (level.is_empty() || level.len() > NAME_BYTES_MAX)
                    .then(|| format!("a level has a name of 1 to {NAME_BYTES_MAX} bytes"));
                if refused.is_none() {
                    if is_by_people {
                        self.told.governor(&level);
                    }
                    self.desk.change(now(), Input::Governor(level));
                }
                self.send(number, &FromDaemon::Done { refused })
            }
            (Role::Control, ToDaemon::Sensor { name, value }) => {
                let refused = self.sense(&name, value);
                if refused.is_none() {
                    self.told.sensor(&name, is_by_people.then_some(value));
                }
                self.send(number, &FromDaemon::Done { refused })
            }
            _ => self.refuse(number, "that was not the time for this message".into()),
        }
    }

    fn sense(&mut self, name: &str, value: f64) -> Option<String> {
        let sensors = self.desk.keeper().node().sensors();
        if !sensors.contains_key(name) {
            let names: Vec<_> = sensors.keys().map(String::as_str).collect();
            let has = if names.is_empty() { "none".into() } else { names.join(", ") };
            return Some(format!(
                "the daemon has no sensor `{name}`; it has: {has} (castell daemon --sensor)"
            ));
        }
        if !value.is_finite() {
            return Some(format!("{name} cannot be {value}"));
        }
        self.desk.change(now(), Input::Sensor(name.into(), value));
        None
    }

    fn set_role(&mut self, number: u64, role: Role) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.set_role(role);
        }
    }

    /// An application comes with its mailbox and its bell.
    fn join(&mut self, number: u64, name: &str, pid: u32) -> Result<(), Lost> {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        let mut descriptors = std::mem::take(&mut client.descriptors);
        let (Some(bell), Some(mailbox)) = (descriptors.pop(), descriptors.pop()) else {
            return self.refuse(number, "an application brings its mailbox and its bell".into());
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return self.refuse(number, format!("an application has a name of 1 to {NAME_BYTES_MAX} bytes"));
        }
        let kind = fs::read_link(format!("/proc/self/fd/{}", bell.as_raw_fd()));
        if !kind.is_ok_and(|kind| kind.to_string_lossy().contains("eventfd")) {
            return self.refuse(number, "the bell of an application is an eventfd".into());
        }
        let mailbox = match Mailbox::open(mailbox) {
            Ok(mailbox) => Arc::new(mailbox),
            Err(error) => return self.refuse(number, error.to_string()),
        };
        client.bell = Some(bell);
        // Others may say nothing wrong about it.
        let (user, pid) =
            (client.peer.user, if client.peer.user == own_user() { pid } else { client.peer.pid });
        client.pid = i32::try_from(pid).unwrap_or(0);
        client.set_role(Role::Application { is_open: false });
        self.journal.join(number, client.pid);
        self.desk.join(number, Held { name: name.into(), pid, user, mailbox });
        self.send(number, &FromDaemon::Hello { version: VERSION })
    }

    /// From now on an application's mailbox counts.
    fn open(&mut self, number: u64) -> Result<(), Lost> {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        client.set_role(Role::Application { is_open: true });
        let bell = client.bell.as_ref().expect("an application has one");
        epoll::watch_changes(&self.epoll, bell, CLIENTS + 2 * number + 1).map_err(std::io::Error::from)?;
        if let Some(at) = self.expected.iter().position(|pid| *pid == client.pid) {
            self.expected.swap_remove(at);
        }
        self.mailboxes(&[number], |mailbox| _ = mailbox.words().unwatch());
        if !self.park_if_it_stands(number)
            && let Err(violation) = self.desk.take_in(now(), number)
        {
            self.violated(number, violation);
        }
        Ok(())
    }

    /// An application has rung.
    pub(crate) fn look(&mut self, number: u64) {
        if self.stopped.has(number) {
            // It goes on, perhaps.
            self.look_at(number);
        }
        if self.serve(number) && !self.spin.is_zero() {
            self.active.push(number);
        }
    }

    pub(crate) fn serve(&mut self, number: u64) -> bool {
        self.desk.serve(now(), number).unwrap_or_else(|violation| {
            self.violated(number, violation);
            false
        })
    }

    pub(crate) fn violated(&mut self, number: u64, violation: Violation) {
        let name =
            self.desk.members().find(|(member, _)| *member == number).map(|(_, held)| held.name.clone());
        let pid = self.clients.get(&number).map_or(0, |client| client.pid);
        say(&format!(
            "{} (process {pid}) is sent away: {violation}",
            name.as_deref().unwrap_or("an application")
        ));
        self.lose(number, &Lost::Gone);
    }

    pub(crate) fn lose(&mut self, number: u64, lost: &Lost) {
        let Some(client) = self.clients.remove(&number) else { return };
        if !matches!(lost, Lost::Gone) {
            say(&format!("a connection of process {} is closed: {lost}", client.pid));
        }
        if let Role::Application { .. } = client.role() {
            // What it has said before counts; what must not be said does not matter any more.
            let _ = self.desk.serve(now(), number);
            self.own.leave(number);
            self.stopped.forget(number);
            self.desk.leave(number, now());
            self.journal.leave(number);
        }
        // With its descriptors it is watched no longer.
    }

    /// Reads and tries a strategy in another thread.
    pub(crate) fn load(&mut self, client: Option<u64>, source: Source) {
        self.loads += 1;
        let (post, bell) = (self.post.clone(), self.loaded.clone());
        thread::spawn(move || {
            let checked = source.checked().map(|strategy| (source, strategy));
            // The daemon lives as long as its process.
            let _ = post.send((client, checked));
            let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
        });
    }

    pub(crate) fn take_loaded(&mut self) {
        let _ = rustix::io::read(&*self.loaded, &mut [0; 8]);
        while let Ok((client, checked)) = self.inbox.try_recv() {
            self.loads -= 1;
            let refused = checked.map(|(source, strategy)| {
                // By a signal it is the command line's again.
                self.replace(&source, strategy, client.is_some());
            });
            let refused = refused.err();
            match client {
                Some(client) => {
                    if let Err(lost) = self.send(client, &FromDaemon::Done { refused }) {
                        self.lose(client, &lost);
                    }
                    self.watch_again(client);
                }
                None => refused.into_iter().for_each(|reason| say(&format!("the strategy stays: {reason}"))),
            }
        }
    }

    fn replace(&mut self, source: &Source, strategy: Box<dyn Strategy>, is_told: bool) {
        let now = now();
        // What has happened before comes before it.
        self.tell_log();
        self.recording.iter_mut().for_each(|recording| recording.strategy(now, source));
        self.told.strategy(is_told.then_some(source));
        self.desk.replace(now, strategy);
    }
}
