//! Whether a program can be observed, asked before it is started.

use super::ObserveError;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The file that a command's first word names, as a shell would find it, if an observer can watch it.
pub(super) fn find(word: &Path) -> Result<PathBuf, ObserveError> {
    let path = locate(word).ok_or_else(|| ObserveError::NotFound(word.to_owned()))?;
    check(&path)?;
    Ok(path)
}

fn locate(word: &Path) -> Option<PathBuf> {
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0);
    if word.components().count() > 1 {
        return is_program(word).then(|| word.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(word)).find(|path| is_program(path))
}

/// Scripts are run by an interpreter, which is looked at when it is executed.
fn check(path: &Path) -> Result<(), ObserveError> {
    let refused = |why| ObserveError::Refused { program: path.to_owned(), why };
    let mode = path.metadata().map_or(0, |data| data.mode());
    if mode & 0o6000 != 0 {
        return Err(refused("it changes its user or group (set-uid): it would run without those rights"));
    }
    let mut head = [0; 20];
    if File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_err() || head[..4] != *b"\x7fELF" {
        return Ok(());
    }
    match (head[4], u16::from_le_bytes([head[18], head[19]])) {
        (2, 62) => Ok(()),
        (1, _) => Err(refused("it is a 32-bit program; only x86-64 ones can be observed")),
        _ => Err(refused("it is not for x86-64, and only such programs can be observed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_cannot_be_observed_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = |name: &str, class: u8, machine: u8, mode: u32| {
            let path = folder.path().join(name);
            let mut bytes = [0u8; 64];
            bytes[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', class]);
            bytes[18] = machine;
            std::fs::write(&path, bytes).expect("a file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
            find(&path).map_err(|error| error.to_string())
        };
        assert!(program("good", 2, 62, 0o755).is_ok());
        assert!(program("small", 1, 3, 0o755).is_err_and(|why| why.contains("32-bit")));
        assert!(program("arm", 2, 183, 0o755).is_err_and(|why| why.contains("not for x86-64")));
        assert!(program("root", 2, 62, 0o4755).is_err_and(|why| why.contains("set-uid")));
        assert!(program("text", 2, 62, 0o644).is_err_and(|why| why.contains("no program")));
    }
}
