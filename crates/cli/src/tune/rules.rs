//! From what was fastest to the rules of a tuning file.

use super::report::{Case, Tried};
use castell_collectives::collective::ALGORITHMS;
use castell_collectives::decision::{Measured, Operation, Rule};

/// Rules for all calls: for each number of ranks that was measured what was fastest on it, and for the numbers up to the
/// next one the fastest algorithm that takes any number of ranks. A size's choice holds up to the geometric mean with the
/// next size.
pub fn rules(cases: &[Case]) -> anyhow::Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for &operation in Operation::WITH_CHOICE {
        let of_operation: Vec<&Case> = cases.iter().filter(|case| case.operation == operation).collect();
        let mut ranks: Vec<u32> = of_operation.iter().map(|case| case.ranks).collect();
        ranks.sort_unstable();
        ranks.dedup();
        for (index, &count) in ranks.iter().enumerate() {
            let to = ranks.get(index + 1).map_or(u32::MAX, |next| next - 1);
            let mut sizes: Vec<&Case> =
                of_operation.iter().copied().filter(|case| case.ranks == count).collect();
            sizes.sort_by_key(|case| case.bytes);
            rules.extend(of_sizes(&sizes, (count, count), |_| true)?);
            if to > count {
                rules.extend(of_sizes(&sizes, (count + 1, to), takes_any_ranks)?);
            }
        }
    }
    Ok(rules)
}

fn takes_any_ranks(tried: &Tried) -> bool {
    let algorithm = tried.candidate.choice.algorithm.as_ref();
    let known = ["recursive-doubling", "rabenseifner", "direct", "hierarchical"];
    let named = ALGORITHMS.iter().any(|known| known.name == algorithm);
    named || algorithm.split_once(':').is_some_and(|(_, name)| known.contains(&name))
}

fn of_sizes(sizes: &[&Case], ranks: (u32, u32), may: fn(&Tried) -> bool) -> anyhow::Result<Vec<Rule>> {
    let mut rules: Vec<Rule> = Vec::new();
    for (index, case) in sizes.iter().enumerate() {
        let Some(tried) = case.tried.iter().find(|tried| may(tried)) else { continue };
        let bytes_max = match sizes.get(index + 1) {
            Some(next) => (case.bytes.max(1) as f64 * next.bytes as f64).sqrt() as u64,
            None => u64::MAX,
        };
        let choice = &tried.candidate.choice;
        let name = choice.algorithm.split_once(':').map_or("", |(_, name)| name);
        let mut rule =
            Rule::new(case.operation, ranks, bytes_max, name).map_err(|error| anyhow::anyhow!(error))?;
        (rule.ways, rule.segment_bytes) = (choice.ways, choice.segment_bytes);
        if ranks.0 == case.ranks {
            rule.measured = Measured {
                predicted_us: tried.predicted_us,
                simulated_us: tried.simulated_us,
                measured_us: Some(tried.measured_us),
            };
        }
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
    use super::*;
    use crate::bench::collectives::ours::{Candidate, Way};
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
    fn sizes_meet_in_the_middle_and_other_ranks_get_what_fits_them() {
        let doubling = "allreduce:recursive-doubling";
        let cases = [
            case(4, 1 << 20, &["allreduce:ring"]),
            case(4, 8, &["allreduce:a4", doubling]),
            case(4, 4096, &[doubling]),
            case(8, 8, &["allreduce:a4,a2", "allreduce:reduce-bcast"]),
        ];
        let rules = rules(&cases).expect("rules");
        let decisions = Decisions::with_rules(rules.clone(), None);
        let choose = |ranks, bytes| {
            decisions.choose(&Question::new(Operation::Allreduce, ranks, bytes)).algorithm.into_owned()
        };
        assert_eq!(choose(4, 8), "allreduce:a4");
        assert_eq!(choose(4, 181), "allreduce:a4");
        assert_eq!(choose(4, 182), doubling);
        assert_eq!(choose(4, 65_536), doubling);
        assert_eq!(choose(4, 65_537), "allreduce:ring");
        assert_eq!(choose(6, 8), doubling);
        assert_eq!(choose(8, 1 << 30), "allreduce:a4,a2");
        assert_eq!(choose(100, 8), "allreduce:reduce-bcast");
        assert_eq!(choose(2, 8), doubling, "built in");
        assert_eq!(rules.len(), 3 + 2 + 1 + 1);
    }
}
