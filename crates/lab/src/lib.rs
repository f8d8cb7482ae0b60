//! Several hosts on one machine: namespaces of their own, joined by a network of their own.
//!
//! What this room does: makes them, runs commands on them, and takes them away. What it refuses to do: leave anything behind. Nothing of
//! a lab has a name outside of it: network, mounts and processes live in namespaces that end with their last process, and every process
//! ends with the one that made the lab, also if that is killed. So there is nothing that a later start would have to clean up.
//!
//! Start at [`Lab`]. `host.rs` is the life of a host, `requests.rs` how commands come to it, `segment.rs`, `network.rs` and `switch.rs` what
//! lies between.

mod host;
mod naming;
mod network;
mod requests;
mod segment;
mod switch;
mod system;

pub use host::{HostPlan, live};
pub use naming::{HOSTS_MAX, SEGMENTS_MAX, address_of, interface_of, name_of};
pub use network::Rate;
pub use requests::{run_on, run_visibly_on};
pub use segment::Segment;
pub use switch::Weather;

use castell_host::HostError;
use castell_host::process::{Pid, Process};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Names the hosts of the lab that a command runs in, with commas.
pub const HOSTS_VARIABLE: &str = "CASTELL_LAB_HOSTS";

/// What to make.
#[derive(Debug)]
pub struct Options {
    /// How many hosts, 1 to [`HOSTS_MAX`].
    pub hosts: u32,
    /// Segments beside the one that all hosts are on, less than [`SEGMENTS_MAX`].
    pub segments: Vec<Segment>,
    /// What happens to frames between hosts.
    pub weather: Weather,
    /// How fast each host sends and receives at most.
    pub rate: Option<Rate>,
    /// How long frames may be behind Ethernet's header, bytes; none for the usual 1500.
    pub mtu_bytes: Option<u16>,
    /// Gets all frames, as a file for `tcpdump -r` and Wireshark.
    pub capture: Option<PathBuf>,
    /// The program and its arguments that lives as a host, before the host's own arguments: it calls [`live`].
    pub host_program: Vec<OsString>,
}

/// Why a lab cannot be made, or nothing run in it.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A program that is needed.
    #[error("castell lab needs `{program}`, which is not installed here: it comes with {package}")]
    Program {
        /// Its name.
        program: &'static str,
        /// What brings it.
        package: &'static str,
    },
    /// The kernel or its settings don't allow it.
    #[error(
        "namespaces cannot be made here ({source}): run as root, or have user namespaces allowed (`sysctl user.max_user_namespaces` above 0, \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0` on Ubuntu; in a container, CAP_SYS_ADMIN: `docker run --privileged`)"
    )]
    Forbidden {
        /// The system's answer.
        source: io::Error,
    },
    /// One step of making it.
    #[error("the lab cannot be made: {what}: {source}")]
    System {
        /// Which.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A lab within a lab.
    #[error(
        "this is a host of a lab already, and there is no lab within a lab: the hosts of this one are {hosts}"
    )]
    Within {
        /// Hosts of this lab.
        hosts: String,
    },
    /// A segment of hosts that there are not.
    #[error("a segment cannot have host {host}: this lab has {hosts}")]
    Stranger {
        /// Its name.
        host: String,
        /// How many there are.
        hosts: u32,
    },
    /// More segments than there may be.
    #[error("a lab has up to {SEGMENTS_MAX} segments with the one that all hosts are on, not {0}")]
    Segments(usize),
    /// A host that did not come up.
    #[error("host {host} of the lab did not come up: {why}")]
    Host {
        /// Its name.
        host: String,
        /// What it said last.
        why: String,
    },
    /// What `ip` or `tc` refused.
    #[error("the network of the lab cannot be made: `{command}` failed: {said}")]
    Network {
        /// The command.
        command: String,
        /// What it said.
        said: String,
    },
    /// A request to a host that is not answered.
    #[error("host {host} of the lab cannot be reached ({source}): {}", advice(hosts.as_deref()))]
    NoHost {
        /// Its name.
        host: String,
        /// The system's answer.
        source: io::Error,
        /// Hosts of this lab, if this process is in one.
        hosts: Option<String>,
    },
    /// A command that a host could not start.
    #[error("{text}")]
    Start {
        /// What the host said.
        text: String,
        /// The code to exit with: 127 or 126.
        code: i32,
    },
    /// Something of the machine's.
    #[error(transparent)]
    Machine(#[from] HostError),
}

fn advice(hosts: Option<&str>) -> String {
    match hosts {
        Some(hosts) => format!("the hosts of this lab are {hosts}"),
        None => "this process is not in a lab; `castell lab N -- COMMAND` makes one".into(),
    }
}

impl LabError {
    fn system(what: impl Into<String>, source: io::Error) -> LabError {
        LabError::System { what: what.into(), source }
    }
}

/// Hosts that are there. They end when this is dropped, or its process does, however that may be.
pub struct Lab {
    hosts: Vec<HostProcess>,
    switch: Option<switch::Running>,
}

/// A host, seen from outside.
struct HostProcess {
    name: String,
    child: Child,
}

impl Lab {
    /// Makes the hosts. This process leaves the machine's network, and belongs to the lab from then on.
    ///
    /// # Errors
    /// See [`LabError`]. Nothing is left then.
    pub fn start(options: &Options) -> Result<Lab, LabError> {
        if let Ok(hosts) = std::env::var(HOSTS_VARIABLE) {
            return Err(LabError::Within { hosts });
        }
        let stranger = options.segments.iter().find_map(|segment| segment.stranger(options.hosts));
        if let Some(host) = stranger {
            return Err(LabError::Stranger { host: name_of(host), hosts: options.hosts });
        }
        let segments = options.segments.len() + 1;
        if segments > SEGMENTS_MAX {
            return Err(LabError::Segments(segments));
        }
        network::find_programs(options.rate.is_some())?;
        let capture = options.capture.as_deref().map(open_capture).transpose()?;
        system::isolate().map_err(|source| LabError::Forbidden { source })?;
        let shared = system::mount_tmpfs(Path::new(requests::SHARED));
        shared.map_err(|error| LabError::system("mount a file system for the lab's sockets", error))?;
        let switches = options.weather.is_needed();
        network::make_bridges(if switches { 0 } else { segments })?;
        let mut lab = Lab { hosts: Vec::new(), switch: None };
        for index in 1..=options.hosts {
            let child = spawn_host(index, options)?;
            lab.hosts.push(HostProcess { name: name_of(index), child });
        }
        let pids: Vec<u32> = lab.hosts.iter().map(|host| host.child.id()).collect();
        let on =
            |host| segment::of_host(&options.segments, host).into_iter().map(move |segment| (host, segment));
        let lines: Vec<(u32, usize)> = (1..=options.hosts).flat_map(on).collect();
        network::plug_in(&pids, &lines, switches, options.mtu_bytes, options.rate)?;
        if switches || capture.is_some() {
            lab.switch = Some(switch::start(&lines, options.weather, switches, capture)?);
        }
        for host in &mut lab.hosts {
            host.let_go()?;
        }
        for host in &mut lab.hosts {
            host.wait_until_ready()?;
        }
        Ok(lab)
    }

    /// The names of all hosts, with commas.
    pub fn host_names(&self) -> String {
        self.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// Runs a command on the first host, with this process's input and output; gives its exit code.
    ///
    /// # Errors
    /// It could not be started.
    pub fn run(&self, command: &[OsString]) -> Result<i32, LabError> {
        requests::run_first(&self.hosts[0].name, &self.host_names(), command)
    }

    /// What the switch did to frames, if there is one.
    pub fn switched(&self) -> Option<switch::Counters> {
        self.switch.as_ref().map(switch::Running::counters)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            let _ = host.child.kill();
        }
        for host in &mut self.hosts {
            let _ = host.child.wait();
        }
    }
}

impl HostProcess {
    /// Tells the host that its network is there.
    fn let_go(&mut self) -> Result<(), LabError> {
        let input = self.child.stdin.as_mut().expect("it has a pipe");
        // A host that has ended says why, or its end does.
        let _ = input.write_all(b"go\n");
        Ok(())
    }

    fn wait_until_ready(&mut self) -> Result<(), LabError> {
        let mut said = String::new();
        let output = self.child.stdout.as_mut().expect("it has a pipe");
        let _ = BufReader::new(output).read_line(&mut said);
        match said.trim_end() {
            "ready" => Ok(()),
            "" => {
                let ended = Pid::from_raw(self.child.id() as i32).map(Process::open);
                let is_there = ended.is_some_and(|process| process.is_ok_and(|process| !process.has_ended()));
                let why = if is_there { "it says nothing" } else { "its process ended" };
                Err(LabError::Host { host: self.name.clone(), why: why.into() })
            }
            why => Err(LabError::Host { host: self.name.clone(), why: why.into() }),
        }
    }
}

fn open_capture(path: &Path) -> Result<File, LabError> {
    let file = File::create(path);
    file.map_err(|error| LabError::system(format!("write the capture {}", path.display()), error))
}

/// Starts the first process of a host in namespaces of its own. It waits until it is told that its network is there.
fn spawn_host(index: u32, options: &Options) -> Result<Child, LabError> {
    let name = name_of(index);
    let failed = |error| LabError::system(format!("start host {name}"), error);
    let (program, arguments) = options.host_program.split_first().expect("a program");
    let mut command = Command::new(program);
    let segments = segment::of_host(&options.segments, index);
    let plan = HostPlan { index, hosts: options.hosts, segments, rate: options.rate };
    command.args(arguments).args(plan.to_arguments());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    system::spawn_isolated(&mut command, clock_offset_s(index)).map_err(failed)
}

/// How far the clocks since boot of a host are ahead of the machine's: no two hosts agree by chance. Seconds.
fn clock_offset_s(index: u32) -> i64 {
    i64::from(index) * 4321
}
