/* alpi.h: ALPI 1.2, the low-level tasking interface of the Barcelona Supercomputing Center, on castell's tasks.
 *
 * Libraries that make something asynchronous known to a task runtime (Task-Aware MPI and its relatives) ask for these functions
 * and no others, so that they run on any runtime that has them. The functions, their numbers and their meanings are those of
 * ALPI; this header is written for castell. docs/src/alpi.md says more, with an example.
 *
 *   - All functions but alpi_error_string() return ALPI_SUCCESS or one of the codes below.
 *   - A runtime has to run first: castell_start() of castell_tasks.h. In a task it is about that task's runtime; elsewhere about
 *     the one that was started first of those that run.
 *   - Functions marked [task] are called by a task, about itself: `task` is what alpi_task_self() gives there. Elsewhere they
 *     return ALPI_ERR_OUTSIDE_TASK, and with another task ALPI_ERR_PARAMETER.
 *   - A task's handle is the same as castell_self(): it is valid until the task has completed.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef CASTELL_ALPI_H
#define CASTELL_ALPI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ALPI_VERSION_MAJOR 1
#define ALPI_VERSION_MINOR 2

/* Groups of functions that a runtime may lack; castell has them all. */
#define ALPI_FEATURE_BLOCKING (1 << 0)  /* alpi_task_block, alpi_task_unblock, alpi_task_waitfor_ns */
#define ALPI_FEATURE_EVENTS (1 << 1)    /* alpi_task_events_increase, _test, _decrease */
#define ALPI_FEATURE_RESOURCES (1 << 2) /* alpi_cpu_count, alpi_cpu_logical_id, alpi_cpu_system_id */
#define ALPI_FEATURE_SUSPEND (1 << 3)   /* alpi_task_suspend_mode_set, alpi_task_suspend */

typedef enum {
    ALPI_SUCCESS = 0,
    ALPI_ERR_VERSION = 1,         /* this version is not provided */
    ALPI_ERR_NOT_INITIALIZED = 2, /* no runtime runs */
    ALPI_ERR_PARAMETER = 3,       /* an argument that cannot be */
    ALPI_ERR_OUT_OF_MEMORY = 4,
    ALPI_ERR_OUTSIDE_TASK = 5,    /* to be called by a task */
    ALPI_ERR_UNKNOWN = 6,         /* a bug of the library */
    ALPI_ERR_FEATURE_UNKNOWN = 7, /* not provided, or not for this task */
    ALPI_ERR_MAX = 8              /* one more than the last code */
} alpi_error_t;

typedef enum {
    ALPI_INFO_RUNTIME_NAME = 0,
    ALPI_INFO_RUNTIME_VENDOR = 1,
    ALPI_INFO_VERSION = 2
} alpi_info_t;

/* When the body of a suspended task is called again. */
typedef enum {
    ALPI_SUSPEND_NONE = 0,           /* after alpi_task_unblock() */
    ALPI_SUSPEND_SUBMIT = 1,         /* args 0: soon; args 1: when there is nothing else to run */
    ALPI_SUSPEND_TIMEOUT_SUBMIT = 2, /* after `args` nanoseconds */
    ALPI_SUSPEND_EVENT_SUBMIT = 3    /* when the task's events are fulfilled */
} alpi_suspend_mode_t;

struct alpi_task; /* a task's handle */
struct alpi_attr; /* how a task is to be; ALPI 1.2 has no setters */

/* What a code means, in English. */
const char *alpi_error_string(alpi_error_t error);
/* A text about the runtime, cut to `max_length` bytes, the zero included; `length`, if not NULL, becomes the number of bytes
 * before the zero. */
int alpi_info_get(alpi_info_t query, char *buffer, size_t max_length, int *length);
/* ALPI_SUCCESS if all features of the mask are there, ALPI_ERR_FEATURE_UNKNOWN if not. */
int alpi_feature_check(int feature_bitmask);
/* ALPI_SUCCESS if a program made for this version runs here: the same major number, and no larger minor one. */
int alpi_version_check(int major, int minor);
int alpi_version_get(int *major, int *minor);

/* The calling task; NULL outside of tasks, which is no error. */
int alpi_task_self(struct alpi_task **task);
/* [task] Pauses until another thread unblocks the task; if one has done so since the last pause, not at all. Another thread uses the
 * processor meanwhile. */
int alpi_task_block(struct alpi_task *task);
/* Lets a task go on that has not ended. From any thread; once for each pause. */
int alpi_task_unblock(struct alpi_task *task);
/* [task] Pauses for about so long; `actual_ns`, if not NULL, becomes how long it was. Unblocking has no part in it. 0: lets others
 * run for a moment. */
int alpi_task_waitfor_ns(uint64_t target_ns, uint64_t *actual_ns);

/* [task] The task completes, and its successors get its data, only when so many more events are fulfilled. */
int alpi_task_events_increase(struct alpi_task *task, uint64_t increment);
/* [task] 1 if there are such events, 0 if not. */
int alpi_task_events_test(struct alpi_task *task, uint64_t *has_events);
/* So many of a task's events are fulfilled. From any thread. */
int alpi_task_events_decrease(struct alpi_task *task, uint64_t decrement);

/* Attributes with the defaults, for alpi_task_spawn. */
int alpi_attr_create(struct alpi_attr **attr);
/* Gives back what alpi_attr_create() made; anything else is ALPI_ERR_PARAMETER. */
int alpi_attr_destroy(struct alpi_attr *attr);
/* Makes attributes, with the defaults, of memory of the caller's: alpi_attr_size() bytes. Or resets existing ones. */
int alpi_attr_init(struct alpi_attr *attr);
int alpi_attr_size(uint64_t *attr_size);

/* Creates a task that calls body(body_args), without accesses and with nothing to do with the calling one. When it has completed, and
 * all tasks that it created have, completion_callback(completion_args) is called on some thread; it must not wait. The label, which may
 * be NULL, is copied. `attr` may be NULL. From any thread. castell_stop() waits for such tasks. */
int alpi_task_spawn(void (*body)(void *), void *body_args, void (*completion_callback)(void *), void *completion_args,
                    const char *label, const struct alpi_attr *attr);

/* How many workers the runtime has. */
int alpi_cpu_count(uint64_t *count);
/* [task] Which of them runs the task: less than alpi_cpu_count(). After a pause it may be another one. */
int alpi_cpu_logical_id(uint64_t *logical_id);
/* [task] The processor that the task runs on, in the system's numbers. */
int alpi_cpu_system_id(uint64_t *system_id);

/* [task] When the task's body is called again if it suspends itself: holds for its next suspension. */
int alpi_task_suspend_mode_set(struct alpi_task *task, alpi_suspend_mode_t suspend_mode, uint64_t args);
/* [task] When the body returns, the task is not over: its body is called again, with the same argument. For tasks of alpi_task_spawn()
 * and those of castell_submit() whose argument is copied and that have no reductions; ALPI_ERR_FEATURE_UNKNOWN for others. */
int alpi_task_suspend(struct alpi_task *task);

#ifdef __cplusplus
}
#endif
#endif /* CASTELL_ALPI_H */
