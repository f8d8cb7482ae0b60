/* castell inside a program that uses MPI: the group is found by functions that call MPI, whose connection to its launcher nobody
 * else touches. Both libraries are used in turns, and finalized in either order (as the argument says). */
#include <castell.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, GOAL_LastError());                         \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                                  \
        }                                                                                                                  \
    } while (0)

static int allgather(const void *mine, size_t bytes, void *all, void *context) {
    MPI_Comm comm = *(MPI_Comm *)context;
    return MPI_Allgather((void *)mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm);
}

/* The lowest rank of those that share memory with this one. */
static int host(void *context) {
    MPI_Comm comm = *(MPI_Comm *)context, shared;
    int lowest;
    if (MPI_Comm_rank(comm, &lowest) != MPI_SUCCESS) return -1;
    if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared) != MPI_SUCCESS) return -1;
    MPI_Bcast(&lowest, 1, MPI_INT, 0, shared);
    MPI_Comm_free(&shared);
    return lowest;
}

int main(int argc, char **argv) {
    MPI_Comm mine;
    int rank, size, sum, expected;
    CHECK(MPI_Init(&argc, &argv) == MPI_SUCCESS);
    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    MPI_Comm_rank(mine, &rank);
    MPI_Comm_size(mine, &size);
    castell_host_functions functions = {rank, size, allgather, host, &mine};
    CHECK(castell_init_by(&functions) == GOAL_SUCCESS);
    CHECK(GOAL_MyRank() == rank && GOAL_GroupSize() == size);
    for (int round = 0; round < 100; round++) {
        CHECK(castell_allreduce(&rank, &sum, 1, CASTELL_INT32, CASTELL_SUM, CASTELL_WORLD) == GOAL_SUCCESS);
        CHECK(MPI_Allreduce(&rank, &expected, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
        CHECK(sum == expected && sum == size * (size - 1) / 2);
    }
    MPI_Comm_free(&mine);
    if (argc > 1 && strcmp(argv[1], "mpi-first") == 0) {
        MPI_Finalize();
        if (GOAL_Finalize() != GOAL_SUCCESS) return 1;
    } else {
        CHECK(GOAL_Finalize() == GOAL_SUCCESS);
        MPI_Finalize();
    }
    printf("rank %d of %d: both agree\n", rank, size);
    return 0;
}
