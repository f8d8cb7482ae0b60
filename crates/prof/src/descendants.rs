//! What a process has started, how much memory all of them have, and how long they have waited for a processor.

/// Processes that this one has started and that are still there.
pub(crate) fn children(process: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i32>>())
        .collect()
}

/// The most memory that the process has had so far, and each of those that it started and that are still there. Bytes; none where it is
/// gone.
pub(crate) fn memory_bytes(process: i32) -> Option<u64> {
    let own = peak_bytes(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?)?;
    let others = children(process).into_iter().filter_map(memory_bytes);
    Some(others.fold(own, u64::saturating_add))
}

/// How long the process, and each of those that it started and that are still there, had a processor and waited for one. Nanoseconds.
pub(crate) fn ran_and_waited_ns(process: i32) -> [u64; 2] {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok());
    let own = texts.filter_map(|text| schedule_ns(&text));
    let others = children(process).into_iter().map(ran_and_waited_ns);
    own.chain(others)
        .fold([0, 0], |[ran, waited], one| [ran.saturating_add(one[0]), waited.saturating_add(one[1])])
}

/// From the text of a thread's statistics of its scheduling.
fn schedule_ns(schedstat: &str) -> Option<[u64; 2]> {
    let mut words = schedstat.split_whitespace().map_while(|word| word.parse().ok());
    Some([words.next()?, words.next()?])
}

/// From the text of a process's status.
fn peak_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_and_what_has_none_is_told() {
        assert_eq!(peak_bytes("Name:\tcg\nVmPeak:\t    9 kB\nVmHWM:\t    1452 kB\n"), Some(1452 << 10));
        // A process that has ended but was not waited for.
        assert_eq!(peak_bytes("Name:\tcg\nState:\tZ (zombie)\n"), None);
        assert_eq!((schedule_ns("500 70 9\n"), schedule_ns("0\n")), (Some([500, 70]), None));
        assert!(ran_and_waited_ns(std::process::id() as i32)[0] > 0);
        let own = memory_bytes(std::process::id() as i32).expect("this process has memory");
        assert!(own > 100 << 10, "{own}");
    }
}
