! SPDX-License-Identifier: Apache-2.0 OR MIT
! A Fortran program with `use mpi`.
program main
  use mpi
  implicit none
  integer :: error, rank, ranks, total
  integer :: request
  integer :: status(MPI_STATUS_SIZE)
  real(kind=8) :: mine(3), sums(3)
  integer, allocatable :: blocks(:), got(:)
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  allocate (blocks(ranks), got(ranks))
  mine = [1d0, 2d0, 3d0] * (rank + 1)
  call MPI_Allreduce(mine, sums, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (sums(3) /= 1.5d0 * ranks * (ranks + 1)) call wrong('allreduce')
  call MPI_Allreduce(MPI_IN_PLACE, mine, 3, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
  if (mine(1) /= ranks) call wrong('allreduce in place')
  blocks = rank
  call MPI_Alltoall(blocks, 1, MPI_INTEGER, got, 1, MPI_INTEGER, MPI_COMM_WORLD, error)
  if (got(ranks) /= ranks - 1) call wrong('alltoall')
  total = rank
  call MPI_Ibcast(total, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, request, error)
  call MPI_Wait(request, status, error)
  if (total /= 0) call wrong('ibcast')
  call MPI_Scan(1, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  if (total /= rank + 1) call wrong('scan')
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_Finalize(error)
  if (rank == 0) print *, 'fine'
contains
  subroutine wrong(what)
    character(*), intent(in) :: what
    print *, 'wrong: ', what
    stop 1
  end subroutine
end program
