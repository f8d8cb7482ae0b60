//! What each collective call gives, by definition: computed serially from what every rank contributes.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod every;

use castell_base::Rank;
use castell_comm::Communicator;
use castell_comm::collective::{Call, CallError, Custom, Element, Layout, Operation, Reduction};

/// A 2 x 2 matrix of integers that wrap around; products do not commute.
pub type Matrix = [u32; 4];

pub fn product(a: Matrix, b: Matrix) -> Matrix {
    let entry = |row: usize, column: usize| {
        let term = |k: usize| a[2 * row + k].wrapping_mul(b[2 * k + column]);
        term(0).wrapping_add(term(1))
    };
    [entry(0, 0), entry(0, 1), entry(1, 0), entry(1, 1)]
}

/// What a rank contributes at a place: the same wherever it is asked for.
pub fn matrix(rank: u32, at: u64) -> Matrix {
    let mut state = (u64::from(rank) << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as u32
    })
}

/// An element type with contributions and a reduction.
pub trait Sample: Element + PartialEq + std::fmt::Debug {
    fn contribution(rank: u32, at: u64) -> Self;
    fn combine(left: Self, right: Self) -> Self;
    fn filler() -> Self;
}

impl Sample for Matrix {
    fn contribution(rank: u32, at: u64) -> Matrix {
        matrix(rank, at)
    }
    fn combine(left: Matrix, right: Matrix) -> Matrix {
        product(left, right)
    }
    fn filler() -> Matrix {
        [77; 4]
    }
}

impl Sample for u64 {
    fn contribution(rank: u32, at: u64) -> u64 {
        let [a, b, ..] = matrix(rank, at);
        u64::from(a) << 32 | u64::from(b)
    }
    fn combine(left: u64, right: u64) -> u64 {
        left.wrapping_add(right)
    }
    fn filler() -> u64 {
        0x7777
    }
}

/// The product of matrices as an operator of the user.
pub fn matrix_product() -> Reduction {
    Reduction::Custom(Custom::new(false, product))
}

/// A call on data that follows from its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case<'a> {
    pub operation: Operation,
    pub algorithm: Option<&'a str>,
    /// Elements of the vector, or of each block.
    pub count: u64,
    pub root: u32,
    pub in_place: bool,
    /// Blocks of different sizes.
    pub blocks: bool,
    /// Distinguishes the data of different calls.
    pub salt: u64,
}

/// What goes into a call and what must come out.
pub struct Data<T> {
    pub send: Vec<T>,
    pub recv: Vec<T>,
    pub expected: Vec<T>,
    pub leaving: Vec<u64>,
    pub arriving: Vec<u64>,
}

impl Case<'_> {
    pub fn can_be_in_place(operation: Operation) -> bool {
        !matches!(operation, Operation::Barrier | Operation::Broadcast)
    }

    pub fn can_have_blocks(operation: Operation) -> bool {
        use Operation::{Allgather, Alltoall, Gather, ReduceScatter, Scatter};
        matches!(operation, Gather | Scatter | Allgather | ReduceScatter | Alltoall)
    }

    /// The size of the block from one rank to another (of operations with one block a rank, the second one counts).
    fn block(&self, from: u32, to: u32) -> u64 {
        if !self.blocks {
            return self.count;
        }
        match self.operation {
            Operation::Alltoall => (u64::from(3 * from + 5 * to) + self.salt) % (self.count + 2),
            _ => (u64::from(7 * to) + self.salt) % (2 * self.count + 2),
        }
    }

    fn piece<T: Sample>(&self, rank: u32, first: u64, count: u64) -> Vec<T> {
        (first..first + count).map(|at| T::contribution(rank, at + self.salt * 1000)).collect()
    }

    fn reduced<T: Sample>(&self, ranks: std::ops::Range<u32>, first: u64, count: u64) -> Vec<T> {
        let mut all = ranks.map(|rank| self.piece::<T>(rank, first, count));
        let first = all.next().unwrap_or_default();
        all.fold(first, |left, right| left.into_iter().zip(right).map(|(a, b)| T::combine(a, b)).collect())
    }

    /// What `me` of `size` gives and gets.
    pub fn data<T: Sample>(&self, me: u32, size: u32) -> Data<T> {
        let count = self.count;
        let is_root = me == self.root;
        let blocks: Vec<u64> = (0..size).map(|rank| self.block(0, rank)).collect();
        let before = |rank: u32| blocks[..rank as usize].iter().sum::<u64>();
        let all = before(size);
        let empty = Vec::new;
        let gathered =
            || (0..size).flat_map(|rank| self.piece(rank, 0, blocks[rank as usize])).collect::<Vec<T>>();
        let mine = blocks[me as usize];
        let (mut leaving, mut arriving) = (blocks.clone(), blocks.clone());
        let (send, expected): (Vec<T>, Vec<T>) = match self.operation {
            Operation::Barrier => (empty(), empty()),
            Operation::Broadcast => (self.piece(self.root, 0, count), self.piece(self.root, 0, count)),
            Operation::Gather => (self.piece(me, 0, mine), if is_root { gathered() } else { empty() }),
            Operation::Allgather => (self.piece(me, 0, mine), gathered()),
            Operation::Scatter => (self.piece(self.root, 0, all), self.piece(self.root, before(me), mine)),
            Operation::Reduce if !is_root => (self.piece(me, 0, count), empty()),
            Operation::Reduce | Operation::Allreduce => {
                (self.piece(me, 0, count), self.reduced(0..size, 0, count))
            }
            Operation::ReduceScatter => (self.piece(me, 0, all), self.reduced(0..size, before(me), mine)),
            Operation::Scan => (self.piece(me, 0, count), self.reduced(0..me + 1, 0, count)),
            Operation::Exscan if me == 0 => {
                let filler =
                    if self.in_place { self.piece(0, 0, count) } else { vec![T::filler(); count as usize] };
                (self.piece(me, 0, count), filler)
            }
            Operation::Exscan => (self.piece(me, 0, count), self.reduced(0..me, 0, count)),
            Operation::Alltoall => {
                leaving = (0..size).map(|to| self.block(me, to)).collect();
                arriving = (0..size).map(|from| self.block(from, me)).collect();
                let piece = |from: u32, to: u32| {
                    let first = (0..to).map(|before| self.block(from, before)).sum();
                    self.piece::<T>(from, first, self.block(from, to))
                };
                let sent = (0..size).flat_map(|to| piece(me, to)).collect();
                (sent, (0..size).flat_map(|from| piece(from, me)).collect())
            }
            Operation::NeighbourAllgather | Operation::NeighbourAlltoall => unreachable!("not drawn here"),
        };
        let mut recv = vec![T::filler(); expected.len()];
        if self.operation == Operation::Broadcast && is_root {
            recv.clone_from(&expected);
        }
        if self.in_place {
            match self.operation {
                Operation::Gather | Operation::Allgather if !recv.is_empty() => {
                    let at = before(me) as usize;
                    recv[at..at + send.len()].copy_from_slice(&send);
                }
                Operation::Gather | Operation::Scatter | Operation::Reduce if !is_root => {}
                Operation::Scatter => {}
                _ => recv.clone_from(&send),
            }
        }
        Data { send, recv, expected, leaving, arriving }
    }

    /// The call on this data.
    pub fn call<'a, T: Sample>(
        &'a self,
        me: u32,
        data: &'a Data<T>,
        recv: &'a mut [T],
        reduction: &Reduction,
    ) -> Call<'a> {
        let root = Rank(self.root);
        let is_root = me == self.root;
        let send = &data.send[..];
        let in_place = self.in_place;
        let reduction = || reduction.clone();
        let blocks = |sizes: &'a [u64]| Layout::packed(sizes);
        let call = match self.operation {
            Operation::Barrier => Call::barrier(),
            Operation::Broadcast => Call::broadcast(recv, root),
            Operation::Gather if self.blocks => {
                Call::gather_blocks(send, recv, is_root.then(|| blocks(&data.arriving)), root)
            }
            Operation::Gather if in_place && is_root => Call::gather_in_place(recv, root),
            Operation::Gather => Call::gather(send, recv, root),
            Operation::Scatter if self.blocks => {
                Call::scatter_blocks(send, is_root.then(|| blocks(&data.leaving)), recv, root)
            }
            Operation::Scatter if in_place && is_root => Call::scatter_in_place(send, root),
            Operation::Scatter => Call::scatter(send, recv, root),
            Operation::Allgather if self.blocks => Call::allgather_blocks(send, recv, blocks(&data.arriving)),
            Operation::Allgather if in_place => Call::allgather_in_place(recv),
            Operation::Allgather => Call::allgather(send, recv),
            Operation::Reduce if in_place && is_root => Call::reduce_in_place(recv, reduction(), root),
            Operation::Reduce => Call::reduce(send, recv, reduction(), root),
            Operation::Allreduce if in_place => Call::allreduce_in_place(recv, reduction()),
            Operation::Allreduce => Call::allreduce(send, recv, reduction()),
            Operation::ReduceScatter if in_place => {
                let counts = self.blocks.then_some(&data.leaving[..]);
                Call::reduce_scatter_in_place(recv, counts, reduction())
            }
            Operation::ReduceScatter if self.blocks => {
                Call::reduce_scatter(send, recv, &data.leaving, reduction())
            }
            Operation::ReduceScatter => Call::reduce_scatter_block(send, recv, reduction()),
            Operation::Alltoall if self.blocks => {
                Call::alltoall_blocks(send, blocks(&data.leaving), recv, blocks(&data.arriving))
            }
            Operation::Alltoall if in_place => Call::alltoall_in_place(recv),
            Operation::Alltoall => Call::alltoall(send, recv),
            Operation::Scan if in_place => Call::scan_in_place(recv, reduction()),
            Operation::Scan => Call::scan(send, recv, reduction()),
            Operation::Exscan if in_place => Call::exscan_in_place(recv, reduction()),
            Operation::Exscan => Call::exscan(send, recv, reduction()),
            Operation::NeighbourAllgather | Operation::NeighbourAlltoall => unreachable!("not drawn here"),
        };
        match self.algorithm {
            Some(algorithm) => call.by(algorithm),
            None => call,
        }
    }

    /// Whether blocks of different sizes go in place by the calls above.
    pub fn is_sensible(&self) -> bool {
        let mixed = self.blocks && self.in_place;
        (!self.blocks || Case::can_have_blocks(self.operation))
            && (!self.in_place || Case::can_be_in_place(self.operation))
            && (!mixed || self.operation == Operation::ReduceScatter)
    }

    /// Compares what came with what must.
    pub fn check<T: Sample>(&self, me: u32, size: u32, got: &[T], data: &Data<T>) {
        if self.in_place && self.operation == Operation::Scatter && me == self.root {
            return;
        }
        let expected = &data.expected;
        assert!(
            got[..expected.len()] == expected[..],
            "rank {me} of {size}: {self:?}: got {:?} instead of {:?}",
            &got[..expected.len().min(4)],
            &expected[..expected.len().min(4)]
        );
    }

    /// Makes the call, blocking, and checks it.
    pub fn run<T: Sample>(
        &self,
        communicator: &Communicator,
        reduction: &Reduction,
    ) -> Result<(), CallError> {
        let (me, size) = (communicator.rank().0, communicator.size());
        let data = self.data::<T>(me, size);
        let mut recv = data.recv.clone();
        communicator.call(self.call(me, &data, &mut recv, reduction))?;
        self.check(me, size, &recv, &data);
        Ok(())
    }
}
