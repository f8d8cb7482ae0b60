//! The queues between processes, of which some are killed.

use std::time::{Duration, Instant};

use castell_base::Rank;
use castell_host::process::{self, Birth, Ended, Process};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::conformance::{Inbox, header, memory, payload, receive_all, seed, send_all, tiny};
use super::memory::QueueMemory;
use super::{Consumer, Geometry, QueueKind};

/// A process that ends with this test, however that ends.
fn fork(body: impl FnOnce()) -> Process {
    let birth = Birth { parent_death_signal: Some(libc::SIGKILL), ..Birth::default() };
    // SAFETY: glibc keeps its allocator usable in a forked child, and the child takes no other lock.
    let child = unsafe {
        process::fork_with(&birth, || {
            body();
            0
        })
    };
    child.expect("fork")
}

/// A process that inserts messages of random lengths as rank `me` at rank 0.
fn sender(memory: &QueueMemory, me: u32, messages: u32, seed: u64) -> Process {
    fork(|| {
        // SAFETY: one producer a rank.
        let mut end = unsafe { memory.producer(Rank(me), Rank(0)) };
        send_all(&mut end, me, memory.geometry().message_bytes_max(), messages, seed);
    })
}

#[test]
fn nothing_is_lost_doubled_or_reordered_between_processes() {
    let seed = seed();
    for geometry in tiny(9) {
        let memory = memory(geometry);
        let senders: Vec<_> = (1..=8).map(|me| sender(&memory, me, 2000, seed)).collect();
        // SAFETY: one consumer.
        let mut consumer = unsafe { memory.consumer(Rank(0)) };
        receive_all(&geometry, &mut consumer, 8, 2000);
        for sender in senders {
            assert_eq!(sender.wait().expect("wait"), Ended::Exited(0));
        }
    }
}

/// A process that inserts messages of `bytes` bytes, numbered as `sequences` says, with pauses between them.
fn endless(
    memory: &QueueMemory,
    me: u32,
    bytes: usize,
    sequences: impl Iterator<Item = u32>,
    pause: impl Fn(),
) -> Process {
    fork(|| {
        // SAFETY: one producer a rank.
        let mut end = unsafe { memory.producer(Rank(me), Rank(0)) };
        let mut message = (header(me, 0, bytes), payload(me, 0, bytes));
        for sequence in sequences {
            if sequence != message.0.sequence {
                message = (header(me, sequence, bytes), payload(me, sequence, bytes));
            }
            while end.try_insert(&message.0, &message.1).is_err() {
                std::thread::yield_now();
            }
            pause();
        }
    })
}

/// A sender that is there to the end.
fn survivor(memory: &QueueMemory, me: u32) -> Process {
    endless(memory, me, 8, 0.., || std::thread::sleep(Duration::from_micros(20)))
}

/// A sender of one long message again and again: killed anywhere, it is often killed in an insertion.
fn victim(memory: &QueueMemory, me: u32) -> Process {
    endless(memory, me, memory.geometry().message_bytes_max(), std::iter::repeat(0), || ())
}

/// Two senders live; others come, insert for a moment, and are killed wherever they are. After each death the queue must
/// come to rest about it, and go on with the living.
#[test]
fn killed_senders_stop_nobody() {
    const RANKS: u32 = 33;
    let seed = seed();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for kind in QueueKind::ALL {
        let geometry =
            Geometry { slots: 2048, ring_slots: 512, ranks_per_node: 7, ..Geometry::new(kind, RANKS) };
        let memory = memory(geometry);
        // SAFETY: one consumer.
        let mut consumer = unsafe { memory.consumer(Rank(0)) };
        let mut inbox = Inbox::new(&geometry);
        // What victims send is long, and looked at only here and there.
        let receive = |consumer: &mut Consumer, inbox: &mut Inbox| {
            let polled = consumer.poll(64, &mut |got, bytes| match got.source {
                1 | 2 => inbox.take(got, bytes),
                _ => assert_eq!((got.sequence, bytes.len()), (0, geometry.message_bytes_max())),
            });
            if polled == 0 {
                std::thread::yield_now();
            }
        };
        let living = [1, 2].map(|me| survivor(&memory, me));
        let mut unfinished = 0;
        for me in 3..RANKS {
            // The living are late meanwhile, wherever they stopped; the victim has a processor for itself.
            living.iter().for_each(|process| process.signal(libc::SIGSTOP).expect("signal"));
            let process = victim(&memory, me);
            let lifetime = Instant::now() + Duration::from_micros(random.random_range(500..3000));
            while Instant::now() < lifetime {
                receive(&mut consumer, &mut inbox);
            }
            process.signal(libc::SIGKILL).expect("signal");
            // A signal takes its time: a victim that is refused meanwhile would die between insertions.
            while !process.has_ended() {
                receive(&mut consumer, &mut inbox);
            }
            assert_eq!(process.wait().expect("wait"), Ended::Killed(libc::SIGKILL));
            unfinished += u32::from(memory.intents().of(me).read(0) != Ok(None));
            living.iter().for_each(|process| process.signal(libc::SIGCONT).expect("signal"));
            let is_dead = |rank: Rank| rank.0 >= 3 && rank.0 <= me;
            while !consumer.reclaim_dead(&is_dead) {
                receive(&mut consumer, &mut inbox);
            }
            let due = [inbox.next[1] + 20, inbox.next[2] + 20];
            while inbox.next[1] < due[0] || inbox.next[2] < due[1] {
                receive(&mut consumer, &mut inbox);
            }
        }
        println!("{kind}: {unfinished} of {} had announced an insertion when they were killed", RANKS - 3);
        for process in living {
            process.signal(libc::SIGKILL).expect("signal");
            process.wait().expect("wait");
        }
    }
}

#[test]
fn more_senders_than_processors_keep_a_tiny_queue_full() {
    let seed = seed();
    let geometry = Geometry { slots: 4, ring_slots: 4, ..Geometry::new(QueueKind::Scmp, 25) };
    let memory = memory(geometry);
    let senders: Vec<_> = (1..=24).map(|me| sender(&memory, me, 500, seed)).collect();
    // SAFETY: one consumer.
    let mut consumer = unsafe { memory.consumer(Rank(0)) };
    receive_all(&geometry, &mut consumer, 24, 500);
    for sender in senders {
        assert_eq!(sender.wait().expect("wait"), Ended::Exited(0));
    }
}
