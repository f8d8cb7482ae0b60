//! The tables of objects: ids are never confused, whatever a program passes.

#[path = "../src/registry.rs"]
mod registry;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use registry::{Fate, Full, Kind, Table, Unknown};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

#[test]
fn made_up_foreign_and_freed_ids_are_told_apart() {
    let (graphs, schedules, handles) =
        (<Table<_>>::new(Kind::Graph), <Table<_>>::new(Kind::Schedule), <Table<_>>::new(Kind::Handle));
    let graph = graphs.insert("graph").unwrap();
    let schedule = schedules.insert("schedule").unwrap();
    handles.insert("handle").unwrap();
    assert_eq!(graphs.with(graph, |object| *object), Ok("graph"));
    assert_eq!(graphs.with(0, |object| *object), Err(Unknown::Null));
    assert_eq!(graphs.with(schedule, |object| *object), Err(Unknown::Foreign));
    assert_eq!(handles.with(graph, |object| *object), Err(Unknown::Foreign));
    assert_eq!(graphs.with_or_remove(graph, |object| (Fate::Stays, *object)), Ok("graph"));
    assert_eq!(graphs.with_or_remove(graph, |object| (Fate::Goes, *object)), Ok("graph"));
    assert_eq!(graphs.with_or_remove(graph, |object| (Fate::Goes, *object)), Err(Unknown::Gone));
    assert_eq!(graphs.remove(graph), Err(Unknown::Gone));
    assert_eq!(graphs.with(graph, |object| *object), Err(Unknown::Gone));
    for kind in [Kind::Communicator, Kind::Request, Kind::Operator] {
        let other = <Table<_>>::new(kind);
        other.insert("other").unwrap();
        assert_eq!(other.with(schedule, |object| *object), Err(Unknown::Foreign));
    }
    // The place is used again, the id is not.
    let next = graphs.insert("next").unwrap();
    assert_ne!(next, graph);
    assert_eq!(graphs.with(graph, |object| *object), Err(Unknown::Gone));
    assert_eq!(graphs.with(next, |object| *object), Ok("next"));
    assert_eq!(graphs.ids(), [next]);
    graphs.clear();
    assert_eq!(graphs.with(next, |object| *object), Err(Unknown::Gone));
    assert_eq!(graphs.ids(), []);
}

#[test]
fn random_bits_reach_no_object_and_cause_no_panic() {
    let seed = fresh_seed();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let table = <Table<_>>::new(Kind::Schedule);
    let ids: Vec<u64> = (0..1000).map(|number| table.insert(number).unwrap()).collect();
    for _ in 0..200_000 {
        let mut id: u64 = random.random();
        if random.random() {
            // Close to a real one.
            id = ids[random.random_range(0..ids.len())] ^ 1 << random.random_range(0..64);
        }
        let found = table.with(id, |number| *number);
        assert_eq!(found.is_ok(), ids.contains(&id), "seed {seed}, id {id:#x}");
    }
}

#[test]
fn a_table_behaves_like_a_map_with_fresh_keys() {
    let seed = fresh_seed();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let table = <Table<_>>::new(Kind::Handle);
    let mut model = HashMap::new();
    let mut removed = Vec::new();
    for number in 0..20_000u32 {
        if random.random_bool(0.55) {
            let id = table.insert(number).unwrap();
            assert!(
                model.insert(id, number).is_none() && !removed.contains(&id),
                "seed {seed}: {id:#x} again"
            );
        } else if let Some(&id) = model.keys().next() {
            assert_eq!(table.remove(id), Ok(model.remove(&id).unwrap()), "seed {seed}");
            removed.push(id);
            removed.truncate(2000);
        }
    }
    let mut ids = table.ids();
    ids.sort_unstable();
    let mut expected: Vec<u64> = model.keys().copied().collect();
    expected.sort_unstable();
    assert_eq!(ids, expected, "seed {seed}");
    assert!(removed.iter().all(|&id| table.with(id, |_| ()) == Err(Unknown::Gone)), "seed {seed}");
}

#[test]
fn threads_share_a_table() {
    let table = Arc::new(<Table<_>>::new(Kind::Graph));
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let table = Arc::clone(&table);
            scope.spawn(move || {
                for number in 0..5000 {
                    let id = table.insert((thread, number)).unwrap();
                    assert_eq!(table.with(id, |object| *object), Ok((thread, number)));
                    if number % 3 != 0 {
                        assert_eq!(table.remove(id), Ok((thread, number)));
                    }
                }
            });
        }
    });
    assert_eq!(table.ids().len(), 4 * 5000usize.div_ceil(3));
}

#[test]
fn a_full_table_says_so() {
    let table: Table<usize, 3> = Table::new(Kind::Graph);
    let ids: Vec<u64> = (0..7 * 64).map(|number| table.insert(number).unwrap()).collect();
    assert_eq!(table.insert(0), Err(Full));
    assert_eq!(table.remove(ids[100]), Ok(100));
    assert!(table.insert(0).is_ok());
    assert_eq!(table.insert(0), Err(Full));
    assert!(ids.len() < registry::PLACES_MAX);
}

/// Another one each time; a failing test shows it.
fn fresh_seed() -> u64 {
    let seed =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    println!("seed {seed}");
    seed
}
