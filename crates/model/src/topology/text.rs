//! Topologies as text.

use super::butterfly::Butterfly;
use super::dragonfly::Dragonfly;
use super::fat_tree::FatTree;
use super::grid::{Grid, Hypercube};
use super::star::Star;
use super::{LinkCost, Listed, ListedError, Shape, Topology};
use castell_base::{PerByte, Time};

/// Why a text is no topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// No topology has this name.
    #[error(
        "unknown network `{found}`: expected one of star, fattree, dragonfly, torus, mesh, hypercube, butterfly, file"
    )]
    Unknown {
        /// The name.
        found: String,
    },
    /// Something else than `key=value`.
    #[error("{network}: expected `key=value`, found `{found}`; an example: {example}")]
    Syntax {
        /// The network's name.
        network: &'static str,
        /// What stands there.
        found: String,
        /// How it could be written.
        example: &'static str,
    },
    /// The network has no such key.
    #[error("{network} has no `{key}`; an example: {example}")]
    UnknownKey {
        /// The network's name.
        network: &'static str,
        /// The key.
        key: String,
        /// How it could be written.
        example: &'static str,
    },
    /// A key is given more than once.
    #[error("{network}: `{key}` is given twice")]
    Twice {
        /// The network's name.
        network: &'static str,
        /// The key.
        key: String,
    },
    /// A size that has no default.
    #[error("{network}: `{key}` is missing; an example: {example}")]
    Missing {
        /// The network's name.
        network: &'static str,
        /// The key.
        key: &'static str,
        /// How it could be written.
        example: &'static str,
    },
    /// A value that is not what it should be.
    #[error("{network}: {key}: {reason}")]
    Value {
        /// The network's name.
        network: &'static str,
        /// The key.
        key: &'static str,
        /// What was expected and what was found.
        reason: String,
    },
    /// More ranks or links than there can be.
    #[error("{network}: too large: at most {} ranks and 2^32 - 1 links", Topology::RANKS_MAX)]
    TooLarge {
        /// The network's name.
        network: &'static str,
    },
    /// A file that is not readable.
    #[error("cannot read the network {name}: {reason}")]
    File {
        /// The file.
        name: String,
        /// Why.
        reason: String,
    },
    /// A file that is no list of links.
    #[error("{name}: {error}")]
    Listed {
        /// The file.
        name: String,
        /// Why.
        error: ListedError,
    },
}

/// Name, an example, keys besides `link` and `G`.
const NETWORKS: [(&str, &str, &[&str]); 7] = [
    ("star", "star:ranks=64,link=100ns,G=0.1ns", &["ranks"]),
    ("fattree", "fattree:arity=4,levels=3,link=100ns,G=0.1ns", &["arity", "levels"]),
    (
        "dragonfly",
        "dragonfly:p=2,a=4,h=2,groups=9,link=100ns,G=0.1ns,global=300ns",
        &["p", "a", "h", "groups", "global", "global_G"],
    ),
    ("torus", "torus:dims=4x4x4,link=10ns,G=0.1ns", &["dims"]),
    ("mesh", "mesh:dims=8x8,link=10ns,G=0.1ns", &["dims"]),
    ("hypercube", "hypercube:dims=10,link=10ns,G=0.1ns", &["dims"]),
    ("butterfly", "butterfly:arity=2,stages=4,link=10ns,G=0.1ns", &["arity", "stages"]),
];

pub(super) fn parse(
    text: &str,
    files: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Topology, TopologyError> {
    let (name, list) = text.split_once(':').unwrap_or((text, ""));
    let name = name.trim().to_ascii_lowercase();
    if name == "file" {
        return from_file(list, files);
    }
    let Some(&(network, example, keys)) = NETWORKS.iter().find(|(known, ..)| *known == name) else {
        return Err(TopologyError::Unknown { found: name.chars().take(80).collect() });
    };
    let keys = Keys::parse(network, example, keys, list)?;
    let shape = shape(&keys)?;
    let small = shape.map(|shape| (fits(&shape), shape)).filter(|(fits, _)| *fits);
    let (_, shape) = small.ok_or(TopologyError::TooLarge { network })?;
    let link = keys.cost("link", "G", LinkCost::default())?;
    Ok(Topology { shape, link, global: keys.cost("global", "global_G", link)? })
}

/// Whether ranks and links can be numbered; ranks are known to be few enough to be counted.
fn fits(shape: &Shape) -> bool {
    let routes = shape.routes();
    routes.ranks() <= Topology::RANKS_MAX && routes.links() <= u64::from(u32::MAX)
}

/// The shape that the keys describe; nothing if it has more ranks than can be counted.
fn shape(keys: &Keys) -> Result<Option<Shape>, TopologyError> {
    let limit = |ranks: Option<u32>| ranks.filter(|&ranks| ranks <= Topology::RANKS_MAX);
    Ok(match keys.network {
        "star" => Some(Shape::Star(Star { ranks: keys.at_least("ranks", 1, None)? }))
            .filter(|shape| matches!(shape, Shape::Star(star) if star.ranks <= Topology::RANKS_MAX)),
        "fattree" => {
            let (arity, levels) = (keys.at_least("arity", 2, None)?, keys.at_least("levels", 1, None)?);
            limit(arity.checked_pow(levels)).map(|_| Shape::FatTree(FatTree { arity, levels }))
        }
        "butterfly" => {
            let (arity, stages) = (keys.at_least("arity", 2, None)?, keys.at_least("stages", 1, None)?);
            limit(arity.checked_pow(stages)).map(|_| Shape::Butterfly(Butterfly { arity, stages }))
        }
        "hypercube" => {
            let dims = keys.at_least("dims", 1, None)?;
            limit(2u32.checked_pow(dims)).map(|_| Shape::Hypercube(Hypercube { dims }))
        }
        "dragonfly" => dragonfly(keys)?,
        network => {
            let dims = keys.dims()?;
            let product = dims.iter().try_fold(1u32, |product, &size| product.checked_mul(size));
            limit(product).map(|_| Shape::Grid(Grid { dims, around: network == "torus" }))
        }
    })
}

fn dragonfly(keys: &Keys) -> Result<Option<Shape>, TopologyError> {
    let (p, a, h) =
        (keys.at_least("p", 1, None)?, keys.at_least("a", 1, None)?, keys.at_least("h", 1, None)?);
    let Some(groups_max) = a.checked_mul(h).and_then(|links| links.checked_add(1)) else { return Ok(None) };
    let groups = keys.at_least("groups", 1, Some(groups_max))?;
    if groups > groups_max {
        let reason =
            format!("{a} routers with {h} links to other groups each reach at most {groups_max} groups");
        return Err(TopologyError::Value { network: keys.network, key: "groups", reason });
    }
    let ranks = p.checked_mul(a).and_then(|ranks| ranks.checked_mul(groups));
    let shape = Dragonfly { ranks_per_router: p, routers: a, global: h, groups };
    Ok(ranks.filter(|&ranks| ranks <= Topology::RANKS_MAX).map(|_| Shape::Dragonfly(shape)))
}

/// `file:NAME,link=…,G=…`: the costs hold for links that have none of their own.
fn from_file(
    list: &str,
    files: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Topology, TopologyError> {
    let (name, list) = list.split_once(',').unwrap_or((list, ""));
    let name = name.trim().to_owned();
    let keys = Keys::parse("file", "file:network.txt,link=100ns,G=0.1ns", &[], list)?;
    let link = keys.cost("link", "G", LinkCost::default())?;
    let text = files(&name).map_err(|reason| TopologyError::File { name: name.clone(), reason })?;
    let listed =
        Listed::parse(&text, link).map_err(|error| TopologyError::Listed { name: name.clone(), error })?;
    Ok(Topology { shape: Shape::Listed { name, listed }, link, global: link })
}

/// Keys and their values.
struct Keys<'a> {
    network: &'static str,
    example: &'static str,
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Keys<'a> {
    fn parse(
        network: &'static str,
        example: &'static str,
        keys: &[&str],
        list: &'a str,
    ) -> Result<Keys<'a>, TopologyError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for item in list.split(',').filter(|_| !list.trim().is_empty()) {
            let Some((key, value)) = item.split_once('=') else {
                return Err(TopologyError::Syntax { network, found: item.trim().to_owned(), example });
            };
            let key = key.trim();
            if !keys.contains(&key) && !["link", "G"].contains(&key) {
                return Err(TopologyError::UnknownKey { network, key: key.to_owned(), example });
            }
            if given.iter().any(|(other, _)| *other == key) {
                return Err(TopologyError::Twice { network, key: key.to_owned() });
            }
            given.push((key, value.trim()));
        }
        Ok(Keys { network, example, given })
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.given.iter().find(|(given, _)| *given == key).map(|(_, value)| *value)
    }

    fn wrong(&self, key: &'static str, reason: String) -> TopologyError {
        TopologyError::Value { network: self.network, key, reason }
    }

    /// A whole number; without `otherwise` it has to be given.
    fn at_least(&self, key: &'static str, least: u32, otherwise: Option<u32>) -> Result<u32, TopologyError> {
        let (network, example) = (self.network, self.example);
        let Some(text) = self.get(key) else {
            return otherwise.ok_or(TopologyError::Missing { network, key, example });
        };
        let number = text.parse().ok().filter(|&number: &u32| number >= least);
        let reason = || format!("expected a whole number of at least {least}, found `{text}`");
        number.ok_or_else(|| self.wrong(key, reason()))
    }

    fn dims(&self) -> Result<Vec<u32>, TopologyError> {
        let (network, example) = (self.network, self.example);
        let text = self.get("dims").ok_or(TopologyError::Missing { network, key: "dims", example })?;
        let dims: Option<Vec<u32>> =
            text.split('x').map(|size| size.parse().ok().filter(|&size| size > 0)).collect();
        dims.ok_or_else(|| self.wrong("dims", format!("expected sizes such as 4x4x4, found `{text}`")))
    }

    fn cost(
        &self,
        latency: &'static str,
        per_byte: &'static str,
        otherwise: LinkCost,
    ) -> Result<LinkCost, TopologyError> {
        let mut cost = otherwise;
        if let Some(text) = self.get(latency) {
            cost.latency = Time::parse(text).map_err(|error| self.wrong(latency, error.to_string()))?;
        }
        if let Some(text) = self.get(per_byte) {
            cost.per_byte = PerByte::parse(text).map_err(|error| self.wrong(per_byte, error.to_string()))?;
        }
        Ok(cost)
    }
}
