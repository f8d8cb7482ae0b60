//! Timelines written for Paraver are read back as the programs that they show.

use castell_base::{Rank, Tag};
use castell_goal::op::Op;
use castell_goal::paraver;
use castell_trace::{Activity, Message, Span, Timeline, write_paraver};
use std::collections::HashSet;

/// What a rank does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Calc { ns: u64 },
    Send { to: u32, bytes: u64, tag: u32 },
    Recv { from: u32, bytes: u64, tag: u32 },
}

/// Each rank computes, sends to the next, computes, and receives from the one before, several times.
fn steps(ranks: u32, rounds: u32) -> Vec<Vec<Step>> {
    let of = |rank: u32| {
        let around = |round: u32| {
            let (bytes, tag) = (100 + u64::from(round), round % 3);
            let send = Step::Send { to: (rank + 1) % ranks, bytes, tag };
            let recv = Step::Recv { from: (rank + ranks - 1) % ranks, bytes, tag };
            [Step::Calc { ns: 50 + u64::from(rank * 7 + round) }, send, Step::Calc { ns: 20 }, recv]
        };
        (0..rounds).flat_map(around).collect()
    };
    (0..ranks).map(of).collect()
}

/// What happens when sending and receiving takes 30 ns and a message travels 400 ns.
fn timeline(steps: &[Vec<Step>]) -> Timeline {
    let mut timeline = Timeline { title: "ring".into(), ranks: steps.len() as u32, ..Timeline::default() };
    let mut now_ps = vec![0; steps.len()];
    for index in 0..steps[0].len() {
        for (rank, steps) in steps.iter().enumerate() {
            let mut span = |activity, duration_ps: u64| {
                let (start_ps, rank_now) = (now_ps[rank], &mut now_ps[rank]);
                *rank_now += duration_ps;
                let (rank, name, end_ps) = (Rank(rank as u32), format!("step\n{index}"), *rank_now);
                timeline.spans.push(Span { rank, name, activity, start_ps, end_ps });
                end_ps
            };
            match steps[index] {
                Step::Calc { ns } => drop(span(Activity::Compute, ns * 1000)),
                Step::Send { to, bytes, tag } => {
                    let sent_ps = span(Activity::Send, 30_000);
                    timeline.messages.push(Message {
                        from: Rank(rank as u32),
                        to: Rank(to),
                        tag: Tag(tag),
                        bytes,
                        sent_ps,
                        head_ps: sent_ps + 400_000,
                        arrived_ps: sent_ps + 400_000,
                        received_ps: 0,
                        travel: None,
                    });
                }
                Step::Recv { from, .. } => {
                    let ours = |message: &&mut Message| message.from.0 == from && message.received_ps == 0;
                    let message = timeline.messages.iter_mut().find(ours).expect("sent before");
                    let wait_ps = message.arrived_ps.saturating_sub(span(Activity::Wait, 0));
                    span(Activity::Wait, wait_ps);
                    message.received_ps = span(Activity::Recv, 30_000);
                }
            }
        }
    }
    timeline
}

/// The three files.
fn written(timeline: &Timeline) -> [String; 3] {
    let [mut prv, mut pcf, mut row] = [Vec::new(), Vec::new(), Vec::new()];
    write_paraver(timeline, &mut prv, &mut pcf, &mut row).expect("memory takes everything");
    [prv, pcf, row].map(|bytes| String::from_utf8(bytes).expect("text"))
}

#[test]
fn what_was_written_reads_as_the_program() {
    let steps = steps(5, 12);
    let [prv, ..] = written(&timeline(&steps));
    let conversion = paraver::read(prv.as_bytes()).expect("a trace");
    assert_eq!(conversion.notes, []);
    for (rank, steps) in steps.iter().enumerate() {
        let graph = conversion.program.rank(Rank(rank as u32));
        let step = |op| match op {
            Op::Calc { ns } => Step::Calc { ns },
            Op::Send { bytes, dest, tag, .. } => Step::Send { to: dest.0, bytes, tag: tag.0 },
            Op::Recv { bytes, source: Some(source), tag: Some(tag), .. } => {
                Step::Recv { from: source.0, bytes, tag: tag.0 }
            }
            other => panic!("{other:?}"),
        };
        let read: Vec<Step> = graph.vertices().map(|vertex| step(graph.op(vertex))).collect();
        assert_eq!(read, *steps, "rank {rank}");
        assert_eq!(graph.edge_count(), steps.len() - 1, "each waits for the one before");
    }
    assert!(castell_goal::check::check(&conversion.program).is_ok());
}

#[test]
fn the_files_keep_to_the_rules_of_the_format() {
    let mut timeline = timeline(&steps(3, 4));
    // Operations that overlap, and one that is too short for a nanosecond.
    let short =
        Span { rank: Rank(1), name: "short".into(), activity: Activity::Other, start_ps: 100, end_ps: 499 };
    let long = Span {
        rank: Rank(2),
        name: String::new(),
        activity: Activity::Recv,
        start_ps: 500,
        end_ps: 2_000_499,
    };
    timeline.spans.extend([short, long]);
    let [prv, pcf, row] = written(&timeline);
    let mut lines = prv.lines();
    let header = lines.next().expect("a header");
    assert_eq!(header, "#Paraver (01/01/2000 at 00:00):2081_ns:1(3):1:3(1:1,2:1,2:1),1");
    assert_eq!(lines.next(), Some("c:1:1:3:1:2:3"));
    let (mut last, mut busy_until) = (0, std::collections::HashMap::new());
    let mut states = HashSet::new();
    for line in lines {
        let fields: Vec<u64> = line.split(':').map(|field| field.parse().expect("numbers")).collect();
        assert!(fields[5] >= last, "in order of time: {line}");
        last = fields[5];
        match fields[0] {
            1 => {
                assert!(fields[5] < fields[6], "{line}");
                states.insert(fields[7]);
                let free = busy_until.insert((fields[3], fields[4]), fields[6]).unwrap_or(0);
                assert_eq!(free, fields[5], "states of a thread follow one another: {line}");
            }
            2 => assert!(fields.len() >= 8 && fields.len().is_multiple_of(2), "{line}"),
            3 => assert_eq!(fields.len(), 15, "{line}"),
            other => panic!("record {other}: {line}"),
        }
    }
    assert_eq!(busy_until.len(), 5);
    assert!(busy_until.values().all(|end| *end == 2081));
    let labelled =
        |number: &u64| pcf.lines().any(|line| line.split_whitespace().next() == Some(&number.to_string()));
    assert!(states.iter().all(labelled), "{states:?}");
    assert!(pcf.contains("step 0\n") && pcf.contains("(no name)\n"), "names stay in their line");
    for section in ["DEFAULT_OPTIONS", "STATES", "STATES_COLOR", "EVENT_TYPE"] {
        assert!(pcf.lines().any(|line| line == section), "{section}");
    }
    assert!(row.contains("LEVEL THREAD SIZE 5\nrank 0\nrank 1\nrank 1, overlapping 1\nrank 2\n"), "{row}");
}
