//! One switch.

use super::Routes;

/// Links: from rank r to the switch r, from the switch to rank r `ranks + r`.
#[derive(Clone, Debug)]
pub(super) struct Star {
    pub ranks: u32,
}

impl Routes for Star {
    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn links(&self) -> u64 {
        2 * u64::from(self.ranks)
    }

    fn ends(&self, link: u32) -> (u32, u32) {
        let switch = self.ranks;
        if link < self.ranks { (link, switch) } else { (switch, link - self.ranks) }
    }

    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        links.extend([from, self.ranks + to]);
    }
}
