// How many ways there are to put n queens on a board: a task a placement down to some depth, one sum as a reduction.
#include <castell_tasks.hpp>
#include <cstdio>
#include <cstdlib>

constexpr unsigned queens = 10, depth = 3;
static long ways = 0;

struct board {
    unsigned row = 0, columns = 0, rising = 0, falling = 0;

    template <class Visit> void each_next(Visit visit) const {
        unsigned free = ~(columns | rising | falling) & ((1u << queens) - 1);
        for (; free != 0; free &= free - 1) {
            unsigned bit = free & -free;
            visit(board{row + 1, columns | bit, (rising | bit) << 1, (falling | bit) >> 1});
        }
    }

    long count() const {
        if (row == queens) {
            return 1;
        }
        long found = 0;
        each_next([&](const board &next) { found += next.count(); });
        return found;
    }
};

static void place(const board &start) {
    start.each_next([](const board &next) {
        if (next.row < depth) {
            castell_access sum = castell::sum(ways);
            sum.kind |= CASTELL_WEAK;
            castell::submit([next] { place(next); }, sum);
        } else {
            castell::submit([next] { castell::local(ways) += next.count(); }, castell::sum(ways));
        }
    });
}

int main() {
    castell::runtime runtime;
    runtime.run([] { place(board{}); });
    const long expected = board{}.count();
    std::printf("%u queens: %ld ways\n", queens, ways);
    return ways == expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
