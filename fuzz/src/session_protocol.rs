//! What has to hold for any bytes that are said to an agent that keeps sessions: the fuzz target asserts it, and so does a quick test
//! of `castell-policy`.

use castell_policy::session::protocol::{
    FromAgent, FromKeeper, LINE_BYTES_MAX, Lines, Order, ToAgent, ToKeeper, decode, encode,
};
use castell_policy::session::{
    Cluster, Event, Foreseen, Needs, Policy, Rules, Scheduler, SessionId, Shape, Slowdown,
};

/// The message of this type that a line is, if it is one; written it is the same again.
macro_rules! read_as_written {
    ($message:ty, $line:expr) => {
        decode::<$message>(&$line).ok().inspect(|message| {
            assert_eq!(decode(encode(message).trim_ascii_end()).as_ref(), Ok(message));
        })
    };
}

/// Whatever is said to an agent is refused or a message, which is written as it was read; and no order of messages breaks the
/// scheduler.
pub fn anything_said(bytes: &[u8]) {
    let policy = match bytes.first().map_or(0, |byte| byte % 5) {
        0 => Policy::Wait,
        1 => Policy::Surpass,
        2 => Policy::Overbook,
        3 => Policy::Sidestep,
        _ => Policy::GiveWay,
    };
    let cluster = Cluster::uniform(2, Shape::flat(8)).expect("there is something to run on");
    let rules = Rules::new(policy);
    let (mut lines, mut scheduler, mut sessions) = (Lines::default(), Scheduler::new(cluster, rules), 0);
    let mut foreseen = Foreseen::new();
    foreseen.set("aa", "aa", Slowdown::of_factor(1.5));
    scheduler.handle(0, Event::Foreseen(foreseen)).expect("nobody is concerned");
    for part in bytes.chunks(7) {
        if lines.push(part).is_err() {
            assert!(bytes.len() > LINE_BYTES_MAX);
            return;
        }
        while let Some(line) = lines.next_line() {
            read_as_written!(FromAgent, line);
            read_as_written!(FromKeeper, line);
            read_as_written!(ToKeeper, line);
            let Some(message) = read_as_written!(ToAgent, line) else { continue };
            let event = match message {
                ToAgent::Run(wanted) => {
                    sessions += 1;
                    Event::Request(
                        SessionId(sessions),
                        wanted
                            .request(wanted.cpus.as_ref().map_or_else(Vec::new, |named| named.cpus.clone())),
                    )
                }
                ToAgent::Order { session, order } => {
                    let id = SessionId(session);
                    match order {
                        Order::Stop {} => Event::Stop(id),
                        Order::Resume {} => Event::Resume(id),
                        Order::End {} => Event::End(id),
                        Order::Priority { priority } => Event::Priority(id, priority),
                        Order::Estimate { estimate_ms } => Event::Estimate(id, estimate_ms),
                        Order::Needs { slots, cpus, memory_bytes } => {
                            let named = cpus.map_or_else(Vec::new, |named| named.cpus);
                            let processes = slots.unwrap_or(named.len() as u32);
                            let memory_bytes = memory_bytes.unwrap_or_default();
                            Event::Needs(id, Needs { processes, slots: named, memory_bytes })
                        }
                        Order::SlowdownMax { slowdown_max } => Event::SlowdownMax(Some(id), slowdown_max),
                    }
                }
                ToAgent::Policy { policy } => match policy.parse() {
                    Ok(rules) => Event::Rules(rules),
                    Err(_) => continue,
                },
                ToAgent::SlowdownMax { slowdown_max } => Event::SlowdownMax(None, slowdown_max),
                ToAgent::Explain { session } => {
                    let id = SessionId(session);
                    assert_eq!(scheduler.explain(sessions, id).is_some(), scheduler.state(id).is_some());
                    continue;
                }
                // The oldest one.
                ToAgent::Ended {} => {
                    match (1..=sessions).find(|id| scheduler.state(SessionId(*id)).is_some()) {
                        Some(id) => Event::End(SessionId(id)),
                        None => continue,
                    }
                }
                _ => continue,
            };
            let now = sessions;
            let _ = scheduler.handle(now, event);
        }
    }
    for id in (1..=sessions).map(SessionId) {
        if scheduler.state(id).is_some() {
            scheduler.handle(sessions, Event::End(id)).expect("who is there can end");
        }
    }
    assert_eq!(scheduler.counts(), [0; 3]);
}
