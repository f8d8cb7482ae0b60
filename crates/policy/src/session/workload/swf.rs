//! The Standard Workload Format of the Parallel Workloads Archive, version 2.2: 18 numbers a line, -1 for what is not known.

use super::{JOBS_MAX, Job, LeftOut, Role, Workload, WorkloadError, milliseconds};
use crate::session::request::Request;
use std::fmt;

/// Numbers of a line.
const FIELDS: usize = 18;
const SUBMIT: usize = 1;
const RUN: usize = 3;
const PROCESSORS: usize = 4;
const MEMORY_KB: usize = 6;
const WANTED_PROCESSORS: usize = 7;
const WANTED_TIME: usize = 8;
const WANTED_MEMORY_KB: usize = 9;

pub(super) fn read(bytes: &[u8], name: &str) -> Result<Workload, WorkloadError> {
    let mut workload = Workload { name: name.to_owned(), ..Workload::default() };
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let refuse = |found: &str| WorkloadError::Line { line: index + 1, found: found.to_owned() };
        let line = std::str::from_utf8(line).ok().or(line.starts_with(b";").then_some(";"));
        let line = line.ok_or_else(|| refuse("it is no text"))?.trim();
        if let Some(comment) = line.strip_prefix(';') {
            header(comment, &mut workload);
            continue;
        }
        if line.is_empty() {
            continue;
        }
        if workload.jobs.len() == JOBS_MAX {
            return Err(WorkloadError::TooMany);
        }
        let (fields, more) = fields(line).map_err(|found| refuse(&found))?;
        workload.long_lines += usize::from(more);
        let job = job(&fields, &mut workload.left_out).map_err(|found| refuse(&found))?;
        workload.jobs.extend(job);
    }
    workload.finish()
}

/// Takes what a comment such as `; MaxProcs: 128` says of the machine.
fn header(comment: &str, workload: &mut Workload) {
    let Some((key, value)) = comment.split_once(':') else { return };
    let value = value.trim().parse().ok().filter(|value| *value > 0);
    match key.trim() {
        "MaxProcs" => workload.processors = value.or(workload.processors),
        "MaxNodes" => workload.processors = workload.processors.or(value),
        _ => {}
    }
}

/// The numbers of a line, and whether more stands behind them, as in logs that were extended for one simulator.
fn fields(line: &str) -> Result<([f64; FIELDS], bool), String> {
    let mut fields = [-1.0; FIELDS];
    let mut words = line.split_ascii_whitespace();
    for (count, field) in fields.iter_mut().enumerate() {
        let word = words.next().ok_or_else(|| format!("there are {count} numbers"))?;
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        *field = number.ok_or_else(|| format!("`{word}` is no number"))?;
    }
    Ok((fields, words.next().is_some()))
}

/// Makes a session of a line's numbers; none where something is missing without which it cannot run.
fn job(fields: &[f64; FIELDS], left_out: &mut LeftOut) -> Result<Option<Job>, String> {
    let known = |field: usize| Some(fields[field]).filter(|number| *number > 0.0);
    let missing = match known(PROCESSORS).or(known(WANTED_PROCESSORS)) {
        _ if fields[RUN] < 0.0 => &mut left_out.never_ran,
        None => &mut left_out.without_processors,
        _ if fields[SUBMIT] < 0.0 => &mut left_out.without_submission,
        Some(processors) => return session(fields, processors).map(Some),
    };
    *missing += 1;
    Ok(None)
}

fn session(fields: &[f64; FIELDS], processors: f64) -> Result<Job, String> {
    let known = |field: usize| Some(fields[field]).filter(|number| *number > 0.0);
    if processors > f64::from(u32::MAX) {
        return Err(format!("{processors} processors are too many"));
    }
    let time = |field: usize| {
        milliseconds(fields[field]).ok_or_else(|| format!("{} is no time in seconds", fields[field]))
    };
    let memory_kb = known(WANTED_MEMORY_KB).or(known(MEMORY_KB)).unwrap_or(0.0);
    let request = Request {
        estimate: known(WANTED_TIME).map(|_| time(WANTED_TIME)).transpose()?,
        memory_bytes: (memory_kb * 1024.0) as u64,
        ..Request::new((processors as u32).max(1))
    };
    // Jobs of less than a second are written as 0.
    let run_ms = time(RUN)?.max(1);
    Ok(Job {
        number: fields[0].max(0.0) as u64,
        submit_ms: time(SUBMIT)?,
        run_ms,
        request,
        role: Role::Other,
    })
}

pub(super) fn write(workload: &Workload, out: &mut impl fmt::Write) -> fmt::Result {
    writeln!(out, "; Version: 2.2\n; Note: {}", workload.name.replace(['\n', '\r'], " "))?;
    if let Some(processors) = workload.processors {
        writeln!(out, "; MaxProcs: {processors}")?;
    }
    for job in &workload.jobs {
        let request = &job.request;
        let slots = u64::from(request.processes) * u64::from(request.threads);
        let estimate = request.estimate.map_or(-1, |ms| ms.div_ceil(1_000) as i64);
        let memory_kb =
            if request.memory_bytes == 0 { -1 } else { request.memory_bytes.div_ceil(1024) as i64 };
        let (submit, run) = (job.submit_ms / 1_000, job.run_ms / 1_000);
        writeln!(
            out,
            "{} {submit} -1 {run} {slots} -1 -1 {slots} {estimate} {memory_kb} 1 -1 -1 -1 -1 -1 -1 -1",
            job.number
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "; MaxProcs: 64\n; \u{fc}nknown: 3\n\
        2 30 -1 100 4 -1 -1 8 200 2048 1 1 1 1 1 -1 -1 -1\n\
        1 0 5 0 -1 -1 -1 2 -1 -1 1 1 1 1 1 -1 -1 -1\r\n\
        3 40 -1 -1 4 -1 -1 4 200 -1 5 1 1 1 1 -1 -1 -1\n";

    #[test]
    fn lines_become_sessions_in_order() {
        let workload = Workload::read(TEXT.as_bytes(), "test").expect("it is right");
        let never_ran = LeftOut { never_ran: 1, ..LeftOut::default() };
        assert_eq!((workload.processors, workload.left_out, workload.out_of_order), (Some(64), never_ran, 1));
        let [first, second] = &workload.jobs[..] else { panic!("two jobs ran") };
        assert_eq!(
            (first.number, first.run_ms, first.request.processes, first.request.estimate),
            (1, 1, 2, None)
        );
        assert_eq!((second.submit_ms, second.run_ms, second.request.processes), (30_000, 100_000, 4));
        assert_eq!((second.request.estimate, second.request.memory_bytes), (Some(200_000), 2 << 20));
        let mut printed = String::new();
        workload.write_swf(&mut printed).expect("a string takes everything");
        let again = Workload::read(printed.as_bytes(), "test").expect("it was printed");
        assert_eq!(again.jobs[1], workload.jobs[1]);
    }

    #[test]
    fn what_logs_lack_and_what_they_have_too_much_is_counted() {
        let text = "; MaxNodes: 16\n; MaxProcs: 32\n\
            1 -1 0 10 2 -1 -1 2 -1 -1 1 1 1 1 1 -1 -1 -1\n\
            2 5 0 10 -1 -1 -1 -1 -1 -1 1 1 1 1 1 -1 -1 -1\n\
            3 6 0 -1 -1 -1 -1 0 -1 -1 5 1 1 1 1 -1 -1 -1\n\
            4 7 0 489.50 2 -1 -1 2 -1 -1 1 1 1 1 1 -1 -1 -1 q_1d 1:ppn=64\n";
        let workload = Workload::read(text.as_bytes(), "test").expect("one can run");
        let left_out = LeftOut { never_ran: 1, without_processors: 1, without_submission: 1 };
        assert_eq!((workload.left_out, workload.left_out.total()), (left_out, 3));
        assert_eq!(
            (workload.processors, workload.long_lines, workload.jobs[0].run_ms),
            (Some(32), 1, 489_500)
        );
    }

    #[test]
    fn wrong_lines_are_named() {
        let error = |text: &str| Workload::read(text.as_bytes(), "test").unwrap_err().to_string();
        assert!(
            error("; x\n1 2 3\n").starts_with("line 2: there are 3 numbers;"),
            "{}",
            error("; x\n1 2 3\n")
        );
        assert!(error("1 x 3").starts_with("line 1: `x` is no number"));
        assert!(error("1 inf").contains("`inf` is no number"));
        assert!(error("1 1e300 0 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1").contains("no time in seconds"));
        assert_eq!(error("; nothing\n"), "there is no session in it that could run");
    }
}
