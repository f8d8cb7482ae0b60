//! The three files that Paraver (tools.bsc.es/paraver) opens: records, labels, row names.

mod calls;

use crate::lanes::{by_rank, place};
use crate::{Activity, Counter, Message, Span, Timeline};
use calls::{Call, Calls};
use castell_base::Rank;
use std::collections::HashMap;
use std::io::{self, Write};

/// States have the numbers that Extrae gives them, so that Paraver's own configuration files fit.
const STATES: [(u32, &str, [u8; 3]); 6] = [
    (0, "Idle", [235, 238, 241]),
    (1, "Running", [0, 114, 178]),
    (3, "Waiting a message", [154, 164, 176]),
    (4, "Blocking Send", [230, 159, 0]),
    (11, "Immediate Receive", [0, 158, 115]),
    (15, "Others", [204, 121, 167]),
];
const IDLE: u32 = 0;
/// Type of the events around sends and receives, as Extrae numbers MPI's point-to-point calls.
const POINT_TO_POINT: u32 = 50_000_001;
const SEND: u32 = 1;
const RECV: u32 = 2;
/// A message is taken in for which nobody has asked yet.
const PROBE: u32 = 62;
/// Type of the events that name an operation.
const OPERATION: u32 = 90_000_001;
/// Type of the first counter's events; the others follow.
const COUNTER: u32 = 90_000_101;

fn state(activity: Activity) -> u32 {
    match activity {
        Activity::Compute => 1,
        Activity::Wait => 3,
        Activity::Send => 4,
        Activity::Recv => 11,
        Activity::Other => 15,
    }
}

/// Writes a timeline as a Paraver trace: `prv` gets the records, `pcf` what states and events are called, `row` the names
/// of the rows. The files belong together by their name and the endings .prv, .pcf and .row.
///
/// A rank is a task of one thread; where its operations overlap, it has more threads, so that no two states of a thread
/// do. Each operation is a state and a pair of events with its name; sends and receives are point-to-point calls, too. A
/// message's logical send and receive are the starts of the operations, the physical ones departure and arrival. A message
/// that was taken in before its receive was posted is received by a call that takes no time.
///
/// Paraver counts nanoseconds: all times are rounded to the nearest, half up. An operation that becomes nothing by that
/// keeps its events but has no state. The date in the header is always the same, so that equal timelines give equal
/// files.
///
/// # Errors
/// Whatever the writers say.
///
/// # Panics
/// Where a span or message names a rank that the timeline does not have.
pub fn write_paraver(
    timeline: &Timeline,
    prv: &mut impl Write,
    pcf: &mut impl Write,
    row: &mut impl Write,
) -> io::Result<()> {
    let trace = Trace::of(timeline);
    trace.header(timeline, prv)?;
    for record in &trace.records {
        record.write(prv)?;
    }
    labels(&trace.names, timeline, pcf)?;
    rows(&trace.threads, timeline.rows.name(), row)
}

/// Picoseconds as nanoseconds.
fn nanoseconds(ps: u64) -> u64 {
    ps / 1000 + u64::from(ps % 1000 >= 500)
}

/// A thread of a rank, both from 0.
type Thread = (u32, usize);

enum Record {
    State {
        thread: Thread,
        start_ns: u64,
        end_ns: u64,
        state: u32,
    },
    /// Values of the operation's name and of the call, where there are such.
    Events {
        thread: Thread,
        time_ns: u64,
        operation: Option<u32>,
        call: Option<u32>,
    },
    Counted {
        time_ns: u64,
        /// Its number.
        counter: usize,
        value: i64,
    },
    Message {
        from: Thread,
        to: Thread,
        logical_ns: [u64; 2],
        physical_ns: [u64; 2],
        bytes: u64,
        tag: u32,
    },
}

impl Record {
    fn time_ns(&self) -> u64 {
        match self {
            Record::State { start_ns, .. } => *start_ns,
            Record::Events { time_ns, .. } | Record::Counted { time_ns, .. } => *time_ns,
            Record::Message { logical_ns, .. } => logical_ns[0],
        }
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match *self {
            Record::State { thread, start_ns, end_ns, state } => {
                writeln!(out, "1:{}:{start_ns}:{end_ns}:{state}", Object(thread))
            }
            Record::Events { thread, time_ns, operation, call } => {
                write!(out, "2:{}:{time_ns}", Object(thread))?;
                for (kind, value) in [(OPERATION, operation), (POINT_TO_POINT, call)] {
                    if let Some(value) = value {
                        write!(out, ":{kind}:{value}")?;
                    }
                }
                writeln!(out)
            }
            Record::Counted { time_ns, counter, value } => {
                writeln!(out, "2:{}:{time_ns}:{}:{value}", Object((0, 0)), COUNTER as usize + counter)
            }
            Record::Message { from, to, logical_ns, physical_ns, bytes, tag } => writeln!(
                out,
                "3:{}:{}:{}:{}:{}:{}:{bytes}:{tag}",
                Object(from),
                logical_ns[0],
                physical_ns[0],
                Object(to),
                logical_ns[1],
                physical_ns[1]
            ),
        }
    }
}

/// Processor, application, task and thread, from 1.
struct Object(Thread);

impl std::fmt::Display for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, thread) = self.0;
        write!(f, "{}:1:{}:{}", u64::from(rank) + 1, u64::from(rank) + 1, thread + 1)
    }
}

struct Trace<'a> {
    /// By rank, its threads.
    threads: Vec<usize>,
    /// In order of time.
    records: Vec<Record>,
    /// Names of operations; their values count from 1.
    names: Vec<&'a str>,
}

impl<'a> Trace<'a> {
    fn of(timeline: &'a Timeline) -> Trace<'a> {
        let mut trace = Trace { threads: Vec::new(), records: Vec::new(), names: Vec::new() };
        let mut values: HashMap<&str, u32> = HashMap::new();
        let end_ns = nanoseconds(timeline.end_ps());
        let placed: Vec<_> =
            by_rank(timeline).map(|(_, spans)| place(spans.into_iter(), usize::MAX)).collect();
        let (placed, lanes): (Vec<_>, Vec<usize>) = placed.into_iter().unzip();
        let calls = Calls::of(&timeline.messages, &placed);
        for (rank, (spans, &lanes)) in (0..).map(Rank).zip(placed.iter().zip(&lanes)) {
            let mut instants = calls.instants[rank.index()].iter().map(|&ps| nanoseconds(ps)).peekable();
            let mut free_ns = vec![0; lanes.max(1)];
            for (at, &(lane, span)) in spans.iter().enumerate() {
                let value = *values.entry(&span.name).or_insert_with(|| {
                    trace.names.push(&span.name);
                    trace.names.len() as u32
                });
                let thread = (rank.0, lane);
                // What takes no time stands between the operation before and this one.
                while let Some(time_ns) = instants.next_if(|&time_ns| time_ns <= nanoseconds(span.start_ps)) {
                    trace.instant((rank.0, lane_at(&free_ns, time_ns)), time_ns);
                }
                let call = calls.number(rank, at, span.activity);
                trace.span(thread, span, &mut free_ns[lane], (value, call));
            }
            instants.for_each(|time_ns| trace.instant((rank.0, lane_at(&free_ns, time_ns)), time_ns));
            for (lane, &free_ns) in free_ns.iter().enumerate() {
                trace.state((rank.0, lane), free_ns, end_ns, IDLE);
            }
            trace.threads.push(free_ns.len());
        }
        for (message, &found) in timeline.messages.iter().zip(&calls.of_messages) {
            trace.records.push(record(message, found, &placed));
        }
        let has_rows = timeline.ranks > 0;
        for (counter, counted) in timeline.counters.iter().enumerate().filter(|_| has_rows) {
            let samples = counted.samples.iter();
            trace.records.extend(samples.map(|&(ps, value)| Record::Counted {
                time_ns: nanoseconds(ps),
                counter,
                value,
            }));
        }
        // Of equal times those stay in order that belong to one thread: the end of an operation before the next's start.
        trace.records.sort_by_key(Record::time_ns);
        trace
    }

    fn span(&mut self, thread: Thread, span: &Span, free_ns: &mut u64, (name, call): (u32, Option<u32>)) {
        let (start_ns, end_ns) = (nanoseconds(span.start_ps), nanoseconds(span.end_ps));
        self.state(thread, *free_ns, start_ns, IDLE);
        self.records.push(Record::Events { thread, time_ns: start_ns, operation: Some(name), call });
        self.state(thread, start_ns, end_ns, state(span.activity));
        let call = call.map(|_| 0);
        self.records.push(Record::Events { thread, time_ns: end_ns, operation: Some(0), call });
        *free_ns = end_ns;
    }

    /// A receive that takes no time.
    fn instant(&mut self, thread: Thread, time_ns: u64) {
        for call in [RECV, 0] {
            self.records.push(Record::Events { thread, time_ns, operation: None, call: Some(call) });
        }
    }

    fn state(&mut self, thread: Thread, start_ns: u64, end_ns: u64, state: u32) {
        if start_ns < end_ns {
            self.records.push(Record::State { thread, start_ns, end_ns, state });
        }
    }

    /// `#Paraver (date):duration:nodes(processors):applications:tasks(threads:node,…),communicators`, and the one
    /// communicator.
    fn header(&self, timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
        let (ranks, end_ns) = (timeline.ranks, nanoseconds(timeline.end_ps()));
        write!(out, "#Paraver (01/01/2000 at 00:00):{end_ns}_ns:1({}):1:{ranks}(", ranks.max(1))?;
        for (rank, threads) in self.threads.iter().enumerate() {
            let comma = if rank == 0 { "" } else { "," };
            write!(out, "{comma}{threads}:1")?;
        }
        write!(out, "),1\nc:1:1:{ranks}")?;
        for rank in 1..=u64::from(ranks) {
            write!(out, ":{rank}")?;
        }
        writeln!(out)
    }
}

/// A lane in which nothing goes on at a moment, if there is one.
fn lane_at(free_ns: &[u64], time_ns: u64) -> usize {
    free_ns.iter().position(|&free_ns| free_ns <= time_ns).unwrap_or(0)
}

/// A message between the threads whose operations sent and received it; lane 0 and the moment itself where there are none.
fn record(
    message: &Message,
    (sent, received): (Option<usize>, Option<Call>),
    placed: &[Vec<(usize, &Span)>],
) -> Record {
    let Message { from, to, tag, bytes, sent_ps, arrived_ps, received_ps, .. } = *message;
    let lane_and_start = |rank: Rank, operation: usize| {
        let (lane, span) = placed[rank.index()][operation];
        (lane, span.start_ps)
    };
    let (sender, sent) = sent.map_or((0, sent_ps), |operation| lane_and_start(from, operation));
    let (receiver, received) = match received {
        Some(Call::Operation(operation)) => lane_and_start(to, operation),
        Some(Call::Instant(ps)) => (0, ps),
        None => (0, received_ps),
    };
    Record::Message {
        from: (from.0, sender),
        to: (to.0, receiver),
        logical_ns: [nanoseconds(sent), nanoseconds(received)],
        physical_ns: [nanoseconds(sent_ps), nanoseconds(arrived_ps)],
        bytes,
        tag: tag.0,
    }
}

/// The labels of states and events.
fn labels(names: &[&str], timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    write!(out, "DEFAULT_OPTIONS\n\nLEVEL               THREAD\nUNITS               NANOSEC\n")?;
    write!(out, "LOOK_BACK           100\nSPEED               1\nFLAG_ICONS          ENABLED\n")?;
    writeln!(out, "NUM_OF_STATE_COLORS 1000\nYMAX_SCALE          37\n\n")?;
    write!(out, "DEFAULT_SEMANTIC\n\nTHREAD_FUNC          State As Is\n\n\nSTATES\n")?;
    for (number, name, _) in STATES {
        writeln!(out, "{number}    {name}")?;
    }
    write!(out, "\n\nSTATES_COLOR\n")?;
    for (number, _, [red, green, blue]) in STATES {
        writeln!(out, "{number}    {{{red},{green},{blue}}}")?;
    }
    write!(out, "\n\nEVENT_TYPE\n9    {POINT_TO_POINT}    MPI Point-to-point\nVALUES\n")?;
    write!(out, "62   MPI_Iprobe\n2   MPI_Recv\n1   MPI_Send\n0   Outside MPI\n")?;
    write!(out, "\n\nEVENT_TYPE\n0    {OPERATION}    Operation\nVALUES\n0   End\n")?;
    for (index, name) in names.iter().enumerate() {
        let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let name = if name.trim().is_empty() { "(no name)" } else { name.trim() };
        writeln!(out, "{}   {name}", index + 1)?;
    }
    for (counter, Counter { name, .. }) in timeline.counters.iter().enumerate() {
        write!(out, "\n\nEVENT_TYPE\n0    {}    {name}\n", COUNTER as usize + counter)?;
    }
    writeln!(out)
}

/// The names of processors, nodes and threads.
fn rows(threads: &[usize], word: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "LEVEL CPU SIZE {}", threads.len())?;
    for rank in 0..threads.len() {
        writeln!(out, "{word} {rank}")?;
    }
    write!(out, "\nLEVEL NODE SIZE 1\n{word}s\n\nLEVEL TASK SIZE {}\n", threads.len())?;
    for rank in 0..threads.len() {
        writeln!(out, "{word} {rank}")?;
    }
    writeln!(out, "\nLEVEL THREAD SIZE {}", threads.iter().sum::<usize>())?;
    for (rank, threads) in threads.iter().enumerate() {
        for thread in 0..*threads {
            match thread {
                0 => writeln!(out, "{word} {rank}")?,
                _ => writeln!(out, "{word} {rank}, overlapping {thread}")?,
            }
        }
    }
    Ok(())
}
