/* Communicators of changing ranks, with blocking, started and persistent calls of changing sizes, until all of them have been measured:
 * members that decided differently would wait for each other for ever. Results are checked.
 *
 *     choices SEED STEPS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { DOUBLES = 3000 };

static unsigned long state;

/* The same on all ranks. */
static int below(int end)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (int)(state >> 33) % end;
}

static void check(int is_fine, const char *what, int step)
{
    if (!is_fine) {
        fprintf(stderr, "choices: step %d: %s is wrong\n", step, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The sum of the members' numbers by a call of some kind. */
static void sum(MPI_Comm comm, int kind, int count, int step)
{
    static double in[DOUBLES], out[DOUBLES];
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int at = 0; at < count; at++)
        in[at] = rank + at;
    MPI_Request request = MPI_REQUEST_NULL;
    if (kind == 0) {
        MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm);
    } else {
        MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    check(out[count - 1] == size * (count - 1) + size * (size - 1) / 2, "a sum", step);
}

/* What each member has, of different lengths. */
static void gather(MPI_Comm comm, int step)
{
    int rank, size, counts[64], starts[64], mine[64], all[64 * 64];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int at = 0; at < size; at++) {
        counts[at] = 1 + (at + step) % 40;
        starts[at] = 64 * at;
    }
    for (int at = 0; at < counts[rank]; at++)
        mine[at] = step + rank;
    MPI_Allgatherv(mine, counts[rank], MPI_INT, all, counts, starts, MPI_INT, comm);
    for (int at = 0; at < size; at++)
        check(all[starts[at] + counts[at] - 1] == step + at, "a gathered number", step);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, steps = argc > 2 ? atoi(argv[2]) : 20;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    state = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    if (rank == 0)
        printf("seed %s\n", argc > 1 ? argv[1] : "1");
    for (int step = 0; step < steps; step++) {
        /* Every rank draws for all: which of them are in, by their turn. */
        int turn = below(size), members = 1 + below(size), place = (rank + turn) % size;
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, place < members ? 0 : 1 + place % 2, place, &comm);
        int kind = below(2), count = 1 + below(DOUBLES), calls = 20 + below(100);
        for (int call = 0; call < calls; call++)
            sum(comm, kind, count, step);
        for (int call = 0; call < calls / 2; call++)
            gather(comm, step);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
        sum(MPI_COMM_WORLD, 0, 1, step);
    }
    if (rank == 0)
        printf("fine\n");
    MPI_Finalize();
    return 0;
}
