/* reduce.c: reductions. What castell reduces by itself it is given as it is. An operator of the program, or of the MPI below, is
 * only called in the program's own threads, inside a call of MPI: in blocking calls castell calls it there; of others castell
 * carries the vectors of all ranks to those that want the result, which reduce them, in the order of ranks, when the call is over.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "door.h"

#include <stdlib.h>
#include <string.h>

static void *room(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    if (!memory)
        abort();
    return memory;
}

/* Bytes of so many elements; those behind the last one's data need not be there. */
static size_t bytes_of(const struct door_type *known, MPI_Count count)
{
    if (count == 0)
        return 0;
    return (size_t)((count - 1) * known->extent + known->true_lb + known->true_extent - known->lb);
}

static MPI_Count total(const struct door_arguments *a, int ranks)
{
    MPI_Count all = 0;
    for (int at = 0; at < ranks; at++)
        all += door_item(a->recv_counts, at);
    return all;
}

/* How many elements go in and come out here. 0: what was passed cannot be. */
static int count(const struct door_arguments *a, struct door_comm *comm, MPI_Count *in, MPI_Count *out)
{
    *in = *out = a->recv_count;
    switch (a->operation) {
    case DOOR_REDUCE:
        *out = comm->rank == a->root ? a->recv_count : 0;
        return comm->rank == a->root || a->send != MPI_IN_PLACE;
    case DOOR_EXSCAN:
        *out = comm->rank == 0 ? 0 : a->recv_count;
        return 1;
    case DOOR_REDUCE_SCATTER_BLOCK:
        *in = a->recv_count * comm->size;
        return 1;
    case DOOR_REDUCE_SCATTER:
        if (!a->recv_counts.at)
            return 0;
        for (int at = 0; at < comm->size; at++)
            if (door_item(a->recv_counts, at) < 0)
                return 0;
        *in = total(a, comm->size);
        *out = door_item(a->recv_counts, comm->rank);
        return 1;
    default:
        return 1;
    }
}

/* The counts of a reduce-scatter and where they start, in units of so many bytes. */
static size_t *lists(const struct door_arguments *a, int ranks, size_t unit)
{
    size_t *counts = room(sizeof(size_t) * 2 * (size_t)ranks), next = 0;
    for (int at = 0; at < ranks; at++) {
        counts[at] = (size_t)door_item(a->recv_counts, at) * unit;
        counts[ranks + at] = next;
        next += counts[at];
    }
    return counts;
}

/* castell makes the whole reduction. */
static void directly(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, int in_place)
{
    static const int operations[DOOR_OPERATIONS] = {
        [DOOR_REDUCE] = CASTELL_DOOR_REDUCE, [DOOR_ALLREDUCE] = CASTELL_DOOR_ALLREDUCE,
        [DOOR_REDUCE_SCATTER] = CASTELL_DOOR_REDUCE_SCATTER, [DOOR_REDUCE_SCATTER_BLOCK] = CASTELL_DOOR_REDUCE_SCATTER,
        [DOOR_SCAN] = CASTELL_DOOR_SCAN, [DOOR_EXSCAN] = CASTELL_DOOR_EXSCAN};
    struct door_reduction *reduction = &plan->reduction;
    castell_door_call *call = &plan->call;
    const struct door_type *known = reduction->known;
    call->operation = operations[a->operation];
    call->count = (size_t)a->recv_count;
    if (a->operation == DOOR_REDUCE_SCATTER) {
        plan->lists[0] = lists(a, comm->size, 1);
        call->send_counts = plan->lists[0];
        call->count = 0;
    }
    call->send = in_place ? CASTELL_IN_PLACE : reduction->input;
    call->recv = reduction->output;
    if (known->is != DOOR_DERIVED || known->is_dense)
        return;
    /* What is between the elements stays as it is, and what is behind the last one may belong to somebody else. */
    MPI_Count most = reduction->input_count > reduction->output_count ? reduction->input_count : reduction->output_count;
    reduction->raw = room((size_t)(most * known->extent));
    reduction->output_is_input = in_place || a->operation == DOOR_EXSCAN;
    call->recv = reduction->raw;
    if (!in_place) {
        reduction->copy = room((size_t)(reduction->input_count * known->extent));
        call->send = reduction->copy;
    }
}

/* castell carries the vectors. */
static void by_folding(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, int in_place)
{
    struct door_reduction *reduction = &plan->reduction;
    castell_door_call *call = &plan->call;
    size_t extent = (size_t)reduction->known->extent, vector = (size_t)reduction->output_count * extent;
    if (in_place)
        reduction->input = reduction->output;
    call->op = NULL;
    call->type = CASTELL_UINT8;
    call->send = reduction->input;
    call->count = (size_t)reduction->input_count * extent;
    if (reduction->known->is == DOOR_DERIVED && !reduction->known->is_dense) {
        reduction->copy = room(call->count);
        call->send = reduction->copy;
    }
    reduction->folds = reduction->output_count == 0 ? 0 : comm->size;
    switch (a->operation) {
    case DOOR_REDUCE:
        call->operation = CASTELL_DOOR_GATHER;
        break;
    case DOOR_REDUCE_SCATTER_BLOCK:
        call->operation = CASTELL_DOOR_ALLTOALL;
        call->count = vector;
        break;
    case DOOR_REDUCE_SCATTER:
        call->operation = CASTELL_DOOR_ALLTOALL;
        plan->lists[0] = lists(a, comm->size, extent);
        call->send_counts = plan->lists[0];
        call->send_starts = plan->lists[0] + comm->size;
        plan->lists[1] = room(sizeof(size_t) * 2 * (size_t)comm->size);
        for (int at = 0; at < comm->size; at++) {
            plan->lists[1][at] = vector;
            plan->lists[1][comm->size + at] = vector * (size_t)at;
        }
        call->recv_counts = plan->lists[1];
        call->recv_starts = plan->lists[1] + comm->size;
        call->count = 0;
        break;
    default:
        call->operation = CASTELL_DOOR_ALLGATHER;
        vector = (size_t)reduction->input_count * extent;
        if (a->operation == DOOR_SCAN)
            reduction->folds = comm->rank + 1;
        if (a->operation == DOOR_EXSCAN)
            reduction->folds = comm->rank;
    }
    reduction->gathered = room(vector * (size_t)comm->size);
    call->recv = reduction->gathered;
}

enum door_why door_plan_reduction(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm,
                                  size_t *bytes)
{
    struct door_reduction *reduction = &plan->reduction;
    castell_door_call *call = &plan->call;
    const struct door_type *known = door_type_of(a->recv_type);
    if (!known || a->recv == MPI_IN_PLACE)
        return DOOR_ARGUMENT;
    int how = door_op_of(a->op, a->recv_type, known, &call->type, &call->op);
    if (how < 0)
        return (enum door_why)-how;
    *reduction = (struct door_reduction){.op = a->op, .type = a->recv_type, .known = known};
    if (!count(a, comm, &reduction->input_count, &reduction->output_count))
        return DOOR_ARGUMENT;
    int gets = a->operation != DOOR_REDUCE || comm->rank == a->root;
    /* Programs pass the same buffer twice, which MPI forbids and most forgive. */
    int in_place = a->send == MPI_IN_PLACE || (a->send == a->recv && a->send && gets);
    if ((!in_place && !a->send && reduction->input_count && !known->true_lb) ||
        (gets && !a->recv && a->operation != DOOR_EXSCAN && reduction->output_count && !known->true_lb))
        return DOOR_ARGUMENT;
    *bytes = (size_t)(reduction->input_count * known->size);
    reduction->input = in_place ? NULL : (const char *)a->send + known->lb;
    reduction->output = gets ? (char *)a->recv + known->lb : NULL;
    if (how == 2 && a->form != DOOR_BLOCKING)
        by_folding(plan, a, comm, in_place);
    else
        directly(plan, a, comm, in_place);
    return DOOR_THROUGH;
}

int door_reduction_before(const struct door_reduction *reduction)
{
    if (reduction->copy)
        memcpy(reduction->copy, reduction->input, bytes_of(reduction->known, reduction->input_count));
    if (reduction->raw && reduction->output_is_input) {
        MPI_Count count = reduction->input ? reduction->output_count : reduction->input_count;
        memcpy(reduction->raw, reduction->output, bytes_of(reduction->known, count));
    }
    return 0;
}

/* Elements to where the program wants them, and nothing but those. */
static int put(const struct door_reduction *reduction, const char *elements)
{
    const struct door_type *known = reduction->known;
    MPI_Count count = reduction->output_count, bytes = count * known->size;
    if (known->is != DOOR_DERIVED || known->is_dense) {
        memcpy(reduction->output, elements, bytes_of(known, count));
        return 0;
    }
    char *packed = room((size_t)bytes);
    int error = door_pack(elements - known->lb, count, reduction->type, packed, bytes);
    if (!error)
        error = door_unpack(packed, bytes, reduction->output - known->lb, count, reduction->type);
    free(packed);
    return error;
}

int door_reduction_after(const struct door_reduction *reduction)
{
    if (reduction->raw && reduction->output && reduction->output_count)
        return put(reduction, reduction->raw);
    if (!reduction->folds)
        return 0;
    size_t vector = (size_t)(reduction->output_count * reduction->known->extent);
    char *result = reduction->gathered + vector * (size_t)(reduction->folds - 1);
    for (int rank = reduction->folds - 2; rank >= 0; rank--)
        door_reduce(reduction->gathered + vector * (size_t)rank, result, reduction->output_count, reduction->op,
                    reduction->type);
    return put(reduction, result);
}
