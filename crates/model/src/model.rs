//! Any of the models, and its text.

use crate::ModelError;
use crate::closed_forms::{ClosedForms, Tree};
use crate::models::{Bsp, Lb, LogGops, LogGp, LogGps, LogP, LogfP, Lop, Plb};
use crate::parameters::{self, Parameters, Slot};
use castell_base::Time;
use std::fmt;
use std::str::FromStr;

/// A cost model with its parameters.
///
/// As text it is the model's name, and after a colon the parameters that differ from the defaults:
/// `plb:alpha_p=880ns,alpha_r=380ns`. Times have units (`ps`, `ns`, `us`, `ms`, `s`); times a byte are written as times
/// (`0.4ns`) or as rates (`10GB/s`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Model {
    /// Supersteps.
    Bsp(Bsp),
    /// Latency and bandwidth.
    Lb(Lb),
    /// Latency, overhead, gap.
    LogP(LogP),
    /// With a gap a byte.
    LogGp(LogGp),
    /// With rendezvous.
    LogGps(LogGps),
    /// With an overhead a byte: LogGOPSim's.
    LogGops(LogGops),
    /// Overheads that depend on the number of messages.
    Lop(Lop),
    /// LogP whose gap spares the first messages.
    LogfP(LogfP),
    /// Pipelining latency and bandwidth.
    Plb(Plb),
}

/// Runs `$do` with `$parameters` as whichever struct `$model` holds.
macro_rules! each {
    ($model:expr, $parameters:ident => $do:expr) => {
        match $model {
            Model::Bsp($parameters) => $do,
            Model::Lb($parameters) => $do,
            Model::LogP($parameters) => $do,
            Model::LogGp($parameters) => $do,
            Model::LogGps($parameters) => $do,
            Model::LogGops($parameters) => $do,
            Model::Lop($parameters) => $do,
            Model::LogfP($parameters) => $do,
            Model::Plb($parameters) => $do,
        }
    };
}

impl Model {
    /// The names of all models, as they are written.
    pub const NAMES: &'static [&'static str] = &[
        Bsp::NAME,
        Lb::NAME,
        LogP::NAME,
        LogGp::NAME,
        LogGps::NAME,
        LogGops::NAME,
        Lop::NAME,
        LogfP::NAME,
        Plb::NAME,
    ];

    /// Reads a model; see [`Model`] for what is written. Parameters that are not named take their defaults.
    ///
    /// # Errors
    ///
    /// Unknown names, values that are not what the parameter is, a parameter given twice.
    pub fn parse(text: &str) -> Result<Model, ModelError> {
        let (name, list) = text.split_once(':').unwrap_or((text, ""));
        Ok(match name.trim().to_ascii_lowercase().as_str() {
            Bsp::NAME => Model::Bsp(parameters::parse(list)?),
            Lb::NAME => Model::Lb(parameters::parse(list)?),
            LogP::NAME => Model::LogP(parameters::parse(list)?),
            LogGp::NAME => Model::LogGp(parameters::parse(list)?),
            LogGps::NAME => Model::LogGps(parameters::parse(list)?),
            LogGops::NAME => Model::LogGops(parameters::parse(list)?),
            Lop::NAME => Model::Lop(parameters::parse(list)?),
            LogfP::NAME => Model::LogfP(parameters::parse(list)?),
            Plb::NAME => Model::Plb(parameters::parse(list)?),
            _ => {
                let found = name.trim().chars().take(80).collect();
                return Err(ModelError::UnknownModel { found, known: Model::NAMES.join(", ") });
            }
        })
    }

    /// The LogGOPS model that this one is a special case of: for LogP, LogGP, LogGPS and LogGOPS itself.
    pub fn as_loggops(&self) -> Option<LogGops> {
        Some(match self {
            Model::LogP(model) => model.clone().into(),
            Model::LogGp(model) => model.clone().into(),
            Model::LogGps(model) => model.clone().into(),
            Model::LogGops(model) => model.clone(),
            _ => return None,
        })
    }

    /// The parameters by their symbols.
    pub(crate) fn slots(&mut self) -> Vec<(&'static str, Slot<'_>)> {
        each!(self, parameters => parameters.slots())
    }

    /// The model's name, as it is written.
    pub fn name(&self) -> &'static str {
        fn name<P: Parameters>(_: &P) -> &'static str {
            P::NAME
        }
        each!(self, parameters => name(parameters))
    }
}

/// Those of whichever model it is.
impl ClosedForms for Model {
    fn arrival(&self, index: u64, count: u64, bytes: u64) -> Time {
        each!(self, parameters => parameters.arrival(index, count, bytes))
    }

    fn exchange(&self, bytes: u64) -> (Time, Time) {
        each!(self, parameters => parameters.exchange(bytes))
    }

    fn reduction(&self, bytes: u64) -> Time {
        each!(self, parameters => parameters.reduction(bytes))
    }

    fn multicast(&self, peers: u64, bytes: u64) -> Time {
        each!(self, parameters => parameters.multicast(peers, bytes))
    }

    fn broadcast(&self, tree: Tree, ranks: u64, bytes: u64) -> Time {
        each!(self, parameters => parameters.broadcast(tree, ranks, bytes))
    }
}

impl FromStr for Model {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Model, ModelError> {
        Model::parse(text)
    }
}

/// With every parameter, in a form that [`Model::parse`] reads as the same model.
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&each!(self, parameters => parameters::print(parameters.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_alone_is_a_model_with_defaults_that_prints_as_itself() {
        for name in Model::NAMES {
            let model = Model::parse(name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(model.name(), *name);
            assert_eq!(Model::parse(&model.to_string()).as_ref(), Ok(&model), "{model}");
        }
    }

    #[test]
    fn parameters_are_read_and_printed() {
        let model = Model::parse("loggops:L=2500ns,o=1500ns,g=1000ns,G=6ns,O=0,S=65535").unwrap();
        assert_eq!(model, Model::LogGops(LogGops::default()));
        assert_eq!(model.to_string(), "loggops:L=2.5us,o=1.5us,g=1us,G=6ns,O=0ns,S=65535");
        let model = Model::parse("PLB: alpha_p = table(8:880ns, 64:890ns), beta=0.4ns").unwrap();
        assert_eq!(
            model.to_string(),
            "plb:alpha_p=table(8:880ns,64:890ns),alpha_r=380ns,beta=400ps,gamma=0ns"
        );
    }

    #[test]
    fn errors_say_what_was_expected() {
        for (text, message) in [
            ("loggop", "unknown model `loggop`: expected one of bsp, lb, logp"),
            ("", "unknown model ``"),
            ("loggops:X=3", "loggops has no parameter `X`: expected one of L, o, g, G, O, S"),
            ("loggops:L=3", "loggops: L: expected a time such as 880ns"),
            ("loggops:S=many", "loggops: S: expected a whole number, found `many`"),
            ("logp:L=1ns,L=2ns", "logp: `L` is given twice"),
            ("logp:L", "logp: expected `parameter=value`, found `L`; an example: logp:L=2.5us"),
            ("logp:L=1ns,", "logp: expected `parameter=value`, found ``"),
            ("plb:alpha_p=table(8:1)", "plb: alpha_p: expected a time"),
        ] {
            let error = Model::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    #[test]
    fn a_model_says_what_its_kind_says() {
        for text in [
            "bsp:g=3us,G=2ns,l=20us",
            "lb:alpha=1us,beta=3ns",
            "logp:L=2us,o=500ns,g=700ns",
            "loggp:L=2us,o=500ns,g=700ns,G=2ns",
            "loggps:L=2us,o=500ns,g=700ns,G=2ns,S=4096",
            "loggops:L=2us,o=500ns,g=700ns,G=2ns,O=1ns",
            "lop:L=2us",
            "logfp:L=2us,o_min=100ns,o_max=500ns,g=700ns",
            "plb:alpha_p=880ns,alpha_r=380ns,beta=400ps,gamma=100ps",
        ] {
            let model = Model::parse(text).unwrap();
            let told = each!(&model, of => (
                of.arrival(2, 3, 100),
                of.exchange(100),
                of.reduction(100),
                of.multicast(3, 100),
                of.broadcast(Tree::BINOMIAL, 9, 100),
            ));
            let again = (
                model.arrival(2, 3, 100),
                model.exchange(100),
                model.reduction(100),
                model.multicast(3, 100),
                model.broadcast(Tree::BINOMIAL, 9, 100),
            );
            assert_eq!(again, told, "{text}");
            assert!(told.0 > Time::ZERO && told.1.0 > Time::ZERO && told.4 > told.3, "{text}: {told:?}");
        }
        assert!(Model::parse("plb:gamma=100ps").unwrap().reduction(100) > Time::ZERO);
    }

    #[test]
    fn the_logp_family_is_loggops_with_less() {
        for name in Model::NAMES {
            let model = Model::parse(name).unwrap();
            let Some(same) = model.as_loggops() else {
                assert!(!name.starts_with("log") || *name == "logfp", "{name}");
                continue;
            };
            assert!(name.starts_with("log"), "{name}");
            for bytes in [1, 100, 1 << 20] {
                assert_eq!(same.arrival(2, 3, bytes), model.arrival(2, 3, bytes), "{name}");
            }
        }
    }
}
