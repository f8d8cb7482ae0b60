/* Calls of the C library whose instructions `cargo xtask instructions` counts, on rank 0 of two ranks or on one alone. Before
 * each call the ranks meet in a page that they share through FILE, and rank 0 pauses: when it comes, what it would wait for is
 * there, and the other rank has not gone to sleep yet.
 *
 *     hot_calls PATH CALLS FILE */
#define _DEFAULT_SOURCE
#include <castell.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 1 << 20 };

static void check(int is_fine, const char *what) {
    if (!is_fine) {
        fprintf(stderr, "hot_calls: %s: %s\n", what, GOAL_LastError());
        exit(1);
    }
}

/* Of each rank, the call that it is about to make. */
static _Atomic long *about_to_call;

static void share(const char *file) {
    int descriptor = open(file, O_RDWR | O_CREAT, 0600);
    check(descriptor >= 0 && ftruncate(descriptor, 2 * sizeof *about_to_call) == 0, file);
    void *page = mmap(NULL, 2 * sizeof *about_to_call, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    check(page != MAP_FAILED, file);
    about_to_call = page;
}

/* The other rank's way into its call takes a while that nobody knows, and under valgrind this one's does: pauses of several lengths
 * on both sides, some of which fit. */
static void meet(long call) {
    if (GOAL_GroupSize() != 2) {
        return;
    }
    atomic_store(&about_to_call[GOAL_MyRank()], call + 1);
    while (atomic_load(&about_to_call[1 - GOAL_MyRank()]) <= call) {
        sched_yield();
    }
    double end = GOAL_Wtime() + (GOAL_MyRank() == 0 ? 2e-6 * (double)(call % 8) : 4e-6 * (double)(call / 8 % 16));
    while (GOAL_Wtime() < end) {
    }
}

static void barrier(long calls) {
    for (long i = 0; i < calls; i++) {
        meet(i);
        check(castell_barrier(CASTELL_WORLD) == 0, "barrier");
    }
}

static void allreduce(long calls) {
    double mine = 1, sum = 0;
    for (long i = 0; i < calls; i++) {
        meet(i);
        check(castell_allreduce(&mine, &sum, 1, CASTELL_DOUBLE, CASTELL_SUM, CASTELL_WORLD) == 0, "allreduce");
        check(sum == GOAL_GroupSize(), "the sum");
    }
}

static void iallreduce(long calls) {
    double mine = 1, sum = 0;
    for (long i = 0; i < calls; i++) {
        castell_request request;
        meet(i);
        check(castell_iallreduce(&mine, &sum, 1, CASTELL_DOUBLE, CASTELL_SUM, CASTELL_WORLD, &request) == 0, "iallreduce");
        check(castell_wait(&request) == 0, "wait");
        check(sum == GOAL_GroupSize(), "the sum");
    }
}

static void message(long calls, int64_t bytes) {
    char *data = calloc(1, (size_t)bytes);
    GOAL_Graph graph = GOAL_CreateGraph();
    if (GOAL_MyRank() == 0) {
        GOAL_Send(graph, data, bytes, 1);
    } else {
        GOAL_Recv(graph, data, bytes, 0);
    }
    GOAL_Schedule schedule = GOAL_Compile(graph);
    check(schedule != NULL, "compile");
    for (long i = 0; i < calls; i++) {
        meet(i);
        GOAL_Handle run = GOAL_Run(schedule);
        check(run != NULL, "run");
        check(GOAL_Wait(run) == 0, "wait");
    }
    free(data);
}

int main(int argc, char **argv) {
    long calls = argc == 4 ? atol(argv[2]) : 0;
    if (calls <= 0) {
        fprintf(stderr, "usage: hot_calls PATH CALLS FILE\n");
        return 2;
    }
    check(GOAL_Init() == 0, "init");
    share(argv[3]);
    if (strcmp(argv[1], "barrier") == 0) {
        barrier(calls);
    } else if (strcmp(argv[1], "allreduce") == 0) {
        allreduce(calls);
    } else if (strcmp(argv[1], "iallreduce") == 0) {
        iallreduce(calls);
    } else if (strcmp(argv[1], "send") == 0) {
        message(calls, 8);
    } else if (strcmp(argv[1], "send-large") == 0) {
        message(calls, LARGE);
    } else {
        fprintf(stderr, "hot_calls: there is no path `%s`\n", argv[1]);
        return 2;
    }
    check(GOAL_Finalize() == 0, "finalize");
}
