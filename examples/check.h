/* What the examples check themselves with; valid C11 and C++17. */
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

/* nanosleep, in front of the first system header */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <goal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Ends the process with an explanation unless the condition holds. */
#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "rank %d, %s:%d: `%s` does not hold; last error of the library: %s\n", GOAL_MyRank(), __FILE__, \
                    __LINE__, #condition, GOAL_LastError());                                                               \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

/* Runs a schedule to its end; a failed run ends the process with the run's own explanation. */
static inline void run_to_end(GOAL_Schedule schedule) {
    CHECK(GOAL_IsScheduleValid(schedule));
    GOAL_Handle handle = GOAL_Run(schedule);
    CHECK(handle != NULL);
    if (GOAL_Wait(handle) != GOAL_SUCCESS) {
        char reason[1024];
        GOAL_HandleError(handle, reason, sizeof reason);
        fprintf(stderr, "rank %d: the run failed: %s\n", GOAL_MyRank(), reason);
        exit(1);
    }
}

/* Nobody may leave a barrier before everybody has entered it. One rank comes late, each time another one; all clocks are
 * this machine's, so rank 0 can compare the times at which ranks entered and left. */
static inline void check_barrier(GOAL_Schedule barrier) {
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    double mine[2]; /* entered, left */
    double *all = (double *)calloc(2 * (size_t)size, sizeof(double));
    GOAL_Graph graph = GOAL_CreateGraph();
    GOAL_Send(graph, mine, sizeof mine, 0, 7);
    for (int p = 0; rank == 0 && p < size; p++) GOAL_Recv(graph, all + 2 * p, sizeof mine, p, 7);
    GOAL_Schedule report = GOAL_Compile(graph);
    GOAL_FreeGraph(graph);
    CHECK(report != NULL);

    for (int late = size - 1; late >= 0 && late >= size - 8; late--) {
        struct timespec delay = {0, 10 * 1000 * 1000};
        if (rank == late) nanosleep(&delay, NULL);
        mine[0] = GOAL_Wtime();
        run_to_end(barrier);
        mine[1] = GOAL_Wtime();
        run_to_end(report);
        for (int p = 0; rank == 0 && p < size; p++) CHECK(all[2 * p + 1] >= all[2 * late]);
    }
    GOAL_FreeSchedule(report);
    free(all);
    if (rank == 0) printf("barrier of %d: nobody left before the last one entered\n", size);
}

#endif
