/* join.c: with whom the ranks join castell: all ranks of the world, on however many hosts they are; or, where castell's network cannot be had
 * between these, those of each host among themselves. What becomes of it, all ranks hear alike: a call that goes through castell in
 * one rank and below in another would wait for ever.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct door_joined door_joined = {.among = MPI_COMM_NULL, .hosts = 1};

/* Whether castell succeeded (`code` is 0) in all ranks. If not, nobody has joined, and all know why the lowest one failed. */
static int all_succeeded(MPI_Comm among, int code)
{
    int rank, failed;
    below_Comm_rank(among, &rank);
    failed = code ? rank : INT_MAX;
    if (below_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MIN, among))
        return 0;
    if (failed == INT_MAX)
        return 1;
    snprintf(door_joined.why, sizeof door_joined.why, "%s", code ? GOAL_LastError() : "");
    below_Bcast(door_joined.why, sizeof door_joined.why, MPI_CHAR, failed, among);
    if (GOAL_IsInitialized() && !GOAL_IsFinalized())
        castell_door_leave();
    return 0;
}

/* Joins with the ranks of a communicator. */
static int join(MPI_Comm among, int (*init)(const castell_host_functions *))
{
    castell_host_functions functions = {.allgather = door_exchange, .context = &among};
    below_Comm_rank(among, &functions.rank);
    below_Comm_size(among, &functions.size);
    int code = init(&functions);
    if (!all_succeeded(among, code))
        return 0;
    /* From here on the MPI below goes on while a rank waits in castell: others may wait for what it has still to send. */
    castell_door_meanwhile(door_progress);
    if (castell_door_hosts(NULL, 0) == 1)
        return 1;
    code = castell_door_meet();
    return all_succeeded(among, code);
}

void door_join(void)
{
    MPI_Comm shared;
    int rank, size;
    below_Comm_rank(MPI_COMM_WORLD, &rank);
    below_Comm_size(MPI_COMM_WORLD, &size);
    below_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    below_Comm_size(shared, &door_joined.ranks_here);
    int is_apart = door_joined.ranks_here < size;
    below_Allreduce(MPI_IN_PLACE, &is_apart, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (join(MPI_COMM_WORLD, castell_init_by)) {
        door_joined.among = MPI_COMM_WORLD;
        door_joined.hosts = castell_door_hosts(door_joined.net, sizeof door_joined.net);
    } else if (is_apart) {
        if (rank == 0)
            fprintf(stderr, "castell: collective calls between hosts are left to the MPI below: %s\n", door_joined.why);
        if (join(shared, castell_door_init_on_host))
            door_joined.among = shared;
        else
            fprintf(stderr, "castell: rank %d: those of this host, too: %s\n", rank, door_joined.why);
    } else if (rank == 0) {
        fprintf(stderr, "castell: collective calls are left to the MPI below: %s\n", door_joined.why);
    }
    if (door_joined.among != MPI_COMM_NULL && !door_settings.is_always)
        door_kept_start(shared);
    if (door_joined.among != shared)
        below_Comm_free(&shared);
}

void door_joined_stop(void)
{
    if (door_joined.among != MPI_COMM_NULL && door_joined.among != MPI_COMM_WORLD)
        below_Comm_free(&door_joined.among);
    door_joined.among = MPI_COMM_NULL;
}
