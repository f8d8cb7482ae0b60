//! Graphs: making and freeing (ESPGOAL 2.2.2), dependencies and scratchpad (2.2.4, 2.2.5), traits of vertices.

use crate::error::{Error, Result, call, status};
use crate::objects::{GRAPHS, GraphObject, too_many, unknown};
use crate::process::require_running;
use crate::registry::{Kind, Unknown};
use crate::types::*;
use castell_goal::graph::{Graph, GraphError, Vertex};
use std::ffi::{CStr, c_char, c_int};

/// A new graph without operations.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_CreateGraph() -> GOAL_Graph {
    call("GOAL_CreateGraph", std::ptr::null_mut(), || {
        require_running()?;
        let entry = GraphObject { graph: Graph::new(), mark: 0, broken: None };
        let id = GRAPHS.insert(entry).map_err(too_many("graphs"))?;
        // 31 bits, never 0, spread so that neighbouring ids differ.
        let mark = (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32 | 1;
        GRAPHS.with(id, |entry| entry.mark = mark).map_err(no_graph)?;
        Ok(id as usize as GOAL_Graph)
    })
}

/// Frees a graph.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_FreeGraph(graph: GOAL_Graph) -> c_int {
    status("GOAL_FreeGraph", || {
        require_running()?;
        GRAPHS.remove(graph as u64).map(drop).map_err(no_graph)
    })
}

/// `target` starts only once `prerequisite` has finished.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_Requires(graph: GOAL_Graph, prerequisite: GOAL_Vertex, target: GOAL_Vertex) -> c_int {
    change("GOAL_Requires", graph, |entry| {
        let (prerequisite, target) =
            (entry.vertex("prerequisite", prerequisite)?, entry.vertex("target", target)?);
        Ok(entry.graph.requires(prerequisite, target)?)
    })
}

/// `target` starts only once `prerequisite` has started.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_IRequires(graph: GOAL_Graph, prerequisite: GOAL_Vertex, target: GOAL_Vertex) -> c_int {
    change("GOAL_IRequires", graph, |entry| {
        let (prerequisite, target) =
            (entry.vertex("prerequisite", prerequisite)?, entry.vertex("target", target)?);
        Ok(entry.graph.irequires(prerequisite, target)?)
    })
}

/// Gives each run `bytes` bytes of scratchpad.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_AllocateScratchpad(graph: GOAL_Graph, bytes: usize) -> c_int {
    change("GOAL_AllocateScratchpad", graph, |entry| {
        if isize::try_from(bytes).is_err() {
            let message = format!("a scratchpad of {bytes} bytes is more than any machine has");
            return Err(Error::new(Code::Count, message));
        }
        entry.graph.allocate_scratchpad(bytes as u64);
        Ok(())
    })
}

/// The vertex starts once `k` of its dependencies are met.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_SetAny(graph: GOAL_Graph, vertex: GOAL_Vertex, k: c_int) -> c_int {
    change("GOAL_SetAny", graph, |entry| {
        let vertex = entry.vertex("vertex", vertex)?;
        let k = u32::try_from(k).map_err(|_| Error::new(Code::Count, format!("k is {k}; it starts at 1")))?;
        Ok(entry.graph.set_any(vertex, k)?)
    })
}

/// The vertex does not occupy the process while it lasts.
#[unsafe(no_mangle)]
pub extern "C" fn GOAL_SetConcurrent(graph: GOAL_Graph, vertex: GOAL_Vertex) -> c_int {
    change("GOAL_SetConcurrent", graph, |entry| {
        let vertex = entry.vertex("vertex", vertex)?;
        Ok(entry.graph.set_concurrent(vertex)?)
    })
}

/// Names the vertex.
///
/// # Safety
/// `label` is NULL or a string that ends in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn GOAL_SetLabel(
    graph: GOAL_Graph,
    vertex: GOAL_Vertex,
    label: *const c_char,
) -> c_int {
    change("GOAL_SetLabel", graph, |entry| {
        let vertex = entry.vertex("vertex", vertex)?;
        if label.is_null() {
            return Err(Error::new(Code::Buffer, "label is NULL; pass a string"));
        }
        // SAFETY: the caller's promise.
        let label = unsafe { CStr::from_ptr(label) };
        Ok(entry.graph.set_label(vertex, &label.to_string_lossy())?)
    })
}

/// Adds an operation and returns its vertex.
pub(crate) fn add(
    name: &str,
    graph: GOAL_Graph,
    work: impl FnOnce(&mut Graph) -> Result<Vertex>,
) -> GOAL_Vertex {
    call(name, GOAL_INVALID_VERTEX, || {
        changed(name, graph, |entry| {
            let vertex = work(&mut entry.graph)?;
            Ok(i64::from(entry.mark) << 32 | i64::from(vertex.0))
        })
    })
}

/// Looks at a graph without changing it.
pub(crate) fn with_graph<T>(graph: GOAL_Graph, work: impl FnOnce(&GraphObject) -> Result<T>) -> Result<T> {
    require_running()?;
    GRAPHS.with(graph as u64, |entry| work(entry)).map_err(no_graph)?
}

fn no_graph(why: Unknown) -> Error {
    unknown(Kind::Graph, why)
}

fn change(name: &str, graph: GOAL_Graph, work: impl FnOnce(&mut GraphObject) -> Result<()>) -> c_int {
    status(name, || changed(name, graph, work))
}

fn changed<T>(name: &str, graph: GOAL_Graph, work: impl FnOnce(&mut GraphObject) -> Result<T>) -> Result<T> {
    require_running()?;
    let work = |entry: &mut GraphObject| {
        let outcome = work(entry);
        if let (Err(error), None) = (&outcome, &entry.broken) {
            entry.broken = Some(Error::new(error.code, format!("{name}: {}", error.message)));
        }
        outcome
    };
    GRAPHS.with(graph as u64, work).map_err(no_graph)?
}

impl GraphObject {
    /// The vertex that an argument means. Without a mark (kept in an `int`) it is taken as one of this graph.
    fn vertex(&self, what: &str, vertex: GOAL_Vertex) -> Result<Vertex> {
        let wrong = |message: String| Err(Error::new(Code::Vertex, message));
        let (mark, index) = ((vertex >> 32) as u32, vertex as u32);
        if vertex == GOAL_INVALID_VERTEX {
            return wrong(format!("{what} is GOAL_INVALID_VERTEX: it was never added"));
        }
        if mark != 0 && mark != self.mark {
            return wrong(format!("{what} is a vertex of another graph"));
        }
        if index as usize >= self.graph.len() {
            return wrong(format!("{what} is number {index}, this graph has {} vertices", self.graph.len()));
        }
        Ok(Vertex(index))
    }
}

impl From<GraphError> for Error {
    fn from(error: GraphError) -> Error {
        let code = match error {
            GraphError::TagReserved { .. } => Code::Tag,
            GraphError::RankReserved { .. } => Code::Rank,
            GraphError::BufferOverflow { .. } | GraphError::RemoteUser { .. } => Code::Buffer,
            GraphError::SizeOverflow { .. } | GraphError::AnyZero { .. } => Code::Count,
            GraphError::PartOfElement { .. } | GraphError::LengthsDiffer { .. } => Code::Count,
            GraphError::NoSuchVertex { .. } | GraphError::SelfDependency { .. } => Code::Vertex,
            GraphError::Full { .. } => Code::Limit,
        };
        Error::new(code, error.to_string())
    }
}
