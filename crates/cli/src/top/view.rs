//! What the keys do, and what is shown besides a snapshot. Knows no terminal.

use super::snapshot::Snapshot;
use super::words;
use castell_policy::session::protocol::{FromAgent, Order, ToAgent};
use castell_policy::session::{Policy, Rules};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;

/// Letters of what is typed.
const TYPED_MAX: usize = 200;

const HELP: [&str; 7] = [
    "up, down, k, j   select a session          s  stop it        r  resume it",
    "x, Enter         explain it                e  end it, which is asked first",
    "p  another policy for all sessions (castell session set --policy)",
    "g  another level of the daemon's governor (castell strategy governor)",
    "l  another strategy for the daemon (castell strategy load): a name or a file",
    "Ctrl-L  draw all of it anew                Ctrl-Z  leave for a while (fg)",
    "q, Esc  leave. Nothing of it changes what runs but s, r, e, p, g and l.",
];

/// The screen's state.
pub struct View {
    pub snapshot: Snapshot,
    /// The number of the session that keys are about, as long as it is there.
    pub selected: Option<u64>,
    pub question: Option<Question>,
    /// What was answered last, line by line.
    pub said: Vec<String>,
    /// Whether an answer is due.
    pub asked: bool,
    /// What is to be asked behind that, in the order in which keys were pressed.
    next: VecDeque<Action>,
    pub has_colours: bool,
}

/// What is to be answered before anything is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether a session is to end.
    End(u64),
    /// Which policy.
    Policy,
    /// Which level the governor is to have, as far as it is typed.
    Governor(String),
    /// Which strategy is to decide, as far as it is typed.
    Strategy(String),
}

/// What a key asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Nothing,
    Quit,
    /// Somebody wants the shell for a while.
    Leave,
    Redraw,
    /// The session agent.
    Ask(ToAgent),
    /// The daemon's governor.
    Govern(String),
    /// The daemon's strategy.
    Load(String),
}

/// Who has answered.
#[derive(Clone, Debug)]
pub enum Answer {
    Agent(Box<FromAgent>),
    /// The daemon has done what was wanted.
    Daemon,
}

impl View {
    pub fn new(snapshot: Snapshot, has_colours: bool) -> View {
        let mut view = View {
            snapshot,
            selected: None,
            question: None,
            said: Vec::new(),
            asked: false,
            next: VecDeque::new(),
            has_colours,
        };
        view.choose(0);
        view
    }

    /// Another moment.
    pub fn show(&mut self, snapshot: Snapshot) {
        let row = self.row();
        self.snapshot = snapshot;
        // Where the session has ended, the next one takes its row.
        if self.row().is_none() {
            self.choose(row.unwrap_or(0));
        }
    }

    /// Where the selected session stands.
    pub fn row(&self) -> Option<usize> {
        self.snapshot.sessions.iter().position(|session| Some(session.session) == self.selected)
    }

    fn choose(&mut self, row: usize) {
        let sessions = &self.snapshot.sessions;
        let last = sessions.len().saturating_sub(1);
        self.selected = sessions.get(row.min(last)).map(|session| session.session);
    }

    /// A key was pressed.
    pub fn press(&mut self, key: KeyEvent) -> Action {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Quit,
                KeyCode::Char('z') => Action::Leave,
                KeyCode::Char('l') => Action::Redraw,
                _ => Action::Nothing,
            };
        }
        match self.question.take() {
            None => self.command(key.code),
            Some(Question::End(session)) => match key.code {
                KeyCode::Char('y') => self.order(session, Order::End {}),
                _ => Action::Nothing,
            },
            Some(Question::Policy) => {
                match policies().into_iter().find(|(letter, _)| key.code == KeyCode::Char(*letter)) {
                    Some((_, policy)) => {
                        self.ask(Action::Ask(ToAgent::Policy { policy: Rules::new(policy).to_string() }))
                    }
                    None => Action::Nothing,
                }
            }
            Some(Question::Governor(text)) => self.typed(text, key.code, Question::Governor, Action::Govern),
            Some(Question::Strategy(text)) => self.typed(text, key.code, Question::Strategy, Action::Load),
        }
    }

    /// One more key of a text; Enter ends it, and Escape gives it up.
    fn typed(
        &mut self,
        mut text: String,
        key: KeyCode,
        question: fn(String) -> Question,
        action: fn(String) -> Action,
    ) -> Action {
        match key {
            KeyCode::Esc => return Action::Nothing,
            KeyCode::Enter if text.is_empty() => return Action::Nothing,
            KeyCode::Enter => return self.ask(action(text)),
            KeyCode::Backspace => _ = text.pop(),
            KeyCode::Char(letter) if text.len() < TYPED_MAX => text.push(letter),
            _ => {}
        }
        self.question = Some(question(text));
        Action::Nothing
    }

    fn command(&mut self, key: KeyCode) -> Action {
        let row = self.row().unwrap_or(0);
        match (key, self.selected) {
            (KeyCode::Char('q') | KeyCode::Esc, _) => return Action::Quit,
            (KeyCode::Char('?' | 'h'), _) => self.said = HELP.map(str::to_owned).to_vec(),
            (KeyCode::Up | KeyCode::Char('k'), _) => self.choose(row.saturating_sub(1)),
            (KeyCode::Down | KeyCode::Char('j'), _) => self.choose(row + 1),
            (KeyCode::Char('p'), _) => self.unless_missing(Question::Policy, |now| &now.sessions_missing),
            (KeyCode::Char('g'), _) => {
                self.unless_missing(Question::Governor(String::new()), |now| &now.daemon_missing);
            }
            (KeyCode::Char('l'), _) => {
                self.unless_missing(Question::Strategy(String::new()), |now| &now.daemon_missing);
            }
            (KeyCode::Char('e'), Some(session)) => self.question = Some(Question::End(session)),
            (KeyCode::Char('s'), Some(session)) => return self.order(session, Order::Stop {}),
            (KeyCode::Char('r'), Some(session)) => return self.order(session, Order::Resume {}),
            (KeyCode::Enter | KeyCode::Char('x'), Some(session)) => {
                return self.ask(Action::Ask(ToAgent::Explain { session }));
            }
            (KeyCode::Char('s' | 'r' | 'e' | 'x') | KeyCode::Enter, None) => {
                let reason = self.snapshot.sessions_missing.as_deref().unwrap_or("there is no session");
                self.said = vec![reason.to_owned()];
            }
            _ => {}
        }
        Action::Nothing
    }

    /// Who is not there cannot be told anything.
    fn unless_missing(&mut self, question: Question, missing: impl Fn(&Snapshot) -> &Option<String>) {
        match missing(&self.snapshot) {
            Some(reason) => self.said = vec![reason.clone()],
            None => self.question = Some(question),
        }
    }

    fn order(&mut self, session: u64, order: Order) -> Action {
        self.ask(Action::Ask(ToAgent::Order { session, order }))
    }

    fn ask(&mut self, action: Action) -> Action {
        if self.asked {
            self.said = vec!["the last order is not carried out yet; this one comes next".to_owned()];
            self.next.push_back(action);
            return Action::Nothing;
        }
        self.asked = true;
        self.said = vec!["...".to_owned()];
        action
    }

    /// What was asked is answered; what is to be asked next.
    pub fn hear(&mut self, answer: Result<Answer, String>) -> Action {
        let next = self.next.pop_front();
        self.asked = next.is_some();
        self.said = match answer {
            Err(reason) => reason.lines().map(str::to_owned).collect(),
            Ok(Answer::Agent(answer)) => match *answer {
                FromAgent::Explained(explained) => crate::session::explanation(&explained),
                FromAgent::Ordered { session: Some(shown), .. } => vec![words::session(&shown)],
                _ => vec!["done".to_owned()],
            },
            Ok(Answer::Daemon) => vec!["done".to_owned()],
        };
        next.unwrap_or(Action::Nothing)
    }
}

/// The letters that choose one.
pub fn policies() -> [(char, Policy); 5] {
    let letters = ['1', '2', '3', '4', '5'];
    std::array::from_fn(|number| (letters[number], Policy::ALL[number]))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::top::snapshot::Processor;
    use castell_kernels::protocol::{OnResource, ShownApplication, Status};
    use castell_policy::session::protocol::{Part, PinnedBy, Shown, StoppedBy};

    /// Sessions with these numbers: all run, the first on processors 0 and 1.
    pub fn snapshot(numbers: &[u64]) -> Snapshot {
        let session = |number: &u64| Shown {
            session: *number,
            state: "running".into(),
            stopped: false,
            paused: false,
            awaited: false,
            for_ms: 61_000,
            slots: 2,
            cpus: None,
            priority: -1,
            parts: vec![Part { node: castell_agent::here(), cpus: vec![0, 1], slots: 2 }],
            class: None,
            slowdown: None,
            slowdown_max: None,
            pinned_by: PinnedBy::Cpuset,
            stopped_by: StoppedBy::Freezer,
            memory: None,
            pid: 7,
            user: "alice".into(),
            command: format!("./program {number}"),
        };
        let processor = |cpu| Processor {
            cpu,
            busy: Some(0.4),
            sessions: numbers.first().copied().into_iter().collect(),
        };
        Snapshot {
            at_s: 0.0,
            policy: Some("surpass".into()),
            slowdown_max: None,
            socket: "/run/s.sock".into(),
            processors: (0..2).map(processor).collect(),
            sessions: numbers.iter().map(session).collect(),
            sessions_missing: None,
            daemon: None,
            daemon_missing: Some("no daemon listens at /run/daemon.sock".into()),
            pressure: None,
            pressure_missing: Some("there is no /proc/pressure: this kernel has no PSI".into()),
        }
    }

    /// Of a daemon with two resources.
    pub fn status() -> Status {
        let on = |resource: &str, running: Option<&str>, queue: &[&str], forbidden| OnResource {
            resource: resource.into(),
            running: running.map(str::to_owned),
            queue: queue.iter().map(|&name| name.to_owned()).collect(),
            forbidden,
        };
        Status {
            strategy: "banking".into(),
            governor: "low".into(),
            resources: vec![
                on("one_core", Some("matrix#7"), &["matrix#8"], false),
                on("gpu", None, &[], true),
            ],
            waiting: vec!["matrix#9".into(), "lama\x1b[2J#4".into()],
            applications: vec![ShownApplication {
                application: "matrix".into(),
                pid: 31,
                collections: 4,
                strategy: None,
                parked: false,
            }],
            done: 12,
            steps: 30,
            decisions: 33,
            faults: 0,
            waited_ns: 24_000_000_000,
            shown: [("budget".to_owned(), 85.0)].into(),
            sensors: [("battery".to_owned(), 0.25)].into(),
        }
    }

    pub fn with_daemon(mut snapshot: Snapshot) -> Snapshot {
        snapshot.daemon = Some(status());
        snapshot.daemon_missing = None;
        snapshot
    }

    fn view(snapshot: Snapshot) -> View {
        View::new(snapshot, false)
    }

    pub fn pressed(view: &mut View, keys: &str) -> Action {
        let mut action = Action::Nothing;
        for key in keys.chars() {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            action = view.press(KeyEvent::from(code));
        }
        action
    }

    #[test]
    fn keys_are_about_the_selected_session() {
        let order = |session, order| Action::Ask(ToAgent::Order { session, order });
        let mut view = view(snapshot(&[1, 4, 6]));
        assert_eq!(pressed(&mut view, "js"), order(4, Order::Stop {}));
        assert_eq!(pressed(&mut view, "rx"), Action::Nothing, "one order at a time");
        assert_eq!(view.hear(Err("it cannot be".into())), order(4, Order::Resume {}));
        assert_eq!(view.said, ["it cannot be"]);
        assert_eq!(view.hear(Err(String::new())), Action::Ask(ToAgent::Explain { session: 4 }));
        assert_eq!(view.hear(Err(String::new())), Action::Nothing);
        // It has ended: the next one is in its place, and the last one stays the last.
        view.show(snapshot(&[1, 6]));
        assert_eq!(pressed(&mut view, "x"), Action::Ask(ToAgent::Explain { session: 6 }));
        assert_eq!((pressed(&mut view, "jj"), view.selected), (Action::Nothing, Some(6)));
        assert_eq!((pressed(&mut view, "kkk"), view.selected), (Action::Nothing, Some(1)));
        assert_eq!(pressed(&mut view, "q"), Action::Quit);
    }

    #[test]
    fn who_is_not_there_is_told_nothing() {
        let mut without = snapshot(&[]);
        without.sessions_missing = Some("no session, and no agent at /run/s.sock".into());
        let mut view = view(without);
        for key in ["s", "r", "e", "x", "p", "\n"] {
            view.said.clear();
            assert_eq!((pressed(&mut view, key), &view.question), (Action::Nothing, &None), "{key}");
            assert_eq!(view.said, ["no session, and no agent at /run/s.sock"], "{key}");
        }
        for key in ["g", "l"] {
            view.said.clear();
            assert_eq!((pressed(&mut view, key), &view.question), (Action::Nothing, &None), "{key}");
            assert_eq!(view.said, ["no daemon listens at /run/daemon.sock"], "{key}");
        }
    }

    #[test]
    fn what_cannot_be_undone_is_asked_first() {
        let mut view = view(snapshot(&[1, 4]));
        assert_eq!((pressed(&mut view, "e"), &view.question), (Action::Nothing, &Some(Question::End(1))));
        assert_eq!((pressed(&mut view, "n"), &view.question), (Action::Nothing, &None));
        // Whatever was selected meanwhile.
        pressed(&mut view, "e");
        view.show(snapshot(&[4]));
        assert_eq!(pressed(&mut view, "y"), Action::Ask(ToAgent::Order { session: 1, order: Order::End {} }));
        view.hear(Err(String::new()));
        assert_eq!(pressed(&mut view, "p4"), Action::Ask(ToAgent::Policy { policy: "sidestep".into() }));
        view.hear(Err(String::new()));
        assert_eq!((pressed(&mut view, "pq"), &view.question), (Action::Nothing, &None));
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        let actions = ['c', 'z', 'l', 'x'].map(|letter| view.press(control(letter)));
        assert_eq!(actions, [Action::Quit, Action::Leave, Action::Redraw, Action::Nothing]);
    }

    #[test]
    fn the_daemon_is_told_what_was_typed() {
        let mut view = view(with_daemon(snapshot(&[])));
        assert_eq!(pressed(&mut view, "glow"), Action::Nothing);
        assert_eq!(view.press(KeyEvent::from(KeyCode::Backspace)), Action::Nothing);
        assert_eq!(view.question, Some(Question::Governor("lo".into())));
        assert_eq!(pressed(&mut view, "w\n"), Action::Govern("low".into()));
        view.hear(Ok(Answer::Daemon));
        assert_eq!((&view.said[..], &view.question), (&["done".to_owned()][..], &None));
        assert_eq!(pressed(&mut view, "lq:x=2\n"), Action::Load("q:x=2".into()));
        view.hear(Err("no\nstrategy".into()));
        assert_eq!(view.said, ["no", "strategy"]);
        // Nothing typed, and given up.
        assert_eq!((pressed(&mut view, "g\n"), &view.question), (Action::Nothing, &None));
        pressed(&mut view, "lx");
        assert_eq!((view.press(KeyEvent::from(KeyCode::Esc)), &view.question), (Action::Nothing, &None));
        assert_eq!(pressed(&mut view, "q"), Action::Quit);
    }
}
