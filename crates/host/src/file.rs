//! Files that are written at the end of something long, or never seen half written, and the room for them.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The room of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub bytes: u64,
    /// What is left for this user.
    pub free_bytes: u64,
}

/// The room of the file system that `path` is on.
///
/// # Errors
/// The system's.
pub fn file_system_space(path: &Path) -> io::Result<Space> {
    let status = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
    Ok(Space { bytes: bytes(status.f_blocks), free_bytes: bytes(status.f_bavail) })
}

/// Whether `path` can be written, leaving what is there as it is. For who has something to write only after minutes.
///
/// # Errors
/// It cannot; says why.
pub fn check_writable(path: &Path) -> io::Result<()> {
    // A link that leads nowhere yet is not new: it stays.
    let is_new = path.symlink_metadata().is_err();
    File::options().append(true).create(true).open(path)?;
    if is_new {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// Writes a file that is never seen half written: whoever reads it finds the old one or the new one, also if this process is killed. Only
/// one process at a time writes a file so. Others may do with it what `mode` says, less this process's mask.
///
/// # Errors
/// It cannot be written; the old one is as it was.
pub fn replace_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".next");
    let next = path.with_file_name(name);
    let file = File::options().write(true).create(true).truncate(true).mode(mode).open(&next);
    let written = file.and_then(|mut file| file.write_all(bytes)).and_then(|()| std::fs::rename(&next, path));
    if written.is_err() {
        // Half of it takes room where there is none.
        let _ = std::fs::remove_file(&next);
    }
    written
}
