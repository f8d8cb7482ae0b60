//! Who says what: what runners, keepers and others say becomes something that happens to [`Sessions`].

use crate::AgentError;
use crate::keepers::News as Kept;
use crate::news::{Life, Marks, News, Watcher};
use crate::sessions::{Books, Reported, Sessions};
use crate::store::Store;
use castell_host::descriptor::own_user;
use castell_policy::session::protocol::{FromAgent, FromKeeper, ToAgent, VERSION, check_version};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// So much is heard before something is done about it.
const HEARD_A_TURN: usize = 64;

pub(crate) struct Agent {
    sessions: Sessions,
    store: Store,
    /// Somebody else keeps the sessions from now on.
    is_over: bool,
    /// What was said before it was known which sessions there are.
    later: Vec<(u64, ToAgent)>,
}

impl Agent {
    pub(crate) fn new(sessions: Sessions, store: Store) -> Agent {
        Agent { sessions, store, is_over: false, later: Vec::new() }
    }

    /// Goes on from what another agent has left.
    pub(crate) fn restore(&mut self, books: Books) {
        if let Err(reason) = self.sessions.restore(books) {
            castell_host::say(&self.store.set_aside(&reason));
            self.sessions.lose_books();
        }
    }

    /// Another agent has left something of no use.
    pub(crate) fn lose_books(&mut self) {
        self.sessions.lose_books();
    }

    /// Ends what sessions left whose runners have died together with their agent.
    pub(crate) fn clean(&mut self, abandoned: &[String]) {
        self.sessions.clean(abandoned);
    }

    /// Until another agent takes over, or there has been no session for as long as its life lasts then. `watcher` hears which sessions
    /// stand still and which run, whenever these are others.
    pub(crate) fn work(
        &mut self,
        inbox: &Receiver<News>,
        life: Life,
        watcher: Option<&Watcher>,
    ) -> Result<(), AgentError> {
        let mut quiet = Instant::now();
        let mut marks = Marks::default();
        loop {
            if self.has_work() {
                quiet = Instant::now();
            }
            let end = life.after(quiet);
            let patience = self.patience(end);
            match inbox.recv_timeout(patience) {
                // What has come meanwhile as well: all of it is written down at once.
                Ok(news) => {
                    let more = inbox.try_iter().take(HEARD_A_TURN);
                    std::iter::once(news).chain(more).try_for_each(|news| self.hear(news))?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.sessions.give_up();
            self.sessions.look_now_and_then();
            self.sessions.look_ahead();
            self.sessions.resume_if_all_are_back();
            self.sessions.adopt_if_all_are_back();
            if !self.sessions.is_adopting() {
                std::mem::take(&mut self.later)
                    .into_iter()
                    .for_each(|(client, message)| self.hear_client(client, message));
            }
            // Before it is carried out: whoever goes on from there does it then.
            self.store.write(self.sessions.books().as_ref());
            if self.is_over {
                self.sessions.clients.close();
                return Ok(());
            }
            self.sessions.carry_out();
            if let Some(watcher) = watcher {
                let now = self.sessions.marks();
                if now != marks {
                    watcher(&now);
                    marks = now;
                }
            }
            if !self.has_work() && end.is_some_and(|end| Instant::now() >= end) {
                return Ok(());
            }
        }
    }

    /// How long nothing has to be done without somebody saying so.
    fn patience(&self, end: Option<Instant>) -> Duration {
        let until = self.sessions.orders.until().or(self.sessions.adopting_until()).or(end);
        let patience = until.map(|until| until.saturating_duration_since(Instant::now()));
        patience.unwrap_or(Duration::MAX).min(Duration::from_secs(1))
    }

    fn has_work(&self) -> bool {
        !self.sessions.clients.is_empty() || !self.sessions.is_empty()
    }

    /// Lets everything go on: nobody decides about these sessions any more.
    pub(crate) fn let_go(&mut self, reason: &str) {
        self.store.write(None::<&Books>);
        self.sessions.clients.tell_all(&FromAgent::LetGo { reason: reason.into() });
        self.sessions.clients.close();
        self.sessions.keepers.close();
    }

    fn hear(&mut self, news: News) -> Result<(), AgentError> {
        match news {
            News::Came(client, stream, peer) => self.sessions.clients.came(client, stream, peer),
            News::Said(client, message) => self.hear_client(client, message),
            News::Gone(client) => {
                let Some(gone) = self.sessions.clients.gone(client) else { return Ok(()) };
                gone.session.into_iter().for_each(|id| self.sessions.leave(id, true));
                gone.joined.into_iter().for_each(|id| self.sessions.part(id));
            }
            News::Cleaned(id) => self.sessions.ended(id),
            News::StandStill(mark, longest, answer) => self.sessions.stand_still(&mark, longest, answer),
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
        let is_adopting = sessions.is_adopting();
        let Some(known) = sessions.clients.get_mut(client) else { return };
        let (session, peer) = (known.session, known.peer);
        match message {
            ToAgent::Hello { version } => {
                known.greeted = true;
                match check_version(version) {
                    Ok(()) => sessions.clients.tell(client, &FromAgent::Hello { version: VERSION }),
                    Err(error) => sessions.clients.refuse(client, error.to_string()),
                }
            }
            ToAgent::Run(_)
            | ToAgent::Join { .. }
            | ToAgent::List {}
            | ToAgent::Order { .. }
            | ToAgent::Policy { .. }
            | ToAgent::Count { .. }
            | ToAgent::SlowdownMax { .. }
            | ToAgent::Explain { .. }
                if known.greeted && is_adopting =>
            {
                self.later.push((client, message));
            }
            _ if !known.greeted => sessions.clients.refuse(client, "a greeting comes first"),
            ToAgent::Run(_) if session.is_some() => {
                sessions.clients.refuse(client, "a connection has one session");
            }
            ToAgent::Run(wanted) => sessions.run(client, *wanted),
            ToAgent::Return { .. } if session.is_some() => {
                sessions.clients.refuse(client, "a connection has one session");
            }
            ToAgent::Return { mark, started, suspended, paused, parts, known } => {
                sessions.return_to(client, &mark, paused, Reported { started, suspended, parts }, *known);
            }
            ToAgent::HandOver {} | ToAgent::Policy { .. } | ToAgent::SlowdownMax { .. }
                if peer.user != own_user() =>
            {
                sessions.clients.refuse(client, "only the user whose agent this is does that");
            }
            ToAgent::HandOver {} => self.is_over = true,
            ToAgent::Done {} => session.into_iter().for_each(|id| sessions.orders.runner_did(id)),
            ToAgent::Stood(stood) => session.into_iter().for_each(|id| sessions.has_stood(id, stood)),
            ToAgent::Paused { paused } => session.into_iter().for_each(|id| sessions.pause(id, paused)),
            ToAgent::Join { mark } => {
                let joined = sessions.join(&mark, peer);
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
                let list = sessions.list(peer);
                sessions.clients.tell(client, &list);
            }
            ToAgent::Order { session, order } => sessions.order(client, session, order),
            ToAgent::Count { mark } => sessions.count(client, &mark),
            ToAgent::Policy { policy } => sessions.govern(client, &policy),
            ToAgent::SlowdownMax { slowdown_max } => sessions.limit(client, slowdown_max),
            ToAgent::Explain { session } => match sessions.explain(session, peer) {
                Ok(explained) => sessions.clients.tell(client, &explained),
                Err(reason) => sessions.clients.refuse(client, reason),
            },
        }
    }
}
