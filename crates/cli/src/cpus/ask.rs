//! Who is asked for workers: whoever keeps the program's session, else the program itself.

use crate::session::allocation;
use castell_agent::{AgentError, Place, list, mark_of, named_in, steer};
use castell_host::mailbox::Agent;
use castell_policy::session::protocol::{FromAgent, Shown, ToAgent};
use std::time::Duration;

/// Takes workers away and gives others back; returns a sentence for each thing that was not done.
pub(super) fn change(
    program: &Agent,
    take: &[u32],
    give: &[u32],
    place: &Place,
    patience: Duration,
) -> anyhow::Result<Vec<String>> {
    program.hold(take, give)?;
    let session = count(program, place)?;
    let request = match session {
        // It has asked the program already; who is answered now has been heard after that.
        Some(_) => program.ask(&[], &[])?,
        None => program.ask(take, give)?,
    };
    program.wait(request, patience)?;
    let workers = program.workers();
    let of = |numbers: &[u32], enabled: bool| -> Vec<u32> {
        numbers.iter().copied().filter(|&worker| workers[worker as usize].enabled == enabled).collect()
    };
    let (kept, without) = (of(take, true), of(give, false));
    program.hold(&[], &kept)?;
    let words = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let mut left = Vec::new();
    if !kept.is_empty() {
        left.push(format!(
            "refused, the last of its kind (or given back meanwhile): worker {}",
            words(&kept)
        ));
    }
    if !without.is_empty() {
        left.push(match session {
            Some(session) => format!(
                "session {session} has no processor for it now, and it runs when there is one: worker {}",
                words(&without)
            ),
            None => format!("taken away again meanwhile: worker {}", words(&without)),
        });
    }
    Ok(left)
}

/// Has whoever keeps the program's session count its workers again, and gives the session's number; none if it is of no session that
/// anybody keeps.
fn count(program: &Agent, place: &Place) -> anyhow::Result<Option<u64>> {
    let Some(mark) = mark_of(program.owner() as i32) else { return Ok(None) };
    match steer(place, allocation()?.as_ref(), &[ToAgent::Count { mark }]) {
        Ok(FromAgent::Ordered { session, .. }) => Ok(session.map(|shown| shown.session)),
        Ok(_) | Err(AgentError::Refused(_) | AgentError::NoSessions { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// All sessions; none where nobody keeps any.
pub(super) fn sessions(place: &Place) -> anyhow::Result<Vec<Shown>> {
    match list(place, allocation()?.as_ref())? {
        Some(FromAgent::Sessions { sessions, .. }) => Ok(sessions),
        _ => Ok(Vec::new()),
    }
}

/// The session of a process, if it is of one of these.
pub(super) fn session_of(process: u32, sessions: &[Shown]) -> Option<u64> {
    let runner = named_in(&mark_of(process as i32)?)?;
    sessions.iter().find(|shown| shown.pid == runner).map(|shown| shown.session)
}
