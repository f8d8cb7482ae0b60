//! The MPI door over several hosts of a laboratory: programs of real MPIs give the same results with it as without, their collective
//! calls go through castell within hosts and between them, and where that cannot be had through their MPI.

mod installed;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use installed::{Installed, root};
use skipped::skip;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Names, and how many ranks go there.
type Hosts = &'static [(&'static str, u32)];

/// An MPI that a program is built and started with.
struct Mpi {
    family: &'static str,
    compiler: String,
    launcher: Vec<String>,
    /// How its launcher is told where ranks go: one after the other to hosts with so many places each, or in turn to all hosts.
    places: fn(Hosts, bool) -> Vec<String>,
    /// How its launcher is told a variable, `NAME` and its value.
    variable: fn(&str, &str) -> Vec<String>,
}

fn listed(hosts: &[(&str, u32)]) -> String {
    hosts.iter().map(|(host, ranks)| format!("{host}:{ranks}")).collect::<Vec<_>>().join(",")
}

/// Debian's MPICH 4.0 waits for ever in `MPI_Finalize` of programs on three hosts, also without castell.
fn mpis() -> [Mpi; 2] {
    let below =
        Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").join("mpi/mpich-5/bin");
    let mpich = |program: &str| below.join(program).to_str().expect("a path of UTF-8").to_owned();
    let open = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"];
    [
        Mpi {
            family: "ompi",
            compiler: "mpicc.openmpi".into(),
            launcher: open.map(String::from).into(),
            places: |hosts, in_turn| {
                let by_node: &[&str] = if in_turn { &["--map-by", "node"] } else { &[] };
                ["--host", &listed(hosts)].iter().chain(by_node).map(|&word| word.to_owned()).collect()
            },
            variable: |name, value| vec!["-x".into(), format!("{name}={value}")],
        },
        Mpi {
            family: "mpich",
            compiler: mpich("mpicc"),
            launcher: vec![mpich("mpiexec")],
            places: |hosts, in_turn| {
                let turns =
                    if in_turn { hosts.iter().map(|(_, ranks)| *ranks).max().unwrap_or(1) } else { 1 };
                let each = |turn| {
                    let left = hosts.iter().filter(move |(_, ranks)| !in_turn || turn < *ranks);
                    left.map(move |(host, ranks)| (*host, if in_turn { 1 } else { *ranks }))
                };
                vec!["-hosts".into(), listed(&(0..turns).flat_map(each).collect::<Vec<_>>())]
            },
            variable: |name, value| vec!["-genv".into(), name.into(), value.into()],
        },
    ]
}

/// What is started, and where.
struct Case<'a> {
    /// Of the laboratory.
    options: &'a [&'a str],
    hosts: Hosts,
    in_turn: bool,
    /// With the library, if there are variables for it.
    door: Option<&'a [(&'a str, &'a str)]>,
    /// For a shell on the first host; `exec "$@"` at its end starts the launcher.
    before: &'a str,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Case { options: &[], hosts: TWO, in_turn: false, door: Some(ALWAYS), before: "exec \"$@\"" }
    }
}

const TWO: Hosts = &[("h1", 1), ("h2", 2)];
const THREE: Hosts = &[("h1", 2), ("h2", 1), ("h3", 2)];
const ALWAYS: &[(&str, &str)] = &[("CASTELL_MPI_ALWAYS", "1")];

impl Mpi {
    fn compile(&self, installed: &Installed, source: &str) -> PathBuf {
        let program = installed.prefix.join(format!("{source}.{}", self.family));
        let mut command = Command::new(&self.compiler);
        command.args(["-O1", "-g", "-w"]).arg(root().join("doors/mpi/tests").join(source));
        installed::output(command.arg("-o").arg(&program));
        program
    }

    fn end_of(&self, installed: &Installed, case: &Case, program: &Path, arguments: &[&str]) -> Output {
        let castell = installed.prefix.join("bin/castell");
        let remote = remote(installed);
        let mut command = Command::new("timeout");
        command.args(["-k", "2", "100"]).arg(&castell).args(["lab", "3"]).args(case.options);
        command.args(["--", "sh", "-c", case.before, "sh"]);
        command.args(&self.launcher).args((self.places)(case.hosts, case.in_turn));
        let ranks: u32 = case.hosts.iter().map(|(_, ranks)| ranks).sum();
        command.args(["-n", &ranks.to_string()]);
        if let Some(variables) = case.door {
            let library = installed.prefix.join(format!("lib/libcastell_mpi_{}.so", self.family));
            let library = ("LD_PRELOAD", library.to_str().expect("a path of UTF-8"));
            for (name, value) in variables.iter().copied().chain([library, ("CASTELL_MPI_STATS", "1")]) {
                command.args((self.variable)(name, value));
            }
        }
        command.arg(program).args(arguments).env("CASTELL", &castell).stdin(std::process::Stdio::null());
        // Hosts of a laboratory share processors, and some here have more networks than that of the laboratory.
        command.env("OMPI_MCA_plm_rsh_agent", &remote).env("OMPI_MCA_mpi_yield_when_idle", "1");
        command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
        command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "100");
        command.env("OMPI_MCA_btl_tcp_if_include", "eth0").env("OMPI_MCA_oob_tcp_if_include", "eth0");
        command.env("HYDRA_LAUNCHER", "rsh").env("HYDRA_LAUNCHER_EXEC", &remote);
        command.output().expect("timeout runs")
    }

    /// Runs a program to its good end; what it has said.
    #[track_caller]
    fn run(&self, installed: &Installed, case: &Case, program: &Path, arguments: &[&str]) -> String {
        let output = self.end_of(installed, case, program, arguments);
        let said = said(&output);
        let status = output.status;
        assert!(
            status.success(),
            "{} {arguments:?} on {:?}: {status}\n{said}",
            program.display(),
            case.hosts
        );
        said
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A program that starts a command on a host of the laboratory, for launchers that know of ssh.
fn remote(installed: &Installed) -> PathBuf {
    let path = installed.prefix.join("remote");
    let script = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1; shift\n\
                  exec \"$(dirname \"$0\")/bin/castell\" lab --on \"$host\" -- sh -c \"$*\"\n";
    if !path.exists() {
        std::fs::write(&path, script).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a program");
    }
    path
}

/// How many collective calls there were, and how many went through castell.
fn calls(said: &str) -> (u64, u64) {
    let line = said.lines().find(|line| line.contains("collective calls of all ranks")).expect("statistics");
    let mut numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    (numbers.next().expect("all calls"), numbers.next().expect("calls through castell"))
}

#[test]
fn programs_on_several_hosts_give_the_same_results() {
    let mpis = mpis();
    let doors: Vec<&str> = mpis.iter().flat_map(|mpi| ["--mpi", mpi.compiler.as_str()]).collect();
    let installed = Installed::with("capi-mpi-hosts", &doors);
    let _ = std::fs::remove_file(installed.prefix.join("remote"));
    let lab = Command::new(installed.prefix.join("bin/castell")).args(["lab", "1", "--", "true"]).output();
    let lab = lab.expect("castell runs");
    if !lab.status.success() {
        return skip("lab", &said(&lab));
    }
    for mpi in &mpis {
        if Command::new(&mpi.compiler).arg("--version").output().is_err() {
            skip(&mpi.compiler, "not installed; `cargo xtask setup` does it");
            continue;
        }
        compare(mpi, &installed);
        behave(mpi, &installed);
        choose(mpi, &installed);
        draw(mpi, &installed);
        stay_below(mpi, &installed);
        survive(mpi, &installed);
    }
}

/// Random calls from a seed, without the door and with it, wherever the ranks are and whatever carries their messages.
fn compare(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, "compare.c");
    let scattered: Hosts = &[("h3", 1), ("h1", 3), ("h2", 1)];
    let [tls, esp, fabric] =
        ["tcp+tls", "esp=eth0", "fabric=tcp;ofi_rxm"].map(|net| [ALWAYS[0], ("CASTELL_NET", net)]);
    // What is lost is lost of the MPI's own messages, too.
    let lossy: &[&str] = &["--loss", "1%", "--seed", "11"];
    for (hosts, number, doors) in [
        (TWO, "300", &[(false, ALWAYS, &[][..])][..]),
        (
            THREE,
            "300",
            &[
                (false, ALWAYS, &[]),
                (true, ALWAYS, &[]),
                (false, &tls, &[]),
                (true, &esp, &[]),
                (false, &fabric, &[]),
            ],
        ),
        (scattered, "100", &[(true, ALWAYS, &[]), (false, &esp, lossy)]),
    ] {
        let ranks: u32 = hosts.iter().map(|(_, ranks)| ranks).sum();
        let file = installed.prefix.join(format!("{}.{ranks}", mpi.family));
        let arguments = |does| [does, file.to_str().expect("a path of UTF-8"), "21", number];
        mpi.run(installed, &Case { hosts, door: None, ..Case::default() }, &program, &arguments("write"));
        for &(in_turn, variables, options) in doors {
            let case = Case { options, hosts, in_turn, door: Some(variables), ..Case::default() };
            let said = mpi.run(installed, &case, &program, &arguments("read"));
            let (all, through) = calls(&said);
            assert!(all >= u64::from(ranks) * 50 && all == through, "{hosts:?}: {said}");
            let net = variables.get(1).map_or("tcp", |(_, net)| *net);
            let over = format!(
                "the ranks are on {} hosts; between these castell's calls go over {net}",
                hosts.len()
            );
            assert!(said.lines().any(|line| line.ends_with(&over)), "{said}");
        }
    }
}

/// What results do not show; and what programs do rarely. Below goes what crosses an intercommunicator.
fn behave(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, "behaviour.c");
    let said = mpi.run(installed, &Case { hosts: THREE, ..Case::default() }, &program, &[]);
    let (all, through) = calls(&said);
    assert!(said.contains("fine") && all - through == 5, "{said}");
    let program = mpi.compile(installed, "hard.c");
    for what in ["threads", "fork", "open", "many", "order"] {
        let said = mpi.run(installed, &Case::default(), &program, &[what]);
        assert!(said.contains("fine"), "{what}: {said}");
    }
}

/// Ranks measure what is faster between hosts, and what was measured on one host says nothing of that.
fn choose(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, "choices.c");
    let kept = installed.prefix.join(format!("choices.{}", mpi.family));
    let _ = std::fs::remove_file(&kept);
    let seed = castell_host::clock::now_ns().to_string();
    let hosts: Hosts = &[("h1", 2), ("h2", 2)];
    let file = kept.to_str().expect("a path of UTF-8");
    let run = |check: bool| {
        let variables = [("CASTELL_MPI_CHOICES", file), ("CASTELL_MPI_CHECK", "1")];
        let door = Some(&variables[..1 + usize::from(check)]);
        let said = mpi.run(installed, &Case { hosts, door, ..Case::default() }, &program, &[&seed, "10"]);
        assert!(said.contains("fine"), "seed {seed}: {said}");
        said
    };
    let said = run(true);
    assert!(said.contains("hosts: 2, between ranks that share no memory: tcp;"), "{said}");
    assert!(said.contains("was measured for"), "seed {seed}: {said}");
    let text = std::fs::read_to_string(&kept).expect("what was measured");
    assert!(text.contains("@2:tcp:"), "seed {seed}: nothing of several hosts: {text}");
    let key = text.split(' ').take(5).collect::<Vec<_>>().join(" ");
    // Ranks 0 and 1 are on the first host, 2 and 3 on the second (FNV-1a).
    let fold = |hash: u64, host: u64| (hash ^ host).wrapping_mul(1_099_511_628_211);
    let world = format!("4@2:tcp:{:x}", [1, 1, 2, 2].into_iter().fold(14_695_981_039_346_656_037, fold));
    // As if castell's sums were slow among four ranks of one host, and between hosts fast; then the other way round.
    let rig = |of_one: &str, of_several: &str| {
        let mut rigged = String::new();
        for power in 0..20 {
            for form in ["blocking", "started"] {
                for (placement, seconds) in [("4", of_one), (&world, of_several)] {
                    rigged += &format!("{key} {placement} allreduce {form} {} {seconds}\n", 1 << power);
                }
            }
        }
        std::fs::write(&kept, rigged).expect("a file");
        let said = run(false);
        let world = said.lines().find(|line| line.contains("MPI_COMM_WORLD") && line.contains(" allreduce "));
        world.unwrap_or_else(|| panic!("no sums: {said}")).to_owned()
    };
    let line = rig("1 9", "9 1");
    assert!(line.ends_with("the MPI below is faster here"), "seed {seed}: {line}");
    let line = rig("9 1", "1 9");
    assert!(line.ends_with("  "), "seed {seed}: nothing is below: {line}");
}

/// `castell mpi` says all of it on a command line. Of a barrier on one clock, nobody comes out before the last one has come in, though the clocks of
/// hosts are hours apart.
fn draw(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, "hard.c");
    let file = |what: &str| installed.prefix.join(format!("{what}.{}.json", mpi.family));
    let (timeline, stats) = (file("timeline"), file("stats"));
    let before = format!(
        "exec \"$CASTELL\" mpi --always --net tcp+tls --timeline {} --json {} -- \"$@\"",
        timeline.display(),
        stats.display()
    );
    let case = Case { hosts: THREE, door: None, before: &before, ..Case::default() };
    let said = mpi.run(installed, &case, &program, &["open"]);
    let stats = std::fs::read_to_string(stats).expect("statistics");
    for part in [
        "\"hosts\": 3, \"net\": \"tcp+tls\", \"not_joined\": \"\"",
        "\"size\": 5, \"hosts\": 3, \"through\": true",
    ] {
        assert!(stats.contains(part), "{part}: {stats}");
    }
    let bound = said.split_once("compared with an error of ").and_then(|(_, rest)| rest.split_once(" us"));
    let bound: f64 =
        bound.and_then(|(bound, _)| bound.parse().ok()).unwrap_or_else(|| panic!("no bound: {said}"));
    let text = std::fs::read_to_string(timeline).expect("a timeline");
    let number = |line: &str, key: &str| -> f64 {
        let (_, rest) = line.split_once(key).unwrap_or_else(|| panic!("no {key}: {line}"));
        rest[..rest.find([',', '}']).expect("an end")].parse().expect("a number")
    };
    let barriers =
        text.lines().filter(|line| line.contains("\"ph\":\"X\"") && line.contains("\"name\":\"barrier\""));
    let times = barriers.map(|line| (number(line, "\"ts\":"), number(line, "\"dur\":")));
    let times: Vec<(f64, f64)> = times.map(|(since, lasts)| (since, since + lasts)).collect();
    assert_eq!(times.len(), 5, "{text}");
    let last_in = times.iter().fold(0.0, |last: f64, (since, _)| last.max(*since));
    let first_out = times.iter().fold(f64::MAX, |first, (_, until)| first.min(*until));
    assert!(last_in <= first_out + bound + 0.01, "{last_in} {first_out} {bound}: {times:?}");
}

/// Each host gets a network of its own which leads nowhere.
const SHAM: &str = "for h in h1 h2 h3; do \"$CASTELL\" lab --on $h -- sh -c \"ip link add sham type veth peer name mahs && \
                    ip address add 10.203.0.${h#h}/16 dev sham && ip link set sham up && ip link set mahs up\" || exit 9; done; exec \"$@\"";
/// One host gets a network that the others don't have.
const ONE_HAS: &str = "ip link add link eth0 name eth1 type macvlan mode bridge && ip address add 10.9.0.1/24 dev eth1 && \
                       ip link set eth1 up || exit 9; exec \"$@\"";

/// Where castell's network cannot be had all ranks leave calls between hosts to their MPI, and say why.
fn stay_below(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, "choices.c");
    for (net, before, why) in [
        ("tcp=sham", SHAM, "does not reach rank"),
        ("tcp=eth1", ONE_HAS, "on h2: "),
        ("tpc", "exec \"$@\"", "`tpc` is no network that castell knows"),
    ] {
        // Ten seconds, which are the same for each.
        if net == "tcp=sham" && mpi.family != "mpich" {
            continue;
        }
        let door = Some(&[ALWAYS[0], ("CASTELL_NET", net)][..]);
        let case = Case { hosts: THREE, door, before, ..Case::default() };
        let said = mpi.run(installed, &case, &program, &["7", "2"]);
        assert!(said.contains("fine"), "{net}: {said}");
        let is_reason =
            |line: &str| line.contains("between hosts are left to the MPI below") && line.contains(why);
        assert!(said.lines().any(is_reason), "{net}: {said}");
        assert!(said.contains("castell could not join all ranks") || net == "tpc", "{net}: {said}");
        let of_world =
            said.lines().find(|line| line.contains("MPI_COMM_WORLD") && line.contains("allreduce"));
        let of_world = of_world.unwrap_or_else(|| panic!("{net}: {said}"));
        assert!(of_world.ends_with("members on several hosts, which castell could not join"), "{of_world}");
    }
}

/// All processes of a host are killed when its ranks are under way.
const KILLS_A_HOST: &str = "(until \"$CASTELL\" lab --on h2 -- pgrep choices > /dev/null; do sleep 0.1; done; sleep 1; \
                            exec \"$CASTELL\" lab --on h2 -- sh -c 'kill -KILL -1') & exec \"$@\"";

/// Ranks that die, end or abort, and a host that is gone: the MPI ends the program, or castell does.
fn survive(mpi: &Mpi, installed: &Installed) {
    let program = mpi.compile(installed, "hard.c");
    let end = |case: &Case, program: &Path, arguments: &[&str]| {
        let output = mpi.end_of(installed, case, program, arguments);
        let (code, said) = (output.status.code(), said(&output));
        // 124 and 137 with nothing said: the time was up.
        assert!(code != Some(0) && code != Some(124), "{arguments:?}: {code:?}: {said}");
        assert!(!said.contains("fine"), "{arguments:?}: {said}");
    };
    // Open MPI sees itself when a rank ends without a word.
    let silent: &[&str] = if mpi.family == "mpich" { &["exits"] } else { &[] };
    for what in ["dies", "abort"].iter().chain(silent) {
        end(&Case::default(), &program, &[what]);
    }
    let program = mpi.compile(installed, "choices.c");
    end(&Case { before: KILLS_A_HOST, ..Case::default() }, &program, &["3", "1000000"]);
}
