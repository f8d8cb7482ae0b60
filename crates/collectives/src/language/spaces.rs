//! Which rank is which: working ranks behind collapses and beside merged ranks.

use super::{Fold, Merged};

/// Which real ranks stand aside where ranks are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Labelling {
    /// The first ones, as the thesis has it.
    #[default]
    RemaindersFirst,
    /// The ones just before the group that they join, so that partial results stand for consecutive ranks and the
    /// order of operands is kept.
    Neighbours,
}

/// A collapse on a number of working ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collapse {
    /// Working ranks before it.
    pub width: u32,
    /// Ranks that hold the same partial result are `mask` consecutive ones: a *value*.
    pub mask: u32,
    /// Values in blocks.
    pub values: u32,
    /// Values of a block.
    pub block: u32,
    /// Values of a block that go on.
    pub keep: u32,
}

impl Collapse {
    pub fn new(fold: Fold, width: u32, mask: u32) -> Collapse {
        let Fold { ranks, block, keep } = fold;
        Collapse { width, mask, values: ranks / mask, block, keep }
    }

    /// Working ranks behind it.
    pub fn inner_width(&self) -> u32 {
        self.width - self.values / self.block * (self.block - self.keep) * self.mask
    }

    /// The number that a working rank goes on under, if it goes on.
    pub fn inner(&self, outer: u32) -> Option<u32> {
        let (value, copy) = (outer / self.mask, outer % self.mask);
        let value = if value >= self.values {
            value - self.values / self.block * (self.block - self.keep)
        } else {
            let (block, place) = (value / self.block, value % self.block);
            match self.keep {
                1 if place == self.block - 1 => block,
                2 if place != 1 => 2 * block + place / 2,
                _ => return None,
            }
        };
        Some(value * self.mask + copy)
    }

    /// The number that a rank which goes on had before.
    pub fn outer(&self, inner: u32) -> u32 {
        let (value, copy) = (inner / self.mask, inner % self.mask);
        let kept = self.values / self.block * self.keep;
        let value = if value >= kept {
            value + self.values / self.block * (self.block - self.keep)
        } else if self.keep == 1 {
            value * self.block + self.block - 1
        } else {
            value / 2 * 3 + value % 2 * 2
        };
        value * self.mask + copy
    }

    /// The ranks of the block that `outer` is in, in order; `None` where it is in none.
    pub fn block(&self, outer: u32) -> Option<impl Iterator<Item = u32> + use<>> {
        let (value, copy) = (outer / self.mask, outer % self.mask);
        let (first, mask) = (value / self.block * self.block, self.mask);
        let block = first..first + self.block;
        (value < self.values).then(|| block.map(move |value| value * mask + copy))
    }
}

/// Who a rank is where ranks are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Works, under this number.
    Working(u32),
    /// Stands aside, under this number.
    Remainder(u32),
}

/// Real ranks beside which others stand aside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roles {
    pub merged: Merged,
    pub labelling: Labelling,
}

impl Roles {
    /// So many ranks stand aside for a group of the first stage.
    fn joining(&self, group: u32) -> u32 {
        let Merged { remainder, groups, .. } = self.merged;
        remainder / groups + u32::from(group < remainder % groups)
    }

    /// Real rank of the first one that belongs to a group, with [`Labelling::Neighbours`].
    fn start(&self, group: u32) -> u32 {
        let Merged { remainder, groups, factor } = self.merged;
        group * factor + remainder / groups * group + group.min(remainder % groups)
    }

    pub fn role(&self, real: u32) -> Role {
        let Merged { remainder, groups, factor } = self.merged;
        if self.labelling == Labelling::RemaindersFirst {
            return if real < remainder { Role::Remainder(real) } else { Role::Working(real - remainder) };
        }
        // Groups with one rank more come first.
        let (small, more) = (factor + remainder / groups, remainder % groups);
        let group = if real < more * (small + 1) {
            real / (small + 1)
        } else {
            more + (real - self.start(more)) / small
        };
        let place = real - self.start(group);
        match place.checked_sub(self.joining(group)) {
            Some(member) => Role::Working(group * factor + member),
            None => Role::Remainder(place * groups + group),
        }
    }

    pub fn real(&self, role: Role) -> u32 {
        let Merged { remainder, groups, factor } = self.merged;
        match (self.labelling, role) {
            (Labelling::RemaindersFirst, Role::Remainder(index)) => index,
            (Labelling::RemaindersFirst, Role::Working(rank)) => remainder + rank,
            (Labelling::Neighbours, Role::Remainder(index)) => self.start(index % groups) + index / groups,
            (Labelling::Neighbours, Role::Working(rank)) => {
                let group = rank / factor;
                self.start(group) + self.joining(group) + rank % factor
            }
        }
    }
}
