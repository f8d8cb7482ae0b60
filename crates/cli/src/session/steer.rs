//! `castell session stop`, `resume`, `end`, `set` and `explain`.

use super::allocation::allocation;
use super::run::{PlaceArgs, line, named, width};
use super::why;
use super::words::{bytes, count_processors, memory, number, time};
use crate::launch::parse_duration;
use anyhow::{Context as _, bail};
use castell_agent::{Allocation, Place, steer, until_found};
use castell_policy::session::protocol::{
    Beside, Explained, FromAgent, HeldBack, Holder, Memory, Named, Order, Predicted, Shown, ToAgent,
};
use castell_policy::session::{NoSlowdown, Rules, Slowdown};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

const STOP_EXAMPLES: &str = "\
Examples:
  castell session stop 2          session 2 stands still, with all of its processes
  castell session resume 2        it goes on
  castell session stop 3 --json   as `session list --json` shows it

A session that its user has stopped stands still whatever the policy says, until it is resumed; one that waits does not start. Under
surpass and give-way its processors can be had meanwhile as those of a session that the policy has suspended, and when it is resumed it
suspends whom it may, or waits until they are free. Under wait, overbook and sidestep it keeps them, as with Ctrl-Z. It keeps its memory.
The command returns when the session stands still.";

const RESUME_EXAMPLES: &str = "\
Examples:
  castell session resume 2        what `castell session stop 2` has stopped
  castell session resume 2 --json

Where the policy has given its processors to others meanwhile, it suspends them if it may, or else goes on when they are free.
A session whose runner was stopped by Ctrl-Z is continued where it was started (fg), or with `kill -CONT`.";

const END_EXAMPLES: &str = "\
Examples:
  castell session end 2           asks all of its processes to end, and kills what is left after five seconds
  castell session end 2 --json

A session that waits gives up. The command returns when nothing is left of the session.";

const SET_EXAMPLES: &str = "\
Examples:
  castell session set 3 --priority 5        takes its turn before all of a lower one
  castell session set 3 --estimate 20m      takes 20 minutes of running in all, at most
  castell session set 3 --no-estimate       nobody knows
  castell session set 3 --max-slowdown 1.2  does not start beside others where one would be slowed down by more; `any` for no limit
  castell session set 3 --slots 2           wants two processors; one that runs gets free ones of its nodes, or gives some up
  castell session set 3 --cpus 0,2-3        wants exactly these; one that runs moves there, if they are free
  castell session set 3 --memory 1.5G             needs so much memory; one that runs may not have more then, where it is limited
  castell session set --max-slowdown 1.2    the same for all sessions that say nothing of their own
  castell session set --policy sidestep     another policy for all sessions, as they are

Another policy is refused where it would not allow what there is: sessions that share processors under wait, surpass and give-way, or more
of them than may share under overbook and sidestep. Whoever is suspended goes on under policies that suspend nobody, and how often those that
wait were overtaken is counted anew. A higher priority gets a session that waits started; one that is suspended goes on when its processors
are free.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  castell session explain 3          why it waits, and who has what it wants; or where it runs
  castell session explain 3 --json

When it begins follows from the estimates, if nobody comes and all take as long as they have said: where somebody said nothing, or has taken
longer, it is not known.";

/// Stop a session until it is resumed
#[derive(clap::Args)]
#[command(after_help = STOP_EXAMPLES)]
pub struct StopArgs {
    #[command(flatten)]
    one: One,
}

/// Let a stopped session go on
#[derive(clap::Args)]
#[command(after_help = RESUME_EXAMPLES)]
pub struct ResumeArgs {
    #[command(flatten)]
    one: One,
}

/// End a session
#[derive(clap::Args)]
#[command(after_help = END_EXAMPLES)]
pub struct EndArgs {
    #[command(flatten)]
    one: One,
}

/// Say why a session waits, or where it runs
#[derive(clap::Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArgs {
    #[command(flatten)]
    one: One,
}

#[derive(clap::Args)]
struct One {
    /// The session (see `list`)
    #[arg(value_name = "SESSION", value_parser = number)]
    session: u64,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Change a session's processors, memory, priority, estimate or limit, or the policy or limit of all
#[derive(clap::Args)]
#[command(after_help = SET_EXAMPLES)]
pub struct SetArgs {
    /// The session (see `list`)
    #[arg(value_name = "SESSION", value_parser = number, required_unless_present_any = ["policy", "max_slowdown"])]
    session: Option<u64>,
    /// The higher, the earlier
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    priority: Option<i32>,
    /// How long it takes at most, of running, from its start
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    estimate: Option<Duration>,
    /// Nobody knows how long it takes
    #[arg(long, conflicts_with = "estimate")]
    no_estimate: bool,
    /// So many processors, whichever they are. One that runs keeps its nodes, and others their processors: where too few are free this is refused
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slots: Option<u32>,
    /// Exactly these processors, as 0,2-3; in a batch job those of one node, as node2:0-1
    #[arg(long, value_name = "[NODE:]LIST", value_parser = named, conflicts_with = "slots")]
    cpus: Option<Named>,
    /// Memory that it needs, as 500M or 1.5G
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<u64>,
    /// By which factor it, and a session beside it, may be slowed down, by what the node's daemon has learned; any for no limit of its own. Without
    /// a session, that of all that say nothing of their own
    #[arg(long, value_name = "FACTOR|any", value_parser = limit)]
    max_slowdown: Option<Limit>,
    /// wait, surpass, overbook, sidestep or give-way, for all sessions
    #[arg(long, value_name = "POLICY", conflicts_with_all = ["session", "priority", "estimate", "no_estimate", "slots", "cpus", "memory"])]
    policy: Option<Rules>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `castell session stop`.
pub fn stop(args: StopArgs) -> anyhow::Result<ExitCode> {
    order(args.one, Order::Stop {})
}

/// `castell session resume`.
pub fn resume(args: ResumeArgs) -> anyhow::Result<ExitCode> {
    order(args.one, Order::Resume {})
}

/// `castell session end`.
pub fn end(args: EndArgs) -> anyhow::Result<ExitCode> {
    order(args.one, Order::End {})
}

/// Asks the agent, or the next one where sessions are between two.
fn ask(place: &Place, allocation: Option<&Allocation>, messages: &[ToAgent]) -> anyhow::Result<FromAgent> {
    until_found(place, allocation)?;
    Ok(steer(place, allocation, messages)?)
}

fn order(one: One, order: Order) -> anyhow::Result<ExitCode> {
    let orders = [ToAgent::Order { session: one.session, order }];
    report(one.session, &ask(&one.place.place()?, allocation()?.as_ref(), &orders)?, one.json)
}

/// `castell session set`.
pub fn set(args: SetArgs) -> anyhow::Result<ExitCode> {
    let (place, allocation) = (args.place.place()?, allocation()?);
    let Some(session) = args.session else {
        let is_for_one = args.slots.is_some() || args.cpus.is_some() || args.memory.is_some();
        if is_for_one || args.priority.is_some() || args.estimate.is_some() || args.no_estimate {
            bail!("which session? without one there are --policy and --max-slowdown");
        }
        let mut orders = Vec::new();
        orders.extend(args.policy.map(|rules| ToAgent::Policy { policy: rules.to_string() }));
        orders.extend(args.max_slowdown.map(|Limit(slowdown_max)| ToAgent::SlowdownMax { slowdown_max }));
        return all_are(&ask(&place, allocation.as_ref(), &orders)?, args.json);
    };
    let mut orders = Vec::new();
    orders.extend(args.priority.map(|priority| Order::Priority { priority }));
    orders.extend(args.estimate.map(|time| Order::Estimate { estimate_ms: Some(time.as_millis() as u64) }));
    orders.extend(args.no_estimate.then_some(Order::Estimate { estimate_ms: None }));
    orders.extend(args.max_slowdown.map(|Limit(slowdown_max)| Order::SlowdownMax { slowdown_max }));
    if args.slots.is_some() || args.cpus.is_some() || args.memory.is_some() {
        orders.push(Order::Needs { slots: args.slots, cpus: args.cpus, memory_bytes: args.memory });
    }
    if orders.is_empty() {
        bail!(
            "what is to be set? there are --slots, --cpus, --memory, --priority, --estimate, --no-estimate, --max-slowdown, and --policy for all sessions"
        );
    }
    let orders: Vec<ToAgent> = orders.into_iter().map(|order| ToAgent::Order { session, order }).collect();
    report(session, &ask(&place, allocation.as_ref(), &orders)?, args.json)
}

/// What holds for all sessions now.
fn all_are(answer: &FromAgent, as_json: bool) -> anyhow::Result<ExitCode> {
    let FromAgent::Ordered { policy, slowdown_max, .. } = answer else {
        bail!("the agent gave another answer")
    };
    match as_json {
        true => println!("{:#}", json!({"policy": policy, "slowdown_max": slowdown_max})),
        false => println!(
            "the sessions are under {policy}{}",
            slowdown_max.map_or_else(String::new, |most| format!(" (max-slowdown {most})"))
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// `any` is no limit.
#[derive(Clone, Copy, Debug)]
struct Limit(Option<Slowdown>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "any" => Ok(Limit(None)),
        factor => factor
            .parse()
            .map(|most| Limit(Some(most)))
            .map_err(|error: NoSlowdown| format!("{error}, or any")),
    }
}

/// How the session is now.
fn report(session: u64, answer: &FromAgent, as_json: bool) -> anyhow::Result<ExitCode> {
    match answer {
        FromAgent::Ordered { session: Some(shown), .. } if as_json => {
            println!("{:#}", serde_json::to_value(shown).context("a session as JSON")?);
        }
        FromAgent::Ordered { session: Some(shown), .. } => println!("{}", line(shown, width())),
        FromAgent::Ordered { session: None, .. } if as_json => {
            println!("{:#}", json!({"session": session, "state": "ended"}));
        }
        FromAgent::Ordered { session: None, .. } => println!("session {session} has ended"),
        _ => bail!("the agent gave another answer"),
    }
    Ok(ExitCode::SUCCESS)
}

/// `castell session explain`.
pub fn explain(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let One { session, place, json } = args.one;
    let answer = ask(&place.place()?, allocation()?.as_ref(), &[ToAgent::Explain { session }])?;
    let FromAgent::Explained(explained) = answer else { bail!("the agent gave another answer") };
    match json {
        true => println!("{:#}", serde_json::to_value(&*explained).context("an explanation as JSON")?),
        false => explanation(&explained).iter().for_each(|line| println!("{line}")),
    }
    Ok(ExitCode::SUCCESS)
}

/// In sentences, of which each is a line.
pub(crate) fn explanation(explained: &Explained) -> Vec<String> {
    let Explained { shown, policy, holders, .. } = explained;
    let mut lines = vec![what(explained)];
    if shown.awaited {
        lines.push("its last agent is gone, and its runner has not come back to this one as yet: all is as it was left".into());
    }
    if !shown.stopped {
        lines.extend(why::of(explained).map(|why| format!("policy {policy}: {why}")));
    }
    lines.extend(holders.iter().map(|holder| format!("  {}", held(holder))));
    let class = shown.class.as_deref();
    lines.extend(class.map(|class| format!("it is of class {class}: it {}", needs(class))));
    lines.extend(company(explained));
    match explained.begins_in_ms {
        _ if shown.stopped || shown.state == "running" => {}
        Some(ms) => lines.push(format!("by the estimates it {} in {}", begins(shown), time(ms))),
        None => lines.push(format!("when it {} does not follow from the estimates", begins(shown))),
    }
    lines.extend(shown.memory.as_ref().map(memory_of));
    lines.push(history(explained));
    lines
}

/// What a class is about (`castell_interference::class`).
fn needs(class: &str) -> &'static str {
    match class {
        "N" => "needs neither the shared cache nor much of memory",
        "C" => "needs its part of the shared cache",
        _ => "streams from memory",
    }
}

fn memory_of(memory: &Memory) -> String {
    let amount = bytes(memory.bytes);
    match (memory.limited, &memory.because) {
        (true, _) => format!("memory: limited to {amount}"),
        (false, None) => format!("memory: {amount} are counted, not limited"),
        (false, Some(because)) => format!("memory: {amount} are counted, not limited: {because}"),
    }
}

fn begins(shown: &Shown) -> &'static str {
    if shown.state == "waiting" { "begins" } else { "goes on" }
}

fn what(explained: &Explained) -> String {
    let Explained { shown, free, offline, before, .. } = explained;
    let Shown { session, for_ms, .. } = shown;
    let (slots, so_long) = (count_processors(shown.slots.into()), time(*for_ms));
    let where_it_is = super::run::processors(shown);
    match (&*shown.state, shown.stopped) {
        ("waiting", true) => {
            format!("session {session} was stopped by its user before it began; it wants {slots}")
        }
        ("waiting", false) => {
            let gone = match offline {
                0 => String::new(),
                some => format!(" ({some} more taken away for now)"),
            };
            let before = match &before[..] {
                [] => "its turn is next".to_owned(),
                some => format!("before it: {}", list(some)),
            };
            format!(
                "session {session} has waited for {so_long}: it wants {slots}, of which {free} are free{gone}; {before}"
            )
        }
        ("running", _) if shown.paused => {
            format!(
                "session {session} is stopped, as Ctrl-Z does, on processors {where_it_is}; it began to run {so_long} ago"
            )
        }
        ("running", _) => format!("session {session} has run for {so_long} on processors {where_it_is}"),
        (state, true) => {
            format!(
                "session {session} is {state} by its user, for {so_long}; its processors are {where_it_is}"
            )
        }
        (state, false) => {
            format!("session {session} is {state}, for {so_long}; its processors are {where_it_is}")
        }
    }
}

fn held(holder: &Holder) -> String {
    let Holder { session, state, slots, left_ms, command } = holder;
    let left = match left_ms {
        Some(ms) => format!("needs {} more at most", time(*ms)),
        None => "says no time that it needs".to_owned(),
    };
    format!("{session:>3}  {state:<9}  {:<12}  {left}  {command}", count_processors(*slots))
}

/// Who is beside it, with what is predicted, and why it does not start there.
fn company(explained: &Explained) -> Vec<String> {
    let Explained { shown, beside, held_back, .. } = explained;
    let mut lines = Vec::new();
    if let Some(predicted) = shown.slowdown.as_ref().filter(|_| beside.len() > 1) {
        lines.push(format!("beside all of them: {}", predicted.because));
    }
    for Beside { session, command, slows, slowed } in beside {
        lines.push(format!("beside session {session}  {command}"));
        let said = |predicted: &Option<Predicted>| {
            predicted
                .as_ref()
                .map_or("nothing is known of what the other one does to it", |predicted| {
                    predicted.because.as_str()
                })
                .to_owned()
        };
        match (slows, slowed) {
            (None, None) => lines.push("  nothing is known of what they do to each other".to_owned()),
            _ => {
                lines.push(format!("  session {}: {}", shown.session, said(slows)));
                lines.push(format!("  session {session}: {}", said(slowed)));
            }
        }
    }
    lines.extend(held_back.iter().map(|HeldBack { beside, slowed, slowdown, slowdown_max }| {
        let with = if slowed == beside { shown.session } else { *beside };
        format!("it does not start beside session {beside}: session {slowed} would take {slowdown} times as long beside session {with}, more than {slowdown_max}")
    }));
    lines
}

fn history(explained: &Explained) -> String {
    let times = |count: u32| match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    };
    let by_others = match explained.suspensions {
        0 => "never suspended by others".to_owned(),
        count => format!("suspended {} by others (last by {})", times(count), list(&explained.suspended_by)),
    };
    let by_user = match explained.stops {
        0 => "never stopped by its user".to_owned(),
        count => format!("stopped {} by its user", times(count)),
    };
    format!("{by_others}, {by_user}; it has run for {} in all", time(explained.ran_ms))
}

fn list(sessions: &[u64]) -> String {
    sessions.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
