//! What README.md says of SCMP, step by step: when the consumer flips, looks for what is late, goes around it, and empties slots.

use super::area::Area;
use super::geometry::Geometry;
use super::header::{Header, SLOT_WORDS, slots_for};
use super::intent::{Intent, Intents};
use super::scmp::{Producer, RESERVE, grow_old, mark, slot_word, split};
use super::scmp_consumer::Consumer;
use super::{Refused, SLOT_BYTES};
use castell_base::Rank;
use castell_base::sync::Ordering;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line {
    _words: [u64; SLOT_WORDS],
}

/// The receive queue of rank 0 and a record for each rank.
struct Queue {
    area: Vec<Line>,
    intents: Vec<Line>,
    geometry: Geometry,
}

impl Queue {
    fn new(ranks: u32, slots: u32) -> Queue {
        let geometry = Geometry { ranks, slots };
        let line = Line { _words: [0; SLOT_WORDS] };
        let area = vec![line; geometry.bytes_per_rank() / SLOT_BYTES];
        Queue { area, intents: vec![line; ranks as usize], geometry }
    }

    fn intents(&self) -> Intents {
        // SAFETY: a record fits a line, and they outlive the test's ends.
        unsafe { Intents::new(self.intents.as_ptr().cast::<Intent>(), SLOT_BYTES, self.geometry.ranks) }
    }

    fn area(&self) -> Area {
        // SAFETY: zeroed, aligned, and alive as long as the test's ends.
        unsafe { Area::new(self.area.as_ptr().cast_mut().cast()) }
    }

    fn producer(&self, me: u32) -> Producer {
        let area = self.area.as_ptr().cast_mut().cast();
        // SAFETY: as above; one a rank.
        unsafe { Producer::attach(area, &self.geometry, self.intents(), Rank(me), Rank(0)) }
    }

    fn consumer(&self) -> Consumer {
        let area = self.area.as_ptr().cast_mut().cast();
        // SAFETY: as above; one in the test.
        unsafe { Consumer::attach(area, &self.geometry, self.intents(), Rank(0)) }
    }

    /// Generation and offset of the next reservation.
    fn reserve(&self) -> (u32, u64) {
        split(self.area().word(RESERVE).load(Ordering::Relaxed))
    }

    /// Slots of a half whose first word is not empty.
    fn filled(&self, half: u32) -> Vec<u32> {
        let area = self.area();
        let word = |slot: &u32| area.word(slot_word(self.geometry.slots, half, *slot));
        let is_filled = |slot: &u32| word(slot).load(Ordering::Relaxed) != 0;
        (0..self.geometry.slots).filter(is_filled).collect()
    }

    /// What a rank that reserved there and was late does at last.
    fn finish(&self, rank: u32, (generation, offset): (u32, u32), message: u32, bytes: usize) {
        let word = slot_word(self.geometry.slots, generation, offset);
        self.area().publish(word, &header(rank, message, bytes), mark(offset), &vec![7; bytes]);
        self.intents().of(rank).withdraw();
    }
}

fn header(source: u32, sequence: u32, bytes: usize) -> Header {
    Header { kind: 1, source, sequence, bytes: bytes as u32, ..Header::default() }
}

fn insert(end: &mut Producer, rank: u32, sequence: u32, bytes: usize) -> Result<(), Refused> {
    end.try_insert(&header(rank, sequence, bytes), &vec![7; bytes])
}

/// Inserts messages of one slot.
fn fill(end: &mut Producer, rank: u32, sequences: std::ops::Range<u32>) {
    sequences.for_each(|sequence| insert(end, rank, sequence, 8).expect("there is room"));
}

/// Source and number of each message that a poll delivers.
fn poll(consumer: &mut Consumer, limit: usize) -> Vec<(u32, u32)> {
    let mut got = Vec::new();
    let count = consumer.poll(limit, &mut |header, payload| {
        assert!(payload.len() == header.bytes as usize && payload.iter().all(|&byte| byte == 7));
        got.push((header.source, header.sequence));
    });
    assert_eq!(count, got.len());
    got
}

/// The number of the first poll that delivers something, counted from 1, and what.
fn first_poll(consumer: &mut Consumer, polls_max: u32) -> Option<(u32, Vec<(u32, u32)>)> {
    (1..=polls_max).find_map(|number| Some((number, poll(consumer, 100))).filter(|(_, got)| !got.is_empty()))
}

#[test]
fn sizes_are_what_the_geometry_says() {
    for (slots, bytes, message_bytes) in [
        (4, 128 + 2 * 4 * 64, 32),
        (16, 128 + 2 * 16 * 64, 4 * 64 - 32),
        (2048, 128 + 2 * 2048 * 64, 512 * 64 - 32),
        (65536, 128 + 2 * 65536 * 64, 16384 * 64 - 32),
    ] {
        let geometry = Geometry { ranks: 3, slots };
        assert_eq!((geometry.bytes_per_rank(), geometry.message_bytes_max()), (bytes, message_bytes));
        assert_eq!(slots_for(message_bytes) as u32, slots / 4, "a quarter of a half");
    }
    for slots in [0, 1, 2, 3, 5, 6, 1000, 65535, 1 << 17] {
        let fine = std::panic::catch_unwind(|| Geometry { ranks: 3, slots }.bytes_per_rank());
        assert!(fine.is_err(), "{slots} slots");
    }
}

#[test]
fn only_messages_with_a_kind_and_a_size_that_fit_are_inserted() {
    for (kind, bytes, is_fine) in
        [(1, 224, true), (254, 0, true), (0, 8, false), (255, 8, false), (1, 225, false)]
    {
        let inserted = std::panic::catch_unwind(|| {
            let queue = Queue::new(2, 16);
            queue.producer(1).try_insert(&Header { kind, ..header(1, 0, bytes) }, &vec![7; bytes]).is_ok()
        });
        assert_eq!(inserted.is_ok(), is_fine, "kind {kind}, {bytes} bytes");
    }
}

#[test]
fn the_consumer_flips_when_it_is_up_to_date_and_more_than_half_through() {
    for (messages, generation) in [(7, 0), (8, 0), (9, 1), (16, 1)] {
        let queue = Queue::new(2, 16);
        let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
        fill(&mut end, 1, 0..messages);
        assert_eq!(poll(&mut consumer, messages as usize - 1).len(), messages as usize - 1);
        assert_eq!(queue.reserve(), (0, messages.into()), "not up to date");
        assert_eq!(poll(&mut consumer, 100), [(1, messages - 1)]);
        let offset = if generation == 0 { messages } else { 0 };
        assert_eq!(queue.reserve(), (generation, offset.into()), "after {messages} messages");
        assert!(consumer.is_empty());
    }
}

#[test]
fn the_consumer_flips_in_its_backlog_when_producers_are_refused() {
    for (refused, delivered, flips) in
        [(true, 31, false), (true, 32, true), (true, 33, true), (false, 32, false), (false, 63, false)]
    {
        let queue = Queue::new(2, 64);
        let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
        fill(&mut end, 1, 0..64);
        if refused {
            assert_eq!(insert(&mut end, 1, 64, 8), Err(Refused));
            // It looks before it reserves again.
            assert_eq!(insert(&mut end, 1, 64, 8), Err(Refused));
            assert_eq!(queue.reserve(), (0, 65));
        }
        assert_eq!(poll(&mut consumer, delivered).len(), delivered);
        assert_eq!(queue.reserve().0, u32::from(flips), "{refused} {delivered}");
        if flips {
            // What comes now is read behind what is left.
            insert(&mut end, 1, 64, 8).expect("the other half is open");
            let rest: Vec<(u32, u32)> = (delivered as u32..65).map(|sequence| (1, sequence)).collect();
            assert_eq!(poll(&mut consumer, 100), rest);
        }
    }
}

/// A message that does not fit what is left of a half is refused, and marks its end where it would have begun.
#[test]
fn the_end_of_a_half_is_marked_where_a_message_did_not_fit() {
    let queue = Queue::new(3, 16);
    let (mut end, mut other, mut consumer) = (queue.producer(1), queue.producer(2), queue.consumer());
    fill(&mut end, 1, 0..14);
    // Three slots where two are left; then one, which would have fitted.
    assert_eq!(insert(&mut end, 1, 14, 97), Err(Refused));
    assert_eq!(insert(&mut other, 2, 0, 8), Err(Refused));
    assert_eq!((queue.reserve(), queue.filled(0).len()), ((0, 18), 15));
    assert_eq!(poll(&mut consumer, 100).len(), 14);
    assert_eq!(queue.reserve(), (1, 0));
    insert(&mut other, 2, 0, 8).expect("the other half is open");
    insert(&mut end, 1, 14, 97).expect("the other half is open");
    assert_eq!(poll(&mut consumer, 100), [(2, 0), (1, 14)]);
    // Exactly what is left fits: of 16 slots, 4 are taken.
    fill(&mut end, 1, 15..27);
    assert_eq!((queue.reserve(), poll(&mut consumer, 100).len()), ((1, 16), 12));
}

/// Of what was read, 8 slots are emptied in each poll that delivers nothing, four times what is delivered in others.
#[test]
fn slots_are_emptied_when_there_is_time() {
    for (delivered, first) in [(0, 8), (1, 4), (2, 8), (3, 12)] {
        let queue = Queue::new(2, 32);
        let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
        fill(&mut end, 1, 0..20);
        // It flips; nothing of what it has just read is emptied.
        assert_eq!(poll(&mut consumer, 100).len(), 20);
        assert_eq!((queue.reserve(), queue.filled(0)), ((1, 0), (0..20).collect()));
        fill(&mut end, 1, 0..delivered);
        assert_eq!(poll(&mut consumer, 100).len(), delivered as usize);
        assert_eq!(queue.filled(0), (first..20).collect::<Vec<_>>(), "{delivered} delivered");
        assert_eq!(queue.filled(1), (0..delivered).collect::<Vec<_>>());
        assert_eq!(poll(&mut consumer, 100), []);
        assert_eq!(queue.filled(0), (first + 8..20).collect::<Vec<_>>(), "{delivered} delivered");
        assert_eq!(queue.filled(1), []);
    }
    // What a flip needs is emptied then, at the latest.
    let queue = Queue::new(2, 32);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    for sequence in 0..200 {
        insert(&mut end, 1, sequence, 8).expect("it keeps up");
        assert_eq!(poll(&mut consumer, 100), [(1, sequence)]);
        assert!(queue.reserve().1 < 32);
    }
}

/// Behind a reservation that is late the consumer goes on after 64 polls, and at once if it was asked before going to sleep.
#[test]
fn late_reservations_are_gone_around_after_some_polls() {
    for (flips, is_old, placed) in [
        (0, false, true),
        (0, false, false),
        (1, false, true),
        (2, false, true),
        (1, true, true),
        (2, true, true),
        (3, true, true),
    ] {
        let queue = Queue::new(4, 16);
        if is_old {
            // Two flips below where generations begin again.
            grow_old(queue.area());
            assert_eq!(queue.reserve(), ((1 << 24) - 2, 0));
        }
        let (mut end, mut late, mut consumer) = (queue.producer(1), queue.producer(2), queue.consumer());
        for _ in 0..flips {
            fill(&mut end, 1, 0..9);
            assert_eq!(poll(&mut consumer, 100).len(), 9);
        }
        let generation = if is_old { ((1 << 24) - 2 + flips) % (1 << 24) } else { flips };
        assert_eq!(queue.reserve(), (generation, 0));
        late.reserve_and_die(40, placed);
        insert(&mut end, 1, 0, 8).expect("there is room");
        assert_eq!(first_poll(&mut consumer, 100), Some((65, vec![(1, 0)])), "generation {generation}");
        // Something came: patience begins again.
        queue.finish(2, (generation, 0), 9, 40);
        assert_eq!(poll(&mut consumer, 100), [(2, 9)]);
        late.reserve_and_die(8, placed);
        insert(&mut end, 1, 1, 8).expect("there is room");
        assert!(!consumer.is_empty(), "something is late");
        assert_eq!(poll(&mut consumer, 100), []);
        assert_eq!(poll(&mut consumer, 100), [(1, 1)]);
        assert!(consumer.is_empty(), "all is gone around");
    }
}

/// Of two that are late, the one that says where it is not here is not asked how long this one is.
#[test]
fn who_is_late_elsewhere_does_not_count() {
    let queue = Queue::new(4, 16);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    queue.producer(2).reserve_and_die(40, false);
    queue.producer(3).reserve_and_die(100, true);
    insert(&mut end, 1, 0, 8).expect("there is room");
    for _ in 0..2 {
        assert!(!consumer.is_empty());
        assert_eq!(poll(&mut consumer, 100), []);
    }
    assert_eq!(poll(&mut consumer, 100), [(1, 0)]);
}

/// What a sender finishes late comes before what it sends next, also within one poll.
#[test]
fn a_late_message_comes_before_its_senders_next_one() {
    let queue = Queue::new(3, 16);
    let (mut end, mut late, mut consumer) = (queue.producer(1), queue.producer(2), queue.consumer());
    late.reserve_and_die(40, true);
    fill(&mut end, 1, 0..1);
    assert!(!consumer.is_empty());
    assert_eq!(poll(&mut consumer, 100), []);
    let mut got = Vec::new();
    consumer.poll(100, &mut |header, _| {
        got.push((header.source, header.sequence));
        if header.source == 1 {
            queue.finish(2, (0, 0), 0, 40);
            fill(&mut late, 2, 1..2);
        }
    });
    assert_eq!(got, [(1, 0), (2, 0), (2, 1)]);
}

/// A poll that flips in its backlog reads the old half to its end, then the new one.
#[test]
fn a_poll_goes_on_behind_its_flip() {
    let queue = Queue::new(2, 64);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    fill(&mut end, 1, 0..64);
    assert_eq!(insert(&mut end, 1, 64, 8), Err(Refused));
    let mut got = Vec::new();
    consumer.poll(100, &mut |header, _| {
        got.push(header.sequence);
        if header.sequence == 40 {
            fill(&mut end, 1, 64..66);
        }
    });
    assert_eq!(got, (0..66).collect::<Vec<_>>());
}

/// Marks tell slots apart, and a marked header from an empty word.
#[test]
fn every_slot_has_a_mark_of_its_own() {
    let marks: std::collections::HashSet<u16> = (0..65536).map(mark).collect();
    assert_eq!(marks.len(), 65536);
    assert!(mark(0) != 0 && mark(1) != 1);
}

/// While it is not known how long a late reservation is, the consumer looks again after 64, 128, 256 … 4096, 8192, 12288 polls.
#[test]
fn looks_at_what_is_late_become_rare() {
    for (polls, look) in [
        (63, 64),
        (64, 128),
        (127, 128),
        (128, 256),
        (1023, 1024),
        (1024, 2048),
        (4096, 8192),
        (8191, 8192),
        (8192, 12288),
        (12288, 16384),
    ] {
        let queue = Queue::new(4, 16);
        let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
        queue.producer(2).reserve_and_die(40, false);
        queue.producer(3).reserve_and_die(100, false);
        insert(&mut end, 1, 0, 8).expect("there is room");
        assert_eq!(first_poll(&mut consumer, polls), None);
        // One of the two says where it is: the other one's length is known, too.
        queue.intents().of(2).place(0, 0);
        queue.intents().of(3).place(0, 2);
        let next = first_poll(&mut consumer, 20_000).map(|(number, got)| (number + polls, got));
        // One look for the first, and one for the second.
        let (second, got) = next.expect("it is delivered");
        assert_eq!(got, [(1, 0)]);
        let following = |look: u32| (2 * look).min(look + 4096);
        assert_eq!(second, following(look) + 1, "withdrawn after {polls}");
    }
}

/// 64 looks in vain, and it no longer keeps the consumer from sleeping.
#[test]
fn what_is_late_for_long_does_not_keep_the_consumer_awake() {
    let queue = Queue::new(4, 16);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    assert!(consumer.is_empty());
    queue.producer(2).reserve_and_die(40, false);
    queue.producer(3).reserve_and_die(100, false);
    for look in 0..64 {
        assert!(!consumer.is_empty(), "look {look}");
        assert_eq!(poll(&mut consumer, 100), []);
    }
    assert!(consumer.is_empty());
    // Until something is delivered.
    queue.finish(2, (0, 0), 4, 40);
    assert!(!consumer.is_empty());
    assert_eq!(poll(&mut consumer, 100), [(2, 4)]);
    insert(&mut end, 1, 0, 8).expect("there is room");
    assert!(!consumer.is_empty());
    assert_eq!(poll(&mut consumer, 100), []);
    assert_eq!(poll(&mut consumer, 100), [(1, 0)]);
}

/// 16 late reservations of a half are gone around, and not the next one.
#[test]
fn sixteen_late_reservations_are_gone_around() {
    let queue = Queue::new(20, 64);
    let mut consumer = queue.consumer();
    let mut late: Vec<Producer> = (2..19).map(|me| queue.producer(me)).collect();
    late.iter_mut().for_each(|end| end.reserve_and_die(8, true));
    let mut end = queue.producer(1);
    insert(&mut end, 1, 0, 8).expect("there is room");
    for _ in 0..40 {
        consumer.is_empty();
        assert_eq!(poll(&mut consumer, 100), []);
    }
    // When one of them is finished, there is room for the last, and the message behind it comes.
    queue.finish(5, (0, 3), 2, 8);
    assert_eq!(poll(&mut consumer, 100), [(5, 2)]);
    consumer.is_empty();
    assert_eq!(poll(&mut consumer, 100), []);
    assert_eq!(poll(&mut consumer, 100), [(1, 0)]);
    // Late ones come before what was sent behind them, no more of them than asked for.
    for (rank, offset) in [(2, 0), (3, 1), (18, 16)] {
        queue.finish(rank, (0, offset), 7, 8);
    }
    insert(&mut end, 1, 1, 8).expect("there is room");
    assert_eq!(poll(&mut consumer, 0), []);
    assert_eq!(poll(&mut consumer, 1), [(2, 7)]);
    assert_eq!(poll(&mut consumer, 2), [(3, 7), (18, 7)]);
    assert_eq!(poll(&mut consumer, 2), [(1, 1)]);
    // A hole keeps its slots from being emptied with the others; it was emptied by itself.
    assert!(consumer.is_empty());
}

/// A half with a late reservation that has become the old one: its messages come before the new one's, around the reservation.
#[test]
fn late_reservations_of_an_old_half_are_gone_around() {
    for placed in [true, false] {
        let queue = Queue::new(4, 16);
        let (mut end, mut late, mut consumer) = (queue.producer(1), queue.producer(2), queue.consumer());
        fill(&mut end, 1, 0..9);
        late.reserve_and_die(40, placed);
        fill(&mut end, 1, 9..11);
        assert_eq!(poll(&mut consumer, 100).len(), 9);
        assert_eq!(queue.reserve(), (1, 0), "it flips at the late one");
        fill(&mut end, 1, 11..12);
        let (number, got) = first_poll(&mut consumer, 1000).expect("it goes on");
        assert_eq!(got, [(1, 9), (1, 10), (1, 11)], "placed: {placed}");
        assert_eq!((number, consumer.overtakes()), (65, 0));
        // The half stays closed until the hole is filled.
        fill(&mut end, 1, 12..27);
        assert_eq!(poll(&mut consumer, 100).len(), 15);
        assert_eq!(insert(&mut end, 1, 27, 8), Err(Refused));
        queue.finish(2, (0, 9), 5, 40);
        assert_eq!(poll(&mut consumer, 100), [(2, 5)]);
        insert(&mut end, 1, 27, 8).expect("the old half is free");
        assert_eq!(poll(&mut consumer, 100), [(1, 27)]);
    }
}

/// Where it is not known how long a late one is, the new half's messages overtake the old one's after 256 polls.
#[test]
fn what_cannot_be_gone_around_is_overtaken() {
    let queue = Queue::new(4, 16);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    fill(&mut end, 1, 0..9);
    queue.producer(2).reserve_and_die(40, false);
    queue.producer(3).reserve_and_die(100, false);
    fill(&mut end, 1, 9..10);
    assert_eq!(poll(&mut consumer, 100).len(), 9);
    fill(&mut end, 1, 10..12);
    assert_eq!(
        (first_poll(&mut consumer, 1000), consumer.overtakes()),
        (Some((257, vec![(1, 10), (1, 11)])), 1)
    );
    // Then it is patient again.
    fill(&mut end, 1, 12..13);
    assert_eq!((first_poll(&mut consumer, 1000), consumer.overtakes()), (Some((257, vec![(1, 12)])), 2));
    // It is asked before sleep, too, and goes around once the places are known.
    queue.intents().of(2).place(0, 9);
    queue.intents().of(3).place(0, 11);
    for _ in 0..2 {
        assert!(!consumer.is_empty());
        assert_eq!(poll(&mut consumer, 100), []);
    }
    assert_eq!(poll(&mut consumer, 100), [(1, 9)]);
}

/// Which of two lengths a dead rank's reservation had is seen from what stands behind it.
#[test]
fn deaths_of_different_lengths_are_told_by_what_is_behind() {
    for (lengths, behind) in [([40, 100], true), ([100, 40], true), ([40, 100], false)] {
        let queue = Queue::new(4, 16);
        let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
        fill(&mut end, 1, 0..3);
        queue.producer(2).reserve_and_die(lengths[0], false);
        queue.producer(3).reserve_and_die(lengths[1], false);
        if behind {
            fill(&mut end, 1, 3..5);
        }
        assert_eq!(poll(&mut consumer, 100).len(), 3);
        let is_dead = |rank: Rank| rank.0 >= 2;
        let mut got = Vec::new();
        let mut settled = false;
        for _ in 0..10 {
            settled |= consumer.reclaim_dead(&is_dead);
            got.extend(poll(&mut consumer, 100));
        }
        assert!(settled && consumer.reclaim_dead(&is_dead), "{lengths:?} {behind}");
        let expected: Vec<(u32, u32)> = if behind { vec![(1, 3), (1, 4)] } else { vec![] };
        assert_eq!(got, expected, "{lengths:?} {behind}");
        // Nothing of the dead is left: no record, and the queue goes on from one half to the other.
        assert_eq!([2, 3].map(|rank| queue.intents().of(rank).read(0)), [Ok(None), Ok(None)]);
        for sequence in 5..100 {
            insert(&mut end, 1, sequence, 8).expect("it goes on");
            assert_eq!(poll(&mut consumer, 100), [(1, sequence)], "{lengths:?} {behind}");
        }
    }
}

/// Behind the dead there may be messages of one slot, at any place: none is passed over, whatever lengths the dead had.
#[test]
fn no_message_behind_the_dead_is_passed_over() {
    for (lengths, between) in [
        ([40, 100], [2, 0]),
        ([100, 40], [2, 0]),
        ([100, 40], [0, 1]),
        ([40, 100], [1, 3]),
        ([200, 40], [1, 2]),
        ([40, 40], [0, 2]),
    ] {
        let queue = Queue::new(4, 32);
        let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
        let mut sent = 0;
        // Which of them died first is not told by their ranks.
        for (rank, bytes, count) in [(3, lengths[0], between[0]), (2, lengths[1], between[1])] {
            queue.producer(rank).reserve_and_die(bytes, false);
            fill(&mut end, 1, sent..sent + count);
            sent += count;
        }
        let is_dead = |rank: Rank| rank.0 >= 2;
        let (mut got, mut settled) = (Vec::new(), false);
        for _ in 0..40 {
            settled |= consumer.reclaim_dead(&is_dead);
            got.extend(poll(&mut consumer, 100));
        }
        fill(&mut end, 1, sent..sent + 2);
        got.extend(poll(&mut consumer, 100));
        let expected: Vec<(u32, u32)> = (0..sent + 2).map(|sequence| (1, sequence)).collect();
        assert_eq!((got, settled), (expected, true), "{lengths:?} {between:?}");
        assert!(consumer.is_empty());
    }
}

/// It is settled once the consumer is past what there was when it heard of the death, whatever has come since.
#[test]
fn a_death_is_settled_though_messages_keep_coming() {
    let queue = Queue::new(3, 32);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    queue.producer(2).reserve_and_die(40, true);
    fill(&mut end, 1, 0..2);
    let is_dead = |rank: Rank| rank.0 == 2;
    let mut settled = consumer.reclaim_dead(&is_dead);
    for sequence in 2..8 {
        fill(&mut end, 1, sequence..sequence + 1);
        assert_eq!(poll(&mut consumer, 1).len(), 1);
        settled |= consumer.reclaim_dead(&is_dead);
    }
    assert!(settled, "there was always something to read");
}

/// Only what the dead left is settled: a living rank that is late keeps its hole, and who names another queue is none of this one's.
#[test]
fn the_living_are_left_alone() {
    let queue = Queue::new(5, 16);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    queue.producer(2).reserve_and_die(40, true);
    queue.producer(3).reserve_and_die(40, true);
    queue.intents().of(4).announce(1, 2);
    fill(&mut end, 1, 0..1);
    let is_dead = |rank: Rank| rank.0 >= 3;
    assert!(!consumer.reclaim_dead(&is_dead), "the consumer has not come there yet");
    let mut got = Vec::new();
    for _ in 0..10 {
        got.extend(poll(&mut consumer, 100));
        consumer.is_empty();
        consumer.reclaim_dead(&is_dead);
    }
    assert_eq!(got, [(1, 0)]);
    // The living one's hole is open: the point behind which nothing is the dead one's is not passed.
    assert!(!consumer.reclaim_dead(&is_dead));
    queue.finish(2, (0, 0), 6, 40);
    assert_eq!(poll(&mut consumer, 100), [(2, 6)]);
    assert!(consumer.reclaim_dead(&is_dead));
    assert_eq!(queue.intents().of(3).read(0), Ok(None));
    assert_ne!(queue.intents().of(4).read(1), Ok(None), "it names another queue");
    // A dead rank that published before it died is heard.
    queue.producer(3).reserve_and_die(8, true);
    let (generation, offset) = queue.reserve();
    let word = slot_word(16, generation, offset as u32 - 1);
    queue.area().publish(word, &header(3, 8, 8), mark(offset as u32 - 1), &[7; 8]);
    assert_eq!(poll(&mut consumer, 100), [(3, 8)]);
    assert!(consumer.reclaim_dead(&is_dead));
}

#[test]
#[should_panic(expected = "the receive queue of rank 0 is damaged at slot 2")]
fn what_somebody_else_wrote_is_not_taken_for_a_message() {
    let queue = Queue::new(2, 16);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    fill(&mut end, 1, 0..2);
    queue.area().publish(slot_word(16, 0, 2), &header(1, 0, 8), mark(3), &[7; 8]);
    poll(&mut consumer, 100);
}

#[test]
#[should_panic(expected = "the receive queue of rank 0 is damaged at slot 15")]
fn a_message_that_reaches_beyond_its_half_is_damage() {
    let queue = Queue::new(2, 16);
    let (mut end, mut consumer) = (queue.producer(1), queue.consumer());
    fill(&mut end, 1, 0..15);
    queue.area().publish(slot_word(16, 0, 15), &header(1, 0, 40), mark(15), &[7; 40]);
    poll(&mut consumer, 100);
}
