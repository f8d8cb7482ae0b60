//! A snapshot in words, for the screen and for `--once`.

use super::snapshot::{Processor, Snapshot};
use crate::say::plain;
use crate::session::{processors, words::time};
use castell_base::counted;
use castell_policy::session::protocol::{Predicted, Shown};

/// The heads of the columns of [`session`].
pub const HEADS: &str = "   #  state      slots prio     since  processors class slower  command";
/// Steps of a bar.
const BAR: usize = 5;

/// Who there is, under which policy.
pub fn title(snapshot: &Snapshot) -> String {
    let Some(policy) = &snapshot.policy else {
        return snapshot.sessions_missing.clone().unwrap_or_default();
    };
    let in_state = |state: &str| snapshot.sessions.iter().filter(|session| session.state == state).count();
    let (running, waiting, suspended) = (in_state("running"), in_state("waiting"), in_state("suspended"));
    let sessions = counted(snapshot.sessions.len(), "session");
    let most = snapshot.slowdown_max.map_or_else(String::new, |most| format!(" (max-slowdown {most})"));
    format!("{sessions} under {policy}{most}: {running} running, {waiting} waiting, {suspended} suspended")
}

/// What was waited for, or why that is not known.
pub fn pressure(snapshot: &Snapshot) -> String {
    let Some(pressure) = &snapshot.pressure else {
        return format!("pressure: {}", snapshot.pressure_missing.as_deref().unwrap_or("not known"));
    };
    let part = |(key, name): (&str, &str)| match pressure.get(key).copied().flatten() {
        None => format!("{name} not known"),
        Some(stalls) => format!("{name} {:.1} %", 100.0 * stalls.some),
    };
    let parts = [("cpu", "processors"), ("memory", "memory"), ("io", "input and output")].map(part);
    format!("pressure (10 s): {}", parts.join(", "))
}

/// A processor in 19 columns: its number, how busy it is, and who runs there.
pub fn processor(processor: &Processor) -> String {
    let Processor { cpu, busy, sessions } = processor;
    let filled = busy.map_or(0, |busy| (busy * BAR as f64).round() as usize).min(BAR);
    let percent = busy.map_or("  ?".to_owned(), |busy| format!("{:3.0}", 100.0 * busy));
    let bar: String = (0..BAR).map(|step| if step < filled { '#' } else { '.' }).collect();
    let numbers: Vec<String> = sessions.iter().map(u64::to_string).collect();
    let text = format!("{cpu:>4} {bar}{percent}% {}", numbers.join(","));
    shorten(&text, 19)
}

/// A session in a line.
pub fn session(shown: &Shown) -> String {
    let Shown { session, slots, priority, for_ms, command, .. } = shown;
    let line = format!(
        "{session:>4}  {:<9}  {slots:>5} {priority:>4} {:>9}  {:<10} {:^5} {:>6}  {}",
        state(shown),
        time(*for_ms),
        shorten(&processors(shown), 10),
        shown.class.as_deref().unwrap_or("-"),
        slower(shown.slowdown.as_ref()),
        plain(command),
    );
    line.trim_end().to_owned()
}

/// By which factor it is predicted to take longer beside the others: `?` where what is known leaves that open.
fn slower(predicted: Option<&Predicted>) -> String {
    match predicted {
        None => "-".to_owned(),
        Some(predicted) if predicted.cannot_tell => "?".to_owned(),
        Some(predicted) if predicted.foretold => format!("~{:.1}", predicted.slowdown.factor()),
        Some(predicted) => format!("{:.2}", predicted.slowdown.factor()),
    }
}

/// A state, and whose it is.
fn state(shown: &Shown) -> &str {
    match (&*shown.state, shown.stopped, shown.paused) {
        ("waiting", true, _) => "held",
        (_, true, _) => "stopped",
        (_, _, true) => "Ctrl-Z",
        (state, ..) => state,
    }
}

/// What the daemon does, or why that is not known.
pub fn daemon(snapshot: &Snapshot) -> Vec<String> {
    match &snapshot.daemon {
        Some(status) => crate::strategy::status::lines(status),
        None => vec![snapshot.daemon_missing.clone().unwrap_or_default()],
    }
}

/// No more columns than these; what is cut off is shown as cut off.
pub fn shorten(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{kept}~")
}

/// In lines of so many columns, broken at blanks where there are any; what a line is broken off is further in.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    const FURTHER_IN: &str = "    ";
    let mut lines = Vec::new();
    let mut left: Vec<char> = text.chars().collect();
    while left.len() > columns && columns > 2 * FURTHER_IN.len() {
        let blank = left[..=columns].iter().rposition(|letter| *letter == ' ');
        let end = blank.filter(|at| *at > FURTHER_IN.len()).unwrap_or(columns);
        lines.push(left[..end].iter().collect::<String>().trim_end().to_owned());
        let rest: String = left[end..].iter().collect();
        left = format!("{FURTHER_IN}{}", rest.trim_start()).chars().collect();
    }
    lines.push(left.into_iter().collect());
    lines
}

/// All of it.
pub fn lines(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![title(snapshot), pressure(snapshot)];
    for row in snapshot.processors.chunks(4) {
        let row: String = row.iter().map(|cpu| format!("{:<20}", processor(cpu))).collect();
        lines.push(row.trim_end().to_owned());
    }
    if !snapshot.sessions.is_empty() {
        lines.push(HEADS.to_owned());
        lines.extend(snapshot.sessions.iter().map(session));
    }
    lines.extend(daemon(snapshot));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::snapshot::Stalls;
    use crate::top::view::tests::{snapshot, with_daemon};
    use castell_policy::session::Slowdown;

    fn predicted(factor: f64) -> Predicted {
        let slowdown = Slowdown::of_factor(factor);
        let because = "seen once".to_owned();
        Predicted {
            slowdown,
            low: slowdown,
            high: slowdown,
            comparisons: 1,
            foretold: false,
            cannot_tell: false,
            because,
        }
    }

    #[test]
    fn what_is_predicted_has_six_columns() {
        let open = Predicted { cannot_tell: true, ..predicted(2.0) };
        let foretold = Predicted { foretold: true, ..predicted(1.26) };
        assert_eq!(slower(Some(&foretold)), "~1.3");
        assert_eq!(
            [None, Some(&predicted(1.0)), Some(&predicted(999.9)), Some(&open)].map(slower),
            ["-", "1.00", "999.90", "?"]
        );
    }

    #[test]
    fn all_of_it_as_text() {
        let mut moment = with_daemon(snapshot(&[3]));
        let stalls = Some(Stalls { some: 0.125, full: None });
        moment.pressure = Some([("cpu", stalls), ("memory", None), ("io", stalls)].into());
        moment.sessions[0].command = "./p \x1b[31m".into();
        moment.sessions[0].stopped = true;
        moment.sessions[0].slowdown = Some(predicted(1.3147));
        assert_eq!(
            lines(&moment),
            [
                "1 session under surpass: 1 running, 0 waiting, 0 suspended",
                "pressure (10 s): processors 12.5 %, memory not known, input and output 12.5 %",
                "   0 ##... 40% 3       1 ##... 40% 3",
                HEADS,
                "   3  stopped        2   -1 1 min 1 s  0-1          -     1.31  ./p ?[31m",
                "banking decides, governor low; 12 done in 30 steps",
                "budget 85, battery 0.25",
                "one_core  matrix#7, then 1: matrix#8",
                "gpu       forbidden",
                "2 wait: matrix#9, lama?[2J#4",
                "1 application: matrix (31) 4",
            ]
        );
    }

    #[test]
    fn who_is_missing_is_said() {
        let mut moment = snapshot(&[]);
        (moment.policy, moment.sessions_missing) =
            (None, Some("no session, and no agent at /run/s.sock".into()));
        let said = lines(&moment);
        assert_eq!(said[0], "no session, and no agent at /run/s.sock");
        assert_eq!(said[1], "pressure: there is no /proc/pressure: this kernel has no PSI");
        assert_eq!(said.last().map(String::as_str), Some("no daemon listens at /run/daemon.sock"));
    }

    #[test]
    fn what_is_too_long_is_cut_off_or_broken() {
        assert_eq!((&*shorten("abcdef", 4), &*shorten("abcd", 4)), ("abc~", "abcd"));
        assert_eq!(wrapped("one two three four", 10), ["one two", "    three", "    four"]);
        assert_eq!(wrapped("one two th", 10), ["one two th"]);
        assert_eq!(wrapped("abcdefghijklmnop", 10), ["abcdefghij", "    klmnop"]);
        assert_eq!(wrapped("abc def", 3), ["abc def"]);
        assert_eq!(wrapped("", 10), [""]);
    }
}
