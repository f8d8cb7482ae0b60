//! Broadcasts, and blocks that are put together, handed out or exchanged over hosts.

use super::super::alltoall::Exchange;
use super::super::broadcast::{children_in_order, scatter_allgather_among};
use super::super::gather::{contributed, gathered, got, keep_own, scattered};
use super::super::shape::{Blocks, Shape};
use super::super::weaver::{Span, Weaver};
use super::levels::Levels;
use super::parts::{self, Held, Key, Parts, pack};
use castell_base::Rank;
use castell_goal::graph::GraphError;

/// Down a binomial tree of the hosts, then from leaders to the ranks beside them.
pub fn broadcast(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::from_root(shape, weaver);
    let (host, whole) = (levels.host(), Span::output(0, shape.count));
    if levels.leads() {
        if host > 0 {
            weaver.recv(levels.leader(host & (host - 1)), whole)?;
        }
        for child in children_in_order(host, levels.hosts()) {
            weaver.send(levels.leader(child), whole)?;
        }
    }
    levels.hand_out(weaver, whole)
}

/// The root scatters even parts over the hosts, which go round a ring of leaders and, as they come, to the ranks beside them.
pub fn broadcast_split(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::from_root(shape, weaver);
    let hosts = levels.hosts();
    if levels.leads() {
        scatter_allgather_among(hosts, levels.host(), shape.count, |host| levels.leader(host), weaver)?;
    }
    for host in 0..hosts {
        let (first, count) = Blocks::Even(shape.count).block(host, hosts);
        levels.hand_out(weaver, Span::output(first, count))?;
    }
    Ok(())
}

/// Leaders send their host's blocks to the root in one message.
pub fn gather(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::from_root(shape, weaver);
    let (me, host) = (weaver.rank(), levels.host());
    if me == shape.root {
        weaver.copy(contributed(shape, me), gathered(shape, me))?;
        for rank in levels.others() {
            weaver.recv(rank, gathered(shape, rank))?;
        }
        for other in 1..levels.hosts() {
            arrive(shape, weaver, levels.leader(other), levels.members(other))?;
        }
        return Ok(());
    }
    if !levels.leads() || host == 0 {
        weaver.send(levels.leader(host), contributed(shape, me))?;
        return Ok(());
    }
    let blocks = of_host(shape, &levels, weaver)?;
    let blocks = pack(weaver, &blocks)?;
    weaver.send(shape.root, blocks)?;
    Ok(())
}

/// The blocks of this host's ranks, with its leader.
fn of_host(shape: &Shape, levels: &Levels<'_>, weaver: &mut Weaver<'_>) -> Result<Vec<Span>, GraphError> {
    let me = weaver.rank();
    let ranks = levels.members(levels.host());
    let all = weaver.temporary(ranks.iter().map(|rank| shape.block(rank.0).1).sum());
    let (mut at, mut blocks) = (0, Vec::new());
    for &rank in ranks {
        let block = all.part(at, shape.block(rank.0).1);
        if rank == me {
            weaver.copy(contributed(shape, me), block)?;
        } else {
            weaver.recv(rank, block)?;
        }
        at += block.count;
        blocks.push(block);
    }
    Ok(blocks)
}

/// The output's blocks of some ranks come in one message: straight to where they belong if that is one place.
fn arrive(
    shape: &Shape,
    weaver: &mut Weaver<'_>,
    from: Rank,
    ranks: &[Rank],
) -> Result<Vec<Span>, GraphError> {
    let places: Vec<Span> = ranks.iter().map(|&rank| gathered(shape, rank)).collect();
    let follows = |pair: &[Span]| pair[0].first + pair[0].count == pair[1].first;
    let count = places.iter().map(|place| place.count).sum();
    if let Some(&first) = places.first().filter(|_| places.windows(2).all(follows)) {
        let run = Span { count, ..first };
        weaver.recv(from, run)?;
        return Ok(vec![run]);
    }
    let all = weaver.temporary(count);
    weaver.recv(from, all)?;
    let mut at = 0;
    for place in places {
        weaver.copy(all.part(at, place.count), place)?;
        at += place.count;
    }
    Ok(vec![all])
}

/// The root sends each host's blocks to its leader in one message.
pub fn scatter(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::from_root(shape, weaver);
    let (me, host) = (weaver.rank(), levels.host());
    if me == shape.root {
        for other in 1..levels.hosts() {
            let blocks: Vec<Span> =
                levels.members(other).iter().map(|&rank| scattered(shape, rank)).collect();
            let blocks = pack(weaver, &blocks)?;
            weaver.send(levels.leader(other), blocks)?;
        }
        for rank in levels.others() {
            weaver.send(rank, scattered(shape, rank))?;
        }
        return keep_own(shape, weaver);
    }
    if !levels.leads() || host == 0 {
        weaver.recv(levels.leader(host), got(shape, me))?;
        return Ok(());
    }
    let ranks = levels.members(host);
    let all = weaver.temporary(ranks.iter().map(|rank| shape.block(rank.0).1).sum());
    weaver.recv(shape.root, all)?;
    let mut at = 0;
    for &rank in ranks {
        let block = all.part(at, shape.block(rank.0).1);
        if rank == me {
            weaver.copy(block, got(shape, me))?
        } else {
            weaver.send(rank, block).map(|_| ())?
        }
        at += block.count;
    }
    Ok(())
}

/// Leaders put their hosts' blocks together, exchange them, and hand all out.
pub fn allgather(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::new(shape, weaver);
    let host = levels.host();
    if levels.leads() {
        let blocks = of_host(shape, &levels, weaver)?;
        let mine = vec![Held { key: (host, host), span: pack(weaver, &blocks)? }];
        for part in parts::everywhere(&levels, weaver, &ByHost(shape, &levels), mine)? {
            let mut at = 0;
            for &rank in levels.members(part.key.0) {
                let place = gathered(shape, rank);
                weaver.copy(part.span.part(at, place.count), place)?;
                at += place.count;
            }
        }
    } else {
        weaver.send(levels.leader(host), contributed(shape, weaver.rank()))?;
    }
    let all = (0..shape.ranks).map(|rank| shape.block(rank).1).sum();
    levels.hand_out(weaver, Span::output(0, all))
}

/// The blocks of each host's ranks, one behind the other.
struct ByHost<'a>(&'a Shape, &'a Levels<'a>);

impl Parts for ByHost<'_> {
    fn of(&self, hosts: &[u32]) -> Vec<(Key, u64)> {
        let elements = |host| self.1.members(host).iter().map(|rank| self.0.block(rank.0).1).sum();
        hosts.iter().map(|&host| ((host, host), elements(host))).collect()
    }

    fn join(&self, _: &mut Weaver<'_>, held: Vec<Held>) -> Result<Vec<Held>, GraphError> {
        Ok(held)
    }
}

/// The same, a host's blocks going round a ring of the leaders and, as they come, to the ranks beside them.
pub fn allgather_ring(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::new(shape, weaver);
    let (hosts, host, me) = (levels.hosts(), levels.host(), weaver.rank());
    // In the order in which blocks come to this host's leader.
    let coming = (0..hosts).map(|step| (host + hosts - step) % hosts);
    if !levels.leads() {
        weaver.send(levels.leader(host), contributed(shape, me))?;
        for from in coming {
            arrive(shape, weaver, levels.leader(host), levels.members(from))?;
        }
        return Ok(());
    }
    weaver.copy(contributed(shape, me), gathered(shape, me))?;
    for rank in levels.others() {
        weaver.recv(rank, gathered(shape, rank))?;
    }
    let places: Vec<Span> = levels.members(host).iter().map(|&rank| gathered(shape, rank)).collect();
    let mut blocks = pack(weaver, &places)?;
    let (next, previous) = (levels.leader((host + 1) % hosts), levels.leader((host + hosts - 1) % hosts));
    for (step, from) in coming.enumerate() {
        if step > 0 {
            blocks = arrive(shape, weaver, previous, levels.members(from))?[0];
        }
        if step + 1 < hosts as usize {
            weaver.send(next, blocks)?;
        }
        for rank in levels.others() {
            weaver.send(rank, blocks)?;
        }
    }
    Ok(())
}

/// Leaders collect what their ranks send, exchange what goes from host to host in one message each, and hand it out.
pub fn alltoall(shape: &Shape, weaver: &mut Weaver<'_>) -> Result<(), GraphError> {
    let levels = Levels::new(shape, weaver);
    let (hosts, host, me) = (levels.hosts(), levels.host(), weaver.rank());
    // Blocks of one size lie one behind the other: all of them begin with the first.
    let exchange = Exchange::new(shape, weaver)?;
    let (count, all) = (shape.block(0).1, shape.block(0).1 * u64::from(shape.ranks));
    let leader = levels.leader(host);
    let output = Span::output(0, all);
    if me != leader {
        weaver.send(leader, exchange.to(Rank(0)).longer(all))?;
        weaver.recv(leader, output)?;
        return Ok(());
    }
    let ranks = levels.members(host);
    let mut leaving = Vec::new();
    for &rank in ranks {
        let blocks = if rank == me { exchange.to(Rank(0)).longer(all) } else { weaver.temporary(all) };
        if rank != me {
            weaver.recv(rank, blocks)?;
        }
        leaving.push(blocks);
    }
    let block = |blocks: Span, rank: Rank| blocks.part(count * u64::from(rank.0), count);
    for other in (1..hosts).map(|step| (host + step) % hosts) {
        let theirs = levels.members(other);
        let blocks: Vec<Span> =
            leaving.iter().flat_map(|&blocks| theirs.iter().map(move |&rank| block(blocks, rank))).collect();
        let packed = pack(weaver, &blocks)?;
        weaver.send(levels.leader(other), packed)?;
    }
    let arriving: Vec<Span> =
        ranks.iter().map(|&rank| if rank == me { output } else { weaver.temporary(all) }).collect();
    for other in (0..hosts).map(|step| (host + hosts - step) % hosts) {
        let senders = levels.members(other);
        let size = count * (senders.len() * ranks.len()) as u64;
        let packed = weaver.temporary(if other == host { 0 } else { size });
        if other != host {
            weaver.recv(levels.leader(other), packed)?;
        }
        for (row, &sender) in senders.iter().enumerate() {
            for (column, (&receiver, &blocks)) in ranks.iter().zip(&arriving).enumerate() {
                let from = match other == host {
                    true => block(leaving[row], receiver),
                    false => packed.part(count * (row * ranks.len() + column) as u64, count),
                };
                weaver.copy(from, block(blocks, sender))?;
            }
        }
    }
    for (&rank, &blocks) in ranks.iter().zip(&arriving) {
        if rank != me {
            weaver.send(rank, blocks)?;
        }
    }
    Ok(())
}
