//! Starting the ranks, all or none.

use super::relay::{Relay, Stream};
use super::{Domains, Launch, LaunchError};
use crate::bootstrap::{JOB_FD_VARIABLE, RANK_VARIABLE};
use castell_base::Rank;
use castell_host::HostError;
use castell_host::process::{self, Birth, OpenFilesLimit, Process};
use castell_shm::job::Job;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::process::Command;

/// The processes of ranks, and the domains in which they live.
pub(super) type RankProcesses = (Vec<(Rank, Process)>, Domains);

/// The ranks that are running so far. If it is dropped before it is finished, they are killed.
pub(super) struct Started<'a> {
    job: &'a Job,
    places: Vec<Vec<u32>>,
    processes: Vec<(Rank, Process)>,
    domains: Domains,
    relay: Option<Relay>,
    nothing: File,
    limit_before: OpenFilesLimit,
    launch: &'a Launch,
}

impl<'a> Started<'a> {
    /// Nobody yet. `places` are the processors of each rank in turn.
    pub(super) fn new(
        job: &'a Job,
        places: Vec<Vec<u32>>,
        domains: Domains,
        launch: &'a Launch,
    ) -> Result<Started<'a>, LaunchError> {
        let nothing = File::open("/dev/null").map_err(|source| HostError::System {
            what: "open /dev/null as standard input".into(),
            source,
        })?;
        // A descriptor a rank, and two pipes for the output.
        let limit_before = process::raise_open_files_limit();
        let relay = launch.prefix.then(Relay::default);
        Ok(Started { job, places, processes: Vec::new(), domains, relay, nothing, limit_before, launch })
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
        command.envs(self.launch.environment.iter().map(|(name, value)| (name, value)));
        command.env(JOB_FD_VARIABLE, self.job.fd().as_raw_fd().to_string());
        command.env(RANK_VARIABLE, rank.to_string());
        let (mut birth, _pipes) = self.birth(rank)?;
        birth.inherited.push(self.job.fd().as_raw_fd());
        for (variable, descriptor) in self.launch.inherited.iter().copied() {
            command.env(variable, descriptor.to_string());
            birth.inherited.push(descriptor);
        }
        for own in self.launch.inherited_by.iter().filter(|own| own.rank == rank) {
            let numbers: Vec<RawFd> = own.descriptors.iter().map(|one| one.as_raw_fd()).collect();
            command.env(own.variable, numbers.iter().map(RawFd::to_string).collect::<Vec<_>>().join(","));
            birth.inherited.extend(numbers);
        }
        let process =
            process::spawn(&mut command, &birth).map_err(|source| self.explain(rank, program, source))?;
        self.processes.push((rank, process));
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
        self.processes.push((rank, process));
        Ok(())
    }

    /// All ranks are running: hands over their processes, and their output if it is to be prefixed.
    pub(super) fn finish(mut self) -> Result<(RankProcesses, Option<Relay>), LaunchError> {
        let living = (std::mem::take(&mut self.processes), std::mem::take(&mut self.domains));
        Ok((living, self.relay.take()))
    }

    /// What a rank gets, and the ends of its pipes that have to stay open until it has started.
    fn birth(&mut self, rank: Rank) -> Result<(Birth, Vec<OwnedFd>), LaunchError> {
        let mut birth = Birth {
            parent_death_signal: Some(libc::SIGKILL),
            open_files: Some(self.limit_before),
            ..Birth::default()
        };
        if !self.places.is_empty() {
            birth.cpus = self.places[self.processes.len() % self.places.len()].clone();
        }
        if rank != Rank(0) {
            birth.standard[0] = Some(self.nothing.as_raw_fd());
        }
        if let Some(domain) = self.job.domain_of(rank).and_then(|number| self.domains.get(&number)) {
            birth.domain = Some(domain.entrance().map_err(|source| LaunchError::Start {
                rank,
                ranks: self.job.ranks(),
                source: HostError::System { what: "find the working folder".into(), source },
            })?);
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
        for (_, process) in &self.processes {
            let _ = process.signal(libc::SIGKILL);
        }
        for (_, process) in &self.processes {
            let _ = process.wait();
        }
    }
}
