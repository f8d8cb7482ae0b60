//! Parameters that are not the same each time: drawn from a distribution, or from what was measured.
//!
//! In a model's text a distribution stands where a value would: `loggops:o=normal(1500ns,100ns)`. It can also be added to
//! a value or multiply it: `L=2500ns+exponential(200ns)`, `alpha_r=table(8:380ns,64:400ns)*lognormal(1,0.1)`. The key
//! `compute` multiplies what ranks compute: `compute=normal(1,0.05)`.
//!
//! | text | values |
//! |---|---|
//! | `normal(MEAN,DEVIATION)` | normal, negative ones become 0 |
//! | `lognormal(MEAN,DEVIATION)` | their logarithm is normal |
//! | `exponential(MEAN)` | |
//! | `gamma(MEAN,DEVIATION)` | |
//! | `uniform(LOW,HIGH)` | |
//! | `pareto(MINIMUM,SHAPE)` | with a tail that falls as t to the power of -SHAPE, above 1 |
//! | `sample(V,V,V)` | each of these values is as likely |
//! | `sample(FILE)`, `sample(FILE,us)` | the same with the values in a file, which have units or are in the unit named |
//!
//! A draw depends on the seed, the rank, its operation and the parameter, on nothing else. A distribution that has only
//! one value is that value: noise without variance is no noise at all, to the bit.
//!
//! Start at [`NoisyModel`]. What an operating system takes from programs is in [`Detours`].

mod detours;
mod distribution;
mod text;
mod ziggurat;

pub use detours::{Detours, DetoursError};
pub use distribution::Distribution;

use crate::parameters::Slot;
use crate::{LogGops, Model, ModelError, Plb};
use castell_base::random::{Key, Philox};
use castell_base::{PerByte, Time};
use std::fmt;

/// A parameter that can vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is named as in the model's text")]
pub enum Parameter {
    Latency,
    Overhead,
    Gap,
    GapPerByte,
    OverheadPerByte,
    Compute,
    AlphaP,
    AlphaR,
    Alpha,
    Beta,
    Gamma,
    Barrier,
    OverheadSend,
    OverheadReceive,
    HardwareSend,
    HardwareReceive,
    OverheadMin,
    OverheadMax,
}

impl Parameter {
    /// Two and two are drawn from one block of random numbers: those that are mostly drawn together.
    const ALL: [(&'static str, Parameter); 18] = [
        ("L", Parameter::Latency),
        ("o", Parameter::Overhead),
        ("g", Parameter::Gap),
        ("G", Parameter::GapPerByte),
        ("O", Parameter::OverheadPerByte),
        ("compute", Parameter::Compute),
        ("alpha_p", Parameter::AlphaP),
        ("alpha_r", Parameter::AlphaR),
        ("alpha", Parameter::Alpha),
        ("beta", Parameter::Beta),
        ("gamma", Parameter::Gamma),
        ("l", Parameter::Barrier),
        ("o_s", Parameter::OverheadSend),
        ("o_r", Parameter::OverheadReceive),
        ("h_s", Parameter::HardwareSend),
        ("h_r", Parameter::HardwareReceive),
        ("o_min", Parameter::OverheadMin),
        ("o_max", Parameter::OverheadMax),
    ];

    fn of(key: &str) -> Option<Parameter> {
        Parameter::ALL.iter().find(|(name, _)| *name == key).map(|(_, parameter)| *parameter)
    }

    /// As it is written.
    pub fn key(self) -> &'static str {
        Parameter::ALL[self as usize].0
    }
}

/// How a draw changes the parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    /// It is the value.
    Instead,
    /// It is added to the value.
    Plus,
    /// It multiplies the value.
    Times,
}

#[derive(Clone, Debug, PartialEq)]
struct Variation {
    combination: Combination,
    distribution: Distribution,
    /// The distribution as it is written.
    text: String,
}

/// Which parameters vary, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// By [`Parameter`].
    variations: [Option<Box<Variation>>; Parameter::ALL.len()],
}

impl Noise {
    /// No parameter varies.
    pub fn is_none(&self) -> bool {
        self.variations.iter().all(Option::is_none)
    }

    /// Whether this parameter varies.
    #[inline]
    pub fn varies(&self, parameter: Parameter) -> bool {
        self.variations[parameter as usize].is_some()
    }

    /// The value of a parameter that is a time, for one use of it. `base` is its value in the model; `event` tells several
    /// uses by one operation apart, such as at the sender and at the receiver.
    #[inline]
    pub fn time(&self, parameter: Parameter, base: Time, key: Key, event: u8) -> Time {
        match &self.variations[parameter as usize] {
            None => base,
            Some(variation) => {
                let mut streams = streams(parameter, key, event);
                variation.time(base, &mut streams[parameter as usize % 2])
            }
        }
    }

    /// The values of two parameters as [`Noise::time`] gives them, at the price of little more than one: for L and o, for α_p and
    /// α_r, and for other neighbours among [`Parameter`]s of which the first has an even number.
    #[inline]
    pub fn times(&self, parameters: [Parameter; 2], bases: [Time; 2], key: Key, event: u8) -> [Time; 2] {
        let places = parameters.map(|parameter| parameter as usize);
        debug_assert!(places[0] % 2 == 0 && places[1] == places[0] + 1, "{parameters:?} are no pair");
        let [Some(first), Some(second)] = places.map(|place| &self.variations[place]) else {
            let [first, second] = parameters;
            return [self.time(first, bases[0], key, event), self.time(second, bases[1], key, event)];
        };
        let [mut of_first, mut of_second] = streams(parameters[0], key, event);
        [first.time(bases[0], &mut of_first), second.time(bases[1], &mut of_second)]
    }

    /// The value of a parameter that is a time a byte, to a thousandth of a picosecond; see [`Noise::time`].
    pub fn per_byte(&self, parameter: Parameter, base: PerByte, key: Key, event: u8) -> PerByte {
        match &self.variations[parameter as usize] {
            None => base,
            Some(variation) => {
                let mut streams = streams(parameter, key, event);
                let drawn = variation.distribution.draw(&mut streams[parameter as usize % 2]);
                PerByte::from_ps_f64(variation.combine(base.as_ps_f64(), drawn))
            }
        }
    }

    /// How long a computation of `length` takes this time.
    pub fn compute(&self, length: Time, key: Key) -> Time {
        self.time(Parameter::Compute, length, key, 0)
    }

    /// LogGOPS' parameters for one operation.
    pub fn loggops(&self, base: &LogGops, key: Key, event: u8) -> LogGops {
        let [latency, overhead] =
            self.times([Parameter::Latency, Parameter::Overhead], [base.latency, base.overhead], key, event);
        LogGops {
            latency,
            overhead,
            gap: self.time(Parameter::Gap, base.gap, key, event),
            gap_per_byte: self.per_byte(Parameter::GapPerByte, base.gap_per_byte, key, event),
            overhead_per_byte: self.per_byte(Parameter::OverheadPerByte, base.overhead_per_byte, key, event),
            eager_bytes_max: base.eager_bytes_max,
        }
    }

    /// PLB's parameters for one message of `bytes` bytes: the α's are those for its size.
    pub fn plb(&self, base: &Plb, bytes: u64, key: Key, event: u8) -> Plb {
        let bases = [base.alpha_p.of(bytes), base.alpha_r.of(bytes)];
        let [alpha_p, alpha_r] = self.times([Parameter::AlphaP, Parameter::AlphaR], bases, key, event);
        Plb {
            alpha_p: alpha_p.into(),
            alpha_r: alpha_r.into(),
            beta: self.per_byte(Parameter::Beta, base.beta, key, event),
            gamma: self.per_byte(Parameter::Gamma, base.gamma, key, event),
        }
    }

    /// What `statistic` of each distribution makes of the model.
    fn with(&self, model: &Model, statistic: fn(&Distribution) -> f64) -> Model {
        let mut model = model.clone();
        for (key, slot) in model.slots() {
            let variation =
                Parameter::of(key).and_then(|parameter| self.variations[parameter as usize].as_ref());
            let Some(variation) = variation else { continue };
            let value = statistic(&variation.distribution);
            let time = |base: Time| Time::from_ps_f64(variation.combine(base.0 as f64, value));
            match slot {
                Slot::Time(base) => *base = time(*base),
                Slot::PerByte(base) => {
                    *base = PerByte::from_ps_f64(variation.combine(base.as_ps_f64(), value));
                }
                Slot::BySize(base) => *base = base.map(time),
                Slot::ByCount(base) => *base = base.map(time),
                Slot::Count(_) => {}
            }
        }
        model
    }
}

impl Variation {
    #[inline]
    fn time(&self, base: Time, random: &mut Philox) -> Time {
        Time::from_ps_f64(self.combine(base.0 as f64, self.distribution.draw(random)))
    }

    #[inline]
    fn combine(&self, base: f64, drawn: f64) -> f64 {
        match self.combination {
            Combination::Instead => drawn,
            Combination::Plus => base + drawn,
            Combination::Times => base * drawn,
        }
    }
}

/// The random numbers for a parameter's pair, in one use by an operation.
#[inline]
fn streams(parameter: Parameter, key: Key, event: u8) -> [Philox; 2] {
    key.streams(u16::from(parameter as u8 / 2) | u16::from(event) << 8)
}

/// A model of which some parameters vary.
#[derive(Clone, Debug, PartialEq)]
pub struct NoisyModel {
    /// The parameters without their noise; of one that is drawn altogether, the mean.
    pub model: Model,
    /// What varies.
    pub noise: Noise,
}

impl NoisyModel {
    /// Reads a model's text in which distributions may stand; `file` gives the text of a file that the model names.
    ///
    /// ```
    /// use castell_model::noise::NoisyModel;
    ///
    /// let text = "loggops:o=normal(1500ns,100ns),L=2500ns+exponential(200ns)";
    /// let noisy = NoisyModel::parse(text, &mut |name| Err(format!("no file {name}")))?;
    /// assert!(!noisy.noise.is_none());
    /// # Ok::<(), castell_model::ModelError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Model::parse`]; unknown distributions, wrong or missing arguments, files that cannot be read.
    pub fn parse(
        text: &str,
        file: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<NoisyModel, ModelError> {
        text::parse(text, file)
    }

    /// The same from TOML; see [`Model::from_toml`].
    ///
    /// # Errors
    ///
    /// Those of [`Model::from_toml`] and [`NoisyModel::parse`].
    pub fn from_toml(
        toml: &str,
        file: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<NoisyModel, ModelError> {
        NoisyModel::parse(&crate::toml::to_text(toml)?, file)
    }

    /// The model with the mean of everything that varies.
    pub fn mean(&self) -> Model {
        self.noise.with(&self.model, Distribution::mean)
    }

    /// The model with the least value that each parameter can have: no draw is below it. What an engine that looks ahead
    /// may rely on.
    pub fn least(&self) -> Model {
        self.noise.with(&self.model, Distribution::minimum)
    }
}

impl From<Model> for NoisyModel {
    /// Without noise.
    fn from(model: Model) -> NoisyModel {
        NoisyModel { model, noise: Noise::default() }
    }
}

/// With every parameter, in a form that [`NoisyModel::parse`] reads as the same (if the files that it names are).
impl fmt::Display for NoisyModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut model = self.model.clone();
        let slots = model.slots();
        let mut items: Vec<String> = slots
            .iter()
            .map(|(key, slot)| {
                let parameter = Parameter::of(key);
                let variation =
                    parameter.and_then(|parameter| self.noise.variations[parameter as usize].as_ref());
                match variation.map(|variation| (variation.combination, &variation.text)) {
                    None => format!("{key}={}", slot.print()),
                    Some((Combination::Instead, text)) => format!("{key}={text}"),
                    Some((Combination::Plus, text)) => format!("{key}={}+{text}", slot.print()),
                    Some((Combination::Times, text)) => format!("{key}={}*{text}", slot.print()),
                }
            })
            .collect();
        if let Some(variation) = &self.noise.variations[Parameter::Compute as usize] {
            items.push(format!("compute={}", variation.text));
        }
        f.pad(&format!("{}:{}", self.model.name(), items.join(",")))
    }
}

#[cfg(test)]
mod tests;
