/* behaviour.c: what the results of calls do not show: that messages of the MPI go on while a rank waits in a collective call,
 * requests of both kinds in one array, persistent calls, communicators that go while calls are under way, an abandoned one.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static void check(int is_fine, const char *what)
{
    if (!is_fine) {
        fprintf(stderr, "rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* A large message ends only if its sender goes on with it, who waits in a barrier. */
static void messages_go_on(void)
{
    int count = 4 << 20;
    char *data = calloc((size_t)count, 1);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == 0) {
        data[count - 1] = 7;
        MPI_Isend(data, count, MPI_CHAR, ranks - 1, 1, MPI_COMM_WORLD, &request);
    }
    if (rank == ranks - 1 && ranks > 1) {
        MPI_Recv(data, count, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(data[count - 1] == 7, "a message that went on during a barrier");
    } else if (rank == 0 && ranks == 1) {
        MPI_Cancel(&request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* The same from inside a wait for a started call. */
    if (ranks > 1 && rank == 0)
        MPI_Isend(data, count, MPI_CHAR, ranks - 1, 1, MPI_COMM_WORLD, &request);
    if (ranks > 1 && rank == ranks - 1)
        MPI_Recv(data, count, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Request both[2] = {request, MPI_REQUEST_NULL};
    MPI_Ibarrier(MPI_COMM_WORLD, &both[1]);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    free(data);
}

static void both_kinds(void)
{
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    for (int way = 0; way < 4; way++) {
        int one = rank, sum = -1, came = -1, most = -1, seen = 0;
        MPI_Request requests[5];
        MPI_Irecv(&came, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[0]);
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
        requests[2] = MPI_REQUEST_NULL;
        MPI_Iallreduce(&one, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[3]);
        MPI_Isend(&one, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[4]);
        while (seen < 4) {
            int index, indices[5], done = 0, flag = 0;
            if (way == 0) {
                MPI_Waitany(5, requests, &index, MPI_STATUS_IGNORE);
                check(index != MPI_UNDEFINED, "waitany ends too early");
                done = 1;
            } else if (way == 1) {
                MPI_Waitsome(5, requests, &done, indices, MPI_STATUSES_IGNORE);
                check(done != MPI_UNDEFINED && done > 0, "waitsome ends too early");
            } else if (way == 2) {
                MPI_Testsome(5, requests, &done, indices, MPI_STATUSES_IGNORE);
                check(done != MPI_UNDEFINED, "testsome ends too early");
            } else {
                MPI_Testany(5, requests, &index, &flag, MPI_STATUS_IGNORE);
                check(!flag || index != MPI_UNDEFINED, "testany ends too early");
                done = flag;
            }
            seen += done;
        }
        for (int at = 0; at < 5; at++)
            check(requests[at] == MPI_REQUEST_NULL, "a request that is over");
        check(sum == ranks * (ranks - 1) / 2 && most == ranks - 1 && came == left, "what both kinds brought");
    }
}

static void persistent(void)
{
#if MPI_VERSION >= 4
    int one = 0, sum = 0, flag = 0;
    MPI_Request requests[2];
    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 5; round++) {
        int index;
        one = rank + round;
        MPI_Startall(2, requests);
        switch (round) {
        case 0: MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); break;
        case 1: MPI_Wait(&requests[1], MPI_STATUS_IGNORE); MPI_Wait(&requests[0], MPI_STATUS_IGNORE); break;
        case 2: do MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE); while (!flag); break;
        default:
            for (int at = 0; at < 2; at++) {
                MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
                check(index == 0 || index == 1, "waitany of persistent calls");
            }
        }
        check(sum == ranks * (ranks - 1) / 2 + ranks * round, "a persistent sum");
        check(requests[0] != MPI_REQUEST_NULL, "a persistent request stays");
    }
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    check(requests[0] == MPI_REQUEST_NULL, "a persistent request that was freed");
    MPI_Count many = 3;
    long in[3] = {rank, 1, 2}, out[3];
    MPI_Allreduce_c(in, out, many, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    check(out[0] == ranks * (ranks - 1) / 2 && out[1] == ranks, "a call with a large count");
#endif
}

static void freed_while_under_way(void)
{
    MPI_Comm copy, part;
    MPI_Request request;
    int one = 1, sum = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy, &request);
    MPI_Comm_free(&copy);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(sum == ranks, "a call whose communicator was freed");
    for (int round = 0; round < 200; round++) {
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, part);
        check(sum == (ranks + 1 - rank % 2) / 2, "one of many communicators");
        MPI_Comm_free(&part);
    }
    MPI_Comm inter;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
    if (ranks > 1) {
        int all = 0;
        MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, 1 - rank % 2, 9, &inter);
        MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, inter);
        check(all == (ranks + rank % 2) / 2, "the other side of an intercommunicator");
        MPI_Comm_free(&inter);
    }
    /* `part` is left open. */
}

/* What means nothing to a rank may be anything, and a type may go before the call that uses it is over. */
static void odd_arguments(void)
{
    int mine[4] = {rank, -1, rank, -1}, all[64];
    MPI_Datatype gappy;
    MPI_Request request;
    for (int at = 0; at < 64; at++)
        all[at] = -5;
    MPI_Type_vector(2, 1, 2, MPI_INT, &gappy);
    MPI_Type_commit(&gappy);
    all[0] = all[1] = 0;
    if (rank == 0)
        MPI_Gather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, all, 2, MPI_INT, 0, MPI_COMM_WORLD);
    else
        MPI_Gather(mine, 1, gappy, NULL, -1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD);
    for (int at = 0; rank == 0 && at < 2 * ranks; at++)
        check(all[at] == at / 2, "a gather with arguments that mean nothing");
    for (int at = 0; at < 64; at++)
        all[at] = -5;
    MPI_Iallgather(mine, 2, MPI_INT, all, 1, gappy, MPI_COMM_WORLD, &request);
    MPI_Type_free(&gappy);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* The type's extent is three numbers. */
    for (int at = 0; at < ranks; at++)
        check(all[3 * at] == at && all[3 * at + 1] == -5, "a type that was freed");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > 1)
        messages_go_on();
    both_kinds();
    odd_arguments();
    persistent();
    freed_while_under_way();
    MPI_Finalize();
    if (rank == 0)
        puts("fine");
    return 0;
}
