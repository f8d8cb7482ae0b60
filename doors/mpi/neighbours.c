/* neighbours.c: calls among the neighbours of a topology. Parts of neighbours that are none (MPI_PROC_NULL) are left out.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "door.h"

#include <stdlib.h>

/* A side with a list of its own parts, also where they all have one size. */
static int set(struct door_side *side)
{
    if (!door_side_set(side))
        return 0;
    if (side->is_listed)
        return 1;
    size_t each = side->parts ? side->bytes / (size_t)side->parts : 0;
    side->sizes = malloc(sizeof(size_t) * (size_t)(2 * side->parts + 1));
    if (!side->sizes)
        abort();
    side->places = side->sizes + side->parts;
    for (int at = 0; at < side->parts; at++) {
        side->sizes[at] = each;
        side->places[at] = each * (size_t)at;
    }
    return 1;
}

/* Keeps the ranks that there are, with the sizes and places of their parts; returns how many. */
static int present(const int *neighbours, int count, const struct door_side *side, int *ranks, size_t *lists, int swaps)
{
    int kept = 0;
    for (int number = 0; number < count; number++) {
        /* Along a dimension what goes up arrives from below, also if both neighbours are the same rank. */
        int at = swaps ? number ^ 1 : number;
        if (neighbours[at] < 0)
            continue;
        ranks[kept] = neighbours[at];
        if (lists) {
            lists[kept] = side->sizes[at];
            lists[count + kept] = side->places[at];
        }
        kept++;
    }
    return kept;
}

static size_t *room(int parts)
{
    size_t *lists = malloc(sizeof(size_t) * (size_t)(2 * parts + 1));
    if (!lists)
        abort();
    return lists;
}

enum door_why door_plan_neighbours(struct door_plan *plan, const struct door_arguments *a, struct door_comm *comm,
                                   size_t *bytes)
{
    castell_door_call *call = &plan->call;
    if (!comm->has_neighbours)
        door_neighbours(comm, a->comm);
    if (comm->has_neighbours < 0)
        return DOOR_NO_TOPOLOGY;
    if (a->send == MPI_IN_PLACE || a->recv == MPI_IN_PLACE)
        return DOOR_ARGUMENT;
    int is_allgather = a->operation == DOOR_NEIGHBOR_ALLGATHER || a->operation == DOOR_NEIGHBOR_ALLGATHERV;
    int in = comm->indegree, out = comm->outdegree;
    plan->send = (struct door_side){.base = (char *)a->send, .parts = is_allgather ? 1 : out, .count = a->send_count,
                                    .type = a->send_type, .is_listed = a->send_counts.at != NULL,
                                    .counts = a->send_counts, .starts = a->send_starts, .types = a->send_types,
                                    .starts_are_bytes = a->send_types != NULL};
    plan->recv = (struct door_side){.base = a->recv, .parts = in, .count = a->recv_count, .type = a->recv_type,
                                    .is_listed = a->recv_counts.at != NULL, .counts = a->recv_counts,
                                    .starts = a->recv_starts, .types = a->recv_types,
                                    .starts_are_bytes = a->recv_types != NULL};
    if ((plan->send.parts && !set(&plan->send)) || (in && !set(&plan->recv)))
        return DOOR_ARGUMENT;
    call->operation = is_allgather ? CASTELL_DOOR_NEIGHBOUR_ALLGATHER : CASTELL_DOOR_NEIGHBOUR_ALLTOALL;
    plan->packs_send = DOOR_PACKS_ALL;
    plan->unpacks = 1;
    plan->neighbours = malloc(sizeof(int) * (size_t)(in + out + 1));
    if (!plan->neighbours)
        abort();
    plan->lists[0] = room(in);
    plan->lists[1] = room(out);
    call->indegree = present(comm->sources, in, &plan->recv, plan->neighbours, plan->lists[0], 0);
    call->outdegree = present(comm->destinations, out, &plan->send, plan->neighbours + in,
                              is_allgather ? NULL : plan->lists[1], comm->is_cartesian);
    call->sources = plan->neighbours;
    call->destinations = plan->neighbours + in;
    call->recv_counts = plan->lists[0];
    call->recv_starts = plan->lists[0] + in;
    if (!is_allgather) {
        call->send_counts = plan->lists[1];
        call->send_starts = plan->lists[1] + out;
    }
    call->send = plan->send.address;
    call->recv = plan->recv.address;
    call->count = is_allgather ? plan->send.bytes : 0;
    *bytes = plan->send.bytes * (size_t)(is_allgather ? out : 1);
    return DOOR_THROUGH;
}
