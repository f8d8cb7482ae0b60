//! Kernel collections: what an application can run where.

use crate::ResourceId;
use castell_base::{Moment, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A collection that a node knows; numbers are given in the order of registration and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionId(pub u64);

/// Code for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Where it runs.
    pub resource: ResourceId,
    /// How long a step of the computation takes there, if somebody knows.
    pub step_time: Option<Time>,
}

/// The resources of a collection's kernels, best first, by some measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranking {
    /// What is best about them: performance, accuracy, energy.
    pub name: String,
    /// Best first.
    pub order: Vec<ResourceId>,
}

/// The kernels of one computation and how the application ranks them: what an application registers. At least one kernel, one for
/// each resource at most, and rankings of kernels that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernels {
    kernels: Vec<Kernel>,
    rankings: Vec<Ranking>,
}

/// Why kernels and rankings are no collection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelsError {
    /// Nothing could ever run.
    #[error("a collection needs a kernel for one resource at least")]
    Empty,
    /// Two kernels for one resource.
    #[error("two kernels for resource {}: give one", .0.0)]
    Twice(ResourceId),
    /// A ranking that is not of these kernels.
    #[error("the ranking `{0}` has to name each resource that there is a kernel for, once")]
    Ranking(String),
    /// Several rankings of one name.
    #[error("two rankings are called `{0}`")]
    SameName(String),
}

/// The ranking that strategies go by if they don't ask for another.
pub const FIRST_RANKING: &str = "performance";

impl Kernels {
    /// Kernels with rankings, the first of which is the one that strategies go by. Without a ranking the kernels' times rank them,
    /// those without a time last, in the order in which they are given.
    ///
    /// # Errors
    /// No kernel, two for one resource, or a ranking that is none of these kernels.
    pub fn new(kernels: Vec<Kernel>, mut rankings: Vec<Ranking>) -> Result<Kernels, KernelsError> {
        if kernels.is_empty() {
            return Err(KernelsError::Empty);
        }
        let mut resources = BTreeSet::new();
        if let Some(twice) = kernels.iter().find(|kernel| !resources.insert(kernel.resource)) {
            return Err(KernelsError::Twice(twice.resource));
        }
        let mut names = BTreeSet::new();
        for ranking in &rankings {
            let ranked: BTreeSet<_> = ranking.order.iter().copied().collect();
            if ranked != resources || ranking.order.len() != kernels.len() {
                return Err(KernelsError::Ranking(ranking.name.clone()));
            }
            if !names.insert(&ranking.name) {
                return Err(KernelsError::SameName(ranking.name.clone()));
            }
        }
        if rankings.is_empty() {
            let mut by_time = kernels.clone();
            by_time.sort_by_key(|kernel| kernel.step_time.unwrap_or(Time::MAX));
            let order = by_time.iter().map(|kernel| kernel.resource).collect();
            rankings.push(Ranking { name: FIRST_RANKING.into(), order });
        }
        Ok(Kernels { kernels, rankings })
    }

    /// All kernels, in the order in which they were given.
    pub fn all(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The kernel for a resource.
    pub fn on(&self, resource: ResourceId) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.resource == resource)
    }

    /// With the kernel for this resource only, if there is one.
    pub fn only(&self, resource: ResourceId) -> Option<Kernels> {
        let kernel = *self.on(resource)?;
        let rankings = self.rankings.iter();
        let rankings = rankings.map(|ranking| Ranking { name: ranking.name.clone(), order: vec![resource] });
        Some(Kernels { kernels: vec![kernel], rankings: rankings.collect() })
    }

    /// The rankings; the first is the one that strategies go by.
    pub fn rankings(&self) -> &[Ranking] {
        &self.rankings
    }
}

/// Where a collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the global queue.
    Waiting,
    /// In a resource's queue.
    Queued(ResourceId),
    /// On a resource.
    Running(ResourceId),
}

/// A computation that is to be carried out once, on one resource or, in several steps, on one after another.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Its number.
    pub id: CollectionId,
    /// Whose it is.
    pub application: Arc<str>,
    /// What can run where.
    pub kernels: Arc<Kernels>,
    /// In how many steps; between two of them it can go elsewhere.
    pub steps: u32,
    /// How many of them are done.
    pub steps_done: u32,
    /// When it was registered.
    pub arrived: Moment,
    /// When its step began, while it runs.
    pub started: Option<Moment>,
    /// Where its last step ran or runs.
    pub last: Option<ResourceId>,
    /// Where it is.
    pub place: Place,
}
