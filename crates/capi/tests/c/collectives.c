/* castell.h in a group of one: every function, misuse, lifetimes. */
#include <castell.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, GOAL_LastError());                         \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)
#define OK(call) CHECK((call) == GOAL_SUCCESS)

static void later(const void *left, const void *right, void *result, size_t count, void *context) {
    (void)left;
    ++*(int *)context;
    memmove(result, right, 4 * count);
}

/* Ends a call that was started, or starts and ends one that was prepared. */
static void end(int prepared, castell_request *request) {
    for (int round = 0; prepared && round < 2; round++) {
        OK(castell_request_start(*request));
        OK(castell_wait(request));
    }
    if (prepared) OK(castell_request_free(request));
    OK(castell_wait(request));
    CHECK(*request == NULL);
}

/* The operation as a call, as one that is started, and as one that is prepared: each gives `expected`. */
#define ALL(name, expected, ...)                                                                                           \
    do {                                                                                                                   \
        castell_request request = NULL;                                                                                    \
        memset(got, 0, sizeof got);                                                                                        \
        OK(castell_##name(__VA_ARGS__, CASTELL_WORLD));                                                                    \
        CHECK(memcmp(got, expected, sizeof expected) == 0);                                                                \
        memset(got, 0, sizeof got);                                                                                        \
        OK(castell_i##name(__VA_ARGS__, CASTELL_WORLD, &request));                                                         \
        end(0, &request);                                                                                                  \
        CHECK(memcmp(got, expected, sizeof expected) == 0);                                                                \
        memset(got, 0, sizeof got);                                                                                        \
        OK(castell_##name##_init(__VA_ARGS__, CASTELL_WORLD, &request));                                                   \
        end(1, &request);                                                                                                  \
        CHECK(memcmp(got, expected, sizeof expected) == 0);                                                                \
    } while (0)

static void operations(void) {
    const int32_t mine[2] = {7, -3}, nothing[2] = {0, 0};
    int32_t got[2];
    const size_t counts[1] = {2}, bytes[1] = {8}, zero[1] = {0};
    const int self[1] = {0};
    castell_request request;
    OK(castell_barrier(CASTELL_WORLD));
    {
        double now = 0, later = 0, error = -1;
        CHECK(castell_clock_now(&now, &error) == GOAL_ERR_OPERATION);
        OK(castell_clock_ask(CASTELL_WORLD));
        OK(castell_clock_now(&now, &error));
        OK(castell_clock_now(&later, NULL));
        CHECK(now > 0 && later >= now && error == 0);
        OK(castell_clock_ask(CASTELL_WORLD));
        OK(castell_clock_now(NULL, NULL));
    }
    OK(castell_ibarrier(CASTELL_WORLD, &request));
    end(0, &request);
    OK(castell_barrier_init(CASTELL_WORLD, &request));
    end(1, &request);
    ALL(bcast, nothing, got, 2, CASTELL_INT32, 0);
    ALL(gather, mine, mine, 2, CASTELL_INT32, got, 0);
    ALL(gatherv, mine, mine, 2, CASTELL_INT32, got, counts, NULL, 0);
    ALL(scatter, mine, mine, 2, CASTELL_INT32, got, 0);
    ALL(scatterv, mine, mine, counts, zero, CASTELL_INT32, got, 2, 0);
    ALL(allgather, mine, mine, 2, CASTELL_INT32, got);
    ALL(allgatherv, mine, mine, CASTELL_INT32, got, counts, zero);
    ALL(reduce, mine, mine, got, 2, CASTELL_INT32, CASTELL_SUM, 0);
    ALL(allreduce, mine, mine, got, 2, CASTELL_INT32, CASTELL_MAX);
    ALL(reduce_scatter, mine, mine, got, counts, CASTELL_INT32, CASTELL_BIT_XOR);
    ALL(reduce_scatter_block, mine, mine, got, 2, CASTELL_INT32, CASTELL_PRODUCT);
    ALL(alltoall, mine, mine, 2, CASTELL_INT32, got);
    ALL(alltoallv, mine, mine, counts, zero, CASTELL_INT32, got, counts, zero);
    ALL(alltoallw, mine, mine, bytes, zero, got, bytes, zero);
    ALL(scan, mine, mine, got, 2, CASTELL_INT32, CASTELL_MIN);
    ALL(exscan, nothing, mine, got, 2, CASTELL_INT32, CASTELL_MIN);
    ALL(neighbour_allgather, mine, 1, self, 1, self, mine, 2, CASTELL_INT32, got);
    ALL(neighbour_allgatherv, mine, 1, self, 1, self, mine, 2, CASTELL_INT32, got, counts, zero);
    ALL(neighbour_alltoall, mine, 1, self, 1, self, mine, 2, CASTELL_INT32, got);
    ALL(neighbour_alltoallv, mine, 1, self, 1, self, mine, counts, zero, CASTELL_INT32, got, counts, zero);
    ALL(neighbour_alltoallw, mine, 1, self, 1, self, mine, bytes, zero, got, bytes, zero);
}

static void communicators(void) {
    castell_comm copy, part, shared;
    OK(castell_comm_dup(CASTELL_WORLD, &copy));
    CHECK(castell_comm_rank(copy) == 0 && castell_comm_size(copy) == 1);
    CHECK(castell_comm_translate(CASTELL_WORLD, 0, copy) == 0);
    CHECK(castell_comm_translate(CASTELL_WORLD, 1, copy) == GOAL_ERR_RANK);
    OK(castell_comm_split(copy, CASTELL_NO_COLOUR, 0, &part));
    CHECK(part == NULL && castell_barrier(part) == GOAL_ERR_HANDLE);
    OK(castell_comm_split_shared(copy, 0, &shared));
    OK(castell_barrier(shared));
    OK(castell_comm_free(&shared));
    castell_comm gone = copy;
    OK(castell_comm_free(&copy));
    CHECK(copy == NULL && castell_barrier(gone) == GOAL_ERR_HANDLE && strstr(GOAL_LastError(), "freed") != NULL);
    part = CASTELL_WORLD;
    CHECK(castell_comm_free(&part) == GOAL_ERR_HANDLE);
}

static void misuse(void) {
    int32_t one = 1, got = 0;
    int calls = 0;
    castell_op op;
    CHECK(castell_bcast(&one, 1, CASTELL_INT32, 1, CASTELL_WORLD) == GOAL_ERR_OPERATION);
    CHECK(strstr(GOAL_LastError(), "castell_bcast: bcast: the root is 1") != NULL);
    CHECK(castell_allreduce(&one, &got, 1, CASTELL_FLOAT, CASTELL_BIT_AND, CASTELL_WORLD) == GOAL_ERR_OPERATION);
    CHECK(castell_allreduce(&one, &got, 1, (castell_type)99, CASTELL_SUM, CASTELL_WORLD) == GOAL_ERR_OPERATION);
    CHECK(castell_allreduce(&one, &got, 1, CASTELL_INT32, (castell_op)(uintptr_t)99, CASTELL_WORLD) == GOAL_ERR_OPERATION);
    OK(castell_use_algorithm("allreduce:magic"));
    CHECK(castell_allreduce(&one, &got, 1, CASTELL_INT32, CASTELL_SUM, CASTELL_WORLD) == GOAL_ERR_OPERATION);
    CHECK(strstr(GOAL_LastError(), "allreduce:magic") != NULL);
    OK(castell_allreduce(&one, &got, 1, CASTELL_INT32, CASTELL_SUM, CASTELL_WORLD));
    CHECK(got == 1);
    CHECK(castell_wait(NULL) == GOAL_ERR_BUFFER && castell_op_create(NULL, NULL, 4, 1, &op) == GOAL_ERR_BUFFER);
    OK(castell_op_create(later, &calls, 4, 0, &op));
    OK(castell_allreduce(CASTELL_IN_PLACE, &got, 1, CASTELL_INT32, op, CASTELL_WORLD));
    CHECK(castell_allreduce(&one, &got, 1, CASTELL_DOUBLE, op, CASTELL_WORLD) == GOAL_ERR_OPERATION);
    OK(castell_op_free(&op));
    CHECK(op == NULL);
    castell_request request;
    OK(castell_iallreduce(&one, &got, 1, CASTELL_INT32, CASTELL_SUM, CASTELL_WORLD, &request));
    CHECK(castell_request_start(request) == GOAL_ERR_HANDLE);
    while (castell_test(&request) == 0) {
    }
    CHECK(request == NULL);
    OK(castell_waitall(1, &request));
}

static void *memory(void) {
    void *some = NULL, *more = NULL, *none = &some;
    OK(castell_alloc(100000, &some));
    OK(castell_alloc(0, &more));
    CHECK(some && more && some != more && ((const char *)some)[99999] == 0);
    double *numbers = some;
    numbers[12499] = 2.5;
    OK(castell_allreduce(CASTELL_IN_PLACE, numbers, 12500, CASTELL_DOUBLE, CASTELL_SUM, CASTELL_WORLD));
    CHECK(numbers[12499] == 2.5 && numbers[0] == 0);
    OK(castell_free(more));
    CHECK(castell_free(more) == GOAL_ERR_BUFFER && strstr(GOAL_LastError(), "given back"));
    CHECK(castell_free((char *)some + 8) == GOAL_ERR_BUFFER);
    OK(castell_free(NULL));
    CHECK(castell_alloc((size_t)1 << 60, &none) == GOAL_ERR_LIMIT && none == &some);
    CHECK(castell_alloc(8, NULL) == GOAL_ERR_BUFFER);
    return some;
}

int main(void) {
    int32_t one = 1, got = 0;
    void *some;
    CHECK(castell_allreduce(&one, &got, 1, CASTELL_INT32, CASTELL_SUM, CASTELL_WORLD) == GOAL_ERR_NOT_INITIALIZED);
    OK(GOAL_Init());
    operations();
    communicators();
    misuse();
    some = memory();
    CHECK(castell_free(&one) == GOAL_ERR_BUFFER);
    OK(GOAL_Finalize());
    OK(castell_free(some));
    CHECK(castell_alloc(8, &some) == GOAL_ERR_FINALIZED);
    CHECK(castell_barrier(CASTELL_WORLD) == GOAL_ERR_FINALIZED);
    printf("every call, three ways\n");
    return 0;
}
