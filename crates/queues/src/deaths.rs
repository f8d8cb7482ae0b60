//! Senders that die in the middle of an insertion.

use castell_base::Rank;

use super::conformance::{check, insert, memory, tiny};
use super::memory::QueueMemory;
use super::{Consumer, Geometry, Producer, ProducerEnd, QueueKind};

fn geometry(kind: QueueKind) -> Geometry {
    tiny(6).find(|geometry| geometry.kind == kind).expect("every design is there")
}

fn ends(memory: &QueueMemory) -> (Vec<Producer>, Consumer) {
    // SAFETY: one producer a rank, one consumer.
    unsafe { ((0..6).map(|me| memory.producer(Rank(me), Rank(0))).collect(), memory.consumer(Rank(0))) }
}

/// Reserves slots and dies: before or after it said where.
fn die(end: &mut Producer, bytes: usize, placed: bool) {
    match &mut end.end {
        ProducerEnd::Scmp(end) => end.reserve_and_die(bytes, placed),
        ProducerEnd::Msgq(end) => end.lock_and_die(),
        ProducerEnd::Rlock(end) => end.lock_and_die(),
        ProducerEnd::Smsg(_) => {}
    }
}

fn sources(consumer: &mut Consumer, geometry: &Geometry) -> Vec<u32> {
    let mut sources = Vec::new();
    // Patience first, then around what is late.
    for _ in 0..1000 {
        consumer.poll(100, &mut |got, bytes| {
            check(geometry, got, bytes);
            sources.push(got.source);
        });
    }
    sources
}

#[test]
fn a_late_sender_delays_nobody() {
    for placed in [true, false] {
        let geometry = geometry(QueueKind::Scmp);
        let memory = memory(geometry);
        let (mut ends, mut consumer) = ends(&memory);
        insert(&mut ends[1], 1, 0, 8).expect("there is room");
        die(&mut ends[2], 40, placed);
        insert(&mut ends[3], 3, 0, 8).expect("there is room");
        assert_eq!(sources(&mut consumer, &geometry), [1, 3]);
        assert!(consumer.is_empty());
    }
}

#[test]
fn late_senders_of_different_lengths_are_told_apart_by_their_places() {
    let geometry = geometry(QueueKind::Scmp);
    let memory = memory(geometry);
    let (mut ends, mut consumer) = ends(&memory);
    die(&mut ends[1], 40, true);
    die(&mut ends[2], 100, true);
    insert(&mut ends[3], 3, 0, 8).expect("there is room");
    assert_eq!(sources(&mut consumer, &geometry), [3]);
}

#[test]
fn the_queue_goes_on_after_deaths() {
    for kind in QueueKind::ALL {
        for placed in [true, false] {
            let geometry = geometry(kind);
            let memory = memory(geometry);
            let (mut ends, mut consumer) = ends(&memory);
            for round in 0..100u32 {
                // Ranks 1 and 2 die at ever other places, with different lengths; in msgq, they are of one node with 0.
                if round == 5 {
                    die(&mut ends[1], 40, placed);
                }
                if round == 7 && kind == QueueKind::Scmp {
                    die(&mut ends[2], 100, placed);
                }
                let is_dead = |rank: Rank| round >= 5 && (rank.0 == 1 || round >= 7 && rank.0 == 2);
                let mut arrived = 0;
                while insert(&mut ends[4], 4, round, 8 + round as usize % 90).is_err() {
                    consumer.reclaim_dead(&is_dead);
                    consumer.poll(100, &mut |_, _| arrived += 1);
                }
                for _ in 0..1000 {
                    if arrived > 0 {
                        break;
                    }
                    consumer.reclaim_dead(&is_dead);
                    consumer.poll(100, &mut |got, bytes| {
                        check(&geometry, got, bytes);
                        arrived += 1;
                    });
                }
                assert_eq!(arrived, 1, "{kind}, round {round}, placed {placed}");
            }
            assert!(consumer.reclaim_dead(&|rank| rank.0 == 1 || rank.0 == 2), "{kind}, placed {placed}");
            let mut again = 0;
            insert(&mut ends[0], 0, 0, 8).expect("a sender of the dead ranks' node is not locked out");
            consumer.poll(100, &mut |_, _| again += 1);
            assert_eq!(again, 1);
        }
    }
}

#[test]
fn a_dead_senders_end_mark_is_not_waited_for() {
    let geometry = geometry(QueueKind::Scmp);
    let memory = memory(geometry);
    let (mut ends, mut consumer) = ends(&memory);
    for sequence in 0..15 {
        insert(&mut ends[1], 1, sequence, 8).expect("there is room");
    }
    // Reserves across the end and never marks it: the half ends at slot 15 and nobody says so.
    die(&mut ends[2], 40, false);
    assert!(insert(&mut ends[1], 1, 15, 8).is_err());
    assert_eq!(sources(&mut consumer, &geometry).len(), 15);
    let dead = |rank: Rank| rank.0 == 2;
    for _ in 0..200 {
        consumer.poll(100, &mut |_, _| ());
        consumer.reclaim_dead(&dead);
    }
    for sequence in 15..200 {
        insert(&mut ends[1], 1, sequence, 8).expect("the other half is open");
        assert_eq!(consumer.poll(100, &mut |got, _| assert_eq!(got.sequence, sequence)), 1);
    }
    assert!(consumer.reclaim_dead(&dead));
}

#[test]
fn a_late_end_mark_keeps_its_half_closed() {
    // The half whose end mark is late must not be opened: the mark would fall among its new messages.
    let geometry = geometry(QueueKind::Scmp);
    let memory = memory(geometry);
    let (mut ends, mut consumer) = ends(&memory);
    for sequence in 0..15 {
        insert(&mut ends[1], 1, sequence, 8).expect("there is room");
    }
    die(&mut ends[2], 40, false);
    let mut inserted = 15;
    let mut received = 0;
    for _ in 0..10_000 {
        inserted += u32::from(insert(&mut ends[1], 1, inserted, 8).is_ok());
        received += consumer.poll(100, &mut |_, _| ()) as u32;
    }
    assert_eq!((inserted, received), (15 + 16, 15 + 16), "the other half once, then nothing");
}

#[test]
fn a_death_in_the_old_half_is_settled_there() {
    let geometry = Geometry { slots: 64, ..geometry(QueueKind::Scmp) };
    let memory = memory(geometry);
    let (mut ends, mut consumer) = ends(&memory);
    let (ends, mortal) = ends.split_at_mut(5);
    let mut sequence = 0;
    let mut fill = |consumer: &mut Consumer, count: u32| {
        for _ in 0..count {
            if insert(&mut ends[1], 1, sequence, 8).is_ok() {
                sequence += 1;
            } else if consumer.poll(0, &mut |_, _| ()) == 0 {
                break;
            }
        }
        sequence
    };
    fill(&mut consumer, 40);
    die(&mut mortal[0], 40, false);
    let inserted = fill(&mut consumer, 40);
    // Deep in its backlog, the consumer finds that senders are refused, and flips before it comes to the hole.
    assert_eq!(consumer.poll(100, &mut |_, _| ()), 40);
    let is_dead = |rank: Rank| rank.0 == 5;
    let mut received = 40;
    for _ in 0..10 {
        consumer.reclaim_dead(&is_dead);
        received += consumer.poll(100, &mut |_, _| ()) as u32;
    }
    assert_eq!(received, inserted);
    assert!(consumer.reclaim_dead(&is_dead));
}
