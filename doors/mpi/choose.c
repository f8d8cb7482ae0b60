/* choose.c: what goes through castell, decided by measurement. A communicator counts its calls of an operation and size; when there
 * were some, its members, who are all in a blocking call then, make such calls through castell and through the MPI below in turns, and
 * what was faster makes these calls from then on. What was measured is kept in a file for programs that start later (kept.c).
 *
 * All members of a communicator decide alike, since nothing decides but the calls on it and what they exchange: see
 * docs/decisions/0026.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"

#include <stdlib.h>
#include <string.h>

/* Calls before they are measured, by their size. Bytes. */
enum { SMALL_CALLS = 64, MIDDLE_CALLS = 16, LARGE_CALLS = 4, SMALL_MAX = 4 << 10, MIDDLE_MAX = 256 << 10 };
/* Rounds in which both take turns, and calls of a batch. */
enum { ROUNDS = 5, ROUNDS_MIN = 3, BATCH_CALLS = 50 };
/* What a batch should last; what one measurement may, and all of a process. Seconds. */
static const double BATCH_MAX = 0.001, MEASUREMENT_MAX = 0.2, ALL_MAX = 1.0;
/* Memory of a measurement. Bytes. */
static const double ROOM_MAX = 256 << 20;
/* From here on each call sends what has just been written. Bytes. */
enum { WRITTEN_MIN = 16 << 10, LINE = 64 };

/* What this process has spent in measurements. Seconds. */
static double spent;
static int measured;

struct trial {
    struct door_comm *comm;
    struct door_arguments arguments;
    int is_one_way, is_written;
    size_t sent;
    char *send, *recv;
    int *counts, *starts;
};

/* The MPI below makes the call. Lists are of int. */
static int make_below(const struct door_arguments *a, MPI_Request *request)
{
    void *buffer = a->recv, *recv = a->recv;
    const void *send = a->send, *send_types = NULL, *recv_types = NULL;
    int count = (int)a->recv_count, send_count = (int)a->send_count, recv_count = count, root = a->root;
    MPI_Datatype type = a->recv_type, send_type = a->send_type, recv_type = a->recv_type;
    const void *send_counts = a->send_counts.at, *send_starts = a->send_starts.at;
    const void *recv_counts = a->recv_counts.at, *recv_starts = a->recv_starts.at;
    MPI_Op op = a->op;
    MPI_Comm comm = a->comm;
#define COUNT int
#define DISPLACEMENT int
#define LISTED(...) __VA_ARGS__
#define COLLECTIVE(code, name, started, parameters, names, ...)          \
    case DOOR_##code: {                                                  \
        static __typeof__(MPI_##name) *makes;                            \
        static __typeof__(MPI_##started) *starts;                        \
        makes = makes ? makes : door_find("PMPI_" #name, NULL);          \
        starts = starts ? starts : door_find("PMPI_" #started, NULL);    \
        return request ? starts(LISTED names, request) : makes names;    \
    }
    switch (a->operation) {
#include "collectives.h"
    default:
        return MPI_ERR_OTHER;
    }
}

/* A call, by castell or by the MPI below. */
static int call(struct trial *trial, int through)
{
    MPI_Request request = MPI_REQUEST_NULL, *place = trial->arguments.form == DOOR_STARTED ? &request : NULL;
    int error = through ? door_make(&trial->arguments, trial->comm, place) : make_below(&trial->arguments, place);
    if (!error && place)
        error = through ? MPI_Wait(&request, MPI_STATUS_IGNORE) : below_Wait(&request, MPI_STATUS_IGNORE);
    return error;
}

/* By the library whose calls follow: it finds them faster behind its own barrier than behind another's, as in a program that uses
 * only one of the two. */
static int meet(struct trial *trial, int through)
{
    return through ? castell_barrier(trial->comm->castell) : below_Barrier(trial->arguments.comm);
}

/* Seconds a call. Calls in which data goes one way would go on side by side, and large ones write what others still read: these stand
 * behind a barrier each, which is not counted. */
static double batch(struct trial *trial, int through, int calls)
{
    int is_apart = trial->is_one_way || trial->is_written;
    if (meet(trial, through))
        return -1;
    double seconds = 0, since = door_now();
    for (int at = 0; at < calls; at++) {
        if (trial->is_written)
            for (size_t byte = 0; byte < trial->sent; byte += LINE)
                ((volatile char *)trial->send)[byte] = trial->send[byte];
        if (is_apart) {
            if (meet(trial, through))
                return -1;
            since = door_now();
        }
        if (call(trial, through))
            return -1;
        if (is_apart)
            seconds += door_now() - since;
    }
    return (is_apart ? seconds : door_now() - since) / calls;
}

static int is_one_way(enum door_operation operation)
{
    switch (operation) {
    case DOOR_BCAST: case DOOR_GATHER: case DOOR_GATHERV: case DOOR_SCATTER: case DOOR_SCATTERV: case DOOR_REDUCE:
    case DOOR_SCAN: case DOOR_EXSCAN:
        return 1;
    default:
        return 0;
    }
}

/* How many blocks of one size lie behind each other in what a rank sends. */
static int blocks_of(enum door_operation operation, const struct door_comm *comm)
{
    switch (operation) {
    case DOOR_ALLTOALL: case DOOR_ALLTOALLV: case DOOR_ALLTOALLW: case DOOR_REDUCE_SCATTER: case DOOR_REDUCE_SCATTER_BLOCK:
        return comm->size;
    case DOOR_NEIGHBOR_ALLGATHER: case DOOR_NEIGHBOR_ALLGATHERV: case DOOR_NEIGHBOR_ALLTOALL: case DOOR_NEIGHBOR_ALLTOALLV:
    case DOOR_NEIGHBOR_ALLTOALLW:
        return comm->outdegree;
    default:
        return 1;
    }
}

/* Makes a call whose blocks have so many bytes. */
static void set(struct trial *trial, MPI_Comm handle, struct door_comm *comm, enum door_operation operation,
                enum door_form form, size_t block)
{
    size_t unit = block % sizeof(double) == 0 ? sizeof(double) : 1;
    int blocks = comm->size > comm->indegree ? comm->size : comm->indegree, count = (int)block;
    blocks = blocks > comm->outdegree ? blocks : comm->outdegree;
    operation = operation == DOOR_ALLTOALLW ? DOOR_ALLTOALLV
                : operation == DOOR_NEIGHBOR_ALLTOALLW ? DOOR_NEIGHBOR_ALLTOALLV : operation;
    MPI_Datatype type = MPI_BYTE;
    if (operation >= DOOR_REDUCE && operation <= DOOR_EXSCAN) {
        type = unit == 1 ? MPI_UNSIGNED_CHAR : MPI_DOUBLE;
        count = (int)(block / unit);
    }
    trial->comm = comm;
    trial->is_one_way = is_one_way(operation);
    trial->is_written = block >= WRITTEN_MIN;
    trial->sent = block * (size_t)(operation == DOOR_SCATTER || operation == DOOR_SCATTERV ? comm->size : blocks_of(operation, comm));
    trial->send = calloc((size_t)blocks * block + 1, 1);
    trial->recv = calloc((size_t)blocks * block + 1, 1);
    trial->counts = malloc(sizeof(int) * 2 * (size_t)blocks);
    if (!trial->send || !trial->recv || !trial->counts)
        abort();
    trial->starts = trial->counts + blocks;
    for (int at = 0; at < blocks; at++) {
        trial->counts[at] = count;
        trial->starts[at] = at * count;
    }
    struct door_list counts = {trial->counts, sizeof(int)}, starts = {trial->starts, sizeof(int)}, none = {NULL, sizeof(int)};
    int lists_send = operation == DOOR_SCATTERV || operation == DOOR_ALLTOALLV || operation == DOOR_NEIGHBOR_ALLTOALLV;
    int lists_recv = operation == DOOR_GATHERV || operation == DOOR_ALLGATHERV || operation == DOOR_NEIGHBOR_ALLGATHERV ||
                     operation == DOOR_REDUCE_SCATTER || (lists_send && operation != DOOR_SCATTERV);
    trial->arguments = (struct door_arguments){
        .operation = operation, .form = form, .comm = handle, .op = MPI_SUM, .send = trial->send, .recv = trial->recv,
        .send_count = count, .recv_count = count, .send_type = type, .recv_type = type,
        .send_counts = lists_send ? counts : none, .send_starts = lists_send ? starts : none,
        .recv_counts = lists_recv ? counts : none, .recv_starts = lists_recv ? starts : none};
}

/* Of all members the most, for each of some numbers. */
static int most(MPI_Comm handle, double *numbers, int count)
{
    return below_Allreduce(MPI_IN_PLACE, numbers, count, MPI_DOUBLE, MPI_MAX, handle);
}

static double least(const double *numbers, int count)
{
    double found = numbers[0];
    for (int at = 1; at < count; at++)
        found = numbers[at] < found ? numbers[at] : found;
    return found;
}

/* Both take turns. `seconds`: castell's and the other's, of the round that nothing else disturbed, alike for all members. 0: one of
 * them failed. */
static int take_turns(struct trial *trial, double seconds[2])
{
    double taken[2][ROUNDS], once[2];
    MPI_Comm handle = trial->arguments.comm;
    int is_fine = 1, rounds = ROUNDS;
    /* The first calls find their memory. What they last with their barriers says how many there can be. */
    for (int round = 0; round < 2; round++)
        for (int who = 0; who < 2; who++) {
            double since = door_now();
            is_fine &= batch(trial, !who, 1) >= 0;
            once[who] = door_now() - since;
        }
    double together[3] = {once[0], once[1], !is_fine};
    if (most(handle, together, 3) || together[2] > 0)
        return 0;
    double both = together[0] + together[1];
    int calls = both * BATCH_CALLS < 2 * BATCH_MAX ? BATCH_CALLS : (int)(2 * BATCH_MAX / both);
    calls = calls < 1 ? 1 : calls;
    if (rounds * calls * both > MEASUREMENT_MAX)
        rounds = ROUNDS_MIN;
    for (int round = 0; round < rounds; round++)
        for (int turn = 0; turn < 2; turn++) {
            int who = (round + turn) % 2;
            taken[who][round] = batch(trial, !who, calls);
        }
    if (most(handle, taken[0], rounds) || most(handle, taken[1], rounds))
        return 0;
    for (int who = 0; who < 2; who++)
        seconds[who] = least(taken[who], rounds);
    return seconds[0] > 0 && seconds[1] > 0;
}

/* Measures calls to which the members contribute so many bytes in the mean. The state of their class. */
static unsigned char measure(MPI_Comm handle, struct door_comm *comm, enum door_operation operation, enum door_form form,
                             double bytes, double blocks)
{
    double seconds[2], since = door_now();
    struct trial trial = {0};
    size_t block = operation == DOOR_BARRIER ? 0 : (size_t)(bytes / (blocks > 0 ? blocks : 1));
    if ((double)block * comm->size > ROOM_MAX)
        return DOOR_BELOW;
    block = block > 64 ? block & ~(size_t)7 : block;
    set(&trial, handle, comm, operation, form, block);
    unsigned char state = DOOR_BELOW;
    if (take_turns(&trial, seconds)) {
        state = door_is_faster(seconds[0], seconds[1]) ? DOOR_CASTELL : DOOR_BELOW;
        door_keep(comm, operation, form, (size_t)bytes, seconds);
    }
    free(trial.send);
    free(trial.recv);
    free(trial.counts);
    spent += door_now() - since;
    measured++;
    return state;
}

/* All members are here, in a blocking call: they agree on a class of calls. */
static void settle(MPI_Comm handle, struct door_comm *comm, enum door_operation operation, enum door_form form, int class,
                   size_t even)
{
    struct door_choices *choices = comm->choices;
    unsigned char *state = &choices->states[operation][form][class];
    double sums[4] = {choices->bytes[operation][form], choices->calls[operation][form], blocks_of(operation, comm), comm->size};
    double over[1] = {spent > ALL_MAX};
    if (below_Allreduce(MPI_IN_PLACE, sums, 4, MPI_DOUBLE, MPI_SUM, handle) || most(handle, over, 1)) {
        *state = DOOR_BELOW;
        return;
    }
    double bytes = class == DOOR_UNEVEN ? sums[1] > 0 ? sums[0] / sums[1] : 0 : (double)even;
    /* Of uneven calls this is the class of the mean, which may be known. */
    unsigned char *mean = &choices->states[operation][form][door_class((size_t)bytes)];
    if (*mean < DOOR_CASTELL)
        *mean = over[0] > 0 ? DOOR_UNMEASURED : measure(handle, comm, operation, form, bytes, sums[2] / comm->size);
    *state = *mean;
}

static int calls_before(int class, size_t bytes)
{
    if (class == DOOR_UNEVEN)
        return MIDDLE_CALLS;
    return bytes <= SMALL_MAX ? SMALL_CALLS : bytes <= MIDDLE_MAX ? MIDDLE_CALLS : LARGE_CALLS;
}

enum door_why door_choose(const struct door_arguments *a, struct door_comm *comm, size_t bytes)
{
    struct door_choices *choices = comm->choices;
    enum door_form form = a->form == DOOR_BLOCKING ? DOOR_BLOCKING : DOOR_STARTED;
    int class = door_is_even(a->operation) ? door_class(bytes) : DOOR_UNEVEN;
    unsigned char *state = &choices->states[a->operation][form][class];
    if (form == DOOR_BLOCKING)
        door_choose_waiting(a->comm, comm);
    if (*state < DOOR_WAITS) {
        choices->bytes[a->operation][form] += (double)bytes;
        choices->calls[a->operation][form]++;
        if (++*state >= calls_before(class, bytes)) {
            if (form == DOOR_BLOCKING) {
                settle(a->comm, comm, a->operation, form, class, bytes);
            } else if (choices->waiting_count < DOOR_WAITING_MAX) {
                choices->waiting[choices->waiting_count++] = (struct door_waiting){a->operation, class, bytes};
                *state = DOOR_WAITS;
            } else {
                --*state;
            }
        }
    }
    return *state == DOOR_CASTELL ? DOOR_THROUGH : *state == DOOR_BELOW ? DOOR_SLOWER : DOOR_FEW;
}

void door_choose_waiting(MPI_Comm handle, struct door_comm *comm)
{
    struct door_choices *choices = comm->choices;
    while (choices->waiting_count > 0) {
        struct door_waiting waiting = choices->waiting[--choices->waiting_count];
        settle(handle, comm, waiting.operation, DOOR_STARTED, waiting.class, waiting.bytes);
    }
}

/* What all members know of communicators of this placement. */
void door_choices_set(MPI_Comm handle, struct door_comm *comm)
{
    struct door_choices *choices = comm->choices = calloc(1, sizeof *choices);
    if (!choices)
        abort();
    door_kept_for(comm->placement, choices);
    if (comm->size == 1)
        return;
    /* Where one knows nothing, or something else, all know nothing. */
    struct { unsigned char most[sizeof choices->states], least[sizeof choices->states]; } both;
    unsigned char *states = &choices->states[0][0][0];
    for (size_t at = 0; at < sizeof both.most; at++) {
        both.most[at] = states[at];
        both.least[at] = (unsigned char)~states[at];
    }
    if (below_Allreduce(MPI_IN_PLACE, &both, (int)sizeof both, MPI_UNSIGNED_CHAR, MPI_MAX, handle))
        memset(&both, 0, sizeof both);
    for (size_t at = 0; at < sizeof both.most; at++)
        states[at] = both.most[at] == (unsigned char)~both.least[at] ? both.most[at] : 0;
}

int door_measured(double *seconds)
{
    *seconds = spent;
    return measured;
}
