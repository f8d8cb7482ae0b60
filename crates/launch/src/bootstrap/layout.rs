//! Which rank is on which host, as rank 0 tells all others, and what else holds for all of them.

use super::keyvalue::{quote, unquote};
use super::whereabouts::Whereabouts;
use castell_base::Rank;
use castell_host::secret::Secret;
use castell_shm::job::{JobOptions, Net};

/// What rank 0 tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// By rank, its host, from 1.
    hosts: Vec<u32>,
    /// What people call hosts 1, 2 and so on.
    names: Vec<String>,
    /// What carries messages.
    net: Net,
    /// Of all hosts.
    processors: u32,
}

impl Layout {
    /// Ranks that can share memory with the lowest one of a host are on that host.
    ///
    /// # Errors
    /// They don't fit together.
    pub(super) fn of(all: &[Whereabouts], net: Net) -> Result<Layout, String> {
        let mut leaders: Vec<&Whereabouts> = Vec::new();
        let mut hosts = Vec::new();
        for (rank, one) in all.iter().enumerate() {
            if one.version != all[0].version {
                return Err(format!(
                    "rank {rank} (on {}) runs castell {}, rank 0 castell {}: install the same on all hosts",
                    one.host, one.version, all[0].version
                ));
            }
            let host = leaders.iter().position(|leader| leader.can_share_memory(one));
            let host = host.unwrap_or_else(|| {
                leaders.push(one);
                leaders.len() - 1
            });
            hosts.push(host as u32 + 1);
        }
        let names = leaders.iter().map(|leader| leader.host.clone()).collect();
        let processors = leaders.iter().fold(0u32, |sum, leader| sum.saturating_add(leader.processors));
        Ok(Layout { hosts, names, net, processors })
    }

    /// Whether there are several hosts.
    pub(super) fn has_hosts(&self) -> bool {
        self.names.len() > 1
    }

    /// What people call the host of a rank.
    pub(super) fn host_name(&self, rank: Rank) -> &str {
        &self.names[self.hosts[rank.index()] as usize - 1]
    }

    /// The rank that makes the segment of the host on which `rank` is: the lowest there.
    pub(super) fn leader_of(&self, rank: Rank) -> Rank {
        let host = self.hosts[rank.index()];
        Rank(self.hosts.iter().position(|other| *other == host).expect("its own is one") as u32)
    }

    /// The rank that makes the segment of each host, with the host's number.
    pub(super) fn leaders(&self) -> impl Iterator<Item = (u32, Rank)> {
        (1..=self.names.len() as u32).map(|host| {
            let leader = self.hosts.iter().position(|other| *other == host).expect("a host has a rank");
            (host, Rank(leader as u32))
        })
    }

    /// The number of the host on which a rank is.
    pub(super) fn host_of(&self, rank: Rank) -> u32 {
        self.hosts[rank.index()]
    }

    /// The ranks of other hosts than that of `rank`.
    pub(super) fn elsewhere(&self, rank: Rank) -> impl Iterator<Item = Rank> {
        let here = self.hosts[rank.index()];
        (0..).map(Rank).zip(&self.hosts).filter(move |(_, host)| **host != here).map(|(rank, _)| rank)
    }

    /// What the segment of the host on which `rank` is is made with. `secret`: what the ranks prove to each other that they know, if they are on
    /// several hosts.
    pub(super) fn options(&self, rank: Rank, secret: Option<Secret>) -> JobOptions {
        let options = JobOptions { net: self.net, ..JobOptions::new(self.hosts.len() as u32) };
        if !self.has_hosts() {
            return options;
        }
        JobOptions {
            hosts: self.hosts.clone(),
            host_names: self.names.clone(),
            here: self.hosts[rank.index()],
            secret,
            processors: self.processors,
            ..options
        }
    }

    /// As a value for a key-value space; it may be long. Hosts stand as runs, `1*4` for four ranks on host 1.
    pub(super) fn to_text(&self) -> String {
        let runs = self.hosts.chunk_by(|one, other| one == other);
        let runs: Vec<String> = runs.map(|run| format!("{}*{}", run[0], run.len())).collect();
        let names: Vec<String> = self.names.iter().map(|name| quote(name)).collect();
        let fields = [&runs.join("_"), &names.join(","), &self.net.to_string(), &self.processors.to_string()];
        fields.map(|field| quote(field)).join(",")
    }

    /// Reads what [`Layout::to_text`] wrote for so many ranks; `None`: it is something else.
    pub(super) fn from_text(text: &str, ranks: u32) -> Option<Layout> {
        let fields: Vec<String> = text.split(',').map(unquote).collect();
        let [runs, names, net, processors] = <[String; 4]>::try_from(fields).ok()?;
        let names: Vec<String> = names.split(',').map(unquote).collect();
        let mut hosts = Vec::new();
        for run in runs.split('_') {
            let (host, length) = run.split_once('*')?;
            let (host, length): (u32, usize) = (host.parse().ok()?, length.parse().ok()?);
            if host == 0 || host as usize > names.len() || length > ranks as usize - hosts.len() {
                return None;
            }
            hosts.extend(std::iter::repeat_n(host, length));
        }
        let (net, processors) = (net.parse().ok()?, processors.parse().ok()?);
        (hosts.len() == ranks as usize).then_some(Layout { hosts, names, net, processors })
    }
}

/// Bytes as digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what [`to_hex`] wrote; `None`: it is something else.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str) -> Whereabouts {
        Whereabouts {
            host: name.into(),
            boot: name.into(),
            processors: 3,
            ..Whereabouts::of_this_process(None)
        }
    }

    #[test]
    fn ranks_are_put_to_hosts_and_that_is_told() {
        let all = ["a", "b", "a", "c, the third", "b", "b"].map(at);
        let layout = Layout::of(&all, Net::default()).expect("a layout");
        assert_eq!(layout.hosts, [1, 2, 1, 3, 2, 2]);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|rank| layout.leader_of(Rank(rank)).0), [0, 1, 0, 3, 1, 1]);
        assert_eq!(layout.elsewhere(Rank(4)).collect::<Vec<_>>(), [0, 2, 3].map(Rank));
        assert_eq!(Layout::from_text(&layout.to_text(), 6).as_ref(), Some(&layout));
        assert_eq!(Layout::from_text(&layout.to_text(), 7), None);
        let text = layout.to_text();
        assert!((0..text.len()).all(|length| Layout::from_text(&text[..length], 6).is_none()));
        let options = layout.options(Rank(3), Some(Secret::new([7; 32])));
        assert_eq!((options.here, options.processors, options.ranks), (3, 9, 6));
        assert_eq!(layout.host_name(Rank(3)), "c, the third");
        assert!(options.secret.is_some_and(|secret| *secret.bytes() == [7; 32]));
        assert_eq!(layout.leaders().collect::<Vec<_>>(), [(1, Rank(0)), (2, Rank(1)), (3, Rank(3))]);
    }

    #[test]
    fn one_host_needs_no_secret() {
        let layout = Layout::of(&["a", "a"].map(at), "tcp".parse().expect("a network")).expect("a layout");
        assert_eq!(Layout::from_text(&layout.to_text(), 2).as_ref(), Some(&layout));
        let options = layout.options(Rank(1), None);
        assert!(options.secret.is_none() && options.hosts.is_empty() && options.net.to_string() == "tcp");
    }

    #[test]
    fn other_versions_are_told_apart() {
        let other = Whereabouts { version: "9.8.7".into(), ..at("b") };
        let error = Layout::of(&[at("a"), other], Net::default()).expect_err("another version");
        assert!(error.contains("rank 1 (on b) runs castell 9.8.7"), "{error}");
    }
}
