//! Full paths, sleepers, and paths that end.

use super::messages::first_came;
use super::rig::{Group, Rig};
use crate::seam::{Down, Refused, Sleeper, Transport};
use castell_base::Rank;

/// More messages than any path may hold: what holds this many grows without bound.
const BOUND: usize = 100_000;

pub(super) fn full_and_room<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    let bytes = rig.limits().message_bytes_max.min(64);
    for turn in 0..20 {
        let rooms = rig.inboxes[0].rooms.get(&1).copied().unwrap_or(0);
        let mut refused = false;
        for _ in 0..BOUND {
            match rig.send(0, 1, bytes)? {
                Ok(()) => {}
                Err(Refused::Down) => return Err("the path is down, nobody ended it".to_owned()),
                Err(Refused::Full) => {
                    refused = true;
                    break;
                }
            }
        }
        if !refused {
            return Err(format!("{BOUND} messages that nobody polls were taken: there is no bound"));
        }
        // A path that is full delays no other.
        if turn % 4 == 0 {
            let sent = rig.send(0, 2, 8.min(bytes))?;
            rig.flush(0, 2)?;
            let all = rig.sent.get(&(0, 2)).map_or(0, |sent| *sent as usize);
            rig.settle_until(|rig| rig.inboxes[2].from(0).len() >= all)?;
            if sent.is_ok() && !rig.limits().delivery.loses && rig.inboxes[2].from(0).len() < all {
                return Err("a message to rank 2 waits for rank 1 to poll".to_owned());
            }
        }
        rig.flush(0, 1)?;
        rig.settle()?;
        let told = rig.inboxes[0].rooms.get(&1).copied().unwrap_or(0) > rooms;
        if told != rig.limits().tells_room {
            return Err(format!("room is {}told after a refusal", if told { "" } else { "not " }));
        }
        rig.send_surely(0, 1, bytes)?;
    }
    rig.settle()?;
    let sent = rig.sent[&(0, 1)];
    first_came(rig, 0, 1, sent)
}

pub(super) fn wake<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    // What is sent later may be found by an endpoint's first use, too.
    rig.send_surely(0, 1, 0)?;
    rig.settle()?;
    let loses = rig.limits().delivery.loses;
    for round in 0..200 {
        if rig.watch(1).is_none() {
            return Err("nothing is there to poll, and arming says that there is".to_owned());
        }
        let bytes = round % (rig.limits().message_bytes_max.min(40) + 1);
        let wakes = rig.is_woken_by(1, |rig| {
            rig.send_surely(0, 1, bytes)?;
            rig.flush(0, 1)
        })?;
        if !wakes && !loses {
            return Err(format!("round {round}: a message was flushed, and who sleeps is not woken"));
        }
        if !loses && rig.watch(1).is_some() && rig.poll(1, 1)? > 0 {
            return Err(format!(
                "round {round}: arming says that nothing is there, and a poll finds something"
            ));
        }
        rig.group.transport(Rank(1)).disarm(Sleeper::Waiter);
        rig.settle()?;
    }
    let sent = rig.sent[&(0, 1)];
    first_came(rig, 0, 1, sent)
}

pub(super) fn down<G: Group>(rig: &mut Rig<G>, why: Down) -> Result<(), String> {
    let bytes = rig.limits().message_bytes_max.min(24);
    for (from, to) in [(2, 0), (2, 1), (0, 1), (1, 0), (0, 2)] {
        for _ in 0..5 {
            rig.send_surely(from, to, bytes)?;
        }
        rig.flush(from, to)?;
    }
    if !rig.group.end(Rank(2), why) {
        return Ok(());
    }
    let told: &[u32] = if why == Down::PathLost { &[0] } else { &[0, 1] };
    rig.settle_until(|rig| told.iter().all(|&rank| rig.inboxes[rank as usize].downs.contains_key(&2)))?;
    rig.settle()?;
    for rank in 0..2u32 {
        let down = rig.inboxes[rank as usize].downs.get(&2).copied();
        if down.map(|(_, why)| why) != told.contains(&rank).then_some(why) {
            return Err(format!("rank 2: {why:?}; rank {rank} was told {down:?}"));
        }
        if why == Down::Left {
            first_came(rig, 2, rank, 5)?;
        }
        if told.contains(&rank) {
            closed(rig, rank, 2, bytes)?;
        }
    }
    if why == Down::PathLost && !rig.inboxes[2].downs.contains_key(&0) {
        return Err("rank 2 is not told that the path to rank 0 is lost".to_owned());
    }
    // The others go on.
    for (from, to) in [(0, 1), (1, 0)] {
        rig.send_surely(from, to, bytes)?;
    }
    rig.settle()?;
    first_came(rig, 0, 1, 6)?;
    first_came(rig, 1, 0, 6)?;
    match rig.inboxes[0].downs.len() + rig.inboxes[1].downs.len() {
        ends if ends == told.len() => Ok(()),
        ends => Err(format!("{ends} paths are told to be down, {} are", told.len())),
    }
}

/// Who was told that a path is down can send so much there as no longer finds out, and no more.
fn closed<G: Group>(rig: &mut Rig<G>, from: u32, to: u32, bytes: usize) -> Result<(), String> {
    for _ in 0..BOUND {
        match rig.send(from, to, bytes)? {
            Ok(()) => {}
            Err(Refused::Down) => return Ok(()),
            Err(Refused::Full) => {
                return Err(format!("the path from {from} to {to} is down, and said to be full"));
            }
        }
    }
    Err(format!("rank {from} was told that the path to rank {to} is down, and sends there for ever"))
}
