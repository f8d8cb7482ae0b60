//! Tasks with versions under a node's daemon: which one runs, and when, is the daemon's word, as for kernel collections of any program.
//!
//! A ready task stands in a line here, in order. Threads, as many as the application's mailbox has places, take the first one each, ask for a place in
//! the name of the task's label, hand the task to workers of the kind that was granted, and tell its end. No worker waits for a grant. While no daemon
//! answers, the runtime decides by itself; what it had asked for before is decided by the application's own desk, by the rule of all applications.
//!
//! A body that sleeps gives its place back, since what it waits for may need that one; what it has created so far is within its own
//! place, and asks for none.

use castell_kernels::mailbox::SLOTS;
use castell_kernels::{Application, Collection, Kernel, Ranking};
use castell_sched::Kind;
use castell_sched::versions::Versions;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Collections that are registered: a daemon takes some more of an application.
const COLLECTIONS_MAX: usize = 1000;
/// They do little: they wait.
const STACK_BYTES: usize = 256 << 10;

/// Where the daemon is looked for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Daemon {
    /// Where programs with kernels find it.
    #[default]
    Usual,
    /// Here, or nowhere.
    At(Option<PathBuf>),
}

/// Who asks for places. Teams of lent threads have nobody who does, so that OpenMP's library asks no daemon.
pub(crate) trait Granting: Send + Sync {
    /// Whether to ask: there is a daemon, as far as is known.
    fn may_answer(&self) -> bool;

    /// Puts a task into the line; the answer comes from another thread, perhaps at once. False, and it is dropped, if no thread can be had
    /// that would wait for it.
    fn ask(self: Arc<Self>, request: Request) -> bool;

    /// Ends the threads: no task is left.
    fn stop(&self);
}

/// Those of a runtime with threads of its own.
pub(crate) struct Grants {
    daemon: Daemon,
    /// What the node calls workers of each kind.
    resources: [String; Kind::COUNT],
    socket: OnceLock<Option<PathBuf>>,
    application: OnceLock<Option<Application>>,
    /// Somebody has answered: from here on the application knows whether that is a daemon.
    is_settled: AtomicBool,
    collections: Mutex<HashMap<Described, Option<Collection>>>,
    line: Mutex<Line>,
    changed: Condvar,
}

/// What a collection is registered for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Described {
    label: &'static str,
    kinds: Vec<Kind>,
    is_ranked: bool,
    /// Whose times are known.
    known: Vec<bool>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Request>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    stopping: bool,
}

/// A ready task, as it asks.
pub(crate) struct Request {
    pub(crate) label: &'static str,
    pub(crate) versions: Versions,
    /// What each of them takes in nanoseconds, in their order, as far as is known.
    pub(crate) takes_ns: Vec<Option<u64>>,
    /// Hands the task on: for the kind for which it was given a place, or else for one that is chosen here.
    pub(crate) answer: Answer,
}

pub(crate) type Answer = Box<dyn FnOnce(Option<(Kind, Arc<Place>)>) + Send>;

/// Whether a place is needed any more.
#[derive(Default)]
pub(crate) struct Place {
    is_over: Mutex<bool>,
    changed: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Place {
    /// It is not.
    pub(crate) fn give_back(&self) {
        *lock(&self.is_over) = true;
        self.changed.notify_one();
    }

    /// It is.
    pub(crate) fn is_held(&self) -> bool {
        !*lock(&self.is_over)
    }

    fn wait(&self) {
        let is_over = lock(&self.is_over);
        drop(self.changed.wait_while(is_over, |is_over| !*is_over).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Grants {
    /// Nobody is asked before the first task with versions is ready.
    pub(crate) fn new(daemon: Daemon, names: &[(Kind, String)]) -> Grants {
        let mut resources = [(); Kind::COUNT].map(|()| String::new());
        for (number, name) in resources.iter_mut().enumerate() {
            *name = match number {
                0 => "one_core".to_owned(),
                1 => "gpu".to_owned(),
                _ => format!("device_{number}"),
            };
        }
        names.iter().for_each(|(kind, name)| resources[kind.index()].clone_from(name));
        Grants {
            daemon,
            resources,
            socket: OnceLock::new(),
            application: OnceLock::new(),
            is_settled: AtomicBool::new(false),
            collections: Mutex::default(),
            line: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn socket(&self) -> &Option<PathBuf> {
        self.socket.get_or_init(|| match &self.daemon {
            Daemon::At(socket) => socket.clone(),
            // Who has no folder for sockets has no daemon.
            Daemon::Usual => castell_kernels::socket().ok().flatten(),
        })
    }

    fn serve(&self) {
        while let Some(request) = self.next() {
            self.see_to(request);
        }
    }

    fn next(&self) -> Option<Request> {
        let mut line = lock(&self.line);
        loop {
            if let Some(first) = line.waiting.pop_front() {
                return Some(first);
            }
            if line.stopping {
                return None;
            }
            line.idle += 1;
            line = self.changed.wait(line).unwrap_or_else(PoisonError::into_inner);
            line.idle -= 1;
        }
    }

    /// Waits for the task's grant, hands it on, and waits for its end.
    fn see_to(&self, request: Request) {
        let collection = self.collection(&request);
        let Request { versions, answer, .. } = request;
        let mut answer = Some(answer);
        if let Some(collection) = collection {
            // Where it is refused nobody has a use for it: decided here.
            let _ = collection.run(1, |step| {
                let place = Arc::new(Place::default());
                if let Some(answer) = answer.take() {
                    answer(Some((versions.kinds()[step.kernel], place.clone())));
                    place.wait();
                }
            });
        }
        if let Some(answer) = answer {
            answer(None);
        }
    }

    /// What the task's label is registered as; none while no daemon answers, or if it wants none of it.
    fn collection(&self, request: &Request) -> Option<Collection> {
        let open = || Application::open_at(&program(), self.socket().as_deref()).ok();
        let Some(application) = self.application.get_or_init(open) else {
            self.is_settled.store(true, Ordering::Release);
            return None;
        };
        let Request { label, versions, takes_ns, .. } = request;
        let (kinds, is_ranked) = (versions.kinds().to_vec(), versions.is_ranked);
        let known = takes_ns.iter().map(Option::is_some).collect();
        let described = Described { label, kinds, is_ranked, known };
        let mut collections = lock(&self.collections);
        if let Some(found) = collections.get(&described) {
            return found.clone().filter(|_| application.has_daemon());
        }
        if collections.len() >= COLLECTIONS_MAX {
            return None;
        }
        let resources: Vec<String> =
            described.kinds.iter().map(|kind| self.resources[kind.index()].clone()).collect();
        let kernels = resources.iter().zip(takes_ns);
        let kernels = kernels.map(|(resource, &step_ns)| Kernel { resource: resource.clone(), step_ns });
        let ranking = is_ranked.then(|| Ranking { name: "performance".to_owned(), order: resources.clone() });
        // Waits for whoever decides; what it wants none of is decided here for good.
        let registered = application.register(&kernels.collect::<Vec<_>>(), ranking.as_slice()).ok();
        self.is_settled.store(true, Ordering::Release);
        collections.insert(described, registered.clone());
        registered.filter(|_| application.has_daemon())
    }
}

impl Granting for Grants {
    fn may_answer(&self) -> bool {
        if !self.is_settled.load(Ordering::Acquire) {
            return self.socket().is_some();
        }
        self.application.get().and_then(Option::as_ref).is_some_and(Application::has_daemon)
    }

    fn ask(self: Arc<Self>, request: Request) -> bool {
        let mut line = lock(&self.line);
        if line.waiting.len() >= line.idle && line.threads.len() < SLOTS {
            let grants = Arc::clone(&self);
            let builder = std::thread::Builder::new().name("castell-grants".to_owned());
            line.threads.extend(builder.stack_size(STACK_BYTES).spawn(move || grants.serve()).ok());
        }
        if line.threads.is_empty() {
            return false;
        }
        line.waiting.push_back(request);
        drop(line);
        self.changed.notify_one();
        true
    }

    fn stop(&self) {
        let threads = {
            let mut line = lock(&self.line);
            line.stopping = true;
            std::mem::take(&mut line.threads)
        };
        self.changed.notify_all();
        for thread in threads {
            // A panic of its own is a broken invariant, already printed.
            let _ = thread.join();
        }
    }
}

/// What people call this program.
fn program() -> String {
    let name =
        std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| "tasks".to_owned())
}
