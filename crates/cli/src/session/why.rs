//! What the policy makes of a session: why it waits, or what it shares.

use super::words::count_processors;
use castell_host::topology::print_list;
use castell_policy::session::protocol::{Explained, Part};
use castell_policy::session::{Policy, Rules};
use std::collections::BTreeSet;

/// In a sentence; none where there is nothing to say.
pub fn of(explained: &Explained) -> Option<String> {
    let policy = explained.policy.parse::<Rules>().ok()?.policy;
    match &*explained.shown.state {
        "waiting" => Some(waits(explained, policy)),
        "suspended" => Some("others have its processors; it goes on when they are free".into()),
        "running" => Some(runs(explained, policy)),
        _ => None,
    }
}

fn waits(explained: &Explained, policy: Policy) -> String {
    let Explained { shown, online, gone, of_other_users, before, held_back, .. } = explained;
    let missing: Vec<u32> = match &shown.cpus {
        Some(named) => named.cpus.iter().copied().filter(|cpu| gone.contains(cpu)).collect(),
        None => Vec::new(),
    };
    if !missing.is_empty() {
        return format!(
            "processors {}, which it has named, were taken away; it waits until they are back, and holds up nobody",
            print_list(&missing)
        );
    }
    if u64::from(shown.slots) > *online {
        return format!(
            "it wants more processors than are left ({online}) since some were taken away; it waits until they are back, and holds up nobody"
        );
    }
    if policy.shares() && *of_other_users > 0 && held_back.is_empty() {
        return format!(
            "other users have {}, and users share none here (castell daemon --share-users lets them); it waits until enough of the others can be had",
            count_processors(*of_other_users)
        );
    }
    let said = match policy {
        _ if !held_back.is_empty() => "there would be processors, but somebody would be slowed down too much",
        Policy::Wait if before.is_empty() && shown.cpus.is_some() => {
            "it waits until the processors that it has named are free"
        }
        Policy::Wait if before.is_empty() => "it waits until enough processors are free",
        Policy::Wait => "who comes first goes first, unless that delays nobody or not too often",
        Policy::Surpass => {
            "it may suspend who came earlier with no higher priority, unless others have done so too often"
        }
        Policy::Overbook | Policy::Sidestep if shown.memory.is_some() => {
            "as many as may share a processor do so already, or there is too little memory"
        }
        Policy::Overbook | Policy::Sidestep => "as many as may share a processor do so already",
        Policy::GiveWay => {
            "it may suspend who needs at least sixteen times as long as its own estimate and is not due yet"
        }
    };
    said.to_owned()
}

fn runs(explained: &Explained, policy: Policy) -> String {
    let Explained { shown, gone, home, holders, .. } = explained;
    let (own, now) = (all(home), all(&shown.parts));
    let here: BTreeSet<u32> = gone.iter().copied().collect();
    // Of other nodes nobody says what was taken away.
    let lost: Vec<u32> = own
        .iter()
        .filter(|(_, cpu)| !now.iter().any(|(_, on)| on == cpu) && here.contains(cpu))
        .map(|(_, cpu)| *cpu)
        .collect();
    let others = if holders.is_empty() { "alone" } else { "together with others" };
    if !lost.is_empty() {
        let lost = print_list(&lost);
        return match now.is_subset(&own) {
            true => format!("processors {lost} of its own were taken away; it has the others {others}"),
            false => format!("its processors {lost} were taken away; it is on those that are left {others}"),
        };
    }
    if own != now {
        let homes = home.iter().map(|part| print_list(&part.cpus)).collect::<Vec<_>>().join(" ");
        return format!("it has stepped aside: who came later has some of its processors {homes}");
    }
    let said = match policy {
        _ if holders.is_empty() => "it has its processors alone",
        Policy::Surpass | Policy::GiveWay => "it runs in the place of others",
        // Those that had them are elsewhere.
        Policy::Sidestep => {
            "it has its processors alone: others have stepped aside, unless they had nowhere to go"
        }
        Policy::Wait | Policy::Overbook => "it shares processors with others",
    };
    said.to_owned()
}

/// All processors, with their nodes.
fn all(parts: &[Part]) -> BTreeSet<(&str, u32)> {
    parts.iter().flat_map(|part| part.cpus.iter().map(|cpu| (&*part.node, *cpu))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A session that wants two processors, with what is different.
    fn said(policy: &str, state: &str, parts: &[u32], more: &[(&str, serde_json::Value)]) -> String {
        let part = |cpus: &[u32]| json!([{"node": "n", "cpus": cpus, "slots": 2}]);
        let mut explained = json!({
            "shown": {
                "session": 2, "state": state, "stopped": false, "paused": false, "awaited": false, "for_ms": 7, "slots": 2, "cpus": null,
                "priority": 0, "parts": part(parts), "slowdown": null, "slowdown_max": null, "pinned_by": "cpuset",
                "stopped_by": "freezer", "memory": null, "pid": 5, "user": "alice", "command": "ls"
            },
            "policy": policy, "estimate_ms": null, "ran_ms": 0, "free": 0, "offline": 0, "online": 4, "of_other_users": 0, "gone": [],
            "home": part(&[0, 1]), "before": [], "holders": [], "beside": [], "held_back": [], "begins_in_ms": null,
            "suspensions": 0, "suspended_by": [], "stops": 0
        });
        for (key, value) in more {
            *explained.pointer_mut(key).expect("a key") = value.clone();
        }
        let explained: Explained = serde_json::from_value(explained).expect("an explanation");
        of(&explained).expect("there is something to say")
    }

    #[test]
    fn which_it_is_is_said() {
        let other = (
            "/holders",
            json!([{"session": 1, "state": "running", "slots": 1, "left_ms": null, "command": "x"}]),
        );
        let gone = |cpus: &[u32]| [("/gone", json!(cpus)), ("/online", json!(4 - cpus.len()))];
        assert_eq!(said("overbook", "running", &[0, 1], &[]), "it has its processors alone");
        assert_eq!(
            said("overbook", "running", &[0, 1], std::slice::from_ref(&other)),
            "it shares processors with others"
        );
        assert!(
            said("sidestep", "running", &[0, 1], std::slice::from_ref(&other))
                .starts_with("it has its processors alone")
        );
        assert_eq!(
            said("sidestep", "running", &[2], std::slice::from_ref(&other)),
            "it has stepped aside: who came later has some of its processors 0-1"
        );
        assert_eq!(
            said("overbook", "running", &[0], &gone(&[1])),
            "processors 1 of its own were taken away; it has the others alone"
        );
        let [one, two] = gone(&[0, 1]);
        assert_eq!(
            said("wait", "running", &[2, 3], &[one, two, other]),
            "its processors 0-1 were taken away; it is on those that are left together with others"
        );
    }

    #[test]
    fn who_waits_hears_what_for() {
        let taken = [("/gone", json!([1, 2, 3])), ("/online", json!(1))];
        let said_of = |policy| said(policy, "waiting", &[], &taken);
        assert!(said_of("overbook").contains("more processors than are left (1)"), "{}", said_of("overbook"));
        let mut named = taken.to_vec();
        named.push(("/shown/cpus", json!({"node": null, "cpus": [0, 2]})));
        assert!(
            said("wait", "waiting", &[], &named)
                .starts_with("processors 2, which it has named, were taken away")
        );
        assert_eq!(said("overbook", "waiting", &[], &[]), "as many as may share a processor do so already");
        let of_others = said("overbook", "waiting", &[], &[("/of_other_users", json!(2))]);
        assert!(of_others.starts_with("other users have 2 processors, and users share none"), "{of_others}");
        let memory = ("/shown/memory", json!({"bytes": 5, "limited": false, "because": null}));
        assert!(said("overbook", "waiting", &[], &[memory]).contains("too little memory"));
    }
}
