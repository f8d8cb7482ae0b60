//! A timeline as a page that a browser opens from a file: it zooms, pans, filters and walks the critical path.
//!
//! The page is one asset, `assets/timeline.html`, without anything from elsewhere; this puts the data into it, as columns of
//! little-endian numbers in base64.

use crate::kinds::{COLOURS, Colours, kind_name};
use crate::path::{Part, Step, critical_path};
use crate::{Activity, Message, Rows, Span, Timeline, Travel};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

const PAGE: &str = include_str!("../assets/timeline.html");
const PLACE: &str = "@DATA@";

/// Writes a timeline as a page for a browser. Its size grows with the timeline: some 35 bytes a span, 60 a message.
///
/// ```
/// use castell_trace::{Timeline, write_html};
/// let mut out = Vec::new();
/// write_html(&Timeline { title: "</script>".into(), ..Timeline::default() }, &mut out)?;
/// assert!(String::from_utf8(out).unwrap().contains(r#""title":"\u003c/script>""#));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Whatever the writer says.
///
/// # Panics
/// Where a span or message names a rank that the timeline does not have.
pub fn write_html(timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    let (before, after) = PAGE.split_once(PLACE).expect("the page has a place for the data");
    out.write_all(before.as_bytes())?;
    let own = (timeline.rows == Rows::Workers).then(|| timeline.own_time());
    write_data(own.as_ref().unwrap_or(timeline), out)?;
    out.write_all(after.as_bytes())
}

fn write_data(timeline: &Timeline, out: &mut impl Write) -> io::Result<()> {
    let order = order(timeline);
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, &span)| position[span] = at);
    let spans: Vec<&Span> = order.iter().map(|&span| &timeline.spans[span]).collect();
    let names = Names::of(&spans);
    let colours = Colours::of(timeline);
    write!(out, "{{\"title\":{},", quoted(&timeline.title))?;
    write!(out, "\"subtitle\":{},", quoted(&timeline.subtitle))?;
    write!(out, "\"row\":{},\"ranks\":{},", quoted(timeline.rows.name()), timeline.ranks)?;
    let kinds = if timeline.kinds.is_empty() { Activity::ALL.len() } else { COLOURS };
    let kind = |colour: usize| match Activity::ALL.get(colour) {
        Some(activity) => quoted(activity.name()),
        None => quoted(&kind_name(timeline, colour)),
    };
    write!(out, "\"kinds\":{},", list((0..kinds).map(kind)))?;
    write!(out, "\"names\":{},", list(names.texts.iter().map(|name| quoted(name))))?;
    write!(out, "\"spans\":{{")?;
    column(out, "start", spans.iter().flat_map(|span| time(span.start_ps)))?;
    column(out, "end", spans.iter().flat_map(|span| time(span.end_ps)))?;
    column(out, "name", names.numbers.iter().flat_map(|number| number.to_le_bytes()))?;
    column(out, "kind", spans.iter().map(|span| colours.number(span) as u8))?;
    let first = (0..=timeline.ranks).map(|rank| spans.partition_point(|span| span.rank.0 < rank) as u32);
    column(out, "first", first.flat_map(u32::to_le_bytes))?;
    write!(out, "\"of\":\"ranks\"}},\"messages\":{{")?;
    let messages = &timeline.messages;
    let number =
        |which: fn(&Message) -> u32| messages.iter().flat_map(move |message| which(message).to_le_bytes());
    let long = |which: fn(&Message) -> u64| messages.iter().flat_map(move |message| time(which(message)));
    column(out, "from", number(|message| message.from.0))?;
    column(out, "to", number(|message| message.to.0))?;
    column(out, "tag", number(|message| message.tag.0))?;
    column(out, "bytes", long(|message| message.bytes))?;
    column(out, "sent", long(|message| message.sent_ps))?;
    column(out, "arrived", long(|message| message.arrived_ps))?;
    column(out, "received", long(|message| message.received_ps))?;
    write!(out, "\"of\":\"messages\"}},\"path\":[")?;
    for (at, step) in critical_path(timeline).iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let (span, message) = match step.part {
            Part::Message(message) => (-1, message as i64),
            Part::Span(span) => (position[span] as i64, -1),
            Part::Dependence(_) | Part::Held | Part::Others | Part::Gap => (-1, -1),
        };
        let name = quoted(step.name(timeline));
        let (rank, start, end) = (step.rank.0, step.start_ps, step.end_ps);
        write!(out, "{comma}[{name},{rank},{start},{end},{span},{message},{}", came_from(timeline, step))?;
        if let Some(Travel { latency_ps, bandwidth_ps, receiving_ps }) = step.travel(timeline) {
            write!(out, ",{latency_ps},{bandwidth_ps},{receiving_ps}")?;
        }
        write!(out, "]")?;
    }
    write!(out, "],\"only\":{},\"dropped\":{}}}", quoted(&only(timeline)), timeline.dropped)
}

/// Where a step comes from.
fn came_from(timeline: &Timeline, step: &Step) -> u32 {
    match step.part {
        Part::Message(message) => timeline.messages[message].from.0,
        Part::Dependence(dependence) => timeline.dependences[dependence].from.0,
        Part::Span(_) | Part::Held | Part::Others | Part::Gap => step.rank.0,
    }
}

/// The rows that are to be seen, as the page's own filter has them: `0-3,7`.
fn only(timeline: &Timeline) -> String {
    let Some(only) = &timeline.only else { return String::new() };
    let mut seen: Vec<u32> = only.iter().map(|rank| rank.0).collect();
    seen.sort_unstable();
    let parts = seen.chunk_by(|one, next| one + 1 == *next);
    parts.map(|part| format!("{}-{}", part[0], part[part.len() - 1])).collect::<Vec<_>>().join(",")
}

/// The spans' numbers, by rank and start.
fn order(timeline: &Timeline) -> Vec<usize> {
    let ends = timeline.messages.iter().flat_map(|message| [message.from, message.to]);
    for rank in timeline.spans.iter().map(|span| span.rank).chain(ends) {
        assert!(rank.0 < timeline.ranks, "rank {rank} in a timeline of {}", timeline.ranks);
    }
    let mut order: Vec<usize> = (0..timeline.spans.len()).collect();
    order.sort_by_key(|&span| {
        let span = &timeline.spans[span];
        (span.rank, span.start_ps, std::cmp::Reverse(span.end_ps))
    });
    order
}

/// The names of the spans, each once.
struct Names<'a> {
    texts: Vec<&'a str>,
    /// By span.
    numbers: Vec<u32>,
}

impl<'a> Names<'a> {
    fn of(spans: &[&'a Span]) -> Names<'a> {
        let mut known: HashMap<&str, u32> = HashMap::new();
        let (mut texts, mut numbers) = (Vec::new(), Vec::with_capacity(spans.len()));
        for span in spans {
            let name = span.name.as_str();
            let number = *known.entry(name).or_insert_with(|| {
                texts.push(name);
                texts.len() as u32 - 1
            });
            numbers.push(number);
        }
        Names { texts, numbers }
    }
}

/// JavaScript's numbers are exact up to 2^53 ps, which is two hours and a half; beyond they are rounded.
fn time(ps: u64) -> [u8; 8] {
    (ps as f64).to_le_bytes()
}

fn list(values: impl Iterator<Item = String>) -> String {
    let mut text = "[".to_owned();
    for (at, value) in values.enumerate() {
        text.push_str(if at == 0 { "" } else { "," });
        text.push_str(&value);
    }
    text + "]"
}

/// A JSON string that also stands within a script element: nothing in it ends that.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '<' | '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(quoted, "\\u{:04x}", character as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

/// `"name":"bytes in base64",`
fn column(out: &mut impl Write, name: &str, bytes: impl Iterator<Item = u8>) -> io::Result<()> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    write!(out, "\"{name}\":\"")?;
    let mut bytes = bytes.peekable();
    let mut buffer = Vec::with_capacity(1 << 16);
    while bytes.peek().is_some() {
        let three = [bytes.next(), bytes.next(), bytes.next()];
        let word = three.iter().fold(0, |word, byte| word << 8 | u32::from(byte.unwrap_or(0)));
        for letter in 0..4 {
            let is_there = letter < 2 || three[letter - 1].is_some();
            let letter = LETTERS[(word >> (18 - 6 * letter) & 63) as usize];
            buffer.push(if is_there { letter } else { b'=' });
        }
        if buffer.len() + 4 > 1 << 16 {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    out.write_all(&buffer)?;
    write!(out, "\",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_base64() {
        let encoded = |bytes: &[u8]| {
            let mut out = Vec::new();
            column(&mut out, "x", bytes.iter().copied()).expect("memory can be written");
            String::from_utf8(out).expect("ASCII")
        };
        // The examples of RFC 4648, section 10.
        for (bytes, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(encoded(bytes.as_bytes()), format!("\"x\":\"{expected}\","));
        }
        let long: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
        assert_eq!(encoded(&long).len(), "\"x\":\"\",".len() + long.len().div_ceil(3) * 4);
    }

    #[test]
    fn texts_cannot_leave_their_script() {
        assert_eq!(quoted("a\"b\\c</script>\n"), r#""a\"b\\c\u003c/script>\u000a""#);
    }

    #[test]
    fn the_page_asks_nobody_for_anything() {
        for word in ["http:", "https:", "src=", "@import", "fetch(", "XMLHttp"] {
            assert!(!PAGE.contains(word), "{word}");
        }
        assert_eq!(PAGE.matches(PLACE).count(), 1);
    }
}
