/* What programs do rarely, each by its name; every one prints "fine" on rank 0.
 *
 *     hard threads | fork | open | many | order | dies | exits | abort
 *     hard lends FILE     the last rank waits in a barrier for rank 0, which makes FILE.ready and comes when somebody has made FILE */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;

static void check(int is_fine, const char *what)
{
    if (!is_fine) {
        fprintf(stderr, "hard: rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double sum(MPI_Comm comm, double mine)
{
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
    return all;
}

/* --------------------------------------------------------------------------- Threads, each in a communicator of its own */

enum { THREADS = 4, CALLS = 300 };

static void *in_thread(void *argument)
{
    MPI_Comm comm = *(MPI_Comm *)argument, part;
    int mine, all[16];
    for (int call = 0; call < CALLS; call++) {
        check(sum(comm, call + rank) == size * call + size * (size - 1) / 2, "a thread's sum");
        mine = rank * 1000 + call;
        MPI_Request request;
        MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int at = 0; at < size; at++)
            check(all[at] == at * 1000 + call, "a thread's numbers");
        if (call % 100 == 0) {
            MPI_Comm_dup(comm, &part);
            check(sum(part, 1) == size, "a sum among threads' own communicators");
            MPI_Comm_free(&part);
        }
        /* Types are looked up by all threads, too. */
        MPI_Datatype pair;
        MPI_Type_contiguous(2, MPI_INT, &pair);
        MPI_Type_commit(&pair);
        int two[2] = {call, call + 1};
        MPI_Bcast(two, 1, pair, call % size, comm);
        MPI_Type_free(&pair);
        check(two[0] == call && two[1] == call + 1, "a thread's broadcast");
    }
    return NULL;
}

static void threads(int provided)
{
    MPI_Comm comms[THREADS];
    pthread_t others[THREADS];
    if (provided < MPI_THREAD_MULTIPLE) {
        if (rank == 0)
            printf("this MPI has no MPI_THREAD_MULTIPLE\n");
        return;
    }
    for (int at = 0; at < THREADS; at++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[at]);
    for (int at = 0; at < THREADS; at++)
        pthread_create(&others[at], NULL, in_thread, &comms[at]);
    for (int at = 0; at < THREADS; at++)
        pthread_join(others[at], NULL);
    for (int at = 0; at < THREADS; at++)
        MPI_Comm_free(&comms[at]);
}

/* ------------------------------------------------------------------------------------------------------------ The rest */

/* A child that never calls MPI leaves its parent's group alone. */
static void forks(void)
{
    for (int at = 0; at < 3; at++) {
        pid_t child = fork();
        if (child == 0)
            _exit(7);
        int status = 0;
        check(sum(MPI_COMM_WORLD, 1) == size, "the sum beside a child");
        check(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "the child");
    }
    check(system("exit 3") >> 8 == 3, "a shell");
    check(sum(MPI_COMM_WORLD, 1) == size, "the sum behind children");
}

/* Communicators that nobody frees, and requests that go on. */
static void leaves_open(void)
{
    static int numbers[64];
    MPI_Comm open;
    for (int at = 0; at < 20; at++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &open);
        check(sum(open, 1) == size, "the sum of an open communicator");
    }
    MPI_Request request;
    MPI_Ibcast(numbers, 64, MPI_INT, 0, open, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ibarrier(open, &request);
    MPI_Request_free(&request);
    MPI_Barrier(open);
}

/* More communicators than castell has contexts. */
static void many(void)
{
    static MPI_Comm comms[1100];
    int made = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (made < 1100 && MPI_Comm_dup(MPI_COMM_WORLD, &comms[made]) == MPI_SUCCESS)
        made++;
    for (int at = 0; at < made; at++)
        check(sum(comms[at], at) == (double)size * at, "the sum of one of many");
    for (int at = 0; at < made; at++)
        MPI_Comm_free(&comms[at]);
}

/* Persistent calls are started in another order by each rank; there is no such call in older MPIs. */
static void order(void)
{
#if MPI_VERSION >= 4
    enum { KINDS = 4 };
    MPI_Request requests[KINDS];
    for (int round = 0; round < 2; round++) {
        int word = 0, mine = rank + 1, all = 0, numbers[16];
        MPI_Bcast_init(&word, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        MPI_Allreduce_init(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
        MPI_Allgather_init(&mine, 1, MPI_INT, numbers, 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
        for (int start = 0; start < 20; start++) {
            word = rank == 0 ? start : -1;
            for (int at = 0; at < KINDS; at++)
                MPI_Start(&requests[(at + rank + start) % KINDS]);
            check(sum(MPI_COMM_WORLD, 1) == size, "a sum beside persistent calls");
            MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE);
            check(word == start && all == size * (size + 1) / 2 && numbers[size - 1] == size, "a persistent call");
        }
        for (int at = 0; at < KINDS; at++)
            MPI_Request_free(&requests[at]);
    }
#endif
}

/* --------------------------------------------------------------------------- A rank that waits, and others who want its processor */

static void lends(const char *file)
{
    char ready[4096];
    check(snprintf(ready, sizeof ready, "%s.ready", file) < (int)sizeof ready, "a short name");
    if (rank == 0) {
        FILE *stream = fopen(ready, "w");
        check(stream && fclose(stream) == 0, "a file");
        while (access(file, F_OK) != 0)
            ; /* it computes */
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided;
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Init_thread(&argc, &argv, strcmp(what, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(sum(MPI_COMM_WORLD, 1) == size, "the first sum");
    if (!strcmp(what, "threads"))
        threads(provided);
    else if (!strcmp(what, "fork"))
        forks();
    else if (!strcmp(what, "open"))
        leaves_open();
    else if (!strcmp(what, "many"))
        many();
    else if (!strcmp(what, "order"))
        order();
    else if (!strcmp(what, "lends") && argc > 2)
        lends(argv[2]);
    else if (rank == size - 1) {
        /* The launcher ends the others, who wait for this one in castell. */
        if (!strcmp(what, "dies"))
            kill(getpid(), SIGKILL);
        else if (!strcmp(what, "exits"))
            _exit(9);
        else if (!strcmp(what, "abort"))
            MPI_Abort(MPI_COMM_WORLD, 5);
    } else {
        sum(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("fine\n");
    MPI_Finalize();
    return 0;
}
