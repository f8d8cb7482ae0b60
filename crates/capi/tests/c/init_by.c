/* A group by functions of the program, in forked processes that exchange through memory which they inherited; and misuse. */
#define _GNU_SOURCE
#include <castell.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, GOAL_LastError());                         \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

enum { RANKS = 4, ROOM = 65536 };

struct board {
    atomic_int came;
    char bytes[RANKS][ROOM];
};

struct place {
    struct board *board;
    int rank, turns, host;
};

static void meet(struct place *place) {
    int expected = ++place->turns * RANKS;
    atomic_fetch_add(&place->board->came, 1);
    while (atomic_load(&place->board->came) < expected) sched_yield();
}

static int allgather(const void *mine, size_t bytes, void *all, void *context) {
    struct place *place = context;
    memcpy(place->board->bytes[place->rank], mine, bytes);
    meet(place);
    for (int rank = 0; rank < RANKS; rank++) memcpy((char *)all + (size_t)rank * bytes, place->board->bytes[rank], bytes);
    meet(place);
    return 0;
}

static int host(void *context) {
    return ((struct place *)context)->host;
}

static int broken(const void *mine, size_t bytes, void *all, void *context) {
    (void)mine, (void)bytes, (void)all, (void)context;
    return 42;
}

static void rank(struct place *place) {
    castell_host_functions functions = {place->rank, RANKS, allgather, host, place};
    int mine = place->rank, all[RANKS];
    /* First an error in all ranks, after which they may try again. */
    place->host = -1;
    CHECK(castell_init_by(&functions) == GOAL_ERR_LAUNCH && strstr(GOAL_LastError(), "rank 0 could not tell"));
    /* As if on two hosts. */
    place->host = place->rank % 2;
    CHECK(castell_init_by(&functions) == GOAL_SUCCESS);
    CHECK(castell_init_by(&functions) == GOAL_ERR_ALREADY_INITIALIZED);
    CHECK(GOAL_MyRank() == place->rank && GOAL_GroupSize() == RANKS);
    CHECK(castell_allgather(&mine, 1, CASTELL_INT32, all, CASTELL_WORLD) == GOAL_SUCCESS);
    for (int other = 0; other < RANKS; other++) CHECK(all[other] == other);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}

int main(void) {
    castell_host_functions functions = {0, 2, NULL, NULL, NULL};
    CHECK(castell_init_by(NULL) == GOAL_ERR_BUFFER);
    CHECK(castell_init_by(&functions) == GOAL_ERR_BUFFER && strstr(GOAL_LastError(), "`allgather`"));
    functions.allgather = broken;
    CHECK(castell_init_by(&functions) == GOAL_ERR_LAUNCH && strstr(GOAL_LastError(), "it returned 42"));
    functions.rank = 2;
    CHECK(castell_init_by(&functions) == GOAL_ERR_RANK && strstr(GOAL_LastError(), "rank 2 of 2 ranks"));
    CHECK(GOAL_IsInitialized() == 0);

    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    fflush(stdout);
    for (int other = 0; other < RANKS; other++) {
        if (fork() == 0) {
            struct place place = {board, other, 0, 0};
            rank(&place);
            _exit(0);
        }
    }
    for (int other = 0; other < RANKS; other++) {
        int status = 1;
        CHECK(wait(&status) > 0 && status == 0);
    }
    /* A group of one needs no exchange. */
    functions.rank = 0;
    functions.size = 1;
    CHECK(castell_init_by(&functions) == GOAL_SUCCESS && castell_barrier(CASTELL_WORLD) == GOAL_SUCCESS);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS && castell_init_by(&functions) == GOAL_ERR_FINALIZED);
    printf("%d processes found each other by functions of their own\n", RANKS);
    return 0;
}
