//! A recorded day as a scenario, to be simulated under other strategies.

use super::replay::{RecordingError, Replay, Seen, replay};
use castell_base::{Moment, Time};
use castell_strategy::applications::{Application, Arrivals};
use castell_strategy::simulate::{Change, Machine, MachineResource, Scenario};
use castell_strategy::{CollectionId, Happened, Input, Kernel, Kernels, Ranking, ResourceId};
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::sync::Arc;

/// What was recorded, as it can be simulated.
#[derive(Clone, Debug)]
pub struct Day {
    /// Who registered what and when; kernels take what their steps took on the average, or what their application has said where none
    /// ran.
    pub scenario: Scenario,
    /// The replay from which it was made.
    pub replay: Replay,
    /// Collections that were done.
    pub done: u64,
    /// Collections that are left out, since their applications went away before they were done.
    pub withdrawn: usize,
    /// Kernels that are left out, since nobody knows how long they take.
    pub unknown: usize,
}

/// Reads a recording.
///
/// # Errors
/// It is none.
pub fn day(file: impl BufRead) -> Result<Day, RecordingError> {
    let mut gathered = Gathered::default();
    let replay = replay(file, &mut |seen| gathered.see(seen))?;
    Ok(gathered.day(replay))
}

/// Collections that are alike: application, kernels, steps.
type Kind = (Arc<str>, usize, u32);

#[derive(Default)]
struct Gathered {
    machine: Option<Machine>,
    changes: Vec<(Time, Change)>,
    shapes: Vec<Arc<Kernels>>,
    /// What comes next, before it has a number.
    coming: Option<Kind>,
    collections: BTreeMap<CollectionId, (Kind, Time)>,
    started: BTreeMap<ResourceId, Moment>,
    /// Of an application's kernels: how long all steps took together, and how many they were.
    took: BTreeMap<(Arc<str>, usize, ResourceId), (u64, u64)>,
    withdrawn: BTreeSet<CollectionId>,
    done: u64,
}

impl Gathered {
    fn see(&mut self, seen: Seen<'_>) {
        match seen {
            Seen::Begin(node) => {
                let resources = node.resources().iter().map(|resource| MachineResource {
                    name: resource.name.clone(),
                    kind: resource.kind,
                    cores: 0,
                    power: None,
                });
                let name = |id: ResourceId| node.resources()[id.0].name.clone();
                let forbids =
                    node.forbidden().map(|(level, ids)| (level.to_owned(), ids.map(name).collect()));
                self.machine =
                    Some(Machine { resources: resources.collect(), cores: None, forbids: forbids.collect() });
                self.changes.push((Time::ZERO, Change::Governor(node.governor().into())));
                let sensors = node.sensors().iter();
                self.changes
                    .extend(sensors.map(|(name, value)| (Time::ZERO, Change::Sensor(name.clone(), *value))));
            }
            Seen::Input(at, input) => self.input(at.since_beginning(), input),
            Seen::Event(event) => self.event(event.at, &event.what),
        }
    }

    fn input(&mut self, at: Time, input: &Input) {
        match input {
            Input::Register { application, kernels, steps }
            | Input::Adopt { application, kernels, steps, .. } => {
                let known = self.shapes.iter().position(|known| Arc::ptr_eq(known, kernels));
                let shape = known.unwrap_or_else(|| {
                    self.shapes.push(kernels.clone());
                    self.shapes.len() - 1
                });
                self.coming = Some((application.clone(), shape, *steps));
            }
            Input::Governor(level) => self.changes.push((at, Change::Governor(level.clone()))),
            Input::Sensor(name, value) => self.changes.push((at, Change::Sensor(name.clone(), *value))),
            Input::Withdraw(id) => _ = self.withdrawn.insert(*id),
            Input::Ended(_) | Input::Tick => {}
        }
    }

    fn event(&mut self, at: Moment, what: &Happened) {
        match what {
            Happened::Arrived(id) => {
                self.collections.extend(self.coming.take().map(|kind| (*id, (kind, at.since_beginning()))));
            }
            Happened::Adopted(start) => {
                self.collections
                    .extend(self.coming.take().map(|kind| (start.collection, (kind, at.since_beginning()))));
                // It ran before that, nobody knows how long.
                self.started.remove(&start.resource);
            }
            Happened::Started(start) => _ = self.started.insert(start.resource, at),
            Happened::Ended { collection, resource, is_done } => {
                self.done += u64::from(*is_done);
                let (Some(started), Some(((name, shape, _), _))) =
                    (self.started.remove(resource), self.collections.get(collection))
                else {
                    return;
                };
                let took = self.took.entry((name.clone(), *shape, *resource)).or_default();
                *took = (took.0 + (at - started).0, took.1 + 1);
            }
            _ => {}
        }
    }

    fn day(self, replay: Replay) -> Day {
        let mut arrivals: BTreeMap<&Kind, Vec<Time>> = BTreeMap::new();
        for (id, (kind, at)) in &self.collections {
            if !self.withdrawn.contains(id) {
                arrivals.entry(kind).or_default().push(*at);
            }
        }
        let mut unknown = 0;
        let mut kernels_of = BTreeMap::new();
        let mut applications = Vec::new();
        for ((name, shape, steps), arrivals) in arrivals {
            let kernels = kernels_of.entry((name, *shape)).or_insert_with(|| {
                let (kernels, left_out) = self.timed(name, *shape);
                unknown += left_out;
                kernels
            });
            applications.extend(kernels.clone().map(|kernels| Application {
                name: name.clone(),
                steps: *steps,
                arrivals: Arrivals::At(arrivals.clone()),
                kernels,
            }));
        }
        let (machine, changes) = (self.machine.expect("a replay begins with the node"), self.changes);
        let scenario = Scenario { applications, machine, changes };
        Day { scenario, replay, done: self.done, withdrawn: self.withdrawn.len(), unknown }
    }

    /// Kernels with times; nothing if no time is known at all. And how many are left out.
    fn timed(&self, application: &Arc<str>, shape: usize) -> (Option<Arc<Kernels>>, usize) {
        let kernels = &self.shapes[shape];
        let time = |kernel: &Kernel| match self.took.get(&(application.clone(), shape, kernel.resource)) {
            // A kernel needs a time above 0.
            Some((sum, count)) => Some(Time((sum / count).max(1))),
            None => kernel.step_time.filter(|time| *time > Time::ZERO),
        };
        let known: Vec<Kernel> = kernels
            .all()
            .iter()
            .filter_map(|kernel| Some(Kernel { resource: kernel.resource, step_time: Some(time(kernel)?) }))
            .collect();
        let left_out = kernels.all().len() - known.len();
        let is_known = |id: &ResourceId| known.iter().any(|kernel| kernel.resource == *id);
        let rankings = kernels.rankings().iter().map(|ranking| Ranking {
            name: ranking.name.clone(),
            order: ranking.order.iter().copied().filter(is_known).collect(),
        });
        let rankings = rankings.collect();
        (Kernels::new(known, rankings).ok().map(Arc::new), left_out)
    }
}
