/* Threads: everybody builds, runs, waits and frees at once; several wait for one handle. Group of one. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 300 };

static GOAL_Handle shared;

static void *work(void *argument) {
    int tag = *(int *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int out[2] = {tag, round}, in[2] = {-1, -1};
        GOAL_Graph g = GOAL_CreateGraph();
        GOAL_Send(g, out, sizeof out, 0, tag);
        GOAL_Recv(g, in, sizeof in, 0, tag);
        GOAL_Schedule schedule = GOAL_Compile(g);
        CHECK(GOAL_FreeGraph(g) == GOAL_SUCCESS && schedule != NULL);
        GOAL_Handle handle = GOAL_Run(schedule);
        CHECK(GOAL_FreeSchedule(schedule) == GOAL_SUCCESS);
        if (round % 2) while (!GOAL_Test(handle)) {}
        CHECK(GOAL_Wait(handle) == GOAL_SUCCESS);
        CHECK(in[0] == tag && in[1] == round);
        CHECK(GOAL_MyRank() == 0);
        /* Errors belong to their thread. */
        CHECK(GOAL_Send(NULL, out, 8, 0) == GOAL_INVALID_VERTEX && GOAL_LastErrorCode() == GOAL_ERR_GRAPH);
    }
    CHECK(GOAL_Wait(shared) == GOAL_SUCCESS);
    return NULL;
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_Sleep(g, 50 * 1000 * 1000);
    GOAL_Schedule schedule = GOAL_Compile(g);
    shared = GOAL_Run(schedule);
    pthread_t threads[THREADS];
    int tags[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tags[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &tags[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(GOAL_LastErrorCode() == GOAL_SUCCESS);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    puts("threads do not meet each other");
    return 0;
}
