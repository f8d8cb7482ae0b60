//! What a call is made of, from C.

use super::{castell_op, castell_type, operator};
use crate::error::{Error, Result};
use crate::types::Code;
use castell_base::Rank;
use castell_comm::collective::{Call, DataType, Layout, Neighbourhood, Operation, RawCall, Reduction};
use castell_goal::op::ElementType;
use std::ffi::{c_int, c_void};

/// The header's `CASTELL_IN_PLACE`.
const IN_PLACE: usize = 1;

/// Blocks: counts, and where they start.
#[derive(Clone, Copy)]
pub(super) struct List(pub(super) *const usize, pub(super) *const usize);

/// A call under construction. Nothing is looked at before [`Arguments::call`].
pub(super) struct Arguments {
    operation: Operation,
    element: Result<DataType>,
    reduction: Option<Result<Reduction>>,
    root: Option<c_int>,
    count: Option<usize>,
    own: usize,
    send: *const c_void,
    recv: *mut c_void,
    leaving: Option<List>,
    arriving: Option<List>,
    degrees: Option<[(c_int, *const c_int); 2]>,
}

impl Arguments {
    /// A call that moves bytes.
    pub(super) fn of_bytes(operation: Operation) -> Arguments {
        Arguments {
            operation,
            element: Ok(DataType::Number(ElementType::U8)),
            reduction: None,
            root: None,
            count: None,
            own: 0,
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            leaving: None,
            arriving: None,
            degrees: None,
        }
    }

    /// A call on elements of this type.
    pub(super) fn new(operation: Operation, element: castell_type) -> Arguments {
        Arguments { element: operator::element(element), ..Arguments::of_bytes(operation) }
    }

    pub(super) fn buffers(self, send: *const c_void, recv: *mut c_void) -> Arguments {
        Arguments { send, recv, ..self }
    }

    pub(super) fn count(self, count: usize) -> Arguments {
        Arguments { count: Some(count), ..self }
    }

    /// Elements of the rank's own block, where each has its own size.
    pub(super) fn own(self, own: usize) -> Arguments {
        Arguments { own, ..self }
    }

    pub(super) fn root(self, root: c_int) -> Arguments {
        Arguments { root: Some(root), ..self }
    }

    pub(super) fn op(self, op: castell_op) -> Arguments {
        Arguments { reduction: Some(operator::reduction(op)), ..self }
    }

    pub(super) fn leaving(self, counts: *const usize, starts: *const usize) -> Arguments {
        Arguments { leaving: Some(List(counts, starts)), ..self }
    }

    pub(super) fn arriving(self, counts: *const usize, starts: *const usize) -> Arguments {
        Arguments { arriving: Some(List(counts, starts)), ..self }
    }

    pub(super) fn neighbours(
        self,
        sources: (c_int, *const c_int),
        destinations: (c_int, *const c_int),
    ) -> Arguments {
        Arguments { degrees: Some([sources, destinations]), ..self }
    }

    /// Makes the call and hands it to `work`.
    ///
    /// # Safety
    /// The pointers are what the header says that they are.
    pub(super) unsafe fn call<T>(
        self,
        rank: Rank,
        size: u32,
        algorithm: Option<&str>,
        work: impl FnOnce(&Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let root = match self.root {
            None => None,
            Some(root) => Some(u32::try_from(root).map_err(|_| {
                Error::new(Code::Rank, format!("the root is {root}; ranks are 0 to {}", size - 1))
            })?),
        };
        let is_root = root == Some(rank.0);
        // Only the root of a gather or scatter knows the sizes of all blocks.
        let knows = !matches!(self.operation, Operation::Gather | Operation::Scatter) || is_root;
        let in_place = self.send as usize == IN_PLACE || self.recv as usize == IN_PLACE;
        // SAFETY: the caller's promise.
        let ranks = |list: (c_int, *const c_int)| unsafe { ranks(list) };
        let neighbours = match self.degrees {
            Some([sources, destinations]) => Some((ranks(sources)?, ranks(destinations)?)),
            None => None,
        };
        let degree = |which: usize| self.degrees.map_or(size as usize, |lists| lists[which].0 as usize);
        // SAFETY: the caller's promise.
        let layout = |list: Option<List>, length: usize| unsafe { layout(list.filter(|_| knows), length) };
        let leaving = layout(self.leaving, degree(1))?;
        let arriving = layout(self.arriving, degree(0))?;
        let (input_count, output_count) = match (self.operation, self.count) {
            (Operation::NeighbourAllgather, Some(count)) => (count, count.saturating_mul(degree(0))),
            (Operation::NeighbourAlltoall, Some(count)) => {
                (count.saturating_mul(degree(1)), count.saturating_mul(degree(0)))
            }
            (Operation::NeighbourAllgather, None) => (self.own, usize::MAX),
            (_, None) if !knows => (self.own, self.own),
            // The program answers for what is there.
            _ => (usize::MAX, usize::MAX),
        };
        let count = self.count.filter(|_| neighbours.is_none());
        let raw = RawCall {
            operation: self.operation,
            root,
            count: count.map(|count| count as u64),
            element: self.element?,
            reduction: self.reduction.transpose()?,
            input: self.send.cast(),
            input_count: input_count as u64,
            output: self.recv.cast(),
            output_count: output_count as u64,
            in_place,
            leaving,
            arriving,
            neighbours: neighbours
                .as_ref()
                .map(|(sources, destinations)| Neighbourhood { sources, destinations }),
            algorithm,
        };
        // SAFETY: the caller's promise.
        work(&unsafe { Call::from_raw(raw) })
    }
}

unsafe fn ranks((length, list): (c_int, *const c_int)) -> Result<Vec<Rank>> {
    let count = usize::try_from(length)
        .map_err(|_| Error::new(Code::Count, format!("{length} is no number of neighbours")))?;
    if count > 0 && list.is_null() {
        return Err(Error::new(Code::Buffer, "the neighbours are NULL"));
    }
    let rank = |at: usize| {
        // SAFETY: the caller promised so many neighbours.
        let rank = unsafe { *list.add(at) };
        let found = u32::try_from(rank).map(Rank);
        found.map_err(|_| Error::new(Code::Rank, format!("neighbour {at} is {rank}, which is no rank")))
    };
    (0..count).map(rank).collect()
}

unsafe fn layout<'a>(list: Option<List>, length: usize) -> Result<Option<Layout<'a>>> {
    const { assert!(size_of::<usize>() == size_of::<u64>()) };
    let Some(List(counts, starts)) = list else { return Ok(None) };
    if counts.is_null() && length > 0 {
        return Err(Error::new(Code::Buffer, "the counts are NULL"));
    }
    // SAFETY: the caller promised as many as there are ranks or neighbours; size_t is as wide as u64 here.
    let slice = |at: *const usize| unsafe {
        if length == 0 { &[][..] } else { std::slice::from_raw_parts(at.cast::<u64>(), length) }
    };
    Ok(Some(Layout { counts: slice(counts), starts: (!starts.is_null()).then(|| slice(starts)) }))
}
