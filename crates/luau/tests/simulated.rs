//! Random scenarios under every shipped strategy: nothing is lost, run twice or in two places, and the same seed gives the same bits.

mod shipped;

use castell_base::{Moment, Time};
use castell_luau::Script;
use castell_luau::shipped::ALL;
use castell_strategy::applications::Applications;
use castell_strategy::simulate::{Change, Machine, Outcome, Scenario, SimulateError, Summary, run};
use castell_strategy::{Decision, Fault, Happened, Node, ResourceId};
use proptest::prelude::*;
use shipped::shipped;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Figures of the paper's two applications, from the rules of section 3.2 and the times of section 3.3.
const TIMES: &str = include_str!("../../../vectors/strategy/kernel-times.csv");

fn scenario(text: &str, governor: &str) -> Scenario {
    let applications = Applications::read(text).expect("a table");
    let machine = Machine::of(&applications);
    let changes = vec![(Time::ZERO, Change::Governor(governor.into()))];
    Scenario { applications: applications.all, machine, changes }
}

/// Every collection runs each of its steps once, after it arrived, where it has a kernel; no resource runs two at once.
fn assert_sound(scenario: &Scenario, outcome: &Outcome) {
    let instances: u32 = scenario.applications.iter().map(|application| application.arrivals.count()).sum();
    assert_eq!(outcome.jobs.len(), instances as usize);
    let mut steps = vec![0; outcome.jobs.len()];
    let mut until: BTreeMap<ResourceId, Time> = BTreeMap::new();
    let mut last = vec![Time::ZERO; outcome.jobs.len()];
    let mut by_start = outcome.stretches.clone();
    by_start.sort_by_key(|stretch| (stretch.from, stretch.to));
    for stretch in by_start {
        let job = outcome.jobs[stretch.job];
        let application = &scenario.applications[job.application];
        let kernel = application.kernels.on(stretch.resource).expect("a kernel for where it ran");
        let takes = kernel.step_time.expect("a time");
        match scenario.machine.cores {
            None => assert_eq!(stretch.to - stretch.from, takes),
            Some(_) => assert!(stretch.to - stretch.from >= takes),
        }
        let free = until.entry(stretch.resource).or_default();
        assert!(*free <= stretch.from, "{:?} runs two at once", stretch.resource);
        *free = stretch.to;
        assert!(last[stretch.job].max(job.arrived) <= stretch.from, "in two places");
        last[stretch.job] = stretch.to;
        steps[stretch.job] += 1;
    }
    for (job, steps) in outcome.jobs.iter().zip(steps) {
        assert_eq!(steps, scenario.applications[job.application].steps);
    }
    let done =
        outcome.events.iter().filter(|event| matches!(event.what, Happened::Ended { is_done: true, .. }));
    assert_eq!(done.count(), outcome.jobs.len());
}

#[derive(Clone, Debug)]
struct Line {
    instances: u32,
    steps: u32,
    arrival_s: u32,
    every_ms: u32,
    /// Milliseconds on each resource; every application has a kernel for cores, so that it can run under `low`.
    times_ms: [Option<u32>; 3],
}

fn line() -> impl Strategy<Value = Line> {
    let time = || 1..100_000u32;
    let times = (time(), proptest::option::of(time()), proptest::option::of(time()));
    (1..12u32, 1..4u32, 0..50u32, 0..3000u32, times).prop_map(
        |(instances, steps, arrival_s, every_ms, (one, all, gpu))| Line {
            instances,
            steps,
            arrival_s,
            every_ms,
            times_ms: [Some(one), all, gpu],
        },
    )
}

fn table(lines: &[Line]) -> String {
    let mut text =
        String::from("application,instances,steps,arrival_s,every_s,one_core_s,all_cores_s,gpu_s\n");
    for (at, line) in lines.iter().enumerate() {
        let seconds = |ms: &u32| format!("{}.{:03}", ms / 1000, ms % 1000);
        let times: Vec<_> =
            line.times_ms.iter().map(|ms| ms.as_ref().map(seconds).unwrap_or_default()).collect();
        text += &format!(
            "app{at},{},{},{},{},{}\n",
            line.instances,
            line.steps,
            line.arrival_s,
            seconds(&line.every_ms),
            times.join(",")
        );
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_run_twice(
        lines in proptest::collection::vec(line(), 1..5),
        low_at_s in 0..100u64,
        forbids in any::<bool>(),
        shares in any::<bool>(),
    ) {
        let mut scenario = scenario(&table(&lines), "high");
        scenario.changes.push((Time::from_ns(low_at_s * 1_000_000_000), Change::Governor("low".into())));
        if forbids {
            scenario.machine.forbids.push(("low".into(), vec!["gpu".into()]));
        }
        if shares {
            scenario.machine.cores = Some(4);
            for (resource, cores) in scenario.machine.resources.iter_mut().zip([1, 4, 1]) {
                resource.cores = cores;
            }
        }
        for strategy in ALL {
            let once = run(&scenario, Box::new(shipped(strategy.name)));
            let once = once.unwrap_or_else(|error| panic!("{error}"));
            assert_sound(&scenario, &once);
            let again = run(&scenario, Box::new(shipped(strategy.name))).expect("as before");
            prop_assert_eq!(&once, &again);
            let lines = |outcome: &Outcome| {
                outcome.events.iter().map(|event| outcome.line(&scenario, event)).collect::<Vec<_>>()
            };
            prop_assert_eq!(lines(&once), lines(&again));
        }
    }
}

#[test]
fn the_papers_makespans() {
    let makespan = |application: &str, strategy: &str, governor: &str| {
        let mut scenario = scenario(TIMES, governor);
        scenario.applications.retain(|known| &*known.name == application);
        let outcome = run(&scenario, Box::new(shipped(strategy))).expect("it runs");
        assert_sound(&scenario, &outcome);
        Summary::new(&scenario.machine, &outcome).makespan.0 / 10_000_000_000
    };
    // Hundredths of seconds. Three resources at 1/2.74 + 1/1.11 + 1/3.69 matrix products a second: 100 take 65.0 s at least.
    for (strategy, high, low) in [("short-term", 6642, 6642), ("constraint", 6642, 7946)] {
        assert_eq!(makespan("matrix_multiply", strategy, "high"), high, "{strategy}");
        assert_eq!(makespan("matrix_multiply", strategy, "low"), low, "{strategy}");
    }
    // Castell's own is as good as any plan: 24 + 59 + 17 products and 3 + 6 + 16 solvers are the only ways to be done by then.
    for governor in ["high", "low"] {
        assert_eq!(makespan("matrix_multiply", "plan-ahead", governor), 6576);
        assert_eq!(makespan("lama_cg", "plan-ahead", governor), 66848);
    }
    // Under low only one solver at a time fits, on the GPU: 25 of 41.78 s, one after another.
    assert_eq!(makespan("lama_cg", "constraint", "low"), 104_450);
}

#[test]
fn shared_cores_slow_down_evenly() {
    let mut scenario = scenario("application,instances,one_core_s,all_cores_s\na,1,,4\nb,1,4,\n", "high");
    scenario.machine.cores = Some(4);
    (scenario.machine.resources[0].cores, scenario.machine.resources[1].cores) = (1, 4);
    let outcome = run(&scenario, Box::new(shipped("short-term"))).expect("it runs");
    // Five cores are asked for and four are there: both take 5 s.
    let ends: Vec<_> = outcome.stretches.iter().map(|stretch| stretch.to).collect();
    assert_eq!(ends, [Time::from_ns(5_000_000_000); 2]);
}

#[test]
fn what_waits_for_ever_is_told() {
    let scenario = scenario("application,gpu_s\na,5\n", "low");
    let error = run(&scenario, Box::new(shipped("long-term"))).expect_err("only cores under low");
    assert!(matches!(error, SimulateError::Stalled { waiting: 1, .. }), "{error}");
    assert!(error.to_string().contains("1 of 1 collections wait for ever"), "{error}");
}

#[test]
fn what_the_governor_forbids_drains() {
    let mut scenario = scenario("application,instances,one_core_s,gpu_s\na,10,5,1\n", "high");
    scenario.machine.forbids.push(("low".into(), vec!["gpu".into()]));
    scenario.changes.push((Time::from_ns(2_500_000_000), Change::Governor("low".into())));
    let outcome = run(&scenario, Box::new(shipped("short-term"))).expect("it runs");
    assert_sound(&scenario, &outcome);
    let on_gpu: Vec<_> =
        outcome.stretches.iter().filter(|stretch| stretch.resource == ResourceId(1)).collect();
    assert_eq!(on_gpu.len(), 3, "the third runs to its end");
    assert_eq!(on_gpu[2].to, Time::from_ns(3_000_000_000));
}

const SECOND: u64 = 1_000_000_000_000;

/// A tick as a strategy had it: when, and what it had left before.
type Tick = (Moment, Option<f64>);

/// A script whose ticks are written down.
struct Watched(Script, Arc<Mutex<Vec<Tick>>>);

impl castell_strategy::Strategy for Watched {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn tick(&self) -> Option<Time> {
        self.0.tick()
    }

    fn choose(&mut self, node: &Node) -> Result<Option<Decision>, Fault> {
        self.0.choose(node)
    }

    fn on_tick(&mut self, node: &Node) -> Result<(), Fault> {
        let budget = self.0.shown().get("budget").copied();
        self.1.lock().expect("unharmed").push((node.now(), budget));
        self.0.on_tick(node)
    }
}

/// What `banking` has left before each tick, by its rules, from what it has decided.
fn budgets(outcome: &Outcome, ticks: &[Tick], is_low: impl Fn(Moment) -> bool) -> Vec<Option<f64>> {
    let mut decided = outcome.events.iter().filter_map(|event| match event.what {
        Happened::Decided(decision) => Some((event.at, [1, 5, 10][decision.resource.0])),
        _ => None,
    });
    let mut next = decided.next();
    let mut budget: Option<i32> = None;
    let before = ticks.iter().map(|&(tick, _)| {
        // What is decided at the moment of a tick follows it.
        while let Some((_, cost)) = next.filter(|(at, _)| *at < tick) {
            budget = Some(budget.unwrap_or(100) - cost);
            next = decided.next();
        }
        let shown = budget.map(f64::from);
        budget = budget.map(|credits| (credits + if is_low(tick) { 10 } else { 15 }).min(100));
        shown
    });
    before.collect()
}

/// Two minutes, over and over again for three days: what happens in them is the same to the picosecond, ticks come when they are due, and budgets are
/// what they have to be.
#[test]
fn nothing_drifts_in_three_days() {
    const HOURS: u64 = 72;
    let period = Time(120 * SECOND);
    let periods = HOURS * 30;
    let lines = format!("solve,{},10,7.3,3.1,2.7\nfit,{},15,4.1,2.3,\n", periods * 12, periods * 8);
    let table = format!("application,instances,every_s,one_core_s,all_cores_s,gpu_s\n{lines}");
    let mut scenario = scenario(&table, "high");
    let levels = (0..2 * periods).map(|half| {
        let level = ["high", "low"][half as usize % 2];
        (Time(half * 60 * SECOND), Change::Governor(level.into()))
    });
    scenario.changes = levels.collect();
    for strategy in ALL {
        let ticks = Arc::new(Mutex::new(Vec::new()));
        let watched = Watched(shipped(strategy.name), ticks.clone());
        let outcome = run(&scenario, Box::new(watched)).unwrap_or_else(|error| panic!("{error}"));
        let name = strategy.name;
        assert_sound(&scenario, &outcome);
        assert_eq!(outcome.jobs.len() as u64, periods * 20, "{name}");

        // Where steps run in each period, from its beginning on: the first one begins with everything as it never is again.
        let mut places: Vec<Vec<_>> = vec![Vec::new(); periods as usize];
        for stretch in &outcome.stretches {
            let within = (stretch.from.0 / period.0) as usize;
            let begin = period * within as u64;
            places[within].push((stretch.resource, stretch.from - begin, stretch.to - begin));
        }
        places.iter_mut().for_each(|period| period.sort_unstable());
        for (number, period) in places.iter().enumerate().skip(2) {
            assert_eq!(*period, places[1], "{name}: period {number} is another one");
        }

        let ticks = std::mem::take(&mut *ticks.lock().expect("unharmed"));
        let Some(interval) = castell_strategy::Strategy::tick(&shipped(name)) else {
            assert!(ticks.is_empty(), "{name}");
            continue;
        };
        let due = (1..=outcome.makespan.0 / interval.0).map(|number| Moment::from(interval * number));
        assert!(ticks.iter().map(|(at, _)| *at).eq(due), "{name}: ticks come when they are due");
        let is_low = |at: Moment| at.since_beginning().0 / (60 * SECOND) % 2 == 1;
        let shown: Vec<_> = ticks.iter().map(|(_, budget)| *budget).collect();
        assert_eq!(shown, budgets(&outcome, &ticks, is_low), "{name}");
    }
}
