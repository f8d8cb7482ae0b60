/* door.h: what the parts of the door know of each other. Start at entries.c: an entry point packs its arguments and asks answer.c,
 * which decides by rules.c and calls castell, or says that the MPI below has to do it.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef DOOR_H
#define DOOR_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "castell_door.h"

/* What is not exported stays inside: the library is built with hidden visibility. `PMPI_X` is caught, too: tools call it, and the
 * Fortran functions of Open MPI. */
#define EXPORT __attribute__((visibility("default")))
#define CAUGHT(name) \
    extern EXPORT __typeof__(name) P##name __attribute__((alias(#name)))

/* ------------------------------------------------------------------------------------------------------ Operations */

struct door_comm;

enum door_operation {
    DOOR_BARRIER, DOOR_BCAST, DOOR_GATHER, DOOR_GATHERV, DOOR_SCATTER, DOOR_SCATTERV, DOOR_ALLGATHER, DOOR_ALLGATHERV,
    DOOR_ALLTOALL, DOOR_ALLTOALLV, DOOR_ALLTOALLW, DOOR_REDUCE, DOOR_ALLREDUCE, DOOR_REDUCE_SCATTER,
    DOOR_REDUCE_SCATTER_BLOCK, DOOR_SCAN, DOOR_EXSCAN, DOOR_NEIGHBOR_ALLGATHER, DOOR_NEIGHBOR_ALLGATHERV,
    DOOR_NEIGHBOR_ALLTOALL, DOOR_NEIGHBOR_ALLTOALLV, DOOR_NEIGHBOR_ALLTOALLW, DOOR_OPERATIONS
};

enum door_form { DOOR_BLOCKING, DOOR_STARTED, DOOR_PERSISTENT, DOOR_FORMS };

/* Why a call goes below. */
enum door_why {
    DOOR_THROUGH, /* it does not */
    DOOR_OFF, DOOR_NO_GROUP, DOOR_INTER, DOOR_ELSEWHERE, DOOR_APART, DOOR_NO_CONTEXT, DOOR_NOT_AGREED, DOOR_NOT_CHOSEN, DOOR_SLOWER, DOOR_FEW,
    DOOR_TYPE, DOOR_OPERATOR, DOOR_ARGUMENT, DOOR_NO_TOPOLOGY, DOOR_WHYS
};

/* Counts or displacements of so many bytes each. */
struct door_list {
    const void *at;
    size_t width;
};

static inline MPI_Count door_item(struct door_list list, int at)
{
    return list.width == sizeof(int) ? ((const int *)list.at)[at] : ((const MPI_Count *)list.at)[at];
}

/* What a program passed. Of vectors with one count and one type these are at `recv`. */
struct door_arguments {
    enum door_operation operation;
    enum door_form form;
    int root;
    MPI_Comm comm;
    MPI_Op op;
    const void *send;
    void *recv;
    MPI_Count send_count, recv_count;
    struct door_list send_counts, send_starts, recv_counts, recv_starts;
    MPI_Datatype send_type, recv_type;
    const MPI_Datatype *send_types, *recv_types;
    /* For statistics, if the call goes below: where it is counted, and when it began. */
    struct door_row *row;
    enum door_why why;
    double since;
    /* For the timeline. */
    size_t bytes;
    int size;
};

/* --------------------------------------------------------------------------------------------------------- Answer */

/* Makes the call through castell: 1, and its outcome in `result`. 0: the MPI below has to. */
int door_answer(struct door_arguments *arguments, MPI_Request *request, int *result);
/* The MPI below has made it. */
int door_was_below(const struct door_arguments *arguments, int result);
/* Makes it through castell, blocking or, with a place for the request, started. */
int door_make(const struct door_arguments *arguments, struct door_comm *comm, MPI_Request *request);

/* ---------------------------------------------------------------------------------------------------------- Types */

enum door_class {
    DOOR_NOTHING, DOOR_INTEGERS, DOOR_FLOATS, DOOR_LOGICALS, DOOR_COMPLEX, DOOR_BYTES, DOOR_PAIRS, DOOR_DERIVED
};

struct door_type {
    enum door_class is;
    castell_type native; /* 0: castell does not reduce it itself */
    int is_valid, is_contiguous;
    int has_overhang;    /* its data leaves its extent */
    int is_dense;        /* and fills it */
    MPI_Count size, lb, extent, true_lb, true_extent;
};

/* Types that a thread has seen, and how many were freed before: a handle is given out again. */
enum { DOOR_SEEN = 64 };
struct door_seen {
    MPI_Datatype handle;
    uint64_t freed;
    const struct door_type *type;
    const struct door_type *plain; /* the same, if it is predefined, has no gaps and starts where it is: such types are never freed */
};
extern _Thread_local struct door_seen door_seen[DOOR_SEEN];

static inline size_t door_seen_at(MPI_Datatype handle)
{
    size_t bits = (size_t)(uintptr_t)handle;
    return (bits ^ bits >> 6 ^ bits >> 12) % DOOR_SEEN;
}

/* A plain one that was not in its place there. */
const struct door_type *door_plain_type(MPI_Datatype handle);

void door_types_start(void);
void door_types_stop(void);
/* NULL: it is none. Lives until the type is freed. */
const struct door_type *door_type_of(MPI_Datatype type);
/* Between elements of a type and their bytes one behind the other. 0, or an error of MPI. */
int door_pack(const void *from, MPI_Count count, MPI_Datatype type, void *to, MPI_Count bytes);
int door_unpack(const void *from, MPI_Count bytes, void *to, MPI_Count count, MPI_Datatype type);

/* The last operator and predefined type of a thread that castell has by itself. Neither is ever freed, so what was true is. */
struct door_operator {
    MPI_Op op;
    MPI_Datatype type;
    castell_type element;
    castell_op found;
    size_t size;
};
extern _Thread_local struct door_operator door_operator;
/* Whether castell has them; then that is the last one. */
int door_native(MPI_Op op, MPI_Datatype type);
/* Whether castell has this operator on this type by itself (1, `element` and `found`), or on elements of which it knows nothing,
 * through PMPI_Reduce_local (2); else why not, below zero. */
int door_op_of(MPI_Op op, MPI_Datatype type, const struct door_type *known, castell_type *element, castell_op *found);
/* result = left op result, for elements that start where their lower bound is. */
void door_reduce(const void *left, void *result, MPI_Count count, MPI_Op op, MPI_Datatype type);

/* ---------------------------------------------------------------------------------------------------- Who has joined */

extern struct door_joined {
    MPI_Comm among; /* whose ranks have joined castell together, in its order; MPI_COMM_NULL: none */
    int hosts, ranks_here;
    char net[64];  /* what carries messages between ranks that share no memory; "": all do */
    char why[512]; /* why not all ranks of the world have joined together; "": they have */
} door_joined;

void door_join(void);
void door_joined_stop(void);

/* -------------------------------------------------------------------------------------------------- Communicators */

/* Communicators of one placement have their ranks on hosts alike: "4" are four that share memory, "4@2:tcp:9f3a..." four on two hosts, whose
 * order the number stands for. */
enum { DOOR_PLACEMENT = 128 };

struct door_comm {
    enum door_why why;
    castell_comm castell;
    int rank, size;
    int *members; /* in castell's world; NULL where castell makes no calls */
    int hosts;         /* on which these are; 0 where castell makes no calls */
    int is_first_here; /* this rank, among those of its host */
    char placement[DOOR_PLACEMENT];
    int users; /* what points here */
    /* The neighbours, once they were asked for; `has_neighbours`: 0 not yet, 1, or -1: there is no topology. */
    int has_neighbours, indegree, outdegree;
    int *sources, *destinations; /* MPI_PROC_NULL among them */
    int is_cartesian;
    struct door_rows *rows;
    struct door_choices *choices; /* NULL: all that castell can make goes through castell, or nothing */
    MPI_Comm handle; /* for error handlers */
};

/* The world, and the communicator that a thread has used last, if it is this one and still the same. */
extern struct door_comm *door_world;
extern uint64_t door_comms_freed;
extern _Thread_local struct door_last {
    MPI_Comm handle;
    uint64_t freed;
    struct door_comm *comm;
} door_last;

static inline struct door_comm *door_last_comm(MPI_Comm handle)
{
    return door_last.handle == handle && door_last.freed == __atomic_load_n(&door_comms_freed, __ATOMIC_ACQUIRE) ? door_last.comm
                                                                                                                    : NULL;
}

void door_comms_start(void);
void door_comms_stop(void);
/* NULL: it is none. `agrees`: all members are in a blocking call, so they can agree now. */
struct door_comm *door_comm_of(MPI_Comm comm, int agrees);
/* A communicator was made, by a call that all its members are in. */
void door_comm_made(MPI_Comm comm);
void door_comm_use(struct door_comm *comm);
void door_comm_drop(struct door_comm *comm);
void door_neighbours(struct door_comm *comm, MPI_Comm handle);
/* An exchange among the members of the communicator at `context`. */
int door_exchange(const void *mine, size_t bytes, void *all, void *context);

/* ----------------------------------------------------------------------------------------------------------- Plans */

/* Memory of the program that is sent from or received in: parts, one behind the other or where they are listed. */
struct door_side {
    char *base;
    int parts;
    MPI_Count count; /* of each part, unless they are listed */
    MPI_Datatype type;
    int is_listed, starts_are_bytes;
    struct door_list counts, starts;
    const MPI_Datatype *types; /* NULL: all have one */
    /* What castell is told: where it finds the bytes, how many they are, and those of each part that is listed. */
    char *address;
    size_t bytes, *sizes, *places;
    char *packed; /* NULL: castell works on the program's own memory */
};

/* The sizes, and memory for what has to be packed. 0: what was passed cannot be. */
int door_side_set(struct door_side *side);
int door_side_pack(const struct door_side *side, int part); /* a part, or all: -1 */
int door_side_unpack(const struct door_side *side);

enum door_packing { DOOR_LEAVES, DOOR_PACKS_ALL, DOOR_PACKS_OWN };

/* What is left to do of a reduction beside castell's call. */
struct door_reduction {
    MPI_Op op;
    MPI_Datatype type;
    const struct door_type *known;
    const char *input;     /* the program's, from the lower bound on; copied to `copy` before the call if that is not NULL */
    char *copy;
    MPI_Count input_count;
    char *output;          /* the program's; written from `raw` after the call if that is not NULL */
    MPI_Count output_count;
    char *raw;
    int output_is_input;   /* `raw` starts as the program's */
    /* The vectors of all ranks, which the calling thread reduces, those of the first so many ranks. */
    char *gathered;
    int folds;
};

/* A call as castell makes it, with what is to be done before and after. */
struct door_plan {
    castell_door_call call;
    struct door_side send, recv;
    enum door_packing packs_send, packs_recv;
    int own, unpacks;
    struct door_reduction reduction;
    size_t *lists[2]; /* the memory of lists that no side has */
    int *neighbours;
};

/* Makes a plan of the arguments; else why not. `bytes`: what the rank contributes. */
enum door_why door_plan(struct door_plan *plan, const struct door_arguments *arguments, struct door_comm *comm,
                        size_t *bytes);
int door_plan_before(struct door_plan *plan);
int door_plan_after(struct door_plan *plan);
void door_plan_free(struct door_plan *plan);

enum door_why door_plan_reduction(struct door_plan *plan, const struct door_arguments *arguments, struct door_comm *comm,
                                  size_t *bytes);
int door_reduction_before(const struct door_reduction *reduction);
int door_reduction_after(const struct door_reduction *reduction);
enum door_why door_plan_neighbours(struct door_plan *plan, const struct door_arguments *arguments, struct door_comm *comm,
                                   size_t *bytes);

/* -------------------------------------------------------------------------------------------------------- Requests */

/* Keeps a call of castell's under a request of MPI's. The plan is taken over, and so is the call's own communicator, if it has one. */
int door_request_keep(struct door_plan *plan, castell_request castell, int is_persistent, struct door_comm *comm,
                      castell_comm own, const struct door_arguments *arguments, size_t bytes, struct door_row *row, MPI_Request *request);
void door_requests_stop(void);

/* ----------------------------------------------------------------------------------------------------------- Rules */

/* What the environment says. */
struct door_settings {
    int is_off, is_always, has_stats, has_check;
    const char *stats_file; /* NULL: a table */
    const char *timeline;   /* the file; NULL: none */
    unsigned char is_chosen[DOOR_OPERATIONS];
};
extern struct door_settings door_settings;

void door_settings_read(int is_first);
extern const char *const door_names[DOOR_OPERATIONS];
extern const char *const door_whys[DOOR_WHYS];
/* Whether all ranks pass the same number of bytes. */
int door_is_even(enum door_operation operation);

/* --------------------------------------------------------------------------------------------------------- Choices */

/* Persistent calls are as started ones. */
enum { DOOR_CHOSEN_FORMS = DOOR_STARTED + 1 };
/* Calls of one size: by powers of two. Calls to which not all ranks contribute alike are of one class. */
enum { DOOR_CLASSES = 32, DOOR_UNEVEN = DOOR_CLASSES - 1 };
/* States of a class of calls: how many calls there were, or: waits for a blocking call, cannot be measured any more, goes through
 * castell, goes below. */
enum { DOOR_WAITS = 252, DOOR_UNMEASURED, DOOR_CASTELL, DOOR_BELOW };
enum { DOOR_WAITING_MAX = 16 };

/* A class of started calls that is to be measured in the next blocking call. */
struct door_waiting {
    enum door_operation operation;
    int class;
    size_t bytes;
};

/* Of a communicator. */
struct door_choices {
    unsigned char states[DOOR_OPERATIONS][DOOR_CHOSEN_FORMS][DOOR_CLASSES];
    /* Of uneven calls, bytes and number. */
    double bytes[DOOR_OPERATIONS][DOOR_CHOSEN_FORMS], calls[DOOR_OPERATIONS][DOOR_CHOSEN_FORMS];
    int waiting_count;
    struct door_waiting waiting[DOOR_WAITING_MAX];
};

static inline int door_class(size_t bytes)
{
    int bits = bytes ? (int)(8 * sizeof(unsigned long) - (size_t)__builtin_clzl(bytes)) : 0;
    return bits < DOOR_UNEVEN ? bits : DOOR_UNEVEN - 1;
}

/* Whether castell's time is the shorter one; what is as good as equal stays below. */
static inline int door_is_faster(double castell, double below)
{
    return castell * 1.1 <= below;
}

/* Which way a call of so many bytes goes. Measures, if it is time to. */
enum door_why door_choose(const struct door_arguments *arguments, struct door_comm *comm, size_t bytes);
/* Measures what waits for a blocking call: all members are in one. */
void door_choose_waiting(MPI_Comm handle, struct door_comm *comm);
/* Gives a communicator its choices. All members call it. */
void door_choices_set(MPI_Comm handle, struct door_comm *comm);

/* Reads what is kept of this MPI on this machine; all ranks of the host. */
void door_kept_start(MPI_Comm shared);
/* What is known of communicators of a placement. */
void door_kept_for(const char *placement, struct door_choices *choices);
/* Keeps a measurement, seconds of castell and of the MPI below. */
void door_keep(const struct door_comm *comm, enum door_operation operation, enum door_form form, size_t bytes,
               const double seconds[2]);
/* The file; NULL: there is none. */
const char *door_kept_where(void);
/* How many measurements this process was in, and the seconds that it spent in them. */
int door_measured(double *seconds);

/* ------------------------------------------------------------------------------------------------------ Statistics */

/* Of an operation in a form on a communicator. */
struct door_row {
    uint64_t calls, bytes, below, whys[DOOR_WHYS];
    double seconds, below_seconds;
};

/* Of a communicator. */
struct door_rows {
    struct door_row at[DOOR_OPERATIONS][DOOR_FORMS];
    char name[MPI_MAX_OBJECT_NAME];
    int size, hosts;
    enum door_why why;
    struct door_rows *next;
};

struct door_rows *door_rows_new(const struct door_comm *comm);
/* Calls on communicators that castell knows nothing of. */
struct door_rows *door_rows_unknown(void);
void door_stats_print(void);
double door_now(void);

/* -------------------------------------------------------------------------------------------------------- Timeline */

void door_timeline_start(void);
/* A call that began then is over. */
void door_note(enum door_operation operation, enum door_form form, int through, int size, size_t bytes, double since);
void door_timeline_stop(void);

/* -------------------------------------------------------------------------------------------------------- The rest */

/* The state of the door: before MPI_Init, between, in MPI_Finalize. */
extern int door_is_open;
/* Open, and nobody wants to know of each call. */
extern int door_is_quick;
/* Lets the MPI below go on. */
void door_progress(void);
/* An error of castell's, for the communicator's error handler. */
int door_failed(struct door_comm *comm, int code);

#endif
