//! Slowdowns from miss-ratio curves and bandwidths: needs no counters, and may say that it can't tell.
//!
//! How much of the shared cache each program gets follows from how fast each brings blocks in: a cache that drops the least recently
//! used block holds what all touched within the same time, so the parts are those in which the programs touch them in equal time. How
//! many accesses touch c distinct blocks is the sum of 1 / miss ratio up to c (Xiang, Ding, Luo and Bao, ASPLOS 2013; the
//! partition: Brock, Ye, Ding, Li, Wang and Luo, ICPP 2015). From its part follow a program's misses, from those its time, and
//! from that how fast it brings blocks in. If all misses together are more than the link carries, each waits until they are not.
//!
//! How much of its time a program waits for the shared cache and memory can't be seen in its distances: the runs beside probes tell
//! ([`Behaviour::beside`]). Without them every share is possible, which often leaves too much open for an answer.

use crate::profile::{Behaviour, Host, Profile};
use castell_cachesim::MissRatioCurve;

/// What is predicted of a program among neighbours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The most likely slowdown.
    pub slowdown: f64,
    /// The least that what is known allows.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// The part of the shared cache that it gets, 0 to 1.
    pub cache_part: f64,
    /// Whether the link is full.
    pub link_is_full: bool,
}

/// From this ratio of the most to the least on, there is no answer.
const OPEN: f64 = 1.3;

impl Forecast {
    /// Whether what is known leaves too much open for an answer.
    pub fn cannot_tell(&self) -> bool {
        self.high / self.low > OPEN
    }

    /// The forecast in a sentence.
    pub fn because(&self) -> String {
        let part = self.cache_part * 100.0;
        let link = if self.link_is_full { "the memory link is full" } else { "the memory link has room" };
        let why = format!("it keeps {part:.0} % of the shared cache, and {link}");
        if self.cannot_tell() {
            return format!(
                "I can't tell: between {:.2} and {:.2}; {why}. Runs beside more probes may narrow it",
                self.low, self.high
            );
        }
        why
    }
}

/// Why there is no forecast at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharingError {
    /// A profile without distances.
    #[error("{0} has no reuse distances in its profile")]
    NoBehaviour(String),
    /// A pace or a size that is none.
    #[error("{0}: accesses a second and the machine's sizes and times must be above 0")]
    NoPace(String),
}

/// The slowdown of each of some programs that run together, after a start at the same time: where a cache that is kept and a cache that is
/// lost both last, it is lost.
pub fn forecast(host: &Host, programs: &[&Fitted]) -> Vec<Forecast> {
    let best: Vec<Party> = programs.iter().map(|own| own.best.clone()).collect();
    let main = settle(host, &best, true);
    let of = |(at, own): (usize, &&Fitted)| {
        let mut now = best.clone();
        let slowdown = main.slowdowns[at];
        let (mut low, mut high) = (slowdown, slowdown);
        for waits in &own.possible {
            now[at].waits = *waits;
            // A tenth of the cache more or less, and from both ends: near a cliff these differ.
            for size in [0.9, 1.0, 1.1] {
                let sized = Host { llc_blocks: host.llc_blocks * size, ..*host };
                for crowded in [false, true] {
                    let other = settle(&sized, &now, crowded).slowdowns[at];
                    (low, high) = (low.min(other), high.max(other));
                }
            }
        }
        let cache_part = main.parts[at] / host.llc_blocks;
        Forecast { slowdown, low, high, cache_part, link_is_full: main.wait > 0.0 }
    };
    programs.iter().enumerate().map(of).collect()
}

/// How a program's time depends on how long its requests take.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Waits {
    /// The part of its time alone that its requests take.
    part: f64,
    /// Whether it computes meanwhile.
    overlaps: bool,
}

impl Waits {
    /// Its time by its time alone, if its requests take `ratio` times as long.
    fn time(self, ratio: f64) -> f64 {
        let waiting = self.part * ratio;
        if self.overlaps { waiting.max(1.0) } else { 1.0 - self.part + waiting }
    }
}

/// A program in the equations.
#[derive(Clone, Debug)]
struct Party {
    curve: MissRatioCurve,
    /// Blocks, and in how many accesses the program touches so many.
    windows: Vec<(f64, f64)>,
    /// Requests to the shared cache for each access.
    requests: f64,
    /// Time of an access when alone. Seconds.
    alone_seconds: f64,
    /// What its requests take for each access when alone. Seconds.
    alone_waiting: f64,
    waits: Waits,
}

impl Party {
    fn new(
        host: &Host,
        curve: &MissRatioCurve,
        accesses_per_second: f64,
        private_blocks: f64,
        waits: Waits,
    ) -> Party {
        let mut party = Party {
            windows: windows(curve, host.llc_blocks),
            requests: curve.at(private_blocks),
            curve: curve.clone(),
            alone_seconds: 1.0 / accesses_per_second,
            alone_waiting: 0.0,
            waits,
        };
        party.alone_waiting = party.waiting(host, party.misses(host.llc_blocks), 0.0);
        party
    }

    /// Misses for each access with so many blocks of the shared cache.
    fn misses(&self, blocks: f64) -> f64 {
        self.curve.at(blocks).min(self.requests)
    }

    /// What its requests take for each access if each miss waits so long for the link. Seconds.
    fn waiting(&self, host: &Host, misses: f64, wait: f64) -> f64 {
        self.requests * host.llc_seconds + misses * (host.memory_seconds - host.llc_seconds + wait)
    }

    /// Its time by its time alone.
    fn slowdown(&self, host: &Host, misses: f64, wait: f64) -> f64 {
        if self.alone_waiting <= 0.0 {
            return 1.0;
        }
        self.waits.time(self.waiting(host, misses, wait) / self.alone_waiting).max(1.0)
    }

    /// Distinct blocks that it touches in so many accesses.
    fn touched(&self, accesses: f64) -> f64 {
        let behind = self.windows.partition_point(|(_, window)| *window <= accesses);
        let before = self.windows[behind.max(1) - 1];
        match self.windows.get(behind) {
            Some(next) if next.1.is_finite() => {
                before.0 + (next.0 - before.0) * (accesses - before.1) / (next.1 - before.1)
            }
            _ => before.0,
        }
    }
}

/// In how many accesses how many blocks are touched, up to `blocks` and a good deal beyond.
fn windows(curve: &MissRatioCurve, blocks: f64) -> Vec<(f64, f64)> {
    let mut sizes: Vec<f64> = curve.corners().iter().map(|corner| corner.0).collect();
    // A curve that ends level goes on so.
    sizes.extend([blocks, 2.0 * blocks]);
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut windows = vec![(0.0, 0.0)];
    let (mut last, mut accesses) = (0.0, 0.0);
    for size in sizes.into_iter().filter(|size| *size > 0.0) {
        let ratio = curve.at((last + size) / 2.0);
        accesses += (size - last) / ratio;
        windows.push((size, accesses));
        last = size;
        if !accesses.is_finite() {
            break;
        }
    }
    windows
}

struct Settled {
    slowdowns: Vec<f64>,
    parts: Vec<f64>,
    /// What each miss waits for the link. Seconds.
    wait: f64,
}

/// Rounds until paces and parts agree, at most.
const ROUNDS: usize = 60;

/// Paces, parts of the cache and waiting that agree with each other. `crowded`: sought from the slow end.
fn settle(host: &Host, parties: &[Party], crowded: bool) -> Settled {
    let mut slowdowns: Vec<f64> = parties
        .iter()
        .map(|party| if crowded { party.slowdown(host, party.requests, 0.0) } else { 1.0 })
        .collect();
    let mut parts = Vec::new();
    let mut wait = 0.0;
    for _ in 0..ROUNDS {
        let paces: Vec<f64> = parties
            .iter()
            .zip(&slowdowns)
            .map(|(party, factor)| 1.0 / (party.alone_seconds * factor))
            .collect();
        parts = divide(host.llc_blocks, parties, &paces);
        let misses: Vec<f64> =
            parties.iter().zip(&parts).map(|(party, blocks)| party.misses(*blocks)).collect();
        wait = wait_for_link(host, parties, &misses);
        let mut moved: f64 = 0.0;
        for ((factor, party), misses) in slowdowns.iter_mut().zip(parties).zip(&misses) {
            let next = (*factor * party.slowdown(host, *misses, wait)).sqrt();
            moved = moved.max((next / *factor - 1.0).abs());
            *factor = next;
        }
        if moved < 1e-4 {
            break;
        }
    }
    Settled { slowdowns, parts, wait }
}

/// Blocks of a cache that each gets: what it touches in the time in which all together touch the whole.
fn divide(blocks: f64, parties: &[Party], paces: &[f64]) -> Vec<f64> {
    let touched = |seconds: f64| -> Vec<f64> {
        parties.iter().zip(paces).map(|(party, pace)| party.touched(seconds * pace)).collect()
    };
    let (mut low, mut high) = (1e-9, 1e6f64);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if touched(middle).iter().sum::<f64>() < blocks { low = middle } else { high = middle }
    }
    touched(low)
}

/// How long each miss waits so that the link carries all. Seconds.
fn wait_for_link(host: &Host, parties: &[Party], misses: &[f64]) -> f64 {
    let fits = |wait: f64| {
        let demand = parties
            .iter()
            .zip(misses)
            .map(|(party, misses)| misses / (party.alone_seconds * party.slowdown(host, *misses, wait)));
        demand.sum::<f64>() * host.block_bytes <= host.bytes_per_second_max
    };
    if fits(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1e-3);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if fits(middle) { high = middle } else { low = middle }
    }
    high
}

/// A program's behaviour with what its runs beside probes allow.
#[derive(Clone, Debug)]
pub struct Fitted {
    best: Party,
    possible: Vec<Waits>,
}

/// A way to wait is possible if it meets the runs beside probes this much worse than the best one. Natural logarithm of slowdowns.
const TOLERANCE: f64 = 0.03;

/// Shares of waiting that are tried.
const STEPS: u32 = 60;

impl Fitted {
    /// Finds how much of its time the program waits.
    ///
    /// # Errors
    /// The profile lacks distances or a pace, or the machine's sizes and times are none.
    pub fn of(host: &Host, profile: &Profile) -> Result<Fitted, SharingError> {
        let numbers = [
            host.llc_blocks,
            host.block_bytes,
            host.llc_seconds,
            host.memory_seconds - host.llc_seconds,
            host.bytes_per_second_max,
        ];
        if numbers.iter().any(|number| !(*number > 0.0 && number.is_finite())) {
            return Err(SharingError::NoPace("the machine".to_owned()));
        }
        let Some(behaviour) = &profile.behaviour else {
            return Err(SharingError::NoBehaviour(profile.name.clone()));
        };
        let pace = behaviour.accesses_per_second;
        if !(pace > 0.0 && pace.is_finite()) {
            return Err(SharingError::NoPace(profile.name.clone()));
        }
        let mut party = Party::new(
            host,
            &behaviour.curve,
            pace,
            behaviour.private_blocks,
            Waits { part: 0.5, overlaps: false },
        );
        let parts = (0..=STEPS).map(|step| f64::from(step) / f64::from(STEPS));
        let ways: Vec<Waits> =
            parts.flat_map(|part| [false, true].map(|overlaps| Waits { part, overlaps })).collect();
        let misfits: Vec<f64> = ways.iter().map(|waits| misfit(host, &party, *waits, behaviour)).collect();
        let least = misfits.iter().copied().fold(f64::INFINITY, f64::min);
        let possible: Vec<Waits> = ways
            .iter()
            .zip(&misfits)
            .filter(|(_, misfit)| **misfit <= least + TOLERANCE)
            .map(|(waits, _)| *waits)
            .collect();
        // Of equally good ones, the middle.
        let equal: Vec<usize> =
            (0..ways.len()).filter(|at| misfits[*at] <= least + TOLERANCE / 10.0).collect();
        party.waits = ways[equal[equal.len() / 2]];
        Ok(Fitted { best: party, possible: ends(&possible) })
    }
}

/// The least and the most waiting, of each kind.
fn ends(possible: &[Waits]) -> Vec<Waits> {
    let of = |overlaps| {
        let mut own = possible.iter().filter(move |waits| waits.overlaps == overlaps);
        let first = own.next().copied();
        [first, own.next_back().copied().or(first)]
    };
    [of(false), of(true)].into_iter().flatten().flatten().collect()
}

/// How far runs beside probes lie from what this way to wait predicts: the root of the mean square, of logarithms.
fn misfit(host: &Host, party: &Party, waits: Waits, behaviour: &Behaviour) -> f64 {
    let mut sum = 0.0;
    for run in &behaviour.beside {
        let curve = MissRatioCurve::cyclic(run.blocks);
        let always = Waits { part: 1.0, overlaps: true };
        let probe = Party::new(host, &curve, run.accesses_per_second, 0.0, always);
        let own = Party { waits, ..party.clone() };
        let settled = settle(host, &[own, probe], true);
        sum += (settled.slowdowns[0] / run.slowdown).ln().powi(2);
    }
    (sum / behaviour.beside.len().max(1) as f64).sqrt()
}
