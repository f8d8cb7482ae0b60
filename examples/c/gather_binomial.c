/* Binomial gather (ESPGOAL, 5.3 and 5.5): data climbs an in-order binomial tree. The m descendants of a rank are the m ranks
 * that follow it, so what a rank has collected is one piece in the right order.
 *
 * Tree numbers count from the root: tree number t is rank (t + root) % size. At the root a child's piece may wrap around the
 * end of the receive buffer; a vector receive takes it in two blocks. Against the printed listing: prerequisites and targets
 * of GOAL_Requires stand in their right order. */
#include "check.h"

enum { COUNT = 64, OWN = 1, PIECE = 2 }; /* elements a rank; tags */

/* The num_child-th child of `rank` in the tree of `size` with root 0, or -1. */
static int inorder_bmtree_child(int rank, int size, int num_child) {
    int children = 0;
    for (int mask = 1; mask < size; mask <<= 1) {
        int remote = rank ^ mask;
        if (remote < rank) break;
        if (remote < size && children++ == num_child) return remote;
    }
    return -1;
}

/* The father of `rank`; of the root, the root. */
static int inorder_bmtree_father(int rank, int size) {
    for (int mask = 1; mask < size; mask <<= 1)
        if ((rank ^ mask) < rank) return rank ^ mask;
    return 0;
}

/* Receives the blocks of `ranks` ranks from `first` on, from rank `source`, into their places at the root. */
static GOAL_Vertex receive_at_root(GOAL_Graph g, char *rbuf, int block, int first, int ranks, int source) {
    int size = GOAL_GroupSize();
    int until_end = first + ranks > size ? size - first : ranks;
    void *blocks[2] = {rbuf + first * block, rbuf};
    int lengths[2] = {until_end * block, (ranks - until_end) * block};
    return GOAL_RecvVec(g, blocks, lengths, 2, source, PIECE);
}

static GOAL_Schedule binomial_gather(const void *sbuf, void *rbuf, int block, int root) {
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int tree = (rank - root + size) % size;
    int father = (inorder_bmtree_father(tree, size) + root) % size;
    GOAL_Graph g = GOAL_CreateGraph();
    if (rank == root) {
        GOAL_Send(g, sbuf, block, root, OWN);
        GOAL_Recv(g, (char *)rbuf + root * block, block, root, OWN);
        for (int n = 0, child; (child = inorder_bmtree_child(tree, size, n)) != -1; n++) {
            int ranks = child - tree < size - child ? child - tree : size - child;
            receive_at_root(g, rbuf, block, (child + root) % size, ranks, (child + root) % size);
        }
    } else if (inorder_bmtree_child(tree, size, 0) == -1) {
        GOAL_Send(g, sbuf, block, father, PIECE);
    } else {
        /* The own block and the children's pieces meet in the scratchpad, then go up as one message. */
        int64_t collected = block;
        GOAL_Vertex up = GOAL_Proxy(g);
        GOAL_Send(g, sbuf, block, rank, OWN);
        GOAL_Requires(g, GOAL_Recv(g, 0, block, rank, OWN, GOAL_SCRATCHPAD), up);
        for (int n = 0, child; (child = inorder_bmtree_child(tree, size, n)) != -1; n++) {
            int ranks = child - tree < size - child ? child - tree : size - child;
            int64_t bytes = (int64_t)ranks * block;
            GOAL_Requires(g, GOAL_Recv(g, collected, bytes, (child + root) % size, PIECE, GOAL_SCRATCHPAD), up);
            collected += bytes;
        }
        GOAL_Requires(g, up, GOAL_Send(g, 0, collected, father, PIECE, GOAL_SCRATCHPAD));
        GOAL_AllocateScratchpad(g, (size_t)collected);
    }
    GOAL_Schedule schedule = GOAL_Compile(g);
    GOAL_FreeGraph(g);
    return schedule;
}

int main(void) {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    int rank = GOAL_MyRank(), size = GOAL_GroupSize();
    int mine[COUNT];
    for (int i = 0; i < COUNT; i++) mine[i] = rank * COUNT + i;
    for (int root = 0; root < size; root++) {
        int *all = calloc((size_t)size * COUNT, sizeof *all);
        GOAL_Schedule gather = binomial_gather(mine, all, sizeof mine, root);
        run_to_end(gather);
        for (int i = 0; rank == root && i < size * COUNT; i++) CHECK(all[i] == i);
        GOAL_FreeSchedule(gather);
        free(all);
    }
    if (rank == 0) printf("binomial gather of %d: complete at every root\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
    return 0;
}
