/* Time a message when many are in flight from rank 0 to rank 1.
 *
 *     messages --window 64 [--bytes 8] [--samples 100]    100 windows: the receiver posts 64 receives, the sender 64
 *                                                         sends, each waits for its own; no acknowledgement between
 *     messages --ahead 10000 [--bytes 8] [--samples 100]  the receives are posted only when all sends have started and
 *                                                         a message behind them has arrived
 *
 * A sample is the time from the first send until the receiver's acknowledgement, divided by the number of messages. */
#include "measure.h"

#include <mpi.h>

enum { WINDOWS = 100, TAG = 0, TAG_ACKNOWLEDGE = 1, TAG_GO = 2 };

struct Pattern {
    int bytes;
    int messages; /* in a window, or ahead of their receives */
    int ahead;    /* 0: windows */
    char *memory; /* bytes * messages */
    MPI_Request *requests;
};

static void send_all(const struct Pattern *p) {
    for (int i = 0; i < p->messages; i++) {
        MPI_Isend(p->memory + (size_t)i * p->bytes, p->bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &p->requests[i]);
    }
    if (p->ahead) {
        MPI_Send(NULL, 0, MPI_BYTE, 1, TAG_GO, MPI_COMM_WORLD);
    }
    MPI_Waitall(p->messages, p->requests, MPI_STATUSES_IGNORE);
}

static void receive_all(const struct Pattern *p) {
    if (p->ahead) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < p->messages; i++) {
        MPI_Irecv(p->memory + (size_t)i * p->bytes, p->bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &p->requests[i]);
    }
    MPI_Waitall(p->messages, p->requests, MPI_STATUSES_IGNORE);
}

/* Nanoseconds a message, as rank 0 sees it. */
static double sample(const struct Pattern *p, int rank) {
    int windows = p->ahead ? 1 : WINDOWS;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (int i = 0; i < windows; i++) {
        if (rank == 0) {
            send_all(p);
        } else {
            receive_all(p);
        }
    }
    if (rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_ACKNOWLEDGE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_ACKNOWLEDGE, MPI_COMM_WORLD);
    }
    return 1e9 * (MPI_Wtime() - start) / ((double)windows * p->messages);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "messages: needs 2 ranks, has %d\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int ahead = (int)measure_number(argc, argv, "--ahead", 0);
    int messages = ahead ? ahead : (int)measure_number(argc, argv, "--window", 64);
    int bytes = (int)measure_number(argc, argv, "--bytes", 8);
    long samples = measure_number(argc, argv, "--samples", 100);
    struct Pattern pattern = {bytes, messages, ahead, NULL, NULL};
    pattern.memory = measure_checked(calloc((size_t)messages, (size_t)bytes));
    pattern.requests = measure_checked(malloc((size_t)messages * sizeof(MPI_Request)));
    double *ns = measure_checked(malloc((size_t)samples * sizeof *ns));

    for (long i = 0; i < 1 + samples / 10; i++) {
        sample(&pattern, rank); /* warm up */
    }
    for (long i = 0; i < samples; i++) {
        ns[i] = sample(&pattern, rank);
    }
    if (rank == 0) {
        char params[64];
        snprintf(params, sizeof params, "\"bytes\":%d,\"%s\":%d", bytes, ahead ? "ahead" : "window", messages);
        measure_report("messages", params, ns, samples);
    }
    free(ns);
    free(pattern.requests);
    free(pattern.memory);
    MPI_Finalize();
    return 0;
}
