/* castell_vertices.h in a group of one: vertices that are tasks, tasks that are held until a run has ended, and failures of both. */
#define _DEFAULT_SOURCE
#include <castell_vertices.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s (%s; %s)\n", __FILE__, __LINE__, #condition, GOAL_LastError(),                 \
                    castell_tasks_error());                                                                           \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

static castell_runtime *runtime;
static atomic_int children, order, before, behind;

static void child(void *argument) {
    (void)argument;
    usleep(500);
    children++;
}

static void parent(void *argument) {
    (void)argument;
    for (int i = 0; i < 4; i++) CHECK(castell_submit(child, NULL, 0, NULL, 0, NULL) == 0);
    before = ++order;
}

static void follower(void *argument) {
    CHECK(children == *(int *)argument); /* the vertex before is over only when its task's children are done */
    behind = ++order;
}

static GOAL_Schedule compiled(GOAL_Graph graph) {
    GOAL_Schedule schedule = GOAL_Compile(graph);
    CHECK(schedule != NULL && GOAL_FreeGraph(graph) == GOAL_SUCCESS);
    return schedule;
}

static void vertices(void) {
    int expected = 4, from = 7, to = 0;
    castell_vertex first = {runtime, parent, NULL, "first"}, second = {runtime, follower, &expected, NULL};
    GOAL_Graph graph = GOAL_CreateGraph();
    GOAL_Vertex a = GOAL_Call(graph, castell_vertex_task, &first), b = GOAL_Call(graph, castell_vertex_task, &second);
    GOAL_Vertex send = GOAL_Send(graph, &from, sizeof from, 0, 3), recv = GOAL_Recv(graph, &to, sizeof to, 0, 3);
    CHECK(GOAL_Requires(graph, a, b) == GOAL_SUCCESS && GOAL_Requires(graph, a, send) == GOAL_SUCCESS);
    CHECK(GOAL_Requires(graph, recv, b) == GOAL_SUCCESS);
    GOAL_Schedule schedule = compiled(graph);
    for (int run = 1; run <= 100; run++) {
        children = 0;
        order = 0;
        to = 0;
        GOAL_Handle handle = GOAL_Run(schedule);
        CHECK(handle != NULL && GOAL_Wait(handle) == GOAL_SUCCESS);
        CHECK(children == 4 && before == 1 && behind == 2 && to == 7);
    }
    CHECK(GOAL_FreeSchedule(schedule) == GOAL_SUCCESS);
}

static void fails(void *argument) {
    (void)argument;
    CHECK(castell_fail("no luck", NULL, NULL) == 0);
}

static void failing_vertices(void) {
    castell_vertex failing = {runtime, fails, NULL, "unlucky"}, none = {runtime, NULL, NULL, NULL};
    castell_vertex *cases[] = {&failing, &none, NULL};
    const char *reasons[] = {"no luck", "no body", "no vertex"};
    for (int at = 0; at < 3; at++) {
        GOAL_Graph graph = GOAL_CreateGraph();
        GOAL_Call(graph, castell_vertex_task, cases[at]);
        GOAL_Schedule schedule = compiled(graph);
        GOAL_Handle handle = GOAL_Run(schedule);
        char reason[512] = "";
        CHECK(handle != NULL && GOAL_Wait(handle) == GOAL_ERR_FAILED);
        CHECK(GOAL_HandleError(handle, reason, sizeof reason) > 0 && strstr(reason, reasons[at]) != NULL);
        CHECK(GOAL_FreeHandle(handle) == GOAL_SUCCESS && GOAL_FreeSchedule(schedule) == GOAL_SUCCESS);
    }
}

/* ------------------------------------------------------------------------------------------------------- held tasks */

static GOAL_Schedule slow, broken;
static int from = 1, to, seen;
static atomic_int started, ran_behind;

static void starts(void *argument) {
    GOAL_Handle run = castell_run_held(*(GOAL_Schedule *)argument);
    CHECK(run != NULL && GOAL_FreeHandle(run) == GOAL_SUCCESS);
    started = 1;
}

static void looks(void *argument) {
    (void)argument;
    seen = to;
    ran_behind++;
}

static void held(void *argument) {
    (void)argument;
    castell_access out = {CASTELL_OUT, &to, sizeof to, 0, 0, NULL}, in = {CASTELL_IN, &to, sizeof to, 0, 0, NULL};
    for (int run = 1; run <= 50; run++) {
        from = run, to = 0;
        CHECK(castell_submit(starts, &slow, sizeof slow, &out, 1, NULL) == 0);
        CHECK(castell_submit(looks, NULL, 0, &in, 1, NULL) == 0);
        CHECK(castell_taskwait() == 0 && seen == run && ran_behind == run);
    }
    started = 0;
    ran_behind = 0;
    CHECK(castell_submit(starts, &broken, sizeof broken, &out, 1, NULL) == 0);
    CHECK(castell_submit(looks, NULL, 0, &in, 1, NULL) == 0); /* skipped */
    CHECK(castell_taskwait() < 0 && strstr(castell_tasks_error(), "sizes do not match") != NULL);
    CHECK(started == 1 && ran_behind == 0);
    CHECK(castell_run_held(NULL) == NULL && strlen(GOAL_LastError()) > 0);
}

static void held_tasks(void) {
    GOAL_Graph graph = GOAL_CreateGraph();
    GOAL_Vertex send = GOAL_Send(graph, &from, sizeof from, 0, 0);
    GOAL_Requires(graph, GOAL_Sleep(graph, 200000), send);
    GOAL_Recv(graph, &to, sizeof to, 0, 0);
    slow = compiled(graph);
    graph = GOAL_CreateGraph();
    GOAL_Send(graph, &from, 1, 0, 0);
    GOAL_Recv(graph, &to, sizeof to, 0, 0);
    broken = compiled(graph);
    CHECK(castell_run_held(slow) == NULL); /* outside of tasks */
    CHECK(castell_run(runtime, held, NULL) == 0);
    CHECK(GOAL_FreeSchedule(slow) == GOAL_SUCCESS && GOAL_FreeSchedule(broken) == GOAL_SUCCESS);
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    castell_options options = {0};
    options.workers = 2;
    CHECK(castell_start(&runtime, &options) == 0);
    vertices();
    failing_vertices();
    held_tasks();
    CHECK(castell_stop(runtime) == 0 && GOAL_Finalize() == GOAL_SUCCESS);
    puts("vertices: tasks in graphs, graphs in tasks");
    return 0;
}
