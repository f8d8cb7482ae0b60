//! Programs as commands take them that run or simulate one: a file, or a pattern by its name.

use crate::{patterns, source};
use anyhow::bail;
use castell_base::{Rank, Time};
use castell_collectives::collective::Placement;
use castell_collectives::generator::{GENERATORS, Generator, GeneratorError, Options};
use castell_collectives::pattern::Pattern;
use castell_comm::hosts::place::{self, HostSlots};
use castell_goal::file::Contents;
use castell_host::threads::Lent;
use castell_sim::Source;
use std::path::Path;
use std::sync::Arc;

/// What patterns need to know.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Patterns")]
pub struct PatternArgs {
    /// Size of the group
    #[arg(short = 'n', long, value_name = "N")]
    pub ranks: Option<u32>,
    /// Size of a message, or of what each rank contributes
    #[arg(long, default_value_t = 8, value_name = "B")]
    pub bytes: u64,
    /// How long a rank computes a stage
    #[arg(long, default_value = "0ns", value_name = "TIME", value_parser = Time::parse, allow_hyphen_values = true)]
    pub compute: Time,
    /// Where broadcasts begin and reductions end
    #[arg(long, default_value_t = 0, value_name = "RANK")]
    pub root: u32,
    /// Size of a piece, for what goes in pieces
    #[arg(long, default_value_t = 65536, value_name = "B")]
    pub segment: u64,
    /// Messages that a rank sends a round, for what has a choice
    #[arg(long, default_value_t = 1, value_name = "K")]
    pub ways: u32,
}

impl PatternArgs {
    /// The words that say the same on a command line, of a group of so many ranks.
    pub fn to_words(&self, ranks: u32) -> Vec<String> {
        let PatternArgs { bytes, compute, root, segment, ways, .. } = self;
        let mut words =
            vec![format!("--ranks={ranks}"), format!("--bytes={bytes}"), format!("--root={root}")];
        words.extend([
            format!("--compute={compute}"),
            format!("--segment={segment}"),
            format!("--ways={ways}"),
        ]);
        words
    }
}

/// A program.
pub enum Loaded {
    File(Box<Contents>),
    Pattern(Box<dyn Pattern>),
}

impl Loaded {
    /// For the simulator.
    pub fn source(&self) -> Source<'_> {
        match self {
            Loaded::File(contents) => match &**contents {
                Contents::Program(program) => Source::Program(program),
                Contents::Schedules(set) => Source::Set(set),
            },
            Loaded::Pattern(pattern) => Source::from(pattern),
        }
    }
}

impl Loaded {
    /// As [`source::name_lines`], where there is a text.
    pub fn name_lines(&mut self) {
        if let Loaded::File(contents) = self
            && let Contents::Program(program) = &mut **contents
        {
            source::name_lines(program);
        }
    }
}

/// Whether a name is a file's.
pub fn is_file(name: &str) -> bool {
    name == "-" || Path::new(name).exists()
}

/// Whether it is none, and can be a pattern's.
pub fn is_pattern(name: &str) -> bool {
    let named = |pattern: &Generator| pattern.name == name || pattern.alias == name;
    !is_file(name) && (GENERATORS.iter().any(named) || name.contains(':'))
}

/// A file where there is one of that name, else a pattern; `hosts`: those that its ranks share.
pub fn load(
    name: &str,
    args: &PatternArgs,
    hosts: Option<&[HostSlots]>,
    threads: &Lent,
) -> anyhow::Result<Loaded> {
    if is_file(name) {
        let contents = source::contents_on(Path::new(name), threads)?;
        let program = Loaded::File(Box::new(contents));
        let ranks = program.source().ranks();
        if let Some(asked) = args.ranks.filter(|&asked| asked != ranks) {
            bail!("{name} is a program of {ranks} ranks, not of {asked}; leave --ranks out");
        }
        return Ok(program);
    }
    let places = hosts.map(|hosts| place::place(hosts, args.ranks)).transpose()?;
    Ok(Loaded::Pattern(pattern(name, args, places.as_deref())?))
}

/// A pattern by its name; `places`: the host of each rank.
pub fn pattern(name: &str, args: &PatternArgs, places: Option<&[u32]>) -> anyhow::Result<Box<dyn Pattern>> {
    let ranks = args.ranks.or(places.map(|places| places.len() as u32));
    let options = Options {
        ranks: ranks.unwrap_or(1),
        bytes: args.bytes,
        compute: args.compute,
        root: Rank(args.root),
        segment_bytes: args.segment,
        ways: args.ways,
        placement: places.map(|places| Arc::new(Placement::new(places.iter().copied()))),
    };
    if ranks.is_none() && is_pattern(name) {
        bail!("{name} is no file, and a pattern needs a number of ranks; give --ranks");
    }
    let pattern = Generator::parse(name, &options);
    if matches!(pattern, Err(GeneratorError::Unknown { .. })) {
        bail!(
            "{name} is neither a file that there is nor a pattern{} (castell simulate --list tells all patterns)",
            patterns::meant(name)
        );
    }
    Ok(pattern?)
}
