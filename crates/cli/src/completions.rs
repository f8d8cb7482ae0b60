//! `castell completions` and `castell man`: what shells and `man` need to know of the command line, from its one description.

use anyhow::Context as _;
use clap::Command;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Print what a shell needs to complete castell's commands and options
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  source <(castell completions bash)                                        # this shell
  castell completions bash > ~/.local/share/bash-completion/completions/castell
  castell completions zsh > \"${fpath[1]}/_castell\"
  castell completions fish > ~/.config/fish/completions/castell.fish")]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Carries `castell completions` out.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "castell", &mut script);
    std::io::stdout().write_all(&script).context("cannot write to the standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Print the manual page of a command, or write all pages
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  castell man | man -l -
  castell man goal check | man -l -
  castell man --all ~/.local/share/man/man1      # castell.1, castell-goal.1, ...; `man castell-goal` finds them")]
pub struct ManArgs {
    /// The command, as `goal check`; castell's own page without it
    #[arg(value_name = "COMMAND", conflicts_with = "all")]
    command: Vec<String>,
    /// Write all pages into this folder
    #[arg(long, value_name = "FOLDER")]
    all: Option<PathBuf>,
}

/// Carries `castell man` out.
pub fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let mut castell = crate::command();
    castell.build();
    if let Some(folder) = &args.all {
        let what = || format!("cannot write {}", folder.display());
        std::fs::create_dir_all(folder).with_context(what)?;
        for command in family(&castell) {
            let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
            std::fs::write(folder.join(format!("{name}.1")), page(command)?).with_context(what)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = &castell;
    for word in &args.command {
        command = command.find_subcommand(word).with_context(|| {
            format!(
                "{} has no command `{word}`: `{0} --help` lists them",
                command.get_bin_name().unwrap_or("castell")
            )
        })?;
    }
    std::io::stdout().write_all(&page(command)?).context("cannot write to the standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// A command and all below it, but `help`.
fn family(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|below| below.get_name() != "help");
    std::iter::once(command).chain(below.flat_map(family)).collect()
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
