//! k-ary n-flies.

use super::Routes;

/// Between the ranks as senders and the ranks as receivers are n stages of switches; stage i replaces digit n-1-i (from
/// the least significant, base k) of where a message is by that of its receiver. (Dally and Towles, "Principles and
/// practices of interconnection networks", 2004, chapter 4.)
///
/// Links: before stage i the kⁿ links i·kⁿ + line, after the last one those to the ranks.
#[derive(Clone, Debug)]
pub(super) struct Butterfly {
    pub arity: u32,
    pub stages: u32,
}

impl Butterfly {
    /// The switch of a stage that a line leads into: the line without the digit that the stage replaces.
    fn switch(&self, stage: u32, line: u32) -> u32 {
        let place = self.arity.pow(self.stages - 1 - stage);
        let number = line / (place * self.arity) * place + line % place;
        self.ranks() + stage * self.arity.pow(self.stages - 1) + number
    }
}

impl Routes for Butterfly {
    fn ranks(&self) -> u32 {
        self.arity.pow(self.stages)
    }

    fn links(&self) -> u64 {
        u64::from(self.ranks()) * (u64::from(self.stages) + 1)
    }

    fn ends(&self, link: u32) -> (u32, u32) {
        let (stage, line) = (link / self.ranks(), link % self.ranks());
        let start = if stage == 0 { line } else { self.switch(stage - 1, line) };
        let end = if stage == self.stages { line } else { self.switch(stage, line) };
        (start, end)
    }

    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        let mut line = from;
        links.push(line);
        for stage in 0..self.stages {
            let place = self.arity.pow(self.stages - 1 - stage);
            line = line - line / place % self.arity * place + to / place % self.arity * place;
            links.push((stage + 1) * self.ranks() + line);
        }
    }
}
