//! Where the arrows of simulated messages begin and end in a timeline, and the critical path along them.

use castell_goal::text;
use castell_model::Model;
use castell_model::topology::Topology;
use castell_sim::instruments::Recorder;
use castell_sim::{Machine, Schedules, Simulation};
use castell_trace::{Timeline, path};
use std::sync::Arc;

fn timeline(program: &str, model: &str) -> Timeline {
    timeline_of(program, &Machine::new(Model::parse(model).unwrap_or_else(|error| panic!("{error}"))))
}

fn timeline_of(program: &str, machine: &Machine) -> Timeline {
    let program = text::parse(program, "").unwrap_or_else(|error| panic!("{error}"));
    let schedules = Schedules::new(&program).unwrap();
    let mut recorder = Recorder::default();
    let outcome = Simulation::new(&schedules, machine).run_with(&mut recorder).unwrap();
    let timeline = recorder.timeline(&schedules);
    assert_eq!(timeline.end_ps(), outcome.makespan().0, "{}", machine.model);
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

/// What the messages' time on the path went into: latency, bandwidth, standing still; and all parts.
fn parts(timeline: &Timeline) -> [Vec<(&'static str, u64)>; 2] {
    let steps = path::critical_path(timeline);
    let in_ns =
        |parts: Vec<(&'static str, u64)>| parts.into_iter().map(|(name, ps)| (name, ps / 1000)).collect();
    [in_ns(path::message_parts(timeline, &steps)), in_ns(path::parts(timeline, &steps))]
}

#[test]
fn latency_is_told_apart_from_bandwidth() {
    const BYTES: u64 = 1 << 20;
    let bytes = [("bandwidth", 2 * (BYTES - 1)), ("latency", 2000)];
    for (model, within, receiving) in [
        ("loggops:L=2us,o=1us,g=1us,G=2ns,O=0,S=65535", bytes, 1000),
        ("loggops:L=2us,o=1us,g=1us,G=2ns,O=0,S=100000000", bytes, 1000),
        // A processor that takes longer for a byte than the network is busy with it.
        ("loggops:L=2us,o=1us,g=1us,G=2ns,O=3ns,S=65535", bytes, 1000 + BYTES - 1),
        ("plb:alpha_p=5us,alpha_r=1us,beta=1ns", [("bandwidth", BYTES), ("latency", 5000)], 0),
    ] {
        let [messages, all] = parts(&timeline(MESSAGE, model));
        assert_eq!(messages, within, "{model}");
        let found = all.iter().find(|(name, _)| *name == "receiving").map_or(0, |(_, ns)| *ns);
        assert_eq!(found, receiving, "{model}: {all:?}");
    }
}

/// Two messages over one link: the second one's bytes wait for the first one's.
#[test]
fn standing_still_for_a_link_is_neither() {
    let program = "num_ranks 3
rank 0 { send 1001b to 2 }
rank 1 { send 1001b to 2 }
rank 2 {
recv 1001b from 0
recv 1001b from 1
}";
    let network = Topology::parse("star:ranks=3,link=100ns,G=1ns", &mut |_| unreachable!()).unwrap();
    let machine = Machine::new(Model::parse("plb:alpha_p=5us,alpha_r=1us,beta=0").unwrap());
    let timeline = timeline_of(program, &machine.with_network(Arc::new(network)));
    let [messages, _] = parts(&timeline);
    assert_eq!(messages, [("latency", 5200), ("bandwidth", 1001), ("queueing", 1001)]);
}

/// A rank that sends one message after the other waits for its interface; one that sends by rendezvous, for the receive.
#[test]
fn what_holds_a_sender_up_is_on_the_path() {
    let program = "num_ranks 3
rank 0 {
send 1001b to 1
send 1001b to 2
}
rank 1 { recv 1001b from 0 }
rank 2 { recv 1001b from 0 }";
    let eager = "loggops:L=2us,o=1us,g=1us,G=2ns,O=0,S=65535";
    let names = |timeline: &Timeline| walked(timeline).iter().map(|step| step.0).collect::<Vec<_>>();
    let steps = names(&timeline(program, eager));
    assert_eq!(steps, ["sending", "gap between sends", "sending", "message"]);

    let program = "num_ranks 2
rank 0 {
a: send 1001b to 1
b: calc 5000
b requires a
}
rank 1 {
a: calc 100000
b: recv 1001b from 0
b requires a
}";
    let timeline = timeline(program, "loggops:L=2us,o=1us,g=1us,G=2ns,O=0,S=1000");
    let receiver = walked(&timeline);
    assert_eq!(receiver[0], ("computing", 1, 0, 100_000), "{receiver:?}");
}
