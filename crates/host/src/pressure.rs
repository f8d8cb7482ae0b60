//! How much time tasks lose waiting for processors, memory, and input and output, as the kernel counts it (PSI).

use std::fs;
use std::io;
use std::path::Path;

/// What some tasks waited for, or all of them at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// The part of the last ten seconds in which some did.
    pub some: f64,
    /// The part of the last ten seconds in which all did that were not idle; not everywhere known.
    pub full: Option<f64>,
    /// For how long some did since the machine started, in microseconds.
    pub some_us: u64,
}

/// What tasks waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// A processor.
    pub cpu: Option<Stalls>,
    /// Memory.
    pub memory: Option<Stalls>,
    /// Input and output.
    pub io: Option<Stalls>,
}

impl Pressure {
    /// Reads `pressure` in this folder, which is `/proc`.
    ///
    /// # Errors
    /// Why there is none: a sentence.
    pub fn read(proc: &Path) -> Result<Pressure, String> {
        let folder = proc.join("pressure");
        let read = |name: &str| fs::read_to_string(folder.join(name)).map(|text| stalls(&text));
        let pressure = match read("cpu") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(format!("there is no {}: this kernel has no PSI", folder.display()));
            }
            // Built in, and not switched on.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return Err("PSI is switched off: boot with psi=1".to_owned());
            }
            Err(error) => return Err(format!("cannot read {}: {error}", folder.join("cpu").display())),
            Ok(cpu) => Pressure { cpu, memory: read("memory").ok().flatten(), io: read("io").ok().flatten() },
        };
        match pressure {
            Pressure { cpu: None, memory: None, io: None } => {
                Err(format!("{} says nothing that is understood", folder.display()))
            }
            pressure => Ok(pressure),
        }
    }

    /// By the kernel's names: `cpu`, `memory`, `io`.
    pub fn parts(&self) -> [(&'static str, Option<Stalls>); 3] {
        [("cpu", self.cpu), ("memory", self.memory), ("io", self.io)]
    }
}

/// `some avg10=1.50 avg60=0.80 avg300=0.20 total=123`, and the same of `full`.
fn stalls(text: &str) -> Option<Stalls> {
    let word = |kind: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    };
    let share = |kind: &str| {
        let percent = word(kind, "avg10")?.parse::<f64>().ok();
        percent.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0)
    };
    Some(Stalls { some: share("some")?, full: share("full"), some_us: word("some", "total")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::folder as proc;

    #[test]
    fn pressure_is_read_where_there_is_one() {
        let line =
            |kind: &str, percent: &str| format!("{kind} avg10={percent} avg60=0.00 avg300=0.00 total=5\n");
        let cpu = format!("{}{}", line("some", "12.50"), line("full", "0.00"));
        let folder = proc(&[
            ("pressure/cpu", &cpu),
            ("pressure/memory", &line("some", "100.00")),
            ("pressure/io", "nonsense"),
        ]);
        let stalls = |some, full| Some(Stalls { some, full, some_us: 5 });
        let expected = Pressure { cpu: stalls(0.125, Some(0.0)), memory: stalls(1.0, None), io: None };
        assert_eq!(Pressure::read(folder.path()), Ok(expected));
        let none = proc(&[("stat", "")]);
        assert!(Pressure::read(none.path()).expect_err("no PSI").ends_with("this kernel has no PSI"));
        let nonsense = proc(&[("pressure/cpu", "some avg10=-3\n"), ("pressure/io", "")]);
        assert!(Pressure::read(nonsense.path()).expect_err("no PSI").ends_with("nothing that is understood"));
    }
}
