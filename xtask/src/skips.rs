//! What could not run: tests and steps name it, and only what `may-be-missing.toml` lists may be missed.

use anyhow::{Context as _, bail};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Tells tests where to note what they skip (crates/host/tests/skipped).
pub const VARIABLE: &str = "CASTELL_SKIPS";

const LIST: &str = "xtask/may-be-missing.toml";

/// The skips of one run of CI.
pub struct Skips {
    file: PathBuf,
    may_be_missing: BTreeSet<String>,
}

impl Skips {
    /// None so far.
    pub fn none_yet(root: &Path) -> anyhow::Result<Skips> {
        let text = fs::read_to_string(root.join(LIST)).with_context(|| LIST.to_owned())?;
        let file = root.join("target/skips");
        fs::create_dir_all(root.join("target"))?;
        fs::write(&file, "").with_context(|| format!("{}", file.display()))?;
        Ok(Skips { file, may_be_missing: parse(&text)? })
    }

    /// The file in which skips are noted.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Notes one, as tests do.
    pub fn note(&self, what: &str, why: &str) -> anyhow::Result<()> {
        let mut file = OpenOptions::new().append(true).open(&self.file)?;
        Ok(writeln!(file, "{what}: {why}")?)
    }

    /// Prints what was skipped.
    ///
    /// # Errors
    /// Something was that may not be missing.
    pub fn report(&self) -> anyhow::Result<()> {
        let text = fs::read_to_string(&self.file)?;
        let skips: BTreeSet<&str> = text.lines().collect();
        println!("== skipped: {}", if skips.is_empty() { "nothing" } else { "" });
        let is_allowed =
            |skip: &&&str| skip.split(": ").next().is_some_and(|what| self.may_be_missing.contains(what));
        for skip in &skips {
            println!("   {skip}{}", if is_allowed(&skip) { " (may be missing)" } else { "" });
        }
        match skips.iter().filter(|skip| !is_allowed(skip)).count() {
            0 => Ok(()),
            count => bail!("{count} skipped above that may not be missing here ({LIST})"),
        }
    }
}

/// The keys of lines `what = "reason"`; a reason has to be given.
fn parse(text: &str) -> anyhow::Result<BTreeSet<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let key = |line: &str| {
        let (what, why) = line.split_once('=')?;
        let why = why.trim().strip_prefix('"')?.strip_suffix('"')?;
        (!why.is_empty()).then(|| what.trim().trim_matches('"').to_owned())
    };
    lines.map(|line| key(line).with_context(|| format!("{LIST}: not `what = \"reason\"`: {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_may_be_skipped() {
        let file = std::env::temp_dir().join(format!("castell-skips-{}", std::process::id()));
        fs::write(&file, "").expect("a file");
        let may_be_missing =
            parse("# why\nslurm = \"no root\"\n\"mpich.mpiexec\" = \"b\"\n").expect("a list");
        let skips = Skips { file, may_be_missing };
        assert!(skips.report().is_ok());
        skips.note("slurm", "its node does not come up: no").expect("noted");
        assert!(skips.report().is_ok());
        skips.note("opencl", "none").expect("noted");
        assert!(skips.report().is_err());
        fs::remove_file(skips.file()).expect("it is there");
        assert!(parse("slurm = \"\"").is_err() && parse("slurm").is_err());
    }
}
