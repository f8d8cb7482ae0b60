//! A workload under a policy, in virtual time: whole milliseconds and whole shares of speed, so that the same question has the
//! same answer to the bit on any machine.
//!
//! [`run`] drives the same [`Scheduler`] that decides about real sessions; `progress` says how fast a session goes
//! beside others ([`Speed`], and what the workload says of programs beside each other), `summary` what came of it ([`Summary`]).

mod model;
mod progress;
mod summary;

pub use model::{NoSpeed, Speed};
pub use summary::{Coefficients, Djsb, Summary};

use super::request::{Decision, Event, Refused, SessionId};
use super::resources::{Cluster, NodeId, Placement};
use super::rules::Rules;
use super::scheduler::Scheduler;
use super::workload::Workload;
use progress::Progress;

/// What became of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// When it started; none where it was refused.
    pub start_ms: Option<u64>,
    /// When it ended.
    pub end_ms: u64,
    /// How long it was suspended.
    pub suspended_ms: u64,
    /// How often.
    pub suspensions: u32,
}

/// What a session does on a node in a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    /// Runs at full speed.
    Alone,
    /// Runs, but somebody else does so on its slots, or on its memory.
    Sharing,
    /// Is suspended.
    Suspended,
}

/// A part of a Gantt chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The session, as an index into the workload.
    pub job: usize,
    /// Where.
    pub node: NodeId,
    /// How many slots it has there.
    pub slots: u32,
    /// What it does.
    pub doing: Doing,
    /// From when.
    pub from_ms: u64,
    /// To when.
    pub to_ms: u64,
}

/// The course of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Session by session, as in the workload.
    pub fates: Vec<Fate>,
    /// Sessions that could never fit, and why.
    pub refused: Vec<(usize, Refused)>,
    /// What was recorded.
    pub chart: Vec<Stretch>,
    /// Whether there would have been more than the bound.
    pub chart_is_cut: bool,
}

/// Runs a workload. At most `chart_max` stretches are recorded; `told` is called now and then with how many sessions have ended.
pub fn run(
    workload: &Workload,
    cluster: &Cluster,
    rules: &Rules,
    speed: &Speed,
    chart_max: usize,
    told: &mut dyn FnMut(usize),
) -> Outcome {
    let count = workload.jobs.len();
    let joins = workload.jobs.iter().any(|job| job.request.with.is_some());
    let foresees = !workload.foreseen.is_empty();
    let interacts = rules.policy.shares() || joins || foresees || speed.bandwidth.is_some();
    let mut scheduler = Scheduler::new(cluster.clone(), *rules);
    if foresees {
        scheduler.know(workload.foreseen.clone());
    }
    let mut run = Run {
        workload,
        scheduler,
        progress: Progress::new(workload, cluster, *speed, interacts),
        outcome: Outcome {
            fates: vec![Fate::default(); count],
            refused: Vec::new(),
            chart: Vec::new(),
            chart_is_cut: false,
        },
        since: vec![0; if chart_max > 0 { count } else { 0 }],
        doing: vec![None; if chart_max > 0 { count } else { 0 }],
        stopped_ms: vec![0; count],
        chart_max,
    };
    let (mut next, mut ended) = (0, 0);
    loop {
        let submit = workload.jobs.get(next).map(|job| job.submit_ms);
        let end = run.progress.next_end();
        match (submit, end) {
            (None, None) => break,
            // Who ends makes room for who comes at the same time.
            (submit, Some((end_ms, job))) if submit.is_none_or(|submit| end_ms <= submit) => {
                run.end(end_ms, job);
                ended += 1;
                if ended % (1 << 14) == 0 {
                    told(ended);
                }
            }
            (Some(submit), _) => {
                run.ask(submit, next);
                next += 1;
            }
            (None, Some(_)) => unreachable!("the arm above takes it"),
        }
    }
    run.outcome
}

struct Run<'a> {
    workload: &'a Workload,
    scheduler: Scheduler,
    progress: Progress<'a>,
    outcome: Outcome,
    /// Since when each session does what it does; empty where nothing is recorded.
    since: Vec<u64>,
    doing: Vec<Option<Doing>>,
    /// When each was suspended last.
    stopped_ms: Vec<u64>,
    chart_max: usize,
}

impl Run<'_> {
    fn ask(&mut self, now: u64, job: usize) {
        let mut request = self.workload.jobs[job].request.clone();
        // A session that is with one that has ended, or was refused, is on its own.
        request.with = request.with.filter(|with| self.scheduler.state(*with).is_some());
        match self.scheduler.handle(now, Event::Request(SessionId(job as u64), request)) {
            Ok(decisions) => self.carry_out(now, decisions),
            Err(refused) => self.outcome.refused.push((job, refused)),
        }
    }

    fn end(&mut self, now: u64, job: usize) {
        self.record(now, job, None);
        self.outcome.fates[job].end_ms = now;
        self.progress.end(job);
        let decisions = self.scheduler.handle(now, Event::End(SessionId(job as u64)));
        self.carry_out(now, decisions.expect("it is there"));
    }

    fn carry_out(&mut self, now: u64, decisions: Vec<Decision>) {
        for decision in decisions {
            match decision {
                Decision::Start(id, placement) => {
                    let job = id.0 as usize;
                    self.outcome.fates[job].start_ms = Some(now);
                    self.progress.start(now, job, self.workload.jobs[job].run_ms, placement);
                    self.record(now, job, Some(Doing::Alone));
                }
                Decision::Suspend(id) => {
                    let job = id.0 as usize;
                    self.stopped_ms[job] = now;
                    self.outcome.fates[job].suspensions += 1;
                    self.progress.suspend(now, job);
                    self.record(now, job, Some(Doing::Suspended));
                }
                Decision::Continue(id) => {
                    let job = id.0 as usize;
                    self.outcome.fates[job].suspended_ms += now - self.stopped_ms[job];
                    self.progress.go_on(now, job);
                    self.record(now, job, Some(Doing::Alone));
                }
                Decision::Repin(id, placement) => self.progress.repin(now, id.0 as usize, placement),
            }
        }
        for (job, full) in self.progress.settle(now) {
            self.record(now, job, Some(if full { Doing::Alone } else { Doing::Sharing }));
        }
    }

    /// Notes that a session does something else from now on.
    fn record(&mut self, now: u64, job: usize, doing: Option<Doing>) {
        if self.chart_max == 0 || self.doing[job] == doing {
            return;
        }
        let before = std::mem::replace(&mut self.doing[job], doing);
        let from_ms = std::mem::replace(&mut self.since[job], now);
        let (Some(before), Some(home)) = (before, self.scheduler.home(SessionId(job as u64))) else { return };
        if from_ms == now {
            return;
        }
        for (node, slots) in per_node(home, self.scheduler.cluster()) {
            if self.outcome.chart.len() == self.chart_max {
                self.outcome.chart_is_cut = true;
                return;
            }
            let stretch = Stretch { job, node, slots, doing: before, from_ms, to_ms: now };
            self.outcome.chart.push(stretch);
        }
    }
}

/// How many slots of a placement are on which node.
fn per_node(placement: &Placement, cluster: &Cluster) -> Vec<(NodeId, u32)> {
    let mut counts: Vec<(NodeId, u32)> = Vec::new();
    for slot in placement.slots() {
        let node = cluster.node_of(slot);
        match counts.iter_mut().find(|(known, _)| *known == node) {
            Some((_, count)) => *count += 1,
            None => counts.push((node, 1)),
        }
    }
    counts
}
