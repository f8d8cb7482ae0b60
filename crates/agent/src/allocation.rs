//! The nodes that sessions run on, and how a program is started on one of them.

use crate::tree::{MARK, NO_MARK};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Several nodes, of which the first has the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// As `remote` knows them, each once.
    pub nodes: Vec<String>,
    /// A command that starts a program on a node, whose name stands for `{host}`, or behind it where that does not occur.
    pub remote: Vec<String>,
    /// This program on the nodes.
    pub castell: PathBuf,
}

impl Allocation {
    /// Whether this process is on the node that has the agent.
    pub fn begins_here(&self) -> bool {
        self.nodes.first() == Some(&here())
    }

    /// What starts `castell` with these arguments on a node.
    pub fn command(&self, node: &str, arguments: &[&str]) -> Command {
        let mut command = self.start(node, self.castell.as_os_str());
        command.args(arguments).env(MARK, NO_MARK);
        command
    }

    /// What starts a program on a node, whose arguments are to be added.
    pub fn start(&self, node: &str, program: &OsStr) -> Command {
        if node == here() {
            return Command::new(program);
        }
        let mut command = castell_host::remote::on(&self.remote, node);
        command.arg(program);
        command
    }

    /// Starts that with a stream as its input and output, in a group of its own: Ctrl-C is not for it.
    pub(crate) fn talk_to(
        &self,
        node: &str,
        arguments: &[&str],
        errors: Stdio,
    ) -> io::Result<(Child, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let mut command = self.command(node, arguments);
        command
            .stdin(Stdio::from(theirs.try_clone()?))
            .stdout(Stdio::from(theirs))
            .stderr(errors)
            .process_group(0);
        Ok((command.spawn()?, ours))
    }
}

/// What this host is called as a node: Slurm's name for it, or else its own.
pub fn here() -> String {
    if let Some(name) = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()) {
        return name;
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
