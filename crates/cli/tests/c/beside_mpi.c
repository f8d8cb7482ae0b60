/* A program with an MPI beside castell. Its argument says what comes when: G and g are castell's beginning and end, M and m
   MPI's. */
#include <goal.h>
#include <mpi.h>
#include <stdio.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            return 1; \
        } \
    } while (0)

static int hear_from_the_one_before(int rank, int size) {
    int got = -1;
    GOAL_Graph graph = GOAL_CreateGraph();
    GOAL_Send(graph, &rank, sizeof rank, (rank + 1) % size);
    GOAL_Recv(graph, &got, sizeof got, (rank + size - 1) % size);
    GOAL_Schedule ring = GOAL_Compile(graph);
    GOAL_Handle run = GOAL_Run(ring);
    CHECK(GOAL_Wait(run) == GOAL_SUCCESS);
    CHECK(got == (rank + size - 1) % size);
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    for (const char *step = argv[1]; *step; step++) {
        if (*step == 'G') {
            CHECK(GOAL_Init() == GOAL_SUCCESS);
            CHECK(hear_from_the_one_before(GOAL_MyRank(), GOAL_GroupSize()) == 0);
            printf("castell: %d of %d\n", GOAL_MyRank(), GOAL_GroupSize());
        } else if (*step == 'g') {
            GOAL_Finalize();
        } else if (*step == 'M') {
            int rank, size, sum;
            CHECK(MPI_Init(NULL, NULL) == MPI_SUCCESS);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &size);
            CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
            CHECK(sum == size * (size - 1) / 2);
            printf("MPI: %d of %d\n", rank, size);
        } else {
            CHECK(MPI_Finalize() == MPI_SUCCESS);
        }
    }
    return 0;
}
