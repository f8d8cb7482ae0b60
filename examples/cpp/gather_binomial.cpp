// Binomial gather in an in-order tree, close to the paper's listing (ESPGOAL, 5.3 and 5.5).
//
// Corrected: prerequisites stand in front of their targets, and with a root other than 0 the tree is laid over the ranks from
// the root on, so that a piece may wrap around the end of the root's buffer.
#include "check.h"
#include <algorithm>
#include <numeric>
#include <vector>

static int inorder_bmtree_child(int rank, int size, int num_child) {
    int childs = 0;
    for (int mask = 1; mask < size; mask <<= 1) {
        int remote = rank ^ mask;
        if (remote < rank) break;
        if (remote < size && childs++ == num_child) return remote;
    }
    return -1;
}

static int inorder_bmtree_father(int rank, int size) {
    for (int mask = 1; mask < size; mask <<= 1)
        if ((rank ^ mask) < rank) return rank ^ mask;
    return 0;
}

static GOAL_Schedule GOAL_binomial_tree_gather(void *sbuf, int scount, void *rbuf, int rcount, int root) {
    int commsize = GOAL_GroupSize(), myrank = GOAL_MyRank();
    int tree = (myrank - root + commsize) % commsize; // this rank's number in the tree; the root has 0
    auto rank_of = [&](int number) { return (number + root) % commsize; };
    int father = rank_of(inorder_bmtree_father(tree, commsize));
    char *result = static_cast<char *>(rbuf);
    int total_recv = 0, child = 0;
    GOAL_Graph g = GOAL_CreateGraph();
    if (myrank == root) {
        GOAL_Send(g, sbuf, scount, root, 1);
        GOAL_Recv(g, result + root * rcount, rcount, root, 1);
    }
    if (inorder_bmtree_child(tree, commsize, 0) != -1) {
        std::vector<GOAL_Vertex> reqs;
        if (myrank != root) {
            GOAL_Send(g, sbuf, scount, myrank, 1);
            reqs.push_back(GOAL_Recv(g, 0, scount, myrank, 1, GOAL_SCRATCHPAD));
        }
        for (int childnum = 0; (child = inorder_bmtree_child(tree, commsize, childnum)) != -1; childnum++) {
            int ranks = std::min(child - tree, commsize - child), first = rank_of(child);
            int mycount = ranks * rcount;
            if (myrank != root) {
                reqs.push_back(GOAL_Recv(g, total_recv + scount, mycount, first, 2, GOAL_SCRATCHPAD));
            } else {
                int before_end = std::min(ranks, commsize - first) * rcount;
                void *blocks[] = {result + first * rcount, result};
                int lengths[] = {before_end, mycount - before_end};
                GOAL_RecvVec(g, blocks, lengths, 2, first, 2);
            }
            total_recv += mycount;
        }
        if (myrank != root) {
            GOAL_Vertex send = GOAL_Send(g, 0, total_recv + scount, father, 2, GOAL_SCRATCHPAD);
            for (GOAL_Vertex req : reqs) GOAL_Requires(g, req, send);
            GOAL_AllocateScratchpad(g, std::size_t(total_recv + scount));
        }
    } else if (myrank != root) {
        GOAL_Send(g, sbuf, scount, father, 2);
    }
    GOAL_Schedule sched = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    return sched;
}

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    constexpr int count = 64, bytes = count * int(sizeof(int));
    for (int root = 0; root < size; root++) {
        std::vector<int> mine(count), all(std::size_t(count) * std::size_t(size));
        std::iota(mine.begin(), mine.end(), rank * count);
        GOAL_Schedule gather = GOAL_binomial_tree_gather(mine.data(), bytes, all.data(), bytes, root);
        run_to_end(gather);
        for (int i = 0; rank == root && i < count * size; i++) CHECK(all[i] == i);
        GOAL_FreeSchedule(gather);
    }
    if (rank == 0) printf("binomial gather of %d: complete at every root\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
