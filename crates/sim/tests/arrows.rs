//! Where the arrows of simulated messages begin and end in a timeline, and the critical path along them.

use castell_goal::text;
use castell_model::Model;
use castell_sim::instruments::Recorder;
use castell_sim::{Machine, Schedules, Simulation};
use castell_trace::{Timeline, path};

fn timeline(program: &str, model: &str) -> Timeline {
    let program = text::parse(program, "").unwrap_or_else(|error| panic!("{error}"));
    let machine = Machine::new(Model::parse(model).unwrap_or_else(|error| panic!("{error}")));
    let schedules = Schedules::new(&program).unwrap();
    let mut recorder = Recorder::default();
    let outcome = Simulation::new(&schedules, &machine).run_with(&mut recorder).unwrap();
    let timeline = recorder.timeline(&schedules);
    assert_eq!(timeline.end_ps(), outcome.makespan().0, "{model}");
    timeline
}

/// What the path goes through: name, rank, start and end in ns.
fn walked(timeline: &Timeline) -> Vec<(&'static str, u32, u64, u64)> {
    let steps = path::critical_path(timeline);
    let told =
        steps.iter().map(|step| (step.name(timeline), step.rank.0, step.start_ps / 1000, step.end_ps / 1000));
    told.collect()
}

const MESSAGE: &str = "num_ranks 2
rank 0 { send 1048576b to 1 }
rank 1 { recv 1048576b from 0 }";

/// From when its first byte is on the wire until its last one is there.
#[test]
fn an_arrow_spans_the_transfer() {
    const BYTES: u64 = 1 << 20;
    for (model, sent_ns, head_ns, arrived_ns) in [
        // o; o + L; then o and a gap for each byte but the first. Above S and below it.
        ("loggops:L=2us,o=1us,g=1us,G=2ns,O=0,S=65535", 1000, 3000, 4000 + 2 * (BYTES - 1)),
        ("loggps:L=2us,o=1us,g=1us,G=2ns,S=100000000", 1000, 3000, 4000 + 2 * (BYTES - 1)),
        // The sender is busy with each byte, but the first one leaves after o.
        ("loggops:L=2us,o=1us,g=1us,G=2ns,O=3ns,S=65535", 1000, 3000, 4000 + 3 * (BYTES - 1)),
        ("plb:alpha_p=5us,alpha_r=1us,beta=1ns", 1000, 6000 + BYTES, 6000 + BYTES),
        // The sender is busy until all is there: it leaves at once.
        ("lb:alpha=5us,beta=1ns", 0, 5000 + BYTES, 5000 + BYTES),
        ("logp:L=2us,o=1us,g=1us", 1000, 3000, 4000),
    ] {
        let timeline = timeline(MESSAGE, model);
        let [message] = timeline.messages[..] else { panic!("{model}: one message") };
        let times = [message.sent_ps, message.head_ps, message.arrived_ps];
        assert_eq!(times, [sent_ns * 1000, head_ns * 1000, arrived_ns * 1000], "{model}");
        assert_eq!(message.received_ps, message.arrived_ps, "{model}");
        let steps = walked(&timeline);
        // Where the sender is busy until all is there, it is what the end waited for.
        let last =
            if sent_ns == 0 { ("sending", 0, 0, arrived_ns) } else { ("message", 1, sent_ns, arrived_ns) };
        assert_eq!(steps.last(), Some(&last), "{model}: {steps:?}");
        assert_eq!(steps.first().map(|step| step.2), Some(0), "{model}: {steps:?}");
    }
}

/// Who is busy when a message comes waits for nobody: the path stays there, although the data land later.
#[test]
fn a_message_that_waits_for_a_processor_is_not_on_the_path() {
    let program = "num_ranks 2
rank 0 { send 1001b to 1 }
rank 1 {
a: calc 100000
b: recv 1001b from 0
b requires a
}";
    let timeline = timeline(program, "loggops:L=2us,o=1us,g=1us,G=2ns,O=0,S=65535");
    assert_eq!(timeline.messages[0].head_ps, 100_000_000);
    assert_eq!(timeline.messages[0].arrived_ps, 103_000_000);
    assert_eq!(walked(&timeline), [("computing", 1, 0, 100_000), ("receiving", 1, 100_000, 103_000)]);
}

/// Under models that have nobody busy with receiving, too, the path goes back to the beginning.
#[test]
fn the_path_goes_through_messages_that_cost_no_processor() {
    let program = "num_ranks 2
rank 0 {
a: send 1000b to 1
b: recv 1000b from 1
}
rank 1 {
a: recv 1000b from 0
b: send 1000b to 0
b requires a
}";
    let timeline = timeline(program, "plb:alpha_p=5us,alpha_r=1us,beta=1ns");
    let expected = [
        ("sending", 0, 0, 1000),
        ("message", 1, 1000, 7000),
        ("sending", 1, 7000, 8000),
        ("message", 0, 8000, 14_000),
    ];
    assert_eq!(walked(&timeline), expected);
}
