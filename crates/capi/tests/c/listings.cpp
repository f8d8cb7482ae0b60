// The paper's listings as they are printed, but for one wrong comma or bracket here and there: they must compile, and run
// where they are right. ESPGOAL 2.2.4, 2.2.5, 5.4. Runs in a group of any size; the groups of four of 2.2.4 and 2.2.5 are cut
// down where ranks are missing.
#include "check.h"
#include <cstdint>

#define MYMOD(a, b) ((a) % (b))

// 2.2.4: receive, then two sends; rank 3 has it from rank 0 and tells ranks 1 and 2.
static void receive_and_two_sends() {
    int16_t buf = 0;
    GOAL_Graph g = GOAL_CreateGraph();
    if (GOAL_MyRank() == 3) {
        GOAL_Vertex recv, send1, send2;
        recv = GOAL_Recv(g, &buf, 2, 0, GOAL_USERSPACE);
        send1 = GOAL_Send(g, &buf, 2, 1, GOAL_USERSPACE);
        send2 = GOAL_Send(g, &buf, 2, 2, GOAL_USERSPACE);
        GOAL_Requires(g, recv, send1);
        GOAL_Requires(g, recv, send2);
    } else if (GOAL_MyRank() == 0 && GOAL_GroupSize() > 3) {
        buf = 99;
        GOAL_Send(g, &buf, 2, 3);
    } else if (GOAL_MyRank() <= 2 && GOAL_GroupSize() > 3) {
        GOAL_Recv(g, &buf, 2, 3);
    }
    run_to_end(GOAL_Compile(g));
    CHECK(GOAL_GroupSize() <= 3 || GOAL_MyRank() > 3 || buf == 99);
}

// 2.2.5: the scatter with scratchpad, the memory type printed where the tag belongs.
static void scatter() {
    char buf[64] = {};
    GOAL_Graph g = GOAL_CreateGraph();
    if (GOAL_GroupSize() > 3 && GOAL_MyRank() == 0) {
        GOAL_Vertex recv, send1, send2;
        GOAL_AllocateScratchpad(g, 64);
        recv = GOAL_Recv(g, 0, 64, 1, GOAL_SCRATCHPAD);
        send1 = GOAL_Send(g, 0, 32, 2, GOAL_SCRATCHPAD);
        send2 = GOAL_Send(g, 32, 32, 3, GOAL_SCRATCHPAD);
        GOAL_Requires(g, recv, send1);
        GOAL_Requires(g, recv, send2);
    } else if (GOAL_GroupSize() > 3 && GOAL_MyRank() == 1) {
        buf[0] = 'a';
        buf[32] = 'b';
        GOAL_Send(g, buf, 64, 0);
    } else if (GOAL_GroupSize() > 3 && GOAL_MyRank() <= 3) {
        GOAL_Recv(g, buf, 32, 0);
    }
    run_to_end(GOAL_Compile(g));
    if (GOAL_GroupSize() > 3 && GOAL_MyRank() == 2) CHECK(buf[0] == 'a');
    if (GOAL_GroupSize() > 3 && GOAL_MyRank() == 3) CHECK(buf[0] == 'b');
}

// 5.4: the Bruck barrier.
static void bruck_barrier() {
    int myrank = GOAL_MyRank();
    int commsize = GOAL_GroupSize();
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 1);

    GOAL_Vertex recvo = GOAL_INVALID_VERTEX;
    GOAL_Vertex sendo = GOAL_INVALID_VERTEX;

    for (int distance = 1; distance < commsize; distance <<= 1) {
        uint32_t from = MYMOD(myrank - distance + commsize, commsize);
        uint32_t to = MYMOD(myrank + distance, commsize);
        GOAL_Vertex sendn = GOAL_Send(g, 0, 1, to, 0, GOAL_SCRATCHPAD);
        GOAL_Vertex recvn = GOAL_Recv(g, 0, 1, from, 0, GOAL_SCRATCHPAD);
        if (recvo != GOAL_INVALID_VERTEX) GOAL_Requires(g, recvo, sendn);
        if (recvo != GOAL_INVALID_VERTEX) GOAL_Requires(g, recvo, recvn);
        recvo = recvn;
        sendo = sendn;
    }
    GOAL_Schedule sched = GOAL_Compile(g);
    CHECK(commsize == 1 || sendo != INVALID_VERTEX);
    GOAL_MakeScheduleReuseable(sched); // the text's spelling
    check_barrier(sched);
}

// 5.4: the power-of-two part of the recursive doubling barrier, with the listing's names and its lower-case `requires`.
static void recursive_doubling_barrier() {
#define GSP GOAL_SCRATCHPAD
    uint32_t commsizepo2 = 1, commsize = uint32_t(GOAL_GroupSize()), myrank = uint32_t(GOAL_MyRank());
    while (2 * commsizepo2 <= commsize) commsizepo2 *= 2;
    GOAL_Graph g = GOAL_CreateGraph();
    GOAL_AllocateScratchpad(g, 1);
    GOAL_Vertex recv = INVALID_VERTEX;
    GOAL_Vertex sendf = INVALID_VERTEX;
    GOAL_Vertex sendn, recvn, send = INVALID_VERTEX;
    if (myrank < commsizepo2) {
        uint32_t mask = 0x1;
        while (mask < commsizepo2) {
            uint32_t remote = myrank ^ mask;
            mask <<= 1;
            if (remote >= commsizepo2) continue;
            sendn = GOAL_Send(g, 0, 1, remote, 0, GSP);
            recvn = GOAL_Recv(g, 0, 1, remote, 0, GSP);
            if (recv != INVALID_VERTEX) {
                GOAL_Requires(g, recv, sendn);
                GOAL_requires(g, recv, recvn);
            }
            if (sendf == INVALID_VERTEX) sendf = sendn;
            recv = recvn;
            send = sendn;
        }
    }
    CHECK((sendf == INVALID_VERTEX) == (send == INVALID_VERTEX));
    GOAL_Schedule sched = GOAL_Compile(g);
    run_to_end(sched);
    if (commsize == commsizepo2) check_barrier(sched);
}

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    receive_and_two_sends();
    scatter();
    bruck_barrier();
    recursive_doubling_barrier();
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    if (GOAL_IsFinalized()) return 0;
    return 1;
}
