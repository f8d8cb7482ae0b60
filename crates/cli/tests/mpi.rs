//! `castell mpi`: which library it chooses for which program, and how each launcher hands it on. In the place of castell's
//! libraries stand some that say where they are loaded.

mod json_page;
#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;

use json_page::stands_on_the_page;
use skipped::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = "#include <mpi.h>\n#include <stdio.h>\nint main(int argc, char **argv) {\n    MPI_Init(&argc, &argv);\n    \
                       int rank;\n    MPI_Comm_rank(MPI_COMM_WORLD, &rank);\n    printf(\"rank %d\\n\", rank);\n    \
                       MPI_Finalize();\n    return 0;\n}\n";
/// Says in which program it is, and what it is told.
const PRELOADED: &str = "#define _GNU_SOURCE\n#include <errno.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
                         __attribute__((constructor)) static void loaded(void) {\n    const char *only = getenv(\"CASTELL_MPI_ONLY\");\n    \
                         printf(\"loaded in %s, only %s\\n\", program_invocation_short_name, only ? only : \"\");\n    fflush(stdout);\n}\n";
const LIBRARIES: [&str; 3] = ["libcastell_mpi_ompi.so", "libcastell_mpi_mpich.so", "libcastell_mpi_abi.so"];

/// A folder with programs, and the libraries.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench { folder: tempfile::tempdir().expect("a folder") };
        bench.compile_plainly(PRELOADED, LIBRARIES[0], &["-shared", "-fPIC"]);
        for other in &LIBRARIES[1..] {
            std::fs::copy(bench.path(LIBRARIES[0]), bench.path(other)).expect("a copy");
        }
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("rights");
        path
    }

    /// By an MPI's compiler.
    fn compile(&self, mpi: &Mpi, text: &str, program: &str) -> PathBuf {
        let mut compiler = Command::new(&mpi.compiler);
        let root = Path::new(&mpi.compiler).parent().and_then(Path::parent).expect("a folder");
        self.compile_with(compiler.env("I_MPI_ROOT", root), text, program)
    }

    fn compile_plainly(&self, text: &str, program: &str, options: &[&str]) -> PathBuf {
        self.compile_with(Command::new("gcc").args(options), text, program)
    }

    fn compile_with(&self, compiler: &mut Command, text: &str, program: &str) -> PathBuf {
        let path = self.path(program);
        let source = self.write(&format!("{program}.c"), text);
        let output = compiler.arg("-o").arg(&path).arg(source).output().expect("a compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }

    fn castell(&self, options: &[&str], words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command.arg("mpi").arg("--libraries").arg(self.folder.path()).args(options).arg("--").args(words);
        command.stdin(Stdio::null()).output().expect("castell runs")
    }
}

fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into(), String::from_utf8_lossy(&output.stderr).into())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// An MPI: its name, its compiler, its launcher for two ranks, how that hands variables on, castell's library for it.
struct Mpi {
    name: &'static str,
    compiler: String,
    launcher: Vec<String>,
    way: &'static str,
    door: &'static str,
}

/// Those of the distribution, and those that `cargo xtask setup` puts below the target folder.
fn mpis() -> Vec<Mpi> {
    let below = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder").join("mpi");
    let open = ["--allow-run-as-root", "--oversubscribe", "-n", "2"];
    [
        ("openmpi", "mpicc.openmpi", "mpirun.openmpi", &open[..], "by its -x", LIBRARIES[0]),
        ("mpich", "mpicc.mpich", "mpiexec.mpich", &open[2..], "by its -genv", LIBRARIES[1]),
        ("openmpi-5", "mpicc", "mpirun", &open, "by its -x", LIBRARIES[0]),
        ("mpich-5", "mpicc", "mpiexec", &open[2..], "by its -genv", LIBRARIES[1]),
        ("intel-2021", "mpicc", "mpiexec", &open[2..], "by its -genv", LIBRARIES[1]),
        ("mpich-5", "mpicc_abi", "mpiexec", &open[2..], "by its -genv", LIBRARIES[2]),
    ]
    .into_iter()
    .filter_map(|(name, compiler, launcher, options, way, door)| {
        let folder = if name.contains('-') { below.join(name).join("bin") } else { "/usr/bin".into() };
        let place = |program: &str| text(&folder.join(program)).to_owned();
        if !folder.join(compiler).exists() {
            skip(name, "not installed; `cargo xtask setup` does it");
            return None;
        }
        let mut launcher = vec![place(launcher)];
        if name.starts_with("intel") {
            // Its programs look for themselves there.
            let root = folder.parent().expect("a folder");
            launcher = ["env".to_owned(), format!("I_MPI_ROOT={}", text(root))]
                .into_iter()
                .chain(launcher)
                .collect();
        }
        launcher.extend(options.iter().map(|option| (*option).to_owned()));
        Some(Mpi { name, compiler: place(compiler), launcher, way, door })
    })
    .collect()
}

#[test]
fn each_program_gets_the_library_of_its_mpi() {
    let bench = Bench::new();
    for (index, mpi) in (0..).zip(mpis()) {
        let program = bench.compile(&mpi, PROGRAM, &format!("program{index}"));
        let launcher: Vec<&str> = mpi.launcher.iter().map(String::as_str).collect();
        let loaded = format!("loaded in program{index}, only bcast,scan");
        let script = bench.write(
            &format!("start{index}"),
            &format!("#!/bin/sh\nset -e\nexec {} '{}' \"$@\"\n", launcher.join(" "), program.display()),
        );
        let direct = [&launcher[..], &[text(&program)]].concat();
        let wrapped = [&launcher[..], &["env", "-u", "NOTHING", text(&program)]].concat();
        let scripted = [text(&script), "9"];
        for (words, way) in
            [(&direct[..], mpi.way), (&wrapped, mpi.way), (&scripted, "through the environment")]
        {
            let output = bench.castell(&["--only", "bcast,scan"], words);
            let (out, err) = texts(&output);
            assert!(output.status.success(), "{}: {words:?}: {out}{err}", mpi.name);
            assert!(err.contains(mpi.door) && err.contains(way), "{}: {words:?}: {err}", mpi.name);
            assert_eq!(err.lines().filter(|line| line.starts_with("castell: ")).count(), 1, "{err}");
            assert_eq!(out.matches(&loaded).count(), 2, "{words:?}: {out}{err}");
            for rank in ["rank 0\n", "rank 1\n"] {
                assert!(out.contains(rank), "{out}{err}");
            }
            // The launcher is left alone where it can be.
            assert!(words.len() == scripted.len() || !out.contains("loaded in mpi"), "{out}");
        }
    }
}

#[test]
fn python_programs_get_the_library_of_their_mpi4py() {
    let bench = Bench::new();
    for mpi in mpis().iter().filter(|mpi| mpi.name.contains('-') && mpi.compiler.ends_with("mpicc")) {
        let python = mpi.compiler.replace("/mpicc", "/python");
        let launcher: Vec<&str> = mpi.launcher.iter().map(String::as_str).collect();
        // In one piece: the other rank's may come in between.
        let program = "import os; from mpi4py import MPI; os.write(1, b'%d ranks\\n' % MPI.COMM_WORLD.size)";
        let words = [&launcher[..], &[&python, "-c", program]].concat();
        let (out, err) = texts(&bench.castell(&[], &words));
        assert!(err.contains(&format!("{python} uses")) && err.contains(mpi.way), "{}: {out}{err}", mpi.name);
        assert_eq!(out.matches("loaded in python").count(), 2, "{}: {out}{err}", mpi.name);
        assert_eq!(out.matches(" ranks").count(), 2, "{}: {out}{err}", mpi.name);
    }
}

#[test]
fn what_cannot_be_had_runs_as_without_castell() {
    let bench = Bench::new();
    let own = "int MPI_Init(int *c, char ***v) { return c == 0 && v == 0; }\nint main(void) { return MPI_Init(0, 0) + 6; }\n";
    let linked = bench.compile_plainly(own, "own", &["-rdynamic"]);
    let fixed = bench.compile_plainly(own, "fixed", &["-static"]);
    let old = bench.compile_plainly(
        "int old(void) { return 0; }",
        "libmpi.so.20",
        &["-shared", "-fPIC", "-Wl,-soname,libmpi.so.20"],
    );
    let user = "int old(void);\nint main(void) { return old() + 5; }\n";
    let rpath = format!("-Wl,-rpath,{}", bench.folder.path().display());
    let outdated = bench.compile_plainly(user, "user", &["-Wl,--no-as-needed", text(&old), &rpath]);
    let script = bench.write("script", "#!/bin/sh\nexit 9\n");
    let python = bench.write("python3", "#!/bin/sh\necho no such module >&2\nexit 8\n");
    for (program, code, why) in [
        (&linked, 7, "has MPI linked into itself"),
        (&fixed, 7, "is linked statically"),
        (&outdated, 5, "loads libmpi.so.20, whose binary interface"),
        (&script, 9, "loads no MPI library"),
        (&python, 8, "loads no MPI library"),
    ] {
        let output = bench.castell(&["--stats"], &[text(program)]);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{out}{err}");
        assert!(err.starts_with("castell: runs without castell: ") && err.contains(why), "{err}");
        assert_eq!(out, "", "nothing was loaded");
    }
    let output = bench.castell(&[], &["/nowhere/mpirun", "-n", "2", "x"]);
    assert_eq!(output.status.code(), Some(127));
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    let output = command
        .args(["mpi", "--mpi", "abi", "--libraries", "/nowhere", "--", "true"])
        .output()
        .expect("castell runs");
    let (_, err) = texts(&output);
    assert!(
        output.status.success() && err.contains("there is no libcastell_mpi_abi.so in /nowhere"),
        "{err}"
    );
    assert!(err.contains("cargo xtask install --mpi"), "{err}");
    let output = bench.castell(&["--only", "allredcue"], &["true"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn commands_can_be_shown_instead() {
    let bench = Bench::new();
    let script = bench.write("srun", "#!/bin/sh\nexit 1\n");
    let options =
        ["--dry-run", "--mpi", "abi", "--always", "--check", "--not", "scan", "--json", "stats file"];
    let (out, err) = texts(&bench.castell(&options, &[text(&script), "-n", "3", "./app", "a b"]));
    let library = bench.path(LIBRARIES[2]).canonicalize().expect("a library");
    let named = "CASTELL_MPI_STATS,CASTELL_MPI_CHECK,CASTELL_MPI_ALWAYS,CASTELL_MPI_NOT";
    let behind = format!(
        "{} --export=ALL,LD_PRELOAD={},{named} -n 3 ./app 'a b'\n",
        script.display(),
        library.display()
    );
    assert!(out.ends_with(&behind), "{out}{err}");
    let file = std::env::current_dir().expect("a folder").join("stats file");
    let before = format!(
        "CASTELL_MPI_STATS='{}' CASTELL_MPI_CHECK=1 CASTELL_MPI_ALWAYS=1 CASTELL_MPI_NOT=scan ",
        file.display()
    );
    assert!(out.starts_with(&before), "{out}{err}");
    let (shares, _) = texts(&bench.castell(&["--dry-run", "--mpi", "abi", "--share"], &["./app"]));
    assert!(shares.ends_with("CASTELL_MPI_ALWAYS=1 CASTELL_SHARE=1 ./app\n"), "{shares}");
    let (net, _) = texts(&bench.castell(&["--dry-run", "--mpi", "abi", "--net", "tcp=ib0"], &["./app"]));
    assert!(net.ends_with(" CASTELL_NET=tcp=ib0 ./app\n"), "{net}");
    assert!(err.contains("an MPI with the standard ABI") && err.contains("by its --export"), "{err}");
}

#[test]
fn mpis_are_measured_with_castell_and_without() {
    let bench = Bench::new();
    let mpis = mpis();
    let mut named = Vec::new();
    for (index, mpi) in mpis.iter().enumerate() {
        let launcher = mpi.launcher.iter().find(|word| word.contains("mpi") && !word.contains('='));
        named.push(format!("m{index}={}:{}", mpi.compiler, launcher.expect("a launcher")));
    }
    let run = |libraries: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
        command.args([
            "bench",
            "mpi",
            "--ops",
            "barrier,allreduce",
            "--bytes",
            "8",
            "--ranks",
            "2",
            "--rounds",
            "1",
        ]);
        command.args(["--samples", "1", "--json", "--always", "--libraries", libraries]);
        command
            .args(named.iter().flat_map(|mpi| ["--mpi", mpi]))
            .stdin(Stdio::null())
            .output()
            .expect("castell runs")
    };
    let output = run(text(bench.folder.path()));
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}{err}");
    let rows: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    stands_on_the_page("bench mpi", &rows);
    let rows = rows.as_array().expect("rows");
    // Started allreduces, too.
    assert_eq!(rows.len(), 3 * mpis.len(), "{out}");
    for row in rows {
        for key in ["mpi_ns", "castell_ns", "always_ns", "ratio", "ratio_to_best"] {
            assert!(row[key].as_f64() > Some(0.0), "{key}: {row}");
        }
    }
    if !mpis.is_empty() {
        let (out, err) = texts(&run("/nowhere"));
        assert!(err.contains("there is no libcastell_mpi_"), "{out}{err}");
    }
}

/// What rank 0 would write, written by a script; castell waits for its end, and draws it.
#[test]
fn calls_are_drawn_after_the_end() {
    let bench = Bench::new();
    let call = |rank: u32, from: f64, lasts: f64| {
        format!(
            r#"{{"ph":"X","pid":{rank},"tid":1,"ts":{from},"dur":{lasts},"name":"allreduce","args":{{"bytes":8,"ranks":2,"through":"castell"}}}}"#
        )
    };
    let names = r#"{"ph":"M","pid":0,"name":"process_name"},{"ph":"M","pid":1,"name":"process_name"}"#;
    let trace = format!("{{\"traceEvents\":[{names},{},{}]}}", call(0, 10.0, 50.0), call(1, 50.0, 5.0));
    let program = format!("#!/bin/sh\necho '{trace}' >\"$CASTELL_MPI_TIMELINE\"\nexit 7\n");
    let program = bench.write("traced", &program);
    let draw = |file: &str, options: &[&str], program: &Path| {
        let drawing = bench.path(file);
        let options = [&["--mpi", "ompi", "--timeline", text(&drawing)], options].concat();
        let output = bench.castell(&options, &[text(program)]);
        (drawing, output)
    };
    let (drawing, output) = draw("out.svg", &["--title", "Two ranks"], &program);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(7), "the program's: {out}{err}");
    assert!(err.contains("timeline: "), "{err}");
    let svg = std::fs::read_to_string(&drawing).expect("a drawing");
    assert!(svg.contains(">Two ranks<") && svg.contains("allreduce of 8 b"), "{svg}");
    // Rank 0 waited for rank 1, which computed for 50 us of the 60.
    assert!(svg.contains("Critical path: computing 83 %"), "{svg}");
    assert!(!bench.path(".out.svg.calls").exists(), "nothing is left beside it");
    let (page, output) = draw("out.html", &[], &program);
    assert!(page.exists(), "{:?}", texts(&output));
    // As before, where the library's own format is asked for.
    let (json, _) = draw("out.json", &[], &program);
    assert_eq!(std::fs::read_to_string(json).expect("a trace").trim(), trace);
    // Who writes nothing, and what is no format.
    let nothing = bench.write("nothing", "#!/bin/sh\nexit 0\n");
    std::fs::write(bench.path(".none.svg.calls"), &trace).expect("what another run left");
    let (drawing, output) = draw("none.svg", &[], &nothing);
    assert!(texts(&output).1.contains("no timeline: rank 0 writes it in MPI_Finalize") && !drawing.exists());
    let (_, output) = draw("out.gif", &[], &program);
    assert_eq!(output.status.code(), Some(2));
}

/// A signal for castell is one for the launcher, whose exit code counts.
#[test]
fn signals_reach_a_launcher_that_is_waited_for() {
    let bench = Bench::new();
    let script = "#!/bin/sh\ntrap 'exit 5' TERM\necho ready\nwhile :; do sleep 0.01; done\n";
    let program = bench.write("waits", script);
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("mpi").arg("--libraries").arg(bench.folder.path());
    command.args(["--mpi", "ompi", "--timeline", text(&bench.path("out.svg")), "--", text(&program)]);
    let mut castell = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("castell starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(castell.stdout.take().expect("a pipe")));
    // The stand-in of the library says something, too.
    assert!(lines.any(|line| line.is_ok_and(|line| line == "ready")));
    let kill = Command::new("kill").args(["-s", "TERM", &castell.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    assert_eq!(castell.wait().expect("it ends").code(), Some(5));
}
