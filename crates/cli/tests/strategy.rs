//! `castell strategy`: strategies listed and simulated, scripts of users, and what is refused.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn strategy(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.arg("strategy").args(arguments).stdin(Stdio::null()).current_dir(root);
    command.output().expect("castell can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let output = strategy(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json"]].concat())).expect("JSON")
}

#[track_caller]
fn refusal(arguments: &[&str]) -> String {
    let output = strategy(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

const TIMES: &str = "vectors/strategy/kernel-times.csv";

#[test]
fn strategies_are_listed_with_their_scripts() {
    let listed = printed(&["list"]);
    for name in ["short-term", "long-term", "banking", "constraint", "plan-ahead"] {
        assert!(listed.contains(name), "{listed}");
        let script = printed(&["list", name]);
        assert!(script.contains("return strategy"), "{script}");
        // What is printed runs as one's own.
        let folder = tempfile::tempdir().expect("a folder");
        let mine = file(folder.path(), "mine.luau", &script);
        let answer = json(&["simulate", name, &mine, "--apps", TIMES]);
        assert_eq!(answer["strategies"][0]["fingerprint"], answer["strategies"][1]["fingerprint"]);
    }
    assert!(printed(&["list", "--definitions"]).contains("export type Node"));
    assert!(refusal(&["list", "bankng"]).contains("there are short-term"));
}

#[test]
fn strategies_are_compared_drawn_and_logged() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("plans.svg").display().to_string();
    let solver = ["--apps", TIMES, "--instances", "matrix_multiply=0", "--instances", "lama_cg=24"];
    let table = printed(&[&["simulate", "--svg", &svg][..], &solver].concat());
    assert!(table.lines().count() >= 5 && table.contains("constraint"), "{table}");
    let drawn = std::fs::read_to_string(&svg).expect("a drawing");
    assert!(drawn.starts_with("<svg") && drawn.contains("lama_cg#24"));
    let log = printed(&[&["simulate", "constraint", "--log", "--governor", "low"][..], &solver].concat());
    assert!(log.contains("0ns decided lama_cg#1 -> gpu\n0ns started lama_cg#1 on gpu"), "{log}");
    assert!(log.contains("41.78s done lama_cg#1 on gpu"), "{log}");
    // Ten times the same bits.
    let shown = json(&[&["simulate", "banking"][..], &solver].concat());
    assert_eq!(shown, json(&[&["simulate", "banking"][..], &solver].concat()));
}

#[test]
fn options_change_what_is_simulated() {
    let folder = tempfile::tempdir().expect("a folder");
    let apps = file(folder.path(), "apps.csv", "application,instances,one_core_s,gpu_s\na,4,3,1\n");
    let makespan = |options: &[&str]| {
        json(&[&["simulate", "short-term", "--apps", &apps][..], options].concat())["strategies"][0]["makespan_s"]
            .as_f64()
            .expect("a number")
    };
    assert_eq!(makespan(&[]), 3.0);
    assert_eq!(makespan(&["--forbid", "low:gpu", "--governor", "low"]), 12.0);
    assert_eq!(makespan(&["--forbid", "low:gpu", "--governor", "high,low@1.5"]), 6.0);
    assert_eq!(makespan(&["--cores", "1", "--uses", "one_core=1", "--uses", "gpu=1"]), 6.0);
    let power = ["--power", "one_core=2,1", "--power", "gpu=10"];
    let energy = json(&[&["simulate", "short-term", "--apps", &apps][..], &power].concat());
    // Three seconds of each: the core busy all the time, the GPU, too.
    assert_eq!(energy["strategies"][0]["energy_j"], 36.0);
    let banking = |options: &str| {
        let asked = format!("banking:{options}");
        json(&["simulate", &asked, "--apps", TIMES])["strategies"][0]["makespan_s"].as_f64()
    };
    assert_ne!(banking("shared=true"), banking("shared=false,at_ticks=false"));
}

#[test]
fn a_script_of_ones_own_decides_and_fails_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = |text: &str| file(folder.path(), "mine.luau", text);
    let mine = script(
        "local strategy = { parameters = { battery_min = 0.5 } }\nfunction strategy.choose(node)\n\
         print(node.now, node.sensors.battery)\nif node.sensors.battery > strategy.parameters.battery_min then\n\
         for _, r in node.resources do if r.free and node.waiting[1] then return node.waiting[1], r end end end end\nreturn strategy",
    );
    let run = |asked: &str, battery: &str| {
        strategy(&["simulate", asked, "--apps", TIMES, "--sensor", &format!("battery={battery}")])
    };
    let output = run(&mine, "0.1,0.9@50");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("mine.luau: 50 0.9"), "{}", text(&output.stderr));
    assert!(text(&run(&mine, "0.1").stderr).contains("125 of 125 collections wait for ever"));
    assert!(run(&format!("{mine}:battery_min=0.05"), "0.1").status.success());
    let endless = script("return { choose = function(node)\n  while true do end\nend }");
    let told = refusal(&["simulate", &endless, "--apps", TIMES]);
    assert!(told.contains("mine.luau:2: stopped after 10000000 steps"), "{told}");
    let wrong = script("return { choose = function(node)\n  return nodes.waiting\nend }");
    let told = refusal(&["simulate", &wrong, "--apps", TIMES]);
    assert!(told.contains("mine.luau:2: attempt to index nil with 'waiting' (in choose of"), "{told}");
}

#[test]
fn strategies_are_checked_on_random_nodes() {
    for name in ["short-term", "long-term", "banking", "banking:queue=true", "constraint", "plan-ahead"] {
        let checked = json(&["check", name, "--nodes", "25"]);
        assert!(checked["wrong"].is_null() && checked["decisions"].as_u64() > Some(0), "{checked}");
        // The same seed, the same nodes.
        let seed = checked["seed"].to_string();
        assert_eq!(checked, json(&["check", name, "--nodes", "25", "--seed", &seed]));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = |body: &str, words: &str| {
        let script =
            format!("local strategy = {{}}\nfunction strategy.choose(node)\n{body}\nend\nreturn strategy");
        let mine = file(folder.path(), "mine.luau", &script);
        let output = strategy(&["check", &mine, "--seed", "7"]);
        assert_eq!(output.status.code(), Some(1), "{body}");
        let told = text(&output.stdout);
        assert!(told.contains(words) && told.contains("--seed 7"), "{body}: {told}");
    };
    wrong("return node.waiting[1], node.waiting[1] and node.resources[1]", "has no kernel for");
    wrong("for _, c in node.waiting do return c, c.ranking[1] end", "the governor forbids");
    wrong("if #node.waiting > 2 then while true do end end", "mine.luau:3: stopped after 10000000 steps");
    wrong("if node.governor == 'low' then return node.low.x end", "mine.luau:3: attempt to index nil");
    wrong(
        "local set = {} for _, c in node.waiting do set[c] = true end\n\
         for c in set do for _, n in c.ranking do if node.resource[n].free then return c, n end end end",
        "does it go through a table whose keys are tables",
    );
    let idle = file(folder.path(), "idle.luau", "return { choose = function() end }");
    assert!(printed(&["check", &idle]).contains("it never decides anything"));
    assert!(
        refusal(&["check", &file(folder.path(), "no.luau", "return {}")])
            .contains("no.luau: `choose` is a nil")
    );
}

/// The book's table and script are those that are printed and that run.
#[test]
fn the_page_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/strategies.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let block = |language: &str| {
        let after =
            page.split(&format!("```{language}\n")).nth(1).unwrap_or_else(|| panic!("a block of {language}"));
        after.split("```").next().expect("its end")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let apps = file(folder.path(), "apps.csv", block("csv"));
    let shown = printed(&["simulate", "--apps", &apps]);
    let promised: Vec<&str> = block("console").lines().skip(1).collect();
    assert_eq!(shown.lines().take(promised.len()).collect::<Vec<_>>(), promised);
    let mine = file(folder.path(), "mine.luau", block("lua"));
    assert!(printed(&["check", &mine, "--nodes", "50"]).contains("nothing is wrong"));
    let answer = json(&["simulate", &mine, "--apps", &apps]);
    assert!(answer["strategies"][0]["makespan_s"].as_f64() > Some(600.0), "{answer}");
}

#[test]
fn two_strategies_are_told_apart() {
    let diff = |other: &str, governor: &str| {
        ["diff", "long-term", other, "--apps", TIMES, "--governor", governor].map(str::to_owned)
    };
    let same = diff("long-term", "low");
    assert!(printed(&same.each_ref().map(String::as_str)).contains("all 125 decisions are the same"));
    let different = diff("short-term", "low");
    let told = printed(&different.each_ref().map(String::as_str));
    // The third product: all cores are busy, and long-term lets it queue there.
    assert!(told.contains("the first 2 decisions are the same; then"), "{told}");
    assert!(told.contains("ran elsewhere") && told.contains("gpu instead of all_cores"), "{told}");
    let answer = json(&different.each_ref().map(String::as_str));
    assert_eq!(answer["first"][1]["resource"], "gpu");
    let counted =
        answer["applications"].as_array().expect("an array").iter().map(|row| row["collections"].as_u64());
    assert_eq!(counted.sum::<Option<u64>>(), Some(125));
}

#[test]
fn what_is_wrong_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let apps = file(folder.path(), "apps.csv", "application,gpu_s\na,x\n");
    let simulate = |arguments: &[&str]| refusal(&[&["simulate"], arguments].concat());
    assert!(simulate(&["--apps", &apps]).contains("apps.csv: line 2: `x` is no time in seconds"));
    assert!(simulate(&["--apps", "nowhere.csv"]).contains("nowhere.csv"));
    assert!(simulate(&["bankin", "--apps", TIMES]).contains("did you mean banking?"));
    assert!(
        simulate(&["banking:limit=3", "--apps", TIMES]).contains("no parameter `limit`; it has: all_cores")
    );
    assert!(simulate(&["banking:most=x", "--apps", TIMES]).contains("most is a number, not `x`"));
    assert!(simulate(&["banking:most", "--apps", TIMES]).contains("write NAME:key=value"));
    for (option, value, words) in [
        ("--instances", "a=3", "there is no application `a`"),
        ("--forbid", "low", "write LEVEL:RESOURCE"),
        ("--forbid", "low:tpu", "there is no resource `tpu`; there are one_core"),
        ("--power", "gpu=-1", "write RESOURCE=WATTS"),
        ("--governor", "high,low@x", "a time in seconds has to follow @"),
        ("--sensor", "battery=full", "write NAME=VALUE"),
    ] {
        let told = simulate(&["--apps", TIMES, option, value]);
        assert!(told.contains(words), "{option} {value}: {told}");
    }
    let binary: PathBuf = folder.path().join("binary.luau");
    std::fs::write(&binary, [0xff, 0xfe, 0]).expect("a file");
    assert!(simulate(&[&binary.display().to_string(), "--apps", TIMES]).contains("no text in UTF-8"));
}
