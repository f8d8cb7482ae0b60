//! What sessions did on which node, as a timeline.

use castell_base::Rank;
use castell_policy::session::simulate::{Doing, Outcome, Stretch};
use castell_policy::session::workload::{Role, Workload};
use castell_policy::session::{Cluster, Rules};
use castell_trace::{Activity, Rows, Span, Timeline};

const PS_PER_MS: u64 = 1_000_000_000;

/// A Gantt chart: a row a node, a bar a session there.
pub fn timeline(workload: &Workload, cluster: &Cluster, rules: &Rules, outcome: &Outcome) -> Timeline {
    Timeline {
        title: format!("{} under {rules}", workload.name),
        subtitle: "compute: has its slots alone; other: shares slots or memory; wait: suspended".into(),
        ranks: cluster.num_nodes() as u32,
        spans: outcome.chart.iter().map(|stretch| span(workload, stretch)).collect(),
        rows: Rows::Nodes,
        ..Timeline::default()
    }
}

fn span(workload: &Workload, stretch: &Stretch) -> Span {
    let job = &workload.jobs[stretch.job];
    let role = match job.role {
        Role::Other => "session",
        Role::Simulation => "simulation",
        Role::Analysis => "analysis",
    };
    let (activity, doing) = match stretch.doing {
        Doing::Alone => (Activity::Compute, ""),
        Doing::Sharing => (Activity::Other, ", shares"),
        Doing::Suspended => (Activity::Wait, ", suspended"),
    };
    Span {
        rank: Rank(stretch.node.0),
        name: format!("{role} {}: {} slots{doing}", job.number, stretch.slots),
        activity,
        start_ps: stretch.from_ms.saturating_mul(PS_PER_MS),
        end_ps: stretch.to_ms.saturating_mul(PS_PER_MS),
    }
}
