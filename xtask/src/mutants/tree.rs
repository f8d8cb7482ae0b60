//! A copy of the repository, with a package that has all its mutants in it.

use super::list::{Genre, Mutant};
use super::switches::{self, MODULE, Switched};
use crate::command;
use crate::command::line;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How often what does not compile is taken out before it is given up.
const TURNS: usize = 40;
/// How many lines behind a `match` that misses an arm the arm is looked for.
const ARMS: u64 = 60;
/// With the arms of more mutants some functions are more than an optimiser gets through in minutes.
const OPTIMISED_MAX: usize = 500;

/// The copy.
pub struct Tree {
    path: PathBuf,
    build: PathBuf,
    /// The package's folder, from the root on.
    package: PathBuf,
    /// What it is called.
    name: String,
    /// Its sources, from the root on, without mutants.
    sources: BTreeMap<PathBuf, String>,
}

/// A program with tests, and the folder that it runs in.
pub struct Program {
    pub executable: PathBuf,
    pub folder: PathBuf,
}

impl Tree {
    /// Copies what git knows or would take, as it is now.
    ///
    /// # Errors
    /// Something cannot be read or written.
    pub fn copy(root: &Path, folder: &Path, name: &str) -> anyhow::Result<Tree> {
        let package = name.strip_prefix("castell-").context("packages are called so")?;
        let package = Path::new("crates").join(package);
        let path = folder.join("tree");
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
        let output = git.output().context("git cannot be started")?;
        ensure!(output.status.success(), "`{}` failed", line(&git));
        let mut sources = BTreeMap::new();
        // What has been removed since is removed there.
        let _ = fs::remove_dir_all(path.join(&package));
        for file in String::from_utf8(output.stdout)?.split('\0').filter(|file| !file.is_empty()) {
            let from = root.join(file);
            // One that was removed, or a link to a folder whose files are in the list.
            let Ok(bytes) = fs::read(&from) else { continue };
            let file = PathBuf::from(file);
            let is_source = file.extension().is_some_and(|ending| ending == "rs");
            if is_source && file.starts_with(package.join("src")) {
                sources.insert(file, String::from_utf8(bytes)?);
            } else {
                write(&path.join(&file), &bytes)?;
            }
        }
        // Where mutants that are tried next find what was built.
        let build = folder.parent().context("it is in a folder")?.join("build");
        Ok(Tree { path, build, package, name: name.to_owned(), sources })
    }

    /// Takes `const` from the package's functions, but for those that something constant calls.
    ///
    /// # Errors
    /// The package does not compile.
    pub fn free_functions(&mut self, packages: &[&str]) -> anyhow::Result<()> {
        let originals = self.sources.clone();
        let mut keep = BTreeSet::new();
        for _ in 0..TURNS {
            for (name, source) in &originals {
                let free = switches::without_const(source, &keep)?;
                write(&self.path.join(name), free.as_bytes())?;
                self.sources.insert(name.clone(), free);
            }
            let output = self.cargo(&["check", "--lib", "--tests", "--keep-going"], packages)?;
            if output.status.success() {
                return Ok(());
            }
            let called = errors(&output).iter().filter_map(constant_call).collect::<BTreeSet<_>>();
            if called.is_subset(&keep) {
                bail!("{}", String::from_utf8_lossy(&output.stderr));
            }
            keep.extend(called);
        }
        bail!("functions that something constant calls were not found in {TURNS} turns")
    }

    /// Puts all of these mutants in that compile there; the number of each one's place.
    ///
    /// # Errors
    /// The rest does not compile either.
    pub fn switch(&self, mutants: &[Mutant]) -> anyhow::Result<BTreeMap<usize, usize>> {
        // The value of such a function is of another type, which a function has one of.
        let is_opaque = |mutant: &&Mutant| mutant.genre == Genre::FnValue && mutant.is_opaque;
        let mut out: BTreeSet<usize> = mutants.iter().filter(is_opaque).map(|mutant| mutant.number).collect();
        for _ in 0..TURNS {
            let mut files: BTreeMap<&Path, Switched> = BTreeMap::new();
            for (name, source) in &self.sources {
                let here =
                    |mutant: &&Mutant| Path::new(&mutant.file) == name && !out.contains(&mutant.number);
                let here: Vec<&Mutant> = mutants.iter().filter(here).collect();
                let mut switched =
                    switches::switch(source, &here).with_context(|| name.display().to_string())?;
                if *name == self.package.join("src/lib.rs") {
                    switched.text.push_str(MODULE);
                }
                write(&self.path.join(name), switched.text.as_bytes())?;
                files.insert(name.as_path(), switched);
            }
            let output = self.cargo(&["check", "--lib"], &[&self.name])?;
            if output.status.success() {
                return Ok(files.into_values().flat_map(|switched| switched.places).collect());
            }
            let guilty: BTreeSet<usize> =
                errors(&output).iter().flat_map(|error| guilty(error, &files, mutants)).collect();
            if guilty.is_subset(&out) {
                let first = errors(&output).first().cloned().unwrap_or_default();
                bail!("{}", first["rendered"].as_str().unwrap_or("it does not compile"));
            }
            out.extend(guilty);
        }
        bail!("what does not compile was not found in {TURNS} turns")
    }

    /// Builds the tests, in which so many mutants are.
    ///
    /// # Errors
    /// They do not build.
    pub fn build(&self, packages: &[&str], mutants: usize) -> anyhow::Result<Vec<Program>> {
        let plain = |profile| format!("profile.{profile}.package.{}.opt-level=0", self.name);
        let (dev, test) = (plain("dev"), plain("test"));
        let mut words = vec!["test", "--no-run", "--lib", "--tests"];
        if mutants > OPTIMISED_MAX {
            words.extend(["--config", &dev, "--config", &test]);
        }
        let output = self.cargo(&words, packages)?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let program = |message: Value| {
            let executable = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
            let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
            Some(Program { executable: executable.into(), folder })
        };
        Ok(messages(&output).into_iter().filter_map(program).collect())
    }

    fn cargo(&self, words: &[&str], packages: &[&str]) -> anyhow::Result<Output> {
        let mut cargo = command::cargo();
        cargo.args(words).args(["--locked", "--message-format", "json"]).current_dir(&self.path);
        cargo.args(packages.iter().flat_map(|package| ["-p", package]));
        // Mutants are not asked for good style.
        cargo.env("CARGO_TARGET_DIR", &self.build).env("RUSTFLAGS", "--cap-lints=allow");
        cargo.output().context("cargo cannot be started")
    }
}

/// Unless it is so already: what is not written is not built again.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    fs::write(path, bytes).with_context(|| path.display().to_string())
}

fn messages(output: &Output) -> Vec<Value> {
    let lines = output.stdout.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

fn errors(output: &Output) -> Vec<Value> {
    let errors = messages(output).into_iter().filter(|message| message["message"]["level"] == "error");
    errors.map(|message| message["message"].clone()).collect()
}

/// The function that something constant calls though it is not.
fn constant_call(error: &Value) -> Option<String> {
    let (_, rest) = error["message"].as_str()?.split_once("cannot call non-const ")?;
    let name = rest.split('`').nth(1)?;
    let name =
        name.strip_suffix('>').map_or(name, |name| name.rsplit_once("::<").map_or(name, |(name, _)| name));
    Some(name.rsplit("::").next()?.to_owned())
}

/// The mutants that an error comes from.
fn guilty(error: &Value, files: &BTreeMap<&Path, Switched>, mutants: &[Mutant]) -> BTreeSet<usize> {
    let spans = error["spans"].as_array().cloned().unwrap_or_default();
    let owners = |span: &Value, more: u64| -> BTreeSet<usize> {
        let lines = |key: &str| span[key].as_u64().unwrap_or(0);
        let file = span["file_name"].as_str().and_then(|name| files.get(Path::new(name)));
        let range = lines("line_start") as usize..=(lines("line_end") + more) as usize;
        file.into_iter()
            .flat_map(|file| file.owners.range(range.clone()))
            .flat_map(|(_, owners)| owners)
            .copied()
            .collect()
    };
    for is_primary in [true, false] {
        let found: BTreeSet<usize> = spans
            .iter()
            .filter(|span| span["is_primary"] == is_primary)
            .flat_map(|span| {
                // In a macro of the source: where that is called, too.
                std::iter::successors(Some(span), |span| span.get("expansion")?.get("span"))
                    .collect::<Vec<_>>()
            })
            .flat_map(|span| owners(span, 0))
            .collect();
        if !found.is_empty() {
            return found;
        }
    }
    // A `match` misses what a mutant's guard lets through; it lies behind what is matched.
    let is_arm = |number: &usize| mutants.iter().any(|m| m.number == *number && m.genre == Genre::MatchArm);
    match error["code"]["code"].as_str() {
        Some("E0004") => spans.iter().flat_map(|span| owners(span, ARMS)).filter(is_arm).collect(),
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_copy_is_what_git_knows_or_would_take() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |file: &str, text: &str| write(&root.path().join(file), text.as_bytes()).expect("a file");
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(root.path()).status();
        assert!(git.expect("git").success());
        put(".gitignore", "target\n");
        put("crates/one/Cargo.toml", "[package]\n");
        put("crates/one/src/lib.rs", "pub fn one() {}\n");
        put("crates/one/tests/gone.rs", "\n");
        put("target/large", "");
        let copy = || Tree::copy(root.path(), &root.path().join("target/mutants/one"), "castell-one");
        let tree = copy().expect("a copy");
        let is_there = |file: &str| tree.path.join(file).exists();
        assert_eq!(tree.sources.keys().collect::<Vec<_>>(), [Path::new("crates/one/src/lib.rs")]);
        assert!(is_there("crates/one/Cargo.toml") && is_there("crates/one/tests/gone.rs"));
        assert!(!is_there("target"));
        fs::remove_file(root.path().join("crates/one/tests/gone.rs")).expect("it was there");
        copy().expect("a copy");
        assert!(is_there("crates/one/Cargo.toml") && !is_there("crates/one/tests/gone.rs"));
    }

    #[test]
    fn functions_that_have_to_be_constant_are_named() {
        for (text, name) in [
            ("cannot call non-const associated function `State::has` in constant functions", Some("has")),
            ("cannot call non-const method `region::Region::end` in constants", Some("end")),
            ("cannot call non-const function `wide::<u8>` in statics", Some("wide")),
            ("mismatched types", None),
        ] {
            assert_eq!(constant_call(&json!({ "message": text })).as_deref(), name, "{text}");
        }
    }

    #[test]
    fn errors_belong_to_the_mutants_on_their_lines() {
        let owners = BTreeMap::from([(3, BTreeSet::from([7])), (9, BTreeSet::from([8]))]);
        let files = BTreeMap::from([(Path::new("a.rs"), Switched { owners, ..Switched::default() })]);
        let arm = Mutant { number: 8, genre: Genre::MatchArm, ..Mutant::default() };
        let error = |code: &str, line: u64, is_primary: bool| {
            let span =
                json!({"file_name": "a.rs", "line_start": line, "line_end": line, "is_primary": is_primary});
            json!({"code": {"code": code}, "spans": [span]})
        };
        let found = |error: &Value| guilty(error, &files, std::slice::from_ref(&arm));
        assert_eq!(found(&error("E0308", 3, true)), BTreeSet::from([7]));
        assert_eq!(found(&error("E0308", 3, false)), BTreeSet::from([7]));
        assert_eq!(found(&error("E0308", 4, true)), BTreeSet::new());
        assert_eq!(found(&error("E0004", 4, true)), BTreeSet::from([8]));
    }
}
