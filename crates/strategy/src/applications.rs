//! Applications and what they take where, from a table.
//!
//! Comma-separated, a line an application, lines that begin with `#` left out. The first line names the columns: `application`; for each
//! resource `NAME_s`, what the whole computation takes there in seconds, empty where there is no kernel; and if wanted `instances`
//! (1), `steps` (1), `arrival_s` (0) of the first instance, `every_s` (0) between two, and `ranking` or `ranking_NAME`: resources, best
//! first, as in `gpu>all_cores`. Without a ranking the times rank.

use crate::collection::{FIRST_RANKING, Kernel, Kernels, KernelsError, Ranking};
use crate::node::{ResourceId, ResourceKind};
use castell_base::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An application, all of whose instances are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// Its name.
    pub name: Arc<str>,
    /// In how many steps each of its collections runs.
    pub steps: u32,
    /// When it registers them.
    pub arrivals: Arrivals,
    /// What runs where; times are those of one step.
    pub kernels: Arc<Kernels>,
}

/// When collections are registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// One after the other, always as long after it.
    Regular {
        /// The first.
        first: Time,
        /// How long after it the next one is.
        every: Time,
        /// How many.
        count: u32,
    },
    /// One at each of these times, in their order.
    At(Vec<Time>),
}

impl Arrivals {
    /// How many.
    pub fn count(&self) -> u32 {
        match self {
            Arrivals::Regular { count, .. } => *count,
            Arrivals::At(times) => u32::try_from(times.len()).unwrap_or(u32::MAX),
        }
    }

    /// The time of each, by its number from 0 on.
    pub fn time(&self, number: u32) -> Time {
        match self {
            Arrivals::Regular { first, every, .. } => *first + *every * u64::from(number),
            Arrivals::At(times) => times[number as usize],
        }
    }
}

/// All applications and the resources that they have kernels for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applications {
    /// Names of resources, in the order of their columns.
    pub resources: Vec<(String, ResourceKind)>,
    /// In the order of their lines.
    pub all: Vec<Application>,
}

/// Why a text is no such table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct TableError {
    /// Where, counted from 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

/// Instances of all applications together.
pub const INSTANCES_MAX: u32 = 1_000_000;
const STEPS_MAX: u32 = 1_000_000;
const RESOURCES_MAX: usize = 64;
const APPLICATIONS_MAX: usize = 10_000;

/// What a column has.
enum Column {
    Application,
    Instances,
    Steps,
    Arrival,
    Every,
    Ranking(String),
    Resource(ResourceId),
}

impl Applications {
    /// Reads a table.
    ///
    /// # Errors
    /// What is wrong with which line.
    pub fn read(text: &str) -> Result<Applications, TableError> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let (number, head) = lines.next().ok_or_else(|| TableError {
            line: 1,
            message:
                "there is no first line with the names of columns, as application,instances,one_core_s,gpu_s"
                    .into(),
        })?;
        let at_line = |line| move |message| TableError { line, message };
        let (columns, resources) = columns(head).map_err(at_line(number))?;
        let mut all: Vec<Application> = Vec::new();
        for (number, line) in lines {
            let application = application(line, &columns, &resources).map_err(at_line(number))?;
            if all.iter().any(|known| known.name == application.name) {
                return Err(at_line(number)(format!(
                    "`{}` is there already: give it another name",
                    application.name
                )));
            }
            all.push(application);
            let instances: u64 = all.iter().map(|application| u64::from(application.arrivals.count())).sum();
            if instances > INSTANCES_MAX.into() || all.len() > APPLICATIONS_MAX {
                return Err(at_line(number)(format!(
                    "more than {INSTANCES_MAX} instances or {APPLICATIONS_MAX} applications up to here"
                )));
            }
        }
        Ok(Applications { resources, all })
    }
}

type Names = Vec<(String, ResourceKind)>;

fn columns(head: &str) -> Result<(Vec<Column>, Names), String> {
    let (mut columns, mut resources, mut seen) = (Vec::new(), Names::new(), BTreeSet::new());
    for name in head.split(',').map(str::trim) {
        if !seen.insert(name) {
            return Err(format!("two columns are called `{name}`"));
        }
        columns.push(match name {
            "application" => Column::Application,
            "instances" => Column::Instances,
            "steps" => Column::Steps,
            "arrival_s" => Column::Arrival,
            "every_s" => Column::Every,
            "ranking" => Column::Ranking(FIRST_RANKING.into()),
            other => match (other.strip_prefix("ranking_"), other.strip_suffix("_s")) {
                (Some(ranking), _) if !ranking.is_empty() => Column::Ranking(ranking.into()),
                (None, Some(resource)) if is_name(resource) => {
                    resources.push((resource.to_owned(), ResourceKind::of(resource)));
                    Column::Resource(ResourceId(resources.len() - 1))
                }
                _ => {
                    return Err(format!(
                        "no column is called `{name}`: there are application, instances, steps, arrival_s, every_s, ranking, \
                         ranking_NAME, and RESOURCE_s for each resource (letters, digits and _)"
                    ));
                }
            },
        });
    }
    if !seen.contains("application") || resources.is_empty() {
        return Err(
            "the columns need `application` and a resource at least, as in application,one_core_s,gpu_s"
                .into(),
        );
    }
    if resources.len() > RESOURCES_MAX {
        return Err(format!("there are {} resources; {RESOURCES_MAX} are the limit", resources.len()));
    }
    Ok((columns, resources))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn application(line: &str, columns: &[Column], resources: &Names) -> Result<Application, String> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != columns.len() {
        return Err(format!("{} values for {} columns", cells.len(), columns.len()));
    }
    let (mut name, mut instances, mut steps) = ("", 1, 1);
    let (mut arrival, mut every) = (Time::ZERO, Time::ZERO);
    let (mut times, mut rankings) = (Vec::new(), Vec::new());
    for (column, cell) in columns.iter().zip(cells) {
        match column {
            Column::Application => name = cell,
            _ if cell.is_empty() => {}
            Column::Instances => instances = count(cell, "instances", INSTANCES_MAX)?,
            Column::Steps => steps = count(cell, "steps", STEPS_MAX)?,
            Column::Arrival => arrival = time(cell)?,
            Column::Every => every = time(cell)?,
            Column::Ranking(name) => {
                rankings.push(Ranking { name: name.clone(), order: order(cell, resources)? });
            }
            Column::Resource(resource) => times.push((*resource, time(cell)?)),
        }
    }
    if name.is_empty() || name.len() > 200 || name.contains(['"', '\'']) {
        return Err("an application needs a name without quotes, of 200 letters at most".into());
    }
    if let Some((resource, _)) = times.iter().find(|(_, time)| time.0 < u64::from(steps)) {
        return Err(format!(
            "on {} a step takes no time: a kernel needs a time above 0",
            resources[resource.0].0
        ));
    }
    let kernels = times.iter().map(|(resource, time)| Kernel {
        resource: *resource,
        step_time: Some(Time(time.0 / u64::from(steps))),
    });
    let kernels = Kernels::new(kernels.collect(), rankings).map_err(|error| match error {
        KernelsError::Empty => format!("{name} has a time on no resource, so it could never run"),
        other => format!("{name}: {other}"),
    })?;
    let arrivals = Arrivals::Regular { first: arrival, every, count: instances };
    Ok(Application { name: name.into(), steps, arrivals, kernels: Arc::new(kernels) })
}

fn count(cell: &str, what: &str, most: u32) -> Result<u32, String> {
    let count = cell.parse().ok().filter(|count| (1..=most).contains(count));
    count.ok_or_else(|| format!("`{cell}` is no number of {what}: write one from 1 to {most}"))
}

/// Longer times make no sense here, and sums of many of them have to be told.
const TIME_MAX: Time = Time(1_000_000 * 1_000_000_000_000);

fn time(cell: &str) -> Result<Time, String> {
    let time = Time::parse(&format!("{cell}s")).ok().filter(|time| *time <= TIME_MAX);
    time.ok_or_else(|| format!("`{cell}` is no time in seconds: write one such as 41.78, at most 1000000"))
}

fn order(cell: &str, resources: &Names) -> Result<Vec<ResourceId>, String> {
    let find = |name: &str| {
        let at = resources.iter().position(|(known, _)| known == name);
        at.map(ResourceId).ok_or_else(|| {
            let names: Vec<_> = resources.iter().map(|(name, _)| name.as_str()).collect();
            format!(
                "the ranking names `{name}`; write resources with > between them, of {}",
                names.join(", ")
            )
        })
    };
    cell.split('>').map(|name| find(name.trim())).collect()
}
