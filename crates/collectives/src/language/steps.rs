//! What one rank does in each stage of a word: whom it sends what, from whom it gets what, and how it reduces.

use super::fit::{Fitted, Place};
use super::spaces::{Collapse, Role};
use super::{Merged, Stage};
use castell_base::Rank;

/// A run of elements of the vector that is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its first element.
    pub first: u64,
    /// Its number of elements.
    pub count: u64,
}

impl Segment {
    /// The `index`-th of `parts` parts, whose sizes differ by at most one element.
    pub fn part(self, index: u32, parts: u32) -> Segment {
        let bound = |index: u32| {
            let product = u128::from(self.count) * u128::from(index);
            (product / u128::from(parts)) as u64
        };
        Segment { first: self.first + bound(index), count: bound(index + 1) - bound(index) }
    }
}

/// A message of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The rank at its other end.
    pub peer: Rank,
    /// What it holds.
    pub segment: Segment,
}

/// Something that is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// What the rank itself holds.
    Own,
    /// What came with the stage's message of that number, counted in [`Step::receives`].
    Received(usize),
}

/// How the messages of a stage are reduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// What is reduced.
    pub segment: Segment,
    /// The operands, in ascending order of the ranks that they stand for; on all ranks in the same one.
    pub operands: Vec<Operand>,
}

/// One rank's part in one stage; the ranks that have none are not mentioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the stage in its word, from 0.
    pub stage: usize,
    /// Messages that leave, in order. They hold what the rank held before the stage.
    pub sends: Vec<Transfer>,
    /// Messages that arrive, in the order in which they are waited for.
    pub receives: Vec<Transfer>,
    /// How they are reduced; `None`: what arrives is the result already and takes its place.
    pub reduction: Option<Reduction>,
    /// What the rank holds behind the stage.
    pub held: Segment,
}

impl Fitted {
    /// What `rank` does with its vector of `count` elements, stage by stage. Messages without elements are left out
    /// unless there are no elements at all.
    ///
    /// # Panics
    /// Where there is no such rank.
    pub fn steps(&self, rank: Rank, count: u64) -> Vec<Step> {
        assert!(rank.0 < self.ranks(), "rank {rank} of {}", self.ranks());
        let role = self.roles.map_or(Role::Working(rank.0), |roles| roles.role(rank.0));
        let working = match role {
            Role::Working(rank) => Some(rank),
            Role::Remainder(_) => None,
        };
        let whole = Segment { first: 0, count };
        let mut walk = Walk { fitted: self, working, held: whole, outer: Vec::new(), wholes: Vec::new() };
        let mut steps = Vec::with_capacity(self.word().stages.len());
        for (index, (&stage, place)) in self.word().stages.iter().zip(&self.places).enumerate() {
            let (sends, receives) = (Vec::new(), Vec::new());
            let mut step = Step { stage: index, sends, receives, reduction: None, held: walk.held };
            match (role, stage) {
                (Role::Remainder(me), Stage::Merge(merged)) => walk.stand_aside(&mut step, me, merged),
                (Role::Remainder(me), Stage::InverseMerge(merged)) => walk.get_result(&mut step, me, merged),
                _ => walk.stage(&mut step, stage, place),
            }
            step.held = walk.held;
            if count > 0 {
                step.leave_out_empty();
            }
            if !(step.sends.is_empty() && step.receives.is_empty()) {
                steps.push(step);
            }
        }
        steps
    }
}

impl Fitted {
    /// Which of its innermost parts of the vector a rank is left with by the `r` stages of a word that has no others but
    /// their `g` stages; there is one for each rank.
    pub(crate) fn part(&self, rank: Rank) -> u32 {
        let factors = self.word().stages.iter().zip(&self.places).map_while(|(stage, place)| match *stage {
            Stage::ReduceScatter { factor } => Some((factor, place.mask)),
            _ => None,
        });
        factors.fold(0, |part, (factor, mask)| part * factor + rank.0 / mask % factor)
    }
}

impl Step {
    fn leave_out_empty(&mut self) {
        self.sends.retain(|transfer| transfer.segment.count > 0);
        if self.reduction.as_ref().is_some_and(|reduction| reduction.segment.count == 0) {
            self.reduction = None;
        }
        // A reduction has messages of one size only: all of them stay, or all go with it.
        self.receives.retain(|transfer| transfer.segment.count > 0);
    }
}

/// A rank on its way through a word.
struct Walk<'a> {
    fitted: &'a Fitted,
    /// Its number among the working ranks; `None`: it is not among them.
    working: Option<u32>,
    /// What it holds.
    held: Segment,
    /// Its number (if any) before each collapse that is open.
    outer: Vec<Option<u32>>,
    /// What it held before each reduce-scatter that is open.
    wholes: Vec<Segment>,
}

impl Walk<'_> {
    fn stage(&mut self, step: &mut Step, stage: Stage, place: &Place) {
        match stage {
            Stage::Collapse(_) | Stage::Expand(_) => {
                let collapse = self.fitted.collapses[place.collapse.expect("a collapse has a number")];
                if let Stage::Collapse(_) = stage {
                    self.collapse(step, &collapse);
                } else {
                    self.expand(step, &collapse);
                }
            }
            Stage::Factor { factor } => self.group(step, factor, place, None),
            Stage::Merge(merged) => self.group(step, merged.factor, place, Some(merged)),
            Stage::InverseMerge(merged) => {
                self.group(step, merged.factor, place, None);
                let Some(me) = self.working else { return };
                for aside in (me % merged.groups..merged.remainder).step_by(merged.groups as usize) {
                    step.sends.push(self.to(self.aside(aside), self.held));
                }
            }
            Stage::ReduceScatter { factor } => self.reduce_scatter(step, factor, place),
            Stage::Allgather { factor } => self.allgather(step, factor, place),
        }
    }

    fn to(&self, peer: Rank, segment: Segment) -> Transfer {
        Transfer { peer, segment }
    }

    /// The real rank of one that stands aside.
    fn aside(&self, index: u32) -> Rank {
        let roles = self.fitted.roles.expect("a word that merges ranks");
        Rank(roles.real(Role::Remainder(index)))
    }

    /// Everybody of the group to everybody; with `merged`, those that stand aside for the group come in, too.
    fn group(&self, step: &mut Step, factor: u32, place: &Place, merged: Option<Merged>) {
        let Some(me) = self.working else { return };
        let group = Group::of(me, factor, place.mask);
        for distance in 1..factor {
            let peer = self.fitted.real(step.stage, group.member((group.own + distance) % factor));
            step.sends.push(self.to(peer, self.held));
            let peer = self.fitted.real(step.stage, group.member((group.own + factor - distance) % factor));
            step.receives.push(self.to(peer, self.held));
        }
        let mut operands = Vec::with_capacity(factor as usize);
        if let Some(Merged { remainder, groups, .. }) = merged {
            for aside in (me / factor..remainder).step_by(groups as usize) {
                operands.push(Operand::Received(step.receives.len()));
                step.receives.push(self.to(self.aside(aside), self.held));
            }
        }
        operands.extend(group.operands());
        step.reduction = Some(Reduction { segment: self.held, operands });
    }

    fn stand_aside(&self, step: &mut Step, me: u32, merged: Merged) {
        let first = me % merged.groups * merged.factor;
        for member in first..first + merged.factor {
            step.sends.push(self.to(self.fitted.real(step.stage, member), self.held));
        }
    }

    fn get_result(&self, step: &mut Step, me: u32, merged: Merged) {
        let mask = merged.groups;
        for member in (me % mask..mask * merged.factor).step_by(mask as usize) {
            step.receives.push(self.to(self.fitted.real(step.stage, member), self.held));
        }
        let operands = (0..step.receives.len()).map(Operand::Received).collect();
        step.reduction = Some(Reduction { segment: self.held, operands });
    }

    fn reduce_scatter(&mut self, step: &mut Step, factor: u32, place: &Place) {
        self.wholes.push(self.held);
        let Some(me) = self.working else { return };
        let group = Group::of(me, factor, place.mask);
        let mine = self.held.part(group.own, factor);
        for distance in 1..factor {
            let (to, from) = ((group.own + distance) % factor, (group.own + factor - distance) % factor);
            let peer = self.fitted.real(step.stage, group.member(to));
            step.sends.push(self.to(peer, self.held.part(to, factor)));
            step.receives.push(self.to(self.fitted.real(step.stage, group.member(from)), mine));
        }
        step.reduction = Some(Reduction { segment: mine, operands: group.operands().collect() });
        self.held = mine;
    }

    fn allgather(&mut self, step: &mut Step, factor: u32, place: &Place) {
        let whole = self.wholes.pop().expect("an allgather undoes a reduce-scatter");
        let Some(me) = self.working else { return };
        let group = Group::of(me, factor, place.mask);
        for distance in 1..factor {
            let (to, from) = ((group.own + distance) % factor, (group.own + factor - distance) % factor);
            step.sends.push(self.to(self.fitted.real(step.stage, group.member(to)), self.held));
            let peer = self.fitted.real(step.stage, group.member(from));
            step.receives.push(self.to(peer, whole.part(from, factor)));
        }
        self.held = whole;
    }

    /// The ranks of this one's block, and its place among them; `None`: it is in no block.
    fn block(&self, collapse: &Collapse, stage: usize, me: u32) -> Option<(Vec<Rank>, usize)> {
        let members: Vec<u32> = collapse.block(me)?.collect();
        let place = members.iter().position(|&member| member == me).expect("a rank is in its own block");
        Some((members.into_iter().map(|member| self.fitted.real(stage, member)).collect(), place))
    }

    fn collapse(&mut self, step: &mut Step, collapse: &Collapse) {
        let me = self.working;
        self.outer.push(me);
        let Some(me) = me else { return };
        self.working = collapse.inner(me);
        let Some((members, place)) = self.block(collapse, step.stage, me) else { return };
        let (own, last) = (Operand::Own, members.len() - 1);
        let (segment, operands) = match (collapse.keep, place) {
            (2, 1) => {
                step.sends.push(self.to(members[0], self.held.part(0, 2)));
                return step.sends.push(self.to(members[2], self.held.part(1, 2)));
            }
            (2, _) => {
                let half = self.held.part(place as u32 / 2, 2);
                step.receives.push(self.to(members[1], half));
                let received = Operand::Received(0);
                (half, if place == 0 { vec![own, received] } else { vec![received, own] })
            }
            (_, place) if place < last => return step.sends.push(self.to(members[last], self.held)),
            _ => {
                step.receives.extend(members[..last].iter().map(|&member| self.to(member, self.held)));
                (self.held, (0..last).map(Operand::Received).chain([own]).collect())
            }
        };
        step.reduction = Some(Reduction { segment, operands });
    }

    fn expand(&mut self, step: &mut Step, collapse: &Collapse) {
        self.working = self.outer.pop().expect("an expand undoes a collapse");
        let Some(me) = self.working else { return };
        let Some((members, place)) = self.block(collapse, step.stage, me) else { return };
        let last = members.len() - 1;
        match (collapse.keep, place) {
            (2, 1) => {
                step.receives.push(self.to(members[0], self.held.part(0, 2)));
                step.receives.push(self.to(members[2], self.held.part(1, 2)));
            }
            (2, _) => step.sends.push(self.to(members[1], self.held.part(place as u32 / 2, 2))),
            (_, place) if place < last => step.receives.push(self.to(members[last], self.held)),
            _ => step.sends.extend(members[..last].iter().map(|&member| self.to(member, self.held))),
        }
    }
}

/// The group of a working rank.
struct Group {
    first: u32,
    mask: u32,
    factor: u32,
    /// The rank's place in it.
    own: u32,
}

impl Group {
    fn of(rank: u32, factor: u32, mask: u32) -> Group {
        let base = factor * mask;
        Group { first: rank / base * base + rank % mask, mask, factor, own: rank % base / mask }
    }

    fn member(&self, place: u32) -> u32 {
        self.first + place * self.mask
    }

    /// Its members' partial results in their order, where the i-th message comes from the i + 1-th member before.
    fn operands(&self) -> impl Iterator<Item = Operand> {
        (0..self.factor).map(|place| match (self.own + self.factor - place) % self.factor {
            0 => Operand::Own,
            distance => Operand::Received(distance as usize - 1),
        })
    }
}
