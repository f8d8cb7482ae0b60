//! Profiles of programs that are kept: a folder with a file each, beside what is known of the machine.
//!
//! A [`Store`] is such a folder as files, in which the profile of a program is [found](Store::find) by its binary or its name; a [`Folder`] is
//! what these files say, for those who predict: `castell predict`, `castell place`, and the daemon. [`machine`] measures what predictions
//! have to know besides profiles.

mod files;
pub mod machine;
mod store;

pub use files::{Folder, field, host, profile, profile_of};
pub use store::{Asked, By, Entry, Found, Store, label, write};

/// The file of the machine's sizes and times.
pub const MACHINE: &str = "machine.json";

/// What is wrong with profiles that are kept.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The system refuses something.
    #[error("{doing}: {why}")]
    System {
        /// What.
        doing: String,
        /// Why.
        why: std::io::Error,
    },
    /// A file is not what it has to be, or there is nothing: a sentence that says what, where, and what to do.
    #[error("{0}")]
    Wrong(String),
}

impl KeptError {
    fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> KeptError {
        |why| KeptError::System { doing: doing.into(), why }
    }

    fn in_file(path: &std::path::Path, what: impl std::fmt::Display) -> KeptError {
        KeptError::Wrong(format!("{}: {what}", path.display()))
    }
}
