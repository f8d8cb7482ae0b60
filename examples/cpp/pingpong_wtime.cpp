// Latency, measured inside one schedule (ESPGOAL, 6.3): a time stamp, 100 ping-pongs, a time stamp. Ranks 2k and 2k + 1 play;
// a last one without a partner plays with itself.
#include "check.h"
#include <cstdint>
#include <vector>

namespace {

constexpr int rounds = 100, ping = 0, pong = 1;

struct Player {
    std::vector<std::int64_t> sent = std::vector<std::int64_t>(rounds), returned = sent, echo = sent;
    double start = 0, end = 0;

    // The side that begins: each ping waits for the pong before it, the first one for the time stamp.
    void begin(GOAL_Graph g, int partner) {
        GOAL_Vertex last = GOAL_LocalOp(g, NULL, NULL, &start, GOAL_WTIME, GOAL_FLOAT, 64, 1);
        for (int i = 0; i < rounds; i++) {
            GOAL_Vertex send = GOAL_Send(g, &sent[i], sizeof sent[i], partner, ping);
            GOAL_Vertex recv = GOAL_Recv(g, &returned[i], sizeof returned[i], partner, pong);
            GOAL_Requires(g, last, send);
            GOAL_Requires(g, last, recv);
            last = recv;
        }
        GOAL_Requires(g, last, GOAL_LocalOp(g, NULL, NULL, &end, GOAL_WTIME, GOAL_FLOAT, 64, 1));
    }

    // The side that answers each message with the same bytes.
    void answer(GOAL_Graph g, int partner) {
        GOAL_Vertex last = GOAL_INVALID_VERTEX;
        for (std::int64_t &message : echo) {
            GOAL_Vertex recv = GOAL_Recv(g, &message, sizeof message, partner, ping);
            if (last != GOAL_INVALID_VERTEX) GOAL_Requires(g, last, recv);
            GOAL_Requires(g, recv, GOAL_Send(g, &message, sizeof message, partner, pong));
            last = recv;
        }
    }
};

} // namespace

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int partner = (rank ^ 1) < size ? rank ^ 1 : rank;
    Player player;
    for (int i = 0; i < rounds; i++) player.sent[i] = 1000 * rank + i;
    GOAL_Graph g = GOAL_CreateGraph();
    if (rank % 2 == 0) player.begin(g, partner);
    if (rank % 2 == 1 || partner == rank) player.answer(g, partner);
    GOAL_Schedule sched = GOAL_Compile(g);
    GOAL_FreeGraph(g);

    run_to_end(sched);
    if (rank % 2 == 0) {
        CHECK(player.returned == player.sent);
        CHECK(0 < player.start && player.start <= player.end && player.end <= GOAL_Wtime());
        printf("ranks %d and %d: %.0f ns one way\n", rank, partner, (player.end - player.start) / (2 * rounds) * 1e9);
    } else {
        for (int i = 0; i < rounds; i++) CHECK(player.echo[i] == 1000 * partner + i);
    }
    GOAL_FreeSchedule(sched);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
