//! A collective operation in stages: a line a rank, an arrow a message.

use super::arrows;
use super::look::{Head, Look};
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// Who sends to whom in which stage.
#[derive(Clone, Debug, Default)]
pub struct StagePlot {
    /// What is shown.
    pub title: String,
    /// How large it is.
    pub subtitle: String,
    /// So many ranks have a line, the first ones.
    pub ranks: usize,
    /// Names of the stages.
    pub stages: Vec<String>,
    /// Stage, sender and receiver of each message; what goes to or comes from a rank without a line is not drawn.
    pub messages: Vec<(usize, usize, usize)>,
}

const STAGE: f64 = 120.0;
const LINE: f64 = 22.0;
const HEAD: f64 = 96.0;
const LEFT: f64 = 60.0;
const MARGIN: f64 = 20.0;
/// So that short schedules have room for their titles.
const WIDTH_MIN: f64 = 360.0;

/// Writes the stages as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_stages(plot: &StagePlot, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let width = (LEFT + STAGE * plot.stages.len().max(1) as f64 + MARGIN).max(WIDTH_MIN);
    let height = HEAD + LINE * plot.ranks as f64;
    let css = ".arrow{stroke-width:1.2}".to_owned();
    look.open(
        (width, height),
        Head { title: &plot.title, subtitle: &plot.subtitle, left: MARGIN, css },
        out,
    )?;
    writeln!(out, "{}", arrows::marker())?;
    let y = |rank: usize| HEAD + LINE * rank as f64;
    for rank in 0..plot.ranks {
        let (line, right) = (Px(y(rank)), Px(width - MARGIN));
        if rank % 2 == 1 {
            let top = Px(y(rank) - LINE / 2.0);
            writeln!(
                out,
                "<rect class=\"stripe\" y=\"{top}\" width=\"{}\" height=\"{}\"/>",
                Px(width),
                Px(LINE)
            )?;
        }
        writeln!(
            out,
            "<text class=\"end\" x=\"{}\" y=\"{}\">{rank}</text><path class=\"base\" d=\"M{} {line}H{right}\"/>",
            Px(LEFT - 16.0),
            Px(y(rank) + 4.0),
            Px(LEFT - 8.0)
        )?;
    }
    for (stage, name) in plot.stages.iter().enumerate() {
        let (x, y) = (Px(LEFT + STAGE * stage as f64), Px(HEAD - 22.0));
        writeln!(out, "<text x=\"{x}\" y=\"{y}\">{}</text>", Escaped(name))?;
    }
    for &(stage, from, to) in plot.messages.iter().filter(|(_, from, to)| *from.max(to) < plot.ranks) {
        let x = LEFT + STAGE * stage as f64;
        writeln!(
            out,
            "<path class=\"arrow\" d=\"M{} {}L{} {}\" marker-end=\"url(#head)\"/>",
            Px(x),
            Px(y(from)),
            Px(x + STAGE - 22.0),
            Px(y(to))
        )?;
    }
    writeln!(out, "</svg>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_ranks_that_have_a_line_are_arrows() {
        let plot = StagePlot {
            title: "a2 < b".into(),
            ranks: 2,
            stages: vec!["a2".into()],
            messages: vec![(0, 0, 1), (0, 1, 0), (0, 1, 2)],
            ..StagePlot::default()
        };
        let mut out = Vec::new();
        let look = Look { font: Some("Serif".into()), title: Some("<own>".into()), ..Look::default() };
        write_stages(&plot, &look, &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text.matches("class=\"arrow\"").count(), 2, "{text}");
        assert!(text.contains(">&lt;own&gt;</text>") && text.contains("font-family:'Serif',"), "{text}");
        assert!(text.ends_with("</svg>\n") && !text.contains("a2 &lt; b"), "{text}");
    }
}
