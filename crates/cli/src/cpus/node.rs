//! `castell cpus --node`: the board on which programs lend processors to each other.

use castell_host::board::{Board, Lending, Program, default_path};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Prints the board at `path`, or the usual one.
pub(super) fn show(path: Option<&Path>, as_json: bool) -> anyhow::Result<ExitCode> {
    let path = path.map_or_else(default_path, Path::to_owned);
    let board = Board::open(&path)?;
    let programs = board.as_ref().map(Board::programs).unwrap_or_default();
    let lendings = board.as_ref().map(Board::lendings).unwrap_or_default();
    if as_json {
        let rows: Vec<_> = lendings.iter().map(lending_row).collect();
        let programs: Vec<_> = programs.iter().map(program_row).collect();
        println!("{}", json!({"board": path, "programs": programs, "processors": rows}));
        return Ok(ExitCode::SUCCESS);
    }
    if programs.is_empty() {
        println!("no program shares processors on {}: start some with CASTELL_SHARE=1", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    println!("{:>10} {:>8} {:>6} {:>5}  state", "process", "workers", "right", "has");
    for program in &programs {
        let state = if program.is_hungry { "has work for more" } else { "" };
        let line = format!(
            "{:>10} {:>8} {:>6} {:>5}  {state}",
            program.pid, program.workers, program.rights, program.held
        );
        println!("{}", line.trim_end());
    }
    println!();
    println!(
        "{:>4} {:>10} {:>10} {:>10} {:>8} {:>9} {:>7}  state",
        "cpu", "right", "has it", "since", "lent", "returned", "seized"
    );
    lendings.iter().for_each(print);
    Ok(ExitCode::SUCCESS)
}

fn print(lending: &Lending) {
    let name = |pid: Option<u32>| pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
    let since =
        lending.holder.map_or_else(|| "-".to_owned(), |_| format!("{:.1} ms", lending.held_ns as f64 / 1e6));
    let state = match (lending.holder, lending.is_wanted) {
        (None, _) => "free",
        (Some(_), true) => "wanted back",
        (holder, false) if holder != lending.right => "lent",
        _ => "",
    };
    let line = format!(
        "{:>4} {:>10} {:>10} {since:>10} {:>8} {:>9} {:>7}  {state}",
        lending.cpu,
        name(lending.right),
        name(lending.holder),
        lending.lent,
        lending.returned,
        lending.seized
    );
    println!("{}", line.trim_end());
}

fn lending_row(lending: &Lending) -> serde_json::Value {
    json!({
        "cpu": lending.cpu,
        "right": lending.right,
        "holder": lending.holder,
        "held_ns": lending.holder.map(|_| lending.held_ns),
        "wanted": lending.is_wanted,
        "lent": lending.lent,
        "returned": lending.returned,
        "seized": lending.seized,
    })
}

fn program_row(program: &Program) -> serde_json::Value {
    json!({
        "pid": program.pid,
        "workers": program.workers,
        "rights": program.rights,
        "held": program.held,
        "hungry": program.is_hungry,
    })
}
