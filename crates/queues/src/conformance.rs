//! What all four designs promise, checked on each of them with the same code.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};

use castell_base::Rank;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::memory::QueueMemory;
use super::{Consumer, Geometry, Producer, QueueKind};
use castell_shm::queue::{Header, Refused};

/// A queue of each design that is as small as it can be, so that it fills, flips and refuses all the time.
pub(super) fn tiny(ranks: u32) -> impl Iterator<Item = Geometry> {
    QueueKind::ALL.into_iter().map(move |kind| Geometry {
        slots: 16,
        ring_slots: 8,
        ranks_per_node: 3,
        ..Geometry::new(kind, ranks)
    })
}

pub(super) fn memory(geometry: Geometry) -> QueueMemory {
    QueueMemory::create(geometry, 1).expect("shared memory")
}

/// The same as after very many messages: all that counts them stands just below where it begins again.
fn old_memory(geometry: Geometry) -> QueueMemory {
    let memory = memory(geometry);
    memory.grow_old();
    memory
}

/// The payload that belongs to a message: any mix-up of messages or bytes shows.
pub(super) fn payload(source: u32, sequence: u32, bytes: usize) -> Vec<u8> {
    let seed = source.wrapping_mul(0x9E37_79B9) ^ sequence.wrapping_mul(0x85EB_CA6B);
    (0..bytes).map(|i| (seed.rotate_left(i as u32 % 32) as u8) ^ i as u8).collect()
}

pub(super) fn header(source: u32, sequence: u32, bytes: usize) -> Header {
    Header {
        kind: 1 + (sequence % 254) as u8,
        flags: sequence as u8,
        spare: 0,
        bytes: bytes as u32,
        source,
        sequence,
        tag: !sequence,
        run: source ^ 7,
        extra: u64::from(sequence) << 32 | u64::from(source),
    }
}

/// Inserts message `sequence` of `source`.
pub(super) fn insert(end: &mut Producer, source: u32, sequence: u32, bytes: usize) -> Result<(), Refused> {
    end.try_insert(&header(source, sequence, bytes), &payload(source, sequence, bytes))
}

/// Panics unless header and payload are what [`insert`] inserted.
pub(super) fn check(geometry: &Geometry, got: &Header, bytes: &[u8]) {
    let expected = header(got.source, got.sequence, bytes.len());
    assert_eq!(Header { spare: 0, ..*got }, expected, "{geometry:?}");
    assert!(
        bytes == payload(got.source, got.sequence, bytes.len()),
        "{geometry:?}: payload of {got:?} is damaged"
    );
}

/// Lengths that a random message has: mostly short ones.
fn random_bytes(random: &mut impl Rng, bytes_max: usize) -> usize {
    match random.random_range(0..4) {
        0 => 8,
        1 => random.random_range(0..=32),
        _ => random.random_range(0..=bytes_max),
    }
}

pub(super) fn seed() -> u64 {
    let seed = castell_host::clock::now_ns();
    println!("seed {seed}");
    seed
}

#[test]
fn delivers_what_was_inserted_in_order() {
    let mut random = ChaCha8Rng::seed_from_u64(seed());
    for (geometry, make) in
        tiny(4).flat_map(|geometry| [(geometry, memory as fn(_) -> _), (geometry, old_memory)])
    {
        let memory = make(geometry);
        // SAFETY: one producer a rank and one consumer.
        let mut ends: Vec<_> = (0..4).map(|me| unsafe { memory.producer(Rank(me), Rank(0)) }).collect();
        // SAFETY: as above.
        let mut consumer = unsafe { memory.consumer(Rank(0)) };
        let mut model = [const { VecDeque::new() }; 4];
        let mut sequences = [0; 4];
        let (mut refusals, mut delivered) = (0, 0);
        for _ in 0..20_000 {
            if random.random_bool(0.7) {
                let source = random.random_range(0..4);
                let bytes = random_bytes(&mut random, geometry.message_bytes_max());
                match insert(&mut ends[source], source as u32, sequences[source], bytes) {
                    Ok(()) => {
                        model[source].push_back((sequences[source], bytes));
                        sequences[source] += 1;
                        assert!(!consumer.is_empty());
                    }
                    Err(Refused) => refusals += 1,
                }
            } else {
                let limit = random.random_range(0..5);
                let polled = consumer.poll(limit, &mut |got, bytes| {
                    check(&geometry, got, bytes);
                    let expected = model[got.source as usize].pop_front();
                    assert_eq!(expected, Some((got.sequence, bytes.len())), "{geometry:?}");
                    delivered += 1;
                });
                assert!(polled <= limit);
            }
        }
        while consumer.poll(100, &mut |got, _| assert!(model[got.source as usize].pop_front().is_some())) > 0
        {
        }
        assert!(model.iter().all(VecDeque::is_empty), "{geometry:?}: something is lost");
        assert!(consumer.is_empty());
        assert!(
            refusals > 100 && delivered > 1000,
            "{geometry:?}: {refusals} refusals, {delivered} delivered"
        );
    }
}

#[test]
fn takes_the_longest_message_again_and_again() {
    for geometry in QueueKind::ALL.map(|kind| Geometry::new(kind, 2)).into_iter().chain(tiny(2)) {
        let memory = memory(geometry);
        // SAFETY: one producer, one consumer.
        let (mut end, mut consumer) =
            unsafe { (memory.producer(Rank(1), Rank(0)), memory.consumer(Rank(0))) };
        let longest = geometry.message_bytes_max();
        for sequence in 0..50 {
            // An odd length between moves the places around.
            for bytes in [longest, sequence as usize % 100, longest] {
                let bytes = bytes.min(longest);
                while insert(&mut end, 1, sequence, bytes).is_err() {
                    assert!(
                        consumer.poll(9, &mut |got, bytes| check(&geometry, got, bytes)) > 0,
                        "{geometry:?}"
                    );
                }
            }
        }
        while consumer.poll(9, &mut |got, bytes| check(&geometry, got, bytes)) > 0 {}
    }
}

#[test]
fn whoever_fills_half_a_half_at_a_time_is_never_refused_by_a_receiver_that_keeps_up() {
    for geometry in tiny(2).filter(|geometry| matches!(geometry.kind, QueueKind::Scmp | QueueKind::Rlock)) {
        let memory = memory(geometry);
        // SAFETY: one producer, one consumer.
        let (mut end, mut consumer) =
            unsafe { (memory.producer(Rank(1), Rank(0)), memory.consumer(Rank(0))) };
        for burst in 0..1000 {
            let length = burst % (geometry.slots / 2 + 1);
            for message in 0..length {
                insert(&mut end, 1, message, 8).expect("there is room");
            }
            assert_eq!(consumer.poll(100, &mut |_, _| ()), length as usize, "{geometry:?}");
        }
    }
}

#[test]
#[should_panic(expected = "cannot be inserted")]
fn too_long_a_message_is_the_callers_fault() {
    let geometry = Geometry::new(QueueKind::Scmp, 2);
    let memory = memory(geometry);
    // SAFETY: one producer.
    let mut end = unsafe { memory.producer(Rank(1), Rank(0)) };
    let _ = insert(&mut end, 1, 0, geometry.message_bytes_max() + 1);
}

/// Puts each sender's messages in order; finds what is lost, doubled or damaged.
pub(super) struct Inbox {
    geometry: Geometry,
    /// By sender: the next message that is due, and those that came before their turn.
    pub(super) next: Vec<u32>,
    early: Vec<BTreeSet<u32>>,
    out_of_order: u32,
}

impl Inbox {
    pub(super) fn new(geometry: &Geometry) -> Inbox {
        let ranks = geometry.ranks as usize;
        Inbox {
            geometry: *geometry,
            next: vec![0; ranks],
            early: vec![BTreeSet::new(); ranks],
            out_of_order: 0,
        }
    }

    /// Takes what there is; yields if that is nothing.
    pub(super) fn receive(&mut self, consumer: &mut Consumer) {
        if consumer.poll(usize::MAX, &mut |got, bytes| self.take(got, bytes)) == 0 {
            std::thread::yield_now();
        }
        assert!(self.out_of_order == 0 || consumer.overtakes() > 0, "{:?}: out of order", self.geometry);
    }

    pub(super) fn take(&mut self, got: &Header, bytes: &[u8]) {
        check(&self.geometry, got, bytes);
        let (next, early) = (&mut self.next[got.source as usize], &mut self.early[got.source as usize]);
        if got.sequence == *next {
            *next += 1;
            while early.remove(next) {
                *next += 1;
            }
        } else {
            self.out_of_order += 1;
            assert!(got.sequence > *next && early.insert(got.sequence), "{:?}: {got:?} twice", self.geometry);
        }
    }
}

/// Receives until each of `senders` has been heard `messages` times; yields when there is nothing.
pub(super) fn receive_all(geometry: &Geometry, consumer: &mut Consumer, senders: u32, messages: u32) {
    let mut inbox = Inbox::new(geometry);
    while inbox.next[1..=senders as usize].iter().any(|&next| next < messages) {
        inbox.receive(consumer);
    }
    assert_eq!(consumer.poll(1, &mut |_, _| ()), 0);
    assert!(consumer.is_empty());
}

/// Inserts `messages` messages of random lengths; yields when refused.
pub(super) fn send_all(end: &mut Producer, me: u32, bytes_max: usize, messages: u32, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ u64::from(me));
    for sequence in 0..messages {
        let bytes = random_bytes(&mut random, bytes_max);
        while insert(end, me, sequence, bytes).is_err() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn nothing_is_lost_doubled_or_reordered_between_threads() {
    let seed = seed();
    for geometry in tiny(9) {
        let memory = memory(geometry);
        std::thread::scope(|scope| {
            for me in 1..=8 {
                // SAFETY: one producer a rank.
                let mut end = unsafe { memory.producer(Rank(me), Rank(0)) };
                scope.spawn(move || send_all(&mut end, me, geometry.message_bytes_max(), 4000, seed));
            }
            // SAFETY: one consumer.
            let mut consumer = unsafe { memory.consumer(Rank(0)) };
            receive_all(&geometry, &mut consumer, 8, 4000);
        });
    }
}

#[test]
fn a_limit_of_one_is_enough() {
    for geometry in tiny(3) {
        let memory = memory(geometry);
        let received = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for me in 1..=2 {
                // SAFETY: one producer a rank.
                let mut end = unsafe { memory.producer(Rank(me), Rank(0)) };
                scope.spawn(move || send_all(&mut end, me, geometry.message_bytes_max(), 2000, 1));
            }
            // SAFETY: one consumer.
            let mut consumer = unsafe { memory.consumer(Rank(0)) };
            while received.load(Ordering::Relaxed) < 4000 {
                let polled = consumer.poll(1, &mut |_, _| _ = received.fetch_add(1, Ordering::Relaxed));
                assert!(polled <= 1);
                if polled == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }
}
