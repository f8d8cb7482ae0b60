// castell_tasks.hpp: lambdas, exceptions.
#include <castell_tasks.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            std::fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, castell_tasks_error());          \
            std::exit(1);                                                                                             \
        }                                                                                                             \
    } while (0)

static long fibonacci(int n) {
    if (n < 2) {
        return n;
    }
    long one = 0, two = 0;
    castell::submit([n, &one] { one = fibonacci(n - 1); });
    castell::submit([n, &two] { two = fibonacci(n - 2); });
    castell::taskwait();
    return one + two;
}

struct multiplication {
    static long identity() { return 1; }
    static void combine(long &into, const long &from) { into *= from; }
};

struct problem {
    int number;
};

int main() {
    castell_options options{};
    options.workers = 2;
    castell::runtime runtime(options);
    runtime.run([&] {
        CHECK(fibonacci(15) == 610);
        int a = 0, b = 0;
        castell::submit([&] { a = 20; }, castell::out(a));
        castell::submit([&] { b = a + 1; }, castell::in(a), castell::out(b));
        castell::submit([&] { b *= 2; }, castell::inout(b));
        castell::taskwait_on(castell::in(b));
        CHECK(b == 42);

        // A capture that has to be destroyed, run or skipped.
        auto counted = std::make_shared<int>(0);
        for (int i = 0; i < 10; i++) {
            castell::submit([counted] { ++*counted; }, castell::inout(*counted));
        }
        castell::taskwait();
        CHECK(*counted == 10 && counted.use_count() == 1);

        long sum = 100;
        for (int i = 0; i < 10; i++) {
            castell::submit([&sum, i] { castell::local(sum) += i; }, castell::sum(sum));
        }
        castell::taskwait();
        CHECK(sum == 145);

        long product = 1, wide = 0;
        for (long i = 1; i <= 10; i++) {
            castell::submit([&product, i] { castell::local(product) *= i; },
                            castell::in_order(castell::reduction<multiplication>(product)));
        }
        castell::taskfor(0, 1000, 10, [&](std::size_t first, std::size_t end) {
            castell::local(wide) += static_cast<long>(end - first);
        }, castell::sum(wide));
        castell::taskloop(0, 1000, 100, [&, counted](std::size_t first, std::size_t end) {
            castell::local(wide) += static_cast<long>(end - first);
        }, castell::sum(wide));
        castell::taskwait();
        CHECK(product == 3628800 && wide == 2000 && counted.use_count() == 1);
        try {
            castell::submit([counted] { std::abort(); }, castell::sum(wide), castell::in(wide));
            CHECK(!"the contradiction was not refused");
        } catch (const castell::error &) {
            CHECK(counted.use_count() == 1);
        }

        // Those that exclude each other in any order, and those that do not.
        int turns = 0, at_once = 0;
        std::atomic<int> came{0};
        for (int i = 0; i < 10; i++) {
            castell::submit([&] { turns++; }, castell::commutative(turns));
            castell::submit([&] { came++; }, castell::concurrent(at_once));
        }
        castell::submit([&] { at_once = came; }, castell::inout(at_once));
        castell::taskwait();
        CHECK(turns == 10 && at_once == 10);

        // The left half of a matrix.
        int matrix[4][8] = {}, left = 0;
        const auto half = [&](auto mode) { return castell::rows<int>(mode(&matrix[0][0], 4), 4, 8); };
        castell::submit(
            [&] {
                for (auto &row : matrix) {
                    std::fill(row, row + 4, 1);
                }
            },
            half([](int *start, std::size_t count) { return castell::out(start, count); }));
        castell::submit(
            [&] {
                for (auto &row : matrix) {
                    left = std::accumulate(row, row + 4, left);
                }
            },
            half([](int *start, std::size_t count) { return castell::in(start, count); }), castell::out(left));

        // Only a child does it; the parent does not wait, and who comes after both does.
        int deep = 0, after = 0;
        castell::submit([&] { castell::submit([&] { deep = 5; }, castell::out(deep)); },
                        castell::weak(castell::out(deep)));
        castell::submit([&] { after = deep; }, castell::in(deep), castell::out(after));

        // Given up before the end: the other one ends first.
        int early = 0;
        std::atomic<bool> is_read{false};
        castell::submit(
            [&] {
                early = 3;
                castell::release(castell::out(early));
                while (!is_read) {
                    std::this_thread::yield();
                }
            },
            castell::out(early));
        castell::submit([&] { is_read = early == 3; }, castell::access(CASTELL_IN, &early, 1));
        castell::taskwait();
        CHECK(left == 16 && after == 5 && is_read);

        castell_task thrower{};
        thrower.label = "thrower";
        castell::submit(thrower, [] { throw problem{7}; }, castell::inout(a));
        castell::submit([counted] { *counted = -1; }, castell::inout(a));
        try {
            castell::taskwait();
            CHECK(!"the exception was lost");
        } catch (const problem &thrown) {
            CHECK(thrown.number == 7);
        }
        CHECK(*counted == 10 && counted.use_count() == 1);

        long laps = 0;
        castell::iterate(10, [&] {
            castell::submit([&laps, counted] { laps += static_cast<long>(castell_iteration()); }, castell::inout(laps));
            castell::submit([&laps] { laps *= 2; }, castell::inout(laps));
        });
        CHECK(laps == 2026 && counted.use_count() == 1);
        try {
            castell::iterate(10, [&] {
                castell::submit([] { std::abort(); });
                throw problem{9};
            });
            CHECK(!"the exception was lost");
        } catch (const problem &thrown) {
            CHECK(thrown.number == 9);
        }

        try {
            castell::group([] { throw std::runtime_error("from the group itself"); });
            CHECK(!"the exception was lost");
        } catch (const std::runtime_error &thrown) {
            CHECK(std::string(thrown.what()) == "from the group itself");
        }
    });
    try {
        runtime.run([] { castell::submit([] { castell_fail("no exception", nullptr, nullptr); }); });
        CHECK(!"the failure was lost");
    } catch (const castell::error &failure) {
        CHECK(std::string(failure.what()).find("no exception") != std::string::npos);
    }
    std::puts("fine");
}
