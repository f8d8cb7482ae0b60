//! Each protocol between ranks, with messages and calls whose results are known.

use crate::group::{place, start, start_open};
use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_comm::collective::{Call, Reduction};
use castell_comm::job::{JobOptions, Net, OverTcp, Progress, Reads};
use castell_goal::graph::{Graph, Vertex};
use castell_goal::op::{Arithmetic, ElementType, Operator, Place};
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub type Random = ChaCha8Rng;
pub type Body = fn(&Comm, &mut Random) -> Result<(), String>;

/// A protocol: the jobs that use it, and what their ranks do. All ranks of a job draw the same numbers.
pub struct Case {
    pub name: &'static str,
    pub job: fn(&mut Random) -> JobOptions,
    pub body: Body,
    /// Ranks that may not be read by the others.
    pub hides: bool,
    /// Each host is a network namespace, with the interface [`LINE`].
    pub in_namespaces: bool,
}

/// The interface of hosts on one segment.
pub const LINE: &str = "e0";
/// A job has at most so many.
pub const HOSTS_MAX: u32 = 4;

pub const CASES: [Case; 14] = [
    together("queue", of_queues, small_messages),
    together("rings", of_rings, small_messages),
    together("slots", some_ranks, blocking_calls),
    together("started", some_ranks, started_calls),
    together("pipes", some_ranks, large_messages),
    together("copies", without_pipes, large_messages),
    Case { hides: true, ..together("fragments", without_pipes, large_messages) },
    together("pools", some_ranks, pooled_messages),
    together("zero_copy", of_readers, large_calls),
    together("carried", of_carriers, carried_runs),
    together("lent", of_carriers, runs_that_only_a_scope_waits_for),
    together("one_sided", some_ranks, puts_and_gets),
    together("tcp", over_tcp, all_messages),
    Case { in_namespaces: true, ..together("esp", over_esp, all_messages) },
];

/// Ranks that have all in common that a host's have.
const fn together(name: &'static str, job: fn(&mut Random) -> JobOptions, body: Body) -> Case {
    Case { name, job, body, hides: false, in_namespaces: false }
}

fn some_ranks(random: &mut Random) -> JobOptions {
    JobOptions::new(random.random_range(2..=4))
}

fn of_queues(random: &mut Random) -> JobOptions {
    JobOptions { queue_slots: 64, rings: false, ..some_ranks(random) }
}

fn of_rings(random: &mut Random) -> JobOptions {
    JobOptions { progress: Progress::Thread, ..some_ranks(random) }
}

fn without_pipes(random: &mut Random) -> JobOptions {
    JobOptions { pipes: false, ..some_ranks(random) }
}

fn of_readers(random: &mut Random) -> JobOptions {
    JobOptions { reads: Reads::Always, ..some_ranks(random) }
}

fn of_carriers(random: &mut Random) -> JobOptions {
    JobOptions { progress: Progress::Peers, ..some_ranks(random) }
}

fn over_tcp(random: &mut Random) -> JobOptions {
    let encrypts = random.random_bool(0.3);
    let net = Net::Tcp(OverTcp { encrypts, ..OverTcp::default() });
    let job = JobOptions { net, ..some_ranks(random) };
    // Some of them share memory then.
    let has_hosts = random.random_bool(0.3);
    let hosts = if has_hosts { (0..job.ranks).map(|rank| rank % 2).collect() } else { Vec::new() };
    JobOptions { hosts, ..job }
}

fn over_esp(random: &mut Random) -> JobOptions {
    let job = some_ranks(random);
    let hosts = random.random_range(2..=job.ranks.min(HOSTS_MAX));
    let net = Net::Esp(LINE.parse().expect("a name"));
    JobOptions { net, hosts: (0..job.ranks).map(|rank| rank % hosts).collect(), ..job }
}

fn all_messages(comm: &Comm, random: &mut Random) -> Result<(), String> {
    match random.random_range(0..4) {
        0 => small_messages(comm, random),
        1 => puts_and_gets(comm, random),
        2 => blocking_calls(comm, random),
        _ => large_messages(comm, random),
    }
}

fn small_messages(comm: &Comm, random: &mut Random) -> Result<(), String> {
    let sizes = [0, 8, 40, 300, 4000];
    messages(comm, random, &sizes, |bytes| vec![0_u8; bytes])
}

fn large_messages(comm: &Comm, random: &mut Random) -> Result<(), String> {
    let sizes = [8, 9000, 16 << 10, 100_000, 1_100_000];
    messages(comm, random, &sizes, |bytes| vec![0_u8; bytes])
}

fn pooled_messages(comm: &Comm, random: &mut Random) -> Result<(), String> {
    let sizes = [8, 16 << 10, 100_000];
    messages(comm, random, &sizes, |bytes| comm.allocate::<u8>(bytes.max(1)).expect("some memory"))
}

/// What the sender writes.
fn byte(sender: Rank, message: usize, at: usize) -> u8 {
    (sender.0 as usize * 31 + message * 7 + at) as u8
}

/// Several messages at once from each rank to another one, or from every second rank only: who has nothing more to do leaves.
fn messages<M: std::ops::DerefMut<Target = [u8]>>(
    comm: &Comm,
    random: &mut Random,
    sizes: &[usize],
    memory: impl Fn(usize) -> M,
) -> Result<(), String> {
    let (me, ranks) = (comm.rank(), comm.size());
    let shift = random.random_range(1..ranks);
    let (is_one_way, is_open) = (random.random_bool(0.5), random.random_bool(0.3));
    let lengths: Vec<usize> =
        (0..random.random_range(1..=6)).map(|_| *sizes.choose(random).expect("some")).collect();
    let (to, from) = (Rank((me.0 + shift) % ranks), Rank((me.0 + ranks - shift) % ranks));
    let sends = |rank: Rank| !is_one_way || rank.0.is_multiple_of(2);
    let mut graph = Graph::new();
    let mut buffers: Vec<[M; 2]> = lengths.iter().map(|bytes| [memory(*bytes), memory(*bytes)]).collect();
    for (number, ([out, into], bytes)) in buffers.iter_mut().zip(&lengths).enumerate() {
        let tag = Tag(number as u32);
        out.iter_mut().enumerate().for_each(|(at, to)| *to = byte(me, number, at));
        into.fill(0xa5);
        if sends(me) {
            graph.send(place(out), *bytes as u64, to, tag).expect("legal");
        }
        if sends(from) {
            graph.recv(place(into), *bytes as u64, Some(from), Some(tag)).expect("legal");
        }
    }
    let run = if is_open { start_open(comm, &graph) } else { start(comm, &graph) };
    run.wait().map_err(|failure| failure.to_string())?;
    for (number, ([_, into], bytes)) in buffers.iter().zip(&lengths).enumerate() {
        let is_right = |(at, found): (usize, &u8)| *found == byte(from, number, at);
        if sends(from) && !into[..*bytes].iter().enumerate().all(is_right) {
            return Err(format!("wrong bytes in message {number} of {bytes}"));
        }
    }
    Ok(())
}

fn blocking_calls(comm: &Comm, random: &mut Random) -> Result<(), String> {
    let (count, kind) = (random.random_range(0..40), random.random_range(0..5));
    calls(comm, random, count, kind)
}

fn large_calls(comm: &Comm, random: &mut Random) -> Result<(), String> {
    let (count, kind) = (random.random_range(20_000..60_000), random.random_range(1..5));
    calls(comm, random, count, kind)
}

/// A call of one operation or another, blocking or started.
fn calls(comm: &Comm, random: &mut Random, count: usize, kind: u32) -> Result<(), String> {
    let world = comm.world();
    let (me, ranks) = (world.rank().index() as u64, u64::from(world.size()));
    let (root, is_started) = (Rank(random.random_range(0..world.size())), random.random_bool(0.3));
    let value = |rank: u64, at: usize| rank * 1000 + at as u64;
    let (mut out, mut into) = (vec![0; count * ranks as usize], vec![u64::MAX; count * ranks as usize]);
    out.iter_mut().enumerate().for_each(|(at, to)| *to = value(me, at));
    let all: u64 = (0..ranks).sum();
    let call = match kind {
        0 => Call::barrier(),
        1 => {
            into[..count].copy_from_slice(&out[..count]);
            Call::broadcast(&mut into[..count], root)
        }
        2 => Call::allreduce(&out[..count], &mut into[..count], Reduction::Sum),
        3 => Call::allgather(&out[..count], &mut into),
        _ => Call::alltoall(&out, &mut into),
    };
    let outcome = match is_started {
        true => world.scope(|scope| scope.start(call)?.wait()),
        false => world.call(call),
    };
    outcome.map_err(|error| error.to_string())?;
    let expected = |at: usize| match kind {
        1 => value(u64::from(root.0), at),
        2 => all * 1000 + ranks * at as u64,
        3 => value((at / count) as u64, at % count),
        _ => value((at / count) as u64, me as usize * count + at % count),
    };
    let filled = [0, count, count, count * ranks as usize, count * ranks as usize][kind as usize];
    match into[..filled].iter().enumerate().find(|(at, found)| **found != expected(*at)) {
        Some((at, found)) => Err(format!("wrong bytes: {found} at {at} in call {kind}")),
        None => Ok(()),
    }
}

/// Many small calls of two communicators under way, more than a sender has places for; each rank waits for them in its own order.
fn started_calls(comm: &Comm, random: &mut Random) -> Result<(), String> {
    let world = comm.world();
    let second = world.dup().map_err(|error| error.to_string())?;
    let (me, ranks) = (u64::from(world.rank().0), u64::from(world.size()));
    let kinds: Vec<(u32, u64)> =
        (0..random.random_range(1..150)).map(|at| (random.random_range(0..5), at)).collect();
    let mut own = Random::seed_from_u64(random.random::<u64>() ^ me);
    let buffers =
        |(_, at): &(u32, u64)| (vec![100 * at + me; ranks as usize], vec![u64::MAX; ranks as usize]);
    let mut data: Vec<(Vec<u64>, Vec<u64>)> = kinds.iter().map(buffers).collect();
    let outcome = world.scope(|first| {
        second.scope(|second| {
            let mut open = Vec::new();
            for ((kind, _), (out, into)) in kinds.iter().zip(&mut data) {
                let scope = if *kind == 0 { second } else { first };
                let call = match kind % 2 {
                    0 => Call::allreduce(out, into, Reduction::Sum),
                    _ => Call::alltoall(out, into).by("linear"),
                };
                open.push(scope.start(call)?);
            }
            open.shuffle(&mut own);
            open.iter().try_for_each(|call| call.wait())
        })
    });
    outcome.map_err(|error| error.to_string())?;
    let all: u64 = (0..ranks).sum();
    for ((kind, at), (_, into)) in kinds.iter().zip(&data) {
        let expected = |rank: u64| if kind % 2 == 0 { ranks * 100 * at + all } else { 100 * at + rank };
        if !(0..ranks).zip(into).all(|(rank, found)| *found == expected(rank)) {
            return Err(format!("wrong bytes: {into:?} in call {at}"));
        }
    }
    Ok(())
}

/// A number goes round several times, and each rank adds its own: whoever has it may carry on the next rank's run.
fn carried_runs(comm: &Comm, random: &mut Random) -> Result<(), String> {
    let (me, ranks, laps) = (comm.rank(), comm.size(), random.random_range(1..4));
    let add = Arithmetic::new(Operator::Add, ElementType::U64).expect("legal");
    let copy = Arithmetic::new(Operator::Copy, ElementType::U64).expect("legal");
    let mut numbers = [1_u64 << me.0, 0];
    let [own, sum] = [0, 1].map(|at| Place::user(&raw mut numbers[at] as u64));
    let (kept, held) = (Place::scratch(0), Place::scratch(8));
    let mut graph = Graph::new();
    graph.allocate_scratchpad(16);
    let mut last: Vertex = graph.local(own, own, kept, copy, 1).expect("legal");
    let mut behind = |graph: &mut Graph, next: Vertex| {
        graph.requires(std::mem::replace(&mut last, next), next).expect("legal");
    };
    for lap in 0..laps {
        let next = graph.send(held, 8, Rank((me.0 + 1) % ranks), Tag(lap)).expect("legal");
        let before = Some(Rank((me.0 + ranks - 1) % ranks));
        let recv = graph.recv(held, 8, before, Some(Tag(lap))).expect("legal");
        let is_first = me == Rank(0);
        if is_first && lap == 0 {
            let begin = graph.local(kept, kept, held, copy, 1).expect("legal");
            behind(&mut graph, begin);
        }
        if is_first {
            behind(&mut graph, next);
        }
        behind(&mut graph, recv);
        let sum = graph.local(held, kept, held, add, 1).expect("legal");
        behind(&mut graph, sum);
        if !is_first {
            behind(&mut graph, next);
        }
    }
    let out = graph.local(held, held, sum, copy, 1).expect("legal");
    behind(&mut graph, out);
    start(comm, &graph).wait().map_err(|failure| failure.to_string())?;
    let (all, up_to) = ((1_u64 << ranks) - 1, (2_u64 << me.0) - 1);
    let expected = match me {
        Rank(0) => 1 + u64::from(laps) * all,
        _ => u64::from(laps - 1) * all + up_to,
    };
    match numbers[1] == expected {
        true => Ok(()),
        false => Err(format!("wrong bytes: {} instead of {expected}", numbers[1])),
    }
}

/// A sum goes around the ring through memory that is lent to a scope; nobody but its end waits for the run's.
fn runs_that_only_a_scope_waits_for(comm: &Comm, _random: &mut Random) -> Result<(), String> {
    let (me, ranks) = (comm.rank(), comm.size());
    let (next, before) = (Rank((me.0 + 1) % ranks), Rank((me.0 + ranks - 1) % ranks));
    let add = Arithmetic::new(Operator::Add, ElementType::U64).expect("legal");
    let (own, mut sum) = ([1_u64 << me.0], [0_u64]);
    let run = comm.scope(|scope| {
        let (own, sum) = (scope.share(&own), scope.lend(&mut sum));
        let mut graph = scope.graph();
        let comes = graph.recv(sum, Some(before), Some(Tag(0))).expect("legal");
        if me == Rank(0) {
            let goes = graph.send(own, next, Tag(0)).expect("legal");
            graph.requires(goes, comes).expect("legal");
        } else {
            let adds = graph.local(own, sum, sum, add).expect("legal");
            let goes = graph.send(sum, next, Tag(0)).expect("legal");
            graph.requires(comes, adds).and_then(|()| graph.requires(adds, goes)).expect("legal");
        }
        scope.run(&graph.compile().expect("legal")).expect("it fits the group")
    });
    if !run.is_done() {
        return Err("the scope has ended before its run".to_owned());
    }
    run.wait().map_err(|failure| failure.to_string())?;
    let expected = if me == Rank(0) { (1 << ranks) - 1 } else { (2 << me.0) - 1 };
    match sum[0] == expected {
        true => Ok(()),
        false => Err(format!("wrong bytes: {} instead of {expected}", sum[0])),
    }
}

/// Each rank gets what the next one has in its scratchpad, and puts as much beside it; who has done its part may leave.
fn puts_and_gets(comm: &Comm, random: &mut Random) -> Result<(), String> {
    let (me, ranks) = (comm.rank(), comm.size());
    let (next, before) = (Rank((me.0 + 1) % ranks), Rank((me.0 + ranks - 1) % ranks));
    let bytes = *[8, 300, 9000, 100_000].choose(random).expect("some");
    let mut out: Vec<u8> = (0..bytes).map(|at| byte(me, 0, at)).collect();
    let [mut got, mut was_put] = [(); 2].map(|()| vec![0xa5_u8; bytes]);
    let copy = Arithmetic::new(Operator::Copy, ElementType::U8).expect("legal");
    let (length, shown, written) = (bytes as u64, Place::scratch(0), Place::scratch(bytes as u64));
    let mut graph = Graph::new();
    graph.allocate_scratchpad(2 * length);
    let mut last: Option<Vertex> = None;
    let [is_shown, is_got, is_put] = [0, 1, 2].map(Tag);
    let steps = [
        graph.local(place(&mut out), Place::VOID, shown, copy, length),
        graph.send(Place::VOID, 0, before, is_shown),
        graph.recv(Place::VOID, 0, Some(next), Some(is_shown)),
        graph.get(place(&mut got), length, next, shown),
        graph.send(Place::VOID, 0, next, is_got),
        graph.put(place(&mut out), length, next, written),
        graph.send(Place::VOID, 0, next, is_put),
        graph.recv(Place::VOID, 0, Some(before), Some(is_got)),
        graph.recv(Place::VOID, 0, Some(before), Some(is_put)),
        graph.local(written, Place::VOID, place(&mut was_put), copy, length),
    ];
    for step in steps.map(|step| step.expect("legal")) {
        if let Some(last) = last.replace(step) {
            graph.requires(last, step).expect("legal");
        }
    }
    start(comm, &graph).wait().map_err(|failure| failure.to_string())?;
    for (what, found, of) in [("get", &got, next), ("put", &was_put, before)] {
        if !found.iter().copied().eq((0..bytes).map(|at| byte(of, 0, at))) {
            return Err(format!("wrong bytes in a {what} of {bytes}"));
        }
    }
    Ok(())
}
