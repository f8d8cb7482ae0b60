//! How far something is that takes long, and how long it will take.

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is done sooner shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar for so many steps, on the standard error where that is a terminal.
pub fn bar(steps: u64) -> ProgressBar {
    ProgressBar::new(steps).with_style(style("{bar:40} {pos}/{len} {msg}"))
}

/// What a bar shows, in indicatif's words; behind it how long it took and will take.
///
/// # Panics
/// `what` is not in those words.
pub fn style(what: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(&format!("{what} {{elapsed}}{{left}}"));
    let left = |state: &ProgressState, out: &mut dyn Write| {
        if let Some(left) = left(state.elapsed(), state.pos(), state.len().unwrap_or(0)) {
            // Nobody reads a bar that cannot be written.
            let _ = write!(out, ", about {:#} left", HumanDuration(left));
        }
    };
    style.expect("a description that indicatif knows").with_key("left", left)
}

/// As if the steps that are left took as long as those before them; indicatif's own estimate follows the last ones only, which says
/// "0s" for long where several end at once.
fn left(elapsed: Duration, done: u64, steps: u64) -> Option<Duration> {
    let left = steps.checked_sub(done).filter(|_| done > 0)?;
    Some(elapsed.mul_f64(left as f64 / done as f64))
}

/// Says what is done and for how long already, of what does not know how far it is: a line on the standard error where that is a
/// terminal, after a while, until this is dropped.
#[must_use]
pub struct Waiting {
    line: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Of what is done from now on, as `reading FILE`.
pub fn waiting(what: impl Into<String>) -> Waiting {
    if !std::io::stderr().is_terminal() {
        return Waiting { line: None };
    }
    let (what, (until, ended)) = (what.into(), channel::<()>());
    let show = move || {
        let is_on = || ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        if is_on() {
            let line = ProgressBar::new_spinner().with_style(style("{msg}")).with_message(what);
            let line = line.with_elapsed(PATIENCE);
            line.tick();
            while is_on() {
                line.tick();
            }
            line.finish_and_clear();
        }
    };
    // Without a thread there is no line, and nothing else is amiss.
    let thread = std::thread::Builder::new().name("castell-line".to_owned()).spawn(show);
    Waiting { line: thread.ok().map(|thread| (until, thread)) }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((until, thread)) = self.line.take() {
            drop(until);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_is_done() {
        let minute = Duration::from_secs(60);
        assert_eq!(left(minute, 0, 10), None);
        assert_eq!(left(minute, 5, 10), Some(minute));
        assert_eq!(left(minute, 10, 10), Some(Duration::ZERO));
        assert_eq!(left(minute, 11, 10), None, "more steps than were promised");
    }
}
