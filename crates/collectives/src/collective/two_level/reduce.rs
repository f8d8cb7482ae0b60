//! Barriers, reductions and scans over hosts; in which order they combine, `tree` says.

use super::super::shape::{Blocks, Shape};
use super::super::weaver::{Span, Weaver};
use super::levels::Levels;
use super::parts::{self, Held, Parts};
use super::tree::Tree;
use castell_base::Rank;
use castell_goal::graph::GraphError;

/// An empty vector is reduced, in whichever order.
pub fn barrier(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    allreduce(&Shape { is_exact: true, ..shape.clone() }, weaver)
}

/// Leaders reduce what their hosts have, exchange it, and hand the result out.
pub fn allreduce(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::new(shape, weaver);
    let output = Span::output(0, shape.count);
    let tree = Tree::new(&levels, shape, shape.count).into(output);
    if let Some(mine) = of_host(&levels, weaver, Span::input(0, shape.count))? {
        let mine = tree.join(weaver, mine)?;
        let all = parts::everywhere(&levels, weaver, &tree, mine)?;
        tree.finish(weaver, all)?;
    }
    levels.hand_out(weaver, output)
}

/// The same to the root alone, up a tree of the hosts.
pub fn reduce(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::from_root(shape, weaver);
    let tree = Tree::new(&levels, shape, shape.count);
    let Some(mine) = of_host(&levels, weaver, Span::input(0, shape.count))? else { return Ok(()) };
    let tree = if levels.host() == 0 { tree.into(Span::output(0, shape.count)) } else { tree };
    let mine = tree.join(weaver, mine)?;
    match parts::up(&levels, weaver, &tree, mine)? {
        Some(all) => tree.finish(weaver, all),
        None => Ok(()),
    }
}

/// Of each host as many ranks as all hosts have lead, each for a slice of the vector.
pub fn allreduce_split(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::new(shape, weaver);
    let (hosts, host, me) = (levels.hosts(), levels.host(), weaver.rank());
    let mine = levels.members(host).to_vec();
    let slices = Blocks::Even(shape.count);
    let leaders = levels.fewest() as u32;
    let slice_of = |index: u32| slices.block(index, leaders);
    for index in 0..leaders {
        let (first, count) = slice_of(index);
        if mine[index as usize] != me {
            weaver.send(mine[index as usize], Span::input(first, count))?;
        }
    }
    let index = mine.iter().position(|rank| *rank == me).expect("a rank is on its host") as u32;
    if index < leaders {
        let (first, count) = slice_of(index);
        let mut vectors = Vec::new();
        for &rank in &mine {
            let span = if rank == me { Span::input(first, count) } else { weaver.temporary(count) };
            if rank != me {
                weaver.recv(rank, span)?;
            }
            vectors.push(Tree::leaf(rank, span));
        }
        let nodes = Tree::new(&levels, shape, count).join(weaver, vectors)?;
        let slice = Slice { levels: &levels, shape, index, first, count };
        if hosts.is_power_of_two() {
            slice.halve(weaver, nodes)?
        } else {
            slice.deal_out(weaver, nodes)?
        }
        for &rank in mine.iter().filter(|rank| **rank != me) {
            weaver.send(rank, Span::output(first, count))?;
        }
    }
    for other in (0..leaders).filter(|&other| other != index) {
        let (first, count) = slice_of(other);
        weaver.recv(mine[other as usize], Span::output(first, count))?;
    }
    Ok(())
}

/// A slice of a vector, which the leaders with this index reduce over the hosts, and have then.
struct Slice<'a> {
    levels: &'a Levels<'a>,
    shape: &'a Shape,
    index: u32,
    first: u64,
    count: u64,
}

/// First element and number of elements.
type Range = (u64, u64);

impl Slice<'_> {
    fn peer(&self, host: u32) -> Rank {
        self.levels.members(host)[self.index as usize]
    }

    fn tree(&self, count: u64) -> Tree<'_> {
        Tree::new(self.levels, self.shape, count)
    }

    /// With a neighbour each leader exchanges halves of the slice, with one twice as far away halves of the half, and so on; then the same back with
    /// the results: as few messages as there can be without sending anything twice. (Rabenseifner's algorithm, with the nearest first.)
    fn halve(&self, weaver: &mut Weaver<'_>, mut held: Vec<Held>) -> Result<(), GraphError> {
        let (hosts, host) = (self.levels.hosts(), self.levels.host());
        let mut range: Range = (self.first, self.count);
        let mut exchanged = Vec::new();
        for distance in (0..hosts.ilog2()).map(|step| 1 << step) {
            let other = host ^ distance;
            let [mine, theirs] = [host, other].map(|host| half(range, host & distance != 0));
            parts::send(weaver, self.peer(other), &cut(&held, range, theirs))?;
            let group = other & !(distance - 1);
            let group: Vec<u32> = (group..group + distance).collect();
            let tree = self.tree(mine.1);
            let received = parts::recv(weaver, self.peer(other), &tree.of(&group))?;
            held = cut(&held, range, mine);
            if 2 * distance == hosts {
                held.extend(received);
            } else {
                held = parts::joined(&tree, weaver, held, received)?;
            }
            exchanged.push((other, range, theirs));
            range = mine;
        }
        self.tree(range.1).into(output(range)).finish(weaver, held)?;
        for (other, both, theirs) in exchanged.into_iter().rev() {
            weaver.send(self.peer(other), output(range))?;
            weaver.recv(self.peer(other), output(theirs))?;
            range = both;
        }
        Ok(())
    }

    /// Each leader reduces a part for all others.
    fn deal_out(&self, weaver: &mut Weaver<'_>, nodes: Vec<Held>) -> Result<(), GraphError> {
        let (hosts, host) = (self.levels.hosts(), self.levels.host());
        let part_of = |host: u32| -> Range {
            let (at, count) = Blocks::Even(self.count).block(host, hosts);
            (self.first + at, count)
        };
        let all = (self.first, self.count);
        let other_hosts = || (1..hosts).map(|step| (host + step) % hosts);
        for other in other_hosts() {
            parts::send(weaver, self.peer(other), &cut(&nodes, all, part_of(other)))?;
        }
        let own = part_of(host);
        let tree = self.tree(own.1).into(output(own));
        let mut held = cut(&nodes, all, own);
        for other in other_hosts() {
            held.extend(parts::recv(weaver, self.peer(other), &tree.of(&[other]))?);
        }
        tree.finish(weaver, held)?;
        for other in other_hosts() {
            weaver.send(self.peer(other), output(own))?;
        }
        for other in other_hosts() {
            weaver.recv(self.peer(other), output(part_of(other)))?;
        }
        Ok(())
    }
}

fn output((first, count): Range) -> Span {
    Span::output(first, count)
}

/// The lower half of a range, or the upper one, which may be one element shorter.
fn half((first, count): Range, is_upper: bool) -> Range {
    let lower = count.div_ceil(2);
    if is_upper { (first + lower, count - lower) } else { (first, lower) }
}

/// What is held of a range, of a part of it.
fn cut(held: &[Held], (from, _): Range, (first, count): Range) -> Vec<Held> {
    held.iter().map(|part| Held { span: part.span.part(first - from, count), ..*part }).collect()
}

/// Leaders send each other what the ranks of the other's host get, and hand it out.
pub fn reduce_scatter(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::new(shape, weaver);
    let (hosts, host, me) = (levels.hosts(), levels.host(), weaver.rank());
    let (first, count) = shape.block(shape.ranks - 1);
    let all = first + count;
    let own = Span::output(0, shape.block(me.0).1);
    let Some(mine) = of_host(&levels, weaver, Span::input(0, all))? else {
        weaver.recv(levels.leader(host), own)?;
        return Ok(());
    };
    let nodes = Tree::new(&levels, shape, all).join(weaver, mine)?;
    let blocks_of = |weaver: &mut Weaver<'_>, held: &[Held], ranks: &[Rank]| {
        let mut cut = Vec::new();
        for part in held {
            let blocks = ranks.iter().map(|rank| shape.block(rank.0));
            let spans: Vec<Span> = blocks.map(|(first, count)| part.span.part(first, count)).collect();
            cut.push(Held { span: parts::pack(weaver, &spans)?, ..*part });
        }
        Ok::<_, GraphError>(cut)
    };
    let other_hosts = || (1..hosts).map(|step| (host + step) % hosts);
    for other in other_hosts() {
        let theirs = blocks_of(weaver, &nodes, levels.members(other))?;
        parts::send(weaver, levels.leader(other), &theirs)?;
    }
    let ranks = levels.members(host);
    let size = ranks.iter().map(|rank| shape.block(rank.0).1).sum();
    let result = weaver.temporary(size);
    let tree = Tree::new(&levels, shape, size).into(result);
    let mut held = blocks_of(weaver, &nodes, ranks)?;
    for other in other_hosts() {
        held.extend(parts::recv(weaver, levels.leader(other), &tree.of(&[other]))?);
    }
    tree.finish(weaver, held)?;
    let mut at = 0;
    for &rank in ranks {
        let block = result.part(at, shape.block(rank.0).1);
        if rank == me {
            weaver.copy(block, own)?
        } else {
            weaver.send(rank, block).map(|_| ())?
        }
        at += block.count;
    }
    Ok(())
}

pub fn scan(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    scanned(shape, weaver, true)
}

pub fn exscan(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    scanned(shape, weaver, false)
}

/// Leaders exchange what their hosts have, and compute what the ranks of their own get: the largest nodes of the ranks before, combined from
/// the first on.
fn scanned(shape: &Shape, weaver: &mut Weaver<'_>, with_own: bool) -> Result<(), GraphError> {
    let levels = Levels::new(shape, weaver);
    let (host, me) = (levels.host(), weaver.rank());
    let gets_some = |rank: Rank| with_own || rank.0 > 0;
    let output = Span::output(0, shape.count);
    let Some(mine) = of_host(&levels, weaver, Span::input(0, shape.count))? else {
        if gets_some(me) {
            weaver.recv(levels.leader(host), output)?;
        }
        return Ok(());
    };
    let tree = Tree::new(&levels, shape, shape.count).in_order();
    let nodes = tree.join(weaver, mine.clone())?;
    let all = parts::everywhere(&levels, weaver, &Apart(&tree), nodes)?;
    // Of the own ranks not the nodes, but each vector.
    let is_own = |part: &Held| levels.members(host).contains(&Rank(part.key.0));
    let mut held: Vec<Held> = all.into_iter().filter(|part| !is_own(part)).chain(mine).collect();
    held.sort_by_key(|part| part.key);
    let (mut before, mut own) = (Vec::new(), Vec::new());
    for part in held {
        let rank = Rank(part.key.0);
        if !is_own(&part) {
            tree.push(weaver, &mut before, part)?;
            continue;
        }
        let exclusive: Vec<Span> = before.iter().map(|node: &Held| node.span).collect();
        tree.push(weaver, &mut before, part)?;
        let inclusive = || before.iter().map(|node: &Held| node.span).collect();
        let operands: Vec<Span> = if with_own { inclusive() } else { exclusive };
        if !gets_some(rank) {
            continue;
        }
        if rank == me {
            own = operands;
        } else {
            let result = weaver.temporary(shape.count);
            weaver.reduce(&operands, result)?;
            weaver.send(rank, result)?;
        }
    }
    // Last, since in place it overwrites what others get.
    weaver.reduce(&own, output)
}

/// Each host's nodes, not joined with those of others.
struct Apart<'a>(&'a Tree<'a>);

impl Parts for Apart<'_> {
    fn of(&self, hosts: &[u32]) -> Vec<(parts::Key, u64)> {
        let mut all: Vec<_> = hosts.iter().flat_map(|&host| self.0.of(&[host])).collect();
        all.sort_by_key(|(key, _)| *key);
        all
    }

    fn join(&self, _: &mut Weaver<'_>, held: Vec<Held>) -> Result<Vec<Held>, GraphError> {
        Ok(held)
    }
}

/// The vectors of a host's ranks, with its leader; the others send theirs.
fn of_host(levels: &Levels<'_>, weaver: &mut Weaver<'_>, own: Span) -> Result<Option<Vec<Held>>, GraphError> {
    let me = weaver.rank();
    let host = levels.host();
    if !levels.leads() {
        weaver.send(levels.leader(host), own)?;
        return Ok(None);
    }
    let mut vectors = Vec::new();
    for &rank in levels.members(host) {
        let span = if rank == me { own } else { weaver.temporary(own.count) };
        if rank != me {
            weaver.recv(rank, span)?;
        }
        vectors.push(Tree::leaf(rank, span));
    }
    Ok(Some(vectors))
}
