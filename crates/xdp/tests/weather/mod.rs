//! Between hosts: gives frames from one to the other, and loses, doubles and delays some, drawn from a seed.

use castell_host::epoll;
use castell_host::packet::{Frames, PacketSocket};
use castell_xdp::Interface;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Which part of the frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub lost: f64,
    pub doubled: f64,
    /// Stays behind up to eight that come later.
    pub delayed: f64,
}

/// Goes on until it is dropped.
pub struct Relay {
    ends: Arc<AtomicBool>,
    pub lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Between `v0`, `v1`, … here, behind which the hosts with these interfaces are.
    pub fn start(interfaces: &[Interface], weather: Weather, seed: u64) -> Relay {
        let every = Frames::Only { ethertype: 0x88B5, pairs: &[] };
        let ports: Vec<([u8; 6], PacketSocket)> = interfaces
            .iter()
            .enumerate()
            .map(|(at, interface)| {
                (interface.mac().0, PacketSocket::open(&format!("v{at}"), every).expect("a port"))
            })
            .collect();
        let (ends, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends_there, lost_there) = (Arc::clone(&ends), Arc::clone(&lost));
        let thread = std::thread::spawn(move || relay(&ports, weather, seed, &ends_there, &lost_there));
        Relay { ends, lost, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn relay(
    ports: &[([u8; 6], PacketSocket)],
    weather: Weather,
    seed: u64,
    ends: &AtomicBool,
    lost: &AtomicU64,
) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let watcher = epoll::epoll().expect("an epoll");
    ports.iter().for_each(|(_, socket)| epoll::watch(&watcher, socket, 0, false).expect("it can be watched"));
    let mut delayed: VecDeque<(u32, Vec<u8>)> = VecDeque::new();
    let mut frame = vec![0; 2048];
    let give = |frame: &[u8]| {
        if let Some((_, socket)) = ports.iter().find(|(mac, _)| frame[..6] == *mac) {
            let _ = socket.send(frame);
        }
    };
    while !ends.load(Ordering::Relaxed) {
        epoll::wait(&watcher, &mut Vec::new(), Some(Duration::from_millis(1)));
        for (_, socket) in ports {
            while let Ok(bytes) = socket.receive(&mut frame) {
                let frame = &frame[..bytes];
                if random.random_bool(weather.lost) {
                    lost.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                if random.random_bool(weather.delayed) {
                    delayed.push_back((random.random_range(1..=8), frame.to_vec()));
                    continue;
                }
                give(frame);
                if random.random_bool(weather.doubled) {
                    give(frame);
                }
                delayed.iter_mut().for_each(|(left, _)| *left = left.saturating_sub(1));
                while delayed.front().is_some_and(|(left, _)| *left == 0) {
                    give(&delayed.pop_front().expect("it is there").1);
                }
            }
        }
    }
}
