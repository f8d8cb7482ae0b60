//! A daemon's place, and what people have told it there: who decides, the governor's level, what sensors say.
//!
//! It stands in a file that an end by a signal to end takes away. So whoever finds one comes after a daemon that was killed, and goes on as
//! that one would have: what was told later counts more than its command line, which is the same as before where a service manager starts
//! it anew.

use crate::recording::Exact;
use crate::{DaemonError, Source};
use castell_agent::Store;
use castell_host::say;
use castell_strategy::{Keeper, Node};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// What stands in the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// None: the one of the command line decides.
    strategy: Option<Source>,
    governor: Option<String>,
    sensors: BTreeMap<String, Exact>,
}

impl Content {
    fn is_empty(&self) -> bool {
        self.strategy.is_none() && self.governor.is_none() && self.sensors.is_empty()
    }
}

/// The file, and what stands in it.
pub(crate) struct Told {
    store: Store,
    content: Content,
    /// The strategy that goes on if this one fails.
    before: Option<Source>,
}

impl Told {
    fn read(path: PathBuf) -> Told {
        let store = Store::new(path, "castell daemon told 1", "what people told the daemon");
        let content = store.read().unwrap_or_else(|reason| {
            say(&reason);
            None
        });
        Told { store, content: content.unwrap_or_default(), before: None }
    }

    /// This strategy decides from now on; none: the command line's.
    pub(crate) fn strategy(&mut self, source: Option<&Source>) {
        self.before = std::mem::replace(&mut self.content.strategy, source.cloned());
        self.write();
    }

    /// The strategy was stopped, and the one before it goes on.
    pub(crate) fn strategy_failed(&mut self) {
        self.content.strategy = self.before.take();
        self.write();
    }

    /// The governor has this level.
    pub(crate) fn governor(&mut self, level: &str) {
        self.content.governor = Some(level.to_owned());
        self.write();
    }

    /// A sensor says this; none: what the next daemon finds out by itself.
    pub(crate) fn sensor(&mut self, name: &str, value: Option<f64>) {
        match value {
            Some(value) => _ = self.content.sensors.insert(name.to_owned(), Exact(value)),
            None => _ = self.content.sensors.remove(name),
        }
        self.write();
    }

    /// The daemon ends as somebody wished: the next one begins anew.
    pub(crate) fn end(mut self) {
        self.store.write(None::<&Content>);
    }

    fn write(&mut self) {
        // That it cannot be written is said there, and costs no more.
        let _ = match self.content.is_empty() {
            true => self.store.write(None::<&Content>),
            false => self.store.write(Some(&self.content)),
        };
    }
}

/// The place where a daemon listens: while this lives, no other daemon has it.
pub struct Claim {
    socket: PathBuf,
    told: Told,
    /// What was taken over of it, for people.
    taken_over: Vec<String>,
    lock: File,
}

impl Claim {
    /// Takes it, and reads what the last daemon there was told if that one ended without notice.
    ///
    /// # Errors
    /// Another daemon is there, or it cannot be taken.
    pub fn take(socket: &Path) -> Result<Claim, DaemonError> {
        let lock = lock(socket)?;
        let told = Told::read(socket.with_extension("told.state"));
        Ok(Claim { socket: socket.into(), told, taken_over: Vec::new(), lock })
    }

    /// Where it is.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Who decides here first, on this node, unless the last daemon was told otherwise; and where the strategy comes from.
    ///
    /// # Errors
    /// The strategy is none.
    pub fn keeper(&mut self, mut node: Node, source: Source) -> Result<(Keeper, Source), String> {
        let (strategy, source) = match self.kept_strategy() {
            Some(kept) => kept,
            None => (source.checked()?, source),
        };
        if let Some(level) = &self.told.content.governor {
            node.set_governor(level);
            self.taken_over.push(format!("governor {level}"));
        }
        for (name, Exact(value)) in &self.told.content.sensors {
            if value.is_finite() && node.sensors().contains_key(name) {
                node.set_sensor(name, *value);
                self.taken_over.push(format!("sensor {name} {value}"));
            }
        }
        let mut keeper = Keeper::new(node, strategy);
        keeper.take_events();
        Ok((keeper, source))
    }

    fn kept_strategy(&mut self) -> Option<(Box<dyn castell_strategy::Strategy>, Source)> {
        let source = self.told.content.strategy.clone()?;
        match source.checked() {
            Ok(strategy) => {
                self.taken_over.push(format!("strategy {}", source.name));
                Some((strategy, source))
            }
            Err(reason) => {
                say(&format!("the strategy of the last daemon is left out: {reason}"));
                self.told.strategy(None);
                None
            }
        }
    }

    /// What is as the last daemon had it, in a sentence; none where that is nothing.
    pub fn taken_over(&self) -> Option<String> {
        let (last, others) = self.taken_over.split_last()?;
        let all = match others {
            [] => last.clone(),
            others => format!("{} and {last}", others.join(", ")),
        };
        Some(format!("{all}, as before the last daemon ended without notice"))
    }

    /// What is told from now on; and the place, to be kept as long.
    pub(crate) fn open(self) -> (Told, File) {
        (self.told, self.lock)
    }
}

/// So long a process takes at most that was killed.
const DYING: Duration = Duration::from_millis(500);

/// Held as long as the daemon lives.
fn lock(socket: &Path) -> Result<File, DaemonError> {
    let path = socket.with_extension("lock");
    let what = || format!("make {}", path.display());
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let mut file = file.map_err(DaemonError::system(what()))?;
    let take = || rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    // One that was just killed is gone a moment later.
    let begin = Instant::now();
    let taken = loop {
        match take() {
            Err(rustix::io::Errno::WOULDBLOCK) if begin.elapsed() < DYING => thread::sleep(DYING / 20),
            other => break other,
        }
    };
    match taken {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            return Err(DaemonError::Taken { path: socket.into(), pid: pid.trim().into() });
        }
        result => result.map_err(DaemonError::system("lock the daemon's place"))?,
    }
    // For the message above; without it nothing is lost.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_strategy::ResourceKind;
    use std::fs;

    fn source(name: &str) -> Source {
        let script = castell_luau::shipped::named(name).expect("it comes with castell").text.into();
        Source { name: name.into(), script, parameters: Vec::new() }
    }

    fn node() -> Node {
        let mut node = Node::new([("gpu".to_owned(), ResourceKind::Device)]).expect("a name");
        node.set_governor("high");
        node.set_sensor("x", 0.5);
        node
    }

    /// What a daemon begins with: strategy, governor, the sensor, and what it says.
    fn begins(socket: &Path) -> (String, String, f64, Option<String>) {
        let mut claim = Claim::take(socket).expect("nobody has it");
        let (keeper, from) = claim.keeper(node(), source("short-term")).expect("a strategy");
        assert_eq!(keeper.strategy(), from.name);
        let node = keeper.node();
        (from.name, node.governor().into(), node.sensors()["x"], claim.taken_over())
    }

    #[test]
    fn what_was_told_outlives_a_daemon_until_one_ends_well() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("daemon.sock");
        let defaults = ("short-term".to_owned(), "high".to_owned(), 0.5, None);
        assert_eq!(begins(&socket), defaults);
        let (mut told, _lock) = Claim::take(&socket).expect("nobody has it").open();
        told.strategy(Some(&source("long-term")));
        told.governor("low");
        // A number whose shortest decimal form is as long as they get.
        told.sensor("x", Some(0.300_000_000_000_000_04));
        told.sensor("gone", Some(1.0));
        drop((told, _lock));
        let said = "strategy long-term, governor low and sensor x 0.30000000000000004, as before the last daemon ended without notice";
        let kept = ("long-term".to_owned(), "low".to_owned(), 0.300_000_000_000_000_04, Some(said.into()));
        assert_eq!(begins(&socket), kept);
        // Once more, since that one did not end well either.
        assert_eq!(begins(&socket), kept);
        Claim::take(&socket).expect("nobody has it").open().0.end();
        assert_eq!(begins(&socket), defaults);
    }

    #[test]
    fn a_strategy_that_failed_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("daemon.sock");
        let (mut told, lock) = Claim::take(&socket).expect("nobody has it").open();
        told.strategy(Some(&source("long-term")));
        told.strategy(Some(&source("banking")));
        told.strategy_failed();
        drop((told, lock));
        assert_eq!(begins(&socket).0, "long-term");
        let (mut told, lock) = Claim::take(&socket).expect("nobody has it").open();
        told.strategy(Some(&Source { script: "return 3".into(), ..source("banking") }));
        drop((told, lock));
        assert_eq!(begins(&socket).0, "short-term");
        assert_eq!(begins(&socket).3, None);
    }

    #[test]
    fn garbage_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("daemon.sock");
        fs::write(folder.path().join("daemon.told.state"), "garbage\n{}").expect("written");
        assert_eq!(begins(&socket), ("short-term".to_owned(), "high".to_owned(), 0.5, None));
        assert!(folder.path().join("daemon.told.broken").exists());
    }
}
