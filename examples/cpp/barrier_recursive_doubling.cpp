// Barrier by recursive doubling, close to the paper's listing (ESPGOAL, 5.4). There only the first message of a rank waits
// for the report of its outsider, so the second one could overtake it; here `recv` starts as that report.
#include "check.h"

static GOAL_Schedule recursive_doubling_barrier() {
    constexpr GOAL_MemType GSP = GOAL_SCRATCHPAD;
    int myrank = GOAL_MyRank();
    int commsize = GOAL_GroupSize();
    int commsizepo2 = 1;
    while (2 * commsizepo2 <= commsize) commsizepo2 *= 2;

    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 1);
    GOAL_Vertex recv = GOAL_INVALID_VERTEX;
    if (myrank < commsizepo2) {
        bool has_outsider = myrank < commsize - commsizepo2;
        if (has_outsider) recv = GOAL_Recv(g, 0, 1, myrank + commsizepo2, 1, GSP);
        for (int mask = 0x1; mask < commsizepo2; mask <<= 1) {
            int remote = myrank ^ mask;
            GOAL_Vertex sendn = GOAL_Send(g, 0, 1, remote, 0, GSP);
            GOAL_Vertex recvn = GOAL_Recv(g, 0, 1, remote, 0, GSP);
            if (recv != GOAL_INVALID_VERTEX) {
                GOAL_Requires(g, recv, sendn);
                GOAL_Requires(g, recv, recvn);
            }
            recv = recvn;
        }
        if (has_outsider) GOAL_Requires(g, recv, GOAL_Send(g, 0, 1, myrank + commsizepo2, 1, GSP));
    } else {
        int remote = myrank - commsizepo2;
        GOAL_Send(g, 0, 1, remote, 1, GSP);
        GOAL_Recv(g, 0, 1, remote, 1, GSP);
    }
    GOAL_Schedule sched = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    GOAL_MakeScheduleReusable(sched);
    return sched;
}

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    GOAL_Schedule barrier = recursive_doubling_barrier();
    check_barrier(barrier);
    GOAL_FreeSchedule(barrier);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
