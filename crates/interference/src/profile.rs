//! What is known of a program: what predictors see.

use crate::{Class, Readings};
use castell_cachesim::MissRatioCurve;

/// What was measured of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// What flows towards its cores, where that was counted.
    pub readings: Option<Readings>,
    /// What it does in time and space, where that was observed.
    pub behaviour: Option<Behaviour>,
}

/// What needs no counters: reuse distances, the pace, and how it did beside probes.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// Miss ratio by size in blocks.
    pub curve: MissRatioCurve,
    /// Accesses a second when it runs alone.
    pub accesses_per_second: f64,
    /// Blocks that its cores' own caches hold.
    pub private_blocks: f64,
    /// Runs beside probes.
    pub beside: Vec<BesideProbe>,
}

/// A run beside a probe: a loop over so many blocks, as fast as it may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BesideProbe {
    /// Blocks of the probe.
    pub blocks: f64,
    /// What the probe did when it ran alone. Accesses a second, each to another block.
    pub accesses_per_second: f64,
    /// The program's time beside the probe by its time alone.
    pub slowdown: f64,
}

/// What is known of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Blocks of the shared cache.
    pub llc_blocks: f64,
    /// Bytes of a block.
    pub block_bytes: f64,
    /// From a request until the shared cache answers. Seconds.
    pub llc_seconds: f64,
    /// From a request until memory answers. Seconds.
    pub memory_seconds: f64,
    /// What the memory link carries at most. Bytes a second.
    pub bytes_per_second_max: f64,
}

/// A measured pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The program that is looked at, as an index into the profiles.
    pub program: usize,
    /// The one beside it.
    pub neighbour: usize,
    /// The program's time beside the neighbour by its time alone.
    pub slowdown: f64,
}
