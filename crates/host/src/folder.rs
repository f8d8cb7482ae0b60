//! A folder for the sockets of one user.

use crate::HostError;
use crate::descriptor::own_user;
use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The folder of what serves all users of a node.
pub const NODE_FOLDER: &str = "/run/castell";

/// Where this user's programs find what listens under this name: in the user's own folder, or where nobody listens there and the node has
/// one for all users, at that; whether it is the node's.
///
/// # Errors
/// See [`runtime_folder`].
pub fn find_listener(own: &str, node: &str) -> Result<(PathBuf, bool), HostError> {
    let (own, node) = (runtime_folder()?.join(own), Path::new(NODE_FOLDER).join(node));
    let of_node = node.exists() && UnixStream::connect(&own).is_err();
    Ok((if of_node { node } else { own }, of_node))
}

/// The folder in which this user's castell programs find each other on this host; it is made if it is not there. Only the user may
/// enter it.
///
/// # Errors
/// It cannot be made, or is not the user's own.
pub fn runtime_folder() -> Result<PathBuf, HostError> {
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir()) {
        Some(folder) => PathBuf::from(folder).join("castell"),
        None => std::env::temp_dir().join(format!("castell-{}", own_user())),
    };
    let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder);
    made.map_err(|error| HostError::system(format!("make {}", folder.display()), error))?;
    let about = fs::symlink_metadata(&folder)
        .map_err(|error| HostError::system(format!("look at {}", folder.display()), error))?;
    if !about.is_dir() || about.uid() != own_user() || about.mode() & 0o022 != 0 {
        return Err(HostError::UnsafeFolder { path: folder });
    }
    Ok(folder)
}
