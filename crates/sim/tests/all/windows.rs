//! The parallel engine gives the results of the reference engine for any number of threads.

use crate::flat_programs::Shape;
use castell_base::Rank;
use castell_collectives::generator::{GENERATORS, Generator, Options};
use castell_goal::schedule::Schedule;
use castell_model::Model;
use castell_model::noise::{Detours, NoisyModel};
use castell_sim::fast::{Declined, Flat};
use castell_sim::instrument::Blind;
use castell_sim::{Job, Machine, Simulation, Source, Threads, Ties};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

struct Lent(usize);

impl Threads for Lent {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, jobs: Vec<Job<'_>>) {
        std::thread::scope(|scope| jobs.into_iter().for_each(|job| drop(scope.spawn(job))));
    }
}

const THREADS: [usize; 4] = [1, 2, 3, 8];

/// Machines on which ties, gaps and bytes matter in different ways.
const MODELS: [&str; 8] = [
    "loggops:L=2500ns,o=1500ns,g=1000ns,G=6ns,O=0,S=1000000",
    "loggops:L=1us,o=1us,g=1us,G=1ns,O=1ns,S=1000000",
    "loggops:L=10ns,o=20ns,g=5ns,G=0,O=0,S=1000000",
    "loggops:L=1ns,o=1ns,g=0,G=0,O=0,S=1000000",
    "loggops:L=1500ns,o=0,g=1500ns,G=1500ns,O=0,S=1000000",
    "plb:alpha_p=500ns,alpha_r=100ns,beta=0.4ns",
    "plb:alpha_p=1000ns,alpha_r=1000ns",
    "lb:alpha=1us,beta=1ns",
];

const NOISY: [&str; 6] = [
    "loggops:o=normal(1500ns,100ns),L=2500ns+exponential(200ns)",
    "loggops:g=uniform(0ns,3us),compute=normal(1,0.3)",
    "loggops:G=uniform(1ns,10ns),O=uniform(0ns,2ns),o=pareto(1us,3),S=1000000",
    "loggops:L=sample(1us,2us),o=sample(1us,2us)",
    "plb:alpha_p=880ns,alpha_r=uniform(100ns,380ns),beta=1ns",
    "lb:alpha=1us*lognormal(1,0.2)",
];

fn machine(text: &str) -> Machine {
    Machine::from(NoisyModel::parse(text, &mut |name| Err(name.to_owned())).expect("a model"))
}

/// Whether the program ran to its end rank by rank, as in the reference engine on any number of threads.
fn compare_rank_by_rank(source: Source<'_>, machine: &Machine, seed: u64, what: &str) -> bool {
    let Ok(flat) = Flat::new(source) else { return false };
    let mut ends = THREADS.map(|count| flat.run_rank_by_rank(machine, seed, &Lent(count))).into_iter();
    let first = ends.next().expect("several");
    assert!(ends.all(|other| other.as_ref().ok() == first.as_ref().ok()), "{what}: threads matter");
    let expected = Simulation::new(source, machine).with_seed(seed).run_with(Blind);
    match (expected, first) {
        (Ok(expected), Ok(got)) => {
            assert_eq!((expected.events, expected.end), (got.events, got.end), "{what}, rank by rank");
            true
        }
        (Err(error), Ok(_)) => panic!("{what}: {error}, which rank by rank is not noticed"),
        (Ok(_), Err(Declined::Mistake)) => panic!("{what}: there is no mistake"),
        (_, Err(_)) => false,
    }
}

/// Whether the program ran to its end, in all engines alike.
fn compare(source: Source<'_>, machine: &Machine, seed: u64, what: &str) -> Result<(), Declined> {
    let flat = Flat::new(source)?;
    let mut ends = THREADS.map(|count| flat.run_in_windows(machine, seed, &Lent(count))).into_iter();
    let first = ends.next().expect("several");
    assert!(ends.all(|other| other == first), "{what}: it depends on the number of threads");
    let expected = Simulation::new(source, machine).with_seed(seed).run_with(Blind);
    match (expected, first) {
        (Ok(expected), Ok(got)) => {
            assert_eq!((expected.events, expected.end), (got.events, got.end), "{what}")
        }
        (_, Err(declined)) if declined != Declined::Mistake => return Err(declined),
        (Err(_), Err(declined)) => return Err(declined),
        (expected, got) => panic!("{what}: reference {expected:?}, windows {got:?}"),
    }
    Ok(())
}

/// A machine of this model, with one rule of ties or the other and perhaps with detours, and programs that suit it.
fn drawn(text: &str, random: &mut ChaCha8Rng) -> (Machine, Shape) {
    let (mut machine, mut shape) = (machine(text), Shape::random(random));
    if random.random_bool(0.3) {
        machine = machine.with_ties(Ties::Rank);
    }
    if random.random_bool(0.2) {
        let detours = Detours::parse("0 500\n10000 1000\n23000 7000\n50000 100\n").expect("detours");
        machine = machine.with_detours(detours, random.random());
    }
    if machine.ties == Ties::Insertion {
        shape.processors = 1;
    }
    (machine, shape)
}

#[test]
fn ranks_that_run_one_by_one_end_as_in_the_reference_engine() {
    let (mut finished, mut declined) = (0, 0);
    for seed in 3000..4200 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let text = *[&MODELS[..], &NOISY].concat().choose(&mut random).expect("several");
        let (machine, mut shape) = drawn(text, &mut random);
        // Messages go from lower ranks to higher ones, or the other way round.
        shape.downhill = Some(random.random());
        shape.bytes_max = 8;
        let program = shape.program(&mut random);
        let what = format!("seed {seed}, {text}, {:?}", machine.ties);
        match compare_rank_by_rank(Source::Program(&program), &machine, seed, &what) {
            true => finished += 1,
            false => declined += 1,
        }
    }
    assert!(finished > 300 && declined > 20, "{finished} ran, {declined} did not");
}

#[test]
fn trees_run_rank_by_rank() {
    let machines = [MODELS[0], MODELS[5], MODELS[7], NOISY[0], NOISY[4]].map(machine);
    let mut finished = 0;
    for name in GENERATORS.iter().map(|generator| generator.name) {
        for (ranks, machine) in
            [1, 2, 27, 64, 100].into_iter().flat_map(|n| machines.iter().map(move |m| (n, m)))
        {
            let Ok(pattern) = Generator::parse(name, &Options::new(ranks)) else { continue };
            let what = format!("{name}, {ranks} ranks, {:?}", machine.model);
            finished += u32::from(compare_rank_by_rank(Source::Pattern(&*pattern), machine, 7, &what));
        }
    }
    assert!(finished > 100, "{finished} patterns ran to their end");
    // More ranks than go in one turn, so that the parties hand over in between.
    let pattern = Generator::parse("bcast:binomial", &Options::new(40_000)).expect("a known pattern");
    for machine in &machines {
        assert!(compare_rank_by_rank(Source::Pattern(&*pattern), machine, 7, "a large tree"));
    }
}

fn random_programs(seeds: std::ops::Range<u64>, models: &[&str]) -> u32 {
    let mut finished = 0;
    for seed in seeds {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let text = models[random.random_range(0..models.len())];
        let (machine, shape) = drawn(text, &mut random);
        let program = shape.program(&mut random);
        let what = format!("seed {seed}, {text}, {:?}", machine.ties);
        finished += u32::from(compare(Source::Program(&program), &machine, seed, &what).is_ok());
        let schedules: Result<Vec<Schedule>, _> =
            (0..shape.ranks).map(|rank| program.rank(Rank(rank)).compile()).collect();
        let schedules = schedules.expect("edges go forwards");
        // Whether it ends has been counted.
        let _ = compare(Source::Schedules(&schedules), &machine, seed, &format!("schedules of {what}"));
    }
    finished
}

#[test]
fn random_programs_end_as_in_the_reference_engine_on_any_number_of_threads() {
    let finished = random_programs(0..400, &MODELS);
    assert!(finished > 200, "most programs run to their end, {finished} did");
}

#[test]
fn noise_is_the_same_on_any_number_of_threads() {
    let finished = random_programs(1000..1300, &NOISY);
    assert!(finished > 100, "{finished} programs ran to their end");
}

#[test]
fn patterns_end_as_in_the_reference_engine_on_any_number_of_threads() {
    let mut finished = 0;
    let machines = [MODELS[0], MODELS[3], MODELS[5], NOISY[0], NOISY[4]].map(machine);
    for name in GENERATORS.iter().map(|generator| generator.name) {
        for (ranks, machine) in [2, 27, 64, 100, 33].into_iter().zip(&machines) {
            let Ok(pattern) = Generator::parse(name, &Options::new(ranks)) else { continue };
            let what = format!("{name}, {ranks} ranks, {:?}", machine.model);
            finished += u32::from(compare(Source::Pattern(&*pattern), machine, 7, &what).is_ok());
        }
    }
    assert!(finished > 40, "{finished} patterns ran to their end");
}

#[test]
fn messages_that_wait_for_one_rank_are_taken_in_as_in_the_reference_engine() {
    let mut whole = 0;
    for name in ["gather:linear", "reduce:linear", "barrier:linear", "gather:linear-sync", "reduce:binomial"]
    {
        for ranks in [2, 5, 30, 200] {
            for (seed, text) in (3..).zip(NOISY) {
                let pattern = Generator::parse(name, &Options::new(ranks)).expect("a known pattern");
                let what = format!("{name}, {ranks} ranks, {text}");
                let source = Source::Pattern(&*pattern);
                whole += u32::from(compare_rank_by_rank(source, &machine(text), seed, &what));
            }
        }
    }
    assert!(whole > 30, "{whole} ran rank by rank");
}

/// Messages that were sent at different times have a certain order, however many of them wait.
#[test]
fn messages_that_were_sent_one_after_the_other_are_let_in_so() {
    for ranks in [2, 3, 10, 60] {
        let mut text = format!("num_ranks {ranks}\nrank 0 {{\n");
        (1..ranks).for_each(|rank| text += &format!("r{rank}: recv 8b from {rank} tag 0\n"));
        text += "}\n";
        for rank in 1..ranks {
            let ns = rank * 7 % 61 * 10;
            text += &format!("rank {rank} {{ c: calc {ns}\n s: send 8b to 0 tag 0\n s requires c }}\n");
        }
        let program = castell_goal::text::parse(&text, "").expect("a program");
        // Receiving takes longer than what is between the messages.
        for text in [MODELS[0], MODELS[1], NOISY[0]] {
            let (source, machine) = (Source::Program(&program), machine(text));
            assert!(compare_rank_by_rank(source, &machine, 5, text), "{ranks} ranks, {text}");
        }
    }
}

/// Chains of messages of several sizes between two ranks, which are received in the order in which they were sent.
#[test]
fn messages_of_several_sizes_in_one_channel_cost_what_they_are() {
    let mut finished = [0, 0];
    for seed in 0..200 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let text = *[&MODELS[..], &NOISY].concat().choose(&mut random).expect("several");
        let machine = machine(text).with_ties([Ties::Insertion, Ties::Rank][seed as usize % 2]);
        let (ranks, downhill) = (random.random_range(2..7u32), random.random_bool(0.5));
        let mut program = castell_goal::program::Program::new(ranks);
        let mut last = std::collections::HashMap::new();
        for _ in 0..random.random_range(1..40) {
            let (from, to) = (random.random_range(0..ranks), random.random_range(0..ranks));
            let (from, to) = if downhill { (from.max(to), from.min(to)) } else { (from, to) };
            if from == to {
                continue;
            }
            let bytes = [1, 8, 5000][random.random_range(0..3)];
            let (void, tag) = (castell_goal::op::Place::VOID, castell_base::Tag(0));
            let send = program.rank_mut(Rank(from)).send(void, bytes, Rank(to), tag).expect("a small graph");
            let receive = program.rank_mut(Rank(to)).recv(void, bytes, Some(Rank(from)), Some(tag));
            let receive = receive.expect("a small graph");
            if let Some((before_send, before_receive)) = last.insert((from, to), (send, receive)) {
                program.rank_mut(Rank(from)).requires(before_send, send).expect("its vertices");
                program.rank_mut(Rank(to)).requires(before_receive, receive).expect("its vertices");
            }
            if random.random_bool(0.5) {
                let calc =
                    program.rank_mut(Rank(to)).calc(random.random_range(0..2000)).expect("a small graph");
                program.rank_mut(Rank(to)).requires(receive, calc).expect("its vertices");
            }
        }
        let (source, what) = (Source::Program(&program), format!("seed {seed}, {text}, {:?}", machine.ties));
        finished[0] += u32::from(compare(source, &machine, seed, &what).is_ok());
        finished[1] += u32::from(compare_rank_by_rank(source, &machine, seed, &what));
    }
    assert!(finished[0] > 60 && finished[1] > 30, "{finished:?} ran to their end");
}

/// Where times have no least value, windows are half as long as messages take on average: hardly any takes less.
#[test]
fn windows_go_by_the_mean_where_there_is_no_least_time() {
    for text in [
        "loggops:L=normal(2500ns,100ns),o=normal(1500ns,50ns)",
        "loggops:L=gamma(10us,1us),o=gamma(1us,100ns)",
    ] {
        let pattern = Generator::parse("barrier:dissemination", &Options::new(100)).expect("a known pattern");
        assert_eq!(compare(Source::Pattern(&*pattern), &machine(text), 3, text), Ok(()), "{text}");
    }
}

#[test]
fn machines_with_shared_links_or_hosts_are_left_to_the_reference_engine() {
    let star =
        castell_model::topology::Topology::parse("star:ranks=8,link=50ns,G=1ns", &mut |_| Err(String::new()));
    let star = std::sync::Arc::new(star.expect("a topology"));
    let pattern = Generator::parse("bcast:binomial", &Options::new(8)).expect("a known pattern");
    let flat = Flat::new(Source::from(&pattern)).expect("sends and receives");
    for text in [MODELS[0], MODELS[5], NOISY[0]] {
        let plain = machine(text);
        let hosts = castell_sim::Within { model: plain.model.clone(), host_of: [0; 8].into() };
        for other in [plain.clone().with_network(star.clone()), plain.clone().with_hosts(hosts)] {
            assert_eq!(flat.run_in_windows(&other, 0, &Lent(2)), Err(Declined::Machine), "{text}");
            assert_eq!(flat.run_rank_by_rank(&other, 0, &Lent(2)), Err(Declined::Machine), "{text}");
        }
        assert!(flat.run_rank_by_rank(&plain, 0, &Lent(2)).is_ok(), "{text}");
    }
}

#[test]
fn what_other_engines_have_to_do_is_declined() {
    let run = |text: &str, model: &str, ties| {
        let program = castell_goal::text::parse(text, "").expect("a program");
        let flat = Flat::new(Source::Program(&program)).expect("sends and receives");
        let machine = machine(model).with_ties(ties);
        let reference = Simulation::new(&program, &machine).run_with(Blind).expect("it ends");
        let ends = [flat.run_in_windows(&machine, 0, &Lent(2)), flat.run_rank_by_rank(&machine, 0, &Lent(2))];
        ends.map(|end| {
            end.map(|end| assert_eq!((end.events, end.end), (reference.events, reference.end.clone())))
        })
    };
    let one = "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0 }\nrank 1 { r: recv 8b from 0 tag 0 }";
    let (insertion, rank) = (Ties::Insertion, Ties::Rank);
    // Messages that wait for their receives, and messages that take no time.
    for model in ["loggops:S=0", "loggops:S=0,o=uniform(1us,2us)"] {
        for ties in [insertion, rank] {
            assert_eq!(run(one, model, ties), [Err(Declined::Lookahead); 2], "{model}");
        }
    }
    for model in ["plb:alpha_p=0,alpha_r=0,beta=0", "lb:alpha=0,beta=0"] {
        assert_eq!(run(one, model, rank), [Err(Declined::Lookahead); 2], "{model}");
    }
    let free = "loggops:L=0,o=0,g=0,G=0,O=0,S=9";
    assert_eq!(run(one, free, rank), [Err(Declined::Lookahead); 2]);
    assert_eq!(run(one, free, insertion), [Err(Declined::Lookahead), Ok(())]);
    // Several processors, or interfaces, under LogGOPSim's rule.
    for lane in ["cpu 1", "nic 1"] {
        let two = &one.replace("tag 0 }\nrank 1", &format!("tag 0 {lane} }}\nrank 1"));
        for model in [MODELS[0], NOISY[0]] {
            assert_eq!(run(two, model, insertion), [Err(Declined::Machine); 2], "{lane}, {model}");
            assert_eq!(run(two, model, rank), [Ok(()); 2], "{lane}, {model}");
        }
        assert_eq!(run(two, MODELS[5], rank), [Ok(()); 2], "{lane}");
    }
    // Models whose rule of ties it is not.
    for model in [MODELS[5], MODELS[7]] {
        assert_eq!(run(one, model, insertion), [Err(Declined::Machine); 2], "{model}");
        assert_eq!(run(one, model, rank), [Ok(()); 2], "{model}");
    }
    for model in ["logp", "lop", "logfp"] {
        assert_eq!(run(one, model, rank), [Err(Declined::Machine); 2], "{model}");
    }
    for model in ["loggp", "loggps", "loggops"] {
        assert_eq!(run(one, model, insertion), [Ok(()); 2], "{model}");
    }
    // Ranks without messages, and ranks that wait for one another in turns.
    let calcs =
        "num_ranks 3\nrank 0 { a: calc 5 }\nrank 1 { }\nrank 2 { a: calc 7\n b: calc 8\n b requires a }";
    let turns = "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0\n r: recv 8b from 1 tag 0 }\n\
                 rank 1 { s: send 8b to 0 tag 0\n r: recv 8b from 0 tag 0 }";
    for (model, ties) in [(MODELS[0], insertion), (MODELS[0], rank), (NOISY[0], insertion), (MODELS[5], rank)]
    {
        assert_eq!(run(calcs, model, ties), [Ok(()); 2], "{model}");
        assert_eq!(run(turns, model, ties), [Ok(()), Err(Declined::Turns)], "{model}");
    }
    // A message that comes when a computation ends, as long after it was sent as that began: nobody knows which is first.
    let together = "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0 }\n\
                    rank 1 { x: calc 4000\n y: calc 100\n y requires x\n r: recv 8b from 0 tag 0 }";
    assert_eq!(run(together, MODELS[0], insertion), [Ok(()), Err(Declined::Ties)]);
    let apart = together.replace("calc 4000", "calc 3999");
    assert_eq!(run(&apart, MODELS[0], insertion), [Ok(()); 2]);
    // Messages that nobody receives, before the receiver has all of its own or afterwards.
    let more = one.replace("s: send 8b to 1 tag 0", "s: send 8b to 1 tag 0\n t: send 8b to 1 tag 0");
    let late = "num_ranks 3\nrank 0 { s: send 8b to 1 tag 0 }\nrank 1 { r: recv 8b from -1 tag -1 }\n\
                rank 2 { c: calc 100000\n s: send 8b to 1 tag 0\n s requires c }";
    let early = more.replace("num_ranks 2", "num_ranks 3").replace(
        "from 0 tag 0 }",
        "from 0 tag 0\n q: recv 8b from 2 tag 0 }\nrank 2 { c: calc 100000\n s: send 8b to 1 tag 0\n s requires c }",
    );
    for (model, ties) in [(MODELS[0], insertion), (MODELS[0], rank), (NOISY[0], insertion), (MODELS[5], rank)]
    {
        for text in [&more, &early, late] {
            assert_eq!(run(text, model, ties), [Err(Declined::Mistake); 2], "{model} {text}");
        }
    }
}

/// A message that takes no time is there when its sender had its turn: what a lower rank does at that time it has begun.
#[test]
fn messages_that_take_no_time_come_when_the_reference_engine_says() {
    let free =
        ["plb:alpha_p=0,alpha_r=0,beta=0", "lb:alpha=0,beta=0", "loggops:L=0,o=0,g=0,G=0,O=0,S=1000000"];
    let text = "num_ranks 3\nrank 0 { c: calc 100\n r: recv 8b from 1 tag 0\n s: send 8b to 2 tag 0\n s requires r }\n\
                rank 1 { s: send 8b to 0 tag 0 }\nrank 2 { r: recv 8b from 0 tag 0 }";
    let program = castell_goal::text::parse(text, "").expect("a program");
    for text in &free[..2] {
        let end = Simulation::new(&program, &machine(text)).run().expect("it ends").end;
        assert_eq!(end, [100, 0, 100].map(castell_base::Time::from_ns), "{text}");
    }
    let mut finished = 0;
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let text = free[seed as usize % 3];
        let mut shape = Shape::random(&mut random);
        (shape.processors, shape.downhill) = (1, Some(random.random()));
        let (program, machine) = (shape.program(&mut random), machine(text));
        let what = format!("seed {seed}, {text}");
        finished += u32::from(compare_rank_by_rank(Source::Program(&program), &machine, seed, &what));
        let fastest = Simulation::new(&program, &machine).run();
        assert_eq!(fastest, Simulation::new(&program, &machine).run_with(Blind), "{what}");
    }
    assert!(finished > 20, "{finished} ran to their end rank by rank");
}

/// Windows are for programs in which much happens at a time: more than one event for each thousand ranks, and two more.
#[test]
fn windows_are_left_to_programs_that_fill_them() {
    // So many ranks send and answer, each for itself, the others are idle.
    let program = |ranks: u32, busy: u32| {
        let mut program = castell_goal::program::Program::new(ranks);
        let void = castell_goal::op::Place::VOID;
        for pair in 0..busy {
            let (one, other) = (Rank(2 * pair), Rank(2 * pair + 1));
            for (from, to, begins) in [(one, other, true), (other, one, false)] {
                let graph = program.rank_mut(from);
                let mut before = None;
                for round in 0..80 {
                    let tag = castell_base::Tag(round);
                    let order = if begins { [true, false] } else { [false, true] };
                    for sends in order {
                        let vertex = match sends {
                            true => graph.send(void, 8, to, tag).expect("a small graph"),
                            false => graph.recv(void, 8, Some(to), Some(tag)).expect("a small graph"),
                        };
                        if let Some(before) = before {
                            graph.requires(before, vertex).expect("its vertices");
                        }
                        if sends != begins || !sends {
                            before = Some(vertex);
                        }
                    }
                }
            }
        }
        program
    };
    let machine = machine("plb:alpha_p=500ns,alpha_r=100ns,beta=0");
    for (ranks, busy, is_sparse) in
        [(2, 1, true), (100, 1, true), (100, 8, false), (9000, 8, true), (9000, 80, false)]
    {
        let program = program(ranks, busy);
        let flat = Flat::new(Source::Program(&program)).expect("sends and receives");
        let run = flat.run_in_windows(&machine, 0, &Lent(1));
        assert_eq!(run == Err(Declined::Sparse), is_sparse, "{busy} of {ranks} ranks");
        if let Ok(finished) = run {
            let expected = Simulation::new(&program, &machine).run_with(Blind).expect("it ends");
            assert_eq!((finished.events, finished.end), (expected.events, expected.end));
        }
    }
}

#[test]
fn large_programs_are_shared_among_threads() {
    struct Counted(std::sync::atomic::AtomicUsize);
    impl Threads for Counted {
        fn count(&self) -> usize {
            3
        }
        fn run(&self, jobs: Vec<Job<'_>>) {
            self.0.fetch_add(jobs.len(), std::sync::atomic::Ordering::Relaxed);
            Lent(3).run(jobs);
        }
    }
    for (name, text) in
        [("barrier:dissemination", NOISY[0]), ("bcast:binomial", NOISY[3]), ("bcast:binomial", NOISY[4])]
    {
        let (threads, machine) = (Counted(0.into()), machine(text));
        let pattern = Generator::parse(name, &Options::new(5000)).expect("a known pattern");
        let alone = Simulation::new(&pattern, &machine).with_seed(3).run().expect("it ends");
        let together = Simulation::new(&pattern, &machine).with_seed(3).with_threads(&threads).run();
        assert_eq!(together.expect("it ends"), alone, "{name}, {text}");
        assert!(threads.0.load(std::sync::atomic::Ordering::Relaxed) >= 2, "{name} was not shared");
        let flat = Flat::new(Source::from(&pattern)).expect("sends and receives");
        if name.starts_with("barrier") {
            // Windows are as long as a message is on its way: much happens in each.
            assert!(flat.run_in_windows(&machine, 3, &threads).is_ok(), "{name} is done in windows");
        }
        if let Model::LogGops(model) = &machine.model {
            let sequential = flat.run_with_noise(model, &machine, 3).expect("it ends");
            assert_eq!((sequential.events, sequential.end), (alone.events, alone.end), "{name}, {text}");
        }
    }
}
