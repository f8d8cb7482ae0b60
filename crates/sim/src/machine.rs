//! What a program runs on.

use crate::network::Network;
use castell_model::noise::{Detours, Noise, NoisyModel};
use castell_model::{LogGops, Model};
use std::sync::Arc;

/// A machine: what things cost on it, and what comes first where times are equal.
#[derive(Clone)]
pub struct Machine {
    /// What messages, computing and local operations cost.
    pub model: Model,
    /// What of that varies.
    pub noise: Noise,
    /// Detours that the operating system makes from the program, and whether it makes them on all ranks at the same time.
    pub detours: Option<(Detours, bool)>,
    /// Links that messages share; without one they never meet on their way.
    pub network: Option<Arc<dyn Network>>,
    /// Ranks that share a host, and what messages between them cost instead; without it all messages cost the same.
    pub within: Option<Within>,
    /// The rule of ties.
    pub ties: Ties,
}

/// Ranks that share hosts. The machine's own model holds between hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Within {
    /// What messages between ranks of one host cost: a model of the same family as the machine's, LogGP, LogGPS and LogGOPS being one.
    pub model: Model,
    /// Each rank's host.
    pub host_of: Arc<[u32]>,
}

impl Machine {
    /// Whether costs are the same each time.
    pub fn is_quiet(&self) -> bool {
        self.noise.is_none() && self.detours.is_none()
    }

    /// The parameters where LogGOPSim's costs hold.
    pub(crate) fn loggops(&self) -> Option<LogGops> {
        match &self.model {
            Model::LogGp(model) => Some(model.clone().into()),
            Model::LogGps(model) => Some(model.clone().into()),
            Model::LogGops(model) => Some(model.clone()),
            _ => None,
        }
    }

    /// A machine of this model without a network, with the model's own rule of ties: LogGOPSim's for LogP, LogGP, LogGPS
    /// and LogGOPS, by rank for the others.
    pub fn new(model: Model) -> Machine {
        let ties = match model {
            Model::LogP(_) | Model::LogGp(_) | Model::LogGps(_) | Model::LogGops(_) => Ties::Insertion,
            _ => Ties::Rank,
        };
        Machine { model, noise: Noise::default(), detours: None, network: None, within: None, ties }
    }

    /// The same on which an operating system makes detours, at the same time on all ranks if `together`. They lengthen
    /// computing, and what sends and arrivals take of a processor.
    pub fn with_detours(self, detours: Detours, together: bool) -> Machine {
        Machine { detours: Some((detours, together)), ..self }
    }

    /// The same with links that messages share.
    pub fn with_network(self, network: Arc<dyn Network>) -> Machine {
        Machine { network: Some(network), ..self }
    }

    /// The same whose ranks share hosts.
    pub fn with_hosts(self, within: Within) -> Machine {
        Machine { within: Some(within), ..self }
    }

    /// The same with another rule of ties.
    pub fn with_ties(self, ties: Ties) -> Machine {
        Machine { ties, ..self }
    }
}

impl From<NoisyModel> for Machine {
    /// Without a network, with the model's own rule of ties.
    fn from(noisy: NoisyModel) -> Machine {
        Machine { noise: noisy.noise, ..Machine::new(noisy.model) }
    }
}

/// Which of several things that could happen at the same time happens first. It belongs to the machine: results depend
/// on it wherever a resource is wanted twice at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ties {
    /// What was created first, as in LogGOPSim: events of the same time happen in the order in which they were created,
    /// and one whose resource is busy keeps its place when it is put back. Operations that become ready together are
    /// created sends first, then receives, then the others, otherwise in the order in which they became ready; ranks in
    /// ascending order. What waits for an operation is created as soon as it is certain when that will finish.
    Insertion,
    /// By rank and within a rank by kind: what has finished, then arrivals (by sender, then in order of sending), then
    /// receives, then sends and puts, then computing; within a kind in the order of the rank's schedule. Nothing of it
    /// depends on what happens at other ranks.
    Rank,
}
