//! Writes the seed corpora, made from `vectors/`, into `corpus/`.

use castell_goal::schedule_set::ScheduleSet;
use castell_goal::{binary, text};
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
    println!("{seeds} texts, and what they compile to, in {}", root.join("corpus").display());
    Ok(())
}
