//! What went over the links of a network.

use crate::instrument::{Flight, Instrument};
use castell_base::Time;
use std::collections::BTreeMap;

/// What went over one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkLoad {
    /// How many messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// For how long it was taken.
    pub busy: Time,
    /// How long messages waited for it, all together.
    pub waited: Time,
}

/// The load of each link that any message went over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// By number of the link.
    pub loads: BTreeMap<u32, LinkLoad>,
}

impl Instrument for Links {
    fn passed(&mut self, message: &Flight, link: u32, from: Time, to: Time) {
        let load = self.loads.entry(link).or_default();
        load.messages += 1;
        load.bytes += message.bytes;
        load.busy += to - from;
    }

    fn contended(&mut self, _: &Flight, link: u32, from: Time, to: Time) {
        self.loads.entry(link).or_default().waited += to - from;
    }
}
