//! A program as a drawing.

use anyhow::bail;
use castell_base::{Rank, counted};
use castell_bench::bar::waiting;
use castell_goal::graph::{EdgeKind, Graph, Vertex};
use castell_goal::op::Op;
use castell_goal::program::Program;
use castell_goal::text;
use castell_trace::svg::{BOXES_MAX, GraphArrow, GraphBox, GraphPlot, write_graph};
use castell_trace::{Activity, Look};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

/// Above so many ranks, those that do the same share a line, as in timelines.
const RANKS_APART_MAX: u32 = 16;

/// Which ranks are drawn, and how.
#[derive(Clone, Copy, Default)]
pub struct Which {
    /// One only.
    pub only: Option<Rank>,
    /// Each on a line of its own.
    pub every_rank: bool,
}

/// Draws a program, or one rank of it.
pub fn draw(program: &Program, which: Which, title: &str, look: &Look, path: &Path) -> anyhow::Result<()> {
    let drawn = || waiting(format!("drawing {}", path.display()));
    let line = drawn();
    let plot = plot(program, which, title);
    drop(line);
    if plot.boxes.is_empty() {
        bail!("there is no operation to draw");
    }
    if plot.boxes.len() > BOXES_MAX {
        castell_host::say(&format!(
            "warning: {} operations, of which the first {BOXES_MAX} are drawn: --rank R draws one rank",
            plot.boxes.len()
        ));
    }
    let _line = drawn();
    let mut drawing = Vec::new();
    write_graph(&plot, look, &mut drawing)?;
    crate::picture::write(path, drawing)
}

fn plot(program: &Program, which: Which, title: &str) -> GraphPlot {
    let groups = groups(program, which);
    let mut plot = GraphPlot { title: title.to_owned(), ..GraphPlot::default() };
    // By rank, the number of the first box of its line.
    let mut first = HashMap::new();
    for group in &groups {
        let (graph, base) = (program.rank(group[0]), plot.boxes.len());
        first.extend(group.iter().map(|rank| (*rank, base)));
        plot.boxes.extend(graph.vertices().map(|vertex| GraphBox {
            rank: group[0],
            label: graph.label(vertex).unwrap_or_default().to_owned(),
            text: if group.len() > 1 { without_peer(graph, vertex) } else { told(graph, vertex) },
            activity: activity(graph.op(vertex)),
        }));
        plot.arrows.extend(graph.edges().map(|edge| {
            let kind = if edge.kind == EdgeKind::Start { GraphArrow::Start } else { GraphArrow::End };
            (base + edge.prerequisite.index(), base + edge.target.index(), kind)
        }));
    }
    let mut messages = 0;
    let firsts: HashSet<Rank> = groups.iter().map(|group| group[0]).collect();
    for ((source, send), (dest, recv)) in text::messages(program) {
        if let (Some(from), Some(to)) = (first.get(&source), first.get(&dest)) {
            messages += 1;
            // A line shows the messages that come to its first rank.
            if firsts.contains(&dest) {
                plot.arrows.push((from + send.index(), to + recv.index(), GraphArrow::Message));
            }
        }
    }
    let ranks = match which.only {
        Some(rank) => format!("rank {rank} of {}", program.num_ranks()),
        None => counted(program.num_ranks(), "rank"),
    };
    let operations: usize = groups.iter().map(|group| group.len() * program.rank(group[0]).len()).sum();
    plot.subtitle =
        format!("{ranks}, {}, {}", counted(operations, "operation"), counted(messages, "message"));
    if groups.iter().any(|group| group.len() > 1) {
        plot.subtitle +=
            "; ranks that do the same share a line, with the messages that come to the first of them";
    }
    plot.together = groups;
    plot
}

/// The ranks of each line.
fn groups(program: &Program, Which { only, every_rank }: Which) -> Vec<Vec<Rank>> {
    if let Some(only) = only {
        return vec![vec![only]];
    }
    let ranks = (0..program.num_ranks()).map(Rank);
    if every_rank || program.num_ranks() <= RANKS_APART_MAX {
        return ranks.map(|rank| vec![rank]).collect();
    }
    let mut groups: Vec<Vec<Rank>> = Vec::new();
    let mut known = HashMap::new();
    for rank in ranks {
        let group = *known.entry(deeds(program.rank(rank))).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(rank);
    }
    groups
}

/// What a rank does, whoever it does it with and whatever its operations are called: the same text for ranks that do the same.
fn deeds(graph: &Graph) -> String {
    let mut deeds = String::new();
    for vertex in graph.vertices() {
        let _ = writeln!(deeds, "{}", without_peer(graph, vertex));
    }
    for edge in graph.edges() {
        let _ = writeln!(deeds, "{edge:?}");
    }
    deeds
}

fn told(graph: &Graph, vertex: Vertex) -> String {
    text::Operation(graph.op(vertex), graph.traits(vertex)).to_string()
}

/// As GOAL text has it, without the number of the rank at the other end.
fn without_peer(graph: &Graph, vertex: Vertex) -> String {
    let mut is_peer = false;
    let text = told(graph, vertex);
    let words = text.split(' ').map(|word| {
        let shown = if is_peer { "…" } else { word };
        is_peer = matches!(word, "to" | "from");
        shown
    });
    words.collect::<Vec<_>>().join(" ")
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
        let all = plot(&program, Which::default(), "it");
        use GraphArrow::{End, Message, Start};
        assert_eq!(all.arrows, [(0, 1, End), (2, 3, Start), (1, 2, Message)]);
        assert_eq!(all.boxes[1].label, "b");
        assert_eq!(all.boxes[1].text, "send 8b to 1");
        assert_eq!(all.subtitle, "2 ranks, 4 operations, 1 message");
        assert_eq!(
            plot(&program, Which { only: Some(Rank(1)), every_rank: false }, "it").arrows,
            [(0, 1, Start)]
        );
    }

    #[test]
    fn ranks_that_do_the_same_share_a_line() {
        let rank = |rank: u32| {
            let (next, before) = ((rank + 1) % 20, (rank + 19) % 20);
            let more = if rank == 7 { "c: calc 9\n" } else { "" };
            format!("rank {rank} {{\na{rank}: send 8b to {next}\nb: recv 8b from {before}\n{more}}}\n")
        };
        let text: String = (0..20).map(rank).collect();
        let program = text::parse(format!("num_ranks 20\n{text}"), "").expect("a program");
        let folded = plot(&program, Which::default(), "it");
        assert_eq!(folded.boxes.len(), 5, "two of all, and three of rank 7");
        assert_eq!(folded.boxes[0].text, "send 8b to …");
        assert_eq!(folded.boxes[2].text, "send 8b to 8");
        assert_eq!((folded.together[0].len(), &folded.together[1]), (19, &vec![Rank(7)]));
        // From their neighbours: 19 to 0, and 6 to 7.
        assert_eq!(folded.arrows, [(0, 1, GraphArrow::Message), (0, 3, GraphArrow::Message)]);
        assert!(
            folded.subtitle.starts_with("20 ranks, 41 operations, 20 messages; ranks"),
            "{}",
            folded.subtitle
        );
        let whole = plot(&program, Which { every_rank: true, ..Which::default() }, "it");
        assert_eq!((whole.boxes.len(), whole.arrows.len()), (41, 20));
    }
}
