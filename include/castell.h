/* castell.h: communicators and collective calls, for C11 and C++17.
 *
 * Every collective operation of MPI, blocking, non-blocking (castell_i...) and persistent (castell_..._init), on groups of
 * ranks. A call that was started goes on by itself. docs/src/collective-calls.md explains the model.
 *
 *   - Between GOAL_Init() and GOAL_Finalize() (goal.h, which this header includes), or between castell_init_by() and GOAL_Finalize().
 *   - Counts and displacements are in elements; all ranks of a communicator make the same calls in the same order.
 *   - What fails returns a code below zero (GOAL_Error); GOAL_LastError() says what was wrong, and who called what if the
 *     ranks' calls differ.
 *   - One thread at a time uses a communicator; others that want it wait.
 *   - CASTELL_IN_PLACE as `send` (of a scatter's root, as `recv`): the data is where the result will be, as with MPI_IN_PLACE.
 *   - Buffers of a call that was started belong to it until it was waited for.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef CASTELL_H
#define CASTELL_H

#include <goal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------- Types */

/* Numbers in a pointer's clothes, as in goal.h; NULL: none. */
typedef struct castell_comm_object *castell_comm;       /* a communicator */
typedef struct castell_request_object *castell_request; /* a call that goes on, or that was prepared */
typedef struct castell_op_object *castell_op;           /* an operator; the CASTELL_... ones below are always there */

/* Types of elements. */
typedef enum castell_type {
    CASTELL_INT8 = 10, CASTELL_INT16 = 11, CASTELL_INT32 = 12, CASTELL_INT64 = 13,
    CASTELL_UINT8 = 14, CASTELL_UINT16 = 15, CASTELL_UINT32 = 16, CASTELL_UINT64 = 17,
    CASTELL_FLOAT = 18, CASTELL_DOUBLE = 19,
    CASTELL_HALF = 20, CASTELL_BFLOAT16 = 21, /* two bytes */
    CASTELL_BOOL = 1,           /* one byte */
    CASTELL_COMPLEX_FLOAT = 2,  /* float _Complex */
    CASTELL_COMPLEX_DOUBLE = 3, /* double _Complex */
    CASTELL_INT32_INT = 4,      /* struct { int32_t value, place; } */
    CASTELL_INT64_INT = 5,      /* struct { int64_t value, place; } */
    CASTELL_FLOAT_INT = 6,      /* struct { float value; int32_t place; } */
    CASTELL_DOUBLE_INT = 7,     /* struct { double value; int64_t place; } */
    CASTELL_BYTES = 256,        /* CASTELL_BYTES + n: opaque elements of n bytes, for operators of the program */
    CASTELL_TYPE_LAST_ = 0x7fffffff /* so that C++ has room for those */
} castell_type;

/* Operators. */
#define CASTELL_SUM ((castell_op)(uintptr_t)1)
#define CASTELL_PRODUCT ((castell_op)(uintptr_t)2)
#define CASTELL_MIN ((castell_op)(uintptr_t)3)
#define CASTELL_MAX ((castell_op)(uintptr_t)4)
#define CASTELL_BIT_AND ((castell_op)(uintptr_t)5)
#define CASTELL_BIT_OR ((castell_op)(uintptr_t)6)
#define CASTELL_BIT_XOR ((castell_op)(uintptr_t)7)
#define CASTELL_LOGICAL_AND ((castell_op)(uintptr_t)8)
#define CASTELL_LOGICAL_OR ((castell_op)(uintptr_t)9)
#define CASTELL_LOGICAL_XOR ((castell_op)(uintptr_t)10)
#define CASTELL_MIN_PLACE ((castell_op)(uintptr_t)11)
#define CASTELL_MAX_PLACE ((castell_op)(uintptr_t)12)

/* result[i] = left[i] op right[i]; `left` comes from the lower ranks, `result` may be `left`. On whatever thread makes
 * progress; makes no calls of this library. */
typedef void (*castell_function)(const void *left, const void *right, void *result, size_t count, void *context);

/* The buffer is the other one. */
#define CASTELL_IN_PLACE ((void *)(uintptr_t)1)
/* As a colour: a member of no part. */
#define CASTELL_NO_COLOUR (-1)

/* ------------------------------------------------------------------- A group that the program has already (MPI's, say) */

/* What the program lends. All of it is used by the calling thread, inside castell_init_by only. */
typedef struct castell_host_functions {
    int rank, size; /* of this process, and how many there are */
    /* Every rank calls it with as many bytes; `all` gets those of every rank, in the order of ranks. 0, or what went wrong. */
    int (*allgather)(const void *mine, size_t bytes, void *all, void *context);
    /* A number that the ranks of this host have in common and those of no other; below zero: unknown. It may exchange, too.
     * NULL: the kernels' ids tell hosts apart. */
    int (*host)(void *context);
    void *context; /* handed to both */
} castell_host_functions;

/* Instead of GOAL_Init: joins the group whose ranks all call this. No launcher is asked (MPI keeps its PMI connection for itself)
 * and no file is left. GOAL_ERR_LAUNCH, in all ranks: the functions failed. Ranks of different
 * hosts talk over TCP. */
int castell_init_by(const castell_host_functions *functions);

/* -------------------------------------------------------------------------------------------------- Communicators */

/* All ranks; always there between GOAL_Init and GOAL_Finalize. */
#define CASTELL_WORLD ((castell_comm)(uintptr_t)1)

/* This process's rank in the communicator, and how many there are; below zero: an error. Also while another thread uses it. */
int castell_comm_rank(castell_comm comm);
int castell_comm_size(castell_comm comm);
/* The rank in `other` of a rank of `comm`; -1: it is not a member there. */
int castell_comm_translate(castell_comm comm, int rank, castell_comm other);
/* Parts of the ranks by colour (0 and up, or CASTELL_NO_COLOUR), each in the order of keys. NULL for those without. */
int castell_comm_split(castell_comm comm, int colour, int key, castell_comm *part);
/* The ranks that share memory. */
int castell_comm_split_shared(castell_comm comm, int key, castell_comm *part);
/* The same ranks, apart from the calls of `comm`. */
int castell_comm_dup(castell_comm comm, castell_comm *copy);
/* Not collective. Calls that go on are not touched. */
int castell_comm_free(castell_comm *comm);

/* One clock for the ranks of all hosts, where GOAL_Wtime and GOAL_WTIME tell the time of their own host. All ranks of `comm` call the first; asking
 * again, some time later, makes the clock exact for longer. From then on the second says, without the others, what the clock of rank 0's host
 * says now, and how far off that may be at most (0 on that host); both in seconds, either may be NULL. The clock is that of the last `comm`. */
int castell_clock_ask(castell_comm comm);
int castell_clock_now(double *seconds, double *error);
/* The next call of this communicator by this thread takes this algorithm ("allreduce:a4,a2"; see `castell schedule list`);
 * all ranks name the same. */
int castell_use_algorithm(const char *algorithm);

/* An operator of the program for elements of so many bytes; `commutes`: 0 or 1. */
int castell_op_create(castell_function function, void *context, size_t element_bytes, int commutes, castell_op *op);
int castell_op_free(castell_op *op);

/* --------------------------------------------------------------------------------------------------------- Memory */

/* So many bytes, zero at first and at the start of a page, that all ranks of the job can read: large blocking calls copy what
 * lies there once, where they copy other memory twice. Not collective; each rank allocates what it likes, and other memory may
 * be used beside it. GOAL_ERR_LIMIT: there is none (docs/src/collective-calls.md says when); malloc serves all calls as well. */
int castell_alloc(size_t bytes, void **memory);
/* Gives it back, also after GOAL_Finalize. NULL is nothing. */
int castell_free(void *memory);

/* ------------------------------------------------------------------------------------------------------- Requests */

/* Waits until the call is over. A request of a non-blocking call is gone then and becomes NULL; a persistent one stays. */
int castell_wait(castell_request *request);
/* 1: over, as after castell_wait; 0: it goes on; below zero: it failed. */
int castell_test(castell_request *request);
/* Waits for all of them; the first failure is returned once all are over. */
int castell_waitall(int count, castell_request requests[]);
/* Starts a persistent call. Ranks start those of a communicator in the same order. */
int castell_request_start(castell_request request);
/* Waits, and forgets a persistent call. */
int castell_request_free(castell_request *request);

/* --------------------------------------------------------------------------------------------------- Blocking */

/* Nobody goes on before all have come. */
int castell_barrier(castell_comm comm);
/* All get what the root has. */
int castell_bcast(void *data, size_t count, castell_type type, int root, castell_comm comm);
/* The root gets `count` elements of each rank. */
int castell_gather(const void *send, size_t count, castell_type type, void *recv, int root, castell_comm comm);
/* The same with a count for each rank, which the root tells; displacements NULL: one behind the other. */
int castell_gatherv(const void *send, size_t count, castell_type type, void *recv, const size_t counts[], const size_t
                    displacements[], int root, castell_comm comm);
/* Each rank gets `count` elements of the root. */
int castell_scatter(const void *send, size_t count, castell_type type, void *recv, int root, castell_comm comm);
/* The same with a count for each rank. */
int castell_scatterv(const void *send, const size_t counts[], const size_t displacements[], castell_type type, void
                     *recv, size_t count, int root, castell_comm comm);
/* All get `count` elements of each rank. */
int castell_allgather(const void *send, size_t count, castell_type type, void *recv, castell_comm comm);
/* The same with a count for each rank, which all tell. */
int castell_allgatherv(const void *send, castell_type type, void *recv, const size_t counts[], const size_t
                       displacements[], castell_comm comm);
/* The root gets the vectors of all ranks, reduced in their order. */
int castell_reduce(const void *send, void *recv, size_t count, castell_type type, castell_op op, int root,
                   castell_comm comm);
/* All get the reduced vector: the same bits in all of them. */
int castell_allreduce(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm
                      comm);
/* Each rank gets its part of the reduced vector. */
int castell_reduce_scatter(const void *send, void *recv, const size_t counts[], castell_type type, castell_op op,
                           castell_comm comm);
/* The same with parts of `count` elements. */
int castell_reduce_scatter_block(const void *send, void *recv, size_t count, castell_type type, castell_op op,
                                 castell_comm comm);
/* Each rank gets `count` elements of each rank. */
int castell_alltoall(const void *send, size_t count, castell_type type, void *recv, castell_comm comm);
/* The same with a count for each pair. */
int castell_alltoallv(const void *send, const size_t counts[], const size_t displacements[], castell_type type, void
                      *recv, const size_t recv_counts[], const size_t recv_displacements[], castell_comm comm);
/* The same in bytes, so that each pair can have a type of its own. */
int castell_alltoallw(const void *send, const size_t bytes[], const size_t byte_displacements[], void *recv, const
                      size_t recv_bytes[], const size_t recv_byte_displacements[], castell_comm comm);
/* Each rank gets the reduced vectors of the ranks up to itself. */
int castell_scan(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm comm);
/* Each rank gets the reduced vectors of the ranks below itself. */
int castell_exscan(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm comm);
/* Each rank sends `count` elements to its destinations and gets as many from each source. */
int castell_neighbour_allgather(int indegree, const int sources[], int outdegree, const int destinations[], const void
                                *send, size_t count, castell_type type, void *recv, castell_comm comm);
/* The same with a count for each source. */
int castell_neighbour_allgatherv(int indegree, const int sources[], int outdegree, const int destinations[], const
                                 void *send, size_t count, castell_type type, void *recv, const size_t recv_counts[],
                                 const size_t recv_displacements[], castell_comm comm);
/* Each rank sends `count` elements of their own to its destinations and gets as many from each source. */
int castell_neighbour_alltoall(int indegree, const int sources[], int outdegree, const int destinations[], const void
                               *send, size_t count, castell_type type, void *recv, castell_comm comm);
/* The same with a count for each neighbour. */
int castell_neighbour_alltoallv(int indegree, const int sources[], int outdegree, const int destinations[], const void
                                *send, const size_t counts[], const size_t displacements[], castell_type type, void
                                *recv, const size_t recv_counts[], const size_t recv_displacements[], castell_comm
                                comm);
/* The same in bytes. */
int castell_neighbour_alltoallw(int indegree, const int sources[], int outdegree, const int destinations[], const void
                                *send, const size_t bytes[], const size_t byte_displacements[], void *recv, const
                                size_t recv_bytes[], const size_t recv_byte_displacements[], castell_comm comm);

/* ----------------------------------------------------------------------------- Non-blocking: end with castell_wait */

int castell_ibarrier(castell_comm comm, castell_request *request);
int castell_ibcast(void *data, size_t count, castell_type type, int root, castell_comm comm, castell_request
                   *request);
int castell_igather(const void *send, size_t count, castell_type type, void *recv, int root, castell_comm comm,
                    castell_request *request);
int castell_igatherv(const void *send, size_t count, castell_type type, void *recv, const size_t counts[], const
                     size_t displacements[], int root, castell_comm comm, castell_request *request);
int castell_iscatter(const void *send, size_t count, castell_type type, void *recv, int root, castell_comm comm,
                     castell_request *request);
int castell_iscatterv(const void *send, const size_t counts[], const size_t displacements[], castell_type type, void
                      *recv, size_t count, int root, castell_comm comm, castell_request *request);
int castell_iallgather(const void *send, size_t count, castell_type type, void *recv, castell_comm comm,
                       castell_request *request);
int castell_iallgatherv(const void *send, castell_type type, void *recv, const size_t counts[], const size_t
                        displacements[], castell_comm comm, castell_request *request);
int castell_ireduce(const void *send, void *recv, size_t count, castell_type type, castell_op op, int root,
                    castell_comm comm, castell_request *request);
int castell_iallreduce(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm
                       comm, castell_request *request);
int castell_ireduce_scatter(const void *send, void *recv, const size_t counts[], castell_type type, castell_op op,
                            castell_comm comm, castell_request *request);
int castell_ireduce_scatter_block(const void *send, void *recv, size_t count, castell_type type, castell_op op,
                                  castell_comm comm, castell_request *request);
int castell_ialltoall(const void *send, size_t count, castell_type type, void *recv, castell_comm comm,
                      castell_request *request);
int castell_ialltoallv(const void *send, const size_t counts[], const size_t displacements[], castell_type type, void
                       *recv, const size_t recv_counts[], const size_t recv_displacements[], castell_comm comm,
                       castell_request *request);
int castell_ialltoallw(const void *send, const size_t bytes[], const size_t byte_displacements[], void *recv, const
                       size_t recv_bytes[], const size_t recv_byte_displacements[], castell_comm comm, castell_request
                       *request);
int castell_iscan(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm comm,
                  castell_request *request);
int castell_iexscan(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm comm,
                    castell_request *request);
int castell_ineighbour_allgather(int indegree, const int sources[], int outdegree, const int destinations[], const
                                 void *send, size_t count, castell_type type, void *recv, castell_comm comm,
                                 castell_request *request);
int castell_ineighbour_allgatherv(int indegree, const int sources[], int outdegree, const int destinations[], const
                                  void *send, size_t count, castell_type type, void *recv, const size_t recv_counts[],
                                  const size_t recv_displacements[], castell_comm comm, castell_request *request);
int castell_ineighbour_alltoall(int indegree, const int sources[], int outdegree, const int destinations[], const void
                                *send, size_t count, castell_type type, void *recv, castell_comm comm, castell_request
                                *request);
int castell_ineighbour_alltoallv(int indegree, const int sources[], int outdegree, const int destinations[], const
                                 void *send, const size_t counts[], const size_t displacements[], castell_type type,
                                 void *recv, const size_t recv_counts[], const size_t recv_displacements[],
                                 castell_comm comm, castell_request *request);
int castell_ineighbour_alltoallw(int indegree, const int sources[], int outdegree, const int destinations[], const
                                 void *send, const size_t bytes[], const size_t byte_displacements[], void *recv,
                                 const size_t recv_bytes[], const size_t recv_byte_displacements[], castell_comm comm,
                                 castell_request *request);

/* --------------------------------------- Persistent: castell_request_start and castell_wait, as often as one likes */

int castell_barrier_init(castell_comm comm, castell_request *request);
int castell_bcast_init(void *data, size_t count, castell_type type, int root, castell_comm comm, castell_request
                       *request);
int castell_gather_init(const void *send, size_t count, castell_type type, void *recv, int root, castell_comm comm,
                        castell_request *request);
int castell_gatherv_init(const void *send, size_t count, castell_type type, void *recv, const size_t counts[], const
                         size_t displacements[], int root, castell_comm comm, castell_request *request);
int castell_scatter_init(const void *send, size_t count, castell_type type, void *recv, int root, castell_comm comm,
                         castell_request *request);
int castell_scatterv_init(const void *send, const size_t counts[], const size_t displacements[], castell_type type,
                          void *recv, size_t count, int root, castell_comm comm, castell_request *request);
int castell_allgather_init(const void *send, size_t count, castell_type type, void *recv, castell_comm comm,
                           castell_request *request);
int castell_allgatherv_init(const void *send, castell_type type, void *recv, const size_t counts[], const size_t
                            displacements[], castell_comm comm, castell_request *request);
int castell_reduce_init(const void *send, void *recv, size_t count, castell_type type, castell_op op, int root,
                        castell_comm comm, castell_request *request);
int castell_allreduce_init(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm
                           comm, castell_request *request);
int castell_reduce_scatter_init(const void *send, void *recv, const size_t counts[], castell_type type, castell_op op,
                                castell_comm comm, castell_request *request);
int castell_reduce_scatter_block_init(const void *send, void *recv, size_t count, castell_type type, castell_op op,
                                      castell_comm comm, castell_request *request);
int castell_alltoall_init(const void *send, size_t count, castell_type type, void *recv, castell_comm comm,
                          castell_request *request);
int castell_alltoallv_init(const void *send, const size_t counts[], const size_t displacements[], castell_type type,
                           void *recv, const size_t recv_counts[], const size_t recv_displacements[], castell_comm
                           comm, castell_request *request);
int castell_alltoallw_init(const void *send, const size_t bytes[], const size_t byte_displacements[], void *recv,
                           const size_t recv_bytes[], const size_t recv_byte_displacements[], castell_comm comm,
                           castell_request *request);
int castell_scan_init(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm comm,
                      castell_request *request);
int castell_exscan_init(const void *send, void *recv, size_t count, castell_type type, castell_op op, castell_comm
                        comm, castell_request *request);
int castell_neighbour_allgather_init(int indegree, const int sources[], int outdegree, const int destinations[], const
                                     void *send, size_t count, castell_type type, void *recv, castell_comm comm,
                                     castell_request *request);
int castell_neighbour_allgatherv_init(int indegree, const int sources[], int outdegree, const int destinations[],
                                      const void *send, size_t count, castell_type type, void *recv, const size_t
                                      recv_counts[], const size_t recv_displacements[], castell_comm comm,
                                      castell_request *request);
int castell_neighbour_alltoall_init(int indegree, const int sources[], int outdegree, const int destinations[], const
                                    void *send, size_t count, castell_type type, void *recv, castell_comm comm,
                                    castell_request *request);
int castell_neighbour_alltoallv_init(int indegree, const int sources[], int outdegree, const int destinations[], const
                                     void *send, const size_t counts[], const size_t displacements[], castell_type
                                     type, void *recv, const size_t recv_counts[], const size_t recv_displacements[],
                                     castell_comm comm, castell_request *request);
int castell_neighbour_alltoallw_init(int indegree, const int sources[], int outdegree, const int destinations[], const
                                     void *send, const size_t bytes[], const size_t byte_displacements[], void *recv,
                                     const size_t recv_bytes[], const size_t recv_byte_displacements[], castell_comm
                                     comm, castell_request *request);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
