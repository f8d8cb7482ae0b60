/* Time of collective operations.
 *
 *     collectives --ops allreduce,barrier --bytes 8,4096 [--samples 20] [--budget-us 1000] [--limit-ms 1000] [--in-a-row 1] [--started 1]
 *
 * A line for each operation and size. A sample is the mean over a batch of calls, one behind the other, that begins behind a
 * barrier, of the rank for which the batch took longest; a batch has as many calls as fit the budget. Where data goes one way
 * only, to a root or away from it, calls would go on one beside the other: there a barrier stands before each call, which is
 * not counted. (Not with --in-a-row 1: then it is their rate that is measured.) So it does before calls of 16 KiB or more; and
 * before that barrier each rank writes to every cache line that it
 * sends, since programs send what they have just computed, and nobody has it in the cache but they. Reductions are sums of doubles. --bytes is the size of the vector, or of the block of one rank. A case that takes longer than the limit ends with the samples that
 * it has; of a call that takes longer by itself, the first one is the sample. With --started 1 the calls are the non-blocking
 * ones, each of which is waited for at once. */
#include "measure.h"

#include <mpi.h>

enum { CALLS_MAX = 500, APART_BYTES = 16384, LINE_BYTES = 64 };

struct Buffers {
    char *in, *out;
    int bytes, count;
    MPI_Datatype type;
    size_t sent; /* bytes that this rank sends */
};

typedef void (*Operation)(const struct Buffers *);

static void barrier(const struct Buffers *b) { (void)b; MPI_Barrier(MPI_COMM_WORLD); }
static void bcast(const struct Buffers *b) { MPI_Bcast(b->out, b->bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void gather(const struct Buffers *b) {
    MPI_Gather(b->in, b->bytes, MPI_BYTE, b->out, b->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}
static void scatter(const struct Buffers *b) {
    MPI_Scatter(b->in, b->bytes, MPI_BYTE, b->out, b->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}
static void allgather(const struct Buffers *b) {
    MPI_Allgather(b->in, b->bytes, MPI_BYTE, b->out, b->bytes, MPI_BYTE, MPI_COMM_WORLD);
}
static void alltoall(const struct Buffers *b) {
    MPI_Alltoall(b->in, b->bytes, MPI_BYTE, b->out, b->bytes, MPI_BYTE, MPI_COMM_WORLD);
}
static void reduce(const struct Buffers *b) {
    MPI_Reduce(b->in, b->out, b->count, b->type, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void allreduce(const struct Buffers *b) {
    MPI_Allreduce(b->in, b->out, b->count, b->type, MPI_SUM, MPI_COMM_WORLD);
}
static void reduce_scatter(const struct Buffers *b) {
    MPI_Reduce_scatter_block(b->in, b->out, b->count, b->type, MPI_SUM, MPI_COMM_WORLD);
}
static void scan(const struct Buffers *b) { MPI_Scan(b->in, b->out, b->count, b->type, MPI_SUM, MPI_COMM_WORLD); }
static void exscan(const struct Buffers *b) { MPI_Exscan(b->in, b->out, b->count, b->type, MPI_SUM, MPI_COMM_WORLD); }

typedef int (*Start)(const struct Buffers *, MPI_Request *);

static int ibarrier(const struct Buffers *b, MPI_Request *r) { (void)b; return MPI_Ibarrier(MPI_COMM_WORLD, r); }
static int ibcast(const struct Buffers *b, MPI_Request *r) {
    return MPI_Ibcast(b->out, b->bytes, MPI_BYTE, 0, MPI_COMM_WORLD, r);
}
static int igather(const struct Buffers *b, MPI_Request *r) {
    return MPI_Igather(b->in, b->bytes, MPI_BYTE, b->out, b->bytes, MPI_BYTE, 0, MPI_COMM_WORLD, r);
}
static int iscatter(const struct Buffers *b, MPI_Request *r) {
    return MPI_Iscatter(b->in, b->bytes, MPI_BYTE, b->out, b->bytes, MPI_BYTE, 0, MPI_COMM_WORLD, r);
}
static int iallgather(const struct Buffers *b, MPI_Request *r) {
    return MPI_Iallgather(b->in, b->bytes, MPI_BYTE, b->out, b->bytes, MPI_BYTE, MPI_COMM_WORLD, r);
}
static int ialltoall(const struct Buffers *b, MPI_Request *r) {
    return MPI_Ialltoall(b->in, b->bytes, MPI_BYTE, b->out, b->bytes, MPI_BYTE, MPI_COMM_WORLD, r);
}
static int ireduce(const struct Buffers *b, MPI_Request *r) {
    return MPI_Ireduce(b->in, b->out, b->count, b->type, MPI_SUM, 0, MPI_COMM_WORLD, r);
}
static int iallreduce(const struct Buffers *b, MPI_Request *r) {
    return MPI_Iallreduce(b->in, b->out, b->count, b->type, MPI_SUM, MPI_COMM_WORLD, r);
}
static int ireduce_scatter(const struct Buffers *b, MPI_Request *r) {
    return MPI_Ireduce_scatter_block(b->in, b->out, b->count, b->type, MPI_SUM, MPI_COMM_WORLD, r);
}
static int iscan(const struct Buffers *b, MPI_Request *r) {
    return MPI_Iscan(b->in, b->out, b->count, b->type, MPI_SUM, MPI_COMM_WORLD, r);
}
static int iexscan(const struct Buffers *b, MPI_Request *r) {
    return MPI_Iexscan(b->in, b->out, b->count, b->type, MPI_SUM, MPI_COMM_WORLD, r);
}

static const struct {
    const char *name;
    Operation call;
    Start start;
    int one_way;
} OPERATIONS[] = {{"barrier", barrier, ibarrier, 0},
                  {"bcast", bcast, ibcast, 1},
                  {"gather", gather, igather, 1},
                  {"scatter", scatter, iscatter, 1},
                  {"allgather", allgather, iallgather, 0},
                  {"reduce", reduce, ireduce, 1},
                  {"allreduce", allreduce, iallreduce, 0},
                  {"alltoall", alltoall, ialltoall, 0},
                  {"reduce_scatter", reduce_scatter, ireduce_scatter, 0},
                  {"scan", scan, iscan, 0},
                  {"exscan", exscan, iexscan, 0}};

/* What is measured instead of the blocking calls, if anything. */
static Start start_of_call;

static void start_and_wait(const struct Buffers *b) {
    MPI_Request request;
    start_of_call(b, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Writes what is sent, whatever the operation: as it is. */
static void write_lines(char *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i += LINE_BYTES) {
        volatile char *line = memory + i;
        *line = *line;
    }
}

/* Nanoseconds a call, of the rank that needed longest. */
static double batch(Operation call, int apart, const struct Buffers *b, int calls) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    double ns = 0, longest, start = measure_now_ns();
    for (int i = 0; i < calls; i++) {
        if (apart) {
            if (call != bcast) {
                write_lines(b->in, b->sent);
            } else if (rank == 0) {
                write_lines(b->out, b->sent);
            }
            MPI_Barrier(MPI_COMM_WORLD);
            start = measure_now_ns();
        }
        if (start_of_call != NULL) {
            start_and_wait(b);
        } else {
            call(b);
        }
        if (apart) {
            ns += measure_now_ns() - start;
            if (b->bytes >= APART_BYTES) {
                /* Who shares a processor would write for its next call while others are in this one. */
                MPI_Barrier(MPI_COMM_WORLD);
            }
        }
    }
    ns = (apart ? ns : measure_now_ns() - start) / calls;
    MPI_Allreduce(&ns, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
}

/* Whether a call has a block for each rank in what this rank sends. */
static int sends_blocks(Operation call, int rank) {
    return call == alltoall || call == reduce_scatter || (call == scatter && rank == 0);
}

static void measure(const char *name, Operation call, int apart, long bytes, long samples, double budget_ns,
                    double limit_ns) {
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t all = (size_t)bytes * (size_t)ranks;
    int doubles = bytes % (long)sizeof(double) == 0;
    struct Buffers b = {measure_checked(malloc(all)), measure_checked(malloc(all)), (int)bytes,
                        (int)(doubles ? bytes / (long)sizeof(double) : bytes), doubles ? MPI_DOUBLE : MPI_BYTE,
                        sends_blocks(call, rank) ? all : (size_t)bytes};
    if (!doubles) {
        b.type = MPI_UNSIGNED_CHAR;
    }
    memset(b.in, 0, all);
    memset(b.out, 0, all);
    for (size_t i = 0; doubles && i < all / sizeof(double); i++) {
        ((double *)b.in)[i] = 1.0;
    }
    double *ns = measure_checked(malloc((size_t)samples * sizeof *ns));
    double once = batch(call, apart, &b, 1);
    if (once <= limit_ns) {
        once = batch(call, apart, &b, 1); /* the first one found its memory */
    }
    int calls = once * CALLS_MAX < budget_ns ? CALLS_MAX : (int)(budget_ns / once);
    calls = calls < 1 ? 1 : calls;
    long taken = 0;
    if (once > limit_ns) {
        ns[taken++] = once; /* so slow that memory makes no difference */
        samples = 1;
    } else {
        /* By so many calls castell's library has found out what is faster for them (docs/decisions/0026): it does so once. */
        int settled = bytes <= 4 << 10 ? 64 : bytes <= 256 << 10 ? 16 : 4;
        settled = settled * once > limit_ns ? (int)(limit_ns / once) : settled;
        batch(call, apart, &b, calls > settled ? calls : settled);
    }
    for (double spent = 0; taken < samples && spent < limit_ns; taken++) {
        ns[taken] = batch(call, apart, &b, calls); /* the same number on all ranks: all end at the same sample */
        spent += ns[taken] * calls;
    }
    if (rank == 0) {
        char params[96];
        snprintf(params, sizeof params, "\"op\":\"%s\",\"bytes\":%ld,\"ranks\":%d", name, bytes, ranks);
        measure_report("collectives", params, ns, taken);
    }
    free(ns);
    free(b.in);
    free(b.out);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const char *ops = measure_word(argc, argv, "--ops"), *sizes = measure_word(argc, argv, "--bytes");
    long samples = measure_number(argc, argv, "--samples", 20);
    double budget_ns = 1e3 * (double)measure_number(argc, argv, "--budget-us", 1000);
    double limit_ns = 1e6 * (double)measure_number(argc, argv, "--limit-ms", 1000);
    int in_a_row = measure_number(argc, argv, "--in-a-row", 0) != 0;
    int started = measure_number(argc, argv, "--started", 0) != 0;
    char *list = strdup(ops != NULL ? ops : "allreduce"), *rest = list;
    for (char *op; (op = strtok_r(rest, ",", &rest)) != NULL;) {
        Operation call = NULL;
        int one_way = 0;
        for (size_t i = 0; i < sizeof OPERATIONS / sizeof *OPERATIONS; i++) {
            if (strcmp(OPERATIONS[i].name, op) == 0) {
                call = OPERATIONS[i].call;
                start_of_call = started ? OPERATIONS[i].start : NULL;
                one_way = OPERATIONS[i].one_way;
            }
        }
        if (call == NULL) {
            fprintf(stderr, "collectives: --ops: no operation %s\n", op);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        char *numbers = strdup(sizes != NULL ? sizes : "8"), *left = numbers;
        for (char *number; (number = strtok_r(left, ",", &left)) != NULL;) {
            long bytes = call == barrier ? 0 : atol(number);
            int apart = !in_a_row && (one_way || bytes >= APART_BYTES);
            measure(op, call, apart, bytes, samples, budget_ns, limit_ns);
            if (call == barrier) {
                break; /* it has no size */
            }
        }
        free(numbers);
    }
    free(list);
    MPI_Finalize();
    return 0;
}
