//! What machines do, case by case: closed forms of every model, every operation, limits, networks, data.

use castell_base::{Rank, Time};
use castell_collectives::generator::{Generator, Options};
use castell_goal::program::Program;
use castell_goal::schedule::OpId;
use castell_goal::text;
use castell_model::noise::{Detours, NoisyModel};
use castell_model::topology::Topology;
use castell_model::{ClosedForms, Model, Tree};
use castell_sim::instrument::{Flight, Instrument};
use castell_sim::instruments::{LinkLoad, Links};
use castell_sim::{Machine, Outcome, SimError, Simulation};
use castell_trace::Activity;
use std::collections::BTreeMap;
use std::sync::Arc;

fn program(text: &str) -> Program {
    text::parse(text, "").unwrap_or_else(|error| panic!("{error}"))
}

fn machine(model: &str) -> Machine {
    Machine::new(Model::parse(model).unwrap_or_else(|error| panic!("{error}")))
}

fn noisy(model: &str) -> Machine {
    let model = NoisyModel::parse(model, &mut |file| Err(format!("no {file}")));
    Machine::from(model.unwrap_or_else(|error| panic!("{error}")))
}

/// Noise of a parameter that other models do not have: everything is drawn there, and nothing is changed.
const BESIDE: &str = "bsp:l=exponential(1us)";

fn run(text: &str, machine: &Machine) -> Outcome {
    Simulation::new(&program(text), machine).run().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn ends_ns(text: &str, machine: &Machine) -> Vec<f64> {
    run(text, machine).end.iter().map(|end| end.as_ns_f64()).collect()
}

fn pattern(name: &str, ranks: u32, bytes: u64, machine: &Machine) -> Time {
    let options = Options { bytes, ..Options::new(ranks) };
    let pattern = Generator::parse(name, &options).unwrap();
    Simulation::new(&pattern, machine).run().unwrap().makespan()
}

fn closed_forms(model: &Model) -> Box<dyn ClosedForms> {
    match model.clone() {
        Model::Bsp(model) => Box::new(model),
        Model::Lb(model) => Box::new(model),
        Model::LogP(model) => Box::new(model),
        Model::LogGp(model) => Box::new(model),
        Model::LogGps(model) => Box::new(model),
        Model::LogGops(model) => Box::new(model),
        Model::Lop(model) => Box::new(model),
        Model::LogfP(model) => Box::new(model),
        Model::Plb(model) => Box::new(model),
        other => panic!("{other}"),
    }
}

/// Ping-pong, multicast, binomial broadcast and dissemination end when the models' formulas say.
#[test]
fn closed_forms_hold() {
    for text in [
        "bsp",
        "bsp:G=3ns",
        "lb",
        "lb:beta=2ns",
        "logp",
        "loggp",
        "loggps",
        "loggops",
        "loggops:O=2ns,G=1ns",
        "lop:o_s=table(1:300ns,8:100ns),h_s=50ns",
        "logfp",
        "logfp:f=2,g=3us",
        "plb",
        "plb:beta=0.4ns",
    ] {
        let machine = machine(text);
        let forms = closed_forms(&machine.model);
        for bytes in [1, 8, 1000] {
            assert_eq!(
                pattern("pingpong", 2, bytes, &machine),
                forms.ping_pong(bytes),
                "{text} ping-pong {bytes}"
            );
            for peers in [1, 2, 5, 15] {
                let simulated = pattern("multicast", peers + 1, bytes, &machine);
                // LogP also stalls senders whose messages are all on their way, which its formula leaves out.
                if text != "logp" {
                    assert_eq!(
                        simulated,
                        forms.multicast(peers.into(), bytes),
                        "{text} multicast {peers} {bytes}"
                    );
                }
            }
            for ranks in [2, 8, 32] {
                let simulated = pattern("bcast:binomial", ranks, bytes, &machine);
                let formula = forms.broadcast(Tree::BINOMIAL, ranks.into(), bytes);
                if !text.starts_with("bsp") && text != "logp" {
                    assert_eq!(simulated, formula, "{text} binomial {ranks} {bytes}");
                }
                let simulated = pattern("barrier:dissemination", ranks, bytes, &machine);
                assert_eq!(
                    simulated,
                    forms.dissemination(ranks.into(), bytes),
                    "{text} dissemination {ranks} {bytes}"
                );
            }
        }
    }
}

#[test]
fn logp_limits_the_messages_on_their_way() {
    // ceil(L/g) = 2: the third message waits until the first has arrived.
    let text = "num_ranks 2\n\
        rank 0 { a: send 1b to 1 tag 0\n b: send 1b to 1 tag 0\n c: send 1b to 1 tag 0 }\n\
        rank 1 { a: recv 1b from 0 tag 0\n b: recv 1b from 0 tag 0\n c: recv 1b from 0 tag 0 }";
    let limited = machine("logp:L=2000ns,o=10ns,g=1000ns");
    // Sends start at 0, 1000 and 2010 (the first arrives then, and is the first to leave the wire).
    assert_eq!(ends_ns(text, &limited)[0], 2020.0);
    let unlimited = machine("loggp:L=2000ns,o=10ns,g=1000ns,G=0");
    assert_eq!(ends_ns(text, &unlimited)[0], 2010.0);
}

#[test]
fn operations_take_what_the_book_says() {
    let plb = machine("plb:alpha_p=500ns,alpha_r=100ns,beta=1ns,gamma=2ns");
    let two = |zero: &str| {
        format!("num_ranks 2\nrank 0 {{ scratchpad 64b\n{zero} }}\nrank 1 {{ scratchpad 64b\n }}")
    };
    // A put has finished when the bytes are there, a get when the answer is.
    assert_eq!(ends_ns(&two("p: put 8b to 1 at @0 into @0"), &plb)[0], 608.0);
    assert_eq!(ends_ns(&two("g: get 8b from 1 at @0 into @0"), &plb)[0], 600.0 + 508.0);
    // Where a message's bytes come behind its head, until the last of them.
    let log = machine("loggops:L=1000ns,o=10ns,g=7ns,G=2ns,O=0,S=100000");
    assert_eq!(ends_ns(&two("p: put 9b to 1 at @0 into @0"), &log)[0], 1010.0 + 16.0);
    assert_eq!(ends_ns(&two("g: get 9b from 1 at @0 into @0"), &log)[0], 2010.0 + 16.0);
    // What is sent after a put does not wait for that.
    assert_eq!(ends_ns(&two("p: put 8b to 1 at @0 into @0\nc: calc 50\nc irequires p"), &plb)[0], 608.0);
    assert_eq!(ends_ns(&two("p: put 8b to 1 at @0 into @0\nc: calc 50\nc requires p"), &plb)[0], 658.0);
    // Reducing costs gamma a byte.
    assert_eq!(ends_ns(&two("a: local add u64 2 @0 @16 into @32"), &plb)[0], 32.0);
    // Also where times are drawn; what computing is multiplied by counts for that as well.
    let local = two("a: local add u64 2 @0 @16 into @32");
    let drawn = "plb:alpha_p=500ns,alpha_r=uniform(100ns,100ns),gamma=2ns";
    assert_eq!(ends_ns(&local, &noisy(drawn))[0], 32.0);
    assert_eq!(ends_ns(&local, &noisy("plb:gamma=2ns,compute=uniform(3,3)"))[0], 96.0);
    assert_eq!(ends_ns(&local, &noisy("lb:alpha=1us,gamma=uniform(5ns,5ns)"))[0], 80.0);
    // Sleeping occupies the processor, unless it is concurrent.
    assert_eq!(ends_ns(&two("s: sleep 70\nc: calc 50"), &plb)[0], 120.0);
    assert_eq!(ends_ns(&two("s: sleep 70 concurrent\nc: calc 50"), &plb)[0], 70.0);
    assert_eq!(
        ends_ns(&two("s: calc 70 concurrent\nc: calc 50\nc requires s\np: proxy\np requires c"), &plb)[0],
        120.0
    );
    // With `any`, the first of two is enough.
    let first = "s: sleep 70 concurrent\nl: sleep 200 concurrent\nc: calc 10 any 1\nc requires s\nc requires l\nd: calc 500\nd requires c";
    assert_eq!(ends_ns(&two(first), &plb)[0], 580.0);
    for model in ["loggops", "lb", "bsp", "logfp", "lop"] {
        assert!(
            ends_ns(
                &two("p: put 8b to 1 at @0 into @0\ng: get 8b from 1 at @8 into @8\ng requires p"),
                &machine(model)
            )[0] > 0.0
        );
    }
}

/// Where receiving costs nothing, messages are taken in while the processor computes; elsewhere they wait for it.
#[test]
fn messages_wait_for_processors_only_where_receiving_occupies_them() {
    let text = "num_ranks 2\n\
        rank 0 { s: send 1b to 1 tag 0 }\n\
        rank 1 { c: calc 100000\n r: recv 1b from 0 tag 0\n d: sleep 200000 concurrent\n d requires r }";
    for (model, arrived_ns, busy_ns) in [
        ("lb:alpha=5us,beta=0", 5000.0, None),
        ("plb:alpha_p=4us,alpha_r=1us,beta=0", 5000.0, None),
        ("loggops:L=4us,o=1us,g=0,G=0,O=0,S=100", 5000.0, Some(1000.0)),
        ("logp:L=4us,o=1us,g=0", 5000.0, Some(1000.0)),
        ("logfp:L=4us,o_min=1us,o_max=0,g=0,f=1", 5000.0, Some(1000.0)),
        ("lop:L=4us,o_s=1us,o_r=1us,h_s=0,h_r=0", 5000.0, Some(1000.0)),
    ] {
        // Waiting, the message comes once the processor has computed, and occupies it then.
        let expected = busy_ns.map_or(arrived_ns, |busy_ns| 100_000.0 + busy_ns) + 200_000.0;
        let quiet = machine(model);
        // The same where times are drawn, on another engine.
        let drawn = Machine { noise: noisy(BESIDE).noise, ..quiet.clone() };
        // And where ranks share hosts, which these do not; not all models can.
        let apart = if model.starts_with("lo") { quiet.clone() } else { two_levels(model, model, &[0, 1]) };
        for machine in [&quiet, &drawn, &apart] {
            assert_eq!(ends_ns(text, machine)[1], expected, "{model}");
            // Also what another processor does may wait for the receive (under LogGOPSim's rule it does not).
            let other = text.replace("d: sleep 200000 concurrent", "d: calc 200000 cpu 1");
            assert!(busy_ns.is_some() || ends_ns(&other, machine)[1] == expected, "{model}");
            assert_eq!(ends_ns(&text.replace("c: calc 100000\n", ""), machine)[1], {
                arrived_ns + busy_ns.unwrap_or(0.0) + 200_000.0
            });
        }
    }
}

/// What runs concurrently is on no processor, whatever it does, and everything else on the one that it names.
#[test]
fn instruments_are_told_which_processor_is_busy() {
    #[derive(Default)]
    struct Lanes(Vec<(Option<u8>, u64, u64)>);
    impl Instrument for Lanes {
        fn busy(
            &mut self,
            _: Rank,
            processor: Option<u8>,
            _: Activity,
            _: (Rank, OpId),
            from: Time,
            to: Time,
        ) {
            self.0.push((processor, from.0 / 1000, to.0 / 1000));
        }
    }
    let text = "num_ranks 1\nrank 0 {\n\
        a: calc 10\n b: calc 20 cpu 1\n c: calc 30 concurrent\n\
        d: sleep 40 cpu 2\n e: sleep 50 concurrent\n\
        f: send 1b to 0 tag 0 cpu 3\n g: send 1b to 0 tag 0 concurrent nic 1\n\
        h: recv 1b from 0 tag 0\n i: recv 1b from 0 tag 0 }";
    let mut lanes = Lanes::default();
    let program = program(text);
    Simulation::new(&program, &machine("plb:alpha_p=4ns,alpha_r=1ns,beta=0")).run_with(&mut lanes).unwrap();
    lanes.0.sort_unstable();
    let concurrent = [(None, 0, 1), (None, 0, 30), (None, 0, 50)];
    let others = [(Some(0), 0, 10), (Some(1), 0, 20), (Some(2), 0, 40), (Some(3), 0, 1)];
    assert_eq!(lanes.0, [&concurrent[..], &others].concat());
}

#[test]
fn rendezvous_lasts_until_the_receive_is_posted() {
    let text = "num_ranks 2\n\
        rank 0 { s: send 100000b to 1 tag 0\n c: calc 1\n c requires s }\n\
        rank 1 { w: calc 1000000\n r: recv 100000b from 0 tag 0\n r requires w }";
    let end = run(text, &machine("loggops")).end[0];
    // Rank 1 takes the message in behind its computation, and posts the receive then.
    assert!(end > Time::from_ns(1_000_000), "{end}");
    assert!(run(text, &machine("loggops:S=100000")).end[0] < Time::from_ns(10_000));
    let SimError::Deadlock(deadlock) = Simulation::new(
        &program(
            "num_ranks 2\n\
             rank 0 { s: send 100000b to 1 tag 0\n r: recv 100000b from 1 tag 0\n r requires s }\n\
             rank 1 { s: send 100000b to 0 tag 0\n r: recv 100000b from 0 tag 0\n r requires s }",
        ),
        &machine("loggops"),
    )
    .run()
    .unwrap_err() else {
        panic!("no deadlock")
    };
    assert!(deadlock.closed && deadlock.chain.len() == 2, "{deadlock}");
}

/// What a rendezvous lets go on at both of its ends at the same time goes on at the lower rank first, so that its message is
/// the first to be taken in.
#[test]
fn of_ranks_that_go_on_together_the_lowest_is_first() {
    let log = machine("loggops:L=1us,o=0,g=0,G=1ns,O=0,S=5");
    let program = |from: u32, to: u32| {
        let mut ranks = [
            (from, format!("s: send 6b to {to} tag 0\n t: send 5b to 2 tag 0\n t requires s")),
            (
                to,
                format!(
                    "w: calc 5000\n r: recv 6b from {from} tag 0 cpu 1\n r requires w\n u: send 5b to 2 tag 0 cpu 1\n u requires r"
                ),
            ),
            (
                2,
                "a: recv 5b from 0 tag 0\n b: recv 5b from 1 tag 0\n d: sleep 500 concurrent\n d requires a"
                    .into(),
            ),
        ];
        ranks.sort();
        let ranks = ranks.map(|(rank, text)| format!("rank {rank} {{ {text} }}\n"));
        format!("num_ranks 3\n{}", ranks.concat())
    };
    // Both leave when the receive is posted, at 5000, and are there at 6000: the first occupies the processor for 4 ns.
    for (from, to) in [(0, 1), (1, 0)] {
        assert_eq!(ends_ns(&program(from, to), &log)[2], 6504.0, "{from} sends to {to}");
    }
}

/// Detours lengthen what ranks compute with the bytes that they have, too.
#[test]
fn detours_lengthen_local_operations() {
    let detours = Detours::parse("0 500\n10000 1000\n23000 7000\n").unwrap();
    let text = "num_ranks 1\nrank 0 { scratchpad 16000b\n a: local add u64 1000 @0 @8000 into @0 }";
    for text_of_model in ["plb:gamma=5ns", "lb:gamma=5ns"] {
        let machine = machine(text_of_model).with_detours(detours.clone(), true);
        for seed in 0..5 {
            let end = Simulation::new(&program(text), &machine).with_seed(seed).run().unwrap().makespan();
            let (phase, length) = (detours.phase(seed, Rank(0), true), Time::from_ns(40_000));
            assert_eq!(end, length + detours.delay(phase, Time::ZERO, length), "{text_of_model}, {seed}");
            assert!(end > length);
        }
    }
}

/// Under BSP detours lengthen what is computed.
#[test]
fn detours_lengthen_supersteps() {
    let detours = Detours::parse("0 500\n10000 1000\n23000 7000\n").unwrap();
    let text =
        "num_ranks 2\nrank 0 { c: calc 60000 }\nrank 1 { c: calc 7000\n d: calc 100000\n d requires c }";
    let bsp = machine("bsp:g=10ns,G=1ns,l=1us").with_detours(detours.clone(), false);
    for seed in 0..5 {
        let outcome = Simulation::new(&program(text), &bsp).with_seed(seed).run().unwrap();
        let end = |rank: u32, start: Time, ns: u64| {
            let phase = detours.phase(seed, Rank(rank), false);
            start + Time::from_ns(ns) + detours.delay(phase, start, Time::from_ns(ns))
        };
        let first = end(1, Time::ZERO, 7000);
        assert_eq!(outcome.end, [end(0, Time::ZERO, 60_000), end(1, first, 100_000)], "seed {seed}");
        // At least one whole round of detours, which takes 30 us.
        assert!(outcome.end[0] >= Time::from_ns(60_000 + 8500), "seed {seed}");
    }
}

/// Both messages go over the link to rank 2.
const TWO_TO_ONE: &str = "num_ranks 3\n\
    rank 0 { s: send 1000b to 2 tag 0 }\n\
    rank 1 { s: send 1000b to 2 tag 0 }\n\
    rank 2 { a: recv 1000b from 0 tag 0\n b: recv 1000b from 1 tag 0 }";

fn star() -> Topology {
    Topology::parse("star:ranks=3,link=50ns,G=1ns", &mut |_| Err(String::new())).unwrap()
}

#[test]
fn loads_of_links_are_counted() {
    let machine = machine("plb:alpha_p=500ns,alpha_r=100ns").with_network(Arc::new(star()));
    let mut links = Links::default();
    Simulation::new(&program(TWO_TO_ONE), &machine).run_with(&mut links).unwrap();
    let load = |messages, waited_ns| LinkLoad {
        messages,
        bytes: messages * 1000,
        busy: Time::from_us(messages),
        waited: Time::from_ns(waited_ns),
    };
    // From the ranks 0 and 1 to the switch, and from there to rank 2, where the second message waits for the first.
    let expected = BTreeMap::from([(0, load(1, 0)), (1, load(1, 0)), (5, load(2, 1000))]);
    assert_eq!(links.loads, expected);
}

#[test]
fn networks_have_a_place_for_each_rank() {
    let plb = machine("plb:alpha_p=500ns,alpha_r=100ns");
    for (places, fits) in [(2, false), (3, true), (4, true)] {
        let star = format!("star:ranks={places},link=50ns,G=1ns");
        let star = Topology::parse(&star, &mut |_| Err(String::new())).unwrap();
        let machine = plb.clone().with_network(Arc::new(star));
        match Simulation::new(&program(TWO_TO_ONE), &machine).run() {
            Ok(_) => assert!(fits, "{places} places"),
            Err(error) => assert_eq!(
                (error, fits),
                (SimError::NetworkTooSmall { ranks: 3, places: 2 }, false),
                "{places} places"
            ),
        }
    }
}

/// Which links messages wait for is told only where they wait, and each message has its own number in the order of departure.
#[test]
fn instruments_are_told_who_waits_for_a_link_and_in_which_order_messages_depart() {
    #[derive(Default)]
    struct Told {
        departed: Vec<u64>,
        contended: Vec<(u64, u32, u64)>,
    }
    impl Instrument for Told {
        fn departed(&mut self, message: &Flight, _: Time) {
            self.departed.push(message.number);
        }
        fn contended(&mut self, message: &Flight, link: u32, from: Time, to: Time) {
            self.contended.push((message.number, link, (to - from).0 / 1000));
        }
    }
    let machine = machine("plb:alpha_p=500ns,alpha_r=100ns").with_network(Arc::new(star()));
    let told = |text: &str| {
        let mut told = Told::default();
        Simulation::new(&program(text), &machine).run_with(&mut told).unwrap();
        (told.departed, told.contended)
    };
    assert_eq!(told(TWO_TO_ONE), (vec![0, 1], vec![(1, 5, 1000)]));
    // Questions and answers are messages, too.
    let gets = "num_ranks 3\nrank 0 { scratchpad 16b\n g: get 8b from 1 at @0 into @0\n h: get 8b from 1 at @0 into @0\n\
                h requires g\n s: send 8b to 2 tag 0\n s requires h }\n\
                rank 1 { scratchpad 16b\n }\nrank 2 { r: recv 8b from 0 tag 0 }";
    assert_eq!(told(gets), (vec![0, 1, 2, 3, 4], vec![]));
}

#[test]
fn supersteps_have_no_network() {
    let machine = machine("bsp").with_network(Arc::new(star()));
    let error = Simulation::new(&program(TWO_TO_ONE), &machine).run().unwrap_err();
    assert_eq!(error, SimError::NoNetwork("bsp"));
}

/// What waits for a receive and has another processor does not wait for the time of that in LogGOPSim; where there is anything
/// that LogGOPSim does not know, it does.
#[test]
fn what_loggopsim_does_not_know_has_ends_wait_for_processors() {
    let machine = machine("loggops:L=1us,o=100ns,g=0,G=0,O=0,S=100");
    let end = |more: &str| {
        let text = format!(
            "num_ranks 2\nrank 0 {{ scratchpad 8b\n s: send 8b to 1 tag 0\n {more} }}\n\
             rank 1 {{ scratchpad 8b\n r: recv 8b from 0 tag 0\n c: calc 50 cpu 1\n c requires r\n\
             d: calc 400 cpu 1\n d requires c }}"
        );
        ends_ns(&text, &machine)[1]
    };
    assert_eq!(end(""), 1200.0);
    for more in [
        "x: calc 1 concurrent",
        "x: calc 1\n y: calc 1\n y requires x\n z: calc 1 any 1\n z requires x\n z requires y",
        "x: sleep 1",
        "x: proxy",
        "x: put 8b to 1 at @0 into @0",
        "x: get 8b from 1 at @0 into @0",
    ] {
        assert_eq!(end(more), 1650.0, "{more}");
    }
}

#[test]
fn messages_wait_for_links() {
    // Both go over the link from the switch to rank 2: one microsecond each, and two latencies of 50 ns.
    let plb = machine("plb:alpha_p=500ns,alpha_r=100ns");
    let met = plb.clone().with_network(Arc::new(star()));
    assert_eq!(ends_ns(TWO_TO_ONE, &plb)[2], 600.0);
    assert_eq!(ends_ns(TWO_TO_ONE, &met)[2], 600.0 + 2.0 * 50.0 + 1000.0 + 1000.0);
    // Bytes that the model charges are not charged again.
    for model in ["plb:alpha_p=500ns,alpha_r=100ns,beta=1ns", "lb:alpha=600ns,beta=1ns"] {
        let paid = Machine { model: Model::parse(model).unwrap(), ..met.clone() };
        assert_eq!(ends_ns(TWO_TO_ONE, &paid)[2], 600.0 + 2.0 * 50.0 + 1000.0 + 1000.0, "{model}");
    }
}

/// A ring in which everybody adds what comes to what it has, by messages, and then looks at the sum by put and get.
#[test]
fn data_are_carried_and_computed_under_every_model() {
    let ranks = 5u64;
    let mut text = format!("num_ranks {ranks}\n");
    for rank in 0..ranks {
        let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        text += &format!("rank {rank} {{\nscratchpad 48b\n");
        // @0 own value, @8 what goes on, @16 what came, @24 the sum.
        for step in 0..ranks - 1 {
            text += &format!(
                "s{step}: send 8b to {next} tag {step} at @8\n\
                 r{step}: recv 8b from {before} tag {step} at @16\n\
                 a{step}: local add u64 1 @24 @16 into @24\n\
                 c{step}: local copy u64 1 @16 into @8\n\
                 a{step} requires r{step}\nc{step} requires a{step}\nc{step} requires s{step}\n"
            );
            if step > 0 {
                text += &format!("s{step} requires c{0}\nr{step} requires c{0}\n", step - 1);
            }
        }
        let last = ranks - 2;
        text += &format!(
            "p: put 8b to {next} at @24 into @32\np requires c{last}\n\
             g: get 8b from {before} at @0 into @40\ng requires p\n}}\n"
        );
    }
    let program = program(&text);
    let word = |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let value = |rank: u64| 1000 + rank * rank;
    let start: Vec<Vec<u8>> = (0..ranks)
        .map(|rank| {
            let words = [value(rank), value(rank), 0, value(rank), 0, 0];
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        })
        .collect();
    let sum: u64 = (0..ranks).map(value).sum();
    for model in ["bsp", "lb", "logp", "loggp", "loggps", "loggops:S=0", "loggops", "lop", "logfp", "plb"] {
        let machine = machine(model);
        let outcome = Simulation::new(&program, &machine).with_memory(start.clone()).run();
        let memory = outcome.unwrap_or_else(|error| panic!("{model}: {error}")).memory.unwrap();
        for (rank, bytes) in (0..ranks).zip(&memory) {
            assert_eq!(word(bytes, 24), sum, "{model}, rank {rank}");
            assert_eq!(word(bytes, 32), sum, "{model}, what the put brought to rank {rank}");
            assert_eq!(word(bytes, 40), value((rank + ranks - 1) % ranks), "{model}, rank {rank}'s get");
        }
    }
}

#[test]
fn data_that_cannot_be_carried_are_refused() {
    let plb = machine("plb");
    let remote =
        "num_ranks 2\nrank 0 { scratchpad 8b\n p: put 8b to 1 at @0 into @4 }\nrank 1 { scratchpad 8b\n }";
    let error = Simulation::new(&program(remote), &plb).with_memory(Vec::new()).run().unwrap_err();
    assert!(error.to_string().contains("bytes 4 to 12 of rank 1's scratchpad, which has 8"), "{error}");
    let error = Simulation::new(&program(remote), &plb).with_memory(vec![vec![0; 3]]).run().unwrap_err();
    assert!(error.to_string().contains("scratchpad of 3 bytes, its graph has one of 8"), "{error}");
    assert_eq!(Simulation::new(&program(remote), &plb).run().unwrap().last_rank(), Some(Rank(0)));
}

#[test]
fn bsp_pays_for_its_busiest_rank() {
    let model = machine("bsp:g=10ns,G=1ns,l=1us");
    let text = "num_ranks 3\n\
        rank 0 { c: calc 500\n s: send 8b to 1 tag 0\n t: send 8b to 2 tag 0 }\n\
        rank 1 { r: recv 8b from 0 tag 0\n c: calc 100\n c requires r }\n\
        rank 2 { c: calc 700\n r: recv 8b from 0 tag 0 }";
    // One superstep: 700 + 2 (g + 8 G) + l; then rank 1 computes.
    let barrier = 700.0 + 2.0 * 18.0 + 1000.0;
    assert_eq!(ends_ns(text, &model), [500.0, barrier + 100.0, barrier]);
}

/// Each superstep has its own barrier, where times are drawn.
#[test]
fn supersteps_are_drawn_each_for_itself() {
    let text = "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0\n r: recv 8b from 1 tag 0 }\n\
                rank 1 { r: recv 8b from 0 tag 0\n s: send 8b to 0 tag 0\n s requires r }";
    let bsp = noisy("bsp:g=0,G=0,l=uniform(1us,1ms)");
    for seed in 0..5 {
        let outcome = Simulation::new(&program(text), &bsp).with_seed(seed).run().unwrap();
        let (first, both) = (outcome.end[1], outcome.end[0]);
        assert!(first > Time::ZERO && both > first && both - first != first, "{first}, {both}, seed {seed}");
    }
}

fn two_levels(within: &str, between: &str, host_of: &[u32]) -> Machine {
    let within = castell_sim::Within { model: Model::parse(within).unwrap(), host_of: host_of.into() };
    machine(between).with_hosts(within)
}

/// Rank 0 sends to its neighbour on the host and to one elsewhere: each message at its level's price.
#[test]
fn messages_within_hosts_cost_less() {
    let text = "num_ranks 3\n\
                rank 0 { a: send 100b to 1 tag 0\n b: send 100b to 2 tag 0\n b requires a }\n\
                rank 1 { a: recv 100b from 0 tag 0 }\n\
                rank 2 { a: recv 100b from 0 tag 0 }";
    let plb = two_levels(
        "plb:alpha_p=100ns,alpha_r=10ns,beta=0ns",
        "plb:alpha_p=5us,alpha_r=1us,beta=1ns",
        &[7, 7, 3],
    );
    assert_eq!(ends_ns(text, &plb), [1010.0, 110.0, 10.0 + 1000.0 + 5000.0 + 100.0]);
    let log =
        two_levels("loggp:L=100ns,o=10ns,g=0,G=0", "loggops:L=5us,o=1us,g=0,G=1ns,O=0,S=65535", &[0, 0, 1]);
    let ends = ends_ns(text, &log);
    assert_eq!(ends, [1010.0, 120.0, 10.0 + 1000.0 + 5000.0 + 1000.0 + 99.0]);
    // Who waits for its receive is a matter of the level, too.
    let late = "num_ranks 2\nrank 0 { s: send 100b to 1 tag 0 }\nrank 1 { c: calc 90000\n r: recv 100b from 0 tag 0\n r requires c }";
    let (small, large) = ("loggops:L=1us,o=1us,g=0,G=0,O=0,S=10", "loggops:L=1us,o=1us,g=0,G=0,O=0,S=65535");
    let ends = |host_of: &[u32]| ends_ns(late, &two_levels(small, large, host_of))[0];
    assert_eq!((ends(&[0, 0]), ends(&[0, 1])), (90000.0, 1000.0));
}

/// One host costs what the inner model says, hosts of one rank each what the outer one does, to the picosecond and for every pattern.
#[test]
fn one_level_is_a_case_of_two() {
    let (within, between) = ("loggops:L=300ns,o=150ns,g=10ns,G=0.1ns,O=0,S=4096", "loggops");
    for name in ["allreduce:recursive-doubling", "bcast:binomial", "alltoall:linear", "barrier:dissemination"]
    {
        let one = pattern(name, 8, 5000, &two_levels(within, between, &[0; 8]));
        assert_eq!(one, pattern(name, 8, 5000, &machine(within)), "{name}");
        let each = pattern(name, 8, 5000, &two_levels(within, between, &[0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(each, pattern(name, 8, 5000, &machine(between)), "{name}");
        let two = pattern(name, 8, 5000, &two_levels(within, between, &[0, 0, 0, 0, 1, 1, 1, 1]));
        assert!(one < two && two <= each, "{name}: {one} {two} {each}");
    }
}

#[test]
fn levels_that_do_not_go_together_are_refused() {
    let refused = |machine: &Machine, told: &str| {
        let options = Options::new(4);
        let pattern = Generator::parse("bcast:binomial", &options).unwrap();
        let error = Simulation::new(&pattern, machine).run().unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    };
    refused(&two_levels("plb", "loggops", &[0; 4]), "both have to be");
    refused(&two_levels("logp", "logp", &[0; 4]), "both have to be");
    refused(&two_levels("plb", "plb", &[0; 3]), "4 ranks, and hosts are given for 3");
}
