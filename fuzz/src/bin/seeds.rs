//! Writes the seed corpora, made from `vectors/`, into `corpus/`.

use castell_cachesim::trace::{Event, TraceWriter};
use castell_goal::schedule_set::ScheduleSet;
use castell_goal::{binary, text};
use castell_kernels::protocol::{Shape as KernelShape, ToDaemon};
use castell_policy::session::protocol::{FromAgent, Part, ToAgent, ToKeeper, VERSION, Wanted, encode};
use castell_policy::session::workload::Workload;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = |target: &str| -> std::io::Result<PathBuf> {
        let folder = root.join("corpus").join(target);
        fs::create_dir_all(&folder).map(|()| folder)
    };
    let [texts, binaries, schedules, sets] = ["text", "loggopsim", "schedule", "schedule_set"].map(corpus);
    let (texts, binaries, schedules, sets) = (texts?, binaries?, schedules?, sets?);
    let mut seeds = 0;
    for folder in ["", "wrong", "check"] {
        for entry in fs::read_dir(root.join("../vectors/goal").join(folder))? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "goal") {
                continue;
            }
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let name = if folder.is_empty() { stem.to_owned() } else { format!("{folder}-{stem}") };
            let bytes = fs::read(&path)?;
            fs::write(texts.join(&name), &bytes)?;
            seeds += 1;
            let Ok(program) = text::parse(&bytes, &name) else { continue };
            if let Ok(bytes) = binary::write(&program) {
                fs::write(binaries.join(&name), bytes)?;
            }
            let Ok(set) = ScheduleSet::compile(&program) else { continue };
            fs::write(sets.join(&name), set.to_bytes())?;
            for (rank, schedule) in set.schedules() {
                fs::write(schedules.join(format!("{name}-{rank}")), schedule.to_bytes())?;
            }
        }
    }
    let traces = corpus("paraver")?;
    for entry in fs::read_dir(root.join("../vectors/paraver"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "prv") {
            fs::copy(&path, traces.join(path.file_stem().unwrap_or_default()))?;
        }
    }
    let models = corpus("models")?;
    for entry in fs::read_dir(root.join("../vectors/model/texts"))? {
        let path = entry?.path();
        fs::copy(&path, models.join(path.file_name().unwrap_or_default()))?;
    }
    let placements = corpus("placement")?;
    for entry in fs::read_dir(root.join("../vectors/policy/texts"))? {
        let path = entry?.path();
        fs::copy(&path, placements.join(path.file_name().unwrap_or_default()))?;
    }
    let connections = corpus("tcp")?;
    fs::write(
        connections.join("messages"),
        [[0, 0, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8], [3, 0, 1, 0, 4, 0, 2, 0, 0, 0, 0, 0]].concat(),
    )?;
    // Data with TXS and TXF, a question, a request, FIN, RST.
    fs::write(
        corpus("esp")?.join("flags"),
        [
            [0, 0xE2, 0, 4, 4, 2, 1, 2],
            [64, 0x22, 7, 5, 4, 0, 0, 0x12],
            [0, 5, 8, 4, 9, 0, 0, 0],
            [0, 6, 0, 5, 4, 0, 0, 0x0A],
        ]
        .concat(),
    )?;
    sessions(&corpus("workload")?, &corpus("session_protocol")?)?;
    for (name, last) in [("loop", u64::MAX >> 4), ("program", 1 << 40)] {
        fs::write(corpus("access_trace")?.join(name), access_trace(last)?)?;
    }
    kernels(&corpus("kernels_protocol")?)?;
    println!("{seeds} texts, and what they compile to, in {}", root.join("corpus").display());
    Ok(())
}

/// Workloads in both formats, and what is said about sessions.
fn sessions(workloads: &Path, protocol: &Path) -> Result<(), Box<dyn Error>> {
    for description in ["djsb", "lublin:jobs=20"] {
        let workload = Workload::describe(description).ok_or("no such workload")??;
        let mut swf = String::new();
        workload.write_swf(&mut swf)?;
        fs::write(workloads.join(description.replace(':', "-")), swf)?;
    }
    let json = r#"{"sessions": [{"id": 1, "run_s": 9, "processes": 4, "threads": 2, "whole": "core", "role": "simulation"},
        {"run_s": 1.5, "submit_s": 2, "processes": 16, "with": 1, "memory_bytes": 4096, "per_node_max": 8, "priority": 3, "estimate_s": 2, "program": "a"}],
        "slowdowns": {"a": {"a": 1.25}}}"#;
    fs::write(workloads.join("json"), json)?;
    let wanted = Wanted { slots: 3, estimate_ms: Some(9), command: "ls".to_owned(), ..Wanted::default() };
    let messages = [
        ToAgent::Hello { version: VERSION },
        ToAgent::Run(Box::new(wanted.clone())),
        ToAgent::Run(Box::new(Wanted { with: Some(1), memory_bytes: 4096, ..wanted })),
        ToAgent::Done {},
        ToAgent::List {},
        ToAgent::Ended {},
    ];
    fs::write(protocol.join("runner"), messages.iter().flat_map(encode).collect::<Vec<u8>>())?;
    let part = Part { node: "n1".to_owned(), cpus: vec![0, 1], slots: 2 };
    let answers = [
        FromAgent::Waits { session: 1 },
        FromAgent::Start { session: 1, parts: vec![part], remote: vec!["ssh".to_owned()] },
        FromAgent::Refused { reason: "no".to_owned() },
        FromAgent::Sessions { policy: "wait".to_owned(), slowdown_max: None, sessions: Vec::new() },
    ];
    let mark = "4-7@n1".to_owned();
    let hold = ToKeeper::Hold { mark: mark.clone(), cpus: vec![0], suspended: true, turn: 3 };
    let to_keeper =
        [ToKeeper::Hello { version: VERSION, known: vec![mark.clone()] }, hold, ToKeeper::End { mark }];
    fs::write(protocol.join("keeper"), to_keeper.iter().flat_map(encode).collect::<Vec<u8>>())?;
    fs::write(protocol.join("agent"), answers.iter().flat_map(encode).collect::<Vec<u8>>())?;
    Ok(())
}

/// What an application says, and what it does with its mailbox.
fn kernels(folder: &Path) -> std::io::Result<()> {
    let kernels = vec![("one_core".to_owned(), Some(5)), ("gpu".to_owned(), None)];
    let rankings = vec![("performance".to_owned(), vec!["gpu".to_owned(), "one_core".to_owned()])];
    let said = [
        ToDaemon::Hello { version: 1 },
        ToDaemon::Shape(KernelShape { kernels, rankings }),
        ToDaemon::Open {},
        ToDaemon::Governor { level: "low".to_owned() },
    ];
    fs::write(folder.join("said"), said.iter().flat_map(encode).collect::<Vec<u8>>())?;
    // Two ask, both are looked at, one ends, one is given up, one leaves.
    let written = [
        [0, 1, 0, 2],
        [1, 2, 1, 1],
        [10, 0, 0, 0],
        [11, 0, 0, 0],
        [2, 1, 0, 0],
        [10, 0, 0, 0],
        [5, 2, 0, 0],
        [9, 0, 0, 0],
    ];
    fs::write(folder.join("written"), written.concat())
}

/// A loop over blocks, of two threads and another process, whose last access is to this block.
fn access_trace(last: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, 6)?;
    (0..40).try_for_each(|at| writer.write(Event::Block(1000 + at % 8)))?;
    for event in [
        Event::Thread(7),
        Event::Block(3),
        Event::Repeats(500),
        Event::Process(2),
        Event::Block(last),
    ] {
        writer.write(event)?;
    }
    writer.finish()?;
    Ok(bytes)
}
