/* Trailing defaults in C11: every number of arguments, functions by address, arguments evaluated once. Group of one. */
#include "check.h"
#include <string.h>

static void messages(GOAL_Graph g, int *out, int *in) {
    int evaluated = 0;
    GOAL_Send(g, &out[evaluated++], 4, 0);
    GOAL_Send(g, &out[evaluated++], 4, 0, 5);
    GOAL_Send(g, &out[evaluated++], 4, 0, 6, GOAL_USERSPACE);
    CHECK(evaluated == 3);
    const int *constant = out + 3;
    GOAL_Vertex (*send)(GOAL_Graph, const void *, int64_t, int, int, GOAL_MemType) = GOAL_Send;
    send(g, constant, 4, 0, 7, GOAL_USERSPACE);
    GOAL_Vertex fill = (GOAL_LocalOp)(g, constant, NULL, NULL, GOAL_COPY, GOAL_SINT, 32, 1, GOAL_USERSPACE, GOAL_USERSPACE,
                                      GOAL_SCRATCHPAD);
    GOAL_Requires(g, fill, GOAL_Send(g, 0, 4, 0, 8, GOAL_SCRATCHPAD));
    GOAL_AllocateScratchpad(g, 4);
    GOAL_Recv(g, in, 4, 0);
    GOAL_Recv(g, in + 1, 4, 0, 5);
    GOAL_Recv(g, in + 2, 4, 0, 6, GOAL_USERSPACE);
    GOAL_Recv(g, in + 3, 4, GOAL_ANY_SOURCE, 7);
    GOAL_Recv(g, in + 4, 4, 0, 8);
}

static void vectors(GOAL_Graph g, int *out, int *in) {
    void *from[] = {out, out + 2}, *to[] = {in, in + 1, in + 2};
    int half[] = {4, 8}, thirds[] = {4, 4, 4};
    GOAL_SendVec(g, from, half, 2, 0);
    GOAL_SendVec(g, from, half, 2, 0, 1);
    GOAL_SendVec(g, from, half, 2, 0, 2, GOAL_USERSPACE);
    GOAL_RecvVec(g, to, thirds, 3, 0);
    for (int i = 0; i < 3; i++) to[i] = in + 4 + i;
    GOAL_RecvVec(g, to, thirds, 3, 0, 1);
    for (int i = 0; i < 3; i++) to[i] = in + 8 + i;
    GOAL_RecvVec(g, to, thirds, 3, 0, 2, GOAL_USERSPACE);
}

static void local_operations(GOAL_Graph g, int *a, int *b, int *c) {
    GOAL_AllocateScratchpad(g, 16);
    GOAL_Vertex last = GOAL_LocalOp(g, a, b, c, GOAL_ADD, GOAL_SINT, 32, 1);
    GOAL_Vertex fill = GOAL_LocalOp(g, a, 0, 0, GOAL_COPY, GOAL_SINT, 32, 4, GOAL_USERSPACE, GOAL_USERSPACE, GOAL_SCRATCHPAD);
    GOAL_Vertex next = GOAL_LocalOp(g, 4, b + 1, c + 1, GOAL_MUL, GOAL_SINT, 32, 1, GOAL_SCRATCHPAD);
    GOAL_Vertex third = GOAL_LocalOp(g, 8, 8, c + 2, GOAL_MAX, GOAL_SINT, 32, 1, GOAL_SCRATCHPAD, GOAL_SCRATCHPAD);
    GOAL_Requires(g, fill, next);
    GOAL_Requires(g, fill, third);
    void *la[] = {a + 3}, *lb[] = {b + 3}, *lc[] = {c + 3}, *offset[] = {(void *)12};
    int four[] = {4};
    GOAL_Vertex v13 = GOAL_LocalOpVec(g, la, four, 1, lb, four, 1, lc, four, 1, GOAL_SINT, 32, GOAL_SUB);
    GOAL_Vertex v14 = GOAL_LocalOpVec(g, offset, four, 1, lc, four, 1, lc, four, 1, GOAL_SINT, 32, GOAL_XOR, GOAL_SCRATCHPAD);
    GOAL_Vertex v15 = GOAL_LocalOpVec(g, offset, four, 1, offset, four, 1, lb, four, 1, GOAL_SINT, 32, GOAL_AND,
                                      GOAL_SCRATCHPAD, GOAL_SCRATCHPAD);
    GOAL_Vertex v16 = GOAL_LocalOpVec(g, offset, four, 1, NULL, NULL, 0, la, four, 1, GOAL_SINT, 32, GOAL_COPY,
                                      GOAL_SCRATCHPAD, GOAL_USERSPACE, GOAL_USERSPACE);
    GOAL_Requires(g, last, v13);
    GOAL_Requires(g, v13, v14);
    GOAL_Requires(g, fill, v14);
    GOAL_Requires(g, v14, v15);
    GOAL_Requires(g, v15, v16);
}

static void one_sided(GOAL_Graph g, int *value, int *result) {
    GOAL_AllocateScratchpad(g, 16);
    GOAL_Vertex first = GOAL_Put(g, value, 4, 0, 0);
    GOAL_Vertex copied = GOAL_Put(g, 0, 4, 0, 8, GOAL_SCRATCHPAD);
    GOAL_Vertex got = GOAL_Get(g, result, 4, 0, 8);
    GOAL_Requires(g, first, copied);
    GOAL_Requires(g, copied, got);
    GOAL_Requires(g, got, GOAL_Get(g, 4, 4, 0, 0, GOAL_SCRATCHPAD));
}

static void run(GOAL_Graph g) {
    GOAL_Schedule schedule = GOAL_Compile(g);
    CHECK(schedule != NULL);
    run_to_end(schedule);
    GOAL_FreeSchedule(schedule);
    GOAL_FreeGraph(g);
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int out[] = {11, 22, 33, 44}, in[12] = {0};
    GOAL_Graph g = GOAL_CreateGraph();
    messages(g, out, in);
    run(g);
    CHECK(in[0] == 11 && in[1] == 22 && in[2] == 33 && in[3] == 44 && in[4] == 44);

    memset(in, 0, sizeof in);
    g = GOAL_CreateGraph();
    vectors(g, out, in);
    run(g);
    for (int i = 0; i < 3; i++) CHECK(in[4 * i] == 11 && in[4 * i + 1] == 33 && in[4 * i + 2] == 44);

    int a[] = {1, 2, 3, 12}, b[] = {10, 20, 30, 5}, c[4] = {0};
    g = GOAL_CreateGraph();
    local_operations(g, a, b, c);
    run(g);
    CHECK(c[0] == 11 && c[1] == 40 && c[2] == 3 && c[3] == (12 ^ (12 - 5)) && b[3] == 12 && a[3] == 12);

    int value = 77, result = 0;
    g = GOAL_CreateGraph();
    one_sided(g, &value, &result);
    run(g);
    CHECK(result == 77);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    puts("all defaults work");
    return 0;
}
