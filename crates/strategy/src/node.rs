//! A node's books: collections, queues, what runs, what the governor forbids.

mod line;

use crate::collection::{Collection, CollectionId, Kernels, Place};
use castell_base::Moment;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A resource's place in its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub usize);

/// What a resource is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// Processor cores, one or several.
    Cores,
    /// A device beside them: a GPU, an FPGA.
    Device,
}

impl ResourceKind {
    /// The word for it in scripts.
    pub fn name(self) -> &'static str {
        ["cores", "device"][self as usize]
    }

    /// By the name of a resource: what ends in `core` or `cores` is cores.
    pub fn of(name: &str) -> ResourceKind {
        let is_cores = ["core", "cores", "cpu", "cpus"].iter().any(|ending| name.ends_with(ending));
        if is_cores { ResourceKind::Cores } else { ResourceKind::Device }
    }
}

/// Something that runs one kernel at a time, with a queue of its own.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its name, of which there is one in a node.
    pub name: String,
    /// What it is made of.
    pub kind: ResourceKind,
    /// What runs there.
    pub running: Option<CollectionId>,
    /// What runs there next, first to last.
    pub queue: VecDeque<CollectionId>,
    /// The governor forbids it: what runs there ends, and nothing starts.
    pub is_forbidden: bool,
    /// Somebody runs there who is not on this node: it is [an application's own](Node::of_application).
    pub is_busy: bool,
}

impl Resource {
    /// Whether a collection that is put there starts at once.
    pub fn is_free(&self) -> bool {
        self.running.is_none() && self.queue.is_empty() && !self.is_forbidden
    }
}

/// "This collection goes to that resource": its queue's end, and at once onto the resource where that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which; it waits in the global queue or in another resource's.
    pub collection: CollectionId,
    /// Where to.
    pub resource: ResourceId,
}

/// A step begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Whose.
    pub collection: CollectionId,
    /// Where.
    pub resource: ResourceId,
}

/// A step has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whose.
    pub collection: CollectionId,
    /// It was the last: the node has forgotten the collection.
    pub is_done: bool,
}

/// A decision that cannot be carried out: the strategy's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such collection, or no longer.
    #[error("there is no collection {}", .0.0)]
    NoCollection(CollectionId),
    /// No such resource.
    #[error("there is no resource {}", .0.0)]
    NoResource(ResourceId),
    /// It runs already.
    #[error("collection {} runs already (on {on}): choose one that waits", .collection.0)]
    Runs {
        /// Which.
        collection: CollectionId,
        /// Where.
        on: String,
    },
    /// It is in that queue already.
    #[error("collection {} is in the queue of {on} already", .collection.0)]
    IsThere {
        /// Which.
        collection: CollectionId,
        /// Which queue.
        on: String,
    },
    /// It has no kernel for that.
    #[error("collection {} ({application}) has no kernel for {on}: see its ranking", .collection.0)]
    NoKernel {
        /// Which.
        collection: CollectionId,
        /// Whose.
        application: String,
        /// For what.
        on: String,
    },
    /// The governor forbids it.
    #[error("the governor forbids {on}: look at a resource's `forbidden` or `free`")]
    Forbidden {
        /// What.
        on: String,
    },
}

/// What a node cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// No resources, or two of one name.
    #[error("a node needs resources, each with a name of its own: `{0}`")]
    Resources(String),
    /// A kernel for a resource that is not there.
    #[error("a kernel is for resource {}, which the node does not have", .0.0)]
    NoResource(ResourceId),
    /// No steps.
    #[error("a collection has one step at least")]
    NoSteps,
    /// A collection is said to run where another runs, or where it has no kernel.
    #[error("{0} runs something else already, or the collection has no kernel for it")]
    Taken(String),
    /// Nothing runs on a resource that is said to have finished.
    #[error("nothing runs on {0}")]
    Idle(String),
    /// Resources that a level is to forbid.
    #[error("there is no resource `{0}` that could be forbidden")]
    NoSuchName(String),
}

/// A node: resources with a queue each, the global queue, and all collections that are not done.
///
/// No collection is in two places or runs twice, no resource runs two, and none is forgotten before its last step has ended.
#[derive(Clone, Debug)]
pub struct Node {
    now: Moment,
    resources: Vec<Resource>,
    waiting: Vec<CollectionId>,
    collections: BTreeMap<CollectionId, Collection>,
    next: u64,
    governor: String,
    forbids: BTreeMap<String, BTreeSet<ResourceId>>,
    sensors: BTreeMap<String, f64>,
    /// What starts here stands in line elsewhere.
    is_own: bool,
}

impl Node {
    /// A node with these resources, under the governor's level `high`, at time 0.
    ///
    /// # Errors
    /// No resources, or two of one name.
    pub fn new(names: impl IntoIterator<Item = (String, ResourceKind)>) -> Result<Node, NodeError> {
        let mut resources: Vec<Resource> = Vec::new();
        for (name, kind) in names {
            if resources.iter().any(|resource| resource.name == name) {
                return Err(NodeError::Resources(name));
            }
            resources.push(Resource {
                name,
                kind,
                running: None,
                queue: VecDeque::new(),
                is_forbidden: false,
                is_busy: false,
            });
        }
        if resources.is_empty() {
            return Err(NodeError::Resources("none".into()));
        }
        Ok(Node {
            now: Moment::ZERO,
            resources,
            waiting: Vec::new(),
            collections: BTreeMap::new(),
            next: 1,
            governor: "high".into(),
            forbids: BTreeMap::new(),
            sensors: BTreeMap::new(),
            is_own: false,
        })
    }

    /// Adds a resource, free as yet; there may be one of this name already.
    pub fn add_resource(&mut self, name: &str, kind: ResourceKind) -> ResourceId {
        self.resource_named(name).unwrap_or_else(|| {
            self.resources.push(Resource {
                name: name.into(),
                kind,
                running: None,
                queue: VecDeque::new(),
                is_forbidden: false,
                is_busy: false,
            });
            ResourceId(self.resources.len() - 1)
        })
    }

    /// What time it is, as far as the node was told.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Time goes on; a clock that goes back is not followed.
    pub fn set_now(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    /// All resources.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The resource of this name.
    pub fn resource_named(&self, name: &str) -> Option<ResourceId> {
        self.resources.iter().position(|resource| resource.name == name).map(ResourceId)
    }

    /// The global queue, first to last.
    pub fn waiting(&self) -> &[CollectionId] {
        &self.waiting
    }

    /// Whether there is a collection that could be put somewhere.
    pub fn has_choice(&self) -> bool {
        !self.waiting.is_empty() || self.resources.iter().any(|resource| !resource.queue.is_empty())
    }

    /// All collections that are not done, by their numbers.
    pub fn collections(&self) -> impl ExactSizeIterator<Item = &Collection> {
        self.collections.values()
    }

    /// Those with this number or a later one.
    pub fn collections_from(&self, first: CollectionId) -> impl Iterator<Item = &Collection> {
        self.collections.range(first..).map(|(_, collection)| collection)
    }

    /// A collection that is not done.
    pub fn collection(&self, id: CollectionId) -> Option<&Collection> {
        self.collections.get(&id)
    }

    /// The governor's level.
    pub fn governor(&self) -> &str {
        &self.governor
    }

    /// What sensors said last, by their names.
    pub fn sensors(&self) -> &BTreeMap<String, f64> {
        &self.sensors
    }

    /// What a sensor says now.
    pub fn set_sensor(&mut self, name: &str, value: f64) {
        self.sensors.insert(name.into(), value);
    }

    /// Says which resources a level of the governor forbids.
    ///
    /// # Errors
    /// There is no such resource.
    pub fn set_forbidden(&mut self, level: &str, names: &[String]) -> Result<(), NodeError> {
        let ids: Result<_, _> = names
            .iter()
            .map(|name| self.resource_named(name).ok_or_else(|| NodeError::NoSuchName(name.clone())))
            .collect();
        self.forbids.insert(level.into(), ids?);
        let level = self.governor.clone();
        self.set_governor(&level);
        Ok(())
    }

    /// What each level of the governor forbids, where that was said.
    pub fn forbidden(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = ResourceId>)> {
        self.forbids.iter().map(|(level, ids)| (level.as_str(), ids.iter().copied()))
    }

    /// Sets the governor's level. What runs on a resource that it forbids runs to the end of its step; what is queued there goes back to
    /// the front of the global queue.
    pub fn set_governor(&mut self, level: &str) {
        self.governor = level.into();
        let forbidden = self.forbids.get(level).cloned().unwrap_or_default();
        for at in (0..self.resources.len()).rev() {
            let resource = &mut self.resources[at];
            resource.is_forbidden = forbidden.contains(&ResourceId(at));
            if resource.is_forbidden {
                let back: Vec<_> = resource.queue.drain(..).collect();
                for id in &back {
                    self.collections.get_mut(id).expect("it is queued").place = Place::Waiting;
                }
                self.waiting.splice(0..0, back);
            }
        }
    }

    /// A collection arrives in the global queue.
    ///
    /// # Errors
    /// It has no steps, or a kernel for a resource that is not here.
    pub fn register(
        &mut self,
        application: Arc<str>,
        kernels: Arc<Kernels>,
        steps: u32,
    ) -> Result<CollectionId, NodeError> {
        if steps == 0 {
            return Err(NodeError::NoSteps);
        }
        if let Some(kernel) = kernels.all().iter().find(|kernel| kernel.resource.0 >= self.resources.len()) {
            return Err(NodeError::NoResource(kernel.resource));
        }
        let id = CollectionId(self.next);
        self.next += 1;
        let collection = Collection {
            id,
            application,
            kernels,
            steps,
            steps_done: 0,
            arrived: self.now,
            started: None,
            last: None,
            place: Place::Waiting,
        };
        self.collections.insert(id, collection);
        self.waiting.push(id);
        Ok(id)
    }

    /// A collection arrives that runs already, as another node's keeper has left it: so many steps, and the one that runs.
    ///
    /// # Errors
    /// It cannot arrive, it has no kernel for that, or another runs there; nothing has changed then.
    pub fn adopt(
        &mut self,
        application: Arc<str>,
        kernels: Arc<Kernels>,
        steps: u32,
        on: ResourceId,
    ) -> Result<CollectionId, NodeError> {
        let resource = self.resources.get(on.0).ok_or(NodeError::NoResource(on))?;
        if resource.running.is_some() || kernels.on(on).is_none() {
            return Err(NodeError::Taken(resource.name.clone()));
        }
        let id = self.register(application, kernels, steps)?;
        self.waiting.retain(|waiting| *waiting != id);
        self.resources[on.0].running = Some(id);
        let collection = self.collections.get_mut(&id).expect("it was just registered");
        (collection.place, collection.last, collection.started) =
            (Place::Running(on), Some(on), Some(self.now));
        Ok(id)
    }

    /// Carries a decision out; says what starts by it.
    ///
    /// # Errors
    /// It cannot be carried out; nothing has changed then.
    pub fn apply(&mut self, decision: Decision) -> Result<Option<Start>, Refusal> {
        let Decision { collection: id, resource: to } = decision;
        let resource = self.resources.get(to.0).ok_or(Refusal::NoResource(to))?;
        let collection = self.collections.get(&id).ok_or(Refusal::NoCollection(id))?;
        let on = || resource.name.clone();
        if collection.kernels.on(to).is_none() {
            let application = collection.application.to_string();
            return Err(Refusal::NoKernel { collection: id, application, on: on() });
        }
        if resource.is_forbidden {
            return Err(Refusal::Forbidden { on: on() });
        }
        match collection.place {
            Place::Running(at) => {
                return Err(Refusal::Runs { collection: id, on: self.resources[at.0].name.clone() });
            }
            Place::Queued(at) if at == to => return Err(Refusal::IsThere { collection: id, on: on() }),
            Place::Queued(at) => self.resources[at.0].queue.retain(|queued| *queued != id),
            Place::Waiting => self.waiting.retain(|waiting| *waiting != id),
        }
        self.resources[to.0].queue.push_back(id);
        self.collections.get_mut(&id).expect("it is there").place = Place::Queued(to);
        Ok(self.start(to))
    }

    /// The step that runs on a resource has ended. If it was not the last, its collection waits at the front of the global queue.
    /// Says what starts there from its queue.
    ///
    /// # Errors
    /// Nothing runs there.
    pub fn ended(&mut self, on: ResourceId) -> Result<(Ended, Option<Start>), NodeError> {
        let Some(resource) = self.resources.get_mut(on.0) else {
            return Err(NodeError::NoResource(on));
        };
        let id = resource.running.take().ok_or_else(|| NodeError::Idle(resource.name.clone()))?;
        let collection = self.collections.get_mut(&id).expect("what runs is known");
        collection.steps_done += 1;
        collection.started = None;
        let is_done = collection.steps_done == collection.steps;
        if is_done {
            self.collections.remove(&id);
        } else {
            collection.place = Place::Waiting;
            self.waiting.insert(0, id);
        }
        Ok((Ended { collection: id, is_done }, self.start(on)))
    }

    /// A collection's application has gone: it is forgotten, wherever it is. Says what starts in its place.
    pub fn withdraw(&mut self, id: CollectionId) -> Option<Start> {
        match self.collections.remove(&id)?.place {
            Place::Waiting => self.waiting.retain(|waiting| *waiting != id),
            Place::Queued(at) => self.resources[at.0].queue.retain(|queued| *queued != id),
            Place::Running(at) => {
                self.resources[at.0].running = None;
                return self.start(at);
            }
        }
        None
    }

    /// The first in a resource's queue starts if it can.
    fn start(&mut self, on: ResourceId) -> Option<Start> {
        let resource = &mut self.resources[on.0];
        if resource.running.is_some() || resource.is_forbidden {
            return None;
        }
        let id = resource.queue.pop_front()?;
        resource.running = Some(id);
        let collection = self.collections.get_mut(&id).expect("what is queued is known");
        (collection.place, collection.last, collection.started) =
            (Place::Running(on), Some(on), (!self.is_own).then_some(self.now));
        Some(Start { collection: id, resource: on })
    }
}
