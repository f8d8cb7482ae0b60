//! Files that are written at the end of something long, and the room for them.

use std::fs::File;
use std::io;
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
