/* Collective calls: a dot product, a transpose that goes on while the program computes, and parts of the ranks. */
#include "check.h"
#include <castell.h>

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = castell_comm_rank(CASTELL_WORLD), size = castell_comm_size(CASTELL_WORLD);

    /* Each rank has a part of two vectors; all get the dot product, with the same bits. */
    double product = 0, all = 0;
    for (int i = 0; i < 100; i++) product += (rank * 100 + i) * 2.0;
    CHECK(castell_allreduce(&product, &all, 1, CASTELL_DOUBLE, CASTELL_SUM, CASTELL_WORLD) == GOAL_SUCCESS);
    CHECK(all == 100.0 * size * (100.0 * size - 1));

    /* A row of a matrix becomes a column, while the program does something else. */
    int *row = (int *)malloc((size_t)size * sizeof(int)), *column = (int *)malloc((size_t)size * sizeof(int));
    for (int i = 0; i < size; i++) row[i] = 1000 * rank + i;
    castell_request transpose;
    CHECK(castell_ialltoall(row, 1, CASTELL_INT32, column, CASTELL_WORLD, &transpose) == GOAL_SUCCESS);
    double busy = 0;
    for (int i = 1; i < 100000; i++) busy += 1.0 / i;
    CHECK(busy > 12);
    CHECK(castell_wait(&transpose) == GOAL_SUCCESS);
    for (int i = 0; i < size; i++) CHECK(column[i] == 1000 * i + rank);

    /* Prepared once, started often: the ranks of one parity count together. */
    castell_comm part;
    int step = 0, sum = 0, expected = (size + 1 - rank % 2) / 2;
    CHECK(castell_comm_split(CASTELL_WORLD, rank % 2, 0, &part) == GOAL_SUCCESS);
    castell_request count;
    CHECK(castell_allreduce_init(&step, &sum, 1, CASTELL_INT32, CASTELL_SUM, part, &count) == GOAL_SUCCESS);
    for (step = 1; step <= 10; step++) {
        CHECK(castell_request_start(count) == GOAL_SUCCESS);
        CHECK(castell_wait(&count) == GOAL_SUCCESS);
        CHECK(sum == step * expected);
    }
    CHECK(castell_request_free(&count) == GOAL_SUCCESS);
    CHECK(castell_comm_free(&part) == GOAL_SUCCESS);

    free(row);
    free(column);
    if (rank == 0) printf("%d ranks agree\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
