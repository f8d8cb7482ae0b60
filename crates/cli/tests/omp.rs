//! `castell omp` as a user types it: what it finds in programs, what these find, and what is said where it cannot be done. In the place
//! of castell's library stands one that says where it is loaded.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PRELOADED: &str = "#define _GNU_SOURCE\n#include <errno.h>\n#include <stdio.h>\n\
                         __attribute__((constructor)) static void loaded(void) {\n    \
                         printf(\"loaded in %s\\n\", program_invocation_short_name);\n    fflush(stdout);\n}\n";
const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n    int sum = 0;\n\
                       #pragma omp parallel num_threads(2) reduction(+ : sum)\n    sum += 3;\n    const char *threads = getenv(\"OMP_NUM_THREADS\");\n    \
                       printf(\"%d, threads %s\\n\", sum, threads ? threads : \"\");\n    return 7;\n}\n";

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let bench = Bench { folder: tempfile::tempdir().expect("a folder") };
        bench.compile("libcastell_omp.so", PRELOADED, &["-shared", "-fPIC"]);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, name: &str, text: &str, options: &[&str]) -> String {
        let source = self.path(&format!("{name}.c"));
        std::fs::write(&source, text).expect("a file");
        let program = self.path(name);
        // Libraries stand behind what needs them.
        let output = Command::new("gcc").arg(&source).args(options).arg("-o").arg(&program).output();
        let output = output.expect("gcc is installed by `cargo xtask setup`");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program.to_str().expect("a plain path").to_owned()
    }

    fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("rights");
        path.to_str().expect("a plain path").to_owned()
    }

    fn castell(&self, options: &[&str], words: &[&str]) -> Output {
        castell(self.folder.path(), options, words)
    }
}

fn castell(libraries: &Path, options: &[&str], words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    command.arg("omp").arg("--libraries").arg(libraries).args(options).arg("--").args(words);
    command.env_remove("LD_PRELOAD").env_remove("OMP_NUM_THREADS").stdin(Stdio::null());
    command.output().expect("castell was built with this test")
}

fn texts(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into(), String::from_utf8_lossy(&output.stderr).into())
}

#[test]
fn programs_are_found_wherever_they_stand() {
    let bench = Bench::new();
    let program = bench.compile("program", PROGRAM, &["-fopenmp"]);
    let script = bench.script("start", &format!("#!/bin/sh\nexec '{program}'\n"));
    for words in [&[&program[..]][..], &["env", "-u", "NOTHING", &program], &[&script]] {
        let output = bench.castell(&["--threads", "3"], words);
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(7), "{words:?}: {out}{err}");
        assert!(out.ends_with("loaded in program\n6, threads 3\n"), "{words:?}: {out}{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        for part in ["castell: ", "program uses GCC's OpenMP library (libgomp.so.1: /", "libcastell_omp.so"] {
            assert!(err.contains(part), "{words:?}: {err}");
        }
    }
    let (out, err) = texts(&bench.castell(&["--quiet"], &[&program]));
    assert_eq!((&out[..], &err[..]), ("loaded in program\n6, threads \n", ""));
}

#[test]
fn launchers_hand_it_on() {
    let bench = Bench::new();
    let program = bench.compile("program", PROGRAM, &["-fopenmp"]);
    let launcher = bench.script("srun", "#!/bin/sh\nexit 1\n");
    let options = ["--dry-run", "--threads", "2"];
    let (out, err) = texts(&bench.castell(&options, &[&launcher, "-n", "2", &program, "a b"]));
    let library = bench.path("libcastell_omp.so").canonicalize().expect("it was made");
    let expected = format!(
        "OMP_NUM_THREADS=2 {launcher} --export=ALL,LD_PRELOAD={},OMP_NUM_THREADS -n 2 {program} 'a b'\n",
        library.display()
    );
    assert_eq!(out, expected, "{err}");
    assert!(err.contains("by its --export"), "{err}");
    let options =
        ["--dry-run", "--malleable", "--stats", "--timeline", "/tmp/a.%r.json", "--record", "/tmp/a.goal"];
    let (out, err) = texts(&bench.castell(&options, &[&program]));
    let expected = format!(
        "LD_PRELOAD={} CASTELL_TASKS_SUMMARY=1 CASTELL_TASKS_MAILBOX=1 CASTELL_TASKS_TRACE=/tmp/a.%r.json CASTELL_TASKS_RECORD=/tmp/a.goal \
         {program}\n",
        library.display()
    );
    assert_eq!(out, expected, "{err}");
    let (out, err) = texts(&bench.castell(&["--dry-run", "--share"], &[&program]));
    let expected =
        format!("LD_PRELOAD={} CASTELL_SHARE=1 OMP_WAIT_POLICY=passive {program}\n", library.display());
    assert_eq!(out, expected, "{err}");
}

#[test]
fn what_cannot_be_caught_is_refused_with_the_reason() {
    let bench = Bench::new();
    let fixed = bench.compile("fixed", PROGRAM, &["-fopenmp", "-static"]);
    // The way in which one library is linked statically.
    let inside = ["-fopenmp", "-Wl,-Bstatic", "-lgomp", "-Wl,-Bdynamic", "-s"];
    let linked = bench.compile("linked", PROGRAM, &inside);
    let plain = bench.compile("plain", "int main(void) { return 0; }\n", &[]);
    let other = bench.compile("libnvomp.so", "int f(void) { return 0; }\n", &["-shared", "-fPIC"]);
    let rpath = format!("-Wl,-rpath,{}", bench.folder.path().display());
    let user =
        bench.compile("user", "int main(void) { return 0; }\n", &["-Wl,--no-as-needed", &other, &rpath]);
    // Its header says that it is for another processor.
    let foreign = bench.path("foreign");
    let mut bytes = std::fs::read(&plain).expect("a program");
    bytes[18..20].copy_from_slice(&(if cfg!(target_arch = "aarch64") { 62u16 } else { 183 }).to_le_bytes());
    let foreign = {
        std::fs::copy(&plain, &foreign).expect("a copy, with its rights");
        std::fs::write(&foreign, bytes).expect("a file");
        foreign.to_str().expect("a plain path").to_owned()
    };
    let python = bench.script("python3", "#!/bin/sh\nexit 0\n");
    let script = bench.script("run", &format!("#!{python}\n"));
    for (program, why) in [
        (&fixed, "is linked statically: calls inside one file cannot be caught. Link it without -static"),
        (&linked, "has its OpenMP library linked into itself"),
        (&plain, "loads no OpenMP library that can be seen: compile and link it with -fopenmp"),
        (&user, "libnvomp.so, whose interface castell does not speak"),
        (&foreign, "is a program for"),
        (&script, "--anyway"),
    ] {
        let output = bench.castell(&[], &[program]);
        let (out, err) = texts(&output);
        assert_eq!((output.status.code(), &out[..]), (Some(1), ""), "{program}: {err}");
        assert!(err.starts_with("castell: ") && err.contains(why), "{program}: {err}");
    }
    let (out, err) = texts(&bench.castell(&["--anyway"], &[&plain]));
    assert_eq!(out, "loaded in plain\n", "{err}");
}

#[test]
fn what_is_missing_is_told_of() {
    let bench = Bench::new();
    let program = bench.compile("program", PROGRAM, &["-fopenmp"]);
    let output = castell(Path::new("/nowhere"), &[], &[&program]);
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("there is no libcastell_omp.so in /nowhere: `cargo build"), "{err}");
    for (word, code) in [("/nowhere/program", 127), ("/etc/passwd", 126)] {
        let output = bench.castell(&[], &[word]);
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{err}");
        assert!(err.starts_with(&format!("castell: {word}: ")), "{err}");
    }
}

#[test]
fn programs_of_llvm_are_served_by_the_same_library() {
    let bench = Bench::new();
    let source = bench.path("llvm.c");
    std::fs::write(&source, PROGRAM).expect("a file");
    let program = bench.path("llvm");
    let output = Command::new("clang").args(["-fopenmp", "-o"]).arg(&program).arg(&source).output();
    let output = output.expect("clang is installed by `cargo xtask setup`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = bench.castell(&[], &[program.to_str().expect("a plain path")]);
    let (out, err) = texts(&output);
    assert_eq!((output.status.code(), &out[..]), (Some(7), "loaded in llvm\n6, threads \n"), "{err}");
    assert!(err.contains("llvm uses LLVM's OpenMP library (libomp"), "{err}");
}
