//! Which ranks of a host live in which domain, and what domains have of their own.

use castell_host::domain::Kinds;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// How the ranks of each host are kept apart, as in `4`, `2,user,pid` or `4,scatter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// How many domains a host has at most; none stays empty.
    pub domains: u32,
    /// What each has of its own.
    pub kinds: Kinds,
    /// Whether neighbours are in different domains, rather than in the same as far as that goes.
    pub scatter: bool,
    /// Whether somebody has named the kinds.
    pub is_named: bool,
}

const NAMES: [&str; 5] = ["user", "pid", "ipc", "mnt", "net"];

fn kinds_of(own: [bool; 5]) -> Kinds {
    let [user, pid, ipc, mount, net] = own;
    Kinds { user, pid, ipc, mount, net }
}

impl FromStr for Isolation {
    type Err = String;

    fn from_str(text: &str) -> Result<Isolation, String> {
        let mut words = text.split(',').map(str::trim);
        let number = words.next().unwrap_or_default();
        let domains = number.parse::<u32>().ok().filter(|domains| *domains > 0);
        let domains = domains.ok_or_else(|| {
            format!("`{number}` is no number of domains: write 4, or 4,user,pid,ipc,mnt,net,scatter with what they have of their own")
        })?;
        let (mut own, mut scatter) = ([false; 5], false);
        for word in words {
            match (NAMES.iter().position(|name| *name == word), word) {
                (Some(at), _) => own[at] = true,
                (None, "scatter") => scatter = true,
                (None, "compact") => scatter = false,
                _ => {
                    return Err(format!(
                        "`{word}` is nothing that a domain has of its own: user, pid, ipc, mnt, net; compact or scatter"
                    ));
                }
            }
        }
        let is_named = own.contains(&true);
        Ok(Isolation { domains, kinds: kinds_of(if is_named { own } else { [true; 5] }), scatter, is_named })
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kinds { user, pid, ipc, mount, net } = self.kinds;
        write!(out, "{}", self.domains)?;
        let own = NAMES.iter().zip([user, pid, ipc, mount, net]).filter(|(_, is_own)| *is_own);
        own.map(|(name, _)| name).try_for_each(|name| write!(out, ",{name}"))?;
        out.write_str(if self.scatter { ",scatter" } else { "" })
    }
}

impl Isolation {
    /// The domain of each rank on its host, from 1. `hosts` says by rank on which host it is; empty: all are on one.
    pub fn domains_of(&self, ranks: u32, hosts: &[u32]) -> Vec<u32> {
        let host = |rank: u32| hosts.get(rank as usize).copied().unwrap_or(0);
        let mut by_host: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        (0..ranks).for_each(|rank| by_host.entry(host(rank)).or_default().push(rank));
        let mut all = vec![0; ranks as usize];
        for here in by_host.values() {
            let count = here.len() as u64;
            let domains = u64::from(self.domains).min(count);
            for (at, rank) in (0..).zip(here) {
                let domain = if self.scatter { at % domains } else { at * domains / count };
                all[*rank as usize] = domain as u32 + 1;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Isolation {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn texts() {
        assert_eq!(read("4").to_string(), "4,user,pid,ipc,mnt,net");
        assert_eq!(read("2, pid,user,scatter").to_string(), "2,user,pid,scatter");
        for text in ["4", "1,scatter", "2,ipc", "3,user,pid,ipc,mnt,net,scatter"] {
            let one = read(text);
            assert_eq!(Isolation { is_named: one.is_named, ..read(&one.to_string()) }, one);
        }
        for bad in ["", "0", "x", "-1", "4,", "4,uts", "pid", "4294967296"] {
            assert!(bad.parse::<Isolation>().is_err(), "{bad}");
        }
    }

    #[test]
    fn ranks_are_dealt_out() {
        assert_eq!(read("2").domains_of(5, &[]), [1, 1, 1, 2, 2]);
        assert_eq!(read("2,scatter").domains_of(5, &[]), [1, 2, 1, 2, 1]);
        assert_eq!(read("8").domains_of(3, &[]), [1, 2, 3], "none stays empty");
        assert_eq!(read("2").domains_of(6, &[1, 2, 1, 2, 2, 2]), [1, 1, 2, 1, 2, 2], "each host has its own");
    }
}
