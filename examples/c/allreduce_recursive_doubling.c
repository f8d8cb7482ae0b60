/* Sum over all ranks, known to all of them, by recursive doubling with local operations. What the partner has arrives in the
 * scratchpad and is added to the vector in place; ranks beyond the largest power of two hand their part to a partner before
 * and get the result from it afterwards. */
#include "check.h"

enum { COUNT = 1000, BYTES = COUNT * (int)sizeof(double), EXCHANGE = 0, OUTSIDE = 1 };

/* Receives a vector from `partner` into scratchpad offset `place` and adds it to `sum`; returns the addition. */
static GOAL_Vertex receive_and_add(GOAL_Graph g, double *sum, int partner, int tag, int place) {
    GOAL_Vertex recv = GOAL_Recv(g, place, BYTES, partner, tag, GOAL_SCRATCHPAD);
    GOAL_Vertex add = GOAL_LocalOp(g, sum, place, sum, GOAL_ADD, GOAL_FLOAT, 64, COUNT, GOAL_USERSPACE, GOAL_SCRATCHPAD);
    GOAL_Requires(g, recv, add);
    return add;
}

static GOAL_Schedule allreduce(double *sum) {
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int inner = 1, place = 0; /* each receive has its own place in the scratchpad: all of them may start at once */
    while (2 * inner <= size) inner *= 2;
    GOAL_Graph g = GOAL_CreateGraph();
    if (rank < inner) {
        GOAL_Vertex last = GOAL_INVALID_VERTEX;
        if (rank + inner < size) {
            last = receive_and_add(g, sum, rank + inner, OUTSIDE, place);
            place += BYTES;
        }
        for (int mask = 1; mask < inner; mask <<= 1, place += BYTES) {
            GOAL_Vertex send = GOAL_Send(g, sum, BYTES, rank ^ mask, EXCHANGE);
            GOAL_Vertex add = receive_and_add(g, sum, rank ^ mask, EXCHANGE, place);
            if (last != GOAL_INVALID_VERTEX) {
                GOAL_Requires(g, last, send);
                GOAL_Requires(g, last, add);
            }
            GOAL_Requires(g, send, add); /* the addition changes what is being sent */
            last = add;
        }
        if (rank + inner < size) GOAL_Requires(g, last, GOAL_Send(g, sum, BYTES, rank + inner, OUTSIDE));
    } else {
        GOAL_Vertex hand_over = GOAL_Send(g, sum, BYTES, rank - inner, OUTSIDE);
        GOAL_Requires(g, hand_over, GOAL_Recv(g, sum, BYTES, rank - inner, OUTSIDE));
    }
    GOAL_AllocateScratchpad(g, (size_t)place);
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    GOAL_MakeScheduleReusable(schedule);
    return schedule;
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    static double sum[COUNT];
    GOAL_Schedule schedule = allreduce(sum);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < COUNT; i++) sum[i] = (rank + 1) * (i + round);
        run_to_end(schedule);
        for (int i = 0; i < COUNT; i++) CHECK(sum[i] == (double)size * (size + 1) / 2 * (i + round));
    }
    GOAL_FreeSchedule(schedule);
    if (rank == 0) printf("allreduce of %d: everybody has the sum\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
