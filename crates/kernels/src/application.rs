//! An application and the kernels that it has for its computations.

use crate::link::Shared;
use crate::mailbox::State;
use crate::protocol::{OwnStrategy, Shape};
use crate::{KernelsError, OwnState};
use castell_host::futex::Woken;
use castell_host::{clock, futex};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a thread looks for an answer before it sleeps, where whoever answers may have a processor of its own to do so.
const SPIN_NS: u64 = 5_000;
/// The same where that one is awake already, and looks at the mailbox by itself.
const SPIN_WATCHED_NS: u64 = 20_000;

/// How long a thread waits before it looks whether the daemon stands still: the first time, and at most from then on.
const LOOK_AFTER: Duration = Duration::from_secs(2);
const LOOK_AFTER_MAX: Duration = Duration::from_secs(32);

/// Code for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The resource's name: `one_core`, `all_cores`, or what the node's administrator calls a device.
    pub resource: String,
    /// How many nanoseconds a step takes there, if somebody knows.
    pub step_ns: Option<u64>,
}

/// Resources, best first, by some measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// The measure: `performance`, `accuracy`, `energy`.
    pub name: String,
    /// Best first.
    pub order: Vec<String>,
}

/// A step that is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// With which of the kernels, counted from 0 in the order in which they were registered.
    pub kernel: usize,
    /// Which step, from 0.
    pub step: u32,
}

/// A program's connection to whoever decides about its kernels. Dropping it gives up what waits.
#[derive(Debug)]
pub struct Application {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The kernels of one computation, registered: to be run as often as one likes, by as many threads as one likes.
#[derive(Clone, Debug)]
pub struct Collection {
    shared: Arc<Shared>,
    shape: u32,
}

impl Application {
    /// Goes to the daemon of this node, where there is one ([`crate::socket`]); decides by itself while there is none.
    ///
    /// # Errors
    /// The system has no memory, descriptors or threads left, or the folder of the daemon's socket is not safe.
    pub fn open(name: &str) -> Result<Application, KernelsError> {
        Application::open_at(name, crate::socket()?.as_deref())
    }

    /// The same for the daemon at this socket, or for none.
    ///
    /// # Errors
    /// See [`Application::open`].
    pub fn open_at(name: &str, socket: Option<&Path>) -> Result<Application, KernelsError> {
        let shared = Arc::new(Shared::new(name, socket)?);
        let (of_thread, socket) = (shared.clone(), socket.map(PathBuf::from));
        let started = thread::Builder::new()
            .name("castell-kernels".into())
            .spawn(move || crate::link::keep(&of_thread, socket.as_deref()));
        let thread = started.map_err(|error| castell_host::HostError::System {
            what: "start a thread".into(),
            source: error,
        })?;
        Ok(Application { shared, thread: Some(thread) })
    }

    /// Registers kernels, and rankings of them; the first ranking is the one that strategies go by. Without one the times rank them.
    ///
    /// # Errors
    /// No kernel, two for one resource, rankings that are none of these kernels, or nothing that the node could ever run.
    pub fn register(&self, kernels: &[Kernel], rankings: &[Ranking]) -> Result<Collection, KernelsError> {
        let shape = Shape {
            kernels: kernels.iter().map(|kernel| (kernel.resource.clone(), kernel.step_ns)).collect(),
            rankings: rankings.iter().map(|ranking| (ranking.name.clone(), ranking.order.clone())).collect(),
        };
        Ok(Collection { shape: self.shared.register(shape)?, shared: self.shared.clone() })
    }

    /// Brings a strategy for this application's own collections, in place of one that it has brought before: it says onto which resource
    /// each goes, and in which order; the node's says when. A daemon reads and tries it out first, and this waits for that; where there is
    /// none yet, a later one does ([`OwnState::Alone`]).
    ///
    /// # Errors
    /// It is no strategy, or fails when it is tried out: the node's decides.
    pub fn bring_strategy(&self, strategy: OwnStrategy) -> Result<OwnState, KernelsError> {
        self.shared.bring(strategy)
    }

    /// Gives up the strategy that it has brought: the node's decides.
    pub fn give_up_strategy(&self) {
        self.shared.give_up_own();
    }

    /// Who decides about this application's collections now. A strategy that fails is stopped at any time.
    pub fn own_strategy(&self) -> OwnState {
        self.shared.own().state()
    }

    /// Whether a daemon decides now, and not the application itself.
    pub fn has_daemon(&self) -> bool {
        self.shared.has_daemon()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, there would be nothing to do about it here.
            let _ = thread.join();
        }
    }
}

impl Collection {
    /// Carries the computation out, once, in so many steps: waits for a place for each, and runs it there with `run`. Between two steps
    /// it may have to go elsewhere.
    ///
    /// # Errors
    /// There are no steps, whoever decides has no use for the kernels, or the application was closed.
    pub fn run(&self, steps: u32, mut run: impl FnMut(Step)) -> Result<(), KernelsError> {
        let slot = self.shared.take_slot()?;
        let words = self.shared.mailbox().words();
        let mut held = Held { shared: &self.shared, slot, is_granted: false };
        let mut rings = words.ask(slot, self.shape, steps, clock::now_ns());
        self.shared.said(slot, rings);
        let mut waits = State::Asked;
        loop {
            self.shared.wait_while(slot, waits, spin_ns(rings));
            let said = words.slot(slot);
            match said.state {
                Some(State::Granted) => {
                    held.is_granted = true;
                    run(Step { kernel: said.kernel as usize, step: said.steps_done });
                    held.is_granted = false;
                    rings = words.end_step(slot);
                    if said.steps_done.saturating_add(1) >= steps {
                        // Nobody has to wait until that is heard: whoever uses the slot next looks.
                        std::mem::forget(held);
                        self.shared.ring_if(rings);
                        self.shared.end_slot(slot);
                        return Ok(());
                    }
                    self.shared.said(slot, rings);
                    waits = State::Ended;
                }
                _ if self.shared.is_closed() => {
                    return Err(KernelsError::Closed(self.shared.name().into()));
                }
                _ => return Err(KernelsError::Refused { application: self.shared.name().into() }),
            }
        }
    }
}

fn spin_ns(rings: bool) -> u64 {
    // Asked once: the answer is read from files of the control group, which takes ten times as long as the way to a daemon and back.
    static HAS_OTHERS: OnceLock<bool> = OnceLock::new();
    let has_others = || thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    match (HAS_OTHERS.get_or_init(has_others), rings) {
        (false, _) => 0,
        (true, true) => SPIN_NS,
        (true, false) => SPIN_WATCHED_NS,
    }
}

/// A slot that a run has; given up where the kernel panics.
struct Held<'a> {
    shared: &'a Shared,
    slot: usize,
    is_granted: bool,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let words = self.shared.mailbox().words();
        if self.is_granted {
            self.shared.said(self.slot, words.abandon(self.slot));
            self.shared.wait_while(self.slot, State::Abandoned, 0);
        }
        if matches!(words.slot(self.slot).state, Some(State::Done | State::Refused)) {
            words.release(self.slot);
            self.shared.give_slot(self.slot);
        }
    }
}

impl Shared {
    /// Waits until the slot has another state than this one.
    pub(crate) fn wait_while(&self, slot: usize, state: State, spin_ns: u64) {
        let words = self.mailbox().words();
        let until = if spin_ns > 0 { clock::now_ns() + spin_ns } else { 0 };
        let mut patience = LOOK_AFTER;
        loop {
            if words.slot(slot).state != Some(state) {
                return;
            }
            if until > 0 && clock::now_ns() < until {
                std::hint::spin_loop();
                continue;
            }
            if let Some((word, value)) = words.doze(slot, state)
                && futex::wait(word, value, u32::MAX, Some(patience)) == Woken::TimedOut
            {
                if self.has_daemon() {
                    self.does_daemon_stand();
                }
                patience = (2 * patience).min(LOOK_AFTER_MAX);
            }
        }
    }
}
