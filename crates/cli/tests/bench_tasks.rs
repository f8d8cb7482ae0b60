//! `castell bench tasks` and `metg` on small programs, with the runtimes that are here.

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
