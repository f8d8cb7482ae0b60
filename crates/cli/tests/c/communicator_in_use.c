/* Two ranks, with threads: who a rank is can be asked while another thread stands in a barrier, and threads that want a
 * communicator that is in use wait for it. */
#include <castell.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 3, CALLS = 200 };

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, GOAL_LastError()); \
            exit(1); \
        } \
    } while (0)

static void *stand_in_barrier(void *comm) {
    CHECK(castell_barrier(comm) == 0);
    return NULL;
}

/* A message from rank 0 to rank 1, beside all collective calls. */
static void tell(void) {
    int word = 7;
    GOAL_Graph graph = GOAL_CreateGraph();
    if (GOAL_MyRank() == 0) {
        GOAL_Send(graph, &word, sizeof word, 1);
    } else {
        GOAL_Recv(graph, &word, sizeof word, 0);
    }
    GOAL_Schedule schedule = GOAL_Compile(graph);
    CHECK(GOAL_Wait(GOAL_Run(schedule)) == 0);
    CHECK(GOAL_FreeSchedule(schedule) == 0 && GOAL_FreeGraph(graph) == 0);
}

/* Rank 1 comes to the barrier only when rank 0 has been told who it is. */
static void ask_beside_barrier(castell_comm comm) {
    pthread_t thread;
    if (GOAL_MyRank() == 0) {
        CHECK(pthread_create(&thread, NULL, stand_in_barrier, comm) == 0);
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
        CHECK(castell_comm_rank(comm) == 0 && castell_comm_size(comm) == 2);
        tell();
        CHECK(pthread_join(thread, NULL) == 0);
    } else {
        tell();
        stand_in_barrier(comm);
    }
}

static void *sum(void *comm) {
    for (int call = 0; call < CALLS; call++) {
        double mine = 1, all = 0;
        CHECK(castell_allreduce(&mine, &all, 1, CASTELL_DOUBLE, CASTELL_SUM, comm) == 0);
        CHECK(all == 2);
    }
    return NULL;
}

static void take_turns(castell_comm comm) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, sum, comm) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

int main(void) {
    CHECK(GOAL_Init() == 0);
    castell_comm copy;
    CHECK(castell_comm_dup(CASTELL_WORLD, &copy) == 0);
    ask_beside_barrier(CASTELL_WORLD);
    ask_beside_barrier(copy);
    take_turns(CASTELL_WORLD);
    take_turns(copy);
    CHECK(castell_comm_free(&copy) == 0 && copy == NULL);
    CHECK(GOAL_Finalize() == 0);
    puts("nobody waits who need not");
    return 0;
}
