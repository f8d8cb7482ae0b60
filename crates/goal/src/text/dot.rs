//! A program as a drawing for Graphviz.

use super::print::Operation;
use crate::graph::{EdgeKind, Vertex};
use crate::op::Op;
use crate::program::Program;
use castell_base::Rank;
use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Write};

/// Writes a program in Graphviz' language: a box a rank, an arrow a dependency (dashed: on the start only), and an
/// open arrow for each message whose receive names source and tag. `only`: one rank instead of all.
///
/// # Errors
/// Those of `out`.
///
/// ```
/// let program = castell_goal::text::parse("num_ranks 1\nrank 0 {\na: calc 5\nb: calc 7\nb requires a\n}", "").unwrap();
/// let mut drawing = String::new();
/// castell_goal::text::print_dot(&program, None, &mut drawing)?;
/// assert!(drawing.contains(r#"r0v0 [label="a\ncalc 5"];"#));
/// assert!(drawing.contains("r0v0 -> r0v1;"));
/// # Ok::<(), std::fmt::Error>(())
/// ```
pub fn print_dot(program: &Program, only: Option<Rank>, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "digraph goal {{")?;
    writeln!(out, "  node [shape=box, style=rounded, fontname=\"sans-serif\"];")?;
    let shown = |rank: Rank| only.is_none_or(|only| only == rank);
    for (rank, graph) in program.graphs().filter(|&(rank, _)| shown(rank)) {
        writeln!(out, "  subgraph cluster_{rank} {{\n    label=\"rank {rank}\";")?;
        for vertex in graph.vertices() {
            let operation = Operation(graph.op(vertex), graph.traits(vertex));
            write!(out, "    r{rank}v{} [label=\"", vertex.0)?;
            if let Some(label) = graph.label(vertex) {
                write!(out, "{}\\n", label.replace('\\', "\\\\").replace('"', "\\\""))?;
            }
            writeln!(out, "{operation}\"];")?;
        }
        writeln!(out, "  }}")?;
        for edge in graph.edges() {
            let style = if edge.kind == EdgeKind::Start { " [style=dashed]" } else { "" };
            writeln!(out, "  r{rank}v{} -> r{rank}v{}{style};", edge.prerequisite.0, edge.target.0)?;
        }
    }
    for ((source, send), (dest, recv)) in messages(program) {
        if shown(source) && shown(dest) {
            let (send, recv) = (send.0, recv.0);
            writeln!(
                out,
                "  r{source}v{send} -> r{dest}v{recv} [arrowhead=empty, color=steelblue, constraint=false];"
            )?;
        }
    }
    writeln!(out, "}}")
}

/// Sends with the receives that take them, by source, destination and tag, in order of addition; without receives from any source or of any
/// tag.
pub fn messages(program: &Program) -> Vec<((Rank, Vertex), (Rank, Vertex))> {
    let mut sent: HashMap<_, VecDeque<Vertex>> = HashMap::new();
    for (rank, graph) in program.graphs() {
        for vertex in graph.vertices() {
            if let Op::Send { dest, tag, .. } = graph.op(vertex) {
                sent.entry((rank, dest, tag)).or_default().push_back(vertex);
            }
        }
    }
    let mut messages = Vec::new();
    for (rank, graph) in program.graphs() {
        for vertex in graph.vertices() {
            if let Op::Recv { source: Some(source), tag: Some(tag), .. } = graph.op(vertex)
                && let Some(send) = sent.get_mut(&(source, rank, tag)).and_then(VecDeque::pop_front)
            {
                messages.push(((source, send), (rank, vertex)));
            }
        }
    }
    messages
}
