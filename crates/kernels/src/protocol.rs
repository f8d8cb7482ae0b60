//! What applications, and people who look after a node, say to its daemon: a line of JSON each, the first from each side a greeting with
//! the version. With its greeting an application hands over its mailbox and its bell, as descriptors.

use castell_base::Time;
use castell_strategy::{Kernel, Kernels, KernelsError as Wrong, Node, Ranking, ResourceId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// This version; another one is refused.
pub const VERSION: u32 = 2;
/// Computations that an application can register.
pub const SHAPES_MAX: usize = 1 << 10;
/// Kernels of one computation, and rankings of them.
const KERNELS_MAX: usize = 64;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 256;

/// To the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToDaemon {
    /// The first message of who asks and commands.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// The first message of an application, with two descriptors: its mailbox and its bell.
    Application {
        /// [`VERSION`].
        version: u32,
        /// What people call it.
        name: String,
        /// Its process.
        pid: u32,
    },
    /// The kernels of a computation. They are numbered from 0 in the order in which they are registered.
    Shape(Shape),
    /// The application brings a strategy for its own collections, or gives up the one that it has brought.
    Own(Option<OwnStrategy>),
    /// All that was registered before was told: from now on the mailbox counts.
    Open {},
    /// What the node does now.
    Status {},
    /// Another strategy takes over.
    Load {
        /// What errors call it.
        name: String,
        /// The script.
        script: String,
        /// Parameters that are set, by name.
        #[serde(default)]
        parameters: Vec<(String, String)>,
    },
    /// The governor has another level.
    Governor {
        /// Its name.
        level: String,
    },
    /// A sensor says something else.
    Sensor {
        /// Its name.
        name: String,
        /// What it says.
        value: f64,
    },
}

/// From the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromDaemon {
    /// Its first message.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// It cannot be, and why. Nothing follows but the end.
    Refused {
        /// A sentence.
        reason: String,
    },
    /// The next of the application's shapes is registered, or why not.
    Registered {
        /// A sentence.
        refused: Option<String>,
    },
    /// The application's own strategy decides from now on; or why it was refused, or stopped, and does not.
    Own {
        /// Which of those that the application has brought, counted from 1.
        number: u64,
        /// A sentence.
        stopped: Option<String>,
    },
    /// A command was carried out, or why not.
    Done {
        /// A sentence.
        refused: Option<String>,
    },
    /// What the node does now.
    Status(Status),
}

/// A strategy for an application's own collections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnStrategy {
    /// What errors call it.
    pub name: String,
    /// The script; none: the one of this name that comes with castell.
    pub script: Option<String>,
    /// Parameters that are set, by name.
    pub parameters: Vec<(String, String)>,
}

/// Parameters as people write them: `key=value,key=value`.
///
/// # Errors
/// A part that is none: a sentence.
pub fn parameters(text: &str) -> Result<Vec<(String, String)>, String> {
    let parts = text.split(',').filter(|part| !part.is_empty()).map(|part| {
        let pair = part.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()));
        pair.ok_or_else(|| format!("`{part}` is no parameter: write NAME:key=value,key=value"))
    });
    parts.collect()
}

/// The kernels of a computation, by the names of resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The resource of each kernel, and how many nanoseconds a step takes there, if somebody knows.
    pub kernels: Vec<(String, Option<u64>)>,
    /// Rankings: a name, and resources, best first.
    pub rankings: Vec<(String, Vec<String>)>,
}

impl Shape {
    /// As the node's books have it, and which kernel each of those is. Kernels for what the node does not have are left out.
    ///
    /// # Errors
    /// Nothing is left, or it is wrong in itself: a sentence.
    pub fn on(&self, node: &Node) -> Result<(Kernels, Vec<u32>), String> {
        let names = self.kernels.iter().map(|(name, _)| name);
        let ranked = self.rankings.iter().flat_map(|(name, order)| order.iter().chain([name]));
        if self.kernels.len() > KERNELS_MAX || self.rankings.len() > KERNELS_MAX {
            return Err(format!("a collection has at most {KERNELS_MAX} kernels and as many rankings"));
        }
        if names.chain(ranked).any(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
            return Err(format!("names of resources and rankings have 1 to {NAME_BYTES_MAX} bytes"));
        }
        let (mut kernels, mut numbers) = (Vec::new(), Vec::new());
        for (number, (name, step_ns)) in (0..).zip(&self.kernels) {
            if let Some(resource) = node.resource_named(name) {
                kernels.push(Kernel { resource, step_time: step_ns.map(Time::from_ns) });
                numbers.push(number);
            }
        }
        if kernels.is_empty() {
            let has: Vec<_> = node.resources().iter().map(|resource| resource.name.as_str()).collect();
            let wanted: Vec<_> = self.kernels.iter().map(|(name, _)| name.as_str()).collect();
            return Err(format!(
                "there are kernels for {}, and the node has {}: nothing could ever run",
                wanted.join(", "),
                has.join(", ")
            ));
        }
        let known = |name: &String| {
            let is_own = self.kernels.iter().any(|(kernel, _)| kernel == name);
            // What has no kernel at all is an error; what only this node lacks is left out.
            node.resource_named(name).or_else(|| (!is_own).then_some(ResourceId(usize::MAX)))
        };
        let rankings = self.rankings.iter().map(|(name, order)| Ranking {
            name: name.clone(),
            order: order.iter().filter_map(known).collect(),
        });
        let kernels = Kernels::new(kernels, rankings.collect()).map_err(|error| match error {
            Wrong::Twice(resource) => {
                format!("two kernels for {}: give one", node.resources()[resource.0].name)
            }
            other => other.to_string(),
        })?;
        Ok((kernels, numbers))
    }
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The strategy that decides.
    pub strategy: String,
    /// The governor's level.
    pub governor: String,
    /// What runs where.
    pub resources: Vec<OnResource>,
    /// The global queue, first to last.
    pub waiting: Vec<String>,
    /// Who is registered.
    pub applications: Vec<ShownApplication>,
    /// Collections that were carried out.
    pub done: u64,
    /// Steps that were run.
    pub steps: u64,
    /// What strategies have decided.
    pub decisions: u64,
    /// Strategies that were stopped since they failed.
    pub faults: u64,
    /// For how long collections have waited for their first step, together, in nanoseconds.
    pub waited_ns: u64,
    /// What the strategy shows of itself, by name.
    pub shown: BTreeMap<String, f64>,
    /// What sensors said last, by name.
    pub sensors: BTreeMap<String, f64>,
}

/// A resource as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnResource {
    /// Its name.
    pub resource: String,
    /// Whose collection runs there.
    pub running: Option<String>,
    /// Whose collections come next.
    pub queue: Vec<String>,
    /// Whether the governor forbids it.
    pub forbidden: bool,
}

/// An application as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownApplication {
    /// Its name.
    pub application: String,
    /// Its process.
    pub pid: u32,
    /// Its collections that are not done; none of those that wait while it is stopped.
    pub collections: u64,
    /// Its own strategy, if it has brought one.
    pub strategy: Option<ShownOwn>,
    /// It is stopped while others wait, or its session is stopped or suspended: nothing is granted to it meanwhile.
    pub parked: bool,
}

/// An application's own strategy as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownOwn {
    /// Its name.
    pub name: String,
    /// Whether it decides: it is tried out before, and does not any more when it was stopped.
    pub decides: bool,
    /// Why it was refused or stopped.
    pub stopped: Option<String>,
}
