//! Agents whose books were changed by others.

use super::{World, agent, moves, signal, stand_still, wait, wait_for};
use castell_policy::session::protocol::{Order, Shown};
use rustix::process::Signal;
use std::fs;

fn known(shown: &Shown) -> (u64, String, u32, Vec<u32>) {
    let cpus = shown.parts.iter().flat_map(|part| part.cpus.clone()).collect();
    (shown.session, shown.state.clone(), shown.pid, cpus)
}

/// An agent is killed, its books are rubbish, and the next one has all sessions as they were.
fn lose(world: &World) {
    let before = world.sessions();
    let first = agent(&world.place.socket);
    signal(first, Signal::STOP);
    fs::write(world.place.socket.with_extension("books"), "garbage").expect("a file");
    signal(first, Signal::KILL);
    wait_for("there is another agent", || world.sessions().len() == before.len());
    let after = world.sessions();
    assert_eq!(after.iter().map(known).collect::<Vec<_>>(), before.iter().map(known).collect::<Vec<_>>());
    assert!(world.place.socket.with_extension("broken").exists(), "for people who want to know why");
}

pub(super) fn runners_know_what_they_have(world: &World) {
    let long = world.stubborn("surpass");
    let short = world.until_told("surpass");
    wait_for("the short one runs", || world.started());
    stand_still(&long);
    lose(world);
    stand_still(&long);
    let third = world.start("surpass", world.slots, "sleep 0.1; exit 5");
    assert_eq!(wait(third), Some(5), "it surpasses both, and ends");
    lose(world);
    world.tell();
    assert_eq!(wait(short), Some(7));
    wait_for("the long one runs again", || world.states() == ["running"]);
    moves(&long);
}

pub(super) fn who_was_stopped_or_stepped_aside_stays_so(world: &World) {
    if world.slots < 2 {
        super::skipped::skip("one-processor", "nobody can step aside");
        return;
    }
    let long = world.stubborn("sidestep");
    let short = world.until_told("sidestep");
    wait_for("the short one runs", || world.started());
    wait_for("the long one is aside", || world.sessions()[0].parts[0].cpus.len() < world.slots);
    assert_eq!(world.order(1, Order::Stop {}).as_deref(), Some("suspended"));
    lose(world);
    stand_still(&long);
    assert_eq!(world.order(1, Order::Resume {}).as_deref(), Some("running"));
    world.tell();
    assert_eq!(wait(short), Some(7));
    wait_for("it is back", || world.sessions()[0].parts[0].cpus.len() == world.slots);
    moves(&long);
}
