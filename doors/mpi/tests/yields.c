/* Loaded before MPICH's programs with more ranks than processors: a rank that finds nothing to do in UCX gives its processor to the others,
 * which would wait for the end of its turn else, as Open MPI's ranks do by themselves. Nothing else is changed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*next)(void *);
    if (!next)
        next = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
    unsigned count = next(worker);
    if (!count)
        sched_yield();
    return count;
}
