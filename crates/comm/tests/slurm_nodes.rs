//! The private Slurm with several nodes on this host: what other tests build on.

#[path = "../../host/tests/skipped/mod.rs"]
mod skipped;
mod slurm;

use skipped::skip;
use std::time::Duration;

#[test]
fn jobs_share_nodes_as_far_as_these_have_slots() {
    let layout = slurm::Layout {
        nodes: 4,
        processors: 2,
        settings: "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU",
        partition: "OverSubscribe=NO",
        files: &[],
        lab: None,
    };
    let slurm = match slurm::Slurm::start_with(&layout) {
        Ok(slurm) => slurm,
        Err(why) => return skip("slurm-nodes", &why),
    };
    // exec: proctrack/linuxproc loses children of a script that ends before them.
    for _ in 0..9 {
        let said = slurm.ask("sbatch", &["-n1", "--output=/dev/null", "--wrap", "exec sleep 1000"]).unwrap();
        assert!(said.contains("Submitted"), "{said}");
    }
    let running = |slurm: &slurm::Slurm| slurm.ask("squeue", &["-h", "-t", "running", "-o", "%N"]).unwrap();
    while running(&slurm).lines().count() < 8 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut nodes: Vec<String> = running(&slurm).lines().map(str::to_owned).collect();
    nodes.sort();
    assert_eq!(nodes, ["n1", "n1", "n2", "n2", "n3", "n3", "n4", "n4"]);
    assert_eq!(slurm.ask("squeue", &["-h", "-t", "pending", "-o", "%r"]).unwrap().trim(), "Resources");
}
