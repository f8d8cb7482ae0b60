//! The SCN predictor (Haritatos et al., COSH 2016, section 2.4), and the two that it is compared with there.
//!
//! The seed finds its constants by regression and reports relative errors; here the regression makes the squares of relative errors
//! least, so that one program that suffers sevenfold does not move what is said of all others.

use crate::profile::{Pair, Profile};
use crate::{Class, Readings};

/// What a pair of classes costs: constants from measured pairs, and the bandwidth of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scn {
    /// What the memory link carries at most. Bytes a second.
    pub bytes_per_second_max: f64,
    /// C beside S: slowdown for each byte a second that S takes from memory.
    pub alpha: f64,
    /// C beside S that takes nothing.
    pub beta: f64,
    /// S beside C.
    pub c1: f64,
    /// C beside C.
    pub c2: f64,
    /// S beside N.
    pub c3: f64,
    /// C beside N.
    pub c4: f64,
    /// N beside anything.
    pub c5: f64,
}

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScnError {
    /// A flow that was not measured.
    #[error(
        "{0} is of class S, and how much it takes from memory is not known: its profile has no bytes a second into the last-level cache"
    )]
    NoReadings(String),
    /// Nothing to learn from.
    #[error("no measured pairs to learn from")]
    NoPairs,
}

impl Scn {
    /// Constants by regression from measured pairs. A kind of pair that is not among them gets the median of those that are.
    ///
    /// # Errors
    /// There are no pairs, or a streaming neighbour has no readings.
    pub fn train(profiles: &[Profile], pairs: &[Pair], bytes_per_second_max: f64) -> Result<Scn, ScnError> {
        let otherwise = median(pairs).ok_or(ScnError::NoPairs)?;
        let of = |program: Class, neighbour: &[Class]| {
            let found = pairs.iter().filter(|pair| {
                profiles[pair.program].class == program && neighbour.contains(&profiles[pair.neighbour].class)
            });
            constant(found.map(|pair| pair.slowdown)).unwrap_or(otherwise)
        };
        let mut points = Vec::new();
        for pair in pairs {
            let neighbour = &profiles[pair.neighbour];
            if (profiles[pair.program].class, neighbour.class) == (Class::C, Class::S) {
                points.push((taken(neighbour)?, pair.slowdown));
            }
        }
        let (alpha, beta) = line(&points).unwrap_or((0.0, otherwise));
        Ok(Scn {
            bytes_per_second_max,
            alpha,
            beta,
            c1: of(Class::S, &[Class::C]),
            c2: of(Class::C, &[Class::C]),
            c3: of(Class::S, &[Class::N]),
            c4: of(Class::C, &[Class::N]),
            c5: of(Class::N, &Class::ALL),
        })
    }

    /// The slowdown of a program beside another. S beside S is what they take together by what the link carries; the seed prints
    /// that fraction upside down.
    ///
    /// # Errors
    /// What a streaming one takes from memory is not known.
    pub fn predict(&self, program: &Profile, neighbour: &Profile) -> Result<f64, ScnError> {
        Ok(match (program.class, neighbour.class) {
            (Class::S, Class::S) => {
                ((taken(program)? + taken(neighbour)?) / self.bytes_per_second_max).max(1.0)
            }
            (Class::C, Class::S) => self.alpha * taken(neighbour)? + self.beta,
            (Class::S, Class::C) => self.c1,
            (Class::C, Class::C) => self.c2,
            (Class::S, Class::N) => self.c3,
            (Class::C, Class::N) => self.c4,
            (Class::N, _) => self.c5,
        })
    }

    /// How a prediction comes about, in words.
    pub fn because(&self, program: Class, neighbour: Class) -> String {
        match (program, neighbour) {
            (Class::S, Class::S) => {
                format!("both stream: they share a link of {:.1} GB/s", self.bytes_per_second_max / 1e9)
            }
            (Class::C, Class::S) => format!(
                "a stream sweeps the cache that it lives by: {:.3} a GB/s of the stream, and {:.2}",
                self.alpha * 1e9,
                self.beta
            ),
            (Class::N, _) => "it stays in its own caches".to_owned(),
            (_, Class::N) => "the neighbour stays in its own caches".to_owned(),
            (Class::C, Class::C) => {
                "both live by the shared cache: what such pairs cost on average".to_owned()
            }
            (Class::S, Class::C) => "a stream hardly feels a user of the cache".to_owned(),
        }
    }
}

/// The median slowdown, which the seed's first naive predictor always says.
pub fn median(pairs: &[Pair]) -> Option<f64> {
    let mut all: Vec<f64> = pairs.iter().map(|pair| pair.slowdown).collect();
    all.sort_by(f64::total_cmp);
    let upper = *all.get(all.len() / 2)?;
    Some(if all.len().is_multiple_of(2) { (all[all.len() / 2 - 1] + upper) / 2.0 } else { upper })
}

/// What the seed's second naive predictor always says.
pub const NO_CONTENTION: f64 = 1.05;

fn taken(profile: &Profile) -> Result<f64, ScnError> {
    profile
        .readings
        .as_ref()
        .map(Readings::into_llc)
        .ok_or_else(|| ScnError::NoReadings(profile.name.clone()))
}

/// The constant of least relative squares.
fn constant(slowdowns: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut once, mut twice) = (0.0, 0.0);
    for slowdown in slowdowns {
        once += 1.0 / slowdown;
        twice += 1.0 / (slowdown * slowdown);
    }
    (twice > 0.0).then(|| once / twice)
}

/// Slope and height of the line of least relative squares; level where all points have one x.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let weights = || points.iter().map(|point| 1.0 / (point.1 * point.1));
    let all: f64 = weights().sum();
    if all <= 0.0 {
        return None;
    }
    let x = points.iter().zip(weights()).map(|(point, weight)| point.0 * weight).sum::<f64>() / all;
    let y = points.iter().zip(weights()).map(|(point, weight)| point.1 * weight).sum::<f64>() / all;
    let (mut spread, mut both) = (0.0, 0.0);
    for (point, weight) in points.iter().zip(weights()) {
        spread += weight * (point.0 - x).powi(2);
        both += weight * (point.0 - x) * (point.1 - y);
    }
    let slope = if spread > 0.0 { both / spread } else { 0.0 };
    Some((slope, y - slope * x))
}
