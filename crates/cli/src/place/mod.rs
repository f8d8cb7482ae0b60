//! `castell place`.

mod all;
mod factors;
mod input;
mod predicted;
mod show;
mod slurm;
mod split;

use crate::look::LookArgs;
use castell_policy::placement::{Jobs, Nodes, Placement, Proof, Rule, Slowdowns, place};
use castell_trace::Look;
use castell_trace::svg::{NodeBox, NodesPlot, write_nodes};
use predicted::Predicted;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell place bt:2,cg:2,ep:2 --rule twins                    keeps instances of one program apart: needs no knowledge
  castell place jobs.csv --slowdowns table.csv                 the least average slowdown, and why who is with whom
  castell place jobs.csv --slowdowns table.csv --max-slowdown 10% --nodes 12 --svg nodes.svg
  castell place 10x2 --all                                     how many ways there are, and without twins
  castell place bt:2,cg:2 --all --slowdowns table.csv --json   what each way would give, as histograms
  castell place --split a.csv b.csv --cores 16                 how many cores each of two programs should get
  castell place --split './a -t {cores}' ./b --measure         the same, measured here with both beside each other
  castell place --split search cg:1000 --simulate              the same on a simulated chip
  castell place bt:C:2,./cg:2 --rule predicted                 the least average slowdown by profiles that were kept
  castell place --slurm --slowdowns table.csv                  who would start where in Slurm's queue as it is now, and why

JOBS is a file with lines NAME or NAME,INSTANCES, a list NAME:INSTANCES,…, or PROGRAMSxINSTANCES for programs P1, P2, …
A table of slowdowns has a header row of names, then a row for each program: its name and how much longer it runs beside each
program of the header, as a factor (1.25) or in percent more (25%). The rule predicted looks for a program's profile
(`castell profile --keep`) by its file (./cg), its name and its input class (bt:C).";

/// Find which jobs fit together on nodes that they share
///
/// Pairs or groups of jobs by rule or by the least average slowdown, which is proved for two slots a node; the number of all ways
/// and what each would give; the best split of a node's cores between two programs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Jobs to place: a file, NAME:INSTANCES,… or PROGRAMSxINSTANCES
    #[arg(required_unless_present_any = ["split", "slurm"])]
    jobs: Option<String>,
    /// Nodes there are; as many as the jobs need where this is not given
    #[arg(long)]
    nodes: Option<u64>,
    /// Slots of a node
    #[arg(long, value_name = "SLOTS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1024))]
    per_node: u32,
    /// How to choose; the optimum where there are slowdowns, twins where there are none
    #[arg(long, value_enum)]
    rule: Option<RuleName>,
    /// How much each program suffers beside each
    #[arg(long, value_name = "TABLE.csv")]
    slowdowns: Option<PathBuf>,
    /// Profiles that were kept, for the rule predicted and for --slurm [default: the user's, else /var/lib/castell/profiles]
    #[arg(long, value_name = "DIR")]
    profiles: Option<PathBuf>,
    /// No job may suffer more, as 10% or 1.1 (with the optimum or predicted)
    #[arg(long, value_name = "SLOWDOWN", value_parser = input::slowdown)]
    max_slowdown: Option<f64>,
    /// Seed of what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Count all ways to pair the jobs; with slowdowns evaluate each
    #[arg(long, conflicts_with_all = ["rule", "max_slowdown", "svg"])]
    all: bool,
    /// With --all: a group of programs whose twins are evaluated as a set, NAME=PROGRAM,PROGRAM,…
    #[arg(long = "group", value_name = "NAME=PROGRAMS", requires = "all", value_parser = input::group)]
    groups: Vec<(String, Vec<String>)>,
    /// With --all: width of the histograms' bins in percent of slowdown
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    bin: f64,
    /// Find how to split a node's cores between two programs; each file has lines CORES,SECONDS
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with_all = ["jobs", "all", "slowdowns", "rule"])]
    split: Option<Vec<String>>,
    /// With --split: A and B are commands, which are run on this machine alone and beside each other; {cores} in them is the number of cores
    #[arg(long, requires = "split")]
    measure: bool,
    /// With --measure: whole runs in each case, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, requires = "measure", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// With --split: A and B are programs of ours on a simulated chip, cg:SIDE or search
    #[arg(long, requires = "split", conflicts_with = "measure")]
    simulate: bool,
    /// With --split: cores of the node; as many as both files know where this is not given
    #[arg(long, requires = "split")]
    cores: Option<u32>,
    /// Show what would be done with the queue of Slurm as it is now
    #[arg(long, conflicts_with_all = ["jobs", "all", "split", "nodes", "rule", "svg"])]
    slurm: bool,
    /// With --slurm: do it, for the jobs that castell's plug-in has marked
    #[arg(long, requires = "slurm", conflicts_with = "json")]
    apply: bool,
    /// With --slurm: only this partition
    #[arg(long, value_name = "NAME", requires = "slurm")]
    partition: Option<String>,
    /// With --slurm: after so long a job takes any slot, also beside its twin
    #[arg(long, value_name = "TIME", requires = "slurm", default_value = "10m", value_parser = patience)]
    patience: std::time::Duration,
    /// Draw the nodes, or the split
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RuleName {
    /// No two instances of one program on a node, at random otherwise
    Twins,
    /// The least average slowdown
    Optimum,
    /// The least average slowdown as predicted from profiles; with --slowdowns, what that gives is taken from there
    Predicted,
    /// At random
    Random,
    /// In the order of the list
    FirstFit,
}

impl RuleName {
    const ALL: [RuleName; 4] = [RuleName::Optimum, RuleName::Twins, RuleName::Random, RuleName::FirstFit];

    fn rule(self) -> Rule {
        match self {
            RuleName::Twins => Rule::Twins,
            RuleName::Optimum | RuleName::Predicted => Rule::Optimum,
            RuleName::Random => Rule::Random,
            RuleName::FirstFit => Rule::FirstFit,
        }
    }

    fn name(self) -> &'static str {
        match self {
            RuleName::Twins => "twins",
            RuleName::Optimum => "optimum",
            RuleName::Predicted => "predicted",
            RuleName::Random => "random",
            RuleName::FirstFit => "first-fit",
        }
    }
}

/// Runs the subcommand.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.svg {
        crate::output::check(path)?;
    }
    if let Some(files) = &args.split {
        let source = match (args.measure, args.simulate) {
            (true, _) => split::Source::Measured(args.runs),
            (_, true) => split::Source::Simulated,
            _ => split::Source::Files,
        };
        split::run(
            [&files[0], &files[1]],
            source,
            args.cores,
            args.svg.as_deref().zip(Some(args.look.look())),
            args.json,
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.slurm {
        let question = slurm::Question {
            slots: args.per_node,
            partition: args.partition.as_deref(),
            slowdowns: args.slowdowns.as_deref(),
            profiles: args.profiles.as_deref(),
            slowdown_max: args.max_slowdown.unwrap_or(f64::INFINITY),
            patience: args.patience,
        };
        if args.apply {
            slurm::apply(&question)?;
        } else {
            slurm::show(&question, args.json)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let jobs = input::jobs(args.jobs.as_deref().unwrap_or_default())?;
    anyhow::ensure!(jobs.total() > 0, "there are no jobs to place");
    let slowdowns = args.slowdowns.as_deref().map(|path| input::slowdowns(path, &jobs)).transpose()?;
    if args.all {
        anyhow::ensure!(args.per_node == 2, "--all knows nodes of two slots only; leave --per-node out");
        anyhow::ensure!(args.bin > 0.0 && args.bin <= 100.0, "--bin is above 0 and at most 100");
        let question = all::Question {
            jobs: &jobs,
            nodes: args.nodes,
            slowdowns: slowdowns.as_ref(),
            groups: &args.groups,
            bin: args.bin / 100.0,
        };
        all::run(&question, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    put_on_nodes(&args, &jobs, slowdowns)?;
    Ok(ExitCode::SUCCESS)
}

/// A placement by a rule, printed and drawn.
fn put_on_nodes(args: &Args, jobs: &Jobs, table: Option<Slowdowns>) -> anyhow::Result<()> {
    let nodes = match args.nodes {
        Some(nodes) => Nodes { nodes, per_node: args.per_node },
        None => Nodes::enough(jobs, args.per_node),
    };
    let rule = args.rule.unwrap_or(match (&table, &args.profiles) {
        (Some(_), _) => RuleName::Optimum,
        (None, Some(_)) => RuleName::Predicted,
        (None, None) => RuleName::Twins,
    });
    anyhow::ensure!(
        args.max_slowdown.is_none() || rule.rule() == Rule::Optimum,
        "--max-slowdown needs the optimum and --slowdowns, or predicted; the rule {} does not look at slowdowns",
        rule.name()
    );
    let is_predicted = rule == RuleName::Predicted;
    let predicted = is_predicted.then(|| Predicted::of(jobs, args.profiles.as_deref())).transpose()?;
    let decides = predicted.as_ref().map(|predicted| &predicted.decides).or(table.as_ref());
    let most = args.max_slowdown.unwrap_or(f64::INFINITY);
    let mut placement = place(jobs, nodes, rule.rule(), decides, most, args.seed)?;
    let slowdowns = table.as_ref().or(predicted.as_ref().map(|predicted| &predicted.expected));
    if predicted.as_ref().is_some_and(|predicted| table.is_some() || !predicted.is_complete()) {
        // It was about what was predicted or assumed, not about what is printed.
        placement.proof = Proof::None;
    }
    let shown = show::Shown {
        jobs,
        nodes,
        rule: rule.name(),
        slowdowns,
        predicted: predicted.as_ref(),
        placement: &placement,
    };
    if let Some(path) = &args.svg {
        draw(&shown, &args.look.look(), path)?;
    }
    let others =
        slowdowns.map(|slowdowns| compare(jobs, nodes, slowdowns, args.seed, rule)).unwrap_or_default();
    if args.json {
        println!("{:#}", shown.to_json(&others));
    } else {
        print!("{}", shown.text(&others));
    }
    Ok(())
}

fn patience(text: &str) -> Result<std::time::Duration, String> {
    crate::launch::parse_duration(text).map_err(|error| format!("{error:#}"))
}

/// What the other rules would give; those that take long are left out.
fn compare(
    jobs: &Jobs,
    nodes: Nodes,
    slowdowns: &Slowdowns,
    seed: u64,
    chosen: RuleName,
) -> Vec<(&'static str, castell_policy::placement::Outcome)> {
    let others = RuleName::ALL.into_iter().filter(|&rule| rule != chosen);
    let is_quick = |rule: &RuleName| *rule != RuleName::Optimum || jobs.total() <= 1_000;
    let placed = others.filter(is_quick).filter_map(|rule| {
        let placement = place(jobs, nodes, rule.rule(), Some(slowdowns), f64::INFINITY, seed).ok()?;
        Some((rule.name(), placement.outcome(slowdowns)))
    });
    placed.collect()
}

fn draw(shown: &show::Shown, look: &Look, path: &Path) -> anyhow::Result<()> {
    let Placement { groups, .. } = shown.placement;
    let boxes = groups.iter().map(|group| {
        let mut jobs = shown.jobs_of(group);
        jobs.resize(shown.nodes.per_node as usize, (None, None));
        let label = match group.nodes {
            1 => "1 node".to_owned(),
            several => format!("{several} nodes, each"),
        };
        NodeBox { label, jobs }
    });
    let plot = NodesPlot {
        title: format!("{} jobs on {} nodes, rule {}", shown.jobs.total(), shown.nodes.nodes, shown.rule),
        subtitle: shown.summary(),
        nodes: boxes.collect(),
    };
    let mut text = Vec::new();
    write_nodes(&plot, look, &mut text)?;
    crate::picture::write(path, text)
}
