//! What goes through, in virtual time: many senders and one receiver, lossy wires, readers that stop.

mod segment;

use castell_esp::{Communicator, Endpoint, Handle, Settings, What, frame};
use segment::{GIGABIT, MS, SECOND, Segment, US, Weather, Wires, address};

const COMMUNICATOR: Communicator = Communicator(1);

/// One host sends to another for as long as there is room, and what comes is read at once.
struct Flood {
    segment: Segment,
    receiver: usize,
    /// By host that sends.
    senders: Vec<(usize, Handle)>,
    /// By handle at the receiver: bytes that were read since the last look.
    read: Vec<(Handle, usize, u64)>,
}

fn fill(endpoint: &mut Endpoint, handle: Handle, now: u64) {
    while endpoint.write(handle, &[7; 16 * 1024], now).expect("it is open") == 16 * 1024 {}
}

impl Flood {
    fn new(senders: usize, wires: Wires, weather: Weather, seed: u64) -> Flood {
        let mut segment = Segment::new(senders + 1, seed, wires, weather, &Settings::default());
        let now = segment.now;
        segment.at(0).open(COMMUNICATOR, now);
        let connect = |host| (host, segment.at(host).connect(address(0), COMMUNICATOR, now).expect("room"));
        let senders = (1..=senders).map(connect).collect();
        let mut flood = Flood { segment, receiver: 0, senders, read: Vec::new() };
        for (host, handle) in flood.senders.clone() {
            fill(flood.segment.at(host), handle, now);
        }
        flood
    }

    fn run(&mut self, for_ns: u64) {
        let until = self.segment.now + for_ns;
        while self.segment.step(until) {
            let now = self.segment.now;
            while let Some(event) = self.segment.at(self.receiver).event() {
                match event.what {
                    What::Accepted { from, .. } => {
                        self.read.push((event.connection, usize::from(from.mac.0[5]), 0));
                    }
                    What::Readable => {
                        let endpoint = self.segment.at(self.receiver);
                        let bytes = endpoint.peek(event.connection).iter().map(|part| part.len()).sum();
                        endpoint.consume(event.connection, bytes, now);
                        let read = self.read.iter_mut().find(|(handle, ..)| *handle == event.connection);
                        read.expect("it was accepted").2 += bytes as u64;
                    }
                    what => panic!("{what:?} at the receiver"),
                }
            }
            for (host, handle) in self.senders.clone() {
                while let Some(event) = self.segment.at(host).event() {
                    match event.what {
                        What::Room => fill(self.segment.at(host), handle, now),
                        What::Connected => {}
                        what => panic!("{what:?} at host {host}"),
                    }
                }
            }
        }
    }

    /// Bytes read from each sender in this time.
    fn measure(&mut self, for_ns: u64) -> Vec<u64> {
        self.read.iter_mut().for_each(|(.., bytes)| *bytes = 0);
        self.run(for_ns);
        self.read.iter().map(|(.., bytes)| *bytes).collect()
    }
}

/// Which part of what the receiver's link could carry.
fn goodput(bytes: &[u64], in_ns: u64) -> f64 {
    let settings = Settings::default();
    let full = settings.payload_bytes_max() as f64 / settings.frame_bytes_max() as f64;
    bytes.iter().sum::<u64>() as f64 * GIGABIT as f64 / (in_ns as f64 * full)
}

#[test]
fn seven_senders_fill_one_receiver_fairly_through_a_short_queue() {
    for (seed, queue_frames) in [(1, 8), (2, 16), (3, 32), (4, 128)] {
        let wires = Wires { queue_frames, ..Wires::GIGABIT };
        let mut flood = Flood::new(7, wires, Weather::default(), seed);
        flood.run(50 * MS);
        let before = flood.segment.counts;
        let bytes = flood.measure(500 * MS);
        let part = goodput(&bytes, 500 * MS);
        let (least, most) = (bytes.iter().min().expect("seven"), bytes.iter().max().expect("seven"));
        let overflowed = flood.segment.counts.overflowed - before.overflowed;
        let frames = flood.segment.counts.frames - before.frames;
        println!(
            "queue of {queue_frames}: goodput {part:.3}, {bytes:?}, {overflowed} of {frames} frames overflowed"
        );
        assert_eq!(bytes.len(), 7);
        assert!(part >= 0.8, "goodput {part:.3} with a queue of {queue_frames} frames");
        assert!(*most as f64 <= 1.2 * *least as f64, "{bytes:?} with a queue of {queue_frames} frames");
    }
}

#[test]
fn one_frame_lost_of_a_hundred_keeps_most_of_the_goodput() {
    let part_with = |lost| {
        let mut flood = Flood::new(1, Wires::GIGABIT, Weather { lost, ..Weather::default() }, 9);
        flood.run(20 * MS);
        let bytes = flood.measure(500 * MS);
        goodput(&bytes, 500 * MS)
    };
    let parts = [0, 10, 50, 100, 300].map(part_with);
    println!("goodput with 0, 1, 5, 10, 30 % lost: {parts:.3?}");
    assert!(parts[0] >= 0.9, "{parts:?}");
    assert!(parts[1] >= 0.7 * parts[0], "{parts:?}");
    assert!(parts[2..].iter().all(|part| *part > 0.0), "{parts:?}");
}

/// While data is held back, frames about the state still pass: a connection is made and closed within a few round trips.
#[test]
fn state_passes_while_data_is_held() {
    let wires = Wires { queue_frames: 16, ..Wires::GIGABIT };
    let mut flood = Flood::new(7, wires, Weather::default(), 5);
    flood.run(50 * MS);
    let now = flood.segment.now;
    let other = Communicator(2);
    flood.segment.at(1).open(other, now);
    let handle = flood.segment.at(2).connect(address(1), other, now).expect("room");
    flood.segment.at(2).close(handle, now);
    // Hosts 1 and 2 have their links full of data for host 0.
    let frames = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = std::rc::Rc::clone(&frames);
    flood.segment.watch = Some(Box::new(move |bytes| {
        let is_other = frame::read(bytes, &segment::key()).is_ok_and(|(head, _)| head.communicator == other);
        seen.set(seen.get() + u32::from(is_other));
        true
    }));
    let until = now + 5 * MS;
    let mut is_finished = false;
    while !is_finished && flood.segment.step(until) {
        while let Some(event) = flood.segment.at(1).event() {
            is_finished |= event.what == What::Finished;
        }
    }
    assert!(is_finished, "connected and closed within 5 ms, in {} frames", frames.get());
    assert!(flood.segment.now - now < 2 * MS, "it took {} us", (flood.segment.now - now) / US);
}

/// Who does not read stops the sender, whose frames then don't fill the segment; reading starts it again, also if that word is lost.
#[test]
fn a_full_buffer_stops_the_stream_and_reading_starts_it_again() {
    for lost in [0, 200] {
        let settings = Settings::default();
        let weather = Weather { lost, ..Weather::default() };
        let mut segment = Segment::new(2, 3, Wires::GIGABIT, weather, &settings);
        let now = segment.now;
        segment.at(0).open(COMMUNICATOR, now);
        let sender = segment.at(1).connect(address(0), COMMUNICATOR, now).expect("room");
        let (mut written, mut read, mut receiver) = (0, 0, None);
        let total = 4 * settings.receive_bytes;
        for round in 0..40 {
            let until = segment.now + SECOND;
            let before = segment.counts.frames;
            loop {
                let now = segment.now;
                while written < total {
                    let taken = segment.at(1).write(sender, &vec![5; total - written], now).expect("open");
                    written += taken;
                    if taken == 0 {
                        break;
                    }
                }
                while let Some(event) = segment.at(0).event() {
                    if matches!(event.what, What::Accepted { .. }) {
                        receiver = Some(event.connection);
                    }
                }
                if !segment.step(until) {
                    break;
                }
            }
            let receiver = receiver.expect("it was accepted");
            let frames = segment.counts.frames - before;
            let there: usize = segment.at(0).peek(receiver).iter().map(|part| part.len()).sum();
            assert!(there <= settings.receive_bytes, "{there} bytes are kept in round {round}");
            if there == 0 {
                break;
            }
            // Only questions and answers while nobody reads.
            let data = (there / settings.payload_bytes_max()) as u64;
            assert!(frames <= 4 * data + 200, "{frames} frames for {there} bytes in round {round}");
            let now = segment.now;
            segment.at(0).consume(receiver, there, now);
            read += there;
        }
        assert_eq!(read, total, "with {lost} of 1000 lost");
    }
}
