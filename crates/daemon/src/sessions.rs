//! Sessions in the same daemon: an agent of them in a thread of its own, and what it has in common with kernels. While a session stands
//! still, its programs get no kernels, and where theirs ran others may. So it is with programs that are stopped in no session, where others
//! wait for what they have.

use crate::learn::Learning;
use crate::serve::{Daemon, now};
use crate::standing::Standing;
use castell_agent::{Allocation, Foresight, Life, Place, Stills, Watcher, mark_of};
use castell_host::users::Others;
use castell_host::{clock, say};
use castell_policy::session::Rules;
use std::sync::Arc;
use std::sync::mpsc::channel;
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

impl Sessions {
    /// Keeps them as long as this process lives. Returns when runners find it, unless that takes longer than usual: another agent may have
    /// to hand over, or does not.
    pub(crate) fn keep(self, standing: &Arc<Standing>, others: &Others) {
        let (outlook, stills) = (self.learning.as_ref().map(Learning::outlook), Stills::default());
        if let Some((learning, outlook)) = self.learning.clone().zip(outlook.clone()) {
            learning.start(standing.clone(), outlook, stills.clone());
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
                stills: Some(stills),
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
        // Whose session goes on may have been seen to be stopped.
        self.look_again_at_stopped();
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        numbers.into_iter().for_each(|number| _ = self.park_if_it_stands(number));
    }

    /// When it is looked next who is stopped, by the host's clock; never where nobody waits.
    pub(crate) fn next_look_ns(&self) -> Option<u64> {
        self.stopped.next_ns(self.somebody_waits())
    }

    fn somebody_waits(&self) -> bool {
        self.desk.is_open() && self.desk.keeper().node().has_choice()
    }

    /// Looks who is stopped of those that are in the way of others, if it is time to.
    pub(crate) fn look_who_is_stopped(&mut self) {
        let somebody_waits = self.somebody_waits();
        if !somebody_waits && self.stopped.next_ns(false).is_none() {
            return;
        }
        if self.stopped.begin(somebody_waits, clock::now_ns()) {
            self.look_again_at_stopped();
            self.desk.in_the_way().into_iter().for_each(|number| self.look_at(number));
        }
    }

    fn look_again_at_stopped(&mut self) {
        self.stopped.all().into_iter().for_each(|number| self.look_at(number));
    }

    /// Looks whether one is stopped, or no longer.
    pub(crate) fn look_at(&mut self, number: u64) {
        let Some(client) = self.clients.get(&number) else { return };
        // Not what it says of itself: that number may be one of another namespace.
        if self.stopped.look(number, client.peer.pid) {
            self.park_if_it_stands(number);
        }
    }

    /// Parks an application that is stopped or whose session stands still, or takes it in again; whether it is parked.
    pub(crate) fn park_if_it_stands(&mut self, number: u64) -> bool {
        let Some(client) = self.clients.get_mut(&number).filter(|client| client.is_open()) else {
            return false;
        };
        let mark = client.mark.get_or_insert_with(|| mark_of(client.pid).unwrap_or_default());
        let stands = self.standing.has(mark) || self.stopped.has(number);
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
