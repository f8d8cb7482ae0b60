/* castell_tasks.h: tasks with data accesses, for C11; C++17 adds lambdas (castell_tasks.hpp).
 *
 * A program starts a runtime and runs a function in it as a task. A task creates others with castell_submit and says which
 * memory each reads and writes; the runtime runs them on its workers, in any order that gives the same result as the
 * order in which they were created. docs/src/tasks.md explains the model.
 *
 *   - Sizes are in bytes, times in nanoseconds.
 *   - Functions that can fail return 0, or a code below zero; castell_tasks_error() says what was wrong.
 *   - Functions marked [task] are to be called by a task; outside they return CASTELL_ERR_NO_TASK.
 *   - Labels are not copied: string literals.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef CASTELL_TASKS_H
#define CASTELL_TASKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CASTELL_ERR_ARGUMENT = -1, /* an argument that cannot be */
    CASTELL_ERR_NO_TASK = -2,  /* called outside of tasks */
    CASTELL_ERR_START = -3,    /* the runtime could not be started, or was forked */
    CASTELL_ERR_TASK = -4,     /* a task failed */
    CASTELL_ERR_INTERNAL = -99 /* a bug of the library */
};

/* Why the calling thread's last failed call failed; stays until the next one. */
const char *castell_tasks_error(void);

/* -------------------------------------------------------------------------------------------------------- Runtimes */

typedef struct castell_runtime castell_runtime;

/* A device with a worker of its own: a thread that runs the tasks made for devices of its kind. */
typedef struct castell_device {
    unsigned kind; /* 1 to 7: what it means is the program's; devices of one kind share the tasks for it */
    void *handle;  /* the program's: what castell_device_handle() gives to those tasks */
    const char *resource; /* what the node's daemon calls devices of its kind; default: "gpu" for kind 1, else "device_2" and so on */
} castell_device;

/* Zeros mean defaults. */
typedef struct castell_options {
    unsigned workers;     /* threads that run tasks; default: one for each processor that the process may use */
    size_t stack_bytes;   /* of each; default: 8 MiB of address space */
    const char *scheduler; /* such as "tree" or "central:fifo"; default: CASTELL_TASKS_SCHEDULER or "tree" */
    const char *topology; /* such as "numa:2 cpu:24": pretend to be that; default: the machine */
    uint64_t seed;        /* of the scheduler's random choices */
    uint64_t tasks_high;  /* with more tasks than this (512 a worker, at least 1024), creators run tasks first, */
    uint64_t tasks_low;   /* until no more than this are left; */
    uint64_t tasks_hard;  /* with this many, and none that could run, creating one fails */
    uint64_t watchdog_ns; /* reports on stderr when nothing has completed for so long although a task waits for the world */
    unsigned debug;       /* 1: keeps a journal for castell_print_waits, and compares what tasks do in memory of
                           * castell_debug_alloc with what they declared; also CASTELL_TASKS_DEBUG=1 */
    const castell_device *devices; /* besides the other workers */
    size_t device_count;
    const char *resource; /* what the node's daemon calls the processors; default: "one_core" */
    const char *daemon;   /* the socket of the daemon that decides about tasks with versions; "none": the runtime does that;
                           * default: CASTELL_DAEMON, or the usual one */
} castell_options;

/* Starts one; `options` may be NULL. */
int castell_start(castell_runtime **runtime, const castell_options *options);
/* Waits for its tasks and ends it. */
int castell_stop(castell_runtime *runtime);
/* Runs `body` as a task and waits for it and for all that it creates. From any thread; in a task of `runtime`, `body` is a
 * part of it. Fails if a task failed and nobody below waited for it. */
int castell_run(castell_runtime *runtime, void (*body)(void *), void *argument);

/* Debugging. Which tasks waited for whom, how long, and over which bytes, longest first, to stderr. */
void castell_print_waits(castell_runtime *runtime);
/* Memory, zeros, in which a runtime with `debug` sees what a task reads or writes without having declared it: that task fails at its
 * end, and the wait of its creator says where. Slow where tasks share pages. NULL: there is none. */
void *castell_debug_alloc(size_t bytes);
void castell_debug_free(void *start);

/* How many tasks were created so far, those of castell_run included. */
uint64_t castell_tasks_created(castell_runtime *runtime);

/* ----------------------------------------------------------------------------------------------------------- Tasks */

typedef enum castell_kind {
    CASTELL_IN = 0,          /* reads */
    CASTELL_OUT = 1,         /* overwrites */
    CASTELL_INOUT = 2,       /* reads and writes */
    CASTELL_COMMUTATIVE = 3, /* reads and writes; neighbours of this kind in any order, one at a time */
    CASTELL_CONCURRENT = 4,  /* neighbours of this kind at the same time */
    CASTELL_REDUCTION = 5,   /* accumulates into a copy of its own: castell_private */
    CASTELL_WEAK = 16,       /* added to one of these: not the task, only its descendants */
    CASTELL_ORDERED = 32     /* added to CASTELL_REDUCTION: the copies are combined in the order in which the tasks were
                              * created (of a taskfor, in that of its ranges), so the result is the same every time */
} castell_kind;

/* How copies are combined. */
typedef struct castell_reduction {
    size_t element_bytes;                                           /* the region is a number of such elements */
    void (*initialize)(void *element);                              /* to what changes nothing */
    void (*combine)(void *into, const void *from);                  /* one element */
} castell_reduction;

/* `rows` times `bytes` bytes, `stride` bytes from one start to the next. rows 0 means 1.
 *
 * The same memory may stand in a list several times: equal kinds are one, different kinds are CASTELL_INOUT, weak and not weak
 * is not weak. With a reduction only the same one may stand beside it; anything else is refused. A task with a commutative
 * access that is not weak has no weak accesses: all it declares counts as not weak, so that nobody keeps others from their
 * turn while waiting. */
typedef struct castell_access {
    int kind; /* castell_kind */
    void *start;
    size_t bytes;
    size_t stride;
    size_t rows;
    const castell_reduction *reduction; /* for CASTELL_REDUCTION; lives until the runtime is stopped */
} castell_access;

enum {
    CASTELL_FINAL = 1,      /* its children run at once, in place */
    CASTELL_WAIT = 2,       /* its accesses are released together, when all its descendants are done */
    CASTELL_UNDEFERRED = 4, /* its creator waits for it: if(0) */
    CASTELL_RANKED = 16,     /* of castell_submit_versions: they stand best first, whatever they take */
    CASTELL_BY_REFERENCE = 8 /* `argument` is passed as it is, not copied; `argument_bytes` is ignored */
};

/* Zeros mean defaults. */
typedef struct castell_task {
    const char *label;
    int priority;  /* larger runs earlier, where the scheduler's policy looks at it */
    unsigned cost; /* an estimate of its work, in units of the program's own */
    unsigned flags;
    void (*destroy)(void *argument); /* called with the body's argument at the end, also if the task is skipped; not if
                                      * castell_submit fails */
    unsigned device; /* the kind of device that runs it; 0: the processors */
} castell_task;

/* [task] Creates a task that calls `body` with a copy of the `argument_bytes` bytes at `argument`. `task` may be NULL. */
int castell_submit(void (*body)(void *), const void *argument, size_t argument_bytes, const castell_access *accesses,
                   size_t access_count, const castell_task *task);
/* A body for workers of one kind. */
typedef struct castell_version {
    unsigned device; /* 0: the processors; else the kind of devices */
    void (*body)(void *argument);
    double seconds; /* what it takes, which is believed; 0: nobody knows, it is measured */
} castell_version;

/* [task] A task with several bodies, of which exactly one runs, and no castell_task.device. Those for kinds of which the runtime has no
 * worker are left out; if none is left, the task fails. Which one runs is decided when the task becomes ready: the one that is
 * expected to be over first, by what those with the same label took so far (a unit of `cost`) and by what is queued; each is tried
 * once. The rest is as for castell_submit. */
int castell_submit_versions(const castell_version *versions, size_t version_count, const void *argument,
                            size_t argument_bytes, const castell_access *accesses, size_t access_count,
                            const castell_task *task);
/* [task] Creates a task for every `grain` numbers from `first` up to `end`, none included, and passes each its range. The
 * accesses are those of every one of them; `argument` is not copied, and `task->destroy` gets it once, after the last. */
int castell_taskloop(void (*body)(void *argument, size_t first, size_t end), void *argument, size_t first, size_t end,
                     size_t grain, const castell_access *accesses, size_t access_count, const castell_task *task);
/* [task] The same as one task whose ranges are run by as many workers as come; with reductions, each of them finds copies of its
 * own. */
int castell_taskfor(void (*body)(void *argument, size_t first, size_t end), void *argument, size_t first, size_t end,
                    size_t chunk, const castell_access *accesses, size_t access_count, const castell_task *task);
/* [task] A loop whose iterations create the same tasks: calls `describe` once, in which castell_submit describes the tasks of an
 * iteration, finds their dependences once, runs them so many times, each iteration as far ahead as the data allow, and waits for
 * them and for what the task created before. Every iteration's body gets the same argument (one copy a task, which goes at the
 * end); castell_iteration() tells it in which it is. Tasks in it have no weak accesses and no reductions; children and events
 * of a body are waited for before what depends on it begins; commutative ones run in the order of the description. If
 * `describe` returns anything but 0, nothing runs, and the call fails. */
int castell_iterate(int (*describe)(void *), void *argument, uint64_t iterations);
/* [task] In which iteration of castell_iterate this is, from 0; 0 elsewhere. */
uint64_t castell_iteration(void);
/* [task] Waits for all tasks that this one created. Fails with the first failure among them. */
int castell_taskwait(void);
/* [task] Waits for those of them that these accesses would have to wait for. */
int castell_taskwait_on(const castell_access *accesses, size_t access_count);
/* [task] This task needs these parts of what it declared no more: they go to the successors at once. */
int castell_release(const castell_access *accesses, size_t access_count);
/* [task] This task's copy for a reduction that it declared, by the start of the original. */
void *castell_private(const void *start);
/* [task] Calls `body` and waits for the tasks that it creates. */
int castell_group(void (*body)(void *), void *argument);
/* [task] Skips the tasks of the innermost group that have not begun. 1 if there is a group, 0 if not. */
int castell_cancel(void);
/* [task] Whether the group was cancelled. */
int castell_is_cancelled(void);
/* [task] The handle of the device whose worker runs the task; NULL on other workers. After a wait or a pause it may be another
 * device of the same kind: ask again. */
void *castell_device_handle(void);
/* [task] Whether the task is final. */
int castell_is_final(void);
/* [task] This task fails: its successors are skipped, and the wait of its creator says `message`. `payload`, if not NULL,
 * travels with the failure; `drop` is called with it when it is not needed any more. */
int castell_fail(const char *message, void *payload, void (*drop)(void *));
/* The payload of the calling thread's last failed call, or NULL; valid until the thread's next failure. */
void *castell_failure_payload(void);

/* ---------------------------------------------------------------------------------------- The world outside of tasks */

typedef struct castell_current castell_current;

/* [task] The task itself, for the functions below; NULL outside. Valid until the task has completed. */
castell_current *castell_self(void);
/* [task] The task completes, and its successors get its data, only when this many more events are fulfilled. */
int castell_add_events(unsigned count);
/* So many events of a task have happened. From any thread. */
void castell_fulfil_events(castell_current *task, unsigned count);
/* [task] Pauses the task until castell_unblock; if that came first, not at all. Another thread uses the CPU. */
int castell_block(void);
/* [task] The same for at most so long; 1 if it was unblocked, 0 if the time was up. */
int castell_block_for(uint64_t timeout_ns);
/* Lets a task go on. From any thread, as long as the task has not ended. */
void castell_unblock(castell_current *task);

typedef struct castell_service castell_service;

/* Has `poll` called by idle workers, and besides when `descriptor` has something to read (which `poll` has to take away), or,
 * if that is negative, every `interval_ns`, until it returns something else than 0. It must not wait. NULL: it failed. */
castell_service *castell_register_service(castell_runtime *runtime, int (*poll)(void *), void *argument, int descriptor,
                                          uint64_t interval_ns);
/* Ends it; waits for a call that is going on. */
void castell_unregister_service(castell_service *service);

#ifdef __cplusplus
}
#endif
#endif /* CASTELL_TASKS_H */
