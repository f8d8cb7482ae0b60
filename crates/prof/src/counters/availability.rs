//! What can be counted here, and why not.

use super::tables::{SOFTWARE, Table};
use super::{Counted, Processor};
use castell_host::perf::{Counter, Event, Target};
use std::io;
use std::path::Path;

/// What is counted.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The processor.
    pub processor: Processor,
    /// The events of the processor; or why there are none.
    pub hardware: Result<Table, Unavailable>,
    /// Events by name, in groups that are counted at the same times.
    pub(super) groups: Vec<Vec<(String, Event)>>,
}

/// Why the processor's counters cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// There are none.
    #[error(
        "there are no hardware counters here: perf_event_open gives ENOENT for `{event}`{}",
        if *.is_virtual { ", as in virtual machines that are not given any (ask for a virtual PMU)" } else { "" }
    )]
    None {
        /// What was asked for.
        event: String,
        /// A hypervisor is there.
        is_virtual: bool,
    },
    /// They may not be read.
    #[error("the hardware counters may not be read: perf_event_open gives {code} for `{event}`; {remedy}")]
    Denied {
        /// What was asked for.
        event: String,
        /// EACCES or EPERM.
        code: &'static str,
        /// What to do.
        remedy: String,
    },
    /// Something else.
    #[error("the hardware counters cannot be read: perf_event_open gives {error} for `{event}`")]
    Other {
        /// What was asked for.
        event: String,
        /// The system's error.
        error: String,
    },
}

impl Unavailable {
    /// Says what the system's error means. `root` is `/`.
    pub fn explain(event: &str, error: &io::Error, processor: &Processor, root: &Path) -> Unavailable {
        let event = event.to_owned();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
                Unavailable::None { event, is_virtual: processor.is_virtual }
            }
            Some(code @ (libc::EACCES | libc::EPERM)) => {
                let code = if code == libc::EACCES { "EACCES" } else { "EPERM" };
                Unavailable::Denied { event, code, remedy: remedy(root) }
            }
            Some(libc::ENOSYS) => Unavailable::Other {
                event,
                error: "ENOSYS: this kernel was built without it, or a sandbox forbids it".to_owned(),
            },
            Some(libc::EBUSY) => {
                Unavailable::Other { event, error: "EBUSY: somebody else has the counters".to_owned() }
            }
            _ => Unavailable::Other { event, error: error.to_string() },
        }
    }
}

/// What allows it.
fn remedy(root: &Path) -> String {
    let file = root.join("proc/sys/kernel/perf_event_paranoid");
    let level = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<i32>().ok());
    match level {
        Some(level) if level > 2 => format!(
            "kernel.perf_event_paranoid is {level}: as root, `sysctl kernel.perf_event_paranoid=2`, or give castell the \
             capability CAP_PERFMON (`setcap cap_perfmon+ep`)"
        ),
        Some(level) => format!(
            "kernel.perf_event_paranoid is {level}, which would allow it: the program belongs to another user \
             (CAP_PERFMON or CAP_SYS_PTRACE allows that), or a container's seccomp filter forbids the call"
        ),
        None => {
            "the capability CAP_PERFMON would allow it, unless a container's seccomp filter forbids the call"
                .to_owned()
        }
    }
}

impl Plan {
    /// Tries what there is. `root` is `/`.
    pub fn of_machine(root: &Path) -> Plan {
        let processor = Processor::of_machine(root);
        let hardware = hardware(&processor, root);
        let mut groups: Vec<Vec<(String, Event)>> = Vec::new();
        if let Ok(table) = &hardware {
            for group in &table.groups {
                let event = |name: &String| Some((name.clone(), table.event(name)?));
                groups.push(group.iter().filter_map(event).collect());
            }
        }
        groups.extend(SOFTWARE.map(|(name, event)| vec![(name.to_owned(), event)]));
        groups.retain(|group| {
            group.iter().all(|(_, event)| Counter::open(*event, Target::Started, None).is_ok())
        });
        Plan { processor, hardware, groups }
    }

    /// All events, not counted in any thread yet.
    pub fn counted(&self) -> Counted {
        Counted::new(
            self.groups.iter().map(|group| group.iter().map(|(_, event)| *event).collect()).collect(),
        )
    }

    /// The names of all events, group by group.
    pub fn events(&self) -> Vec<String> {
        self.groups.iter().flatten().map(|(name, _)| name.clone()).collect()
    }

    /// Things to know about what will be counted.
    pub fn notes(&self) -> Vec<String> {
        match &self.hardware {
            Ok(table) => vec![format!("events of {} ({}): {}", table.name, table.source, table.note)],
            Err(why) => vec![why.to_string()],
        }
    }
}

/// The processor's table if its events can be counted, else the generic one.
fn hardware(processor: &Processor, root: &Path) -> Result<Table, Unavailable> {
    let count = |event: Event| Counter::open(event, Target::Started, None).map(drop);
    count(Event::generic(0)).map_err(|error| Unavailable::explain("cycles", &error, processor, root))?;
    let all_count = |table: &Table| {
        table.groups.iter().flatten().all(|name| table.event(name).is_some_and(|event| count(event).is_ok()))
    };
    match Table::of(processor).filter(all_count) {
        Some(table) => Ok(table),
        None => {
            let generic = Table::generic();
            for name in generic.groups.iter().flatten() {
                let event = generic.event(name).expect("the table is whole");
                count(event).map_err(|error| Unavailable::explain(name, &error, processor, root))?;
            }
            Ok(generic)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_says_what_would_help() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("proc/sys/kernel");
        std::fs::create_dir_all(&folder).expect("a folder");
        let says = |code: i32, level: &str, is_virtual: bool| {
            std::fs::write(folder.join("perf_event_paranoid"), level).expect("a file");
            let processor = Processor { is_virtual, ..Processor::default() };
            let error = io::Error::from_raw_os_error(code);
            Unavailable::explain("cycles", &error, &processor, root.path()).to_string()
        };
        let virtual_machine = says(libc::ENOENT, "2", true);
        assert!(
            virtual_machine.contains("ENOENT") && virtual_machine.contains("virtual PMU"),
            "{virtual_machine}"
        );
        assert!(!says(libc::ENOENT, "2", false).contains("virtual"));
        let denied = says(libc::EACCES, "4\n", false);
        assert!(
            denied.contains("sysctl kernel.perf_event_paranoid=2") && denied.contains("CAP_PERFMON"),
            "{denied}"
        );
        assert!(says(libc::EPERM, "1", false).contains("seccomp"));
        assert!(says(libc::ENOSYS, "2", false).contains("ENOSYS"));
        assert!(says(libc::EBUSY, "2", false).contains("somebody else"));
    }

    #[test]
    fn whatever_this_machine_has_the_plan_is_consistent() {
        let plan = Plan::of_machine(Path::new("/"));
        let has_cycles = plan.events().iter().any(|name| name == "cycles");
        assert_eq!(has_cycles, plan.hardware.is_ok(), "{:?}", plan.hardware);
        assert_eq!(plan.notes().len(), 1);
    }
}
