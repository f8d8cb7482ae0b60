//! Loom models: small scenes of which every interleaving (up to two preemptions) is played through.
//!
//! Under loom the consumer's patience is one poll, so looks at late reservations happen everywhere. Run with
//! `RUSTFLAGS="--cfg loom" cargo test --release -p castell-queues --lib models`.

use std::sync::Arc;

use castell_base::Rank;
use loom::thread;

use super::{Consumer, Geometry, Producer, ProducerEnd, QueueKind};
use castell_shm::queue::area::Word;
use castell_shm::queue::{Header, Intent, Intents};

/// A receiver's memory and the intents, in loom's words.
struct Memory {
    words: Vec<Word>,
    intents: Vec<Intent>,
    geometry: Geometry,
}

impl Memory {
    fn new(kind: QueueKind, slots: u32) -> Arc<Memory> {
        let geometry = Geometry { slots, ring_slots: 4, ranks_per_node: 4, ..Geometry::new(kind, 3) };
        let words = (0..geometry.bytes_per_rank() / 8).map(|_| Word::default()).collect();
        let intents = (0..3).map(|_| Intent::new()).collect();
        Arc::new(Memory { words, intents, geometry })
    }

    fn intents(&self) -> Intents {
        // SAFETY: three records, alive as long as the memory.
        unsafe { Intents::new(self.intents.as_ptr(), size_of::<Intent>(), 3) }
    }

    fn base(&self) -> *mut u8 {
        self.words.as_ptr().cast_mut().cast()
    }

    fn producer(&self, me: u32) -> Producer {
        // SAFETY: each model keeps the memory alive and makes one producer a rank.
        unsafe { Producer::attach(self.base(), &self.geometry, self.intents(), Rank(me), Rank(0)) }
    }

    fn consumer(&self) -> Consumer {
        // SAFETY: as above, one consumer.
        unsafe { Consumer::attach(self.base(), &self.geometry, self.intents(), Rank(0)) }
    }
}

fn explore(scene: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.or(Some(2));
    model.max_branches = 100_000;
    model.check(scene);
}

fn message(source: u32, sequence: u32, bytes: u32) -> (Header, Vec<u8>) {
    let header = Header { kind: 1, bytes, source, sequence, extra: 99, ..Header::default() };
    (header, vec![source as u8 * 16 + sequence as u8; bytes as usize])
}

fn insert(end: &mut Producer, source: u32, sequence: u32, bytes: u32) {
    let (header, payload) = message(source, sequence, bytes);
    while end.try_insert(&header, &payload).is_err() {
        thread::yield_now();
    }
}

/// Polls until `expected[rank]` messages of each rank have come, each whole and in its sender's order.
fn receive(consumer: &mut Consumer, mut next: [u32; 3], expected: [u32; 3]) {
    while next != expected {
        let polled = consumer.poll(8, &mut |got, payload| {
            let (header, bytes) = message(got.source, next[got.source as usize], got.bytes);
            assert_eq!(Header { spare: 0, ..*got }, header);
            assert_eq!(payload, bytes);
            next[got.source as usize] += 1;
        });
        if polled == 0 {
            thread::yield_now();
        }
    }
    assert_eq!(consumer.poll(1, &mut |_, _| ()), 0);
    assert!(consumer.is_empty());
}

/// Two senders at once; the receiver is a third thread.
fn two_senders(kind: QueueKind, each: u32) {
    explore(move || {
        let memory = Memory::new(kind, 4);
        let mut first = memory.producer(1);
        let mut second = memory.producer(2);
        let mut consumer = memory.consumer();
        let threads = [
            thread::spawn(move || (0..each).for_each(|sequence| insert(&mut first, 1, sequence, 8))),
            thread::spawn(move || insert(&mut second, 2, 0, 8)),
        ];
        receive(&mut consumer, [0, 0, 0], [0, each, 1]);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

/// Two senders at once, of which one is the receiver afterwards: locks make too many interleavings for three threads.
fn sender_and_receiver(kind: QueueKind) {
    explore(move || {
        let memory = Memory::new(kind, 4);
        let mut first = memory.producer(1);
        let mut second = memory.producer(2);
        let mut consumer = memory.consumer();
        let sender = thread::spawn(move || insert(&mut first, 1, 0, 8));
        insert(&mut second, 2, 0, 8);
        receive(&mut consumer, [0, 0, 0], [0, 1, 1]);
        sender.join().expect("no panic");
    });
}

#[test]
fn scmp_two_senders() {
    two_senders(QueueKind::Scmp, 2);
}

#[test]
fn smsg_two_senders() {
    two_senders(QueueKind::Smsg, 1);
}

#[test]
fn msgq_sender_and_receiver() {
    sender_and_receiver(QueueKind::Msgq);
}

#[test]
fn rlock_sender_and_receiver() {
    sender_and_receiver(QueueKind::Rlock);
}

/// Brings a queue of `slots` slots to where the next reservation gets offset `offset`, everything delivered.
fn advance(end: &mut Producer, consumer: &mut Consumer, offset: u32) {
    for sequence in 0..offset {
        insert(end, 1, sequence, 8);
        assert_eq!(consumer.poll(1, &mut |_, _| ()), 1);
    }
}

#[test]
fn scmp_flips_while_senders_insert() {
    explore(|| {
        let memory = Memory::new(QueueKind::Scmp, 4);
        let (mut first, mut second) = (memory.producer(1), memory.producer(2));
        let mut consumer = memory.consumer();
        advance(&mut first, &mut consumer, 3);
        // One slot is left and two messages come.
        let threads = [
            thread::spawn(move || insert(&mut first, 1, 3, 8)),
            thread::spawn(move || insert(&mut second, 2, 0, 8)),
        ];
        receive(&mut consumer, [0, 3, 0], [0, 4, 1]);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

#[test]
fn scmp_marks_the_end_where_a_long_message_does_not_fit() {
    explore(|| {
        let memory = Memory::new(QueueKind::Scmp, 8);
        let (mut first, mut second) = (memory.producer(1), memory.producer(2));
        let mut consumer = memory.consumer();
        advance(&mut first, &mut consumer, 6);
        // Two slots are left: a message of two and one of one.
        let threads = [
            thread::spawn(move || insert(&mut first, 1, 6, 40)),
            thread::spawn(move || insert(&mut second, 2, 0, 8)),
        ];
        receive(&mut consumer, [0, 6, 0], [0, 7, 1]);
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

/// A queue that is full: the sender gets slots back that were read and emptied meanwhile.
fn full(kind: QueueKind, before: u32) {
    explore(move || {
        let memory = Memory::new(kind, 4);
        let mut first = memory.producer(1);
        let mut consumer = memory.consumer();
        for sequence in 0..before {
            // Four slots take four messages; the rest are taken out in one go, so that most is emptied later.
            if sequence.is_multiple_of(4) && sequence > 0 {
                consumer.poll(8, &mut |_, _| ());
            }
            insert(&mut first, 1, sequence, 8);
        }
        let sender = thread::spawn(move || insert(&mut first, 1, before, 8));
        receive(&mut consumer, [0, (before - 1) / 4 * 4, 0], [0, before + 1, 0]);
        sender.join().expect("no panic");
    });
}

#[test]
fn scmp_full() {
    full(QueueKind::Scmp, 4);
    full(QueueKind::Scmp, 8);
}

#[test]
fn smsg_full() {
    full(QueueKind::Smsg, 4);
}

#[test]
fn msgq_full() {
    full(QueueKind::Msgq, 4);
}

#[test]
fn rlock_full() {
    full(QueueKind::Rlock, 4);
    full(QueueKind::Rlock, 8);
}

#[test]
fn scmp_goes_on_around_a_dead_sender() {
    explore(|| {
        let memory = Memory::new(QueueKind::Scmp, 4);
        let (mut first, mut second) = (memory.producer(1), memory.producer(2));
        let mut consumer = memory.consumer();
        let ProducerEnd::Scmp(end) = &mut second.end else { panic!("the kind is scmp") };
        end.reserve_and_die(8, false);
        let sender = thread::spawn(move || (0..2).for_each(|sequence| insert(&mut first, 1, sequence, 8)));
        let mut received = 0;
        while received < 2 {
            consumer.reclaim_dead(&|rank| rank.0 == 2);
            let polled = consumer.poll(8, &mut |got, _| {
                assert_eq!((got.source, got.sequence), (1, received));
                received += 1;
            });
            if polled == 0 {
                thread::yield_now();
            }
        }
        sender.join().expect("no panic");
        assert!(consumer.reclaim_dead(&|rank| rank.0 == 2) || consumer.reclaim_dead(&|rank| rank.0 == 2));
        assert!(consumer.is_empty());
    });
}
