//! How far what runs has come.

use super::Machine;
use crate::node::ResourceId;
use castell_base::Time;

/// What runs on which resource, and how much of it is left.
pub(super) struct Progress {
    running: Vec<Option<Step>>,
    /// Cores that a resource uses, of those that are shared.
    uses: Vec<u32>,
    cores: Option<u32>,
    now: Time,
}

#[derive(Clone, Copy)]
struct Step {
    job: usize,
    from: Time,
    /// Of the time that it takes alone.
    left: Time,
}

impl Progress {
    pub fn new(machine: &Machine) -> Progress {
        let uses: Vec<_> = machine.resources.iter().map(|resource| resource.cores).collect();
        Progress { running: vec![None; uses.len()], uses, cores: machine.cores, now: Time::ZERO }
    }

    pub fn start(&mut self, at: Time, resource: ResourceId, job: usize, takes: Time) {
        let before = self.running[resource.0].replace(Step { job, from: at, left: takes });
        assert!(before.is_none(), "resource {} runs two at once", resource.0);
    }

    /// What ran is over: whose it was, and since when it ran.
    pub fn end(&mut self, resource: ResourceId) -> (usize, Time) {
        let step = self.running[resource.0].take().expect("something runs there");
        (step.job, step.from)
    }

    /// The next end, if nothing starts or ends before; of several at once, the first resource's.
    pub fn next_end(&self) -> Option<(Time, ResourceId)> {
        let ends = self.running.iter().enumerate().filter_map(|(at, step)| {
            let (asked, there) = self.share(at);
            let takes = (u128::from((*step)?.left.0) * asked).div_ceil(there);
            Some((self.now + Time(u64::try_from(takes).unwrap_or(u64::MAX)), ResourceId(at)))
        });
        ends.min()
    }

    /// Time passes.
    pub fn go_on(&mut self, now: Time) {
        let passed = u128::from((now - self.now).0);
        for at in 0..self.running.len() {
            let (asked, there) = self.share(at);
            if let Some(step) = &mut self.running[at] {
                step.left = step.left - Time((passed * there / asked) as u64);
            }
        }
        self.now = now;
    }

    /// How many cores are asked for, and how many there are for that: in that proportion is a resource slower than alone.
    fn share(&self, resource: usize) -> (u128, u128) {
        let Some(cores) = self.cores.filter(|_| self.uses[resource] > 0) else { return (1, 1) };
        let asked: u32 = self
            .running
            .iter()
            .zip(&self.uses)
            .filter(|(step, _)| step.is_some())
            .map(|(_, uses)| uses)
            .sum();
        if asked > cores { (asked.into(), cores.into()) } else { (1, 1) }
    }
}
