//! The parallel engine: windows of time in which no rank reaches another one.
//!
//! A message is on its way at least as long as a window lasts, so that what a rank does in a window depends on nothing that
//! others do in it (conservative lookahead: Chandy and Misra, "Distributed simulation", 1979; in windows: Nicol, "The cost
//! of conservative synchronization in parallel discrete event simulations", 1993). Neighbouring ranks are a block, whose
//! state fits a cache; one rank after the other goes through the window on its own. Blocks are dealt out among the threads
//! that the caller lends. What crosses the end of the window is handed over afterwards.
//!
//! Events are ordered within a rank only: by time and by a number in which the rule of ties is. Under
//! [`Ties::Rank`] a rank knows its events' numbers. Under [`Ties::Insertion`] the number is the order of creation in all
//! ranks, which `order` finds after each window. Either way results have the same bits for any number of threads, and those
//! of the reference engine.

mod block;
mod event;
mod order;
mod ranks;
mod whole;

use super::cost::{Asked, Charges, Costs, Drawn};
use super::encode::TIME_MAX;
use super::exact::Finished;
use super::flat::{Declined, Flat};
use super::slot::Slot;
use crate::cost;
use crate::costs::LogCosts;
use crate::machine::{Machine, Ties};
use crate::noisy::{self, Noisy};
use block::Block;
use castell_base::Time;
use castell_base::{Job, Threads};
use castell_model::Model;
use castell_model::noise::NoisyModel;
use event::Window;
use order::Places;
use ranks::{Done, Shared};

pub(super) use super::exact::{ARRIVAL, KIND_SHIFT};

/// Events are ordered by the rule of ranks ([`Ties::Rank`]), which tells an event's number.
const BY_RANK: u8 = 0;
/// Events are ordered by creation ([`Ties::Insertion`]), which a log tells after each window. Ranks have one processor and
/// interface.
const LOGGED: u8 = 1;
/// The same, where no log is needed: an event's number is when it was created. Two events at one rank that happen at the
/// same time, were created at the same time, and not both by this rank are [`Declined::Ties`]; with noise there are hardly any.
const BY_TIME: u8 = 2;

/// Ranks of a block, at most.
const BLOCK_MAX: u32 = 256;

/// Windows are no longer than that, so that times in one have 31 bits.
const WIDTH_MAX: u64 = 1 << 31;
/// Fewer events in a window are not worth a second thread.
const EVENTS_SHARED_MIN: usize = 1 << 11;
/// A window costs a sequential engine's time for an event for so many ranks, and two more.
const RANKS_PER_EVENT: u32 = 1024;
/// After so many windows it is certain whether they are worth their while.
const WINDOWS_TRIED: u64 = 64;

impl Flat {
    /// Runs the program on the threads that are lent, on a machine with LogGOPSim's costs or, where ties are broken by rank,
    /// PLB's or LB's. The results do not depend on how many threads there are. Noise is drawn from `seed` as in the
    /// reference engine.
    ///
    /// # Errors
    /// [`Declined`] where other engines have to do it: rendezvous, several processors a rank under LogGOPSim's rule of
    /// ties, networks and other models; messages that take no time; so few events at a time that windows make no sense
    /// ([`Declined::Sparse`]); mistakes.
    pub fn run_in_windows(
        &self,
        machine: &Machine,
        seed: u64,
        threads: &dyn Threads,
    ) -> Result<Finished, Declined> {
        self.run_in_windows_told(machine, seed, threads, &|_| ())
    }

    /// The same; tells after each window how many operations have been carried out.
    pub(crate) fn run_in_windows_told(
        &self,
        machine: &Machine,
        seed: u64,
        threads: &dyn Threads,
        tell: &dyn Fn(u64),
    ) -> Result<Finished, Declined> {
        let threads = Lent { threads, tell };
        if machine.network.is_some() || machine.within.is_some() {
            return Err(Declined::Machine);
        }
        match (machine.ties, machine.loggops(), &machine.model) {
            (Ties::Insertion, Some(_), _) if self.lanes > 1 => Err(Declined::Machine),
            (Ties::Insertion, Some(model), _) if machine.is_quiet() => {
                self.run_quiet::<LOGGED>(&LogCosts { model, capacity: None }, threads)
            }
            (Ties::Insertion, Some(model), _) => {
                let costs = Drawn::new(self, &model, machine, seed);
                let flight_min = self.flight_min(machine)?;
                match self.run_windows::<_, BY_TIME>(&costs, flight_min, threads) {
                    Err(Declined::Ties) => self.run_windows::<_, LOGGED>(&costs, flight_min, threads),
                    done => done,
                }
            }
            (Ties::Rank, Some(model), _) => {
                self.run_by_rank(LogCosts { model, capacity: None }, machine, seed, threads)
            }
            (Ties::Rank, None, Model::Plb(model)) => self.run_by_rank(model.clone(), machine, seed, threads),
            (Ties::Rank, None, Model::Lb(model)) => self.run_by_rank(model.clone(), machine, seed, threads),
            _ => Err(Declined::Machine),
        }
    }

    fn run_by_rank<M: cost::Costs + noisy::Drawn + Sync>(
        &self,
        model: M,
        machine: &Machine,
        seed: u64,
        threads: Lent<'_>,
    ) -> Result<Finished, Declined> {
        if machine.is_quiet() {
            return self.run_quiet::<BY_RANK>(&model, threads);
        }
        let costs = Asked::new(self, Noisy::new(model, machine, seed, self.ranks));
        self.run_windows::<_, BY_RANK>(&costs, self.flight_min(machine)?, threads)
    }

    fn run_quiet<const ORDER: u8>(
        &self,
        model: &impl cost::Costs,
        threads: Lent<'_>,
    ) -> Result<Finished, Declined> {
        let costs = Costs::new(self, model);
        if !costs.are_small() {
            return Err(Declined::Time);
        }
        self.run_windows::<_, ORDER>(&costs, costs.flight_min(), threads)
    }

    /// A time that no message's flight is shorter than, or hardly any: where noise has no least value, half of the mean.
    fn flight_min(&self, machine: &Machine) -> Result<u64, Declined> {
        let noisy = NoisyModel { model: machine.model.clone(), noise: machine.noise.clone() };
        let flight = |model| {
            let machine = Machine::new(model);
            let costs = match (machine.loggops(), &machine.model) {
                (Some(model), _) => Costs::new(self, &LogCosts { model, capacity: None }),
                (None, Model::Plb(model)) => Costs::new(self, model),
                (None, Model::Lb(model)) => Costs::new(self, model),
                _ => return Err(Declined::Machine),
            };
            Ok(costs.flight_min())
        };
        match flight(noisy.least())? {
            0 => Ok(flight(noisy.mean())? / 2),
            least => Ok(least),
        }
    }

    fn run_windows<C: Charges + Sync, const ORDER: u8>(
        &self,
        costs: &C,
        flight_min: u64,
        threads: Lent<'_>,
    ) -> Result<Finished, Declined> {
        let waits_for_receive = (0..self.sizes.len() as u64).any(|size| costs.rendezvous(size));
        if flight_min == 0 || waits_for_receive {
            return Err(Declined::Lookahead);
        }
        match self.in_degrees_are_small() {
            true => Engine::<u8, C, ORDER>::new(self, costs, flight_min, threads).run(),
            false => Engine::<u32, C, ORDER>::new(self, costs, flight_min, threads).run(),
        }
    }
}

/// What the caller lends: threads, and an ear.
#[derive(Clone, Copy)]
struct Lent<'a> {
    threads: &'a dyn Threads,
    tell: &'a dyn Fn(u64),
}

struct Engine<'a, S, C, const ORDER: u8> {
    shared: Shared<'a, C>,
    blocks: Vec<Block<S>>,
    /// Ranks of a block, and blocks of a party, except for the last.
    block_ranks: u32,
    blocks_each: usize,
    lent: Lent<'a>,
    /// Those who share the work, a thread each if there is enough of it.
    parties: Vec<Done>,
    places: Places,
    window: Window,
}

impl<'a, S: Slot + Sync, C: Charges + Sync, const ORDER: u8> Engine<'a, S, C, ORDER> {
    fn new(flat: &'a Flat, costs: &'a C, flight_min: u64, lent: Lent<'a>) -> Self {
        let ranks = flat.ranks;
        let count = lent.threads.count().max(1);
        let spread = u32::try_from(count).map_or(1, |count| ranks / count.saturating_mul(2).max(1));
        let block_ranks = spread.clamp(1, BLOCK_MAX);
        let (mut first_root, mut known) = (0, vec![(u32::MAX, 0); flat.shapes.len()]);
        let blocks: Vec<Block<S>> = (0..ranks)
            .step_by(block_ranks as usize)
            .map(|first| {
                let here = block_ranks.min(ranks - first);
                let block = Block::new(flat, first, here, first_root, ORDER == BY_RANK, &mut known);
                let shapes = block.places.iter().map(|place| &flat.shapes[place.shape as usize]);
                first_root += shapes.map(|shape| u64::from(shape.roots)).sum::<u64>();
                block
            })
            .collect();
        let blocks_each = blocks.len().div_ceil(count).max(1);
        let parties = blocks.len().div_ceil(blocks_each);
        let ranks_each = (blocks_each as u32).saturating_mul(block_ranks);
        Engine {
            shared: Shared { flat, costs, ranks_each, flight_min },
            blocks,
            block_ranks,
            blocks_each,
            lent,
            parties: (0..parties).map(|_| Done::default()).collect(),
            places: Places::new(first_root + 1),
            window: Window { number: 0, width: flight_min.min(WIDTH_MAX) },
        }
    }

    fn run(mut self) -> Result<Finished, Declined> {
        let (mut next, mut windows, mut events) = (Some(0), 0, 0);
        let mut busy = self.shared.flat.ranks as usize;
        while let Some(number) = next {
            self.window = self.window.at(number);
            self.work(busy);
            if let Some(declined) = self.parties.iter().find_map(|party| party.declined) {
                return Err(declined);
            }
            if ORDER == LOGGED {
                self.order(busy)?;
            }
            self.hand_over(busy);
            next = self.parties.iter().filter_map(|party| party.next).min();
            busy = self.parties.iter().map(|party| party.carried_out).sum();
            windows += 1;
            (self.lent.tell)(self.operations());
            events += busy as u64;
            if windows >= WINDOWS_TRIED
                && events < windows * (u64::from(self.shared.flat.ranks / RANKS_PER_EVENT) + 2)
            {
                return Err(Declined::Sparse);
            }
        }
        self.finish()
    }

    /// All ranks go through the window.
    fn work(&mut self, busy: usize) {
        let (shared, window, count) = (&self.shared, self.window, self.parties.len());
        let parties = self.blocks.chunks_mut(self.blocks_each).zip(&mut self.parties);
        share(self.lent.threads, busy, parties, |(blocks, done)| {
            done.clear(count);
            for block in blocks {
                block.run::<C, ORDER>(shared, window, done);
            }
            if ORDER == LOGGED {
                done.log.sort(window.begin(), window.width);
            }
        });
    }

    /// Finds the order of what was created.
    fn order(&mut self, busy: usize) -> Result<(), Declined> {
        let logs: Vec<_> = self.parties.iter().map(|party| &party.log).collect();
        let creators: usize = logs.iter().map(|log| log.len()).sum();
        if creators > order::CREATORS_MAX {
            return Err(Declined::Size);
        }
        if logs.len() == 1 {
            return Ok(());
        }
        self.places.open(&logs);
        let cuts = order::cuts(&logs, logs.len());
        let places = &self.places;
        share(self.lent.threads, busy, 0..logs.len(), |slice| places.find(&logs, &cuts, slice));
        Ok(())
    }

    /// Everybody takes what is for his ranks.
    fn hand_over(&mut self, busy: usize) {
        let (window, block_ranks, blocks_each) = (self.window, self.block_ranks, self.blocks_each);
        let (parties, places) = (&self.parties, &self.places);
        let mut next = vec![None; parties.len()];
        let takers = self.blocks.chunks_mut(blocks_each).zip(&mut next).enumerate();
        share(self.lent.threads, busy, takers, |(party, (blocks, next))| {
            let first = party * blocks_each;
            for (giver, done) in parties.iter().enumerate() {
                for event in &done.events[party] {
                    let mut event = *event;
                    if ORDER == LOGGED {
                        event.number = places.resolve(&done.log, giver, event.number);
                    }
                    blocks[(event.rank / block_ranks) as usize - first].waiting.put(window, event);
                }
            }
            *next = blocks.iter().filter_map(|block| block.waiting.next(window.number)).min();
        });
        let creators = self.parties.iter().map(|party| party.log.len()).sum();
        self.places.close(creators);
        for (party, next) in self.parties.iter_mut().zip(next) {
            party.next = next;
        }
    }

    fn operations(&self) -> u64 {
        self.parties.iter().map(|party| party.operations).sum()
    }

    fn finish(self) -> Result<Finished, Declined> {
        let flat = self.shared.flat;
        let operations = self.operations();
        let messages: u64 = self.parties.iter().map(|party| party.messages).sum();
        if operations < flat.operations || !self.blocks.iter().all(|block| block.is_done(flat)) {
            return Err(Declined::Mistake);
        }
        let lanes = flat.lanes as usize;
        let ends = |block: &Block<S>| {
            (0..block.places.len()).map(|rank| Time(block.end(rank, lanes))).collect::<Vec<_>>()
        };
        let end: Vec<Time> = self.blocks.iter().flat_map(ends).collect();
        if end.iter().any(|&end| end > Time(TIME_MAX)) {
            return Err(Declined::Time);
        }
        Ok(Finished { events: operations + messages, end })
    }
}

/// Does something for each party, on threads of their own if there is enough to do.
fn share<T: Send>(
    threads: &dyn Threads,
    events: usize,
    parties: impl ExactSizeIterator<Item = T>,
    work: impl Fn(T) + Sync,
) {
    if parties.len() == 1 || events < EVENTS_SHARED_MIN {
        return parties.for_each(work);
    }
    let work = &work;
    threads.run(parties.map(|party| Box::new(move || work(party)) as Job<'_>).collect());
}
