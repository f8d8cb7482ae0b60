//! Requests and answers of the PMI-1 and PMI-2 services: `key=value` words over an inherited descriptor.

use super::handover::duplicate;
use super::membership::BootstrapError;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;

/// No answer is longer: values are limited to far less.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// Digits of the length before a counted message.
const LENGTH_DIGITS: usize = 6;

/// How messages are told apart, and the words in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// PMI-1: a message a line, blanks between words.
    Lines,
    /// PMI-2: six digits of length before each message, a semicolon behind each word.
    Counted,
}

/// A connection to a service.
pub(super) struct Wire {
    protocol: &'static str,
    framing: Framing,
    stream: BufReader<File>,
}

impl Wire {
    /// Opens the service behind a descriptor, which stays open for others.
    pub(super) fn open(
        protocol: &'static str,
        framing: Framing,
        descriptor: i32,
    ) -> Result<Wire, BootstrapError> {
        let request = || format!("PMI_FD={descriptor}");
        let stream = duplicate(descriptor).map_err(|source| BootstrapError::Connection {
            protocol,
            request: request(),
            source,
        })?;
        Ok(Wire { protocol, framing, stream: BufReader::new(File::from(stream)) })
    }

    /// Sends a request, and reads its answer, which has to have that name and no sign of failure.
    pub(super) fn ask(&mut self, request: &str, answer_name: &str) -> Result<Answer, BootstrapError> {
        let answer = self.exchange(self.framing, request)?;
        let is_fine = answer.word("rc").is_none_or(|code| code == "0");
        match answer.word("cmd") == Some(answer_name) && is_fine {
            true => Ok(answer),
            false => Err(self.refuse(request, answer)),
        }
    }

    /// Sends a line and reads a line, whatever the protocol: the greeting settles which one follows.
    pub(super) fn greet(&mut self, greeting: &str) -> Result<Answer, BootstrapError> {
        self.exchange(Framing::Lines, greeting)
    }

    /// An answer that is not what was to be expected.
    pub(super) fn refuse(&self, request: &str, answer: Answer) -> BootstrapError {
        BootstrapError::Protocol { protocol: self.protocol, request: request.into(), answer: answer.text }
    }

    fn exchange(&mut self, framing: Framing, request: &str) -> Result<Answer, BootstrapError> {
        let text = match framing {
            Framing::Lines => self.exchange_lines(request),
            Framing::Counted => self.exchange_counted(request),
        };
        let text = text.map_err(|source| BootstrapError::Connection {
            protocol: self.protocol,
            request: request.into(),
            source,
        })?;
        Ok(Answer { text, framing })
    }

    fn exchange_lines(&mut self, request: &str) -> io::Result<String> {
        send(self.stream.get_ref(), format!("{request}\n").as_bytes())?;
        let mut answer = Vec::new();
        Read::take(&mut self.stream, ANSWER_BYTES_MAX).read_until(b'\n', &mut answer)?;
        if answer.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    fn exchange_counted(&mut self, request: &str) -> io::Result<String> {
        let message = format!("{:>LENGTH_DIGITS$}{request}", request.len());
        send(self.stream.get_ref(), message.as_bytes())?;
        let mut length = [0; LENGTH_DIGITS];
        self.stream.read_exact(&mut length)?;
        let bytes = std::str::from_utf8(&length).ok().and_then(|digits| digits.trim().parse::<u64>().ok());
        let bytes = bytes.filter(|bytes| *bytes <= ANSWER_BYTES_MAX).ok_or(io::ErrorKind::InvalidData)?;
        let mut answer = vec![0; bytes as usize];
        self.stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// Writes all of it. A service that is gone is an error, not the signal that ends programs in C (SIGPIPE).
fn send(mut stream: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the buffer is live and as long as is said.
        let sent =
            unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        match usize::try_from(sent) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                // No socket, but a pipe.
                error if error.raw_os_error() == Some(libc::ENOTSOCK) => return stream.write_all(bytes),
                error => return Err(error),
            },
        }
    }
    Ok(())
}

/// What a service said.
pub(super) struct Answer {
    pub(super) text: String,
    framing: Framing,
}

impl Answer {
    /// The value of the word `name=value`. Our own values hold neither blanks nor semicolons.
    pub(super) fn word(&self, name: &str) -> Option<&str> {
        let separator = if self.framing == Framing::Lines { ' ' } else { ';' };
        let mut words = self.text.split(separator);
        words.find_map(|word| word.trim_start().strip_prefix(name)?.strip_prefix('='))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_whole_names() {
        let answer = |text: &str, framing| Answer { text: text.into(), framing };
        let line = answer("cmd=get_result rc=0 value=a;b", Framing::Lines);
        assert_eq!(
            (line.word("cmd"), line.word("rc"), line.word("value")),
            (Some("get_result"), Some("0"), Some("a;b"))
        );
        assert_eq!((line.word("c"), line.word("get_result"), line.word("none")), (None, None, None));
        let counted = answer("cmd=kvs-get-response; found=TRUE;value=a b;", Framing::Counted);
        assert_eq!((counted.word("found"), counted.word("value")), (Some("TRUE"), Some("a b")));
    }
}
