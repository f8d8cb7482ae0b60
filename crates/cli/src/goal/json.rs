//! Programs and schedules as JSON: a rank at a time, so that a large program needs no more memory than its largest rank.

use castell_base::Rank;
use castell_goal::graph::{EdgeKind, Graph};
use castell_goal::schedule::{OpId, Schedule};
use castell_goal::text::Operation;
use serde_json::{Value, json};

/// Writes `{"ranks": N, "programs": [..]}`, of the ranks that are there.
pub fn write(
    ranks: u32,
    programs: impl Iterator<Item = Value>,
    mut write: impl FnMut(String) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    write(format!("{{\"ranks\":{ranks},\"programs\":["))?;
    for (number, program) in programs.enumerate() {
        write(format!("{}\n{program}", if number == 0 { "" } else { "," }))?;
    }
    write("\n]}\n".into())
}

/// A rank's graph: each operation with those that it waits for.
pub fn graph(rank: Rank, graph: &Graph) -> Value {
    let count = graph.vertices().len();
    let [mut requires, mut irequires] = [vec![Vec::new(); count], vec![Vec::new(); count]];
    for edge in graph.edges() {
        let list = if edge.kind == EdgeKind::Finish { &mut requires } else { &mut irequires };
        list[edge.target.index()].push(edge.prerequisite.index());
    }
    let operation = |(number, vertex)| {
        json!({
            "vertex": number,
            "label": graph.label(vertex),
            "operation": Operation(graph.op(vertex), graph.traits(vertex)).to_string(),
            "requires": requires[number],
            "irequires": irequires[number],
        })
    };
    let operations: Vec<Value> = graph.vertices().enumerate().map(operation).collect();
    json!({"rank": rank.0, "scratchpad_bytes": graph.scratchpad_bytes(), "operations": operations})
}

/// A rank's compiled schedule: each record with what it releases.
pub fn schedule(rank: Rank, schedule: &Schedule) -> Value {
    let operation = |id: OpId| {
        json!({
            "offset": id.0,
            "label": schedule.label(id),
            "operation": Operation(schedule.op(id), schedule.traits(id)).to_string(),
            "releases": schedule.successors(id).map(|next| next.0).collect::<Vec<u32>>(),
            "releases_at_start": schedule.start_successors(id).map(|next| next.0).collect::<Vec<u32>>(),
        })
    };
    let operations: Vec<Value> = schedule.operations().map(operation).collect();
    json!({"rank": rank.0, "scratchpad_bytes": schedule.scratchpad_bytes(), "operations": operations})
}
