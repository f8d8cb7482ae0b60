//! What is wrong with a program, found before it runs: over all ranks, without executing anything.
//!
//! [`check`] looks, in this order, for
//! - dependency cycles, and `any` above a vertex's number of dependencies (`order`);
//! - peers that do not exist, buffers that leave the scratchpad, here or at the other side of a put or get (`buffers`);
//! - sends without receives and the reverse, sizes that cannot match (`messages`);
//! - ranks that wait for one another in a circle, with and without buffered messages (`deadlock`);
//! - operations that may run at the same time and touch the same bytes, one of them writing (`overlap`).
//!
//! Everything is linear in the program's size up to a logarithm, but for two searches whose work is bounded: where a
//! bound is reached, a warning says what was not looked at.

mod buffers;
mod deadlock;
mod flow;
mod messages;
mod order;
mod overlap;
mod reach;

use crate::graph::Vertex;
use crate::program::Program;
use castell_base::Rank;
use order::Order;
use std::collections::HashMap;
use std::fmt;

/// At most so many problems of one kind are listed; the others are counted.
pub const LISTED_MAX: usize = 50;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The program cannot run to its end, or not as written.
    Error,
    /// The program may run, but probably does not do what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// What a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Operations of one rank wait for one another.
    Cycle,
    /// `any` is larger than the number of dependencies.
    Any,
    /// A peer that does not exist.
    Peer,
    /// A buffer outside the scratchpad.
    Bounds,
    /// A send that no receive takes.
    SendUnmatched,
    /// A receive that no send serves.
    RecvUnmatched,
    /// A send and its receive have different sizes.
    Size,
    /// Ranks wait for one another.
    Deadlock,
    /// Ranks wait for one another unless messages are buffered.
    Buffering,
    /// Unordered operations touch the same bytes.
    Overlap,
    /// Something was not looked at.
    Skipped,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Cycle => "dependency cycle",
            Kind::Any => "too few dependencies for `any`",
            Kind::Peer => "peer does not exist",
            Kind::Bounds => "outside the scratchpad",
            Kind::SendUnmatched => "send without receive",
            Kind::RecvUnmatched => "receive without send",
            Kind::Size => "sizes differ",
            Kind::Deadlock => "deadlock",
            Kind::Buffering => "deadlock without buffers",
            Kind::Overlap => "unordered accesses",
            Kind::Skipped => "not looked at",
        })
    }
}

/// One thing that is wrong, at one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub kind: Kind,
    /// Rank of the operation.
    pub rank: Option<Rank>,
    /// Label of the operation.
    pub label: Option<String>,
    /// Line of the operation in its text.
    pub line: Option<u32>,
    /// Column of the operation in its text.
    pub column: Option<u16>,
    /// What is wrong, with the names of all operations that take part.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}: ")?;
        }
        write!(f, "{}: {}", self.severity, self.message)
    }
}

/// What [`check`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Size of the group.
    pub ranks: u32,
    /// Operations of all ranks.
    pub operations: u64,
    /// The problems: errors before warnings, then in the order in which they were found.
    pub problems: Vec<Problem>,
    /// How many more there are of a kind than [`LISTED_MAX`].
    pub unlisted: Vec<(Kind, u64)>,
}

impl Report {
    /// Whether the program has no errors; it may have warnings.
    pub fn is_ok(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity == Severity::Warning)
    }
}

/// Looks for everything that can be known to be wrong before a program runs.
///
/// ```
/// use castell_goal::{check, text};
/// let program = text::parse("num_ranks 2\nrank 0 { a: send 8b to 1 tag 5 }\nrank 1 { b: recv 8b from 0 tag 6 }", "")?;
/// let report = check::check(&program);
/// assert!(!report.is_ok());
/// assert_eq!(
///     report.problems[0].to_string(),
///     "2:10: error: rank 0 `a`: 1 send of rank 0 to rank 1 with tag 5 has no receive; \
///      `b` of rank 1 (line 3) waits for tag 6 instead"
/// );
/// # Ok::<(), castell_goal::text::ParseErrors>(())
/// ```
pub fn check(program: &Program) -> Report {
    let mut found = Found::new(program);
    let orders: Vec<Order> =
        program.graphs().map(|(rank, graph)| Order::of(rank, graph, &mut found)).collect();
    buffers::check(&mut found);
    messages::check(&orders, &mut found);
    if found.is_ok() {
        deadlock::check(&mut found);
    }
    overlap::check(&orders, &mut found);
    found.into_report()
}

/// Problems as they are found.
struct Found<'a> {
    program: &'a Program,
    problems: Vec<Problem>,
    counts: HashMap<Kind, usize>,
}

impl<'a> Found<'a> {
    fn new(program: &'a Program) -> Found<'a> {
        Found { program, problems: Vec::new(), counts: HashMap::new() }
    }

    fn is_ok(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity == Severity::Warning)
    }

    /// Adds a problem at an operation; the message is made only where it is listed.
    fn add(
        &mut self,
        severity: Severity,
        kind: Kind,
        (rank, vertex): (Rank, Vertex),
        message: impl FnOnce(&Found) -> String,
    ) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count > LISTED_MAX {
            return;
        }
        let graph = self.program.rank(rank);
        let (line, column) = graph.position(vertex).unzip();
        let label = graph.label(vertex).map(str::to_owned);
        let message = format!("rank {rank} {}: {}", graph.name(vertex), message(self));
        self.problems.push(Problem { severity, kind, rank: Some(rank), label, line, column, message });
    }

    /// Notes that something was not looked at.
    fn skipped(&mut self, rank: Option<Rank>, message: String) {
        let (severity, kind) = (Severity::Warning, Kind::Skipped);
        self.problems.push(Problem { severity, kind, rank, label: None, line: None, column: None, message });
    }

    /// An operation of any rank, for the message about another one: name, rank, line.
    fn name(&self, rank: Rank, vertex: Vertex) -> String {
        format!("{} of rank {rank}{}", self.program.name(rank, vertex), self.line(rank, vertex))
    }

    /// An operation of the rank that a message is about: name, line.
    fn name_here(&self, rank: Rank, vertex: Vertex) -> String {
        format!("{}{}", self.program.name(rank, vertex), self.line(rank, vertex))
    }

    fn line(&self, rank: Rank, vertex: Vertex) -> String {
        let position = self.program.rank(rank).position(vertex);
        position.map(|(line, _)| format!(" (line {line})")).unwrap_or_default()
    }

    fn into_report(mut self) -> Report {
        self.problems.sort_by_key(|problem| problem.severity == Severity::Warning);
        let over = self.counts.into_iter().filter(|&(_, count)| count > LISTED_MAX);
        let mut unlisted: Vec<_> = over.map(|(kind, count)| (kind, (count - LISTED_MAX) as u64)).collect();
        unlisted.sort();
        let (ranks, operations) = (self.program.num_ranks(), self.program.operations());
        Report { ranks, operations, problems: self.problems, unlisted }
    }
}
