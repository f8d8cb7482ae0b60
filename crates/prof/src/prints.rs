//! Where what a watched program prints goes.

use std::io;
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

/// Where a program's standard output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prints {
    /// To this process's: the program is as it would be without being watched.
    #[default]
    ToOutput,
    /// To this process's standard error: what this process itself prints can be read by machines.
    ToErrors,
}

impl Prints {
    /// Sees to it in a command that was not started yet.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(crate) fn set_in(self, command: &mut Command) -> io::Result<()> {
        if self == Prints::ToErrors {
            command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        }
        Ok(())
    }
}
