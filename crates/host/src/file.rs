//! Files that are written at the end of something long.

use std::fs::File;
use std::io;
use std::path::Path;

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
