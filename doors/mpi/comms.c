/* comms.c: communicators. All members agree on castell's one when a communicator is made by a call that they all are in, or else when
 * it is first used in a blocking collective call; what they found is kept with it as an attribute.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int keyval = MPI_KEYVAL_INVALID;
struct door_comm *door_world;
static struct door_comm *self;
static int *places; /* of each rank of the world: its rank in castell's, or -1 */
static int *hosts;  /* of each rank of castell's */
static int world_size, joined_size;
/* How many communicators were freed: a handle is given out again. */
uint64_t door_comms_freed = 1;
_Thread_local struct door_last door_last;

int door_exchange(const void *mine, size_t bytes, void *all, void *context)
{
    const MPI_Comm *comm = context;
    return below_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *comm);
}

void door_comm_use(struct door_comm *comm)
{
    __atomic_fetch_add(&comm->users, 1, __ATOMIC_RELAXED);
}

void door_comm_drop(struct door_comm *comm)
{
    if (__atomic_sub_fetch(&comm->users, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (comm->castell && comm->castell != CASTELL_WORLD)
        castell_comm_free(&comm->castell);
    free(comm->sources);
    free(comm->destinations);
    free(comm->choices);
    free(comm->members);
    free(comm);
}

/* The members as ranks of castell's world; NULL and why not. */
static int *members_of(MPI_Comm handle, int size, enum door_why *why)
{
    MPI_Group group, all;
    int *mine = malloc(sizeof(int) * (size_t)(size + 1) * 2), *theirs = mine + size + 1;
    if (!mine)
        abort();
    for (int at = 0; at < size; at++)
        mine[at] = at;
    below_Comm_group(handle, &group);
    below_Comm_group(MPI_COMM_WORLD, &all);
    below_Group_translate_ranks(group, size, mine, all, theirs);
    below_Group_free(&group);
    below_Group_free(&all);
    for (int at = 0; at < size; at++) {
        if (theirs[at] == MPI_UNDEFINED || places[theirs[at]] < 0) {
            *why = theirs[at] == MPI_UNDEFINED ? DOOR_ELSEWHERE : DOOR_APART;
            free(mine);
            return NULL;
        }
        mine[at] = places[theirs[at]];
    }
    return mine;
}

/* Says on how many hosts the members are, and in which order. */
static void place(struct door_comm *comm)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    /* Hosts are counted in the order in which they come. */
    int *count_of = calloc((size_t)joined_size + 1, sizeof *count_of), here = comm->members[comm->rank];
    if (!count_of)
        abort();
    comm->is_first_here = 1;
    for (int at = 0; at < comm->size; at++) {
        int *count = &count_of[hosts[comm->members[at]]];
        if (!*count)
            *count = ++comm->hosts;
        hash = (hash ^ (uint64_t)*count) * 1099511628211u;
        if (at < comm->rank && hosts[comm->members[at]] == hosts[here])
            comm->is_first_here = 0;
    }
    free(count_of);
    /* On one host ranks share memory, unless all of the group are there and were told to use a network. */
    if (comm->size == 1 || (comm->hosts == 1 && (door_joined.hosts > 1 || !*door_joined.net)))
        snprintf(comm->placement, sizeof comm->placement, "%d", comm->size);
    else
        snprintf(comm->placement, sizeof comm->placement, "%d@%d:%s:%llx", comm->size, comm->hosts, door_joined.net,
                 (unsigned long long)hash);
}

/* Looks at a communicator; its members agree, if nothing is against it. */
static struct door_comm *agreed(MPI_Comm handle)
{
    struct door_comm *comm = calloc(1, sizeof *comm);
    int is_inter = 0;
    if (!comm)
        abort();
    comm->users = 1;
    comm->handle = handle;
    below_Comm_rank(handle, &comm->rank);
    below_Comm_size(handle, &comm->size);
    below_Comm_test_inter(handle, &is_inter);
    if (is_inter)
        comm->why = DOOR_INTER;
    else if (!places)
        comm->why = DOOR_NO_GROUP;
    else {
        int *members = members_of(handle, comm->size, &comm->why);
        if (members &&
            castell_door_comm(members, comm->size, door_exchange, &comm->handle, &comm->castell) != 0) {
            comm->castell = NULL;
            comm->why = DOOR_NO_CONTEXT;
        }
        comm->members = members;
        if (members)
            place(comm);
    }
    comm->rows = door_rows_new(comm);
    if (comm->why == DOOR_THROUGH && !door_settings.is_always)
        door_choices_set(handle, comm);
    return comm;
}

static int forget(MPI_Comm handle, int key, void *value, void *extra)
{
    (void)handle, (void)key, (void)extra;
    __atomic_fetch_add(&door_comms_freed, 1, __ATOMIC_RELEASE);
    /* Requests that go on keep it for its statistics and its name. */
    ((struct door_comm *)value)->handle = MPI_COMM_NULL;
    door_comm_drop(value);
    return MPI_SUCCESS;
}

void door_comm_made(MPI_Comm handle)
{
    if (!door_is_open || handle == MPI_COMM_NULL)
        return;
    struct door_comm *comm = agreed(handle);
    below_Comm_set_attr(handle, keyval, comm);
    __atomic_fetch_add(&door_comms_freed, 1, __ATOMIC_RELEASE);
}

static struct door_comm *found(MPI_Comm handle, int agrees)
{
    struct door_comm *comm = NULL;
    int is_there = 0;
    if (below_Comm_get_attr(handle, keyval, &comm, &is_there))
        return NULL;
    if (!is_there && agrees) {
        door_comm_made(handle);
        below_Comm_get_attr(handle, keyval, &comm, &is_there);
    }
    return is_there ? comm : NULL;
}

struct door_comm *door_comm_of(MPI_Comm handle, int agrees)
{
    if (handle == MPI_COMM_WORLD)
        return door_world;
    if (handle == MPI_COMM_SELF)
        return self;
    if (handle == MPI_COMM_NULL)
        return NULL;
    if (door_last_comm(handle))
        return door_last.comm;
    struct door_comm *comm = found(handle, agrees);
    door_last.handle = handle;
    door_last.freed = __atomic_load_n(&door_comms_freed, __ATOMIC_ACQUIRE);
    door_last.comm = comm;
    return comm;
}

/* castell's numbers of hosts may be any: here they are below the number of ranks. */
static void number_hosts(void)
{
    int *first = malloc(sizeof(int) * (size_t)joined_size), count = 0;
    if (!first)
        abort();
    for (int at = 0; at < joined_size; at++) {
        int host = castell_door_host_of(at), known = at ? hosts[at - 1] : 0;
        /* Most ranks are beside the one before. */
        if (known >= count || first[known] != host)
            for (known = 0; known < count && first[known] != host; known++)
                ;
        if (known == count)
            first[count++] = host;
        hosts[at] = known;
    }
    free(first);
}

void door_comms_start(void)
{
    below_Comm_size(MPI_COMM_WORLD, &world_size);
    below_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyval, NULL);
    joined_size = 0;
    if (door_joined.among != MPI_COMM_NULL) {
        MPI_Group ours, all;
        below_Comm_size(door_joined.among, &joined_size);
        int *ranks = malloc(sizeof(int) * (size_t)world_size);
        places = malloc(sizeof(int) * (size_t)world_size);
        hosts = malloc(sizeof(int) * (size_t)joined_size);
        if (!ranks || !places || !hosts)
            abort();
        number_hosts();
        for (int at = 0; at < world_size; at++)
            ranks[at] = at;
        below_Comm_group(door_joined.among, &ours);
        below_Comm_group(MPI_COMM_WORLD, &all);
        below_Group_translate_ranks(all, world_size, ranks, ours, places);
        for (int at = 0; at < world_size; at++)
            places[at] = places[at] == MPI_UNDEFINED ? -1 : places[at];
        below_Group_free(&ours);
        below_Group_free(&all);
        free(ranks);
    }
    /* The world has castell's own, which needs no agreement. */
    if (joined_size == world_size) {
        door_world = calloc(1, sizeof *door_world);
        if (!door_world)
            abort();
        door_world->users = 1;
        door_world->handle = MPI_COMM_WORLD;
        door_world->castell = CASTELL_WORLD;
        below_Comm_rank(MPI_COMM_WORLD, &door_world->rank);
        door_world->size = world_size;
        enum door_why why = DOOR_THROUGH;
        door_world->members = members_of(MPI_COMM_WORLD, world_size, &why);
        place(door_world);
        door_world->rows = door_rows_new(door_world);
        if (!door_settings.is_always)
            door_choices_set(MPI_COMM_WORLD, door_world);
    } else {
        door_world = agreed(MPI_COMM_WORLD);
    }
    self = agreed(MPI_COMM_SELF);
}

void door_comms_stop(void)
{
    if (self)
        door_comm_drop(self);
    if (door_world)
        door_comm_drop(door_world);
    door_world = self = NULL;
    __atomic_fetch_add(&door_comms_freed, 1, __ATOMIC_RELEASE);
    below_Comm_free_keyval(&keyval);
    free(places);
    free(hosts);
    places = hosts = NULL;
}

/* ------------------------------------------------------------------------------------------------------ Neighbours */

static void cartesian(struct door_comm *comm, MPI_Comm handle)
{
    int dimensions = 0;
    below_Cartdim_get(handle, &dimensions);
    comm->indegree = comm->outdegree = 2 * dimensions;
    comm->sources = malloc(sizeof(int) * (size_t)(2 * dimensions + 1));
    comm->destinations = malloc(sizeof(int) * (size_t)(2 * dimensions + 1));
    if (!comm->sources || !comm->destinations)
        abort();
    for (int at = 0; at < dimensions; at++) {
        below_Cart_shift(handle, at, 1, &comm->sources[2 * at], &comm->sources[2 * at + 1]);
        memcpy(&comm->destinations[2 * at], &comm->sources[2 * at], 2 * sizeof(int));
    }
    comm->is_cartesian = 1;
    comm->has_neighbours = 1;
}

void door_neighbours(struct door_comm *comm, MPI_Comm handle)
{
    int topology = MPI_UNDEFINED, is_weighted;
    comm->has_neighbours = -1;
    if (below_Topo_test(handle, &topology))
        return;
    if (topology == MPI_CART) {
        cartesian(comm, handle);
    } else if (topology == MPI_GRAPH) {
        below_Graph_neighbors_count(handle, comm->rank, &comm->indegree);
        comm->outdegree = comm->indegree;
        comm->sources = malloc(sizeof(int) * (size_t)(comm->indegree + 1));
        comm->destinations = malloc(sizeof(int) * (size_t)(comm->indegree + 1));
        if (!comm->sources || !comm->destinations)
            abort();
        below_Graph_neighbors(handle, comm->rank, comm->indegree, comm->sources);
        memcpy(comm->destinations, comm->sources, sizeof(int) * (size_t)comm->indegree);
        comm->has_neighbours = 1;
    } else if (topology == MPI_DIST_GRAPH) {
        below_Dist_graph_neighbors_count(handle, &comm->indegree, &comm->outdegree, &is_weighted);
        size_t in = (size_t)comm->indegree + 1, out = (size_t)comm->outdegree + 1;
        comm->sources = malloc(sizeof(int) * in);
        comm->destinations = malloc(sizeof(int) * out);
        int *weights = malloc(sizeof(int) * (in + out));
        if (!comm->sources || !comm->destinations || !weights)
            abort();
        below_Dist_graph_neighbors(handle, comm->indegree, comm->sources, weights, comm->outdegree, comm->destinations, weights + in);
        free(weights);
        comm->has_neighbours = 1;
    }
}

/* ------------------------------------------------------------------------------ What makes communicators, and is caught */

/* `handle` was made if the call succeeded. */
static int made(int error, MPI_Comm *handle)
{
    if (!error)
        door_comm_made(*handle);
    return error;
}

EXPORT int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    return made(below_Comm_dup(comm, copy), copy);
}
CAUGHT(MPI_Comm_dup);

EXPORT int MPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *copy)
{
    return made(below_Comm_dup_with_info(comm, info, copy), copy);
}
CAUGHT(MPI_Comm_dup_with_info);

EXPORT int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm *part)
{
    return made(below_Comm_split(comm, colour, key, part), part);
}
CAUGHT(MPI_Comm_split);

EXPORT int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part)
{
    return made(below_Comm_split_type(comm, type, key, info, part), part);
}
CAUGHT(MPI_Comm_split_type);

EXPORT int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *part)
{
    return made(below_Comm_create(comm, group, part), part);
}
CAUGHT(MPI_Comm_create);

EXPORT int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *part)
{
    return made(below_Comm_create_group(comm, group, tag, part), part);
}
CAUGHT(MPI_Comm_create_group);

EXPORT int MPI_Intercomm_merge(MPI_Comm inter, int high, MPI_Comm *merged)
{
    return made(below_Intercomm_merge(inter, high, merged), merged);
}
CAUGHT(MPI_Intercomm_merge);

EXPORT int MPI_Cart_create(MPI_Comm comm, int dimensions, const int sizes[], const int periodic[], int reorder,
                           MPI_Comm *made_comm)
{
    return made(below_Cart_create(comm, dimensions, sizes, periodic, reorder, made_comm), made_comm);
}
CAUGHT(MPI_Cart_create);

EXPORT int MPI_Cart_sub(MPI_Comm comm, const int remain[], MPI_Comm *part)
{
    return made(below_Cart_sub(comm, remain, part), part);
}
CAUGHT(MPI_Cart_sub);

EXPORT int MPI_Graph_create(MPI_Comm comm, int nodes, const int index[], const int edges[], int reorder,
                            MPI_Comm *made_comm)
{
    return made(below_Graph_create(comm, nodes, index, edges, reorder, made_comm), made_comm);
}
CAUGHT(MPI_Graph_create);

EXPORT int MPI_Dist_graph_create(MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[],
                                 const int weights[], MPI_Info info, int reorder, MPI_Comm *made_comm)
{
    return made(below_Dist_graph_create(comm, n, sources, degrees, destinations, weights, info, reorder, made_comm),
                made_comm);
}
CAUGHT(MPI_Dist_graph_create);

EXPORT int MPI_Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int sources[], const int source_weights[],
                                          int outdegree, const int destinations[], const int weights[], MPI_Info info,
                                          int reorder, MPI_Comm *made_comm)
{
    return made(below_Dist_graph_create_adjacent(comm, indegree, sources, source_weights, outdegree, destinations, weights,
                                                 info, reorder, made_comm),
                made_comm);
}
CAUGHT(MPI_Dist_graph_create_adjacent);
