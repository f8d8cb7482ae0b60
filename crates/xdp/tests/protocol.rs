//! The protocol of `bpf/drain.h` and of what brings messages there, as a model: every order in which the steps of several processors and of the
//! process can come. One place is used by a run and, when that is over, by the next; messages come twice, early and late.

use std::collections::HashSet;

/// Messages of a run; each has a receive, and all receives are ready from the beginning.
const MESSAGES: usize = 2;
const RUNS: u8 = 2;

/// Bits of `pending`.
const WORD: u8 = 1;
const ARMED: u8 = 2;
const OWNED: u8 = 4;

/// What somebody could have got wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// The owner lets go although something was brought.
    LetsGoOutright,
    /// The owner looks at messages first, then at what waits.
    WaitsUnseen,
    /// Who brings a message says so before it is there.
    TellsFirst,
    /// Messages are taken by who reads that there is none, without exchanging.
    TakesWithoutExchange,
    /// The next run's messages are taken while this run is not over.
    TakesEarly,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    // Who brings a message.
    Window,
    Read,
    Claim { read: u8 },
    Fill,
    Tell,
    Bring,
    // The owner.
    Piece,
    Post { message: u8 },
    Say,
    Exchange,
    LetGo,
    Advance,
    AdvanceTo { done: u8 },
    // The process.
    Prepare,
    PrepareRing,
    Arm,
    Wait,
    End,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Actor {
    at: At,
    /// Of the message that it brings, or that it starts.
    run: u8,
    message: u8,
    is_process: bool,
    has_completed: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    /// 4 * run + 1: being filled; + 2: there.
    inbound: [u8; MESSAGES],
    arrived: u8,
    pending: u8,
    live: bool,
    number: u8,
    unfinished: u8,
    ring: u8,
    waiting: u8,
    bits: u8,
    words: u8,
    completed: u8,
    done: u8,
    /// How often each message of each run was taken by its receive.
    received: [[u8; MESSAGES]; RUNS as usize],
    actors: Vec<Actor>,
}

fn beginning() -> State {
    let bring =
        |run, message| Actor { at: At::Window, run, message, is_process: false, has_completed: false };
    let process = Actor { at: At::Prepare, run: 0, message: 0, is_process: true, has_completed: false };
    State {
        inbound: [0; MESSAGES],
        arrived: 0,
        pending: 0,
        live: false,
        number: 0,
        unfinished: 0,
        ring: 0,
        waiting: 0,
        bits: 0,
        words: 0,
        completed: 0,
        done: 0,
        received: Default::default(),
        // The first message of the first run comes twice.
        actors: vec![process, bring(0, 0), bring(0, 0), bring(0, 1), bring(1, 0), bring(1, 1)],
    }
}

impl State {
    fn is_full(&self, message: u8) -> bool {
        self.inbound[message as usize] == 4 * self.number + 2
    }

    fn receive(&mut self, message: u8) {
        self.received[self.number as usize][message as usize] += 1;
        self.unfinished = self.unfinished.wrapping_sub(1);
    }

    /// What happens when an actor takes its next step; `None`: it cannot now.
    fn step(&self, who: usize, mistake: Mistake) -> Option<State> {
        let mut next = self.clone();
        let actor = next.actors[who].clone();
        let run = actor.run;
        let at = match actor.at {
            At::End => return None,
            At::Window | At::Read | At::Claim { .. } | At::Fill | At::Tell | At::Bring => {
                next.bring(self, who, mistake)?
            }
            At::Prepare => {
                (next.number, next.unfinished, next.waiting) = (run, MESSAGES as u8, 0);
                At::PrepareRing
            }
            At::PrepareRing => {
                next.ring = (1 << MESSAGES) - 1;
                At::Arm
            }
            At::Arm => {
                next.pending |= ARMED | OWNED;
                if self.pending & OWNED == 0 { At::Piece } else { At::Wait }
            }
            At::Wait if self.completed <= run => return None,
            At::Wait if run + 1 == RUNS => At::End,
            At::Wait => {
                next.actors[who].run += 1;
                At::Prepare
            }
            At::Piece => next.piece(mistake),
            At::Post { message } => {
                next.waiting |= 1 << message;
                At::Piece
            }
            At::Say => {
                next.completed = self.number + 1;
                next.actors[who].has_completed = true;
                At::Piece
            }
            At::Exchange => {
                let brought = std::mem::replace(&mut next.pending, OWNED);
                next.live |= brought & ARMED != 0;
                next.words = brought & WORD;
                At::Piece
            }
            At::LetGo if self.pending == OWNED || mistake == Mistake::LetsGoOutright => {
                next.pending = 0;
                if actor.has_completed { At::Advance } else { next.after(who, mistake) }
            }
            At::LetGo => At::Piece,
            At::Advance if self.completed > self.done => At::AdvanceTo { done: self.done },
            At::Advance => next.after(who, mistake),
            At::AdvanceTo { done } => {
                if self.done == done {
                    next.done = done + 1;
                }
                At::Advance
            }
        };
        next.actors[who].at = at;
        Some(next)
    }

    /// What who brings a message does next, in the state that was.
    fn bring(&mut self, was: &State, who: usize, mistake: Mistake) -> Option<At> {
        let Actor { at, run, message, .. } = was.actors[who].clone();
        let message = message as usize;
        let at = match at {
            // One that is too early is sent again later, so it waits.
            At::Window if was.done < run && mistake != Mistake::TakesEarly => return None,
            At::Window => {
                if was.done > run {
                    At::End
                } else {
                    At::Read
                }
            }
            At::Read if was.inbound[message] > 4 * run => At::End,
            At::Read => At::Claim { read: was.inbound[message] },
            At::Claim { read }
                if mistake == Mistake::TakesWithoutExchange || was.inbound[message] == read =>
            {
                self.inbound[message] = 4 * run + 1;
                if mistake == Mistake::TellsFirst { At::Tell } else { At::Fill }
            }
            At::Claim { .. } => At::End,
            At::Fill => {
                self.inbound[message] = 4 * run + 2;
                if mistake == Mistake::TellsFirst { At::End } else { At::Tell }
            }
            At::Tell => {
                self.arrived |= 1 << message;
                At::Bring
            }
            At::Bring => {
                self.pending |= WORD | OWNED;
                match was.pending & OWNED {
                    0 => At::Piece,
                    _ if mistake == Mistake::TellsFirst => At::Fill,
                    _ => At::End,
                }
            }
            _ => unreachable!("it brings nothing"),
        };
        Some(at)
    }

    /// One look of the owner's.
    fn piece(&mut self, mistake: Mistake) -> At {
        if self.live {
            if self.unfinished == 0 {
                self.live = false;
                return At::Say;
            }
            if self.ring != 0 {
                let message = self.ring.trailing_zeros() as u8;
                self.ring &= self.ring - 1;
                if !self.is_full(message) || mistake == Mistake::WaitsUnseen {
                    return At::Post { message };
                }
                self.receive(message);
                return At::Piece;
            }
        }
        if self.bits != 0 {
            let message = self.bits.trailing_zeros() as u8;
            self.bits &= self.bits - 1;
            if self.live && self.waiting & 1 << message != 0 && self.is_full(message) {
                self.waiting &= !(1 << message);
                self.receive(message);
            }
        } else if self.words != 0 {
            self.words = 0;
            self.bits = std::mem::take(&mut self.arrived);
        } else {
            return if self.pending & !OWNED != 0 { At::Exchange } else { At::LetGo };
        }
        At::Piece
    }

    /// What who was the owner does then.
    fn after(&mut self, who: usize, mistake: Mistake) -> At {
        let actor = &mut self.actors[who];
        actor.has_completed = false;
        match actor.is_process {
            true => At::Wait,
            false if mistake == Mistake::TellsFirst && self.inbound[actor.message as usize] % 4 == 1 => {
                At::Fill
            }
            false => At::End,
        }
    }

    fn owners(&self) -> usize {
        let is_owner = |actor: &&Actor| {
            matches!(actor.at, At::Piece | At::Post { .. } | At::Say | At::Exchange | At::LetGo)
        };
        self.actors.iter().filter(is_owner).count()
    }
}

/// Looks at every state that can be; the first that must not be, or how many there are.
fn explore(mistake: Mistake) -> Result<usize, String> {
    let mut seen = HashSet::new();
    let mut open = vec![beginning()];
    seen.insert(beginning());
    while let Some(state) = open.pop() {
        let wrong = |what: &str| Err(format!("{what}: {state:?}"));
        if state.owners() > 1 || (state.owners() == 1) != (state.pending & OWNED != 0) {
            return wrong("not one owner");
        }
        if state.received.iter().flatten().any(|times| *times > 1) {
            return wrong("received twice");
        }
        let mut goes_on = false;
        for who in 0..state.actors.len() {
            if let Some(next) = state.step(who, mistake) {
                goes_on = true;
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        if !goes_on && (state.done != RUNS || state.actors.iter().any(|actor| actor.at != At::End)) {
            return wrong("nothing goes on");
        }
    }
    Ok(seen.len())
}

#[test]
fn in_whatever_order_all_runs_end() {
    let states = explore(Mistake::None).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{states} states");
    assert!(states > 10_000, "{states} states are not all");
}

#[test]
fn the_model_finds_mistakes() {
    for mistake in [
        Mistake::LetsGoOutright,
        Mistake::WaitsUnseen,
        Mistake::TellsFirst,
        Mistake::TakesWithoutExchange,
        Mistake::TakesEarly,
    ] {
        assert!(explore(mistake).is_err(), "{mistake:?} is not found");
    }
}
