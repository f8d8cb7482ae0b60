//! Strategies that applications bring for their own collections. Each decides in a thread of its own, at the lowest priority: whatever one
//! of them does, nobody else waits for it. What it is told goes there, and what it chooses comes back and is what counts.

use crate::Source;
use crate::client::Lost;
use crate::serve::{Daemon, now, pause};
use castell_host::say;
use castell_kernels::protocol::{FromDaemon, OwnStrategy, ShownOwn};
use castell_strategy::own::{Chosen, News, Own};
use castell_strategy::{Kernels, Node};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Own strategies at a time, also those whose last call is not over.
const OWN_MAX: usize = 256;

/// The own strategies of a daemon's applications.
pub(crate) struct OwnStrategies {
    threads: BTreeMap<u64, Thread>,
    /// How many each application has brought, for its answers.
    brought: BTreeMap<u64, u64>,
    post: Sender<Said>,
    inbox: Receiver<Said>,
    bell: Arc<OwnedFd>,
    /// Held by each thread.
    alive: Arc<()>,
}

struct Thread {
    source: Source,
    number: u64,
    news: Sender<News>,
}

/// What an application has to do with.
struct On {
    node: Node,
    kernels: Vec<Arc<Kernels>>,
}

/// What a thread says, for which application and which of the strategies that it has brought.
struct Said {
    client: u64,
    number: u64,
    what: What,
}

enum What {
    /// It was tried out.
    Ready,
    Chosen(Vec<Chosen>),
    Stopped(String),
}

impl OwnStrategies {
    /// None as yet; the bell is rung when one has said something.
    pub(crate) fn new(bell: OwnedFd) -> OwnStrategies {
        let (post, inbox) = channel();
        let (threads, brought) = (BTreeMap::new(), BTreeMap::new());
        OwnStrategies { threads, brought, post, inbox, bell: Arc::new(bell), alive: Arc::new(()) }
    }

    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// An application has gone, and its strategy with it: the thread ends when it listens next.
    pub(crate) fn leave(&mut self, client: u64) {
        self.threads.remove(&client);
        self.brought.remove(&client);
    }

    fn start(&mut self, client: u64, number: u64, source: Source, on: On) -> Result<(), String> {
        if Arc::strong_count(&self.alive) > OWN_MAX {
            return Err(format!("{OWN_MAX} applications have strategies of their own: no more are taken"));
        }
        let (news, heard) = channel();
        let (post, bell, alive) = (self.post.clone(), self.bell.clone(), self.alive.clone());
        let say = move |what| {
            // The daemon lives as long as its process.
            let _ = post.send(Said { client, number, what });
            let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
        };
        let of_thread = source.clone();
        let started = thread::Builder::new().name("own-strategy".into()).spawn(move || {
            let stopped = decide(&of_thread, &on, &heard, &say);
            stopped.into_iter().for_each(|reason| say(What::Stopped(reason)));
            drop(alive);
        });
        started.map_err(|error| format!("there is no thread for it: {error}"))?;
        self.threads.insert(client, Thread { source, number, news });
        Ok(())
    }
}

/// A thread's life: until it fails, and why, or until its application has gone.
fn decide(source: &Source, on: &On, heard: &Receiver<News>, say: &dyn Fn(What)) -> Option<String> {
    // Without it, it decides as well.
    let _ = rustix::process::setpriority_process(None, 19);
    let strategy = match source.checked_own(&on.node, &on.kernels) {
        Ok(strategy) => strategy,
        Err(reason) => return Some(reason),
    };
    let mut own = Own::new(&on.node, strategy);
    say(What::Ready);
    loop {
        let patience = own.next_tick().map_or(Duration::MAX, |due| pause(due, now()));
        let chosen = match heard.recv_timeout(patience) {
            Ok(news) => own.hear(now(), news),
            Err(RecvTimeoutError::Timeout) => own.tick(now()),
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        match chosen {
            Ok(chosen) if chosen.is_empty() => {}
            Ok(chosen) => say(What::Chosen(chosen)),
            Err(fault) => return Some(fault.to_string()),
        }
    }
}

impl Daemon {
    /// An application brings a strategy, or gives one up.
    pub(crate) fn bring(&mut self, client: u64, strategy: Option<OwnStrategy>) -> Result<(), Lost> {
        let brought = self.own.brought.entry(client).or_default();
        *brought += 1;
        let number = *brought;
        self.own.threads.remove(&client);
        let Some(strategy) = strategy else {
            self.own_is_over(client, None);
            return Ok(());
        };
        let name = strategy.name.clone();
        let on =
            On { node: self.desk.keeper().node().of_application(), kernels: self.desk.kernels_of(client) };
        let started = Source::own(strategy).and_then(|source| self.own.start(client, number, source, on));
        match started {
            Ok(()) => {
                // Until it is ready the node's strategy decides, and not the one before it.
                self.own_is_over(client, Some(ShownOwn { name, decides: false, stopped: None }));
                Ok(())
            }
            Err(reason) => self.stop_own(client, number, name, reason),
        }
    }

    /// What own strategies have said.
    pub(crate) fn hear_own(&mut self) {
        let _ = rustix::io::read(self.own.bell(), &mut [0; 8]);
        while let Ok(Said { client, number, what }) = self.own.inbox.try_recv() {
            // Of one that has gone, or was replaced, it is too late.
            let Some(thread) = self.own.threads.get(&client).filter(|thread| thread.number == number) else {
                continue;
            };
            let told = match what {
                What::Ready => self.own_decides(client, number),
                What::Chosen(chosen) => {
                    self.desk.own_says(now(), client, &chosen);
                    Ok(())
                }
                What::Stopped(reason) => {
                    let name = thread.source.name.clone();
                    self.own.threads.remove(&client);
                    self.stop_own(client, number, name, reason)
                }
            };
            if let Err(lost) = told {
                self.lose(client, &lost);
            }
            self.watch_again(client);
        }
    }

    /// Own strategies are told what has happened.
    pub(crate) fn tell_own(&mut self) {
        for (client, news) in self.desk.take_news() {
            // One that has just been stopped hears no more.
            let _ = self.own.threads.get(&client).map(|thread| thread.news.send(news));
        }
    }

    fn own_decides(&mut self, client: u64, number: u64) -> Result<(), Lost> {
        let Some(source) = self.own.threads.get(&client).map(|thread| thread.source.clone()) else {
            return Ok(());
        };
        let name = source.name.clone();
        self.tell_log();
        let application = self.name_of(client);
        self.recording.iter_mut().for_each(|recording| recording.own(now(), &application, Some(&source)));
        self.desk.set_own(now(), client);
        self.desk.show_own(client, Some(ShownOwn { name, decides: true, stopped: None }));
        self.send(client, &FromDaemon::Own { number, stopped: None })
    }

    fn stop_own(&mut self, client: u64, number: u64, name: String, reason: String) -> Result<(), Lost> {
        say(&format!("the own strategy of {} is stopped: {reason}", self.name_of(client)));
        let stopped = Some(reason);
        self.own_is_over(client, Some(ShownOwn { name, decides: false, stopped: stopped.clone() }));
        self.send(client, &FromDaemon::Own { number, stopped })
    }

    fn own_is_over(&mut self, client: u64, shown: Option<ShownOwn>) {
        if self.desk.has_own(client) {
            self.tell_log();
            let application = self.name_of(client);
            self.recording.iter_mut().for_each(|recording| recording.own(now(), &application, None));
            self.desk.end_own(now(), client);
        }
        self.desk.show_own(client, shown);
    }

    fn name_of(&self, client: u64) -> String {
        let held = self.desk.members().find(|(member, _)| *member == client);
        held.map_or(String::new(), |(_, held)| held.name.to_string())
    }
}

impl Source {
    /// Where an application's own strategy comes from.
    fn own(strategy: OwnStrategy) -> Result<Source, String> {
        let OwnStrategy { name, script, parameters } = strategy;
        let shipped = || castell_luau::shipped::named(&name).map(|shipped| shipped.text.to_owned());
        match script.or_else(shipped) {
            Some(script) => Ok(Source { name, script, parameters }),
            None => Err(format!("no strategy `{name}` comes with castell (castell strategy list)")),
        }
    }
}
