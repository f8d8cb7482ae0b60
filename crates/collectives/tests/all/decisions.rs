//! Choices fit what was asked, with and without tuning files; wrong and foreign files are refused with a reason.

use castell_collectives::collective::{ALGORITHMS, Blocks, Collective, Shape};
use castell_collectives::decision::{Decisions, Measured, Operation, Question, Rule, TuningFile};
use castell_collectives::search::{Order, Search, Weights, heuristic};
use castell_model::Model;
use std::borrow::Cow;
use std::collections::BTreeSet;

const FILE: &str = r#"
format = 1
castell = "0.1.0"
model = "plb:alpha_p=2911ps,alpha_r=1000ps"

[machine]
host = "tower"
processor = 'Example "3000" \ 2'
processors = 2
transport = "shared memory"

[[rule]]
operation = "allreduce"
ranks = 8
bytes_max = 4096
algorithm = "m2g3a2,n2g3a2"
measured_us = 12.5

[[rule]]
operation = "allreduce"
ranks = [2, 64]
bytes_max = 65536
algorithm = "model"

[[rule]]
operation = "allgather"
ranks = [2, 64]
algorithm = "recursive-doubling"

[[rule]]
operation = "bcast"
ranks = [3, 3]
algorithm = "k-nomial"
ways = 2
segment_bytes = 4096
"#;

fn file() -> TuningFile {
    TuningFile::parse(&FILE.replace("m2g3a2,n2g3a2", "a4,a2")).expect("a tuning file")
}

fn decisions() -> Decisions {
    let file = file();
    let here = file.machine.clone();
    file.decisions_on(&here).expect("the same machine")
}

/// Every question about some ranks and sizes.
fn questions() -> impl Iterator<Item = Question> {
    let sizes = [0, 8, 100, 4096, 40_000, 1 << 20];
    let ranks = (1..=33).chain([64, 70]);
    let shapes = Operation::WITH_CHOICE.iter().copied().flat_map(move |operation| {
        ranks.clone().flat_map(move |ranks| sizes.map(|bytes| Question::new(operation, ranks, bytes)))
    });
    let shapes =
        shapes.flat_map(|question| [2, 16, u32::MAX].map(|processors| Question { processors, ..question }));
    shapes.flat_map(|question| {
        [(true, true, true), (false, true, true), (true, true, false), (false, false, false)]
            .map(|(commutative, packed, uniform)| Question { commutative, packed, uniform, ..question })
    })
}

fn shape(question: &Question) -> Shape {
    let ranks = question.ranks as usize;
    let blocks = if question.uniform {
        Blocks::Uniform(question.bytes / 8)
    } else if question.packed {
        Blocks::packed(&(0..ranks as u64).collect::<Vec<u64>>())
    } else {
        Blocks::Listed((0..ranks as u64).rev().map(|at| (2 * at, 1)).collect())
    };
    Shape::new(question.ranks, question.bytes / 8, 8).with_blocks(blocks)
}

#[test]
fn every_choice_fits_what_was_asked() {
    for decisions in [Decisions::builtin(), decisions()] {
        for question in questions() {
            let choice = decisions.choose(&question);
            let make = if question.commutative { Collective::new } else { Collective::in_order };
            if let Err(error) = make(&choice.algorithm, shape(&question)) {
                panic!("{question:?}: {error}");
            }
            let operation = choice.algorithm.split_once(':').map(|(operation, _)| operation);
            assert_eq!(operation, Some(question.operation.name()));
        }
    }
}

/// What is chosen for ranks from some sizes on, and for which ranks it is the same.
fn choices(like: Question, sizes: &BTreeSet<u64>) -> String {
    let decisions = Decisions::builtin();
    let mut lines: Vec<(String, Vec<u32>)> = Vec::new();
    for ranks in [1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 64, 65] {
        let chosen = |&bytes: &u64| (bytes, decisions.choose(&Question { ranks, bytes, ..like }).algorithm);
        let chosen: Vec<_> = sizes.iter().map(chosen).collect();
        let changes = chosen.chunk_by(|(_, one), (_, other)| one == other).map(|same| &same[0]);
        let line: String = changes.map(|(bytes, algorithm)| format!(" {bytes} {algorithm}")).collect();
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, same)) => same.push(ranks),
            None => lines.push((line, vec![ranks])),
        }
    }
    lines.iter().map(|(line, ranks)| format!("  {ranks:?}:{line}\n")).collect()
}

/// A snapshot of what is chosen without a file, at each size from which on it may be another one. It says that nothing has changed.
/// Where a change is meant, the test prints the new file. What is said once is not said again of calls that are started, or of other
/// blocks.
#[test]
fn choices_are_what_they_were() {
    let around = |bytes: u64| [bytes - 1, bytes, bytes + 1];
    let mut sizes: BTreeSet<u64> = [64, 512, 1 << 10, 2 << 10, 4 << 10, 32 << 10, 256 << 10, 1 << 20]
        .into_iter()
        .flat_map(around)
        .collect();
    // Where 65 ranks or half of them have 4 or 32 KiB together, and where 9 or 17 have 32.
    sizes.extend([0, 128, 129, 504, 505, 1927, 1928, 3640, 3641]);
    let places = [("apart", u32::MAX, 1), ("shared", 1, 1), ("2 hosts", 1, 2), ("3 hosts", 1, 3)];
    let kinds = [
        ("", true, true, true),
        (", in order", false, true, true),
        (", packed", true, true, false),
        (", listed", true, false, false),
    ];
    let mut said = String::new();
    for (&operation, (place, processors, hosts)) in
        Operation::WITH_CHOICE.iter().flat_map(|operation| places.map(|place| (operation, place)))
    {
        let mut known = Vec::new();
        for (started, (blocks, commutative, packed, uniform)) in
            [false, true].into_iter().flat_map(|started| kinds.map(|kind| (started, kind)))
        {
            let like = Question {
                commutative,
                packed,
                uniform,
                processors,
                started,
                hosts,
                ..Question::new(operation, 1, 0)
            };
            let lines = choices(like, &sizes);
            if known.contains(&lines) {
                continue;
            }
            let started = if started { ", started" } else { "" };
            said += &format!("{operation} {place}{started}{blocks}\n{lines}");
            known.push(lines);
        }
    }
    assert!(said == include_str!("choices.txt"), "the file would be\n{said}");
}

#[test]
fn ranks_that_share_processors_wait_seldom() {
    let decisions = Decisions::builtin();
    let crowded = |operation, ranks, bytes| {
        let question = Question { processors: 2, ..Question::new(operation, ranks, bytes) };
        assert!(question.is_crowded());
        decisions.choose(&question).algorithm.into_owned()
    };
    assert_eq!(crowded(Operation::Barrier, 8, 0), "barrier:a8");
    assert_eq!(crowded(Operation::Barrier, 32, 0), "barrier:linear");
    assert_eq!(crowded(Operation::Allreduce, 4, 8), "allreduce:a4");
    assert_eq!(crowded(Operation::Allreduce, 32, 8), "allreduce:linear");
    let own = Question { processors: 32, ..Question::new(Operation::Broadcast, 32, 8) };
    assert!(!own.is_crowded());
    let choice = decisions.choose(&Question { operation: Operation::Barrier, ..own }).algorithm;
    assert_eq!(choice, "barrier:dissemination");
}

#[test]
fn the_first_rule_that_fits_is_taken() {
    let decisions = decisions();
    let choose = |question: Question| decisions.choose(&question).algorithm.into_owned();
    let allreduce = |ranks, bytes| Question::new(Operation::Allreduce, ranks, bytes);
    assert_eq!(choose(allreduce(8, 4096)), "allreduce:a4,a2");
    // The model's choice, as the search's own test has it.
    assert_eq!(choose(allreduce(48, 8)), "allreduce:a4,a4,a3");
    assert_eq!(
        choose(Question { commutative: false, ..allreduce(48, 8) }),
        "allreduce:recursive-doubling",
        "the model does not look at the order"
    );
    assert_eq!(choose(allreduce(48, 1 << 20)), "allreduce:direct");
    assert_eq!(choose(allreduce(65, 1 << 20)), "allreduce:rabenseifner");
    let allgather = |ranks| Question::new(Operation::Allgather, ranks, 1 << 20);
    assert_eq!(choose(allgather(16)), "allgather:recursive-doubling");
    assert_eq!(choose(allgather(12)), "allgather:linear", "not a power of two");
    let question = Question::new(Operation::Broadcast, 3, 8);
    let choice = decisions.choose(&question);
    assert_eq!((choice.ways, choice.segment_bytes), (2, 4096));
    assert!(matches!(choice.algorithm, Cow::Borrowed("bcast:k-nomial")));
}

#[test]
fn rules_of_words_that_merge_ranks_serve_operators_that_do_not_commute() {
    let rule = Rule::new(Operation::Allreduce, (7, 7), 64, "m1g2a3,n1g3a2").expect("a word for 7 ranks");
    let decisions = Decisions::with_rules(vec![rule], None);
    let question = Question { commutative: false, ..Question::new(Operation::Allreduce, 7, 8) };
    let choice = decisions.choose(&question);
    assert_eq!(choice.algorithm, "allreduce:m1g2a3,n1g3a2");
    assert!(Collective::in_order(&choice.algorithm, Shape::new(7, 1, 8)).is_ok());
}

/// Up to 4096 ranks it is the best word that is taken, beyond it the heuristic's.
#[test]
fn the_models_word_is_searched_for_as_long_as_that_is_quick() {
    let model = match "plb:alpha_p=2911ps,alpha_r=1000ps".parse() {
        Ok(Model::Plb(plb)) => plb,
        other => panic!("{other:?}"),
    };
    let rule = Rule::new(Operation::Allreduce, (1, u32::MAX), u64::MAX, "model").expect("a rule");
    let decisions = Decisions::with_rules(vec![rule], Some(model.clone()));
    let weights = Weights::new(model, 8);
    for ranks in [26, 4390] {
        let best = Search::new(ranks, weights.clone()).best(ranks).to_string();
        let quick = heuristic(ranks, weights.factor_max(ranks), &weights, Order::Sorted).to_string();
        assert!(best != quick, "{ranks} ranks tell nothing: {best}");
        let question = Question::new(Operation::Allreduce, ranks, 8);
        let expected = if ranks <= 4096 { best } else { quick };
        assert_eq!(decisions.choose(&question).algorithm, format!("allreduce:{expected}"), "{ranks} ranks");
    }
}

/// Whoever is alone waits for nobody, however few processors there are.
#[test]
fn one_rank_needs_no_word() {
    let decisions = Decisions::builtin();
    for operation in [Operation::Barrier, Operation::Allreduce] {
        let question = Question { processors: 0, ..Question::new(operation, 1, 8) };
        let choice = decisions.choose(&question);
        assert!(Collective::new(&choice.algorithm, Shape::new(1, 1, 8)).is_ok(), "{}", choice.algorithm);
    }
}

#[test]
fn operations_know_what_they_do() {
    use Operation::{Allreduce, Broadcast, Exscan, Gather, Reduce, ReduceScatter, Scan, Scatter};
    let are = |is: fn(Operation) -> bool| Operation::ALL.into_iter().filter(|&it| is(it)).collect::<Vec<_>>();
    assert_eq!(are(Operation::reduces), [Reduce, Allreduce, ReduceScatter, Scan, Exscan]);
    assert_eq!(are(Operation::is_one_way), [Broadcast, Gather, Scatter, Reduce]);
    let name = Operation::ReduceScatter;
    assert_eq!(format!("{name}|{name:<15}|"), "reduce_scatter|reduce_scatter |");
}

/// Between hosts there is an algorithm for every call, which takes what the call has, and rules for shared memory say nothing.
#[test]
fn calls_over_hosts_have_algorithms() {
    let rule = Rule::new(Operation::Allreduce, (1, 100), u64::MAX, "ring").expect("a rule");
    let decisions = Decisions::with_rules(vec![rule], None);
    let places = [(true, true), (true, false), (false, false)];
    for &operation in Operation::WITH_CHOICE.iter() {
        for (packed, uniform) in places {
            for (hosts, bytes) in [(2, 8), (2, 1 << 20), (3, 8), (3, 4 << 10), (5, 1 << 20)] {
                let question = Question { hosts, packed, uniform, ..Question::new(operation, 10, bytes) };
                let choice = decisions.choose(&question);
                let blocks = match (packed, uniform) {
                    (true, true) => Blocks::Uniform(1),
                    (true, false) => Blocks::packed(&[1, 2, 0, 3, 1, 1, 1, 1, 1, 1]),
                    _ => Blocks::Listed((0..10).map(|rank| (20 - 2 * rank, 1)).collect()),
                };
                let shape = Shape::new(10, 20, 8).with_blocks(blocks);
                let made = Collective::in_order(&choice.algorithm, shape);
                assert!(made.is_ok(), "{}: {:?}", choice.algorithm, made.err());
                let same = Question { hosts: 1, same_bits: true, ..question };
                let is_two_level = decisions.choose(&same).algorithm.contains("two-level");
                assert_eq!(
                    is_two_level,
                    operation.reduces() && (packed || operation != Operation::ReduceScatter)
                );
            }
        }
    }
}

#[test]
fn files_read_as_they_were_written() {
    let mut file = file();
    assert_eq!(file.rules.len(), 4);
    assert_eq!(file.rules[0].measured, Measured { measured_us: Some(12.5), ..Measured::default() });
    assert_eq!(TuningFile::parse(&file.to_toml()).as_ref(), Ok(&file), "{}", file.to_toml());
    file.machine.host = "a\nb\u{7f}".into();
    file.model = None;
    file.rules.retain(|rule| rule.algorithm != "allreduce:model");
    assert_eq!(TuningFile::parse(&file.to_toml()).as_ref(), Ok(&file), "{}", file.to_toml());
    assert_eq!(TuningFile::parse(FILE).unwrap_err().to_string().lines().count(), 1);
}

/// What a file says is said once, and only where it is not what is meant anyway.
#[test]
fn files_say_what_is_not_usual() {
    let mut file = file();
    file.model = None;
    file.machine.host = "café\t".into();
    let mut rule = Rule::new(Operation::Broadcast, (2, 8), 4096, "k-nomial").expect("a rule");
    (rule.ways, rule.segment_bytes, rule.bytes_min) = (3, 1000, 100);
    rule.measured = Measured { predicted_us: Some(1.5), simulated_us: Some(2.0), measured_us: None };
    file.rules = vec![Rule::new(Operation::Scan, (8, 8), u64::MAX, "linear").expect("a rule"), rule];
    let expected = r#"
[machine]
host = "café\u0009"
processor = "Example \"3000\" \\ 2"
processors = 2
transport = "shared memory"

[[rule]]
operation = "scan"
ranks = 8
algorithm = "linear"

[[rule]]
operation = "bcast"
ranks = [2, 8]
bytes_min = 100
bytes_max = 4096
algorithm = "k-nomial"
ways = 3
segment_bytes = 1000
predicted_us = 1.5
simulated_us = 2.0
"#;
    let text = file.to_toml();
    assert_eq!(text.split_once("castell = \"0.1.0\"\n").map(|(_, rest)| rest), Some(expected));
    assert_eq!(TuningFile::parse(&text).as_ref(), Ok(&file));
    let machine = "café\t (2 processors, Example \"3000\" \\ 2) over shared memory";
    assert_eq!(file.machine.to_string(), machine);
}

#[test]
fn files_have_so_many_rules_at_most() {
    let with = |count: usize| {
        let rule = "[[rule]]\noperation = \"scan\"\nranks = 8\nalgorithm = \"linear\"\n";
        let head = FILE.split_once("[[rule]]").expect("rules").0.to_owned();
        TuningFile::parse(&(head + &rule.repeat(count)))
    };
    assert_eq!(with(4096).expect("a file").rules.len(), 4096);
    let error = with(4097).expect_err("too many").to_string();
    assert_eq!(error, "not a tuning file: 4097 rules; at most 4096 are read");
}

/// An earlier rule is kept where it was measured, unless a newer one is taken for all its calls.
#[test]
fn what_was_measured_earlier_stays_where_nothing_newer_is_known() {
    let rule = |ranks, bytes: (u64, u64), measured_us| {
        let mut rule = Rule::new(Operation::Scan, ranks, bytes.1, "linear").expect("a rule");
        rule.bytes_min = bytes.0;
        rule.measured = Measured { measured_us, ..Measured::default() };
        rule
    };
    let newer = rule((4, 8), (100, 1000), None);
    let other = Rule::new(Operation::Exscan, (4, 8), 1000, "linear").expect("a rule");
    let with = |rules: Vec<Rule>| TuningFile { rules, ..file() };
    for (ranks, bytes, is_kept) in [
        ((4, 8), (100, 1000), false),
        ((5, 7), (101, 999), false),
        ((3, 8), (100, 1000), true),
        ((4, 9), (100, 1000), true),
        ((4, 8), (99, 1000), true),
        ((4, 8), (100, 1001), true),
        ((9, 9), (2000, 3000), true),
    ] {
        let mut file = with(vec![other.clone(), newer.clone()]);
        let earlier = [rule(ranks, bytes, Some(3.0)), rule((90, 90), (0, 1), None)];
        file.merge(with(earlier.to_vec()));
        let mut expected = vec![other.clone(), newer.clone()];
        expected.extend(is_kept.then(|| earlier[0].clone()));
        assert_eq!(file.rules, expected, "{ranks:?}, {bytes:?}");
    }
    // Of another operation, it says nothing of this one.
    let mut file = with(vec![other.clone()]);
    file.merge(with(vec![rule((4, 8), (100, 1000), Some(3.0))]));
    assert_eq!(file.rules.len(), 2);
    // Two of an earlier file stay both, though one would be taken for all calls of the other.
    let mut file = with(Vec::new());
    let wide = rule((1, 90), (0, u64::MAX), Some(3.0));
    file.merge(with(vec![wide.clone(), wide.clone()]));
    assert_eq!(file.rules.len(), 2);
    // Its model is the newer one, if it has one.
    let model = |text: &str| match Model::parse(text) {
        Ok(Model::Plb(plb)) => Some(plb),
        other => panic!("{other:?}"),
    };
    let one = model("plb:alpha_p=1us,alpha_r=1us");
    for (own, expected) in
        [(None, one.clone()), (model("plb:alpha_p=2us,alpha_r=1us"), model("plb:alpha_p=2us,alpha_r=1us"))]
    {
        let mut file = TuningFile { model: own, ..with(Vec::new()) };
        file.merge(TuningFile { model: one.clone(), ..with(Vec::new()) });
        assert_eq!(file.model, expected);
    }
}

#[test]
fn rules_exist_for_every_algorithm() {
    for algorithm in ALGORITHMS {
        let (operation, name) = algorithm.name.split_once(':').expect("a colon");
        let operation = Operation::with_choice(operation).expect("an operation");
        Rule::new(operation, (1, 100), u64::MAX, name).expect(algorithm.name);
    }
}

#[test]
fn wrong_files_are_refused_with_the_reason() {
    let with = |from: &str, to: &str| {
        TuningFile::parse(&FILE.replace("m2g3a2,n2g3a2", "a4,a2").replacen(from, to, 1))
    };
    for (from, to, reason) in [
        ("format = 1", "", "expected a line `format = 1`"),
        (
            "format = 1",
            "format = 2",
            "its format is 2, this castell reads format 1; run `castell tune` again",
        ),
        ("format = 1", "format =", "TOML parse error at line 2"),
        ("castell = \"0.1.0\"", "", "missing field `castell`"),
        ("processors = 2", "processors = -2", "line 9"),
        ("plb:", "logp:", "model: logp has no parameter"),
        ("plb:alpha_p=2911ps,alpha_r=1000ps", "lb", "the model is lb, expected plb"),
        ("model = \"plb:alpha_p=2911ps,alpha_r=1000ps\"", "", "rule 2: allreduce:model needs a model"),
        ("ranks = 8", "ranks = 9", "rule 1: `a4,a2` does not fit 9 ranks"),
        ("ranks = 8", "ranks = [8, 16]", "rule 1: allreduce:a4,a2 is a word, which fits one number of ranks"),
        ("ranks = 8", "ranks = [8, 4]", "rule 1: ranks go from 8 to 4"),
        ("ranks = 8", "ranks = \"8\"", "expected a number of ranks, or two"),
        ("\"a4,a2\"", "\"magic\"", "rule 1: `allreduce:magic` is no collective operation"),
        (
            "operation = \"bcast\"",
            "operation = \"cast\"",
            "rule 4: unknown operation `cast`: expected one of barrier",
        ),
        (
            "algorithm = \"k-nomial\"",
            "algorithm = \"model\"",
            "rule 4: bcast:model: the model chooses words of",
        ),
        ("ways = 2", "ways = 0", "rule 4: ways and segment_bytes begin at 1"),
        ("ways = 2", "way = 2", "unknown field `way`"),
    ] {
        let error = with(from, to).expect_err(reason).to_string();
        assert!(error.contains(reason), "{reason}: {error}");
        assert!(error.starts_with("not a tuning file: "), "{error}");
    }
}

#[test]
fn foreign_files_are_refused_with_the_reason() {
    let here = file().machine;
    let refusal = |change: fn(&mut TuningFile)| {
        let mut file = file();
        change(&mut file);
        file.decisions_on(&here).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(refusal(|file| file.machine.host = "another".into()), Ok(()));
    for change in [
        |file: &mut TuningFile| file.machine.processors = 3,
        |file: &mut TuningFile| file.machine.processor = "other".into(),
        |file: &mut TuningFile| file.machine.transport = "tcp".into(),
    ] {
        let error = refusal(change).expect_err("another machine");
        assert!(error.contains("it is of another machine") && error.contains("castell tune"), "{error}");
    }
}

/// Texts that differ from a good one in a character somewhere are read or refused, and nothing else.
#[test]
fn mutated_files_never_panic() {
    for at in 0..FILE.len() {
        for put in ["", "9", "\"", "a", "[", "\n", "="] {
            if FILE.is_char_boundary(at) && FILE.is_char_boundary(at + 1) {
                let text = format!("{}{put}{}", &FILE[..at], &FILE[at + 1..]);
                let _ = TuningFile::parse(&text);
            }
        }
    }
}

#[test]
fn exports_have_every_threshold_and_say_what_is_missing() {
    use castell_collectives::decision::export::{mpich, open_mpi};
    let rule = |operation, bytes_max, algorithm| Rule::new(operation, (4, 8), bytes_max, algorithm).unwrap();
    let rules = vec![
        rule(Operation::Allreduce, 100, "ring"),
        rule(Operation::Allreduce, u64::MAX, "hierarchical"),
        rule(Operation::Allgather, 10, "bruck"),
        rule(Operation::Allgather, u64::MAX, "ring"),
        rule(Operation::Barrier, u64::MAX, "tree"),
    ];
    let decisions = Decisions::with_rules(rules, None);
    let exported = open_mpi(&decisions);
    let numbers = |text: &str| {
        let plain = text.lines().map(|line| line.split('#').next().unwrap_or(""));
        plain.flat_map(str::split_whitespace).map(|word| word.parse().unwrap()).collect::<Vec<u64>>()
    };
    let allgather = |ranks: u64| vec![ranks, 2, 0, 2, 0, 0, 11 * ranks, 4, 0, 0];
    let mut expected = vec![3, 0, 6];
    (4..=8).for_each(|ranks| expected.extend(allgather(ranks)));
    expected.extend([9, 1, 0, 0, 0, 0]);
    expected.extend([2, 2, 4, 2, 0, 4, 0, 0, 101, 2, 0, 0, 9, 1, 0, 0, 0, 0]);
    expected.extend([6, 2, 4, 1, 0, 6, 0, 0, 9, 1, 0, 0, 0, 0]);
    assert_eq!(numbers(&exported.text), expected, "{}", exported.text);
    let missing = "Open MPI has no allreduce:hierarchical: it gets nonoverlapping, the nearest that it has";
    assert_eq!(exported.notes.into_iter().collect::<Vec<_>>(), [missing]);

    let exported = mpich(&decisions);
    let without_space: String = exported.text.split_whitespace().collect();
    assert!(
        without_space.contains(
            "\"comm_size<5\":{\"total_msg_size<44\":{\"algorithm=MPIR_Allgather_intra_brucks\":{}}"
        )
    );
    assert!(without_space.contains("\"avg_msg_size<101\":{\"is_op_built_in=yes\":"), "{}", exported.text);
    assert_eq!(exported.notes.len(), 3, "ring, hierarchical and tree: {:?}", exported.notes);
    assert_eq!(exported.text.matches("\"collective=").count(), 44);
}
