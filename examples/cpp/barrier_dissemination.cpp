// Barrier after Bruck, close to the paper's listing (ESPGOAL, 5.4).
#include "check.h"

static GOAL_Schedule dissemination_barrier() {
    int myrank = GOAL_MyRank();
    int commsize = GOAL_GroupSize();
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 1);
    GOAL_Vertex recvo = GOAL_INVALID_VERTEX;
    for (int distance = 1; distance < commsize; distance <<= 1) {
        int from = (myrank - distance + commsize) % commsize;
        int to = (myrank + distance) % commsize;
        GOAL_Vertex sendn = GOAL_Send(g, 0, 1, to, 0, GOAL_SCRATCHPAD);
        GOAL_Vertex recvn = GOAL_Recv(g, 0, 1, from, 0, GOAL_SCRATCHPAD);
        if (recvo != GOAL_INVALID_VERTEX) GOAL_Requires(g, recvo, sendn);
        if (recvo != GOAL_INVALID_VERTEX) GOAL_Requires(g, recvo, recvn);
        recvo = recvn;
    }
    GOAL_Schedule sched = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    GOAL_MakeScheduleReusable(sched);
    return sched;
}

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    GOAL_Schedule barrier = dissemination_barrier();
    check_barrier(barrier);
    GOAL_FreeSchedule(barrier);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
