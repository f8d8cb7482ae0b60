/* Linear gather (ESPGOAL, 5.5): everybody sends to the root, the root to itself, too. */
#include "check.h"

enum { COUNT = 100 }; /* elements a rank */

static GOAL_Schedule linear_gather(const void *sbuf, int scount, void *rbuf, int rcount, int root) {
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_Send(g, sbuf, scount, root);
    if (GOAL_MyRank() == root)
        for (int p = 0; p < GOAL_GroupSize(); p++) GOAL_Recv(g, (char *)rbuf + (size_t)p * (size_t)rcount, rcount, p);
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    return schedule;
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int mine[COUNT];
    for (int i = 0; i < COUNT; i++) mine[i] = 1000 * rank + i;
    for (int root = 0; root < size; root++) {
        int *all = calloc((size_t)size * COUNT, sizeof *all);
        GOAL_Schedule gather = linear_gather(mine, sizeof mine, all, sizeof mine, root);
        run_to_end(gather);
        for (int i = 0; rank == root && i < size * COUNT; i++) CHECK(all[i] == 1000 * (i / COUNT) + i % COUNT);
        GOAL_FreeSchedule(gather);
        free(all);
    }
    if (rank == 0) printf("linear gather of %d: complete at every root\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
