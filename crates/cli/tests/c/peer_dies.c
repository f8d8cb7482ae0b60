/* Rank 1 dies while the others wait for its message: their runs fail and name it; a pattern without it still runs. */
#include "check.h"
#include <signal.h>
#include <string.h>

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize(), value = rank, got = -1;
    GOAL_Graph g = GOAL_CreateGraph();
    if (rank != 1) GOAL_SetLabel(g, GOAL_Recv(g, &got, sizeof got, 1, 42), "word from 1");
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_Handle handle = GOAL_Run(schedule);
    if (rank == 1) {
        struct timespec delay = {0, 20 * 1000 * 1000};
        nanosleep(&delay, NULL);
        raise(SIGKILL);
    }
    char reason[512];
    CHECK(GOAL_Wait(handle) == GOAL_ERR_PEER);
    CHECK(GOAL_HandleError(handle, reason, sizeof reason) > 0);
    CHECK(strstr(reason, "word from 1") && strstr(reason, "rank 1"));
    CHECK(GOAL_FreeHandle(handle) == GOAL_SUCCESS);

    /* The others still talk: around the dead one, 0 -> 2 -> 3 -> ... -> 0. */
    int next = (rank + 1) % size == 1 ? 2 : (rank + 1) % size;
    int previous = (rank + size - 1) % size == 1 ? 0 : (rank + size - 1) % size;
    GOAL_Graph ring = GOAL_CreateGraph();
    GOAL_Send(ring, &value, sizeof value, next);
    GOAL_Recv(ring, &got, sizeof got, previous);
    GOAL_Schedule around = GOAL_Compile(ring);
    run_to_end(around);
    CHECK(got == previous);
    printf("rank %d: %s\n", rank, reason);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
