//! Programs and how often each is to run.

use super::Error;
use std::collections::HashMap;

/// Jobs in one list, at most.
const JOBS_MAX: u64 = 10_000_000;

/// A program and how many instances of it are to be placed. Two instances of one program are twins.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Program {
    /// Its name, as in the slowdowns.
    pub name: String,
    /// How many jobs run it; at least one.
    pub instances: u32,
}

/// The jobs that are to be placed: programs with instances, in the order in which they came.
///
/// ```
/// use castell_policy::placement::Jobs;
///
/// let jobs = Jobs::parse("program,instances\nBT,2\nCG\n").unwrap();
/// assert_eq!((jobs.programs().len(), jobs.total()), (2, 3));
/// assert_eq!(Jobs::parse(&jobs.to_string()).unwrap(), jobs);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    programs: Vec<Program>,
}

impl Jobs {
    /// Programs with instances; what has the same name is one program, and none has no instance.
    ///
    /// # Errors
    ///
    /// [`Error::Job`] for names that are empty or that could not be written down again, and for more than ten million jobs.
    pub fn new(programs: impl IntoIterator<Item = Program>) -> Result<Jobs, Error> {
        let mut jobs = Jobs::default();
        let mut known = HashMap::new();
        for (at, program) in programs.into_iter().enumerate() {
            jobs.add(program, at + 1, &mut known)?;
        }
        Ok(jobs)
    }

    /// `programs` programs P1, P2, … with as many instances each.
    ///
    /// # Errors
    ///
    /// As [`Jobs::new`].
    pub fn alike(programs: u32, instances: u32) -> Result<Jobs, Error> {
        Jobs::new((1..=programs).map(|number| Program { name: format!("P{number}"), instances }))
    }

    /// Reads `NAME` or `NAME,INSTANCES` lines. Empty lines and those that begin with `#` are left out, and so is a first line
    /// whose second field is the word `instances`.
    ///
    /// # Errors
    ///
    /// [`Error::Job`] with the first line that is wrong.
    pub fn parse(text: &str) -> Result<Jobs, Error> {
        let mut jobs = Jobs::default();
        let mut known = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, instances) = line.split_once(',').unwrap_or((line, "1"));
            let instances = instances.trim();
            if jobs.programs.is_empty() && instances == "instances" {
                continue;
            }
            let instances = instances.parse().map_err(|_| Error::Job {
                line: at + 1,
                reason: format!("{instances:?} is no number of instances"),
            })?;
            jobs.add(Program { name: name.trim().to_owned(), instances }, at + 1, &mut known)?;
        }
        Ok(jobs)
    }

    fn add(
        &mut self,
        program: Program,
        line: usize,
        known: &mut HashMap<String, usize>,
    ) -> Result<(), Error> {
        let name = &program.name;
        let wrong = |reason: &str| Err(Error::Job { line, reason: reason.to_owned() });
        if name.is_empty()
            || name.trim() != name
            || name.starts_with('#')
            || name.contains([',', '\n', '\r', '"'])
        {
            return wrong(&format!("{name:?} is no name of a program"));
        }
        if self.total() + u64::from(program.instances) > JOBS_MAX {
            return wrong(&format!("more than {JOBS_MAX} jobs"));
        }
        if program.instances == 0 {
            return Ok(());
        }
        match known.get(name) {
            Some(&at) => self.programs[at].instances += program.instances,
            None => {
                known.insert(name.clone(), self.programs.len());
                self.programs.push(program);
            }
        }
        Ok(())
    }

    /// The programs, each once.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// How many jobs there are.
    pub fn total(&self) -> u64 {
        self.programs.iter().map(|program| u64::from(program.instances)).sum()
    }
}

impl std::fmt::Display for Jobs {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(out, "program,instances")?;
        self.programs.iter().try_for_each(|program| writeln!(out, "{},{}", program.name, program.instances))
    }
}
