//! Prints a placement: nodes, what each job suffers, and why who is with whom.

use super::factors::{outcome_json, percent};
use super::predicted::Predicted;
use castell_policy::placement::queue::UNKNOWN;
use castell_policy::placement::{Group, Jobs, Nodes, Outcome, Placement, Proof, Slowdowns, slowdown_of};
use serde_json::json;
use std::fmt::Write as _;

/// Nodes that are listed for people.
const LINES_MAX: usize = 60;

/// A placement with what it was made from.
pub(super) struct Shown<'a> {
    pub jobs: &'a Jobs,
    pub nodes: Nodes,
    pub rule: &'static str,
    /// What jobs suffer.
    pub slowdowns: Option<&'a Slowdowns>,
    /// What the placement was chosen by, if that is not the same.
    pub predicted: Option<&'a Predicted>,
    pub placement: &'a Placement,
}

impl Shown<'_> {
    fn name(&self, program: usize) -> &str {
        &self.jobs.programs()[program].name
    }

    /// Names of a group's jobs, and their slowdowns where these are known.
    pub fn jobs_of(&self, group: &Group) -> Vec<(Option<String>, Option<f64>)> {
        let slowdown = |at| self.slowdowns.map(|slowdowns| slowdown_of(at, &group.programs, slowdowns));
        let programs = group.programs.iter().enumerate();
        programs.map(|(at, &program)| (Some(self.name(program).to_owned()), slowdown(at))).collect()
    }

    /// What comes out, in a sentence.
    pub fn summary(&self) -> String {
        let Some(slowdowns) = self.slowdowns else {
            return format!("{} nodes with twins; how much jobs suffer is not known", self.placement.twins());
        };
        let outcome = self.placement.outcome(slowdowns);
        let proof = match self.placement.proof {
            Proof::Optimum => ": no placement has a smaller average".to_owned(),
            Proof::AtLeast(least) => format!(": no placement has less than {} on average", percent(least)),
            Proof::None => String::new(),
        };
        let what = match self.predicted {
            Some(predicted) if std::ptr::eq(slowdowns, &predicted.expected) => "predicted slowdown",
            _ => "slowdown",
        };
        format!(
            "{what} {} on average, {} at best, {} at worst{proof}{}",
            percent(outcome.average),
            percent(outcome.best),
            percent(outcome.worst),
            self.assumed()
        )
    }

    /// How much of it nobody can tell.
    fn assumed(&self) -> String {
        let Some(predicted) = self.predicted else { return String::new() };
        let nodes = |is_so: &dyn Fn(usize, usize) -> bool| -> u64 {
            let has = |of: &[usize]| {
                (0..of.len())
                    .any(|at| of[..at].iter().any(|&other| is_so(of[at], other) || is_so(other, of[at])))
            };
            self.placement.groups.iter().filter(|group| has(&group.programs)).map(|group| group.nodes).sum()
        };
        let mut text = String::new();
        if let open @ 1.. = nodes(&|one, other| predicted.is_open(one, other)) {
            text += &format!("; on {open} nodes what is known leaves much open");
        }
        if let unknown @ 1.. = nodes(&|one, other| predicted.is_unknown(one, other)) {
            let assumed = percent(1.0 + UNKNOWN);
            text += &format!("; on {unknown} nodes nobody can tell, and {assumed} is assumed");
        }
        text
    }

    pub fn text(&self, others: &[(&str, Outcome)]) -> String {
        let mut text = format!("{}\n", self.summary());
        let mut node = 1;
        for group in self.placement.groups.iter().take(LINES_MAX) {
            let jobs: Vec<String> = self.jobs_of(group).iter().map(shown_job).collect();
            let label = match group.nodes {
                1 => format!("node {node}"),
                several => format!("nodes {node}-{}", node + several - 1),
            };
            node += group.nodes;
            let _ = writeln!(text, "  {label:<14} {}", jobs.join(" + "));
            let _ = writeln!(text, "  {:<14} {}", "", self.why(group));
        }
        if self.placement.groups.len() > LINES_MAX {
            let left = self.placement.groups.len() - LINES_MAX;
            let _ = writeln!(text, "  and {left} more kinds of nodes; --json has all");
        }
        if let Some(predicted) = self.predicted {
            text += &predicted.text(self.jobs);
        }
        if !others.is_empty() {
            let _ = writeln!(text, "other rules, average and worst slowdown, nodes with twins");
        }
        for (rule, outcome) in others {
            let (average, worst) = (percent(outcome.average), percent(outcome.worst));
            let _ = writeln!(text, "  {rule:<10} {average:>10} {worst:>10} {:>8}", outcome.twins);
        }
        text
    }

    /// Why these are together, in a sentence.
    pub fn why(&self, group: &Group) -> String {
        let has_twins = group.programs.windows(2).any(|two| two[0] == two[1]);
        match (self.rule, self.slowdowns) {
            _ if group.programs.len() == 1 => "alone: there are slots to spare".to_owned(),
            ("optimum", Some(slowdowns)) if group.programs.len() == 2 => self.why_pair(group, slowdowns),
            ("predicted", _) if group.programs.len() == 2 => self.why_predicted(group),
            ("optimum" | "predicted", _) => {
                "no exchange with another node that was tried makes the sum smaller".to_owned()
            }
            ("twins", _) if has_twins => "twins: there are more of them than nodes".to_owned(),
            ("twins", _) => "different programs: they are less likely to want the same".to_owned(),
            ("first-fit", _) => "they follow each other in the list".to_owned(),
            _ => "by chance".to_owned(),
        }
    }

    fn why_predicted(&self, group: &Group) -> String {
        let Some(predicted) = self.predicted else { return String::new() };
        let (one, other) = (group.programs[0], group.programs[1]);
        let name = |program| self.name(program);
        match predicted.is_unknown(one, other) {
            true if one == other => {
                format!("twins of which nothing is known: there is nobody else for {}", name(one))
            }
            true => {
                format!("no twins; what {} and {} do to each other nobody can tell", name(one), name(other))
            }
            false => self.why_pair(group, &predicted.decides),
        }
    }

    /// The job that suffers more, and the company that it would like better.
    fn why_pair(&self, group: &Group, slowdowns: &Slowdowns) -> String {
        let (one, other) = (group.programs[0], group.programs[1]);
        let (mine, theirs) = (slowdowns.of(one, other), slowdowns.of(other, one));
        let (loser, partner, suffered) =
            if mine >= theirs { (one, other, mine) } else { (other, one, theirs) };
        if suffered <= 1.0 {
            return format!("neither {} nor {} suffers", self.name(one), self.name(other));
        }
        let is_there = |program: usize| program != loser || self.jobs.programs()[program].instances > 1;
        let candidates = (0..self.jobs.programs().len()).filter(|&program| is_there(program));
        let rival = candidates
            .min_by(|a, b| slowdowns.of(loser, *a).total_cmp(&slowdowns.of(loser, *b)))
            .filter(|&rival| slowdowns.of(loser, rival) < suffered);
        let Some(rival) = rival else {
            return format!("nobody is better company for {} than {}", self.name(loser), self.name(partner));
        };
        let less = percent(slowdowns.of(loser, rival));
        // Who has the rival, and suffers most from giving it away.
        let holders = self.placement.groups.iter().filter(|held| held.programs.contains(&rival));
        let saved = holders.filter_map(|held| {
            let holder = match held.programs[..] {
                [a, b] if a == rival => b,
                [a, b] if b == rival => a,
                _ => return None,
            };
            Some((holder, slowdowns.of(holder, partner) - slowdowns.of(holder, rival)))
        });
        match saved.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((holder, saved)) if saved > 0.0 => format!(
                "{} would suffer {less} beside {}, but that spares {} {} ({} beside {})",
                self.name(loser),
                self.name(rival),
                self.name(holder),
                percent(1.0 + saved),
                percent(slowdowns.of(holder, partner)),
                self.name(partner)
            ),
            _ => format!(
                "{} would suffer {less} beside {}, but the others lose more by that",
                self.name(loser),
                self.name(rival)
            ),
        }
    }

    pub fn to_json(&self, others: &[(&str, Outcome)]) -> serde_json::Value {
        let groups = self.placement.groups.iter().map(|group| {
            let jobs = self.jobs_of(group).into_iter();
            let jobs = jobs.map(|(program, slowdown)| json!({"program": program, "slowdown": slowdown}));
            json!({"nodes": group.nodes, "jobs": jobs.collect::<Vec<_>>(), "why": self.why(group)})
        });
        let others = others.iter().map(|(rule, outcome)| ((*rule).to_owned(), outcome_json(outcome)));
        let (is_optimum, least) = match self.placement.proof {
            Proof::Optimum => (true, self.slowdowns.map(|of| self.placement.outcome(of).average)),
            Proof::AtLeast(least) => (false, Some(least)),
            Proof::None => (false, None),
        };
        let outcome = self.slowdowns.map(|slowdowns| outcome_json(&self.placement.outcome(slowdowns)));
        json!({
            "rule": self.rule,
            "jobs": self.jobs.total(),
            "nodes": self.nodes.nodes,
            "per_node": self.nodes.per_node,
            "slowdown": outcome,
            "proved_optimum": is_optimum,
            "average_at_least": least,
            "twins": self.placement.twins(),
            "groups": groups.collect::<Vec<_>>(),
            "other_rules": others.collect::<serde_json::Map<_, _>>(),
            "knowledge": self.predicted.map(|predicted| predicted.to_json(self.jobs)),
        })
    }
}

fn shown_job((name, slowdown): &(Option<String>, Option<f64>)) -> String {
    let name = name.as_deref().unwrap_or("empty");
    match slowdown {
        Some(slowdown) => format!("{name} ({})", percent(*slowdown)),
        None => name.to_owned(),
    }
}
