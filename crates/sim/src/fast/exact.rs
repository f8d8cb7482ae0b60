//! The sequential engine: every event in the order (time, number of creation), as LogGOPSim has it.
//!
//! What an event does follows LogGOPSim's main loop (Hoefler, Schneider, Lumsdaine: LogGOPSim, HPDC 2010): an event
//! whose processor or interface is busy is put back, with the number it has; what an event releases is queued behind
//! everything that was created before, sends before receives before calcs.

use super::cost::{About, Charges, Costs, Drawn};
use super::encode::TIME_MAX;
use super::flat::{
    Declined, FINISHES, Flat, FlatOp, JOIN, Kind, LAST, Member, NONE, STARTS, Shape, TARGET, UNEVEN, WILD,
};
use super::queue::{Event, Queue};
use super::slot::{Channels, Slot};
use crate::costs::LogCosts;
use crate::machine::Machine;
use castell_base::{Rank, Tag, Time};
use castell_matching::{Key, Matcher, Pattern};
use castell_model::LogGops;
use std::collections::HashMap;

/// When each rank was done, and how much happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Operations carried out, and one arrival a message.
    pub events: u64,
    /// When the last processor of each rank is free.
    pub end: Vec<Time>,
}

impl Flat {
    /// Runs the program on a machine of the LogGOPS family, ties broken by order of insertion: what LogGOPSim does.
    ///
    /// # Errors
    /// [`Declined`] where the program is wrong, or runs too long: the reference engine says what there is to say.
    pub fn run(&self, model: &LogGops) -> Result<Finished, Declined> {
        self.run_told(model, &|_| ())
    }

    /// The same; tells now and then how many operations have been carried out.
    pub(crate) fn run_told(&self, model: &LogGops, tell: &dyn Fn(u64)) -> Result<Finished, Declined> {
        match self.lanes > 1 {
            false => self.run_with::<false, false>(model, tell),
            true => self.run_with::<true, false>(model, tell),
        }
    }

    /// As [`Flat::run`], but declines where events happen at the same time whose order would not be the same at every
    /// rank, if this program is what each of many ranks does with others like it.
    pub(crate) fn run_without_ties(&self, model: &LogGops) -> Result<Finished, Declined> {
        self.run_with::<true, true>(model, &|_| ())
    }

    /// As [`Flat::run`] on a machine with noise, drawn from `seed` as in the reference engine. The machine's model is
    /// `model`.
    ///
    /// # Errors
    /// As [`Flat::run`].
    pub fn run_with_noise(
        &self,
        model: &LogGops,
        machine: &Machine,
        seed: u64,
    ) -> Result<Finished, Declined> {
        self.run_with_noise_told(model, machine, seed, &|_| ())
    }

    /// The same; tells now and then how many operations have been carried out.
    pub(crate) fn run_with_noise_told(
        &self,
        model: &LogGops,
        machine: &Machine,
        seed: u64,
        tell: &dyn Fn(u64),
    ) -> Result<Finished, Declined> {
        let costs = Drawn::new(self, model, machine, seed);
        match self.in_degrees_are_small() {
            true => Exact::<u8, _, true, false>::new(self, &costs)?.run(tell),
            false => Exact::<u32, _, true, false>::new(self, &costs)?.run(tell),
        }
    }

    fn run_with<const LANES: bool, const ALIKE: bool>(
        &self,
        model: &LogGops,
        tell: &dyn Fn(u64),
    ) -> Result<Finished, Declined> {
        let costs = Costs::new(self, &LogCosts { model: model.clone(), capacity: None });
        if !costs.are_small() {
            return Err(Declined::Time);
        }
        match self.in_degrees_are_small() {
            true => Exact::<u8, _, LANES, ALIKE>::new(self, &costs)?.run(tell),
            false => Exact::<u32, _, LANES, ALIKE>::new(self, &costs)?.run(tell),
        }
    }

    pub(super) fn in_degrees_are_small(&self) -> bool {
        self.shapes.iter().all(|shape| shape.in_degree_max < u8::LIMIT)
    }
}

/// When a processor, and an interface in both directions, are free.
#[derive(Clone, Copy, Default)]
struct Clock {
    cpu: u64,
    send: u64,
    receive: u64,
}

/// In an event's `what`, above the operation's number.
pub(super) const KIND_SHIFT: u32 = 30;
/// Above the kinds of operations: a message arrives. The operation is the receive, `from` the send.
pub(super) const ARRIVAL: u32 = 3;

/// In an arrival's `from`: it has been put back before.
const PUT_BACK: u32 = 1 << 31;

/// A message for a rank that matches by search.
#[derive(Clone, Copy)]
struct Sent {
    source: u32,
    op: u32,
}

/// `LANES`: ranks have several processors or interfaces. `ALIKE`: ties are declined.
struct Exact<'a, S, C, const LANES: bool, const ALIKE: bool> {
    flat: &'a Flat,
    costs: &'a C,
    clocks: Vec<Clock>,
    slots: Vec<S>,
    channels: Channels,
    queue: Queue,
    /// What an event has released.
    freed: Vec<u32>,
    /// Sends that were released together: each is queued when the one before has got processor and interface, which it
    /// would wait for in any case. A send's event has in `from` where its followers begin, if any; the last is marked.
    lines: Vec<u32>,
    done: u64,
    messages: u64,
    matchers: HashMap<u32, Matcher<u32, u32>>,
    sent: Vec<Sent>,
    mistake: bool,
    alike: Alike,
}

impl<'a, S: Slot, C: Charges, const LANES: bool, const ALIKE: bool> Exact<'a, S, C, LANES, ALIKE> {
    fn new(flat: &'a Flat, costs: &'a C) -> Result<Self, Declined> {
        let roots: u64 =
            flat.shapes.iter().map(|shape| u64::from(shape.roots) * u64::from(shape.ranks)).sum();
        let first = u32::try_from(roots).ok().filter(|&roots| roots < u32::MAX / 2).ok_or(Declined::Size)?;
        Ok(Exact {
            flat,
            costs,
            clocks: vec![Clock::default(); flat.ranks as usize * flat.lanes as usize],
            slots: super::slot::initial(flat),
            channels: Channels::new(flat.channels),
            queue: Queue::new(first),
            freed: Vec::new(),
            // No line begins at 0.
            lines: vec![NONE],
            done: 0,
            messages: 0,
            matchers: HashMap::new(),
            sent: Vec::new(),
            mistake: false,
            alike: Alike::new(first as usize),
        })
    }

    fn run(mut self, tell: &dyn Fn(u64)) -> Result<Finished, Declined> {
        /// Operations until something is told again.
        const TOLD_EVERY: u64 = 1 << 18;
        self.begin();
        let mut told_next = TOLD_EVERY;
        while let Some(event) = self.queue.pop() {
            if self.done >= told_next {
                tell(self.done);
                told_next = self.done + TOLD_EVERY;
            }
            if ALIKE && !self.alike.is_certain(&event) {
                return Err(Declined::Symmetry);
            }
            if self.queue.has_new_batch() {
                self.fetch_batch();
            }
            self.carry_out(event);
            if self.mistake {
                return Err(Declined::Mistake);
            }
        }
        let waits = !self.channels.is_empty()
            || self.matchers.values().any(|matcher| matcher.posted_len() + matcher.unexpected_len() > 0);
        if self.done < self.flat.operations || waits || !super::slot::received(self.flat, &self.slots) {
            return Err(Declined::Mistake);
        }
        let lanes = self.flat.lanes as usize;
        let last = |lanes: &[Clock]| lanes.iter().map(|clock| clock.cpu).max().unwrap_or(0);
        let end: Vec<Time> = self.clocks.chunks(lanes).map(|lanes| Time(last(lanes))).collect();
        if end.iter().any(|&end| end > Time(TIME_MAX)) {
            return Err(Declined::Time);
        }
        tell(self.done);
        Ok(Finished { events: self.done + self.messages, end })
    }

    /// Reads what the next events need, all at once: under noise they are at ranks all over the memory, and one by one
    /// each would wait for it.
    #[inline(never)]
    fn fetch_batch(&self) {
        let mut sum = 0;
        for event in self.queue.batch() {
            let member = self.flat.members[event.rank as usize];
            let clock = &self.clocks[event.rank as usize * if LANES { self.flat.lanes as usize } else { 1 }];
            sum ^= clock.cpu;
            let (shape, at) = (self.shape(member), event.what & TARGET);
            if at < shape.ops {
                let op = &self.flat.ops[(shape.first_op + at) as usize];
                if op.kind != Kind::Calc && op.peer != NONE {
                    let peer = self.flat.peers.decode(event.rank, op.peer, self.flat.ranks);
                    sum ^= u64::from(self.flat.members[peer as usize].index);
                }
                if op.slot != NONE {
                    sum ^= u64::from(self.slots[slot_of(op, member, shape)].is_received());
                }
            }
        }
        std::hint::black_box(sum);
    }

    /// What waits for nothing, rank by rank. These events are the first at time 0, so they need not be queued.
    fn begin(&mut self) {
        let mut number = 0;
        for rank in 0..self.flat.ranks {
            let shape = self.shape(self.flat.members[rank as usize]);
            let roots = &self.flat.roots[shape.first_root as usize..][..shape.roots as usize];
            let is_send = |&&op: &&u32| self.flat.ops[(shape.first_op + op) as usize].kind == Kind::Send;
            // Sends come first, and those after the first one wait for it, unless it takes no time: then they come before
            // everything of the next rank.
            let sends = roots.iter().take_while(is_send).count();
            let in_line = !LANES && self.costs.sends_take_time();
            let followers = if in_line { sends.saturating_sub(1) } else { 0 };
            let line = if followers > 0 { self.line(&roots[1..sends]) } else { 0 };
            for (place, &op) in roots.iter().enumerate() {
                if place == 0 || place > followers {
                    let kind = self.flat.ops[(shape.first_op + op) as usize].kind as u32;
                    let from = if place == 0 { line } else { 0 };
                    self.carry_out(Event { time: 0, number, rank, what: kind << KIND_SHIFT | op, from });
                }
                number += 1;
            }
        }
    }

    /// Sends that follow another one; where their line begins.
    fn line(&mut self, followers: &[u32]) -> u32 {
        let from = self.lines.len() as u32;
        self.lines.extend_from_slice(followers);
        *self.lines.last_mut().expect("no line is empty") |= LAST;
        from
    }

    #[inline(always)]
    fn shape(&self, member: Member) -> &'a Shape {
        &self.flat.shapes[member.shape as usize]
    }

    #[inline(always)]
    fn lane(&self, rank: u32, lane: u8) -> usize {
        if LANES { rank as usize * self.flat.lanes as usize + lane as usize } else { rank as usize }
    }

    #[inline(always)]
    fn carry_out(&mut self, event: Event) {
        let member = self.flat.members[event.rank as usize];
        let shape = self.shape(member);
        let at = event.what & TARGET;
        match event.what >> KIND_SHIFT {
            ARRIVAL if at == WILD => self.arrive_by_search(event),
            ARRIVAL => self.arrive(event, member, shape, &self.flat.ops[(shape.first_op + at) as usize]),
            kind => {
                let op = &self.flat.ops[(shape.first_op + at) as usize];
                if kind == Kind::Send as u32 {
                    self.send(event, member, shape, op);
                } else if kind == Kind::Receive as u32 {
                    self.receive(event, member, shape, op);
                } else {
                    self.calc(event, member, shape, op);
                }
            }
        }
    }

    #[inline(always)]
    fn calc(&mut self, mut event: Event, member: Member, shape: &Shape, op: &FlatOp) {
        let cpu = self.lane(event.rank, op.cpu);
        let free = self.clocks[cpu].cpu;
        if free > event.time {
            event.time = free;
            return self.queue.retry(event);
        }
        let (owner, at) = (event.rank, event.what & TARGET);
        let time = self.costs.compute(op.value, About { owner, op: at, rank: owner, now: event.time });
        self.clocks[cpu].cpu = event.time + time;
        self.done += 1;
        if op.flags & (STARTS | FINISHES) != 0 {
            let middle = self.release_started(op, member, shape);
            self.release_finished(op, middle, member, shape);
            self.queue_freed(event.rank, shape);
        }
    }

    #[inline(always)]
    fn send(&mut self, mut event: Event, member: Member, shape: &Shape, op: &FlatOp) {
        let (cpu, nic) = (self.lane(event.rank, op.cpu), self.lane(event.rank, op.nic));
        let free = self.clocks[cpu].cpu.max(self.clocks[nic].send);
        if free > event.time {
            event.time = free;
            return self.queue.retry(event);
        }
        let (owner, at) = (event.rank, event.what & TARGET);
        let about = About { owner, op: at, rank: owner, now: event.time };
        let (charge, flight) = self.costs.send(op.value, about);
        self.clocks[cpu].cpu = event.time + charge.cpu;
        self.clocks[nic].send = event.time + charge.nic;
        if !LANES && event.from != 0 {
            self.queue_next_in_line(event, shape);
        }
        self.done += 1;
        self.messages += 1;
        let rank = self.flat.peers.decode(event.rank, op.peer, self.flat.ranks);
        let Some(receive) = self.flat.receive_of(event.rank, rank, shape, op) else {
            self.mistake = true;
            return;
        };
        let from = if receive == WILD {
            self.sent.push(Sent { source: event.rank, op: at });
            self.sent.len() as u32 - 1
        } else {
            at
        };
        let time = event.time + flight;
        if time > TIME_MAX {
            self.mistake = true;
            return;
        }
        // The message's number comes before those of what the send releases.
        self.create(Event { time, number: 0, rank, what: ARRIVAL << KIND_SHIFT | receive, from });
        if op.flags & (STARTS | FINISHES) != 0 {
            let middle = self.release_started(op, member, shape);
            if !self.costs.rendezvous(op.value) {
                self.release_finished(op, middle, member, shape);
            }
            self.queue_freed(event.rank, shape);
        }
    }

    #[inline(always)]
    fn receive(&mut self, event: Event, member: Member, shape: &Shape, op: &FlatOp) {
        self.done += 1;
        let middle = self.release_started(op, member, shape);
        let at = event.what & TARGET;
        if shape.wild {
            self.post_by_search(event, member, shape, op, middle);
        } else if op.partner == NONE {
            let slot = &mut self.slots[slot_of(op, member, shape)];
            match slot.post() {
                false => {}
                true if self.costs.rendezvous(op.value) => {
                    let source = self.flat.peers.decode(event.rank, op.peer, self.flat.ranks);
                    let send = self.send_of(event.rank, source, op);
                    return self.meet(event, source, send, (op.cpu, op.nic), (member, shape, op, middle));
                }
                true => self.release_finished(op, middle, member, shape),
            }
        } else {
            let channel = channel_of(op, member, shape);
            if let Some(from) = self.channels.post(channel, at) {
                let source = self.flat.peers.decode(event.rank, op.peer, self.flat.ranks);
                return self.matched(event, source, from, (op.cpu, op.nic), (member, shape, op, middle));
            }
        }
        self.queue_freed(event.rank, shape);
    }

    #[inline(always)]
    fn arrive(&mut self, mut event: Event, member: Member, shape: &Shape, op: &FlatOp) {
        let from = event.from & !PUT_BACK;
        let (mut size, mut lanes) = (op.value, (0, 0));
        let mut source = NONE;
        if LANES || C::DRAWN || op.flags & UNEVEN != 0 {
            source = self.flat.peers.decode(event.rank, op.peer, self.flat.ranks);
            let send = self.op_of(source, from);
            (size, lanes) = (send.value, (send.cpu, send.nic));
        }
        let sent = (size, source, from);
        let Some(rendezvous) = self.occupy(&mut event, sent, lanes) else { return };
        if event.from & PUT_BACK != 0 {
            let clock = self.clocks[event.rank as usize];
            self.queue.unpark(&event, clock.cpu.max(clock.receive));
        }
        if op.partner == NONE {
            match self.slots[slot_of(op, member, shape)].arrive() {
                None => self.mistake = true,
                Some(false) => {}
                Some(true) if rendezvous => {
                    let source = self.flat.peers.decode(event.rank, op.peer, self.flat.ranks);
                    self.meet(event, source, from, lanes, (member, shape, op, self.middle(op)));
                }
                Some(true) => {
                    if op.flags & FINISHES != 0 {
                        self.release_finished(op, self.middle(op), member, shape);
                        self.queue_freed(event.rank, shape);
                    }
                }
            }
        } else if let Some(at) = self.channels.arrive(channel_of(op, member, shape), from) {
            if source == NONE {
                source = self.flat.peers.decode(event.rank, op.peer, self.flat.ranks);
            }
            let op = &self.flat.ops[(shape.first_op + at) as usize];
            self.matched(event, source, from, lanes, (member, shape, op, self.middle(op)));
        }
    }

    /// A message takes the receiver's time; `None`: it was put back. Otherwise whether it is a rendezvous.
    #[inline(always)]
    fn occupy(
        &mut self,
        event: &mut Event,
        (size, owner, op): (u64, u32, u32),
        (cpu, nic): (u8, u8),
    ) -> Option<bool> {
        let (cpu, nic) = (self.lane(event.rank, cpu), self.lane(event.rank, nic));
        let free = self.clocks[cpu].cpu.max(self.clocks[nic].receive);
        if free > event.time {
            event.time = free;
            // A message that comes while the rank is busy is put back once. One that has to wait for longer waits in line.
            let one_processor = !LANES || self.flat.lanes == 1;
            if ALIKE || !one_processor || event.what & TARGET == WILD {
                self.queue.retry(*event);
            } else if event.from & PUT_BACK == 0 {
                self.queue.retry(Event { from: event.from | PUT_BACK, ..*event });
            } else {
                self.queue.park(*event);
            }
            return None;
        }
        let charge = self.costs.arrival(size, About { owner, op, rank: event.rank, now: event.time });
        self.clocks[cpu].cpu = event.time + charge.cpu;
        self.clocks[nic].receive = event.time + charge.nic;
        Some(self.costs.rendezvous(size))
    }

    /// A message and a receive of a channel, or of a rank that searches, have found each other.
    fn matched(&mut self, event: Event, source: u32, send: u32, lanes: (u8, u8), receive: Receive<'_>) {
        let (member, shape, op, middle) = receive;
        if self.op_of(source, send).value != op.value {
            self.mistake = true;
        } else if self.costs.rendezvous(op.value) {
            self.meet(event, source, send, lanes, receive);
        } else {
            self.release_finished(op, middle, member, shape);
            self.queue_freed(event.rank, shape);
        }
    }

    /// Both sides of a rendezvous go on; the sender's clocks are set to this time. Of the two ranks the lower one's
    /// operations are queued first.
    fn meet(&mut self, event: Event, source: u32, send: u32, (cpu, nic): (u8, u8), receive: Receive<'_>) {
        let (member, shape, op, middle) = receive;
        let (cpu, nic) = (self.lane(source, cpu), self.lane(source, nic));
        self.clocks[cpu].cpu = self.clocks[cpu].cpu.max(event.time);
        self.clocks[nic].send = self.clocks[nic].send.max(event.time);
        let sender = self.flat.members[source as usize];
        let sender_shape = self.shape(sender);
        let sender_op = &self.flat.ops[(sender_shape.first_op + send) as usize];
        if source <= event.rank {
            // What a receive that starts has released comes before what the send's end releases, on one rank.
            let started = if source == event.rank { 0 } else { self.freed.len() };
            let mut held: Vec<u32> = self.freed.drain(self.freed.len() - started..).collect();
            self.release_finished(sender_op, self.middle(sender_op), sender, sender_shape);
            if source < event.rank {
                self.queue_freed(source, sender_shape);
            }
            self.freed.append(&mut held);
            self.release_finished(op, middle, member, shape);
            self.queue_freed(event.rank, shape);
        } else {
            self.release_finished(op, middle, member, shape);
            self.queue_freed(event.rank, shape);
            self.release_finished(sender_op, self.middle(sender_op), sender, sender_shape);
            self.queue_freed(source, sender_shape);
        }
    }

    fn op_of(&self, rank: u32, at: u32) -> &'a FlatOp {
        let shape = self.shape(self.flat.members[rank as usize]);
        &self.flat.ops[(shape.first_op + at) as usize]
    }

    /// The one send of `source` that goes to a receive.
    fn send_of(&self, rank: u32, source: u32, receive: &FlatOp) -> u32 {
        let shape = self.shape(self.flat.members[source as usize]);
        let code = self.flat.peers.encode(source, rank, self.flat.ranks);
        let ops = &self.flat.ops[shape.first_op as usize..][..shape.ops as usize];
        let is = |op: &FlatOp| (op.kind, op.peer, op.tag) == (Kind::Send, code, receive.tag);
        ops.iter().position(is).expect("its message has arrived") as u32
    }

    #[cold]
    fn post_by_search(&mut self, event: Event, member: Member, shape: &Shape, op: &FlatOp, middle: u32) {
        let source =
            (op.peer != NONE).then(|| Rank(self.flat.peers.decode(event.rank, op.peer, self.flat.ranks)));
        let tag = (op.tag != NONE).then_some(Tag(op.tag));
        let matcher = self.matchers.entry(event.rank).or_default();
        match matcher.post(Pattern { context: 0, source, tag }, event.what & TARGET) {
            Some(sent) => {
                let Sent { source, op: send } = self.sent[sent as usize];
                self.matched(event, source, send, (op.cpu, op.nic), (member, shape, op, middle));
            }
            None => self.queue_freed(event.rank, shape),
        }
    }

    #[cold]
    fn arrive_by_search(&mut self, mut event: Event) {
        let Sent { source, op: at } = self.sent[event.from as usize];
        let send = self.op_of(source, at);
        let lanes = (send.cpu, send.nic);
        if self.occupy(&mut event, (send.value, source, at), lanes).is_none() {
            return;
        }
        let key = Key { context: 0, source: Rank(source), tag: Tag(send.tag) };
        if let Some(receive) = self.matchers.entry(event.rank).or_default().arrive(key, || event.from) {
            let member = self.flat.members[event.rank as usize];
            let shape = self.shape(member);
            let op = &self.flat.ops[(shape.first_op + receive) as usize];
            self.matched(event, source, at, lanes, (member, shape, op, self.middle(op)));
        }
    }

    /// Where the list of those that wait for an operation's end begins.
    #[inline(always)]
    fn middle(&self, op: &FlatOp) -> u32 {
        op.middle(&self.flat.successors)
    }

    /// Releases what waits for the operation's start; returns where those begin that wait for its end.
    #[inline(always)]
    fn release_started(&mut self, op: &FlatOp, member: Member, shape: &Shape) -> u32 {
        if op.flags & STARTS == 0 { op.successors } else { self.release(op.successors, member, shape) }
    }

    #[inline(always)]
    fn release_finished(&mut self, op: &FlatOp, middle: u32, member: Member, shape: &Shape) {
        if op.flags & FINISHES != 0 {
            self.release(middle, member, shape);
        }
    }

    /// Goes through a list of successors; returns what is behind it.
    #[inline(always)]
    fn release(&mut self, mut at: u32, member: Member, shape: &Shape) -> u32 {
        loop {
            let entry = self.flat.successors[at as usize];
            let target = entry & TARGET;
            let ready = entry & JOIN == 0 || {
                let op = &self.flat.ops[(shape.first_op + target) as usize];
                self.slots[slot_of(op, member, shape)].meet()
            };
            if ready {
                self.freed.push(target);
            }
            at += 1;
            if entry & LAST != 0 {
                return at;
            }
        }
    }

    /// Queues what was released.
    #[inline(always)]
    fn queue_freed(&mut self, rank: u32, shape: &Shape) {
        if let [at] = self.freed[..] {
            self.freed.clear();
            self.queue_op(rank, shape, at, 0);
        } else if !self.freed.is_empty() {
            self.queue_several(rank, shape);
        }
    }

    #[inline(never)]
    fn queue_several(&mut self, rank: u32, shape: &Shape) {
        let mut freed = std::mem::take(&mut self.freed);
        let sends = self.flat.put_in_order(shape, &mut freed);
        let mut rest = &freed[..];
        if !LANES && sends > 1 {
            let from = self.line(&freed[1..sends]);
            self.queue_op(rank, shape, freed[0], from);
            rest = &freed[sends..];
        }
        for &at in rest {
            self.queue_op(rank, shape, at, 0);
        }
        freed.clear();
        self.freed = freed;
    }

    #[inline(always)]
    fn queue_op(&mut self, rank: u32, shape: &Shape, at: u32, from: u32) {
        let op = &self.flat.ops[(shape.first_op + at) as usize];
        let mut time = self.clocks[self.lane(rank, op.cpu)].cpu;
        if op.kind == Kind::Send {
            time = time.max(self.clocks[self.lane(rank, op.nic)].send);
        }
        if time > TIME_MAX {
            self.mistake = true;
            return;
        }
        let what = (op.kind as u32) << KIND_SHIFT | at;
        self.create(Event { time, number: 0, rank, what, from });
    }

    /// A send has begun: the next one of its line waits for processor and interface.
    #[inline(always)]
    fn queue_next_in_line(&mut self, event: Event, shape: &Shape) {
        let entry = self.lines[event.from as usize];
        let (at, from) = (entry & TARGET, if entry & LAST == 0 { event.from + 1 } else { 0 });
        debug_assert_eq!(self.flat.ops[(shape.first_op + at) as usize].kind, Kind::Send);
        let clock = self.clocks[event.rank as usize];
        let (time, number) = (clock.cpu.max(clock.send), event.number + 1);
        let what = (Kind::Send as u32) << KIND_SHIFT | at;
        self.queue.retry(Event { time, number, rank: event.rank, what, from });
    }

    #[inline(always)]
    fn create(&mut self, event: Event) {
        if ALIKE {
            self.alike.created.push(self.alike.now);
        }
        let lines = &self.lines;
        self.queue.push(event, |event| {
            let followers = event.what >> KIND_SHIFT == Kind::Send as u32 && event.from != 0;
            if !followers {
                return 1;
            }
            let line = &lines[event.from as usize..];
            line.iter().take_while(|&&entry| entry & LAST == 0).count() as u32 + 2
        });
    }
}

/// Watches, in one rank that stands for many, whether the order of events is the same at all of them.
struct Alike {
    now: u64,
    /// When each event was created, by number.
    created: Vec<u64>,
    /// Arrivals, and operations that want a processor, of this time: when they were created.
    arrivals: Vec<u64>,
    operations: Vec<u64>,
}

impl Alike {
    fn new(roots: usize) -> Alike {
        Alike { now: 0, created: vec![0; roots], arrivals: Vec::new(), operations: Vec::new() }
    }

    /// Whether the event's place among those of its time is certain. What a rank's own events create is in the same
    /// order at every rank. A message is created by another rank, so that its place is certain only if the events beside
    /// it were created at other times. (Receives may come before or after an arrival: the operations that wait for them
    /// are released at the same time in both cases.)
    fn is_certain(&mut self, event: &Event) -> bool {
        if event.time != self.now {
            self.now = event.time;
            self.arrivals.clear();
            self.operations.clear();
        }
        let created = self.created[event.number as usize];
        let kind = event.what >> KIND_SHIFT;
        if kind == Kind::Receive as u32 {
            return true;
        }
        if kind == ARRIVAL {
            let certain = !self.arrivals.contains(&created) && !self.operations.contains(&created);
            self.arrivals.push(created);
            return certain;
        }
        self.operations.push(created);
        !self.arrivals.contains(&created)
    }
}

/// A receive of a rank, and where the list of those that wait for its end begins.
type Receive<'b> = (Member, &'b Shape, &'b FlatOp, u32);

#[inline(always)]
fn slot_of(op: &FlatOp, member: Member, shape: &Shape) -> usize {
    shape.first_slot + op.slot as usize * shape.ranks as usize + member.index as usize
}

#[inline(always)]
fn channel_of(op: &FlatOp, member: Member, shape: &Shape) -> usize {
    shape.first_channel + op.partner as usize * shape.ranks as usize + member.index as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_created_when_others_of_their_time_were_have_no_certain_place() {
        let mut alike = Alike::new(0);
        // When each event was created, by number.
        alike.created = vec![0, 3, 3, 4, 4, 3, 5];
        let (send, receive, calc) = (Kind::Send as u32, Kind::Receive as u32, Kind::Calc as u32);
        for (time, number, kind, certain) in [
            (10, 0, ARRIVAL, true),
            (10, 1, ARRIVAL, true),
            // Two messages, a message and an operation, an operation and a message.
            (10, 2, ARRIVAL, false),
            (10, 3, calc, true),
            (10, 4, ARRIVAL, false),
            (10, 5, send, false),
            // Receives may come before or after.
            (10, 5, receive, true),
            (10, 6, ARRIVAL, true),
            // At another time, and operations beside each other.
            (11, 1, ARRIVAL, true),
            (11, 3, calc, true),
            (11, 4, send, true),
            (11, 6, receive, true),
            (11, 6, ARRIVAL, true),
        ] {
            let event = Event { time, number, rank: 0, what: kind << KIND_SHIFT | 1, from: 0 };
            assert_eq!(alike.is_certain(&event), certain, "{kind} {number} at {time}");
        }
    }
}
