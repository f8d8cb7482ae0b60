//! One-sided access: bounds, keys, bytes, ends, and that the limits are true.

use super::rig::{Group, Rig};
use crate::seam::{Down, Endpoint, Transport};
use crate::{AccessError, RemoteKey, Token};
use castell_base::{Lent, Rank};
use std::task::Poll;

type Outcome = Result<u64, AccessError>;

fn get<G: Group>(rig: &mut Rig<G>, key: &RemoteKey, at: u64, into: Lent) -> Result<Outcome, String> {
    rig.access(0, 1, |end, token| end.get(key, at, into, token), |()| 0)
}

fn put<G: Group>(
    rig: &mut Rig<G>,
    from: Lent,
    key: &RemoteKey,
    at: u64,
    notice: Option<u32>,
) -> Result<Outcome, String> {
    rig.access(0, 1, |end, token| end.put(from, key, at, notice, token), |()| 0)
}

fn fetch_add<G: Group>(
    rig: &mut Rig<G>,
    me: u32,
    key: &RemoteKey,
    at: u64,
    value: u64,
) -> Result<Outcome, String> {
    rig.access(me, 1, |end, token| end.fetch_add(key, at, value, token), |found| found)
}

fn export<G: Group>(rig: &mut Rig<G>, rank: u32, memory: Lent) -> Result<RemoteKey, String> {
    let key = rig.group.transport(Rank(rank)).export(memory).map_err(|error| error.to_string())?;
    match (key.owner == Rank(rank), key.bytes == memory.bytes() as u64) {
        (true, true) => Ok(key),
        _ => Err(format!("{key:?} for {} bytes of rank {rank}", memory.bytes())),
    }
}

fn expect(what: &str, outcome: Outcome, expected: Outcome) -> Result<(), String> {
    if outcome == expected {
        return Ok(());
    }
    Err(format!("{what}: {outcome:?}, expected {expected:?}"))
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(17)) as u8).collect()
}

fn content(memory: Lent) -> Vec<u8> {
    let mut bytes = vec![0; memory.bytes()];
    memory.read(0, &mut bytes);
    bytes
}

/// What the limits deny is refused as unsupported, and nothing else is.
pub(super) fn limits<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    let limits = rig.limits();
    if *rig.endpoint(0, 1)?.limits() != limits && rig.endpoint(0, 1)?.limits().name != limits.name {
        return Err("a path of another transport".to_owned());
    }
    // The longest message that the limits name is taken.
    rig.send_surely(0, 1, limits.message_bytes_max)?;
    let here = rig.memory(0, 64);
    let there = rig.memory(1, 64);
    let any = limits.get_bytes_max > 0 || limits.put_bytes_max > 0 || limits.atomics;
    let key = match rig.group.transport(Rank(1)).export(there) {
        Ok(key) if any => key,
        Err(AccessError::Unsupported) if !any => RemoteKey { owner: Rank(1), bytes: 64, cookie: [0, 0] },
        other => return Err(format!("one-sided access: {any}, and export says {other:?}")),
    };
    let tried = [
        ("get", limits.get_bytes_max > 0, get(rig, &key, 0, here)?),
        ("put", limits.put_bytes_max > 0, put(rig, here, &key, 0, None)?),
        ("fetching add", limits.atomics, fetch_add(rig, 0, &key, 0, 0)?),
        ("swap", limits.atomics, rig.access(0, 1, |end, token| end.swap(&key, 0, 0, token), |found| found)?),
    ];
    for (what, can, outcome) in tried {
        expect(what, outcome, if can { Ok(0) } else { Err(AccessError::Unsupported) })?;
    }
    rig.settle()
}

pub(super) fn get_case<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    let most = rig.limits().get_bytes_max;
    if most == 0 {
        return Ok(());
    }
    let there = rig.memory(1, 1 << 16);
    there.write(0, &pattern(1, there.bytes()));
    let key = export(rig, 1, there)?;
    let here = rig.memory(0, 1 << 16);
    for (at, bytes) in [(0, 0), (0, 1), (1, 1), (7, 64), (4096, 4096), (65535, 1), (65536, 0), (3, 65533)] {
        if bytes > most {
            continue;
        }
        let into = here.part(0, bytes).expect("inside");
        into.write(0, &pattern(99, bytes as usize));
        expect("a get inside", get(rig, &key, at, into)?, Ok(0))?;
        if content(into) != pattern(1, there.bytes())[at as usize..][..bytes as usize] {
            return Err(format!("{bytes} bytes from {at} are not what lies there"));
        }
    }
    for (at, bytes) in [(65536, 1), (65535, 2), (u64::MAX, 1), (u64::MAX, 0), (65537, 0)] {
        let into = here.part(0, bytes).expect("inside");
        expect("a get outside", get(rig, &key, at, into)?, Err(AccessError::OutOfBounds))?;
    }
    // Any number at a time: those beyond the limit are refused, the others end.
    let mut under_way = Vec::new();
    let outstanding_max = rig.limits().outstanding_max;
    for at in 0..2 * outstanding_max + 2 {
        let (token, into) = (rig.token(1), here.part(at as u64, 1).expect("inside"));
        match rig.endpoint(0, 1)?.get(&key, at as u64, into, token) {
            Ok(Poll::Pending) => under_way.push(token),
            Ok(Poll::Ready(())) => {}
            Err(AccessError::Full) => break,
            Err(error) => return Err(format!("get {at} of many: {error}")),
        }
    }
    if under_way.len() > outstanding_max {
        return Err(format!("{} operations are under way, the limit is {outstanding_max}", under_way.len()));
    }
    under_way.into_iter().try_for_each(|token| expect("a get of many", rig.end_of(0, token)?, Ok(0)))
}

pub(super) fn put_case<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    let most = rig.limits().put_bytes_max;
    if most == 0 {
        return Ok(());
    }
    let (there, here) = (rig.memory(1, 4096), rig.memory(0, 4096));
    let key = export(rig, 1, there)?;
    for round in 0..50u32 {
        let bytes = rig.below(4096.min(most as usize) + 1);
        let at = rig.below(4096 - bytes + 1);
        let from = here.part(0, bytes as u64).expect("inside");
        from.write(0, &pattern(round as usize, bytes));
        let mut expected = content(there);
        expected[at..at + bytes].copy_from_slice(&pattern(round as usize, bytes));
        let notice = (round % 2 == 0).then_some(round);
        let before = rig.inboxes[1].notices.len();
        expect("a put inside", put(rig, from, &key, at as u64, notice)?, Ok(0))?;
        rig.flush(0, 1)?;
        if notice.is_some() {
            rig.settle_until(|rig| rig.inboxes[1].notices.len() > before)?;
        }
        if rig.inboxes[1].notices[before..] != *notice.map(|notice| (0, notice)).as_slice() {
            return Err(format!("round {round}: notices {:?}", &rig.inboxes[1].notices[before..]));
        }
        if content(there) != expected {
            return Err(format!("round {round}: the bytes are not there"));
        }
    }
    let untouched = content(there);
    let two = here.part(0, 2).expect("inside");
    expect("a put outside", put(rig, two, &key, 4095, Some(1))?, Err(AccessError::OutOfBounds))?;
    rig.settle()?;
    match content(there) == untouched && rig.inboxes[1].notices.len() == 25 {
        true => Ok(()),
        false => Err("a put outside wrote or told something".to_owned()),
    }
}

/// Keys that were withdrawn, or that nobody made, open nothing.
pub(super) fn keys<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    let limits = rig.limits();
    if limits.get_bytes_max == 0 && limits.put_bytes_max == 0 {
        return Ok(());
    }
    let try_key = |rig: &mut Rig<G>, key: &RemoteKey, here: Lent| {
        if limits.get_bytes_max > 0 { get(rig, key, 0, here) } else { put(rig, here, key, 0, None) }
    };
    let (there, here) = (rig.memory(1, 64), rig.memory(0, 64));
    let mut old = Vec::new();
    for _ in 0..20 {
        let key = export(rig, 1, there)?;
        let travelled = RemoteKey::from_bytes(key.to_bytes());
        expect("a good key", try_key(rig, &travelled, here)?, Ok(0))?;
        for stale in &old {
            expect("a key that was withdrawn", try_key(rig, stale, here)?, Err(AccessError::Stale))?;
        }
        let forged = RemoteKey { cookie: [key.cookie[0], key.cookie[1].wrapping_add(1)], ..key };
        expect("a key that nobody made", try_key(rig, &forged, here)?, Err(AccessError::Stale))?;
        let longer = RemoteKey { bytes: 1 << 20, ..key };
        expect("a key with another length", try_key(rig, &longer, here)?, Err(AccessError::Stale))?;
        rig.group.transport(Rank(1)).withdraw(&key);
        old.push(key);
    }
    let of_another = rig.memory(2, 64);
    let key = export(rig, 2, of_another)?;
    expect("a key of another rank", try_key(rig, &key, here)?, Err(AccessError::Stale))
}

pub(super) fn atomics<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    if !rig.limits().atomics {
        return Ok(());
    }
    let there = rig.memory(1, 64);
    let key = export(rig, 1, there)?;
    let mut found = Vec::new();
    for _ in 0..100 {
        let me = [0, 2, 3][rig.below(3)];
        found.push(fetch_add(rig, me, &key, 8, 3)?.map_err(|error| error.to_string())?);
    }
    if found != (0..100).map(|at| at * 3).collect::<Vec<_>>() {
        return Err(format!("fetching adds of 3 found {found:?}"));
    }
    let swapped = rig.access(2, 1, |end, token| end.swap(&key, 8, u64::MAX, token), |found| found)?;
    expect("a swap", swapped, Ok(300))?;
    expect("an add that wraps around", fetch_add(rig, 0, &key, 8, 2)?, Ok(u64::MAX))?;
    expect("the sum", fetch_add(rig, 0, &key, 8, 0)?, Ok(1))?;
    expect("beside the word", fetch_add(rig, 0, &key, 0, 0)?, Ok(0))?;
    expect("an odd word", fetch_add(rig, 0, &key, 4, 1)?, Err(AccessError::Misaligned))?;
    for outside in [57, 60, 64, u64::MAX] {
        expect("a word outside", fetch_add(rig, 0, &key, outside, 1)?, Err(AccessError::OutOfBounds))?;
    }
    Ok(())
}

/// Memory that can be loaded from is the memory that was exported, for as long as the key is good.
pub(super) fn map<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    let there = rig.memory(1, 64);
    let Ok(key) = rig.group.transport(Rank(1)).export(there) else { return Ok(()) };
    let Some(mapped) = rig.endpoint(0, 1)?.map(&key) else { return Ok(()) };
    there.write(0, &pattern(5, 64));
    if mapped.bytes() != 64 || content(mapped) != pattern(5, 64) {
        return Err("what is mapped is not what was exported".to_owned());
    }
    rig.group.transport(Rank(1)).withdraw(&key);
    match rig.endpoint(0, 1)?.map(&key) {
        None => Ok(()),
        Some(_) => Err("a key that was withdrawn maps memory".to_owned()),
    }
}

/// Whatever is under way when a path goes down ends before that is told.
pub(super) fn under_way_when_down<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    if rig.limits().get_bytes_max == 0 {
        return Ok(());
    }
    let (there, here) = (rig.memory(1, 64), rig.memory(0, 64));
    let key = export(rig, 1, there)?;
    let mut under_way: Vec<Token> = Vec::new();
    for _ in 0..rig.limits().outstanding_max {
        let token = rig.token(1);
        if let Ok(Poll::Pending) = rig.endpoint(0, 1)?.get(&key, 0, here, token) {
            under_way.push(token);
        }
    }
    if !rig.group.end(Rank(1), Down::Died) {
        return Ok(());
    }
    rig.settle_until(|rig| !rig.inboxes[0].downs.is_empty())?;
    if !rig.inboxes[0].downs.contains_key(&1) {
        return Err("rank 0 is not told that rank 1 died".to_owned());
    }
    for token in under_way {
        // An end that came after the path's would have been seen as it came.
        match rig.inboxes[0].completed.get(&token) {
            Some(Ok(_) | Err(AccessError::Down)) => {}
            other => return Err(format!("{token:?} was under way when the path went down: {other:?}")),
        }
    }
    let after = get(rig, &key, 0, here)?;
    expect("a get after the end", after, Err(AccessError::Down))
}
