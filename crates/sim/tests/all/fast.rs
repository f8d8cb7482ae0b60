//! The fast engine gives the results of the reference engine: on random programs and on every pattern there is.

use crate::flat_programs::Shape;
use castell_base::{Rank, Tag, Time};
use castell_collectives::collective::ALGORITHMS;
use castell_collectives::generator::{GENERATORS, Generator, Options};
use castell_collectives::pattern::{Pattern, Rounds};
use castell_goal::graph::{Graph, GraphError};
use castell_goal::op::Place;
use castell_goal::schedule::Schedule;
use castell_model::noise::{Detours, NoisyModel};
use castell_model::{LogGops, Model};
use castell_sim::fast::{Declined, Finished, Flat};
use castell_sim::instrument::Blind;
use castell_sim::{Machine, OwnThread, SimError, Simulation, Source, Ties};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Machines on which ties, gaps, bytes and rendezvous matter in different ways.
const MODELS: [&str; 6] = [
    "loggops:L=2500ns,o=1500ns,g=1000ns,G=6ns,O=0,S=65535",
    "loggops:L=1us,o=1us,g=1us,G=1ns,O=1ns,S=65535",
    "loggops:L=10ns,o=20ns,g=5ns,G=0,O=0,S=60",
    "loggops:L=0,o=1ns,g=0,G=0,O=0,S=65535",
    "loggops:L=1500ns,o=1500ns,g=1500ns,G=1500ns,O=0,S=8",
    "loggops:L=0,o=0,g=0,G=0,O=0,S=0",
];

fn model(text: &str) -> LogGops {
    match Model::parse(text) {
        Ok(Model::LogGops(model)) => model,
        other => panic!("{text}: {other:?}"),
    }
}

/// What the reference engine says of it.
fn reference(source: Source<'_>, model: &LogGops) -> Result<Finished, SimError> {
    let machine = Machine::new(Model::LogGops(model.clone()));
    let outcome = Simulation::new(source, &machine).run_with(Blind)?;
    Ok(Finished { events: outcome.events, end: outcome.end })
}

/// Both engines on one program. The fast one may decline only what the reference engine has objections against.
fn compare(source: Source<'_>, model: &LogGops, what: &str) -> bool {
    let expected = reference(source, model);
    match (expected, Flat::new(source).and_then(|flat| flat.run(model))) {
        (Ok(expected), Ok(got)) => assert_eq!(expected, got, "{what}"),
        (Err(_), Err(_)) => return false,
        (expected, got) => panic!("{what}: reference {expected:?}, fast {got:?}"),
    }
    true
}

#[test]
fn random_programs_end_as_in_the_reference_engine() {
    let mut finished = 0;
    for seed in 0..600 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let shape = Shape::random(&mut random);
        let program = shape.program(&mut random);
        let model = model(MODELS[random.random_range(0..MODELS.len())]);
        finished += u32::from(compare(Source::Program(&program), &model, &format!("seed {seed}")));
        let schedules: Result<Vec<Schedule>, _> =
            (0..shape.ranks).map(|rank| program.rank(Rank(rank)).compile()).collect();
        let schedules = schedules.expect("edges go forwards");
        compare(Source::Schedules(&schedules), &model, &format!("schedules of seed {seed}"));
    }
    assert!(finished > 300, "most programs run to their end, {finished} did");
}

#[test]
fn noise_is_the_same_in_both_engines() {
    let texts = [
        "loggops:o=normal(1500ns,100ns),L=2500ns+exponential(200ns)",
        "loggops:g=uniform(0ns,3us),compute=normal(1,0.3)",
        "loggops:G=uniform(1ns,10ns),O=uniform(0ns,2ns),o=pareto(1us,3),S=60",
    ];
    let detours = Detours::parse("0 500\n10000 1000\n23000 7000\n50000 100\n").expect("detours");
    let mut finished = 0;
    for seed in 1000..1200 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let program = Shape::random(&mut random).program(&mut random);
        let text = texts[random.random_range(0..texts.len())];
        let noisy = NoisyModel::parse(text, &mut |name| Err(name.to_owned())).expect("a model");
        let Model::LogGops(model) = noisy.model.clone() else { panic!("{text}") };
        let mut machine = Machine::from(noisy);
        if random.random() {
            machine = machine.with_detours(detours.clone(), random.random());
        }
        let expected = Simulation::new(&program, &machine).with_seed(seed).run_with(Blind);
        let flat = Flat::new(Source::Program(&program)).ok();
        match (expected, flat.and_then(|flat| flat.run_with_noise(&model, &machine, seed).ok())) {
            (Ok(expected), Some(got)) => {
                assert_eq!((expected.events, expected.end), (got.events, got.end), "seed {seed}, {text}");
                finished += 1;
            }
            (Err(_), None) => {}
            (expected, got) => panic!("seed {seed}, {text}: reference {expected:?}, fast {got:?}"),
        }
    }
    assert!(finished > 50, "{finished} programs ran to their end");
}

#[test]
fn patterns_end_as_in_the_reference_engine() {
    let collectives = ALGORITHMS.iter().map(|algorithm| algorithm.name);
    let words = ["allreduce:rabenseifner", "allreduce:hierarchical", "allreduce:direct"];
    for name in GENERATORS.iter().map(|generator| generator.name).chain(collectives).chain(words) {
        for ranks in [1, 2, 3, 4, 5, 7, 8, 13, 16, 27, 64, 100] {
            for bytes in [8, 100_000] {
                let options = Options { bytes, ..Options::new(ranks) };
                let Ok(pattern) = Generator::parse(name, &options) else { continue };
                let what = format!("{name}, {ranks} ranks, {bytes} bytes");
                compare(Source::Pattern(&*pattern), &LogGops::default(), &what);
            }
        }
    }
}

/// All others send to rank 0, which computes and answers now and then: many messages wait for its processors.
fn many_to_one(random: &mut ChaCha8Rng, processors: u32) -> String {
    let ranks = random.random_range(2..12);
    let messages = random.random_range(1..12);
    let (mut root, mut others) = (String::new(), String::new());
    for rank in 1..ranks {
        let mut other = String::new();
        for message in 0..messages {
            let name = format!("{rank}_{message}");
            let bytes = [1, 8, 100][random.random_range(0..3)];
            let cpu = random.random_range(0..processors);
            other += &format!("s{name}: send {bytes}b to 0 tag {message} cpu {cpu} nic {cpu}\n");
            root += &format!("r{name}: recv {bytes}b from {rank} tag {message}\n");
            match random.random_range(0..6) {
                0 => {
                    root +=
                        &format!("c{name}: calc {}\nc{name} requires r{name}\n", random.random_range(0..4))
                }
                1 => {
                    root += &format!("a{name}: send 8b to {rank} tag 99\na{name} requires r{name}\n");
                    other += &format!("a{name}: recv 8b from 0 tag 99\n");
                }
                2 => {
                    other +=
                        &format!("c{name}: calc {}\ns{name} requires c{name}\n", random.random_range(0..9))
                }
                _ => {}
            }
        }
        others += &format!("rank {rank} {{\n{other}}}\n");
    }
    format!("num_ranks {ranks}\nrank 0 {{\n{root}}}\n{others}")
}

#[test]
fn messages_that_wait_for_one_rank_are_taken_in_as_in_the_reference_engine() {
    for seed in 0..400 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Messages for different processors do not wait for one another.
        let processors = [1, 3][seed as usize % 2];
        let text = many_to_one(&mut random, processors);
        let program = castell_goal::text::parse(text, "").expect("a program");
        for text in MODELS {
            compare(Source::Program(&program), &model(text), &format!("seed {seed}, {text}"));
        }
    }
}

#[test]
fn one_rank_stands_for_all_where_all_do_the_same() {
    let mut in_rounds = 0;
    for name in GENERATORS
        .iter()
        .map(|generator| generator.name)
        .chain(["allreduce:m1g2a3,n1g3a2", "allreduce:a3,a3,a3"])
    {
        for ranks in [1, 2, 3, 5, 7, 8, 16, 27, 64, 100] {
            for (text, compute) in MODELS.into_iter().zip([0, 10, 0, 3, 1500, 0]) {
                let compute = castell_base::Time::from_ns(compute);
                let options = Options { bytes: 8, compute, ways: 1 + ranks % 3, ..Options::new(ranks) };
                let Ok(pattern) = Generator::parse(name, &options) else { continue };
                let model = model(text);
                let Ok(finished) = castell_sim::rounds::run(&*pattern, &model) else { continue };
                let expected = reference(Source::Pattern(&*pattern), &model).expect("it can be run");
                assert_eq!(finished, expected, "{name}, {ranks} ranks, {text}, {compute}");
                in_rounds += 1;
            }
        }
    }
    assert!(in_rounds > 100, "{in_rounds} were in rounds");
}

/// What is told of a run's progress: how many operations have been carried out, at last all of them; 0 where the reference
/// engine takes over.
#[test]
fn progress_is_told() {
    let told = |source: Source<'_>, text: &str| {
        let noisy = NoisyModel::parse(text, &mut |name| Err(name.to_owned())).expect(text);
        let (told, machine) = (std::cell::RefCell::new(Vec::new()), Machine::from(noisy));
        let tell = |operations| told.borrow_mut().push(operations);
        let outcome = Simulation::new(source, &machine).with_progress(&tell).run();
        (told.into_inner(), outcome.map(|outcome| outcome.events).ok())
    };
    // Sequentially, rank by rank, and in windows.
    for (name, ranks, model) in [
        ("allgather:bruck", 13, "loggops:S=1"),
        ("bcast:binomial", 1000, "loggops"),
        ("gather:linear", 60_000, "loggops:S=1"),
        ("bcast:binomial", 40_000, "plb"),
        ("barrier:dissemination", 5000, "plb"),
        // Once: where times are drawn, hardly any two are the same, and the order of events follows from them.
        ("barrier:dissemination", 5000, "loggops:o=normal(1500ns,100ns),L=2500ns+exponential(200ns)"),
    ] {
        let pattern = Generator::parse(name, &Options::new(ranks)).expect("a known pattern");
        let program = pattern.program().expect("it fits");
        let (told, events) = told(Source::Program(&program), model);
        let operations = program.operations();
        assert_eq!(told.last(), Some(&operations), "{name} {model}");
        assert!(told.is_sorted() && events > Some(operations), "{name} {model}: {told:?}");
        // More than are carried out between two reports.
        assert!(told.len() > 1 || operations < 1 << 18, "{name} {model}: {told:?}");
        assert!(told.len() == 1 || name != "allgather:bruck", "now and then only: {told:?}");
    }
    let text = "num_ranks 1\nrank 0 { a: calc 5 concurrent }";
    let program = castell_goal::text::parse(text, "").expect("a program");
    assert_eq!(told(Source::Program(&program), "loggops"), (vec![0], Some(1)));
    // Sequentially each time that so many are done, and in the end.
    let text = "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0\n r: recv 8b from 1 tag 0 }\n\
                rank 1 { s: send 8b to 0 tag 0\n r: recv 8b from 0 tag 0 }";
    let mut program = castell_goal::text::parse(text, "").expect("a program");
    for rank in [0, 1] {
        let graph = program.rank_mut(Rank(rank));
        let mut before = graph.calc(1).expect("room");
        for _ in 0..300_000 {
            let next = graph.calc(1).expect("room");
            graph.requires(before, next).expect("its vertices");
            before = next;
        }
    }
    let operations = program.operations();
    let (told, events) = told(Source::Program(&program), "loggops");
    assert_eq!(events, Some(operations + 2));
    let [first, second, last] = told[..] else { panic!("{told:?}") };
    assert!(first >= 1 << 18 && second >= first + (1 << 18) && last == operations, "{told:?}");
}

/// Times beyond what the fast engines count with, 2^62 ps, are what the reference engine says; also in parts.
#[test]
fn long_times_are_those_of_the_reference_engine() {
    // In ns: 2^62 ps are 4.61e15.
    for (first, second) in [
        (4_600_000_000_000_000u64, 1u64),
        (4_611_686_018_427_387, 0),
        (4_611_686_018_427_388, 0),
        (4_611_686_018_427_386, 2),
        (2_400_000_000_000_000, 2_400_000_000_000_000),
        (9_000_000_000_000_000, 9_000_000_000_000_000),
    ] {
        let texts = [
            format!("num_ranks 1\nrank 0 {{ a: calc {first}\n b: calc {second}\n b requires a }}"),
            format!(
                "num_ranks 2\nrank 0 {{ a: calc {first}\n s: send 8b to 1 tag 0\n s requires a }}\n\
                 rank 1 {{ r: recv 8b from 0 tag 0\n b: calc {second}\n b requires r }}"
            ),
            format!(
                "num_ranks 2\nrank 0 {{ s: send 8b to 1 tag 0 }}\n\
                 rank 1 {{ a: calc {first}\n r: recv 8b from 0 tag 0\n b: calc {second}\n b requires r\n b requires a }}"
            ),
        ];
        for text in texts {
            let program = castell_goal::text::parse(&text, "").expect("a program");
            for model in [
                "loggops",
                "loggops:L=0,o=0,g=0,G=0,O=0,S=100",
                "loggops:L=1000000s,o=1000000s,g=1000000s,G=0,O=0,S=100",
                "loggops:L=5000000s,o=5000000s,g=5000000s,G=0,O=0,S=100",
                "loggops:L=1us,o=1us,g=1us,G=600000s,O=600000s,S=100",
                "plb:alpha_p=5000000s,alpha_r=5000000s",
                "loggops:o=uniform(1us,2us)",
                "loggops:o=uniform(1us,2us),G=uniform(1ns,2ns)",
                "loggops:compute=normal(1,0.1)",
                "plb",
                "plb:alpha_r=uniform(1us,2us)",
                "lb",
            ] {
                let noisy = NoisyModel::parse(model, &mut |name| Err(name.to_owned())).expect(model);
                for ties in [Ties::Insertion, Ties::Rank] {
                    let machine = Machine::from(noisy.clone()).with_ties(ties);
                    let run = || Simulation::new(&program, &machine).with_seed(3);
                    let (fastest, reference) = (run().run(), run().run_with(Blind));
                    assert_eq!(fastest, reference, "{model} {ties:?} {text}");
                }
            }
        }
    }
}

/// Operations that wait for as many others as one counter of either width takes, and for more.
#[test]
fn operations_wait_for_any_number_of_others() {
    let counts = [1, 2, 122, 123, 124, 125, 126, 127, 128, 129, 255, 256, 257, 400];
    // Where any tag will do, receives are searched and keep no state.
    for (others, tag) in counts.into_iter().flat_map(|others| [(others, None), (others, Some(Tag(0)))]) {
        let mut program = castell_goal::program::Program::new(2);
        let void = castell_goal::op::Place::VOID;
        for rank in [0, 1] {
            let graph = program.rank_mut(Rank(rank));
            let all: Vec<_> = (0..others).map(|ns| graph.calc(ns % 7).expect("a small graph")).collect();
            // A receive keeps its message's state in the same counter; one message comes early, one late.
            let last = graph.recv(void, 8, Some(Rank(1 - rank)), tag).expect("a small graph");
            let send = graph.send(void, 8, Rank(1 - rank), castell_base::Tag(0)).expect("a small graph");
            for before in all {
                graph.requires(before, last).expect("its vertices");
                if rank == 1 {
                    graph.requires(before, send).expect("its vertices");
                }
            }
        }
        for text in MODELS {
            assert!(compare(Source::Program(&program), &model(text), &format!("{others} others, {text}")));
        }
    }
}

/// The same, of a receive whose message comes before any of these is done.
#[test]
fn messages_come_before_any_of_what_their_receive_waits_for() {
    for others in [1, 2, 63, 64, 124, 125, 126, 127, 128, 254, 255, 256] {
        // As many are waited for at either rank.
        let mut sender =
            String::from("e: send 8b to 1 tag 0\n w: calc 900000\n s: send 8b to 1 tag 1\n s requires w\n");
        let mut receiver = String::from("g: recv 8b from 0 tag 1\n r: recv 8b from 0 tag 0\n");
        sender += "j: calc 1\n";
        for other in 0..others {
            sender += &format!("c{other}: calc 1\nc{other} requires s\nj requires c{other}\n");
            receiver += &format!("c{other}: calc 3\nc{other} requires g\nr requires c{other}\n");
        }
        let text = format!("num_ranks 2\nrank 0 {{\n{sender}}}\nrank 1 {{\n{receiver}}}");
        let program = castell_goal::text::parse(text, "").expect("a program");
        for text in MODELS {
            // None of them is so small that a message waits for its receive.
            let model = LogGops { eager_bytes_max: 65_535, ..model(text) };
            assert!(compare(Source::Program(&program), &model, &format!("{others} others, {text}")));
        }
    }
}

/// All ranks receive from the same two neighbours in one order; rank 0 sends in another order than the rest.
struct Turned(u32);

impl Pattern for Turned {
    fn ranks(&self) -> u32 {
        self.0
    }

    fn name(&self) -> String {
        "turned".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        for i in 0..2 {
            graph.send(Place::VOID, 8, self.to(0, rank, i), Tag(0))?;
        }
        for i in 0..2 {
            let receive = graph.recv(Place::VOID, 8, Some(self.from(0, rank, i)), Some(Tag(0)))?;
            let calc = graph.calc(100)?;
            graph.requires(receive, calc)?;
        }
        Ok(())
    }

    fn operations(&self, _rank: Rank) -> u64 {
        6
    }

    fn rounds(&self) -> Option<&dyn Rounds> {
        Some(self)
    }
}

impl Rounds for Turned {
    fn count(&self) -> u32 {
        1
    }

    fn fan(&self, _round: u32) -> u32 {
        2
    }

    fn to(&self, _round: u32, rank: Rank, i: u32) -> Rank {
        let ahead = if rank.0 == 0 { 1 + i } else { 2 - i };
        Rank((rank.0 + ahead) % self.0)
    }

    fn from(&self, _round: u32, rank: Rank, i: u32) -> Rank {
        Rank((rank.0 + self.0 - 1 - i) % self.0)
    }

    fn bytes(&self, _round: u32) -> u64 {
        8
    }

    fn compute(&self, _round: u32) -> Time {
        Time::ZERO
    }
}

#[test]
fn ranks_that_send_in_another_order_are_not_taken_for_the_same() {
    let pattern = Turned(7);
    let flat = Flat::new(Source::Pattern(&pattern)).expect("sends and receives");
    assert_eq!(flat.shapes(), 2);
    for text in MODELS {
        assert!(compare(Source::Pattern(&pattern), &model(text), text) || text.ends_with("S=0"));
    }
}

/// A ring whose rounds say another size than its graphs have, in which rank 0 sends and receives less than the others.
struct Misleading(u32);

impl Misleading {
    fn bytes_of(&self, rank: Rank) -> u64 {
        if rank.0 == 0 || rank.0 == self.0 - 1 { 100 } else { 10_000 }
    }
}

impl Pattern for Misleading {
    fn ranks(&self) -> u32 {
        self.0
    }

    fn name(&self) -> String {
        "misleading".into()
    }

    fn build(&self, rank: Rank, graph: &mut Graph) -> Result<(), GraphError> {
        let (next, before) = (self.to(0, rank, 0), self.from(0, rank, 0));
        graph.send(Place::VOID, self.bytes_of(rank), next, Tag(0))?;
        graph.recv(Place::VOID, self.bytes_of(before), Some(before), Some(Tag(0)))?;
        Ok(())
    }

    fn operations(&self, _rank: Rank) -> u64 {
        2
    }

    fn rounds(&self) -> Option<&dyn Rounds> {
        Some(self)
    }
}

impl Rounds for Misleading {
    fn count(&self) -> u32 {
        1
    }

    fn fan(&self, _round: u32) -> u32 {
        1
    }

    fn to(&self, _round: u32, rank: Rank, _i: u32) -> Rank {
        Rank((rank.0 + 1) % self.0)
    }

    fn from(&self, _round: u32, rank: Rank, _i: u32) -> Rank {
        Rank((rank.0 + self.0 - 1) % self.0)
    }

    fn bytes(&self, _round: u32) -> u64 {
        8
    }

    fn compute(&self, _round: u32) -> Time {
        Time::ZERO
    }
}

#[test]
fn graphs_count_and_not_what_is_said_of_them() {
    let pattern = Misleading(6);
    assert_eq!(Flat::new(Source::Pattern(&pattern)).expect("sends and receives").shapes(), 4);
    assert!(compare(Source::Pattern(&pattern), &model(MODELS[0]), "misleading"));
}

/// Programs that never end are none for any engine, though each operation that there is may have begun: a receive without a
/// message, and receives among which messages are not as many from each sender.
#[test]
fn ranks_that_wait_forever_are_noticed() {
    let two_senders = |first: &str, second: &str, receives: &str| {
        let sends = |rank: u32, count: &str| {
            let lines = count.chars().map(|tag| format!("send 8b to 2 tag {tag}\n"));
            format!("rank {rank} {{\n{} }}\n", lines.collect::<String>())
        };
        format!("num_ranks 3\n{}{}rank 2 {{\n{receives} }}", sends(0, first), sends(1, second))
    };
    let (from_0, from_1) = ("recv 8b from 0 tag 0\n", "recv 8b from 1 tag 0\n");
    let each_twice = [from_0, from_0, from_1, from_1].concat();
    for text in [
        "num_ranks 2\nrank 0 { r: recv 8b from 1 tag 0 }\nrank 1 { c: calc 5 }".to_owned(),
        "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0 }\nrank 1 { r: recv 8b from 0 tag 0\n q: recv 8b from 0 tag 1 }"
            .to_owned(),
        // As many messages as receives.
        two_senders("000", "0", &each_twice),
        two_senders("0", "000", &each_twice),
        two_senders("00", "", &[from_0, from_1].concat()),
        two_senders("00", "0", "recv 8b from 0 tag 0\nrecv 8b from -1 tag 1\nrecv 8b from 1 tag 0"),
        two_senders("0", "0", &[from_0, from_1, "recv 8b from -1 tag -1\n"].concat()),
        two_senders("0", "0", &[from_0, from_0, from_1].concat()),
    ] {
        let program = castell_goal::text::parse(&text, "").expect("a program");
        let flat = Flat::new(Source::Program(&program));
        for model in ["loggops", "loggops:o=uniform(1us,2us)", "loggops:L=normal(2us,100ns)", "plb", "lb"] {
            let noisy = NoisyModel::parse(model, &mut |name| Err(name.to_owned())).expect(model);
            for ties in [Ties::Insertion, Ties::Rank] {
                let machine = Machine::from(noisy.clone()).with_ties(ties);
                let expected = Simulation::new(&program, &machine).run_with(Blind);
                assert!(matches!(expected, Err(SimError::Deadlock(_))), "{model}: {expected:?} {text}");
                let Ok(flat) = &flat else { continue };
                assert!(flat.run_in_windows(&machine, 0, &OwnThread).is_err(), "{model} {ties:?} {text}");
                assert!(flat.run_rank_by_rank(&machine, 0, &OwnThread).is_err(), "{model} {ties:?} {text}");
                if let Model::LogGops(model) = &machine.model {
                    assert_eq!(flat.run(model), Err(Declined::Mistake), "{text}");
                    let noisy = flat.run_with_noise(model, &machine, 0);
                    assert_eq!(noisy, Err(Declined::Mistake), "{text}");
                }
            }
        }
    }
}

/// What both ends of a message to oneself have waiting for them is released together, and sends go first.
#[test]
fn both_ends_of_a_rendezvous_with_oneself_go_on_together() {
    for late in ["", "w: calc 90000\n r requires w"] {
        for (after_send, after_receive) in [("c", "t"), ("t", "c")] {
            for started in ["", "e: calc 300\n e irequires r", "t irequires r"] {
                let text = format!(
                    "num_ranks 1\nrank 0 {{ s: send 100b to 0 tag 0\n r: recv 100b from 0 tag 0\n {late}\n\
                     c: calc 500\n t: send 8b to 0 tag 1\n q: recv 8b from 0 tag 1\n d: calc 1000\n d requires q\n\
                     {after_send} requires s\n {after_receive} requires r\n {started} }}"
                );
                let program = castell_goal::text::parse(&text, "").expect("a program");
                for text in MODELS {
                    // The small message waits for nobody.
                    let model = LogGops { eager_bytes_max: 8, ..model(text) };
                    assert!(compare(Source::Program(&program), &model, &format!("{text} {program:?}")));
                }
            }
        }
    }
}

/// Operations on a circle never begin, whatever else there is to be done.
#[test]
fn operations_that_wait_for_one_another_are_noticed() {
    let text = "num_ranks 2\nrank 0 { s: send 8b to 1 tag 0\n c: calc 1 }\n\
                rank 1 { r: recv 8b from 0 tag 0\n a: calc 1\n b: calc 2\n b requires a }";
    let mut program = castell_goal::text::parse(text, "").expect("a program");
    let [a, b] = [1, 2].map(castell_goal::graph::Vertex);
    program.rank_mut(Rank(1)).requires(b, a).expect("its vertices");
    let flat = Flat::new(Source::Program(&program)).expect("sends, receives and calcs");
    for model in ["loggops", "loggops:o=uniform(1us,2us)", "plb"] {
        let noisy = NoisyModel::parse(model, &mut |name| Err(name.to_owned())).expect(model);
        let ties = if model == "plb" { Ties::Rank } else { Ties::Insertion };
        let machine = Machine::from(noisy).with_ties(ties);
        assert!(Simulation::new(&program, &machine).run_with(Blind).is_err(), "{model}");
        assert_eq!(flat.run_in_windows(&machine, 0, &OwnThread), Err(Declined::Mistake), "{model}");
        assert_eq!(flat.run_rank_by_rank(&machine, 0, &OwnThread), Err(Declined::Mistake), "{model}");
        if let Model::LogGops(model) = &machine.model {
            assert_eq!(flat.run(model), Err(Declined::Mistake));
            assert_eq!(flat.run_with_noise(model, &machine, 0), Err(Declined::Mistake));
        }
    }
}

/// Of ranks that do the same, one whose receive has another size than its message is found among the others.
#[test]
fn sizes_that_do_not_fit_are_noticed_at_any_rank() {
    for wrong in 0..6 {
        let rank = |rank: u32| {
            let (next, before, bytes) = ((rank + 1) % 6, (rank + 5) % 6, if rank == wrong { 9 } else { 8 });
            format!("rank {rank} {{ s: send 8b to {next} tag 0\n r: recv {bytes}b from {before} tag 0 }}\n")
        };
        let text = format!("num_ranks 6\n{}", (0..6).map(rank).collect::<String>());
        let program = castell_goal::text::parse(text, "").expect("a program");
        assert!(!compare(Source::Program(&program), &model(MODELS[0]), &format!("at rank {wrong}")));
    }
}

/// A peer behind the last rank is a mistake, whatever is to be done with it.
#[test]
fn peers_that_are_no_ranks_are_declined() {
    for (message, fits) in
        [("recv 8b from 1", true), ("recv 8b from 2", false), ("send 8b to 2 tag 0", false)]
    {
        let text = format!("num_ranks 2\nrank 0 {{ {message} }}\nrank 1 {{ }}");
        let program = castell_goal::text::parse(&text, "").expect("a program");
        let declined = Flat::new(Source::Program(&program)).err();
        assert_eq!(declined, (!fits).then_some(Declined::Mistake), "{message}");
    }
}

/// The receive at the place that another rank of a sender's shape has found might be one of the next shape.
#[test]
fn receives_are_looked_for_in_their_own_shape() {
    // The ranks 0 and 1 have one shape. Rank 2's receive is its second operation; rank 3 has but one, and rank 4's shape, which begins
    // there, begins with a receive like that.
    let text = "num_ranks 5\nrank 0 { s: send 8b to 2 tag 0 }\nrank 1 { s: send 8b to 3 tag 0 }\n\
                rank 2 { c: calc 9\n r: recv 8b from 0 tag 0\n s: send 8b to 4 tag 0 }\n\
                rank 3 { r: recv 8b from 1 tag 0 }\nrank 4 { r: recv 8b from 2 tag 0\n c: calc 7\n c requires r }";
    let program = castell_goal::text::parse(text, "").expect("a program");
    assert_eq!(Flat::new(Source::Program(&program)).expect("sends, receives and calcs").shapes(), 4);
    for text in MODELS {
        assert!(compare(Source::Program(&program), &model(text), text));
    }
}

/// Times beyond 2^62 ps are declined by each engine, wherever they come from.
#[test]
fn times_beyond_what_engines_count_with_are_declined() {
    let flat = |text: &str| {
        let program = castell_goal::text::parse(text, "").expect("a program");
        Flat::new(Source::Program(&program))
    };
    // 2^62 ps are 4_611_686_018_427_387.9 ns.
    let longest = "num_ranks 1\nrank 0 { a: calc 4611686018427387 }";
    let longer = "num_ranks 1\nrank 0 { a: calc 4611686018427388 }";
    assert_eq!(flat(longer).err(), Some(Declined::Time));
    // Exactly then, at both ranks, and nothing takes no time there.
    let text = "num_ranks 2\n\
                rank 0 { a: calc 4611686018427387\n s: send 8b to 1 tag 0\n s requires a\n c: calc 0\n c requires s }\n\
                rank 1 { r: recv 8b from 0 tag 0 }";
    for (picoseconds, fits) in [(904, true), (905, false)] {
        let model = Model::parse(&format!("plb:alpha_p=0,alpha_r={picoseconds}ps,beta=0")).expect("a model");
        let (flat, machine) = (flat(text).expect("short enough"), Machine::new(model));
        let ends = [1 << 62, 1 << 62].map(Time).to_vec();
        let expected = if fits { Ok(ends) } else { Err(Declined::Time) };
        assert_eq!(flat.run_in_windows(&machine, 0, &OwnThread).map(|run| run.end), expected);
        assert_eq!(flat.run_rank_by_rank(&machine, 0, &OwnThread).map(|run| run.end), expected);
    }
    // The same in LogGOPSim's order, where the message takes its receiver's time, which is none here.
    let text = text.replace("0 tag 0 }", "0 tag 0\n d: calc 0\n d requires r }");
    for (picoseconds, fits) in [(904, true), (905, false)] {
        let latency = format!("loggops:L={picoseconds}ps,o=0,g=0,G=0,O=0,S=100");
        let flat = flat(&text).expect("short enough");
        for noise in ["", ",compute=uniform(1,1)"] {
            let noisy = NoisyModel::parse(&format!("{latency}{noise}"), &mut |name| Err(name.to_owned()));
            let machine = Machine::from(noisy.expect("a model"));
            let Model::LogGops(model) = &machine.model else { panic!("{latency}") };
            for run in [
                flat.run(model),
                flat.run_with_noise(model, &machine, 0),
                flat.run_in_windows(&machine, 0, &OwnThread),
                flat.run_rank_by_rank(&machine, 0, &OwnThread),
            ] {
                let ends = [(1 << 62) - 904, 1 << 62].map(Time);
                assert_eq!(run.ok().map(|run| run.end), fits.then(|| ends.to_vec()), "{latency}{noise}");
            }
        }
    }
    // The second one begins in time, and ends too late.
    let twice = "num_ranks 1\nrank 0 { a: calc 4600000000000000\n b: calc 4600000000000000\n b requires a }";
    // So late that 64 bits do not have it.
    let often = "num_ranks 1\nrank 0 { a: calc 4600000000000000\n b: calc 4600000000000000\n b requires a\n\
                 c: calc 4600000000000000\n c requires b\n d: calc 4600000000000000\n d requires c\n\
                 e: calc 4600000000000000\n e requires d }";
    for (text, fits) in [(longest, true), (twice, false), (often, false)] {
        let flat = flat(text).expect("short enough");
        for model in ["loggops", "loggops:o=uniform(1us,2us)", "plb", "lb"] {
            let noisy = NoisyModel::parse(model, &mut |name| Err(name.to_owned())).expect(model);
            for ties in [Ties::Insertion, Ties::Rank] {
                let machine = Machine::from(noisy.clone()).with_ties(ties);
                let mut runs = vec![flat.run_rank_by_rank(&machine, 0, &OwnThread)];
                if ties == Ties::Rank || model.starts_with("loggops") {
                    runs.push(flat.run_in_windows(&machine, 0, &OwnThread));
                } else {
                    runs.clear();
                }
                if let Model::LogGops(model) = &machine.model {
                    runs.push(flat.run(model));
                    runs.push(flat.run_with_noise(model, &machine, 0));
                }
                for run in runs {
                    match fits {
                        true => assert!(run.is_ok(), "{model} {ties:?} {run:?}"),
                        false => {
                            let is_noticed =
                                run == Err(Declined::Time) || text == often && run == Err(Declined::Mistake);
                            assert!(is_noticed, "{model} {ties:?} {run:?}")
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn regular_programs_are_stored_once() {
    let shapes = |name, ranks| {
        let pattern = Generator::parse(name, &Options::new(ranks)).expect("a known pattern");
        Flat::new(Source::Pattern(&*pattern)).expect("sends and receives").shapes()
    };
    assert_eq!(shapes("barrier:dissemination", 1000), 1);
    assert_eq!(shapes("allreduce:recursive-doubling", 1024), 1);
    assert_eq!(shapes("bcast:binomial", 1024), 11);
    // Graphs of which nobody says that they are regular: neighbours round a ring, and those whose numbers differ in a bit.
    let shapes = |name, ranks| {
        let pattern = Generator::parse(name, &Options::new(ranks)).expect("a known pattern");
        let program = pattern.program().expect("a small program");
        Flat::new(Source::Program(&program)).expect("sends and receives").shapes()
    };
    assert_eq!(shapes("barrier:dissemination", 60), 1);
    assert_eq!(shapes("allreduce:recursive-doubling", 64), 1);
    let program = castell_goal::program::Program::new(7);
    assert_eq!(Flat::new(Source::Program(&program)).expect("nothing to do").ranks(), 7);
}
