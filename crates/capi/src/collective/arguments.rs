//! What a call is made of, from C.

use super::{castell_op, castell_type, operator};
use crate::error::{Error, Result};
use crate::types::Code;
use castell_base::Rank;
use castell_comm::Communicator;
use castell_comm::collective::{Call, Layout, Neighbourhood, Operation, RawCall};
use castell_goal::op::ElementType;
use std::ffi::{c_int, c_void};

/// The header's `CASTELL_IN_PLACE`.
const IN_PLACE: usize = 1;

/// Blocks: counts, and where they start.
#[derive(Clone, Copy)]
pub(super) struct List(pub(super) *const usize, pub(super) *const usize);

/// What a program passed. Nothing is looked at before [`Arguments::call`].
pub(super) struct Arguments<'a> {
    pub(super) operation: Operation,
    pub(super) element: castell_type,
    /// Of operations that reduce.
    pub(super) op: Option<castell_op>,
    pub(super) root: Option<c_int>,
    /// Elements of the vector, or of each block; where blocks have sizes of their own, those of the rank's own block.
    pub(super) count: usize,
    pub(super) send: *const c_void,
    pub(super) recv: *mut c_void,
    pub(super) blocks: Option<&'a Blocks>,
}

/// What only some calls have: blocks of different sizes, and neighbours.
#[derive(Default)]
pub(super) struct Blocks {
    pub(super) leaving: Option<List>,
    pub(super) arriving: Option<List>,
    /// From whom blocks come, and to whom they go.
    pub(super) neighbours: Option<[(c_int, *const c_int); 2]>,
}

impl Arguments<'_> {
    /// A call on bytes, without data so far.
    pub(super) const fn of(operation: Operation) -> Self {
        Arguments {
            operation,
            element: ElementType::U8 as castell_type + 10,
            op: None,
            root: None,
            count: 0,
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            blocks: None,
        }
    }

    /// Makes the call and hands it to `work`.
    ///
    /// # Safety
    /// The pointers are what the header says that they are.
    #[inline(always)]
    pub(super) unsafe fn call<T>(
        &self,
        comm: &Communicator,
        algorithm: Option<&str>,
        mut work: impl FnMut(Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let root = match self.root {
            Some(root) => Some(u32::try_from(root).map_err(|_| no_root(root, comm.size()))?),
            None => None,
        };
        let reduction = match self.op {
            Some(op) => Some(operator::reduction(op)?),
            None => None,
        };
        let raw = RawCall {
            operation: self.operation,
            root,
            count: Some(self.count as u64),
            element: operator::element(self.element)?,
            reduction,
            input: self.send.cast(),
            // The program answers for what is there.
            input_count: u64::MAX,
            output: self.recv.cast(),
            output_count: u64::MAX,
            in_place: self.send as usize == IN_PLACE || self.recv as usize == IN_PLACE,
            leaving: None,
            arriving: None,
            neighbours: None,
            algorithm,
        };
        match self.blocks {
            // SAFETY: the caller's promise.
            None => work(unsafe { Call::from_raw(raw) }),
            // SAFETY: as above.
            Some(blocks) => unsafe { blocks.call(comm, raw, &mut work) },
        }
    }
}

#[cold]
fn no_root(root: c_int, size: u32) -> Error {
    Error::new(Code::Rank, format!("the root is {root}; ranks are 0 to {}", size - 1))
}

impl Blocks {
    /// Adds them to a call.
    ///
    /// # Safety
    /// As for [`Arguments::call`].
    #[inline(never)]
    unsafe fn call<T>(
        &self,
        comm: &Communicator,
        raw: RawCall<'_>,
        work: &mut dyn FnMut(Call<'_>) -> Result<T>,
    ) -> Result<T> {
        let (operation, size) = (raw.operation, comm.size() as usize);
        // Only the root of a gather or scatter knows the sizes of all blocks.
        let is_private = matches!(operation, Operation::Gather | Operation::Scatter);
        let knows = !is_private || raw.root == Some(comm.rank().0);
        // SAFETY: the caller's promise.
        let ranks = |list: (c_int, *const c_int)| unsafe { ranks(list) };
        let neighbours = match self.neighbours {
            Some([sources, destinations]) => Some((ranks(sources)?, ranks(destinations)?)),
            None => None,
        };
        let [sources, destinations] = neighbours
            .as_ref()
            .map_or([size; 2], |(sources, destinations)| [sources.len(), destinations.len()]);
        // SAFETY: the caller's promise.
        let layout = |list: Option<List>, length: usize| unsafe { layout(list.filter(|_| knows), length) };
        // As with MPI_IN_PLACE: what is sent lies where what is received will, and what is said of it besides does not count.
        let is_mirrored = raw.in_place && operation == Operation::Alltoall;
        let leaving = if is_mirrored { self.arriving } else { self.leaving };
        let has_sizes = leaving.is_some() || self.arriving.is_some();
        let (leaving, arriving) = (layout(leaving, destinations)?, layout(self.arriving, sources)?);
        let count = raw.count.unwrap_or(0);
        let all = |blocks: usize| count.saturating_mul(blocks as u64);
        let (input_count, output_count) = match operation {
            Operation::NeighbourAllgather if has_sizes => (count, u64::MAX),
            Operation::NeighbourAllgather => (count, all(sources)),
            Operation::NeighbourAlltoall if !has_sizes => (all(destinations), all(sources)),
            _ if !knows => (count, count),
            _ => (u64::MAX, u64::MAX),
        };
        let neighbours =
            neighbours.as_ref().map(|(sources, destinations)| Neighbourhood { sources, destinations });
        let raw = RawCall { count: None, input_count, output_count, leaving, arriving, neighbours, ..raw };
        // SAFETY: the caller's promise.
        work(unsafe { Call::from_raw(raw) })
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
