//! Words drawn: as a stage diagram, and as the table of a hyper-cuboid.

use super::{Fitted, Stage, Step};
use castell_base::Rank;

/// Drawings show so many ranks at most, the first ones, and say if there are more.
pub const DRAWN_RANKS_MAX: u32 = 64;

impl Fitted {
    /// A line a rank, a column a stage: `↔` with whom a rank exchanges, `→` to whom it sends, `←` from whom it gets.
    ///
    /// ```
    /// use castell_collectives::language::{Fitted, Word};
    /// let word: Word = "c2m2,a2,e2m2".parse()?;
    /// let diagram = Fitted::new(word, 3)?.diagram();
    /// assert_eq!(diagram, "rank  c2m2  a2   e2m2\n   0  → 1        ← 1\n   1  ← 0   ↔ 2  → 0\n   2        ↔ 1\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diagram(&self) -> String {
        let stages = &self.word().stages;
        let mut rows =
            vec![std::iter::once("rank".to_owned()).chain(stages.iter().map(Stage::to_string)).collect()];
        for rank in self.drawn_ranks() {
            let steps = self.steps(rank, 0);
            let cell = |stage| steps.iter().find(|step| step.stage == stage).map_or(String::new(), peers);
            rows.push(std::iter::once(format!("{:>4}", rank.0)).chain((0..stages.len()).map(cell)).collect());
        }
        table(&rows) + &self.rest()
    }

    /// A line a rank, with its coordinates in the hyper-cuboid whose dimensions are the stages: members of a group differ
    /// in the coordinate of that stage only (figures 5.12 to 5.14 of the thesis). Ranks that take no part in a stage
    /// have a dash.
    pub fn hyper_cuboid(&self) -> String {
        let extent = |stage: &Stage| match *stage {
            Stage::Factor { factor } | Stage::ReduceScatter { factor } | Stage::Allgather { factor } => {
                Some(factor)
            }
            Stage::Merge(merged) | Stage::InverseMerge(merged) => Some(merged.factor),
            Stage::Collapse(_) | Stage::Expand(_) => None,
        };
        let dimensions: Vec<(usize, u32)> = self
            .word()
            .stages
            .iter()
            .enumerate()
            .filter_map(|(index, stage)| Some((index, extent(stage)?)))
            .collect();
        let head = dimensions.iter().map(|&(index, _)| self.word().stages[index].to_string());
        let mut rows = vec![std::iter::once("rank".to_owned()).chain(head).collect::<Vec<_>>()];
        for rank in self.drawn_ranks() {
            let coordinate = |&(stage, factor): &(usize, u32)| {
                let working = self.working(stage, rank)?;
                Some((working / self.places[stage].mask % factor).to_string())
            };
            let cells = dimensions.iter().map(|dimension| coordinate(dimension).unwrap_or("-".into()));
            rows.push(std::iter::once(format!("{:>4}", rank.0)).chain(cells).collect());
        }
        table(&rows) + &self.rest()
    }

    /// Messages between the ranks that drawings show: stage, sender, receiver.
    pub fn drawn_messages(&self) -> Vec<(usize, Rank, Rank)> {
        let of_rank = |rank| {
            let steps = self.steps(rank, 0).into_iter();
            steps.flat_map(move |step| {
                let sends = step.sends.into_iter();
                sends.map(move |transfer| (step.stage, rank, transfer.peer)).collect::<Vec<_>>()
            })
        };
        let messages = self.drawn_ranks().flat_map(of_rank);
        messages.filter(|(_, _, to)| to.0 < DRAWN_RANKS_MAX).collect()
    }

    /// How many messages go from each block of ranks to each, stage by stage: row by row, by senders. Blocks are neighbours, as many in each
    /// but the last.
    ///
    /// # Panics
    /// There are no blocks.
    pub fn messages_by_block(&self, blocks: u32) -> Vec<Vec<u64>> {
        let size = self.ranks().div_ceil(blocks);
        let mut counts = vec![vec![0; (blocks * blocks) as usize]; self.word().stages.len()];
        for rank in (0..self.ranks()).map(Rank) {
            for step in self.steps(rank, 0) {
                for transfer in &step.sends {
                    let at = rank.0 / size * blocks + transfer.peer.0 / size;
                    counts[step.stage][at as usize] += 1;
                }
            }
        }
        counts
    }

    fn drawn_ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.ranks().min(DRAWN_RANKS_MAX)).map(Rank)
    }

    fn rest(&self) -> String {
        match self.ranks().saturating_sub(DRAWN_RANKS_MAX) {
            0 => String::new(),
            more => format!("… and {more} ranks more\n"),
        }
    }
}

/// With whom a rank has to do in a step.
fn peers(step: &Step) -> String {
    let sends: Vec<Rank> = step.sends.iter().map(|transfer| transfer.peer).collect();
    let receives: Vec<Rank> = step.receives.iter().map(|transfer| transfer.peer).collect();
    let list = |sign: &str, mut ranks: Vec<Rank>| {
        ranks.sort_unstable();
        let list: Vec<String> = ranks.iter().map(Rank::to_string).collect();
        if list.is_empty() { String::new() } else { format!("{sign} {}", list.join(" ")) }
    };
    let both = sends.iter().copied().filter(|rank| receives.contains(rank)).collect();
    let only =
        |these: &[Rank], others: &[Rank]| these.iter().copied().filter(|r| !others.contains(r)).collect();
    let parts = [list("↔", both), list("→", only(&sends, &receives)), list("←", only(&receives, &sends))];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Columns as wide as their widest cell, two spaces between.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text += "\n";
    }
    text
}
