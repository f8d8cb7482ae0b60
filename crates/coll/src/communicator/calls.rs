//! The usual calls by name. All of them are [`Communicator::call`] of a [`Call`], where the rest is found: calls in place,
//! blocks of different sizes, neighbours, named algorithms.

use super::Communicator;
use crate::collective::{Call, CallError, Element, Layout, Pending, Persistent, Reduction};
use castell_base::Rank;

impl Communicator {
    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// As for [`Communicator::call`]; so it is with the others.
    pub fn barrier(&self) -> Result<(), CallError> {
        self.call(Call::barrier())
    }

    /// Gives all ranks what the root has.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn broadcast<T: Element>(&self, data: &mut [T], root: Rank) -> Result<(), CallError> {
        self.call(Call::broadcast(data, root))
    }

    /// Gives the root a block from each rank; others may leave `recv` empty.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn gather<T: Element>(&self, send: &[T], recv: &mut [T], root: Rank) -> Result<(), CallError> {
        self.call(Call::gather(send, recv, root))
    }

    /// Gives each rank a block of what the root has; others may leave `send` empty.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn scatter<T: Element>(&self, send: &[T], recv: &mut [T], root: Rank) -> Result<(), CallError> {
        self.call(Call::scatter(send, recv, root))
    }

    /// Gives all ranks a block from each rank.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn allgather<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<(), CallError> {
        self.call(Call::allgather(send, recv))
    }

    /// The same with blocks of different sizes.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn allgather_blocks<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        blocks: Layout<'_>,
    ) -> Result<(), CallError> {
        self.call(Call::allgather_blocks(send, recv, blocks))
    }

    /// Gives the root the reduced vectors of all ranks; others may leave `recv` empty.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn reduce<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        reduction: Reduction,
        root: Rank,
    ) -> Result<(), CallError> {
        self.call(Call::reduce(send, recv, reduction, root))
    }

    /// Gives all ranks the reduced vectors of all ranks: the same bits in all of them.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn allreduce<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CallError> {
        self.call(Call::allreduce(send, recv, reduction))
    }

    /// The same in `data`.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn allreduce_in_place<T: Element>(
        &self,
        data: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CallError> {
        self.call(Call::allreduce_in_place(data, reduction))
    }

    /// Gives each rank a block of the reduced vector.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn reduce_scatter_block<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CallError> {
        self.call(Call::reduce_scatter_block(send, recv, reduction))
    }

    /// Gives each rank a block from each rank.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn alltoall<T: Element>(&self, send: &[T], recv: &mut [T]) -> Result<(), CallError> {
        self.call(Call::alltoall(send, recv))
    }

    /// Gives each rank the reduced vectors of the ranks up to itself.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn scan<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CallError> {
        self.call(Call::scan(send, recv, reduction))
    }

    /// Gives each rank the reduced vectors of the ranks below itself.
    ///
    /// # Errors
    /// As for [`Communicator::call`].
    pub fn exscan<T: Element>(
        &self,
        send: &[T],
        recv: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CallError> {
        self.call(Call::exscan(send, recv, reduction))
    }

    /// Starts an allreduce over buffers that come back when it is waited for; [`Communicator::start`] does it for every
    /// operation, and [`Communicator::scope`] over borrowed memory.
    ///
    /// # Errors
    /// Arguments that cannot be; the call could not be started.
    pub fn iallreduce<T: Element>(
        &self,
        send: Vec<T>,
        recv: Vec<T>,
        reduction: Reduction,
    ) -> Result<Pending<T>, CallError> {
        self.start(send, recv, |send, recv| Call::allreduce(send, recv, reduction))
    }

    /// Prepares an allreduce; [`Communicator::prepare`] does it for every operation.
    ///
    /// # Errors
    /// Arguments that cannot be.
    pub fn allreduce_init<T: Element>(
        &self,
        send: Vec<T>,
        recv: Vec<T>,
        reduction: Reduction,
    ) -> Result<Persistent<T>, CallError> {
        self.prepare(send, recv, |send, recv| Call::allreduce(send, recv, reduction))
    }
}
