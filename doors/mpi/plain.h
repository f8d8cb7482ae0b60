/* plain.h: calls as most programs make them, straight to castell.h: blocking, of contiguous predefined types, with operators that castell
 * has, not in place. All others get a plan (answer.c). This is what a call costs that goes through the door, so it is made part of each
 * entry point: the compiler leaves of it what the operation needs (`cargo xtask instructions` counts that).
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef PLAIN_H
#define PLAIN_H

#include "door.h"

#define INLINE static inline __attribute__((always_inline))

enum door_way {
    DOOR_ASKS,  /* door_answer knows more */
    DOOR_MADE,  /* castell has made the call */
    DOOR_PASSES /* the MPI below makes it, and nobody wants to know */
};

/* A type that is laid out as its bytes; NULL: it may be any. */
INLINE const struct door_type *plain_type(MPI_Datatype handle)
{
    const struct door_seen *seen = &door_seen[door_seen_at(handle)];
    return seen->handle == handle && seen->plain ? seen->plain : door_plain_type(handle);
}

INLINE int is_plain(const void *at, MPI_Count count, MPI_Datatype handle, size_t *bytes)
{
    if (at == MPI_IN_PLACE || !at || count < 0)
        return 0;
    const struct door_type *type = plain_type(handle);
    if (!type)
        return 0;
    *bytes = (size_t)count * (size_t)type->size;
    return 1;
}

/* What castell is asked for. */
struct plain {
    castell_type type;
    castell_op op;
    size_t count, bytes; /* as castell counts them, and what the rank contributes */
    void *recv;
};

INLINE int plain_reduction(struct plain *plain, const struct door_arguments *a, const struct door_comm *comm)
{
    int gets = a->operation != DOOR_REDUCE || comm->rank == a->root;
    if (!a->send || a->send == MPI_IN_PLACE || a->send == a->recv || (gets && (!a->recv || a->recv == MPI_IN_PLACE)) ||
        a->recv_count < 0)
        return 0;
    const struct door_operator *seen = &door_operator;
    if (seen->op != a->op || seen->type != a->recv_type || !seen->element)
        if (!door_native(a->op, a->recv_type))
            return 0;
    plain->type = seen->element;
    plain->op = seen->found;
    plain->count = (size_t)a->recv_count;
    plain->bytes = plain->count * seen->size * (size_t)(a->operation == DOOR_REDUCE_SCATTER_BLOCK ? comm->size : 1);
    plain->recv = gets ? a->recv : NULL;
    return 1;
}

/* Blocks of one size that leave, and those that arrive. */
INLINE int plain_blocks(struct plain *plain, const struct door_arguments *a, const struct door_comm *comm, int leaves, int arrives)
{
    size_t leaving = 0, arriving = 0;
    if ((leaves && !is_plain(a->send, a->send_count, a->send_type, &leaving)) ||
        (arrives && !is_plain(a->recv, a->recv_count, a->recv_type, &arriving)) || (leaves && arrives && a->send == a->recv))
        return 0;
    plain->type = CASTELL_UINT8;
    plain->count = leaves ? leaving : arriving;
    plain->bytes = plain->count * (size_t)(a->operation == DOOR_ALLTOALL ? comm->size : 1);
    plain->recv = arrives ? a->recv : NULL;
    return 1;
}

/* What the call is. 0: not plain. */
INLINE int plain_of(struct plain *plain, const struct door_arguments *a, const struct door_comm *comm)
{
    int is_root = comm->rank == a->root;
    if (a->root < 0 || a->root >= comm->size)
        return 0;
    switch (a->operation) {
    case DOOR_BARRIER:
        plain->bytes = 0;
        return 1;
    case DOOR_BCAST:
        return plain_blocks(plain, a, comm, 0, 1);
    case DOOR_GATHER:
        return plain_blocks(plain, a, comm, 1, is_root);
    case DOOR_SCATTER:
        return plain_blocks(plain, a, comm, is_root, 1);
    case DOOR_ALLGATHER:
        /* Programs send from where their own part arrives. */
        return plain_blocks(plain, a, comm, 1, 1) && (const char *)a->send != (char *)a->recv + plain->count * (size_t)comm->rank;
    case DOOR_ALLTOALL:
        return plain_blocks(plain, a, comm, 1, 1);
    case DOOR_REDUCE: case DOOR_ALLREDUCE: case DOOR_REDUCE_SCATTER_BLOCK: case DOOR_SCAN:
        return plain_reduction(plain, a, comm);
    default:
        return 0;
    }
}

INLINE int plain_call(const struct plain *plain, const struct door_arguments *a, castell_comm comm)
{
    switch (a->operation) {
    case DOOR_BARRIER: return castell_barrier(comm);
    case DOOR_BCAST: return castell_bcast(plain->recv, plain->count, plain->type, a->root, comm);
    case DOOR_GATHER: return castell_gather(a->send, plain->count, plain->type, plain->recv, a->root, comm);
    case DOOR_SCATTER: return castell_scatter(a->send, plain->count, plain->type, plain->recv, a->root, comm);
    case DOOR_ALLGATHER: return castell_allgather(a->send, plain->count, plain->type, plain->recv, comm);
    case DOOR_ALLTOALL: return castell_alltoall(a->send, plain->count, plain->type, plain->recv, comm);
    case DOOR_REDUCE: return castell_reduce(a->send, plain->recv, plain->count, plain->type, plain->op, a->root, comm);
    case DOOR_ALLREDUCE: return castell_allreduce(a->send, plain->recv, plain->count, plain->type, plain->op, comm);
    case DOOR_REDUCE_SCATTER_BLOCK:
        return castell_reduce_scatter_block(a->send, plain->recv, plain->count, plain->type, plain->op, comm);
    default: return castell_scan(a->send, plain->recv, plain->count, plain->type, plain->op, comm);
    }
}

/* Makes a plain call, if castell is to make it. */
INLINE enum door_way door_quick(const struct door_arguments *a, int *result)
{
    struct plain plain;
    if (!door_is_quick || !door_settings.is_chosen[a->operation])
        return DOOR_ASKS;
    struct door_comm *comm = a->comm == MPI_COMM_WORLD ? door_world : door_last_comm(a->comm);
    if (!comm || comm->why != DOOR_THROUGH || !plain_of(&plain, a, comm))
        return DOOR_ASKS;
    if (comm->choices) {
        enum door_form form = a->form == DOOR_BLOCKING ? DOOR_BLOCKING : DOOR_STARTED;
        unsigned char state = comm->choices->states[a->operation][form][door_class(plain.bytes)];
        if (state < DOOR_CASTELL || (form == DOOR_BLOCKING && comm->choices->waiting_count))
            return DOOR_ASKS;
        if (state == DOOR_BELOW)
            return DOOR_PASSES;
    }
    if (a->form != DOOR_BLOCKING)
        return DOOR_ASKS;
    int code = plain_call(&plain, a, comm->castell);
    *result = code ? door_failed(comm, code) : MPI_SUCCESS;
    return DOOR_MADE;
}

#endif
