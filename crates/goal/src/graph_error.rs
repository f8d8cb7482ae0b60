//! What a graph under construction refuses.

use crate::graph::Vertex;
use castell_base::Tag;

/// A request to a [`Graph`](crate::graph::Graph) that can never become legal; the graph is as it was before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Tag `u32::MAX` stands for "any tag".
    #[error("{operation}: tag {tag} is taken to mean any tag; use a tag from 0 to {}", Tag::MAX)]
    TagReserved {
        /// The operation asked for.
        operation: &'static str,
        /// The tag.
        tag: Tag,
    },
    /// Rank `u32::MAX` stands for "any source".
    #[error(
        "{operation}: rank {} is taken to mean any source; ranks start at 0 and end below the group's size",
        u32::MAX
    )]
    RankReserved {
        /// The operation asked for.
        operation: &'static str,
    },
    /// A buffer would end behind the last address.
    #[error("{operation}: {bytes} bytes at {offset:#x} end beyond 64 bits; check the offset and the size")]
    BufferOverflow {
        /// The operation asked for.
        operation: &'static str,
        /// Where the buffer starts.
        offset: u64,
        /// Its size.
        bytes: u64,
    },
    /// The blocks' lengths, or elements times width, don't fit into 64 bits.
    #[error("{operation}: the sizes add up to more than 64 bits can hold; check the lengths")]
    SizeOverflow {
        /// The operation asked for.
        operation: &'static str,
    },
    /// A block list holds a part of an element.
    #[error(
        "{operation}: buffer b{buffer} holds {bytes} bytes, which is no multiple of the element width {width}; \
         its blocks together must hold whole elements"
    )]
    PartOfElement {
        /// The operation asked for.
        operation: &'static str,
        /// Which buffer: 1, 2 or 3.
        buffer: usize,
        /// Bytes in its block list.
        bytes: u64,
        /// Bytes of an element.
        width: u64,
    },
    /// The block lists of a local operation hold different numbers of bytes.
    #[error(
        "{operation}: buffer b{buffer} holds {bytes} bytes, but the result b3 holds {result_bytes}; \
         the blocks of all buffers must add up to the same size"
    )]
    LengthsDiffer {
        /// The operation asked for.
        operation: &'static str,
        /// Which buffer: 1 or 2.
        buffer: usize,
        /// Bytes in its block list.
        bytes: u64,
        /// Bytes in b3's.
        result_bytes: u64,
    },
    /// The far side of a put or get is user memory.
    #[error(
        "{operation}: the remote side is an address, but only the other rank's scratchpad can be reached; \
         give an offset in its scratchpad"
    )]
    RemoteUser {
        /// The operation asked for.
        operation: &'static str,
    },
    /// No such vertex in this graph.
    #[error(
        "vertex {} is not in this graph, which has {vertices} vertices; use what its own functions returned",
        vertex.0
    )]
    NoSuchVertex {
        /// The vertex.
        vertex: Vertex,
        /// How many vertices the graph has.
        vertices: usize,
    },
    /// A vertex would wait for itself.
    #[error("vertex {} cannot depend on itself; name two different vertices", vertex.0)]
    SelfDependency {
        /// The vertex.
        vertex: Vertex,
    },
    /// `any = 0`.
    #[error("vertex {}: `any` must be at least 1; a vertex that waits for nothing has no dependencies", vertex.0)]
    AnyZero {
        /// The vertex.
        vertex: Vertex,
    },
    /// The graph has reached the format's limits.
    #[error("the graph is full: more {what} than a schedule can hold; split it into several graphs")]
    Full {
        /// What there is too much of.
        what: &'static str,
    },
}
