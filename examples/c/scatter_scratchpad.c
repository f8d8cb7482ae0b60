/* Scatter down a tree (ESPGOAL, 2.2.5): who passes data on keeps it in the scratchpad, so the function that builds the
 * schedule owns no buffer that must outlive it, and the same schedule may run twice at a time.
 *
 * The paper shows the middle of a tree of four: 64 bytes come in, 32 go on to each of two ranks. Here the tree is the
 * binomial one of any size: each rank receives the blocks of its whole subtree and passes the parts on. */
#include "check.h"
#include <string.h>

enum { BLOCK = 32 }; /* bytes a rank */

static GOAL_Schedule scatter(const char *sbuf, char *rbuf) {
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int below = 1; /* the subtree is rank .. rank + below - 1, cut off at the size */
    while (below < size && (rank & below) == 0) below *= 2;
    int ranks = below < size - rank ? below : size - rank;

    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, (size_t)ranks * BLOCK);
    GOAL_Vertex whole = rank == 0 ? GOAL_LocalOp(g, sbuf, NULL, 0, GOAL_COPY, GOAL_UINT, 8, ranks * BLOCK, GOAL_USERSPACE,
                                                 GOAL_USERSPACE, GOAL_SCRATCHPAD)
                                  : GOAL_Recv(g, 0, ranks * BLOCK, rank & (rank - 1), 0, GOAL_SCRATCHPAD);
    GOAL_Vertex own = GOAL_LocalOp(g, 0, NULL, rbuf, GOAL_COPY, GOAL_UINT, 8, BLOCK, GOAL_SCRATCHPAD);
    GOAL_Requires(g, whole, own);
    for (int step = below / 2; step > 0; step /= 2) {
        if (rank + step >= size) continue;
        int passed_on = step < size - rank - step ? step : size - rank - step;
        GOAL_Requires(g, whole, GOAL_Send(g, step * BLOCK, passed_on * BLOCK, rank + step, 0, GOAL_SCRATCHPAD));
    }
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    GOAL_MakeScheduleReusable(schedule);
    return schedule;
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    char *source = malloc((size_t)size * BLOCK), mine[BLOCK];
    GOAL_Schedule schedule = scatter(source, mine);
    for (int round = 0; round < 3; round++) {
        for (int p = 0; p < size; p++) memset(source + p * BLOCK, rank == 0 ? p + round : -1, BLOCK);
        run_to_end(schedule);
        for (int i = 0; i < BLOCK; i++) CHECK(mine[i] == (char)(rank + round));
    }
    GOAL_FreeSchedule(schedule);
    free(source);
    if (rank == 0) printf("scatter to %d: everybody has its block\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
