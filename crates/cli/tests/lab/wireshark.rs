//! Captures of `castell lab` as Wireshark shows them, by the dissector in `packaging/wireshark`.

use crate::skipped::skip;
use crate::{CASTELL, labs_are_possible, text};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/castell.lua");

/// The frames of a command in a lab; none where labs cannot be made.
fn captured(folder: &Path, lab: &[&str], words: &[&str]) -> Option<String> {
    if !labs_are_possible() {
        return None;
    }
    let capture = folder.join("frames.pcap").display().to_string();
    let mut command = Command::new(CASTELL);
    command.args(["lab", "2", "--capture", &capture]).args(lab).arg("--").args(words).stdin(Stdio::null());
    let output = command.output().expect("castell runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(capture)
}

/// These fields of all frames that a filter lets through; none where tshark is missing.
fn shown(capture: &str, filter: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-X", &format!("lua_script:{DISSECTOR}"), "-r", capture, "-Y", filter, "-T", "fields"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field])).stdin(Stdio::null());
    let output = match tshark.output() {
        Ok(output) => output,
        Err(error) => {
            skip("tshark", &error.to_string());
            return None;
        }
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!text(&output.stderr).contains(".lua:"), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    Some(lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn number(text: &str) -> u64 {
    let parsed =
        text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    parsed.unwrap_or_else(|_| panic!("`{text}` is no number"))
}

#[test]
fn frames_of_esp_are_told_apart() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let pingpong = ["bench", "pingpong", "--bytes", "8,4000", "--samples", "2", "--rounds", "1"];
    let words = [&[CASTELL, "launch", "-n", "2", "--net", "esp=eth0", "--", CASTELL], &pingpong[..]].concat();
    let Some(capture) = captured(folder.path(), &["--loss", "5%", "--seed", "3"], &words) else { return };
    let fields = [
        "frame.len",
        "castell.esp.flags",
        "castell.bytes",
        "castell.esp.communicator",
        "castell.esp.from_port",
        "castell.esp.to_port",
        "castell.payload",
        "castell.esp.range.count",
    ];
    let Some(frames) = shown(&capture, "castell.version == 1", &fields) else { return };
    let mut jobs = BTreeSet::new();
    let (mut payloads, mut requests) = (0, 0);
    for frame in &frames {
        let [length, flags, bytes, job, from, to, payload, counts] = &frame[..] else { panic!("{frame:?}") };
        let bytes = number(bytes);
        assert_eq!(number(length), 14 + 44 + bytes + 8, "{frame:?}");
        assert!([("0", "1"), ("1", "0")].contains(&(&**from, &**to)), "{frame:?}");
        jobs.insert(job);
        let asks = number(flags) & 16 != 0;
        assert_eq!(payload.len() as u64, if asks { 0 } else { 2 * bytes }, "{frame:?}");
        assert_eq!(!counts.is_empty(), asks, "{frame:?}");
        (payloads, requests) = (payloads + u32::from(!payload.is_empty()), requests + u32::from(asks));
    }
    assert!(jobs.len() == 1 && payloads > 10 && requests > 0, "{jobs:?}, {payloads}, {requests}");
    let wrong =
        shown(&capture, "castell && (_ws.malformed || _ws.expert.group == \"Malformed\")", &["frame.number"]);
    assert_eq!(wrong, Some(Vec::new()));
}

/// Both hosts ask at all their interfaces, and are answered.
#[test]
fn searches_are_told_apart() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let words = [CASTELL, "run", "barrier:dissemination", "-n", "2", "--net", "esp"];
    let Some(capture) = captured(folder.path(), &["--segment", "all"], &words) else { return };
    let fields =
        ["castell.esp.search", "castell.esp.from_port", "castell.esp.search.number", "castell.short"];
    let Some(frames) = shown(&capture, "castell.version == 2", &fields) else { return };
    let said = |kind: &str| frames.iter().filter(|frame| frame[0] == kind).collect::<Vec<_>>();
    let (probes, answers) = (said("0"), said("1"));
    assert!(probes.len() >= 2 && !answers.is_empty(), "{frames:?}");
    let asked = |answer: &[String]| probes.iter().any(|probe| probe[2] == answer[2] && probe[1] != answer[1]);
    assert!(answers.iter().all(|answer| asked(answer) && answer[3].is_empty()), "{frames:?}");
}

#[test]
fn frames_of_schedules_in_the_kernel_are_told_apart() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let words = [CASTELL, "run", "barrier:dissemination", "-n", "2", "--net", "xdp=eth0", "--repeat", "20"];
    let Some(capture) = captured(folder.path(), &[], &words) else { return };
    let fields =
        ["castell.kernel.kind", "castell.kernel.from_rank", "castell.kernel.to_rank", "castell.kernel.run"];
    let Some(frames) = shown(&capture, "castell.version == 0x81", &fields) else { return };
    if frames.is_empty() {
        return skip("xdp", "this process may put no program at an interface");
    }
    let messages: Vec<_> = frames.iter().filter(|frame| frame[0] == "1").collect();
    let runs: BTreeSet<u64> = messages.iter().map(|frame| number(&frame[3])).collect();
    assert!(runs.len() >= 20, "{runs:?}");
    assert!(messages.iter().all(|frame| frame[1] != frame[2]), "{messages:?}");
}

/// What is cut off, or of another version, is said to be.
#[test]
fn what_makes_no_sense_is_marked() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let capture = folder.path().join("made.pcap");
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    // Versions 1 with a payload that is not there, 1 without a head, 2 without a tag, 0x81 without a head, 9.
    for rest in [&[&[1, 2, 200, 0][..], &[0; 60]].concat()[..], &[1, 2], &[2; 31], &[0x81, 1], &[9; 60]] {
        let frame = [&[2; 12][..], &[0x88, 0xb5], rest].concat();
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(&frame);
    }
    std::fs::write(&capture, bytes).expect("a file");
    let capture = capture.display().to_string();
    let Some(marked) = shown(&capture, "castell", &["frame.number", "castell.short", "castell.unknown"])
    else {
        return;
    };
    let marks: Vec<[bool; 2]> = marked.iter().map(|frame| [1, 2].map(|at| !frame[at].is_empty())).collect();
    let short = [true, false];
    assert_eq!(marks, [short, short, short, short, [false, true]], "{marked:?}");
}
