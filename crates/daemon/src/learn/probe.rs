//! Probes programs that nobody was seen beside as yet: a probe and the program run beside each other for moments, and the probe alone while
//! the program stands still. The probe has the lowest priority and a processor that the session leaves free; its memory is given back each
//! time.

use super::watch::{Watch, Watched};
use super::{Knowledge, Step, now_s};
use crate::standing::Standing;
use castell_agent::Stills;
use castell_host::busy::Times;
use castell_host::say;
use castell_host::topology::Processors;
use castell_interference::learn::{MEETINGS_MAX, Met as Learned};
use castell_prof::caches;
use castell_prof::probe::{Dependence, Distance, Met, Order, Pattern, Probe, ProbeError, Still, meet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What a moment may cost a program. Seconds.
const STILL_S: f64 = 0.05;
/// The part of the last cache that the probe goes over: it takes what it can of it, and feels whoever else does.
const PART: (u64, u64) = (3, 4);
/// Its memory, where nothing is known of caches, and at most.
const BYTES: u64 = 16 << 20;
const BYTES_MAX: u64 = 48 << 20;
/// Meetings are so far apart: after one that came to something, and after one that did not, as where others want the probe's processor.
const REST: Duration = Duration::from_secs(2);
const REST_LONG: Duration = Duration::from_secs(5);
/// A processor that was busy for more of the last second is not for a probe.
const BUSY_MAX: f64 = 0.5;
/// The lowest priority.
const NICE: i32 = 19;

pub(super) struct Prober {
    standing: Arc<Standing>,
    stills: Stills,
    pattern: Pattern,
    /// Meetings so far, those that came to nothing included.
    turn: usize,
    /// No meeting before.
    next: Instant,
    /// How busy processors were so far.
    times: Times,
}

impl Prober {
    /// Of this machine; none, with the reason, where a probe would be on the processor of whom it meets.
    pub(super) fn new(standing: Arc<Standing>, stills: Stills) -> Option<Prober> {
        if Processors::usable().cpus.len() < 2 {
            say("no program is probed: there is one processor only");
            return None;
        }
        let last = caches::of_machine(Path::new("/")).into_iter().max_by_key(|cache| cache.level);
        let bytes = last.map_or(BYTES, |cache| (cache.bytes / PART.1 * PART.0).clamp(1 << 16, BYTES_MAX));
        let distances = vec![Distance { bytes, share: 1.0 }];
        let pattern =
            Pattern::new(distances, Order::Stream, Dependence::Independent, 1).expect("one distance");
        Some(Prober { standing, stills, pattern, turn: 0, next: Instant::now(), times: Times::default() })
    }

    /// As long as nobody runs, two probes meet, until what they do to each other is known.
    pub(super) fn meet_itself(&mut self, knowledge: &mut Knowledge) {
        for _ in 0..2 * MEETINGS_MAX {
            if !knowledge.learner().wants_probes() || !self.standing.is_idle() {
                return;
            }
            let usable = Processors::usable().cpus;
            let one = usable.first().and_then(|cpu| Some((*cpu, nearest(&usable[1..], *cpu)?)));
            let Some((one, other)) = one else { return };
            let both = self.probe(one).and_then(|first| Ok((first, self.probe(other)?)));
            let Ok((first, second)) = both else { return };
            second.go();
            let met = meet(&first, &mut Second(&second), self.turn % 2 == 1);
            self.turn += 1;
            if let Some(slowdown) = met.feels.filter(|_| self.standing.is_idle()) {
                knowledge.take(now_s(), Step::ProbesMet(slowdown));
            }
        }
    }

    /// A meeting with the session that runs, if it runs alone, may be stopped, and is of a program that nobody knows; whether
    /// something was measured.
    pub(super) fn meet(&mut self, watch: &mut Watch, knowledge: &mut Knowledge) -> bool {
        let idle = self.idle();
        let Some(mark) = self.standing.alone().filter(|_| Instant::now() >= self.next) else { return false };
        let Some(watched) = watch.session(&mark).filter(|watched| watched.may_stand(STILL_S)) else {
            return false;
        };
        let Some(program) = watched.program().map(str::to_owned) else { return false };
        let free =
            free_processor(&idle, watched.members()).filter(|_| knowledge.learner().wants_probe(&program));
        let Some(probe) = free.and_then(|cpu| self.probe(cpu).ok()) else { return false };
        let met =
            meet(&probe, &mut Session { watched, mark: &mark, stills: &self.stills }, self.turn % 2 == 1);
        self.turn += 1;
        self.next = Instant::now() + if met.presses.is_some() { REST } else { REST_LONG };
        watched.has_stood(met.still_s);
        let is_alone = self.standing.alone().is_some_and(|now| now == mark);
        if met.presses.is_none() && met.still_s == 0.0 {
            return false;
        }
        // What it cost counts also where it came to nothing.
        let [presses, feels] = [met.presses, met.feels].map(|factor| factor.filter(|_| is_alone));
        knowledge.take(now_s(), Step::Met(program, Learned { presses, feels, still_s: met.still_s }));
        presses.is_some()
    }

    /// The usable processors that were idle for most of the time since this was asked last: beside others a probe of the lowest priority gets
    /// nowhere, and what it measures is them.
    fn idle(&mut self) -> Vec<u32> {
        let Ok(now) = Times::read(Path::new("/proc")) else { return Vec::new() };
        let busy = now.busy_since(&self.times);
        self.times = now;
        let is_idle = |cpu: &u32| busy.get(cpu).copied().flatten().is_some_and(|share| share < BUSY_MAX);
        Processors::usable().cpus.into_iter().filter(is_idle).collect()
    }

    /// A probe at rest.
    fn probe(&self, cpu: u32) -> Result<Probe, ProbeError> {
        thread::scope(|scope| {
            // What a thread starts has its priority.
            let low = scope.spawn(|| {
                let _ = rustix::process::setpriority_process(None, NICE);
                Probe::start(&self.pattern, &[cpu], None)
            });
            low.join().expect("a probe that starts does not panic")
        })
    }
}

/// A session that a probe meets.
struct Session<'a> {
    watched: &'a Watched,
    mark: &'a str,
    stills: &'a Stills,
}

impl Met for Session<'_> {
    fn progress(&mut self) -> (f64, f64) {
        self.watched.progress()
    }

    fn stand_still(&mut self, longest: Duration) -> Receiver<Still> {
        let (answer, answered) = channel();
        self.stills.ask(self.mark, longest, move |stood| {
            // Whoever does not wait any more does not need it.
            let _ = answer.send(Still {
                from_ns: stood.from_ns,
                until_ns: stood.until_ns,
                cost_ns: stood.cost_ns,
            });
        });
        answered
    }
}

/// A probe that another one meets.
struct Second<'a>(&'a Probe);

impl Met for Second<'_> {
    fn progress(&mut self) -> (f64, f64) {
        (self.0.bytes() as f64, self.0.cpu_ns() as f64 / 1e9)
    }

    fn stand_still(&mut self, _: Duration) -> Receiver<Still> {
        // What the one feels of the other is enough: they are alike.
        channel().1
    }
}

/// Of idle processors one where none of these processes may be, else one where none of their threads is now; one that shares the last cache
/// with them, if there is one.
fn free_processor(idle: &[u32], members: &[u32]) -> Option<u32> {
    let threads: Vec<i32> = members.iter().flat_map(|pid| threads_of(*pid)).collect();
    let allowed = |cpu: &u32| {
        threads.iter().any(|thread| {
            let may = rustix::thread::sched_getaffinity(rustix::process::Pid::from_raw(*thread));
            may.is_ok_and(|may| may.is_set(*cpu as usize))
        })
    };
    let busy: Vec<u32> = threads.iter().filter_map(|thread| runs_on(*thread)).collect();
    let (theirs, free): (Vec<u32>, Vec<u32>) = idle.iter().partition(|cpu| allowed(cpu));
    let left: Vec<u32> = theirs.iter().filter(|cpu| !busy.contains(cpu)).copied().collect();
    let beside = *busy.first()?;
    nearest(&free, beside).or_else(|| nearest(&left, beside))
}

/// Of some processors one that shares the last cache with another one; else any.
fn nearest(of: &[u32], beside: u32) -> Option<u32> {
    let sharers = caches::sharers(Path::new("/"), beside);
    of.iter().find(|cpu| sharers.contains(cpu)).or(of.first()).copied()
}

fn threads_of(pid: u32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processor that a thread is on, if it runs.
fn runs_on(thread: i32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    // The second field is the name in parentheses, which may hold anything; the state follows, and the 39th field is the processor.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    (fields.next()? == "R").then(|| fields.nth(35)?.parse().ok())?
}
