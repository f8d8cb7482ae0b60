//! The trace event format that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) open.

use crate::path::critical_path;
use crate::{Activity, Rows, Span, Timeline};
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// Writes a timeline as a Chrome/Perfetto trace: a process a rank, a track an activity (and more where spans of one
/// activity overlap without nesting), an arrow a message. Times are microseconds there, with six decimals; Perfetto
/// shows whole nanoseconds of them.
///
/// ```
/// use castell_trace::{Timeline, write_chrome};
/// let mut out = Vec::new();
/// write_chrome(&Timeline { title: "empty".into(), ..Timeline::default() }, &mut out)?;
/// assert!(serde_json::from_slice::<serde_json::Value>(&out)?["traceEvents"].is_array());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Whatever the writer says.
pub fn write_chrome(timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    let (title, subtitle) = (quoted(&timeline.title), quoted(&timeline.subtitle));
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{title},\"subtitle\":{subtitle}}},")?;
    write!(out, "\"traceEvents\":[")?;
    let mut events = Events { out, line: String::new(), first: true };
    for rank in 0..timeline.ranks {
        let name = quoted(&format!("{} {rank}", timeline.rows.name()));
        let order = format_args!(r#""args":{{"sort_index":{rank}}}"#);
        events.put("M", "process_name", rank, format_args!(r#""args":{{"name":{name}}}"#))?;
        events.put("M", "process_sort_index", rank, order)?;
    }
    let mut tracks = Tracks::new(timeline.ranks);
    let mut spans: Vec<&Span> = timeline.spans.iter().collect();
    spans.sort_by_key(|span| (span.start_ps, u64::MAX - span.end_ps));
    for span in spans {
        let (track, is_new) = tracks.place(span);
        let activity = span.activity.name();
        if is_new {
            let name = format_args!(r#""tid":{track},"args":{{"name":"{activity}"}}"#);
            events.put("M", "thread_name", span.rank.0, name)?;
        }
        let (start, long) = (Micros(span.start_ps), Micros(span.end_ps - span.start_ps));
        let rest = format_args!(r#""tid":{track},"ts":{start},"dur":{long},"cat":"{activity}""#);
        events.put("X", &span.name, span.rank.0, rest)?;
    }
    for (id, message) in timeline.messages.iter().enumerate() {
        let [from, to] = [Activity::Send, Activity::Recv].map(|activity| track_of(activity, 0));
        let (start, end) = (Micros(message.sent_ps), Micros(message.received_ps));
        let told = format_args!(
            r#""tid":{from},"ts":{start},"id":{id},"cat":"message","args":{{"bytes":{},"tag":{}}}"#,
            message.bytes, message.tag.0
        );
        events.put("s", "message", message.from.0, told)?;
        let told = format_args!(r#""tid":{to},"ts":{end},"id":{id},"cat":"message","bp":"e""#);
        events.put("f", "message", message.to.0, told)?;
    }
    if timeline.rows == Rows::Workers && !timeline.dependences.is_empty() {
        write_path(&timeline.own_time(), &mut events)?;
    } else if !timeline.messages.is_empty() {
        write_path(timeline, &mut events)?;
    }
    for counter in &timeline.counters {
        for (ps, value) in &counter.samples {
            let at = Micros(*ps);
            events.put("C", &counter.name, 0, format_args!(r#""ts":{at},"args":{{"value":{value}}}"#))?;
        }
    }
    writeln!(out, "]}}")
}

/// The critical path as one more process: what the end waited for, and on which rank.
fn write_path(timeline: &Timeline, events: &mut Events<'_, impl Write>) -> io::Result<()> {
    let (process, name) = (timeline.ranks, "critical path");
    events.put("M", "process_name", process, format_args!(r#""args":{{"name":"{name}"}}"#))?;
    events.put("M", "process_sort_index", process, format_args!(r#""args":{{"sort_index":-1}}"#))?;
    for step in critical_path(timeline) {
        let (start, long) = (Micros(step.start_ps), Micros(step.end_ps - step.start_ps));
        let row = timeline.rows.name();
        let rest = format_args!(
            r#""tid":0,"ts":{start},"dur":{long},"cat":"{name}","args":{{"{row}":{}}}"#,
            step.rank.0
        );
        events.put("X", step.name(timeline), process, rest)?;
    }
    Ok(())
}

/// Text as JSON has it.
fn quoted(text: &str) -> String {
    // A string has no keys that could not be written.
    serde_json::to_string(text).unwrap_or_default()
}

/// Events in lines, without a tree of values between: traces have millions.
struct Events<'a, W: Write> {
    out: &'a mut W,
    line: String,
    first: bool,
}

impl<W: Write> Events<'_, W> {
    /// `rest`: what else the event has, as JSON's members.
    fn put(&mut self, phase: &str, name: &str, process: u32, rest: fmt::Arguments<'_>) -> io::Result<()> {
        self.line.clear();
        self.line.push_str(if self.first { "\n" } else { ",\n" });
        self.first = false;
        self.line.push_str("{\"name\":");
        if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" _-.".contains(&byte)) {
            self.line.extend(["\"", name, "\""]);
        } else {
            self.line.push_str(&quoted(name));
        }
        // Writing to a string does not fail.
        let _ = write!(self.line, r#","ph":"{phase}","pid":{process},{rest}}}"#);
        self.out.write_all(self.line.as_bytes())
    }
}

/// Picoseconds, printed as microseconds.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Tracks of one activity have numbers of their own: 16 at most, then they share the last.
const TRACKS_AN_ACTIVITY: usize = 16;

fn track_of(activity: Activity, lane: usize) -> usize {
    activity as usize * TRACKS_AN_ACTIVITY + lane
}

/// Finds each span a track on which it overlaps no other.
struct Tracks {
    /// By rank and track: when it is free again; `None`: not used yet.
    free_ps: Vec<[Option<u64>; Activity::ALL.len() * TRACKS_AN_ACTIVITY]>,
}

impl Tracks {
    fn new(ranks: u32) -> Tracks {
        Tracks { free_ps: vec![[None; Activity::ALL.len() * TRACKS_AN_ACTIVITY]; ranks as usize] }
    }

    /// The track of a span, spans coming in order of their starts; and whether it is the track's first.
    fn place(&mut self, span: &Span) -> (usize, bool) {
        let free = &mut self.free_ps[span.rank.index()];
        let lanes = (0..TRACKS_AN_ACTIVITY).map(|lane| track_of(span.activity, lane));
        let fits = lanes.clone().find(|track| free[*track].is_none_or(|free_ps| free_ps <= span.start_ps));
        let track = fits.unwrap_or(track_of(span.activity, TRACKS_AN_ACTIVITY - 1));
        let is_new = free[track].is_none();
        free[track] = Some(free[track].unwrap_or(0).max(span.end_ps));
        (track, is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, Message};
    use castell_base::{Rank, Tag};
    use serde_json::{Value, json};

    fn span(rank: u32, activity: Activity, start_ps: u64, end_ps: u64) -> Span {
        Span { rank: Rank(rank), name: format!("\"{start_ps}\""), activity, start_ps, end_ps }
    }

    #[test]
    fn spans_that_overlap_lie_on_tracks_of_their_own() {
        let timeline = Timeline {
            title: "two \"ranks\"".into(),
            subtitle: "no <model>".into(),
            ranks: 2,
            spans: vec![
                span(0, Activity::Send, 0, 100_000),
                span(0, Activity::Send, 50_000, 60_000),
                span(0, Activity::Send, 100_000, 200_000),
                span(1, Activity::Recv, 10_000, 1_500_001),
            ],
            messages: vec![Message {
                from: Rank(0),
                to: Rank(1),
                tag: Tag(7),
                bytes: 64,
                sent_ps: 0,
                head_ps: 1_500_001,
                arrived_ps: 1_500_001,
                received_ps: 1_500_001,
                travel: None,
            }],
            counters: vec![Counter { name: "ready".into(), samples: vec![(0, 3), (2_000_000, 1)] }],
            ..Timeline::default()
        };
        let mut out = Vec::new();
        write_chrome(&timeline, &mut out).expect("memory takes everything");
        let parsed: Value = serde_json::from_slice(&out).expect("it is JSON");
        let events = parsed["traceEvents"].as_array().expect("a list");
        let (path, spans): (Vec<_>, Vec<_>) = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .partition(|event| event["cat"] == "critical path");
        let walked: Vec<_> = path.iter().map(|step| (&step["name"], &step["args"]["rank"])).collect();
        assert_eq!(
            walked,
            [(&json!("message"), &json!(1))],
            "rank 1 waited for it from the beginning to the end"
        );
        assert_eq!(path[0]["pid"], 2);
        let tracks: Vec<_> = spans.iter().filter(|span| span["pid"] == 0).map(|span| &span["tid"]).collect();
        assert_eq!(tracks, [&json!(0), &json!(1), &json!(0)]);
        assert_eq!(spans[3]["dur"], json!(0.1));
        assert_eq!(events.iter().filter(|event| event["ph"] == "s" || event["ph"] == "f").count(), 2);
        let (depart, arrive) =
            (events.iter().find(|e| e["ph"] == "s"), events.iter().find(|e| e["ph"] == "f"));
        assert_eq!(depart.expect("an arrow")["args"], json!({"bytes": 64, "tag": 7}));
        assert_eq!(arrive.expect("an arrow")["ts"], json!(1.500001));
        assert_eq!(parsed["otherData"]["subtitle"], "no <model>");
        assert_eq!(parsed["otherData"]["title"], "two \"ranks\"");
        let counted: Vec<_> = events.iter().filter(|event| event["ph"] == "C").collect();
        assert_eq!(counted[1]["args"], json!({"value": 1}));
        assert_eq!(counted[1]["ts"], json!(2.0));
    }
}
