//! What holds for any jobs and slowdowns: every job has one slot, no listed way beats the optimum, bounds are bounds. And any text that
//! is given as jobs, slowdowns or run times is refused or read.

#[path = "../../../fuzz/src/placement.rs"]
mod properties;

use castell_base::Rank;
use castell_base::random::Philox;
use castell_policy::placement::{Jobs, Nodes, Placement, Program, Proof, Rule, Slowdowns, Survey, place};
use proptest::prelude::*;
use rand_core::RngCore;

fn jobs(instances: &[u32]) -> Jobs {
    let program = |(at, &instances): (usize, &u32)| Program { name: format!("p{at}"), instances };
    Jobs::new(instances.iter().enumerate().map(program)).unwrap()
}

fn table(jobs: &Jobs, percents: &[u32]) -> Slowdowns {
    let names: Vec<String> = jobs.programs().iter().map(|program| program.name.clone()).collect();
    let width = names.len();
    Slowdowns::from_fn(names, |one, other| {
        1.0 + f64::from(percents[(one * width + other) % percents.len()]) / 100.0
    })
}

fn every_job_has_one_slot(placement: &Placement, jobs: &Jobs, nodes: Nodes) {
    let mut placed = vec![0; jobs.programs().len()];
    for group in &placement.groups {
        assert!(!group.programs.is_empty() && group.programs.len() <= nodes.per_node as usize);
        group.programs.iter().for_each(|&program| placed[program] += group.nodes);
    }
    let expected: Vec<u64> = jobs.programs().iter().map(|program| u64::from(program.instances)).collect();
    assert_eq!(placed, expected);
    assert!(placement.groups.iter().map(|group| group.nodes).sum::<u64>() <= nodes.nodes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_way_is_better_than_the_optimum(
        instances in proptest::collection::vec(1u32..4, 1..6),
        percents in proptest::collection::vec(0u32..40, 25),
    ) {
        let jobs = jobs(&instances);
        let slowdowns = table(&jobs, &percents);
        let nodes = Nodes::enough(&jobs, 2);
        let best = place(&jobs, nodes, Rule::Optimum, Some(&slowdowns), f64::INFINITY, 1).unwrap();
        every_job_has_one_slot(&best, &jobs, nodes);
        prop_assert_eq!(best.proof, Proof::Optimum);
        if jobs.total().is_multiple_of(2) {
            let survey = Survey::list(&jobs, &slowdowns, &[], 0.01, |_| {}).unwrap();
            prop_assert!((survey.all.best - best.outcome(&slowdowns).average).abs() < 1e-9);
        }
    }

    #[test]
    fn every_rule_places_every_job_once(
        instances in proptest::collection::vec(1u32..9, 1..8),
        percents in proptest::collection::vec(0u32..40, 49),
        per_node in 1u32..6,
        spare in 0u64..4,
        seed: u64,
    ) {
        let jobs = jobs(&instances);
        let slowdowns = table(&jobs, &percents);
        let mut nodes = Nodes::enough(&jobs, per_node);
        nodes.nodes += spare;
        for rule in [Rule::Optimum, Rule::Twins, Rule::Random, Rule::FirstFit] {
            let placement = place(&jobs, nodes, rule, Some(&slowdowns), f64::INFINITY, seed).unwrap();
            every_job_has_one_slot(&placement, &jobs, nodes);
            let again = place(&jobs, nodes, rule, Some(&slowdowns), f64::INFINITY, seed).unwrap();
            prop_assert_eq!(&placement, &again);
            if let Proof::AtLeast(least) = placement.proof {
                prop_assert!(least <= placement.outcome(&slowdowns).average + 1e-9);
            }
        }
        let most = u64::from(instances.iter().copied().max().unwrap_or(0));
        let apart = place(&jobs, nodes, Rule::Twins, None, f64::INFINITY, seed).unwrap();
        let used = jobs.total().div_ceil(u64::from(per_node));
        prop_assert!(apart.twins() == 0 || most > used);
    }

    #[test]
    fn a_limit_is_kept(
        instances in proptest::collection::vec(1u32..4, 1..6),
        percents in proptest::collection::vec(0u32..40, 25),
        limit in 0u32..40,
    ) {
        let jobs = jobs(&instances);
        let slowdowns = table(&jobs, &percents);
        let (limit, nodes) = (1.0 + f64::from(limit) / 100.0, Nodes { nodes: jobs.total(), per_node: 2 });
        let placement = place(&jobs, nodes, Rule::Optimum, Some(&slowdowns), limit, 1).unwrap();
        prop_assert!(placement.outcome(&slowdowns).worst <= limit + 1e-12);
    }
}

#[test]
fn many_jobs_in_groups_are_placed_part_by_part() {
    let jobs = jobs(&[15_001, 10_333, 2, 6_345, 9, 7_000, 1_777, 1]);
    let percents: Vec<u32> = (0..64).map(|at| at * 37 % 101).collect();
    let slowdowns = table(&jobs, &percents);
    for (per_node, spare) in [(3, 0), (4, 1000)] {
        let mut nodes = Nodes::enough(&jobs, per_node);
        nodes.nodes += spare;
        let rule = |rule| place(&jobs, nodes, rule, Some(&slowdowns), f64::INFINITY, 1).unwrap();
        let placement = rule(Rule::Optimum);
        every_job_has_one_slot(&placement, &jobs, nodes);
        let [average, twins] =
            [&placement, &rule(Rule::Twins)].map(|of| of.outcome(&slowdowns).average - 1.0);
        assert!(average < twins * 0.8, "{per_node} a node: {average} by exchanges, {twins} without");
    }
}

#[test]
fn more_jobs_than_are_matched_one_by_one_come_near_the_bound() {
    let jobs = jobs(&[70_001, 33_333, 50_000, 12_345, 9, 40_000, 7_777, 1]);
    let percents: Vec<u32> = (0..64).map(|at| at * 37 % 101).collect();
    let slowdowns = table(&jobs, &percents);
    let nodes = Nodes::enough(&jobs, 2);
    let placement = place(&jobs, nodes, Rule::Optimum, Some(&slowdowns), f64::INFINITY, 1).unwrap();
    every_job_has_one_slot(&placement, &jobs, nodes);
    let average = placement.outcome(&slowdowns).average;
    let least = match placement.proof {
        Proof::Optimum => average,
        Proof::AtLeast(least) => least,
        Proof::None => panic!("something is known"),
    };
    assert!(average - least < 1e-4, "{average} {least}");
}

const TEXTS: [&str; 4] = [
    "program,instances\nbt,2\ncg,3\n# none\n\nep\n",
    "program,a,b,c\na,1,1,1\nb,0%,100%,20%\nc,1,1.3,1.05\n",
    "cores,seconds\n1,8\n2,4\n3,2.7\n16,1e-3\n",
    "program,a\na,1e300%\n",
];

#[test]
fn any_text_is_refused_or_read() {
    for round in 0..20_000 {
        let mut random = Philox::new(11, Rank(0), round, 0);
        let mut below = |end: usize| (random.next_u64() % end.max(1) as u64) as usize;
        let mut bytes = TEXTS[below(TEXTS.len())].as_bytes().to_vec();
        for _ in 0..1 + below(4) {
            let at = below(bytes.len());
            match below(3) {
                0 => bytes[at] = b"0129.,%-+eabc#\n \xff"[below(17)],
                1 => drop(bytes.drain(at..(at + 1 + below(8)).min(bytes.len()))),
                _ => {
                    bytes.splice(at..at, TEXTS[below(TEXTS.len())].bytes().take(1 + below(12))).for_each(drop)
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let outcome = std::panic::catch_unwind(|| properties::any_text(&bytes));
        assert!(outcome.is_ok(), "round {round}: {shown:?}");
    }
}
