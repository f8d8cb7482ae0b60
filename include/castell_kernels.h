/* castell_kernels.h: code for several resources of a node, run where the node's daemon says; for C11 and C++17.
 *
 * A program often has the code of one computation for several resources: one core, all cores, a GPU. It registers these kernels
 * together, as a collection, and runs the collection as often as it likes, from any thread: each time the daemon (`castell daemon`)
 * says on which resource, when that is free and its strategy has chosen it. Where there is no daemon the program decides by
 * itself, by the same rules; when one comes, it joins it. docs/src/kernels.md explains the model.
 *
 *   - Functions that can fail return 0, or a code below zero; castell_kernels_error() says what was wrong.
 *   - Strings are copied. Times are in seconds.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef CASTELL_KERNELS_H
#define CASTELL_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CASTELL_KERNELS_ERR_ARGUMENT = -1, /* an argument that cannot be, kernels of no use on this node, a strategy that is none */
    CASTELL_KERNELS_ERR_SYSTEM = -3,   /* no memory, descriptors or threads left */
    CASTELL_KERNELS_ERR_REFUSED = -4,  /* the collection cannot run, or its application was closed */
    CASTELL_KERNELS_ERR_INTERNAL = -99 /* a bug of the library */
};

/* Why the calling thread's last failed call failed; stays until the next one. */
const char *castell_kernels_error(void);

/* A program's way to whoever decides. One is enough for a program. */
typedef struct castell_application castell_application;

/* Goes to the daemon of this node: the one at CASTELL_DAEMON, or this user's usual one; CASTELL_DAEMON=none for no daemon. */
int castell_application_open(castell_application **application, const char *name);
/* Who waits for a resource elsewhere fails with CASTELL_KERNELS_ERR_REFUSED. */
int castell_application_close(castell_application *application);
/* 1 while a daemon decides, 0 while the program does. */
int castell_application_has_daemon(const castell_application *application);

/* A strategy of the application's own: it says onto which resource each of the application's collections goes, and in which order; the
 * daemon's says when. `script` is its text in Luau, or NULL for one that comes with castell, by its name, with parameters behind a colon
 * ("constraint:limit_high=9"); `name` is what errors call it. The daemon tries it out first, and this waits for that; one that fails
 * later is stopped, and the daemon's decides alone again. It replaces the one before; NULL and NULL give that up. Without a daemon
 * nobody reads it, and rankings decide: a daemon that comes gets it. docs/src/strategies.md explains what it sees. */
int castell_application_strategy(castell_application *application, const char *name, const char *script);
/* The same with the script in a file. */
int castell_application_strategy_file(castell_application *application, const char *path);

enum {
    CASTELL_STRATEGY_NONE = 0,    /* the application has brought none */
    CASTELL_STRATEGY_ALONE = 1,   /* there is no daemon: the rankings decide */
    CASTELL_STRATEGY_TRIED = 2,   /* the daemon tries it out */
    CASTELL_STRATEGY_DECIDES = 3, /* it decides where */
    CASTELL_STRATEGY_STOPPED = 4  /* it was refused, or has failed: the daemon's decides alone */
};
/* What became of it. Why it was stopped is written to `why`, `size` bytes at most with the 0 at the end, if that is not NULL. */
int castell_application_strategy_state(const castell_application *application, char *why, size_t size);

/* Code for a resource. */
typedef struct castell_kernel {
    const char *resource; /* its name: "one_core", "all_cores", or what the administrator calls a device */
    void (*run)(void *argument, uint32_t step); /* one step of the computation, from 0 on */
    double step_s;        /* what a step takes there; 0: not known */
} castell_kernel;

/* Resources that there are kernels for, all of them, best first by some measure. */
typedef struct castell_ranking {
    const char *name; /* "performance", "accuracy", "energy" */
    const char *const *order;
    size_t count;
} castell_ranking;

typedef struct castell_collection castell_collection;

/* Registers kernels, one for each resource at most. Strategies go by the first ranking; without one, by the times. Kernels for what the
 * node does not have are left out. */
int castell_collection_register(castell_collection **collection, castell_application *application,
                                const castell_kernel *kernels, size_t kernel_count,
                                const castell_ranking *rankings, size_t ranking_count);
/* Carries the computation out once, in so many steps: waits for a resource, and calls its kernel with `argument` on this thread. After each
 * step it may have to go elsewhere. Any number of threads may run one collection at a time. */
int castell_collection_run(const castell_collection *collection, void *argument, uint32_t steps);
/* Also after its application was closed; not while it runs. */
int castell_collection_free(castell_collection *collection);

#ifdef __cplusplus
}
#endif

#endif
