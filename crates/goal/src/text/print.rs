//! A program as GOAL text.

use super::labels::{Definition, Labels};
use super::parser::is_label;
use crate::graph::{Edge, EdgeKind, Graph, Vertex};
use crate::op::{Buffer, Memory, Op, Operator, Place, Traits};
use crate::program::Program;
use castell_base::Rank;
use std::collections::HashSet;
use std::fmt::{self, Write};

/// Writes a program as text that [`parse`](super::parse) reads back as the same program.
///
/// Operations stand in order of addition; a dependency stands as early as both its labels allow without changing the
/// order of dependencies. A vertex without a label that has a dependency gets one that no other has, and so does a
/// vertex whose label could not stand in a text (not a word, reserved, or used twice). Ranks at the end that have no
/// graph are left out.
///
/// # Errors
/// Those of `out`.
///
/// ```
/// let text = "num_ranks 1\n\nrank 0 {\nrecv 8b from -1\na: calc 5\nb: calc 7 cpu 2\nb requires a\n}\n";
/// let program = castell_goal::text::parse(text, "").unwrap();
/// let mut printed = String::new();
/// castell_goal::text::print(&program, &mut printed)?;
/// assert_eq!(printed, text);
/// # Ok::<(), std::fmt::Error>(())
/// ```
pub fn print(program: &Program, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "num_ranks {}", program.num_ranks())?;
    for (rank, graph) in program.graphs() {
        print_rank(rank, graph, out)?;
    }
    Ok(())
}

/// Writes one rank's block, after an empty line.
///
/// # Errors
/// Those of `out`.
pub fn print_rank(rank: Rank, graph: &Graph, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "\nrank {rank} {{")?;
    if graph.scratchpad_bytes() > 0 {
        writeln!(out, "scratchpad {}b", graph.scratchpad_bytes())?;
    }
    let printer = Printer::new(graph);
    let mut printed = 0;
    let mut text = String::with_capacity(PIECE_BYTES + 256);
    for edge in graph.edges() {
        let needed = edge.prerequisite.0.max(edge.target.0) + 1;
        for vertex in printed..needed {
            printer.push_vertex(Vertex(vertex), &mut text)?;
        }
        printed = printed.max(needed);
        printer.push_edge(edge, &mut text);
        hand_on(&mut text, PIECE_BYTES, out)?;
    }
    for vertex in printed..graph.len() as u32 {
        printer.push_vertex(Vertex(vertex), &mut text)?;
        hand_on(&mut text, PIECE_BYTES, out)?;
    }
    text.push_str("}\n");
    hand_on(&mut text, 0, out)
}

/// Text is handed on in pieces of about this size.
const PIECE_BYTES: usize = 16 << 10;

/// Writes `text` and empties it, if there is more than `most` of it.
fn hand_on(text: &mut String, most: usize, out: &mut impl Write) -> fmt::Result {
    if text.len() > most {
        out.write_str(text)?;
        text.clear();
    }
    Ok(())
}

/// Writes the vertices and edges of one graph, and knows the label of each vertex that has or needs one.
struct Printer<'a> {
    graph: &'a Graph,
    /// What generated labels begin with.
    prefix: String,
    /// Vertices without a usable label of their own, where they have a dependency.
    generated: Vec<bool>,
    /// Vertices whose own label cannot stand in a text.
    unusable: HashSet<Vertex>,
}

impl<'a> Printer<'a> {
    /// Chooses labels.
    fn new(graph: &'a Graph) -> Printer<'a> {
        let mut prefix = String::from("v");
        let (label_text, mut unusable) = (graph.label_text(), HashSet::new());
        let mut seen = Labels::for_many(label_text.as_bytes(), graph.label_places().count());
        for (vertex, start, end) in graph.label_places() {
            let label = &label_text[start..end];
            let definition = Definition { vertex: vertex.0, line: 0 };
            if !is_label(label) || seen.define(seen.label(start, end), definition).is_some() {
                unusable.insert(vertex);
                continue;
            }
            if !label.starts_with('v') {
                continue;
            }
            // No label may look like a generated one.
            let rest = label.trim_end_matches(|c: char| c.is_ascii_digit());
            if rest[1..].bytes().all(|byte| byte == b'_') && prefix.len() <= rest.len() {
                prefix = format!("{rest}_");
            }
        }
        let usable = |vertex: &Vertex| {
            graph.label(*vertex).is_some() && (unusable.is_empty() || !unusable.contains(vertex))
        };
        let mut generated = vec![false; graph.len()];
        for vertex in graph.edges().flat_map(|edge| [edge.prerequisite, edge.target]) {
            generated[vertex.index()] = !usable(&vertex);
        }
        Printer { graph, prefix, generated, unusable }
    }

    /// The label of a vertex, if it has or needs one: what is written on it, or a prefix and a number.
    fn label(&self, vertex: Vertex) -> Option<(&str, Option<u32>)> {
        match self.graph.label(vertex) {
            Some(own) if self.unusable.is_empty() || !self.unusable.contains(&vertex) => Some((own, None)),
            _ if self.generated[vertex.index()] => Some((&self.prefix, Some(vertex.0))),
            _ => None,
        }
    }

    /// Adds a vertex's line.
    fn push_vertex(&self, vertex: Vertex, text: &mut String) -> fmt::Result {
        if let Some(label) = self.label(vertex) {
            push_label(label, text);
            text.push_str(": ");
        }
        let traits = self.graph.traits(vertex);
        match self.graph.op(vertex) {
            // The usual ones, without the formatting machinery.
            Op::Send { buffer: Buffer::Plain(Place::VOID), bytes, dest, tag } => {
                push_number("send ", bytes, text);
                push_number("b to ", dest.0.into(), text);
                if tag.0 != 0 {
                    push_number(" tag ", tag.0.into(), text);
                }
            }
            Op::Recv { buffer: Buffer::Plain(Place::VOID), bytes, source: Some(source), tag: Some(tag) } => {
                push_number("recv ", bytes, text);
                push_number("b from ", source.0.into(), text);
                if tag.0 != 0 {
                    push_number(" tag ", tag.0.into(), text);
                }
            }
            Op::Calc { ns } => push_number("calc ", ns, text),
            op => return writeln!(text, "{}", Operation(op, traits)),
        }
        if traits != Traits::default() {
            write!(text, "{}", Options(traits))?;
        }
        text.push('\n');
        Ok(())
    }

    /// Adds an edge's line.
    fn push_edge(&self, edge: Edge, text: &mut String) {
        let (Some(target), Some(prerequisite)) = (self.label(edge.target), self.label(edge.prerequisite))
        else {
            unreachable!("both ends of an edge have labels");
        };
        push_label(target, text);
        text.push_str(if edge.kind == EdgeKind::Finish { " requires " } else { " irequires " });
        push_label(prerequisite, text);
        text.push('\n');
    }
}

fn push_label((label, number): (&str, Option<u32>), text: &mut String) {
    match number {
        None => text.push_str(label),
        Some(number) => push_number(label, number.into(), text),
    }
}

fn push_number(before: &str, number: u64, text: &mut String) {
    text.push_str(before);
    text.push_str(itoa::Buffer::new().format(number));
}

/// An operation with its traits, displayed as a line of GOAL text without a label.
#[derive(Clone, Copy)]
pub struct Operation<'a>(pub Op<'a>, pub Traits);

impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation(op, traits) = *self;
        match op {
            Op::Proxy => write!(f, "proxy")?,
            Op::Send { buffer, bytes, dest, tag } => {
                write!(f, "send {bytes}b to {dest}")?;
                if tag.0 != 0 {
                    write!(f, " tag {tag}")?;
                }
                write!(f, "{}", Clause("at", buffer))?;
            }
            Op::Recv { buffer, bytes, source, tag } => {
                write!(f, "recv {bytes}b from {}", source.map_or(-1, |rank| i64::from(rank.0)))?;
                match tag {
                    Some(tag) if tag.0 == 0 => (),
                    tag => write!(f, " tag {}", tag.map_or(-1, |tag| i64::from(tag.0)))?,
                }
                write!(f, "{}", Clause("at", buffer))?;
            }
            Op::Calc { ns } => write!(f, "calc {ns}")?,
            Op::Sleep { ns } => write!(f, "sleep {ns}")?,
            Op::Local { b1, b2, b3, arithmetic, count } => {
                let (operator, element) = (arithmetic.operator(), arithmetic.element());
                write!(f, "local {} {} {count} {}", operator.name(), element.name(), Operand(b1))?;
                if operator != Operator::Copy {
                    write!(f, " {}", Operand(b2))?;
                }
                write!(f, " into {}", Operand(b3))?;
            }
            Op::Wtime { b3 } => write!(f, "wtime into {}", Operand(Buffer::Plain(b3)))?,
            Op::Call { function, context } => write!(f, "call {function:#x}({context:#x})")?,
            Op::Put { local, bytes, dest, remote } => {
                write!(f, "put {bytes}b to {dest}")?;
                write!(f, "{}{}", Clause("at", Buffer::Plain(local)), Clause("into", Buffer::Plain(remote)))?;
            }
            Op::Get { local, bytes, source, remote } => {
                write!(f, "get {bytes}b from {source}")?;
                write!(f, "{}{}", Clause("at", Buffer::Plain(remote)), Clause("into", Buffer::Plain(local)))?;
            }
        }
        write!(f, "{}", Options(traits))
    }
}

/// What stands behind an operation, each with a blank before it.
struct Options(Traits);

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options(traits) = *self;
        if traits.cpu != 0 {
            write!(f, " cpu {}", traits.cpu)?;
        }
        if traits.nic != 0 {
            write!(f, " nic {}", traits.nic)?;
        }
        if let Some(any) = traits.any {
            write!(f, " any {any}")?;
        }
        if traits.concurrent {
            write!(f, " concurrent")?;
        }
        Ok(())
    }
}

/// ` at BUFFER`; nothing where no memory is named.
struct Clause<'a>(&'static str, Buffer<'a>);

impl fmt::Display for Clause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Buffer::Plain(Place { memory: Memory::Void, .. }) => Ok(()),
            buffer => write!(f, " {} {}", self.0, Operand(buffer)),
        }
    }
}

struct Operand<'a>(Buffer<'a>);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Buffer::Plain(Place { memory: Memory::Void, .. }) => f.write_str("void"),
            Buffer::Plain(Place { memory: Memory::User, offset }) => write!(f, "{offset:#x}"),
            Buffer::Plain(Place { memory: Memory::Scratch, offset }) => write!(f, "@{offset}"),
            Buffer::Vector(memory, blocks) => {
                f.write_str(match memory {
                    Memory::Void => "void[",
                    Memory::User => "[",
                    Memory::Scratch => "@[",
                })?;
                for (index, block) in blocks.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    match memory {
                        Memory::User => write!(f, "{comma}{:#x}:{}", block.offset, block.bytes)?,
                        _ => write!(f, "{comma}{}:{}", block.offset, block.bytes)?,
                    }
                }
                f.write_char(']')
            }
        }
    }
}
