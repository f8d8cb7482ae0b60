//! What has to hold for any bytes: the fuzz targets assert it, and so does a quick test of `castell-goal`.

use castell_base::Rank;
use castell_goal::program::Program;
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::schedule_set::{self, ScheduleSet};
use castell_goal::stepper::Stepper;
use castell_goal::{binary, check, paraver, text};

/// Text is refused with errors, or read; what is read prints as text that reads as the same program.
pub fn text(bytes: &[u8]) {
    let program = match text::parse(bytes, "fuzz") {
        Ok(program) => program,
        Err(errors) => {
            assert!(!errors.errors.is_empty() && errors.errors.len() <= text::ERRORS_MAX);
            return;
        }
    };
    let printed = print(&program);
    let again = text::parse(&printed, "printed").unwrap_or_else(|errors| panic!("{errors}\n{printed}"));
    assert_eq!(print(&again), printed);
    assert_eq!(again.operations(), program.operations());
    whole_program(&program);
}

/// LogGOPSim's binary is refused, or read; what is read is written as bytes that read as the same.
pub fn loggopsim(bytes: &[u8]) {
    let Ok(program) = binary::read(bytes) else { return };
    let written = binary::write(&program).expect("what was read can be written");
    assert_eq!(written.len(), bytes.len());
    let again = binary::read(&written).expect("what was written can be read");
    assert_eq!(binary::write(&again).expect("it was written before"), written);
    let printed = print(&program);
    assert_eq!(text::parse(&printed, "printed").map(|again| again.operations()), Ok(program.operations()));
    whole_program(&program);
}

/// A Paraver trace is refused, or becomes a program that can be written and compiled.
pub fn paraver(bytes: &[u8]) {
    let Ok(conversion) = paraver::read(bytes) else { return };
    let program = conversion.program;
    let printed = print(&program);
    assert_eq!(text::parse(&printed, "printed").map(|again| again.operations()), Ok(program.operations()));
    assert!(ScheduleSet::compile(&program).is_ok(), "calls are in order, so there is no circle");
    whole_program(&program);
}

/// A compiled schedule is refused, or runs to its end.
pub fn schedule(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend_schedule(&mut bytes);
    let untrusted = Schedule::from_bytes(&bytes);
    let Ok(schedule) = Schedule::from_bytes_trusting_addresses(&bytes) else {
        assert!(untrusted.is_err(), "what is refused with trust is refused without");
        return;
    };
    assert_eq!(schedule.to_bytes(), bytes, "there is one way to write a schedule");
    one_schedule(&schedule);
}

/// A set of schedules is refused, or each of its schedules runs to its end.
pub fn schedule_set(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    mend_set(&mut bytes);
    let Ok(set) = ScheduleSet::from_bytes_trusting_addresses(&bytes) else { return };
    assert_eq!(set.to_bytes(), bytes, "there is one way to write a set");
    set.schedules().for_each(|(_, schedule)| one_schedule(schedule));
    let program = set.to_program();
    assert_eq!(ScheduleSet::compile(&program).map(|again| again.num_ranks()), Ok(set.num_ranks()));
}

fn print(program: &Program) -> String {
    let mut out = String::new();
    text::print(program, &mut out).expect("a string takes everything");
    out
}

/// Checking and compiling must not panic; what the check finds no error in has to compile.
fn whole_program(program: &Program) {
    let report = check::check(program);
    let compiled = ScheduleSet::compile(program);
    assert!(compiled.is_ok() || !report.is_ok(), "{compiled:?}");
    if let Ok(set) = compiled {
        assert_eq!(ScheduleSet::from_bytes_trusting_addresses(&set.to_bytes()), Ok(set.clone()));
        set.schedules().for_each(|(_, schedule)| one_schedule(schedule));
    }
    let mut drawing = String::new();
    text::print_dot(program, None, &mut drawing).expect("a string takes everything");
}

fn one_schedule(schedule: &Schedule) {
    let mut stepper = Stepper::new(schedule);
    let mut steps = 0;
    while let Some(id) = stepper.take(schedule) {
        stepper.finish(schedule, id);
        steps += 1;
    }
    assert!(stepper.is_finished());
    assert_eq!(steps, schedule.len());
    let graph = schedule_set::to_graph(schedule);
    assert_eq!(graph.len(), schedule.len());
    let again = graph.compile().expect("it was compiled before");
    let operations = |schedule: &Schedule| schedule.operations().collect::<Vec<OpId>>().len();
    assert_eq!(operations(&again), operations(schedule));
    let mut printed = String::new();
    text::print_schedule(Rank(0), schedule, &mut printed).expect("a string takes everything");
}

/// Writes the right lengths and checksum into a schedule, so that mutations get past them.
fn mend_schedule(bytes: &mut [u8]) {
    const LENGTH: usize = 8;
    const CHECKSUM: usize = 16;
    if bytes.len() < CHECKSUM + 4 {
        return;
    }
    let length = bytes.len() as u64;
    bytes[LENGTH..LENGTH + 8].copy_from_slice(&length.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[CHECKSUM + 4..]);
    bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// The same for a set, and for each schedule that its table names.
fn mend_set(bytes: &mut [u8]) {
    const HEADER: usize = 32;
    if bytes.len() < HEADER {
        return;
    }
    let count = u32::from_le_bytes(*bytes[24..].first_chunk().expect("inside the header"));
    let length = bytes.len();
    let entries = (0..count as usize).map(|rank| HEADER + 16 * rank);
    for entry in entries.take_while(|entry| entry + 16 <= length) {
        let long = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside the table"));
        let (start, length) = (long(entry) as usize, long(entry + 8) as usize);
        let end = start.saturating_add(length);
        // Not where it would change the table itself.
        if start >= HEADER + 16 * count as usize && end <= bytes.len() && start <= end {
            mend_schedule(&mut bytes[start..end]);
        }
    }
    mend_schedule(bytes);
}
