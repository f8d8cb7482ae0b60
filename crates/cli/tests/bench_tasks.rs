//! `castell bench tasks`, `metg` and `omp` on small programs, with the runtimes that are here.

mod json_page;

use std::process::Command;

fn rows(arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_castell"))
        .args(["bench"])
        .args(arguments)
        .args(["--rounds", "1", "--samples", "1", "--json"])
        .output()
        .expect("castell starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("an array of rows")
}

/// What is loaded first is another library here, so that this needs no other package's build; a program of BOTS is stood in for by one
/// that says how long it took.
#[test]
fn openmp_programs_are_measured_with_a_library_and_without() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-omp");
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).expect("the target folder can be written");
    let gcc = |text: &str, name: &str, to: &std::path::Path, options: &[&str]| {
        let source = folder.join(name);
        std::fs::write(&source, text).expect("as above");
        let status = Command::new("gcc").args(options).arg(&source).arg("-o").arg(to).status();
        assert!(status.expect("gcc is there").success(), "{name}");
    };
    gcc("int nothing;", "library.c", &folder.join("libcastell_omp.so"), &["-shared", "-fPIC"]);
    let says = "#include <stdio.h>\nint main(void) { puts(\"Time Program        = 0.25 seconds\"); }";
    gcc(says, "bots.c", &bin.join("fib.gcc.omp-tasks"), &[]);
    let own = folder.join("own");
    gcc("int main(int count, char **words) { return count != 2 || words[1][0] != '7'; }", "own.c", &own, &[]);
    let own = format!("{} 7", own.display());
    let folder = folder.display().to_string();
    let measured =
        rows(&["omp", "chain:tasks=100", "--libraries", &folder, "--bots", &folder, "--program", &own]);
    for row in &measured {
        json_page::stands_on_the_page("bench omp", row);
        assert!(row["median_ns"].as_f64() > Some(0.0) && row["cpu_ns"].is_number(), "{row}");
    }
    let subjects: Vec<_> = measured.iter().filter_map(|row| row["subject"].as_str()).collect();
    assert!(
        subjects[0].starts_with("castell on libgomp") && subjects[1].starts_with("libgomp"),
        "{subjects:?}"
    );
    let last = &measured[measured.len() - 4..];
    for (row, subject) in last.iter().zip(["with castell", "without"].iter().cycle()) {
        assert_eq!((&row["workload"], &row["subject"]), (&"program".into(), &(*subject).into()));
    }
    assert_eq!(last[1]["params"]["program"], "fib.gcc.omp-tasks");
    assert_eq!(last[1]["median_ns"], 0.25e9);
    assert_eq!(last[2]["params"]["program"], own);

    let mut command = Command::new(env!("CARGO_BIN_EXE_castell"));
    let refused = command.args(["bench", "omp", "--only-programs", "--libraries", &folder]).output();
    let refused = refused.expect("castell starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("--program COMMAND"), "{said}");
}

#[test]
fn runtimes_are_measured_side_by_side() {
    let programs = [
        "empty:tasks=100",
        "axpy:elements=1024,block=64",
        "fib:number=8",
        "chain:tasks=100",
        "chains:tasks=100,chains=7",
        "wave:side=7",
        "chol:tiles=5",
    ];
    let mut arguments = vec!["tasks"];
    arguments.extend(programs);
    let rows = rows(&arguments);
    for program in programs {
        let (name, _) = program.split_once(':').expect("with sizes");
        let of_program: Vec<_> = rows.iter().filter(|row| row["workload"] == name).collect();
        assert_eq!(of_program[0]["subject"], "castell, tree");
        // gcc is there wherever the tests run.
        let has = |prefix: &str| {
            of_program.iter().any(|row| row["subject"].as_str().is_some_and(|name| name.starts_with(prefix)))
        };
        assert!(has("libgomp"), "{program}");
        assert_eq!(has("rayon"), ["empty", "axpy", "fib"].contains(&name), "{program}");
        for row in of_program {
            for key in ["tasks", "ns_per_task", "min_ns_per_task", "samples"] {
                assert!(row[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {row}");
            }
            assert_eq!(row["params"]["workers"], 2);
        }
    }
    let cholesky = rows.iter().find(|row| row["workload"] == "chol").expect("measured");
    assert_eq!(cholesky["tasks"], 5 + 20 + 10);
}

#[test]
fn unknown_programs_and_sizes_are_usage_errors() {
    for program in ["chian", "chain:tiles=3", "empty:tasks=0"] {
        let castell = Command::new(env!("CARGO_BIN_EXE_castell")).args(["bench", "tasks", program]).output();
        let output = castell.expect("castell starts");
        assert_eq!(output.status.code(), Some(2), "{program}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_castell")).args(["bench", "startup", "chain"]).output();
    assert_eq!(output.expect("castell starts").status.code(), Some(1));
}
