//! `castell bench sim` on small groups: rows with everything that readers of the JSON rely on.

use std::process::Command;

#[test]
fn simulators_are_measured_side_by_side() {
    let output = Command::new(env!("CARGO_BIN_EXE_castell"))
        .args([
            "bench",
            "sim",
            "--ranks",
            "8,64",
            "--rounds",
            "1",
            "--samples",
            "1",
            "--threads",
            "2",
            "--no-peers",
            "--json",
        ])
        .output()
        .expect("castell starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = rows.as_array().expect("an array");
    // Three patterns on two sizes in order and in windows on one thread and on two, with noise and without; two of the
    // patterns are in rounds, on one thread and on two, the tree runs rank by rank, on as many, with noise and without.
    assert_eq!(rows.len(), 2 * (3 * 2 * 3 + 4 + 4));
    for row in rows {
        assert_eq!(row["workload"], "sim");
        let positive =
            |key: &str| assert!(row[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {row}");
        ["median_ns", "min_ns", "samples", "events", "events_per_second"].into_iter().for_each(positive);
    }
    let barrier = rows.iter().find(|row| row["params"]["program"] == "barrier:dissemination");
    assert_eq!(barrier.expect("it is among them")["events"], 3 * 8 * 3);
}
