//! The way of each pair of ranks, as their job's segment says it: what the engine goes by, for whoever wants to see it.

use crate::cma_probe;
use crate::job::{Job, Net, OverTcp};
use castell_base::Rank;
use std::sync::atomic::{AtomicU64, Ordering};

/// What carries messages from a rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing has to: it is the same rank.
    Itself,
    /// The memory that both map.
    SharedMemory,
    /// TCP, and why nothing better.
    Tcp(WhyNetwork),
    /// TCP, encrypted, as the job was told to, and why nothing better.
    Tls(WhyNetwork),
    /// Raw Ethernet frames, as the job was told to between hosts.
    Esp,
    /// libfabric, as the job was told to.
    Fabric(WhyNetwork),
}

/// Why two ranks talk over a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNetwork {
    /// They are on different hosts.
    OtherHosts,
    /// They share a host, but the job was told to.
    Asked,
}

/// Whether a rank can read another one's memory by a call of the kernel, as large calls may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It can, and does.
    Does,
    /// It could, but finds the kernel's copies slow.
    Declines,
    /// The kernel refused.
    Refused,
    /// It has not tried yet.
    Untried,
}

impl Job {
    /// What carries messages from one rank to the other.
    pub fn way(&self, one: Rank, other: Rank) -> Way {
        if one == other {
            Way::Itself
        } else if self.share_memory(one, other) {
            Way::SharedMemory
        } else {
            let is_one_host = self.host_of(one) == self.host_of(other);
            let why = if is_one_host { WhyNetwork::Asked } else { WhyNetwork::OtherHosts };
            match self.net() {
                Net::Esp(_) => Way::Esp,
                Net::Fabric(_) => Way::Fabric(why),
                Net::Tcp(OverTcp { encrypts: true, .. }) => Way::Tls(why),
                Net::Tcp(_) | Net::Shm => Way::Tcp(why),
            }
        }
    }

    /// Says by which of its own cards `rank` reaches another one, and at which card of that, if it knows; its own process does. The cards are those of
    /// their addresses. Of ranks above the 64th nothing is kept.
    pub fn note_cards(&self, rank: Rank, other: Rank, own: usize, theirs: Option<usize>) {
        let (own, theirs) = (own as u64 + 1, theirs.map_or(0, |card| card as u64 + 1));
        if let Some((word, shift)) = self.ways_of(rank, other)
            && own < 16
            && theirs < 16
        {
            word.fetch_and(!(0xFF << shift), Ordering::Relaxed);
            word.fetch_or((own | theirs << 4) << shift, Ordering::Relaxed);
        }
    }

    /// By which of its own cards `rank` reaches another one, and at which card of that, as far as its process has noted this here.
    pub fn cards(&self, rank: Rank, other: Rank) -> Option<(usize, Option<usize>)> {
        let (word, shift) = self.ways_of(rank, other)?;
        let byte = word.load(Ordering::Relaxed) >> shift & 0xFF;
        let card = |number: u64| (number as usize).checked_sub(1);
        Some((card(byte & 15)?, card(byte >> 4)))
    }

    fn ways_of(&self, rank: Rank, other: Rank) -> Option<(&AtomicU64, u32)> {
        let word = self.net_ways(rank).get(other.index() / 8)?;
        Some((word, 8 * (other.0 % 8)))
    }

    /// Whether `reader` reads memory of `other`, as far as it has found out.
    pub fn reading(&self, reader: Rank, other: Rank) -> Reading {
        let probe = &self.control(reader).cma_probe;
        // Ranks above the 64th try nobody.
        let Some(mask) = 1u64.checked_shl(other.0).filter(|_| reader.0 < 64) else { return Reading::Untried };
        match (probe.has_tried(mask), probe.could_read(mask), probe.declines()) {
            (false, ..) => Reading::Untried,
            (true, false, _) => Reading::Refused,
            (true, true, true) => Reading::Declines,
            (true, true, false) => Reading::Does,
        }
    }
}

/// Whether this process can read the memory of a rank, which has joined: tried now.
pub fn reads(job: &Job, rank: Rank) -> bool {
    cma_probe::can_be_read(job, rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobOptions;

    #[test]
    fn ways_follow_from_hosts_and_wishes() {
        let names = ["h1", "h2", "h3", "h4", "h5"].map(String::from);
        let ways = |net, hosts: &[u32]| {
            let options =
                JobOptions { net, hosts: hosts.into(), host_names: names.to_vec(), ..JobOptions::new(3) };
            let job = Job::create(&options).expect("a small job");
            let of = |one, other| {
                assert_eq!(job.way(Rank(one), Rank(other)), job.way(Rank(other), Rank(one)));
                job.way(Rank(one), Rank(other))
            };
            assert_eq!(of(1, 1), Way::Itself);
            let host = job.host_name(Rank(2));
            assert_eq!(host.as_deref(), hosts.get(2).map(|host| &*names[*host as usize - 1]));
            assert_eq!(job.reading(Rank(0), Rank(1)), Reading::Untried);
            [of(0, 1), of(0, 2)]
        };
        assert_eq!(ways(Net::Shm, &[]), [Way::SharedMemory; 2]);
        let tcp = "tcp".parse().expect("a network");
        assert_eq!(ways(tcp, &[]), [Way::Tcp(WhyNetwork::Asked); 2]);
        let encrypted = "tcp+tls=eth0".parse().expect("a network");
        assert_eq!(ways(encrypted, &[]), [Way::Tls(WhyNetwork::Asked); 2]);
        assert_eq!(ways(tcp, &[1, 1, 2]), [Way::SharedMemory, Way::Tcp(WhyNetwork::OtherHosts)]);
        assert_eq!(ways(Net::Shm, &[1, 1, 5]), [Way::SharedMemory, Way::Tcp(WhyNetwork::OtherHosts)]);
        let esp = "esp=eth0".parse().expect("a network");
        assert_eq!(ways(esp, &[1, 1, 5]), [Way::SharedMemory, Way::Esp]);
        let fabric = "fabric".parse().expect("a network");
        assert_eq!(ways(fabric, &[]), [Way::Fabric(WhyNetwork::Asked); 2]);
        assert_eq!(ways(fabric, &[1, 1, 5]), [Way::SharedMemory, Way::Fabric(WhyNetwork::OtherHosts)]);
    }

    #[test]
    fn ranks_say_by_which_cards_they_reach_others() {
        let job = Job::create(&JobOptions::new(70)).expect("a small job");
        assert_eq!(job.cards(Rank(1), Rank(0)), None);
        for other in 0..70 {
            job.note_cards(Rank(1), Rank(other), other as usize % 7, None);
            job.note_cards(Rank(69), Rank(other), 6, Some(other as usize % 7));
        }
        job.note_cards(Rank(69), Rank(9), 0, Some(3));
        job.note_cards(Rank(69), Rank(8), 99, None);
        for other in 0..64 {
            assert_eq!(job.cards(Rank(1), Rank(other)), Some((other as usize % 7, None)));
            let own = if other == 9 { (0, Some(3)) } else { (6, Some(other as usize % 7)) };
            assert_eq!(job.cards(Rank(69), Rank(other)), Some(own));
        }
        assert_eq!(job.cards(Rank(1), Rank(64)), None);
        assert_eq!((job.cards(Rank(0), Rank(1)), job.host_name(Rank(1))), (None, None));
    }
}
