//! From what was fastest to the rules of a tuning file.

use super::report::Case;
use castell_collectives::decision::{Measured, Operation, Rule};
use std::collections::BTreeSet;

/// How far a size stands for others where none was measured beyond it: down to a half of it, up to twice as much.
const REACH: u64 = 2;

/// What was fastest, for the calls that were measured: on exactly these numbers of ranks, from a half of the smallest size to
/// twice the largest. A size's choice holds up to the geometric mean with the next size.
pub fn rules(cases: &[Case]) -> anyhow::Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for &operation in Operation::WITH_CHOICE {
        let of_operation = || cases.iter().filter(|case| case.operation == operation);
        let ranks: BTreeSet<u32> = of_operation().map(|case| case.ranks).collect();
        for ranks in ranks {
            let mut sizes: Vec<&Case> = of_operation().filter(|case| case.ranks == ranks).collect();
            sizes.sort_by_key(|case| case.bytes);
            rules.extend(of_sizes(&sizes)?);
        }
    }
    Ok(rules)
}

fn of_sizes(sizes: &[&Case]) -> anyhow::Result<Vec<Rule>> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut bytes_min = sizes.first().map_or(0, |first| first.bytes / REACH);
    for (index, case) in sizes.iter().enumerate() {
        let bytes_max = match sizes.get(index + 1) {
            Some(next) => (case.bytes.max(1) as f64 * next.bytes as f64).sqrt() as u64,
            None => case.bytes.saturating_mul(REACH),
        };
        let tried = case.choice();
        let choice = &tried.candidate.choice;
        let name = choice.algorithm.split_once(':').map_or("", |(_, name)| name);
        let mut rule = Rule::new(case.operation, (case.ranks, case.ranks), bytes_max, name)
            .map_err(|error| anyhow::anyhow!(error))?;
        (rule.ways, rule.segment_bytes, rule.bytes_min) = (choice.ways, choice.segment_bytes, bytes_min);
        rule.measured = Measured {
            predicted_us: tried.predicted_us,
            simulated_us: tried.simulated_us,
            measured_us: Some(tried.measured_us),
        };
        bytes_min = bytes_max.saturating_add(1);
        match rules.last_mut() {
            // The same up to a larger size.
            Some(last) if last.algorithm == rule.algorithm && last.ways == rule.ways => {
                last.bytes_max = bytes_max;
            }
            _ => rules.push(rule),
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::super::report::Tried;
    use super::*;
    use castell_bench::collectives::ours::{Candidate, Way};
    use castell_collectives::decision::{Choice, Decisions, Question};

    fn case(ranks: u32, bytes: u64, names: &[&'static str]) -> Case {
        let tried = |(at, &name): (usize, &&'static str)| Tried {
            candidate: Candidate {
                operation: Operation::Allreduce,
                bytes,
                choice: Choice::new(name),
                way: Way::Named,
            },
            predicted_us: None,
            simulated_us: None,
            measured_us: at as f64,
        };
        let tried = names.iter().enumerate().map(tried).collect();
        Case { operation: Operation::Allreduce, ranks, bytes, tried, peers: Vec::new() }
    }

    #[test]
    fn sizes_meet_in_the_middle_and_nothing_is_said_beyond_what_was_measured() {
        let doubling = "allreduce:recursive-doubling";
        let cases = [
            case(4, 1 << 20, &["allreduce:ring"]),
            case(4, 8, &["allreduce:a4", doubling]),
            case(4, 4096, &[doubling]),
            case(8, 8, &["allreduce:a4,a2", "allreduce:reduce-bcast"]),
        ];
        let rules = rules(&cases).expect("rules");
        let decisions = Decisions::with_rules(rules.clone(), None);
        let builtin = Decisions::builtin();
        let question = |ranks, bytes| Question::new(Operation::Allreduce, ranks, bytes);
        let choose = |ranks, bytes| decisions.choose(&question(ranks, bytes)).algorithm.into_owned();
        for (bytes, chosen) in [
            (4, "allreduce:a4"),
            (181, "allreduce:a4"),
            (182, doubling),
            (65_536, doubling),
            (65_537, "allreduce:ring"),
            (2 << 20, "allreduce:ring"),
        ] {
            assert_eq!(choose(4, bytes), chosen, "{bytes} bytes");
        }
        assert_eq!(choose(8, 16), "allreduce:a4,a2");
        for beyond in [(4, 3), (4, (2 << 20) + 1), (8, 17), (2, 8), (6, 8), (100, 8)] {
            let (ranks, bytes) = beyond;
            assert_eq!(choose(ranks, bytes), builtin.choose(&question(ranks, bytes)).algorithm, "{beyond:?}");
        }
        assert_eq!(rules.len(), 3 + 1);
    }

    #[test]
    fn a_barrier_has_no_size() {
        let case = Case { operation: Operation::Barrier, ..case(2, 0, &["barrier:linear"]) };
        let decisions = Decisions::with_rules(rules(&[case]).expect("rules"), None);
        assert_eq!(decisions.choose(&Question::new(Operation::Barrier, 2, 0)).algorithm, "barrier:linear");
    }
}
