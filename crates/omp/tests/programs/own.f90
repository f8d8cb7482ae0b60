! As own.c, by the functions' Fortran names.
program own
  use omp_lib
  implicit none
  integer(kind=omp_nest_lock_kind) :: lock
  integer :: wrong, before
  wrong = 0
  call omp_init_nest_lock(lock)
  !$omp parallel num_threads(1) shared(wrong, lock) private(before)
  before = omp_get_max_threads()
  if (omp_test_nest_lock(lock) /= 1) wrong = wrong + 1
  !$omp task if(.false.) shared(wrong, lock) firstprivate(before)
  if (omp_test_nest_lock(lock) /= 0) wrong = wrong + 10
  call omp_set_num_threads(before + 2)
  call omp_set_num_threads(int(before + 3, 8))
  if (omp_get_max_threads() /= before + 3) wrong = wrong + 100
  !$omp end task
  if (omp_get_max_threads() /= before) wrong = wrong + 1000
  !$omp task shared(wrong, lock) firstprivate(before)
  call omp_set_num_threads(before + 1)
  call omp_set_dynamic(.true.)
  call omp_set_schedule(omp_sched_dynamic, 7)
  if (omp_test_nest_lock(lock) /= 0) wrong = wrong + 10000
  !$omp end task
  !$omp taskwait
  if (omp_get_max_threads() /= before) wrong = wrong + 100000
  if (omp_get_dynamic()) wrong = wrong + 1000000
  call omp_unset_nest_lock(lock)
  !$omp end parallel
  call omp_destroy_nest_lock(lock)
  print '(a, i0)', 'wrong ', wrong
end program own
