// Synchronised linear gather, close to the paper's listing (ESPGOAL, 5.5).
//
// Corrected: the sync byte has a place of its own, `reqs` an entry a rank, the root's own part its place in the result, and
// prerequisites stand in front of their targets. First segments and rests have different tags, since nothing in the graph
// orders their receives.
#include "check.h"
#include <algorithm>
#include <numeric>
#include <vector>

static GOAL_Schedule GOAL_linear_gather_sync(void *sbuf, int scount, void *rbuf, int rcount, int root, int segsize) {
    enum { SYNC, FIRST, REST };
    int myrank = GOAL_MyRank();
    int commsize = GOAL_GroupSize();
    segsize = std::min(segsize, scount);
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 1);
    if (myrank != root) {
        GOAL_Vertex syncmsg = GOAL_Recv(g, 0, 1, root, SYNC, GOAL_SCRATCHPAD);
        GOAL_Vertex firstseg = GOAL_Send(g, sbuf, segsize, root, FIRST);
        GOAL_Vertex rest = GOAL_Send(g, static_cast<char *>(sbuf) + segsize, scount - segsize, root, REST);
        GOAL_Requires(g, syncmsg, firstseg);
        GOAL_Requires(g, firstseg, rest);
    } else {
        std::vector<GOAL_Vertex> reqs(commsize, GOAL_INVALID_VERTEX);
        char *result = static_cast<char *>(rbuf);
        for (int p = 0; p < commsize; p++) {
            if (p == root) continue;
            reqs[p] = GOAL_Recv(g, result + p * rcount, segsize, p, FIRST);
            GOAL_Vertex syncmessage = GOAL_Send(g, 0, 1, p, SYNC, GOAL_SCRATCHPAD);
            GOAL_Vertex rest = GOAL_Recv(g, result + p * rcount + segsize, rcount - segsize, p, REST);
            GOAL_IRequires(g, reqs[p], syncmessage); // the receive is posted before its message is asked for
            GOAL_Requires(g, syncmessage, rest);
        }
        GOAL_Vertex cplcl = GOAL_LocalOp(g, sbuf, NULL, result + root * rcount, GOAL_COPY, GOAL_UINT, 8, rcount);
        for (GOAL_Vertex req : reqs)
            if (req != GOAL_INVALID_VERTEX) GOAL_Requires(g, req, cplcl);
    }
    GOAL_Schedule sched = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    return sched;
}

static void gather_and_check(int count, int root) {
    int rank = GOAL_MyRank(), size = GOAL_GroupSize(), bytes = count * int(sizeof(int));
    int segsize = bytes * size >= 92160 ? 32768 : 1024; // Open MPI 1.4's rule, for more than 6 KB in total
    std::vector<int> mine(count), all(std::size_t(count) * std::size_t(size));
    std::iota(mine.begin(), mine.end(), rank * count);
    GOAL_Schedule gather = GOAL_linear_gather_sync(mine.data(), bytes, all.data(), bytes, root, segsize);
    run_to_end(gather);
    for (int i = 0; rank == root && i < count * size; i++) CHECK(all[i] == i);
    GOAL_FreeSchedule(gather);
}

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int size = GOAL_GroupSize();
    for (int root = 0; root < size; root++)
        for (int count : {100, 2000, 100000}) gather_and_check(count, root);
    if (GOAL_MyRank() == 0) printf("synchronised linear gather of %d: complete at every root\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
