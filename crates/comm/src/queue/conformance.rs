//! What all four designs promise, checked on each of them with the same code.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use castell_base::Rank;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::memory::QueueMemory;
use super::{Consumer, Geometry, Header, Producer, QueueKind, Refused};

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
pub(super) fn random_bytes(random: &mut impl Rng, geometry: &Geometry) -> usize {
    match random.random_range(0..4) {
        0 => 8,
        1 => random.random_range(0..=32),
        _ => random.random_range(0..=geometry.message_bytes_max()),
    }
}

fn seed() -> u64 {
    let seed = castell_host::clock::now_ns();
    println!("seed {seed}");
    seed
}

#[test]
fn delivers_what_was_inserted_in_order() {
    let mut random = ChaCha8Rng::seed_from_u64(seed());
    for geometry in tiny(4) {
        let memory = memory(geometry);
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
                let bytes = random_bytes(&mut random, &geometry);
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
#[should_panic(expected = "cannot be inserted")]
fn too_long_a_message_is_the_callers_fault() {
    let geometry = Geometry::new(QueueKind::Scmp, 2);
    let memory = memory(geometry);
    // SAFETY: one producer.
    let mut end = unsafe { memory.producer(Rank(1), Rank(0)) };
    let _ = insert(&mut end, 1, 0, geometry.message_bytes_max() + 1);
}

/// Receives until each of `senders` has been heard `messages` times, in order; yields when there is nothing.
pub(super) fn receive_all(geometry: &Geometry, consumer: &mut Consumer, senders: u32, messages: u32) {
    let mut next = vec![0; senders as usize + 1];
    let mut left = senders * messages;
    while left > 0 {
        let polled = consumer.poll(usize::MAX, &mut |got, bytes| {
            check(geometry, got, bytes);
            assert_eq!(got.sequence, next[got.source as usize], "{geometry:?}: order of rank {}", got.source);
            next[got.source as usize] += 1;
            left -= 1;
        });
        if polled == 0 {
            std::thread::yield_now();
        }
    }
    assert_eq!(consumer.poll(1, &mut |_, _| ()), 0);
    assert!(consumer.is_empty());
}

/// Inserts `messages` messages of random lengths; yields when refused.
pub(super) fn send_all(geometry: &Geometry, end: &mut Producer, me: u32, messages: u32, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ u64::from(me));
    for sequence in 0..messages {
        let bytes = random_bytes(&mut random, geometry);
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
                scope.spawn(move || send_all(&geometry, &mut end, me, 4000, seed));
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
                scope.spawn(move || send_all(&geometry, &mut end, me, 2000, 1));
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
