/* A few collective calls; says on standard error where each begins and ends, for whoever watches the library below. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

void watch_call(const char *what) __attribute__((weak));

static void next(const char *what) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (watch_call != NULL) {
        watch_call(what);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    static double in[8192 * 8], out[8192 * 8];
    next("barrier");
    MPI_Barrier(MPI_COMM_WORLD);
    next("allreduce 8");
    MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    next("allreduce 65536");
    MPI_Allreduce(in, out, 8192, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    next("bcast 65536");
    MPI_Bcast(out, 8192, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    next("reduce 8");
    MPI_Reduce(in, out, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    next("allgather 64");
    MPI_Allgather(in, 8, MPI_DOUBLE, out, 8, MPI_DOUBLE, MPI_COMM_WORLD);
    next("allgather 2048");
    MPI_Allgather(in, 256, MPI_DOUBLE, out, 256, MPI_DOUBLE, MPI_COMM_WORLD);
    next("end");
    MPI_Finalize();
    return 0;
}
