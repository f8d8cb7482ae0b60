//! Starting the ranks, all or none.

use super::LaunchError;
use super::relay::{Relay, Stream};
use crate::bootstrap::{JOB_FD_VARIABLE, RANK_VARIABLE};
use castell_base::Rank;
use castell_host::HostError;
use castell_host::process::{self, Birth, OpenFilesLimit, Process};
use castell_shm::job::Job;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Command;

/// The ranks that are running so far. If it is dropped before it is finished, they are killed.
pub(super) struct Started<'a> {
    job: &'a Job,
    places: Vec<Vec<u32>>,
    processes: Vec<Process>,
    relay: Option<Relay>,
    nothing: File,
    limit_before: OpenFilesLimit,
    /// See [`super::Launch::inherited`].
    pub(super) inherited: Vec<(&'static str, RawFd)>,
}

impl<'a> Started<'a> {
    /// Nobody yet. `places` are the processors of each rank in turn.
    pub(super) fn new(job: &'a Job, places: Vec<Vec<u32>>, prefix: bool) -> Result<Started<'a>, LaunchError> {
        let nothing = File::open("/dev/null").map_err(|source| HostError::System {
            what: "open /dev/null as standard input".into(),
            source,
        })?;
        // A descriptor a rank, and two pipes for the output.
        let limit_before = process::raise_open_files_limit();
        let relay = prefix.then(Relay::default);
        let (processes, inherited) = (Vec::new(), Vec::new());
        Ok(Started { job, places, processes, relay, nothing, limit_before, inherited })
    }

    /// Starts a program as the next rank.
    pub(super) fn spawn(
        &mut self,
        rank: Rank,
        program: &OsStr,
        arguments: &[OsString],
    ) -> Result<(), LaunchError> {
        let mut command = Command::new(program);
        command.args(arguments);
        command.env(JOB_FD_VARIABLE, self.job.fd().as_raw_fd().to_string());
        command.env(RANK_VARIABLE, rank.to_string());
        let (mut birth, _pipes) = self.birth(rank)?;
        birth.inherited.push(self.job.fd().as_raw_fd());
        for (variable, descriptor) in &self.inherited {
            command.env(variable, descriptor.to_string());
            birth.inherited.push(*descriptor);
        }
        let process =
            process::spawn(&mut command, &birth).map_err(|source| self.explain(rank, program, source))?;
        self.processes.push(process);
        Ok(())
    }

    /// Starts `body` as the next rank, in a fork of this process.
    ///
    /// # Safety
    /// This process has to have one thread only.
    pub(super) unsafe fn fork(
        &mut self,
        rank: Rank,
        body: &dyn Fn(Rank, Job) -> i32,
    ) -> Result<(), LaunchError> {
        let (birth, _pipes) = self.birth(rank)?;
        let ranks = self.job.ranks();
        let failed = |source| LaunchError::Start { rank, ranks, source };
        let copy = self.job.fd().try_clone_to_owned().map_err(|source| {
            failed(HostError::System { what: "copy the job's descriptor".into(), source })
        })?;
        let job = Job::attach(copy)?;
        // SAFETY: as the caller promises.
        let process = unsafe { process::fork_with(&birth, || body(rank, job)) }.map_err(failed)?;
        self.processes.push(process);
        Ok(())
    }

    /// All ranks are running: hands over their processes, and their output if it is to be prefixed.
    pub(super) fn finish(mut self) -> Result<(Vec<Process>, Option<Relay>), LaunchError> {
        Ok((std::mem::take(&mut self.processes), self.relay.take()))
    }

    /// What a rank gets, and the ends of its pipes that have to stay open until it has started.
    fn birth(&mut self, rank: Rank) -> Result<(Birth, Vec<OwnedFd>), LaunchError> {
        let mut birth = Birth {
            parent_death_signal: Some(libc::SIGKILL),
            open_files: Some(self.limit_before),
            ..Birth::default()
        };
        if !self.places.is_empty() {
            birth.cpus = self.places[rank.index() % self.places.len()].clone();
        }
        if rank != Rank(0) {
            birth.standard[0] = Some(self.nothing.as_raw_fd());
        }
        let mut pipes = Vec::new();
        if let Some(relay) = &mut self.relay {
            for (slot, stream) in [(1, Stream::Output), (2, Stream::Error)] {
                let pipe = relay.add(rank, stream).map_err(|source| LaunchError::Start {
                    rank,
                    ranks: self.job.ranks(),
                    source,
                })?;
                birth.standard[slot] = Some(pipe.as_raw_fd());
                pipes.push(pipe);
            }
        }
        Ok((birth, pipes))
    }

    fn explain(&self, rank: Rank, program: &OsStr, source: HostError) -> LaunchError {
        let program = program.to_string_lossy().into_owned();
        match (source.raw_os_error(), source) {
            (Some(libc::ENOENT), _) => LaunchError::NotFound { program },
            (
                Some(libc::EACCES | libc::ENOEXEC | libc::EISDIR | libc::ENOTDIR),
                HostError::System { source, .. },
            ) => LaunchError::NotExecutable { program, source },
            (_, source) => LaunchError::Start { rank, ranks: self.job.ranks(), source },
        }
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        for process in &self.processes {
            let _ = process.signal(libc::SIGKILL);
        }
        for process in &self.processes {
            let _ = process.wait();
        }
    }
}
