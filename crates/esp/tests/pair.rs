//! Two endpoints, frame by frame: what each loss does, and the faults of the original.

mod segment;

use castell_esp::frame::{Flags, Head, read};
use castell_esp::{Communicator, Endpoint, Event, Handle, Settings, What, Why, frame};
use segment::{MS, SECOND, Segment, Weather, Wires, address, key};
use std::cell::RefCell;
use std::rc::Rc;

const COMMUNICATOR: Communicator = Communicator(0xC0FFEE);

/// All frames that went out, and their payloads' lengths.
type Log = Rc<RefCell<Vec<(Head, usize)>>>;

struct Pair {
    segment: Segment,
    log: Log,
}

impl Pair {
    /// `passes`: whether a frame gets through, by its number and what it says.
    fn new(settings: &Settings, mut passes: impl FnMut(usize, &Head) -> bool + 'static) -> Pair {
        let mut segment = Segment::new(2, 1, Wires::SHORT, Weather::default(), settings);
        let log = Log::default();
        let written = Rc::clone(&log);
        segment.watch = Some(Box::new(move |bytes| {
            let (head, payload) = read(bytes, &key()).expect("endpoints send frames");
            written.borrow_mut().push((head, payload.len()));
            let number = written.borrow().len() - 1;
            passes(number, &head)
        }));
        Pair { segment, log }
    }

    fn quiet() -> Pair {
        Pair::new(&Settings::default(), |_, _| true)
    }

    fn at(&mut self, host: usize) -> &mut Endpoint {
        self.segment.at(host)
    }

    fn open(&mut self, host: usize) {
        let now = self.segment.now;
        self.at(host).open(COMMUNICATOR, now);
    }

    fn connect(&mut self, host: usize) -> Handle {
        let now = self.segment.now;
        self.at(host).connect(address(1 - host), COMMUNICATOR, now).expect("room")
    }

    fn write(&mut self, host: usize, handle: Handle, bytes: &[u8]) -> usize {
        let now = self.segment.now;
        self.at(host).write(handle, bytes, now).expect("it is open")
    }

    /// Runs for so long; what each host was told.
    fn run(&mut self, for_ns: u64) -> [Vec<Event>; 2] {
        let until = self.segment.now + for_ns;
        while self.segment.step(until) {}
        [0, 1].map(|host| std::iter::from_fn(|| self.at(host).event()).collect())
    }

    /// Reads all that is there.
    fn read(&mut self, host: usize, handle: Handle) -> Vec<u8> {
        let now = self.segment.now;
        let bytes = self.at(host).peek(handle).concat();
        self.at(host).consume(handle, bytes.len(), now);
        bytes
    }

    fn flags(&self) -> Vec<(u8, Flags, usize)> {
        self.log.borrow().iter().map(|(head, bytes)| (head.from.mac.0[5], head.flags, *bytes)).collect()
    }
}

fn accepted(events: &[Event]) -> Handle {
    let found = events.iter().find(|event| matches!(event.what, What::Accepted { .. }));
    found.unwrap_or_else(|| panic!("a connection was accepted: {events:?}")).connection
}

fn ends(events: &[Event]) -> Vec<What> {
    let is_end = |what: &What| matches!(what, What::Closed | What::Down(_));
    events.iter().map(|event| event.what).filter(is_end).collect()
}

#[test]
fn a_connection_takes_three_frames_and_the_last_carries_data() {
    let mut pair = Pair::quiet();
    pair.open(1);
    let dialed = pair.connect(0);
    pair.write(0, dialed, b"hello");
    let [_, events] = pair.run(MS);
    let there = accepted(&events);
    assert_eq!(pair.read(1, there), b"hello");
    let (ack, transfer) = (Flags::ACK, Flags::TXS | Flags::TXF | Flags::TXR);
    let expected = [(0, Flags::SYN, 0), (1, Flags::SYN | ack, 0), (0, ack | transfer, 5), (1, ack, 0)];
    // The dialer owes an answer to SYN+ACK, and its data is that.
    assert_eq!(pair.flags(), expected);
}

/// Whichever of the first ten frames get lost, in all 1,024 ways: both sides are connected in the end, and told once; all bytes come.
#[test]
fn any_loss_in_the_handshake_heals() {
    for lost in 0..1024_u32 {
        for both in [false, true] {
            let mut pair =
                Pair::new(&Settings::default(), move |number, _| number >= 10 || lost >> number & 1 == 0);
            pair.open(0);
            pair.open(1);
            let one = pair.connect(0);
            pair.write(0, one, b"one");
            let other = both.then(|| pair.connect(1));
            let [at_one, at_other] = pair.run(SECOND);
            let connected = at_one.iter().filter(|event| event.what == What::Connected).count();
            assert_eq!((connected, ends(&at_one)), (1, vec![]), "{lost:010b}, both: {both}");
            let other = other.unwrap_or_else(|| accepted(&at_other));
            assert_eq!(ends(&at_other), [], "{lost:010b}, both: {both}");
            assert_eq!(pair.read(1, other), b"one", "{lost:010b}, both: {both}");
            pair.write(1, other, b"other");
            pair.run(SECOND);
            assert_eq!(pair.read(0, one), b"other", "{lost:010b}, both: {both}");
            // And closing, with what is left of the losses.
            let now = pair.segment.now;
            pair.at(0).close(one, now);
            pair.at(1).close(other, now);
            let [at_one, at_other] = pair.run(SECOND);
            assert_eq!((ends(&at_one), ends(&at_other)), (vec![What::Closed], vec![What::Closed]));
        }
    }
}

/// Whichever frames of a short conversation get lost, from its first to its last.
#[test]
fn any_loss_at_the_end_heals() {
    for lost in 0..1024_u32 {
        let begins = Rc::new(RefCell::new(None));
        let from = Rc::clone(&begins);
        let passes = move |number: usize, _: &Head| {
            from.borrow().is_none_or(|from| number >= from + 10 || lost >> (number - from) & 1 == 0)
        };
        let mut pair = Pair::new(&Settings::default(), passes);
        pair.open(1);
        let one = pair.connect(0);
        let [_, events] = pair.run(SECOND / 2);
        let other = accepted(&events);
        *begins.borrow_mut() = Some(pair.log.borrow().len());
        let now = pair.segment.now;
        pair.write(0, one, &[1; 3000]);
        pair.at(0).close(one, now);
        pair.write(1, other, b"answer");
        pair.at(1).close(other, now);
        let [at_one, at_other] = pair.run(SECOND);
        assert_eq!((ends(&at_one), ends(&at_other)), (vec![What::Closed], vec![What::Closed]), "{lost:010b}");
        assert_eq!(
            (pair.read(1, other), pair.read(0, one)),
            (vec![1; 3000], b"answer".to_vec()),
            "{lost:010b}"
        );
    }
}

/// The first fault of the original (ESPGOAL, section 3.2.1). The receiver has a transfer's last frame, so it asks for nothing any more, and
/// its acknowledgements of the end get lost. The sender's next transfer begins further from the last acknowledged frame than
/// an initial burst reaches: it may not start it, and waits for ever. Here the sender has a timer as long as anything is not
/// acknowledged, and asks.
#[test]
fn a_lost_acknowledgement_of_a_transfers_end_stops_nobody() {
    let settings = Settings::default();
    let burst = settings.initial_burst as usize;
    let is_deaf = Rc::new(RefCell::new(false));
    let deaf = Rc::clone(&is_deaf);
    // Nothing of host 1's gets through while that is so.
    let mut pair = Pair::new(&settings, move |_, head| head.from != address(1) || !*deaf.borrow());
    pair.segment.wires = Wires::GIGABIT;
    pair.open(1);
    let one = pair.connect(0);
    let [_, events] = pair.run(100 * MS);
    let other = accepted(&events);
    // A transfer of many more frames than an initial burst; from two bursts before its end on no acknowledgement comes back.
    let long = vec![7; settings.send_bytes];
    pair.write(0, one, &long);
    let mut came = Vec::new();
    while came.len() < long.len() - 2 * burst * settings.payload_bytes_max() {
        let until = pair.segment.now + MS;
        pair.segment.step(until);
        came.extend(pair.read(1, other));
    }
    let deaf_from = pair.log.borrow().iter().filter(|(head, _)| head.from == address(1)).count();
    *is_deaf.borrow_mut() = true;
    pair.run(5 * MS);
    // What the sender has heard last, and where its next transfer begins: further away than an initial burst.
    let (heard, next) = {
        let log = pair.log.borrow();
        let last = log.iter().rev().find(|(head, bytes)| head.from == address(0) && *bytes > 0);
        let next = last.expect("data was sent").0.sequence.wrapping_add(1);
        let mut answers = log.iter().filter(|(head, _)| head.from == address(1));
        let heard = answers.nth(deaf_from - 1).expect("answers were heard").0.acknowledged;
        (heard, next)
    };
    assert!(
        next.wrapping_sub(heard) >= settings.initial_burst,
        "the next transfer begins at {next}, {heard} is acknowledged"
    );
    came.extend(pair.read(1, other));
    assert_eq!(came.len(), long.len(), "the receiver has the end, and asks for nothing");
    let sent_before = pair.log.borrow().len();
    // Many small transfers: they neither wait for ever nor flood the segment.
    for _ in 0..200 {
        pair.write(0, one, b"small");
    }
    pair.run(20 * MS);
    let frames = pair.log.borrow()[sent_before..].iter().filter(|(head, _)| head.from == address(0)).count();
    assert!(frames <= 2 * burst + 20, "{frames} frames went out to who does not answer");
    *is_deaf.borrow_mut() = false;
    // Sooner than a heartbeat would find out.
    let [at_one, at_other] = pair.run(300 * MS);
    assert_eq!((ends(&at_one), ends(&at_other)), (vec![], vec![]));
    came.extend(pair.read(1, other));
    assert_eq!(came.len(), long.len() + 200 * 5);
    assert!(came.starts_with(&long) && came.ends_with(b"smallsmall"));
}

/// The second fault: one port served all communicators, and nobody knew whose a new connection was. Here it names its communicator first,
/// waits until that one is there, and says so meanwhile, so that nobody gives up.
#[test]
fn a_connection_waits_for_its_communicator() {
    let mut pair = Pair::quiet();
    let now = pair.segment.now;
    pair.at(1).open(Communicator(1), now);
    let dialed = pair.connect(0);
    pair.write(0, dialed, b"early");
    // Much longer than nobody's answer is waited for.
    let [told, there] = pair.run(60 * SECOND);
    assert_eq!((told, there), (vec![], vec![]));
    let frames = pair.log.borrow().len();
    assert!(frames < 60 * 2 * 11, "{frames} frames in a minute");
    pair.open(1);
    let [told, there] = pair.run(MS);
    assert!(
        told.iter().any(|event| event.what == What::Connected),
        "at once, not when it asks next: {told:?}"
    );
    let other = accepted(&there);
    assert!(matches!(there[0].what, What::Accepted { communicator: COMMUNICATOR, .. }));
    assert_eq!(pair.read(1, other), b"early");
}

#[test]
fn writes_that_wait_become_one_transfer_and_their_ends_stay() {
    let settings = Settings::default();
    let mut pair = Pair::quiet();
    pair.open(1);
    let one = pair.connect(0);
    // Nothing can go out before the connection is there: all wait.
    let bytes = settings.payload_bytes_max();
    for _ in 0..3 {
        pair.write(0, one, &vec![1; bytes]);
    }
    pair.write(0, one, b"end");
    pair.run(SECOND / 2);
    let data: Vec<Flags> = pair
        .flags()
        .into_iter()
        .filter(|(from, _, bytes)| *from == 0 && *bytes > 0)
        .map(|(_, flags, _)| flags)
        .collect();
    let (ack, end) = (Flags::ACK, Flags::TXR);
    assert_eq!(data, [ack | Flags::TXS | end, ack | end, ack | end, ack | Flags::TXF | end]);
}

/// Who takes one message and leaves the beginning of the next is told when the rest has come.
#[test]
fn whoever_leaves_half_a_message_is_told_of_the_other_half() {
    let mut pair = Pair::quiet();
    pair.segment.wires = Wires::GIGABIT;
    pair.open(1);
    let one = pair.connect(0);
    for length in [1000, 2000, 3000, 4000] {
        pair.write(0, one, &vec![1; length]);
    }
    let (mut other, mut wanted) = (None, vec![4000, 3000, 2000, 1000]);
    let until = pair.segment.now + MS;
    while pair.segment.step(until) {
        let now = pair.segment.now;
        while let Some(event) = pair.at(1).event() {
            if let What::Accepted { .. } = event.what {
                other = Some(event.connection);
            }
            while let (What::Readable, Some(length)) = (event.what, wanted.last().copied()) {
                if pair.at(1).peek(event.connection).concat().len() < length {
                    break;
                }
                pair.at(1).consume(event.connection, length, now);
                wanted.pop();
            }
        }
    }
    assert!(other.is_some());
    assert_eq!(wanted, [], "messages that nobody was told of");
}

/// Before the receiver has said that it knows of the transfer no more than an initial burst goes out, and only its oldest frame again; from
/// then on only the receiver's request brings a frame again.
#[test]
fn both_stages_of_a_transfer() {
    let settings = Settings::default();
    let mut pair =
        Pair::new(&settings, |_, head| head.flags == Flags::SYN || head.flags == Flags::SYN | Flags::ACK);
    pair.open(1);
    let one = pair.connect(0);
    pair.write(0, one, &vec![1; 100 * settings.payload_bytes_max()]);
    pair.run(SECOND);
    let numbers: std::collections::BTreeSet<u32> =
        pair.log.borrow().iter().filter(|(_, bytes)| *bytes > 0).map(|(head, _)| head.sequence).collect();
    assert_eq!(numbers.len(), settings.initial_burst as usize);
    // The second stage: the 40th frame is lost once.
    let lost = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&lost);
    let passes = move |_: usize, head: &Head| {
        let is_data = head.from == address(0) && !head.flags.has(Flags::SYN);
        let is_it = is_data && head.sequence == head.from_session.wrapping_add(40) && seen.borrow().is_none();
        if is_it {
            *seen.borrow_mut() = Some(head.sequence);
        }
        !is_it
    };
    let mut pair = Pair::new(&settings, passes);
    pair.open(1);
    let one = pair.connect(0);
    pair.write(0, one, &vec![1; 100 * settings.payload_bytes_max()]);
    let [_, events] = pair.run(SECOND);
    let other = accepted(&events);
    assert_eq!(pair.read(1, other).len(), 100 * settings.payload_bytes_max());
    let lost = lost.borrow().expect("it was lost");
    let log = pair.log.borrow();
    let times =
        |sequence| log.iter().filter(|(head, bytes)| *bytes > 1000 && head.sequence == sequence).count();
    assert_eq!(times(lost), 2);
    let requests = log.iter().filter(|(head, _)| head.flags.has(Flags::RRQ)).count();
    assert_eq!(requests, 1, "one request for one frame");
    assert_eq!(log.iter().filter(|(head, bytes)| *bytes > 1000 && head.from == address(0)).count(), 101);
}

#[test]
fn a_peer_that_starts_anew_is_told_of_and_met_again() {
    let mut pair = Pair::quiet();
    pair.open(1);
    let old = pair.connect(0);
    pair.write(0, old, b"old");
    let [_, events] = pair.run(MS);
    let at_peer = accepted(&events);
    assert_eq!(pair.read(1, at_peer), b"old");
    pair.segment.restart(0);
    let new = pair.connect(0);
    pair.write(0, new, b"new");
    let [told, events] = pair.run(SECOND);
    assert_eq!(ends(&told), []);
    assert_eq!(ends(&events), [What::Down(Why::Restarted)]);
    let again = accepted(&events);
    assert_ne!(again, at_peer);
    assert_eq!(pair.read(1, again), b"new");
    // One that does not connect by itself says that it knows nothing, when something comes.
    pair.segment.restart(0);
    pair.write(1, again, b"who are you?");
    let [_, events] = pair.run(SECOND);
    assert_eq!(ends(&events), [What::Down(Why::Reset)]);
}

#[test]
fn who_vanishes_is_given_up_and_idle_connections_stay() {
    let is_gone = Rc::new(RefCell::new(false));
    let gone = Rc::clone(&is_gone);
    let mut pair = Pair::new(&Settings::default(), move |_, _| !*gone.borrow());
    pair.open(1);
    pair.connect(0);
    pair.run(MS);
    let before = pair.log.borrow().len();
    let [one, other] = pair.run(100 * SECOND);
    assert_eq!((one, other), (vec![], vec![]));
    let frames = pair.log.borrow().len() - before;
    assert!(frames < 450, "{frames} frames in 100 s of silence");
    *is_gone.borrow_mut() = true;
    let since = pair.segment.now;
    let [one, other] = pair.run(6 * SECOND);
    assert_eq!((ends(&one), ends(&other)), (vec![What::Down(Why::Silent)], vec![What::Down(Why::Silent)]));
    assert!(pair.segment.now - since <= 6 * SECOND);
    // And nobody answers at all.
    pair.connect(0);
    let [one, _] = pair.run(11 * SECOND);
    assert_eq!(ends(&one), [What::Down(Why::NoAnswer)]);
}

#[test]
fn who_is_full_refuses() {
    let settings = Settings { connections_max: 1, ..Settings::default() };
    let mut pair = Pair::new(&settings, |_, _| true);
    pair.open(1);
    let now = pair.segment.now;
    pair.at(1).connect(address(9), Communicator(3), now).expect("room for one");
    assert!(pair.at(1).connect(address(8), Communicator(3), now).is_err());
    pair.connect(0);
    let [one, other] = pair.run(MS);
    assert_eq!((ends(&one), ends(&other)), (vec![What::Down(Why::Refused)], vec![]));
}

/// Frames of others: dropped, counted, and of no effect.
#[test]
fn forged_and_foreign_frames_are_counted_and_do_nothing() {
    let mut pair = Pair::quiet();
    pair.open(1);
    let one = pair.connect(0);
    let [_, events] = pair.run(MS);
    let other = accepted(&events);
    let (now, before) = (pair.segment.now, pair.at(1).counters());
    let genuine = pair.log.borrow()[2].0;
    let mut out = [0; 2000];
    let reset = Head { flags: Flags::RST | Flags::ACK, ..genuine };
    let mut say = |pair: &mut Pair, head: &Head, key: &castell_esp::Key, payload: &[u8]| {
        let length = frame::write(&mut out, key, head, [payload, &[]]);
        pair.at(1).receive(&out[..length], now);
    };
    let stranger = castell_esp::Key::new(&[0; 16]);
    say(&mut pair, &reset, &stranger, b"");
    say(&mut pair, &Head { flags: Flags::SYN, to_session: 0, from_session: 5, ..genuine }, &stranger, b"");
    say(&mut pair, &Head { flags: Flags::ACK | Flags::TXS, ..genuine }, &stranger, b"forged");
    assert_eq!(pair.at(1).counters().forged, before.forged + 3);
    // With the right key, but of another connection, another port, or older than this program.
    say(&mut pair, &Head { from_session: genuine.from_session ^ 1, ..reset }, &key(), b"");
    assert_eq!(pair.at(1).counters().stale, before.stale + 1);
    let mut to = genuine.to;
    to.port += 1;
    say(&mut pair, &Head { to, ..reset }, &key(), b"");
    assert_eq!(pair.at(1).counters().not_mine, before.not_mine + 1);
    pair.at(1).receive(b"short", now);
    assert_eq!(pair.at(1).counters().garbled, before.garbled + 1);
    // A SYN of an earlier life, said again by somebody who has heard it: the connection that is there stays.
    say(&mut pair, &Head { flags: Flags::SYN, to_session: 0, from_session: 77, ..genuine }, &key(), b"");
    let [told, events] = pair.run(20 * SECOND);
    assert_eq!((ends(&told), ends(&events)), (vec![], vec![]));
    assert!(!events.iter().any(|event| matches!(event.what, What::Accepted { .. })));
    pair.write(0, one, b"still here");
    pair.run(MS);
    assert_eq!(pair.read(1, other), b"still here");
    assert_eq!(pair.at(1).connections(), 1, "nothing is left of the wish");
}

/// Both sides' numbers go past 2^32, whichever frame in seven is lost.
#[test]
fn numbers_wrap_around() {
    let settings = Settings::default();
    for lost in 0..8 {
        let mut pair = Pair::new(&settings, move |number, _| number % 7 != lost);
        pair.open(1);
        (0..2).for_each(|host| pair.at(host).grow_old());
        let sent = [0, 1].map(|host| {
            let bytes = (0..60 * settings.payload_bytes_max()).map(|at| (at % 251 + host) as u8);
            bytes.collect::<Vec<u8>>()
        });
        let one = pair.connect(0);
        let mut written = [0, 0];
        let mut heard = [Vec::new(), Vec::new()];
        let mut handles = [Some(one), None];
        for _ in 0..2000 {
            for host in [0, 1] {
                let Some(handle) = handles[host] else { continue };
                let rest = sent[host][written[host]..].to_vec();
                written[host] += pair.write(host, handle, &rest);
                heard[host].extend(pair.read(host, handle));
            }
            let [_, events] = pair.run(MS);
            if handles[1].is_none() && events.iter().any(|event| matches!(event.what, What::Accepted { .. }))
            {
                handles[1] = Some(accepted(&events));
            }
        }
        assert!(heard[1] == sent[0] && heard[0] == sent[1], "every seventh lost from {lost} on");
        let log = pair.log.borrow();
        let is_past = |head: &Head| head.sequence < 1000 && head.from_session > 1000;
        for host in [0, 1] {
            assert!(log.iter().any(|(head, _)| head.from == address(host) && is_past(head)), "{host}");
        }
    }
}

/// A place is used again and again, past 2^32 times: what is left of each use reaches nothing of the next.
#[test]
fn handles_of_former_connections_stay_dead_where_uses_begin_again() {
    let mut pair = Pair::quiet();
    pair.at(0).grow_old();
    let mut former: Vec<Handle> = Vec::new();
    for word in [b"one", b"two", b"thr", b"fou"] {
        let handle = pair.connect(0);
        let now = pair.segment.now;
        for dead in &former {
            assert_ne!(*dead, handle);
            assert!(pair.at(0).write(*dead, b"?", now).is_err(), "{dead:?} beside {handle:?}");
            pair.at(0).abort(*dead, now);
        }
        assert_eq!(pair.write(0, handle, word), 3, "what ends a former one leaves {handle:?} alone");
        pair.at(0).abort(handle, now);
        assert_eq!(pair.at(0).connections(), 0);
        former.push(handle);
    }
}
