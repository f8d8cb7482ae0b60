//! The C and C++ examples against the installed library, under the installed `castell launch`: built with the flags of
//! pkg-config, and with CMake.

#[path = "../../capi/tests/installed/mod.rs"]
mod installed;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use installed::{Installed, output, root, sources};
use skipped::skip;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;

const GROUPS: [u32; 5] = [1, 2, 3, 4, 8];

/// One installation for all tests of this file.
fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| Installed::new("c-examples"))
}

fn launch(ranks: u32, program: &Path) -> Output {
    let mut launcher = Command::new(installed().prefix.join("bin/castell"));
    launcher.args(["launch", "--timeout", "60s", "-n"]).arg(ranks.to_string()).arg("--").arg(program);
    launcher.output().expect("castell can be started")
}

fn check_examples(folder: &str) {
    for source in sources(folder) {
        let program = installed().compile(&source);
        for ranks in GROUPS {
            let run = launch(ranks, &program);
            let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
            let what = format!("{} as a group of {ranks}", source.display());
            assert!(run.status.success(), "{what} ended with {}:\n{out}{err}", run.status);
            assert!(!out.is_empty(), "{what} said nothing");
        }
    }
}

#[test]
fn c_examples_check_themselves_in_groups_of_any_size() {
    check_examples("examples/c");
}

#[test]
fn cpp_examples_check_themselves_in_groups_of_any_size() {
    check_examples("examples/cpp");
}

#[test]
fn the_papers_listings_run_as_printed() {
    let program = installed().compile(&root().join("crates/capi/tests/c/listings.cpp"));
    for ranks in GROUPS {
        let run = launch(ranks, &program);
        assert!(run.status.success(), "group of {ranks}: {}", String::from_utf8_lossy(&run.stderr));
    }
}

#[test]
fn a_dead_rank_fails_what_depends_on_it_and_nothing_else() {
    let program = installed().compile(&root().join("crates/cli/tests/c/peer_dies.c"));
    let run = launch(4, &program);
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.status.code(), Some(128 + 9), "{out}{err}");
    for rank in [0, 2, 3] {
        assert!(out.contains(&format!("rank {rank}: ")), "rank {rank} did not get through:\n{out}{err}");
    }
}

#[test]
fn castell_and_mpi_begin_and_end_in_any_order() {
    let source = root().join("crates/cli/tests/c/beside_mpi.c");
    let open_mpi = ["--allow-run-as-root", "--oversubscribe"];
    // Those of the distribution, and those that `cargo xtask setup` brings.
    let mpis = [
        ("/usr/bin", "mpicc.mpich", "mpiexec.mpich", &[][..]),
        ("/usr/bin", "mpicc.openmpi", "mpirun.openmpi", &open_mpi),
        ("mpich-5/bin", "mpicc", "mpiexec", &[]),
        ("intel-2021/bin", "mpicc", "mpiexec", &[]),
        ("openmpi-5/bin", "mpicc", "mpirun", &open_mpi),
    ];
    // A path from the root stays what it is.
    let below = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../mpi");
    for (folder, compiler, launcher, options) in mpis {
        let [compiler, launcher] = [compiler, launcher].map(|name| below.join(folder).join(name));
        if !compiler.exists() {
            skip(&compiler.display().to_string(), "not installed; `cargo xtask setup` does it");
            continue;
        }
        let (program, root) = (folder.replace('/', "-"), below.join(folder).join(".."));
        let program =
            installed().compile_with(Command::new(&compiler).env("I_MPI_ROOT", &root), &source, &program);
        let compiler = compiler.display();
        // Castell's part lies around MPI's, in it, before, behind its beginning; one of them alone.
        for order in ["GMmg", "MGgm", "GMgm", "MGmg", "GgMm", "Gg", "G", "Mm"] {
            // Open MPI 5 does not begin where anybody has called PMIx_Init before, castell or not.
            if folder.starts_with("openmpi-5") && order.starts_with('G') && order.contains('M') {
                skip("openmpi-5-behind-pmix", "Open MPI 5 does not begin behind PMIx_Init");
                continue;
            }
            let mut run = Command::new("timeout");
            run.args(["-k", "2", "60"]).arg(&launcher).args(options).args(["-n", "3"]);
            run.arg(&program).arg(order).env("I_MPI_ROOT", &root);
            let run = run.output().expect("timeout can be started");
            let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
            if err.contains("PMIx client library cannot be used") {
                skip("libpmix", "Open MPI brings no libpmix.so.2 here");
                break;
            }
            assert!(run.status.success(), "{compiler} {order}: {}\n{out}{err}", run.status);
            assert_eq!(err, "", "{compiler} {order}");
            for (who, is_there) in [("castell", order.contains('G')), ("MPI", order.contains('M'))] {
                for rank in 0..3 {
                    let line = format!("{who}: {rank} of 3\n");
                    assert_eq!(out.contains(&line), is_there, "{compiler} {order}: {line}{out}{err}");
                }
            }
        }
    }
}

#[test]
fn a_limit_on_files_is_an_error_of_programs_without_a_launcher() {
    let program = installed().compile(&root().join("examples/c/forward.c"));
    let script = format!("ulimit -f 64; exec {}", program.display());
    let run = Command::new("sh").args(["-c", &script]).output().expect("sh can be started");
    let err = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.code().is_some_and(|code| code != 0), "{}", run.status);
    assert!(err.contains("castell: GOAL_Init: ") && err.contains("ulimit -f"), "{err}");
}

#[test]
fn threads_share_communicators() {
    let program = installed().compile(&root().join("crates/cli/tests/c/communicator_in_use.c"));
    let run = launch(2, &program);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn cmake_finds_the_library_and_the_launcher() {
    let build = installed().prefix.join("cmake-build");
    // CMake remembers paths: a folder that was moved here from elsewhere would be refused.
    let _ = std::fs::remove_dir_all(&build);
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(root().join("examples")).arg("-B").arg(&build);
    output(configure.arg(format!("-DCMAKE_PREFIX_PATH={}", installed().prefix.display())));
    let sources = std::fs::read_dir(root().join("examples/tasks")).expect("examples");
    let stems = sources.filter_map(|source| Some(source.ok()?.path().file_stem()?.to_str()?.to_owned()));
    let tasks: BTreeSet<String> = stems.map(|stem| format!("tasks_{stem}")).collect();
    assert!(tasks.len() >= 4, "{tasks:?}");
    let targets =
        ["--target", "forward_c", "forward_cpp"].into_iter().chain(tasks.iter().map(String::as_str));
    output(Command::new("cmake").arg("--build").arg(&build).args(targets));
    let tests = output(Command::new("ctest").current_dir(&build).args([
        "--no-tests=error",
        "-R",
        "^(forward_|tasks_)",
    ]));
    assert!(tests.contains("100% tests passed"), "{tests}");
}

/// Rank 0 takes two messages of each other rank, from anybody: small ones, and large ones that wait for their receives; then one of rank 1, under
/// any tag.
const FROM_ANYBODY: &str = r#"
#include <goal.h>

int main(void) {
    GOAL_Init();
    static char large[4][200000];
    int small[4] = {0}, rank = GOAL_MyRank(), others = GOAL_GroupSize() - 1;
    GOAL_Graph graph = GOAL_CreateGraph();
    for (int at = 0; at < others; at++) {
        if (rank == 0) {
            GOAL_Recv(graph, &small[at], sizeof rank, GOAL_ANY_SOURCE, 7);
            GOAL_Recv(graph, large[at], sizeof large[at], GOAL_ANY_SOURCE, 8);
        } else if (at == 0) {
            GOAL_Vertex first = GOAL_Send(graph, &rank, sizeof rank, 0, 7);
            GOAL_Requires(graph, first, GOAL_Send(graph, large[0], sizeof large[0], 0, 8));
        }
    }
    GOAL_Handle run = GOAL_Run(GOAL_Compile(graph));
    int code = GOAL_Wait(run);
    graph = GOAL_CreateGraph();
    if (rank == 0) {
        GOAL_Recv(graph, &small[0], sizeof rank, 1, GOAL_ANY_TAG);
    } else if (rank == 1) {
        GOAL_Send(graph, &rank, sizeof rank, 0, 9);
    }
    code |= GOAL_Wait(GOAL_Run(GOAL_Compile(graph)));
    GOAL_Finalize();
    return code;
}
"#;

#[test]
fn timelines_know_whose_message_a_receive_from_anybody_got() {
    let path = |name: &str| installed().prefix.join(name);
    std::fs::write(path("anybody.c"), FROM_ANYBODY).expect("a file");
    let program = installed().compile(&path("anybody.c"));
    let mut launcher = Command::new(path("bin/castell"));
    launcher
        .args(["launch", "--timeout", "60s", "-n", "4", "--force", "--timeline"])
        .arg(path("anybody.json"));
    let run = launcher.arg("--goal").arg(path("anybody.goal")).arg("--").arg(&program).output();
    let run = run.expect("castell can be started");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && !said.contains("are in no simulation"), "{said}");
    let program = std::fs::read_to_string(path("anybody.goal")).expect("a program");
    for rank in 1..4 {
        for bytes in [4, 200_000] {
            let received = format!("recv {bytes}b from {rank} tag ");
            let expected = if (rank, bytes) == (1, 4) { 2 } else { 1 };
            assert_eq!(program.matches(&received).count(), expected, "{received}: {program}");
        }
    }
    let drawn = std::fs::read_to_string(path("anybody.json")).expect("a timeline");
    assert_eq!(drawn.matches(r#""ph":"f""#).count(), 7, "an arrow a message: {drawn}");
}
