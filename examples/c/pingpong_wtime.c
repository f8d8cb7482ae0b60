/* Latency, measured inside one schedule (ESPGOAL, 6.3): a time stamp, 100 ping-pongs, a time stamp. Ranks 2k and 2k + 1 play;
 * a last one without a partner plays with itself. One way takes (end - start) / (2 * rounds). */
#include "check.h"

enum { ROUNDS = 100, PING = 0, PONG = 1 };

static int64_t sent[ROUNDS], returned[ROUNDS], echo[ROUNDS];
static double start, end;

/* Adds to `g` the side that begins; returns the last time stamp. */
static void ping(GOAL_Graph g, int partner) {
    GOAL_Vertex last = GOAL_LocalOp(g, NULL, NULL, &start, GOAL_WTIME, GOAL_FLOAT, 64, 1);
    for (int i = 0; i < ROUNDS; i++) {
        GOAL_Vertex send = GOAL_Send(g, &sent[i], sizeof sent[i], partner, PING);
        GOAL_Vertex recv = GOAL_Recv(g, &returned[i], sizeof returned[i], partner, PONG);
        GOAL_Requires(g, last, send);
        GOAL_Requires(g, last, recv);
        last = recv;
    }
    GOAL_Requires(g, last, GOAL_LocalOp(g, NULL, NULL, &end, GOAL_WTIME, GOAL_FLOAT, 64, 1));
}

/* Adds the side that answers each message with the same bytes. */
static void pong(GOAL_Graph g, int partner) {
    GOAL_Vertex last = GOAL_INVALID_VERTEX;
    for (int i = 0; i < ROUNDS; i++) {
        GOAL_Vertex recv = GOAL_Recv(g, &echo[i], sizeof echo[i], partner, PING);
        GOAL_Vertex send = GOAL_Send(g, &echo[i], sizeof echo[i], partner, PONG);
        if (last != GOAL_INVALID_VERTEX) GOAL_Requires(g, last, recv);
        GOAL_Requires(g, recv, send);
        last = recv;
    }
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int partner = (rank ^ 1) < size ? rank ^ 1 : rank;
    for (int i = 0; i < ROUNDS; i++) sent[i] = 1000 * rank + i;
    GOAL_Graph g = GOAL_CreateGraph();
    if (rank % 2 == 0) ping(g, partner);
    if (rank % 2 == 1 || partner == rank) pong(g, partner);
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);

    double before = GOAL_Wtime();
    run_to_end(schedule);
    double after = GOAL_Wtime();
    if (rank % 2 == 0) {
        for (int i = 0; i < ROUNDS; i++) CHECK(returned[i] == sent[i]);
        CHECK(before <= start && start <= end && end <= after);
        printf("ranks %d and %d: %.0f ns one way\n", rank, partner, (end - start) / (2 * ROUNDS) * 1e9);
    } else {
        for (int i = 0; i < ROUNDS; i++) CHECK(echo[i] == 1000 * partner + i);
    }
    GOAL_FreeSchedule(schedule);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
