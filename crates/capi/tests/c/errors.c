/* Every misuse that can be noticed: a code, a text, no crash. Runs as a group of one. */
#include "check.h"
#include <string.h>

/* The last call must have failed with `code`, and its text must contain `part`. */
#define EXPECT(code, part)                                                                                            \
    do {                                                                                                              \
        if (GOAL_LastErrorCode() != (code) || !strstr(GOAL_LastError(), part)) {                                      \
            fprintf(stderr, "%s:%d: expected %s with `%s`, got %s: %s\n", __FILE__, __LINE__, #code, part,            \
                    GOAL_ErrorName(GOAL_LastErrorCode()), GOAL_LastError());                                          \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)
#define REFUSED(vertex, code, part)              \
    do {                                         \
        CHECK((vertex) == GOAL_INVALID_VERTEX);  \
        EXPECT(code, part);                      \
    } while (0)
#define FAILS(call, code, part)   \
    do {                          \
        CHECK((call) == (code));  \
        EXPECT(code, part);       \
    } while (0)

static void before_init(void) {
    CHECK(!GOAL_IsInitialized() && GOAL_IsFinalized());
    CHECK(GOAL_LastErrorCode() == GOAL_SUCCESS && strlen(GOAL_LastError()) == 0);
    CHECK(GOAL_CreateGraph() == NULL);
    EXPECT(GOAL_ERR_NOT_INITIALIZED, "GOAL_CreateGraph: call GOAL_Init first");
    FAILS(GOAL_MyRank(), GOAL_ERR_NOT_INITIALIZED, "GOAL_MyRank");
    FAILS(GOAL_GroupSize(), GOAL_ERR_NOT_INITIALIZED, "GOAL_GroupSize");
    FAILS(GOAL_Finalize(), GOAL_ERR_NOT_INITIALIZED, "GOAL_Finalize");
    FAILS(GOAL_Wait(NULL), GOAL_ERR_NOT_INITIALIZED, "GOAL_Wait");
    CHECK(GOAL_Run(NULL) == NULL && GOAL_Test(NULL) == 1 && GOAL_IsScheduleValid(NULL) == 0);
    CHECK(strcmp(GOAL_Version(), GOAL_VERSION) == 0 && GOAL_Wtime() > 0);
    for (int ext = GOAL_EXTENSION_START_DEPENDENCIES; ext <= GOAL_EXTENSION_THREADS; ext++)
        CHECK(GOAL_IsExtensionAvailable((GOAL_ExtensionId)ext) == 1);
    CHECK(GOAL_IsExtensionAvailable((GOAL_ExtensionId)0) == 0 && GOAL_IsExtensionAvailable((GOAL_ExtensionId)999) == 0);
}

/* Operations that are refused; each graph is broken by the first of them, so each gets a fresh one. */
static void operations(void) {
    static double x[4], y[4], z[4];
    GOAL_Graph g = GOAL_CreateGraph();
    REFUSED(GOAL_Send(g, x, -1, 0), GOAL_ERR_COUNT, "count is -1");
    REFUSED(GOAL_Send(g, x, 8, 1), GOAL_ERR_RANK, "dest is 1; the group of 1");
    REFUSED(GOAL_Send(g, x, 8, -1), GOAL_ERR_RANK, "dest is -1");
    REFUSED(GOAL_Send(g, x, 8, 0, -1), GOAL_ERR_TAG, "tag is -1");
    REFUSED(GOAL_Send(g, NULL, 8, 0), GOAL_ERR_BUFFER, "NULL");
    REFUSED(GOAL_Send(g, 32, 8, 0, GOAL_SCRATCHPAD), GOAL_ERR_BUFFER, "address 32"); /* the paper's misprint, in C */
    REFUSED(GOAL_Send(g, -8, 8, 0, 0, GOAL_SCRATCHPAD), GOAL_ERR_BUFFER, "offset -8");
    REFUSED(GOAL_Send(g, x, 8, 0, 0, (GOAL_MemType)7), GOAL_ERR_OPERATION, "memory type");
    REFUSED(GOAL_Recv(g, x, 8, -2), GOAL_ERR_RANK, "source is -2");
    REFUSED(GOAL_Recv(g, x, 8, 0, -2), GOAL_ERR_TAG, "tag is -2");
    REFUSED(GOAL_Calc(g, -1), GOAL_ERR_COUNT, "ns is -1");
    REFUSED(GOAL_Sleep(g, -1), GOAL_ERR_COUNT, "ns is -1");
    REFUSED(GOAL_Call(g, NULL, x), GOAL_ERR_BUFFER, "function is NULL");
    REFUSED(GOAL_Put(g, x, 8, 3, 0), GOAL_ERR_RANK, "dest is 3");
    REFUSED(GOAL_Get(g, x, 8, 0, -4), GOAL_ERR_COUNT, "remote_offset is -4");

    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_AND, GOAL_FLOAT, 64, 4), GOAL_ERR_OPERATION, "`and` is not defined for f64");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_ADD, GOAL_FLOAT, 8, 4), GOAL_ERR_OPERATION, "element_width is 8");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_ADD, GOAL_BFLOAT, 32, 4), GOAL_ERR_OPERATION, "GOAL_BFLOAT has 16");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_XOR, GOAL_FLOAT, 16, 4), GOAL_ERR_OPERATION, "`xor` is not defined for f16");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_OR, GOAL_BFLOAT, 16, 4), GOAL_ERR_OPERATION, "`or` is not defined for bf16");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_ADD, GOAL_SINT, 1, 4), GOAL_ERR_OPERATION, "element_width is 1");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_ADD, GOAL_SINT, 8 * (int)sizeof x, 4), GOAL_ERR_OPERATION, "element_width");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_ADD, (GOAL_DataType)GOAL_ADD, 64, 4), GOAL_ERR_OPERATION, "the data type is");
    REFUSED(GOAL_LocalOp(g, x, y, z, (GOAL_Op)GOAL_FLOAT, GOAL_FLOAT, 64, 4), GOAL_ERR_OPERATION, "op is");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_ADD, GOAL_FLOAT, 64, -4), GOAL_ERR_COUNT, "num_elements is -4");
    REFUSED(GOAL_LocalOp(g, x, NULL, z, GOAL_ADD, GOAL_FLOAT, 64, 4), GOAL_ERR_BUFFER, "b2 is NULL");
    REFUSED(GOAL_LocalOp(g, x, y, z, GOAL_ADD, GOAL_FLOAT, 64, INT64_MAX), GOAL_ERR_COUNT, "64 bits");
    REFUSED(GOAL_LocalOp(g, NULL, NULL, NULL, GOAL_WTIME, GOAL_FLOAT, 64, 1), GOAL_ERR_BUFFER, "bres is NULL");

    void *blocks[2] = {x, y};
    int lengths[2] = {8, 16}, odd[2] = {8, 4}, below[2] = {8, -4};
    REFUSED(GOAL_SendVec(g, blocks, lengths, -1, 0), GOAL_ERR_COUNT, "num_elements is -1");
    REFUSED(GOAL_SendVec(g, NULL, lengths, 2, 0), GOAL_ERR_BUFFER, "NULL");
    REFUSED(GOAL_RecvVec(g, blocks, NULL, 2, 0), GOAL_ERR_BUFFER, "NULL");
    REFUSED(GOAL_RecvVec(g, blocks, below, 2, 0), GOAL_ERR_COUNT, "lengths[1] is -4");
    REFUSED(GOAL_LocalOpVec(g, blocks, lengths, 2, blocks, lengths, 2, blocks, odd, 2, GOAL_FLOAT, 32, GOAL_ADD),
            GOAL_ERR_COUNT, "add up");
    REFUSED(GOAL_LocalOpVec(g, blocks, odd, 2, blocks, odd, 2, blocks, odd, 2, GOAL_FLOAT, 64, GOAL_ADD), GOAL_ERR_COUNT,
            "whole elements");
    REFUSED(GOAL_LocalOpVec(g, blocks, lengths, 2, blocks, lengths, 2, blocks, lengths, 2, GOAL_ADD, 64, GOAL_FLOAT),
            GOAL_ERR_OPERATION, "op is"); /* type and operator swapped */

    /* A graph from which something is missing is not compiled, and the first thing is named. */
    CHECK(GOAL_Compile(g) == NULL);
    EXPECT(GOAL_ERR_INCOMPLETE, "GOAL_Send: count is -1");
    CHECK(GOAL_FreeGraph(g) == GOAL_SUCCESS);
}

static void dependencies(void) {
    GOAL_Graph g = GOAL_CreateGraph(), other = GOAL_CreateGraph();
    GOAL_Vertex a = GOAL_Proxy(g), b = GOAL_Proxy(g), foreign = GOAL_Proxy(other);
    FAILS(GOAL_Requires(g, a, GOAL_INVALID_VERTEX), GOAL_ERR_VERTEX, "target is GOAL_INVALID_VERTEX");
    FAILS(GOAL_Requires(g, foreign, b), GOAL_ERR_VERTEX, "another graph");
    FAILS(GOAL_Requires(g, a, 77), GOAL_ERR_VERTEX, "number 77");
    FAILS(GOAL_IRequires(g, a, a), GOAL_ERR_VERTEX, "itself");
    FAILS(GOAL_SetAny(g, a, 0), GOAL_ERR_COUNT, "at least 1");
    FAILS(GOAL_SetAny(g, a, -3), GOAL_ERR_COUNT, "-3");
    FAILS(GOAL_SetConcurrent(g, 1000), GOAL_ERR_VERTEX, "number 1000");
    FAILS(GOAL_SetLabel(g, a, NULL), GOAL_ERR_BUFFER, "label is NULL");
    FAILS(GOAL_AllocateScratchpad(g, SIZE_MAX), GOAL_ERR_COUNT, "scratchpad");
    GOAL_FreeGraph(g);

    g = GOAL_CreateGraph();
    int first = (int)GOAL_Proxy(g), second = (int)GOAL_Proxy(g); /* kept in an int, as the paper's prototype has it */
    GOAL_SetLabel(g, first, "hen");
    GOAL_SetLabel(g, second, "egg");
    CHECK(GOAL_Requires(g, first, second) == GOAL_SUCCESS && GOAL_Requires(g, second, first) == GOAL_SUCCESS);
    CHECK(GOAL_Compile(g) == NULL);
    EXPECT(GOAL_ERR_CYCLE, "`hen` -> `egg` -> `hen`");
    GOAL_FreeGraph(g);

    g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 15);
    GOAL_Send(g, 8, 8, 0, 0, GOAL_SCRATCHPAD);
    CHECK(GOAL_Compile(g) == NULL);
    EXPECT(GOAL_ERR_BUFFER, "scratchpad");
    GOAL_AllocateScratchpad(g, 16); /* not broken for ever: the last size counts */
    GOAL_Schedule schedule = GOAL_Compile(g);
    CHECK(GOAL_IsScheduleValid(schedule));
    GOAL_FreeGraph(g);
    GOAL_FreeGraph(other);
    GOAL_FreeSchedule(schedule);
}

static void objects(void) {
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_Schedule schedule = GOAL_Compile(g); /* an empty graph is one */
    GOAL_Handle handle = GOAL_Run(schedule);
    CHECK(g && schedule && handle);
    FAILS(GOAL_FreeGraph(NULL), GOAL_ERR_GRAPH, "NULL");
    FAILS(GOAL_FreeGraph((GOAL_Graph)(void *)schedule), GOAL_ERR_GRAPH, "no graph");
    FAILS(GOAL_FreeSchedule((GOAL_Schedule)(void *)&g), GOAL_ERR_SCHEDULE, "no schedule");
    FAILS(GOAL_Wait((GOAL_Handle)(void *)g), GOAL_ERR_HANDLE, "no handle");
    FAILS(GOAL_Wait((GOAL_Handle)(uintptr_t)UINT64_MAX), GOAL_ERR_HANDLE, "no handle");
    FAILS(GOAL_FreeHandle((GOAL_Handle)(uintptr_t)12345), GOAL_ERR_HANDLE, "no handle");
    CHECK(GOAL_Compile((GOAL_Graph)(uintptr_t)3) == NULL && GOAL_Run((GOAL_Schedule)(uintptr_t)~(uintptr_t)7) == NULL);
    CHECK(GOAL_Test((GOAL_Handle)(uintptr_t)0xdead) == 1);
    EXPECT(GOAL_ERR_HANDLE, "GOAL_Test");

    CHECK(GOAL_FreeGraph(g) == GOAL_SUCCESS);
    FAILS(GOAL_FreeGraph(g), GOAL_ERR_GRAPH, "freed before");
    REFUSED(GOAL_Proxy(g), GOAL_ERR_GRAPH, "freed before");
    CHECK(GOAL_FreeSchedule(schedule) == GOAL_SUCCESS);
    FAILS(GOAL_FreeSchedule(schedule), GOAL_ERR_SCHEDULE, "freed before");
    CHECK(!GOAL_IsScheduleValid(schedule) && GOAL_Run(schedule) == NULL);
    GOAL_MakeScheduleReusable(schedule);
    EXPECT(GOAL_ERR_SCHEDULE, "GOAL_MakeScheduleReusable");

    /* A handle stays a finished one however often it is asked. */
    CHECK(GOAL_Wait(handle) == GOAL_SUCCESS && GOAL_Wait(handle) == GOAL_SUCCESS && GOAL_Test(handle) == 1);
    CHECK(GOAL_HandleError(handle, NULL, 0) == 0);
    CHECK(GOAL_FreeHandle(handle) == GOAL_SUCCESS && GOAL_FreeHandle(handle) == GOAL_SUCCESS);
}

static void failed_run(void) {
    static char a[16], b[16];
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_SetLabel(g, GOAL_Send(g, a, 16, 0), "big");
    GOAL_SetLabel(g, GOAL_Recv(g, b, 8, 0), "small");
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_Handle handle = GOAL_Run(schedule);
    CHECK(GOAL_Wait(handle) == GOAL_ERR_SIZE);
    EXPECT(GOAL_ERR_SIZE, "16 bytes");
    char text[256], little[9];
    int length = GOAL_HandleError(handle, text, sizeof text);
    CHECK(length > 20 && (size_t)length == strlen(text) && strstr(text, "small"));
    CHECK(GOAL_HandleError(handle, little, sizeof little) == length && strlen(little) == 8);
    CHECK(strncmp(little, text, 8) == 0);
    CHECK(GOAL_Test(handle) == 1 && GOAL_Wait(handle) == GOAL_ERR_SIZE); /* remembered until freed */
    CHECK(GOAL_FreeHandle(handle) == GOAL_SUCCESS && GOAL_HandleError(handle, text, sizeof text) == 0);
    CHECK(strlen(text) == 0);
    GOAL_FreeSchedule(schedule);
    GOAL_FreeGraph(g);
}

static void saved_schedules(void) {
    static char mine[8];
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_SetLabel(g, GOAL_Send(g, mine, 8, 0), "from memory");
    GOAL_Schedule schedule = GOAL_Compile(g);
    FAILS(GOAL_SaveSchedule(schedule, NULL, 0), GOAL_ERR_BUFFER, "from memory");
    unsigned char junk[64] = {1, 2, 3};
    CHECK(GOAL_LoadSchedule(junk, sizeof junk) == NULL);
    EXPECT(GOAL_ERR_FORMAT, "not a saved schedule");
    CHECK(GOAL_LoadSchedule(NULL, 8) == NULL);
    EXPECT(GOAL_ERR_BUFFER, "NULL");
    GOAL_FreeSchedule(schedule);
    GOAL_FreeGraph(g);
}

static void after_finalize(void) {
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_Handle handle = GOAL_Run(schedule);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    CHECK(GOAL_IsInitialized() && GOAL_IsFinalized());
    FAILS(GOAL_Finalize(), GOAL_ERR_FINALIZED, "GOAL_Finalize");
    FAILS(GOAL_Init(), GOAL_ERR_FINALIZED, "once");
    FAILS(GOAL_Wait(handle), GOAL_ERR_FINALIZED, "GOAL_Wait");
    FAILS(GOAL_FreeGraph(g), GOAL_ERR_FINALIZED, "GOAL_FreeGraph");
    FAILS(GOAL_FreeSchedule(schedule), GOAL_ERR_FINALIZED, "GOAL_FreeSchedule");
    CHECK(GOAL_CreateGraph() == NULL && GOAL_Run(schedule) == NULL && GOAL_Test(handle) == 1);
    CHECK(!GOAL_IsScheduleValid(schedule));
}

int main(void) {
    before_init();
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    CHECK(GOAL_IsInitialized() && !GOAL_IsFinalized() && GOAL_GroupSize() == 1 && GOAL_MyRank() == 0);
    FAILS(GOAL_Init(), GOAL_ERR_ALREADY_INITIALIZED, "once");
    operations();
    dependencies();
    objects();
    failed_run();
    saved_schedules();
    CHECK(strcmp(GOAL_ErrorName(GOAL_ERR_RANK), "GOAL_ERR_RANK") == 0 && strcmp(GOAL_ErrorName(-77), "unknown") == 0);
    CHECK(strcmp(GOAL_ErrorName(0), "GOAL_SUCCESS") == 0);
    after_finalize();
    puts("every misuse was noticed");
    return 0;
}
