// Linear gather, close to the paper's listing (ESPGOAL, 5.5).
#include "check.h"
#include <vector>

static GOAL_Schedule GOAL_linear_gather(void *sbuf, int scount, void *rbuf, int rcount, int root) {
    int myrank = GOAL_MyRank();
    int commsize = GOAL_GroupSize();
    GOAL_Graph g = GOAL_CreateGraph();
    // Everyone sends data (root too because we have to copy from send to receive buffer).
    GOAL_Send(g, sbuf, scount, root);
    if (myrank == root) {
        // Receive from everyone.
        for (int p = 0; p < commsize; p++) GOAL_Recv(g, static_cast<char *>(rbuf) + p * rcount, rcount, p);
    }
    GOAL_Schedule sched = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    return sched;
}

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    constexpr int count = 100, bytes = count * int(sizeof(int));
    for (int root = 0; root < size; root++) {
        std::vector<int> mine(count), all(std::size_t(count) * std::size_t(size));
        for (int i = 0; i < count; i++) mine[i] = rank * count + i;
        GOAL_Schedule gather = GOAL_linear_gather(mine.data(), bytes, all.data(), bytes, root);
        run_to_end(gather);
        for (int i = 0; rank == root && i < count * size; i++) CHECK(all[i] == i);
        GOAL_FreeSchedule(gather);
    }
    if (rank == 0) printf("linear gather of %d: complete at every root\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
