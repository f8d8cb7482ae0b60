/* plan.c: what castell is asked for each call of MPI, and what has to be done before and after. Reductions are in reduce.c, calls
 * among neighbours in neighbours.c.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "door.h"

#include <stdlib.h>
#include <string.h>

/* The sides of a call, as they were passed. */
static struct door_side send_side(const struct door_arguments *a, int parts)
{
    return (struct door_side){.base = (char *)a->send, .parts = parts, .count = a->send_count, .type = a->send_type,
                              .is_listed = a->send_counts.at != NULL, .counts = a->send_counts,
                              .starts = a->send_starts, .types = a->send_types,
                              .starts_are_bytes = a->send_types != NULL};
}

static struct door_side recv_side(const struct door_arguments *a, int parts)
{
    return (struct door_side){.base = a->recv, .parts = parts, .count = a->recv_count, .type = a->recv_type,
                              .is_listed = a->recv_counts.at != NULL, .counts = a->recv_counts,
                              .starts = a->recv_starts, .types = a->recv_types,
                              .starts_are_bytes = a->recv_types != NULL};
}

static int set_send(struct door_plan *plan, struct door_side side)
{
    plan->send = side;
    if (!door_side_set(&plan->send))
        return 0;
    plan->packs_send = DOOR_PACKS_ALL;
    plan->call.send = plan->send.address;
    plan->call.send_counts = plan->send.sizes;
    plan->call.send_starts = plan->send.places;
    return 1;
}

static int set_recv(struct door_plan *plan, struct door_side side)
{
    plan->recv = side;
    if (!door_side_set(&plan->recv))
        return 0;
    plan->unpacks = 1;
    plan->call.recv = plan->recv.address;
    plan->call.recv_counts = plan->recv.sizes;
    plan->call.recv_starts = plan->recv.places;
    return 1;
}

static int bcast(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, size_t *bytes)
{
    if (!set_recv(plan, recv_side(a, 1)))
        return 0;
    int is_root = comm->rank == a->root;
    plan->packs_recv = is_root ? DOOR_PACKS_ALL : DOOR_LEAVES;
    plan->unpacks = !is_root;
    plan->call.count = *bytes = plan->recv.bytes;
    return 1;
}

/* Gathers; with a list, `is_listed` everywhere. */
static int gather(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, size_t *bytes)
{
    int is_root = comm->rank == a->root, in_place = a->send == MPI_IN_PLACE;
    int is_listed = a->operation == DOOR_GATHERV;
    if (in_place && !is_root)
        return 0;
    if (is_root) {
        struct door_side side = recv_side(a, comm->size);
        side.is_listed = is_listed;
        if (!set_recv(plan, side))
            return 0;
        size_t own = is_listed ? plan->recv.sizes[comm->rank] : plan->recv.bytes / (size_t)comm->size;
        plan->call.count = *bytes = own;
    }
    if (in_place) {
        plan->call.send = CASTELL_IN_PLACE;
        plan->packs_recv = DOOR_PACKS_OWN;
        return 1;
    }
    if (!set_send(plan, send_side(a, 1)))
        return 0;
    plan->call.count = *bytes = plan->send.bytes;
    if (is_listed && !is_root)
        plan->call.recv_counts = &plan->call.count;
    return 1;
}

static int scatter(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, size_t *bytes)
{
    int is_root = comm->rank == a->root, in_place = a->recv == MPI_IN_PLACE;
    int is_listed = a->operation == DOOR_SCATTERV;
    if (in_place && !is_root)
        return 0;
    if (is_root) {
        struct door_side side = send_side(a, comm->size);
        side.is_listed = is_listed;
        if (!set_send(plan, side))
            return 0;
        size_t own = is_listed ? plan->send.sizes[comm->rank] : plan->send.bytes / (size_t)comm->size;
        plan->call.count = *bytes = own;
    }
    if (in_place) {
        plan->call.recv = CASTELL_IN_PLACE;
        return 1;
    }
    if (!set_recv(plan, recv_side(a, 1)))
        return 0;
    plan->call.count = *bytes = plan->recv.bytes;
    if (is_listed && !is_root)
        plan->call.send_counts = &plan->call.count;
    return 1;
}

/* Where the own part of what is received lies. Programs send from there, too, and do not say that it is in place. */
static int sends_from_own(const struct door_plan *plan, int rank)
{
    const struct door_side *recv = &plan->recv;
    size_t place = recv->is_listed ? recv->places[rank] : recv->bytes / (size_t)recv->parts * (size_t)rank;
    return !recv->packed && !plan->send.packed && plan->send.bytes && plan->send.address == recv->address + place;
}

static int allgather(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, size_t *bytes)
{
    if (!set_recv(plan, recv_side(a, comm->size)))
        return 0;
    const struct door_side *recv = &plan->recv;
    plan->call.count = *bytes = recv->is_listed ? recv->sizes[comm->rank] : recv->bytes / (size_t)comm->size;
    int in_place = a->send == MPI_IN_PLACE;
    if (!in_place) {
        if (!set_send(plan, send_side(a, 1)))
            return 0;
        in_place = sends_from_own(plan, comm->rank);
    }
    if (in_place) {
        plan->call.send = CASTELL_IN_PLACE;
        plan->packs_recv = DOOR_PACKS_OWN;
    }
    plan->call.send_counts = plan->call.send_starts = NULL;
    return 1;
}

static int alltoall(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, size_t *bytes)
{
    int in_place = a->send == MPI_IN_PLACE || (a->send == a->recv && a->recv);
    if (!set_recv(plan, recv_side(a, comm->size)))
        return 0;
    *bytes = plan->recv.bytes;
    if (in_place) {
        plan->call.send = CASTELL_IN_PLACE;
        plan->call.send_counts = plan->call.recv_counts;
        plan->call.send_starts = plan->call.recv_starts;
        plan->packs_recv = DOOR_PACKS_ALL;
    } else {
        if (!set_send(plan, send_side(a, comm->size)))
            return 0;
        *bytes = plan->send.bytes;
    }
    plan->call.count = plan->recv.is_listed ? 0 : plan->recv.bytes / (size_t)comm->size;
    return 1;
}

enum door_why door_plan(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm, size_t *bytes)
{
    memset(plan, 0, sizeof *plan);
    plan->call.type = CASTELL_UINT8;
    plan->call.root = a->root;
    plan->own = comm->rank;
    *bytes = 0;
    /* Counts are looked at where they mean something. */
    int is_fine = a->root >= 0 && a->root < comm->size;
#define IS(operation_of_castell, function)                  \
    plan->call.operation = CASTELL_DOOR_##operation_of_castell; \
    is_fine = is_fine && function(plan, a, comm, bytes);    \
    break
    switch (a->operation) {
    case DOOR_BARRIER: plan->call.operation = CASTELL_DOOR_BARRIER; break;
    case DOOR_BCAST: IS(BCAST, bcast);
    case DOOR_GATHER: case DOOR_GATHERV: IS(GATHER, gather);
    case DOOR_SCATTER: case DOOR_SCATTERV: IS(SCATTER, scatter);
    case DOOR_ALLGATHER: case DOOR_ALLGATHERV: IS(ALLGATHER, allgather);
    case DOOR_ALLTOALL: case DOOR_ALLTOALLV: case DOOR_ALLTOALLW: IS(ALLTOALL, alltoall);
    case DOOR_NEIGHBOR_ALLGATHER: case DOOR_NEIGHBOR_ALLGATHERV: case DOOR_NEIGHBOR_ALLTOALL: case DOOR_NEIGHBOR_ALLTOALLV:
    case DOOR_NEIGHBOR_ALLTOALLW: return door_plan_neighbours(plan, a, comm, bytes);
    default: return is_fine && a->recv_count >= 0 ? door_plan_reduction(plan, a, comm, bytes) : DOOR_ARGUMENT;
    }
#undef IS
    return is_fine ? DOOR_THROUGH : DOOR_ARGUMENT;
}

int door_plan_before(struct door_plan *plan)
{
    int error = plan->packs_send ? door_side_pack(&plan->send, -1) : 0;
    if (!error && plan->packs_recv)
        error = door_side_pack(&plan->recv, plan->packs_recv == DOOR_PACKS_OWN ? plan->own : -1);
    return error ? error : door_reduction_before(&plan->reduction);
}

int door_plan_after(struct door_plan *plan)
{
    int error = plan->unpacks ? door_side_unpack(&plan->recv) : 0;
    return error ? error : door_reduction_after(&plan->reduction);
}

void door_plan_free(struct door_plan *plan)
{
    free(plan->send.packed);
    free(plan->send.sizes);
    free(plan->recv.packed);
    free(plan->recv.sizes);
    free(plan->reduction.copy);
    free(plan->reduction.raw);
    free(plan->reduction.gathered);
    free(plan->lists[0]);
    free(plan->lists[1]);
    free(plan->neighbours);
}
