//! The machine's data caches, as the kernel lists them.

use std::path::Path;

/// A cache that holds data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is the one next to the core.
    pub level: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Processors that share it.
    pub shared_by: usize,
}

/// The data caches of the first processor, from the core on; none where the kernel lists none. `root` is `/`.
pub fn of_machine(root: &Path) -> Vec<Cache> {
    let folder = root.join("sys/devices/system/cpu/cpu0/cache");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut caches: Vec<Cache> = entries.filter_map(|entry| read(&entry.path())).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// The processors that share the last cache of one with it, itself among them; none where the kernel lists none. `root` is `/`.
pub fn sharers(root: &Path, cpu: u32) -> Vec<u32> {
    let folder = root.join(format!("sys/devices/system/cpu/cpu{cpu}/cache"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let last = entries.filter_map(|entry| Some((read(&entry.path())?.level, entry.path()))).max();
    let list = last.and_then(|(_, folder)| std::fs::read_to_string(folder.join("shared_cpu_list")).ok());
    list.and_then(|list| castell_host::topology::parse_list(list.trim()).ok()).unwrap_or_default()
}

fn read(folder: &Path) -> Option<Cache> {
    let text = |name: &str| Some(std::fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
    if text("type")? == "Instruction" {
        return None;
    }
    let shared = castell_host::topology::parse_list(&text("shared_cpu_list")?).ok()?;
    Some(Cache {
        level: text("level")?.parse().ok()?,
        bytes: bytes(&text("size")?)?,
        shared_by: shared.len(),
    })
}

/// `32K` is 32,768.
fn bytes(text: &str) -> Option<u64> {
    let (number, factor) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1 << 20)),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_caches_are_listed_from_the_core_on() {
        let root = tempfile::tempdir().expect("a folder");
        let cache = |index: u32, kind: &str, level: &str, size: &str, cpus: &str| {
            let folder = root.path().join(format!("sys/devices/system/cpu/cpu0/cache/index{index}"));
            std::fs::create_dir_all(&folder).expect("a folder");
            for (name, text) in [("type", kind), ("level", level), ("size", size), ("shared_cpu_list", cpus)]
            {
                std::fs::write(folder.join(name), format!("{text}\n")).expect("a file");
            }
        };
        cache(3, "Unified", "3", "32768K", "0-7");
        cache(0, "Data", "1", "32K", "0");
        cache(1, "Instruction", "1", "32K", "0");
        cache(2, "Unified", "2", "1M", "0");
        let of = |level, bytes, shared_by| Cache { level, bytes, shared_by };
        assert_eq!(of_machine(root.path()), [of(1, 32 << 10, 1), of(2, 1 << 20, 1), of(3, 32 << 20, 8)]);
        assert!(of_machine(&root.path().join("nowhere")).is_empty());
    }
}
