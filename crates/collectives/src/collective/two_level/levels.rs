//! The two levels as one rank sees them: the ranks beside it, and the leaders of all hosts.

use super::super::placement::Placement;
use super::super::shape::Shape;
use super::super::weaver::{Span, Weaver};
use castell_base::Rank;
use castell_goal::graph::GraphError;
use std::borrow::Cow;

/// A rank among those of its host, and its host among all.
pub(super) struct Levels<'a> {
    placement: Cow<'a, Placement>,
    me: Rank,
    /// The host that is number 0 here.
    first: u32,
    /// Where it is given, its host's leader.
    root: Option<Rank>,
}

impl<'a> Levels<'a> {
    /// Hosts in their order.
    pub fn new(shape: &'a Shape, weaver: &Weaver<'_>) -> Levels<'a> {
        let placement = match &shape.placement {
            Some(placement) => Cow::Borrowed(&**placement),
            None => Cow::Owned(Placement::consecutive(shape.ranks, shape.ways.saturating_add(1))),
        };
        Levels { placement, me: weaver.rank(), first: 0, root: None }
    }

    /// Hosts from the root's on; the root leads its own.
    pub fn from_root(shape: &'a Shape, weaver: &Weaver<'_>) -> Levels<'a> {
        let levels = Levels::new(shape, weaver);
        Levels { first: levels.placement.host_of(shape.root), root: Some(shape.root), ..levels }
    }

    /// How many hosts.
    pub fn hosts(&self) -> u32 {
        self.placement.hosts()
    }

    /// This rank's host.
    pub fn host(&self) -> u32 {
        (self.placement.host_of(self.me) + self.hosts() - self.first) % self.hosts()
    }

    /// The ranks of a host.
    pub fn members(&self, host: u32) -> &[Rank] {
        self.placement.members((host + self.first) % self.hosts())
    }

    /// The ranks of some hosts, in their order.
    pub fn members_of(&self, hosts: &[u32]) -> Vec<Rank> {
        let mut ranks: Vec<Rank> = hosts.iter().flat_map(|&host| self.members(host)).copied().collect();
        ranks.sort_unstable();
        ranks
    }

    /// Who speaks for a host.
    pub fn leader(&self, host: u32) -> Rank {
        match self.root {
            Some(root) if host == 0 => root,
            _ => self.members(host)[0],
        }
    }

    /// Whether that is this rank.
    pub fn leads(&self) -> bool {
        self.leader(self.host()) == self.me
    }

    /// The other ranks of this host, where this rank leads it.
    pub fn others(&self) -> impl Iterator<Item = Rank> {
        let me = self.me;
        self.members(self.host()).iter().copied().filter(move |&rank| rank != me)
    }

    /// Ranks of the host that has fewest.
    pub fn fewest(&self) -> usize {
        self.placement.fewest()
    }

    /// From this host's leader to the ranks beside it: a vector that lies in the same place with all.
    pub fn hand_out(&self, weaver: &mut Weaver<'_>, vector: Span) -> Result<(), GraphError> {
        if !self.leads() {
            weaver.recv(self.leader(self.host()), vector)?;
            return Ok(());
        }
        for other in self.others() {
            weaver.send(other, vector)?;
        }
        Ok(())
    }
}
