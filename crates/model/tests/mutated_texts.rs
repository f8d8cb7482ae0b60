//! The properties of the fuzz target, for some thousand mutations of texts that are right: quick, and the same in each
//! run.

#[path = "../../../fuzz/src/models.rs"]
mod properties;

use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;
use std::fs;
use std::path::PathBuf;

fn texts() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/model/texts");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

fn below(random: &mut Philox, end: usize) -> usize {
    (random.next_u64() % end.max(1) as u64) as usize
}

/// A few bytes changed, doubled, removed, or taken from another text.
fn mutate(random: &mut Philox, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
    for _ in 0..1 + below(random, 3) {
        let at = below(random, bytes.len() + 1);
        let end = (at + 1 + below(random, 12)).min(bytes.len());
        match below(random, 5) {
            0 if at < bytes.len() => bytes[at] = b"0129.,:=()-+*x \n"[below(random, 16)],
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => bytes.truncate(at),
            _ => {
                let other = &others[below(random, others.len())];
                let from = below(random, other.len());
                let piece = other[from..(from + 15).min(other.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

#[test]
fn right_texts_hold_what_any_text_must() {
    let texts = texts();
    assert!(texts.len() > 10);
    texts.iter().for_each(|text| properties::any_text(text));
}

#[test]
fn mutated_texts_hold_it_too() {
    let texts = texts();
    for round in 0..8_000 {
        let mut random = Philox::new(7, Rank(0), round, 0);
        let mut bytes = texts[below(&mut random, texts.len())].clone();
        mutate(&mut random, &mut bytes, &texts);
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        let outcome = std::panic::catch_unwind(|| properties::any_text(&bytes));
        assert!(outcome.is_ok(), "round {round}: {shown:?}");
    }
}
