/* Synchronised linear gather (ESPGOAL, 5.5): the root tells each rank when to start, so it is not flooded. A rank sends a
 * first segment, then the rest; the root awaits the first segments before it copies its own part.
 *
 * Against the printed listing: the sync byte lands in the scratchpad (only the root has a receive buffer), prerequisites
 * and targets stand in their right order, `reqs` has room for every rank, the root's part goes to the root's place, and the
 * receive of a first segment has really started before the rank is told to send (GOAL_IRequires). */
#include "check.h"

static int segment_bytes(int total) {
    return total >= 92160 ? 32768 : 1024; /* Open MPI 1.4's rule, for more than 6 KB in total */
}

static GOAL_Schedule linear_gather_sync(const void *sbuf, int scount, void *rbuf, int rcount, int root, int segsize) {
    enum { SYNC, FIRST, REST }; /* tags */
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    if (segsize > scount) segsize = scount;
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 1);
    if (rank != root) {
        GOAL_Vertex sync = GOAL_Recv(g, 0, 1, root, SYNC, GOAL_SCRATCHPAD);
        GOAL_Vertex first = GOAL_Send(g, sbuf, segsize, root, FIRST);
        GOAL_Vertex rest = GOAL_Send(g, (const char *)sbuf + segsize, scount - segsize, root, REST);
        GOAL_Requires(g, sync, first);
        GOAL_Requires(g, first, rest);
    } else {
        char *place = rbuf;
        char *own = place + (size_t)root * (size_t)rcount;
        GOAL_Vertex copy = GOAL_LocalOp(g, sbuf, NULL, own, GOAL_COPY, GOAL_UINT, 8, rcount);
        for (int p = 0; p < size; p++, place += rcount) {
            if (p == root) continue;
            GOAL_Vertex first = GOAL_Recv(g, place, segsize, p, FIRST);
            GOAL_Vertex sync = GOAL_Send(g, 0, 1, p, SYNC, GOAL_SCRATCHPAD);
            GOAL_Vertex rest = GOAL_Recv(g, place + segsize, rcount - segsize, p, REST);
            GOAL_IRequires(g, first, sync);
            GOAL_Requires(g, sync, rest);
            GOAL_Requires(g, first, copy);
        }
    }
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    return schedule;
}

static void gather_and_check(int count, int root) {
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int bytes = count * (int)sizeof(int);
    int *mine = malloc((size_t)bytes), *all = rank == root ? calloc((size_t)size, (size_t)bytes) : NULL;
    for (int i = 0; i < count; i++) mine[i] = rank * count + i;
    GOAL_Schedule gather = linear_gather_sync(mine, bytes, all, bytes, root, segment_bytes(bytes * size));
    run_to_end(gather);
    for (int i = 0; rank == root && i < size * count; i++) CHECK(all[i] == i);
    GOAL_FreeSchedule(gather);
    free(mine);
    free(all);
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int size = GOAL_GroupSize();
    for (int root = 0; root < size; root++) {
        gather_and_check(100, root);    /* the first segment is all there is */
        gather_and_check(2000, root);   /* segments of 1 KiB */
        gather_and_check(100000, root); /* segments of 32 KiB */
    }
    if (GOAL_MyRank() == 0) printf("synchronised linear gather of %d: complete at every root\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
