//! The process's place on its board: whoever in it shares processors has the same one.

use super::{Membership, default_path};
use crate::topology::Processors;
use crate::{HostError, say};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Says that programs share processors: a switch, or a path of their board.
const VARIABLE: &str = "CASTELL_SHARE";

/// The place, and how many workers it has been said to have.
static HERE: Mutex<(Weak<Membership>, usize)> = Mutex::new((Weak::new(), 0));

/// Where the environment says that the board lies, if processors are to be shared. Says on standard error what it does not understand.
pub fn wanted() -> Option<PathBuf> {
    let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty())?;
    let Some(text) = value.to_str().filter(|text| !text.contains('/')) else { return Some(value.into()) };
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some(default_path()),
        "0" | "off" | "no" | "false" => None,
        _ => {
            say(&format!("{VARIABLE}={text} is taken as off; write 1 or 0, or a path with a `/` in it"));
            None
        }
    }
}

/// The process's place on the board at `path`, or on the one where it is already, for as many `workers` at least.
///
/// # Errors
/// The board cannot be used, or is full.
pub fn join(path: &Path, workers: usize) -> Result<Arc<Membership>, HostError> {
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    let (known, count) = &mut *here;
    if let Some(membership) = known.upgrade().filter(|known| known.process() == std::process::id()) {
        if workers > *count {
            *count = workers;
            membership.set_workers(workers)?;
        }
        return Ok(membership);
    }
    let membership = Arc::new(Membership::join(path, workers, &Processors::usable().cpus)?);
    *here = (Arc::downgrade(&membership), workers);
    Ok(membership)
}
