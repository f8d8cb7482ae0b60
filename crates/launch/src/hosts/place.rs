//! Which hosts there are, and which rank is on which.

use std::fmt;
use std::path::{Path, PathBuf};

/// A host, and how many ranks it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSlots {
    /// As the remote command knows it.
    pub host: String,
    /// So many; `None`: as many as come to it.
    pub slots: Option<u32>,
}

/// What is wrong with a list of hosts.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// No host and number.
    #[error("{place}`{text}` is no host: write NAME or NAME:RANKS, as in node1:4")]
    Host {
        /// Where it stands, with a colon behind, or nothing.
        place: String,
        /// What stands there.
        text: String,
    },
    /// None at all.
    #[error("{0} names no host")]
    Empty(String),
    /// A file that cannot be read.
    #[error("the host file {} cannot be read: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// More ranks than they take.
    #[error(
        "{ranks} ranks don't fit on {hosts}, which take {slots}: ask for fewer, or raise a number behind a host"
    )]
    Room {
        /// Asked for.
        ranks: u32,
        /// All hosts.
        hosts: String,
        /// What they take together.
        slots: u32,
    },
    /// More hosts than ranks would leave some without.
    #[error("how many ranks? Give -n, or a number behind each host, as in a:4,b:4")]
    Number,
}

impl fmt::Display for HostSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.slots {
            Some(slots) => write!(f, "{}:{slots}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

/// Reads `a:4,b:4`, and `[fd00::1]:4` for addresses that have colons.
///
/// # Errors
/// Which part is no host.
pub fn parse_hosts(text: &str) -> Result<Vec<HostSlots>, PlaceError> {
    let hosts = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let hosts: Vec<HostSlots> = hosts.map(|word| parse_host(word, "")).collect::<Result<_, _>>()?;
    if hosts.is_empty() { Err(PlaceError::Empty(format!("`{text}`"))) } else { Ok(hosts) }
}

fn parse_host(text: &str, place: &str) -> Result<HostSlots, PlaceError> {
    let wrong = || PlaceError::Host { place: place.into(), text: text.into() };
    let (host, slots) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or_else(wrong)?;
            (host, behind.strip_prefix(':').or(behind.is_empty().then_some("")))
        }
        None => text.split_once(':').map_or((text, Some("")), |(host, slots)| (host, Some(slots))),
    };
    let slots = match slots.ok_or_else(wrong)? {
        "" if text.ends_with(':') => return Err(wrong()),
        "" => None,
        slots => Some(slots.parse::<u32>().ok().filter(|slots| *slots > 0).ok_or_else(wrong)?),
    };
    // What a command could take for an option or for several words is no host.
    let is_name = |c: char| c.is_alphanumeric() || "-_.@:%".contains(c);
    let is_one = !host.is_empty() && !host.starts_with('-') && host.chars().all(is_name);
    if is_one { Ok(HostSlots { host: host.into(), slots }) } else { Err(wrong()) }
}

/// Reads a file of hosts: one a line as in [`parse_hosts`], or with `slots=4` behind as Open MPI has it; `#` begins a comment.
///
/// # Errors
/// The file cannot be read, or which line is no host.
pub fn read_hosts(path: &Path) -> Result<Vec<HostSlots>, PlaceError> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|source| PlaceError::File { path: path.into(), source })?;
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        let place = format!("{}:{number}: ", path.display());
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let mut host = parse_host(first, &place)?;
        for word in words {
            let slots = word.strip_prefix("slots=").and_then(|slots| slots.parse().ok());
            let wrong = || PlaceError::Host { place: place.clone(), text: line.into() };
            host.slots = Some(slots.filter(|slots| *slots > 0).ok_or_else(wrong)?);
        }
        hosts.push(host);
    }
    if hosts.is_empty() { Err(PlaceError::Empty(path.display().to_string())) } else { Ok(hosts) }
}

/// The host of each rank, by its place in the list: rank after rank on one host, then on the next. Without numbers the ranks are dealt out
/// evenly, the first hosts get one more where that does not come out.
///
/// # Errors
/// They don't fit, or nobody says how many.
pub fn place(hosts: &[HostSlots], ranks: Option<u32>) -> Result<Vec<u32>, PlaceError> {
    let slots: Option<Vec<u32>> = hosts.iter().map(|host| host.slots).collect();
    let room = slots.as_ref().map(|slots| slots.iter().fold(0u32, |sum, more| sum.saturating_add(*more)));
    let ranks = ranks.or(room).ok_or(PlaceError::Number)?;
    let counts: Vec<u32> = match (slots, room) {
        (Some(_), Some(room)) if ranks > room => {
            let hosts = hosts.iter().map(HostSlots::to_string).collect::<Vec<_>>().join(",");
            return Err(PlaceError::Room { ranks, hosts, slots: room });
        }
        (Some(slots), _) => slots
            .iter()
            .scan(ranks, |left, slots| {
                let here = (*slots).min(*left);
                *left -= here;
                Some(here)
            })
            .collect(),
        (None, _) => {
            let count = hosts.len() as u32;
            (0..count).map(|at| ranks / count + u32::from(at < ranks % count)).collect()
        }
    };
    Ok((0..).zip(counts).flat_map(|(host, count)| std::iter::repeat_n(host, count as usize)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(hosts: &str, ranks: Option<u32>) -> Result<Vec<u32>, String> {
        parse_hosts(hosts).and_then(|hosts| place(&hosts, ranks)).map_err(|error| error.to_string())
    }

    #[test]
    fn ranks_have_places() {
        assert_eq!(placed("a:2,b:3", None), Ok(vec![0, 0, 1, 1, 1]));
        assert_eq!(placed("a:2,b:3", Some(3)), Ok(vec![0, 0, 1]));
        assert_eq!(placed("a, b ,c", Some(5)), Ok(vec![0, 0, 1, 1, 2]));
        assert_eq!(placed("[fd00::1]:2,user@b.org:1", None), Ok(vec![0, 0, 1]));
        assert_eq!(placed("a,b,c", Some(2)), Ok(vec![0, 1]), "a host may be left without");
        assert!(placed("a:2,b:3", Some(6)).is_err_and(|error| error.contains("a:2,b:3, which take 5")));
        assert!(placed("a,b", None).is_err_and(|error| error.contains("-n")));
        for bad in ["", ",", "a:0", "a:x", "a:", "-oProxyCommand=x", "a b", "[a", "[a]b", "a;b"] {
            assert!(placed(bad, Some(1)).is_err(), "{bad}");
        }
    }

    #[test]
    fn files_of_hosts() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "# ours\nnode1 slots=4\n\nnode2:2 # the old one\nnode3\n")
            .expect("a file");
        let hosts = read_hosts(file.path()).expect("hosts");
        let texts: Vec<String> = hosts.iter().map(HostSlots::to_string).collect();
        assert_eq!(texts, ["node1:4", "node2:2", "node3"]);
        std::fs::write(file.path(), "node1\nnode2 slot=3\n").expect("a file");
        let error = read_hosts(file.path()).expect_err("a typing error").to_string();
        assert!(error.contains(":2: `node2 slot=3` is no host"), "{error}");
        assert!(read_hosts(Path::new("/no/such/file")).is_err());
    }
}
