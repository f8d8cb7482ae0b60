//! The strategy that an application has brought for its own collections, and what became of it.

use crate::KernelsError;
use crate::link::{Shared, lock};
use crate::protocol::OwnStrategy;
use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes of a script: a daemon reads no longer ones.
const SCRIPT_BYTES_MAX: u64 = 256 << 10;

/// Who decides about an application's collections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnState {
    /// The application has brought no strategy: the node's decides.
    None,
    /// There is no daemon and so nobody who could read a script: the rankings decide, until there is one.
    Alone,
    /// The daemon tries it out; the node's decides meanwhile.
    Tried,
    /// It does.
    Decides,
    /// The node's, since this one was refused, or has failed: why.
    Stopped(String),
}

/// What the threads of an application share of it.
#[derive(Debug)]
pub(crate) struct Stand {
    inside: Mutex<Inside>,
    answered: Condvar,
}

#[derive(Debug)]
struct Inside {
    strategy: Option<OwnStrategy>,
    /// How many the application has brought or given up.
    version: u64,
    state: OwnState,
}

impl Stand {
    pub fn new() -> Stand {
        let inside = Inside { strategy: None, version: 0, state: OwnState::None };
        Stand { inside: Mutex::new(inside), answered: Condvar::new() }
    }

    pub fn state(&self) -> OwnState {
        lock(&self.inside).state.clone()
    }

    /// Another one, or none: its version.
    pub fn set(&self, strategy: Option<OwnStrategy>) -> u64 {
        let mut inside = lock(&self.inside);
        inside.state = if strategy.is_some() { OwnState::Tried } else { OwnState::None };
        inside.strategy = strategy;
        inside.version += 1;
        inside.version
    }

    /// Waits until it is known what became of this version.
    pub fn wait(&self, version: u64, is_closed: impl Fn() -> bool) -> OwnState {
        let mut inside = lock(&self.inside);
        while inside.version == version && inside.state == OwnState::Tried && !is_closed() {
            inside = self.answered.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        inside.state.clone()
    }

    /// Nobody waits any more.
    pub fn close(&self) {
        // With the lock held, as for all others who wait.
        drop(lock(&self.inside));
        self.answered.notify_all();
    }

    /// What a daemon that knows this version has to be told. One that was stopped is not tried again.
    pub fn to_tell(&self, known: u64) -> Option<(u64, Option<OwnStrategy>)> {
        let mut inside = lock(&self.inside);
        if inside.version == known || (known == 0 && inside.strategy.is_none()) {
            return None;
        }
        if inside.strategy.is_some() {
            inside.state = OwnState::Tried;
        }
        Some((inside.version, inside.strategy.clone()))
    }

    /// The daemon has answered.
    pub fn answer(&self, version: u64, stopped: Option<String>) {
        let mut inside = lock(&self.inside);
        if inside.version != version || inside.strategy.is_none() {
            return;
        }
        inside.state = match stopped {
            None => OwnState::Decides,
            Some(reason) => {
                inside.strategy = None;
                OwnState::Stopped(reason)
            }
        };
        self.answered.notify_all();
    }

    /// There is no daemon.
    pub fn alone(&self) {
        let mut inside = lock(&self.inside);
        if inside.strategy.is_some() {
            inside.state = OwnState::Alone;
            self.answered.notify_all();
        }
    }
}

impl OwnStrategy {
    /// One that comes with castell, with parameters behind a colon: `constraint:limit_high=9`.
    ///
    /// # Errors
    /// A parameter that is none.
    pub fn shipped(name: &str) -> Result<OwnStrategy, KernelsError> {
        let (name, parameters) = name.split_once(':').unwrap_or((name, ""));
        let parameters = crate::protocol::parameters(parameters)
            .map_err(|reason| KernelsError::Registration(format!("`{name}`: {reason}")))?;
        Ok(OwnStrategy { name: name.into(), script: None, parameters })
    }

    /// The script in a file.
    ///
    /// # Errors
    /// It cannot be read, or is too long for one.
    pub fn file(path: &std::path::Path) -> Result<OwnStrategy, KernelsError> {
        let wrong = |what: String| KernelsError::Registration(format!("{}: {what}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if size > SCRIPT_BYTES_MAX {
            return Err(wrong(format!("more than {} KiB: that is no script", SCRIPT_BYTES_MAX >> 10)));
        }
        let script = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(OwnStrategy { name, script: Some(script), parameters: Vec::new() })
    }
}

impl Shared {
    /// Brings a strategy, and waits until it decides, or there is nobody who could ask it.
    pub(crate) fn bring(&self, strategy: OwnStrategy) -> Result<OwnState, KernelsError> {
        if strategy.script.as_ref().is_some_and(|script| script.len() as u64 > SCRIPT_BYTES_MAX) {
            let most = SCRIPT_BYTES_MAX >> 10;
            return Err(KernelsError::Registration(format!(
                "{}: more than {most} KiB: that is no script",
                strategy.name
            )));
        }
        let version = self.own().set(Some(strategy));
        self.nudge();
        match self.own().wait(version, || self.is_closed()) {
            _ if self.is_closed() => Err(KernelsError::Closed(self.name().into())),
            OwnState::Stopped(reason) => Err(KernelsError::Registration(reason)),
            state => Ok(state),
        }
    }

    /// Gives it up.
    pub(crate) fn give_up_own(&self) {
        self.own().set(None);
        self.nudge();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stopped_is_not_told_to_the_next_daemon() {
        let (stand, strategy) = (Stand::new(), OwnStrategy::shipped("banking").expect("a name"));
        assert_eq!((stand.to_tell(0), stand.state()), (None, OwnState::None));
        let first = stand.set(Some(strategy.clone()));
        assert_eq!(stand.to_tell(0), Some((first, Some(strategy.clone()))));
        assert_eq!((stand.to_tell(first), stand.state()), (None, OwnState::Tried));
        stand.answer(first, None);
        assert_eq!(stand.wait(first, || false), OwnState::Decides);
        // The next daemon.
        assert_eq!(stand.to_tell(0), Some((first, Some(strategy.clone()))));
        assert_eq!(stand.state(), OwnState::Tried);
        stand.alone();
        assert_eq!(stand.state(), OwnState::Alone);
        let second = stand.set(Some(strategy));
        // Of the one before.
        stand.answer(first, Some("late".into()));
        assert_eq!(stand.state(), OwnState::Tried);
        stand.answer(second, Some("why".into()));
        assert_eq!((stand.to_tell(0), stand.state()), (None, OwnState::Stopped("why".into())));
        stand.set(None);
        assert_eq!(
            (stand.to_tell(second).map(|(_, told)| told), stand.state()),
            (Some(None), OwnState::None)
        );
    }

    #[test]
    fn parameters_are_behind_a_colon() {
        let found = OwnStrategy::shipped("constraint:limit_high=9, limit_low = 3").expect("two");
        let pairs =
            [("limit_high", "9"), ("limit_low", "3")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!((found.name.as_str(), found.parameters), ("constraint", pairs.to_vec()));
        let wrong = OwnStrategy::shipped("constraint:nine").expect_err("no parameter").to_string();
        assert!(wrong.contains("`nine` is no parameter"), "{wrong}");
    }
}
