//! Housekeeping: `cargo xtask tidy` (the house's own rules), `setup` (what the tests need), `ci` (everything), `install`.
//!
//! Start at [`tidy`] for the rules and at [`ci`] for the list of steps.
#![forbid(unsafe_code)]

mod ci;
mod install;
mod instructions;
mod readme;
mod setup;
mod tidy;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Housekeeping for castell.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check the house's own rules: crate edges, lengths, unsafe, words, links
    Tidy,
    /// Install what is missing for the tests (apt packages, rustfmt, clippy)
    Setup(setup::Args),
    /// Formatting, lints, documentation, tidy and all tests
    Ci(ci::Args),
    /// Count the instructions of the task runtime's hot paths (needs valgrind) and compare with benches/instructions.toml
    Instructions(instructions::Args),
    /// Build and install the libraries, the header, the program and the pkg-config and CMake files
    Install(install::Args),
}

fn main() -> ExitCode {
    let root = repository_root();
    let outcome = match Cli::parse().command {
        Command::Tidy => tidy::report(&root),
        Command::Setup(args) => setup::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Ci(args) => ci::run(&root, &args),
        Command::Instructions(args) => instructions::run(&root, &args),
        Command::Install(args) => install::run(&root, &args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}

/// The folder that holds the workspace: the parent of this crate's.
fn repository_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
