//! Ranks one by one, each from its begin to its end, once all messages for it are on their way.
//!
//! What a rank does depends on nothing but when its messages arrive. Where ranks need not wait for one another in turns (a
//! tree's ranks hear from those above, or from those below), no clock has to go through all of them in step: there is
//! no queue, and a rank's state is there only while it runs. A message that is sent lies with its receiver until that has all
//! of its own. Ranks are dealt out among the threads that the caller lends, and each hands over what is for the others' ranks
//! now and then; the results are the same in whatever order ranks run.

use super::block::{Block, begin};
use super::event::Event;
use super::ranks::{Done, Shared};
use super::{BY_RANK, BY_TIME, Lent, TIME_MAX};
use crate::cost;
use crate::costs::LogCosts;
use crate::fast::cost::{Asked, Charges, Costs, Drawn};
use crate::fast::exact::Finished;
use crate::fast::flat::{Declined, Flat, NONE};
use crate::fast::slot::Slot;
use crate::machine::{Machine, Ties};
use crate::noisy::{self, Noisy};
use castell_base::Time;
use castell_base::{Job, Threads};
use castell_model::Model;

/// So many ranks run until messages are handed over.
const RANKS_IN_TURN: u32 = 8192;

impl Flat {
    /// Runs the program rank by rank on the threads that are lent, on a machine with LogGOPSim's costs, PLB's or LB's. The
    /// results do not depend on how many threads there are. Noise is drawn from `seed` as in the reference engine.
    ///
    /// # Errors
    /// [`Declined`] where other engines have to do it: ranks that wait for one another in turns, events at the same time
    /// whose order other ranks decide, messages that take no time where ties are broken by rank, rendezvous, several
    /// processors a rank under LogGOPSim's rule of ties, networks and other models; mistakes.
    ///
    /// ```
    /// use castell_collectives::generator::{Generator, Options};
    /// use castell_model::Model;
    /// use castell_sim::fast::{Declined, Flat};
    /// use castell_sim::{Machine, OwnThread};
    ///
    /// let machine = Machine::new(Model::parse("loggops")?);
    /// let run = |name: &str| {
    ///     let pattern = Generator::parse(name, &Options::new(1000)).expect("a known pattern");
    ///     Flat::new((&pattern).into())?.run_rank_by_rank(&machine, 0, &OwnThread)
    /// };
    /// assert_eq!(run("bcast:binomial").map(|finished| finished.events), Ok(3 * 999));
    /// assert_eq!(run("barrier:dissemination"), Err(Declined::Turns));
    /// # Ok::<(), castell_model::ModelError>(())
    /// ```
    pub fn run_rank_by_rank(
        &self,
        machine: &Machine,
        seed: u64,
        threads: &dyn Threads,
    ) -> Result<Finished, Declined> {
        self.run_rank_by_rank_told(machine, seed, threads, &|_| ())
    }

    /// The same; tells now and then how many operations have been carried out.
    pub(crate) fn run_rank_by_rank_told(
        &self,
        machine: &Machine,
        seed: u64,
        threads: &dyn Threads,
        tell: &dyn Fn(u64),
    ) -> Result<Finished, Declined> {
        if machine.network.is_some() || machine.within.is_some() {
            return Err(Declined::Machine);
        }
        if !self.shapes.iter().any(|shape| shape.receives == 0) {
            return Err(Declined::Turns);
        }
        let lent = Lent { threads, tell };
        match (machine.ties, machine.loggops(), &machine.model) {
            (Ties::Insertion, Some(_), _) if self.lanes > 1 => Err(Declined::Machine),
            (Ties::Insertion, Some(model), _) if machine.is_quiet() => {
                self.run_whole_quiet::<BY_TIME>(&LogCosts { model, capacity: None }, lent)
            }
            (Ties::Insertion, Some(model), _) => {
                self.run_whole::<_, BY_TIME>(&Drawn::new(self, &model, machine, seed), lent)
            }
            (Ties::Rank, Some(model), _) => {
                self.run_whole_by_rank(LogCosts { model, capacity: None }, machine, seed, lent)
            }
            (Ties::Rank, None, Model::Plb(model)) => {
                self.run_whole_by_rank(model.clone(), machine, seed, lent)
            }
            (Ties::Rank, None, Model::Lb(model)) => {
                self.run_whole_by_rank(model.clone(), machine, seed, lent)
            }
            _ => Err(Declined::Machine),
        }
    }

    fn run_whole_by_rank<M: cost::Costs + noisy::Drawn + Sync>(
        &self,
        model: M,
        machine: &Machine,
        seed: u64,
        lent: Lent<'_>,
    ) -> Result<Finished, Declined> {
        if machine.is_quiet() {
            return self.run_whole_quiet::<BY_RANK>(&model, lent);
        }
        let costs = Asked::new(self, Noisy::new(model, machine, seed, self.ranks));
        self.run_whole::<_, BY_RANK>(&costs, lent)
    }

    fn run_whole_quiet<const ORDER: u8>(
        &self,
        model: &impl cost::Costs,
        lent: Lent<'_>,
    ) -> Result<Finished, Declined> {
        let costs = Costs::new(self, model);
        if !costs.are_small() {
            return Err(Declined::Time);
        }
        self.run_whole::<_, ORDER>(&costs, lent)
    }

    fn run_whole<C: Charges + Sync, const ORDER: u8>(
        &self,
        costs: &C,
        lent: Lent<'_>,
    ) -> Result<Finished, Declined> {
        if (0..self.sizes.len() as u64).any(|size| costs.rendezvous(size)) {
            return Err(Declined::Lookahead);
        }
        match self.in_degrees_are_small() {
            true => run::<u8, C, ORDER>(self, costs, lent),
            false => run::<u32, C, ORDER>(self, costs, lent),
        }
    }
}

/// Counters of each shape as they are before the run, and where each shape's begin.
struct Counters<S> {
    slots: Vec<S>,
    first: Vec<usize>,
}

impl<S: Slot> Counters<S> {
    fn new(flat: &Flat) -> Counters<S> {
        let (mut slots, mut first) = (Vec::new(), vec![0]);
        for shape in &flat.shapes {
            begin(&mut slots, flat, shape, 1);
            first.push(slots.len());
        }
        Counters { slots, first }
    }

    fn of(&self, shape: u32) -> &[S] {
        &self.slots[self.first[shape as usize]..self.first[shape as usize + 1]]
    }
}

fn run<S: Slot + Sync, C: Charges + Sync, const ORDER: u8>(
    flat: &Flat,
    costs: &C,
    lent: Lent<'_>,
) -> Result<Finished, Declined> {
    let ranks_each = flat.ranks.div_ceil(u32::try_from(lent.threads.count().max(1)).unwrap_or(u32::MAX));
    // A message that takes no time comes among what its receiver does at that time, and where other ranks decide.
    let flight_min = if ORDER == BY_RANK { 1 } else { 0 };
    let shared = Shared { flat, costs, ranks_each: ranks_each.max(1), flight_min };
    let counters = Counters::<S>::new(flat);
    let firsts: Vec<u32> = (0..flat.ranks).step_by(shared.ranks_each as usize).collect();
    let ranks_of = |first: u32| shared.ranks_each.min(flat.ranks - first);
    let mut parties: Vec<Party<S>> = (firsts.iter().enumerate())
        .map(|(at, &first)| Party::new(flat, at, first, ranks_of(first), firsts.len()))
        .collect();
    while parties.iter().any(Party::has_work) {
        let at_work: Vec<&mut Party<S>> = parties.iter_mut().filter(|party| party.has_work()).collect();
        match at_work.len() {
            1 => at_work.into_iter().for_each(|party| party.run::<C, ORDER>(&shared, &counters)),
            _ => {
                let (shared, counters) = (&shared, &counters);
                let job =
                    |party| Box::new(move || Party::run::<C, ORDER>(party, shared, counters)) as Job<'_>;
                lent.threads.run(at_work.into_iter().map(job).collect());
            }
        }
        if let Some(declined) = parties.iter().find_map(|party| party.done.declined) {
            return Err(declined);
        }
        hand_over(&mut parties);
        (lent.tell)(parties.iter().map(|party| party.done.operations).sum());
    }
    finish(flat, parties)
}

/// Moves what is for others' ranks to them.
fn hand_over<S>(parties: &mut [Party<S>]) {
    for from in 0..parties.len() {
        for to in (0..parties.len()).filter(|&to| to != from) {
            let events = std::mem::take(&mut parties[from].done.events[to]);
            if !events.is_empty() {
                parties[to].incoming.push(events);
            }
        }
    }
}

fn finish<S>(flat: &Flat, parties: Vec<Party<S>>) -> Result<Finished, Declined> {
    let operations: u64 = parties.iter().map(|party| party.done.operations).sum();
    let messages: u64 = parties.iter().map(|party| party.done.messages).sum();
    if parties.iter().any(|party| party.ran < party.states.len() as u32) {
        return Err(Declined::Turns);
    }
    // Each rank has had as many messages as it has receives: one more would have been noticed when it came.
    if operations < flat.operations {
        return Err(Declined::Mistake);
    }
    let ends = |party: Party<S>| party.states.into_iter().map(State::end).collect::<Vec<_>>();
    let mut parties = parties.into_iter();
    let mut end = parties.next().map(ends).unwrap_or_default();
    parties.for_each(|party| end.append(&mut ends(party)));
    if end.iter().any(|&end| end > Time(TIME_MAX)) {
        return Err(Declined::Time);
    }
    Ok(Finished { events: operations + messages, end })
}

/// A rank's word: how many of its messages have not been sent, and above that the last one that was (one more, 0 for none).
/// Afterwards when it was done.
#[derive(Clone, Copy)]
struct State(u64);

impl State {
    const RAN: u64 = 1 << 63;

    fn waiting(missing: u32, letter: u32) -> State {
        State(u64::from(letter.wrapping_add(1)) << 32 | u64::from(missing))
    }

    fn done(end: u64) -> State {
        State(end | State::RAN)
    }

    fn has_run(self) -> bool {
        self.0 & State::RAN != 0
    }

    fn missing(self) -> u32 {
        self.0 as u32
    }

    fn letter(self) -> u32 {
        ((self.0 >> 32) as u32).wrapping_sub(1)
    }

    fn end(self) -> Time {
        Time(self.0 & !State::RAN)
    }
}

/// A message in an inbox, and the one before it.
#[derive(Clone, Copy)]
struct Letter {
    event: Event,
    next: u32,
}

/// Letters, at most, so that the words have room.
const LETTERS_MAX: usize = 1 << 30;

/// Neighbouring ranks that a thread runs.
struct Party<S> {
    /// Which of the parties it is.
    party: usize,
    /// Its first rank; all others are counted from there.
    first: u32,
    states: Vec<State>,
    letters: Vec<Letter>,
    free: u32,
    /// The next rank to be looked at. Going through them in order reads and writes memory in order, if messages do so, too.
    next: u32,
    /// Ranks from there on whose messages are all there.
    ready_ahead: u32,
    /// Ranks before it whose messages are all there.
    ready_behind: Vec<u32>,
    /// Ranks that have run.
    ran: u32,
    /// From other parties.
    incoming: Vec<Vec<Event>>,
    block: Block<S>,
    done: Done,
}

impl<S: Slot> Party<S> {
    fn new(flat: &Flat, party: usize, first: u32, ranks: u32, parties: usize) -> Party<S> {
        let members = &flat.members[first as usize..][..ranks as usize];
        let receives = members.iter().map(|member| flat.shapes[member.shape as usize].receives);
        let states: Vec<State> = receives.map(|receives| State::waiting(receives, NONE)).collect();
        let mut done = Done::default();
        done.clear(parties);
        Party {
            party,
            first,
            ready_ahead: states.iter().filter(|state| state.missing() == 0).count() as u32,
            states,
            letters: Vec::new(),
            free: NONE,
            next: 0,
            ready_behind: Vec::new(),
            ran: 0,
            incoming: Vec::new(),
            block: Block::of_one(flat),
            done,
        }
    }

    fn has_work(&self) -> bool {
        !self.incoming.is_empty() || !self.ready_behind.is_empty() || self.ready_ahead > 0
    }

    /// Runs ranks that are ready, for a while.
    fn run<C: Charges, const ORDER: u8>(&mut self, shared: &Shared<'_, C>, counters: &Counters<S>) {
        for events in std::mem::take(&mut self.incoming) {
            events.into_iter().for_each(|event| self.deliver(event));
        }
        for _ in 0..RANKS_IN_TURN {
            let Some(rank) = self.next_rank() else { return };
            self.run_rank::<C, ORDER>(shared, counters, rank);
            if self.done.declined.is_some() {
                return;
            }
        }
    }

    /// A rank that is ready.
    fn next_rank(&mut self) -> Option<u32> {
        if let Some(rank) = self.ready_behind.pop() {
            return Some(rank);
        }
        if self.ready_ahead == 0 {
            return None;
        }
        self.ready_ahead -= 1;
        // A rank from here on has not run.
        while self.states[self.next as usize].missing() > 0 {
            self.next += 1;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    fn run_rank<C: Charges, const ORDER: u8>(
        &mut self,
        shared: &Shared<'_, C>,
        counters: &Counters<S>,
        rank: u32,
    ) {
        self.done.here.clear();
        let mut letter = self.states[rank as usize].letter();
        while letter != NONE {
            let Letter { event, next } = self.letters[letter as usize];
            self.done.here.push(event);
            self.letters[letter as usize].next = std::mem::replace(&mut self.free, letter);
            letter = next;
        }
        let (flat, global) = (shared.flat, self.first + rank);
        let shape = flat.members[global as usize].shape;
        self.block.become_rank(flat, global, counters.of(shape));
        self.block.run_whole::<C, ORDER>(shared, global, &mut self.done);
        self.ran += 1;
        self.states[rank as usize] = State::done(self.block.end(0, flat.lanes as usize));
        let shape = &flat.shapes[shape as usize];
        if (shape.wild || shape.channels > 0) && !self.block.is_at_peace() {
            self.done.declined.get_or_insert(Declined::Mistake);
        }
        let mut own = std::mem::take(&mut self.done.events[self.party]);
        own.drain(..).for_each(|event| self.deliver(event));
        self.done.events[self.party] = own;
    }

    /// Puts a message into its receiver's inbox.
    fn deliver(&mut self, event: Event) {
        let rank = event.rank - self.first;
        let state = self.states[rank as usize];
        if state.has_run() || state.missing() == 0 || self.letters.len() >= LETTERS_MAX {
            self.done.declined.get_or_insert(Declined::Mistake);
            return;
        }
        let letter = Letter { event, next: state.letter() };
        let mut at = self.free;
        if at == NONE {
            at = self.letters.len() as u32;
            self.letters.push(letter);
        } else {
            self.free = std::mem::replace(&mut self.letters[at as usize], letter).next;
        }
        self.states[rank as usize] = State::waiting(state.missing() - 1, at);
        if state.missing() == 1 {
            match rank < self.next {
                true => self.ready_behind.push(rank),
                false => self.ready_ahead += 1,
            }
        }
    }
}
