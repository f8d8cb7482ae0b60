//! The properties of the fuzz targets, for some thousand mutations of the vectors: quick, and the same in each run.

use crate::properties;

use castell_goal::schedule_set::ScheduleSet;
use castell_goal::{binary, text};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::PathBuf;

/// Texts of all vectors.
fn texts() -> Vec<Vec<u8>> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/goal");
    let mut paths = Vec::new();
    for folder in ["", "wrong", "check"] {
        paths.extend(fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path()));
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "goal"));
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A few bytes changed, doubled, removed, or taken from another vector.
fn mutate(random: &mut ChaCha8Rng, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=bytes.len());
        let end = (at + random.random_range(1..20)).min(bytes.len());
        match random.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 if at < bytes.len() => {
                bytes[at] = *[0, 1, 2, 0x7f, 0x80, 0xff, b'\n', b'9'].choose(random).unwrap()
            }
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => bytes.truncate(at),
            _ => {
                let other = others.choose(random).unwrap();
                let from = random.random_range(0..=other.len());
                let piece = other[from..(from + 12).min(other.len())].to_vec();
                let over = random.random_range(0..=1) * piece.len();
                bytes.splice(at..(at + over).min(bytes.len()), piece);
            }
        }
    }
}

/// Tries all `vectors`, then `rounds` mutations of them with pieces of `others`.
fn try_all(seed: u64, rounds: usize, vectors: &[Vec<u8>], others: &[Vec<u8>], property: impl Fn(&[u8])) {
    vectors.iter().for_each(|vector| property(vector));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for round in 0..rounds {
        let mut bytes = vectors.choose(&mut random).unwrap().clone();
        mutate(&mut random, &mut bytes, others);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| property(&bytes)));
        if let Err(panic) = caught {
            eprintln!("seed {seed}, round {round}: {}", String::from_utf8_lossy(&bytes));
            std::panic::resume_unwind(panic);
        }
    }
}

fn sets() -> Vec<ScheduleSet> {
    let programs = texts().into_iter().filter_map(|bytes| text::parse(bytes, "").ok());
    programs.filter_map(|program| ScheduleSet::compile(&program).ok()).collect()
}

#[test]
fn mutated_traces() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/paraver");
    let traces = ["halo.prv", "threads.prv"].map(|name| fs::read(root.join(name)).unwrap());
    try_all(6, 3000, &traces, &traces, properties::paraver);
}

#[test]
fn mutated_texts() {
    let texts = texts();
    try_all(1, 2000, &texts, &texts, properties::text);
    let right: Vec<_> = texts.iter().filter(|bytes| text::parse(bytes, "").is_ok()).cloned().collect();
    try_all(5, 6000, &right, &texts, properties::text);
}

#[test]
fn mutated_binaries() {
    let programs = texts().into_iter().filter_map(|bytes| text::parse(bytes, "").ok());
    let binaries: Vec<_> = programs.filter_map(|program| binary::write(&program).ok()).collect();
    try_all(2, 6000, &binaries, &binaries, properties::loggopsim);
}

#[test]
fn mutated_schedules() {
    let schedules: Vec<_> = sets()
        .iter()
        .flat_map(|set| set.schedules().map(|(_, s)| s.to_bytes()).collect::<Vec<_>>())
        .collect();
    try_all(3, 20_000, &schedules, &schedules, properties::schedule);
}

#[test]
fn mutated_sets_of_schedules() {
    let sets: Vec<_> = sets().iter().map(ScheduleSet::to_bytes).collect();
    try_all(4, 6000, &sets, &sets, properties::schedule_set);
}
