//! What ranks noted while they ran ([`castell_trace::joined`]), as the program that they were: to be simulated on other machines.
//!
//! Within a run of a graph, operations wait for what they waited for in that graph. Between runs the program computed for as long as it
//! did, began runs when it did, and waited for their ends where it did. Computing takes what it took; what messages take the model says.
//! Operations have a processor of their own, since messages get on while the program computes; so has each worker that ran tasks.

mod rank;

use castell_base::{Rank, Tag};
use castell_goal::graph::GraphError;
use castell_goal::program::Program;
use castell_trace::joined::Joined;
use castell_trace::journal::Operation;
use rank::Rebuilt;
use std::collections::{HashMap, HashSet};

/// What was run, as a program.
pub struct Recorded {
    /// To be simulated.
    pub program: Program,
    /// Messages that are not in it: only one side was noted.
    pub left_out: u64,
}

/// Builds the program of what the ranks noted.
///
/// # Errors
/// A rank and why its graph cannot be built: it did more than a graph holds.
pub fn program(joined: &Joined<'_>) -> Result<Recorded, (Rank, GraphError)> {
    let (mut tags, mut graphs, mut left_out) = (Tags::default(), Vec::new(), 0);
    for row in &joined.rows {
        let rebuilt = Rebuilt::of(joined, row, &mut tags).map_err(|error| (row.rank, error))?;
        left_out += rebuilt.left_out;
        graphs.push(rebuilt.graph);
    }
    Ok(Recorded { program: Program::with_graphs(graphs.len() as u32, graphs), left_out })
}

/// Sender, receiver, and what messages between them meet by.
type Channel = (Rank, Rank, u32, Tag, bool);

/// In the program, messages meet by tags alone: each channel has one of its own between two ranks, its own one where it is free.
#[derive(Default)]
struct Tags {
    of: HashMap<Channel, Tag>,
    taken: HashSet<(Rank, Rank, Tag)>,
    /// For those whose own tag is taken, or not for programs; counted down.
    given: u32,
}

impl Tags {
    fn of(&mut self, from: Rank, to: Rank, operation: &Operation) -> Tag {
        let own = operation.tag.unwrap_or(Tag(0));
        let channel = (from, to, operation.word, own, operation.is_step);
        if let Some(tag) = self.of.get(&channel) {
            return *tag;
        }
        let mut tag = own;
        while tag > Tag::MAX || !self.taken.insert((from, to, tag)) {
            tag = Tag(Tag::MAX.0 - self.given % Tag::MAX.0);
            self.given += 1;
        }
        self.of.insert(channel, tag);
        tag
    }
}

#[cfg(test)]
mod tests;
