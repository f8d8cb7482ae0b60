//! Housekeeping: `cargo xtask tidy` (the house's own rules), `setup` (what the tests need), `ci` (everything), `install`.
//!
//! Start at [`tidy`] for the rules and at [`ci`] for the list of steps.
#![forbid(unsafe_code)]

mod ahead;
mod book_links;
mod ci;
mod command;
mod failures;
mod fuzz;
mod headers;
mod install;
mod instructions;
mod limit;
mod mpi_door;
mod mutants;
mod observer;
mod programs;
mod readme;
mod sanitize;
mod setup;
mod skips;
mod slug;
mod storm;
mod suites;
mod tidy;
mod trials;

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
    Tidy(tidy::Args),
    /// Install what is missing for the tests (apt packages, rustfmt, clippy, mdbook)
    Setup(setup::Args),
    /// Formatting, lints, documentation, tidy and all tests
    Ci(ci::Args),
    /// Run the fuzz targets, each a bounded number of times
    Fuzz(fuzz::Args),
    /// Count the instructions of the task runtime's hot paths (needs valgrind) and compare with benches/instructions.toml
    Instructions(instructions::Args),
    /// Build the observer of memory accesses for `castell distances` (needs gcc and Valgrind)
    Observer,
    /// Make small mistakes in a room and count how many its tests notice (cargo-mutants; not in CI)
    Mutants(mutants::Args),
    /// Look for wrong uses of memory: tests under the address sanitizer, C programs under valgrind
    Sanitize(sanitize::Args),
    /// Run suites that others wrote with and without castell: what passes without it has to pass with it (not in CI)
    Suites(suites::Args),
    /// Simulate a million connections of the protocol over raw frames (CI simulates 24,000)
    Storm(storm::Args),
    /// Repeat what may go wrong at any moment thousands of times: daemons and programs killed and stopped, strategies exchanged (not in CI)
    Trials(trials::Args),
    /// The C headers as pages of the book: what mdBook calls while it builds (docs/book.toml)
    Headers(headers::Args),
    /// Build and install the libraries, the header, the program and the pkg-config and CMake files
    Install(install::Args),
}

fn main() -> ExitCode {
    let root = repository_root();
    let outcome = match Cli::parse().command {
        Command::Tidy(args) => tidy::report(&root, &args),
        Command::Setup(args) => setup::run(&root, &args).map(|()| ExitCode::SUCCESS),
        Command::Ci(args) => ci::run(&root, &args),
        Command::Fuzz(args) => fuzz::run(&root, &args),
        Command::Instructions(args) => instructions::run(&root, &args),
        Command::Observer => observer::run(&root),
        Command::Mutants(args) => mutants::run(&root, &args),
        Command::Sanitize(args) => sanitize::run(&root, &args),
        Command::Suites(args) => suites::run(&root, &args),
        Command::Storm(args) => storm::run(&root, &args),
        Command::Trials(args) => trials::run(&root, &args),
        Command::Headers(args) => headers::run(&root, &args),
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
