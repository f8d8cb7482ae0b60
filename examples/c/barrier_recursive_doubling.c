/* Barrier by recursive doubling (ESPGOAL, 5.4). The 2^k lowest ranks exchange a byte with rank ^ 1, rank ^ 2, rank ^ 4, ...;
 * each of the others reports to a partner among them before and hears from it afterwards, under a tag of its own.
 *
 * The printed listing lets only the partner's first message wait for that report: its second one could overtake it and
 * release a rank too early. Here the whole exchange starts after the report. */
#include "check.h"

static GOAL_Schedule recursive_doubling_barrier(void) {
    enum { EXCHANGE, OUTSIDE }; /* tags */
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int inner = 1; /* the largest power of two that is not above the size */
    while (2 * inner <= size) inner *= 2;

    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 1);
    GOAL_Vertex last = GOAL_INVALID_VERTEX; /* the receive that the next step waits for */
    if (rank < inner) {
        int outsider = rank + inner;
        if (outsider < size) last = GOAL_Recv(g, 0, 1, outsider, OUTSIDE, GOAL_SCRATCHPAD);
        for (int mask = 1; mask < inner; mask <<= 1) {
            GOAL_Vertex send = GOAL_Send(g, 0, 1, rank ^ mask, EXCHANGE, GOAL_SCRATCHPAD);
            GOAL_Vertex recv = GOAL_Recv(g, 0, 1, rank ^ mask, EXCHANGE, GOAL_SCRATCHPAD);
            if (last != GOAL_INVALID_VERTEX) {
                GOAL_Requires(g, last, send);
                GOAL_Requires(g, last, recv);
            }
            last = recv;
        }
        if (outsider < size) GOAL_Requires(g, last, GOAL_Send(g, 0, 1, outsider, OUTSIDE, GOAL_SCRATCHPAD));
    } else {
        GOAL_Send(g, 0, 1, rank - inner, OUTSIDE, GOAL_SCRATCHPAD);
        GOAL_Recv(g, 0, 1, rank - inner, OUTSIDE, GOAL_SCRATCHPAD);
    }
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    GOAL_MakeScheduleReusable(schedule);
    return schedule;
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    GOAL_Schedule barrier = recursive_doubling_barrier();
    check_barrier(barrier);
    GOAL_FreeSchedule(barrier);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
