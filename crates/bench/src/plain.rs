//! Benchmark programs in C: compiled into a folder that goes away with its owner, run, their JSON lines read.

use crate::folder::Folder;
use crate::report::{Params, Sample};
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MEASURE_H: &str = include_str!("../../../benches/measure.h");
const FLAGS: [&str; 3] = ["-std=c11", "-O3", "-w"];

/// What a program ends with that does not know its case.
const UNKNOWN: i32 = 3;

/// A compiled program; its folder is removed on drop.
pub struct Program {
    folder: Folder,
    launcher: Vec<String>,
}

/// The line that a program prints a case.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    params: Params,
    #[serde(flatten)]
    sample: Sample,
}

impl Program {
    /// Compiles `source` with `compiler` and `flags`; `launcher` stands before the program when it runs.
    pub fn compile(
        compiler: &Path,
        flags: &[&str],
        source: &str,
        launcher: Vec<String>,
    ) -> anyhow::Result<Program> {
        Program::compile_in(&std::env::temp_dir(), compiler, flags, source, launcher)
    }

    /// The same in a folder in this one.
    pub fn compile_in(
        parent: &Path,
        compiler: &Path,
        flags: &[&str],
        source: &str,
        launcher: Vec<String>,
    ) -> anyhow::Result<Program> {
        let words = flags.iter().chain(&FLAGS).chain(&["program.c"]).map(|word| (*word).to_owned());
        Program::compile_files_in(
            Folder::create_in(parent)?,
            compiler,
            words,
            &[("program.c", source)],
            launcher,
        )
    }

    /// Compiles `files` (name, text) and measure.h with `words` behind the compiler's name.
    pub fn compile_files(
        compiler: &Path,
        words: impl IntoIterator<Item = String>,
        files: &[(&str, &str)],
        launcher: Vec<String>,
    ) -> anyhow::Result<Program> {
        Program::compile_files_in(Folder::create()?, compiler, words, files, launcher)
    }

    fn compile_files_in(
        folder: Folder,
        compiler: &Path,
        words: impl IntoIterator<Item = String>,
        files: &[(&str, &str)],
        launcher: Vec<String>,
    ) -> anyhow::Result<Program> {
        for (name, text) in files.iter().chain(&[("measure.h", MEASURE_H)]) {
            std::fs::write(folder.path().join(name), text)?;
        }
        let output = folder.command(compiler).args(words).args(["-o", "program"]).output();
        let output = output.with_context(|| format!("could not start {}", compiler.display()))?;
        if !output.status.success() {
            bail!(
                "{} refuses the benchmark:\n{}",
                compiler.display(),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(Program { folder, launcher })
    }

    /// Runs it once for one case.
    pub fn measure(&self, case: &Params, samples: u32) -> anyhow::Result<Sample> {
        self.measure_if_known(&[], case, samples, &[])?.context("the program does not know the case")
    }

    /// Runs it once for one case, `before` standing in front, with `more` arguments; `None` if it ends with [`UNKNOWN`].
    pub fn measure_if_known(
        &self,
        before: &[String],
        case: &Params,
        samples: u32,
        more: &[String],
    ) -> anyhow::Result<Option<Sample>> {
        let Some(lines) = self.run(before, case, samples, more)? else { return Ok(None) };
        let first = lines.into_iter().next().context("it printed no JSON line")?;
        Ok(Some(first.1))
    }

    /// Runs it once with these arguments, `before` standing in front of its launcher; all cases that it reports.
    pub fn measure_lines(
        &self,
        before: &[String],
        arguments: &Params,
        samples: u32,
    ) -> anyhow::Result<Vec<(Params, Sample)>> {
        self.run(before, arguments, samples, &[])?.context("the program does not know the case")
    }

    /// Launcher and program.
    pub fn words(&self) -> Vec<String> {
        let program = self.folder.path().join("program").to_string_lossy().into_owned();
        self.launcher.iter().cloned().chain([program]).collect()
    }

    fn run(
        &self,
        before: &[String],
        case: &Params,
        samples: u32,
        more: &[String],
    ) -> anyhow::Result<Option<Vec<(Params, Sample)>>> {
        let mut words = [before, &self.words()].concat();
        words.extend(more.iter().cloned());
        words.extend(case.arguments());
        words.extend(["--samples".to_owned(), samples.to_string()]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        castell_host::process::ends_with_this(&mut command);
        let output = command.output().with_context(|| format!("could not start {}", words[0]))?;
        if output.status.code() == Some(UNKNOWN) {
            return Ok(None);
        }
        if !output.status.success() {
            let [out, err] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said));
            bail!("`{}` ended with {}:\n{}", words.join(" "), output.status, format!("{out}{err}").trim());
        }
        let lines = parse(&String::from_utf8_lossy(&output.stdout));
        lines.map(Some).with_context(|| format!("`{}`", words.join(" ")))
    }
}

fn parse(output: &str) -> anyhow::Result<Vec<(Params, Sample)>> {
    let lines = output.lines().filter(|line| line.starts_with('{'));
    let sample = |line: &str| {
        let read: Line = serde_json::from_str(line).with_context(|| format!("not a measurement: {line}"))?;
        Ok((read.params, read.sample))
    };
    lines.map(sample).collect()
}

/// Where a program lies on the path: the first file of that name that may be executed, as a shell takes it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, name)
}

fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let may_run = |file: &PathBuf| {
        file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|folder| folder.join(name)).find(may_run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_may_not_be_executed_are_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = |below: &str, mode: u32| {
            let file = folder.path().join(below).join("mpirun");
            std::fs::create_dir(folder.path().join(below)).expect("a folder");
            std::fs::write(&file, "").expect("a file");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("a mode");
            file
        };
        let (text, runs) = (program("first", 0o644), program("second", 0o755));
        let path = std::env::join_paths([&text, &runs].map(|file| file.parent().expect("a folder")));
        assert_eq!(find_in(&path.expect("a path"), "mpirun"), Some(runs));
        assert_eq!(find_in(text.parent().expect("a folder").as_os_str(), "mpirun"), None);
    }

    #[test]
    fn the_line_is_found_among_others() {
        let line = r#"{"workload":"w","params":{"bytes":8},"median_ns":2.5,"min_ns":1,"samples":3}"#;
        let samples = parse(&format!("a warning\n{line}\n")).expect("a measurement");
        let sample = Sample { median_ns: 2.5, min_ns: 1.0, samples: 3, cpu_ns: None };
        assert_eq!(samples, [(Params::new().with("bytes", 8), sample)]);
        assert!(parse("nothing").expect("no line is wrong").is_empty());
        assert!(parse("{\"median_ns\":\"x\"}").is_err());
    }
}
