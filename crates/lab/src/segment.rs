//! What a host's interfaces are on: `eth0` of every host on the first segment, and more where they were asked for.

use crate::naming::{HOSTS_MAX, name_of};
use std::str::FromStr;

/// Another segment beside the one that all hosts are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// With all hosts.
    All,
    /// With these hosts, from 1.
    Only(Vec<u32>),
}

impl Segment {
    fn has(&self, host: u32) -> bool {
        match self {
            Segment::All => true,
            Segment::Only(hosts) => hosts.contains(&host),
        }
    }

    /// A host that is on it and not in a lab of so many.
    pub(crate) fn stranger(&self, hosts: u32) -> Option<u32> {
        let Segment::Only(named) = self else { return None };
        named.iter().copied().find(|host| *host > hosts)
    }
}

impl FromStr for Segment {
    type Err = String;

    /// Reads `all`, and `h1,h3`.
    fn from_str(text: &str) -> Result<Segment, String> {
        if text == "all" {
            return Ok(Segment::All);
        }
        let number =
            |name: &str| (1..=HOSTS_MAX).find(|host| name_of(*host) == name).ok_or_else(|| name.to_owned());
        let hosts: Result<Vec<u32>, String> = text.split(',').map(number).collect();
        hosts.map(Segment::Only).map_err(|name| {
            format!("`{name}` is no host of a lab: write which hosts are on the segment as h1,h3, or all")
        })
    }
}

/// The segments that a host is on, from 0; its interface there is `eth` with the same number.
pub(crate) fn of_host(segments: &[Segment], host: u32) -> Vec<usize> {
    let more = (1..).zip(segments).filter(|(_, segment)| segment.has(host));
    std::iter::once(0).chain(more.map(|(number, _)| number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read_and_hosts_are_on_theirs() {
        let segments = ["all", "h1,h3", "h250"].map(|text| text.parse::<Segment>().expect("a segment"));
        assert_eq!(of_host(&segments, 1), [0, 1, 2]);
        assert_eq!(of_host(&segments, 2), [0, 1]);
        assert_eq!(of_host(&segments, 250), [0, 1, 3]);
        assert_eq!((segments[1].stranger(3), segments[1].stranger(2)), (None, Some(3)));
        for bad in ["", "h0", "h251", "h1,", "1", "h01", "h1 h2"] {
            assert!(bad.parse::<Segment>().is_err_and(|error| error.contains("h1,h3, or all")), "{bad}");
        }
    }
}
