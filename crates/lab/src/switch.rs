//! A switch in place of the kernel's bridge, for what that does not do: it keeps frames back, loses some of them, and writes down all.
//!
//! Frames are handed on as hosts' kernels give them out, with the note about what they have put off, so that a frame may be as long as a
//! TCP segment of 64 KiB.

use crate::LabError;
use crate::naming::{SEGMENTS_MAX, line_of, mac_of};
use castell_base::Rank;
use castell_base::random::Philox;
use castell_host::packet::{Frames, OFFLOAD_BYTES, PacketSocket};
use castell_host::{clock, descriptor};
use rand_core::RngCore;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest frame, with what stands in front.
const FRAME_BYTES_MAX: usize = 128 * 1024;
/// What is kept back at a time; of more the newest is lost, as in any switch.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// Frames of one host that are taken before the others have their turn.
const FRAMES_AT_A_TIME: usize = 64;

/// What happens to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weather {
    /// How long each is kept back.
    pub delay: Duration,
    /// Which part of them gets lost, 0 to 1, on each segment.
    pub loss: [f64; SEGMENTS_MAX],
    /// Of the random numbers.
    pub seed: u64,
}

impl Weather {
    pub(crate) fn is_needed(&self) -> bool {
        !self.delay.is_zero() || self.loses()
    }

    /// Whether any frames get lost on purpose.
    pub fn loses(&self) -> bool {
        self.loss.iter().any(|part| *part > 0.0)
    }
}

/// What was done to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Came from hosts.
    pub frames: u64,
    /// Lost on purpose.
    pub lost: u64,
    /// Lost because there was no room for them.
    pub dropped: u64,
}

#[derive(Default)]
struct Counts {
    frames: AtomicU64,
    lost: AtomicU64,
    dropped: AtomicU64,
}

/// The switch at work, in a thread that lives as long as the process.
pub(crate) struct Running(Arc<Counts>);

impl Running {
    pub(crate) fn counters(&self) -> Counters {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters { frames: count(&self.0.frames), lost: count(&self.0.lost), dropped: count(&self.0.dropped) }
    }
}

/// Starts it between these lines, host and segment of each. `forwards`: there are no bridges that do.
pub(crate) fn start(
    lines: &[(u32, usize)],
    weather: Weather,
    forwards: bool,
    capture: Option<File>,
) -> Result<Running, LabError> {
    let open = |&(host, segment): &(u32, usize)| {
        let socket = PacketSocket::open(&line_of(host, segment), Frames::AllWithOffload)?;
        Ok(Line { socket, segment, mac: mac_of(host, segment) })
    };
    let lines = lines.iter().map(open).collect::<Result<Vec<_>, _>>();
    let lines = lines.map_err(|error| LabError::system("take frames from the hosts' lines", error))?;
    let capture = capture.map(Capture::begin).transpose();
    let capture = capture.map_err(|error| LabError::system("write the capture", error))?;
    let counts = Arc::new(Counts::default());
    let random = Philox::new(weather.seed, Rank(0), 0, 0);
    let switch = Switch {
        lines,
        weather,
        forwards,
        capture,
        counts: Arc::clone(&counts),
        random,
        kept: VecDeque::new(),
        kept_bytes: 0,
    };
    let thread = std::thread::Builder::new().name("castell-switch".into()).spawn(move || switch.work());
    thread.map_err(|error| LabError::system("start the switch", error))?;
    Ok(Running(counts))
}

/// To one interface of a host.
struct Line {
    socket: PacketSocket,
    segment: usize,
    mac: [u8; 6],
}

struct Switch {
    lines: Vec<Line>,
    weather: Weather,
    forwards: bool,
    capture: Option<Capture>,
    counts: Arc<Counts>,
    random: Philox,
    /// Until when, from which line, what.
    kept: VecDeque<(u64, usize, Box<[u8]>)>,
    kept_bytes: usize,
}

impl Switch {
    fn work(mut self) {
        let mut buffer = vec![0; FRAME_BYTES_MAX];
        loop {
            let waiting: Vec<BorrowedFd<'_>> = self.lines.iter().map(|line| line.socket.as_fd()).collect();
            let Ok(ready) = descriptor::wait_readable(&waiting, self.patience_ms()) else { return };
            for line in (0..ready.len()).filter(|line| ready[*line]) {
                for _ in 0..FRAMES_AT_A_TIME {
                    let Ok(bytes) = self.lines[line].socket.receive(&mut buffer) else { break };
                    self.take(line, &buffer[..bytes]);
                }
            }
            self.let_go();
            if let Some(capture) = &mut self.capture {
                capture.flush();
            }
        }
    }

    /// Rounded down: a frame that is nearly due is waited for awake.
    fn patience_ms(&self) -> i32 {
        let Some((due, ..)) = self.kept.front() else { return -1 };
        (due.saturating_sub(clock::now_ns()) / 1_000_000) as i32
    }

    fn take(&mut self, line: usize, frame: &[u8]) {
        self.counts.frames.fetch_add(1, Ordering::Relaxed);
        if let Some(capture) = &mut self.capture {
            capture.write(&frame[OFFLOAD_BYTES.min(frame.len())..]);
        }
        if !self.forwards {
            return;
        }
        let loss = self.weather.loss[self.lines[line].segment];
        if loss > 0.0 && self.random.next_u32() <= (loss * f64::from(u32::MAX)) as u32 {
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        } else if self.weather.delay.is_zero() {
            self.forward(line, frame);
        } else if self.kept_bytes + frame.len() > KEPT_BYTES_MAX {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.kept_bytes += frame.len();
            let due = clock::now_ns() + self.weather.delay.as_nanos() as u64;
            self.kept.push_back((due, line, frame.into()));
        }
    }

    /// Sends what has been kept back long enough.
    fn let_go(&mut self) {
        while self.kept.front().is_some_and(|(due, ..)| *due <= clock::now_ns()) {
            let (_, line, frame) = self.kept.pop_front().expect("it was looked at");
            self.kept_bytes -= frame.len();
            self.forward(line, &frame);
        }
    }

    fn forward(&self, from: usize, frame: &[u8]) {
        let Some(to) = frame.get(OFFLOAD_BYTES..OFFLOAD_BYTES + 6) else { return };
        let is_for_all = to[0] & 1 == 1;
        let segment = self.lines[from].segment;
        let others =
            self.lines.iter().enumerate().filter(|(at, line)| *at != from && line.segment == segment);
        for (_, line) in others {
            let is_meant = is_for_all || to == line.mac;
            if is_meant && line.socket.send(frame).is_err() {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A file of frames, as `tcpdump` writes it.
struct Capture(BufWriter<File>);

impl Capture {
    fn begin(file: File) -> std::io::Result<Capture> {
        let mut file = BufWriter::new(file);
        // Magic for nanoseconds, version 2.4, no time zone, no accuracy, longest frame, Ethernet.
        for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, FRAME_BYTES_MAX as u32, 1] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.flush()?;
        Ok(Capture(file))
    }

    fn write(&mut self, frame: &[u8]) {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let length = frame.len() as u32;
        let words = [since.as_secs() as u32, since.subsec_nanos(), length, length];
        // A full disk ends the capture, not the lab.
        let _ =
            self.0.write_all(&words.map(u32::to_le_bytes).concat()).and_then(|()| self.0.write_all(frame));
    }

    fn flush(&mut self) {
        let _ = self.0.flush();
    }
}
