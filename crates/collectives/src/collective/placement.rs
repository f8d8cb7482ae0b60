//! Which ranks of a group share a host.

use castell_base::Rank;

/// The hosts of a group's ranks. Hosts are numbered by their lowest ranks, and a host's ranks ascend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    hosts: Vec<Vec<Rank>>,
    host_of: Vec<u32>,
}

impl Placement {
    /// From each rank's host, in whichever numbers.
    pub fn new(host_of_rank: impl IntoIterator<Item = u32>) -> Placement {
        let (mut named, mut hosts, mut host_of) = (Vec::new(), Vec::<Vec<Rank>>::new(), Vec::new());
        for (rank, name) in host_of_rank.into_iter().enumerate() {
            let host = named.iter().position(|other| *other == name).unwrap_or_else(|| {
                named.push(name);
                hosts.push(Vec::new());
                named.len() - 1
            });
            hosts[host].push(Rank(rank as u32));
            host_of.push(host as u32);
        }
        Placement { hosts, host_of }
    }

    /// Hosts of `each` ranks that follow each other; the last host may have fewer.
    pub fn consecutive(ranks: u32, each: u32) -> Placement {
        Placement::new((0..ranks).map(|rank| rank / each.max(1)))
    }

    /// How many hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// How many ranks.
    pub fn ranks(&self) -> u32 {
        self.host_of.len() as u32
    }

    /// The host of a rank.
    pub fn host_of(&self, rank: Rank) -> u32 {
        self.host_of[rank.index()]
    }

    /// The ranks of a host.
    pub fn members(&self, host: u32) -> &[Rank] {
        &self.hosts[host as usize]
    }

    /// Ranks of the host that has fewest.
    pub(super) fn fewest(&self) -> usize {
        self.hosts.iter().map(Vec::len).min().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_numbered_by_their_lowest_ranks() {
        let placement = Placement::new([7, 3, 7, 0]);
        assert_eq!((placement.hosts(), placement.ranks(), placement.fewest()), (3, 4, 1));
        assert_eq!(placement.members(0), [Rank(0), Rank(2)]);
        assert_eq!([0, 1, 2, 3].map(|rank| placement.host_of(Rank(rank))), [0, 1, 0, 2]);
        assert_eq!(Placement::consecutive(5, 2), Placement::new([0, 0, 1, 1, 2]));
    }
}
