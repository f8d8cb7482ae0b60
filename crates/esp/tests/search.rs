//! Two ports with several cards each, on segments that lose, double and overtake: what they find, and what they are told.

use castell_base::Rank;
use castell_base::random::Philox;
use castell_esp::datagram::{self, DATAGRAM_BYTES, Datagram, Kind};
use castell_esp::{Address, Communicator, Key, Mac, Search, Told, Way};
use rand_core::RngCore;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const PATIENCE: u64 = 10_000 * MS;
const US: Communicator = Communicator(0xC0FFEE);

fn key() -> Key {
    Key::new(&[9; 16])
}

/// The card of a port in this place of the order of names.
fn mac(port: u16, card: usize) -> Mac {
    Mac([2, 0, 0, 0, port as u8, card as u8])
}

fn search(port: u16, cards: usize) -> Search {
    let cards: Vec<Mac> = (0..cards).map(|card| mac(port, card)).collect();
    Search::new(port, &cards, US, (key(), &[port as u8; 16]), PATIENCE)
}

/// All ways from a port with so many cards to another.
fn ways(cards: usize, to: u16, theirs: usize) -> Vec<Way> {
    let from = |card| (0..theirs).map(move |other| Way { card, to: mac(to, other) });
    (0..cards).flat_map(from).collect()
}

/// Ports 1 and 2, and what is between them.
struct Net {
    ports: [Search; 2],
    /// On which segment each card of each is.
    segments: [Vec<usize>; 2],
    /// What part of 100 gets lost, by segment.
    loss: Vec<u32>,
    delay: Vec<u64>,
    random: Philox,
    /// Under way, by when it arrives and its number: to whom, and to which card.
    flying: BTreeMap<(u64, u64), (usize, usize, Vec<u8>)>,
    sent: u64,
    tried: u64,
    now: u64,
    told: [Vec<Told>; 2],
    settles: bool,
}

impl Net {
    fn new(segments: [Vec<usize>; 2], loss: Vec<u32>, delay: Vec<u64>, seed: u64) -> Net {
        let ports = [search(1, segments[0].len()), search(2, segments[1].len())];
        let (random, flying, told) = (Philox::new(seed, Rank(0), 0, 0), BTreeMap::new(), Default::default());
        Net { ports, segments, loss, delay, random, flying, sent: 0, tried: 0, now: 0, told, settles: true }
    }

    fn seek(&mut self, who: usize) {
        let cards = [0, 1].map(|port: usize| self.segments[port].len());
        let ways = ways(cards[who], 2 - who as u16, cards[1 - who]);
        self.ports[who].seek(2 - who as u16, &ways, self.now);
        self.pass_on(who);
    }

    fn pass_on(&mut self, who: usize) {
        let mut frame = [0; DATAGRAM_BYTES];
        while let Some((card, bytes)) = self.ports[who].transmit(&mut frame) {
            self.tried += 1;
            let to = datagram::read(&frame[..bytes], &key()).expect("a datagram").to;
            let segment = self.segments[who][card];
            let there = self.segments[1 - who].iter().enumerate();
            let there = there.filter(|(other, on)| **on == segment && mac(2 - who as u16, *other) == to.mac);
            for (other, _) in there.collect::<Vec<_>>() {
                for _ in 0..1 + u32::from(self.random.next_u32().is_multiple_of(10)) {
                    if self.random.next_u32() % 100 < self.loss[segment] {
                        continue;
                    }
                    let jitter =
                        if self.loss[segment] > 0 { u64::from(self.random.next_u32()) % MS } else { 0 };
                    self.sent += 1;
                    let at = (self.now + self.delay[segment] + jitter, self.sent);
                    self.flying.insert(at, (1 - who, other, frame[..bytes].to_vec()));
                }
            }
        }
        while let Some(told) = self.ports[who].told() {
            self.told[who].push(told);
            // The connection that is made then reaches the other, too.
            if matches!(told, Told::Found(..)) && self.settles {
                self.ports[1 - who].settle(1 + who as u16);
            }
        }
    }

    fn run(&mut self, until: u64) {
        loop {
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let timers = self.ports.iter().filter_map(Search::next_time);
            let Some(next) = arrival.into_iter().chain(timers).min().filter(|next| *next <= until) else {
                break;
            };
            assert!(next >= self.now, "nothing is due in the past");
            self.now = next;
            while let Some(((at, number), (who, card, bytes))) = self.flying.pop_first() {
                if at > next {
                    self.flying.insert((at, number), (who, card, bytes));
                    break;
                }
                self.ports[who].hear(card, &bytes, next);
                self.pass_on(who);
            }
            for who in 0..2 {
                self.ports[who].tick(next);
                self.pass_on(who);
            }
        }
        self.now = until;
    }
}

#[test]
fn whoever_asks_the_lower_port_finds_a_way_that_leads_there() {
    let (mut found, mut lost) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Philox::new(seed, Rank(1), 0, 0);
        let mut draw = |below: u32| random.next_u32() % below;
        let mut cards = || (0..1 + draw(4)).map(|_| draw(5) as usize).collect::<Vec<_>>();
        let segments = [cards(), cards()];
        let loss: Vec<u32> = (0..5).map(|_| [0, 0, 30, 60, 100][draw(5) as usize]).collect();
        let delay = (0..5).map(|_| u64::from(draw(1000)) * MS / 1000).collect();
        let (who, both) = (draw(2) as usize, draw(3) == 0);
        let is_common = |loss: &[u32], of: &dyn Fn(u32) -> bool| {
            segments[0].iter().any(|one| segments[1].contains(one) && of(loss[*one]))
        };
        let may_meet = is_common(&loss, &|loss| loss < 100);
        let mut net = Net::new(segments.clone(), loss.clone(), delay, seed);
        net.seek(who);
        if both {
            net.run(u64::from(draw(20)) * MS);
            net.seek(1 - who);
        }
        net.run(3 * PATIENCE);
        assert!(
            net.flying.is_empty() && net.ports.iter().all(|port| port.next_time().is_none()),
            "seed {seed}"
        );
        if !may_meet {
            // Who wanted nothing is told nothing.
            let expected = |port: usize| match both || port == who {
                true => vec![Told::NoAnswer(2 - port as u16)],
                false => Vec::new(),
            };
            assert_eq!(net.told, [expected(0), expected(1)], "seed {seed}");
            lost += 1;
            continue;
        }
        assert_eq!(net.told[1], [], "seed {seed}: the lower port chooses");
        let [Told::Found(2, Way { card, to })] = net.told[0][..] else {
            panic!("seed {seed}: {:?}", net.told[0]);
        };
        let there = (0..segments[1].len()).find(|other| mac(2, *other) == to).expect("a card of the other");
        let (here, there) = (segments[0][card], segments[1][there]);
        assert!(here == there && loss[here] < 100, "seed {seed}: {here} {there}");
        found += 1;
    }
    assert!(found > 5000 && lost > 3000, "{found} {lost}");
}

#[test]
fn the_first_answer_wins_and_of_equals_the_first_name() {
    let chosen = |delay: [u64; 3]| {
        let mut net = Net::new([vec![0, 1, 2], vec![1, 0, 2]], vec![0; 3], delay.to_vec(), 1);
        net.seek(0);
        net.run(PATIENCE);
        net.told[0].clone()
    };
    assert_eq!(chosen([5, 5, 5]), [Told::Found(2, Way { card: 0, to: mac(2, 1) })]);
    assert_eq!(chosen([5, 4, 5]), [Told::Found(2, Way { card: 1, to: mac(2, 0) })]);
    assert_eq!(chosen([5, 4, 3]), [Told::Found(2, Way { card: 2, to: mac(2, 2) })]);
}

#[test]
fn who_is_over_says_so_at_once() {
    for who in 0..2 {
        let mut net = Net::new([vec![0], vec![0, 1]], vec![0; 2], vec![MS; 2], 1);
        net.ports[1 - who].refuse(1 + who as u16);
        net.seek(who);
        net.run(3 * MS);
        assert_eq!(net.told[who], [Told::PortUnreachable(2 - who as u16)]);
        assert!(!net.ports[who].is_seeking(2 - who as u16));
        // It stays so.
        net.seek(who);
        net.run(2 * PATIENCE);
        assert_eq!((net.told[who].len(), net.told[1 - who].len()), (1, 0));
    }
}

#[test]
fn asking_again_and_again_changes_nothing() {
    let mut net = Net::new([vec![0, 1], vec![1, 2]], vec![100; 3], vec![MS; 3], 1);
    for ms in 0..20_000 {
        net.seek(0);
        net.run(ms * MS);
    }
    assert_eq!(net.told[0], [Told::NoAnswer(2)]);
    assert!(net.tried < 4 * 40, "{} probes", net.tried);
}

#[test]
fn who_did_not_run_gives_nobody_up() {
    let mut net = Net::new([vec![0], vec![1]], vec![0; 2], vec![MS; 2], 1);
    net.seek(0);
    net.ports[0].was_away(PATIENCE);
    net.run(PATIENCE + PATIENCE / 2);
    assert_eq!(net.told[0], []);
    net.run(3 * PATIENCE);
    assert_eq!(net.told[0], [Told::NoAnswer(2)]);
}

#[test]
fn nothing_is_believed_that_was_not_asked_for() {
    let mut me = search(1, 2);
    me.seek(2, &ways(2, 2, 1), 0);
    let mut frame = [0; DATAGRAM_BYTES];
    let mut numbers = Vec::new();
    while let Some((_, bytes)) = me.transmit(&mut frame) {
        numbers.push(datagram::read(&frame[..bytes], &key()).expect("a datagram").number);
    }
    assert!(numbers.len() == 2 && numbers[0] == numbers[1], "{numbers:?}");
    let mut hear = |card: usize, key: &Key, change: &dyn Fn(&mut Datagram)| {
        let (to, from) = (Address { mac: mac(1, card), port: 1 }, Address { mac: mac(2, 0), port: 2 });
        let mut one = Datagram { kind: Kind::Answer, to, from, communicator: US, number: numbers[0] };
        change(&mut one);
        let bytes = datagram::write(&mut frame, key, &one);
        me.hear(card, &frame[..bytes], 1);
        me.told()
    };
    let other_key = Key::new(&[8; 16]);
    assert_eq!(hear(0, &other_key, &|_| {}), None);
    for change in [
        &(|one: &mut Datagram| one.number += 1) as &dyn Fn(&mut Datagram),
        &|one| one.communicator.0 += 1,
        &|one| one.to.port = 3,
        &|one| one.to.mac = mac(1, 1),
        &|one| one.from.mac = mac(2, 1),
        &|one| one.from.port = 3,
        &|one| one.from.port = 1,
        &|one| (one.kind, one.number) = (Kind::PortUnreachable, one.number + 1),
    ] {
        assert_eq!(hear(0, &key(), change), None);
    }
    assert_eq!(hear(1, &key(), &|_| {}), Some(Told::Found(2, Way { card: 1, to: mac(2, 0) })));
    // The second answer is one too many.
    assert_eq!(hear(0, &key(), &|_| {}), None);
}
