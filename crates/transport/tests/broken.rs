//! The conformance suite can fail: transports that break one rule each, and the case that finds each out.

use castell_base::{Lent, Rank};
use castell_transport::conformance::{Group, check, check_case, names};
use castell_transport::{
    AccessError, Address, Armed, Connector, Cost, Down, Endpoint, Events, Header, Limits, Loopback,
    LoopbackConnector, LoopbackEndpoint, LoopbackOptions, Refused, RemoteKey, Sleeper, Token, Transport,
    Unreachable, Urgency,
};
use std::task::Poll;

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    LosesEvery50th,
    DoublesEvery50th,
    Overtakes,
    FlipsABit,
    CutsTheLastByte,
    LosesTheTag,
    IsRefusedAndSends,
    TellsTooMuch,
    NeverTellsRoom,
    TellsRoomUnasked,
    HasNoBound,
    SleepsOverNews,
    NeverSleeps,
    WakesNobody,
    NeverTellsTheEnd,
    TellsTheEndTwice,
    SpeaksAfterTheEnd,
    CountsWrong,
    TakesMessagesAfterTheEnd,
    MistakesTheEnd,
    GetsOneByteLess,
    GetsOutside,
    TakesStaleKeys,
    NotifiesFirst,
    EndsTwice,
    NeverEnds,
    AddsTwice,
    SwapsNothing,
    TakesOddWords,
    DeniesGets,
    PromisesAtomics,
    MapsStaleKeys,
}

/// (flaw, the case that has to find it).
const FLAWS: [(Flaw, &str); 32] = [
    (Flaw::LosesEvery50th, "order"),
    (Flaw::DoublesEvery50th, "order"),
    (Flaw::Overtakes, "many peers"),
    (Flaw::FlipsABit, "sizes"),
    (Flaw::CutsTheLastByte, "sizes"),
    (Flaw::LosesTheTag, "sizes"),
    (Flaw::IsRefusedAndSends, "full and room"),
    (Flaw::TellsTooMuch, "order"),
    (Flaw::NeverTellsRoom, "full and room"),
    (Flaw::TellsRoomUnasked, "full and room"),
    (Flaw::HasNoBound, "full and room"),
    (Flaw::SleepsOverNews, "wake"),
    (Flaw::NeverSleeps, "wake"),
    (Flaw::WakesNobody, "wake"),
    (Flaw::NeverTellsTheEnd, "died"),
    (Flaw::TellsTheEndTwice, "left"),
    (Flaw::SpeaksAfterTheEnd, "left"),
    (Flaw::CountsWrong, "left"),
    (Flaw::TakesMessagesAfterTheEnd, "path lost"),
    (Flaw::MistakesTheEnd, "left"),
    (Flaw::GetsOneByteLess, "get"),
    (Flaw::GetsOutside, "get"),
    (Flaw::TakesStaleKeys, "keys"),
    (Flaw::NotifiesFirst, "put"),
    (Flaw::EndsTwice, "get"),
    (Flaw::NeverEnds, "under way when down"),
    (Flaw::AddsTwice, "atomics"),
    (Flaw::SwapsNothing, "atomics"),
    (Flaw::TakesOddWords, "atomics"),
    (Flaw::DeniesGets, "limits"),
    (Flaw::PromisesAtomics, "limits"),
    (Flaw::MapsStaleKeys, "map"),
];

struct Flawed {
    inner: Loopback,
    flaw: Flaw,
    limits: Limits,
    held: Vec<(Header, Vec<u8>)>,
    seen: u32,
    word: castell_base::sync::AtomicU32,
    polls: u32,
}

impl Flawed {
    fn new(inner: Loopback, flaw: Flaw) -> Flawed {
        let mut limits = *inner.limits();
        match flaw {
            Flaw::DeniesGets => limits.get_bytes_max = 0,
            Flaw::PromisesAtomics => limits.atomics = true,
            Flaw::TellsRoomUnasked => limits.tells_room = false,
            _ => {}
        }
        let word = castell_base::sync::AtomicU32::new(0);
        Flawed { inner, flaw, limits, held: Vec::new(), seen: 0, word, polls: 0 }
    }
}

/// What the loopback tells, with the flaw.
struct Through<'a, E> {
    to: &'a mut E,
    flaw: Flaw,
    held: &'a mut Vec<(Header, Vec<u8>)>,
    seen: &'a mut u32,
    extra: usize,
    missing: usize,
}

impl<E: Events> Events for Through<'_, E> {
    fn message(&mut self, header: &Header, payload: &[u8]) {
        *self.seen += 1;
        let is_50th = self.seen.is_multiple_of(50);
        match self.flaw {
            Flaw::LosesEvery50th if is_50th => self.missing += 1,
            Flaw::DoublesEvery50th if is_50th => {
                self.to.message(header, payload);
                self.to.message(header, payload);
                self.extra += 1;
            }
            Flaw::Overtakes if is_50th => {
                self.held.push((*header, payload.to_vec()));
                self.missing += 1;
            }
            Flaw::SpeaksAfterTheEnd if *self.seen == 3 => {
                self.held.push((*header, payload.to_vec()));
                self.missing += 1;
            }
            Flaw::FlipsABit if is_50th && !payload.is_empty() => {
                let mut damaged = payload.to_vec();
                damaged[payload.len() / 2] ^= 4;
                self.to.message(header, &damaged);
            }
            Flaw::CutsTheLastByte if is_50th && !payload.is_empty() => {
                self.to.message(header, &payload[..payload.len() - 1]);
            }
            Flaw::LosesTheTag if is_50th => self.to.message(&Header { tag: 0, ..*header }, payload),
            _ => self.to.message(header, payload),
        }
        if self.flaw == Flaw::Overtakes && !is_50th {
            for (header, payload) in self.held.drain(..) {
                self.to.message(&header, &payload);
                self.extra += 1;
            }
        }
    }

    fn room(&mut self, peer: Rank) {
        match self.flaw {
            Flaw::NeverTellsRoom => self.missing += 1,
            _ => self.to.room(peer),
        }
    }

    fn completed(&mut self, token: Token, outcome: Result<u64, AccessError>) {
        match self.flaw {
            Flaw::NeverEnds if outcome == Err(AccessError::Down) => self.missing += 1,
            Flaw::EndsTwice => {
                self.to.completed(token, outcome);
                self.to.completed(token, outcome);
                self.extra += 1;
            }
            _ => self.to.completed(token, outcome),
        }
    }

    fn notified(&mut self, peer: Rank, notice: u32) {
        self.to.notified(peer, notice);
    }

    fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
        match self.flaw {
            Flaw::NeverTellsTheEnd => return self.missing += 1,
            Flaw::CountsWrong => self.to.down(peer, delivered + 1, why),
            Flaw::MistakesTheEnd => self.to.down(peer, delivered, Down::Died),
            _ => self.to.down(peer, delivered, why),
        }
        if self.flaw == Flaw::TellsTheEndTwice {
            self.to.down(peer, delivered, why);
            self.extra += 1;
        }
        if self.flaw == Flaw::SpeaksAfterTheEnd {
            for (header, payload) in self.held.drain(..) {
                self.to.message(&header, &payload);
                self.extra += 1;
            }
        }
    }
}

impl Transport for Flawed {
    type Endpoint = FlawedEndpoint;
    type Connector = FlawedConnector;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn connector(&mut self) -> FlawedConnector {
        FlawedConnector { inner: self.inner.connector(), flaw: self.flaw, limits: self.limits }
    }

    fn export(&mut self, memory: Lent) -> Result<RemoteKey, AccessError> {
        self.inner.export(memory)
    }

    fn withdraw(&mut self, key: &RemoteKey) {
        if !matches!(self.flaw, Flaw::TakesStaleKeys | Flaw::MapsStaleKeys) {
            self.inner.withdraw(key);
        }
    }

    fn poll(&mut self, budget: usize, events: &mut impl Events) -> usize {
        let budget = budget + usize::from(self.flaw == Flaw::TellsTooMuch);
        let (flaw, held, seen) = (self.flaw, &mut self.held, &mut self.seen);
        let mut through = Through { to: events, flaw, held, seen, extra: 0, missing: 0 };
        let told = self.inner.poll(budget, &mut through);
        told + through.extra - through.missing
    }

    fn has_news(&self) -> bool {
        self.inner.has_news()
    }

    fn arm(&mut self, sleeper: Sleeper) -> Armed<'_> {
        self.polls += 1;
        match self.flaw {
            Flaw::SleepsOverNews | Flaw::WakesNobody if self.flaw == Flaw::WakesNobody || self.polls > 2 => {
                Armed::Futex { word: &self.word, expected: 0 }
            }
            Flaw::NeverSleeps => Armed::Busy,
            _ => self.inner.arm(sleeper),
        }
    }

    fn disarm(&mut self, sleeper: Sleeper) {
        self.inner.disarm(sleeper);
    }
}

struct FlawedConnector {
    inner: LoopbackConnector,
    flaw: Flaw,
    limits: Limits,
}

impl Connector for FlawedConnector {
    type Endpoint = FlawedEndpoint;

    fn route(&self, to: &Address) -> Option<Cost> {
        self.inner.route(to)
    }

    fn connect(&mut self, to: Rank, at: &Address) -> Result<FlawedEndpoint, Unreachable> {
        let inner = self.inner.connect(to, at)?;
        Ok(FlawedEndpoint { inner, flaw: self.flaw, limits: self.limits, sent: Vec::new() })
    }
}

struct FlawedEndpoint {
    inner: LoopbackEndpoint,
    flaw: Flaw,
    limits: Limits,
    sent: Vec<u8>,
}

impl Endpoint for FlawedEndpoint {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_send(&mut self, header: &Header, payload: &[u8]) -> Result<(), Refused> {
        let sent = self.inner.try_send(header, payload);
        match (self.flaw, sent) {
            // Kept somewhere where nobody finds it: what matters is that there is no end to it.
            (Flaw::HasNoBound, Err(Refused::Full)) => {
                self.sent.push(header.kind);
                Ok(())
            }
            (Flaw::IsRefusedAndSends, Ok(())) if header.sequence == 3 => Err(Refused::Full),
            (Flaw::TakesMessagesAfterTheEnd, Err(Refused::Down)) => Ok(()),
            _ => sent,
        }
    }

    fn flush(&mut self, urgency: Urgency) -> bool {
        self.inner.flush(urgency)
    }

    fn get(&mut self, from: &RemoteKey, at: u64, into: Lent, token: Token) -> Result<Poll<()>, AccessError> {
        let bytes = into.bytes() as u64;
        match self.flaw {
            Flaw::GetsOneByteLess if bytes > 1 => {
                self.inner.get(from, at, into.part(0, bytes - 1).expect("shorter"), token)
            }
            Flaw::GetsOutside if at.saturating_add(bytes) > from.bytes => Ok(Poll::Ready(())),
            _ => self.inner.get(from, at, into, token),
        }
    }

    fn put(
        &mut self,
        from: Lent,
        to: &RemoteKey,
        at: u64,
        notice: Option<u32>,
        token: Token,
    ) -> Result<Poll<()>, AccessError> {
        if self.flaw == Flaw::NotifiesFirst {
            let nothing = from.part(0, 0).expect("empty");
            return self.inner.put(nothing, to, at, notice, token);
        }
        self.inner.put(from, to, at, notice, token)
    }

    fn fetch_add(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        match self.flaw {
            Flaw::PromisesAtomics => Err(AccessError::Unsupported),
            Flaw::TakesOddWords => self.inner.fetch_add(word, at / 8 * 8, value, token),
            Flaw::AddsTwice => {
                let _ = self.inner.fetch_add(word, at, value, token)?;
                self.inner.fetch_add(word, at, value, token)
            }
            _ => self.inner.fetch_add(word, at, value, token),
        }
    }

    fn swap(
        &mut self,
        word: &RemoteKey,
        at: u64,
        value: u64,
        token: Token,
    ) -> Result<Poll<u64>, AccessError> {
        match self.flaw {
            Flaw::SwapsNothing => self.inner.fetch_add(word, at, 0, token),
            _ => self.inner.swap(word, at, value, token),
        }
    }

    fn map(&self, key: &RemoteKey) -> Option<Lent> {
        self.inner.map(key)
    }
}

struct FlawedGroup(Vec<Flawed>);

impl Group for FlawedGroup {
    type Transport = Flawed;

    fn transport(&mut self, rank: Rank) -> &mut Flawed {
        &mut self.0[rank.index()]
    }

    fn end(&mut self, rank: Rank, why: Down) -> bool {
        match why {
            Down::PathLost => self.0[0].inner.sever(rank),
            why => self.0[rank.index()].inner.end(why),
        }
        true
    }
}

fn group(ranks: u32, flaw: Flaw) -> FlawedGroup {
    let defers = matches!(flaw, Flaw::EndsTwice | Flaw::NeverEnds);
    let options =
        LoopbackOptions { message_bytes_max: 200, stream_bytes: 600, defers, ..LoopbackOptions::default() };
    FlawedGroup(Loopback::group(ranks, options).into_iter().map(|inner| Flawed::new(inner, flaw)).collect())
}

#[test]
fn each_broken_rule_is_found_by_its_case() {
    for (flaw, case) in FLAWS {
        let found = check_case(case, 1, &mut |ranks| group(ranks, flaw));
        let broken = found.expect_err(&format!("{flaw:?} passes `{case}`"));
        println!("{flaw:?}: {broken}");
        check(1, |ranks| group(ranks, flaw)).expect_err("the whole suite finds it, too");
    }
}

/// Every case finds something: none is there for nothing.
#[test]
fn every_case_finds_something() {
    for name in names::<FlawedGroup>() {
        assert!(FLAWS.iter().any(|(_, case)| *case == name), "nothing is known that `{name}` finds");
    }
}
