//! `castell daemon --metrics`: what it says is OpenMetrics, and the dashboard asks for what there is.

use castell_kernels::{Application, Kernel};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A daemon that tells metrics at an address.
struct Daemon {
    folder: tempfile::TempDir,
    child: Child,
    address: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn castell(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.env("XDG_RUNTIME_DIR", folder).env_remove("SLURM_JOB_ID").env_remove("CASTELL_SESSIONS");
    command.env_remove("CASTELL_DAEMON");
    command
}

impl Daemon {
    fn start() -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = castell(folder.path());
        command.args([
            "daemon",
            "--metrics",
            "127.0.0.1:0",
            "--strategy",
            "banking:at_ticks=false",
            "--sensor",
            "battery=0.5",
        ]);
        command.args(["--forbid", "low:all_cores", "--socket"]).arg(folder.path().join("d.sock"));
        let mut child = command.stderr(Stdio::piped()).spawn().expect("castell starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped")).lines();
        let address = said
            .by_ref()
            .map(|line| line.expect("text"))
            .find_map(|line| Some(line.split_once("http://")?.1.strip_suffix("/metrics")?.to_owned()));
        thread::spawn(move || said.for_each(drop));
        Daemon { folder, child, address: address.expect("it says where") }
    }

    fn metrics(&self) -> Metrics {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        Metrics::read(body)
    }
}

/// Families with their types, and samples by all that stands before their values.
#[derive(Debug)]
struct Metrics {
    families: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

impl Metrics {
    /// By the rules of OpenMetrics 1.0 for text, as far as gauges, counters and information need them.
    fn read(text: &str) -> Metrics {
        let body = text.strip_suffix("# EOF\n").expect("the end is marked");
        let (mut families, mut samples) = (BTreeMap::new(), BTreeMap::new());
        let mut family = (String::new(), String::new());
        for line in body.lines() {
            assert!(!line.is_empty() && line.trim() == line, "`{line}`");
            if let Some(comment) = line.strip_prefix("# ") {
                let words: Vec<&str> = comment.splitn(3, ' ').collect();
                match words[..] {
                    ["TYPE", name, kind] => {
                        assert!(is_name(name) && ["gauge", "counter", "info"].contains(&kind), "{line}");
                        family = (name.to_owned(), kind.to_owned());
                        assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
                    }
                    ["UNIT", name, unit] => {
                        assert!(name == family.0 && name.ends_with(&format!("_{unit}")), "{line}");
                    }
                    ["HELP", name, help] => assert!(name == family.0 && help.ends_with('.'), "{line}"),
                    _ => panic!("`{line}` is nothing of OpenMetrics"),
                }
                continue;
            }
            let (what, value) = line.rsplit_once(' ').expect("a sample has a value");
            let (name, labels) = what.split_once('{').map_or((what, None), |(name, rest)| (name, Some(rest)));
            let ending = match family.1.as_str() {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            assert_eq!(name, format!("{}{ending}", family.0), "samples stand behind their family: {line}");
            labels.into_iter().for_each(|labels| check_labels(labels, line));
            let value: f64 = value.parse().expect("a number");
            assert!(value.is_finite() && (family.1 != "counter" || value >= 0.0), "{line}");
            assert!(family.1 != "info" || value == 1.0, "{line}");
            assert!(samples.insert(what.to_owned(), value).is_none(), "twice: {line}");
        }
        Metrics { families, samples }
    }

    fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("no {sample} in {self:#?}"))
    }
}

fn is_name(name: &str) -> bool {
    let is_right = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.starts_with("castell_") && name.chars().all(is_right)
}

/// `name="value",name="value"}`, with the three escapes that there are.
fn check_labels(labels: &str, line: &str) {
    let mut left = labels;
    let mut names = BTreeSet::new();
    loop {
        let (name, rest) = left.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'), "{line}");
        assert!(names.insert(name), "a label twice: {line}");
        let mut letters = rest.char_indices();
        let end = loop {
            match letters.next().unwrap_or_else(|| panic!("{line}")) {
                (at, '"') => break at,
                (_, '\\') => assert!(matches!(letters.next(), Some((_, '\\' | '"' | 'n'))), "{line}"),
                _ => {}
            }
        };
        match &rest[end + 1..] {
            "}" => return,
            more => left = more.strip_prefix(',').unwrap_or_else(|| panic!("{line}")),
        }
    }
}

#[test]
fn metrics_count_what_was_done() {
    let daemon = Daemon::start();
    let before = daemon.metrics();
    assert_eq!(before.value("castell_source_up{source=\"daemon\"}"), 1.0);
    assert_eq!(before.value("castell_source_up{source=\"sessions\"}"), 1.0);
    assert_eq!(before.value("castell_collections_done_total"), 0.0);
    assert_eq!(before.value("castell_daemon_info{strategy=\"banking\",governor=\"high\"}"), 1.0);
    assert_eq!(before.value("castell_sensor{sensor=\"battery\"}"), 0.5);
    assert_eq!(before.value("castell_sessions{state=\"running\"}"), 0.0);
    let socket = daemon.folder.path().join("d.sock");
    let application = Application::open_at("secret", Some(&socket)).expect("opens");
    let kernel = Kernel { resource: "one_core".into(), step_ns: None };
    let collection = application.register(&[kernel], &[]).expect("a kernel for what is there");
    while !application.has_daemon() {
        thread::sleep(Duration::from_millis(1));
    }
    // Two of them wait.
    thread::scope(|scope| {
        for _ in 0..3 {
            let run = || collection.run(2, |_| thread::sleep(Duration::from_millis(1)));
            scope.spawn(move || run().expect("it runs"));
        }
    });
    // The end of the last one may be heard a moment later.
    let after = loop {
        let after = daemon.metrics();
        if after.value("castell_collections_done_total") >= 3.0 {
            break after;
        }
    };
    assert_eq!(after.value("castell_steps_total"), 6.0);
    assert_eq!(after.value("castell_decisions_total"), 6.0);
    assert_eq!(after.value("castell_applications"), 1.0);
    assert_eq!(after.value("castell_collections_under_way"), 0.0);
    assert!(after.value("castell_collections_waited_seconds_total") > 0.0);
    assert!(after.value("castell_strategy_shown{name=\"budget\"}") < 100.0);
    assert!(
        after.samples.keys().all(|sample| !sample.contains("secret")),
        "names of programs are nobody's matter"
    );
    let level =
        castell(daemon.folder.path()).args(["strategy", "governor", "low", "--socket"]).arg(&socket).status();
    assert!(level.expect("it starts").success());
    assert_eq!(daemon.metrics().value("castell_resource_forbidden{resource=\"all_cores\"}"), 1.0);
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("packaging/grafana/castell.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let daemon = Daemon::start();
    let metrics = daemon.metrics();
    let names: BTreeSet<String> = metrics
        .families
        .iter()
        .map(|(name, kind)| match kind.as_str() {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.clone(),
        })
        .collect();
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("each asks for something") {
            let expression = target["expr"].as_str().expect("a query");
            let is_in_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let words = expression.split(|letter| !is_in_name(letter));
            let found: Vec<&str> = words.filter(|word| word.starts_with("castell_")).collect();
            assert!(!found.is_empty(), "{expression}");
            asked.extend(found.into_iter().map(str::to_owned));
        }
    }
    // Where the kernel counts no pressure there are no metrics of it.
    let is_there = |name: &&String| names.contains(*name) || name.starts_with("castell_pressure");
    let wrong: Vec<_> = asked.iter().filter(|name| !is_there(name)).collect();
    assert!(wrong.is_empty(), "the dashboard asks for {wrong:?}; there are {names:#?}");
    let unseen: Vec<_> = names.difference(&asked).collect();
    assert!(unseen.is_empty(), "the dashboard does not show {unseen:?}");
}

#[test]
fn others_are_kept_out_unless_that_is_meant() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |options: &[&str]| {
        let mut command = castell(folder.path());
        command.args(["daemon", "--socket"]).arg(folder.path().join("d.sock")).args(options);
        let output = command.output().expect("castell starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = refused(&["--metrics", "0.0.0.0:0"]);
    assert!(code == Some(1) && said.contains("--metrics-public"), "{said}");
    let (code, _) = refused(&["--metrics", "localhost"]);
    assert_eq!(code, Some(2));
    let (code, _) = refused(&["--metrics-public"]);
    assert_eq!(code, Some(2));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it has one").to_string();
    let (code, said) = refused(&["--metrics", &address]);
    assert!(code == Some(1) && said.contains("cannot listen at"), "{said}");
}
