//! `castell fit`: a cost model's parameters from measurements.

use crate::source;
use anyhow::{Context, bail};
use castell_base::{PerByte, Time};
use castell_model::Model;
use castell_model::fit::{
    self, CONFIDENCE, Estimate, Estimator, Fit, FitBySize, Measurements, Options, Quantity, Sample, Template,
    Weighting,
};
use clap::ValueEnum;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Fit a cost model to measured times
///
/// DATA.csv has a line of column names and then a line a measurement: `bytes` (of each message), `messages` (how many
/// were sent to different ranks one after the other; without this column: 1) and `time_us` (or _ps, _ns, _ms, _s, or
/// `time` with values such as 1.5us): from the start of the first until the last could be used. `-` is the standard
/// input. A table of PLB's own parameters, with columns bytes, alpha_p_us and alpha_r_us, is taken as it is.
///
/// Exit codes: 0 fitted, 1 the data are wrong or no machine has such parameters, 2 wrong usage.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  castell fit --model plb multicast.csv\n  castell fit --model plb --by-size multicast.csv -o model.toml\n  castell fit --model loggp:o=500ns pingpong.csv   # o is known\n  castell fit --model plb --json multicast.csv | jq .model\n\nModels: bsp, lb, logp, loggp, loggps, loggops, plb. Latency and overhead of the logp family cannot both be found from such times: give one of them."
)]
pub struct Args {
    /// The measurements
    #[arg(value_name = "DATA.csv")]
    data: PathBuf,
    /// What to fit, with the parameters that are known: plb, loggp:o=500ns
    #[arg(long)]
    model: String,
    /// Fit plb's alphas for each size of messages by itself, as tables
    #[arg(long)]
    by_size: bool,
    /// Only measurements with messages of this size
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,
    /// What becomes of several measurements of one point
    #[arg(long, value_enum, default_value_t = To::Minimum)]
    estimator: To,
    /// Make errors small in parts of the measured time; otherwise long times count most
    #[arg(long)]
    relative: bool,
    /// The column with the times, if it is not named time
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// Print one JSON object: {"model", "fits": [{"bytes", "parameters": [{"name", "unit", "value", "standard_error", "low", "high"}], "kept", "r_squared", "points", "samples", "residual_deviation_ps", "largest_relative_error"}], "left_out_bytes"}
    #[arg(long)]
    json: bool,
    /// Write the model here, as TOML
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum To {
    /// The least: what the machine can do
    Minimum,
    /// The median: what it does
    Median,
    /// Nothing: every measurement counts
    All,
}

/// What came out, whichever way.
struct Outcome {
    model: Option<Model>,
    /// The size that each fit is for; none if it is for all.
    fits: Vec<(Option<u64>, Fit)>,
    /// Sizes that are not part of the model, since a parameter is negative there.
    left_out: Vec<u64>,
    /// Whether the file held parameters rather than times.
    taken: bool,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let template = match Template::parse(&args.model) {
        Ok(template) => template,
        Err(error) => {
            castell_host::say(&format!("--model {}: {error}", args.model));
            return Ok(ExitCode::from(2));
        }
    };
    let outcome = outcome(&args, &template)?;
    if let (Some(path), Some(model)) = (&args.output, &outcome.model) {
        crate::output::write(path, model.to_toml())?;
    }
    let text = if args.json { json(&outcome)? } else { report(&outcome)? };
    // Whoever reads from us and has seen enough is no error.
    match std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if outcome.model.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let negative: Vec<&str> =
        outcome.fits.iter().flat_map(|(_, fit)| fit.negative()).map(|e| e.key).collect();
    let negative = negative.first().copied().unwrap_or("a parameter");
    castell_host::say(&format!(
        "{}: no machine has these parameters: {negative} is negative; another model may fit, or fewer sizes \
         (--bytes, --by-size)",
        source::name(&args.data)
    ));
    Ok(ExitCode::from(1))
}

fn outcome(args: &Args, template: &Template) -> anyhow::Result<Outcome> {
    let name = source::name(&args.data);
    let text = read(&args.data)?;
    let measurements =
        Measurements::parse(&text, args.time.as_deref()).with_context(|| format!("cannot read {name}"))?;
    let wanted = |bytes: u64| args.bytes.is_none_or(|wanted| wanted == bytes);
    let samples: Vec<Sample> = match measurements {
        Measurements::Samples(samples) => samples.into_iter().filter(|sample| wanted(sample.bytes)).collect(),
        Measurements::Parameters(mut rows) => {
            rows.retain(|row| wanted(row.bytes));
            if rows.is_empty() {
                bail!("{name}: no parameters{}", of_size(args.bytes));
            }
            let (model, left_out) = fit::from_parameters(template, &rows).with_context(|| name)?;
            return Ok(Outcome { model, fits: Vec::new(), left_out, taken: true });
        }
    };
    if samples.is_empty() {
        bail!("{name}: no measurements{}", of_size(args.bytes));
    }
    let estimator = match args.estimator {
        To::Minimum => Estimator::Minimum,
        To::Median => Estimator::Median,
        To::All => Estimator::All,
    };
    let weighting = if args.relative { Weighting::Relative } else { Weighting::Absolute };
    let options = Options { estimator, weighting };
    if args.by_size {
        let fit = fit::fit_by_size(template, &samples, options).with_context(|| name)?;
        let left_out = fit.left_out().collect();
        let FitBySize { model, sizes } = fit;
        let fits = sizes.into_iter().map(|(bytes, fit)| (Some(bytes), fit)).collect();
        return Ok(Outcome { model, fits, left_out, taken: false });
    }
    let fit = fit::fit(template, &samples, options).with_context(|| name)?;
    Ok(Outcome { model: fit.model.clone(), fits: vec![(None, fit)], left_out: Vec::new(), taken: false })
}

fn read(path: &Path) -> anyhow::Result<String> {
    let bytes = source::read(path)?;
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{} is not text", source::name(path)))
}

fn of_size(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, |bytes| format!(" with {bytes} bytes"))
}

fn report(outcome: &Outcome) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    if let Some(model) = &outcome.model {
        writeln!(text, "{model}")?;
    }
    for (bytes, fit) in &outcome.fits {
        if let Some(bytes) = bytes {
            writeln!(text, "\n{bytes} bytes")?;
        } else {
            writeln!(text)?;
        }
        report_fit(fit, &mut text)?;
    }
    if outcome.taken {
        writeln!(text, "\nThe file holds parameters: they were taken as they are, nothing was fitted.")?;
    }
    if !outcome.left_out.is_empty() {
        let sizes: Vec<String> = outcome.left_out.iter().map(u64::to_string).collect();
        writeln!(
            text,
            "\nNot in the model, since a parameter is negative there: {} bytes.",
            sizes.join(", ")
        )?;
    }
    Ok(text)
}

fn report_fit(fit: &Fit, text: &mut String) -> std::fmt::Result {
    for estimate in &fit.estimates {
        let (key, value) = (estimate.key, quantity(estimate.value_ps, estimate.quantity));
        if estimate.half_width_ps.is_finite() {
            let interval = [-1.0, 1.0]
                .map(|side| quantity(estimate.value_ps + side * estimate.half_width_ps, estimate.quantity));
            let [low, high] = interval;
            writeln!(text, "  {key:<8} {value:>12}   {:.0} %: {low} to {high}", CONFIDENCE * 100.0)?;
        } else {
            writeln!(text, "  {key:<8} {value:>12}   as many parameters as points: certainty unknown")?;
        }
    }
    for kept in &fit.kept {
        writeln!(text, "  {:<8} {:>12}   not fitted: {}", kept.key, kept.value, kept.reason)?;
    }
    writeln!(
        text,
        "  R² {:.6}; {} points from {} measurements; residuals {}",
        fit.r_squared,
        fit.residuals.len(),
        fit.samples,
        quantity(fit.residual_deviation_ps, Quantity::Time)
    )?;
    if let Some(worst) = fit.worst() {
        let measured = &worst.measured;
        writeln!(
            text,
            "  largest error {:+.2} %: {} messages of {} bytes take {}, the model says {}",
            100.0 * worst.relative_error(),
            measured.messages,
            measured.bytes,
            quantity(measured.time_ps, Quantity::Time),
            quantity(worst.predicted_ps, Quantity::Time)
        )?;
    }
    Ok(())
}

/// For people: with a sign, and no more digits than matter.
fn quantity(ps: f64, quantity: Quantity) -> String {
    let sign = if ps < 0.0 { "-" } else { "" };
    let digits = |value: f64| {
        let scale = 10f64.powf(4.0 - value.log10().floor()).max(1.0);
        (value * scale).round() / scale
    };
    let size = if ps == 0.0 { 0.0 } else { digits(ps.abs()) };
    match quantity {
        Quantity::Time => format!("{sign}{}", Time::from_ps_f64(size)),
        Quantity::PerByte => format!("{sign}{}/B", PerByte::from_ps_f64(size)),
    }
}

#[derive(Serialize)]
struct OutcomeJson {
    model: Option<String>,
    fits: Vec<FitJson>,
    left_out_bytes: Vec<u64>,
}

#[derive(Serialize)]
struct FitJson {
    bytes: Option<u64>,
    parameters: Vec<ParameterJson>,
    kept: Vec<KeptJson>,
    r_squared: f64,
    points: usize,
    samples: usize,
    residual_deviation_ps: f64,
    largest_relative_error: Option<f64>,
}

#[derive(Serialize)]
struct ParameterJson {
    name: &'static str,
    unit: &'static str,
    value: f64,
    /// These are null if there are as many parameters as points.
    standard_error: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

#[derive(Serialize)]
struct KeptJson {
    name: &'static str,
    value: String,
    reason: &'static str,
}

impl From<&Estimate> for ParameterJson {
    fn from(estimate: &Estimate) -> ParameterJson {
        let finite = |value: f64| value.is_finite().then_some(value);
        ParameterJson {
            name: estimate.key,
            unit: match estimate.quantity {
                Quantity::Time => "ps",
                Quantity::PerByte => "ps/B",
            },
            value: estimate.value_ps,
            standard_error: finite(estimate.standard_error_ps),
            low: finite(estimate.value_ps - estimate.half_width_ps),
            high: finite(estimate.value_ps + estimate.half_width_ps),
        }
    }
}

fn json(outcome: &Outcome) -> serde_json::Result<String> {
    let fit = |(bytes, fit): &(Option<u64>, Fit)| FitJson {
        bytes: *bytes,
        parameters: fit.estimates.iter().map(ParameterJson::from).collect(),
        kept: fit
            .kept
            .iter()
            .map(|kept| KeptJson { name: kept.key, value: kept.value.clone(), reason: kept.reason })
            .collect(),
        r_squared: fit.r_squared,
        points: fit.residuals.len(),
        samples: fit.samples,
        residual_deviation_ps: fit.residual_deviation_ps,
        largest_relative_error: fit.worst().map(fit::Residual::relative_error),
    };
    let json = OutcomeJson {
        model: outcome.model.as_ref().map(Model::to_string),
        fits: outcome.fits.iter().map(fit).collect(),
        left_out_bytes: outcome.left_out.clone(),
    };
    Ok(serde_json::to_string(&json)? + "\n")
}
