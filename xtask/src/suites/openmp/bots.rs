//! BOTS: the Barcelona OpenMP Tasks Suite, as its own `make` builds it.

use super::sources::files;
use super::{Test, words};
use anyhow::Context as _;
use std::path::Path;

/// Small inputs, and the programs' own checks.
pub(super) fn tests(folder: &Path) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let bin = if folder.join("bin").is_dir() { folder.join("bin") } else { folder };
    let inputs = bin.join("../inputs").display().to_string();
    let mut found = Vec::new();
    for path in files(&bin)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let arguments = match name.split('.').next().unwrap_or_default() {
            _ if !name.contains("omp-tasks") => continue,
            "alignment" => format!("-f {inputs}/alignment/prot.20.aa"),
            "fib" => "-n 20".to_owned(),
            "fft" => "-n 32768".to_owned(),
            "floorplan" => format!("-f {inputs}/floorplan/input.5"),
            "health" => format!("-f {inputs}/health/test.input"),
            "knapsack" => format!("-f {inputs}/knapsack/knapsack-012.input"),
            "nqueens" => "-n 8".to_owned(),
            "sort" => "-n 262144".to_owned(),
            "sparselu" => "-n 10 -m 10".to_owned(),
            "strassen" => "-n 256".to_owned(),
            "uts" => format!("-f {inputs}/uts/test.input"),
            _ => continue,
        };
        let mut run = vec![path.display().to_string()];
        run.extend(words(&arguments));
        run.push("-c".to_owned());
        found.push(Test::of("BOTS", &name, run, &bin));
    }
    Ok(found)
}
