/* castell_door.h: what the door needs of libcastell beside castell.h. Between the two only: it changes with either, and is not
 * installed. crates/capi/src/collective/door.rs has the other side.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef CASTELL_DOOR_H
#define CASTELL_DOOR_H

#include <castell.h>

/* The operations, as in castell's records of calls. */
enum castell_door_operation {
    CASTELL_DOOR_BARRIER, CASTELL_DOOR_BCAST, CASTELL_DOOR_GATHER, CASTELL_DOOR_SCATTER, CASTELL_DOOR_ALLGATHER,
    CASTELL_DOOR_REDUCE, CASTELL_DOOR_ALLREDUCE, CASTELL_DOOR_REDUCE_SCATTER, CASTELL_DOOR_ALLTOALL, CASTELL_DOOR_SCAN,
    CASTELL_DOOR_EXSCAN, CASTELL_DOOR_NEIGHBOUR_ALLGATHER, CASTELL_DOOR_NEIGHBOUR_ALLTOALL
};

/* A collective call: the arguments of the function in castell.h, of which those that its operation lacks are not looked at. */
typedef struct castell_door_call {
    int operation;
    int root;
    castell_type type;
    castell_op op; /* NULL: nothing is reduced */
    size_t count;  /* elements of the vector or of each block; where blocks have sizes of their own, of the rank's own block */
    const void *send;
    void *recv;
    /* Sizes of the blocks that leave and arrive, and where they start; NULL: all have one size. A rank that is not the root of a
     * gather or scatter of such blocks passes any address but NULL, which is not read. */
    const size_t *send_counts, *send_starts, *recv_counts, *recv_starts;
    int indegree, outdegree;
    const int *sources, *destinations;
} castell_door_call;

/* castell_init_by for ranks of one host, whatever CASTELL_NET says: they share memory. */
int castell_door_init_on_host(const castell_host_functions *functions);
/* How many hosts the group is on, and what carries messages between ranks that share no memory: a word as for CASTELL_NET, or "". */
int castell_door_hosts(char *net, size_t bytes);
/* On which of them a rank is: a number that the ranks of a host have in common. */
int castell_door_host_of(int rank);
/* Whether the hosts reach each other. All ranks call it, before anything else; not all of them may come to the same result. */
int castell_door_meet(void);
/* GOAL_Finalize, but for another castell_init_by. */
int castell_door_leave(void);

/* Makes a call and waits until this rank's part is over. */
int castell_door_make(const castell_door_call *call, castell_comm comm);
/* Prepares a call, and starts it unless it `is_persistent`. The lists are copied. */
int castell_door_prepare(const castell_door_call *call, castell_comm comm, int is_persistent, castell_request *request);

/* A communicator of these ranks of CASTELL_WORLD, in this order, this one among them. All of them call it, nobody else; they agree
 * by `allgather`, which is as in castell_host_functions, among them. GOAL_ERR_LIMIT in all of them: no context is left. */
int castell_door_comm(const int ranks[], int count,
                      int (*allgather)(const void *mine, size_t bytes, void *all, void *context), void *context,
                      castell_comm *comm);

/* What the program's threads do from now on, again and again, while they wait in vain in a call. `work` calls nothing of castell. */
int castell_door_meanwhile(void (*work)(void));

#endif
