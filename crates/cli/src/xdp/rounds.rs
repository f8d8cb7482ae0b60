//! Rounds: a run in the kernel, then one in user space, all ranks beginning together.

use super::Shared;
use super::measured::Times;
use super::what::What;
use anyhow::bail;
use castell_comm::Comm;
use castell_xdp::Session;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

pub struct Rounds<'a> {
    pub comm: &'a Comm,
    pub schedule: &'a Shared,
    pub what: &'a What,
    pub runs: u32,
    pub busy: bool,
}

impl Rounds<'_> {
    /// Times of all runs, those that come first to get warm left out. Without a session all is in user space.
    pub fn run(&self, session: Option<&mut Session>) -> anyhow::Result<Times> {
        let ends = AtomicBool::new(false);
        let computing = if self.busy { castell_host::topology::Processors::usable().count() } else { 0 };
        std::thread::scope(|scope| {
            for _ in 0..computing {
                scope.spawn(|| compute(&ends));
            }
            let outcome = self.rounds(session);
            ends.store(true, Ordering::Relaxed);
            outcome
        })
    }

    fn rounds(&self, mut session: Option<&mut Session>) -> anyhow::Result<Times> {
        let warmup = (self.runs / 10).clamp(1, 100);
        let mut times = Times::default();
        for run in 0..warmup + self.runs {
            let counts = run >= warmup;
            if let Some(session) = &mut session {
                self.comm.world().barrier()?;
                self.in_kernel(session, run, counts.then_some(&mut times))?;
            }
            self.comm.world().barrier()?;
            let start = now_ns();
            self.comm.execute_without_addresses(self.schedule)??;
            if counts {
                times.user.push([start, now_ns()]);
            }
        }
        Ok(times)
    }

    fn in_kernel(&self, session: &mut Session, run: u32, times: Option<&mut Times>) -> anyhow::Result<()> {
        let input = self.what.input(self.comm.rank(), run);
        let start = now_ns();
        let started = session.start(&input)?;
        session.wait(started)?;
        let end = now_ns();
        if let Some((at, expected)) = self.what.output(self.comm.world().size(), run) {
            let mut scratch = vec![0; at + expected.len()];
            session.read(started, &mut scratch);
            if scratch[at..] != expected {
                bail!("run {run}: the kernel's result is wrong");
            }
        }
        if let Some(times) = times {
            let stamps = session.stamps(started);
            times.kernel.push([stamps.armed_ns, stamps.completed_ns]);
            times.process.push([start, end]);
        }
        Ok(())
    }
}

/// On the one clock that hosts made of namespaces have in common.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// As a program computes.
fn compute(ends: &AtomicBool) {
    let mut number = 1.5_f64;
    while !ends.load(Ordering::Relaxed) {
        for _ in 0..10_000 {
            number = number.mul_add(0.999_999, 0.25);
        }
        std::hint::black_box(number);
    }
}
