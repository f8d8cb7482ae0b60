//! Sources that a suite brings, each a program, and two suites that are no more than that.

use super::{Compiler, How, Test, words};
use anyhow::Context as _;
use std::path::{Path, PathBuf};

/// OpenMP_VV: its tests for the host and for devices, which are not there.
pub(super) fn ompvv(folder: &Path, how: &How<'_>) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let include = format!("-I{}", folder.join("ompvv").display());
    let mut found = Vec::new();
    for (source, _) in sources(&folder.join("tests"), &["c", "cpp", "F90"], how)? {
        let mut options = vec![include.clone()];
        if source.extension().is_some_and(|end| end == "F90") {
            options.extend(words("-cpp -ffree-line-length-none -J."));
        }
        found.push(compiled("OpenMP_VV", (&source, &folder.join("tests")), &options, how, "")?);
    }
    Ok(found)
}

/// DataRaceBench: programs with and without races, of which only those that are right always have to end well.
pub(super) fn dataracebench(folder: &Path, how: &How<'_>) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let mut found = Vec::new();
    for (below, endings) in [("micro-benchmarks", ["c", "cpp"]), ("micro-benchmarks-fortran", ["f95", "F95"])]
    {
        let below = folder.join(below);
        if !below.is_dir() {
            continue;
        }
        let options = if endings[0] == "c" { Vec::new() } else { words("-ffree-line-length-none -J.") };
        for (source, _) in sources(&below, &endings, how)? {
            if source.parent() == Some(below.as_path()) {
                found.push(compiled("DataRaceBench", (&source, &folder), &options, how, "")?);
            }
        }
    }
    Ok(found)
}

/// A test that is one source, by its path below `base`; `marked` behind its name: compiled as C++.
pub(super) fn compiled(
    suite: &str,
    (source, base): (&Path, &Path),
    options: &[String],
    how: &How<'_>,
    marked: &str,
) -> anyhow::Result<Test> {
    let name = source.strip_prefix(base).unwrap_or(source).display().to_string() + marked;
    let folder = how.folder(suite, &name)?;
    let program = folder.join("program").display().to_string();
    let mut compile = words(match (how.compiler, source.extension().and_then(|end| end.to_str())) {
        (_, Some(end)) if is_fortran(end) => "gfortran",
        (Compiler::Gcc, Some("c")) if marked.is_empty() => "gcc",
        (Compiler::Clang, Some("c")) if marked.is_empty() => "clang",
        (Compiler::Gcc, _) => "g++ -x c++",
        (Compiler::Clang, _) => "clang++ -x c++",
    });
    compile.push(source.display().to_string());
    compile.extend(words("-fopenmp -w -lm -pthread -o"));
    compile.push(program.clone());
    if how.compiler == Compiler::Gcc {
        compile.push("-foffload=disable".to_owned());
    }
    compile.extend_from_slice(options);
    Ok(Test { compile, ..Test::of(&how.suite(suite), &name, vec![program], &folder) })
}

fn is_fortran(ending: &str) -> bool {
    ["f90", "F90", "f", "f95", "F95", "f03"].contains(&ending)
}

/// Whether a source has to do with tasks, or with what can end a region's threads early.
fn names_tasks(text: &str) -> bool {
    ["task", "depend", "cancel", "omp_fulfill_event"].iter().any(|word| text.contains(word))
}

/// All files below a folder, by name.
pub(super) fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A file, and its text.
pub(super) type Source = (PathBuf, String);

/// Sources below a folder with these endings that the compiler knows.
pub(super) fn sources(folder: &Path, endings: &[&str], how: &How<'_>) -> anyhow::Result<Vec<Source>> {
    let mut found = Vec::new();
    for path in files(folder)? {
        let ending = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if !endings.contains(&ending) || (how.compiler == Compiler::Clang && is_fortran(ending)) {
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        if how.all || names_tasks(&text) {
            found.push((path, text));
        }
    }
    Ok(found)
}
