//! All ways to pair jobs: counted, and evaluated where there are not too many.

use super::factors::percent;
use anyhow::Context as _;
use castell_bench::bar::waiting;
use castell_policy::placement::count::Counter;
use castell_policy::placement::{Jobs, Natural, Nodes, Program, Rule, Slowdowns, Subset, Survey, place};
use serde_json::{Value, json};

/// What is asked.
pub(super) struct Question<'a> {
    pub jobs: &'a Jobs,
    pub nodes: Option<u64>,
    pub slowdowns: Option<&'a Slowdowns>,
    pub groups: &'a [(String, Vec<String>)],
    pub bin: f64,
}

/// The program that stands for slots without a job.
const EMPTY: &str = "(empty)";

pub(super) fn run(question: &Question, as_json: bool) -> anyhow::Result<()> {
    let (jobs, empty) = filled(question)?;
    let line = waiting("counting the ways");
    let mut counter = Counter::default();
    let is_empty = |program: usize| Some(program) == empty;
    let ways = counter.ways(&jobs, |_| true)?;
    let without = counter.ways(&jobs, is_empty)?;
    let mut answer = json!({
        "jobs": question.jobs.total(),
        "nodes": jobs.total() / 2,
        "ways": ways.to_string(),
        "ways_without_twins": without.to_string(),
    });
    drop(line);
    let line = waiting("evaluating the ways");
    let mut text = format!("{} jobs on {} nodes of two slots\n", question.jobs.total(), jobs.total() / 2);
    text += &format!("{ways} ways, {without} of them without twins\n");
    if let Some(slowdowns) = question.slowdowns {
        let slowdowns = with_empty(slowdowns, empty);
        let few = ways <= Natural::from(castell_policy::placement::survey::WAYS_MAX);
        let evaluated = if few {
            list(question, &jobs, &slowdowns)?
        } else {
            bounds(question, &jobs, &slowdowns, empty, &mut counter)?
        };
        text += &evaluated.0;
        for (key, value) in evaluated.1.as_object().into_iter().flatten() {
            answer[key] = value.clone();
        }
    }
    drop(line);
    if as_json {
        println!("{answer:#}");
    } else {
        print!("{text}");
    }
    Ok(())
}

/// The jobs with slots that stay empty as one more program.
fn filled(question: &Question) -> anyhow::Result<(Jobs, Option<usize>)> {
    let total = question.jobs.total();
    let nodes = question.nodes.unwrap_or(total.div_ceil(2));
    let slots = nodes.checked_mul(2).context("--nodes: too many")?;
    anyhow::ensure!(slots >= total, "{total} jobs need more than the {slots} slots of {nodes} nodes");
    if slots == total {
        return Ok((question.jobs.clone(), None));
    }
    let instances = u32::try_from(slots - total).context("--nodes: too many")?;
    let empty = Program { name: EMPTY.to_owned(), instances };
    let programs = question.jobs.programs().iter().cloned().chain([empty]);
    Ok((Jobs::new(programs)?, Some(question.jobs.programs().len())))
}

fn with_empty(slowdowns: &Slowdowns, empty: Option<usize>) -> Slowdowns {
    let names = slowdowns.names().iter().cloned().chain(empty.map(|_| EMPTY.to_owned())).collect();
    let of = |one, other| {
        if empty.is_some_and(|empty| one == empty || other == empty) { 1.0 } else { slowdowns.of(one, other) }
    };
    Slowdowns::from_fn(names, of)
}

/// Every way, one by one.
fn list(question: &Question, jobs: &Jobs, slowdowns: &Slowdowns) -> anyhow::Result<(String, Value)> {
    let position = |name: &String| {
        let found = jobs.programs().iter().position(|program| program.name == *name);
        found.with_context(|| format!("--group: there is no program {name} among the jobs"))
    };
    let groups: anyhow::Result<Vec<Vec<usize>>> =
        question.groups.iter().map(|(_, programs)| programs.iter().map(position).collect()).collect();
    let survey = Survey::list(jobs, slowdowns, &groups?, question.bin, |_| {})?;
    let mut sets = vec![
        ("all".to_owned(), &survey.all),
        ("no_twins".to_owned(), &survey.no_twins),
        ("twins".to_owned(), &survey.twins),
        ("no_twins_last_pair_unchecked".to_owned(), &survey.no_twins_but_last),
        ("twins_last_pair_unchecked".to_owned(), &survey.twins_before_last),
    ];
    for ((name, _), (group, by_pair)) in
        question.groups.iter().zip(survey.groups.iter().zip(&survey.groups_by_pair))
    {
        sets.push((format!("{name}_twins"), group));
        sets.push((format!("{name}_twins_by_pair_last_unchecked"), by_pair));
    }
    let mut text = format!(
        "{:<36} {:>12} {:>9} {:>9} {:>9}\n",
        "average slowdown of a way", "ways", "best", "average", "worst"
    );
    for (name, set) in &sets {
        text += &format!(
            "{name:<36} {:>12} {:>9} {:>9} {:>9}\n",
            set.ways,
            known(set, set.best),
            known(set, set.average),
            known(set, set.worst)
        );
    }
    let sets = sets.into_iter().map(|(name, set)| (name, to_json(set)));
    let sets = sets.collect::<serde_json::Map<_, _>>();
    Ok((text, json!({"bin": question.bin, "listed": true, "sets": sets})))
}

fn known(set: &Subset, factor: f64) -> String {
    if set.ways == 0 { "-".to_owned() } else { percent(factor) }
}

fn to_json(set: &Subset) -> Value {
    let some = |factor: f64| (set.ways > 0).then_some(factor);
    json!({
        "ways": set.ways,
        "best": some(set.best),
        "average": some(set.average),
        "worst": some(set.worst),
        "histogram": set.histogram,
    })
}

/// Too many to list: the best and the worst as matchings, averages by counting.
fn bounds(
    question: &Question,
    jobs: &Jobs,
    slowdowns: &Slowdowns,
    empty: Option<usize>,
    counter: &mut Counter,
) -> anyhow::Result<(String, Value)> {
    let nodes = Nodes { nodes: jobs.total() / 2, per_node: 2 };
    let average_of = |placed: &Slowdowns| -> anyhow::Result<f64> {
        let placement = place(jobs, nodes, Rule::Optimum, Some(placed), f64::INFINITY, 1)?;
        // Over real jobs only.
        let scale = jobs.total() as f64 / question.jobs.total() as f64;
        Ok(1.0 + (placement.outcome(slowdowns).average - 1.0) * scale)
    };
    let highest = (0..jobs.programs().len())
        .flat_map(|one| (0..jobs.programs().len()).map(move |other| (one, other)))
        .fold(1.0, |most: f64, (one, other)| most.max(slowdowns.of(one, other)));
    let reversed =
        Slowdowns::from_fn(slowdowns.names().to_vec(), |one, other| 1.0 + highest - slowdowns.of(one, other));
    let (best, worst) = (average_of(slowdowns)?, average_of(&reversed)?);
    let mut average = [0.0; 2];
    for (average, may_be_twins) in average.iter_mut().zip([true, false]) {
        let allowed = |program: usize| may_be_twins || Some(program) == empty;
        let ways = counter.ways(jobs, allowed)?;
        let mut sum = 0.0;
        counter.pairs(jobs, allowed, |one, other, of| {
            let cost = slowdowns.of(one, other) + slowdowns.of(other, one) - 2.0;
            sum += of.ratio(&ways) * cost;
        })?;
        *average = 1.0 + sum / question.jobs.total() as f64;
    }
    let text = format!(
        "too many to list; of all ways, by matching and counting\n  best {}, average {}, worst {}; average without twins {}\n",
        percent(best),
        percent(average[0]),
        percent(worst),
        percent(average[1])
    );
    let sets = json!({
        "all": {"ways": Value::Null, "best": best, "average": average[0], "worst": worst},
        "no_twins": {"average": average[1]},
    });
    Ok((text, json!({"listed": false, "sets": sets})))
}
