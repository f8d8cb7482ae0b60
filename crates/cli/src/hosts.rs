//! A job on several hosts: what the options say about where it goes.

use anyhow::{Context, bail};
use castell_comm::hosts::HostsLaunch;
use castell_comm::hosts::place::{self, HostSlots};
use castell_comm::job::RANKS_MAX;
use castell_comm::launch::Launch;
use castell_comm::{Comm, Job, bootstrap};
use castell_host::journal::{self, Journal};
use castell_lab::HOSTS_VARIABLE;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Joins as a rank that this command has started, and has a journal in which it notes what it has to tell.
///
/// # Errors
/// Somebody else started it.
pub fn join_as_rank(command: &str) -> anyhow::Result<(Comm, &'static Journal)> {
    let membership = bootstrap::join(|_| Err(format!("`{command}` starts this")))?;
    let comm = Comm::try_join(Job::attach(membership.segment)?, membership.rank)?;
    let journal = journal::of_this_process().with_context(|| format!("this is started by `{command}`"))?;
    Ok((comm, journal))
}

/// How long hosts may take until castell is started on all of them.
const START_WITHIN: Duration = Duration::from_secs(60);

/// The options of commands whose ranks may be on several hosts.
#[derive(clap::Args, Clone, Debug)]
pub struct HostsArgs {
    /// On these hosts, with at most so many ranks each, filled one after the other: a:4,b:4; without numbers the ranks are dealt out evenly
    #[arg(long, value_name = "HOST:N,...")]
    hosts: Option<String>,
    /// The same from a file: a host a line, as `a:4` or `a slots=4`; # begins a comment
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,
    /// The command that starts a command on a host: {host} in it is the name, which else follows behind it [default: ssh, without questions]
    #[arg(long, value_name = "COMMAND")]
    remote: Option<String>,
    /// Where castell is on the other hosts [default: where it is here]
    #[arg(long, value_name = "PATH")]
    castell: Option<PathBuf>,
}

/// Where a job on several hosts goes.
pub struct Hosts {
    hosts: Vec<HostSlots>,
    pub places: Vec<u32>,
    remote: Vec<String>,
    castell: PathBuf,
}

impl Hosts {
    /// What the options say, or the session or the lab that this process is in; `None`: all stays on this host.
    pub fn of(args: &HostsArgs, ranks: Option<u32>) -> anyhow::Result<Option<Hosts>> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let session = set(castell_agent::HOSTS);
        let lab = set(HOSTS_VARIABLE);
        let hosts = match (&args.hosts, &args.hostfile, session.as_ref().or(lab.as_ref())) {
            (Some(hosts), ..) => place::parse_hosts(hosts)?,
            (None, Some(file), _) => place::read_hosts(file)?,
            (None, None, Some(hosts)) => place::parse_hosts(hosts)?,
            (None, None, None) if args.remote.is_some() => bail!("--remote is for --hosts or --hostfile"),
            (None, None, None) => return Ok(None),
        };
        let places = place::place(&hosts, ranks)?;
        if places.len() > RANKS_MAX as usize {
            bail!("{} ranks are too many: {RANKS_MAX} at most", places.len());
        }
        let here = std::env::current_exe().context("where is castell?")?;
        let words = |command: &str| command.split_whitespace().map(str::to_owned).collect();
        let remote: Vec<String> = match &args.remote {
            Some(command) => words(command),
            None if session.is_some() => words(&set(castell_agent::REMOTE).unwrap_or_default()),
            None if lab.is_some() => {
                vec![here.display().to_string(), "lab".into(), "--on".into(), "{host}".into(), "--".into()]
            }
            None => words("ssh -o BatchMode=yes -o ConnectTimeout=10"),
        };
        if remote.is_empty() {
            bail!("--remote names no command");
        }
        Ok(Some(Hosts { hosts, places, remote, castell: args.castell.clone().unwrap_or(here) }))
    }

    /// How many hosts there are.
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// The hosts, as `--hosts` has them.
    pub fn names(&self) -> String {
        self.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Where castell is on the hosts.
    pub fn castell(&self) -> &Path {
        &self.castell
    }

    /// The job there; `asked`: variables for its ranks, besides those that begin with `CASTELL_`.
    pub fn launch(self, launch: Launch, asked: &[String]) -> anyhow::Result<HostsLaunch> {
        let Hosts { hosts, places, remote, castell } = self;
        let environment = environment(asked)?;
        Ok(HostsLaunch { launch, hosts, places, remote, castell, environment, patience: START_WITHIN })
    }
}

/// The variables that ranks on other hosts get.
fn environment(asked: &[String]) -> anyhow::Result<Vec<OsString>> {
    let of_one_process = ["CASTELL_JOB_FD", "CASTELL_RANK"];
    let mut all: Vec<OsString> = std::env::vars_os()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            name.starts_with("CASTELL_") && !of_one_process.contains(&&*name)
        })
        .map(|(name, value)| [name, "=".into(), value].into_iter().collect())
        .collect();
    for one in asked {
        let (name, value) = match one.split_once('=') {
            Some((name, value)) => (name, OsString::from(value)),
            None => {
                (&**one, std::env::var_os(one).with_context(|| format!("--env {one}: it is not set here"))?)
            }
        };
        if name.is_empty() {
            bail!("--env {one}: write NAME=VALUE or NAME");
        }
        all.push([name.into(), "=".into(), value].into_iter().collect());
    }
    Ok(all)
}
