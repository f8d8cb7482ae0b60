// Scatter through the scratchpad (ESPGOAL, 2.2.5), with the paper's numbers: rank 0 gets 64 bytes from rank 1 and passes 32
// on to each of ranks 2 and 3. As printed the memory type stands where the tag belongs; the header takes it there in C++.
// In a group of fewer than four there is nobody to pass on to, and the missing part is left out.
#include "check.h"
#include <algorithm>
#include <array>

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    std::array<char, 64> buf{};
    if (rank == 1) {
        std::fill_n(buf.begin(), 32, 'a');
        std::fill_n(buf.begin() + 32, 32, 'b');
    }

    GOAL_Graph g = GOAL_CreateGraph();
    if (rank == 0 && size > 1) {
        GOAL_AllocateScratchpad(g, 64);
        GOAL_Vertex recv = GOAL_Recv(g, 0, 64, 1, GOAL_SCRATCHPAD);
        if (size > 2) GOAL_Requires(g, recv, GOAL_Send(g, 0, 32, 2, GOAL_SCRATCHPAD));
        if (size > 3) GOAL_Requires(g, recv, GOAL_Send(g, 32, 32, 3, GOAL_SCRATCHPAD));
    }
    if (rank == 1) GOAL_Send(g, buf.data(), 64, 0);
    if (rank == 2 || rank == 3) GOAL_Recv(g, buf.data(), 32, 0);
    GOAL_Schedule sched = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    GOAL_MakeScheduleReusable(sched);

    for (int round = 0; round < 3; round++) {
        if (rank == 2 || rank == 3) buf.fill(0);
        run_to_end(sched);
        if (rank == 2) CHECK(std::count(buf.begin(), buf.end(), 'a') == 32);
        if (rank == 3) CHECK(std::count(buf.begin(), buf.end(), 'b') == 32);
    }
    GOAL_FreeSchedule(sched);
    if (rank == 0) printf("scatter in a group of %d: arrived\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
