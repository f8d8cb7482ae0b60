//! LogGOPSim, from where the user has it.
//!
//! It reads a binary file that castell (or its own converter) writes once for each program. Its loop lasts from the line
//! that names the parameters to the line that counts the events; `stdbuf` lets it print them at once. Without `stdbuf` the
//! whole process counts.

use super::{Program, Run, Simulator, child, peak};
use crate::folder::Folder;
use crate::plain::find_program;
use anyhow::{Context as _, bail};
use castell_goal::{binary, text};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

/// As the table calls it.
pub const NAME: &str = "LogGOPSim";

pub struct LogGopSim {
    program: PathBuf,
    converter: Option<PathBuf>,
    stdbuf: Option<PathBuf>,
    ranks_max: u32,
    folder: Folder,
    /// What has been written to the folder.
    prepared: Option<(Program, f64)>,
    /// Its memory when there is nothing to simulate.
    idle_bytes: u64,
}

/// What it printed, and when.
#[derive(Default)]
struct Said {
    began: Option<Instant>,
    ended: Option<Instant>,
    /// How long it had a processor, then.
    cpu_began: Option<u64>,
    cpu_ended: Option<u64>,
    events: Option<u64>,
    makespan_ns: Option<f64>,
}

impl LogGopSim {
    pub fn new(program: &Path, converter: Option<&Path>, ranks_max: u32) -> anyhow::Result<LogGopSim> {
        if let Some(file) = [Some(program), converter].into_iter().flatten().find(|file| !file.is_file()) {
            bail!("there is no program {}", file.display());
        }
        let folder = Folder::create()?;
        let stdbuf = find_program("stdbuf");
        // They run in that folder.
        let (program, converter) =
            (std::path::absolute(program)?, converter.map(std::path::absolute).transpose()?);
        let mut simulator =
            LogGopSim { program, converter, stdbuf, ranks_max, folder, prepared: None, idle_bytes: 0 };
        simulator.idle_bytes = simulator.idle()?;
        Ok(simulator)
    }

    /// Memory for two ranks that compute nothing for a moment.
    fn idle(&mut self) -> anyhow::Result<u64> {
        let little = text::parse("num_ranks 2\nrank 0 { a: calc 1 }\nrank 1 { a: calc 1 }\n", "")?;
        std::fs::write(self.file(), binary::write(&little)?)?;
        Ok(self.simulate()?.memory_bytes)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("program.bin")
    }

    /// Writes the binary file; how long its own converter took for that.
    fn prepare(&mut self, program: &Program) -> anyhow::Result<f64> {
        if let Some((_, load_ns)) = self.prepared.as_ref().filter(|(prepared, _)| prepared == program) {
            return Ok(*load_ns);
        }
        let written = if program.is_file() {
            child::contents(&program.name)?.into_program()
        } else {
            child::pattern(program)?.program()?
        };
        let mut load_ns = 0.0;
        if let Some(converter) = &self.converter {
            let goal = self.folder.path().join("program.goal");
            let mut printed = String::new();
            text::print(&written, &mut printed)?;
            std::fs::write(&goal, printed)?;
            let began = Instant::now();
            let mut command = self.folder.command(converter);
            let output = command.arg("-i").arg(&goal).arg("-o").arg(self.file()).output();
            let output = output.with_context(|| format!("could not start {}", converter.display()))?;
            if !output.status.success() {
                bail!("{} ended with {}", converter.display(), output.status);
            }
            load_ns = began.elapsed().as_nanos() as f64;
            std::fs::remove_file(goal)?;
        } else {
            std::fs::write(self.file(), binary::write(&written)?)?;
        }
        self.prepared = Some((program.clone(), load_ns));
        Ok(load_ns)
    }

    fn simulate(&self) -> anyhow::Result<Run> {
        let mut command = match &self.stdbuf {
            Some(stdbuf) => {
                let mut command = self.folder.command(stdbuf);
                command.arg("-oL").arg(&self.program);
                command
            }
            None => self.folder.command(&self.program),
        };
        command.arg("-f").arg(self.file()).arg("-b");
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let mut process =
            command.spawn().with_context(|| format!("could not start {}", self.program.display()))?;
        let id = process.id();
        let output = process.stdout.take().expect("it was piped");
        let (said, peak_bytes) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(BufReader::new(output), || peak::processor_ns(id)));
            let peak_bytes = peak::until_the_end_of(&mut process);
            (reader.join().expect("reading lines does not panic"), peak_bytes)
        });
        let ended = Instant::now();
        let said = said?;
        let (began, until) = match (&self.stdbuf, said.began, said.ended) {
            (Some(_), Some(began), Some(until)) => (began, until),
            _ => (started, ended),
        };
        Ok(Run {
            run_ns: vec![(until - began).as_nanos() as f64],
            cpu_ns: peak::processor_ns_between(said.cpu_began, said.cpu_ended)
                .filter(|_| self.stdbuf.is_some()),
            load_ns: 0.0,
            events: said.events.context("it did not say how many events there were")?,
            makespan_ps: said.makespan_ns.map(|ns| ns * 1e3),
            memory_bytes: peak_bytes?.saturating_sub(self.idle_bytes),
        })
    }
}

impl Simulator for LogGopSim {
    fn name(&self) -> String {
        NAME.into()
    }

    fn run(&mut self, program: &Program, _samples: u32) -> anyhow::Result<Option<Run>> {
        if program.ranks > self.ranks_max {
            return Ok(None);
        }
        let load_ns = self.prepare(program)?;
        Ok(Some(Run { load_ns, ..self.simulate()? }))
    }

    fn tidy(&mut self) {
        self.prepared = None;
        // A file that is gone already is tidy.
        let _ = std::fs::remove_file(self.file());
    }
}

fn read(lines: impl std::io::BufRead, processor_ns: impl Fn() -> Option<u64>) -> std::io::Result<Said> {
    let mut said = Said::default();
    for line in lines.lines() {
        let line = line?;
        let number_behind = |words: &str| {
            let rest = line.split_once(words)?.1.trim_start();
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        if line.contains("size: ") && said.began.is_none() {
            (said.began, said.cpu_began) = (Some(Instant::now()), processor_ns());
        } else if line.starts_with("PERFORMANCE") {
            (said.ended, said.cpu_ended) = (Some(Instant::now()), processor_ns());
            said.events = number_behind("Events:");
        } else if line.starts_with("Maximum finishing time") {
            said.makespan_ns =
                line.rsplit_once(": ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_words_are_understood() {
        let words = "LogGP network backend; size: 4 (1 CPUs, 1 NICs); L=2500, o=1500\n\
                     PERFORMANCE: Processes: 4 \t Events: 48 \t Time: 0 s \t Speed: inf ev/s\n\
                     Maximum finishing time at host 3: 77588 (7.7588e-05 s)\n";
        let said = read(words.as_bytes(), || None).expect("text");
        assert_eq!((said.events, said.makespan_ns), (Some(48), Some(77588.0)));
        assert!(said.began <= said.ended && said.began.is_some());
    }
}
