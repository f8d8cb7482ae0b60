//! A program as a drawing.

use anyhow::bail;
use castell_base::Rank;
use castell_goal::graph::EdgeKind;
use castell_goal::op::Op;
use castell_goal::program::Program;
use castell_goal::text;
use castell_trace::svg::{BOXES_MAX, GraphArrow, GraphBox, GraphPlot, write_graph};
use castell_trace::{Activity, Look};
use std::path::Path;

/// Draws a program, or one rank of it.
pub fn draw(
    program: &Program,
    only: Option<Rank>,
    title: &str,
    look: &Look,
    path: &Path,
) -> anyhow::Result<()> {
    let plot = plot(program, only, title);
    if plot.boxes.is_empty() {
        bail!("there is no operation to draw");
    }
    if plot.boxes.len() > BOXES_MAX {
        castell_host::say(&format!(
            "warning: {} operations, of which the first {BOXES_MAX} are drawn: --rank R draws one rank",
            plot.boxes.len()
        ));
    }
    let mut drawing = Vec::new();
    write_graph(&plot, look, &mut drawing)?;
    crate::picture::write(path, drawing)
}

fn plot(program: &Program, only: Option<Rank>, title: &str) -> GraphPlot {
    let shown = |rank: Rank| only.is_none_or(|only| only == rank);
    let mut plot = GraphPlot { title: title.to_owned(), ..GraphPlot::default() };
    // By rank, the number of its first box.
    let mut first = std::collections::HashMap::new();
    for (rank, graph) in program.graphs().filter(|&(rank, _)| shown(rank)) {
        let base = plot.boxes.len();
        first.insert(rank, base);
        plot.boxes.extend(graph.vertices().map(|vertex| GraphBox {
            rank,
            label: graph.label(vertex).unwrap_or_default().to_owned(),
            text: text::Operation(graph.op(vertex), graph.traits(vertex)).to_string(),
            activity: activity(graph.op(vertex)),
        }));
        plot.arrows.extend(graph.edges().map(|edge| {
            let kind = if edge.kind == EdgeKind::Start { GraphArrow::Start } else { GraphArrow::End };
            (base + edge.prerequisite.index(), base + edge.target.index(), kind)
        }));
    }
    let (mut messages, operations) = (0, plot.boxes.len());
    for ((source, send), (dest, recv)) in text::messages(program) {
        if let (Some(from), Some(to)) = (first.get(&source), first.get(&dest)) {
            plot.arrows.push((from + send.index(), to + recv.index(), GraphArrow::Message));
            messages += 1;
        }
    }
    let ranks = match only {
        Some(rank) => format!("rank {rank} of {}", program.num_ranks()),
        None => format!("{} ranks", program.num_ranks()),
    };
    let plural = if messages == 1 { "" } else { "s" };
    plot.subtitle = format!("{ranks}, {operations} operations, {messages} message{plural}");
    plot
}

fn activity(op: Op<'_>) -> Activity {
    match op {
        Op::Send { .. } | Op::Put { .. } => Activity::Send,
        Op::Recv { .. } | Op::Get { .. } => Activity::Recv,
        Op::Calc { .. } | Op::Sleep { .. } | Op::Call { .. } => Activity::Compute,
        _ => Activity::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_boxes_and_arrows() {
        let text = "num_ranks 2\nrank 0 {\na: calc 5\nb: send 8b to 1\nb requires a\n}\nrank 1 {\nc: recv 8b from 0\nd: calc 1\nd irequires c\n}";
        let program = text::parse(text, "").expect("a program");
        let all = plot(&program, None, "it");
        use GraphArrow::{End, Message, Start};
        assert_eq!(all.arrows, [(0, 1, End), (2, 3, Start), (1, 2, Message)]);
        assert_eq!(all.boxes[1].label, "b");
        assert_eq!(all.boxes[1].text, "send 8b to 1");
        assert_eq!(all.subtitle, "2 ranks, 4 operations, 1 message");
        assert_eq!(plot(&program, Some(Rank(1)), "it").arrows, [(0, 1, Start)]);
    }
}
