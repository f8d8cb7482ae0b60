//! Learns how much the sessions of this node slow each other, while they run.
//!
//! A thread of its own looks at them once a second (`watch`), compares paces around changes (`castell_interference::learn`), and keeps what it
//! has learned in a [`Knowledge`], a file that outlives daemons. Whoever decides about sessions has an `outlook` on it. It sleeps while nothing
//! runs, disturbs no program unless it is to `probe` those that are new, and where counters may not be read it says so once, and ends. Where the processor has none, bytes that a program reads and writes stand for its instructions.

mod kept;
mod knowledge;
mod outlook;
mod probe;
mod watch;

pub use kept::profiles_of;
pub use knowledge::{Knowledge, Step};
pub(crate) use outlook::Outlook;

use crate::standing::Standing;
use castell_agent::Stills;
use castell_host::say;
use castell_interference::learn::{Changes, Windows};
use castell_prof::counters::{Plan, Processor, Unavailable};
use probe::Prober;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use watch::Watch;

/// A look.
const EVERY: Duration = Duration::from_secs(1);
/// What was learned is written so often; a daemon that is killed loses no more.
const KEPT_EVERY: Duration = Duration::from_secs(5);

/// What a daemon does to learn.
#[derive(Clone, Debug)]
pub struct Learning {
    /// Where what was learned is kept.
    pub file: PathBuf,
    /// Whether programs that nobody knows are probed, for which they stand still for moments.
    pub probes: bool,
    /// The folder of profiles that are kept, if not the usual one.
    pub profiles: Option<PathBuf>,
}

impl Learning {
    /// Goes on as long as this process lives.
    pub(crate) fn start(self, standing: Arc<Standing>, outlook: Outlook, stills: Stills) {
        let named = thread::Builder::new().name("learning".to_owned());
        if let Err(error) = named.spawn(move || self.work(&standing, &outlook, stills)) {
            say(&format!("nothing is learned of what runs here: {error}"));
        }
    }

    /// What was learned before.
    pub(crate) fn outlook(&self) -> Outlook {
        Outlook::of_file(&self.file, &this_machine())
    }

    fn work(&self, standing: &Arc<Standing>, outlook: &Outlook, stills: Stills) {
        let mut prober = self.probes.then(|| Prober::new(standing.clone(), stills)).flatten();
        // Until the first session there is nothing to say.
        if prober.is_none() {
            let _ = standing.running(&mut || ());
        }
        let plan = Plan::of_machine(Path::new("/"));
        if let Err(why) = &plan.hardware {
            if matches!(why, Unavailable::Denied { .. }) {
                say(&format!("nothing is learned of what runs here: {why}; --learn off says so beforehand"));
                return;
            }
            say(&format!(
                "{why}: only of programs that read or write steadily it can be learned how much they slow each other"
            ));
        }
        let mut knowledge = Knowledge::open(&self.file, &machine(&plan.processor));
        let mut watch = Watch::new(plan);
        let mut profiles = kept::Keeper::new(self.profiles.clone());
        let mut changes = Changes::new(Windows::default());
        let (begin, mut kept) = (Instant::now(), Instant::now());
        loop {
            let running = standing.running(&mut || {
                if let Some(prober) = &mut prober {
                    prober.meet_itself(&mut knowledge);
                }
                knowledge.keep();
                changes = Changes::new(Windows::default());
            });
            let now_s = now_s();
            let looks = watch.look(&running, |step| knowledge.take(now_s, step));
            outlook.running(watch.programs());
            let mut has_compared = false;
            let at_s = begin.elapsed().as_secs_f64();
            // Of a session that cannot be watched nothing is known but that it is there.
            let is_known = |name: &str| !name.is_empty();
            for seen in changes.look(at_s, looks) {
                if is_known(&seen.program)
                    && is_known(&seen.neighbour)
                    && seen.instead_of.as_deref().is_none_or(is_known)
                {
                    knowledge.take(now_s, Step::Compared(seen));
                    has_compared = true;
                }
            }
            if let Some(prober) = &mut prober {
                has_compared |= prober.meet(&mut watch, &mut knowledge);
            }
            if let Some(profiles) = profiles.look(knowledge.learner().programs().keys().map(String::as_str)) {
                knowledge.know(profiles);
                has_compared = true;
            }
            let is_due = kept.elapsed() >= KEPT_EVERY;
            if is_due {
                knowledge.keep();
                kept = Instant::now();
            }
            if is_due || has_compared {
                outlook.learned(knowledge.learner());
            }
            thread::sleep(EVERY);
        }
    }
}

/// What was learned here holds on machines of this kind.
pub fn this_machine() -> String {
    machine(&Processor::of_machine(Path::new("/")))
}

fn machine(processor: &Processor) -> String {
    let caches = castell_prof::caches::of_machine(Path::new("/"));
    let last = caches.iter().max_by_key(|cache| cache.level).map_or(0, |cache| cache.bytes);
    format!("{processor}, {} KiB in the last cache", last / 1024)
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
