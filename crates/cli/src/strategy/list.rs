//! `castell strategy list`.

use super::source::Source;
use anyhow::Context as _;
use castell_luau::shipped;
use castell_luau::{DEFINITIONS, Parameter};
use serde_json::json;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  castell strategy list                                   all strategies that come with castell
  castell strategy list banking > mine.luau               one's script, to begin one's own with
  castell strategy list --definitions > castell.d.luau    the types, for an editor with luau-lsp";

/// Show the strategies that come with castell, or one's script
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print this one's script
    name: Option<String>,
    /// Print the types of what scripts see, for editors
    #[arg(long, conflicts_with_all = ["name", "json"])]
    definitions: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "name")]
    json: bool,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.definitions {
        print!("{DEFINITIONS}");
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &args.name {
        let shipped = shipped::named(name).with_context(|| {
            format!(
                "no strategy `{name}` comes with castell; there are {}",
                shipped::ALL.map(|shipped| shipped.name).join(", ")
            )
        })?;
        print!("{}", shipped.text);
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = Vec::new();
    for shipped in shipped::ALL {
        let script = Source::find(shipped.name)?.script()?;
        all.push((shipped.name, script.description().to_owned(), script.parameters()));
    }
    if args.json {
        let rows: Vec<_> = all
            .iter()
            .map(|(name, description, parameters)| {
                let parameters: serde_json::Map<_, _> =
                    parameters.iter().map(|(name, value)| (name.clone(), as_json(value))).collect();
                json!({"name": name, "description": description, "defaults": parameters})
            })
            .collect();
        println!("{:#}", json!({ "strategies": rows }));
        return Ok(ExitCode::SUCCESS);
    }
    for (name, description, parameters) in all {
        println!("{name:12} {description}");
        if !parameters.is_empty() {
            let shown: Vec<_> =
                parameters.iter().map(|(name, value)| format!("{name}={}", as_text(value))).collect();
            println!("{:12} {name}:{}", "", shown.join(","));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(value: &Parameter) -> serde_json::Value {
    match value {
        Parameter::Flag(flag) => json!(flag),
        Parameter::Number(number) => json!(number),
        Parameter::Text(text) => json!(text),
    }
}

fn as_text(value: &Parameter) -> String {
    match value {
        Parameter::Flag(flag) => flag.to_string(),
        Parameter::Number(number) => number.to_string(),
        Parameter::Text(text) => text.clone(),
    }
}
