//! The hosts, and how each side's launcher comes to them.

use crate::folder::Folder;
use crate::peers::OnHosts;
use anyhow::{Context as _, bail};
use castell_host::topology::Processors;
use castell_lab::HOSTS_VARIABLE;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// What is there.
pub(super) struct Hosts {
    names: Vec<String>,
    /// The command that starts others on a host, as `castell launch` takes it; `None`: its own choice.
    remote: Option<String>,
    /// All hosts are this one, and share its processors.
    is_lab: bool,
    /// In the working folder, which all hosts see.
    folder: Folder,
    castell: PathBuf,
}

/// Stands for the host in a remote command.
const HOST: &str = "{host}";
const SSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=10 {host}";

impl Hosts {
    /// Those that are named, else those of the lab.
    pub fn of(names: &[String], remote: Option<&str>) -> anyhow::Result<Hosts> {
        let lab = std::env::var(HOSTS_VARIABLE).ok().filter(|hosts| !hosts.is_empty());
        let (names, is_lab) = match (names, &lab) {
            ([], None) => bail!(
                "which hosts? Name them (--hosts a,b), or run it in a lab: castell lab 4 -- castell bench net"
            ),
            ([], Some(lab)) => (lab.split(',').map(str::to_owned).collect(), true),
            (names, _) => (names.to_vec(), lab.is_some()),
        };
        if names.len() < 2 {
            bail!("{}: at least two hosts are needed", names.join(","));
        }
        let castell = std::env::current_exe().context("castell does not find itself")?;
        let here = std::env::current_dir().context("no working folder")?;
        let folder = Folder::create_in(&here)?;
        let hosts = Hosts { names, remote: remote.map(str::to_owned), is_lab, folder, castell };
        hosts.write_script()?;
        Ok(hosts)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The first hosts, with so many ranks on each.
    pub fn group(&self, hosts: u32, each: u32) -> Group<'_> {
        Group { all: self, hosts, each }
    }

    /// What MPI launchers call in the place of ssh: a host, and words that a shell there puts together.
    fn write_script(&self) -> anyhow::Result<()> {
        let castell = self.castell.display();
        let start = match &self.remote {
            Some(remote) if remote.contains(HOST) => {
                format!("{} sh -c \"$*\"", remote.replace(HOST, "\"$host\""))
            }
            Some(remote) => format!("{remote} \"$host\" sh -c \"$*\""),
            None if self.is_lab => format!("'{castell}' lab --on \"$host\" -- sh -c \"$*\""),
            None => format!("{} \"$*\"", SSH.replace(HOST, "\"$host\"")),
        };
        let path = self.script();
        std::fs::write(&path, format!("#!/bin/sh\nhost=$1\nshift\nexec {start}\n"))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("on-host")
    }
}

/// Some of them.
pub(super) struct Group<'a> {
    all: &'a Hosts,
    hosts: u32,
    each: u32,
}

impl Group<'_> {
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    pub fn each(&self) -> u32 {
        self.each
    }

    /// `castell launch` of them all, up to the program.
    pub fn launch(&self, net: &str) -> Vec<String> {
        let names = self.all.names.iter().take(self.hosts as usize);
        let places: Vec<String> = names.map(|name| format!("{name}:{}", self.each)).collect();
        let castell = self.all.castell.to_string_lossy().into_owned();
        let mut words = vec![castell, "launch".into(), "--hosts".into(), places.join(",")];
        if net != "tcp" {
            words.extend(["--net".to_owned(), net.to_owned()]);
        }
        if let Some(remote) = &self.all.remote {
            words.extend(["--remote".to_owned(), remote.clone()]);
        }
        words
    }

    /// Whether there are more ranks than processors.
    pub fn is_too_many(&self) -> bool {
        self.all.is_lab && (self.hosts * self.each) as usize > Processors::usable().count()
    }

    /// What an MPI's launcher has to know.
    pub fn of_mpi(&self) -> OnHosts {
        OnHosts {
            names: self.all.names[..self.hosts as usize].to_vec(),
            each: self.each,
            remote: self.all.script(),
            folder: self.all.folder.path().to_owned(),
            is_crowded: self.all.is_lab && (self.hosts * self.each) as usize >= Processors::usable().count(),
        }
    }
}
