/* What it costs to begin.
 *
 *     startup --what init            MPI_Init and MPI_Finalize, one sample (start the program again for more)
 *     startup --what operation       starting and completing MPI_Iallreduce of one double on MPI_COMM_SELF
 *     startup --what message         starting and completing a message of one double to oneself
 *     startup --what barrier         starting and completing MPI_Ibarrier on MPI_COMM_SELF
 *                  [--samples 1000]  a sample is the mean of 100 */
#include "measure.h"

#include <mpi.h>

enum { BATCH = 100 };

static void operation(void) {
    double in = 1.0, out;
    MPI_Request request;
    MPI_Iallreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void message(void) {
    double out = 1.0, in;
    MPI_Request requests[2];
    MPI_Irecv(&in, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(&out, 1, MPI_DOUBLE, 0, 0, MPI_COMM_SELF, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void barrier(void) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_SELF, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void measure(const char *what, void (*once)(void), long samples, int rank) {
    double *ns = measure_checked(malloc((size_t)samples * sizeof *ns));
    for (long i = -1 - samples / 10; i < samples; i++) { /* the first ones warm up */
        double start = measure_now_ns();
        for (int j = 0; j < BATCH; j++) {
            once();
        }
        if (i >= 0) {
            ns[i] = (measure_now_ns() - start) / BATCH;
        }
    }
    if (rank == 0) {
        char params[64];
        snprintf(params, sizeof params, "\"what\":\"%s\"", what);
        measure_report("startup", params, ns, samples);
    }
    free(ns);
}

int main(int argc, char **argv) {
    double start = measure_now_ns();
    MPI_Init(&argc, &argv);
    double initialised = measure_now_ns();
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *what = measure_word(argc, argv, "--what");
    long samples = measure_number(argc, argv, "--samples", 1000);
    int init = what != NULL && strcmp(what, "init") == 0;
    if (what != NULL && strcmp(what, "operation") == 0) {
        measure(what, operation, samples, rank);
    } else if (what != NULL && strcmp(what, "message") == 0) {
        measure(what, message, samples, rank);
    } else if (what != NULL && strcmp(what, "barrier") == 0) {
        measure(what, barrier, samples, rank);
    } else if (!init) {
        fprintf(stderr, "startup: --what init|operation|message|barrier\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double finalising = measure_now_ns();
    MPI_Finalize();
    if (init && rank == 0) {
        double ns = (measure_now_ns() - finalising) + (initialised - start);
        measure_report("startup", "\"what\":\"init\"", &ns, 1);
    }
    return 0;
}
