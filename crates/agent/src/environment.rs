//! What a session's program finds in its environment about the nodes that it was given, so that launchers need no options: castell's
//! own, those of Open MPI and of MPICH and its children, and Slurm's `srun`.

use castell_policy::session::protocol::Part;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Names the nodes of a session and how many ranks go there, as `castell launch --hosts` has it.
pub const HOSTS: &str = "CASTELL_SESSION_HOSTS";
/// What starts a program on one of them.
pub const REMOTE: &str = "CASTELL_SESSION_REMOTE";
/// The castell that runs the session, for whoever has to ask it.
pub const PROGRAM: &str = "CASTELL_SESSION_PROGRAM";
/// The agent's socket, where that is not the usual one.
pub const SOCKET: &str = "CASTELL_SESSION_SOCKET";

/// Variables, and the folder of files that they name, which goes with this value.
pub(crate) struct Environment {
    pub(crate) variables: BTreeMap<&'static str, String>,
    folder: PathBuf,
}

impl Environment {
    /// Of a program on these nodes, with files in a new `folder`.
    pub(crate) fn of(
        parts: &[Part],
        remote: &[String],
        castell: &Path,
        folder: PathBuf,
    ) -> io::Result<Environment> {
        // Left by another process with this one's number.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder)?;
        let mut environment = Environment { variables: BTreeMap::new(), folder };
        let lines = |line: &dyn Fn(&Part) -> String| parts.iter().map(line).collect::<String>();
        let open_mpi =
            environment.file("open-mpi", &lines(&|part| format!("{} slots={}\n", part.node, part.slots)))?;
        let hydra = environment.file("mpich", &lines(&|part| format!("{}:{}\n", part.node, part.slots)))?;
        let slurm = environment
            .file("slurm", &lines(&|part| format!("{}\n", part.node).repeat(part.slots as usize)))?;
        let hosts: Vec<String> = parts.iter().map(|part| format!("{}:{}", part.node, part.slots)).collect();
        let shell = format!("{} session on", castell.display());
        let slots: u32 = parts.iter().map(|part| part.slots).sum();
        environment.variables.extend([
            (HOSTS, hosts.join(",")),
            (REMOTE, remote.join(" ")),
            ("OMPI_MCA_orte_default_hostfile", open_mpi.clone()),
            ("PRTE_MCA_prte_default_hostfile", open_mpi),
            // All of the job's slots are not this session's, and Open MPI's daemons are no tasks that Slurm should place.
            ("OMPI_MCA_ras", "^slurm".into()),
            ("PRTE_MCA_ras", "^slurm".into()),
            ("OMPI_MCA_plm", "rsh".into()),
            ("OMPI_MCA_plm_rsh_agent", shell.clone()),
            ("PRTE_MCA_plm", "ssh".into()),
            ("PRTE_MCA_plm_ssh_agent", shell),
            ("HYDRA_HOST_FILE", hydra.clone()),
            ("I_MPI_HYDRA_HOST_FILE", hydra),
        ]);
        if std::env::var_os("SLURM_JOB_ID").is_some() {
            environment.variables.extend([
                ("SLURM_HOSTFILE", slurm),
                ("SLURM_DISTRIBUTION", "arbitrary".into()),
                ("SLURM_NTASKS", slots.to_string()),
                ("SLURM_NPROCS", slots.to_string()),
                ("SLURM_NNODES", parts.len().to_string()),
                // Sessions share processors where castell says so, which Slurm would not allow to steps.
                ("SLURM_OVERLAP", "1".into()),
            ]);
        }
        Ok(environment)
    }

    fn file(&self, name: &str, text: &str) -> io::Result<String> {
        let path = self.folder.join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // Where it cannot be, the next process with this number does it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The folder for a process's files beside an agent's socket.
pub(crate) fn folder(socket: &Path) -> PathBuf {
    socket.with_extension(format!("{}.files", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_find_the_nodes() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("files");
        let part = |node: &str, slots| Part { node: node.into(), cpus: vec![0], slots };
        let remote = ["ssh".to_owned(), "-q".to_owned()];
        let environment = Environment::of(
            &[part("a", 2), part("b", 1)],
            &remote,
            Path::new("/bin/castell"),
            folder.clone(),
        )
        .expect("files");
        assert_eq!((&*environment.variables[HOSTS], &*environment.variables[REMOTE]), ("a:2,b:1", "ssh -q"));
        let read = |name| fs::read_to_string(&environment.variables[name]).expect("a file");
        assert_eq!(read("HYDRA_HOST_FILE"), "a:2\nb:1\n");
        assert_eq!(read("OMPI_MCA_orte_default_hostfile"), "a slots=2\nb slots=1\n");
        assert_eq!(environment.variables["OMPI_MCA_plm_rsh_agent"], "/bin/castell session on");
        assert_eq!(fs::read_to_string(folder.join("slurm")).expect("a file"), "a\na\nb\n");
        drop(environment);
        assert!(!folder.exists());
    }
}
