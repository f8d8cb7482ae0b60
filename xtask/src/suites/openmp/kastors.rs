//! KaStORS: kernels with tasks and with dependences, as its own `make` builds them. They say whether a result is right, and end well in any
//! case.

use super::Test;
use super::sources::files;
use super::words;
use anyhow::Context as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Small matrices.
pub(super) fn tests(folder: &Path) -> anyhow::Result<Vec<Test>> {
    let folder = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?;
    let mut found = Vec::new();
    for path in files(&folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((kernel, kind)) = name.split_once('_') else { continue };
        let arguments = match kernel {
            _ if !kind.contains("task") && !kind.contains("for") => continue,
            "jacobi" => "-n 512 -b 64 -r 4",
            "sparselu" => "-n 16 -m 16",
            "strassen" => "-n 256 -s 32 -d 3",
            "dgeqrf" => "-n 256 -b 64 -ib 32",
            "dgetrf" | "dpotrf" => "-n 256 -b 64",
            _ => continue,
        };
        // Scripts of the same names lie beside some of them.
        if path.extension().is_some() || path.metadata()?.permissions().mode() & 0o100 == 0 {
            continue;
        }
        let mut run = vec![path.display().to_string()];
        // A run is followed by a pause of five seconds; the one before those that are measured is enough.
        run.extend(words(arguments).into_iter().chain(words("-i 0 -c")));
        let test = Test::of("KaStORS", &name, run, &folder);
        found.push(Test { says: "Check : success".to_owned(), ..test });
    }
    Ok(found)
}
