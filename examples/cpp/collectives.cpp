// Collective calls with an operator of the program: products of 2 x 2 matrices, which do not commute.
#include "check.h"
#include <array>
#include <castell.h>
#include <cstdint>
#include <cstdio>

using Matrix = std::array<std::uint32_t, 4>;

static Matrix multiply(const Matrix &a, const Matrix &b) {
    return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
}

static void products(const void *left, const void *right, void *result, std::size_t count, void *) {
    for (std::size_t i = 0; i < count; i++) {
        static_cast<Matrix *>(result)[i] =
            multiply(static_cast<const Matrix *>(left)[i], static_cast<const Matrix *>(right)[i]);
    }
}

static Matrix of(int rank) { return {1u + static_cast<unsigned>(rank), 1, 1, 0}; }

int main() {
    CHECK(GOAL_Init() == GOAL_SUCCESS);
    const int rank = castell_comm_rank(CASTELL_WORLD), size = castell_comm_size(CASTELL_WORLD);
    castell_op product;
    CHECK(castell_op_create(products, nullptr, sizeof(Matrix), 0, &product) == GOAL_SUCCESS);

    const auto matrices = static_cast<castell_type>(CASTELL_BYTES + sizeof(Matrix));
    const Matrix mine = of(rank);
    Matrix all{}, below{}, expected = of(0), before = of(0);
    for (int other = 1; other < size; other++) expected = multiply(expected, of(other));
    for (int other = 1; other < rank; other++) before = multiply(before, of(other));
    CHECK(castell_allreduce(&mine, &all, 1, matrices, product, CASTELL_WORLD) == GOAL_SUCCESS);
    CHECK(all == expected);
    CHECK(castell_exscan(&mine, &below, 1, matrices, product, CASTELL_WORLD) == GOAL_SUCCESS);
    CHECK(rank == 0 || below == before);

    CHECK(castell_op_free(&product) == GOAL_SUCCESS);
    if (rank == 0) std::printf("%d matrices, in their order\n", size);
    CHECK(GOAL_Finalize() == GOAL_SUCCESS);
}
