//! Messages: each once, in order, whole, whatever its length and whoever else sends.

use super::rig::{Group, Rig, is_reliable};

/// What came of what `from` sent to `to` is what the limits promise. (Order and doubles are looked at as they come.)
fn all_came<G: Group>(rig: &Rig<G>, from: u32, to: u32) -> Result<(), String> {
    let sent = rig.sent.get(&(from, to)).copied().unwrap_or(0);
    let mut came = rig.inboxes[to as usize].from(from).to_vec();
    came.sort_unstable();
    came.dedup();
    if let Some(strange) = came.iter().find(|sequence| **sequence >= sent) {
        return Err(format!("message {strange} of rank {from} came; {sent} were sent"));
    }
    let delivery = rig.limits().delivery;
    if !delivery.loses && came.len() != sent as usize {
        let lost = (0..sent).find(|sequence| came.binary_search(sequence).is_err()).unwrap_or(sent);
        return Err(format!("of {sent} messages from rank {from} to rank {to}, number {lost} is lost"));
    }
    if delivery.loses && sent > 100 && came.is_empty() {
        return Err(format!("none of {sent} messages from rank {from} to rank {to} came"));
    }
    Ok(())
}

fn some_length<G: Group>(rig: &mut Rig<G>) -> usize {
    let longest = rig.limits().message_bytes_max;
    match rig.below(4) {
        0 => 8.min(longest),
        1 => rig.below(longest.min(32) + 1),
        2 => rig.below(longest.min(512) + 1),
        _ => rig.below(longest + 1),
    }
}

pub(super) fn order<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    for _ in 0..3000 {
        let (from, to) = if rig.below(4) == 0 { (1, 0) } else { (0, 1) };
        if rig.below(10) < 6 {
            let bytes = some_length(rig);
            // Full: the other polls at some time.
            let _ = rig.send(from, to, bytes)?;
        } else {
            rig.flush(from, to)?;
            let budget = rig.below(6);
            rig.poll(to, budget)?;
        }
    }
    rig.settle()?;
    all_came(rig, 0, 1)?;
    all_came(rig, 1, 0)
}

pub(super) fn sizes<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    let longest = rig.limits().message_bytes_max;
    let powers = (0..usize::BITS).map(|bit| 1usize << bit).flat_map(|power| [power - 1, power, power + 1]);
    let mut lengths: Vec<usize> = (0..=200).chain(powers).filter(|bytes| *bytes <= longest).collect();
    // The longest again and again, moved around by others.
    lengths.extend((0..20).flat_map(|odd| [longest, odd.min(longest), longest.saturating_sub(1)]));
    for bytes in lengths {
        rig.send_surely(0, 1, bytes)?;
    }
    rig.settle()?;
    all_came(rig, 0, 1)
}

pub(super) fn many_peers<G: Group>(rig: &mut Rig<G>) -> Result<(), String> {
    let ranks = rig.ranks as usize;
    for _ in 0..3000 {
        let (from, to) = (rig.below(ranks) as u32, rig.below(ranks) as u32);
        if from != to && rig.below(3) > 0 {
            let bytes = some_length(rig).min(256);
            let _ = rig.send(from, to, bytes)?;
            rig.flush(from, to)?;
        } else {
            rig.poll(to, 4)?;
        }
    }
    rig.settle()?;
    let pairs: Vec<_> = rig.sent.keys().copied().collect();
    pairs.into_iter().try_for_each(|(from, to)| all_came(rig, from, to))
}

/// Exactly the first `sent` messages came, if the transport promises as much.
pub(super) fn first_came<G: Group>(rig: &Rig<G>, from: u32, to: u32, sent: u32) -> Result<(), String> {
    if is_reliable(&rig.limits()) && rig.inboxes[to as usize].from(from).len() != sent as usize {
        let came = rig.inboxes[to as usize].from(from).len();
        return Err(format!("of {sent} messages from rank {from} to rank {to}, {came} came"));
    }
    Ok(())
}
