use super::*;
use crate::instruments::Recorder;
use crate::{Machine, Schedules, Simulation, Source};
use castell_model::Model;
use castell_trace::Activity;
use castell_trace::joined::{Notes, Reading};
use castell_trace::journal::{Action, Event};

const READING: Reading<'_> = Reading { describe: &|words| format!("call {}", words[0]), eager_bytes: 1000 };

fn operation(action: Action, peer: u32, id: u32, next: [u32; 2], times: [u64; 2]) -> Operation {
    Operation {
        action,
        run: 2,
        word: 0,
        is_step: false,
        peer: matches!(action, Action::Send | Action::Recv).then_some(Rank(peer)),
        tag: Some(Tag(7)),
        bytes: 8,
        name: 0,
        id,
        next,
        start_ns: times[0],
        end_ns: times[1],
    }
}

fn notes(events: impl IntoIterator<Item = Event>) -> Notes {
    Notes { events: events.into_iter().collect(), ..Notes::default() }
}

/// What each rank would do: what is written there, from when until when, nanoseconds.
fn simulated(ranks: &[Notes], model: &str) -> (u64, Vec<(u32, String, u64, u64)>) {
    let recorded = program(&Joined::of(ranks, &READING)).expect("a program");
    let schedules = Schedules::new(Source::Program(&recorded.program)).expect("schedules");
    let mut recorder = Recorder::default();
    let machine = Machine::new(model.parse::<Model>().expect("a model"));
    Simulation::new(&schedules, &machine).run_with(&mut recorder).expect("it ends");
    let spans = recorder.timeline(&schedules).spans.into_iter();
    let spans = spans.filter(|span| span.activity != Activity::Wait);
    let mut spans: Vec<_> =
        spans.map(|span| (span.rank.0, span.name, span.start_ps / 1000, span.end_ps / 1000)).collect();
    spans.sort();
    (recorded.left_out, spans)
}

fn texts(spans: &[(u32, String, u64, u64)]) -> Vec<(u32, &str, u64, u64)> {
    spans.iter().map(|(rank, name, from, to)| (*rank, &**name, *from, *to)).collect()
}

/// Rank 0 computes 400 ns, sends, and computes on; rank 1 came 100 ns later and waits for it. A message takes 1000 ns here, took 20 there.
#[test]
fn messages_take_what_the_model_says_and_computing_what_it_took() {
    let ranks = [
        notes([
            Event::Entered { at_ns: 1000 },
            Event::Operation(operation(Action::Send, 1, 16, [0; 2], [1400, 1410])),
            Event::Left { at_ns: 2000 },
        ]),
        notes([
            Event::Entered { at_ns: 1100 },
            Event::Operation(operation(Action::Recv, 0, 16, [0; 2], [1150, 1425])),
            Event::Waited { start_ns: 1200, end_ns: 1430, run: Some(2) },
            Event::Left { at_ns: 1530 },
        ]),
    ];
    let (left_out, spans) = simulated(&ranks, "logp:L=1us,o=0ns,g=0ns");
    let expected = [
        (0, "the program: calc", 0, 400),
        (0, "the program: calc", 400, 1000),
        (1, "the program: calc", 100, 150),
        (1, "the program: calc", 150, 200),
        (1, "the program: calc", 1400, 1500),
    ];
    let computing: Vec<_> = texts(&spans).into_iter().filter(|span| !span.1.contains(" B ")).collect();
    assert_eq!((left_out, &computing[..]), (0, &expected[..]));
}

/// A run of two receives, of which the first one lets a send go: the edge says so, whatever comes first.
#[test]
fn operations_wait_for_those_of_their_graph() {
    let send = |peer, tag, times| Operation {
        tag: Some(Tag(tag)),
        ..operation(Action::Send, peer, 16, [0; 2], times)
    };
    let recv = |peer, tag, id, next, times| Operation {
        tag: Some(Tag(tag)),
        ..operation(Action::Recv, peer, id, next, times)
    };
    let ranks = [
        notes([Event::Operation(send(2, 1, [0, 10])), Event::Left { at_ns: 10 }]),
        // It computes for long before it sends: in the run, its message came second.
        notes([Event::Entered { at_ns: 0 }, Event::Operation(send(2, 2, [5000, 5010]))]),
        notes([
            Event::Operation(recv(0, 1, 16, [24, 0], [0, 20])),
            Event::Operation(recv(1, 2, 20, [0, 0], [0, 5020])),
            Event::Operation(operation(Action::Send, 3, 24, [0, 0], [20, 30])),
            Event::Waited { start_ns: 0, end_ns: 5030, run: Some(2) },
            Event::Left { at_ns: 6030 },
        ]),
        notes([
            Event::Operation(operation(Action::Recv, 2, 16, [0; 2], [0, 5000])),
            Event::Left { at_ns: 5000 },
        ]),
    ];
    let (left_out, spans) = simulated(&ranks, "logp:L=80ns,o=10ns,g=0ns");
    assert_eq!(left_out, 0);
    let of = |rank| texts(&spans).into_iter().filter(move |span| span.0 == rank).collect::<Vec<_>>();
    assert!(of(2).contains(&(2, "the program: calc", 5100, 6100)), "{:?}", of(2));
    assert!(of(2).iter().any(|span| span.1.starts_with("send 8 B to 3") && span.2 == 100), "{:?}", of(2));
}

/// Steps follow one another, also where their graph has no edge between them; what is local takes what it took.
#[test]
fn steps_follow_one_another() {
    let step = |action, peer, id, next, times| {
        Event::Operation(Operation { is_step: true, ..operation(action, peer, id, next, times) })
    };
    let ranks = [
        notes([
            Event::Call { run: 2, words: [5; 6] },
            step(Action::Recv, 1, 16, [20, 0], [0, 300]),
            step(Action::Local, 1, 20, [0; 2], [0, 300]),
            step(Action::Send, 1, 24, [0; 2], [300, 310]),
            Event::Waited { start_ns: 0, end_ns: 310, run: Some(2) },
        ]),
        notes([
            Event::Call { run: 2, words: [5; 6] },
            step(Action::Send, 0, 16, [0; 2], [250, 260]),
            step(Action::Recv, 0, 20, [0; 2], [260, 320]),
            Event::Waited { start_ns: 250, end_ns: 320, run: Some(2) },
        ]),
    ];
    let (left_out, spans) = simulated(&ranks, "logp:L=980ns,o=10ns,g=0ns");
    assert_eq!(left_out, 0);
    let spans = texts(&spans);
    // Its message was there at 260 ns, so that 40 ns are the combining's.
    assert!(spans.contains(&(0, "call 5: local: calc", 1250, 1290)), "{spans:?}");
    assert!(
        spans.iter().any(|span| span.1.starts_with("call 5: send 8 B to 1") && span.2 == 1290),
        "{spans:?}"
    );
}

#[test]
fn what_only_one_side_noted_is_left_out() {
    let anybody = Operation { peer: None, ..operation(Action::Recv, 0, 20, [0; 2], [0, 10]) };
    let sent = operation(Action::Send, 1, 16, [0; 2], [0, 10]);
    let (left_out, _) =
        simulated(&[notes([Event::Operation(sent), Event::Operation(anybody)]), notes([])], "logp");
    assert_eq!(left_out, 2);
}

/// Two streams of messages between the same ranks under the same tag, of two contexts, do not mix.
#[test]
fn channels_have_tags_of_their_own() {
    let mut tags = Tags::default();
    let of = |word, tag| Operation { word, tag: Some(tag), ..operation(Action::Send, 1, 16, [0; 2], [0, 1]) };
    let first = tags.of(Rank(0), Rank(1), &of(1, Tag(7)));
    assert_eq!((first, tags.of(Rank(0), Rank(1), &of(1, Tag(7)))), (Tag(7), Tag(7)));
    let second = tags.of(Rank(0), Rank(1), &of(2, Tag(7)));
    let own = tags.of(Rank(0), Rank(1), &of(3, Tag(u32::MAX)));
    assert!(second != first && own != second && own != first && own <= Tag::MAX);
    assert_eq!(tags.of(Rank(0), Rank(2), &of(2, Tag(7))), Tag(7));
}

/// A task waits for its worker and for the one that ended last; who waits for tasks goes on when they are over.
#[test]
fn tasks_take_what_they_took() {
    let task = |worker, start_ns, end_ns| Event::Task {
        worker,
        name: 0,
        start_ns,
        end_ns,
        id: 0,
        after: 0,
        ready_ns: 0,
    };
    let ranks = [notes([
        Event::Entered { at_ns: 0 },
        task(0, 100, 300),
        task(1, 120, 200),
        task(1, 310, 400),
        Event::Waited { start_ns: 50, end_ns: 410, run: None },
        Event::Left { at_ns: 500 },
    ])];
    let (_, spans) = simulated(&ranks, "logp");
    let expected = [
        (0, "task (worker 0): calc", 50, 250),
        (0, "task (worker 1): calc", 50, 130),
        (0, "task (worker 1): calc", 250, 340),
        (0, "the program: calc", 0, 50),
        (0, "the program: calc", 340, 430),
    ];
    assert_eq!(texts(&spans), expected);
}

/// A task that waited for the end of one goes on waiting for that one, not for what happened to end last.
#[test]
fn tasks_wait_for_who_made_them_ready() {
    let task = |worker, start_ns, end_ns, id, after| Event::Task {
        worker,
        name: 0,
        start_ns,
        end_ns,
        id,
        after,
        ready_ns: start_ns,
    };
    let ranks = [notes([
        Event::Entered { at_ns: 0 },
        task(0, 0, 100, 1, 0),
        task(1, 0, 150, 2, 0),
        task(2, 160, 200, 3, 1),
        Event::Waited { start_ns: 0, end_ns: 200, run: None },
        Event::Left { at_ns: 200 },
    ])];
    let (_, spans) = simulated(&ranks, "logp");
    assert!(texts(&spans).contains(&(0, "task (worker 2): calc", 100, 140)), "{:?}", texts(&spans));
}

/// A task that waits for one that it created, which its worker runs meanwhile: the time is counted once.
#[test]
fn tasks_within_tasks_count_once() {
    let task =
        |start_ns, end_ns| Event::Task { worker: 0, name: 0, start_ns, end_ns, id: 0, after: 0, ready_ns: 0 };
    let ranks = [notes([
        task(20, 40),
        task(50, 60),
        task(0, 100),
        Event::Waited { start_ns: 0, end_ns: 100, run: None },
        Event::Left { at_ns: 110 },
    ])];
    let (_, spans) = simulated(&ranks, "logp");
    let times: Vec<_> = texts(&spans).into_iter().map(|(_, name, from, to)| (&name[..4], from, to)).collect();
    let expected = [
        ("task", 0, 20),
        ("task", 20, 40),
        ("task", 40, 50),
        ("task", 50, 60),
        ("task", 60, 100),
        ("the ", 100, 110),
    ];
    assert_eq!(times, expected);
}
