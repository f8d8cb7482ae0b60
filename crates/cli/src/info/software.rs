//! castell itself, and what it may work with: MPIs, fabrics, OpenMP libraries, the tuning file.

use super::{line, list, text};
use crate::mpi::is_mpi_library;
use crate::preload;
use crate::preload::loader::Loader;
use castell_comm::tuning::{self, Tuning};
use serde_json::{Value, json};
use std::path::Path;

pub fn castell() -> Value {
    let build = if cfg!(debug_assertions) { "debug build: not for measuring" } else { "release build" };
    let beside = |name: &str| preload::library(name, None).ok();
    let doors = ["ompi", "mpich", "abi"].map(|family| format!("libcastell_mpi_{family}.so"));
    let libraries = ["libcastell.so".to_owned(), "libcastell_omp.so".to_owned()].into_iter().chain(doors);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "target": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        "build": build,
        "program": std::env::current_exe().ok(),
        "transports": [tuning::TRANSPORT],
        "ranks_max": castell_comm::job::RANKS_MAX,
        "libraries": libraries.map(|name| json!({"place": beside(&name), "name": name})).collect::<Vec<_>>(),
    })
}

/// What is on the path to start and compile with, and the libraries that the loader would find.
pub fn mpi() -> anyhow::Result<Value> {
    let tools = castell_bench::peers::peers()?;
    let tools = tools
        .iter()
        .map(|peer| json!({"name": peer.name(), "compiler": peer.compiler(), "launcher": peer.launcher()}));
    let slurm = castell_bench::find_program("srun");
    Ok(json!({"tools": tools.collect::<Vec<_>>(), "srun": slurm, "libraries": libraries(is_mpi_library)}))
}

/// Devices, interfaces of the network, and libraries to reach them with.
pub fn fabrics() -> Value {
    let names = |folder: &str| -> Vec<String> {
        let entries = Path::new(folder).read_dir().into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let read = |name: &str, what: &str| {
        let text = std::fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok()?;
        Some(text.trim().to_owned())
    };
    let interface = |name: String| {
        let speed =
            read(&name, "speed").and_then(|speed| speed.parse::<i64>().ok()).filter(|speed| *speed > 0);
        let mtu = read(&name, "mtu").and_then(|mtu| mtu.parse::<u64>().ok());
        json!({"state": read(&name, "operstate"), "mtu_bytes": mtu, "megabits_per_second": speed, "name": name})
    };
    const LIBRARIES: [&str; 6] =
        ["libfabric.so", "libucp.so", "libibverbs.so", "libpsm2.so", "libcxi.so", "libxpmem.so"];
    json!({
        "rdma_devices": names("/sys/class/infiniband"),
        "interfaces": names("/sys/class/net").into_iter().map(interface).collect::<Vec<_>>(),
        "libraries": libraries(|name| LIBRARIES.iter().any(|known| name.starts_with(known))),
    })
}

pub fn openmp() -> Value {
    const LIBRARIES: [&str; 3] = ["libgomp.so", "libomp.so", "libiomp5.so"];
    let is_openmp = |name: &str| LIBRARIES.iter().any(|known| name.starts_with(known));
    json!({"libraries": libraries(is_openmp), "door": preload::library("libcastell_omp.so", None).ok()})
}

fn libraries(wanted: impl Fn(&str) -> bool) -> Vec<Value> {
    let found = Loader::of_this_machine().installed(wanted);
    found.iter().map(|(name, place)| json!({"name": name, "place": place})).collect()
}

/// What chooses algorithms, and why that.
pub fn tuning() -> Value {
    let tuning = Tuning::load();
    let asked = std::env::var_os(tuning::VARIABLE);
    let in_force = if tuning.file.is_some() && tuning.reason.is_none() { "file" } else { "built-in" };
    let because = match (&tuning.file, &asked) {
        (_, Some(word)) if word == "off" || word.is_empty() => format!("{} is off", tuning::VARIABLE),
        (_, Some(_)) => format!("{} names it", tuning::VARIABLE),
        (Some(_), None) => "it lies where this host's is looked for".to_owned(),
        (None, None) => "there is no file for this host: castell tune writes one".to_owned(),
    };
    json!({
        "in_force": in_force,
        "because": because,
        "file": tuning.file,
        "refused": tuning.reason,
        "usual_file": tuning::own_path(),
    })
}

pub fn print(everything: &Value) {
    let place = |value: &Value| value.as_str().unwrap_or("not found").to_owned();
    println!("\ncastell's libraries");
    list(&everything["castell"]["libraries"])
        .iter()
        .for_each(|library| println!("  {:<26} {}", text(&library["name"]), place(&library["place"])));
    println!("\nMPI");
    let mpi = &everything["mpi"];
    for tool in list(&mpi["tools"]) {
        println!("  {:<26} {}, {}", text(&tool["name"]), text(&tool["launcher"]), text(&tool["compiler"]));
    }
    print_libraries(&mpi["libraries"], "no library of an MPI");
    if let Some(srun) = mpi["srun"].as_str() {
        println!("  {:<26} {srun}", "Slurm");
    }
    println!("\nfabrics");
    let devices: Vec<String> = list(&everything["fabrics"]["rdma_devices"]).iter().map(text).collect();
    line("RDMA devices", if devices.is_empty() { "none".to_owned() } else { devices.join(", ") });
    for interface in list(&everything["fabrics"]["interfaces"]) {
        let speed = interface["megabits_per_second"]
            .as_u64()
            .map_or(String::new(), |speed| format!(", {speed} Mbit/s"));
        line(
            &text(&interface["name"]),
            format!("{}, MTU {}{speed}", place(&interface["state"]), interface["mtu_bytes"]),
        );
    }
    print_libraries(&everything["fabrics"]["libraries"], "no library of a fabric");
    println!("\nOpenMP");
    print_libraries(&everything["openmp"]["libraries"], "no OpenMP library");
    println!("\ntuning");
    let tuning = &everything["tuning"];
    line("in force", format!("{} ({})", text(&tuning["in_force"]), text(&tuning["because"])));
    if let Some(file) = tuning["file"].as_str() {
        line("file", file);
    }
    if let Some(refused) = tuning["refused"].as_str() {
        line("refused", refused);
    }
}

fn print_libraries(libraries: &Value, none: &str) {
    if list(libraries).is_empty() {
        println!("  {none}");
    }
    for library in list(libraries) {
        println!("  {:<26} {}", text(&library["name"]), text(&library["place"]));
    }
}
