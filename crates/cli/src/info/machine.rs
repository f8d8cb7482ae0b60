//! Processors, caches, memory, limits, and what the kernel lets a process do.

use super::{bytes, line, list, text};
use castell_comm::tuning;
use castell_host::abilities;
use castell_host::topology::{Processors, print_list};
use castell_prof::caches;
use serde_json::{Map, Value, json};
use std::path::Path;

pub fn machine() -> Value {
    let root = Path::new("/");
    let here = tuning::here();
    let usable = Processors::usable();
    let nodes: Vec<String> = usable.numa_nodes(root).iter().map(|node| print_list(node)).collect();
    let caches = caches::of_machine(root);
    let caches = caches
        .iter()
        .map(|cache| json!({"level": cache.level, "bytes": cache.bytes, "shared_by": cache.shared_by}));
    json!({
        "host": here.host,
        "processor": here.processor,
        "processors": here.processors,
        "usable": print_list(&usable.cpus),
        "quota": usable.quota,
        "cores": usable.cores(root).len(),
        "numa_nodes": nodes,
        "caches": caches.collect::<Vec<_>>(),
        "hypervisor": has_hypervisor(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "memory_bytes": kilobytes("/proc/meminfo", "MemTotal:"),
        "available_bytes": kilobytes("/proc/meminfo", "MemAvailable:"),
    })
}

fn has_hypervisor() -> bool {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    let mut flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.next().is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// What `/proc/self/limits` says; `null` is no limit.
pub fn limits() -> Value {
    let names = [
        ("Max open files", "open_files"),
        ("Max processes", "processes"),
        ("Max locked memory", "locked_memory_bytes"),
        ("Max stack size", "stack_bytes"),
        ("Max file size", "file_bytes"),
        ("Max address space", "address_space_bytes"),
        ("Max core file size", "core_bytes"),
    ];
    let limits = read("/proc/self/limits").unwrap_or_default();
    let mut found = Map::new();
    for line in limits.lines() {
        let Some((rest, name)) = names.iter().find_map(|(long, name)| Some((line.strip_prefix(long)?, name)))
        else {
            continue;
        };
        let mut fields = rest.split_whitespace().map(|field| field.parse::<u64>().ok());
        let (soft, hard) = (fields.next().flatten(), fields.next().flatten());
        found.insert((*name).to_owned(), json!({"soft": soft, "hard": hard}));
    }
    Value::Object(found)
}

/// The file system of shared memory, and what the kernel says of large pages in it.
pub fn shared_memory() -> Value {
    const FOLDER: &str = "/dev/shm";
    let space = castell_host::file_system_space(Path::new(FOLDER)).ok();
    json!({
        "folder": FOLDER,
        "bytes": space.map(|space| space.bytes),
        "free_bytes": space.map(|space| space.free_bytes),
        "huge_pages": chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "huge_pages_shared": chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
    })
}

pub fn kernel() -> Vec<Value> {
    let ability = |ability: abilities::Ability| json!({"name": ability.name, "purpose": ability.purpose, "has": ability.missing.is_none(), "missing": ability.missing});
    abilities::all().into_iter().map(ability).collect()
}

/// The word in brackets, as in `always [madvise] never`.
fn chosen(file: &str) -> Option<String> {
    let text = read(file)?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn kilobytes(file: &str, key: &str) -> Option<u64> {
    let text = read(file)?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn read(file: &str) -> Option<String> {
    Some(std::fs::read_to_string(file).ok()?.trim().to_owned())
}

pub fn print(machine: &Value, limits: &Value, shared: &Value) {
    println!("\nmachine");
    line("host", text(&machine["host"]));
    line("processor", text(&machine["processor"]));
    let quota = machine["quota"].as_f64().map_or(String::new(), |quota| format!(", {quota:.1} granted"));
    let (all, cores) = (&machine["processors"], &machine["cores"]);
    line("processors", format!("{all} ({cores} cores; usable: {}{quota})", text(&machine["usable"])));
    let nodes: Vec<String> = list(&machine["numa_nodes"]).iter().map(text).collect();
    line("NUMA nodes", nodes.join(" | "));
    for cache in list(&machine["caches"]) {
        let shared = &cache["shared_by"];
        let whose =
            if shared == 1 { "each processor's own".to_owned() } else { format!("shared by {shared}") };
        line(&format!("cache, level {}", cache["level"]), format!("{}, {whose}", bytes(&cache["bytes"])));
    }
    let (free, memory) = (bytes(&machine["available_bytes"]), bytes(&machine["memory_bytes"]));
    line("memory", format!("{memory}, {free} available"));
    line("kernel", text(&machine["kernel"]));
    line("frequency", machine["governor"].as_str().unwrap_or("no governor"));
    line("virtual", if machine["hypervisor"] == true { "yes, below a hypervisor" } else { "no" });
    println!("\nlimits");
    for (name, limit) in limits.as_object().into_iter().flatten() {
        let is_bytes = name.ends_with("_bytes");
        let show = |value: &Value| match value {
            Value::Null => "unlimited".to_owned(),
            value if is_bytes => bytes(value),
            value => value.to_string(),
        };
        let name = name.trim_end_matches("_bytes").replace('_', " ");
        line(&name, format!("{} (may be raised to {})", show(&limit["soft"]), show(&limit["hard"])));
    }
    println!("\nshared memory");
    let (free, all) = (bytes(&shared["free_bytes"]), bytes(&shared["bytes"]));
    line(&text(&shared["folder"]), format!("{all}, {free} free"));
    let pages = ["huge_pages", "huge_pages_shared"].map(|key| shared[key].as_str().unwrap_or("unknown"));
    line("huge pages", format!("{}, in shared memory {}", pages[0], pages[1]));
}
