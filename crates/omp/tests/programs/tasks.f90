! Tasks of Fortran: depend clauses, task loops, reductions.
program tasks
    use omp_lib
    implicit none
    integer :: i, x, total, loop, detached
    integer(kind=omp_event_handle_kind) :: event
    x = 0
    total = 0
    loop = 0
    detached = 0
    !$omp parallel private(event)
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
    !$omp task detach(event) shared(detached)
    !$omp atomic
    detached = detached + 1
    !$omp end task
    !$omp task shared(detached) firstprivate(event)
    !$omp atomic
    detached = detached + 10
    call omp_fulfill_event(event)
    !$omp end task
    !$omp taskwait
    !$omp taskloop shared(loop)
    do i = 1, 64
        !$omp atomic
        loop = loop + i
    end do
    !$omp end taskloop
    !$omp end single
    !$omp end parallel
    print '(4(a, i0))', 'x ', x, ', total ', total, ', loop ', loop, ', detached ', detached
end program tasks
