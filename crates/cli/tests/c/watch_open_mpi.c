/* Loaded before Open MPI: says which of its algorithms each call of calls.c ends up in. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

static const char *call = "start";

void watch_call(const char *what) { call = what; }

typedef long word;
typedef int (*algorithm)(word, word, word, word, word, word, word, word, word, word);

/* All arguments are passed on, however many there are; the algorithms have at most ten words of them. */
#define WATCH(operation, name)                                                                                         \
    int ompi_coll_base_##operation##_intra_##name(word a, word b, word c, word d, word e, word f, word g, word h,      \
                                                  word i, word j) {                                                    \
        algorithm real = (algorithm)dlsym(RTLD_NEXT, "ompi_coll_base_" #operation "_intra_" #name);                    \
        fprintf(stderr, "algorithm %s: %s\n", call, #name);                                                            \
        return real(a, b, c, d, e, f, g, h, i, j);                                                                     \
    }

WATCH(allreduce, recursivedoubling)
WATCH(allreduce, ring)
WATCH(allreduce, redscat_allgather)
WATCH(allgather, ring)
WATCH(allgather, bruck)
WATCH(allgather, recursivedoubling)
WATCH(barrier, tree)
WATCH(barrier, bruck)
WATCH(bcast, pipeline)
WATCH(bcast, binomial)
WATCH(reduce, in_order_binary)
WATCH(reduce, binomial)
