// Trailing defaults, plain numbers as scratchpad offsets and the memory type in the tag's place, in C++17. Group of one.
#include "check.h"
#include <cstdint>
#include <vector>

static void run(GOAL_Graph g) {
    GOAL_Schedule schedule = GOAL_Compile(g);
    CHECK(schedule != nullptr);
    run_to_end(schedule);
    GOAL_FreeSchedule(schedule);
    GOAL_FreeGraph(g);
}

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    const int out[] = {11, 22, 33, 44};
    std::vector<int> in(8);
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 64);
    GOAL_Send(g, out, 4, 0);
    GOAL_Send(g, out + 1, 4, 0, 5);
    GOAL_Send(g, out + 2, 4, 0, 6, GOAL_USERSPACE);
    GOAL_Send(g, NULL, 0, 0, 7);
    GOAL_Send(g, nullptr, 0, 0, 8);
    GOAL_Send(g, 0, 0, 0, 9);
    GOAL_Recv(g, &in[0], 4, 0);
    GOAL_Recv(g, &in[1], 4, GOAL_ANY_SOURCE, 5);
    GOAL_Vertex recv = GOAL_Recv(g, 32u, 4, 0, 6, GOAL_SCRATCHPAD);
    GOAL_Recv(g, NULL, 0, 0, 7);
    GOAL_Recv(g, nullptr, 0, 0, 8, GOAL_USERSPACE);
    GOAL_Recv(g, std::size_t(64), 0, 0, 9, GOAL_SCRATCHPAD);
    GOAL_Vertex copy = GOAL_LocalOp(g, 32, NULL, &in[2], GOAL_COPY, GOAL_SINT, 32, 1, GOAL_SCRATCHPAD);
    GOAL_Requires(g, recv, copy);
    GOAL_Vertex (*send)(GOAL_Graph, const void *, int64_t, int, int, GOAL_MemType) = GOAL_Send;
    (*send)(g, out + 3, 4, 0, 10, GOAL_USERSPACE);
    GOAL_Recv(g, &in[3], 4, 0, 10);
    run(g);
    CHECK(in[0] == 11 && in[1] == 22 && in[2] == 33 && in[3] == 44);

    // The memory type where the tag belongs means memory, not tag 1.
    g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 16);
    GOAL_Vertex fill = GOAL_LocalOp(g, out, NULL, 8L, GOAL_COPY, GOAL_SINT, 32, 1, GOAL_USERSPACE, GOAL_USERSPACE,
                                    GOAL_SCRATCHPAD);
    GOAL_Requires(g, fill, GOAL_Send(g, 8, 4, 0, GOAL_SCRATCHPAD));
    GOAL_Recv(g, &in[4], 4, 0, GOAL_USERSPACE);
    int number = 7, got = 0;
    GOAL_Requires(g, GOAL_Put(g, &number, 4, 0, 12), GOAL_Get(g, &got, 4, 0, 12));
    run(g);
    CHECK(in[4] == 11 && got == 7);

    int a[] = {1, 2}, b[] = {30, 40}, c[] = {0, 0};
    void *la[] = {a}, *lb[] = {b, b + 1}, *lc[] = {c + 1, c};
    int eight[] = {8}, fours[] = {4, 4};
    g = GOAL_CreateGraph();
    GOAL_LocalOpVec(g, la, eight, 1, lb, fours, 2, lc, fours, 2, GOAL_SINT, 32, GOAL_ADD);
    run(g);
    CHECK(c[0] == 42 && c[1] == 31);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    puts("all defaults work");
}
