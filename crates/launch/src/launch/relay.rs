//! The ranks' output, with the rank in front of each line.
//!
//! Each rank writes into pipes of its own. A thread reads them and passes on whole lines only, so that lines of
//! different ranks never mix; what a rank wrote last without an end of line gets one. The thread may wait for whoever
//! reads our output without holding up the supervisor.

use castell_base::Rank;
use castell_host::{HostError, descriptor};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Longer lines are broken: a bound on what is held for one rank.
const LINE_BYTES_MAX: usize = 1 << 20;
const READ_BYTES: usize = 64 * 1024;

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

/// The pipes, before the thread runs.
#[derive(Default)]
pub(super) struct Relay {
    sources: Vec<Source>,
}

struct Source {
    pipe: File,
    stream: Stream,
    lines: Lines,
}

impl Relay {
    /// Makes a pipe for a rank; gives the end that the rank writes into.
    pub(super) fn add(&mut self, rank: Rank, stream: Stream) -> Result<OwnedFd, HostError> {
        let (ours, theirs) = descriptor::pipe()?;
        self.sources.push(Source { pipe: File::from(ours), stream, lines: Lines::new(format!("[{rank}] ")) });
        Ok(theirs)
    }

    /// Starts the thread.
    pub(super) fn start(self) -> Result<Running, HostError> {
        let failed =
            |source| HostError::System { what: "start the thread for prefixed output".into(), source };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let work = move || relay(self.sources, &theirs, &mut io::stdout(), &mut io::stderr());
        std::thread::Builder::new().name("castell-output".into()).spawn(work).map_err(failed)?;
        Ok(Running { thread: ours })
    }
}

/// The thread at work.
pub(super) struct Running {
    /// Its other end is closed when the thread is done.
    thread: UnixStream,
}

impl Running {
    /// Tells the thread that nobody writes any more: it passes on what is there, then ends.
    pub(super) fn close(&self) {
        let _ = self.thread.shutdown(std::net::Shutdown::Write);
    }

    /// Readable once the thread is done.
    pub(super) fn done(&self) -> BorrowedFd<'_> {
        self.thread.as_fd()
    }
}

fn relay(mut sources: Vec<Source>, control: &UnixStream, output: &mut dyn Write, error: &mut dyn Write) {
    let mut is_closing = false;
    while !sources.is_empty() {
        let mut waiting: Vec<BorrowedFd<'_>> = sources.iter().map(|source| source.pipe.as_fd()).collect();
        if !is_closing {
            waiting.push(control.as_fd());
        }
        let Ok(mut ready) = descriptor::wait_readable(&waiting, if is_closing { 0 } else { -1 }) else {
            return;
        };
        if !is_closing && ready.pop() == Some(true) {
            is_closing = true;
        } else if is_closing && !ready.contains(&true) {
            // What is still open is held by somebody who does not write: the last pieces of lines are all there is.
            for source in &mut sources {
                let target: &mut dyn Write = if source.stream == Stream::Output { output } else { error };
                let _ = source.lines.end(target);
            }
            return;
        }
        let mut ready = ready.into_iter();
        sources.retain_mut(|source| {
            let target: &mut dyn Write = if source.stream == Stream::Output { output } else { error };
            // A pipe that is dropped tells its rank, at its next write, that nobody reads any more.
            ready.next() != Some(true) || source.pass_on(target).unwrap_or(false)
        });
    }
}

impl Source {
    /// Reads once and passes on the lines that are complete; false at the end.
    fn pass_on(&mut self, target: &mut dyn Write) -> io::Result<bool> {
        let mut buffer = [0; READ_BYTES];
        let count = match self.pipe.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            result => result?,
        };
        if count == 0 {
            self.lines.end(target)?;
            return Ok(false);
        }
        self.lines.take(&buffer[..count], target)?;
        Ok(true)
    }
}

/// Cuts a stream of bytes into lines with a prefix.
struct Lines {
    prefix: String,
    partial: Vec<u8>,
}

impl Lines {
    fn new(prefix: String) -> Lines {
        Lines { prefix, partial: Vec::new() }
    }

    /// Takes in bytes, and writes all lines that are complete, in one piece.
    fn take(&mut self, bytes: &[u8], target: &mut dyn Write) -> io::Result<()> {
        let mut whole = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(piece);
            if self.partial.ends_with(b"\n") || self.partial.len() >= LINE_BYTES_MAX {
                self.move_line(&mut whole);
            }
        }
        if whole.is_empty() {
            return Ok(());
        }
        target.write_all(&whole)?;
        target.flush()
    }

    /// Writes what is left of a line.
    fn end(&mut self, target: &mut dyn Write) -> io::Result<()> {
        if self.partial.is_empty() {
            return Ok(());
        }
        let mut whole = Vec::new();
        self.move_line(&mut whole);
        target.write_all(&whole)?;
        target.flush()
    }

    fn move_line(&mut self, whole: &mut Vec<u8>) {
        whole.extend_from_slice(self.prefix.as_bytes());
        whole.append(&mut self.partial);
        if !whole.ends_with(b"\n") {
            whole.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_whatever_the_pieces() {
        let text = b"one\ntwo\n\nthree";
        for size in 1..text.len() {
            let (mut lines, mut written) = (Lines::new("[7] ".into()), Vec::new());
            for piece in text.chunks(size) {
                lines.take(piece, &mut written).expect("memory");
            }
            assert!(!String::from_utf8_lossy(&written).contains("three"));
            lines.end(&mut written).expect("memory");
            assert_eq!(written, b"[7] one\n[7] two\n[7] \n[7] three\n");
        }
    }

    #[test]
    fn endless_lines_are_broken() {
        let (mut lines, mut written) = (Lines::new("[0] ".into()), Vec::new());
        for _ in 0..=(LINE_BYTES_MAX / READ_BYTES) {
            lines.take(&[b'x'; READ_BYTES], &mut written).expect("memory");
        }
        assert_eq!(written.len(), LINE_BYTES_MAX + "[0] \n".len());
        assert!(lines.partial.len() <= READ_BYTES);
    }

    #[test]
    fn all_is_passed_on_in_the_end_even_if_a_pipe_stays_open() {
        let mut relay_pipes = Relay::default();
        let mut first = File::from(relay_pipes.add(Rank(0), Stream::Output).expect("a pipe"));
        let mut second = File::from(relay_pipes.add(Rank(1), Stream::Error).expect("a pipe"));
        first.write_all(b"a\nb").expect("write");
        second.write_all(b"c").expect("write");
        drop(second);
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        drop(ours);
        let (mut output, mut error) = (Vec::new(), Vec::new());
        relay(relay_pipes.sources, &theirs, &mut output, &mut error);
        assert_eq!((output.as_slice(), error.as_slice()), (&b"[0] a\n[0] b\n"[..], &b"[1] c\n"[..]));
    }
}
