//! Operations in words.

use castell_goal::op::{Buffer, Op};
use castell_goal::schedule::{OpId, Schedule};

/// An operation in one line: the label, if it has one, and what the operation does.
pub fn describe(schedule: &Schedule, op: OpId) -> String {
    let text = match schedule.op(op) {
        Op::Proxy => "proxy".to_string(),
        Op::Send { buffer, bytes, dest, tag } => {
            format!("send{} {bytes}b to {dest} tag {tag}", vector(buffer))
        }
        Op::Recv { buffer, bytes, source, tag } => {
            let source = source.map_or("any".to_string(), |rank| rank.to_string());
            let tag = tag.map_or("any".to_string(), |tag| tag.to_string());
            format!("recv{} {bytes}b from {source} tag {tag}", vector(buffer))
        }
        Op::Calc { ns } => format!("calc {ns}"),
        Op::Sleep { ns } => format!("sleep {ns}"),
        Op::Local { arithmetic, count, .. } => {
            format!("local {} {} {count}", arithmetic.operator().name(), arithmetic.element().name())
        }
        Op::Wtime { .. } => "wtime".to_string(),
        Op::Call { function, .. } => format!("call 0x{function:x}"),
        Op::Put { bytes, dest, .. } => format!("put {bytes}b to {dest}"),
        Op::Get { bytes, source, .. } => format!("get {bytes}b from {source}"),
    };
    match schedule.label(op) {
        Some(label) => format!("{label}: {text}"),
        None => text,
    }
}

fn vector(buffer: Buffer<'_>) -> &'static str {
    if matches!(buffer, Buffer::Vector(..)) { " vector" } else { "" }
}
