//! This process's membership in its group.

use castell_base::{Rank, Tag};
use castell_coll::collective::Element;
use castell_coll::pool::{AllocationError, SharedBuffer};
use castell_coll::{Communicator, join};
use castell_engine::{Failure, Process};
use castell_host::board::{self, Counted};
use castell_launch::bootstrap::{self, BootstrapError, HostFunctions, Membership};
use castell_shm::job::{Job, JobError, JobOptions};
use castell_shm::watch::Watch;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// With more hosts not every one tries to reach every other one.
const HOSTS_MEET_ALL: usize = 16;

/// This process's membership in its group. Clones share it; all methods may be called from any thread.
///
/// ```
/// use castell_base::Rank;
/// use castell_comm::Comm;
/// use castell_goal::graph::Graph;
/// use std::sync::Arc;
///
/// // Started without a launcher, a process is a group of one.
/// let comm = Comm::init()?;
/// let mut graph = Graph::new();
/// graph.calc(1000);
/// let schedule = Arc::new(graph.compile()?);
/// // SAFETY: the schedule names no user memory.
/// let handle = unsafe { comm.run(&schedule) }?;
/// handle.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Comm {
    process: Process,
    _counted: Option<Arc<Counted>>,
}

impl Deref for Comm {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl Comm {
    /// Finds this process's group and joins it: the launcher's, that of an `mpirun` or `srun`, or a group of one.
    ///
    /// # Errors
    /// Signs of a launcher without a way to find the group; never silently a group of one.
    pub fn init() -> Result<Comm, BootstrapError> {
        Comm::enter(bootstrap::join(segment)?)
    }

    /// Joins the group that this program has already, as its functions tell: no launcher is asked, so that a library can do this
    /// inside a program that uses MPI. All ranks of the group have to call it; those of different hosts talk over TCP.
    ///
    /// ```
    /// use castell_base::Rank;
    /// use castell_comm::Comm;
    /// use castell_comm::bootstrap::HostFunctions;
    ///
    /// struct Alone;
    ///
    /// impl HostFunctions for Alone {
    ///     fn rank(&self) -> Rank {
    ///         Rank(0) // MPI_Comm_rank
    ///     }
    ///     fn ranks(&self) -> u32 {
    ///         1 // MPI_Comm_size
    ///     }
    ///     fn allgather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), String> {
    ///         all.copy_from_slice(mine); // MPI_Allgather
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let comm = Comm::init_by(&mut Alone)?;
    /// comm.world().barrier()?;
    /// comm.finalize();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The functions failed or contradict each other.
    pub fn init_by(functions: &mut dyn HostFunctions) -> Result<Comm, BootstrapError> {
        Comm::enter(bootstrap::join_by(functions, segment)?)
    }

    fn enter(membership: Membership<'_>) -> Result<Comm, BootstrapError> {
        let Membership { rank, segment, is_supervised, processes_visible, introduction } = membership;
        let counted = counted(); // the engine asks how it waits
        let joined = enter_job(segment, rank, !is_supervised && processes_visible);
        if let Some(introduction) = introduction {
            // Who did not join says so, since the others wait to hear where it is found.
            let met = introduction.meet(joined.as_ref().map(|process| process.job()));
            if let (Err(error), Ok(process)) = (met, &joined) {
                process.finalize();
                return Err(error);
            }
        }
        let process = joined?;
        process.note_if_wanted();
        Ok(Comm { process, _counted: counted })
    }

    /// Joins a job, whose ranks somebody watches, as `rank`.
    ///
    /// # Errors
    /// Its network cannot be used on this host.
    ///
    /// # Panics
    /// Each rank is joined by exactly one process, once.
    pub fn try_join(job: Job, rank: Rank) -> Result<Comm, JobError> {
        Ok(Comm { process: join(job, rank, None)?, _counted: None })
    }

    /// The same where nothing but the job's memory is needed.
    ///
    /// # Panics
    /// Each rank is joined by exactly one process, once; its network cannot be used on this host.
    pub fn join(job: Job, rank: Rank) -> Comm {
        Comm::try_join(job, rank).unwrap_or_else(|error| panic!("{error}"))
    }

    /// All ranks. Each call gives another handle to the same communicator: their calls count as one sequence.
    pub fn world(&self) -> Communicator {
        Communicator::world(self)
    }

    /// The lowest rank of each host.
    pub fn host_leaders(&self) -> Vec<Rank> {
        let mut hosts = BTreeMap::new();
        for rank in (0..self.size()).map(Rank) {
            hosts.entry(self.job().host_of(rank)).or_insert(rank);
        }
        hosts.into_values().collect()
    }

    /// Finds out whether the hosts of the group reach each other. All ranks call it, before they run anything: one of each host tells those of
    /// others that it is there, and hears of them; of all, or of some where there are more than 16 hosts. Whom the network does not reach is given up
    /// after some seconds, as ever.
    ///
    /// # Errors
    /// A rank of another host is not reached, or ended.
    pub fn meet_hosts(&self) -> Result<(), Failure> {
        let (leaders, me) = (self.host_leaders(), self.rank());
        let hosts = leaders.len();
        let Some(at) = leaders.iter().position(|leader| *leader == me).filter(|_| hosts > 1) else {
            return Ok(());
        };
        let steps = (1..hosts).filter(|step| hosts <= HOSTS_MEET_ALL || step.is_power_of_two());
        let others: BTreeSet<Rank> = steps
            .flat_map(|step| [leaders[(at + step) % hosts], leaders[(at + hosts - step) % hosts]])
            .collect();
        let (mine, mut theirs) = ([1u8], vec![0u8; others.len()]);
        self.scope(|scope| {
            let mut graph = scope.graph();
            for (other, into) in others.iter().zip(theirs.chunks_mut(1)) {
                graph.send(scope.share(&mine), *other, Tag(0)).expect("a byte to another rank");
                graph.recv(scope.lend(into), Some(*other), Some(Tag(0))).expect("a byte of another rank");
            }
            let schedule = graph.compile().expect("it has no edges");
            scope.run(&schedule).expect("its ranks are of the group, which nobody has left").wait()
        })
    }

    /// `count` zeros that all ranks of the job can read, see [`SharedBuffer::new`].
    ///
    /// # Errors
    /// No memory is left, or the job has none of this kind: take a vector then.
    pub fn allocate<T: Element>(&self, count: usize) -> Result<SharedBuffer<T>, AllocationError> {
        SharedBuffer::new(self, count)
    }
}

/// Joins the job of this host. `looks_itself`: the ranks look after each other's processes.
fn enter_job(segment: OwnedFd, rank: Rank, looks_itself: bool) -> Result<Process, BootstrapError> {
    let group = |error: JobError| BootstrapError::Group(error.to_string());
    let job = Job::attach(segment).map_err(group)?;
    if rank.0 >= job.ranks() {
        let ranks = job.ranks();
        return Err(BootstrapError::Group(format!("rank {rank} is not one of the job's {ranks} ranks")));
    }
    let watch = (looks_itself && job.ranks() > 1).then(|| Watch::new(job.ranks()));
    join(job, rank, watch).map_err(group)
}

/// The calling thread computes on a processor of the node's board, and lends it while it waits, if programs share processors.
fn counted() -> Option<Arc<Counted>> {
    let counted = board::join(&board::wanted()?, 1).and_then(Counted::begin);
    let counted =
        counted.inspect_err(|error| castell_host::say(&format!("processors are not shared: {error}")));
    Some(Arc::new(counted.ok()?))
}

/// Makes the segment of a group, where none is there yet.
fn segment(options: &JobOptions) -> Result<OwnedFd, JobError> {
    let job = Job::create(options)?;
    job.fd().try_clone_to_owned().map_err(|error| JobError::Option(format!("no descriptor left: {error}")))
}
