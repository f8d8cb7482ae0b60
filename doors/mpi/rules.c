/* rules.c: what the environment says of what goes through castell, and what the operations and reasons are called.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "door.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct door_settings door_settings;

const char *const door_names[DOOR_OPERATIONS] = {
    "barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv",
    "alltoallw", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan", "neighbor_allgather",
    "neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw",
};

const char *const door_whys[DOOR_WHYS] = {
    [DOOR_THROUGH] = "",
    [DOOR_OFF] = "CASTELL_MPI_OFF is set",
    [DOOR_NO_GROUP] = "castell could not join the group",
    [DOOR_INTER] = "an intercommunicator",
    [DOOR_ELSEWHERE] = "members of another world",
    [DOOR_APART] = "members on several hosts, which castell could not join",
    [DOOR_NO_CONTEXT] = "castell has no more communicators",
    [DOOR_NOT_AGREED] = "no blocking call has been made on it, in which its members could agree",
    [DOOR_NOT_CHOSEN] = "CASTELL_MPI_ONLY or CASTELL_MPI_NOT",
    [DOOR_SLOWER] = "the MPI below is faster here",
    [DOOR_FEW] = "too few calls so far to measure which is faster",
    [DOOR_TYPE] = "elements that overlap",
    [DOOR_OPERATOR] = "an operator that MPI does not define for this type",
    [DOOR_ARGUMENT] = "arguments that the MPI below will refuse",
    [DOOR_NO_TOPOLOGY] = "no topology",
};

/* Whether a variable is set and not to "", "0" or "no". */
static int is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") && strcmp(value, "no");
}

/* Marks the operations that a variable names; whether it names any. */
static int read_names(const char *variable, unsigned char *named, int is_first)
{
    const char *list = getenv(variable);
    int any = 0;
    while (list && *list) {
        size_t length = strcspn(list, ", ");
        int at = 0;
        while (at < DOOR_OPERATIONS && (strlen(door_names[at]) != length || strncmp(door_names[at], list, length)))
            at++;
        if (at < DOOR_OPERATIONS)
            named[at] = any = 1;
        else if (length && is_first)
            fprintf(stderr, "castell: %s names %.*s, which is none of MPI's collective operations (allreduce, bcast, ...)\n",
                    variable, (int)length, list);
        list += length + strspn(list + length, ", ");
    }
    return any;
}

void door_settings_read(int is_first)
{
    unsigned char only[DOOR_OPERATIONS] = {0}, not[DOOR_OPERATIONS] = {0};
    const char *stats = getenv("CASTELL_MPI_STATS");
    door_settings.is_off = is_set("CASTELL_MPI_OFF");
    door_settings.is_always = is_set("CASTELL_MPI_ALWAYS");
    door_settings.has_check = is_set("CASTELL_MPI_CHECK");
    door_settings.has_stats = is_set("CASTELL_MPI_STATS");
    door_settings.stats_file = door_settings.has_stats && strcmp(stats, "1") ? stats : NULL;
    door_settings.timeline = is_set("CASTELL_MPI_TIMELINE") ? getenv("CASTELL_MPI_TIMELINE") : NULL;
    int has_only = read_names("CASTELL_MPI_ONLY", only, is_first);
    read_names("CASTELL_MPI_NOT", not, is_first);
    for (int at = 0; at < DOOR_OPERATIONS; at++)
        door_settings.is_chosen[at] = (!has_only || only[at]) && !not[at];
}

int door_is_even(enum door_operation operation)
{
    switch (operation) {
    case DOOR_GATHERV: case DOOR_SCATTERV: case DOOR_ALLGATHERV: case DOOR_ALLTOALLV: case DOOR_ALLTOALLW:
    case DOOR_NEIGHBOR_ALLGATHER: case DOOR_NEIGHBOR_ALLGATHERV: case DOOR_NEIGHBOR_ALLTOALL: case DOOR_NEIGHBOR_ALLTOALLV:
    case DOOR_NEIGHBOR_ALLTOALLW:
        return 0;
    default:
        return 1;
    }
}
