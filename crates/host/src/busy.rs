//! How busy each processor is, by the system's own count.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// How long each processor was busy, and in all, in the system's ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(BTreeMap<u32, Ticks>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
}

impl Times {
    /// Reads `stat` in this folder, which is `/proc`.
    ///
    /// # Errors
    /// It cannot be read, or names no processor.
    pub fn read(proc: &Path) -> io::Result<Times> {
        let path = proc.join("stat");
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
        };
        let text = fs::read_to_string(&path).map_err(named)?;
        let times: BTreeMap<u32, Ticks> = text.lines().filter_map(processor).collect();
        if times.is_empty() {
            return Err(io::Error::other(format!("{} names no processor", path.display())));
        }
        Ok(Times(times))
    }

    /// The share of the time since `before` that each processor was busy; none where no time has passed, or that one was not there.
    pub fn busy_since(&self, before: &Times) -> BTreeMap<u32, Option<f64>> {
        let share = |(cpu, now): (&u32, &Ticks)| {
            let then = before.0.get(cpu);
            // Counters of idle time may go back a little.
            let all = then.map_or(0, |then| now.all.saturating_sub(then.all));
            let busy = then.map_or(0, |then| now.busy.saturating_sub(then.busy)).min(all);
            (*cpu, (all > 0).then(|| busy as f64 / all as f64))
        };
        self.0.iter().map(share).collect()
    }
}

/// `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`; guests are in user and nice already.
fn processor(line: &str) -> Option<(u32, Ticks)> {
    let mut words = line.split_ascii_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = words.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or(0);
    let all = ticks.iter().sum::<u64>();
    Some((cpu, Ticks { busy: all - idle, all }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::folder as proc;

    #[test]
    fn busy_is_what_is_not_idle() {
        let head = "cpu  9 9 9 9 9 9 9 9 0 0\n";
        let before =
            proc(&[("stat", &format!("{head}cpu0 10 0 10 100 5 0 0 0 0 0\ncpu2 1 1 1 1\nctxt 5\n"))]);
        let after =
            proc(&[("stat", &format!("{head}cpu0 20 5 20 115 5 3 7 0 9 0\ncpu2 1 1 1 1\ncpu3 1 0 0 0 0\n"))]);
        let [before, after] = [before, after].map(|folder| Times::read(folder.path()).expect("times"));
        // 35 of 50 ticks; no time has passed on the second, and the third was not there.
        assert_eq!(after.busy_since(&before), BTreeMap::from([(0, Some(0.7)), (2, None), (3, None)]));
        // Counters that go back are no time.
        assert_eq!(before.busy_since(&after), BTreeMap::from([(0, None), (2, None)]));
    }

    #[test]
    fn what_is_no_list_of_processors_is_an_error() {
        let none = proc(&[("stat", "cpu 1 2 3 4\nbtime 7\ncpux 1 2 3 4\ncpu1 1 2\n")]);
        assert!(
            Times::read(none.path()).expect_err("no processor").to_string().ends_with("names no processor")
        );
        let empty = proc(&[]);
        assert!(Times::read(empty.path()).expect_err("no file").to_string().contains("cannot read"));
    }
}
