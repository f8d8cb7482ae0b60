//! What every transport has to keep, as tests that any of them runs.
//!
//! A transport's tests make groups of ranks ([`Group`]) and hand them to [`check`]. The suite knows a transport only by its
//! interface and by what it says of itself; what it can't do isn't asked for, but it must say so truthfully. Each case runs
//! in one thread, polls ranks in an order that the seed says, and gives up after a stated number of polls, so that a
//! transport that loses something fails and doesn't hang.

mod flow;
mod messages;
mod onesided;
mod rig;

pub use rig::Group;

use crate::Down;
use rig::Rig;

/// A rule that a transport broke.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{case}` fails with seed {seed}: {what}")]
pub struct Broken {
    /// The case.
    pub case: &'static str,
    /// With which it fails again.
    pub seed: u64,
    /// What was seen instead of what was promised.
    pub what: String,
}

/// A case: how many ranks it needs, and what it does with them.
struct Case<G: Group> {
    name: &'static str,
    ranks: u32,
    run: fn(&mut Rig<G>) -> Result<(), String>,
}

const fn case<G: Group>(
    name: &'static str,
    ranks: u32,
    run: fn(&mut Rig<G>) -> Result<(), String>,
) -> Case<G> {
    Case { name, ranks, run }
}

fn cases<G: Group>() -> Vec<Case<G>> {
    vec![
        case("order", 2, messages::order),
        case("sizes", 2, messages::sizes),
        case("many peers", 9, messages::many_peers),
        case("limits", 2, onesided::limits),
        case("full and room", 3, flow::full_and_room),
        case("wake", 2, flow::wake),
        case("died", 3, |rig| flow::down(rig, Down::Died)),
        case("left", 3, |rig| flow::down(rig, Down::Left)),
        case("path lost", 3, |rig| flow::down(rig, Down::PathLost)),
        case("get", 2, onesided::get_case),
        case("put", 2, onesided::put_case),
        case("keys", 3, onesided::keys),
        case("atomics", 4, onesided::atomics),
        case("map", 2, onesided::map),
        case("under way when down", 2, onesided::under_way_when_down),
    ]
}

/// The names of the cases, in the order in which they run.
pub fn names<G: Group>() -> impl Iterator<Item = &'static str> {
    cases::<G>().into_iter().map(|case| case.name)
}

/// Runs one case with groups from `make`, which is told how many ranks are needed.
///
/// # Errors
/// The rule that is broken.
///
/// # Panics
/// If no case has that name.
pub fn check_case<G: Group>(name: &str, seed: u64, make: &mut impl FnMut(u32) -> G) -> Result<(), Broken> {
    let case = cases().into_iter().find(|case| case.name == name).expect("a case of that name");
    let mut rig = Rig::new(make(case.ranks), case.ranks, seed);
    let outcome = (case.run)(&mut rig).and_then(|()| rig.no_rule_is_broken());
    outcome.map_err(|what| Broken { case: case.name, seed, what })
}

/// Runs all cases.
///
/// # Errors
/// The first rule that is broken.
pub fn check<G: Group>(seed: u64, mut make: impl FnMut(u32) -> G) -> Result<(), Broken> {
    names::<G>().try_for_each(|name| check_case(name, seed, &mut make))
}
