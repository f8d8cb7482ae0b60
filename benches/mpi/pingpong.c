/* Half round trip of blocking MPI_Send and MPI_Recv between two ranks; a sample is the mean of 100 round trips.
 *
 *     pingpong [--bytes 8] [--samples 1000] */
#include "measure.h"

#include <mpi.h>
#include <string.h>

enum { ROUNDS = 100 };

/* Seconds that 100 round trips took. */
static double batch(int rank, char *buffer, int bytes) {
    double start = MPI_Wtime();
    for (int i = 0; i < ROUNDS; i++) {
        if (rank == 0) {
            MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    return MPI_Wtime() - start;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "pingpong: needs 2 ranks, has %d\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int bytes = (int)measure_number(argc, argv, "--bytes", 8);
    long samples = measure_number(argc, argv, "--samples", 1000);
    /* What is received is sent back, as in castell's schedule; and it is real memory, not the kernel's page of zeros. */
    char *buffer = memset(measure_checked(malloc((size_t)bytes)), 1, (size_t)bytes);
    double *ns = measure_checked(malloc((size_t)samples * sizeof *ns));

    for (long i = 0; i < 1 + samples / 10; i++) {
        batch(rank, buffer, bytes); /* warm up */
    }
    for (long i = 0; i < samples; i++) {
        ns[i] = 1e9 * batch(rank, buffer, bytes) / (2 * ROUNDS);
    }
    if (rank == 0) {
        char params[32];
        snprintf(params, sizeof params, "\"bytes\":%d", bytes);
        measure_report("pingpong", params, ns, samples);
    }
    free(ns);
    free(buffer);
    MPI_Finalize();
    return 0;
}
