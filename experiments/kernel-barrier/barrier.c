/* Barriers of an MPI in turns with nothing, while all processors compute or not: barrier RUNS COMPUTING. Each line of rank 0 is a run, us: from
 * the last rank's beginning to the last one's end, on the clock that all hosts of one machine have in common. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static atomic_int ends;

static void *compute(void *unused) {
    volatile double number = 1.5;
    while (!atomic_load_explicit(&ends, memory_order_relaxed))
        for (int step = 0; step < 10000; step++)
            number = number * 0.999999 + 0.25;
    return unused;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return 1000000000ull * now.tv_sec + now.tv_nsec;
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    int runs = count > 1 ? atoi(words[1]) : 100, computing = count > 2 ? atoi(words[2]) : 0, rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int thread = 0; thread < computing; thread++) {
        pthread_t started;
        pthread_create(&started, NULL, compute, NULL);
    }
    uint64_t *all = malloc(2 * sizeof *all * size);
    for (int run = -10; run < runs; run++) {
        MPI_Barrier(MPI_COMM_WORLD);
        uint64_t mine[2] = {now_ns()};
        MPI_Barrier(MPI_COMM_WORLD);
        mine[1] = now_ns();
        MPI_Gather(mine, 2, MPI_UINT64_T, all, 2, MPI_UINT64_T, 0, MPI_COMM_WORLD);
        uint64_t begin = 0, end = 0;
        for (int at = 0; rank == 0 && at < size; at++) {
            begin = all[2 * at] > begin ? all[2 * at] : begin;
            end = all[2 * at + 1] > end ? all[2 * at + 1] : end;
        }
        if (rank == 0 && run >= 0)
            printf("%.1f\n", end > begin ? (end - begin) / 1e3 : 0.0);
    }
    atomic_store(&ends, 1);
    MPI_Finalize();
    return 0;
}
