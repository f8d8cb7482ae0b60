//! A day of sessions on a simulated chip, with a learner that sees of it what it would see of a real one: instructions, time, flows, and
//! who comes and goes.

use castell_interference::learn::{Changes, Learner, Look, Program, Windows};
use castell_interference::simulated::Measured;
use castell_interference::{Pair, Readings};
use castell_policy::session::workload::{Lublin, Workload};
use castell_policy::session::{
    Cluster, Decision, Event, Policy, Request, Rules, Scheduler, SessionId, Shape,
};
use std::collections::BTreeMap;

/// Two sessions run at a time, on four processors each.
const PROCESSORS: u32 = 8;
/// Sessions last from ten seconds to an hour: the tail of the model would fill the day with two of them.
const RUN_MS: (f64, f64) = (10e3, 3_600e3);
const DAY_S: u64 = 24 * 3_600;

/// How a day goes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub sessions: u32,
    pub seed: u64,
    /// The standard deviation of one observation of a pair. Natural logarithm.
    pub noise: f64,
    /// Paces drift by themselves by about so much over minutes. Natural logarithm.
    pub drift: f64,
}

/// The mean errors of an hour.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hour {
    pub observed: u32,
    /// Of the learner, of the median so far and of 1.05, against what was observed.
    pub seen: [f64; 3],
    /// Against the chip's truth.
    pub truth: [f64; 3],
    /// Of the learner's errors against the truth, the parts below 5 % and 30 %.
    pub below: [f64; 2],
}

/// What came of it.
pub struct Day {
    pub hours: Vec<Hour>,
    pub learner: Learner,
    pub sessions: usize,
}

/// A session that runs.
struct Running {
    program: usize,
    left_s: f64,
    work: f64,
    cpu_s: f64,
    drift: f64,
}

/// The day: second by second.
pub fn day(measured: &Measured, pairs: &[Pair], options: Options) -> Day {
    let count = measured.profiles.len();
    let truth = |program: usize, neighbour: usize| pairs[program * count + neighbour].slowdown;
    let mut draws = Draws(options.seed);
    let workload = workload(&options);
    let programs: Vec<usize> = workload.jobs.iter().map(|_| draws.program(count)).collect();
    let cluster = Cluster::new(vec![Shape::flat(PROCESSORS)]).expect("a node");
    let mut scheduler = Scheduler::new(cluster, Rules::new(Policy::Wait));
    let mut running: BTreeMap<u64, Running> = BTreeMap::new();
    let mut changes = Changes::new(Windows::default());
    let mut day = Day { hours: vec![Hour::default(); 24], learner: Learner::new(), sessions: 0 };
    let mut next = 0;
    // A window of three looks, twice: what each look has to have so that the ratio has the noise that is wanted.
    let noise = options.noise * (3.0f64 / 2.0).sqrt();
    for second in 0..DAY_S {
        let mut decisions = Vec::new();
        let ended: Vec<u64> =
            running.iter().filter(|(_, one)| one.left_s <= 0.0).map(|(session, _)| *session).collect();
        for session in ended {
            running.remove(&session);
            let event = Event::End(SessionId(session));
            decisions.extend(scheduler.handle(second * 1000, event).expect("it runs"));
            day.sessions += 1;
        }
        while let Some(job) = workload.jobs.get(next).filter(|job| job.submit_ms <= second * 1000) {
            let event = Event::Request(SessionId(next as u64), job.request.clone());
            decisions.extend(scheduler.handle(second * 1000, event).expect("it fits"));
            next += 1;
        }
        for decision in decisions {
            let Decision::Start(SessionId(session), _) = decision else { panic!("nobody is suspended") };
            let job = session as usize;
            let left_s = workload.jobs[job].run_ms as f64 / 1e3;
            let one = Running { program: programs[job], left_s, work: 0.0, cpu_s: 0.0, drift: 0.0 };
            running.insert(session, one);
        }
        let now: Vec<(u64, usize)> = running.iter().map(|(session, one)| (*session, one.program)).collect();
        for (session, one) in &mut running {
            let beside = now.iter().filter(|(other, _)| other != session);
            let slowdown: f64 = beside.map(|(_, neighbour)| truth(one.program, *neighbour)).product();
            one.left_s -= 1.0 / slowdown;
            one.drift += draws.normal() * options.drift * (2.0f64 / 300.0).sqrt() - one.drift / 300.0;
            one.work += 4e9 / slowdown * (one.drift + noise * draws.normal()).exp();
            one.cpu_s += 4.0;
            read(&mut day.learner, measured, second, one.program, now.len() == 1, &mut draws);
        }
        let looks = running.iter().map(|(session, one)| Look {
            session: *session,
            program: name(measured, one.program),
            work: one.work,
            cpu_s: one.cpu_s,
        });
        for seen in changes.look(second as f64, looks) {
            let median = if day.learner.observed() == 0 { 1.0 } else { middle(&day.learner) };
            let told = day.learner.learn(second, &seen).expect("a slowdown");
            let number = |id: &String| measured.profiles.iter().position(|profile| profile.name == *id);
            let truth = |id: &String| truth(number(&seen.program).unwrap_or(0), number(id).unwrap_or(0));
            // Where one came instead of another: the quotient of two slowdowns, of which both that are always the same say 1.
            let (said, truth) = match &seen.instead_of {
                None => ([told.slowdown, median, 1.05], truth(&seen.neighbour)),
                Some(other) => ([told.slowdown, 1.0, 1.0], truth(&seen.neighbour) / truth(other)),
            };
            day.hours[(second / 3_600) as usize].add(said, seen.slowdown, truth);
        }
    }
    day.hours.iter_mut().for_each(Hour::finish);
    day
}

fn name(measured: &Measured, program: usize) -> String {
    measured.profiles[program].name.clone()
}

/// What counters would say of a second, with five per cent of error.
fn read(
    learner: &mut Learner,
    measured: &Measured,
    now_s: u64,
    program: usize,
    is_alone: bool,
    draws: &mut Draws,
) {
    let profile = &measured.profiles[program];
    let Some(readings) = &profile.readings else { return };
    let mut with_error = |flow: f64| flow * (0.05 * draws.normal()).exp();
    let [l1, l2, llc] = [readings.into_l1(), readings.into_l2(), readings.into_llc()].map(&mut with_error);
    let readings = Readings::new(l1, l2, llc).expect("flows");
    learner.see(now_s, &profile.name, &profile.name);
    learner.read(now_s, &profile.name, &readings, 4, 1.0, is_alone);
}

/// The median of the last observations of all pairs.
fn middle(learner: &Learner) -> f64 {
    let beside = |program: &Program| {
        program.neighbours().into_iter().flat_map(|other| program.beside(other)).collect::<Vec<f64>>()
    };
    let mut all: Vec<f64> = learner.programs().values().flat_map(beside).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(1.0)
}

impl Hour {
    fn add(&mut self, said: [f64; 3], seen: f64, truth: f64) {
        self.observed += 1;
        for (at, said) in said.into_iter().enumerate() {
            self.seen[at] += (said - seen).abs() / seen;
            self.truth[at] += (said - truth).abs() / truth;
        }
        let error = (said[0] - truth).abs() / truth;
        self.below[0] += f64::from(u8::from(error < 0.05));
        self.below[1] += f64::from(u8::from(error < 0.3));
    }

    fn finish(&mut self) {
        let count = f64::from(self.observed.max(1));
        self.seen.iter_mut().chain(&mut self.truth).chain(&mut self.below).for_each(|sum| *sum /= count);
    }
}

/// Lublin and Feitelson's sessions, with all times stretched so that the last one comes at the end of the day.
fn workload(options: &Options) -> Workload {
    let lublin = Lublin {
        jobs: options.sessions,
        processors: PROCESSORS,
        seed: options.seed,
        load: None,
        overestimate: 0.0,
    };
    let mut workload = lublin.workload();
    let last = workload.jobs.last().map_or(1, |job| job.submit_ms.max(1));
    // As much work as keeps both halves busy for two thirds of the day.
    let cut = |run_ms: u64, factor: f64| (run_ms as f64 * factor).clamp(RUN_MS.0, RUN_MS.1);
    let work = |factor: f64| workload.jobs.iter().map(|job| cut(job.run_ms, factor)).sum::<f64>();
    let (mut low, mut high) = (1e-6f64, 1e6f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if work(middle) < 1.3 * (DAY_S * 1000) as f64 { low = middle } else { high = middle }
    }
    for job in &mut workload.jobs {
        job.submit_ms = (job.submit_ms as f64 * (DAY_S * 1000) as f64 / last as f64) as u64;
        job.run_ms = cut(job.run_ms, low) as u64;
        job.request = Request::new(PROCESSORS / 2);
    }
    workload
}

/// Random numbers (SplitMix64: Steele, Lea and Flood, OOPSLA 2014).
struct Draws(u64);

impl Draws {
    /// Above 0, below 1.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON / 4.0
    }

    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
    }

    /// Some programs are run much more often than others.
    fn program(&mut self, count: usize) -> usize {
        let part = self.uniform() * self.uniform();
        // Kernels of one class stand beside each other in their list: mixed here.
        (part * count as f64) as usize * 7 % count
    }
}
