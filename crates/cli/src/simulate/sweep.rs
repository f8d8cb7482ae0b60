//! Patterns over ranks, sizes and the like: which one ends first where, as a table and as a drawing.

use super::{Args, insist_on_memory, machine, on_hosts, simulate};
use crate::loaded::{Loaded, PatternArgs, load};
use anyhow::{Context, bail};
use castell_base::Time;
use castell_host::threads::Lent;
use castell_prof::probe::parse_size;
use castell_sim::Machine;
use castell_sim::statistics::Summary;
use castell_trace::svg::{Axis, Chart, Point as Dot, Powers, Series, Spread, write_chart};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// More values than anybody wants to read.
const VALUES_MAX: usize = 1000;

/// What is changed from run to run, and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    what: What,
    values: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Ranks,
    Bytes,
    Segment,
    Ways,
}

const ALL: [(&str, What); 4] =
    [("ranks", What::Ranks), ("bytes", What::Bytes), ("segment", What::Segment), ("ways", What::Ways)];

impl What {
    fn name(self) -> &'static str {
        ALL.iter().find(|(_, what)| *what == self).map_or("", |(name, _)| name)
    }

    fn is_size(self) -> bool {
        matches!(self, What::Bytes | What::Segment)
    }

    /// The patterns' options with this value.
    fn with(self, options: &PatternArgs, value: u64) -> PatternArgs {
        let mut options = options.clone();
        match self {
            What::Ranks => options.ranks = Some(value as u32),
            What::Bytes => options.bytes = value,
            What::Segment => options.segment = value,
            What::Ways => options.ways = value as u32,
        }
        options
    }
}

/// What one pattern came to for one value.
struct Point {
    value: u64,
    program: usize,
    /// Or why there is none.
    makespan: Result<Summary, String>,
}

impl Point {
    fn reason(&self) -> Option<&String> {
        self.makespan.as_ref().err()
    }
}

impl Sweep {
    /// `ranks=2..1024`, `bytes=1K..16M:*4`, `ranks=2..64:+2`. The upper end is always one of the values.
    pub fn parse(text: &str) -> Result<Sweep, String> {
        let told = || format!("`{text}`: write such as ranks=2..1024, bytes=1K..16M:*4 or ranks=2..64:+2");
        let (name, range) = text.split_once('=').ok_or_else(told)?;
        let names = || ALL.map(|(name, _)| name).join(", ");
        let what = ALL.iter().find(|(known, _)| *known == name).map(|(_, what)| *what);
        let what = what.ok_or_else(|| format!("`{name}` cannot be swept; there are {}", names()))?;
        let (range, step) = range.split_once(':').unwrap_or((range, "*2"));
        let (low, high) = range.split_once("..").ok_or_else(told)?;
        let number = |text: &str| if what.is_size() { parse_size(text) } else { text.parse().ok() };
        let (low, high) = (number(low).ok_or_else(told)?, number(high).ok_or_else(told)?);
        if low == 0 || low > high {
            return Err(format!("`{text}`: from at least 1 to at least as many"));
        }
        if !what.is_size() && high > u64::from(u32::MAX) {
            return Err(format!("`{text}`: at most {}", u32::MAX));
        }
        let next: Box<dyn Fn(u64) -> u64> = match (step.strip_prefix('*'), step.strip_prefix('+')) {
            (Some(factor), _) => {
                let factor: u64 = factor.parse().ok().filter(|factor| *factor > 1).ok_or_else(told)?;
                Box::new(move |value| value.saturating_mul(factor))
            }
            (_, Some(more)) => {
                let more = number(more).filter(|more| *more > 0).ok_or_else(told)?;
                Box::new(move |value| value.saturating_add(more))
            }
            _ => return Err(told()),
        };
        let below = |value: &u64| *value < high;
        let mut values: Vec<u64> = std::iter::successors(Some(low), |value| Some(next(*value)))
            .take_while(below)
            .take(VALUES_MAX)
            .collect();
        if values.len() == VALUES_MAX {
            return Err(format!("`{text}`: these are more than {VALUES_MAX} values; take a larger step"));
        }
        values.push(high);
        Ok(Sweep { what, values })
    }

    /// Carries the command out.
    pub(super) fn run(&self, args: &Args) -> anyhow::Result<ExitCode> {
        if let Some(file) = args.programs.iter().find(|name| *name == "-" || Path::new(name).exists()) {
            bail!(
                "{file} is a file, which has its own ranks and sizes: --sweep is for patterns (--list tells all)"
            );
        }
        if self.what == What::Ranks && args.pattern.ranks.is_some() {
            bail!("--sweep says the ranks: leave --ranks out");
        }
        args.svg.as_deref().map_or(Ok(()), crate::output::check)?;
        let points = self.points(args)?;
        if let Some(path) = &args.svg {
            let mut drawing = Vec::new();
            write_chart(&self.chart(args, &points), &args.timeline.look.look(), &mut drawing)?;
            crate::picture::write(path, drawing)?;
        }
        if args.json {
            println!("{}", self.json(args, &points));
        } else {
            print!("{}", self.table(args, &points));
        }
        for name in 0..args.programs.len() {
            let mut reasons = points.iter().filter(|point| point.program == name).filter_map(Point::reason);
            if let Some(first) = reasons.next() {
                let more = reasons.count();
                let others = if more > 0 { format!(" (and {more} more)") } else { String::new() };
                castell_host::say(&format!("{first}{others}"));
            }
        }
        let is_empty = points.iter().all(|point| point.makespan.is_err());
        Ok(if is_empty { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    /// All patterns for all values. What cannot be for one of them is said in the end.
    fn points(&self, args: &Args) -> anyhow::Result<Vec<Point>> {
        let threads = Lent::new(args.threads);
        let machine = machine(args)?;
        let bar = castell_bench::bar::bar((self.values.len() * args.programs.len()) as u64);
        let mut points = Vec::new();
        for value in &self.values {
            for (program, name) in args.programs.iter().enumerate() {
                let options = self.what.with(&args.pattern, *value);
                let makespan = one(args, name, &options, &machine, &threads);
                let makespan =
                    makespan.map_err(|error| format!("{name} with {} {value}: {error:#}", self.what.name()));
                points.push(Point { value: *value, program, makespan });
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(points)
    }

    fn of<'p>(&self, points: &'p [Point], value: u64) -> impl Iterator<Item = &'p Point> {
        points.iter().filter(move |point| point.value == value)
    }

    /// For people: a line a value, a column a pattern; the least of several is marked.
    fn table(&self, args: &Args, points: &[Point]) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "model     {}", args.models());
        if let Some(network) = &args.network {
            let _ = writeln!(text, "network   {network}");
        }
        let what =
            if args.repeat > 1 { format!("medians of {} runs", args.repeat) } else { "makespans".into() };
        let mark = if args.programs.len() > 1 { "; *: the least" } else { "" };
        let _ = writeln!(text, "{what}, other options as given{mark}");
        let width = |name: &String| name.chars().count().max(13);
        let names: Vec<String> =
            args.programs.iter().map(|name| format!("{name:>w$} ", w = width(name))).collect();
        let _ = writeln!(text, "{:>10}  {}", self.what.name(), names.join(" ").trim_end());
        for value in &self.values {
            let row: Vec<&Point> = self.of(points, *value).collect();
            let least = row.iter().filter_map(|point| point.makespan.as_ref().ok()).map(|it| it.median).min();
            let cell = |point: &&Point| {
                let w = width(&args.programs[point.program]);
                match &point.makespan {
                    Ok(makespan) => {
                        let is_least = args.programs.len() > 1 && Some(makespan.median) == least;
                        format!("{:>w$}{}", makespan.median.to_string(), if is_least { '*' } else { ' ' })
                    }
                    Err(_) => format!("{:>w$} ", "-"),
                }
            };
            let cells: Vec<String> = row.iter().map(cell).collect();
            let _ = writeln!(text, "{value:>10}  {}", cells.join(" ").trim_end());
        }
        text
    }

    /// For programs.
    fn json(&self, args: &Args, points: &[Point]) -> Value {
        let row = |point: &Point| {
            let mut row = json!({"value": point.value, "program": args.programs[point.program]});
            match &point.makespan {
                Ok(makespan) => {
                    row["makespan_ps"] = makespan.median.0.into();
                    row["min_ps"] = makespan.min.0.into();
                    row["max_ps"] = makespan.max.0.into();
                }
                Err(reason) => row["error"] = reason.as_str().into(),
            }
            row
        };
        json!({
            "sweep": self.what.name(),
            "model": args.models(),
            "network": args.network.as_ref().map(|network| network.to_string()),
            "repeat": args.repeat,
            "seed": args.seed,
            "points": points.iter().map(row).collect::<Vec<_>>(),
        })
    }

    fn chart(&self, args: &Args, points: &[Point]) -> Chart {
        let (ps, unit) = unit(points);
        let line = |(program, name): (usize, &String)| {
            let of_it = || points.iter().filter(move |point| point.program == program);
            let scaled = |time: Time| time.0 as f64 / ps;
            let dot = |point: &Point| {
                let makespan = point.makespan.as_ref().ok();
                let range = makespan.filter(|_| args.repeat > 1);
                let range = range.map(|of| Spread::Range(scaled(of.min), scaled(of.max)));
                let dot = Dot::new(point.value as f64, makespan.map(|of| scaled(of.median)));
                Dot { spread: range.unwrap_or_default(), ..dot }
            };
            Series { name: name.clone(), points: of_it().map(dot).collect(), ..Series::default() }
        };
        let what = match self.what {
            What::Ranks => format!("ranks, {} bytes", args.pattern.bytes),
            of => format!("{}, {} ranks", of.name(), args.pattern.ranks.unwrap_or(1)),
        };
        let network = args.network.as_ref().map_or_else(String::new, |network| format!("; {network}"));
        let (x_unit, label) = if self.what.is_size() { ("bytes", "") } else { ("", self.what.name()) };
        let axis = |label: &str, scale| Axis { label: label.to_owned(), scale, ..Axis::default() };
        Chart {
            title: format!("Makespan over {what}"),
            subtitle: format!("{}{network}", args.models()),
            x: Axis { unit: x_unit.to_owned(), ..axis(label, Powers::Two) },
            y: Axis { unit: unit.to_owned(), ..axis("makespan", Powers::Ten) },
            series: args.programs.iter().enumerate().map(line).collect(),
            ..Chart::default()
        }
    }
}

/// The unit in which what lies in the middle, by powers, is a number that can be read.
fn unit(points: &[Point]) -> (f64, &'static str) {
    let all = || points.iter().filter_map(|point| point.makespan.as_ref().ok());
    let [shortest, longest] = [all().map(|it| it.min.0).min(), all().map(|it| it.max.0).max()];
    let middle = (shortest.unwrap_or(0).max(1) as f64 * longest.unwrap_or(0) as f64).sqrt();
    let units = [(1e12, "s"), (1e9, "ms"), (1e6, "us"), (1e3, "ns")];
    units.into_iter().find(|(ps, _)| middle >= *ps).unwrap_or((1.0, "ps"))
}

/// One pattern with these options.
fn one(
    args: &Args,
    name: &str,
    options: &PatternArgs,
    machine: &Machine,
    threads: &Lent,
) -> anyhow::Result<Summary> {
    let program: Loaded = load(name, options, args.host_list(), threads)?;
    let machine = &on_hosts(machine.clone(), args, program.source().ranks())?;
    insist_on_memory(args, program.source())?;
    let watched = simulate(args, program.source(), machine, threads)?;
    let makespans: Vec<Time> = watched.repeats.iter().map(|(makespan, _)| *makespan).collect();
    Summary::of(&makespans).context("nothing was simulated")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_steps() {
        let values = |text: &str| Sweep::parse(text).map(|sweep| sweep.values);
        assert_eq!(values("ranks=2..16"), Ok(vec![2, 4, 8, 16]));
        assert_eq!(values("ranks=3..20"), Ok(vec![3, 6, 12, 20]));
        assert_eq!(values("ranks=2..8:+3"), Ok(vec![2, 5, 8]));
        assert_eq!(values("bytes=1K..64K:*8"), Ok(vec![1 << 10, 8 << 10, 64 << 10]));
        assert_eq!(values("ways=1..1"), Ok(vec![1]));
        for wrong in
            ["ranks", "ranks=2", "ranks=0..4", "ranks=5..4", "ranks=2..x", "ranks=2..8:2", "ranks=2..8:*1"]
        {
            assert!(values(wrong).is_err(), "{wrong}");
        }
        assert!(values("rank=2..4").is_err_and(|said| said.contains("ranks, bytes, segment, ways")));
        assert!(values("ranks=1..1000000:+1").is_err_and(|said| said.contains("1000 values")));
        assert!(values("ranks=1..5000000000").is_err());
    }
}
