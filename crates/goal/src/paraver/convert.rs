//! From calls and messages to graphs.

use super::Conversion;
use super::calls::{Call, Kind};
use super::collectives::{Collective, Collectives};
use super::error::ParaverError;
use super::note::Note;
use super::records::{Message, Thread, Trace};
use crate::graph::{EdgeKind, Graph, GraphError, Vertex};
use crate::op::Place;
use crate::program::Program;
use castell_base::{Rank, Tag};
use std::collections::{HashMap, VecDeque};

/// Builds a graph a rank: the calls of each of its threads in their order.
pub(super) fn convert(
    trace: &Trace,
    threads: &[Vec<Call>],
    collectives: &Collectives<'_>,
) -> Result<Conversion, ParaverError> {
    let mut graphs: Vec<Graph> = Vec::new();
    let mut done = HashMap::new();
    let mut rank_before = None;
    for (thread, calls) in trace.threads.iter().zip(threads) {
        if calls.is_empty() && thread.number > 0 {
            // It never communicates; its work is part of the time that its rank's first thread takes.
            continue;
        }
        let rank = Rank(thread.rank);
        if rank_before.replace(rank) != Some(rank) {
            done.clear();
        }
        graphs.resize_with(rank.index() + 1, Graph::new);
        let Ok(processor) = u8::try_from(thread.number) else {
            let (first, _) = trace.applications[thread.application];
            let task = u64::from(thread.rank - first) + 1;
            return Err(ParaverError::ThreadBeyond { task, thread: thread.number + 1 });
        };
        let mut chain = Chain::new(&mut graphs[rank.index()], processor, &trace.messages);
        let converted = chain.thread(thread, calls, collectives, &mut done);
        converted.map_err(|error| ParaverError::Graph { rank, error })?;
    }
    let notes = collectives.notes().chain(left_out(threads)).chain([overtaking(&trace.messages)]);
    let notes = notes.filter(|note| match note {
        Note::LeftOut { calls, .. } => *calls > 0,
        Note::Overtaking { messages } => *messages > 0,
        Note::Collectives { .. } => true,
    });
    let notes = notes.collect();
    Ok(Conversion { program: Program::with_graphs(trace.num_ranks, graphs), notes })
}

fn left_out(threads: &[Vec<Call>]) -> [Note; 3] {
    let count = |what, fits: &dyn Fn(&Call) -> bool| {
        let calls = threads.iter().flatten().filter(|call| fits(call)).count() as u64;
        Note::LeftOut { what, calls }
    };
    let silent = |call: &Call| {
        let messages = call.kind == Kind::Send || call.kind == Kind::ImmediateSend || call.kind == Kind::Recv;
        messages && call.sends.is_empty() && call.receives.is_empty()
    };
    [
        count("one-sided calls (put, get, accumulate) were", &|call| call.kind == Kind::OneSided),
        count("neighbourhood collective calls, whose neighbours the trace does not list, were", &|call| {
            call.kind == Kind::Neighbour
        }),
        count("sends and receives without a communication record were", &silent),
    ]
}

/// Messages with the same sender, receiver and tag that are not received in the order in which they were sent.
fn overtaking(messages: &[Message]) -> Note {
    let key = |message: &Message| (message.from, message.to, message.tag);
    let mut order: Vec<&Message> = messages.iter().collect();
    order.sort_by_key(|message| (key(message), message.sent_ns));
    let overtaken =
        |pair: &&[&Message]| key(pair[0]) == key(pair[1]) && pair[0].posted_ns > pair[1].posted_ns;
    Note::Overtaking { messages: order.windows(2).filter(overtaken).count() as u64 }
}

/// A thread's operations, each after the one before.
struct Chain<'a> {
    graph: &'a mut Graph,
    processor: u8,
    messages: &'a [Message],
    /// What the next operation waits for.
    last: Vec<(Vertex, EdgeKind)>,
    /// Computation that is no operation yet: calls that neither send nor wait do not divide it.
    compute_ns: u64,
    /// Receives that no call has completed yet, by message.
    pending: HashMap<usize, Vertex>,
    /// Immediate sends and collective operations of which no call says when they were done, in their order.
    outstanding: VecDeque<Vec<Vertex>>,
}

impl<'a> Chain<'a> {
    fn new(graph: &'a mut Graph, processor: u8, messages: &'a [Message]) -> Chain<'a> {
        let (pending, outstanding) = (HashMap::new(), VecDeque::new());
        Chain { graph, processor, messages, last: Vec::new(), compute_ns: 0, pending, outstanding }
    }

    fn thread(
        &mut self,
        thread: &Thread,
        calls: &[Call],
        collectives: &Collectives<'_>,
        done: &mut HashMap<(usize, u64), usize>,
    ) -> Result<(), GraphError> {
        let mut nothing = Nothing { rest: &thread.nothing_ns };
        let mut now_ns = 0;
        for call in calls {
            self.compute_ns += nothing.busy_ns(now_ns, call.start_ns);
            now_ns = call.end_ns;
            match call.kind {
                Kind::Collective => {
                    let rank = Rank(thread.rank);
                    if let Some((collective, members, me)) =
                        collectives.next(thread.application, rank, call, done)
                    {
                        self.collective(collective, members, me)?;
                    }
                }
                _ => self.messages(call)?,
            }
            self.complete(call)?;
        }
        self.compute_ns += nothing.busy_ns(now_ns, thread.end_ns);
        self.compute()
    }

    /// Adds the computation since the last operation, where there was any.
    fn compute(&mut self) -> Result<(), GraphError> {
        let ns = std::mem::take(&mut self.compute_ns);
        if ns > 0 {
            let calc = self.graph.calc(ns)?;
            self.attach(calc, &self.last.clone())?;
            self.last = vec![(calc, EdgeKind::Finish)];
        }
        Ok(())
    }

    /// What a call sends and asks for, all at once.
    fn messages(&mut self, call: &Call) -> Result<(), GraphError> {
        if call.sends.is_empty() && call.receives.is_empty() {
            return Ok(());
        }
        self.compute()?;
        let before = std::mem::take(&mut self.last);
        for &number in &call.sends {
            let Message { to, bytes, tag, .. } = self.messages[number];
            let send = self.graph.send(Place::VOID, bytes, to, Tag(tag))?;
            self.attach(send, &before)?;
            if call.is_immediate() {
                self.outstanding.push_back(vec![send]);
            }
            let kind = if call.is_immediate() { EdgeKind::Start } else { EdgeKind::Finish };
            self.last.push((send, kind));
        }
        for &(number, came) in &call.receives {
            let Message { from, bytes, tag, .. } = self.messages[number];
            let recv = self.graph.recv(Place::VOID, bytes, Some(from), Some(Tag(tag)))?;
            self.attach(recv, &before)?;
            if !came {
                self.pending.insert(number, recv);
            }
            self.last.push((recv, if came { EdgeKind::Finish } else { EdgeKind::Start }));
        }
        Ok(())
    }

    fn collective(&mut self, collective: &Collective, members: &[Rank], me: usize) -> Result<(), GraphError> {
        let tag = collective.tag;
        self.compute()?;
        let mut first = Vec::new();
        let mut before = self.last.clone();
        for step in collective.steps(me) {
            let mut made = Vec::new();
            if let Some((to, bytes)) = step.send {
                made.push(self.graph.send(Place::VOID, bytes, members[to], tag)?);
            }
            if let Some((from, bytes)) = step.recv {
                made.push(self.graph.recv(Place::VOID, bytes, Some(members[from]), Some(tag))?);
            }
            for &vertex in &made {
                self.attach(vertex, &before)?;
            }
            if made.is_empty() {
                continue;
            }
            before = made.iter().map(|vertex| (*vertex, EdgeKind::Finish)).collect();
            if first.is_empty() {
                first = made;
            }
        }
        if collective.operation.immediate && !first.is_empty() {
            self.last = first.into_iter().map(|vertex| (vertex, EdgeKind::Start)).collect();
            self.outstanding.push_back(before.into_iter().map(|(vertex, _)| vertex).collect());
        } else {
            self.last = before;
        }
        Ok(())
    }

    /// What a call waited for is waited for by what follows it.
    fn complete(&mut self, call: &Call) -> Result<(), GraphError> {
        let sends = match call.kind {
            // It waited for something, and no receive was done by it.
            Kind::Wait if call.completes.is_empty() => 1.min(self.outstanding.len()),
            Kind::WaitAll | Kind::Finalize => self.outstanding.len(),
            _ => 0,
        };
        if sends == 0 && call.completes.is_empty() {
            return Ok(());
        }
        self.compute()?;
        let receives = call.completes.iter().filter_map(|number| self.pending.remove(number));
        let done = receives.chain(self.outstanding.drain(..sends).flatten());
        self.last.extend(done.map(|vertex| (vertex, EdgeKind::Finish)));
        Ok(())
    }

    fn attach(&mut self, vertex: Vertex, before: &[(Vertex, EdgeKind)]) -> Result<(), GraphError> {
        if self.processor > 0 {
            self.graph.set_cpu(vertex, self.processor)?;
        }
        for &(prerequisite, kind) in before {
            match kind {
                EdgeKind::Finish => self.graph.requires(prerequisite, vertex)?,
                EdgeKind::Start => self.graph.irequires(prerequisite, vertex)?,
            }
        }
        Ok(())
    }
}

/// Times in which a thread did nothing, those that are over taken away.
struct Nothing<'a> {
    rest: &'a [(u64, u64)],
}

impl Nothing<'_> {
    /// How much of a time was not spent doing nothing; times are asked for in order.
    fn busy_ns(&mut self, from_ns: u64, to_ns: u64) -> u64 {
        let mut busy_ns = to_ns.saturating_sub(from_ns);
        let mut counted_ns = from_ns;
        while let [(start_ns, end_ns), rest @ ..] = self.rest {
            if *start_ns >= to_ns {
                break;
            }
            let (start_ns, end) = ((*start_ns).max(counted_ns), (*end_ns).min(to_ns));
            if start_ns < end {
                busy_ns -= end - start_ns;
                counted_ns = end;
            }
            if *end_ns > to_ns {
                break;
            }
            self.rest = rest;
        }
        busy_ns
    }
}
