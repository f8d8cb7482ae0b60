//! Sessions in the same daemon: an agent of them in a thread of its own, and what it has in common with kernels. While a session stands
//! still, its programs get no kernels, and where theirs ran others may.

use crate::DaemonError;
use crate::learn::Learning;
use crate::serve::{Daemon, now};
use castell_agent::{Allocation, Foresight, Life, Marks, Place, Watcher, mark_of};
use castell_host::say;
use castell_host::users::Others;
use castell_policy::session::Rules;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Until then an agent listens that nobody is in the way of.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// The sessions that a daemon keeps.
pub struct Sessions {
    /// Where their runners find it.
    pub place: Place,
    /// Their policy, until somebody wants another one.
    pub rules: Rules,
    /// Their nodes, of which this is the first; none for this host alone.
    pub allocation: Option<Allocation>,
    /// What is learned of them, if anything.
    pub learning: Option<Learning>,
}

/// The marks of sessions that stand still, and who is rung for when these are others.
pub(crate) struct Standing {
    marks: Mutex<Marks>,
    /// Told when somebody runs.
    runs: Condvar,
    pub(crate) bell: OwnedFd,
}

impl Standing {
    pub(crate) fn new() -> Result<Standing, DaemonError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = bell.map_err(DaemonError::system("make an eventfd"))?;
        Ok(Standing { marks: Mutex::default(), runs: Condvar::new(), bell })
    }

    fn set(&self, marks: &Marks) {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).clone_from(marks);
        self.runs.notify_all();
        // A bell that rings already is enough.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn has(&self, mark: &str) -> bool {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).standing.contains(mark)
    }

    /// The sessions that run. Waits until there are some; calls `before` if it has to.
    pub(crate) fn running(&self, before: &mut dyn FnMut()) -> BTreeSet<String> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.running.is_empty() {
            drop(marks);
            before();
            marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let nobody = |marks: &mut Marks| marks.running.is_empty();
        self.runs.wait_while(marks, nobody).unwrap_or_else(PoisonError::into_inner).running.clone()
    }
}

impl Sessions {
    /// Keeps them as long as this process lives. Returns when runners find it, unless that takes longer than usual: another agent may have
    /// to hand over, or does not.
    pub(crate) fn keep(self, standing: &Arc<Standing>, others: &Others) {
        let outlook = self.learning.as_ref().map(Learning::outlook);
        if let Some((learning, outlook)) = self.learning.clone().zip(outlook.clone()) {
            let standing = standing.clone();
            learning.start(Box::new(move |before| standing.running(before)), outlook);
        }
        let (standing, others) = (standing.clone(), others.clone());
        let (ready, is_ready) = channel::<()>();
        thread::spawn(move || {
            let watcher: Watcher = Box::new(move |marks| standing.set(marks));
            let Sessions { place, rules, allocation, .. } = self;
            let options = castell_agent::Options {
                place: &place,
                rules,
                others,
                life: Life::Lasting,
                allocation: allocation.as_ref(),
                watcher: Some(watcher),
                foresight: outlook.map(|outlook| Box::new(outlook) as Box<dyn Foresight>),
                ready: Box::new(move || drop(ready)),
            };
            if let Err(error) = castell_agent::serve(options) {
                say(&format!("this daemon keeps no sessions any more: {error}"));
            }
        });
        // Nothing is sent: it is told by being dropped.
        let _ = is_ready.recv_timeout(READY_WITHIN);
    }
}

impl Daemon {
    /// Other sessions stand still than before.
    pub(crate) fn look_who_stands(&mut self) {
        let _ = rustix::io::read(&self.standing.bell, &mut [0; 8]);
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        numbers.into_iter().for_each(|number| _ = self.park_if_it_stands(number));
    }

    /// Parks an application whose session stands still, or takes it in again; whether it is parked.
    pub(crate) fn park_if_it_stands(&mut self, number: u64) -> bool {
        let Some(client) = self.clients.get_mut(&number).filter(|client| client.is_open()) else {
            return false;
        };
        let mark = client.mark.get_or_insert_with(|| mark_of(client.pid).unwrap_or_default());
        let stands = self.standing.has(mark);
        match (stands, std::mem::replace(&mut client.is_parked, stands)) {
            (true, false) => self.desk.park(now(), number),
            (false, true) => {
                if let Err(violation) = self.desk.take_in(now(), number) {
                    self.violated(number, violation);
                }
            }
            _ => {}
        }
        stands
    }
}
