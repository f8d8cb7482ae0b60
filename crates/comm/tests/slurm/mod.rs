//! A Slurm of our own: a controller and one node daemon on the loopback interface, without accounts or keys.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running private Slurm; ends with the value.
pub struct Slurm {
    folder: tempfile::TempDir,
    configuration: String,
    daemons: Vec<Child>,
    plugins: String,
}

impl Slurm {
    /// Starts it, or says why that is impossible here.
    pub fn start() -> Result<Slurm, String> {
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } != 0 {
            return Err("slurmd starts tasks as root only".into());
        }
        let folder =
            tempfile::Builder::new().prefix("castell-slurm-").tempdir().map_err(|error| error.to_string())?;
        let configuration =
            folder.path().join("slurm.conf").to_str().ok_or("a strange temporary folder")?.to_string();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").map_err(|error| error.to_string())?;
        let host = host.trim().split('.').next().unwrap_or_default().to_string();
        fs::write(&configuration, settings(&host, folder.path().to_str().unwrap_or_default())?)
            .and_then(|()| fs::write(folder.path().join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n"))
            .and_then(|()| fs::create_dir(folder.path().join("state")))
            .map_err(|error| error.to_string())?;
        let mut slurm = Slurm { folder, configuration, daemons: Vec::new(), plugins: String::new() };
        for daemon in ["slurmctld", "slurmd"] {
            slurm.start_daemon(daemon)?;
        }
        slurm.wait_until_idle()?;
        slurm.plugins = slurm.ask("srun", &["--mpi=list"])?;
        Ok(slurm)
    }

    /// Path of its configuration file.
    pub fn configuration(&self) -> &str {
        &self.configuration
    }

    /// Whether it has this MPI plugin.
    pub fn offers(&self, plugin: &str) -> bool {
        self.plugins.split_whitespace().any(|word| word == plugin)
    }

    fn start_daemon(&mut self, daemon: &str) -> Result<(), String> {
        let log = fs::File::create(self.folder.path().join(format!("{daemon}.out")))
            .map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(daemon);
        command.args(["-D", "-f", &self.configuration]).stdin(Stdio::null()).stdout(log).stderr(errors);
        // They live in sbin, which is not in everybody's path.
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path);
        self.daemons.push(command.spawn().map_err(|error| format!("{daemon}: {error}"))?);
        Ok(())
    }

    fn wait_until_idle(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while self.ask("sinfo", &["-h", "-o", "%t"]).unwrap_or_default().trim() != "idle" {
            std::thread::sleep(Duration::from_millis(50));
            let is_over =
                self.daemons.iter_mut().any(|daemon| daemon.try_wait().is_ok_and(|status| status.is_some()));
            if is_over || start.elapsed() > Duration::from_secs(15) {
                let read = |name: &str| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
                return Err(format!(
                    "its node does not come up: {}{}",
                    read("slurmctld.out"),
                    read("slurmd.out")
                ));
            }
        }
        Ok(())
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command.arg("5").arg(program).args(arguments).env("SLURM_CONF", &self.configuration);
        let output = command.output().map_err(|error| error.to_string())?;
        let text = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            // SAFETY: integers; the child has not been waited for, so the number is its own.
            unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
            let _ = daemon.wait();
        }
    }
}

fn settings(host: &str, folder: &str) -> Result<String, String> {
    let free_port = || {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        listener.local_addr().map(|address| (address.port(), listener)).map_err(|error| error.to_string())
    };
    let ((controller_port, _first), (node_port, _second)) = (free_port()?, free_port()?);
    Ok(format!(
        "ClusterName=castell\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller_port}\nSlurmdPort={node_port}\n\
         AuthType=auth/none\nCredType=cred/none\nSlurmUser=root\nSlurmdUser=root\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.pid\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
         SelectType=select/linear\nSwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
         SchedulerType=sched/builtin\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN\n\
         PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP\n"
    ))
}
