//! What is said of programs for the simulated chip: traces of those that were observed, and the ways of its shared cache.

use anyhow::Context as _;
use castell_cachesim::programs::Program;
use castell_cachesim::programs::recorded::{Pace, Part, recorded};
use castell_host::topology::parse_list;
use std::path::PathBuf;

/// A trace, and what it does not tell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Traced {
    name: String,
    path: PathBuf,
    pace: Pace,
    part: Part,
}

/// From `NAME=FILE[,window=N][,ps=N][,skip=N][,accesses=N]`.
pub(super) fn parse(text: &str) -> Result<Traced, String> {
    let (name, rest) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=FILE")?;
    let mut words = rest.split(',');
    let path = words.next().filter(|path| !path.is_empty()).ok_or("write NAME=FILE")?.into();
    let (mut pace, mut part) = (Pace::default(), Part::default());
    for word in words {
        let number = |text: &str, most: u32| {
            let number = text.parse().ok().filter(|number| (1..=most).contains(number));
            number.ok_or_else(|| format!("{word}: give a number from 1 to {most}"))
        };
        let count = |text: &str| text.parse().map_err(|_| format!("{word}: give a number of accesses"));
        match word.split_once('=') {
            Some(("skip", text)) => part.skip = count(text)?,
            Some(("accesses", text)) => part.accesses = count(text)?,
            Some(("window", text)) => pace.window = number(text, WINDOW_MAX)? as usize,
            Some(("ps", text)) => pace.access_ps = number(text, ACCESS_PS_MAX)?,
            _ => {
                return Err(format!(
                    "{word:?}: what follows the file is window=N, ps=N, skip=N or accesses=N"
                ));
            }
        }
    }
    Ok(Traced { name: name.to_owned(), path, pace, part })
}

/// From `NAME=LIST`: the mask of the ways.
pub(super) fn ways(text: &str) -> Result<(String, u64), String> {
    let (name, list) =
        text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=LIST, as triad=0-3")?;
    let listed = parse_list(list).map_err(|error| error.to_string())?;
    let bit = |mask: u64, way: &u32| 1u64.checked_shl(*way).map(|bit| mask | bit);
    let mask =
        listed.iter().try_fold(0, bit).ok_or_else(|| format!("{list}: ways are numbered from 0 to 63"))?;
    Ok((name.to_owned(), mask))
}

/// More requests than any core has under way.
const WINDOW_MAX: u32 = 1024;
/// A millisecond an access.
const ACCESS_PS_MAX: u32 = 1_000_000_000;

impl Traced {
    /// Reads the trace.
    pub(super) fn program(&self) -> anyhow::Result<Program> {
        let of_file = || self.path.display().to_string();
        let bytes = std::fs::read(&self.path).with_context(of_file)?;
        recorded(&self.name, bytes, self.pace, self.part).with_context(of_file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_with_what_it_does_not_tell() {
        let plain = Traced {
            name: "cg".to_owned(),
            path: "a=b.trace".into(),
            pace: Pace::default(),
            part: Part::default(),
        };
        assert_eq!(parse("cg=a=b.trace"), Ok(plain.clone()));
        let pace = Pace { window: 1, access_ps: 250 };
        assert_eq!(parse("cg=a=b.trace,ps=250,window=1"), Ok(Traced { pace, ..plain.clone() }));
        let part = Part { skip: 9, accesses: 1000 };
        assert_eq!(parse("cg=a=b.trace,skip=9,accesses=1000"), Ok(Traced { part, ..plain }));
        for (wrong, with) in [
            ("cg", "write NAME=FILE"),
            ("=a", "write NAME=FILE"),
            ("cg=", "write NAME=FILE"),
            ("cg=a,window=0", "window=0: give a number from 1 to 1024"),
            ("cg=a,ps=-1", "ps=-1: give a number from 1"),
            ("cg=a,threads=2", "\"threads=2\": what follows the file is window=N, ps=N, skip=N"),
            ("cg=a,skip=all", "skip=all: give a number"),
        ] {
            let said = parse(wrong).expect_err(wrong);
            assert!(said.contains(with), "{wrong}: {said}");
        }
    }

    #[test]
    fn ways_are_a_list() {
        assert_eq!(ways("triad=0,2-3"), Ok(("triad".to_owned(), 0b1101)));
        assert_eq!(ways("triad=63"), Ok(("triad".to_owned(), 1 << 63)));
        for wrong in ["triad", "=0", "triad=64", "triad=x"] {
            assert!(ways(wrong).is_err(), "{wrong}");
        }
    }
}
