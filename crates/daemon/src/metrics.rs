//! What a node does as metrics, in the words of OpenMetrics 1.0. Reads nothing by itself: see `exposition` for who serves them.

use castell_host::pressure::Pressure;
use castell_kernels::protocol::Status;
use std::fmt::{Display, Write as _};

/// What sessions can be.
pub const SESSION_STATES: [&str; 4] = ["waiting", "running", "suspended", "ending"];

/// One moment. What could not be had says why, for nobody but who gathers it: metrics say only that it is missing.
#[derive(Clone, Debug)]
pub struct Moment {
    /// Of the daemon.
    pub status: Result<Status, String>,
    /// The state of each session, as in a list of them; none where there is no agent.
    pub sessions: Result<Vec<String>, String>,
    /// Of the node.
    pub pressure: Result<Pressure, String>,
}

/// As text: each family with its type and its meaning, and `# EOF` at the end. Names of programs do not stand there, so that it may be
/// read by others.
pub fn text(moment: &Moment) -> String {
    let mut page = Page::default();
    let up = [
        ("daemon", moment.status.is_ok()),
        ("sessions", moment.sessions.is_ok()),
        ("pressure", moment.pressure.is_ok()),
    ];
    page.family("castell_source_up", "gauge", "Whether a source of these metrics has answered.");
    up.iter().for_each(|(name, is_up)| page.sample("", &[("source", name)], u8::from(*is_up)));
    if let Ok(status) = &moment.status {
        daemon(&mut page, status);
    }
    if let Ok(sessions) = &moment.sessions {
        page.family("castell_sessions", "gauge", "Sessions of this user and node, by what they do.");
        for state in SESSION_STATES {
            page.sample("", &[("state", state)], sessions.iter().filter(|other| *other == state).count());
        }
    }
    if let Ok(pressure) = &moment.pressure {
        stalls(&mut page, pressure);
    }
    page.text.push_str("# EOF\n");
    page.text
}

fn daemon(page: &mut Page, status: &Status) {
    page.family("castell_daemon", "info", "Which strategy decides, under which level of the governor.");
    page.sample("_info", &[("strategy", &status.strategy), ("governor", &status.governor)], 1);
    for (name, help, value) in [
        ("castell_collections_done", "Kernel collections that were carried out.", status.done),
        ("castell_steps", "Steps of kernel collections that were run.", status.steps),
        ("castell_decisions", "What strategies have decided.", status.decisions),
        ("castell_strategy_faults", "Strategies that were stopped since they failed.", status.faults),
    ] {
        page.family(name, "counter", help);
        page.sample("_total", &[], value);
    }
    let help = "For how long kernel collections have waited for their first step, together.";
    page.family_in("castell_collections_waited_seconds", "counter", "seconds", help);
    page.sample("_total", &[], status.waited_ns as f64 / 1e9);
    page.family("castell_applications", "gauge", "Applications that are registered.");
    page.sample("", &[], status.applications.len());
    page.family("castell_collections_under_way", "gauge", "Kernel collections that are not done.");
    page.sample("", &[], status.applications.iter().map(|application| application.collections).sum::<u64>());
    page.family("castell_collections_waiting", "gauge", "Kernel collections in the global queue.");
    page.sample("", &[], status.waiting.len());
    page.family("castell_resource_busy", "gauge", "Whether a kernel runs on a resource.");
    for on in &status.resources {
        page.sample("", &[("resource", &on.resource)], u8::from(on.running.is_some()));
    }
    page.family("castell_resource_queued", "gauge", "Kernel collections in the queue of a resource.");
    status.resources.iter().for_each(|on| page.sample("", &[("resource", &on.resource)], on.queue.len()));
    page.family("castell_resource_forbidden", "gauge", "Whether the governor forbids a resource.");
    for on in &status.resources {
        page.sample("", &[("resource", &on.resource)], u8::from(on.forbidden));
    }
    page.family(
        "castell_strategy_shown",
        "gauge",
        "Numbers that the strategy shows of itself, such as a budget.",
    );
    status.shown.iter().for_each(|(name, value)| page.sample("", &[("name", name)], value));
    page.family("castell_sensor", "gauge", "What a sensor said last.");
    status.sensors.iter().for_each(|(name, value)| page.sample("", &[("sensor", name)], value));
}

fn stalls(page: &mut Page, pressure: &Pressure) {
    let known = pressure.parts().into_iter().filter_map(|(name, stalls)| Some((name, stalls?)));
    let help = "For how long some task has waited for a resource of the node, since it started (PSI).";
    page.family_in("castell_pressure_stalled_seconds", "counter", "seconds", help);
    for (name, stalls) in known.clone() {
        page.sample("_total", &[("resource", name)], stalls.some_us as f64 / 1e6);
    }
    page.family(
        "castell_pressure",
        "gauge",
        "The part of the last ten seconds in which some task waited for a resource of the node (PSI).",
    );
    known.for_each(|(name, stalls)| page.sample("", &[("resource", name)], stalls.some));
}

#[derive(Default)]
struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        let _ = write!(self.text, "# TYPE {name} {kind}\n# HELP {name} {help}\n");
    }

    /// One whose name ends in its unit.
    fn family_in(&mut self, name: &'static str, kind: &str, unit: &str, help: &str) {
        self.family = name;
        let _ = write!(self.text, "# TYPE {name} {kind}\n# UNIT {name} {unit}\n# HELP {name} {help}\n");
    }

    /// Of the last family.
    fn sample(&mut self, ending: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.text, "{}{ending}{labels} {value}", self.family);
    }
}

/// As the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_host::pressure::Stalls;
    use castell_kernels::protocol::OnResource;

    #[test]
    fn all_of_it_and_what_is_missing() {
        let on = OnResource {
            resource: "a \"b\\\n".into(),
            running: Some("x#1".into()),
            queue: vec!["y#2".into()],
            forbidden: false,
        };
        let status = Status {
            strategy: "banking".into(),
            governor: "low".into(),
            resources: vec![on],
            waiting: vec!["z#3".into(), "z#4".into()],
            applications: Vec::new(),
            done: 7,
            steps: 9,
            decisions: 10,
            faults: 1,
            waited_ns: 1_500_000_000,
            shown: [("budget".to_owned(), 85.5)].into(),
            sensors: [("battery".to_owned(), 1.0)].into(),
        };
        let stalls = Stalls { some: 0.125, full: None, some_us: 2_500_000 };
        let pressure = Pressure { cpu: Some(stalls), memory: None, io: None };
        let sessions = ["running", "running", "waiting"].map(str::to_owned).to_vec();
        let moment = Moment { status: Ok(status), sessions: Ok(sessions), pressure: Ok(pressure) };
        let told = text(&moment);
        for line in [
            "castell_source_up{source=\"daemon\"} 1",
            "castell_daemon_info{strategy=\"banking\",governor=\"low\"} 1",
            "castell_collections_done_total 7",
            "castell_strategy_faults_total 1",
            "# UNIT castell_collections_waited_seconds seconds",
            "castell_collections_waited_seconds_total 1.5",
            "castell_collections_waiting 2",
            "castell_resource_busy{resource=\"a \\\"b\\\\\\n\"} 1",
            "castell_resource_queued{resource=\"a \\\"b\\\\\\n\"} 1",
            "castell_strategy_shown{name=\"budget\"} 85.5",
            "castell_sessions{state=\"running\"} 2",
            "castell_sessions{state=\"ending\"} 0",
            "castell_pressure_stalled_seconds_total{resource=\"cpu\"} 2.5",
            "castell_pressure{resource=\"cpu\"} 0.125",
        ] {
            assert!(told.lines().any(|other| other == line), "{line}:\n{told}");
        }
        // Programs are nobody else's matter.
        assert!(!told.contains("x#1") && !told.contains("z#3") && told.ends_with("\n# EOF\n"));
        let no = || "no".to_owned();
        let told = text(&Moment { status: Err(no()), sessions: Err(no()), pressure: Err(no()) });
        assert!(
            told.contains("castell_source_up{source=\"sessions\"} 0") && !told.contains("castell_sessions")
        );
    }
}
