/* Two ranks that compute in turns, and wait for each other meanwhile: each half of the time. An MPI program like any other.
 *
 *     waits ROUNDS COMPUTE_US
 *
 * With COMPUTE_US 0 they only call barriers. It prints how long all took, how long the one that waits needs to go on once the other has come, and what
 * a call takes.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double us(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

/* So much work: time on a processor. */
static void compute(double work_us) {
    for (double until = us(CLOCK_THREAD_CPUTIME_ID) + work_us; us(CLOCK_THREAD_CPUTIME_ID) < until;) {
    }
}

static int by_value(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

int main(int count, char **words) {
    int me, size, rounds = count == 3 ? atoi(words[1]) : 0;
    double compute_us = count == 3 ? atof(words[2]) : 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rounds < 1 || size != 2) {
        if (me == 0) fprintf(stderr, "usage: waits ROUNDS COMPUTE_US     by two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    /* When the one that computes came, and when the other one went on. */
    double *came = calloc(rounds, sizeof *came), *went_on = calloc(rounds, sizeof *went_on);
    if (!came || !went_on) abort();
    MPI_Barrier(MPI_COMM_WORLD);
    double since = us(CLOCK_MONOTONIC);
    for (int round = 0; round < rounds; round++) {
        int computes = round % 2 == me;
        if (computes) {
            compute(compute_us);
            came[round] = us(CLOCK_MONOTONIC);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (!computes) went_on[round] = us(CLOCK_MONOTONIC);
    }
    double total_us = us(CLOCK_MONOTONIC) - since;
    MPI_Allreduce(MPI_IN_PLACE, came, rounds, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, went_on, rounds, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int round = 0; round < rounds; round++) came[round] = went_on[round] - came[round];
    qsort(came, rounds, sizeof *came, by_value);
    if (me == 0)
        printf("seconds %.6f late_us_median %.2f late_us_p99 %.2f call_us %.2f\n", total_us / 1e6, came[(rounds - 1) / 2],
               came[(int)((rounds - 1) * 0.99)], total_us / rounds - compute_us);
    MPI_Finalize();
    return 0;
}
