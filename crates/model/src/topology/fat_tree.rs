//! k-ary n-trees.

use super::Routes;

/// Switch w of level l (0 is next to the ranks) has n-1 digits of base k; it is linked to the switches of level l+1 whose
/// digits are w's but for digit l. Rank p is linked to switch p / k of level 0.
///
/// Links: those up first, by the level at which they start (ranks before level 0), then by node, then by the digit that
/// they choose; then those down in the same numbering, by the link that they are the reverse of in level, node above and
/// digit.
#[derive(Clone, Debug)]
pub(super) struct FatTree {
    pub arity: u32,
    pub levels: u32,
}

impl FatTree {
    fn power(&self, exponent: u32) -> u32 {
        self.arity.pow(exponent)
    }

    fn digit(&self, number: u32, place: u32) -> u32 {
        number / self.power(place) % self.arity
    }

    fn with_digit(&self, number: u32, place: u32, digit: u32) -> u32 {
        number - self.digit(number, place) * self.power(place) + digit * self.power(place)
    }

    fn switch(&self, level: u32, number: u32) -> u32 {
        self.ranks() + level * self.power(self.levels - 1) + number
    }

    /// From switch `lower` of a level to the one above that has `digit` there.
    fn up(&self, level: u32, lower: u32, digit: u32) -> u32 {
        (level + 1) * self.ranks() + lower * self.arity + digit
    }

    /// From switch `upper` of the level above to the one of `level` that has `digit` there.
    fn down(&self, level: u32, upper: u32, digit: u32) -> u32 {
        self.levels * self.ranks() + self.up(level, upper, digit)
    }
}

impl Routes for FatTree {
    fn ranks(&self) -> u32 {
        self.power(self.levels)
    }

    fn links(&self) -> u64 {
        2 * u64::from(self.levels) * u64::from(self.ranks())
    }

    fn ends(&self, link: u32) -> (u32, u32) {
        let ranks = self.ranks();
        let (is_down, link) =
            if link >= self.levels * ranks { (true, link - self.levels * ranks) } else { (false, link) };
        let (above, rest) = (link / ranks, link % ranks);
        let (start, digit) = (rest / self.arity, rest % self.arity);
        match above.checked_sub(1) {
            None if is_down => (self.switch(0, rest / self.arity), rest),
            None => (rest, self.switch(0, rest / self.arity)),
            Some(level) if is_down => {
                (self.switch(level + 1, start), self.switch(level, self.with_digit(start, level, digit)))
            }
            Some(level) => {
                (self.switch(level, start), self.switch(level + 1, self.with_digit(start, level, digit)))
            }
        }
    }

    /// Up to the lowest common ancestors, choosing at level l digit l of the destination, so that the ways to different
    /// ranks part as early as they can (D-mod-k; Zahavi, 2010); then down the only way there is.
    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        let (mut switch, target) = (from / self.arity, to / self.arity);
        let different = |&place: &u32| self.digit(switch, place) != self.digit(target, place);
        let top = (0..self.levels - 1).rev().find(different).map_or(0, |place| place + 1);
        links.push(from);
        for level in 0..top {
            let digit = self.digit(to, level);
            links.push(self.up(level, switch, digit));
            switch = self.with_digit(switch, level, digit);
        }
        for level in (0..top).rev() {
            let digit = self.digit(target, level);
            links.push(self.down(level, switch, digit));
            switch = self.with_digit(switch, level, digit);
        }
        links.push(self.levels * self.ranks() + to);
    }
}
