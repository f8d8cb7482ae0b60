//! Words of the allreduce language, executed with symbols: each element of a rank's vector is the expression that made
//! it, so that equal expressions mean equal bits whatever the operator.

use castell_base::{Rank, Time};
use castell_collectives::language::{Allreduce, Fitted, Labelling, Operand, Stage, Step, Transfer, Word};
use castell_collectives::pattern::Pattern;
use castell_goal::graph::Graph;
use castell_goal::op::Op;
use std::collections::HashMap;

/// Elements of the vector.
const ELEMENTS: usize = 24;

/// An expression: a hash of its tree, and the ranks that it combines in order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expression {
    tree: u64,
    ranks: Vec<u32>,
}

fn combine(left: &Expression, right: &Expression) -> Expression {
    let tree =
        left.tree.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ right.tree.wrapping_add(0x5851_f42d);
    let ranks = left.ranks.iter().chain(&right.ranks).copied().collect();
    Expression { tree: tree.wrapping_mul(0xbf58_476d_1ce4_e5b9), ranks }
}

/// Runs a word and returns each rank's vector, and messages and their elements as they were sent.
fn execute(fitted: &Fitted) -> (Vec<Vec<Expression>>, u64, u64) {
    let ranks = fitted.ranks();
    let leaf = |rank| Expression { tree: u64::from(rank) + 1, ranks: vec![rank] };
    let mut vectors: Vec<Vec<Expression>> = (0..ranks).map(|rank| vec![leaf(rank); ELEMENTS]).collect();
    let (mut messages, mut elements) = (0, 0);
    for stage in 0..fitted.word().stages.len() {
        let before = vectors.clone();
        let steps: Vec<_> = (0..ranks).map(|rank| fitted.steps(Rank(rank), ELEMENTS as u64)).collect();
        let of_stage = |rank: u32| steps[rank as usize].iter().find(|step| step.stage == stage);
        let mut sent = HashMap::new();
        for (rank, step) in (0..ranks).filter_map(|rank| Some((rank, of_stage(rank)?))) {
            for transfer in &step.sends {
                let earlier = sent.insert((rank, transfer.peer.0), transfer.segment);
                assert_eq!(earlier, None, "two messages {rank} -> {} in stage {stage}", transfer.peer);
                messages += 1;
                elements += transfer.segment.count;
            }
        }
        for (rank, step) in (0..ranks).filter_map(|rank| Some((rank, of_stage(rank)?))) {
            for transfer in &step.receives {
                let found = sent.remove(&(transfer.peer.0, rank));
                assert_eq!(found, Some(transfer.segment), "{} -> {rank} in stage {stage}", transfer.peer);
            }
            let mine = &mut vectors[rank as usize];
            let Some(reduction) = &step.reduction else {
                for transfer in &step.receives {
                    let range = transfer.segment.first as usize..;
                    let range = range.start..range.start + transfer.segment.count as usize;
                    mine[range.clone()].clone_from_slice(&before[transfer.peer.index()][range]);
                }
                continue;
            };
            let segment = reduction.segment;
            for element in segment.first as usize..(segment.first + segment.count) as usize {
                let operand = |operand: &Operand| match *operand {
                    Operand::Own => &before[rank as usize][element],
                    Operand::Received(index) => &before[step.receives[index].peer.index()][element],
                };
                let mut operands = reduction.operands.iter().map(operand);
                let first = operands.next().unwrap().clone();
                mine[element] = operands.fold(first, |left, right| combine(&left, right));
            }
        }
        assert!(sent.is_empty(), "messages nobody waits for in stage {stage}: {sent:?}");
    }
    (vectors, messages, elements)
}

/// All ranks end with the same expressions, each rank in them once; ordered where that is promised. Counts are right.
fn holds(text: &str, ranks: u32, labelling: Labelling) {
    let what = format!("{text} on {ranks} ranks, {labelling:?}");
    let word: Word = text.parse().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(word.to_string(), text);
    let fitted =
        Fitted::with_labelling(word, ranks, labelling).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (vectors, messages, elements) = execute(&fitted);
    for vector in &vectors {
        assert_eq!(vector, &vectors[0], "{what}: ranks disagree");
    }
    for expression in &vectors[0] {
        let mut combined = expression.ranks.clone();
        if !fitted.keeps_order() {
            combined.sort_unstable();
        }
        assert_eq!(combined, (0..ranks).collect::<Vec<_>>(), "{what}");
    }
    let cost = fitted.cost(ELEMENTS as u64);
    let divides = (ELEMENTS as u64).is_multiple_of(parts(fitted.word()));
    if divides {
        assert_eq!((cost.messages(), cost.bytes_total()), (messages, elements), "{what}");
        for (stage, cost) in cost.stages.iter().enumerate() {
            let steps = (0..ranks).flat_map(|rank| fitted.steps(Rank(rank), ELEMENTS as u64));
            let steps: Vec<_> = steps.filter(|step| step.stage == stage).collect();
            let in_a_row = steps.iter().map(|step| step.sends.len()).max().unwrap() as u64;
            assert_eq!(cost.in_a_row, in_a_row, "{what}, stage {stage}");
            let reduced = |step: &Step| {
                step.reduction.as_ref().map_or(0, |reduction| reduction.operands.len() as u64 - 1)
            };
            assert_eq!(cost.reductions, steps.iter().map(reduced).max().unwrap(), "{what}, stage {stage}");
            let bytes: Vec<u64> = sends_of(&steps).map(|transfer| transfer.segment.count).collect();
            assert_eq!(cost.bytes, bytes.iter().copied().max().unwrap(), "{what}, stage {stage}");
            let counted = (bytes.len() as u64, bytes.iter().sum::<u64>());
            assert_eq!((cost.messages, cost.bytes_total), counted, "{what}, stage {stage}");
        }
    }
}

fn sends_of(steps: &[Step]) -> impl Iterator<Item = &Transfer> {
    steps.iter().flat_map(|step| &step.sends)
}

/// The smallest part of the vector that the word makes is one of so many.
fn parts(word: &Word) -> u64 {
    let factors = word.stages.iter().map(|stage| match stage {
        Stage::ReduceScatter { factor } => u64::from(*factor),
        Stage::Collapse(fold) => u64::from(fold.keep),
        _ => 1,
    });
    factors.product()
}

fn holds_both(text: &str, ranks: u32) {
    holds(text, ranks, Labelling::RemaindersFirst);
    holds(text, ranks, Labelling::Neighbours);
}

/// All ordered factorisations.
fn factorisations(ranks: u32) -> Vec<Vec<u32>> {
    if ranks == 1 {
        return vec![vec![]];
    }
    let divisors = (2..=ranks).filter(|factor| ranks.is_multiple_of(*factor));
    let longer =
        |factor| factorisations(ranks / factor).into_iter().map(move |rest| [vec![factor], rest].concat());
    divisors.flat_map(longer).collect()
}

#[test]
fn factors_agree() {
    for ranks in 1..=48 {
        for factors in factorisations(ranks) {
            holds_both(&Word::of_factors(factors).to_string(), ranks);
        }
    }
}

#[test]
fn recursive_doubling_fits_any_number() {
    for ranks in 1..=70 {
        holds_both(&Word::recursive_doubling(ranks).to_string(), ranks);
    }
}

#[test]
fn merged_ranks_get_the_result() {
    for working in 4..=24 {
        for factors in factorisations(working).into_iter().filter(|factors| factors.len() > 1) {
            for remainder in [1, 2, 3, working - 1, working, 2 * working + 1] {
                holds_both(&Word::merged(&factors, remainder).to_string(), working + remainder);
            }
        }
    }
}

#[test]
fn collapses_stand_anywhere_before_the_end() {
    let words = [
        ("c6m2,a2,a2,e6m2", 7),
        ("c6m3,a3,e6m3", 7),
        ("c8m4,a2,e8m4", 8),
        ("c8m8,e8m8", 8),
        ("a2,c4m2,a2,e4m2", 6),
        ("a3,c12m4,a2,e12m4", 15),
        ("c4m2,c4m2,a2,e4m2,e4m2", 6),
        ("c6m2,a2,c4m2,a2,e4m2,e6m2", 9),
        ("c3m3k2,a2,a2,e3m3k2", 5),
        ("c6m3k2,a2,a3,e6m3k2", 8),
        ("c3m3k2,a2,e3m3k2", 3),
        ("a2,c6m3k2,a2,e6m3k2", 6),
        ("a2,c6m3k2,a2,a3,e6m3k2", 14),
        ("c3m3k2,a2,c6m3k2,a2,e6m3k2,e3m3k2", 7),
        ("c4m2,c3m3k2,a2,a2,e3m3k2,e4m2", 7),
    ];
    for (word, ranks) in words {
        holds_both(word, ranks);
    }
}

#[test]
fn vectors_are_split_and_put_together() {
    let words = [
        ("r2,g2", 2),
        ("r2,r2,r2,g2,g2,g2", 8),
        ("r8,g8", 8),
        ("r3,a2,g3", 6),
        ("a2,r3,g3", 6),
        ("r2,g2,a3", 6),
        ("r4,r3,g3,g4", 12),
        ("r2,a3,r2,g2,g2", 12),
        ("r5,a2,r7,g7,g5", 70),
        ("c6m2,r2,r2,g2,g2,e6m2", 7),
        ("c3m3k2,r2,r2,g2,g2,e3m3k2", 5),
        ("r2,c4m2,r2,g2,e4m2,g2", 6),
        ("r2,c6m3k2,a2,e6m3k2,g2", 6),
    ];
    for (word, ranks) in words {
        holds_both(word, ranks);
    }
}

#[test]
fn messages_are_counted_as_in_the_thesis() {
    let messages = |text: &str, ranks| Fitted::new(text.parse().unwrap(), ranks).unwrap().cost(8).messages();
    let counted = [
        ("a2,a2,a2", 8, 24),
        ("a8", 8, 56),
        ("c6m2,a2,a2,e6m2", 7, 14),
        ("m1g2a3,n1g3a2", 7, 23),
        ("m3g2a2,n3g2a2", 7, 20),
        ("a3,a2", 6, 18),
        ("a4,a4,a4", 64, 576),
        ("a2,a2,a2,a2,a2,a2", 64, 384),
        ("a8,a8", 64, 896),
        ("a8,a3,a4", 96, 1152),
        ("a8,a4,a4", 128, 1664),
        ("a4,a4,a4,a4,a4", 1024, 15360),
    ];
    for (word, ranks, expected) in counted {
        assert_eq!(messages(word, ranks), expected, "{word}");
    }
}

#[test]
fn misfits_say_why() {
    let misfit = |text: &str, ranks| {
        let error = Fitted::new(text.parse().unwrap(), ranks).unwrap_err().to_string();
        error.strip_prefix(&format!("`{text}` does not fit {ranks} ranks: ")).unwrap().to_owned()
    };
    assert_eq!(
        misfit("a4,a2", 12),
        "a2 cuts in groups of 2 at distance 4, but 12 working ranks are no multiple of 8"
    );
    assert_eq!(
        misfit("a2,a2", 8),
        "at the end 4 consecutive working ranks agree and there are 8, so ranks 0 and 4 would disagree; \
         the factors have to multiply to 8"
    );
    assert_eq!(
        misfit("c6m2,a2,e6m2", 7),
        "before e6m2 2 consecutive working ranks agree and there are 4, so ranks 1 and 5 would disagree; \
         the factors have to multiply to 4"
    );
    assert_eq!(
        misfit("c6m2,a2,a2", 7),
        "c6m2 is never undone, so the ranks that it sends home never get the result; add e6m2 behind it"
    );
    assert_eq!(
        misfit("c5m2,a2,a2", 7),
        "c5m2 needs whole blocks of 2 among 7 working ranks at distance 1: a multiple of 2"
    );
    assert_eq!(
        misfit("r2,a2", 4),
        "r2 is never undone, so each rank is left with a part of the result; add g2 behind it"
    );
    assert_eq!(misfit("r2,r4,g2,g4", 8), "g2 undoes nothing: r4 has to be undone first");
    assert_eq!(misfit("a2,g2", 4), "g2 undoes nothing: nothing is open there");
    assert_eq!(misfit("m1g2a3,n1g3a2", 8), "m1g2a3 is for 7 ranks; with the factor 3 it can be m2g2a3");
    assert_eq!(misfit("m1g2a3,n1g2a2", 7), "n1g2a2 is for 5 ranks; with the factor 2 it can be n1g3a2");
    assert_eq!(
        misfit("m1g2a3,a2", 7),
        "m1g2a3 is never undone, so the ranks that stand aside never get the result; add a last stage n1g…a… behind it"
    );
    assert_eq!(
        misfit("a2,m1g2a3", 7),
        "a2 cuts in groups of 2 at distance 1, but 7 working ranks are no multiple of 2"
    );
    assert_eq!(misfit("a7,m1g2a3", 7), "m1g2a3 can only be the first stage");
    assert_eq!(misfit("m1g2a3,n1g3a2,a2", 7), "n1g3a2 can only be the last stage");
    assert_eq!(
        misfit("a2,c6m2,a2,e6m2", 8),
        "c6m2 needs whole blocks of 2 among 8 working ranks at distance 2: a multiple of 4"
    );
    // What is proposed is a stage: one rank at least stands aside, and there is a group.
    assert_eq!(misfit("m2g1a3,n2g1a3", 6), "m2g1a3 is for 5 ranks; with the factor 3 it can be m3g1a3");
    assert_eq!(misfit("m6g1a3,n6g1a3", 6), "m6g1a3 is for 9 ranks; with the factor 3 it can be m3g1a3");
    assert_eq!(misfit("m4g1a3,n4g1a3", 9), "m4g1a3 is for 7 ranks; with the factor 3 it can be m3g2a3");
    assert_eq!(misfit("m3g1a3,n3g1a3", 9), "m3g1a3 is for 6 ranks; with the factor 3 it can be m3g2a3");
    assert_eq!(misfit("m5g1a3,n5g1a3", 11), "m5g1a3 is for 8 ranks; with the factor 3 it can be m5g2a3");
    assert_eq!(misfit("m1g3a2,n1g3a3", 7), "n1g3a3 is for 10 ranks; with the factor 3 it can be n1g2a3");
    assert_eq!(misfit("m1g1a3,n1g1a3", 3), "m1g1a3 is for 4 ranks; the factor 3 is too large");
    assert_eq!(misfit("m1g2a2,n1g1a9", 5), "n1g1a9 is for 10 ranks; the factor 9 is too large");
}

#[test]
fn texts_are_words_or_refused_where_they_end() {
    let word = |text: &str| text.parse::<Word>().map(|word| word.to_string());
    for (text, read) in [
        ("", ""),
        ("  ", ""),
        (" a4 ,\ta2", "a4,a2"),
        ("c4m2k1,e4m2k1", "c4m2,e4m2"),
        ("c3m3k2,e3m3k2", "c3m3k2,e3m3k2"),
        ("m12g1a10,n12g5a2", "m12g1a10,n12g5a2"),
    ] {
        assert_eq!(word(text), Ok(read.to_owned()));
    }
    for (text, position, expected, found) in [
        ("a4;", 3, "`,` or the end", "`;`"),
        ("a4 2", 4, "`,` or the end", "`2`"),
        ("a4,", 4, "a stage", "the end"),
        ("a4,123", 4, "a stage", "`123`"),
        ("a4,é", 4, "a stage", "`é`"),
        ("é", 1, "a stage", "`é`"),
        ("a1", 2, "a factor of at least 2", "`1`"),
        ("a99999999999", 2, "a factor of at least 2", "`99999999999`"),
        ("c4m2k2", 6, "1, or 2 of a block of 3", "`2`"),
        ("c3m3k3", 6, "1, or 2 of a block of 3", "`3`"),
        ("c3m3k0", 6, "1, or 2 of a block of 3", "`0`"),
    ] {
        let error = text.parse::<Word>().unwrap_err();
        assert_eq!((error.position + 1, error.found.as_str()), (position, found), "{text}: {error}");
        assert!(error.expected.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn words_for_one_rank_are_empty() {
    let words = [Word::recursive_doubling(1), Word::rabenseifner(1), Word::direct(1)];
    let hierarchical = Word::hierarchical(1, 4);
    assert!(words.into_iter().chain([hierarchical]).all(|word| word == Word::default()));
    assert_eq!(Word::direct(2).to_string(), "r2,g2");
    assert_eq!(Word::hierarchical(3, 4), Word::recursive_doubling(3), "no whole group");
    assert_eq!(Word::hierarchical(9, 3).to_string(), "c9m3,c2m2,a2,e2m2,e9m3");
}

/// Of an exchange among many, the i-th message that a rank sends is the i-th that its receiver waits for.
#[test]
fn messages_are_awaited_in_the_order_in_which_they_are_sent() {
    for (word, ranks) in [("a5", 5), ("r5,g5", 5), ("a2,r3,a2,g3", 12), ("r4,r3,g3,g4", 12)] {
        let fitted = Fitted::new(word.parse().unwrap(), ranks).unwrap();
        let steps: Vec<Vec<Step>> = (0..ranks).map(|rank| fitted.steps(Rank(rank), 120)).collect();
        for (rank, steps_here) in (0..).map(Rank).zip(&steps) {
            for (stage, step) in steps_here.iter().enumerate() {
                for (i, to) in step.sends.iter().enumerate() {
                    let from = steps[to.peer.index()][stage].receives[i];
                    assert_eq!(
                        (from.peer, from.segment),
                        (rank, to.segment),
                        "{word}: {rank} -> {}",
                        to.peer
                    );
                }
            }
        }
    }
}

/// Three elements are in three of eight parts; no elements are in all of them.
#[test]
fn empty_parts_are_not_sent() {
    let fitted = Fitted::new("r8,g8".parse().unwrap(), 8).unwrap();
    let sent = |count| -> Vec<u64> {
        let steps: Vec<Step> = (0..8).flat_map(|rank| fitted.steps(Rank(rank), count)).collect();
        sends_of(&steps).map(|transfer| transfer.segment.count).collect()
    };
    assert_eq!((sent(3).len(), sent(3).iter().sum::<u64>()), (3 * 7 * 2, 3 * 7 * 2));
    assert_eq!((sent(0).len(), sent(0).iter().sum::<u64>()), (8 * 7 * 2, 0));
    for rank in (0..8).map(Rank) {
        let reduces = fitted.steps(rank, 3).iter().any(|step| step.reduction.is_some());
        let gets = fitted.steps(rank, 3).iter().any(|step| step.stage == 0 && !step.receives.is_empty());
        assert_eq!(reduces, gets, "{rank} reduces what it gets");
    }
}

#[test]
fn drawings_show_who_has_to_do_with_whom() {
    let fitted = Fitted::new("m1g2a3,n1g3a2".parse().unwrap(), 7).unwrap();
    let diagram = "\
rank  m1g2a3     n1g3a2
   0  → 1 2 3    ← 1 4
   1  ↔ 2 3 ← 0  ↔ 4 → 0
   2  ↔ 1 3 ← 0  ↔ 5
   3  ↔ 1 2 ← 0  ↔ 6
   4  ↔ 5 6      ↔ 1 → 0
   5  ↔ 4 6      ↔ 2
   6  ↔ 4 5      ↔ 3
";
    assert_eq!(fitted.diagram(), diagram);
    let cuboid = "\
rank  m1g2a3  n1g3a2
   0  -       -
   1  0       0
   2  1       0
   3  2       0
   4  0       1
   5  1       1
   6  2       1
";
    assert_eq!(fitted.hyper_cuboid(), cuboid);
    assert_eq!(fitted.drawn_messages().len(), 23);
    let collapsed = Fitted::new("a2,c4m2,r2,g2,e4m2".parse().unwrap(), 6).unwrap().hyper_cuboid();
    assert_eq!(collapsed.lines().nth(1), Some("   0  0   -   -"));
    assert_eq!(collapsed.lines().nth(5), Some("   4  0   1   1"));
    let large = Fitted::new("a100".parse().unwrap(), 100).unwrap();
    assert!(large.diagram().ends_with("… and 36 ranks more\n"));
    assert_eq!(large.drawn_messages().len(), 64 * 63);
    let two = Fitted::new("a2,a3".parse().unwrap(), 6).unwrap();
    let blocks = vec![vec![2, 0, 0, 0, 2, 0, 0, 0, 2], vec![0, 2, 2, 2, 0, 2, 2, 2, 0]];
    assert_eq!(two.messages_by_block(3), blocks);
    let uneven: Vec<u64> = large.messages_by_block(64).into_iter().flatten().collect();
    assert_eq!((uneven[0], uneven[64 * 49 + 49], uneven[64 * 50]), (2, 2, 0));
    assert_eq!(uneven.iter().sum::<u64>(), 100 * 99);
}

#[test]
fn models_with_closed_forms_price_words() {
    let under = |word: &str, ranks, model: &str| {
        let cost = Fitted::new(word.parse().unwrap(), ranks).unwrap().cost(8);
        cost.under(&model.parse().unwrap())
    };
    let loggops = "loggops:L=2500ns,o=1500ns,g=1000ns,G=6ns,O=0,S=65535";
    assert_eq!(under("a2,a2,a2", 8, loggops), Some(Time::from_ns(3 * 5542)));
    assert_eq!(under("a8", 8, loggops), None);
    let plb = "plb:alpha_p=500ns,alpha_r=100ns,gamma=1ns";
    assert_eq!(under("a8", 8, plb), Some(Time::from_ns(500 + 7 * 100 + 7 * 8)));
    assert_eq!(under("r2,g2", 2, plb), Some(Time::from_ns(2 * 600 + 4)));
}

#[test]
fn models_see_messages_in_a_row_and_reductions() {
    let under = |word: &str, ranks, model: &str| {
        let cost = Fitted::new(word.parse().unwrap(), ranks).unwrap().cost(64);
        cost.under(&model.parse().unwrap()).map(|time| time.0 / 1000)
    };
    // Of the merge, one rank sends and reduces three messages in a row, of the inverse two.
    let merge = "m1g2a3,n1g3a2";
    let lb = |count: u64, reductions: u64| Some(count * (100 + 2 * 64) + reductions * 3 * 64);
    assert_eq!(under(merge, 7, "lb:alpha=100ns,beta=2ns,gamma=3ns"), lb(3 + 2, 3 + 1));
    assert_eq!(under(merge, 7, "bsp:g=100ns,G=2ns,l=1000ns"), Some(5 * (100 + 2 * 64) + 2 * 1000));
    let plb = "plb:alpha_p=1000ns,alpha_r=100ns,beta=2ns,gamma=3ns";
    assert_eq!(under(merge, 7, plb), Some(2 * (1000 + 2 * 64) + 5 * 100 + 4 * 3 * 64));
    // Rounds start g apart where that is longer than a round; the last one has only to be over.
    assert_eq!(under("a2,a2", 4, "logp:L=2us,o=1us,g=9us"), Some(9000 + 4000));
    assert_eq!(under("a2,a2,a2", 8, "logp:L=2us,o=1us,g=9us"), Some(2 * 9000 + 4000));
    assert_eq!(under(merge, 7, "logp:L=2us,o=1us,g=9us"), None);
}

/// What a vertex is, to whom, how much, in which stage, and how many it waits for.
type Vertex = (&'static str, u32, u64, u32, usize);

#[test]
fn graphs_do_what_words_say() {
    const COMPUTE_NS: u64 = 70;
    for (word, ranks) in [
        ("m1g2a3,n1g3a2", 7),
        ("c6m2,r2,r2,g2,g2,e6m2", 7),
        ("c3m3k2,a2,a2,e3m3k2", 5),
        ("a2,c6m3k2,a2,e6m3k2", 6),
        // Twelve bytes cannot be cut in five parts.
        ("r5,a2,g5", 10),
    ] {
        let fitted = Fitted::new(word.parse().unwrap(), ranks).unwrap();
        let pattern = Allreduce::of(fitted.clone(), 12, Time::from_ns(COMPUTE_NS));
        assert_eq!((pattern.ranks(), pattern.rounds().is_none()), (ranks, true), "{word}");
        for rank in (0..ranks).map(Rank) {
            let (mut expected, mut before) = (Vec::<Vertex>::new(), 0);
            for Step { stage, sends, receives, .. } in fitted.steps(rank, 12) {
                let tag = stage as u32;
                expected.extend(sends.iter().map(|to| ("send", to.peer.0, to.segment.count, tag, before)));
                expected
                    .extend(receives.iter().map(|from| ("recv", from.peer.0, from.segment.count, tag, 0)));
                if !receives.is_empty() {
                    let gathers = matches!(fitted.word().stages[stage], Stage::Allgather { .. });
                    let ns = if gathers { 0 } else { COMPUTE_NS };
                    expected.push(("calc", 0, ns, 0, receives.len() + before));
                    before = 1;
                }
            }
            let mut graph = Graph::new();
            pattern.build(rank, &mut graph).unwrap();
            let found = graph.vertices().map(|vertex| {
                let waits = graph.edges().filter(|edge| edge.target == vertex).count();
                match graph.op(vertex) {
                    Op::Send { dest, bytes, tag, .. } => ("send", dest.0, bytes, tag.0, waits),
                    Op::Recv { source: Some(source), bytes, tag: Some(tag), .. } => {
                        ("recv", source.0, bytes, tag.0, waits)
                    }
                    Op::Calc { ns } => ("calc", 0, ns, 0, waits),
                    other => panic!("{word}: {other:?}"),
                }
            });
            assert_eq!(found.collect::<Vec<Vertex>>(), expected, "{word}, rank {rank}");
            assert_eq!(pattern.operations(rank), expected.len() as u64, "{word}, rank {rank}");
        }
    }
}

#[test]
fn rounds_send_what_words_cost() {
    const BYTES: u64 = 12;
    for (word, ranks) in [("a2,a3", 6), ("r2,r2,g2,g2", 4), ("r3,a2,g3", 6), ("a5", 5)] {
        let fitted = Fitted::new(word.parse().unwrap(), ranks).unwrap();
        let pattern = Allreduce::of(fitted.clone(), BYTES, Time::from_ns(70));
        assert!(pattern.rounds().is_some(), "{word}");
        let program = pattern.program().unwrap();
        let ops = || program.graphs().flat_map(|(_, graph)| graph.vertices().map(|vertex| graph.op(vertex)));
        for (stage, cost) in fitted.cost(BYTES).stages.iter().enumerate() {
            let sent = ops().filter_map(|op| match op {
                Op::Send { bytes, tag, .. } if tag.0 == stage as u32 => Some(bytes),
                _ => None,
            });
            let sent: Vec<u64> = sent.collect();
            assert_eq!(
                (sent.len() as u64, sent.iter().sum()),
                (cost.messages, cost.bytes_total),
                "{word}, {stage}"
            );
        }
        let reductions =
            fitted.word().stages.iter().filter(|stage| !matches!(stage, Stage::Allgather { .. }));
        let computed = ops().filter(|op| matches!(op, Op::Calc { ns: 70 })).count();
        assert_eq!(computed, ranks as usize * reductions.count(), "{word}");
    }
}
