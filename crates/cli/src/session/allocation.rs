//! Which nodes the sessions of this process may use.

use anyhow::{Context as _, bail};
use castell_agent::Allocation;
use castell_comm::hosts::place;
use castell_lab::HOSTS_VARIABLE;
use std::process::Command;

/// Those of the Slurm job or the lab that this process is in; none: this host alone.
pub(crate) fn allocation() -> anyhow::Result<Option<Allocation>> {
    let castell = std::env::current_exe().context("where is castell?")?;
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(hosts) = set(HOSTS_VARIABLE) {
        let nodes = place::parse_hosts(&hosts)?.into_iter().map(|host| host.host).collect();
        let remote =
            vec![castell.display().to_string(), "lab".into(), "--on".into(), "{host}".into(), "--".into()];
        return Ok(Some(Allocation { nodes, remote, castell }));
    }
    let Some((job, nodes)) = set("SLURM_JOB_ID").zip(set("SLURM_JOB_NODELIST")) else { return Ok(None) };
    Ok(Some(Allocation { nodes: slurm_nodes(&nodes)?, remote: srun(&job)?, castell }))
}

/// Starts one process of one more step, whatever the step that this process is in.
fn srun(job: &str) -> anyhow::Result<Vec<String>> {
    let job = format!("--jobid={job}");
    let mut words = vec![
        "srun",
        &job,
        "--overlap",
        "--quiet",
        "--nodes=1",
        "--ntasks=1",
        "--nodelist={host}",
        "--distribution=block",
        "--mpi=none",
        "--mem=0",
        "--export=ALL",
    ];
    // All that the job has on the node; where Slurm binds nothing it does not like to hear of it.
    if scontrol(&["show", "config"])?
        .lines()
        .any(|line| line.starts_with("TaskPlugin ") && line.contains("affinity"))
    {
        words.push("--cpu-bind=none");
    }
    Ok(words.into_iter().map(str::to_owned).collect())
}

fn slurm_nodes(list: &str) -> anyhow::Result<Vec<String>> {
    Ok(scontrol(&["show", "hostnames", list])?.lines().map(str::to_owned).collect())
}

fn scontrol(arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("scontrol").args(arguments).output();
    let output = output.context("this is a job of Slurm, but its `scontrol` cannot be started")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        bail!("`scontrol {}`: {} ({said})", arguments.join(" "), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
