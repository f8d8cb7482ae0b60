/* castell.h in a group of any size: every operation as a call, started and prepared, from each root, with blocks of uneven sizes in
 * places of their own, in place and not, on the world and on parts of it, against a serial oracle. */
#include <castell.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: rank %d of %d, form %d, root %d: %s (%s)\n", __FILE__, __LINE__, me, size, form, root, \
                    #condition, GOAL_LastError());                                                                         \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)
#define OK(call) CHECK((call) == GOAL_SUCCESS)

enum { RANKS_MAX = 8, EVEN = 3, ROOM = 6, WORDS = 2 * RANKS_MAX * ROOM + 16, FORMS = 3 };

static castell_comm comm;
static castell_op op; /* CASTELL_SUM, or the program's */
static castell_type type;
static int me, size, root, form, in_place, units; /* units: words of an element */
static int32_t *send, *recv, want[WORDS];         /* where all ranks can read */

static size_t counts[RANKS_MAX], places[RANKS_MAX];           /* of each rank's block */
static size_t out_counts[RANKS_MAX], in_counts[RANKS_MAX];    /* of the blocks to and from each rank */
static size_t pair_counts[RANKS_MAX], pair_bytes[RANKS_MAX];  /* of the blocks that it exchanges with each rank, in place */
static size_t out_bytes[RANKS_MAX], in_bytes[RANKS_MAX], byte_places[RANKS_MAX];
static int degree, sources[2], destinations[2];
static size_t to_counts[2], from_counts[2], to_bytes[2], from_bytes[2], near_places[2], near_byte_places[2];

/* The operation in the form that it is tested in. */
#define CALL(name, ...)                                                                                                    \
    (form == 0   ? castell_##name(__VA_ARGS__, comm)                                                                       \
     : form == 1 ? castell_i##name(__VA_ARGS__, comm, request)                                                             \
                 : castell_##name##_init(__VA_ARGS__, comm, request))
#define NEAR degree, sources, degree, destinations

/* Word k of what `from` has for `to`. */
static int32_t word(int from, int to, size_t k) { return 1 + from * 10000 + to * 100 + (int32_t)k; }

static size_t uneven(int from, int to) { return (size_t)(3 * from + 2 * to + 1) % 5; }

/* x -> a x + b modulo a prime, one after the other: depends on the order. */
static void compose(const void *left, const void *right, void *result, size_t count, void *context) {
    const int32_t *l = left, *r = right;
    int32_t *into = result;
    ++*(int *)context;
    for (size_t k = 0; k < 2 * count; k += 2) {
        int32_t a = l[k] % 1009 * (r[k] % 1009) % 1009, b = (r[k] % 1009 * (l[k + 1] % 1009) + r[k + 1]) % 1009;
        into[k] = a;
        into[k + 1] = b;
    }
}

/* What ranks first to last have in their vectors, from element `at` on, reduced in their order. */
static void reduced(int32_t *into, int first, int last, size_t at, size_t elements) {
    int calls = 0;
    for (size_t k = 0; k < elements * (size_t)units; k++) into[k] = word(first, 0, at * (size_t)units + k);
    for (int rank = first + 1; rank <= last; rank++) {
        int32_t next[WORDS];
        for (size_t k = 0; k < elements * (size_t)units; k++) next[k] = word(rank, 0, at * (size_t)units + k);
        if (units == 2) compose(into, next, into, elements, &calls);
        for (size_t k = 0; units == 1 && k < elements; k++) into[k] += next[k];
    }
}

static void vector(int32_t *into, size_t elements) {
    for (size_t k = 0; k < elements * (size_t)units; k++) into[k] = word(me, 0, k);
}

static void block(int32_t *into, int from, int to, size_t length) {
    for (size_t k = 0; k < length; k++) into[k] = word(from, to, k);
}

static size_t all_counts(void) {
    size_t all = 0;
    for (int rank = 0; rank < size; rank++) all += counts[rank];
    return all;
}

/* ------------------------------------- Each operation: what is there before, the call, and what has to be there behind it. */

static int barrier(castell_request *request) {
    return form == 0 ? castell_barrier(comm) : form == 1 ? castell_ibarrier(comm, request) : castell_barrier_init(comm, request);
}

static int bcast(castell_request *request) {
    if (me == root) block(recv, root, 0, EVEN);
    block(want, root, 0, EVEN);
    return CALL(bcast, recv, EVEN, CASTELL_INT32, root);
}

static int gather(castell_request *request) {
    int stays = in_place && me == root;
    block(stays ? recv + EVEN * me : send, me, root, EVEN);
    for (int rank = 0; me == root && rank < size; rank++) block(want + EVEN * rank, rank, root, EVEN);
    return CALL(gather, stays ? CASTELL_IN_PLACE : send, EVEN, CASTELL_INT32, recv, root);
}

static int gatherv(castell_request *request) {
    int stays = in_place && me == root;
    block(stays ? recv + places[me] : send, me, root, counts[me]);
    for (int rank = 0; me == root && rank < size; rank++) block(want + places[rank], rank, root, counts[rank]);
    return CALL(gatherv, stays ? CASTELL_IN_PLACE : send, counts[me], CASTELL_INT32, recv, me == root ? counts : NULL,
                me == root ? places : NULL, root);
}

static int scatter(castell_request *request) {
    int stays = in_place && me == root;
    for (int rank = 0; me == root && rank < size; rank++) block(send + EVEN * rank, root, rank, EVEN);
    if (!stays) block(want, root, me, EVEN);
    return CALL(scatter, send, EVEN, CASTELL_INT32, stays ? CASTELL_IN_PLACE : recv, root);
}

static int scatterv(castell_request *request) {
    int stays = in_place && me == root;
    for (int rank = 0; me == root && rank < size; rank++) block(send + places[rank], root, rank, counts[rank]);
    if (!stays) block(want, root, me, counts[me]);
    return CALL(scatterv, send, me == root ? counts : NULL, me == root ? places : NULL, CASTELL_INT32,
                stays ? CASTELL_IN_PLACE : recv, counts[me], root);
}

static int allgather(castell_request *request) {
    block(in_place ? recv + EVEN * me : send, me, 0, EVEN);
    for (int rank = 0; rank < size; rank++) block(want + EVEN * rank, rank, 0, EVEN);
    return CALL(allgather, in_place ? CASTELL_IN_PLACE : send, EVEN, CASTELL_INT32, recv);
}

static int allgatherv(castell_request *request) {
    block(in_place ? recv + places[me] : send, me, 0, counts[me]);
    for (int rank = 0; rank < size; rank++) block(want + places[rank], rank, 0, counts[rank]);
    return CALL(allgatherv, in_place ? CASTELL_IN_PLACE : send, CASTELL_INT32, recv, counts, places);
}

static int reduce(castell_request *request) {
    int stays = in_place && me == root;
    vector(stays ? recv : send, EVEN);
    if (me == root) reduced(want, 0, size - 1, 0, EVEN);
    return CALL(reduce, stays ? CASTELL_IN_PLACE : send, recv, EVEN, type, op, root);
}

static int allreduce(castell_request *request) {
    vector(in_place ? recv : send, EVEN);
    reduced(want, 0, size - 1, 0, EVEN);
    return CALL(allreduce, in_place ? CASTELL_IN_PLACE : send, recv, EVEN, type, op);
}

static int reduce_scatter(castell_request *request) {
    size_t at = 0;
    for (int rank = 0; rank < me; rank++) at += counts[rank];
    vector(in_place ? recv : send, all_counts());
    if (in_place) vector(want, all_counts()); /* what is behind the result is anybody's; see below */
    reduced(want, 0, size - 1, at, counts[me]);
    return CALL(reduce_scatter, in_place ? CASTELL_IN_PLACE : send, recv, counts, type, op);
}

static int reduce_scatter_block(castell_request *request) {
    vector(in_place ? recv : send, EVEN * (size_t)size);
    if (in_place) vector(want, EVEN * (size_t)size);
    reduced(want, 0, size - 1, EVEN * (size_t)me, EVEN);
    return CALL(reduce_scatter_block, in_place ? CASTELL_IN_PLACE : send, recv, EVEN, type, op);
}

static int alltoall(castell_request *request) {
    for (int rank = 0; rank < size; rank++) {
        block((in_place ? recv : send) + EVEN * rank, me, rank, EVEN);
        block(want + EVEN * rank, rank, me, EVEN);
    }
    return CALL(alltoall, in_place ? CASTELL_IN_PLACE : send, EVEN, CASTELL_INT32, recv);
}

/* Blocks of uneven sizes for all; in place, what two ranks exchange is as long in either direction. */
static void all_uneven(void) {
    for (int rank = 0; rank < size; rank++) {
        block((in_place ? recv : send) + places[rank], me, rank, in_place ? pair_counts[rank] : out_counts[rank]);
        block(want + places[rank], rank, me, in_place ? pair_counts[rank] : in_counts[rank]);
    }
}

static int alltoallv(castell_request *request) {
    all_uneven();
    if (in_place) return CALL(alltoallv, CASTELL_IN_PLACE, NULL, NULL, CASTELL_INT32, recv, pair_counts, places);
    return CALL(alltoallv, send, out_counts, places, CASTELL_INT32, recv, in_counts, places);
}

static int alltoallw(castell_request *request) {
    all_uneven();
    if (in_place) return CALL(alltoallw, CASTELL_IN_PLACE, NULL, NULL, recv, pair_bytes, byte_places);
    return CALL(alltoallw, send, out_bytes, byte_places, recv, in_bytes, byte_places);
}

static int scan(castell_request *request) {
    vector(in_place ? recv : send, EVEN);
    reduced(want, 0, me, 0, EVEN);
    return CALL(scan, in_place ? CASTELL_IN_PLACE : send, recv, EVEN, type, op);
}

static int exscan(castell_request *request) {
    vector(in_place ? recv : send, EVEN);
    if (me > 0) reduced(want, 0, me - 1, 0, EVEN);
    if (me == 0 && in_place) vector(want, EVEN); /* the first one's stays as it is */
    return CALL(exscan, in_place ? CASTELL_IN_PLACE : send, recv, EVEN, type, op);
}

static int neighbour_allgather(castell_request *request) {
    block(send, me, 0, EVEN);
    for (int at = 0; at < degree; at++) block(want + EVEN * at, sources[at], 0, EVEN);
    return CALL(neighbour_allgather, NEAR, send, EVEN, CASTELL_INT32, recv);
}

static int neighbour_allgatherv(castell_request *request) {
    size_t lengths[2];
    block(send, me, 0, counts[me]);
    for (int at = 0; at < degree; at++) {
        lengths[at] = counts[sources[at]];
        block(want + near_places[at], sources[at], 0, lengths[at]);
    }
    return CALL(neighbour_allgatherv, NEAR, send, counts[me], CASTELL_INT32, recv, lengths, near_places);
}

static int neighbour_alltoall(castell_request *request) {
    for (int at = 0; at < degree; at++) {
        block(send + EVEN * at, me, destinations[at], EVEN);
        block(want + EVEN * at, sources[at], me, EVEN);
    }
    return CALL(neighbour_alltoall, NEAR, send, EVEN, CASTELL_INT32, recv);
}

static void near_uneven(void) {
    for (int at = 0; at < degree; at++) {
        block(send + near_places[at], me, destinations[at], to_counts[at]);
        block(want + near_places[at], sources[at], me, from_counts[at]);
    }
}

static int neighbour_alltoallv(castell_request *request) {
    near_uneven();
    return CALL(neighbour_alltoallv, NEAR, send, to_counts, near_places, CASTELL_INT32, recv, from_counts, near_places);
}

static int neighbour_alltoallw(castell_request *request) {
    near_uneven();
    return CALL(neighbour_alltoallw, NEAR, send, to_bytes, near_byte_places, recv, from_bytes, near_byte_places);
}

enum { ROOTED = 1, IN_PLACE = 2, REDUCES = 4, PARTLY = 8 /* in place, only the first `partly()` elements are the result */ };

static const struct operation {
    const char *name;
    int (*call)(castell_request *request);
    int kind;
} operations[] = {
    {"barrier", barrier, 0},
    {"bcast", bcast, ROOTED},
    {"gather", gather, ROOTED | IN_PLACE},
    {"gatherv", gatherv, ROOTED | IN_PLACE},
    {"scatter", scatter, ROOTED | IN_PLACE},
    {"scatterv", scatterv, ROOTED | IN_PLACE},
    {"allgather", allgather, IN_PLACE},
    {"allgatherv", allgatherv, IN_PLACE},
    {"reduce", reduce, ROOTED | IN_PLACE | REDUCES},
    {"allreduce", allreduce, IN_PLACE | REDUCES},
    {"reduce_scatter", reduce_scatter, IN_PLACE | REDUCES | PARTLY},
    {"reduce_scatter_block", reduce_scatter_block, IN_PLACE | REDUCES | PARTLY},
    {"alltoall", alltoall, IN_PLACE},
    {"alltoallv", alltoallv, IN_PLACE},
    {"alltoallw", alltoallw, IN_PLACE},
    {"scan", scan, IN_PLACE | REDUCES},
    {"exscan", exscan, IN_PLACE | REDUCES},
    {"neighbour_allgather", neighbour_allgather, 0},
    {"neighbour_allgatherv", neighbour_allgatherv, 0},
    {"neighbour_alltoall", neighbour_alltoall, 0},
    {"neighbour_alltoallv", neighbour_alltoallv, 0},
    {"neighbour_alltoallw", neighbour_alltoallw, 0},
};

static void forget(void) {
    for (int k = 0; k < WORDS; k++) send[k] = recv[k] = want[k] = -7;
}

/* The whole memory is looked at, not only where the result is. */
static void look(const struct operation *operation) {
    size_t looks = WORDS;
    if (in_place && operation->kind & PARTLY) {
        looks = (size_t)units * (operation->call == reduce_scatter ? counts[me] : EVEN);
    }
    for (size_t k = 0; k < looks; k++) {
        if (recv[k] != want[k]) {
            fprintf(stderr, "%s%s, %d words an element: word %zu is %d, not %d\n", operation->name,
                    in_place ? " in place" : "", units, k, recv[k], want[k]);
        }
        CHECK(recv[k] == want[k]);
    }
}

/* One call: prepared ones twice. */
static void one(const struct operation *operation) {
    castell_request request = NULL;
    forget();
    OK(operation->call(&request));
    if (form == 2) {
        int32_t sent[WORDS], before[WORDS];
        memcpy(sent, send, sizeof sent);
        memcpy(before, recv, sizeof before);
        for (int round = 0; round < 2; round++) {
            memcpy(send, sent, sizeof sent);
            memcpy(recv, before, sizeof before);
            OK(castell_request_start(request));
            OK(castell_wait(&request));
            look(operation);
        }
        OK(castell_request_free(&request));
    } else if (form == 1 && me % 2 == 0) {
        int is_over;
        while ((is_over = castell_test(&request)) == 0) {
        }
        CHECK(is_over == 1);
    } else if (form == 1) {
        OK(castell_waitall(1, &request));
    }
    CHECK(request == NULL);
    look(operation);
}

static void prepare(void) {
    me = castell_comm_rank(comm);
    size = castell_comm_size(comm);
    CHECK(0 <= me && me < size && size <= RANKS_MAX);
    for (int rank = 0; rank < size; rank++) {
        counts[rank] = uneven(rank, 1);
        places[rank] = (size_t)(1 + ROOM * (size - 1 - rank)); /* the last one's first, with gaps */
        out_counts[rank] = uneven(me, rank);
        in_counts[rank] = uneven(rank, me);
        pair_counts[rank] = uneven(me < rank ? me : rank, me < rank ? rank : me);
        pair_bytes[rank] = 4 * pair_counts[rank];
        out_bytes[rank] = 4 * out_counts[rank];
        in_bytes[rank] = 4 * in_counts[rank];
        byte_places[rank] = 4 * places[rank];
    }
    degree = size == 1 ? 1 : 2;
    for (int at = 0; at < degree; at++) {
        destinations[at] = (me + 1 + at) % size;
        sources[at] = (me + 2 * size - 1 - at) % size;
        to_counts[at] = uneven(me, destinations[at]);
        from_counts[at] = uneven(sources[at], me);
        to_bytes[at] = 4 * to_counts[at];
        from_bytes[at] = 4 * from_counts[at];
        near_places[at] = (size_t)(1 + ROOM * (1 - at));
        near_byte_places[at] = 4 * near_places[at];
    }
}

static int all(castell_comm of) {
    static int calls;
    castell_op composition;
    int made = 0;
    comm = of;
    prepare();
    OK(castell_op_create(compose, &calls, 8, 0, &composition));
    for (size_t which = 0; which < sizeof operations / sizeof operations[0]; which++) {
        const struct operation *operation = &operations[which];
        for (units = 1; units <= (operation->kind & REDUCES ? 2 : 1); units++) {
            op = units == 1 ? CASTELL_SUM : composition;
            type = units == 1 ? CASTELL_INT32 : (castell_type)(CASTELL_BYTES + 8);
            for (root = 0; root < (operation->kind & ROOTED ? size : 1); root++) {
                for (in_place = 0; in_place <= (operation->kind & IN_PLACE ? 1 : 0); in_place++) {
                    for (form = 0; form < FORMS; form++, made++) one(operation);
                }
            }
        }
    }
    OK(castell_op_free(&composition));
    CHECK(size == 1 || calls > 0);
    return made;
}

int main(void) {
    void *memory[2];
    castell_comm copy, half, near;
    GOAL_Init();
    OK(castell_alloc(sizeof want, &memory[0]));
    OK(castell_alloc(sizeof want, &memory[1]));
    send = memory[0];
    recv = memory[1];
    int made = all(CASTELL_WORLD);
    int ranks = size, here = me;

    /* Halves, numbered backwards. */
    OK(castell_comm_split(CASTELL_WORLD, here % 2, -here, &half));
    for (int rank = 0; rank < castell_comm_size(half); rank++) {
        int last = ranks - 1 - (ranks - 1 - here % 2) % 2;
        CHECK(castell_comm_translate(half, rank, CASTELL_WORLD) == last - 2 * rank);
        CHECK(castell_comm_translate(CASTELL_WORLD, last - 2 * rank, half) == rank);
    }
    CHECK(ranks == 1 || castell_comm_translate(CASTELL_WORLD, (here + 1) % 2, half) == -1);
    made += all(half);
    OK(castell_comm_free(&half));
    CHECK(half == NULL);

    OK(castell_comm_dup(CASTELL_WORLD, &copy));
    OK(castell_comm_split_shared(copy, 0, &near));
    CHECK(castell_comm_size(near) == ranks && castell_comm_rank(near) == here);
    OK(castell_comm_free(&copy));
    made += all(near);
    OK(castell_comm_free(&near));

    /* All but the first. */
    OK(castell_comm_split(CASTELL_WORLD, here == 0 ? CASTELL_NO_COLOUR : 4, 0, &half));
    CHECK((half == NULL) == (here == 0));
    if (half != NULL) {
        made += all(half);
        OK(castell_comm_free(&half));
    }
    OK(castell_use_algorithm("barrier:dissemination"));
    OK(castell_barrier(CASTELL_WORLD));
    OK(castell_free(memory[0]));
    OK(castell_free(memory[1]));
    GOAL_Finalize();
    printf("rank %d: %d calls\n", here, made);
    return 0;
}
