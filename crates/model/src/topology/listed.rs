//! Networks that somebody wrote down.

use super::{LinkCost, Routes};
use castell_base::{PerByte, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, OnceLock};

/// A network from a list of links.
///
/// ```text
/// # two switches, two ranks each
/// default 100ns 0.1ns        # latency and time a byte of the links below that say nothing else
/// ranks a b c d              # nodes that are ranks 0, 1, 2, 3; may be repeated for more
/// a -- left                  # a link in each direction
/// b -- left 50ns             # with a latency
/// left -- right 200ns 40GB/s # and a time a byte, or a rate
/// c -- right
/// right -> d                 # a link in one direction
/// d -> right
/// ```
///
/// Nodes are words; those that are no ranks are switches. A message takes the route with the least sum of latencies, of
/// those the one with the fewest links, of those the one whose next link was listed first; it goes through no other rank
/// unless there is no other way.
#[derive(Clone, Debug)]
pub struct Listed {
    ranks: u32,
    links: Vec<Link>,
    /// Links into each node, as listed.
    into: Vec<Vec<u32>>,
    /// For each rank that was asked for: by node, the link towards it. Made when first needed.
    next: Arc<[OnceLock<Box<[u32]>>]>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    from: u32,
    to: u32,
    cost: LinkCost,
}

/// Why a list is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListedError {
    /// A line that means nothing.
    #[error("line {line}: {problem}")]
    Line {
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// There is no line `ranks …`.
    #[error("no ranks: name the nodes that are ranks in a line such as `ranks a b c d`")]
    NoRanks,
    /// No way leads from one rank to another.
    #[error("no way leads from rank `{from}` to rank `{to}`")]
    Disconnected {
        /// The rank's node.
        from: String,
        /// The other's.
        to: String,
    },
}

const NO_LINK: u32 = u32::MAX;

impl Listed {
    /// Reads a list; see [`Listed`]. Links have the cost `default` until a line says otherwise.
    ///
    /// # Errors
    ///
    /// Lines of other forms, costs that are none, no ranks, ranks that cannot reach each other.
    pub fn parse(text: &str, default: LinkCost) -> Result<Listed, ListedError> {
        let mut list = List { ranks: Vec::new(), links: Vec::new(), default };
        for (line, number) in text.lines().zip(1..) {
            let line = line.split('#').next().unwrap_or_default();
            list.line(line).map_err(|problem| ListedError::Line { line: number, problem })?;
        }
        list.finish()
    }

    /// What a message pays for a link.
    pub(super) fn cost(&self, link: u32) -> LinkCost {
        self.links[link as usize].cost
    }

    /// For each node the link that leads to `target` on the best way.
    fn towards(&self, target: u32) -> Box<[u32]> {
        // Other ranks passed through, latency, hops, the link: compared in this order.
        const UNKNOWN: (u32, u64, u32, u32) = (u32::MAX, u64::MAX, u32::MAX, NO_LINK);
        let mut best = vec![UNKNOWN; self.into.len()];
        best[target as usize] = (0, 0, 0, NO_LINK);
        let mut open = BinaryHeap::from([Reverse((0, 0, 0, target))]);
        while let Some(Reverse((through, latency, hops, node))) = open.pop() {
            let (best_through, best_latency, best_hops, _) = best[node as usize];
            if (through, latency, hops) != (best_through, best_latency, best_hops) {
                continue; // A better way was found since.
            }
            let through = through + u32::from(node < self.ranks && node != target);
            for &link in &self.into[node as usize] {
                let Link { from, cost, .. } = self.links[link as usize];
                let found = (through, latency.saturating_add(cost.latency.0), hops + 1, link);
                if found < best[from as usize] {
                    best[from as usize] = found;
                    open.push(Reverse((found.0, found.1, found.2, from)));
                }
            }
        }
        best.into_iter().map(|(.., link)| link).collect()
    }
}

impl Routes for Listed {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn links(&self) -> u64 {
        self.links.len() as u64
    }

    fn ends(&self, link: u32) -> (u32, u32) {
        let Link { from, to, .. } = self.links[link as usize];
        (from, to)
    }

    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        let next = self.next[to as usize].get_or_init(|| self.towards(to));
        let mut node = from;
        while node != to {
            let link = next[node as usize];
            assert_ne!(link, NO_LINK, "ranks of a list reach each other");
            links.push(link);
            node = self.links[link as usize].to;
        }
    }
}

/// A list that is being read.
struct List {
    ranks: Vec<String>,
    links: Vec<(String, String, LinkCost)>,
    default: LinkCost,
}

impl List {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            ["ranks", ref nodes @ ..] => {
                for node in nodes {
                    if self.ranks.iter().any(|rank| rank == node) {
                        return Err(format!("`{node}` is a rank already"));
                    }
                    self.ranks.push((*node).to_owned());
                }
            }
            ["default", ref cost @ ..] => self.default = self.cost(cost)?,
            [from, arrow @ ("--" | "->"), to, ref cost @ ..] => {
                if from == to {
                    return Err(format!("a link from `{from}` to itself"));
                }
                let cost = self.cost(cost)?;
                self.links.push((from.to_owned(), to.to_owned(), cost));
                if arrow == "--" {
                    self.links.push((to.to_owned(), from.to_owned(), cost));
                }
            }
            _ => {
                return Err(format!(
                    "expected `A -- B [LATENCY [TIME A BYTE]]`, `A -> B …`, `ranks A B …` or `default …`, found `{}`",
                    line.trim()
                ));
            }
        }
        Ok(())
    }

    /// What these words say, beside the default.
    fn cost(&self, words: &[&str]) -> Result<LinkCost, String> {
        let mut cost = self.default;
        if words.len() > 2 {
            return Err(format!("expected nothing after latency and time a byte, found `{}`", words[2]));
        }
        if let Some(latency) = words.first() {
            cost.latency = Time::parse(latency).map_err(|error| error.to_string())?;
        }
        if let Some(per_byte) = words.get(1) {
            cost.per_byte = PerByte::parse(per_byte).map_err(|error| error.to_string())?;
        }
        Ok(cost)
    }

    fn finish(self) -> Result<Listed, ListedError> {
        if self.ranks.is_empty() {
            return Err(ListedError::NoRanks);
        }
        let ranks = self.ranks.len() as u32;
        let mut numbers: HashMap<&str, u32> = self.ranks.iter().map(String::as_str).zip(0..).collect();
        let mut links = Vec::new();
        for (from, to, cost) in &self.links {
            let mut number = |name| {
                let new = numbers.len() as u32;
                *numbers.entry(name).or_insert(new)
            };
            links.push(Link { from: number(from), to: number(to), cost: *cost });
        }
        let mut into = vec![Vec::new(); numbers.len()];
        for (link, number) in links.iter().zip(0..) {
            into[link.to as usize].push(number);
        }
        let next = (0..ranks).map(|_| OnceLock::new()).collect();
        let listed = Listed { ranks, links, into, next };
        listed.check_reach(&self.ranks)?;
        Ok(listed)
    }
}

impl Listed {
    /// All ranks reach each other if the first reaches all and all reach the first.
    fn check_reach(&self, names: &[String]) -> Result<(), ListedError> {
        let mut out = vec![Vec::new(); self.into.len()];
        self.links.iter().for_each(|link| out[link.from as usize].push(link.to));
        let back: Vec<Vec<u32>> = self
            .into
            .iter()
            .map(|links| links.iter().map(|&link| self.links[link as usize].from).collect())
            .collect();
        let lost = |edges: &[Vec<u32>]| {
            let reached = reach(edges, 0);
            (0..names.len()).find(|&rank| !reached[rank])
        };
        let disconnected = |from: usize, to: usize| {
            Err(ListedError::Disconnected { from: names[from].clone(), to: names[to].clone() })
        };
        match (lost(&out), lost(&back)) {
            (Some(rank), _) => disconnected(0, rank),
            (None, Some(rank)) => disconnected(rank, 0),
            (None, None) => Ok(()),
        }
    }
}

fn reach(edges: &[Vec<u32>], start: u32) -> Vec<bool> {
    let mut reached = vec![false; edges.len()];
    let mut open = vec![start];
    reached[start as usize] = true;
    while let Some(node) = open.pop() {
        for &other in &edges[node as usize] {
            if !std::mem::replace(&mut reached[other as usize], true) {
                open.push(other);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str, from: u32, to: u32) -> Vec<u32> {
        let mut links = Vec::new();
        Listed::parse(text, LinkCost::default()).unwrap().route(from, to, &mut links);
        links
    }

    #[test]
    fn the_fastest_way_is_taken_then_the_shortest_then_the_first() {
        let text =
            "default 10ns\nranks a b\na -> b 50ns\na -> s\ns -> t\nt -> b\na -> u 15ns\nu -> b 15ns\nb -> a";
        // By s and t, or by u: 30 ns both; u is one link less.
        assert_eq!(route(text, 0, 1), [4, 5]);
        assert_eq!(route(text, 1, 0), [6]);
        assert_eq!(route("ranks a b\na -- s\na -- t\nt -- b\ns -- b", 0, 1), [0, 6]);
        assert_eq!(route("ranks a b\na -- t\na -- s\ns -- b\nt -- b", 0, 1), [0, 6]);
    }

    #[test]
    fn ranks_are_passed_through_only_if_there_is_no_other_way() {
        let text = "default 10ns\nranks a b c\na -- b\nb -- c\na -- s 100ns\ns -- c 100ns";
        assert_eq!(route(text, 0, 2), [4, 6]);
        assert_eq!(route("ranks a b c\na -- b\nb -- c", 0, 2), [0, 2]);
    }

    #[test]
    fn the_books_example_is_a_network() {
        let page = include_str!("../../../../docs/src/networks.md");
        let example = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let listed = Listed::parse(example, LinkCost::default()).unwrap();
        assert_eq!((listed.ranks(), listed.links()), (4, 10));
    }

    #[test]
    fn costs_are_read_in_order() {
        let text = "ranks a b # two\na -- b\ndefault 5ns\na -> b 7ns 1GB/s\nb -> a";
        let listed = Listed::parse(text, LinkCost::default()).unwrap();
        let costs: Vec<LinkCost> = (0..4).map(|link| listed.cost(link)).collect();
        let standard = LinkCost::default();
        assert_eq!(costs[0], standard);
        assert_eq!(costs[2], LinkCost { latency: Time::from_ns(7), per_byte: PerByte::from_ns(1) });
        assert_eq!(costs[3], LinkCost { latency: Time::from_ns(5), ..standard });
    }

    #[test]
    fn wrong_lists_are_refused() {
        for (text, message) in [
            ("", "no ranks"),
            ("a -- b", "no ranks"),
            ("ranks a\na b", "line 2: expected `A -- B"),
            ("ranks a a", "line 1: `a` is a rank already"),
            ("ranks a\na -- a", "line 2: a link from `a` to itself"),
            ("ranks a b\na -- b 5", "line 2: expected a time"),
            ("ranks a b\na -- b 5ns 6", "line 2: expected a time a byte"),
            ("ranks a b\na -- b 5ns 6ns 7ns", "line 2: expected nothing after"),
            ("ranks a b c\na -- b", "no way leads from rank `a` to rank `c`"),
            ("ranks a b\na -> b", "no way leads from rank `b` to rank `a`"),
        ] {
            let error = Listed::parse(text, LinkCost::default()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
