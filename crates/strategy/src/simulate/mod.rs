//! Applications' collections under a strategy, in virtual time.
//!
//! A step takes its kernel's time. Where cores are shared ([`Machine::cores`]), what runs at once may ask for more of them than there
//! are, and is slowed down evenly then. The same scenario and strategy give the same bits on any machine.

mod progress;
mod summary;

pub use summary::{Busy, Summary};

use crate::applications::{Application, Applications};
use crate::collection::CollectionId;
use crate::keeper::{Event, Fault, Happened, Keeper, Strategy};
use crate::node::{Node, NodeError, ResourceId, ResourceKind};
use castell_base::{Moment, Time};
use progress::Progress;

/// A resource as the simulator knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineResource {
    /// Its name.
    pub name: String,
    /// What it is made of.
    pub kind: ResourceKind,
    /// Cores that a kernel on it keeps busy, of those that are shared.
    pub cores: u32,
    /// Watts while something runs there, and while nothing does.
    pub power: Option<(f64, f64)>,
}

/// The node that is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its resources, in the order of the applications' columns.
    pub resources: Vec<MachineResource>,
    /// Cores that they share; without it, none slows another down.
    pub cores: Option<u32>,
    /// Resources that levels of the governor forbid.
    pub forbids: Vec<(String, Vec<String>)>,
}

impl Machine {
    /// The resources that applications have kernels for; nothing is shared or forbidden, and no power known.
    pub fn of(applications: &Applications) -> Machine {
        let resources = applications.resources.iter().map(|(name, kind)| MachineResource {
            name: name.clone(),
            kind: *kind,
            cores: 0,
            power: None,
        });
        Machine { resources: resources.collect(), cores: None, forbids: Vec::new() }
    }
}

/// Something that changes from outside while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The governor's level.
    Governor(String),
    /// What a sensor says.
    Sensor(String, f64),
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Who registers what, and when.
    pub applications: Vec<Application>,
    /// Where it runs.
    pub machine: Machine,
    /// What changes when. Those of time 0 hold from the beginning.
    pub changes: Vec<(Time, Change)>,
}

/// A collection from its registration to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its application's place in the scenario.
    pub application: usize,
    /// The how many-eth instance, from 0 on.
    pub instance: u32,
    /// When it was registered.
    pub arrived: Time,
    /// When its last step ended.
    pub ended: Time,
    /// How long it ran, all steps together.
    pub ran: Time,
    /// How often a step ran elsewhere than the one before.
    pub moves: u32,
}

/// A step on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Whose: a place in [`Outcome::jobs`].
    pub job: usize,
    /// Where.
    pub resource: ResourceId,
    /// From when.
    pub from: Time,
    /// Until when.
    pub to: Time,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// All collections, in the order of their registration: the one with number n is at n - 1.
    pub jobs: Vec<Job>,
    /// All steps, in the order of their ends.
    pub stretches: Vec<Stretch>,
    /// Everything, in order.
    pub events: Vec<Event>,
    /// When the last step ended.
    pub makespan: Time,
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The strategy failed.
    #[error("{fault} (after {at} of virtual time)")]
    Fault {
        /// How.
        fault: Fault,
        /// When.
        at: Time,
    },
    /// Nothing runs and nothing will happen, but collections wait.
    #[error(
        "{strategy}: after {at} of virtual time nothing runs, nothing else will happen, and {waiting} of {all} collections wait for ever: \
         `choose` has to put them somewhere when resources are free, or a tick has to come"
    )]
    Stalled {
        /// Under which strategy.
        strategy: String,
        /// Since when.
        at: Time,
        /// How many.
        waiting: usize,
        /// Of how many.
        all: usize,
    },
    /// It never ends, or ends too late.
    #[error("{strategy}: not at its end after {what}, which is the limit")]
    TooLong {
        /// Under which strategy.
        strategy: String,
        /// What is used up.
        what: &'static str,
    },
    /// The scenario is none.
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// Ticks in a row at which nothing runs and nothing is decided.
const IDLE_TICKS_MAX: u32 = 10_000;
/// Ticks altogether.
const TICKS_MAX: u64 = 10_000_000;

/// Runs a scenario under a strategy. What happens at one moment happens in this order: steps end (by resource), the governor and
/// sensors change, a tick, registrations (in the order of the scenario); the strategy is asked after each.
///
/// # Errors
/// The strategy fails or leaves collections waiting for ever, or a name of the scenario is wrong.
pub fn run(scenario: &Scenario, strategy: Box<dyn Strategy>) -> Result<Outcome, SimulateError> {
    let names = scenario.machine.resources.iter().map(|resource| (resource.name.clone(), resource.kind));
    let mut node = Node::new(names)?;
    for (level, names) in &scenario.machine.forbids {
        node.set_forbidden(level, names)?;
    }
    let mut changes: Vec<_> = scenario.changes.iter().collect();
    changes.sort_by_key(|(at, _)| *at);
    let first = changes.iter().take_while(|(at, _)| *at == Time::ZERO).count();
    for (_, change) in changes.drain(..first) {
        match change {
            Change::Governor(level) => node.set_governor(level),
            Change::Sensor(name, value) => node.set_sensor(name, *value),
        }
    }
    let mut arrivals = arrivals(&scenario.applications);
    arrivals.reverse();
    changes.reverse();
    let mut run = Run {
        scenario,
        keeper: Keeper::new(node, strategy),
        progress: Progress::new(&scenario.machine),
        outcome: Outcome {
            jobs: Vec::new(),
            stretches: Vec::new(),
            events: Vec::new(),
            makespan: Time::ZERO,
        },
        arrivals,
        changes,
        last: Vec::new(),
        idle_ticks: 0,
        ticks: 0,
    };
    while run.step()? {}
    Ok(run.outcome)
}

/// Who registers when: time, application, instance.
fn arrivals(applications: &[Application]) -> Vec<(Time, usize, u32)> {
    let mut arrivals: Vec<_> = applications
        .iter()
        .enumerate()
        .flat_map(|(at, application)| {
            (0..application.arrivals.count())
                .map(move |number| (application.arrivals.time(number), at, number))
        })
        .collect();
    arrivals.sort_unstable();
    arrivals
}

/// A simulation on its way.
struct Run<'a> {
    scenario: &'a Scenario,
    keeper: Keeper,
    progress: Progress,
    outcome: Outcome,
    /// The next one last.
    arrivals: Vec<(Time, usize, u32)>,
    /// The next one last.
    changes: Vec<&'a (Time, Change)>,
    /// Where each job's last step ran.
    last: Vec<Option<ResourceId>>,
    idle_ticks: u32,
    ticks: u64,
}

impl Run<'_> {
    /// What happens next happens; `false` at the end.
    fn step(&mut self) -> Result<bool, SimulateError> {
        let is_over = self.arrivals.is_empty() && self.keeper.node().collections().len() == 0;
        if is_over {
            return Ok(false);
        }
        let ended = self.progress.next_end();
        let change = self.changes.last().map(|(at, _)| *at);
        let tick = self.keeper.next_tick().map(Moment::since_beginning);
        let arrival = self.arrivals.last().map(|(at, ..)| *at);
        let times = [ended.map(|(at, _)| at), change, tick, arrival];
        let Some(now) = times.into_iter().flatten().min() else { return Err(self.stalled()) };
        if now == Time::MAX {
            return Err(self.too_long("213 days, the longest virtual time"));
        }
        self.progress.go_on(now);
        if let Some((_, resource)) = ended.filter(|(at, _)| *at == now) {
            self.end(now, resource)?;
        } else if change == Some(now) {
            match &self.changes.pop().expect("it is the next").1 {
                Change::Governor(level) => self.keeper.set_governor(now, level),
                Change::Sensor(name, value) => self.keeper.set_sensor(now, name, *value),
            }
        } else if tick == Some(now) {
            self.keeper.tick(now);
            self.ticks += 1;
            let will_happen = ended.is_some() || change.is_some() || arrival.is_some();
            self.idle_ticks = if will_happen { 0 } else { self.idle_ticks + 1 };
        } else {
            self.arrive(now)?;
        }
        self.follow_events()?;
        if self.idle_ticks > IDLE_TICKS_MAX {
            return Err(self.stalled());
        }
        if self.ticks > TICKS_MAX {
            return Err(self.too_long("ten million ticks"));
        }
        Ok(true)
    }

    fn end(&mut self, now: Time, resource: ResourceId) -> Result<(), SimulateError> {
        let (job, from) = self.progress.end(resource);
        self.outcome.stretches.push(Stretch { job, resource, from, to: now });
        self.outcome.makespan = now;
        let job = &mut self.outcome.jobs[job];
        (job.ran, job.ended) = (job.ran + (now - from), now);
        Ok(self.keeper.ended(now, resource)?)
    }

    fn arrive(&mut self, now: Time) -> Result<(), SimulateError> {
        let (arrived, at, instance) = self.arrivals.pop().expect("it is the next");
        let application = &self.scenario.applications[at];
        self.outcome.jobs.push(Job {
            application: at,
            instance,
            arrived,
            ended: arrived,
            ran: Time::ZERO,
            moves: 0,
        });
        self.last.push(None);
        let (name, kernels) = (application.name.clone(), application.kernels.clone());
        self.keeper.register(now, name, kernels, application.steps)?;
        Ok(())
    }

    /// Starts what the strategy started.
    fn follow_events(&mut self) -> Result<(), SimulateError> {
        for event in self.keeper.take_events() {
            match &event.what {
                Happened::Fault(fault) => {
                    return Err(SimulateError::Fault {
                        fault: fault.clone(),
                        at: event.at.since_beginning(),
                    });
                }
                Happened::Started(start) => {
                    self.start(event.at.since_beginning(), start.collection, start.resource)
                }
                Happened::Decided(_) => self.idle_ticks = 0,
                _ => {}
            }
            self.outcome.events.push(event);
        }
        Ok(())
    }

    fn start(&mut self, at: Time, collection: CollectionId, resource: ResourceId) {
        let job = (collection.0 - 1) as usize;
        let application = &self.scenario.applications[self.outcome.jobs[job].application];
        let kernel = application.kernels.on(resource).expect("a strategy starts kernels that are there");
        self.progress.start(at, resource, job, kernel.step_time.expect("simulated kernels have times"));
        let before = self.last[job].replace(resource);
        if before.is_some_and(|before| before != resource) {
            self.outcome.jobs[job].moves += 1;
        }
    }

    fn stalled(&self) -> SimulateError {
        let node = self.keeper.node();
        SimulateError::Stalled {
            strategy: self.keeper.strategy().into(),
            at: node.now().since_beginning(),
            waiting: node.collections().len(),
            all: self.outcome.jobs.len(),
        }
    }

    fn too_long(&self, what: &'static str) -> SimulateError {
        SimulateError::TooLong { strategy: self.keeper.strategy().into(), what }
    }
}

impl Outcome {
    /// What a collection is called: its application, and its instance counted from 1.
    pub fn name(&self, scenario: &Scenario, id: CollectionId) -> String {
        let job = self.jobs[(id.0 - 1) as usize];
        format!("{}#{}", scenario.applications[job.application].name, job.instance + 1)
    }

    /// An event as a line of the log; the same event gives the same line, to the byte.
    pub fn line(&self, scenario: &Scenario, event: &Event) -> String {
        let on = |resource: ResourceId| scenario.machine.resources[resource.0].name.clone();
        event.line(|id| self.name(scenario, id), on)
    }
}
