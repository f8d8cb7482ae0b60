//! What went over the links of a network: in words, for programs, and drawn.

use castell_base::{Time, counted};
use castell_model::topology::Topology;
use castell_sim::instruments::{LinkLoad, Links};
use castell_trace::Look;
use castell_trace::svg::{NetworkLink, NetworkNode, NetworkPlot, write_network};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// So many links are told of.
const TOLD_MAX: usize = 5;

/// The loads of a network's links in a run.
pub struct Loads<'a> {
    pub network: &'a Topology,
    pub links: &'a Links,
    pub makespan: Time,
}

impl Loads<'_> {
    fn node(&self, node: u32) -> String {
        match node.checked_sub(self.network.ranks()) {
            None => format!("rank {node}"),
            Some(switch) => format!("switch {switch}"),
        }
    }

    fn name(&self, link: u32) -> String {
        let (from, to) = self.network.ends(link);
        format!("{} to {}", self.node(from), self.node(to))
    }

    /// Links that lead somewhere: those at the border of a mesh do not.
    fn count(&self) -> usize {
        let leads = |link: &u32| {
            let (from, to) = self.network.ends(*link);
            from != to
        };
        (0..self.network.links() as u32).filter(leads).count()
    }

    /// The share of the run in which it was taken, percent.
    fn busy(&self, load: &LinkLoad) -> f64 {
        load.busy.0 as f64 * 100.0 / self.makespan.0.max(1) as f64
    }

    /// By how much goes over them, the most first.
    fn busiest(&self) -> Vec<(u32, LinkLoad)> {
        let mut loads: Vec<_> = self.links.loads.iter().map(|(&link, &load)| (link, load)).collect();
        loads.sort_by_key(|(link, load)| (std::cmp::Reverse((load.busy, load.bytes, load.messages)), *link));
        loads
    }

    fn told(&self, LinkLoad { messages, bytes, waited, .. }: LinkLoad) -> String {
        let waited = match waited {
            Time::ZERO => String::new(),
            waited => format!(", waited for {waited}"),
        };
        format!("{}, {}{waited}", counted(messages, "message"), counted(bytes, "byte"))
    }

    fn summary(&self) -> String {
        let (used, all) = (self.links.loads.len(), self.count());
        let bytes: u128 = self.links.loads.values().map(|load| u128::from(load.bytes)).sum();
        let mean = bytes / (used as u128).max(1);
        format!("{used} of {all} links used, {mean} bytes over each of them on average")
    }

    /// For people.
    pub fn text(&self, text: &mut String) {
        let _ = writeln!(text, "links     {}", self.summary());
        for (link, load) in self.busiest().into_iter().take(TOLD_MAX) {
            let (name, busy) = (self.name(link), self.busy(&load));
            let _ = writeln!(text, "  {name:<22} busy {busy:>5.1} %  {}", self.told(load));
        }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let load = |(link, load): (u32, LinkLoad)| {
            let (from, to) = self.network.ends(link);
            json!({
                "from": self.node(from),
                "to": self.node(to),
                "messages": load.messages,
                "bytes": load.bytes,
                "busy_ps": load.busy.0,
                "waited_ps": load.waited.0,
            })
        };
        self.busiest().into_iter().map(load).collect()
    }

    /// Draws the network with the loads; where it has no layout, the busiest links as bars.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw(&self, (title, model): (&str, &str), look: &Look, file: &Path) -> anyhow::Result<()> {
        // Links that take no time for bytes are never busy.
        let by_time = self.links.loads.values().any(|load| load.busy > Time::ZERO);
        let links = (0..self.network.links() as u32).map(|link| {
            let load = self.links.loads.get(&link).copied().unwrap_or_default();
            let (from, to) = self.network.ends(link);
            NetworkLink {
                ends: (from as usize, to as usize),
                leads_around: self.network.leads_around(link),
                load: if by_time { self.busy(&load) } else { load.bytes as f64 },
                name: self.name(link),
                told: self.told(load),
            }
        });
        let nodes = self.network.layout().unwrap_or_default().into_iter().zip(0..).map(|(at, node)| {
            NetworkNode { at, name: self.node(node), is_switch: node >= self.network.ranks() }
        });
        let plot = NetworkPlot {
            title: title.to_owned(),
            subtitle: format!("{model}; {}", self.network),
            summary: self.summary(),
            load: if by_time { "busy, of the run:" } else { "bytes:" }.to_owned(),
            unit: if by_time { " %" } else { " B" }.to_owned(),
            nodes: nodes.collect(),
            links: links.collect(),
        };
        let mut svg = Vec::new();
        write_network(&plot, look, &mut svg)?;
        crate::picture::write(file, svg)
    }
}
