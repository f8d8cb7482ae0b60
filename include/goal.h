/* goal.h: dependency graphs of messages and local operations, for C11 and C++17.
 *
 * A process describes its part of a communication pattern as a graph (GOAL_CreateGraph, GOAL_Send, GOAL_Requires, ...),
 * compiles it once (GOAL_Compile) and runs it as often as it likes (GOAL_Run, GOAL_Test, GOAL_Wait). A started run makes
 * progress by itself. The functions of the paper (Schneider, Eckelmann: ESPGOAL, 2011, chapter 2) keep its names, argument
 * orders and defaults; what goes beyond it stands under "Extensions". docs/src/c-api.md describes each function in full.
 *
 *   - Sizes are in bytes, `element_width` in bits, times in nanoseconds, time stamps in seconds.
 *   - Every function may be called from any thread at any time; one graph is built by one thread at a time.
 *   - What fails returns a code below zero, GOAL_INVALID_VERTEX or NULL; GOAL_LastError() says what was wrong.
 *   - Trailing arguments have defaults: `tag` 0, memory GOAL_USERSPACE. C++ has them as default arguments, C11 as macros of
 *     the functions' names. (In C, put brackets around a compound literal with commas: macros split at those.)
 *   - Names that end in an underscore are not for programs.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef GOAL_H
#define GOAL_H

#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX < UINT64_MAX
#error "goal.h: this library needs 64-bit pointers"
#endif

/* Version of this header; GOAL_Version() tells the library's. */
#define GOAL_VERSION "0.1.0"

#ifdef __cplusplus
#define GOAL_DEFAULT_(value) = value
extern "C" {
#else
#define GOAL_DEFAULT_(value)
#endif

/* ---------------------------------------------------------------------------------------------------------- Types */

/* Graphs, schedules and handles are numbers in a pointer's clothes: never dereferenced, checked at each use; NULL: none. */
typedef struct GOAL_GraphObject *GOAL_Graph;       /* operations and dependencies of this process, as they are added */
typedef struct GOAL_ScheduleObject *GOAL_Schedule; /* a compiled graph; cannot be changed */
typedef struct GOAL_HandleObject *GOAL_Handle;     /* one run of a schedule */

/* An operation of a graph. */
typedef int64_t GOAL_Vertex;
#define GOAL_INVALID_VERTEX (-INT64_C(1))

/* What a buffer argument means. */
typedef enum GOAL_MemType {
    GOAL_USERSPACE = 0, /* a pointer into this process's memory */
    GOAL_SCRATCHPAD = 1 /* a byte offset in the scratchpad of the schedule */
} GOAL_MemType;

/* Operator of a local operation: b3[i] = b1[i] op b2[i]. The codes of operators, types, widths and memory types are all
 * different, so arguments in the wrong order are noticed. */
typedef enum GOAL_Op {
    GOAL_MAX = 65,
    GOAL_MIN = 66,
    GOAL_ADD = 67,
    GOAL_SUB = 68,
    GOAL_DIV = 69,
    GOAL_MUL = 70,
    GOAL_COPY = 71,  /* b3[i] = b1[i]; b2 is not used */
    GOAL_AND = 72,   /* integers only, as are the next two */
    GOAL_OR = 73,
    GOAL_XOR = 74,
    GOAL_WTIME = 75  /* writes a time stamp in seconds as one double to b3; all else is not used */
} GOAL_Op;

/* Kind of the elements of a local operation. */
typedef enum GOAL_DataType {
    GOAL_SINT = 97, /* signed integers of 8, 16, 32 or 64 bits */
    GOAL_UINT = 98, /* unsigned integers of 8, 16, 32 or 64 bits */
    GOAL_FLOAT = 99, /* floating point of 16, 32 or 64 bits (IEEE 754) */
    GOAL_BFLOAT = 100 /* bfloat16, 16 bits: the upper half of a float of 32 (extension) */
} GOAL_DataType;

/* For the source and the tag of a receive. */
#define GOAL_ANY_SOURCE (-1)
#define GOAL_ANY_TAG (-1)

/* What a library may offer beyond the paper; GOAL_IsExtensionAvailable() tells whether this one does. */
typedef enum GOAL_ExtensionId {
    GOAL_EXTENSION_START_DEPENDENCIES = 1, /* GOAL_IRequires */
    GOAL_EXTENSION_CALC = 2,               /* GOAL_Calc, GOAL_Sleep, GOAL_Proxy */
    GOAL_EXTENSION_CALL = 3,               /* GOAL_Call */
    GOAL_EXTENSION_ONE_SIDED = 4,          /* GOAL_Put, GOAL_Get */
    GOAL_EXTENSION_ANY = 5,                /* GOAL_SetAny */
    GOAL_EXTENSION_CONCURRENT = 6,         /* GOAL_SetConcurrent */
    GOAL_EXTENSION_LABELS = 7,             /* GOAL_SetLabel */
    GOAL_EXTENSION_OPEN_RUNS = 8,          /* GOAL_RunOpen */
    GOAL_EXTENSION_ERRORS = 9,             /* GOAL_LastError and its kin, GOAL_HandleError, GOAL_FreeHandle */
    GOAL_EXTENSION_SAVED_SCHEDULES = 10,   /* GOAL_SaveSchedule, GOAL_LoadSchedule */
    GOAL_EXTENSION_THREADS = 11            /* every function may be called from any thread */
} GOAL_ExtensionId;

/* What went wrong. GOAL_ErrorName() gives a code's name, GOAL_LastError() the whole story. */
typedef enum GOAL_Error {
    GOAL_SUCCESS = 0,
    GOAL_ERR_NOT_INITIALIZED = -2,     /* before GOAL_Init */
    GOAL_ERR_ALREADY_INITIALIZED = -3, /* GOAL_Init a second time */
    GOAL_ERR_FINALIZED = -4,           /* after GOAL_Finalize */
    GOAL_ERR_LAUNCH = -5,              /* the group could not be formed */
    GOAL_ERR_GRAPH = -6,               /* not a graph, or a freed one */
    GOAL_ERR_SCHEDULE = -7,            /* not a schedule, or a freed one */
    GOAL_ERR_HANDLE = -8,              /* not a handle */
    GOAL_ERR_VERTEX = -9,              /* not a vertex of this graph */
    GOAL_ERR_RANK = -10,               /* no such rank in the group */
    GOAL_ERR_TAG = -11,                /* a tag below zero */
    GOAL_ERR_COUNT = -12,              /* a size or number below zero, or too large */
    GOAL_ERR_BUFFER = -13,             /* NULL, an impossible address, or outside the scratchpad */
    GOAL_ERR_OPERATION = -14,          /* operator, type and width do not go together */
    GOAL_ERR_INCOMPLETE = -15,         /* something could not be added to this graph: it cannot be compiled */
    GOAL_ERR_CYCLE = -16,              /* the dependencies go round in a circle */
    GOAL_ERR_FORMAT = -17,             /* not the bytes of a saved schedule */
    GOAL_ERR_LIMIT = -18,              /* too many objects, or too large a graph */
    GOAL_ERR_RUN = -19,                /* the run could not be started */
    GOAL_ERR_FAILED = -20,             /* the run failed for another reason than the next two */
    GOAL_ERR_PEER = -21,               /* the run failed: a process that it needs has died, left, or failed itself */
    GOAL_ERR_SIZE = -22,               /* the run failed: a message has another size than its receive */
    GOAL_ERR_INTERNAL = -99            /* a bug of the library */
} GOAL_Error;

/* ------------------------------------------------------------------------------------- The process and its group (2.2.1) */

/* Joins the group that the launcher made; a group of one without a launcher. Once per process. */
int GOAL_Init(void);
/* 1 once GOAL_Init has succeeded (also after GOAL_Finalize), else 0. */
int GOAL_IsInitialized(void);
/* Waits for all runs of this process, then leaves the group; graphs, schedules and handles are gone. */
int GOAL_Finalize(void);
/* 1 before GOAL_Init and after GOAL_Finalize, else 0. */
int GOAL_IsFinalized(void);
/* Number of processes of the group. */
int GOAL_GroupSize(void);
/* Number of this process, from 0 to GOAL_GroupSize() - 1. */
int GOAL_MyRank(void);

/* ------------------------------------------------------------------------------------------------------- Graphs (2.2.2) */

/* A new graph without operations. */
GOAL_Graph GOAL_CreateGraph(void);
/* Frees a graph; schedules compiled from it stay. */
int GOAL_FreeGraph(GOAL_Graph graph);

/* --------------------------------------------------------------------------------------------------- Operations (2.2.3) */

/* Sends `count` bytes. */
GOAL_Vertex GOAL_Send(GOAL_Graph graph, const void *buf, int64_t count, int dest, int tag GOAL_DEFAULT_(0),
                      GOAL_MemType mem GOAL_DEFAULT_(GOAL_USERSPACE));

/* Receives exactly `count` bytes from `source` (or GOAL_ANY_SOURCE) with `tag` (or GOAL_ANY_TAG). */
GOAL_Vertex GOAL_Recv(GOAL_Graph graph, void *buf, int64_t count, int source, int tag GOAL_DEFAULT_(0),
                      GOAL_MemType mem GOAL_DEFAULT_(GOAL_USERSPACE));

/* Sends `num_elements` pieces of memory as one message; only its total size has to match the receive. */
GOAL_Vertex GOAL_SendVec(GOAL_Graph graph, void **offsets, int *lengths, int num_elements, int dest,
                         int tag GOAL_DEFAULT_(0), GOAL_MemType mem GOAL_DEFAULT_(GOAL_USERSPACE));

/* Receives one message into `num_elements` pieces of memory. */
GOAL_Vertex GOAL_RecvVec(GOAL_Graph graph, void **offsets, int *lengths, int num_elements, int source,
                         int tag GOAL_DEFAULT_(0), GOAL_MemType mem GOAL_DEFAULT_(GOAL_USERSPACE));

/* bres[i] = b1[i] op b2[i] for `num_elements` elements of `element_width` bits. */
GOAL_Vertex GOAL_LocalOp(GOAL_Graph graph, const void *b1, const void *b2, void *bres, GOAL_Op op, GOAL_DataType dt,
                         int element_width, int64_t num_elements, GOAL_MemType b1_mem GOAL_DEFAULT_(GOAL_USERSPACE),
                         GOAL_MemType b2_mem GOAL_DEFAULT_(GOAL_USERSPACE),
                         GOAL_MemType b3_mem GOAL_DEFAULT_(GOAL_USERSPACE));

/* The same over lists of blocks, whose lengths are in bytes. Mind the order: type, width, operator (as in the paper). */
GOAL_Vertex GOAL_LocalOpVec(GOAL_Graph graph, void **buf1, int *lengths1, int num_elements1, void **buf2, int *lengths2,
                            int num_elements2, void **buf3, int *lengths3, int num_elements3, int datatype,
                            int datatype_width, int op, GOAL_MemType b1_mem GOAL_DEFAULT_(GOAL_USERSPACE),
                            GOAL_MemType b2_mem GOAL_DEFAULT_(GOAL_USERSPACE),
                            GOAL_MemType b3_mem GOAL_DEFAULT_(GOAL_USERSPACE));

/* ---------------------------------------------------------------------------- Dependencies and scratchpad (2.2.4, 2.2.5) */

/* `target` starts only once `prerequisite` has finished. */
int GOAL_Requires(GOAL_Graph graph, GOAL_Vertex prerequisite, GOAL_Vertex target);
/* Each run gets `bytes` bytes of scratchpad, with anything in them at its start, gone at its end. The last call counts. */
int GOAL_AllocateScratchpad(GOAL_Graph graph, size_t bytes);

/* --------------------------------------------------------------------------------------------- Schedules (2.2.6, 2.2.7) */

/* Compiles a graph. NULL if an earlier call could not add what it should to the graph (so a program may check here only),
 * if the dependencies go in a circle, or if a buffer leaves the scratchpad. The graph stays as it is. */
GOAL_Schedule GOAL_Compile(GOAL_Graph graph);
/* Frees a schedule; runs of it go on. */
int GOAL_FreeSchedule(GOAL_Schedule sched);
/* 1 if GOAL_Run would take it, else 0. */
int GOAL_IsScheduleValid(GOAL_Schedule sched);
/* For programs that must run with other libraries, too: our schedules can always be run again. */
void GOAL_MakeScheduleReusable(GOAL_Schedule sched);

/* Starts a run and returns at once. Ranks that exchange messages run their schedules in the same order. */
GOAL_Handle GOAL_Run(GOAL_Schedule sched);
/* 1 if the run is over (also when it failed), 0 if it goes on; never blocks. */
int GOAL_Test(GOAL_Handle handle);
/* Blocks until the run is over. 0 if it went well, else a code; GOAL_HandleError() has the reason. */
int GOAL_Wait(GOAL_Handle handle);

/* Whether GOAL_<extension> is there (2.3): 1 or 0. */
int GOAL_IsExtensionAvailable(GOAL_ExtensionId ext);

/* ----------------------------------------------------------------------------------------------------------- Extensions */

/* `target` starts only once `prerequisite` has started. */
int GOAL_IRequires(GOAL_Graph graph, GOAL_Vertex prerequisite, GOAL_Vertex target);

/* Computes (keeps this process's processor busy) for `ns` nanoseconds. */
GOAL_Vertex GOAL_Calc(GOAL_Graph graph, int64_t ns);
/* Lasts `ns` nanoseconds without computing. */
GOAL_Vertex GOAL_Sleep(GOAL_Graph graph, int64_t ns);
/* Does nothing: a point where dependencies meet. */
GOAL_Vertex GOAL_Proxy(GOAL_Graph graph);

/* A local operation of the user; runs on any thread of this process, must not block, throw or longjmp. */
typedef void (*GOAL_Function)(void *context);
/* Calls function(context). */
GOAL_Vertex GOAL_Call(GOAL_Graph graph, GOAL_Function function, void *context);

/* Writes `count` bytes into the scratchpad of `dest`'s matching run, from byte `remote_offset` on. */
GOAL_Vertex GOAL_Put(GOAL_Graph graph, const void *buf, int64_t count, int dest, int64_t remote_offset,
                     GOAL_MemType mem GOAL_DEFAULT_(GOAL_USERSPACE));
/* Reads `count` bytes of the scratchpad of `source`'s matching run, from byte `remote_offset` on. */
GOAL_Vertex GOAL_Get(GOAL_Graph graph, void *buf, int64_t count, int source, int64_t remote_offset,
                     GOAL_MemType mem GOAL_DEFAULT_(GOAL_USERSPACE));

/* The vertex starts once `k` of its dependencies are met, and not only once all of them are. */
int GOAL_SetAny(GOAL_Graph graph, GOAL_Vertex vertex, int k);
/* The vertex does not occupy the process while it lasts (calc and sleep become timers). */
int GOAL_SetConcurrent(GOAL_Graph graph, GOAL_Vertex vertex);
/* Names the vertex in messages and pictures. The text is copied. */
int GOAL_SetLabel(GOAL_Graph graph, GOAL_Vertex vertex, const char *label);

/* Starts a run whose messages match those of all open runs, in the order of posting. */
GOAL_Handle GOAL_RunOpen(GOAL_Schedule sched);

/* Why a run failed, as text: copies at most `size` bytes, the closing zero among them, and returns the text's length;
 * 0 for a run that has not failed. */
int GOAL_HandleError(GOAL_Handle handle, char *text, size_t size);
/* Forgets a handle; a run that is not over goes on unobserved. Needed only for failed or abandoned runs. */
int GOAL_FreeHandle(GOAL_Handle handle);

/* The last failure on this thread: text (never NULL; valid until this thread's next failure) and code. */
const char *GOAL_LastError(void);
int GOAL_LastErrorCode(void);
/* The name of a code, such as "GOAL_ERR_RANK". */
const char *GOAL_ErrorName(int code);

/* The bytes of a schedule without pointers: returns how many they are and writes them if `size` is large enough. */
int64_t GOAL_SaveSchedule(GOAL_Schedule sched, void *bytes, size_t size);
/* The schedule of such bytes; they are checked and copied. */
GOAL_Schedule GOAL_LoadSchedule(const void *bytes, size_t size);

/* Seconds on the clock of GOAL_WTIME: that of this host, which no two hosts have in common (castell_clock_now in castell.h: one for all). */
double GOAL_Wtime(void);
/* The library's version, such as "0.1.0". */
const char *GOAL_Version(void);

/* ---------------------------------------------------------------------------------------- Spellings of the paper's text */

#define GOAL_requires GOAL_Requires
#define GOAL_MakeScheduleReuseable GOAL_MakeScheduleReusable
#if !defined(INVALID_VERTEX) && !defined(GOAL_NO_SHORT_NAMES)
#define INVALID_VERTEX GOAL_INVALID_VERTEX
#endif

#ifdef __cplusplus
} /* extern "C" */

#include <type_traits>

/* Scratchpad offsets may be plain numbers in C++, and a memory type may stand in the tag's place, as in the paper's 2.2.4
 * and 2.2.5. */
namespace GOAL_cpp_ {
template <class T>
inline typename std::enable_if<std::is_integral<T>::value, void *>::type address(T offset) {
    return reinterpret_cast<void *>(static_cast<uintptr_t>(offset));
}
inline void *address(const void *pointer) { return const_cast<void *>(pointer); }
inline void *address(std::nullptr_t) { return nullptr; }
} // namespace GOAL_cpp_

#define GOAL_IF_OFFSET_(T) typename std::enable_if<std::is_integral<T>::value, int>::type = 0

template <class T, GOAL_IF_OFFSET_(T)>
inline GOAL_Vertex GOAL_Send(GOAL_Graph graph, T offset, int64_t count, int dest, int tag = 0,
                             GOAL_MemType mem = GOAL_USERSPACE) {
    return GOAL_Send(graph, static_cast<const void *>(GOAL_cpp_::address(offset)), count, dest, tag, mem);
}
template <class T, GOAL_IF_OFFSET_(T)>
inline GOAL_Vertex GOAL_Recv(GOAL_Graph graph, T offset, int64_t count, int source, int tag = 0,
                             GOAL_MemType mem = GOAL_USERSPACE) {
    return GOAL_Recv(graph, GOAL_cpp_::address(offset), count, source, tag, mem);
}
template <class T>
inline GOAL_Vertex GOAL_Send(GOAL_Graph graph, T buf, int64_t count, int dest, GOAL_MemType mem) {
    return GOAL_Send(graph, static_cast<const void *>(GOAL_cpp_::address(buf)), count, dest, 0, mem);
}
template <class T>
inline GOAL_Vertex GOAL_Recv(GOAL_Graph graph, T buf, int64_t count, int source, GOAL_MemType mem) {
    return GOAL_Recv(graph, GOAL_cpp_::address(buf), count, source, 0, mem);
}
inline GOAL_Vertex GOAL_SendVec(GOAL_Graph graph, void **offsets, int *lengths, int num_elements, int dest,
                                GOAL_MemType mem) {
    return GOAL_SendVec(graph, offsets, lengths, num_elements, dest, 0, mem);
}
inline GOAL_Vertex GOAL_RecvVec(GOAL_Graph graph, void **offsets, int *lengths, int num_elements, int source,
                                GOAL_MemType mem) {
    return GOAL_RecvVec(graph, offsets, lengths, num_elements, source, 0, mem);
}
template <class T, GOAL_IF_OFFSET_(T)>
inline GOAL_Vertex GOAL_Put(GOAL_Graph graph, T offset, int64_t count, int dest, int64_t remote_offset,
                            GOAL_MemType mem = GOAL_USERSPACE) {
    return GOAL_Put(graph, static_cast<const void *>(GOAL_cpp_::address(offset)), count, dest, remote_offset, mem);
}
template <class T, GOAL_IF_OFFSET_(T)>
inline GOAL_Vertex GOAL_Get(GOAL_Graph graph, T offset, int64_t count, int source, int64_t remote_offset,
                            GOAL_MemType mem = GOAL_USERSPACE) {
    return GOAL_Get(graph, GOAL_cpp_::address(offset), count, source, remote_offset, mem);
}
template <class A, class B, class C,
          typename std::enable_if<std::is_integral<A>::value || std::is_integral<B>::value || std::is_integral<C>::value,
                                  int>::type = 0>
inline GOAL_Vertex GOAL_LocalOp(GOAL_Graph graph, A b1, B b2, C bres, GOAL_Op op, GOAL_DataType dt, int element_width,
                                int64_t num_elements, GOAL_MemType b1_mem = GOAL_USERSPACE,
                                GOAL_MemType b2_mem = GOAL_USERSPACE, GOAL_MemType b3_mem = GOAL_USERSPACE) {
    const void *first = GOAL_cpp_::address(b1), *second = GOAL_cpp_::address(b2);
    return GOAL_LocalOp(graph, first, second, GOAL_cpp_::address(bres), op, dt, element_width, num_elements, b1_mem, b2_mem,
                        b3_mem);
}
#undef GOAL_IF_OFFSET_

#else /* C11: a macro for each function with trailing defaults; (GOAL_Send)(...) and &GOAL_Send are the functions. */

#define GOAL_PICK_(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, count, ...) count
#define GOAL_COUNT_(...) GOAL_PICK_(__VA_ARGS__, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define GOAL_GLUE_(name, count) name##count
#define GOAL_WITH_COUNT_(name, count) GOAL_GLUE_(name, count)
#define GOAL_ADDRESS_(buffer) ((void *)(uintptr_t)(buffer)) /* a pointer, or an offset as a plain number */

#define GOAL_Send(...) GOAL_WITH_COUNT_(GOAL_Send_, GOAL_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define GOAL_Send_4(g, b, n, r) GOAL_Send_6(g, b, n, r, 0, GOAL_USERSPACE)
#define GOAL_Send_5(g, b, n, r, t) GOAL_Send_6(g, b, n, r, t, GOAL_USERSPACE)
#define GOAL_Send_6(g, b, n, r, t, m) (GOAL_Send)(g, GOAL_ADDRESS_(b), n, r, t, m)

#define GOAL_Recv(...) GOAL_WITH_COUNT_(GOAL_Recv_, GOAL_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define GOAL_Recv_4(g, b, n, r) GOAL_Recv_6(g, b, n, r, 0, GOAL_USERSPACE)
#define GOAL_Recv_5(g, b, n, r, t) GOAL_Recv_6(g, b, n, r, t, GOAL_USERSPACE)
#define GOAL_Recv_6(g, b, n, r, t, m) (GOAL_Recv)(g, GOAL_ADDRESS_(b), n, r, t, m)

#define GOAL_SendVec(...) GOAL_WITH_COUNT_(GOAL_SendVec_, GOAL_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define GOAL_SendVec_5(g, b, l, n, r) (GOAL_SendVec)(g, b, l, n, r, 0, GOAL_USERSPACE)
#define GOAL_SendVec_6(g, b, l, n, r, t) (GOAL_SendVec)(g, b, l, n, r, t, GOAL_USERSPACE)
#define GOAL_SendVec_7(g, b, l, n, r, t, m) (GOAL_SendVec)(g, b, l, n, r, t, m)

#define GOAL_RecvVec(...) GOAL_WITH_COUNT_(GOAL_RecvVec_, GOAL_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define GOAL_RecvVec_5(g, b, l, n, r) (GOAL_RecvVec)(g, b, l, n, r, 0, GOAL_USERSPACE)
#define GOAL_RecvVec_6(g, b, l, n, r, t) (GOAL_RecvVec)(g, b, l, n, r, t, GOAL_USERSPACE)
#define GOAL_RecvVec_7(g, b, l, n, r, t, m) (GOAL_RecvVec)(g, b, l, n, r, t, m)

#define GOAL_LocalOp(...) GOAL_WITH_COUNT_(GOAL_LocalOp_, GOAL_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define GOAL_LocalOp_8(g, a, b, c, op, dt, w, n) \
    GOAL_LocalOp_11(g, a, b, c, op, dt, w, n, GOAL_USERSPACE, GOAL_USERSPACE, GOAL_USERSPACE)
#define GOAL_LocalOp_9(g, a, b, c, op, dt, w, n, m1) \
    GOAL_LocalOp_11(g, a, b, c, op, dt, w, n, m1, GOAL_USERSPACE, GOAL_USERSPACE)
#define GOAL_LocalOp_10(g, a, b, c, op, dt, w, n, m1, m2) GOAL_LocalOp_11(g, a, b, c, op, dt, w, n, m1, m2, GOAL_USERSPACE)
#define GOAL_LocalOp_11(g, a, b, c, op, dt, w, n, m1, m2, m3) \
    (GOAL_LocalOp)(g, GOAL_ADDRESS_(a), GOAL_ADDRESS_(b), GOAL_ADDRESS_(c), op, dt, w, n, m1, m2, m3)

#define GOAL_LocalOpVec(...) GOAL_WITH_COUNT_(GOAL_LocalOpVec_, GOAL_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define GOAL_LocalOpVec_13(g, b1, l1, n1, b2, l2, n2, b3, l3, n3, dt, w, op) \
    (GOAL_LocalOpVec)(g, b1, l1, n1, b2, l2, n2, b3, l3, n3, dt, w, op, GOAL_USERSPACE, GOAL_USERSPACE, GOAL_USERSPACE)
#define GOAL_LocalOpVec_14(g, b1, l1, n1, b2, l2, n2, b3, l3, n3, dt, w, op, m1) \
    (GOAL_LocalOpVec)(g, b1, l1, n1, b2, l2, n2, b3, l3, n3, dt, w, op, m1, GOAL_USERSPACE, GOAL_USERSPACE)
#define GOAL_LocalOpVec_15(g, b1, l1, n1, b2, l2, n2, b3, l3, n3, dt, w, op, m1, m2) \
    (GOAL_LocalOpVec)(g, b1, l1, n1, b2, l2, n2, b3, l3, n3, dt, w, op, m1, m2, GOAL_USERSPACE)
#define GOAL_LocalOpVec_16(g, b1, l1, n1, b2, l2, n2, b3, l3, n3, dt, w, op, m1, m2, m3) \
    (GOAL_LocalOpVec)(g, b1, l1, n1, b2, l2, n2, b3, l3, n3, dt, w, op, m1, m2, m3)

#define GOAL_Put(...) GOAL_WITH_COUNT_(GOAL_Put_, GOAL_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define GOAL_Put_5(g, b, n, r, o) GOAL_Put_6(g, b, n, r, o, GOAL_USERSPACE)
#define GOAL_Put_6(g, b, n, r, o, m) (GOAL_Put)(g, GOAL_ADDRESS_(b), n, r, o, m)

#define GOAL_Get(...) GOAL_WITH_COUNT_(GOAL_Get_, GOAL_COUNT_(__VA_ARGS__))(__VA_ARGS__)
#define GOAL_Get_5(g, b, n, r, o) GOAL_Get_6(g, b, n, r, o, GOAL_USERSPACE)
#define GOAL_Get_6(g, b, n, r, o, m) (GOAL_Get)(g, GOAL_ADDRESS_(b), n, r, o, m)

#endif /* __cplusplus */

#endif /* GOAL_H */
