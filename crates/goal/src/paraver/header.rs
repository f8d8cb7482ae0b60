//! The first line: how long, in which unit, and which tasks and threads there are.

use super::error::ParaverError;

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Nanoseconds a unit of time.
    pub unit_ns: u64,
    /// By application, the number of threads of each task.
    pub applications: Vec<Vec<u64>>,
}

/// Reads `#Paraver (date):duration_unit:nodes(…):applications:tasks(threads:node,…),communicators:tasks(…)`.
pub(super) fn read(line: &[u8]) -> Result<Header, ParaverError> {
    let wrong = |expected| ParaverError::Header { expected };
    let rest = line.strip_prefix(super::MAGIC).ok_or(wrong("#Paraver"))?;
    // The date holds colons of its own.
    let end = rest.iter().position(|&byte| byte == b')').ok_or(wrong("a date in brackets"))?;
    let mut rest = Cursor { rest: &rest[end + 1..] };
    rest.take(b':').ok_or(wrong("`:` behind the date"))?;
    let duration = rest.until(b':').ok_or(wrong("the duration"))?;
    let unit_ns = match duration.iter().position(|&byte| byte == b'_').map(|at| &duration[at..]) {
        Some(b"_ns") => 1,
        // Paraver's default.
        None | Some(b"_us") => 1000,
        Some(b"_ms") => 1_000_000,
        Some(b"_s" | b"_sec") => 1_000_000_000,
        Some(_) => return Err(wrong("a duration in _ns, _us, _ms or _s")),
    };
    rest.until(b':').ok_or(wrong("the nodes"))?;
    let count = rest.number().ok_or(wrong("the number of applications"))?;
    let mut applications = Vec::new();
    for _ in 0..count {
        rest.take(b':').ok_or(wrong("`:` before each application"))?;
        let tasks = rest.number().ok_or(wrong("an application's number of tasks"))?;
        rest.take(b'(').ok_or(wrong("`(` behind the number of tasks"))?;
        let mut threads = Vec::new();
        while rest.take(b')').is_none() {
            if !threads.is_empty() {
                rest.take(b',').ok_or(wrong("`,` or `)` behind a task"))?;
            }
            threads.push(rest.number().ok_or(wrong("a task's number of threads"))?);
            if rest.take(b':').is_some() {
                rest.number().ok_or(wrong("a task's node"))?;
            }
        }
        if threads.len() as u64 != tasks {
            return Err(wrong("as many tasks in brackets as before them"));
        }
        // The number of communicators, whose lines follow.
        if rest.take(b',').is_some() {
            rest.number().ok_or(wrong("the number of communicators"))?;
        }
        applications.push(threads);
    }
    match applications.iter().flatten().count() {
        0 => Err(wrong("at least one task")),
        tasks if tasks >= u32::MAX as usize => Err(wrong("less than 2^32 - 1 tasks")),
        _ => Ok(Header { unit_ns, applications }),
    }
}

/// What is left of the line.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, byte: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[byte])?;
        Some(())
    }

    /// What stands before the next `byte`, which is taken, too.
    fn until(&mut self, byte: u8) -> Option<&'a [u8]> {
        let at = self.rest.iter().position(|&next| next == byte)?;
        let before = &self.rest[..at];
        self.rest = &self.rest[at + 1..];
        Some(before)
    }

    fn number(&mut self) -> Option<u64> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.rest[..digits]).ok()?.parse().ok()?;
        self.rest = &self.rest[digits..];
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_usual_tools() {
        let extrae = b"#Paraver (15/03/2024 at 10:21):2411023_ns:2(4,4):1:4(1:1,1:1,2:2,1:2),6";
        let header = read(extrae).expect("as Extrae writes it");
        assert_eq!(header, Header { unit_ns: 1, applications: vec![vec![1, 1, 2, 1]] });
        let old = b"#Paraver (15/03/02 at 10:21):2411023:0:2:2(1:0,1:0),1:1(1:0)";
        let header = read(old).expect("as older tools write it");
        assert_eq!(header, Header { unit_ns: 1000, applications: vec![vec![1, 1], vec![1]] });
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, said) in [
            ("Paraver", "#Paraver"),
            ("#Paraver (1/1/1 at 0:0", "date"),
            ("#Paraver (1/1/1 at 0:0):5_h:1(1):1:1(1:1)", "_ns"),
            ("#Paraver (1/1/1 at 0:0):5_ns:1(1):1:2(1:1)", "as many tasks"),
            ("#Paraver (1/1/1 at 0:0):5_ns:1(1):1:1(x:1)", "threads"),
            ("#Paraver (1/1/1 at 0:0):5_ns:1(1):99999999999999999999:1(1:1)", "applications"),
            ("#Paraver (1/1/1 at 0:0):5_ns:1(1):2:1(1:1)", "`:` before each"),
            ("#Paraver (1/1/1 at 0:0):5_ns:1(1):0", "at least one task"),
            ("#Paraver (1/1/1 at 0:0):5_ns:1(1):1:0()", "at least one task"),
        ] {
            let error = read(line.as_bytes()).expect_err(line).to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
