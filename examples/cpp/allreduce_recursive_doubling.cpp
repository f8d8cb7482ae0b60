// Sum over all ranks, known to all of them, by recursive doubling with local operations; the vector lives in the scratchpad
// while it is summed, so nothing of the caller's but input and result is touched. Two reductions are under way at once.
#include "check.h"
#include <cstdint>
#include <vector>

static GOAL_Schedule allreduce(const std::int64_t *in, std::int64_t *out, int count) {
    enum { EXCHANGE, OUTSIDE };
    int rank = GOAL_MyRank(), size = GOAL_GroupSize(), bytes = count * int(sizeof *in);
    int inner = 1;
    while (2 * inner <= size) inner *= 2;
    int outsider = rank + inner;

    GOAL_Graph g = GOAL_CreateGraph();
    std::size_t place = std::size_t(bytes); // the sum is at offset 0; each receive has a place of its own behind it
    GOAL_Vertex last = GOAL_LocalOp(g, in, NULL, 0, GOAL_COPY, GOAL_SINT, 64, count, GOAL_USERSPACE, GOAL_USERSPACE,
                                    GOAL_SCRATCHPAD);
    auto receive_and_add = [&](int from, int tag) {
        GOAL_Vertex recv = GOAL_Recv(g, place, bytes, from, tag, GOAL_SCRATCHPAD);
        GOAL_Vertex add = GOAL_LocalOp(g, 0, place, 0, GOAL_ADD, GOAL_SINT, 64, count, GOAL_SCRATCHPAD, GOAL_SCRATCHPAD,
                                       GOAL_SCRATCHPAD);
        GOAL_Requires(g, recv, add);
        GOAL_Requires(g, last, add);
        place += std::size_t(bytes);
        return add;
    };
    auto send_sum = [&](int to, int tag) {
        GOAL_Vertex send = GOAL_Send(g, 0, bytes, to, tag, GOAL_SCRATCHPAD);
        GOAL_Requires(g, last, send);
        return send;
    };
    if (rank < inner) {
        if (outsider < size) last = receive_and_add(outsider, OUTSIDE);
        for (int mask = 1; mask < inner; mask <<= 1) {
            GOAL_Vertex send = send_sum(rank ^ mask, EXCHANGE);
            GOAL_Vertex add = receive_and_add(rank ^ mask, EXCHANGE);
            GOAL_Requires(g, send, add); // the addition changes what is being sent
            last = add;
        }
        if (outsider < size) send_sum(outsider, OUTSIDE);
    } else {
        GOAL_Vertex hand_over = send_sum(rank - inner, OUTSIDE);
        last = GOAL_Recv(g, 0, bytes, rank - inner, OUTSIDE, GOAL_SCRATCHPAD);
        GOAL_Requires(g, hand_over, last);
    }
    GOAL_Requires(g, last, GOAL_LocalOp(g, 0, NULL, out, GOAL_COPY, GOAL_SINT, 64, count, GOAL_SCRATCHPAD));
    GOAL_AllocateScratchpad(g, place);
    GOAL_Schedule sched = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    GOAL_MakeScheduleReusable(sched);
    return sched;
}

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize(), count = 1000;
    std::vector<std::int64_t> in(count), out(count), again(count);
    GOAL_Schedule sched = allreduce(in.data(), out.data(), count), twin = allreduce(in.data(), again.data(), count);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < count; i++) in[i] = (rank + 1) * (i - round);
        GOAL_Handle first = GOAL_Run(sched), second = GOAL_Run(twin);
        CHECK(GOAL_Wait(first) == GOAL_SUCCESS && GOAL_Wait(second) == GOAL_SUCCESS);
        for (int i = 0; i < count; i++) CHECK(out[i] == std::int64_t(size) * (size + 1) / 2 * (i - round));
        CHECK(out == again);
    }
    GOAL_FreeSchedule(sched);
    GOAL_FreeSchedule(twin);
    if (rank == 0) printf("allreduce of %d: everybody has the sum\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
