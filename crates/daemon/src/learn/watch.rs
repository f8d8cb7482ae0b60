//! Sessions as they run: their counters, and which program burns their time.

use super::Step;
use castell_agent::Tree;
use castell_host::perf::Event;
use castell_host::process::Pid;
use castell_interference::learn::Look;
use castell_prof::binary::{Binary, Remembered};
use castell_prof::counters::{Counted, Plan, Recording, Sample};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A session's processes are looked through this often: that reads all of `/proc`.
const PROGRAM_EVERY: Duration = Duration::from_secs(5);
/// For so long the flows of a session are counted; its pace always is.
const FLOWS_FOR: Duration = Duration::from_secs(20);
/// The part of its time for which a session may stand still.
const STILL_PART: f64 = 0.01;

/// Sessions that run.
pub(super) struct Watch {
    plan: Plan,
    sessions: BTreeMap<String, Watched>,
    programs: Programs,
    next: u64,
}

/// A session.
pub(super) struct Watched {
    number: u64,
    began: Instant,
    /// When its processes were looked through.
    looked: Option<Instant>,
    /// Its processes, when they were looked through.
    members: Vec<u32>,
    /// Time on processors, and instructions where they can be counted.
    pace: Counted,
    counts_instructions: bool,
    flows: Option<Flows>,
    /// By its hash; empty as long as that is not known.
    program: String,
    /// For how long it stood still, to be measured. Seconds.
    still_s: f64,
}

struct Flows {
    counted: Counted,
    last: Option<Sample>,
}

impl Watch {
    pub(super) fn new(plan: Plan) -> Watch {
        Watch { plan, sessions: BTreeMap::new(), programs: Programs::default(), next: 0 }
    }

    /// Looks at the sessions with these marks, which run. `learn` hears what they are, and what flows.
    pub(super) fn look(&mut self, marks: &BTreeSet<String>, mut learn: impl FnMut(Step)) -> Vec<Look> {
        self.sessions.retain(|mark, _| marks.contains(mark));
        let is_alone = marks.len() == 1;
        let mut looks = Vec::new();
        for mark in marks {
            if !self.sessions.contains_key(mark) {
                let watched = Watched::new(self.next, &self.plan);
                self.sessions.insert(mark.clone(), watched);
                self.next += 1;
            }
            let Some(watched) = self.sessions.get_mut(mark) else { continue };
            watched.find(mark, &mut self.programs, &mut learn);
            watched.read_flows(&self.plan, is_alone, &mut learn);
            looks.push(watched.look());
        }
        looks
    }

    /// A session that was looked at last.
    pub(super) fn session(&mut self, mark: &str) -> Option<&mut Watched> {
        self.sessions.get_mut(mark)
    }

    /// What those run that were looked at last, as far as that is known.
    pub(super) fn programs(&self) -> BTreeMap<String, String> {
        let known = self.sessions.iter().filter(|(_, watched)| !watched.program.is_empty());
        known.map(|(mark, watched)| (mark.clone(), watched.program.clone())).collect()
    }
}

impl Watched {
    fn new(number: u64, plan: &Plan) -> Watched {
        let counts_instructions = plan.hardware.is_ok();
        let mut groups = vec![vec![Event::software(1)]];
        groups.extend(counts_instructions.then(|| vec![Event::generic(1)]));
        let (pace, members) = (Counted::new(groups), Vec::new());
        let flows = Some(Flows { counted: plan.counted(), last: None });
        let (began, looked, program) = (Instant::now(), None, String::new());
        Watched { number, began, looked, members, pace, counts_instructions, flows, program, still_s: 0.0 }
    }

    /// Its program, as soon as that is known.
    pub(super) fn program(&self) -> Option<&str> {
        Some(self.program.as_str()).filter(|program| !program.is_empty())
    }

    /// Its processes, as they were when they were looked through.
    pub(super) fn members(&self) -> &[u32] {
        &self.members
    }

    /// What it has done so far, and for how many seconds it has had processors.
    pub(super) fn progress(&self) -> (f64, f64) {
        let look = self.look();
        (look.work, look.cpu_s)
    }

    /// Whether it may stand still for so many seconds, by how long it has run and how long it has stood still for that.
    pub(super) fn may_stand(&self, seconds: f64) -> bool {
        self.still_s + seconds <= STILL_PART * self.began.elapsed().as_secs_f64()
    }

    /// It has stood still for so many seconds.
    pub(super) fn has_stood(&mut self, seconds: f64) {
        self.still_s += seconds;
    }

    /// Its processes, if it is time to look for them: what was not counted yet is from now on. What they start is counted with them.
    fn find(&mut self, mark: &str, programs: &mut Programs, learn: &mut impl FnMut(Step)) {
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= PROGRAM_EVERY);
        if !is_due && !self.pace.is_empty() && !self.program.is_empty() {
            return;
        }
        self.looked = Some(Instant::now());
        let members = Tree::marked(mark).members();
        self.members.clone_from(&members);
        if self.pace.is_empty() {
            for pid in members.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
                // Somebody else's, or gone: it has no pace then.
                let _ = self.pace.attach(pid);
                self.flows.iter_mut().for_each(|flows| _ = flows.counted.attach(pid));
            }
        }
        if let Some((program, name)) = programs.busiest(&members) {
            learn(Step::Seen(program.clone(), name));
            self.program = program;
        }
    }

    /// Flows since the last look, in the beginning of a session.
    fn read_flows(&mut self, plan: &Plan, is_alone: bool, learn: &mut impl FnMut(Step)) {
        if self.began.elapsed() > FLOWS_FOR {
            self.flows = None;
        }
        let Some(flows) = self.flows.as_mut().filter(|flows| !flows.counted.is_empty()) else { return };
        let now = Sample { seconds: self.began.elapsed().as_secs_f64(), counts: flows.counted.read() };
        let Some(last) = flows.last.replace(now.clone()) else { return };
        let seconds = now.seconds - last.seconds;
        let recording = Recording::of(plan, "a session".to_owned(), vec![last, now]);
        let Some(whole) = recording.whole().filter(|_| !self.program.is_empty()) else { return };
        let busy = whole.busy.unwrap_or(0.0);
        // A program that waits has no flows that tell anything.
        if let (Some(Ok(readings)), true) = (whole.readings(), busy >= 0.5) {
            let (program, cores) = (self.program.clone(), busy.round().max(1.0) as usize);
            learn(Step::Read { program, readings, cores, seconds, is_alone });
        }
    }

    fn look(&self) -> Look {
        let counts = self.pace.read();
        let cpu_s = counts[0][0] as f64 / 1e9;
        let work = match counts.get(1).filter(|_| self.counts_instructions) {
            // Where others count as well, a counter is there for a part of the time.
            Some(&[_, _, 0]) => 0.0,
            Some([value, enabled, running]) => *value as f64 * *enabled as f64 / *running as f64,
            None => self.members.iter().filter_map(|pid| moved_bytes(*pid)).sum::<u64>() as f64,
        };
        Look { session: self.number, program: self.program.clone(), work, cpu_s }
    }
}

/// Bytes that a process has read and written so far, from wherever and to wherever.
fn moved_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(of("rchar:")? + of("wchar:")?)
}

/// Which programs processes run.
#[derive(Default)]
struct Programs {
    remembered: Remembered,
    /// Ticks of processor time of each process when it was last looked at.
    ticks: BTreeMap<i32, u64>,
}

/// Processes whose time is remembered.
const PROCESSES_MAX: usize = 10_000;

impl Programs {
    /// The program on which these processes have spent most time since they were last looked at, by the hash of its file, and its name. Of
    /// a shell that waits for a program it is the program, of an interpreter its script. None has been seen as long as no time was spent:
    /// a process that is about to become a program still has the file of who has started it.
    fn busiest(&mut self, processes: &[u32]) -> Option<(String, String)> {
        // By name and file: shells that were given no program count only where there is nothing else.
        let mut spent: BTreeMap<String, (bool, u64, PathBuf)> = BTreeMap::new();
        for pid in processes.iter().map(|pid| *pid as i32) {
            let Some((running, ticks)) = Binary::of_process(pid).zip(ticks(pid)) else { continue };
            let before = self.ticks.insert(pid, ticks).filter(|before| *before <= ticks).unwrap_or(0);
            let entry = spent.entry(running.name).or_insert((!running.is_runner, 0, running.path));
            entry.1 += ticks - before;
        }
        if self.ticks.len() > PROCESSES_MAX {
            self.ticks.clear();
        }
        let seen = spent.into_iter().filter(|(_, (_, ticks, _))| *ticks > 0);
        let (name, (.., path)) = seen.max_by_key(|(_, (is_program, ticks, _))| (*is_program, *ticks))?;
        Some((self.remembered.hash_of(&path)?, name))
    }
}

/// Processor time of a process, its own and its threads'.
fn ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may hold anything; times are the 14th and 15th.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}
