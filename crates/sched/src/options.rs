//! Which scheduler, and which of its parts are on; read from a line of text.

use crate::{Probability, QueuePolicy, SchedError, ThresholdPolicy};
use std::fmt;
use std::str::FromStr;

/// The designs that can be chosen by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Design {
    /// A leaf a worker, a node a NUMA node, one root (paper, chapter 4).
    #[default]
    Tree,
    /// One queue behind one lock (paper, chapter 3): the baseline.
    Central,
    /// One queue whose lock holder serves those that wait for it (Álvarez et al., PPoPP 2021).
    Delegation,
}

/// A scheduler's description. The default is what the runtime uses.
///
/// ```
/// use castell_sched::{Options, QueuePolicy, ThresholdPolicy};
/// let options: Options = "tree:fifo,threshold=20,rebalance=off".parse().unwrap();
/// assert_eq!((options.policy, options.threshold), (QueuePolicy::Fifo, ThresholdPolicy::Static(20)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Which design.
    pub design: Design,
    /// The order inside queues.
    pub policy: QueuePolicy,
    /// The tree's threshold.
    pub threshold: ThresholdPolicy,
    /// Whether the tree's nodes push what lies above the threshold when it shrinks (paper, section 4.2.2).
    pub rebalance: bool,
    /// Whether leaves keep tasks above the threshold while nobody is idle, and idle workers fetch from any leaf. Not in the
    /// paper.
    pub pull: bool,
    /// Whether waiting workers are handed tasks directly.
    pub polling_slots: bool,
    /// How often the first task that a finished task made ready runs next on the same worker.
    pub immediate_successor: Probability,
    /// Whether a task goes to the NUMA node that it names.
    pub locality: bool,
}

impl Options {
    /// What `design` means when nothing else is said. The central scheduler's is the paper's baseline: priority,
    /// polling slots and immediate successor.
    pub fn of(design: Design) -> Options {
        let policy = match design {
            Design::Tree => QueuePolicy::Lifo,
            Design::Central | Design::Delegation => QueuePolicy::Priority,
        };
        Options {
            design,
            policy,
            threshold: ThresholdPolicy::Dynamic,
            rebalance: true,
            pull: true,
            polling_slots: true,
            immediate_successor: Probability::ALWAYS,
            locality: true,
        }
    }

    fn set(&mut self, part: &str) -> Result<(), &'static str> {
        let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
        let switch = match value {
            None | Some("on") => Some(true),
            Some("off") => Some(false),
            _ => None,
        };
        let switch = switch.ok_or("has to be on or off");
        match name {
            "fifo" | "lifo" | "priority" if value.is_none() => self.policy = name.parse().unwrap_or_default(),
            "dynamic" if value.is_none() => self.threshold = ThresholdPolicy::Dynamic,
            "threshold" if value == Some("dynamic") => self.threshold = ThresholdPolicy::Dynamic,
            "threshold" => {
                let number =
                    value.and_then(|value| value.parse().ok()).ok_or("has to be a number or dynamic")?;
                self.threshold = ThresholdPolicy::Static(number);
            }
            "rebalance" => self.rebalance = switch?,
            "pull" => self.pull = switch?,
            "slots" => self.polling_slots = switch?,
            "locality" => self.locality = switch?,
            "successor" => match (switch, value.and_then(|value| value.parse::<f64>().ok())) {
                (Ok(true), _) => self.immediate_successor = Probability::ALWAYS,
                (Ok(false), _) => self.immediate_successor = Probability::NEVER,
                (_, Some(number)) if (0.0..=1.0).contains(&number) => {
                    self.immediate_successor = Probability::new(number);
                }
                _ => return Err("has to be on, off or a probability from 0 to 1"),
            },
            _ => {
                return Err(
                    "is none of fifo, lifo, priority, threshold, rebalance, pull, slots, locality, successor",
                );
            }
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Options {
        Options::of(Design::default())
    }
}

impl FromStr for Options {
    type Err = SchedError;

    /// Reads `DESIGN` or `DESIGN:PART,PART,…`: designs `tree`, `central`, `delegation`; parts `fifo`, `lifo`, `priority`,
    /// `threshold=NUMBER|dynamic`, `rebalance`, `pull`, `slots`, `locality` (each also `=on`, `=off`), `successor=PROBABILITY`.
    fn from_str(text: &str) -> Result<Options, SchedError> {
        let refuse = |part: &str, reason| SchedError::Options {
            description: text.to_owned(),
            part: part.to_owned(),
            reason,
        };
        let (design, parts) = text.split_once(':').unwrap_or((text, ""));
        let design = match design {
            "tree" => Design::Tree,
            "central" => Design::Central,
            "delegation" => Design::Delegation,
            _ => return Err(refuse(design, "is none of tree, central, delegation")),
        };
        let mut options = Options::of(design);
        for part in parts.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            options.set(part).map_err(|reason| refuse(part, reason))?;
        }
        Ok(options)
    }
}

impl fmt::Display for Options {
    /// Prints all parts, as [`Options::from_str`] reads them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let switch = |on| if on { "on" } else { "off" };
        let design = match self.design {
            Design::Tree => "tree",
            Design::Central => "central",
            Design::Delegation => "delegation",
        };
        write!(f, "{design}:{},threshold=", self.policy)?;
        match self.threshold {
            ThresholdPolicy::Static(number) => write!(f, "{number}")?,
            ThresholdPolicy::Dynamic => write!(f, "dynamic")?,
        }
        let (rebalance, pull) = (switch(self.rebalance), switch(self.pull));
        let (slots, locality) = (switch(self.polling_slots), switch(self.locality));
        let successor = self.immediate_successor.as_f64();
        write!(
            f,
            ",rebalance={rebalance},pull={pull},slots={slots},successor={successor},locality={locality}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions() {
        assert_eq!("tree".parse(), Ok(Options::default()));
        let options: Options = "central:lifo,slots=off,successor=0.5".parse().unwrap();
        assert_eq!((options.policy, options.polling_slots), (QueuePolicy::Lifo, false));
        assert_eq!(options.immediate_successor, Probability::new(0.5));
        let options: Options = "tree:dynamic,successor=on".parse().unwrap();
        assert_eq!(options.immediate_successor, Probability::ALWAYS);
        assert_eq!(options, "tree:threshold=dynamic,successor".parse().unwrap());
        for text in
            ["tree:fifo,threshold=20,rebalance=off,pull=off", "delegation:priority,successor=0.25", "central"]
        {
            let options: Options = text.parse().unwrap();
            assert_eq!(options.to_string().parse(), Ok(options));
        }
    }

    #[test]
    fn refusals_name_the_part() {
        for (text, part) in [
            ("bush", "bush"),
            ("tree:threshold=-1", "threshold=-1"),
            ("tree:lifo,rebalance=maybe", "rebalance=maybe"),
            ("central:successor=2", "successor=2"),
            ("central:stack", "stack"),
            ("tree:dynamic=on", "dynamic=on"),
            ("tree:fifo=on", "fifo=on"),
        ] {
            let error = text.parse::<Options>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{part}`")) && error.contains("central:priority"), "{error}");
        }
    }
}
