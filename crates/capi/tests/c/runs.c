/* Lives of schedules and handles: reuse, several runs at once, freeing while running, abandoned handles, user functions,
 * saved schedules, open runs. Group of one. */
#include "check.h"
#include <stdatomic.h>
#include <string.h>

static atomic_int calls;
static void count_call(void *context) {
    atomic_fetch_add(&calls, *(int *)context);
}

/* Sums 1..4 in the scratchpad and writes the result, after `ns` nanoseconds. */
static GOAL_Schedule summing(const int64_t *numbers, int64_t *result, int64_t ns) {
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 8);
    GOAL_Vertex last = GOAL_LocalOp(g, numbers, NULL, 0, GOAL_COPY, GOAL_SINT, 64, 1, GOAL_USERSPACE, GOAL_USERSPACE,
                                    GOAL_SCRATCHPAD);
    GOAL_Requires(g, GOAL_Sleep(g, ns), last);
    for (int i = 1; i < 4; i++) {
        GOAL_Vertex add = GOAL_LocalOp(g, numbers + i, 0, 0, GOAL_ADD, GOAL_SINT, 64, 1, GOAL_USERSPACE, GOAL_SCRATCHPAD,
                                       GOAL_SCRATCHPAD);
        GOAL_Requires(g, last, add);
        last = add;
    }
    GOAL_Requires(g, last, GOAL_LocalOp(g, 0, NULL, result, GOAL_COPY, GOAL_SINT, 64, 1, GOAL_SCRATCHPAD));
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    CHECK(schedule != NULL);
    return schedule;
}

static void reuse(void) {
    int64_t numbers[4] = {1, 2, 3, 4}, result = 0;
    GOAL_Schedule schedule = summing(numbers, &result, 0);
    for (int round = 0; round < 1000; round++) {
        numbers[3] = round;
        GOAL_Handle handle = GOAL_Run(schedule);
        CHECK(GOAL_Wait(handle) == GOAL_SUCCESS && result == 6 + round);
    }
    for (int round = 0; round < 100; round++) {
        GOAL_Handle handle = GOAL_Run(schedule);
        while (!GOAL_Test(handle)) {}
        CHECK(GOAL_Wait(handle) == GOAL_SUCCESS);
    }
    CHECK(GOAL_FreeSchedule(schedule) == GOAL_SUCCESS);
}

static void freed_while_running(void) {
    /* Static: the abandoned run may go on when this function has returned. */
    static int64_t numbers[4] = {1, 2, 3, 4}, result = 0;
    GOAL_Schedule schedule = summing(numbers, &result, 20 * 1000 * 1000);
    GOAL_Handle first = GOAL_Run(schedule), second = GOAL_Run(schedule), abandoned = GOAL_Run(schedule);
    CHECK(first != second && !GOAL_Test(first));
    CHECK(GOAL_FreeSchedule(schedule) == GOAL_SUCCESS && GOAL_FreeHandle(abandoned) == GOAL_SUCCESS);
    CHECK(GOAL_Wait(second) == GOAL_SUCCESS && GOAL_Wait(first) == GOAL_SUCCESS && result == 10);
}

static void functions(void) {
    int one = 1, ten = 10;
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_Vertex first = GOAL_Call(g, count_call, &one);
    GOAL_Vertex either = GOAL_Call(g, count_call, &ten), slow = GOAL_Sleep(g, 1000 * 1000);
    GOAL_Requires(g, first, either);
    GOAL_Requires(g, slow, either);
    GOAL_SetAny(g, either, 1);
    GOAL_SetConcurrent(g, slow);
    GOAL_Calc(g, 1000);
    GOAL_Schedule schedule = GOAL_Compile(g);
    run_to_end(schedule);
    CHECK(atomic_load(&calls) == 11);
    GOAL_FreeSchedule(schedule);
    GOAL_FreeGraph(g);
}

static void saved(void) {
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 64);
    GOAL_Send(g, 0, 32, 0, 9, GOAL_SCRATCHPAD);
    GOAL_SetLabel(g, GOAL_Recv(g, 32, 32, GOAL_ANY_SOURCE, GOAL_ANY_TAG, GOAL_SCRATCHPAD), "echo");
    GOAL_Schedule schedule = GOAL_Compile(g);
    int64_t bytes = GOAL_SaveSchedule(schedule, NULL, 0);
    CHECK(bytes > 0);
    unsigned char *saved = malloc((size_t)bytes);
    memset(saved, 0xee, (size_t)bytes);
    CHECK(GOAL_SaveSchedule(schedule, saved, (size_t)bytes - 1) == bytes && saved[0] == 0xee); /* too small: untouched */
    CHECK(GOAL_SaveSchedule(schedule, saved, (size_t)bytes) == bytes);
    CHECK(GOAL_FreeSchedule(schedule) == GOAL_SUCCESS && GOAL_FreeGraph(g) == GOAL_SUCCESS);
    schedule = GOAL_LoadSchedule(saved, (size_t)bytes);
    run_to_end(schedule);
    for (int64_t i = 0; i < bytes; i++) { /* every damaged byte is noticed */
        saved[i] ^= 0x10;
        CHECK(GOAL_LoadSchedule(saved, (size_t)bytes) == NULL);
        saved[i] ^= 0x10;
    }
    CHECK(GOAL_LoadSchedule(saved, (size_t)bytes / 2) == NULL && GOAL_LoadSchedule(saved, 0) == NULL);
    GOAL_FreeSchedule(schedule);
    free(saved);
}

static GOAL_Schedule nothing;
static _Atomic(GOAL_Handle) itself;
static void misbehave(void *context) {
    int *refused = context;
    struct timespec moment = {0, 1000};
    while (!atomic_load(&itself)) nanosleep(&moment, NULL); /* GOAL_Run is about to return */
    refused[0] = GOAL_Run(nothing) == NULL && GOAL_LastErrorCode() == GOAL_ERR_RUN;
    refused[1] = GOAL_Wait(atomic_load(&itself)) == GOAL_ERR_RUN && GOAL_Test(atomic_load(&itself)) == 0;
    refused[2] = GOAL_Finalize() == GOAL_ERR_RUN;
}

/* A user function that starts a run, or waits for its own, gets an error instead of waiting for ever. */
static void functions_that_wait(void) {
    int refused[3] = {0};
    GOAL_Graph g = GOAL_CreateGraph();
    nothing = GOAL_Compile(g);
    GOAL_Requires(g, GOAL_Sleep(g, 1000 * 1000), GOAL_Call(g, misbehave, refused)); /* after GOAL_Run has let go */
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_Handle handle = GOAL_Run(schedule);
    atomic_store(&itself, handle);
    CHECK(GOAL_Wait(handle) == GOAL_SUCCESS);
    CHECK(refused[0] && refused[1] && refused[2]);
    GOAL_FreeSchedule(schedule);
    GOAL_FreeSchedule(nothing);
    GOAL_FreeGraph(g);
}

/* The two sides of a message in different open runs. */
static void open_runs(void) {
    int out = 5, in = 0;
    GOAL_Graph sends = GOAL_CreateGraph(), receives = GOAL_CreateGraph();
    GOAL_Send(sends, &out, 4, 0);
    GOAL_Recv(receives, &in, 4, 0);
    GOAL_Schedule send = GOAL_Compile(sends), receive = GOAL_Compile(receives);
    GOAL_Handle waiting = GOAL_RunOpen(receive);
    CHECK(!GOAL_Test(waiting));
    CHECK(GOAL_Wait(GOAL_RunOpen(send)) == GOAL_SUCCESS && GOAL_Wait(waiting) == GOAL_SUCCESS && in == 5);
    GOAL_FreeSchedule(send);
    GOAL_FreeSchedule(receive);
    GOAL_FreeGraph(sends);
    GOAL_FreeGraph(receives);
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    reuse();
    freed_while_running();
    functions();
    functions_that_wait();
    saved();
    open_runs();

    /* Finalize waits for what is still going on. */
    int64_t numbers[4] = {1, 2, 3, 4}, result = 0;
    GOAL_Run(summing(numbers, &result, 5 * 1000 * 1000));
    CHECK(GOAL_Finalize() == GOAL_SUCCESS && result == 10);
    puts("schedules and handles live as documented");
    return 0;
}
