//! `castell schedule`: which word of the allreduce language to choose, what a word does and costs.

use crate::look::LookArgs;
use crate::{model, patterns};
use anyhow::{Context, ensure};
use castell_base::{Time, counted};
use castell_collectives::language::{Cost, DRAWN_RANKS_MAX, Fitted, Labelling, Word};
use castell_collectives::search::{Order, Search, Weights, all_words, heuristic};
use castell_model::{Model, Plb, largest_useful_fan_out, optimal_fan_out};
use castell_trace::Look;
use castell_trace::svg::{StageMatrices, StagePlot, write_stage_matrices, write_stages};
use clap::Subcommand;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Choose allreduce schedules, and look at what they do
///
/// A schedule is a word of stages: `a4,a4,a3` has groups of 4, of 4 and of 3 ranks exchange and reduce. The book's page on
/// the schedule language says what else a stage can be.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The best schedule for a number of ranks, what the heuristic finds, and recursive doubling
    #[command(
        after_help = "Examples:\n  castell schedule allreduce --ranks 48 \\\n      --model plb:alpha_p=2911ps,alpha_r=1000ps\n  castell schedule allreduce --ranks 7 --bytes 4096 --all"
    )]
    Allreduce(AllreduceArgs),
    /// Whether a word fits a number of ranks, and what it costs
    #[command(
        after_help = "Examples:\n  castell schedule check m1g2a3,n1g3a2 --ranks 7 --diagram\n  castell schedule check r2,r2,r2,g2,g2,g2 --ranks 8 --bytes 1048576 \\\n      --svg rabenseifner.svg"
    )]
    Check(CheckArgs),
    /// The names of all patterns
    #[command(
        after_help = "Examples:\n  castell schedule list\n  castell schedule list --json | jq -r '.patterns[].name'"
    )]
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct AllreduceArgs {
    /// Number of ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    /// What stages and messages cost; schedules are chosen under plb
    #[arg(long, value_name = "MODEL", default_value = "plb")]
    model: String,
    /// Size of the vector that is reduced
    #[arg(long, value_name = "B", default_value_t = 8)]
    bytes: u64,
    /// The heuristic's largest factor (otherwise that which is as dear as recursive doubling, rounded down)
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(2..))]
    heuristic_limit: Option<u32>,
    /// For operators that do not commute: ranks that stand aside are neighbours of the group that they join
    #[arg(long)]
    non_commutative: bool,
    /// List all schedules, the cheapest first (up to 100,000 of them)
    #[arg(long)]
    all: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct CheckArgs {
    /// The word, such as m1g2a3,n1g3a2
    word: String,
    /// Number of ranks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    /// What stages and messages cost: plb, lb, bsp; others for words like recursive doubling
    #[arg(long, value_name = "MODEL", default_value = "plb")]
    model: String,
    /// Size of the vector that is reduced
    #[arg(long, value_name = "B", default_value_t = 8)]
    bytes: u64,
    /// For operators that do not commute: ranks that stand aside are neighbours of the group that they join
    #[arg(long)]
    non_commutative: bool,
    /// Print with whom each rank has to do in each stage
    #[arg(long)]
    diagram: bool,
    /// Print each rank's coordinates in the hyper-cuboid of the stages
    #[arg(long)]
    cuboid: bool,
    /// Draw the stages: a line a rank, or beyond 64 ranks a square a stage that shows who sends to whom
    #[arg(long, value_name = "FILE.svg|png|pdf", group = "drawn", value_parser = crate::picture::file)]
    svg: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The search keeps 8 bytes a rank.
const RANKS_MAX: i64 = 100_000_000;
/// So many schedules are listed.
const LISTED_MAX: usize = 100_000;

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Allreduce(args) => allreduce(&args),
        Command::Check(args) => check(&args),
        Command::List { json } => {
            patterns::list(json);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A schedule and its cost, as JSON has it.
#[derive(Clone, Serialize)]
struct Priced {
    schedule: String,
    cost_ps: u64,
    messages: u64,
    bytes_total: u64,
    /// Of the heuristic, the median of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    found_in_ns: Option<u64>,
}

#[derive(Serialize)]
struct Choice {
    ranks: u32,
    bytes: u64,
    model: String,
    heuristic: Priced,
    best: Priced,
    recursive_doubling: Priced,
    /// Null where a stage costs nothing but messages do, or the reverse without end.
    b_opt: Option<f64>,
    b_upper: Option<f64>,
    heuristic_limit: u32,
    labelling: &'static str,
    /// Whether times differ with the size.
    depends_on_bytes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<Vec<Priced>>,
}

fn plb(text: &str) -> anyhow::Result<Plb> {
    match model::constant(text).context("--model")? {
        Model::Plb(plb) => Ok(plb),
        other => anyhow::bail!(
            "--model {}: schedules are chosen under plb; give plb:alpha_p=…,alpha_r=…",
            other.name()
        ),
    }
}

fn labelling(non_commutative: bool) -> (Labelling, &'static str) {
    if non_commutative {
        (Labelling::Neighbours, "neighbours")
    } else {
        (Labelling::RemaindersFirst, "remainders-first")
    }
}

/// What a word costs; `None` for words that do not fit, which no search returns.
fn price(word: Word, ranks: u32, weights: &Weights) -> anyhow::Result<Priced> {
    let schedule = word.to_string();
    let cost = Fitted::new(word, ranks)?.cost(weights.bytes());
    Ok(Priced {
        schedule,
        cost_ps: weights.time(&cost).0,
        messages: cost.messages(),
        bytes_total: cost.bytes_total(),
        found_in_ns: None,
    })
}

/// Whether the model tells sizes apart: 1 byte and 1 GiB cost the same otherwise.
fn depends_on_bytes(ranks: u32, plb: &Plb) -> anyhow::Result<bool> {
    let [small, large] = [1, 1 << 30].map(|bytes| {
        let weights = Weights::new(plb.clone(), bytes);
        price(Word::recursive_doubling(ranks), ranks, &weights).map(|priced| priced.cost_ps)
    });
    Ok(small? != large? || ranks == 1)
}

/// What all words cost, the cheapest first; tells how far it is, since a word of many ranks takes its time.
fn price_all(ranks: u32, weights: &Weights) -> anyhow::Result<Vec<Priced>> {
    let words = all_words(ranks, LISTED_MAX);
    let progress = castell_bench::bar::bar(words.len() as u64).with_message("schedules");
    let mut priced = Vec::with_capacity(words.len());
    for word in words {
        priced.push(price(word, ranks, weights)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    priced.sort_by_key(|priced| priced.cost_ps);
    Ok(priced)
}

fn allreduce(args: &AllreduceArgs) -> anyhow::Result<ExitCode> {
    let plb = plb(&args.model)?;
    let weights = Weights::new(plb.clone(), args.bytes);
    let limit = args.heuristic_limit.unwrap_or_else(|| weights.factor_max(args.ranks));
    // What takes microseconds is timed several times: the first one waits for pages of the program.
    let timed = |times: usize, find: &dyn Fn() -> Word| -> anyhow::Result<Priced> {
        let mut found_in = Vec::new();
        let mut word = Word::default();
        for _ in 0..times {
            let start = Instant::now();
            word = find();
            found_in.push(start.elapsed().as_nanos() as u64);
        }
        found_in.sort_unstable();
        Ok(Priced { found_in_ns: Some(found_in[times / 2]), ..price(word, args.ranks, &weights)? })
    };
    let quick = timed(9, &|| heuristic(args.ranks, limit, &weights, Order::Sorted))?;
    let best = timed(1, &|| Search::new(args.ranks, weights.clone()).best(args.ranks))?;
    let all = if args.all { Some(price_all(args.ranks, &weights)?) } else { None };
    let ratio = weights.ratio();
    let finite = |number: f64| Some(number).filter(|number| number.is_finite());
    let choice = Choice {
        ranks: args.ranks,
        bytes: args.bytes,
        model: model::constant(&args.model)?.to_string(),
        heuristic: quick,
        best,
        recursive_doubling: price(Word::recursive_doubling(args.ranks), args.ranks, &weights)?,
        b_opt: finite(optimal_fan_out(ratio)),
        b_upper: finite(ratio).and_then(|ratio| finite(largest_useful_fan_out(ratio))),
        heuristic_limit: limit,
        labelling: labelling(args.non_commutative).1,
        depends_on_bytes: depends_on_bytes(args.ranks, &plb)?,
        all,
    };
    if args.json {
        println!("{}", serde_json::to_string(&choice)?);
    } else {
        print!("{}", choice.text());
    }
    Ok(ExitCode::SUCCESS)
}

impl Choice {
    fn text(&self) -> String {
        let mut text = format!("{}, {} bytes, {}\n", counted(self.ranks, "rank"), self.bytes, self.model);
        let rows = [
            ("best", &self.best),
            ("heuristic", &self.heuristic),
            ("recursive doubling", &self.recursive_doubling),
        ];
        let width = rows.iter().map(|(_, priced)| priced.schedule.chars().count()).max().unwrap_or(0).max(8);
        if !self.depends_on_bytes {
            text += "the model has no costs of bytes, so the times are those of any size; give beta= and gamma=, or tables, for more\n";
        }
        let _ = writeln!(
            text,
            "{:20}{:width$}  {:>12}  {:>10}  {:>12}",
            "", "schedule", "time", "messages", "bytes"
        );
        for (name, priced) in rows {
            let time = Time(priced.cost_ps).to_string();
            let (schedule, messages, bytes) = (&priced.schedule, priced.messages, priced.bytes_total);
            let _ = writeln!(text, "{name:20}{schedule:width$}  {time:>12}  {messages:>10}  {bytes:>12}");
        }
        let fan_out = |number: Option<f64>| number.map_or("none".into(), |number| format!("{number:.3}"));
        let (b_opt, b_upper) = (fan_out(self.b_opt), fan_out(self.b_upper));
        let _ = writeln!(
            text,
            "best fan-out {b_opt}, useful up to {b_upper}; the heuristic tries factors up to {}",
            self.heuristic_limit
        );
        for priced in self.all.iter().flatten() {
            let time = Time(priced.cost_ps).to_string();
            let _ = writeln!(text, "{time:>12}  {:>10}  {}", priced.messages, priced.schedule);
        }
        text
    }
}

const BLOCKS: u32 = 64;
/// Counting more takes longer than anybody waits for a picture.
const COUNTED_MAX: u64 = 100_000_000;

fn drawing(fitted: &Fitted, look: &Look) -> anyhow::Result<Vec<u8>> {
    let (ranks, stages) = (fitted.ranks(), &fitted.word().stages);
    let title = fitted.word().to_string();
    let subtitle = format!("{}, {}", counted(ranks, "rank"), counted(stages.len(), "stage"));
    let mut drawing = Vec::new();
    // Each message is an arrow; where lines can't be told apart any more, cells count them.
    if ranks <= DRAWN_RANKS_MAX {
        let messages = fitted.drawn_messages().into_iter();
        let plot = StagePlot {
            title,
            subtitle,
            ranks: ranks as usize,
            stages: stages.iter().map(ToString::to_string).collect(),
            messages: messages.map(|(stage, from, to)| (stage, from.index(), to.index())).collect(),
        };
        write_stages(&plot, look, &mut drawing)?;
    } else {
        let messages = fitted.cost(1).messages();
        ensure!(
            messages <= COUNTED_MAX,
            "--svg counts up to {COUNTED_MAX} messages, and these are {messages}"
        );
        let stages = stages.iter().map(ToString::to_string).zip(fitted.messages_by_block(BLOCKS)).collect();
        let plot = StageMatrices { title, subtitle, ranks, blocks: BLOCKS, stages };
        write_stage_matrices(&plot, look, &mut drawing)?;
    }
    Ok(drawing)
}

#[derive(Serialize)]
struct Checked {
    schedule: String,
    ranks: u32,
    bytes: u64,
    model: String,
    cost_ps: u64,
    alpha_p: u64,
    alpha_r: u64,
    messages: u64,
    bytes_total: u64,
    keeps_order: bool,
}

fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let word: Word = args.word.parse()?;
    let fitted = Fitted::with_labelling(word, args.ranks, labelling(args.non_commutative).0)?;
    let cost = fitted.cost(args.bytes);
    let model = model::constant(&args.model).context("--model")?;
    let checked = Checked {
        schedule: fitted.word().to_string(),
        ranks: args.ranks,
        bytes: args.bytes,
        cost_ps: time(&model, &cost)?.0,
        model: model.to_string(),
        alpha_p: cost.alpha_p(),
        alpha_r: cost.alpha_r(),
        messages: cost.messages(),
        bytes_total: cost.bytes_total(),
        keeps_order: fitted.keeps_order(),
    };
    if let Some(path) = &args.svg {
        crate::picture::write(path, drawing(&fitted, &args.look.look())?)?;
    }
    if args.json {
        println!("{}", serde_json::to_string(&checked)?);
        return Ok(ExitCode::SUCCESS);
    }
    let Checked { schedule, ranks, bytes, model, messages, bytes_total, alpha_p, alpha_r, .. } = &checked;
    println!("{schedule} fits {}", counted(*ranks, "rank"));
    println!("{} for {bytes} bytes under {model}", Time(checked.cost_ps));
    println!(
        "{}, {} one after the other; {}, {bytes_total} bytes in all",
        counted(*alpha_p, "stage"),
        counted(*alpha_r, "message"),
        counted(*messages, "message")
    );
    let order = if checked.keeps_order { "any operator" } else { "operators that commute" };
    println!("serves {order}");
    if args.diagram {
        print!("\n{}", fitted.diagram());
    }
    if args.cuboid {
        print!("\n{}", fitted.hyper_cuboid());
    }
    Ok(ExitCode::SUCCESS)
}

fn time(model: &Model, cost: &Cost) -> anyhow::Result<Time> {
    cost.under(model).with_context(|| {
        format!(
            "--model {}: it has no closed form for words in which a rank sends several messages a stage; \
             `castell simulate allreduce:WORD` runs them",
            model.name()
        )
    })
}
