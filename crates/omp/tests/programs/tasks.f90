! Tasks of Fortran: depend clauses, task loops, reductions.
program tasks
    use omp_lib
    implicit none
    integer :: i, x, total, loop
    x = 0
    total = 0
    loop = 0
    !$omp parallel
    !$omp single
    do i = 1, 100
        !$omp task depend(inout: x) shared(x) firstprivate(i)
        x = mod(x * 3 + i, 10007)
        !$omp end task
    end do
    !$omp taskgroup task_reduction(+: total)
    do i = 1, 50
        !$omp task in_reduction(+: total) firstprivate(i)
        total = total + i
        !$omp end task
    end do
    !$omp end taskgroup
    !$omp taskloop shared(loop)
    do i = 1, 64
        !$omp atomic
        loop = loop + i
    end do
    !$omp end taskloop
    !$omp end single
    !$omp end parallel
    print '(3(a, i0))', 'x ', x, ', total ', total, ', loop ', loop
end program tasks
