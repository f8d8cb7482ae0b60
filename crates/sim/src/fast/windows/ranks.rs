//! One rank after the other through a window.
//!
//! What an event does is what it does in the sequential engine; here nothing reaches another rank before the next window.

use super::block::{Block, Clock, Place, Sent};
use super::event::{Crowd, Event, FINISH, Fresh, Window};
use super::order::Log;
use super::{ARRIVAL, BY_RANK, BY_TIME, KIND_SHIFT, LOGGED};
use crate::fast::cost::{About, Charges};
use crate::fast::encode::TIME_MAX;
use crate::fast::flat::{
    Declined, FINISHES, Flat, FlatOp, JOIN, Kind, LAST, NONE, STARTS, Shape, TARGET, UNEVEN, WILD,
};
use crate::fast::slot::Slot;
use castell_base::{Rank, Tag};
use castell_matching::{Key, Pattern};

/// What some blocks' ranks did in a window, and what comes of it.
#[derive(Default)]
pub(super) struct Done {
    /// Events for later windows, by who takes them on.
    pub events: Vec<Vec<Event>>,
    pub log: Log,
    pub operations: u64,
    pub messages: u64,
    /// Events that were there when this window began.
    pub carried_out: usize,
    /// The next window in which these ranks have events.
    pub next: Option<u64>,
    /// Why the engine gives up.
    pub declined: Option<Declined>,
    fresh: Fresh,
    crowd: Crowd,
    freed: Vec<u32>,
    roots: Vec<Event>,
    /// A rank's events, or a block's.
    pub here: Vec<Event>,
}

impl Done {
    pub fn clear(&mut self, parties: usize) {
        self.events.resize_with(parties, Vec::new);
        self.events.iter_mut().for_each(Vec::clear);
        self.log.clear();
        self.carried_out = 0;
    }
}

/// What all ranks have in common.
pub(super) struct Shared<'a, C> {
    pub flat: &'a Flat,
    pub costs: &'a C,
    /// Ranks that each party has, except for the last.
    pub ranks_each: u32,
    /// The shortest time that a message may take.
    pub flight_min: u64,
}

/// A rank at work. `ORDER`: how events at the same time are ordered, see [`BY_RANK`].
struct Working<'r, 'a, S, C, const ORDER: u8> {
    shared: &'r Shared<'a, C>,
    block: &'r mut Block<S>,
    done: &'r mut Done,
    end: u64,
    rank: u32,
    local: usize,
    place: Place,
    shape: &'a Shape,
    /// The event that happens.
    now: (u64, u64),
    /// Events that it has created in this window, where they are ordered by time.
    sequence: u32,
}

/// Classes of events under the rule of ranks, in order.
const CLASS_SHIFT: u32 = 61;
const CLASS_FINISH: u64 = 0;
const CLASS_ARRIVAL: u64 = 1;
/// How many messages a rank may send then.
const SENT_BITS: u32 = 29;

fn class_of(kind: Kind) -> u64 {
    match kind {
        Kind::Receive => 2,
        Kind::Send => 3,
        Kind::Calc => 4,
    }
}

impl<S: Slot> Block<S> {
    /// Goes through a window.
    pub fn run<C: Charges, const ORDER: u8>(
        &mut self,
        shared: &Shared<'_, C>,
        window: Window,
        done: &mut Done,
    ) {
        if window.number > 0 && !self.waiting.has(window.number) {
            return;
        }
        let mut events = Vec::new();
        self.waiting.take(window.number, &mut events);
        let mut here = std::mem::take(&mut done.here);
        if !by_rank::<ORDER>(&events, self.first, self.places.len(), &mut here) {
            done.declined = Some(Declined::Ties);
        }
        self.waiting.give_back(window.number, events);
        if window.number == 0 {
            for rank in 0..self.places.len() as u32 {
                self.roots::<ORDER>(shared.flat, rank, &mut here);
                done.carried_out += here.len();
                self.run_rank::<C, ORDER>(shared, window, self.first + rank, &here, done);
            }
        } else {
            done.carried_out += here.len();
            for of_rank in here.chunk_by(|a, b| a.rank == b.rank) {
                self.run_rank::<C, ORDER>(shared, window, of_rank[0].rank, of_rank, done);
            }
        }
        done.here = here;
    }

    /// A rank from its begin to its end; `done.here` has all messages for it, in any order.
    pub fn run_whole<C: Charges, const ORDER: u8>(
        &mut self,
        shared: &Shared<'_, C>,
        rank: u32,
        done: &mut Done,
    ) {
        let (mut here, mut roots) = (std::mem::take(&mut done.here), std::mem::take(&mut done.roots));
        done.crowd.clear();
        if !sort_of_rank::<ORDER>(&mut here) {
            // All messages for the root of a linear pattern come at once: to go on would take the square of their number.
            done.declined = Some(Declined::Ties);
            (done.here, done.roots) = (here, roots);
            return;
        }
        self.roots::<ORDER>(shared.flat, 0, &mut roots);
        // They are at time 0 and have the lowest numbers; where ranks tell the order, messages come later.
        roots.append(&mut here);
        let window = Window { number: 0, width: TIME_MAX + 1 };
        self.run_rank::<C, ORDER>(shared, window, rank, &roots, done);
        (done.here, done.roots) = (here, roots);
    }

    /// What waits for nothing, of one rank. Nothing else is there at time 0.
    fn roots<const ORDER: u8>(&mut self, flat: &Flat, rank: u32, here: &mut Vec<Event>) {
        let shape = &flat.shapes[self.places[rank as usize].shape as usize];
        let roots = &flat.roots[shape.first_root as usize..][..shape.roots as usize];
        let kind = |op: u32| flat.ops[(shape.first_op + op) as usize].kind;
        here.clear();
        // Sends come first, and where there is one processor those after the first one wait for it.
        let mut line = 0;
        let mut waiting = 0;
        if ORDER != BY_RANK && roots.len() > 1 && kind(roots[1]) == Kind::Send {
            let sends = roots.iter().take_while(|&&op| kind(op) == Kind::Send).count();
            line = self.lines.add(&roots[1..sends]);
            waiting = sends - 1;
        }
        for (place, &op) in (0u32..).zip(roots) {
            if place > 0 && (place as usize) <= waiting {
                continue;
            }
            let (number, source) = match ORDER {
                BY_RANK => (number_by_rank(flat, shape, op, class_of(kind(op))), 0),
                LOGGED => (self.first_root + u64::from(place), 0),
                _ => (0, place),
            };
            let (what, from) = ((kind(op) as u32) << KIND_SHIFT | op, if place == 0 { line } else { 0 });
            here.push(Event { time: 0, number, rank: self.first + rank, what, from, source });
        }
        self.first_root += u64::from(shape.roots);
        if ORDER == BY_RANK {
            here.sort_unstable_by_key(Event::order);
        }
    }

    /// Called, and not in place: that would be two of it for each order and costs, and it is what takes longest to compile.
    #[inline(never)]
    fn run_rank<C: Charges, const ORDER: u8>(
        &mut self,
        shared: &Shared<'_, C>,
        window: Window,
        rank: u32,
        events: &[Event],
        done: &mut Done,
    ) {
        let local = (rank - self.first) as usize;
        let place = self.places[local];
        let shape = &shared.flat.shapes[place.shape as usize];
        let mut working = Working::<S, C, ORDER> {
            shared,
            end: window.end(),
            rank,
            local,
            place,
            shape,
            now: (0, 0),
            // What waits for nothing has the first places.
            sequence: if window.number == 0 { shape.roots } else { 0 },
            block: self,
            done,
        };
        let (mut events, mut clashed) = (events.iter(), false);
        loop {
            let fresh = working.done.fresh.first();
            if ORDER == BY_TIME
                && let (Some(old), Some(fresh)) = (events.as_slice().first(), fresh)
                && old.clashes(fresh)
            {
                clashed = true;
            }
            let event = match (events.as_slice().first(), fresh) {
                (None, None) => break,
                (Some(old), fresh) if fresh.is_none_or(|fresh| old.order() < fresh.order()) => {
                    events.next();
                    *old
                }
                (_, fresh) => {
                    let event = *fresh.expect("there is one, or the other would have been taken");
                    working.done.fresh.pop();
                    event
                }
            };
            working.carry_out(event);
        }
        if clashed {
            working.decline(Declined::Ties);
        }
    }
}

/// Puts events of a block in the order of ranks, then of time and number. `false`: the order is not certain.
fn by_rank<const ORDER: u8>(events: &[Event], first: u32, ranks: usize, sorted: &mut Vec<Event>) -> bool {
    /// With fewer than one for so many ranks, counting does not pay.
    const RANKS_PER_EVENT: usize = 2;
    sorted.clear();
    if events.len() * RANKS_PER_EVENT < ranks {
        sorted.extend_from_slice(events);
        sorted.sort_unstable_by_key(|event| (event.rank, event.order()));
        let clash = |pair: &[Event]| pair[0].rank == pair[1].rank && pair[0].clashes(&pair[1]);
        return ORDER != BY_TIME || !sorted.windows(2).any(clash);
    }
    let mut places = [0u32; super::BLOCK_MAX as usize];
    for event in events {
        places[(event.rank - first) as usize] += 1;
    }
    let mut sum = 0;
    for place in &mut places[..ranks] {
        sum += std::mem::replace(place, sum);
    }
    sorted.resize(events.len(), events[0]);
    for event in events {
        let place = &mut places[(event.rank - first) as usize];
        sorted[*place as usize] = *event;
        *place += 1;
    }
    let mut certain = true;
    for of_rank in sorted.chunk_by_mut(|a, b| a.rank == b.rank) {
        certain &= sort_of_rank::<ORDER>(of_rank);
    }
    certain
}

/// Puts events of one rank in order. `false`: the order is not certain.
#[inline(always)]
fn sort_of_rank<const ORDER: u8>(events: &mut [Event]) -> bool {
    match events {
        [] | [_] => return true,
        [a, b] => {
            if a.order() > b.order() {
                std::mem::swap(a, b);
            }
        }
        _ => events.sort_unstable_by_key(Event::order),
    }
    ORDER != BY_TIME || !events.windows(2).any(|pair| pair[0].clashes(&pair[1]))
}

#[inline(always)]
fn number_by_rank(flat: &Flat, shape: &Shape, op: u32, class: u64) -> u64 {
    class << CLASS_SHIFT | u64::from(flat.numbers[(shape.first_op + op) as usize])
}

impl<'a, S: Slot, C: Charges, const ORDER: u8> Working<'_, 'a, S, C, ORDER> {
    #[inline(always)]
    fn carry_out(&mut self, event: Event) {
        self.now = (event.time, event.number);
        if ORDER == LOGGED {
            self.done.log.begin();
        }
        let flat = self.shared.flat;
        let at = event.what & TARGET;
        match event.what >> KIND_SHIFT {
            ARRIVAL if at == WILD => self.arrive_by_search(event),
            ARRIVAL => self.arrive(event, &flat.ops[(self.shape.first_op + at) as usize]),
            kind => {
                let op = &flat.ops[(self.shape.first_op + at) as usize];
                if ORDER == BY_RANK && event.source == FINISH {
                    self.finish(op, self.middle(op));
                    self.queue_freed();
                } else if kind == Kind::Send as u32 {
                    self.send(event, op);
                } else if kind == Kind::Receive as u32 {
                    self.receive(at, op);
                } else {
                    self.calc(event, op);
                }
            }
        }
    }

    /// A lane's clock, and how long it is taken.
    #[inline(always)]
    fn clock(&mut self, lane: u8) -> &mut Clock {
        match ORDER == BY_RANK {
            true => &mut self.block.clocks[self.local * self.shared.flat.lanes as usize + lane as usize],
            false => &mut self.block.clocks[self.local],
        }
    }

    #[inline(always)]
    fn calc(&mut self, event: Event, op: &FlatOp) {
        let free = self.clock(op.cpu).cpu;
        if free > event.time {
            return self.put_back(event, free);
        }
        let (owner, at) = (self.rank, event.what & TARGET);
        let time = self.shared.costs.compute(op.value, About { owner, op: at, rank: owner, now: event.time });
        let end = event.time + time;
        self.clock(op.cpu).cpu = end;
        self.done.operations += 1;
        if op.flags & (STARTS | FINISHES) != 0 {
            let middle = self.release_started(op);
            self.complete(at, op, middle, end);
            self.queue_freed();
        }
    }

    #[inline(always)]
    fn send(&mut self, event: Event, op: &FlatOp) {
        let free = self.clock(op.cpu).cpu.max(self.clock(op.nic).send);
        if free > event.time {
            return self.put_back(event, free);
        }
        let (owner, at) = (self.rank, event.what & TARGET);
        let about = About { owner, op: at, rank: owner, now: event.time };
        let (charge, flight) = self.shared.costs.send(op.value, about);
        let end = event.time + charge.cpu;
        self.clock(op.cpu).cpu = end;
        self.clock(op.nic).send = event.time + charge.nic;
        if ORDER != BY_RANK && event.from != 0 {
            self.queue_next_in_line(event);
        }
        self.done.operations += 1;
        self.done.messages += 1;
        let dest = self.shared.flat.peers.decode(self.rank, op.peer, self.shared.flat.ranks);
        let Some(receive) = self.shared.flat.receive_of(self.rank, dest, self.shape, op) else {
            return self.decline(Declined::Mistake);
        };
        if flight < self.shared.flight_min {
            return self.decline(Declined::Lookahead);
        }
        let number = match ORDER {
            BY_RANK => {
                let sent = &mut self.block.sent[self.local];
                *sent += 1;
                if *sent >> SENT_BITS != 0 {
                    return self.decline(Declined::Size);
                }
                CLASS_ARRIVAL << CLASS_SHIFT | u64::from(owner) << SENT_BITS | u64::from(*sent)
            }
            LOGGED => self.new_number(),
            _ => event.time + 1,
        };
        let what = ARRIVAL << KIND_SHIFT | receive;
        self.later(Event { time: event.time + flight, number, rank: dest, what, from: at, source: owner });
        if op.flags & (STARTS | FINISHES) != 0 {
            let middle = self.release_started(op);
            self.complete(at, op, middle, end);
            self.queue_freed();
        }
    }

    #[inline(always)]
    fn receive(&mut self, at: u32, op: &FlatOp) {
        self.done.operations += 1;
        let middle = self.release_started(op);
        let now = self.now.0;
        if self.shape.wild {
            if let Some((source, send)) = self.post_by_search(at, op) {
                self.check_size(source, send, op);
                self.complete(at, op, middle, now);
            }
        } else if op.partner == NONE {
            if self.block.slots[self.place.slot(op.slot)].post() {
                self.complete(at, op, middle, now);
            }
        } else if let Some(send) = self.block.channels.post(self.place.channel(op.partner), at) {
            let source = self.shared.flat.peers.decode(self.rank, op.peer, self.shared.flat.ranks);
            self.check_size(source, send, op);
            self.complete(at, op, middle, now);
        }
        self.queue_freed();
    }

    #[inline(always)]
    fn arrive(&mut self, event: Event, op: &FlatOp) {
        let (mut size, mut lanes) = (op.value, (0, 0));
        if ORDER == BY_RANK || op.flags & UNEVEN != 0 {
            let send = self.op_of(event.source, event.from);
            (size, lanes) = (send.value, (send.cpu, send.nic));
        }
        let Some(end) = self.occupy(event, size, lanes) else { return };
        if op.partner == NONE {
            match self.block.slots[self.place.slot(op.slot)].arrive() {
                None => self.decline(Declined::Mistake),
                Some(false) => {}
                Some(true) => {
                    if ORDER == BY_RANK || op.flags & FINISHES != 0 {
                        self.complete(event.what & TARGET, op, self.middle(op), end);
                        self.queue_freed();
                    }
                }
            }
        } else if let Some(at) = self.block.channels.arrive(self.place.channel(op.partner), event.from) {
            let op = &self.shared.flat.ops[(self.shape.first_op + at) as usize];
            self.check_size(event.source, event.from, op);
            self.complete(at, op, self.middle(op), end);
            self.queue_freed();
        }
    }

    /// A message takes the receiver's time; until when. `None`: it was put back.
    #[inline(always)]
    fn occupy(&mut self, event: Event, size: u64, (cpu, nic): (u8, u8)) -> Option<u64> {
        let costs = self.shared.costs;
        let waits = ORDER != BY_RANK || costs.arrival_waits();
        let free = self.clock(cpu).cpu.max(self.clock(nic).receive);
        if waits && free > event.time {
            self.wait(event, free);
            return None;
        }
        let about = About { owner: event.source, op: event.from, rank: self.rank, now: event.time };
        let charge = costs.arrival(size, about);
        if waits {
            self.clock(cpu).cpu = event.time + charge.cpu;
            self.clock(nic).receive = event.time + charge.nic;
        }
        if ORDER == BY_TIME && self.done.crowd.is_first(&event) {
            self.let_next_in();
        }
        Some(event.time + charge.cpu)
    }

    /// A message waits for processor and interface. Where this rank runs to its end, only the first of those that wait is put
    /// back.
    fn wait(&mut self, event: Event, free: u64) {
        if ORDER == BY_TIME && self.end > TIME_MAX {
            match self.done.crowd.wait(&event) {
                Some(true) => {}
                Some(false) => return,
                None => return self.decline(Declined::Ties),
            }
        }
        self.put_back(event, free);
    }

    /// The first of the messages that waited has been let in.
    fn let_next_in(&mut self) {
        let clock = *self.clock(0);
        if let Some((next, certain)) = self.done.crowd.next(clock.cpu.max(clock.receive)) {
            if !certain {
                self.decline(Declined::Ties);
            }
            self.create(next);
        }
    }

    fn op_of(&self, rank: u32, at: u32) -> &'a FlatOp {
        let flat = self.shared.flat;
        let shape = &flat.shapes[flat.members[rank as usize].shape as usize];
        &flat.ops[(shape.first_op + at) as usize]
    }

    fn check_size(&mut self, source: u32, send: u32, receive: &FlatOp) {
        if self.op_of(source, send).value != receive.value {
            self.decline(Declined::Mistake);
        }
    }

    #[cold]
    fn post_by_search(&mut self, at: u32, op: &FlatOp) -> Option<Sent> {
        let flat = self.shared.flat;
        let source = (op.peer != NONE).then(|| Rank(flat.peers.decode(self.rank, op.peer, flat.ranks)));
        let tag = (op.tag != NONE).then_some(Tag(op.tag));
        let matcher = self.block.matchers.entry(self.rank).or_default();
        matcher.post(Pattern { context: 0, source, tag }, at)
    }

    #[cold]
    fn arrive_by_search(&mut self, event: Event) {
        let send = self.op_of(event.source, event.from);
        let Some(end) = self.occupy(event, send.value, (send.cpu, send.nic)) else { return };
        let key = Key { context: 0, source: Rank(event.source), tag: Tag(send.tag) };
        let matcher = self.block.matchers.entry(self.rank).or_default();
        if let Some(at) = matcher.arrive(key, || (event.source, event.from)) {
            let op = &self.shared.flat.ops[(self.shape.first_op + at) as usize];
            self.check_size(event.source, event.from, op);
            self.complete(at, op, self.middle(op), end);
            self.queue_freed();
        }
    }

    /// Where the list of those that wait for an operation's end begins.
    #[inline(always)]
    fn middle(&self, op: &FlatOp) -> u32 {
        op.middle(&self.shared.flat.successors)
    }

    /// An operation is over at `end`. Under LogGOPSim's rule what waits for it is released when that is known.
    #[inline(always)]
    fn complete(&mut self, at: u32, op: &FlatOp, middle: u32, end: u64) {
        if ORDER != BY_RANK {
            return self.finish(op, middle);
        }
        self.block.ends[self.local] = self.block.ends[self.local].max(end);
        if end == self.now.0 {
            return self.finish(op, middle);
        }
        let number = number_by_rank(self.shared.flat, self.shape, at, CLASS_FINISH);
        // The source says what it is; of the kinds it is none that arrives.
        self.create(Event { time: end, number, rank: self.rank, what: at, from: 0, source: FINISH });
    }

    /// Releases what waits for an operation's start; returns where those begin that wait for its end.
    #[inline(always)]
    fn release_started(&mut self, op: &FlatOp) -> u32 {
        if op.flags & STARTS == 0 { op.successors } else { self.release(op.successors) }
    }

    #[inline(always)]
    fn finish(&mut self, op: &FlatOp, middle: u32) {
        if op.flags & FINISHES != 0 {
            self.release(middle);
        }
    }

    /// Goes through a list of successors; returns what is behind it.
    #[inline(always)]
    fn release(&mut self, mut at: u32) -> u32 {
        let flat = self.shared.flat;
        loop {
            let entry = flat.successors[at as usize];
            let target = entry & TARGET;
            let ready = entry & JOIN == 0 || {
                let op = &flat.ops[(self.shape.first_op + target) as usize];
                self.block.slots[self.place.slot(op.slot)].meet()
            };
            if ready {
                self.done.freed.push(target);
            }
            at += 1;
            if entry & LAST != 0 {
                return at;
            }
        }
    }

    /// Makes events of what was released.
    #[inline(always)]
    fn queue_freed(&mut self) {
        if let [at] = self.done.freed[..] {
            self.done.freed.clear();
            self.queue_op(at);
        } else if !self.done.freed.is_empty() {
            self.queue_several();
        }
    }

    #[inline(never)]
    fn queue_several(&mut self) {
        let mut freed = std::mem::take(&mut self.done.freed);
        let flat = self.shared.flat;
        let sends = flat.put_in_order(self.shape, &mut freed);
        let mut rest = &freed[..];
        if ORDER != BY_RANK && sends > 1 {
            let from = self.block.lines.add(&freed[1..sends]);
            self.queue_op_with(freed[0], from);
            // Those that follow keep their numbers.
            for _ in 1..sends {
                self.number_in_turn();
            }
            rest = &freed[sends..];
        }
        for &at in rest {
            self.queue_op(at);
        }
        freed.clear();
        self.done.freed = freed;
    }

    #[inline(always)]
    fn queue_op(&mut self, at: u32) {
        self.queue_op_with(at, 0);
    }

    /// `from`: where the line of those that follow it begins, if any.
    #[inline(always)]
    fn queue_op_with(&mut self, at: u32, from: u32) {
        let flat = self.shared.flat;
        let op = &flat.ops[(self.shape.first_op + at) as usize];
        let mut time = self.clock(op.cpu).cpu.max(self.now.0);
        if op.kind == Kind::Send {
            time = time.max(self.clock(op.nic).send);
        }
        let (number, source) = match ORDER {
            BY_RANK => (number_by_rank(flat, self.shape, at, class_of(op.kind)), 0),
            _ => self.number_in_turn(),
        };
        let what = (op.kind as u32) << KIND_SHIFT | at;
        self.create(Event { time, number, rank: self.rank, what, from, source });
    }

    /// A send has begun: the next one of its line waits for processor and interface.
    #[inline(always)]
    fn queue_next_in_line(&mut self, event: Event) {
        let (at, from) = self.block.lines.next(event.from);
        let clock = self.block.clocks[self.local];
        let time = clock.cpu.max(clock.send);
        let what = (Kind::Send as u32) << KIND_SHIFT | at;
        // Nothing else has a place among the sends of a line.
        self.create(Event { time, what, from, source: event.source + 1, ..event });
    }

    /// What tells an operation's place among those of its time under LogGOPSim's rule.
    #[inline(always)]
    fn number_in_turn(&mut self) -> (u64, u32) {
        if ORDER == LOGGED {
            return (self.new_number(), 0);
        }
        self.sequence += 1;
        (self.now.0 + 1, self.sequence - 1)
    }

    #[inline(always)]
    fn new_number(&mut self) -> u64 {
        let (time, number) = self.now;
        self.done.log.create(time, number).unwrap_or_else(|| {
            self.decline(Declined::Size);
            0
        })
    }

    #[inline(always)]
    fn put_back(&mut self, event: Event, free: u64) {
        self.create(Event { time: free, ..event });
    }

    /// Files an event of this rank.
    #[inline(always)]
    fn create(&mut self, event: Event) {
        if event.time < self.end {
            let certain = self.done.fresh.add(event);
            if ORDER == BY_TIME && !certain {
                self.decline(Declined::Ties);
            }
        } else {
            self.later(event);
        }
    }

    /// Files an event that is not for this window.
    #[inline(always)]
    fn later(&mut self, event: Event) {
        if event.time > TIME_MAX {
            return self.decline(Declined::Time);
        }
        let party = match self.done.events.len() {
            1 => 0,
            _ => event.rank / self.shared.ranks_each,
        };
        self.done.events[party as usize].push(event);
    }

    #[cold]
    fn decline(&mut self, why: Declined) {
        self.done.declined.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::super::BLOCK_MAX;
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// By rank, then by time and number, whether few are sorted or many counted; and only where numbers are times of
    /// creation it is told that some clash.
    #[test]
    fn events_of_a_block_are_put_in_order() {
        let mut certain = [0, 0];
        for seed in 0..300 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let (first, ranks) = (random.random_range(0..1000), [1, 2, 40, BLOCK_MAX][seed as usize % 4]);
            let count = random.random_range(0..=[ranks / 3, 2 * ranks][seed as usize / 4 % 2]);
            let spread = [4, 100, 100_000][random.random_range(0..3)];
            let events: Vec<Event> = (0..count)
                .map(|source| Event {
                    time: random.random_range(0..spread),
                    number: random.random_range(0..4),
                    rank: first + random.random_range(0..ranks),
                    what: if random.random_bool(0.7) { ARRIVAL << KIND_SHIFT } else { 0 },
                    from: 0,
                    source,
                })
                .collect();
            let mut expected = events.clone();
            expected.sort_by_key(|event| (event.rank, event.time, event.number, event.source));
            let clash = |a: &Event, b: &Event| a.rank == b.rank && a.source != b.source && a.clashes(b);
            let clashes = events.iter().any(|a| events.iter().any(|b| clash(a, b)));
            let mut sorted = Vec::new();
            let is_certain = by_rank::<BY_TIME>(&events, first, ranks as usize, &mut sorted);
            assert_eq!((is_certain, &sorted), (!clashes, &expected), "seed {seed}");
            assert!(by_rank::<BY_RANK>(&events, first, ranks as usize, &mut sorted), "seed {seed}");
            assert_eq!(sorted, expected, "seed {seed}");
            assert!(by_rank::<LOGGED>(&events, first, ranks as usize, &mut sorted), "seed {seed}");
            certain[usize::from(is_certain)] += 1;
        }
        assert!(certain[0] > 20 && certain[1] > 20, "{certain:?}");
    }
}
