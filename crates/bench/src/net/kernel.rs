//! Collective operations that the kernels of the hosts carry on, by `castell xdp`.

use super::{Figure, Plan, launched};
use crate::net::hosts::Group;
use crate::report::{Params, Sample};
use castell_collectives::decision::Operation;
use serde_json::Value;

/// What is measured, by which algorithm: what fits into kernels.
const ALGORITHMS: [(Operation, &str); 3] = [
    (Operation::Barrier, "dissemination"),
    (Operation::Allreduce, "recursive-doubling"),
    (Operation::Broadcast, "binomial"),
];
/// Larger messages are no single frame's.
const BYTES_MAX: u64 = 1400;
/// A run is short.
const RUNS_A_SAMPLE: u32 = 20;

/// A round, with a rank on each host: by the kernels' clock, and as processes see it. `way` tells them apart.
pub(super) fn figures(group: &Group<'_>, interface: &str, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let interface = if interface.is_empty() { "-" } else { interface };
    let mut figures = Vec::new();
    for (operation, bytes) in plan.cases() {
        let Some((_, algorithm)) = ALGORITHMS.iter().find(|(of, _)| *of == operation) else { continue };
        if bytes > BYTES_MAX {
            continue;
        }
        let what = format!("{}:{algorithm}", operation.name());
        let (elements, runs) = (bytes.div_ceil(8).max(1), plan.timing.samples * RUNS_A_SAMPLE);
        let words =
            ["xdp", interface, &what, "--elements", &elements.to_string(), "--runs", &runs.to_string()];
        let words = words.into_iter().chain(["--only-kernel", "--json"]);
        let told: Value = launched(group, "tcp", words.map(str::to_owned))?;
        for (key, way) in [("kernel", "by its clock"), ("process", "from process to process")] {
            let time = |which: &str| told[key][which].as_f64();
            let (Some(median_ns), Some(min_ns)) = (time("median_ns"), time("min_ns")) else { continue };
            figures.push(Figure {
                workload: operation.name().to_owned(),
                params: Params::new().with("bytes", bytes).with("way", way),
                sample: Sample { median_ns, min_ns, samples: runs.into(), cpu_ns: None },
                algorithm: Some((*algorithm).to_owned()),
            });
        }
    }
    Ok(figures)
}
