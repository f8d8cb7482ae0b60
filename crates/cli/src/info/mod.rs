//! `castell info`: what castell is, what it found on this machine, and what is set.

mod machine;
mod software;
mod variables;

use serde_json::{Value, json};
use std::process::ExitCode;

/// Show what castell is and what it found here: the machine, MPIs, the tuning in force, variables
///
/// Abilities of the kernel are found by trying them; nothing is changed.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  castell info
  castell info --json | jq .tuning
  castell info --variables          # every environment variable, as the book's page")]
pub struct Args {
    /// Print the page of environment variables, as Markdown
    #[arg(long, conflicts_with = "json")]
    variables: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Carries the command out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.variables {
        print!("{}", variables::page());
        return Ok(ExitCode::SUCCESS);
    }
    let everything = json!({
        "castell": software::castell(),
        "machine": machine::machine(),
        "limits": machine::limits(),
        "shared_memory": machine::shared_memory(),
        "kernel": machine::kernel(),
        "mpi": software::mpi()?,
        "fabrics": software::fabrics(),
        "openmp": software::openmp(),
        "tuning": software::tuning(),
        "variables": set_variables(),
    });
    if args.json {
        println!("{everything}");
    } else {
        print(&everything);
    }
    Ok(ExitCode::SUCCESS)
}

/// All that castell looks at, set or not.
fn set_variables() -> Vec<Value> {
    let value = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let entry = |variable: &variables::Variable| json!({"name": variable.name, "value": value(variable.name), "values": variable.values, "meaning": variable.meaning});
    variables::all().map(entry).collect()
}

/// For people: a section each, lists below them.
fn print(everything: &Value) {
    let castell = &everything["castell"];
    println!(
        "castell {} ({}, {})",
        text(&castell["version"]),
        text(&castell["target"]),
        text(&castell["build"])
    );
    line("program", text(&castell["program"]));
    machine::print(&everything["machine"], &everything["limits"], &everything["shared_memory"]);
    println!("\nkernel");
    for ability in list(&everything["kernel"]) {
        let state = ability["missing"].as_str().map_or("yes".to_owned(), |why| format!("no: {why}"));
        println!("  {:<26} {state}", text(&ability["name"]));
    }
    software::print(everything);
    println!("\nvariables that are set (castell info --variables explains all)");
    let set = list(&everything["variables"]).iter().filter(|variable| variable["value"].is_string());
    let mut any = false;
    for variable in set {
        any = true;
        println!("  {}={}", text(&variable["name"]), text(&variable["value"]));
        println!("      {}", text(&variable["meaning"]));
    }
    if !any {
        println!("  none");
    }
}

/// A name and what stands behind it.
fn line(name: &str, value: impl std::fmt::Display) {
    println!("  {name:<18} {value}");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Bytes in the unit that people would use.
fn bytes(value: &Value) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let Some(mut number) = value.as_f64() else { return "unknown".into() };
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    if number.fract() == 0.0 {
        format!("{number} {}", UNITS[unit])
    } else {
        format!("{number:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        for (number, expected) in
            [(0, "0 B"), (1023, "1023 B"), (1 << 20, "1 MiB"), (1536, "1.5 KiB"), (1u64 << 50, "1024 TiB")]
        {
            assert_eq!(bytes(&json!(number)), expected);
        }
        assert_eq!(bytes(&Value::Null), "unknown");
    }
}
