//! A word on a number of ranks: whether it fits, and if not, why.

use super::spaces::{Collapse, Labelling, Role, Roles};
use super::{Fold, Merged, Stage, Word};
use castell_base::Rank;

/// A word that fits its number of ranks: run stage by stage, it leaves the same result on all of them.
///
/// ```
/// use castell_collectives::language::{Fitted, Word};
/// let word: Word = "a4,a2".parse()?;
/// assert!(Fitted::new(word.clone(), 8).is_ok());
/// let error = Fitted::new(word, 16).unwrap_err().to_string();
/// assert!(error.contains("ranks 0 and 8 would disagree"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fitted {
    word: Word,
    ranks: u32,
    pub(super) roles: Option<Roles>,
    pub(super) collapses: Vec<Collapse>,
    pub(super) places: Vec<Place>,
}

/// Where in the whole a stage stands.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Working ranks before the stage.
    pub width: u32,
    /// Distance between members of a group: product of the factors before the stage (before the matching `r`).
    pub mask: u32,
    /// Which of the collapses its working ranks are behind.
    pub behind: Vec<usize>,
    /// For collapses and expands: which one.
    pub collapse: Option<usize>,
}

/// A word that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` does not fit {ranks} ranks: {problem}")]
pub struct Misfit {
    /// The word.
    pub word: Word,
    /// The number of ranks.
    pub ranks: u32,
    /// What is wrong.
    pub problem: Problem,
}

/// What keeps a word from fitting a number of ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Groups that don't come out even.
    #[error("{stage} cuts in groups of {factor} at distance {mask}, but {width} working ranks are no multiple of {}", *factor as u64 * *mask as u64)]
    Uneven {
        /// The stage.
        stage: Stage,
        /// Its factor.
        factor: u32,
        /// Product of the factors before it.
        mask: u32,
        /// Working ranks.
        width: u32,
    },
    /// Blocks that don't come out even, or reach too far.
    #[error("{stage} needs whole blocks of {block} among {width} working ranks at distance {mask}: a multiple of {}", *block as u64 * *mask as u64)]
    Blocks {
        /// The stage.
        stage: Stage,
        /// Ranks of a block.
        block: u32,
        /// Product of the factors before it.
        mask: u32,
        /// Working ranks.
        width: u32,
    },
    /// A stage that must stand elsewhere.
    #[error("{stage} can only be {place}")]
    Place {
        /// The stage.
        stage: Stage,
        /// Where it belongs.
        place: &'static str,
    },
    /// Ranks to be merged that are not counted right.
    #[error("{stage} is for {said} ranks; {}", possible(*letter, *remainder, *groups, *factor))]
    Count {
        /// The stage.
        stage: Stage,
        /// Ranks that it speaks of.
        said: u64,
        /// `m` or `n`.
        letter: char,
        /// What the number of ranks that stand aside has to be.
        remainder: u32,
        /// What the number of groups has to be; 0 if there can be none.
        groups: u32,
        /// Its factor.
        factor: u32,
    },
    /// An end without a beginning, or of something else.
    #[error("{stage} undoes nothing: {}", open.as_ref().map_or("nothing is open there".to_owned(), |open| format!("{open} has to be undone first")))]
    Unmatched {
        /// The stage.
        stage: Stage,
        /// The stage that would have to be undone there.
        open: Option<Stage>,
    },
    /// A beginning without an end.
    #[error("{stage} is never undone, so {lack}; add {} behind it", undoing(stage))]
    Open {
        /// The stage.
        stage: Stage,
        /// What goes wrong.
        lack: &'static str,
    },
    /// Not everything is reduced.
    #[error(
        "{before} {agree} consecutive working ranks agree and there are {width}, so ranks {first} and {second} would disagree; the factors have to multiply to {width}"
    )]
    Disagree {
        /// When: at the end, or before a stage.
        before: String,
        /// Ranks that agree.
        agree: u32,
        /// Working ranks.
        width: u32,
        /// A rank.
        first: u32,
        /// Another one with another result.
        second: u32,
    },
}

/// What a stage that merges ranks can be.
fn possible(letter: char, remainder: u32, groups: u32, factor: u32) -> String {
    match groups {
        0 => format!("the factor {factor} is too large"),
        _ => format!("with the factor {factor} it can be {letter}{remainder}g{groups}a{factor}"),
    }
}

/// What would undo a stage.
fn undoing(stage: &Stage) -> String {
    match *stage {
        Stage::Collapse(fold) => Stage::Expand(fold).to_string(),
        Stage::ReduceScatter { factor } => Stage::Allgather { factor }.to_string(),
        Stage::Merge(Merged { remainder, .. }) => format!("a last stage n{remainder}g…a…"),
        other => other.to_string(),
    }
}

impl Fitted {
    /// Fits a word to a number of ranks; ranks that are merged are the first ones.
    ///
    /// # Errors
    /// What does not fit, or where ranks would disagree.
    pub fn new(word: Word, ranks: u32) -> Result<Fitted, Misfit> {
        Fitted::with_labelling(word, ranks, Labelling::RemaindersFirst)
    }

    /// Fits a word to a number of ranks.
    ///
    /// # Errors
    /// What does not fit, or where ranks would disagree.
    pub fn with_labelling(word: Word, ranks: u32, labelling: Labelling) -> Result<Fitted, Misfit> {
        let mut fitting = Fitting::new(&word, ranks);
        match fitting.run(labelling) {
            Err(problem) => Err(Misfit { word, ranks, problem }),
            Ok(()) => {
                let Fitting { roles, collapses, places, .. } = fitting;
                Ok(Fitted { word, ranks, roles, collapses, places })
            }
        }
    }

    /// The word.
    pub fn word(&self) -> &Word {
        &self.word
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Whether every partial result stands for consecutive ranks and is combined in their order, so that the word
    /// serves operators that do not commute.
    pub fn keeps_order(&self) -> bool {
        self.roles.is_none_or(|roles| roles.labelling == Labelling::Neighbours)
    }

    /// The real rank of a working rank of a stage.
    pub(super) fn real(&self, stage: usize, working: u32) -> Rank {
        self.real_behind(&self.places[stage].behind, working)
    }

    /// The working rank that a real one is in a stage, if it is one.
    pub(super) fn working(&self, stage: usize, real: Rank) -> Option<u32> {
        let role = self.roles.map_or(Role::Working(real.0), |roles| roles.role(real.0));
        let Role::Working(working) = role else { return None };
        self.places[stage].behind.iter().try_fold(working, |rank, &index| self.collapses[index].inner(rank))
    }

    fn real_behind(&self, behind: &[usize], working: u32) -> Rank {
        let outer = |rank, &index: &usize| self.collapses[index].outer(rank);
        let working = behind.iter().rev().fold(working, outer);
        Rank(self.roles.map_or(working, |roles| roles.real(Role::Working(working))))
    }
}

/// A stage that something later has to undo.
enum Open {
    Collapse(usize),
    ReduceScatter { stage: usize, mask: u32 },
}

/// Goes through a word from its beginning.
struct Fitting<'a> {
    stages: &'a [Stage],
    ranks: u32,
    width: u32,
    mask: u32,
    open: Vec<Open>,
    behind: Vec<usize>,
    /// The stage of each collapse.
    stage_of: Vec<usize>,
    roles: Option<Roles>,
    collapses: Vec<Collapse>,
    places: Vec<Place>,
}

impl<'a> Fitting<'a> {
    fn new(word: &'a Word, ranks: u32) -> Fitting<'a> {
        Fitting {
            stages: &word.stages,
            ranks,
            width: ranks,
            mask: 1,
            open: Vec::new(),
            behind: Vec::new(),
            stage_of: Vec::new(),
            roles: None,
            collapses: Vec::new(),
            places: Vec::new(),
        }
    }

    fn run(&mut self, labelling: Labelling) -> Result<(), Problem> {
        for (index, &stage) in self.stages.iter().enumerate() {
            match stage {
                Stage::Factor { factor } => self.factor(stage, factor)?,
                Stage::ReduceScatter { factor } => {
                    self.open.push(Open::ReduceScatter { stage: index, mask: self.mask });
                    self.factor(stage, factor)?;
                }
                Stage::Allgather { .. } => self.allgather(stage)?,
                Stage::Collapse(fold) => self.collapse(index, stage, fold)?,
                Stage::Expand(fold) => self.expand(stage, fold)?,
                Stage::Merge(merged) => self.merge(index, stage, merged, labelling)?,
                Stage::InverseMerge(merged) => self.inverse_merge(index, stage, merged)?,
            }
        }
        match self.open.last() {
            Some(Open::Collapse(collapse)) => {
                let lack = "the ranks that it sends home never get the result";
                return Err(Problem::Open { stage: self.stages[self.stage_of[*collapse]], lack });
            }
            Some(Open::ReduceScatter { stage, .. }) => {
                let lack = "each rank is left with a part of the result";
                return Err(Problem::Open { stage: self.stages[*stage], lack });
            }
            None => {}
        }
        if let (Some(_), Some(&first)) = (self.roles, self.stages.first())
            && !matches!(self.stages.last(), Some(Stage::InverseMerge(_)))
        {
            let lack = "the ranks that stand aside never get the result";
            return Err(Problem::Open { stage: first, lack });
        }
        self.complete(|| "at the end".into())
    }

    /// Notes where a stage stands.
    fn place(&mut self, mask: u32, collapse: Option<usize>) {
        let (width, behind) = (self.width, self.behind.clone());
        self.places.push(Place { width, mask, behind, collapse });
    }

    fn factor(&mut self, stage: Stage, factor: u32) -> Result<(), Problem> {
        let (mask, width) = (self.mask, self.width);
        let product = u64::from(mask) * u64::from(factor);
        if !u64::from(width).is_multiple_of(product) {
            return Err(Problem::Uneven { stage, factor, mask, width });
        }
        self.place(mask, None);
        self.mask = product as u32;
        Ok(())
    }

    fn allgather(&mut self, stage: Stage) -> Result<(), Problem> {
        match self.open.last() {
            Some(&Open::ReduceScatter { stage: index, mask })
                if undoing(&self.stages[index]) == stage.to_string() =>
            {
                self.place(mask, None);
                self.open.pop();
                Ok(())
            }
            _ => Err(self.unmatched(stage)),
        }
    }

    fn unmatched(&self, stage: Stage) -> Problem {
        let open = self.open.last().map(|open| match *open {
            Open::Collapse(collapse) => self.stages[self.stage_of[collapse]],
            Open::ReduceScatter { stage, .. } => self.stages[stage],
        });
        Problem::Unmatched { stage, open }
    }

    fn collapse(&mut self, index: usize, stage: Stage, fold: Fold) -> Result<(), Problem> {
        let (mask, width, block) = (self.mask, self.width, fold.block);
        let whole = u64::from(fold.ranks).is_multiple_of(u64::from(block) * u64::from(mask));
        if !whole || fold.ranks > width {
            return Err(Problem::Blocks { stage, block, mask, width });
        }
        self.place(mask, Some(self.collapses.len()));
        let collapse = Collapse::new(fold, width, mask);
        self.open.push(Open::Collapse(self.collapses.len()));
        self.behind.push(self.collapses.len());
        self.collapses.push(collapse);
        self.stage_of.push(index);
        self.width = collapse.inner_width();
        Ok(())
    }

    fn expand(&mut self, stage: Stage, fold: Fold) -> Result<(), Problem> {
        let matching = self.open.last().and_then(|open| match open {
            Open::Collapse(collapse) => Some(*collapse),
            Open::ReduceScatter { .. } => None,
        });
        let matching =
            matching.filter(|&collapse| self.stages[self.stage_of[collapse]] == Stage::Collapse(fold));
        let Some(collapse) = matching else { return Err(self.unmatched(stage)) };
        self.complete(|| format!("before {stage}"))?;
        self.open.pop();
        self.behind.pop();
        self.width = self.collapses[collapse].width;
        self.place(self.collapses[collapse].mask, Some(collapse));
        self.mask = self.width;
        Ok(())
    }

    /// All working ranks have the same result.
    fn complete(&self, before: impl Fn() -> String) -> Result<(), Problem> {
        let (agree, width) = (self.mask, self.width);
        if agree == width {
            return Ok(());
        }
        let fitted = Fitted {
            word: Word::default(),
            ranks: self.ranks,
            roles: self.roles,
            collapses: self.collapses.clone(),
            places: Vec::new(),
        };
        let real = |working| fitted.real_behind(&self.behind, working).0;
        Err(Problem::Disagree { before: before(), agree, width, first: real(0), second: real(agree) })
    }

    fn merge(
        &mut self,
        index: usize,
        stage: Stage,
        merged: Merged,
        labelling: Labelling,
    ) -> Result<(), Problem> {
        if index > 0 {
            return Err(Problem::Place { stage, place: "the first stage" });
        }
        let others = &self.stages[1..];
        let mixed =
            others.iter().find(|other| !matches!(other, Stage::Factor { .. } | Stage::InverseMerge(_)));
        if let Some(&stage) = mixed {
            return Err(Problem::Place { stage, place: "in a word that merges no ranks" });
        }
        let Merged { remainder, groups, factor } = merged;
        let said = u64::from(remainder) + u64::from(groups) * u64::from(factor);
        if said != u64::from(self.ranks) {
            // As many ranks as possible work, if the number of those that stand aside cannot stay; one at least does.
            let rest =
                self.ranks.checked_sub(remainder).filter(|rest| *rest > 0 && rest.is_multiple_of(factor));
            let groups = rest.unwrap_or(self.ranks.saturating_sub(1)) / factor;
            let (letter, remainder) = ('m', self.ranks - groups * factor);
            return Err(Problem::Count { stage, said, letter, remainder, groups, factor });
        }
        self.roles = Some(Roles { merged, labelling });
        self.width = groups * factor;
        self.factor(stage, factor)
    }

    fn inverse_merge(&mut self, index: usize, stage: Stage, merged: Merged) -> Result<(), Problem> {
        let Some(Roles { merged: Merged { remainder, .. }, .. }) = self.roles else {
            return Err(Problem::Unmatched { stage, open: None });
        };
        if index + 1 < self.stages.len() {
            return Err(Problem::Place { stage, place: "the last stage" });
        }
        let (factor, groups) = (merged.factor, self.width / merged.factor);
        if (merged.remainder, merged.groups) != (remainder, groups) {
            let said = u64::from(merged.remainder) + u64::from(merged.groups) * u64::from(factor);
            return Err(Problem::Count { stage, said, letter: 'n', remainder, groups, factor });
        }
        self.factor(stage, factor)
    }
}
