//! What a rank calls: the operation with its data, before anything is known of a communicator.

use super::Operation;
use super::operator::{DataType, Reduction};
use castell_base::Rank;
use std::marker::PhantomData;

/// Types that collectives move: without padding, and every value that one rank has is one for the others.
///
/// # Safety
/// The type has no padding, no pointers, and the size of its [`DataType`]; all bytes zero are one of its values.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// How it is reduced.
    const TYPE: DataType;
}

macro_rules! elements {
    ($($type:ty: $data:expr;)*) => {$(
        // SAFETY: numbers have no padding.
        unsafe impl Element for $type {
            const TYPE: DataType = $data;
        }
        // SAFETY: nor have arrays of them.
        unsafe impl<const N: usize> Element for [$type; N] {
            const TYPE: DataType = DataType::Opaque((N * size_of::<$type>()) as u64);
        }
    )*};
}

use castell_goal::op::ElementType as Number;
elements! {
    i8: DataType::Number(Number::I8);
    i16: DataType::Number(Number::I16);
    i32: DataType::Number(Number::I32);
    i64: DataType::Number(Number::I64);
    u8: DataType::Number(Number::U8);
    u16: DataType::Number(Number::U16);
    u32: DataType::Number(Number::U32);
    u64: DataType::Number(Number::U64);
    f32: DataType::Number(Number::F32);
    f64: DataType::Number(Number::F64);
}

// SAFETY: ranks send what they have, and logical operators give 0 or 1; no other operator takes it.
unsafe impl Element for bool {
    const TYPE: DataType = DataType::Bool;
}

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// Real part.
    pub re: T,
    /// Imaginary part.
    pub im: T,
}

/// A number and where it was found, for [`Reduction::MinimumLocation`] and [`Reduction::MaximumLocation`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Found<T, P> {
    /// The number.
    pub number: T,
    /// Where it was found.
    pub place: P,
}

macro_rules! pairs {
    ($($type:ty: $data:expr;)*) => {$(
        // SAFETY: two numbers of one size.
        unsafe impl Element for $type {
            const TYPE: DataType = $data;
        }
    )*};
}

pairs! {
    Complex<f32>: DataType::Complex32;
    Complex<f64>: DataType::Complex64;
    Found<i32, i32>: DataType::Located(super::operator::Located::I32);
    Found<i64, i64>: DataType::Located(super::operator::Located::I64);
    Found<f32, i32>: DataType::Located(super::operator::Located::F32);
    Found<f64, i64>: DataType::Located(super::operator::Located::F64);
}

/// Blocks of different sizes, one for each rank (of neighbour collectives, for each neighbour). In elements.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// Elements of each block.
    pub counts: &'a [u64],
    /// Where each block starts; `None`: one behind the other.
    pub starts: Option<&'a [u64]>,
}

impl<'a> Layout<'a> {
    /// Blocks one behind the other.
    pub fn packed(counts: &'a [u64]) -> Layout<'a> {
        Layout { counts, starts: None }
    }

    /// Blocks that start at these elements.
    pub fn at(counts: &'a [u64], starts: &'a [u64]) -> Layout<'a> {
        Layout { counts, starts: Some(starts) }
    }
}

/// With whom a rank exchanges blocks in neighbour collectives.
#[derive(Clone, Copy, Debug)]
pub struct Neighbourhood<'a> {
    /// From whom blocks come.
    pub sources: &'a [Rank],
    /// To whom blocks go.
    pub destinations: &'a [Rank],
}

/// How many elements a block, or the vector, has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    Of(u64),
    /// The buffer holds a block for each rank.
    Share(u64),
    /// Blocks have sizes of their own.
    Listed,
}

/// Memory of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) address: u64,
    /// Elements that it has room for.
    pub(crate) count: u64,
}

impl Span {
    const NONE: Span = Span { address: 0, count: 0 };
}

/// A call of a collective operation, ready to be made on a communicator: [`Communicator::call`] makes it and waits,
/// [`Communicator::scope`] starts it, or prepares it to be started often.
///
/// ```
/// use castell_coll::collective::{Call, Reduction};
/// use castell_coll::Communicator;
///
/// let world = Communicator::world(&castell_coll::alone()?);
/// let (ones, mut sums) = ([1.0f64; 4], [0.0; 4]);
/// world.call(Call::allreduce(&ones, &mut sums, Reduction::Sum))?;
/// assert_eq!(sums, [f64::from(world.size()); 4]);
/// world.call(Call::allreduce(&ones, &mut sums, Reduction::Sum).by("recursive-doubling"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Communicator::call`]: crate::Communicator::call
/// [`Communicator::scope`]: crate::Communicator::scope
#[derive(Debug)]
pub struct Call<'a> {
    pub(crate) operation: Operation,
    pub(crate) root: Option<u32>,
    pub(crate) count: Count,
    pub(crate) element: DataType,
    pub(crate) reduction: Option<Reduction>,
    pub(crate) input: Span,
    pub(crate) output: Span,
    pub(crate) in_place: bool,
    pub(crate) leaving: Option<Layout<'a>>,
    pub(crate) arriving: Option<Layout<'a>>,
    pub(crate) neighbours: Option<Neighbourhood<'a>>,
    pub(crate) algorithm: Option<&'a str>,
    memory: PhantomData<&'a mut [u8]>,
}

/// A call in parts, see [`Call::from_raw`].
#[derive(Clone, Debug)]
pub struct RawCall<'a> {
    /// Which operation.
    pub operation: Operation,
    /// The root, of operations that have one.
    pub root: Option<u32>,
    /// Elements of the vector, or of each block; `None`: each block has its own size.
    pub count: Option<u64>,
    /// The type of the elements.
    pub element: DataType,
    /// The operator, of operations that have one.
    pub reduction: Option<Reduction>,
    /// What the rank contributes.
    pub input: *const u8,
    /// Elements there. Where each block has its own size, those of the rank's own block.
    pub input_count: u64,
    /// What it gets.
    pub output: *mut u8,
    /// Elements there. Where each block has its own size, those of the rank's own block.
    pub output_count: u64,
    /// The input is in the output.
    pub in_place: bool,
    /// The blocks that leave.
    pub leaving: Option<Layout<'a>>,
    /// The blocks that arrive.
    pub arriving: Option<Layout<'a>>,
    /// The neighbours.
    pub neighbours: Option<Neighbourhood<'a>>,
    /// The algorithm.
    pub algorithm: Option<&'a str>,
}

fn input<T>(elements: &[T]) -> Span {
    Span { address: elements.as_ptr() as u64, count: elements.len() as u64 }
}

fn output<T>(elements: &mut [T]) -> Span {
    Span { address: elements.as_mut_ptr() as u64, count: elements.len() as u64 }
}

impl<'a> Call<'a> {
    fn new<T: Element>(operation: Operation, count: Count, input: Span, output: Span) -> Call<'a> {
        Call {
            operation,
            root: None,
            count,
            element: T::TYPE,
            reduction: None,
            input,
            output,
            in_place: false,
            leaving: None,
            arriving: None,
            neighbours: None,
            algorithm: None,
            memory: PhantomData,
        }
    }

    fn rooted(self, root: Rank) -> Call<'a> {
        Call { root: Some(root.0), ..self }
    }

    fn reducing(self, reduction: Reduction) -> Call<'a> {
        Call { reduction: Some(reduction), ..self }
    }

    fn in_place(self) -> Call<'a> {
        Call { in_place: true, ..self }
    }

    /// A call over addresses, for doors to other languages.
    ///
    /// # Safety
    /// Where the call reads and writes so many elements, there must be that much memory, left alone as the call demands for
    /// as long as it goes on.
    #[inline(always)]
    pub unsafe fn from_raw(raw: RawCall<'a>) -> Call<'a> {
        Call {
            operation: raw.operation,
            root: raw.root,
            count: raw.count.map_or(Count::Listed, Count::Of),
            element: raw.element,
            reduction: raw.reduction,
            input: Span { address: raw.input as u64, count: raw.input_count },
            output: Span { address: raw.output as u64, count: raw.output_count },
            in_place: raw.in_place,
            leaving: raw.leaving,
            arriving: raw.arriving,
            neighbours: raw.neighbours,
            algorithm: raw.algorithm,
            memory: PhantomData,
        }
    }

    /// By the algorithm of this name (see `castell schedule list`), or by this word of the allreduce language, instead of
    /// the one that is chosen. Algorithms that send several messages a round are named with their number: `bruck 3-way`.
    pub fn by(self, algorithm: &'a str) -> Call<'a> {
        Call { algorithm: Some(algorithm), ..self }
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Nobody goes on before all have come.
    pub fn barrier() -> Call<'a> {
        Call::new::<u8>(Operation::Barrier, Count::Of(0), Span::NONE, Span::NONE)
    }

    /// All get what the root has.
    pub fn broadcast<T: Element>(data: &'a mut [T], root: Rank) -> Call<'a> {
        let count = Count::Of(data.len() as u64);
        Call::new::<T>(Operation::Broadcast, count, Span::NONE, output(data)).rooted(root)
    }

    /// The root gets a block from each rank, in their order. Others may leave `recv` empty.
    pub fn gather<T: Element>(send: &'a [T], recv: &'a mut [T], root: Rank) -> Call<'a> {
        let count = Count::Of(send.len() as u64);
        Call::new::<T>(Operation::Gather, count, input(send), output(recv)).rooted(root)
    }

    /// The root's side of a gather whose own block is in its place already.
    pub fn gather_in_place<T: Element>(recv: &'a mut [T], root: Rank) -> Call<'a> {
        let recv = output(recv);
        Call::new::<T>(Operation::Gather, Count::Share(recv.count), Span::NONE, recv).rooted(root).in_place()
    }

    /// A gather of blocks of different sizes, which the root alone tells in `blocks`.
    pub fn gather_blocks<T: Element>(
        send: &'a [T],
        recv: &'a mut [T],
        blocks: Option<Layout<'a>>,
        root: Rank,
    ) -> Call<'a> {
        let call = Call::new::<T>(Operation::Gather, Count::Listed, input(send), output(recv)).rooted(root);
        Call { arriving: blocks, ..call }
    }

    /// Each rank gets a block of what the root has. Others may leave `send` empty.
    pub fn scatter<T: Element>(send: &'a [T], recv: &'a mut [T], root: Rank) -> Call<'a> {
        let count = Count::Of(recv.len() as u64);
        Call::new::<T>(Operation::Scatter, count, input(send), output(recv)).rooted(root)
    }

    /// The root's side of a scatter that leaves its own block where it is.
    pub fn scatter_in_place<T: Element>(send: &'a [T], root: Rank) -> Call<'a> {
        let send = input(send);
        Call::new::<T>(Operation::Scatter, Count::Share(send.count), send, Span::NONE).rooted(root).in_place()
    }

    /// A scatter of blocks of different sizes, which the root alone tells in `blocks`.
    pub fn scatter_blocks<T: Element>(
        send: &'a [T],
        blocks: Option<Layout<'a>>,
        recv: &'a mut [T],
        root: Rank,
    ) -> Call<'a> {
        let call = Call::new::<T>(Operation::Scatter, Count::Listed, input(send), output(recv)).rooted(root);
        Call { leaving: blocks, ..call }
    }

    /// All get a block from each rank.
    pub fn allgather<T: Element>(send: &'a [T], recv: &'a mut [T]) -> Call<'a> {
        Call::new::<T>(Operation::Allgather, Count::Of(send.len() as u64), input(send), output(recv))
    }

    /// The same where each rank's own block is in its place already.
    pub fn allgather_in_place<T: Element>(recv: &'a mut [T]) -> Call<'a> {
        let recv = output(recv);
        Call::new::<T>(Operation::Allgather, Count::Share(recv.count), Span::NONE, recv).in_place()
    }

    /// An allgather of blocks of different sizes.
    pub fn allgather_blocks<T: Element>(send: &'a [T], recv: &'a mut [T], blocks: Layout<'a>) -> Call<'a> {
        let call = Call::new::<T>(Operation::Allgather, Count::Listed, input(send), output(recv));
        Call { arriving: Some(blocks), ..call }
    }

    /// The root gets the vectors of all ranks, reduced in their order. Others may leave `recv` empty.
    pub fn reduce<T: Element>(
        send: &'a [T],
        recv: &'a mut [T],
        reduction: Reduction,
        root: Rank,
    ) -> Call<'a> {
        let count = Count::Of(send.len() as u64);
        let call = Call::new::<T>(Operation::Reduce, count, input(send), output(recv));
        call.rooted(root).reducing(reduction)
    }

    /// The root's side of a reduction whose own vector is in `data`.
    pub fn reduce_in_place<T: Element>(data: &'a mut [T], reduction: Reduction, root: Rank) -> Call<'a> {
        let count = Count::Of(data.len() as u64);
        let call = Call::new::<T>(Operation::Reduce, count, Span::NONE, output(data));
        call.rooted(root).reducing(reduction).in_place()
    }

    /// All get the vectors of all ranks, reduced in their order.
    pub fn allreduce<T: Element>(send: &'a [T], recv: &'a mut [T], reduction: Reduction) -> Call<'a> {
        let count = Count::Of(send.len() as u64);
        Call::new::<T>(Operation::Allreduce, count, input(send), output(recv)).reducing(reduction)
    }

    /// The same in `data`.
    pub fn allreduce_in_place<T: Element>(data: &'a mut [T], reduction: Reduction) -> Call<'a> {
        let count = Count::Of(data.len() as u64);
        let call = Call::new::<T>(Operation::Allreduce, count, Span::NONE, output(data));
        call.reducing(reduction).in_place()
    }

    /// Each rank gets a block of the reduced vector; all blocks have the size of `recv`.
    pub fn reduce_scatter_block<T: Element>(
        send: &'a [T],
        recv: &'a mut [T],
        reduction: Reduction,
    ) -> Call<'a> {
        let count = Count::Of(recv.len() as u64);
        Call::new::<T>(Operation::ReduceScatter, count, input(send), output(recv)).reducing(reduction)
    }

    /// Each rank gets a block of the reduced vector; the blocks have these sizes, one behind the other.
    pub fn reduce_scatter<T: Element>(
        send: &'a [T],
        recv: &'a mut [T],
        counts: &'a [u64],
        reduction: Reduction,
    ) -> Call<'a> {
        let call = Call::new::<T>(Operation::ReduceScatter, Count::Listed, input(send), output(recv));
        Call { leaving: Some(Layout::packed(counts)), ..call.reducing(reduction) }
    }

    /// The same, or with blocks of one size (`None`), where the vector is in `data`, whose start gets the result.
    pub fn reduce_scatter_in_place<T: Element>(
        data: &'a mut [T],
        counts: Option<&'a [u64]>,
        reduction: Reduction,
    ) -> Call<'a> {
        let data = output(data);
        let count = if counts.is_some() { Count::Listed } else { Count::Share(data.count) };
        let call = Call::new::<T>(Operation::ReduceScatter, count, Span::NONE, data);
        Call { leaving: counts.map(Layout::packed), ..call.reducing(reduction).in_place() }
    }

    /// Each rank gets a block from each rank.
    pub fn alltoall<T: Element>(send: &'a [T], recv: &'a mut [T]) -> Call<'a> {
        let send = input(send);
        Call::new::<T>(Operation::Alltoall, Count::Share(send.count), send, output(recv))
    }

    /// The same in `data`.
    pub fn alltoall_in_place<T: Element>(data: &'a mut [T]) -> Call<'a> {
        let data = output(data);
        Call::new::<T>(Operation::Alltoall, Count::Share(data.count), Span::NONE, data).in_place()
    }

    /// Each rank gets a block from each rank; each block has a size of its own. With bytes as elements this is MPI's
    /// alltoallw for contiguous types.
    pub fn alltoall_blocks<T: Element>(
        send: &'a [T],
        leaving: Layout<'a>,
        recv: &'a mut [T],
        arriving: Layout<'a>,
    ) -> Call<'a> {
        let call = Call::new::<T>(Operation::Alltoall, Count::Listed, input(send), output(recv));
        Call { leaving: Some(leaving), arriving: Some(arriving), ..call }
    }

    /// Each rank gets the reduced vectors of the ranks up to itself.
    pub fn scan<T: Element>(send: &'a [T], recv: &'a mut [T], reduction: Reduction) -> Call<'a> {
        let count = Count::Of(send.len() as u64);
        Call::new::<T>(Operation::Scan, count, input(send), output(recv)).reducing(reduction)
    }

    /// The same in `data`.
    pub fn scan_in_place<T: Element>(data: &'a mut [T], reduction: Reduction) -> Call<'a> {
        let count = Count::Of(data.len() as u64);
        Call::new::<T>(Operation::Scan, count, Span::NONE, output(data)).reducing(reduction).in_place()
    }

    /// Each rank gets the reduced vectors of the ranks below itself; rank 0's `recv` stays as it is.
    pub fn exscan<T: Element>(send: &'a [T], recv: &'a mut [T], reduction: Reduction) -> Call<'a> {
        let count = Count::Of(send.len() as u64);
        Call::new::<T>(Operation::Exscan, count, input(send), output(recv)).reducing(reduction)
    }

    /// The same in `data`.
    pub fn exscan_in_place<T: Element>(data: &'a mut [T], reduction: Reduction) -> Call<'a> {
        let count = Count::Of(data.len() as u64);
        Call::new::<T>(Operation::Exscan, count, Span::NONE, output(data)).reducing(reduction).in_place()
    }

    /// Each rank sends the same block to all its neighbours and gets one of the same size from each; or of the sizes in
    /// `blocks`.
    pub fn neighbour_allgather<T: Element>(
        neighbours: Neighbourhood<'a>,
        send: &'a [T],
        recv: &'a mut [T],
        blocks: Option<Layout<'a>>,
    ) -> Call<'a> {
        let call = Call::new::<T>(Operation::NeighbourAllgather, Count::Listed, input(send), output(recv));
        Call { neighbours: Some(neighbours), arriving: blocks, ..call }
    }

    /// Each rank sends a block to each of its neighbours and gets one from each: of one size each way, or of the sizes in
    /// the layouts.
    pub fn neighbour_alltoall<T: Element>(
        neighbours: Neighbourhood<'a>,
        send: &'a [T],
        leaving: Option<Layout<'a>>,
        recv: &'a mut [T],
        arriving: Option<Layout<'a>>,
    ) -> Call<'a> {
        let call = Call::new::<T>(Operation::NeighbourAlltoall, Count::Listed, input(send), output(recv));
        Call { neighbours: Some(neighbours), leaving, arriving, ..call }
    }
}
