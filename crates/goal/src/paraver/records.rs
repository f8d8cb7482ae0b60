//! The lines behind the header, as tables: for each thread its MPI events and what it did not do, and all messages.

use super::error::ParaverError;
use super::header::{self, Header};
use castell_base::Rank;
use std::collections::HashMap;

/// Types of the events around MPI calls: point-to-point, collective, other, one-sided. Calls that read and write files
/// (50000005) take their time as computation does, so they are no calls here.
const CALLS: std::ops::RangeInclusive<u64> = 50_000_001..=50_000_004;
/// What a collective call says of itself: bytes sent, bytes received, whether it is the root, communicator.
const SEND_BYTES: u64 = 50_100_001;
const RECV_BYTES: u64 = 50_100_002;
const ROOT: u64 = 50_100_003;
const COMMUNICATOR: u64 = 50_100_004;
/// States in which a thread does nothing: idle, waiting for a message.
const NOTHING: [u64; 2] = [0, 3];
const RUNNING: u64 = 1;

/// A message. Times are nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub from: Rank,
    pub to: Rank,
    pub bytes: u64,
    pub tag: u32,
    /// When the send was called.
    pub sent_ns: u64,
    /// When the receive was called.
    pub posted_ns: u64,
    /// When the message was there, not before the receive was called.
    pub received_ns: u64,
}

/// An MPI event of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub time_ns: u64,
    /// MPI's call by Extrae's number; 0: its end.
    pub call: u32,
}

/// What collective calls say of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    SendBytes(u64),
    RecvBytes(u64),
    Root,
    Communicator(u64),
}

/// One thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    pub rank: u32,
    /// From 0.
    pub number: u64,
    pub application: usize,
    /// In order of time.
    pub marks: Vec<Mark>,
    /// In order of time.
    pub details: Vec<(u64, Detail)>,
    /// Times in which it did nothing, in order of their starts.
    pub nothing_ns: Vec<(u64, u64)>,
    /// When it ran last.
    pub end_ns: u64,
    /// Messages by their number, in order of the calls.
    pub sent: Vec<usize>,
    pub received: Vec<usize>,
}

/// A whole trace.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub num_ranks: u32,
    /// Threads that do anything, in order of ranks and numbers.
    pub threads: Vec<Thread>,
    pub messages: Vec<Message>,
    /// Members, by application and number.
    pub communicators: HashMap<(usize, u64), Vec<Rank>>,
    /// First rank of each application, and number of its tasks.
    pub applications: Vec<(u32, u32)>,
}

/// Reads a whole trace.
pub(super) fn read(text: &[u8]) -> Result<Trace, ParaverError> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let header = header::read(trimmed(lines.next().unwrap_or_default()))?;
    let mut reader = Reader::new(header);
    for (index, line) in lines.enumerate() {
        reader.line = index as u64 + 2;
        reader.record(trimmed(line))?;
    }
    Ok(reader.finish())
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

struct Reader {
    header: Header,
    trace: Trace,
    /// Where a thread stands in the trace, by rank and number.
    places: HashMap<(u32, u64), usize>,
    line: u64,
}

impl Reader {
    fn new(header: Header) -> Reader {
        let mut trace = Trace::default();
        for tasks in &header.applications {
            trace.applications.push((trace.num_ranks, tasks.len() as u32));
            trace.num_ranks += tasks.len() as u32;
        }
        Reader { header, trace, places: HashMap::new(), line: 1 }
    }

    fn record(&mut self, line: &[u8]) -> Result<(), ParaverError> {
        match line {
            [b'1', b':', rest @ ..] => self.state(Fields { rest }),
            [b'2', b':', rest @ ..] => self.events(Fields { rest }),
            [b'3', b':', rest @ ..] => self.message(Fields { rest }),
            [b'c', b':', rest @ ..] => self.communicator(Fields { rest }),
            // Comments, intercommunicators and global communications, which no tool writes.
            [] | [b'#', ..] | [b'i' | b'4', b':', ..] => Ok(()),
            _ => Err(self.expected(
                "a record: `1:` (state), `2:` (events), `3:` (communication) or `c:` (communicator)",
            )),
        }
    }

    /// `processor:application:task:thread:start:end:state`
    fn state(&mut self, mut fields: Fields<'_>) -> Result<(), ParaverError> {
        let what = "processor:application:task:thread:start:end:state";
        let place = self.thread(&mut fields, what)?;
        let start_ns = self.time(&mut fields, what)?;
        if fields.rest.starts_with(b"-") {
            // An end that the tracer never saw.
            return Ok(());
        }
        let end_ns = self.time(&mut fields, what)?;
        let state = self.number(&mut fields, what)?;
        let thread = &mut self.trace.threads[place];
        if state == RUNNING {
            thread.end_ns = thread.end_ns.max(end_ns);
        } else if NOTHING.contains(&state) && start_ns < end_ns {
            thread.nothing_ns.push((start_ns, end_ns));
        }
        Ok(())
    }

    /// `processor:application:task:thread:time:type:value:type:value…`
    fn events(&mut self, mut fields: Fields<'_>) -> Result<(), ParaverError> {
        let what = "processor:application:task:thread:time:type:value…";
        let place = self.thread(&mut fields, what)?;
        let time_ns = self.time(&mut fields, what)?;
        while !fields.rest.is_empty() {
            let kind = self.number(&mut fields, what)?;
            if !CALLS.contains(&kind) && !(SEND_BYTES..=COMMUNICATOR).contains(&kind) {
                fields.skip();
                continue;
            }
            let value = self.number(&mut fields, what)?;
            let thread = &mut self.trace.threads[place];
            match kind {
                SEND_BYTES => thread.details.push((time_ns, Detail::SendBytes(value))),
                RECV_BYTES => thread.details.push((time_ns, Detail::RecvBytes(value))),
                ROOT if value != 0 => thread.details.push((time_ns, Detail::Root)),
                ROOT => {}
                COMMUNICATOR => thread.details.push((time_ns, Detail::Communicator(value))),
                _ => thread.marks.push(Mark { time_ns, call: u32::try_from(value).unwrap_or(u32::MAX) }),
            }
        }
        Ok(())
    }

    /// `processor:application:task:thread:logical send:physical send:processor:application:task:thread:logical
    /// receive:physical receive:size:tag`
    fn message(&mut self, mut fields: Fields<'_>) -> Result<(), ParaverError> {
        let what = "sender, its two times, receiver, its two times, size and tag of a communication";
        let sender = self.thread(&mut fields, what)?;
        let sent_ns = self.time(&mut fields, what)?;
        self.time(&mut fields, what)?;
        let receiver = self.thread(&mut fields, what)?;
        let posted_ns = self.time(&mut fields, what)?;
        let received_ns = self.time(&mut fields, what)?.max(posted_ns);
        let bytes = self.number(&mut fields, what)?;
        let tag = self.number(&mut fields, what)?;
        let tag = match u32::try_from(tag) {
            // Tags from 2^31 on are taken by collective calls.
            Ok(tag) if tag < 1 << 31 => tag,
            _ => return Err(ParaverError::Tag { line: self.line, tag }),
        };
        let threads = &mut self.trace.threads;
        let (from, to) = (Rank(threads[sender].rank), Rank(threads[receiver].rank));
        let number = self.trace.messages.len();
        threads[sender].sent.push(number);
        threads[receiver].received.push(number);
        self.trace.messages.push(Message { from, to, bytes, tag, sent_ns, posted_ns, received_ns });
        Ok(())
    }

    /// `application:number:size:task:task…`
    fn communicator(&mut self, mut fields: Fields<'_>) -> Result<(), ParaverError> {
        let what = "application:number:size:task… of a communicator";
        let application = self.number(&mut fields, what)?;
        let number = self.number(&mut fields, what)?;
        let size = self.number(&mut fields, what)?;
        let mut members = Vec::new();
        while !fields.rest.is_empty() {
            let task = self.number(&mut fields, what)?;
            members.push(Rank(self.rank(application, task, 1)?));
        }
        if members.len() as u64 != size {
            return Err(self.expected("as many members of a communicator as its size says"));
        }
        // One without members has named no task of it.
        let application =
            application.checked_sub(1).ok_or_else(|| self.expected("an application from 1 on"))?;
        self.trace.communicators.insert((application as usize, number), members);
        Ok(())
    }

    /// Takes `processor:application:task:thread`, and finds the thread's place.
    fn thread(&mut self, fields: &mut Fields<'_>, what: &'static str) -> Result<usize, ParaverError> {
        fields.skip();
        let (application, task, thread) =
            (self.number(fields, what)?, self.number(fields, what)?, self.number(fields, what)?);
        let rank = self.rank(application, task, thread)?;
        let threads = &mut self.trace.threads;
        let number = thread - 1;
        Ok(*self.places.entry((rank, number)).or_insert_with(|| {
            threads.push(Thread { rank, number, application: application as usize - 1, ..Thread::default() });
            threads.len() - 1
        }))
    }

    fn rank(&self, application: u64, task: u64, thread: u64) -> Result<u32, ParaverError> {
        let find = || {
            let index = usize::try_from(application.checked_sub(1)?).ok()?;
            let (first, _) = *self.trace.applications.get(index)?;
            let task = usize::try_from(task.checked_sub(1)?).ok()?;
            let threads = *self.header.applications[index].get(task)?;
            (1..=threads).contains(&thread).then_some(first + task as u32)
        };
        find().ok_or(ParaverError::NoSuchThread { line: self.line, application, task, thread })
    }

    fn number(&self, fields: &mut Fields<'_>, what: &'static str) -> Result<u64, ParaverError> {
        fields.number().ok_or_else(|| self.expected(what))
    }

    fn time(&self, fields: &mut Fields<'_>, what: &'static str) -> Result<u64, ParaverError> {
        let time = self.number(fields, what)?;
        time.checked_mul(self.header.unit_ns).ok_or(ParaverError::Time { line: self.line, time })
    }

    #[cold]
    fn expected(&self, expected: &'static str) -> ParaverError {
        ParaverError::Record { line: self.line, expected }
    }

    /// Puts everything into its order; what has the same time stays as it was in the file.
    fn finish(self) -> Trace {
        let mut trace = self.trace;
        trace.threads.sort_by_key(|thread| (thread.rank, thread.number));
        let messages = &trace.messages;
        for thread in &mut trace.threads {
            thread.marks.sort_by_key(|mark| mark.time_ns);
            thread.details.sort_by_key(|(time_ns, _)| *time_ns);
            thread.nothing_ns.sort_unstable();
            thread.sent.sort_by_key(|&message| messages[message].sent_ns);
            thread.received.sort_by_key(|&message| messages[message].posted_ns);
        }
        trace
    }
}

/// What is left of a record.
struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    /// Takes a number and the colon behind it.
    fn number(&mut self) -> Option<u64> {
        let mut number: u64 = 0;
        let mut taken = 0;
        for &byte in self.rest {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
            taken += 1;
        }
        match self.rest[taken..] {
            _ if taken == 0 => None,
            [] => {
                self.rest = &[];
                Some(number)
            }
            [b':', ref rest @ ..] => {
                self.rest = rest;
                Some(number)
            }
            _ => None,
        }
    }

    /// Skips a field, whatever it holds.
    fn skip(&mut self) {
        let end = self.rest.iter().position(|&byte| byte == b':');
        self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
    }
}
