//! Whether what is asked for fits into this machine, before the kernel ends the process for it.

use anyhow::bail;

/// Refuses what would take more than half of the memory that is free: `bytes` is what it takes at the least.
///
/// # Errors
/// It does; says how much, and how much there is.
pub fn insist(what: &str, bytes: u128) -> anyhow::Result<()> {
    let free = [available_bytes(), limit_bytes()].into_iter().flatten().min();
    match free.map(u128::from) {
        Some(free) if bytes > free / 2 => {
            bail!(
                "{what} would take at least {}, which is more than half of the {} that are free here",
                size(bytes),
                size(free)
            )
        }
        _ => Ok(()),
    }
}

/// What can be had without swapping, if the system tells.
fn available_bytes() -> Option<u64> {
    let information = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = information.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What this process may map (`ulimit -v`), if that is limited.
fn limit_bytes() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn size(bytes: u128) -> String {
    match bytes {
        bytes if bytes < 1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        bytes if bytes < 1_000_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        bytes => format!("{:.1} TB", bytes as f64 / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_let_through() {
        assert!(insist("nothing", 0).is_ok());
        let error = insist("everything", 1 << 100).unwrap_err().to_string();
        assert!(
            error.contains("everything would take at least") && error.contains("that are free here"),
            "{error}"
        );
        assert_eq!(size(1_500_000_000), "1.5 GB");
    }
}
