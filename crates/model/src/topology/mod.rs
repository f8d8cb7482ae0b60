//! Networks as graphs: which links a message goes over, and what a link costs.
//!
//! | text | network | ranks |
//! |---|---|---|
//! | `star:ranks=64` | one switch | as said |
//! | `fattree:arity=4,levels=3` | k-ary n-tree (Petrini and Vanneschi, 1997): n levels of kⁿ⁻¹ switches with k links up and k down | kⁿ |
//! | `dragonfly:p=2,a=4,h=2,groups=9` | groups of a routers, all linked to each other, with p ranks and h links to other groups each (Kim et al., 2008) | p·a·groups |
//! | `torus:dims=4x4x4`, `mesh:dims=8x8` | a grid of any number of dimensions, with or without links around | the product |
//! | `hypercube:dims=10` | links to the ranks whose number differs in one bit | 2¹⁰ |
//! | `butterfly:arity=2,stages=4` | k-ary n-fly: n stages of kⁿ⁻¹ switches, in one direction | kⁿ |
//! | `file:NAME` | links in a file, see [`Listed`] | as listed |
//!
//! Every link takes `link` for a message's head (default 100 ns) and `G` for each byte (default 0.1 ns, which is 10 GB/s);
//! a dragonfly's links between groups take `global` and `global_G` (default: as the others). Routes are deterministic and
//! shortest, and a message from a rank to itself goes over no link.
//!
//! A link is directed; ranks are nodes 0, 1, …, switches the nodes after them.

mod butterfly;
mod dragonfly;
mod fat_tree;
mod grid;
mod layout;
mod listed;
mod star;
mod text;

pub use listed::{Listed, ListedError};
pub use text::TopologyError;

use castell_base::{PerByte, Rank, Time};
use std::fmt;

/// A network of links between ranks and switches.
#[derive(Clone, Debug)]
pub struct Topology {
    shape: Shape,
    link: LinkCost,
    /// Links from [`Shape::global_links`] on cost this.
    global: LinkCost,
}

/// What a message pays for a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkCost {
    /// Until a message's head is at the other end.
    pub latency: Time,
    /// For how long each byte takes the link.
    pub per_byte: PerByte,
}

impl Default for LinkCost {
    fn default() -> LinkCost {
        LinkCost { latency: Time::from_ns(100), per_byte: PerByte::new(100, 1) }
    }
}

#[derive(Clone, Debug)]
enum Shape {
    Star(star::Star),
    FatTree(fat_tree::FatTree),
    Dragonfly(dragonfly::Dragonfly),
    Grid(grid::Grid),
    Hypercube(grid::Hypercube),
    Butterfly(butterfly::Butterfly),
    Listed { name: String, listed: Listed },
}

/// What every shape can say. Links and nodes are numbered from 0; nodes below `ranks` are ranks.
trait Routes {
    fn ranks(&self) -> u32;
    fn links(&self) -> u64;
    /// Where a link starts and ends.
    fn ends(&self, link: u32) -> (u32, u32);
    /// Adds the links of the route between two different ranks.
    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>);
}

impl Shape {
    fn routes(&self) -> &dyn Routes {
        match self {
            Shape::Star(shape) => shape,
            Shape::FatTree(shape) => shape,
            Shape::Dragonfly(shape) => shape,
            Shape::Grid(shape) => shape,
            Shape::Hypercube(shape) => shape,
            Shape::Butterfly(shape) => shape,
            Shape::Listed { listed, .. } => listed,
        }
    }

    /// The first link that has the other cost.
    fn global_links(&self) -> u64 {
        match self {
            Shape::Dragonfly(shape) => shape.first_global(),
            shape => shape.routes().links(),
        }
    }
}

impl Topology {
    /// The most ranks that a topology may have; of links there are at most 2³² - 1.
    pub const RANKS_MAX: u32 = 1 << 30;

    /// Reads a topology's text; see [this module](self). `file` gives the text of a file that it names.
    ///
    /// ```
    /// use castell_base::{Rank, Time};
    /// use castell_model::topology::Topology;
    ///
    /// let torus = Topology::parse("torus:dims=4x4x4,link=10ns,G=0.1ns", &mut |_| Err(String::new()))?;
    /// assert_eq!(torus.ranks(), 64);
    /// let route = torus.route(Rank(0), Rank(63));
    /// assert_eq!(route.len(), 3);
    /// assert_eq!(torus.latency(route[0]), Time::from_ns(10));
    /// # Ok::<(), castell_model::topology::TopologyError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Unknown shapes and keys, missing or impossible sizes, more ranks or links than there can be, unreadable files.
    pub fn parse(
        text: &str,
        file: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Topology, TopologyError> {
        text::parse(text, file)
    }

    /// How many ranks have a place.
    pub fn ranks(&self) -> u32 {
        self.shape.routes().ranks()
    }

    /// How many directed links there are.
    pub fn links(&self) -> usize {
        self.shape.routes().links() as usize
    }

    /// The links from one rank to another, in order; none to itself.
    ///
    /// # Panics
    ///
    /// If a rank has no place.
    pub fn route(&self, from: Rank, to: Rank) -> Vec<u32> {
        let mut links = Vec::new();
        self.route_into(from, to, &mut links);
        links
    }

    /// The same, put into a list that is emptied first.
    ///
    /// # Panics
    ///
    /// If a rank has no place.
    pub fn route_into(&self, from: Rank, to: Rank, links: &mut Vec<u32>) {
        links.clear();
        let ranks = self.ranks();
        assert!(from.0 < ranks && to.0 < ranks, "route from {from} to {to}, but there are {ranks} ranks");
        if from != to {
            self.shape.routes().route(from.0, to.0, links);
        }
    }

    /// How many links a message goes over.
    ///
    /// # Panics
    ///
    /// If a rank has no place.
    pub fn hops(&self, from: Rank, to: Rank) -> u32 {
        self.route(from, to).len() as u32
    }

    /// The nodes at which a link starts and ends; those below [`Topology::ranks`] are ranks.
    ///
    /// # Panics
    ///
    /// If there is no such link.
    pub fn ends(&self, link: u32) -> (u32, u32) {
        assert!((link as usize) < self.links(), "there is no link {link}");
        self.shape.routes().ends(link)
    }

    /// What a message pays for a link.
    pub fn cost(&self, link: u32) -> LinkCost {
        match &self.shape {
            Shape::Listed { listed, .. } => listed.cost(link),
            shape if u64::from(link) >= shape.global_links() => self.global,
            _ => self.link,
        }
    }

    /// How long a message's head takes over a link.
    pub fn latency(&self, link: u32) -> Time {
        self.cost(link).latency
    }

    /// For how long a message takes a link.
    pub fn transfer(&self, link: u32, bytes: u64) -> Time {
        self.cost(link).per_byte.of(bytes)
    }
}

/// With every parameter, in a form that [`Topology::parse`] reads as the same.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shape {
            Shape::Star(shape) => write!(f, "star:ranks={}", shape.ranks)?,
            Shape::FatTree(shape) => write!(f, "fattree:arity={},levels={}", shape.arity, shape.levels)?,
            Shape::Dragonfly(shape) => {
                let dragonfly::Dragonfly { ranks_per_router: p, routers: a, global: h, groups } = shape;
                write!(f, "dragonfly:p={p},a={a},h={h},groups={groups}")?;
            }
            Shape::Grid(shape) => {
                let dims: Vec<String> = shape.dims.iter().map(u32::to_string).collect();
                write!(f, "{}:dims={}", if shape.around { "torus" } else { "mesh" }, dims.join("x"))?;
            }
            Shape::Hypercube(shape) => write!(f, "hypercube:dims={}", shape.dims)?,
            Shape::Butterfly(shape) => write!(f, "butterfly:arity={},stages={}", shape.arity, shape.stages)?,
            Shape::Listed { name, .. } => write!(f, "file:{name}")?,
        }
        write!(f, ",link={},G={}", self.link.latency, self.link.per_byte)?;
        if self.global != self.link {
            write!(f, ",global={},global_G={}", self.global.latency, self.global.per_byte)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
