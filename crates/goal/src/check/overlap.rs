//! Operations of one rank that may run at the same time and touch the same bytes, at least one of them writing.
//!
//! The operations are taken in an order that fits their dependencies. For each byte the table knows who wrote it
//! last, and who has read it since; a new access has to come surely after those (a read: after the write). What came
//! before them need not be asked again: either it was found to be in order then, or it was reported.
//!
//! Bytes that are treated alike are one entry of the table, so the work follows the number of different ranges.
//! Accesses of other ranks (put and get) are not known here, and not looked at.

use super::order::Order;
use super::reach::{Reach, VISITS_MAX};
use super::{Found, Kind, Severity};
use crate::graph::{Graph, Vertex};
use crate::op::{Block, Buffer, Memory, Op, Place};
use castell_base::Rank;
use std::collections::BTreeMap;

/// Table entries that may be visited, in a program.
const ENTRIES_MAX: u64 = 50_000_000;

/// At most so many operations are named as clashing with one.
const CLASHES_MAX: usize = 4;

/// What may still be done.
struct Budget {
    /// Table entries.
    entries: u64,
    /// Points of the search for dependencies.
    visits: u64,
    /// Questions that were given up.
    unanswered: u64,
}

pub(super) fn check(orders: &[Order], found: &mut Found) {
    check_within(Budget { entries: ENTRIES_MAX, visits: VISITS_MAX, unanswered: 0 }, orders, found);
}

fn check_within(mut budget: Budget, orders: &[Order], found: &mut Found) {
    let program = found.program;
    for ((rank, graph), order) in program.graphs().zip(orders) {
        if !order.acyclic || !graph.vertices().any(|vertex| writes(graph.op(vertex))) {
            continue;
        }
        if !check_rank(rank, graph, order, &mut budget, found) {
            let message = format!(
                "overlapping buffers: the search ended in rank {rank}, because there are more than {ENTRIES_MAX} pieces \
                 of memory to compare"
            );
            found.skipped(Some(rank), message);
            break;
        }
    }
    if budget.unanswered > 0 {
        let message = format!(
            "overlapping buffers: {} pairs of operations were passed over, because it takes too long to find out \
             whether one waits for the other",
            budget.unanswered
        );
        found.skipped(None, message);
    }
}

/// Whether the operation writes to memory of its rank.
fn writes(op: Op) -> bool {
    let mut writes = false;
    accesses(op, &mut |access| writes |= access.write);
    writes
}

/// A range of bytes that an operation reads or writes.
#[derive(Clone, Copy)]
struct Access {
    memory: Memory,
    start: u64,
    end: u64,
    write: bool,
}

/// Calls `with` for each non-empty range that the operation touches, reads first.
fn accesses(op: Op, with: &mut impl FnMut(Access)) {
    match op {
        Op::Send { buffer, bytes, .. } => ranges(buffer, bytes, false, with),
        Op::Recv { buffer, bytes, .. } => ranges(buffer, bytes, true, with),
        Op::Local { b1, b2, b3, arithmetic, count } => {
            let bytes = count.saturating_mul(arithmetic.element().bytes());
            ranges(b1, bytes, false, with);
            ranges(b2, bytes, false, with);
            ranges(b3, bytes, true, with);
        }
        Op::Wtime { b3 } => ranges(Buffer::Plain(b3), 8, true, with),
        Op::Put { local, bytes, .. } => ranges(Buffer::Plain(local), bytes, false, with),
        Op::Get { local, bytes, .. } => ranges(Buffer::Plain(local), bytes, true, with),
        Op::Proxy | Op::Calc { .. } | Op::Sleep { .. } | Op::Call { .. } => (),
    }
}

fn ranges(buffer: Buffer, bytes: u64, write: bool, with: &mut impl FnMut(Access)) {
    let mut range = |memory, offset: u64, bytes| {
        if memory != Memory::Void && bytes > 0 {
            with(Access { memory, start: offset, end: offset.saturating_add(bytes), write });
        }
    };
    match buffer {
        Buffer::Plain(Place { memory, offset }) => range(memory, offset, bytes),
        Buffer::Vector(memory, blocks) => {
            blocks.iter().for_each(|Block { offset, bytes }| range(memory, offset, bytes))
        }
    }
}

/// Returns whether the budget lasted.
fn check_rank(rank: Rank, graph: &Graph, order: &Order, budget: &mut Budget, found: &mut Found) -> bool {
    let mut by_place = vec![Vertex(0); graph.len()];
    graph.vertices().for_each(|vertex| by_place[order.place[vertex.index()] as usize] = vertex);
    let mut scan = Scan { vertex: Vertex(0), reach: Reach::of(graph, order), budget, clashes: Vec::new() };
    let mut tables = [Table::default(), Table::default()];
    for vertex in by_place {
        scan.vertex = vertex;
        accesses(graph.op(vertex), &mut |access| {
            tables[usize::from(access.memory == Memory::Scratch)].add(access, &mut scan);
        });
        for clash in scan.clashes.drain(..) {
            clash.report(rank, vertex, found);
        }
        if scan.budget.entries == 0 {
            return false;
        }
    }
    true
}

/// The operation in hand, and what was found about it.
struct Scan<'a, 'b> {
    vertex: Vertex,
    reach: Reach<'a>,
    budget: &'b mut Budget,
    clashes: Vec<Clash>,
}

/// Two operations on the same bytes.
struct Clash {
    other: Vertex,
    other_writes: bool,
    access: Access,
}

impl Scan<'_, '_> {
    /// Asks whether `other` is over before the operation in hand starts; notes it where not.
    fn after(&mut self, other: Vertex, other_writes: bool, access: Access) {
        let own_business = other == self.vertex && !(other_writes && access.write);
        let known =
            self.clashes.iter().any(|clash| clash.other == other) || self.clashes.len() >= CLASHES_MAX;
        if own_business || known {
            return;
        }
        match self.reach.finished_before(other, self.vertex, &mut self.budget.visits) {
            Some(true) => (),
            Some(false) => self.clashes.push(Clash { other, other_writes, access }),
            None => self.budget.unanswered += 1,
        }
    }

    /// Takes `entries` from the budget; false where nothing is left.
    fn spend(&mut self, entries: u64) -> bool {
        self.budget.entries = self.budget.entries.saturating_sub(entries);
        self.budget.entries > 0
    }
}

impl Clash {
    fn report(&self, rank: Rank, vertex: Vertex, found: &mut Found) {
        let Access { memory, start, end, write } = self.access;
        let bytes = match memory {
            Memory::User => format!("bytes {start:#x} to {end:#x} of memory"),
            _ => format!("bytes {start} to {end} of the scratchpad"),
        };
        found.add(Severity::Warning, Kind::Overlap, (rank, vertex), |found| {
            if self.other == vertex {
                return format!("two of its own blocks write {bytes}");
            }
            let verb = if write { "writes" } else { "reads" };
            let other_verb = if self.other_writes { "writes" } else { "reads" };
            let other = found.name_here(rank, self.other);
            format!(
                "it {verb} {bytes}, which {other} {other_verb}, and neither waits until the other is over"
            )
        });
    }
}

/// One memory, in pieces that have been treated alike, by their start.
#[derive(Default)]
struct Table(BTreeMap<u64, Piece>);

#[derive(Clone)]
struct Piece {
    end: u64,
    /// Who wrote it last.
    writer: Option<Vertex>,
    /// Who has read it since.
    readers: Vec<Vertex>,
}

impl Table {
    fn add(&mut self, access: Access, scan: &mut Scan) {
        self.split(access.start, scan);
        self.split(access.end, scan);
        if access.write { self.write(access, scan) } else { self.read(access, scan) }
    }

    /// Cuts the piece that has `at` inside in two.
    fn split(&mut self, at: u64, scan: &mut Scan) {
        let Some((_, piece)) = self.0.range_mut(..at).next_back() else { return };
        if piece.end > at && scan.spend(1 + piece.readers.len() as u64) {
            let behind = piece.clone();
            piece.end = at;
            self.0.insert(at, behind);
        }
    }

    fn read(&mut self, access: Access, scan: &mut Scan) {
        let mut gaps = Vec::new();
        let mut at = access.start;
        for (&start, piece) in self.0.range_mut(access.start..access.end) {
            if !scan.spend(1) {
                return;
            }
            if at < start {
                gaps.push((at, start));
            }
            at = piece.end;
            if let Some(writer) = piece.writer {
                scan.after(writer, true, Access { start, end: piece.end, ..access });
            }
            // A reader that is surely over before this one need not be remembered: whoever comes after this one
            // comes after that one, too.
            match piece.readers.last_mut() {
                Some(last) if *last == scan.vertex => (),
                Some(last) if scan.reach.plainly_finished_before(*last, scan.vertex) => *last = scan.vertex,
                _ => piece.readers.push(scan.vertex),
            }
        }
        if at < access.end {
            gaps.push((at, access.end));
        }
        for (start, end) in gaps {
            self.0.insert(start, Piece { end, writer: None, readers: vec![scan.vertex] });
        }
    }

    fn write(&mut self, access: Access, scan: &mut Scan) {
        let mut covered = Vec::new();
        for (&start, piece) in self.0.range(access.start..access.end) {
            if !scan.spend(1 + piece.readers.len() as u64) {
                return;
            }
            covered.push(start);
            let access = Access { start, end: piece.end, ..access };
            for &reader in &piece.readers {
                scan.after(reader, false, access);
            }
            if let Some(writer) = piece.writer {
                scan.after(writer, true, access);
            }
        }
        for start in covered {
            self.0.remove(&start);
        }
        self.0
            .insert(access.start, Piece { end: access.end, writer: Some(scan.vertex), readers: Vec::new() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Problem;
    use crate::program::Program;
    use crate::text;

    /// The problems of a program that is searched with so little.
    fn problems(program: &Program, entries: u64, visits: u64) -> Vec<String> {
        let mut found = Found::new(program);
        let orders: Vec<Order> =
            program.graphs().map(|(rank, graph)| Order::of(rank, graph, &mut found)).collect();
        check_within(Budget { entries, visits, unanswered: 0 }, &orders, &mut found);
        found.into_report().problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn what_was_not_looked_at_is_said() {
        // Rank 0: the second write finds the first, and the read finds both. Rank 1: the same once more.
        let rank = "scratchpad 16b\na: wtime into @0\nb: wtime into @4\nc: send 8b to 0 at @2";
        let text = format!("num_ranks 3\nrank 0 {{\n{rank}\n}}\nrank 1 {{\n{rank}\n}}\nrank 2 {{ }}");
        let program = text::parse(&text, "").unwrap_or_else(|errors| panic!("{errors}"));
        let all = problems(&program, 100, 100);
        assert_eq!(all.len(), 6, "{all:#?}");
        let ended = |rank| {
            format!(
                "warning: overlapping buffers: the search ended in rank {rank}, because there are more than \
                 {ENTRIES_MAX} pieces of memory to compare"
            )
        };
        // Each piece that is cut or looked at takes one. `b` cuts and meets one; `c` cuts two and meets two. What takes
        // the last one is not carried out.
        for (entries, found) in (1..).zip([0, 0, 1, 1, 1, 2, 3, 3, 4, 4, 4, 5]) {
            let mut expected = all[..found].to_vec();
            expected.push(ended(usize::from(entries > 6)));
            assert_eq!(problems(&program, entries, 100), expected, "{entries}");
        }
        assert_eq!(problems(&program, 13, 100), all);
    }

    /// A reader that is over before the next one need not be remembered, nor one twice: the last write meets one.
    #[test]
    fn readers_are_remembered_once() {
        for rank in [
            "a: local add u8 8 @0 @0 into @8\nb: wtime into @0\nb requires a",
            "a: send 8b to 0 at @0\nb: send 8b to 0 at @0\nc: wtime into @0\nb requires a\nc requires b",
        ] {
            let text = format!("num_ranks 1\nrank 0 {{\nscratchpad 16b\n{rank}\n}}");
            let program = text::parse(&text, "").unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(problems(&program, 3, 100).len(), 1, "{rank}");
            assert_eq!(problems(&program, 4, 100), [""; 0], "{rank}");
        }
    }

    #[test]
    fn questions_that_were_given_up_are_counted() {
        // `d` comes after `a` only by what the tree of the search does not have: it has to be looked for.
        let text = "num_ranks 1\nrank 0 {\nscratchpad 8b\na: wtime into @0\nb: proxy\nc: proxy any 1\nd: wtime into @0\n\
                    x: proxy\nc requires a\nc requires b\nb requires a\nd requires c\n}";
        let program = text::parse(text, "").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(problems(&program, 100, 100), [""; 0]);
        let given_up = "warning: overlapping buffers: 1 pairs of operations were passed over, because it takes too long \
                        to find out whether one waits for the other";
        assert_eq!(problems(&program, 100, 0), [given_up]);
    }
}
