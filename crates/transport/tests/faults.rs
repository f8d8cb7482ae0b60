//! Faults keep what the wrapped transport promises, happen, and happen again from the same seed.

use castell_base::Rank;
use castell_transport::conformance::{Group, check};
use castell_transport::faults::{Faults, Faulty, Profile};
use castell_transport::{
    Connector, Delivery, Down, Endpoint, Events, Header, Loopback, LoopbackOptions, Refused, Transport,
};

struct FaultyGroup {
    faults: Faults,
    ranks: Vec<Faulty<Loopback>>,
}

impl FaultyGroup {
    fn new(ranks: u32, seed: u64, profile: Profile, options: LoopbackOptions) -> FaultyGroup {
        let faults = Faults::new(seed, profile);
        let inner = Loopback::group(ranks, options);
        let ranks = (0..).map(Rank).zip(inner).map(|(me, inner)| faults.wrap(me, inner)).collect();
        FaultyGroup { faults, ranks }
    }
}

impl Group for FaultyGroup {
    type Transport = Faulty<Loopback>;

    fn transport(&mut self, rank: Rank) -> &mut Faulty<Loopback> {
        &mut self.ranks[rank.index()]
    }

    fn end(&mut self, rank: Rank, why: Down) -> bool {
        match why {
            Down::Died => self.faults.kill(rank, self.ranks.len() as u32),
            Down::Left => self.ranks[rank.index()].inner().end(why),
            Down::PathLost => self.faults.cut(rank, Rank(0)),
        }
        true
    }
}

const UNRELIABLE: Delivery = Delivery { loses: true, duplicates: true, reorders: true };

fn deliveries() -> [Delivery; 5] {
    let best = Delivery::default();
    [
        best,
        Delivery { loses: true, ..best },
        Delivery { duplicates: true, ..best },
        Delivery { reorders: true, ..best },
        UNRELIABLE,
    ]
}

#[test]
fn a_transport_with_faults_keeps_the_rules() {
    for delivery in deliveries() {
        for defers in [false, true] {
            let options = LoopbackOptions {
                delivery,
                defers,
                message_bytes_max: 300,
                stream_bytes: 800,
                ..LoopbackOptions::default()
            };
            for seed in 0..3 {
                check(seed, |ranks| FaultyGroup::new(ranks, seed, Profile::ROUGH, options))
                    .unwrap_or_else(|broken| panic!("{broken}, {delivery:?}, defers: {defers}"));
            }
        }
    }
}

/// What a rank was told, as text.
#[derive(Default)]
struct Log(Vec<String>);

impl Events for Log {
    fn message(&mut self, header: &Header, _payload: &[u8]) {
        self.0.push(format!("{} {}", header.source, header.sequence));
    }

    fn room(&mut self, peer: Rank) {
        self.0.push(format!("room {peer}"));
    }

    fn down(&mut self, peer: Rank, delivered: u32, why: Down) {
        self.0.push(format!("down {peer} {delivered} {why:?}"));
    }
}

/// Two ranks send to a third; what that one was told, and how many messages were taken from whom.
fn scene(seed: u64, profile: Profile, delivery: Delivery) -> (Vec<String>, [u32; 2]) {
    let mut group =
        FaultyGroup::new(3, seed, profile, LoopbackOptions { delivery, ..LoopbackOptions::default() });
    let address = group.ranks[0].address();
    let mut ends =
        [1, 2].map(|from: usize| group.ranks[from].connector().connect(Rank(0), &address).expect("a way"));
    let (mut log, mut taken) = (Log::default(), [0; 2]);
    for _ in 0..200 {
        for (from, end) in ends.iter_mut().enumerate() {
            let header =
                Header { kind: 1, source: from as u32 + 1, sequence: taken[from], ..Header::default() };
            taken[from] += u32::from(end.try_send(&header, &[]) == Ok(()));
        }
        group.ranks[0].poll(8, &mut log);
    }
    for _ in 0..2000 {
        group.ranks[0].poll(8, &mut log);
    }
    (log.0, taken)
}

#[test]
fn the_same_seed_brings_the_same_faults() {
    let profile = Profile { cuts: 150, ..Profile::ROUGH };
    let scenes: Vec<_> = (0..50).map(|seed| scene(seed, profile, UNRELIABLE)).collect();
    for (seed, before) in scenes.iter().enumerate() {
        assert_eq!(*before, scene(seed as u64, profile, UNRELIABLE), "seed {seed}");
    }
    assert!(scenes.windows(2).all(|two| two[0] != two[1]), "seeds differ");
}

#[test]
fn each_kind_of_fault_happens_where_it_may_and_only_there() {
    let never = Profile::default();
    let came = |log: &[String], from: u32| -> Vec<u32> {
        let prefix = format!("{from} ");
        log.iter()
            .filter_map(|line| line.strip_prefix(&prefix))
            .map(|n| n.parse().expect("a number"))
            .collect()
    };
    let in_order = |came: &[u32], taken: u32| came.iter().copied().eq(0..taken);
    for (profile, allowed, is_seen) in [
        (Profile { drops: 10, ..never }, Delivery { loses: true, ..Delivery::default() }, true),
        (Profile { doubles: 10, ..never }, Delivery { duplicates: true, ..Delivery::default() }, true),
        (
            Profile { overtakes: 10, delays: 3, delay_max: 20, ..never },
            Delivery { reorders: true, ..Delivery::default() },
            true,
        ),
        (Profile { delays: 2, delay_max: 20, ..never }, UNRELIABLE, false),
    ] {
        let (log, taken) = scene(5, profile, allowed);
        assert_eq!(!in_order(&came(&log, 1), taken[0]), is_seen, "{profile:?} where it may happen");
        let (log, taken) = scene(5, profile, Delivery::default());
        assert!(in_order(&came(&log, 1), taken[0]), "{profile:?} where it may not happen");
    }
    let (_, taken) = scene(5, Profile { refuses: 4, ..never }, Delivery::default());
    assert!((100..180).contains(&taken[0]), "{taken:?}: a quarter is refused");
    // Between peers nothing has an order: what is late of one is overtaken by the other's.
    let (log, _) = scene(5, Profile { delays: 2, delay_max: 20, ..never }, Delivery::default());
    assert!(log.windows(2).any(|two| two[0].split(' ').next() == two[1].split(' ').next()), "{log:?}");
}

#[test]
fn a_path_that_is_cut_in_a_message_says_how_many_came() {
    let profile = Profile { cuts: 60, delays: 3, delay_max: 30, ..Profile::default() };
    let mut cut = 0;
    for seed in 0..50 {
        let (log, taken) = scene(seed, profile, Delivery::default());
        for from in [1, 2] {
            let came = log.iter().filter(|line| line.starts_with(&format!("{from} "))).count() as u32;
            let ends: Vec<_> = log.iter().filter(|line| line.starts_with(&format!("down {from} "))).collect();
            if came < taken[from as usize - 1] {
                assert_eq!(ends, [&format!("down {from} {came} PathLost")], "seed {seed}");
                assert_eq!(
                    came + 1,
                    taken[from as usize - 1],
                    "the message in which it was cut is lost: seed {seed}"
                );
                cut += 1;
            } else {
                assert!(ends.is_empty(), "seed {seed}: {ends:?}");
            }
        }
    }
    assert!(cut > 50, "{cut} paths were cut");
}

#[test]
fn who_is_dead_does_nothing_any_more() {
    let mut group = FaultyGroup::new(2, 1, Profile::default(), LoopbackOptions::default());
    let addresses = [0, 1].map(|rank: usize| group.ranks[rank].address());
    let mut there = group.ranks[1].connector().connect(Rank(0), &addresses[0]).expect("a way");
    let mut back = group.ranks[0].connector().connect(Rank(1), &addresses[1]).expect("a way");
    let header = Header { kind: 1, ..Header::default() };
    there.try_send(&header, &[]).expect("room");
    group.faults.kill(Rank(1), 2);
    assert_eq!(there.try_send(&header, &[]), Err(Refused::Down));
    assert_eq!(back.try_send(&header, &[]), Err(Refused::Down));
    let (mut living, mut dead) = (Log::default(), Log::default());
    assert_eq!(group.ranks[0].poll(8, &mut living), 2);
    assert_eq!(group.ranks[1].poll(8, &mut dead), 0);
    assert_eq!(living.0, ["1 0", "down 1 1 Died"]);
}
