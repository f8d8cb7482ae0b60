! SPDX-License-Identifier: Apache-2.0 OR MIT
! A Fortran program with mpif.h: reductions, in place, a user's operator, a started call, waits on an array.
      program old
      implicit none
      include 'mpif.h'
      integer error, rank, ranks, i, op, requests(2)
      integer one, total, numbers(4), all(64), statuses(MPI_STATUS_SIZE, 2)
      double precision part, whole
      logical mine, every
      external join
      call MPI_INIT(error)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
      one = rank + 1
      call MPI_ALLREDUCE(one, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
      if (total .ne. ranks * (ranks + 1) / 2) call wrong('allreduce')
      total = one
      call MPI_ALLREDUCE(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, error)
      if (total .ne. ranks) call wrong('allreduce in place')
      part = 0.5d0 * one
      call MPI_REDUCE(part, whole, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
      if (rank .eq. 0 .and. whole .ne. 0.25d0 * ranks * (ranks + 1)) call wrong('reduce')
      mine = rank .eq. 0
      call MPI_ALLREDUCE(mine, every, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, error)
      if (.not. every) call wrong('logical or')
      call MPI_OP_CREATE(join, .true., op, error)
      total = 0
      call MPI_ALLREDUCE(one, total, 1, MPI_INTEGER, op, MPI_COMM_WORLD, error)
      if (total .ne. ranks * (ranks + 1) / 2) call wrong('own operator')
      call MPI_IALLGATHER(one, 1, MPI_INTEGER, all, 1, MPI_INTEGER, MPI_COMM_WORLD, requests(1), error)
      call MPI_IBARRIER(MPI_COMM_WORLD, requests(2), error)
      call MPI_WAITALL(2, requests, statuses, error)
      do i = 1, ranks
         if (all(i) .ne. i) call wrong('iallgather')
      end do
      numbers = rank
      call MPI_BCAST(numbers, 4, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, error)
      if (numbers(4) .ne. ranks - 1) call wrong('bcast')
      call MPI_OP_FREE(op, error)
      call MPI_FINALIZE(error)
      if (rank .eq. 0) print *, 'fine'
      end

      subroutine join(left, right, count, type)
      integer count, type, i, left(count), right(count)
      do i = 1, count
         right(i) = left(i) + right(i)
      end do
      end

      subroutine wrong(what)
      character*(*) what
      print *, 'wrong: ', what
      stop 1
      end
