/* Receive, then two sends (ESPGOAL, 2.2.4): what rank 1 gets from rank 0 it passes on to ranks 2 and 3, if they are there. */
#include "check.h"

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int16_t buf = rank == 0 ? 4242 : 0;
    GOAL_Graph g = GOAL_CreateGraph();
    if (rank == 0 && size > 1) GOAL_Send(g, &buf, 2, 1);
    if (rank == 1) {
        GOAL_Vertex recv = GOAL_Recv(g, &buf, 2, 0);
        for (int dest = 2; dest < size && dest <= 3; dest++) GOAL_Requires(g, recv, GOAL_Send(g, &buf, 2, dest));
    }
    if (rank == 2 || rank == 3) GOAL_Recv(g, &buf, 2, 1);
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);

    run_to_end(schedule);
    CHECK(buf == (rank <= 3 ? 4242 : 0));
    GOAL_FreeSchedule(schedule);
    if (rank == 0) printf("forward in a group of %d: arrived\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
