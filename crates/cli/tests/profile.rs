//! `castell profile`, `probe` and `slowdown`.

mod json_page;

use json_page::stands_on_the_page;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn castell(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_castell")).args(arguments).output().expect("castell can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(arguments: &[&str]) -> Value {
    let output = castell(arguments);
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    assert!(value.get("error").is_none(), "{value:#}{}", text(&output.stderr));
    value
}

fn recording(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../prof/tests/recordings");
    folder.join(name).display().to_string()
}

fn compiled(folder: &Path, code: &str) -> String {
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, code).expect("a file");
    let status = Command::new("gcc").args(["-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(status.expect("gcc is there").success());
    program.display().to_string()
}

#[test]
fn a_recording_is_classified_phase_by_phase_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("flows.svg");
    let seen = json(&[
        "profile",
        "--json",
        "--replay",
        &recording("made-up.json"),
        "--svg",
        &svg.display().to_string(),
    ]);
    let phases = seen["phases"].as_array().expect("phases");
    let classes: Vec<&str> = phases.iter().filter_map(|phase| phase["class"].as_str()).collect();
    assert_eq!(classes, ["S", "C"]);
    assert_eq!(phases[0]["to_s"], 3.0);
    // Counted for three quarters of the time, and scaled up: 10 GB/s were put in.
    let memory = phases[0]["memory_llc_bytes_s"].as_f64().expect("a flow");
    assert!((memory / 10e9 - 1.0).abs() < 0.03, "{memory}");
    assert!((seen["counts"]["cycles"]["share"].as_f64().expect("a share") - 0.75).abs() < 1e-9);
    let drawn = std::fs::read_to_string(svg).expect("a drawing");
    assert!(drawn.starts_with("<svg") && drawn.contains("LLC -&gt; L2") && drawn.ends_with("</svg>\n"));
    let words = text(&castell(&["profile", "--replay", &recording("made-up.json")]).stdout);
    assert!(words.contains("cycles had a counter for 75 % of the time"), "{words}");
}

#[test]
fn a_recording_without_counters_has_no_class_and_says_why() {
    let words = text(&castell(&["profile", "--replay", &recording("without-counters.json")]).stdout);
    assert!(words.contains("no class") && words.contains("ENOENT"), "{words}");
}

#[test]
fn with_counters_or_without_the_program_is_profiled_and_its_exit_code_handed_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let code = "static volatile char memory[1 << 22];\n\
        int main(void) { for (int r = 0; r < 20; r++) for (int i = 0; i < 1 << 22; i += 64) memory[i] = 1; return 9; }";
    let program = compiled(folder.path(), code);
    let seen = castell(&["profile", "--json", "--by", "distances", "--sample", "0.1", "--", &program]);
    assert_eq!(seen.status.code(), Some(9), "{}", text(&seen.stderr));
    let seen: Value = serde_json::from_slice(&seen.stdout).expect("JSON");
    assert_eq!(seen["by"], "distances");
    // 4 MiB, twenty times: each access misses in L1, whatever the machine.
    assert!(seen["reuse_llc"].is_number() && seen["class"].is_string(), "{seen}");
    assert!(seen["counts"]["page-faults"]["count"].as_f64().is_some_and(|faults| faults > 100.0), "{seen}");
    // Counters: there are some, or it is said why not.
    let counted = castell(&["profile", "--by", "counters", "--", &program]);
    let said = text(&counted.stderr);
    assert!(
        counted.status.code() == Some(9)
            || (counted.status.code() == Some(1) && said.contains("perf_event_open gives")),
        "{said}"
    );
}

#[test]
fn a_profile_is_kept_by_its_binary_listed_used_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let code = |rounds: u32| {
        format!(
            "static volatile char memory[1 << 20];\n\
             int main(void) {{ for (int r = 0; r < {rounds}; r++) for (int i = 0; i < 1 << 20; i += 64) memory[i] = 1; return 0; }}"
        )
    };
    let program = compiled(folder.path(), &code(30));
    let castell = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command.args(arguments).env("XDG_DATA_HOME", folder.path()).output().expect("castell can be started")
    };
    let json = |arguments: &[&str]| {
        let output = castell(&[arguments, &["--json"]].concat());
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    let none = castell(&["place", "a:2", "--rule", "predicted"]);
    assert!(
        none.status.code() == Some(1) && text(&none.stderr).contains("profile --keep"),
        "{}",
        text(&none.stderr)
    );
    let keep = ["profile", "--keep", "--input", "C", "--by", "distances", "--sample", "0.1", "--", &program];
    let kept = castell(&keep);
    assert!(kept.status.success() && text(&kept.stderr).contains("kept in"), "{}", text(&kept.stderr));
    assert!(castell(&keep).status.success(), "again: it takes the first one's place");
    let listed = json(&["profiles", "list"]);
    let profiles = listed["profiles"].as_array().expect("profiles");
    assert_eq!((profiles.len(), &listed["machine"]), (1, &true.into()), "{listed:#}");
    let one = &profiles[0];
    assert_eq!(
        (&one["name"], &one["input"], &one["state"]),
        (&"program".into(), &"C".into(), &"as profiled".into())
    );
    assert!(
        one["has_distances"] == true && one["binary"]["sha256"].as_str().is_some_and(|hash| hash.len() == 64)
    );
    // Found by its file, whatever it is called; and by its name when it has been compiled anew.
    let other = folder.path().join("other");
    std::fs::copy(&program, &other).expect("a copy");
    let jobs = format!("{}:C:2,unknown:2", other.display());
    let placed = json(&["place", &jobs, "--rule", "predicted"]);
    let how: Vec<&Value> =
        placed["knowledge"].as_array().expect("knowledge").iter().map(|of| &of["how"]).collect();
    assert_eq!(how, [&Value::from("its binary was profiled"), &Value::Null], "{placed:#}");
    assert_eq!(placed["twins"], 0, "{placed:#}");
    compiled(folder.path(), &code(40));
    assert_eq!(json(&["profiles", "list"])["profiles"][0]["state"], "changed since");
    let placed = json(&["place", &format!("{program}:C:2"), "--rule", "predicted"]);
    let how = placed["knowledge"][0]["how"].as_str().expect("a sentence");
    assert!(how.contains("its binary is not the one that was profiled"), "{placed:#}");
    let all = json(&["profiles", "show", "program:C"]);
    assert!(all["profiles"][0]["distances"].is_object());
    stands_on_the_page("profiles show", &all);
    stands_on_the_page("profiles machine", &json(&["profiles", "machine"]));
    let shown = castell(&["profiles", "show", "program"]);
    assert!(text(&shown.stdout).contains("changed since"), "{}", text(&shown.stdout));
    let removed = json(&["profiles", "remove", "program:C"]);
    assert_eq!(removed["removed"].as_array().map(Vec::len), Some(1));
    stands_on_the_page("profiles remove", &removed);
    let named = "profile --keep --name touches --by distances --sample 0.1 --".split(' ').chain([&*program]);
    let named = castell(&named.collect::<Vec<_>>());
    assert!(named.status.success(), "{}", text(&named.stderr));
    assert_eq!(json(&["profiles", "remove", "touches"])["removed"][0]["name"], "touches");
    let gone = castell(&["profiles", "show", "program:C"]);
    assert!(
        gone.status.code() == Some(1) && text(&gone.stderr).contains("there are: none"),
        "{}",
        text(&gone.stderr)
    );
}

#[test]
fn a_probe_has_the_distances_that_it_promises() {
    let probe = env!("CARGO_BIN_EXE_castell");
    for order in ["--stream", "--random"] {
        let words = [
            "distances",
            "--json",
            "--threads",
            "--ignore-stack",
            "--",
            probe,
            "probe",
            order,
            "--rounds",
            "30",
        ];
        let shape = ["--threads", "2", "--distance", "512K:1", "--distance", "32K:3", "--json"];
        let output = castell(&[&words[..], &shape].concat());
        let seen: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        let threads = seen["programs"][0]["threads"].as_object().expect("threads");
        // The probe's threads: each has 256 KiB and, in them, 16 KiB.
        let part = |thread: &Value, blocks: f64| {
            let buckets = thread["distances_blocks"].as_array().expect("buckets");
            let of = |bucket: &Value, at: usize| bucket[at].as_f64().expect("a number");
            let near = buckets
                .iter()
                .filter(|bucket| of(bucket, 0) >= blocks * 0.9 && of(bucket, 1) <= blocks * 1.15);
            near.map(|bucket| of(bucket, 2)).sum::<f64>()
        };
        let walkers: Vec<&Value> =
            threads.values().filter(|thread| part(thread, 256.0) > 100_000.0).collect();
        assert_eq!(walkers.len(), 2, "{order}: {:?}", threads.keys());
        for walker in walkers {
            let (near, far) = (part(walker, 256.0), part(walker, 4096.0));
            // Thirty rounds; that of a list's making, before them, may have the same order or another one.
            let rounds = 30.0 * 4096.0 * 0.98..31.0 * 4096.0 * 1.02;
            assert!(rounds.contains(&far) && rounds.contains(&(near / 3.0)), "{order}: {far}, {near}");
        }
    }
}

/// A tenth of a second of work, or so.
const WORK: &str = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";

/// Ends with this.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it was there");
    }
}

#[test]
fn slowdowns_have_limits_and_neighbours_go_on_afterwards() {
    let quick = ["slowdown", "--json", "--pairs", "9", "--interval", "20"];
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("curves.svg").display().to_string();
    let sleeper = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().expect("sleep is there");
    let sleeper = Sleeper(sleeper);
    let pid = sleeper.0.id().to_string();
    let costs = castell(&[&quick[..], &["--who", &pid]].concat());
    let is_alone = text(&costs.stderr).contains("one processor only");
    if is_alone {
        return assert_eq!(costs.status.code(), Some(1));
    }
    let costs: Value = serde_json::from_slice(&costs.stdout).expect("JSON");
    assert_eq!(costs["neighbours"][0]["name"], "sleep");
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    assert!(state.contains("(sleep) S"), "it goes on: {state}");
    let curves =
        json(&[&quick[..], &["--sizes", "64K,256K", "--svg", &svg, "--", "sh", "-c", WORK]].concat());
    let points = curves["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    for of in points.iter().flat_map(|point| [&point["program"], &point["probe"]]) {
        let [low, slowdown, high] =
            ["low", "slowdown", "high"].map(|key| of[key].as_f64().expect("a number"));
        assert!(0.0 < low && low <= slowdown && slowdown <= high, "{of}");
        assert_eq!(of["pairs"], 9);
    }
    assert!(std::fs::read_to_string(svg).expect("a drawing").contains("band-0"));
}

/// On a folder like the kernel's: no machine with the real one was at hand.
#[test]
fn a_program_and_its_probe_fill_ways_of_their_own() {
    let root = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(root.path().join("info/L3")).expect("a folder");
    std::fs::write(root.path().join("schemata"), "L3:0=7ff;1=7ff\n").expect("a file");
    std::fs::write(root.path().join("info/L3/cbm_mask"), "7ff\n").expect("a file");
    let resctrl = root.path().display().to_string();
    let words = ["slowdown", "--json", "--pairs", "9", "--interval", "20", "--sizes", "64K", "--ways", "0-3"];
    let words = [&words[..], &["--resctrl", &resctrl, "--", "sh", "-c", WORK]].concat();
    let output = castell(&words);
    if text(&output.stderr).contains("one processor only") {
        return assert_eq!(output.status.code(), Some(1));
    }
    let curves: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(curves["ways"], serde_json::json!([0, 1, 2, 3]));
    // What the kernel would have removed with the group is still there.
    for (name, mask) in [("program", "L3:0=f;1=f\n"), ("probe", "L3:0=7f0;1=7f0\n")] {
        let groups = std::fs::read_dir(root.path()).expect("a folder").flatten().map(|entry| entry.path());
        let group =
            groups.into_iter().find(|path| path.extension().is_some_and(|of| of == name)).expect(name);
        assert_eq!(std::fs::read_to_string(group.join("schemata")).expect("written"), mask);
        assert_eq!(std::fs::read_to_string(group.join("tasks")).expect("entered").chars().next(), Some('0'));
    }
}

#[test]
fn what_cannot_be_done_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken.json").display().to_string();
    std::fs::write(&broken, "{\"version\": 1}").expect("a file");
    for (words, code, what) in [
        (&["profile", "--replay", &broken][..], 1, "no recording"),
        (&["profile", "--replay", "/nowhere/x"], 1, "/nowhere/x"),
        (&["profile", "--by", "distances", "--", "no-such-program"], 1, "there is no program"),
        (&["profile", "--svg", "/nowhere/x.svg", "--", "true"], 1, "/nowhere"),
        (&["profile"], 2, "required"),
        (&["probe", "--distance", "x"], 2, "no distance"),
        (&["probe", "--distance", "64"], 1, "two blocks"),
        (&["probe", "--distance", "1M", "--distance", "1M"], 1, "twice"),
        (&["probe", "--distance", "900T"], 1, "are free here"),
        (&["probe", "--cpus", "9999"], 1, "9999"),
        (&["probe", "--seconds=-1"], 1, "above 0"),
        (&["slowdown", "--pairs", "2", "--probe-cpus", "1", "--cpus", "0", "--", "true"], 1, ""),
        (&["slowdown", "--cpus", "0", "--probe-cpus", "0", "--", "true"], 1, "different ones"),
        (&["slowdown", "--ways", "x", "--", "true"], 1, "such as 0-3"),
        (&["slowdown", "--ways", "0", "--resctrl", "/nowhere", "--", "true"], 1, "no resctrl here"),
        (&["slowdown", "--sizes", "64K", "--", "no-such-program"], 1, ""),
        (&["slowdown", "--sizes", "64K", "--", "false"], 1, ""),
    ] {
        let output = castell(words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(what), "{words:?}: {}", text(&output.stderr));
    }
}
