//! Words drawn: as a stage diagram in text or SVG, and as the table of a hyper-cuboid.

use super::{Fitted, Stage, Step};
use castell_base::Rank;
use std::fmt::Write;

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

    /// The stage diagram as an SVG drawing that suits light and dark pages: a line a rank, an arrow a message.
    pub fn svg(&self) -> String {
        let stages = &self.word().stages;
        let ranks: Vec<Rank> = self.drawn_ranks().collect();
        let (width, height) = (70 + STAGE_WIDTH * stages.len().max(1), 76 + LINE_HEIGHT * ranks.len());
        let title = format!("{} on {} ranks", self.word(), self.ranks());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{title}</title>\n{STYLE}\
             <text class=\"title\" x=\"12\" y=\"22\">{title}</text>\n"
        );
        let y = |rank: Rank| 66 + LINE_HEIGHT * rank.index();
        for &rank in &ranks {
            let (line, right) = (y(rank), width - 12);
            let _ = writeln!(
                svg,
                "<text x=\"42\" y=\"{}\" text-anchor=\"end\">{rank}</text>\
                 <line class=\"rank\" x1=\"52\" y1=\"{line}\" x2=\"{right}\" y2=\"{line}\"/>",
                line + 4
            );
        }
        for (index, stage) in stages.iter().enumerate() {
            let left = 60 + STAGE_WIDTH * index;
            let _ = writeln!(svg, "<text class=\"stage\" x=\"{left}\" y=\"44\">{stage}</text>");
        }
        for &rank in &ranks {
            for step in self.steps(rank, 0) {
                let left = 60 + STAGE_WIDTH * step.stage;
                for transfer in step.sends.iter().filter(|transfer| transfer.peer.index() < ranks.len()) {
                    let (from, to, right) = (y(rank), y(transfer.peer), left + STAGE_WIDTH - 22);
                    let _ = writeln!(
                        svg,
                        "<line class=\"message\" x1=\"{left}\" y1=\"{from}\" x2=\"{right}\" y2=\"{to}\" \
                         marker-end=\"url(#arrow)\"/>"
                    );
                }
            }
        }
        if self.ranks() > DRAWN_RANKS_MAX {
            let _ = writeln!(svg, "<text x=\"12\" y=\"{}\">{}</text>", height - 4, self.rest().trim());
        }
        svg + "</svg>\n"
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

const STAGE_WIDTH: usize = 120;
const LINE_HEIGHT: usize = 22;
const STYLE: &str = "<style>svg{font:12px system-ui,sans-serif;background:#fff;color:#222}\
text{fill:currentColor}.title{font-size:15px;font-weight:600}.stage{font-weight:600}\
.rank{stroke:#999;stroke-width:1}.message{stroke:#2266bb;stroke-width:1.3}marker path{fill:#2266bb}\
@media(prefers-color-scheme:dark){svg{background:#1b1d21;color:#ddd}.rank{stroke:#666}\
.message{stroke:#7fb2f0}marker path{fill:#7fb2f0}}</style>\n\
<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n";

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
