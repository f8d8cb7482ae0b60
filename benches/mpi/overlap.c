/* A non-blocking allreduce beside a matrix multiplication (ESPGOAL, section 6.6): N x N floats in blocks of 32 x 32, with or
 * without MPI_Test between the blocks' multiplications.
 *
 *     overlap --matrix 192 [--bytes 1048576] [--samples 20]
 *
 * Lines for the phases: the multiplication alone, the collective alone, and of both together the start, the multiplication,
 * the wait, the makespan, and by how much the last rank came late; each without and with polling, with all ranks in time and
 * with one that multiplies half of its blocks before it starts. A sample is that of the rank that needed longest. */
#include "measure.h"

#include <mpi.h>

enum { BLOCK = 32, PHASES = 5 };

static int blocks; /* in a row */
static float *a, *b, *c;
static MPI_Request request = MPI_REQUEST_NULL;

static void multiply_block(const float *restrict x, const float *restrict y, float *restrict z) {
    for (int i = 0; i < BLOCK; i++) {
        for (int k = 0; k < BLOCK; k++) {
            float factor = x[i * BLOCK + k];
            for (int j = 0; j < BLOCK; j++) {
                z[i * BLOCK + j] += factor * y[k * BLOCK + j];
            }
        }
    }
}

/* These rows of blocks of the product. */
static void multiply(int from, int to, int polling) {
    const size_t size = BLOCK * BLOCK;
    for (int i = from; i < to; i++) {
        for (int j = 0; j < blocks; j++) {
            for (int k = 0; k < blocks; k++) {
                multiply_block(a + (size_t)(i * blocks + k) * size, b + (size_t)(k * blocks + j) * size,
                               c + (size_t)(i * blocks + j) * size);
                if (polling) {
                    int done;
                    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                }
            }
        }
    }
}

static double slowest(double ns) {
    double longest;
    MPI_Allreduce(&ns, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

static void report(int rank, int ranks, long bytes, int polling, int late, const char *phase, double *ns, long samples) {
    char params[192];
    snprintf(params, sizeof params,
             "\"ranks\":%d,\"bytes\":%ld,\"matrix\":%d,\"polling\":%s,\"late\":%s,\"phase\":\"%s\"", ranks, bytes, blocks * BLOCK,
             polling ? "true" : "false", late ? "true" : "false", phase);
    if (rank == 0) {
        measure_report("overlap", params, ns, samples);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long bytes = measure_number(argc, argv, "--bytes", 1 << 20), samples = measure_number(argc, argv, "--samples", 20);
    blocks = (int)(measure_number(argc, argv, "--matrix", 192) + BLOCK - 1) / BLOCK;
    size_t elements = (size_t)blocks * blocks * BLOCK * BLOCK;
    int count = (int)(bytes / (long)sizeof(double));
    double *in = measure_checked(malloc((size_t)bytes)), *out = measure_checked(malloc((size_t)bytes));
    /* Aligned: whether rows cross cache lines changes the time by a twentieth. */
    a = measure_checked(aligned_alloc(64, elements * sizeof *a));
    b = measure_checked(aligned_alloc(64, elements * sizeof *b));
    c = measure_checked(aligned_alloc(64, elements * sizeof *c));
    for (size_t i = 0; i < elements; i++) {
        a[i] = b[i] = 1e-3f;
        c[i] = 0;
    }
    for (int i = 0; i < count; i++) {
        in[i] = out[i] = 1.0;
    }
    static const char *const names[PHASES] = {"start", "multiply", "wait", "makespan", "lateness"};
    double *ns[PHASES], *alone = measure_checked(malloc((size_t)samples * sizeof *alone)),
                        *collective = measure_checked(malloc((size_t)samples * sizeof *collective));
    for (int phase = 0; phase < PHASES; phase++) {
        ns[phase] = measure_checked(malloc((size_t)samples * sizeof *ns[phase]));
    }
    for (int setting = 0; setting < 4; setting++) {
        int polling = setting % 2, late = setting / 2;
        /* Who is late multiplies these rows before it starts. */
        int rows_before = late && rank == ranks - 1 ? blocks / 2 : 0;
        for (long i = -2; i < samples; i++) { /* the first ones warm up */
            long at = i < 0 ? 0 : i;
            MPI_Barrier(MPI_COMM_WORLD);
            double start = measure_now_ns();
            multiply(0, blocks, 0);
            alone[at] = slowest(measure_now_ns() - start);
            MPI_Barrier(MPI_COMM_WORLD);
            start = measure_now_ns();
            MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            collective[at] = slowest(measure_now_ns() - start);
            MPI_Barrier(MPI_COMM_WORLD);
            start = measure_now_ns();
            multiply(0, rows_before, 0);
            double came = measure_now_ns();
            MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
            double started = measure_now_ns();
            multiply(rows_before, blocks, polling);
            double multiplied = measure_now_ns();
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            double waited = measure_now_ns();
            ns[0][at] = slowest(started - came);
            ns[1][at] = slowest(came - start + multiplied - started);
            ns[2][at] = slowest(waited - multiplied);
            ns[3][at] = slowest(waited - start);
            ns[4][at] = slowest(rows_before > 0 ? came - start : 0);
        }
        report(rank, ranks, bytes, polling, late, "multiply alone", alone, samples);
        report(rank, ranks, bytes, polling, late, "collective alone", collective, samples);
        for (int phase = 0; phase < PHASES; phase++) {
            report(rank, ranks, bytes, polling, late, names[phase], ns[phase], samples);
        }
    }
    MPI_Finalize();
    return 0;
}
