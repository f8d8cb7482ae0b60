/* entries.c: the entry points of all collectives, made of the table in collectives.h: blocking, non-blocking and persistent, each
 * with int and with MPI_Count, each as MPI_X and as PMPI_X.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "below.h"
#include "plain.h"

#define LIST(list) ((struct door_list){(list), sizeof *(list)})
#define LISTED(...) __VA_ARGS__
#define JOIN_(a, b, c, d) a##b##c##d
#define JOIN(a, b, c, d) JOIN_(a, b, c, d)
#define NAME(prefix, name, suffix) JOIN(prefix, name, suffix, SUFFIX)

/* One function. Its address below is found when the library is loaded; a program that calls it has found it, too. */
#define ENTRY(code, has_form, name, suffix, parameters, names, place, ...)                                               \
    EXPORT int NAME(MPI_, name, suffix) parameters;                                                                     \
    EXPORT int NAME(PMPI_, name, suffix) parameters;                                                                    \
    static int (*NAME(below_, name, _at##suffix)) parameters;                                                           \
    int NAME(MPI_, name, suffix) parameters                                                                             \
    {                                                                                                                   \
        const struct door_arguments passed = {                                                                          \
            .operation = DOOR_##code, .form = has_form, .comm = comm, __VA_ARGS__};                                     \
        int result;                                                                                                     \
        enum door_way way = door_quick(&passed, &result);                                                               \
        if (way == DOOR_MADE)                                                                                           \
            return result;                                                                                              \
        if (!NAME(below_, name, _at##suffix))                                                                           \
            NAME(below_, name, _at##suffix) = door_find(TEXT(NAME(PMPI_, name, suffix)), TEXT(NAME(PMPIX_, name, suffix))); \
        if (way == DOOR_PASSES)                                                                                         \
            return NAME(below_, name, _at##suffix) names;                                                               \
        struct door_arguments arguments = passed; /* so that what is quick needs no memory */                           \
        if (door_answer(&arguments, place, &result))                                                                    \
            return result;                                                                                              \
        return door_was_below(&arguments, NAME(below_, name, _at##suffix) names);                                       \
    }                                                                                                                   \
    int NAME(PMPI_, name, suffix) parameters __attribute__((alias(TEXT(NAME(MPI_, name, suffix)))));

#define TEXT_(word) #word
#define TEXT(word) TEXT_(word)

/* The three forms. */
#define COLLECTIVE(code, name, started, parameters, names, ...)                                                         \
    ENTRY(code, DOOR_BLOCKING, name, , parameters, names, NULL, __VA_ARGS__)                                            \
    ENTRY(code, DOOR_STARTED, started, , (LISTED parameters, MPI_Request *request), (LISTED names, request), request,   \
          __VA_ARGS__)                                                                                                  \
    ENTRY(code, DOOR_PERSISTENT, name, _init, (LISTED parameters, MPI_Info info, MPI_Request *request),                 \
          (LISTED names, info, request), request, __VA_ARGS__)

#define COUNT int
#define DISPLACEMENT int
#define SUFFIX
#include "collectives.h"
#undef COUNT
#undef DISPLACEMENT
#undef SUFFIX

/* Not where the MPI below has none, as Open MPI up to 5: programs that look for them, mpi4py for one, are to find none. */
#if MPI_VERSION >= 4
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#define SUFFIX _c
#define IS_LARGE
#include "collectives.h"
#endif

#undef COLLECTIVE
#undef ENTRY

/* What Open MPI 4.1 calls its persistent collectives. */
#ifdef OPEN_MPI
#undef COUNT
#undef DISPLACEMENT
#undef SUFFIX
#undef IS_LARGE
#define COUNT int
#define DISPLACEMENT int
#define COLLECTIVE(code, name, started, parameters, names, ...)                                                         \
    EXPORT int MPIX_##name##_init(LISTED parameters, MPI_Info info, MPI_Request *request)                               \
        __attribute__((alias("MPI_" #name "_init")));                                                                   \
    EXPORT int PMPIX_##name##_init(LISTED parameters, MPI_Info info, MPI_Request *request)                              \
        __attribute__((alias("MPI_" #name "_init")));
#include "collectives.h"
#endif
