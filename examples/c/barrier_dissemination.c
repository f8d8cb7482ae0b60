/* Barrier after Bruck (ESPGOAL, 5.4): in round s each rank signals the rank 2^s above it and awaits the one 2^s below. */
#include "check.h"

static GOAL_Schedule dissemination_barrier(void) {
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 1);
    GOAL_Vertex before = GOAL_INVALID_VERTEX; /* the receive of the round before */
    for (int distance = 1; distance < size; distance <<= 1) {
        int from = (rank - distance + size) % size;
        int to = (rank + distance) % size;
        GOAL_Vertex send = GOAL_Send(g, 0, 1, to, 0, GOAL_SCRATCHPAD);
        GOAL_Vertex recv = GOAL_Recv(g, 0, 1, from, 0, GOAL_SCRATCHPAD);
        if (before != GOAL_INVALID_VERTEX) {
            GOAL_Requires(g, before, send);
            GOAL_Requires(g, before, recv);
        }
        before = recv;
    }
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    GOAL_MakeScheduleReusable(schedule);
    return schedule;
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    GOAL_Schedule barrier = dissemination_barrier();
    check_barrier(barrier);
    GOAL_FreeSchedule(barrier);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
