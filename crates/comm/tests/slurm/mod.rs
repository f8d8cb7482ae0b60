//! A Slurm of our own: a controller and node daemons on the loopback interface, without accounts or keys.
//!
//! Tests of several crates include this file; each uses what it needs.
#![allow(dead_code)]

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running private Slurm; ends with the value, and with it every job.
pub struct Slurm {
    folder: tempfile::TempDir,
    configuration: String,
    daemons: Vec<Child>,
    plugins: String,
}

/// What a Slurm is to look like.
pub struct Layout<'a> {
    /// Its nodes. One has this host's name; several are n1, n2, … and all of them are this host.
    pub nodes: u16,
    /// Processors that a node says it has, whatever this host has.
    pub processors: u16,
    /// More lines of its configuration; they replace lines of ours for the same parameter.
    pub settings: &'a str,
    /// More words of its only partition, `main`.
    pub partition: &'a str,
    /// Files that lie beside its configuration: names and texts.
    pub files: &'a [(&'a str, &'a str)],
    /// The nodes are the hosts h1, h2, … of the lab that this process is in.
    pub lab: Option<Lab<'a>>,
}

/// What a Slurm in a lab needs.
#[derive(Clone, Copy)]
pub struct Lab<'a> {
    /// The program that starts commands on its hosts.
    pub castell: &'a str,
    /// A folder that all of them see.
    pub folder: &'a Path,
}

impl Default for Layout<'_> {
    fn default() -> Self {
        Layout { nodes: 1, processors: 1, settings: "", partition: "", files: &[], lab: None }
    }
}

impl Slurm {
    /// Starts one with one node, or says why that is impossible here.
    pub fn start() -> Result<Slurm, String> {
        Slurm::start_with(&Layout::default())
    }

    /// Starts one, or says why that is impossible here.
    pub fn start_with(layout: &Layout) -> Result<Slurm, String> {
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } != 0 {
            return Err("slurmd starts tasks as root only".into());
        }
        let everywhere = layout.lab.map_or(std::env::temp_dir(), |lab| lab.folder.to_owned());
        let folder = tempfile::Builder::new().prefix("castell-slurm-").tempdir_in(everywhere);
        let folder = folder.map_err(|error| error.to_string())?;
        let configuration =
            folder.path().join("slurm.conf").to_str().ok_or("a strange temporary folder")?.to_string();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").map_err(|error| error.to_string())?;
        let host = host.trim().split('.').next().unwrap_or_default().to_string();
        let mut files = vec![
            ("slurm.conf", settings(&host, folder.path().to_str().unwrap_or_default(), layout)?),
            ("cgroup.conf", "CgroupPlugin=cgroup/v1\n".to_owned()),
        ];
        files.extend(layout.files.iter().map(|(name, text)| (*name, (*text).to_owned())));
        fs::create_dir(folder.path().join("state")).map_err(|error| error.to_string())?;
        for (name, text) in files {
            fs::write(folder.path().join(name), text).map_err(|error| error.to_string())?;
        }
        let mut slurm = Slurm { folder, configuration, daemons: Vec::new(), plugins: String::new() };
        slurm.start_daemon("slurmctld", None, None)?;
        for name in node_names(&host, layout) {
            slurm.start_daemon("slurmd", Some(&name), layout.lab)?;
        }
        slurm.wait_until_idle()?;
        slurm.plugins = slurm.ask("srun", &["--mpi=list"])?;
        Ok(slurm)
    }

    /// What a command of Slurm's prints, on both ways out; it gets five seconds.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command.arg("5").arg(program).args(arguments).env("SLURM_CONF", &self.configuration);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The folder with its configuration, its state and what the daemons say (`slurmctld.out`, `slurmd.n1.out`, …).
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Path of its configuration file.
    pub fn configuration(&self) -> &str {
        &self.configuration
    }

    /// Whether it has this MPI plugin.
    pub fn offers(&self, plugin: &str) -> bool {
        self.plugins.split_whitespace().any(|word| word == plugin)
    }

    fn start_daemon(&mut self, daemon: &str, node: Option<&str>, lab: Option<Lab<'_>>) -> Result<(), String> {
        let name = node.map_or(daemon.to_owned(), |node| format!("{daemon}.{node}"));
        let log = fs::File::create(self.folder.path().join(format!("{name}.out")))
            .map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = match (lab, node) {
            (Some(lab), Some(node)) => {
                let mut command = Command::new(lab.castell);
                command.args(["lab", "--on", node, "--", daemon]);
                command
            }
            _ => Command::new(daemon),
        };
        command.args(["-D", "-f", &self.configuration]).stdin(Stdio::null()).stdout(log).stderr(errors);
        node.map(|node| command.args(["-N", node]));
        // They live in sbin, which is not in everybody's path.
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path).env("SLURM_CONF", &self.configuration);
        self.daemons.push(command.spawn().map_err(|error| format!("{daemon}: {error}"))?);
        Ok(())
    }

    fn wait_until_idle(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while !self.ask("sinfo", &["-h", "-N", "-o", "%t"]).is_ok_and(|states| {
            states.lines().count() == self.daemons.len() - 1
                && states.lines().all(|state| state.trim() == "idle")
        }) {
            std::thread::sleep(Duration::from_millis(50));
            let is_over =
                self.daemons.iter_mut().any(|daemon| daemon.try_wait().is_ok_and(|status| status.is_some()));
            if is_over || start.elapsed() > Duration::from_secs(15) {
                return Err(format!("its nodes do not come up: {}", self.said()));
            }
        }
        Ok(())
    }

    /// What its daemons have said.
    fn said(&self) -> String {
        let files =
            fs::read_dir(self.folder.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "out"));
        logs.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Steps have daemons of their own, which outlive slurmd. What waits would start when what runs has ended, so it goes first;
        // what is just starting may miss its signal, so it is asked again.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            let _ = self.ask("scancel", &["--state=PENDING", "--user=root"]);
            let _ = self.ask("scancel", &["--user=root"]);
            std::thread::sleep(Duration::from_millis(100));
            if self.ask("squeue", &["-h"]).is_ok_and(|jobs| jobs.is_empty()) {
                break;
            }
        }
        for daemon in self.daemons.iter_mut().rev() {
            // SAFETY: integers; the child has not been waited for, so the number is its own.
            unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
            let _ = daemon.wait();
        }
    }
}

fn node_names(host: &str, layout: &Layout) -> Vec<String> {
    match layout.nodes {
        nodes if layout.lab.is_some() => (1..=nodes).map(|number| format!("h{number}")).collect(),
        1 => vec![host.to_owned()],
        several => (1..=several).map(|number| format!("n{number}")).collect(),
    }
}

fn settings(host: &str, folder: &str, layout: &Layout) -> Result<String, String> {
    let free_port = || {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        listener.local_addr().map(|address| (address.port(), listener)).map_err(|error| error.to_string())
    };
    // All are kept until all are known, so that no two are the same.
    let ports: Result<Vec<_>, String> = (0..=layout.nodes).map(|_| free_port()).collect();
    let ports = ports?;
    let address = |name: &str| match layout.lab {
        Some(_) => name.to_owned(),
        None => "127.0.0.1".to_owned(),
    };
    let mut text = format!(
        "ClusterName=castell\nSlurmctldHost={host}({})\nSlurmctldPort={}\n\
         AuthType=auth/none\nCredType=cred/none\nSlurmUser=root\nSlurmdUser=root\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool.%n\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.%n.pid\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
         SelectType=select/linear\nSwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
         SchedulerType=sched/builtin\nKillWait=1\nSlurmdParameters=config_overrides\n",
        address(host),
        ports[0].0
    );
    for line in layout.settings.lines() {
        let name = line.split('=').next().unwrap_or_default();
        let kept = text.lines().filter(|ours| ours.split('=').next() != Some(name));
        text = kept.map(|ours| format!("{ours}\n")).collect();
        text += &format!("{line}\n");
    }
    let names = node_names(host, layout);
    for (name, (port, _)) in names.iter().zip(&ports[1..]) {
        text += &format!(
            "NodeName={name} NodeHostname={} NodeAddr={} Port={port} CPUs={} State=UNKNOWN\n",
            if layout.lab.is_some() { name } else { host },
            address(name),
            layout.processors
        );
    }
    text += &format!(
        "PartitionName=main Nodes={} Default=YES MaxTime=INFINITE State=UP {}\n",
        names.join(","),
        layout.partition
    );
    Ok(text)
}
