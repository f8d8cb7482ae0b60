//! A job on several hosts: a launcher starts an agent on each, and agents start and watch the ranks of their host.
//!
//! Start at [`HostsLaunch`]; README.md has who says what when. `place` says which rank is where, `wire` what is said, without I/O;
//! `control` are the connections, `launcher` and `agent` their two ends. What ranks note of themselves comes back in `notes`, and is kept with
//! what is found out about the clocks of their hosts (`recording`).

mod agent;
mod control;
mod launcher;
mod notes;
mod options;
pub mod place;
mod recording;
pub mod wire;

pub use agent::serve;
pub use launcher::HostsLaunch;
pub use recording::{HostClock, Recorded};

use castell_host::process::Ended;
use castell_tcp::TcpError;
use std::io;

/// What an agent's process ends with where it has said why nothing can be done.
pub(crate) const REFUSED: i32 = 65;
/// Where the launcher does not answer.
pub(crate) const UNREACHABLE: i32 = 66;

/// Why a job on several hosts was not started.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// The launcher's own network.
    #[error("the agents of other hosts cannot connect to this one: {0}")]
    Network(#[from] TcpError),
    /// The command that starts agents.
    #[error(
        "`{command}`, which is to start castell on host {host}, cannot be run ({source}): --remote names another command"
    )]
    Remote {
        /// Its first word.
        command: String,
        /// For which host.
        host: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The command ended before the agent was there.
    #[error("host {host}: {}", explain(command, castell, *ended))]
    Ended {
        /// On which host.
        host: String,
        /// The command's first word.
        command: String,
        /// What it was to start.
        castell: String,
        /// How it ended.
        ended: Ended,
    },
    /// The agent has said nothing.
    #[error(
        "host {host}: castell was started there but has not reached this host within {seconds} s{}; this host listens at {addresses}: is a \
         firewall in between?", trouble.as_ref().map_or(String::new(), |trouble| format!(" ({trouble})"))
    )]
    Silent {
        /// Which.
        host: String,
        /// How long.
        seconds: u64,
        /// What the last attempt ended with, as far as it is known here.
        trouble: Option<String>,
        /// Where the launcher listens.
        addresses: String,
    },
    /// The agent could not start its ranks.
    #[error("host {host}: {why}")]
    Start {
        /// Which.
        host: String,
        /// What the agent said.
        why: String,
        /// The code to exit with.
        code: u8,
    },
    /// It was there, and is not any more.
    #[error("host {host} was lost before all hosts were ready")]
    Lost {
        /// Which.
        host: String,
    },
    /// Somebody asked the job to end.
    #[error("ended by {0} before all hosts were ready")]
    Interrupted(String),
}

impl HostsError {
    /// The code to exit with.
    pub fn exit_code(&self) -> u8 {
        match self {
            HostsError::Start { code, .. } => *code,
            _ => 1,
        }
    }
}

/// What it means that the remote command ended before an agent was there.
fn explain(command: &str, castell: &str, ended: Ended) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match ended {
        Ended::Exited(255) => format!(
            "`{command}` could not reach it or log in (what it says stands above): `{command} HOST true` has to work without a password"
        ),
        Ended::Exited(127) => format!(
            "there is no `{castell}` on it: install castell {version} at the same place, or name it with --castell"
        ),
        Ended::Exited(126) => {
            format!("`{castell}` cannot be executed on it: is it made for another kind of machine?")
        }
        Ended::Exited(REFUSED) => "its castell refuses (what it says stands above)".into(),
        Ended::Exited(UNREACHABLE) => {
            "its castell does not reach this host (what it says stands above)".into()
        }
        Ended::Exited(2) => format!(
            "its castell does not know what an agent is: it is older than this one ({version}); install the same version on both"
        ),
        ended => format!("`{command}` {ended} before castell was started there"),
    }
}
