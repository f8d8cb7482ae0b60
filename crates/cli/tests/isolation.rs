//! `castell launch --isolate`: ranks in namespaces of their own, which share memory nevertheless, and with nobody else.
//!
//! Ranks are this program once more: `as_a_rank` does what its role says.

#[path = "../../comm/tests/oracle/mod.rs"]
mod oracle;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use castell_base::{Rank, Tag};
use castell_comm::Comm;
use castell_host::memory;
use castell_host::process::{Pid, Process};
use serde_json::{Value, json};
use skipped::skip;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const CASTELL: &str = env!("CARGO_BIN_EXE_castell");
/// What the processes of a job do.
const ROLE: &str = "CASTELL_TEST_ROLE";
const KINDS: [&str; 5] = ["user", "pid", "ipc", "mnt", "net"];

fn this_program() -> String {
    std::env::current_exe().expect("a program knows its path").display().to_string()
}

/// `castell launch` of this program in a role. `through`: a shell's words that start `"$@"`.
fn role(options: &[&str], role: &str, through: Option<&str>) -> Command {
    let mut command = Command::new(CASTELL);
    command.args(["launch", "--timeout", "300s"]).args(options).arg("--");
    if let Some(script) = through {
        command.args(["sh", "-c", script, "sh"]);
    }
    command.args([&this_program(), "as_a_rank", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role).stdin(Stdio::null());
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What ranks have said behind a star, by rank.
#[track_caller]
fn facts(output: &Output) -> Vec<Value> {
    let all = text(&output.stdout);
    assert!(output.status.success(), "{}\n{all}\n{}", output.status, text(&output.stderr));
    let lines = all.lines().filter_map(|line| Some(line.split_once("* ")?.1));
    let mut facts: Vec<Value> = lines.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    facts.sort_by_key(|fact| fact["rank"].as_u64());
    facts
}

/// Whether domains can be made here; else the test counts as skipped.
fn domains_are_possible() -> bool {
    let output = run(Command::new(CASTELL).args(["launch", "-n", "1", "--isolate", "1", "--", "true"]));
    if !output.status.success() {
        skip("lab", &text(&output.stderr));
    }
    output.status.success()
}

#[test]
fn as_a_rank() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "intruder" => return intrude(),
        "sealed" => seal(),
        _ => {}
    }
    let comm = Comm::init().unwrap_or_else(|error| panic!("{error}"));
    match role.as_str() {
        "facts" | "sealed" => {
            for count in [1, 3000] {
                oracle::every::sample(&comm, count);
            }
            crowd(&comm);
            in_turn(&comm, || say(&look_around(&comm).to_string()));
        }
        "die" => {
            comm.world().barrier().expect("all are there");
            if comm.rank().0 == 1 {
                castell_host::process::end_now(9);
            }
            let error = comm.world().barrier().expect_err("rank 1 is gone");
            say(&json!({ "rank": comm.rank().0, "error": error.to_string() }).to_string());
            castell_host::process::end_now(0);
        }
        "wait" => {
            comm.world().barrier().expect("all are there");
            say(&json!({ "rank": comm.rank().0 }).to_string());
            std::thread::sleep(Duration::from_secs(250));
        }
        other => panic!("no role `{other}`"),
    }
    comm.finalize();
}

/// Says a line at once: lines of several ranks would else come in between.
fn say(line: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    // What the harness has begun comes first.
    out.flush().expect("a reader");
    out.write_all(format!("* {line}\n").as_bytes()).expect("a reader");
}

/// One rank after the other.
fn in_turn(comm: &Comm, act: impl Fn()) {
    for rank in 0..comm.size() {
        if rank == comm.rank().0 {
            act();
        }
        comm.world().barrier().expect("all are there");
    }
}

/// Every pair sends more large messages at a time than there are pipes: what is left goes another way.
fn crowd(comm: &Comm) {
    const BYTES: usize = 200_000;
    const EACH: u32 = 6;
    let (me, size) = (comm.rank().0, comm.size());
    let content = |from: u32, to: u32, which: u32| (from * 61 + to * 17 + which + 1) as u8;
    let pairs: Vec<(u32, u32)> = (0..size)
        .filter(|other| *other != me)
        .flat_map(|other| (0..EACH).map(move |which| (other, which)))
        .collect();
    let sent: Vec<Vec<u8>> = pairs.iter().map(|(to, which)| vec![content(me, *to, *which); BYTES]).collect();
    let mut got: Vec<Vec<u8>> = pairs.iter().map(|_| vec![0; BYTES]).collect();
    comm.scope(|scope| {
        let mut graph = scope.graph();
        for ((other, which), (from, into)) in pairs.iter().zip(sent.iter().zip(&mut got)) {
            graph.send(scope.share(from), Rank(*other), Tag(*which)).expect("legal");
            graph.recv(scope.lend(into), Some(Rank(*other)), Some(Tag(*which))).expect("legal");
        }
        scope.run(&graph.compile().expect("it compiles")).expect("it starts").wait().expect("it ends well");
    });
    for ((other, which), got) in pairs.iter().zip(&got) {
        let expected = content(*other, me, *which);
        assert!(got.iter().all(|byte| *byte == expected), "message {which} from rank {other} to rank {me}");
    }
}

/// What a rank can see.
fn look_around(comm: &Comm) -> Value {
    let namespace = |kind: &&str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
        link.display().to_string()
    };
    let names = |folder: &str| {
        let entries =
            std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.file_name()));
        let mut names: Vec<String> =
            entries.into_iter().flatten().map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let processes = names("/proc").iter().filter(|name| name.parse::<u32>().is_ok()).count();
    let peers = (0..comm.size()).filter(|rank| *rank != comm.rank().0);
    let reads = peers.filter(|rank| castell_comm::ways::reads(comm.job(), Rank(*rank))).count();
    let number = std::process::id().to_string();
    let ways = run(Command::new(CASTELL).args(["ways", "--json", "--job", &number]));
    let ways: Value = serde_json::from_slice(&ways.stdout).unwrap_or(Value::Null);
    json!({
        "rank": comm.rank().0, "namespaces": KINDS.iter().map(namespace).collect::<Vec<_>>(), "pid": std::process::id(),
        "user": castell_host::descriptor::own_user(), "processes": processes, "shared": names("/dev/shm"), "mine": names("/mnt"),
        "reads": reads, "matrix": ways["jobs"][0]["matrix"], "domain": ways["jobs"][0]["ranks"][comm.rank().index()]["domain"],
    })
}

fn own_namespaces() -> Vec<Value> {
    let of = |kind: &&str| std::fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
    KINDS.iter().map(|kind| json!(of(kind).display().to_string())).collect()
}

/// How many different ones there are, this program's own included, of each kind.
fn different(facts: &[Value]) -> [usize; 5] {
    let own = own_namespaces();
    std::array::from_fn(|kind| {
        let all = facts.iter().map(|fact| fact["namespaces"][kind].to_string());
        all.chain([own[kind].to_string()]).collect::<BTreeSet<_>>().len()
    })
}

#[test]
fn ranks_in_domains_of_their_own() {
    if !domains_are_possible() {
        return;
    }
    let all = facts(&run(&mut role(&["-n", "4", "--isolate", "4"], "facts", None)));
    assert_eq!(different(&all), [5; 5], "{all:?}");
    let matrix = json!([".mmm", "m.mm", "mm.m", "mmm."]);
    for (rank, fact) in (1..).zip(&all) {
        assert_eq!((&fact["matrix"], &fact["domain"]), (&matrix, &json!(rank)), "{fact}");
        assert_eq!((&fact["reads"], &fact["shared"]), (&json!(0), &json!([])), "{fact}");
        assert!(fact["pid"].as_u64() < Some(100) && fact["processes"].as_u64() < Some(10), "{fact}");
    }
}

#[test]
fn neighbours_together_and_apart() {
    if !domains_are_possible() {
        return;
    }
    for (options, domains) in
        [("2", [1, 1, 1, 2, 2]), ("2,scatter,pid,mnt", [1, 2, 1, 2, 1]), ("9,ipc", [1, 2, 3, 4, 5])]
    {
        let all = facts(&run(&mut role(&["-n", "5", "--isolate", options], "facts", None)));
        let said: Vec<&Value> = all.iter().map(|fact| &fact["domain"]).collect();
        assert_eq!(said, domains, "{options}");
        for (one, fact) in domains.iter().zip(&all) {
            for (other, another) in domains.iter().zip(&all) {
                let is_same = fact["namespaces"] == another["namespaces"];
                assert_eq!(is_same, one == other, "{options}: {fact} {another}");
            }
        }
    }
}

#[test]
fn one_kind_at_a_time() {
    if !domains_are_possible() {
        return;
    }
    let is_root = castell_host::descriptor::own_user() == 0;
    for (at, kind) in KINDS.iter().enumerate() {
        let all = facts(&run(&mut role(&["-n", "2", "--isolate", &format!("2,{kind}")], "facts", None)));
        let own = different(&all);
        for (other, count) in own.iter().enumerate() {
            // Without root a user namespace comes with the others.
            let is_own = other == at || (!is_root && other == 0);
            assert_eq!(*count, if is_own { 3 } else { 1 }, "{kind}: {own:?} {all:?}");
        }
    }
}

#[test]
fn without_root() {
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).args(words);
        command.current_dir("/").stdin(Stdio::null()).env(ROLE, "facts").output()
    };
    let me = this_program();
    if !as_nobody(&[&me, "--list"]).is_ok_and(|output| output.status.success()) {
        // This is no root, and the other tests show the same; or the program lies where others may not look.
        return;
    }
    let rank = [&*me, "as_a_rank", "--exact", "--nocapture", "--test-threads=1"];
    let words = [&[CASTELL, "launch", "-n", "3", "--isolate", "3", "--"], &rank[..]].concat();
    let output = as_nobody(&words).expect("castell runs");
    if output.status.code() == Some(1) && text(&output.stderr).contains("cannot be made") {
        skip("lab-without-root", &text(&output.stderr));
        return;
    }
    let all = facts(&output);
    assert_eq!(different(&all), [4; 5], "{all:?}");
    assert!(all.iter().all(|fact| fact["user"] == 65534 && fact["reads"] == 0), "{all:?}");
}

#[test]
fn users_and_root_folders_may_differ() {
    if !domains_are_possible() {
        return;
    }
    if castell_host::descriptor::own_user() != 0 {
        skip("another-user", "only root becomes another user");
        return;
    }
    let user = r#"id=$((3000 + CASTELL_RANK)); exec setpriv --reuid $id --regid $id --clear-groups "$@""#;
    let output = run(&mut role(&["-n", "3", "--isolate", "3,pid,mnt"], "facts", Some(user)));
    if text(&output.stderr).contains("Permission denied") {
        skip("another-user", "the program lies where others may not look");
        return;
    }
    let users: Vec<Value> = facts(&output).iter().map(|fact| fact["user"].clone()).collect();
    assert_eq!(users, [3000, 3001, 3002]);
    let folder = tempfile::tempdir().expect("a folder");
    let roots = folder.path().display();
    let root = format!(
        r#"r={roots}/$CASTELL_RANK; mkdir $r && mount --rbind / $r && mount -t tmpfs mine $r/mnt && touch $r/mnt/rank$CASTELL_RANK &&
        exec chroot $r "$@""#
    );
    let all = facts(&run(&mut role(&["-n", "2", "--isolate", "2"], "facts", Some(&root))));
    let mine: Vec<&Value> = all.iter().map(|fact| &fact["mine"]).collect();
    assert_eq!(mine, [&json!(["rank0"]), &json!(["rank1"])], "{all:?}");
}

/// As containers' usual filters of system calls do, for what ranks might want of each other.
fn seal() {
    use castell_host::domain::forbid_system_calls;
    let forbidden =
        [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_ptrace, libc::SYS_pidfd_getfd];
    forbid_system_calls(&forbidden).expect("filters can be set");
}

#[test]
fn system_calls_may_be_filtered() {
    if !domains_are_possible() {
        return;
    }
    for options in [&["-n", "3"][..], &["-n", "3", "--isolate", "2"]] {
        let all = facts(&run(&mut role(options, "sealed", None)));
        assert!(all.len() == 3 && all.iter().all(|fact| fact["reads"] == 0), "{all:?}");
    }
}

/// A job that runs; ended where a test fails.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        Running(command.stdout(Stdio::piped()).spawn().expect("castell runs"))
    }

    /// Waits until so many ranks have said something.
    fn wait_for(&mut self, ranks: usize) {
        let lines = BufReader::new(self.0.stdout.as_mut().expect("piped")).lines();
        let said = lines.map_while(Result::ok).filter(|line| line.contains("* ")).take(ranks);
        assert_eq!(said.count(), ranks, "they did not come so far");
    }

    /// The processes that its launcher has started, as this program sees them.
    fn processes(&self) -> Vec<u32> {
        descendants(self.0.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn descendants(of: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parent = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat[stat.rfind(')')? + 1..].split_ascii_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let mut found: Vec<u32> = numbers.iter().copied().filter(|pid| parent(pid) == Some(of)).collect();
    for at in 0..found.len() {
        found.extend(descendants(found[at]));
    }
    found
}

/// Tries all that a program may know of to get at another job's memory; says what it got.
fn intrude() {
    let own = std::env::var("CASTELL_JOB_FD").expect("it has a job of its own");
    let identity = |path: &str| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|status| (status.dev(), status.ino())).ok()
    };
    let own = identity(&format!("/proc/self/fd/{own}"));
    let mut got = BTreeSet::new();
    // Whatever processes can be seen, and those of the victims, whose numbers somebody has told.
    let told = std::env::var("CASTELL_TEST_VICTIMS").unwrap_or_default();
    let seen = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let seen = seen.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let all: BTreeSet<i32> = told.split(',').filter_map(|word| word.parse().ok()).chain(seen).collect();
    for number in all.into_iter().filter(|number| *number != std::process::id() as i32) {
        for entry in std::fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = std::fs::read_link(&path).unwrap_or_default().display().to_string();
            let is_job =
                name.starts_with("/memfd:castell-job") && identity(&path.display().to_string()) != own;
            let opens = is_job && std::fs::OpenOptions::new().read(true).write(true).open(&path).is_ok();
            got.extend(opens.then(|| "a segment through /proc".to_owned()));
        }
        let maps = std::fs::read_to_string(format!("/proc/{number}/maps")).unwrap_or_default();
        if maps.contains("memfd:castell-job")
            && number != 1
            && told.split(',').any(|told| told == number.to_string())
        {
            got.insert("a map of memory".into());
            let line = maps.lines().find(|line| line.contains("memfd:castell-job")).expect("it is there");
            let start =
                usize::from_str_radix(line.split('-').next().expect("a range"), 16).expect("a number");
            let reads =
                Pid::from_raw(number).is_some_and(|pid| memory::read(pid, start, &mut [0; 8]).is_ok());
            got.extend(reads.then(|| "a read of memory".to_owned()));
        }
        if !told.split(',').any(|told| told == number.to_string()) {
            continue;
        }
        // Numbers that somebody has told mean other processes here, or none.
        let process = Pid::from_raw(number).map(Process::open);
        if let Some(Ok(process)) = process {
            got.insert("hold of a process".into());
            let taken = |at: i32| process.descriptor_of(at).is_ok();
            got.extend((3..64).any(taken).then(|| "a descriptor".to_owned()));
        }
    }
    let names = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten().count();
    got.extend((names("/dev/shm") > 0).then(|| "a file in /dev/shm".to_owned()));
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    got.extend(sockets.contains("@castell").then(|| "a socket".to_owned()));
    say(&json!({ "rank": 0, "got": got }).to_string());
}

#[test]
fn nobody_gets_into_another_job() {
    if !domains_are_possible() {
        return;
    }
    let mut job = Running::start(&mut role(&["-n", "2", "--isolate", "2"], "wait", None));
    job.wait_for(2);
    let victims = job.processes();
    assert!(victims.len() >= 4, "two ranks, two first processes of domains: {victims:?}");
    let victims = victims.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let got = |isolate: &[&str]| {
        let options = [&["-n", "1"], isolate].concat();
        let output = run(role(&options, "intruder", None).env("CASTELL_TEST_VICTIMS", &victims));
        facts(&output)[0]["got"].clone()
    };
    // What it tries would work.
    let outside = got(&[]).to_string();
    for way in ["a segment through /proc", "hold of a process", "a map of memory"] {
        assert!(outside.contains(way), "{way}: {outside}");
    }
    assert_eq!(got(&["--isolate", "1"]), json!([]));
}

#[test]
fn deaths_are_told_across_domains() {
    if !domains_are_possible() {
        return;
    }
    let output = run(&mut role(&["-n", "3", "--isolate", "3"], "die", None));
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let told: Vec<&str> = said.lines().filter(|line| line.contains("* ")).collect();
    assert!(told.len() == 2 && told.iter().all(|line| line.contains("rank 1")), "{said}");
}

/// A number of seconds that no other command line has.
fn mark() -> String {
    format!("4{:07}{:09}.5", std::process::id() % 10_000_000, castell_host::clock::now_ns() % 1_000_000_000)
}

fn sleepers(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| text(line) == format!("sleep\0{mark}\0")).count()
}

fn wait_until(what: &str, ready: impl Fn() -> bool) {
    let since = Instant::now();
    while !ready() {
        assert!(since.elapsed() < Duration::from_secs(60), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nothing_is_left() {
    if !domains_are_possible() {
        return;
    }
    let launch = |script: &str| {
        let mut command = Command::new(CASTELL);
        command
            .args(["launch", "-n", "2", "--isolate", "2", "--prefix", "--", "sh", "-c", script])
            .stdin(Stdio::null());
        command
    };
    // What a rank leaves behind, which holds the output open, ends with the job.
    let mark_left = mark();
    let output = run(&mut launch(&format!("setsid sleep {mark_left} & echo rank $CASTELL_RANK")));
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!((lines, output.status.code()), (vec!["[0] rank 0".into(), "[1] rank 1".into()], Some(0)));
    wait_until("nobody sleeps", || sleepers(&mark_left) == 0);
    // Nor does it outlive a launcher that is killed.
    let mark_killed = mark();
    let mut job =
        Running::start(&mut launch(&format!("setsid sleep {mark_killed} & exec sleep {mark_killed}")));
    wait_until("all sleep", || sleepers(&mark_killed) == 4);
    let processes = job.processes();
    job.0.kill().expect("a signal");
    wait_until("nobody sleeps", || sleepers(&mark_killed) == 0);
    let lives = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.contains("castell-domain"))
    };
    wait_until("no domain is left", || !processes.iter().any(lives));
}

#[test]
fn codes_signals_and_input() {
    if !domains_are_possible() {
        return;
    }
    let launch = |words: &[&str]| {
        let mut command = Command::new(CASTELL);
        command.args(["launch", "-n", "2", "--isolate", "2", "--"]).args(words);
        command
    };
    let code = |words: &[&str]| run(launch(words).stdin(Stdio::null())).status.code();
    assert_eq!(code(&["sh", "-c", "exit $((CASTELL_RANK * 3))"]), Some(3));
    assert_eq!(code(&["sh", "-c", "kill -9 $$"]), Some(137));
    assert_eq!(code(&["./no-such-program"]), Some(127));
    assert_eq!(code(&["/etc/passwd"]), Some(126));
    let mut echo = Command::new("sh");
    echo.args([
        "-c",
        r#"echo hello | "$0" launch -n 2 --isolate 2 -- sh -c 'read line; echo "$CASTELL_RANK $line"'"#,
        CASTELL,
    ]);
    let said = text(&run(&mut echo).stdout);
    assert!(said.contains("0 hello") && said.contains("1 \n"), "{said}");
    // Where it was started, and as who.
    let said = text(&run(launch(&["sh", "-c", "pwd; id -u"]).stdin(Stdio::null())).stdout);
    let here = std::env::current_dir().expect("a folder").display().to_string();
    let user = castell_host::descriptor::own_user().to_string();
    let expected: BTreeSet<&str> = [&*here, &*user].into();
    assert_eq!(said.lines().collect::<BTreeSet<_>>(), expected, "{said}");
    // A rank that handles a signal gets it once, and first processes of domains don't mind.
    let trap = "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let mut job = Running::start(launch(&["sh", "-c", trap]).stdin(Stdio::null()));
    let mut lines = BufReader::new(job.0.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert_eq!((lines.next().as_deref(), lines.next().as_deref()), (Some("ready"), Some("ready")));
    let pid = Pid::from_raw(job.0.id() as i32).expect("a number");
    Process::open(pid).and_then(|process| process.signal(libc::SIGTERM)).expect("a signal");
    assert_eq!(lines.collect::<Vec<_>>(), ["told", "told"]);
    assert_eq!(job.0.wait().expect("it ends").code(), Some(0));
}

#[test]
fn on_several_hosts() {
    if !domains_are_possible() {
        return;
    }
    let hosts = ["--hosts", "a:2,b:2", "--remote", "env CASTELL_TEST_HOST={host}", "--isolate", "2"];
    let all = facts(&run(&mut role(&hosts, "facts", None)));
    assert_eq!(different(&all), [5, 5, 5, 5, 1], "TCP needs a network in common: {all:?}");
    let matrix = json!([".mtt", "m.tt", "tt.m", "ttm."]);
    assert!(all.iter().all(|fact| fact["matrix"] == matrix), "{all:?}");
    // Hosts of namespaces, and namespaces in them.
    let launch = role(&["-n", "4", "--isolate", "2", "--ways"], "facts", None);
    let mut lab = Command::new(CASTELL);
    lab.args(["lab", "2", "--", CASTELL]).args(launch.get_args()).env(ROLE, "facts").stdin(Stdio::null());
    let output = run(&mut lab);
    let all = facts(&output);
    assert!(all.len() == 4 && all.iter().all(|fact| fact["matrix"] == matrix), "{all:?}");
    let told = text(&output.stderr);
    assert!(told.contains("h1/domain 1 - h1/domain 2, h2/domain 1 - h2/domain 2: shared memory"), "{told}");
}

#[test]
fn benchmarks_run_between_the_ranks_of_a_job() {
    if !domains_are_possible() {
        return;
    }
    let bench = |options: &[&str], words: &str| {
        let mut command = Command::new(CASTELL);
        command.arg("launch").args(options).args(["--", CASTELL, "bench"]).args(words.split(' '));
        run(command.stdin(Stdio::null()))
    };
    let output =
        bench(&["-n", "3", "--isolate", "3"], "pingpong --json --rounds 2 --samples 2 --bytes 8,65536");
    let rows: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let subjects: Vec<&Value> = rows.as_array().expect("rows").iter().map(|row| &row["subject"]).collect();
    assert_eq!(subjects, ["castell, ranks 0 and 1 of 3, in domains 1 and 2"; 2]);
    assert!(rows[0]["median_ns"].as_f64() > Some(0.0) && rows[0]["samples"] == 4, "{rows}");
    let output = bench(&["-n", "1"], "pingpong");
    assert!(text(&output.stderr).contains("needs 2 ranks"), "{}", text(&output.stderr));
    let output = bench(&["-n", "2"], "startup");
    assert!(text(&output.stderr).contains("starts its own processes"), "{}", text(&output.stderr));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |options: &[&str]| {
        let output = run(Command::new(CASTELL).arg("launch").args(options).args(["--", "true"]));
        (output.status.code(), text(&output.stderr))
    };
    for (bad, says) in [("0", "no number of domains"), ("2,uts", "`uts` is nothing"), ("two", "no number")] {
        let (code, told) = refused(&["-n", "2", "--isolate", bad]);
        assert!(code == Some(2) && told.contains(says), "{bad}: {told}");
    }
    let (code, told) = refused(&["-n", "2", "--net", "tcp", "--isolate", "2,net"]);
    assert!(code == Some(1) && told.contains("leave out net"), "{told}");
}
