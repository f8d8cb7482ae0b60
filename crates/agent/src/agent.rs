//! Who says what: what runners, keepers and others say becomes something that happens to [`Sessions`].

use crate::AgentError;
use crate::keepers::{Keepers, News as Kept};
use crate::machine::Machine;
use crate::serve::News;
use crate::sessions::Sessions;
use castell_policy::session::Rules;
use castell_policy::session::protocol::{FromAgent, FromKeeper, ToAgent, VERSION, check_version};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

pub(crate) struct Agent {
    sessions: Sessions,
}

impl Agent {
    pub(crate) fn new(machine: Machine, keepers: Keepers, rules: Rules, post: Sender<News>) -> Agent {
        Agent { sessions: Sessions::new(machine, keepers, rules, post) }
    }

    /// Ends what sessions left whose runners have died together with their agent.
    pub(crate) fn clean(&mut self, abandoned: &[String]) {
        self.sessions.clean(abandoned);
    }

    /// Until there has been no session for `idle`.
    pub(crate) fn work(&mut self, inbox: &Receiver<News>, idle: Duration) -> Result<(), AgentError> {
        let mut quiet = Instant::now();
        loop {
            if self.has_work() {
                quiet = Instant::now();
            }
            let until = self.sessions.orders.until().unwrap_or(quiet + idle);
            let patience = until.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
            match inbox.recv_timeout(patience) {
                Ok(news) => self.hear(news)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.sessions.give_up();
            self.sessions.carry_out();
            if !self.has_work() && quiet.elapsed() >= idle {
                return Ok(());
            }
        }
    }

    fn has_work(&self) -> bool {
        !self.sessions.clients.is_empty() || !self.sessions.is_empty()
    }

    /// Closes all connections: nobody is told anything any more, and lets everything go on.
    pub(crate) fn let_go(&mut self) {
        self.sessions.clients.close();
        self.sessions.keepers.close();
    }

    fn hear(&mut self, news: News) -> Result<(), AgentError> {
        match news {
            News::Came(client, stream) => self.sessions.clients.came(client, stream),
            News::Said(client, message) => self.hear_client(client, message),
            News::Gone(client) => {
                let Some(gone) = self.sessions.clients.gone(client) else { return Ok(()) };
                gone.session.into_iter().for_each(|id| self.sessions.leave(id, true));
                gone.joined.into_iter().for_each(|id| self.sessions.part(id));
            }
            News::Cleaned(id) => self.sessions.ended(id),
            News::Kept(Kept::Said(node, message)) => self.hear_keeper(node, message),
            News::Kept(Kept::Gone(node, attempt)) => self.sessions.keeper_died(node, attempt)?,
        }
        Ok(())
    }

    fn hear_keeper(&mut self, node: usize, message: FromKeeper) {
        match message {
            FromKeeper::Hello { .. } => {}
            FromKeeper::Done { turn } => self.sessions.orders.keeper_did(node, turn),
            FromKeeper::Ended { mark } => self.sessions.left(&mark, node),
        }
    }

    fn hear_client(&mut self, client: u64, message: ToAgent) {
        let sessions = &mut self.sessions;
        let Some(known) = sessions.clients.get_mut(client) else { return };
        let session = known.session;
        match message {
            ToAgent::Hello { version } => {
                known.greeted = true;
                match check_version(version) {
                    Ok(()) => sessions.clients.tell(client, &FromAgent::Hello { version: VERSION }),
                    Err(error) => sessions.clients.refuse(client, error.to_string()),
                }
            }
            _ if !known.greeted => sessions.clients.refuse(client, "a greeting comes first"),
            ToAgent::Run(_) if session.is_some() => {
                sessions.clients.refuse(client, "a connection has one session");
            }
            ToAgent::Run(wanted) => sessions.run(client, *wanted),
            ToAgent::Done {} => session.into_iter().for_each(|id| sessions.orders.runner_did(id)),
            ToAgent::Paused { paused } => session.into_iter().for_each(|id| sessions.pause(id, paused)),
            ToAgent::Join { mark } => {
                let joined = sessions.join(&mark);
                match sessions.clients.get_mut(client) {
                    Some(known) if joined.is_some() => known.joined = joined,
                    _ => sessions.clients.refuse(client, "there is no such session to join"),
                }
            }
            ToAgent::Ended {} => {
                known.session = None;
                session.into_iter().for_each(|id| sessions.leave(id, false));
            }
            ToAgent::List {} => {
                let list = sessions.list();
                sessions.clients.tell(client, &list);
            }
            ToAgent::Order { session, order } => sessions.order(client, session, order),
            ToAgent::Policy { policy } => sessions.govern(client, &policy),
            ToAgent::Explain { session } => match sessions.explain(session) {
                Ok(explained) => sessions.clients.tell(client, &explained),
                Err(reason) => sessions.clients.refuse(client, reason),
            },
        }
    }
}
