//! `castell plot`.

use crate::excerpt::{Problem, Problems};
use crate::look::LookArgs;
use crate::{output, picture, say, source};
use castell_trace::svg::{Chart, ChartError, write_chart};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell plot speedup.json -o speedup.svg         # or .png, .pdf
  castell plot speedup.json -o speedup.pdf --theme light --width 600
  python3 measure.py | castell plot - -o times.png --title 'Times of a round'

A chart with two lines:

  {\"title\": \"Speedup\", \"x\": {\"label\": \"processors\", \"scale\": \"log2\"}, \"series\": [
    {\"name\": \"tree\", \"points\": [[1, 1], [2, 1.9], [4, 3.6]]},
    {\"name\": \"queue\", \"points\": [[1, 1], [2, 1.7], [4, 2.4]]}]}

The book has all keys (Charts from your numbers, docs/src/charts.md). Exit code: 0 drawn, 1 it could not be, 2 wrong usage.";

/// Draw lines, dots and bars from a description in JSON, in the look of all drawings
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The chart; `-` reads standard input
    #[arg(value_name = "FILE.json")]
    file: PathBuf,
    /// The drawing
    #[arg(long, short, group = "drawn", required = true, value_name = "FILE.svg|png|pdf", value_parser = picture::file)]
    output: PathBuf,
    /// Width of the drawing in pixels, instead of the chart's own
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(300..=10_000))]
    width: Option<u32>,
    #[command(flatten)]
    look: LookArgs,
}

/// Carries the command out.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    output::check(&args.output)?;
    let json = source::read(&args.file)?;
    let mut chart = Chart::from_json(&json).map_err(|error| problems(&args.file, &error))?;
    chart.width = args.width.or(chart.width);
    let mut drawing = Vec::new();
    write_chart(&chart, &args.look.look(), &mut drawing)?;
    picture::write(&args.output, drawing)?;
    Ok(ExitCode::SUCCESS)
}

/// With the line that is wrong, where that is known.
fn problems(file: &Path, error: &ChartError) -> Problems {
    let file = source::name(file);
    let problem = match error {
        ChartError::Chart(text) => Problem { text: format!("{file}: {text}"), line: None, column: None },
        ChartError::Json(error) => {
            let all = error.to_string();
            let said = all.rsplit_once(" at line ").map_or(all.as_str(), |(said, _)| said);
            let (more, length) = meant(said);
            // A word is known to be wrong when it has ended.
            let (line, column) = (error.line() as u32, (error.column() as u32).saturating_sub(length));
            let text = format!("{file}:{line}:{column}: {said}{more}");
            Problem { text, line: Some(line), column: Some(column) }
        }
    };
    Problems { file, problems: vec![problem], closing: String::new() }
}

/// What may have been meant or is to be done, and the length of the word that is wrong.
fn meant(said: &str) -> (String, u32) {
    if ["expected value", "invalid number", "number out of range"].contains(&said) {
        return (": a number, or null where there is none (JSON has no NaN and no infinity)".to_owned(), 0);
    }
    let mut names = said.split('`').skip(1).step_by(2);
    let (Some(wrong), true) = (names.next(), said.starts_with("unknown ")) else { return (String::new(), 0) };
    let more =
        say::nearest(wrong, names).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    (more, wrong.len() as u32)
}
