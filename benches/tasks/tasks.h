/* What the task benchmarks share: the workloads' sizes and shapes, and the loop that measures one. C11 and C++17.
 *
 *   program --workload NAME --workers N --samples S [--tasks N] [--elements N] [--block N] [--number N] [--chains N]
 *           [--side N] [--tiles N] [--order N] [--tile N] [--again 1]
 *
 * prints one line, in nanoseconds a task; without a function for the workload it ends with 3. */
#ifndef CASTELL_BENCH_TASKS_H
#define CASTELL_BENCH_TASKS_H

#include "measure.h"

/* The sizes of the workload that runs. */
struct sizes {
    long tasks, elements, block, number, chains, side, tiles, order, tile, width, steps, rounds;
    int workers;
    /* The tasks' graph is built once, and its runs alone are measured. */
    int again;
};
static struct sizes sizes;

/* What a dependent task is named by: it reads and writes through none of them. Chains' cells share no cache line. */
enum { CELL_CHAIN = 64 / sizeof(long) };
static long *cells;

/* A loop that nothing can shorten. */
static inline void spin(long rounds) {
    for (long round = 0; round < rounds; round++) {
        __asm__ volatile("" : : "r"(round));
    }
}

static inline long fibonacci(long number) {
    long a = 0, b = 1;
    for (long i = 0; i < number; i++) {
        long next = a + b;
        a = b;
        b = next;
    }
    return a;
}

static inline void fibonacci_check(long number, long result) {
    if (result != fibonacci(number)) {
        fprintf(stderr, "fib %ld: got %ld, expected %ld\n", number, result, fibonacci(number));
        exit(1);
    }
}

/* A dependent workload, task by task: `node` is called for each in order of creation, with the cells that it reads (up to
 * two) and the one that it writes. */
static inline void for_each_node(const char *workload, void (*node)(long *in0, long *in1, long *inout)) {
    if (strcmp(workload, "chain") == 0) {
        for (long i = 0; i < sizes.tasks; i++) {
            node(NULL, NULL, cells);
        }
    } else if (strcmp(workload, "chains") == 0) {
        for (long i = 0; i < sizes.tasks; i++) {
            node(NULL, NULL, cells + i % sizes.chains * CELL_CHAIN);
        }
    } else if (strcmp(workload, "wave") == 0) {
        for (long r = 0; r < sizes.side; r++) {
            for (long c = 0; c < sizes.side; c++) {
                long *own = cells + r * sizes.side + c;
                long *up = r > 0 ? own - sizes.side : NULL, *left = c > 0 ? own - 1 : NULL;
                node(up != NULL ? up : left, up != NULL ? left : NULL, own);
            }
        }
    } else { /* chol, potrf */
        long n = sizes.tiles;
        for (long k = 0; k < n; k++) {
            node(NULL, NULL, cells + k * n + k);
            for (long i = k + 1; i < n; i++) {
                node(cells + k * n + k, NULL, cells + i * n + k);
            }
            for (long i = k + 1; i < n; i++) {
                for (long j = k + 1; j < i; j++) {
                    node(cells + i * n + k, cells + j * n + k, cells + i * n + j);
                }
                node(cells + i * n + k, NULL, cells + i * n + i);
            }
        }
    }
}

/* How many tasks a workload has. */
static inline long task_count(const char *workload) {
    if (strcmp(workload, "axpy") == 0) {
        long leaves = 1;
        while (leaves * sizes.block < sizes.elements) {
            leaves *= 2;
        }
        return 2 * leaves - 2;
    }
    if (strcmp(workload, "fib") == 0) {
        return 2 * fibonacci(sizes.number + 1) - 2;
    }
    if (strcmp(workload, "wave") == 0) {
        return sizes.side * sizes.side;
    }
    if (strcmp(workload, "chol") == 0 || strcmp(workload, "potrf") == 0) {
        long n = sizes.tiles;
        return n + n * (n - 1) + n * (n - 1) * (n - 2) / 6;
    }
    if (strcmp(workload, "metg") == 0) {
        return sizes.width * sizes.steps;
    }
    return sizes.tasks;
}

/* One way to run a workload. */
struct bench {
    const char *workload;
    /* Runs it once, to its end. */
    void (*run)(const char *workload);
    /* Before each run, and after the last; neither is measured, and either may be missing. */
    void (*prepare)(void);
    void (*check)(void);
};

/* Whether these are the last entries of a table is told by a null workload. */
static inline int tasks_main(int argc, char **argv, const struct bench *table, void (*start)(void), void (*stop)(void)) {
    const char *workload = measure_word(argc, argv, "--workload");
    sizes.tasks = measure_number(argc, argv, "--tasks", 1000);
    sizes.elements = measure_number(argc, argv, "--elements", 1 << 16);
    sizes.block = measure_number(argc, argv, "--block", 64);
    sizes.number = measure_number(argc, argv, "--number", 10);
    sizes.chains = measure_number(argc, argv, "--chains", 64);
    sizes.side = measure_number(argc, argv, "--side", 10);
    sizes.tiles = measure_number(argc, argv, "--tiles", 4);
    sizes.order = measure_number(argc, argv, "--order", 1024);
    sizes.tile = measure_number(argc, argv, "--tile", 128);
    sizes.width = measure_number(argc, argv, "--width", 4);
    sizes.steps = measure_number(argc, argv, "--steps", 100);
    sizes.rounds = measure_number(argc, argv, "--spins", 100);
    sizes.workers = (int)measure_number(argc, argv, "--workers", 2);
    sizes.again = measure_word(argc, argv, "--again") != NULL;
    long samples = measure_number(argc, argv, "--samples", 3);
    if (workload == NULL) {
        fprintf(stderr, "--workload NAME: which one\n");
        return 2;
    }
    while (table->workload != NULL && strcmp(table->workload, workload) != 0) {
        table++;
    }
    if (table->workload == NULL) {
        return 3;
    }
    if (strcmp(workload, "potrf") == 0) {
        sizes.tiles = sizes.order / sizes.tile;
        sizes.order = sizes.tiles * sizes.tile;
    }
    size_t count = (size_t)(sizes.chains * CELL_CHAIN);
    count = count < (size_t)(sizes.side * sizes.side) ? (size_t)(sizes.side * sizes.side) : count;
    count = count < (size_t)(sizes.tiles * sizes.tiles) ? (size_t)(sizes.tiles * sizes.tiles) : count;
    cells = (long *)measure_checked(calloc(count, sizeof *cells));
    double *ns = (double *)measure_checked(malloc((size_t)samples * sizeof *ns));
    double *cpu = (double *)measure_checked(malloc((size_t)samples * sizeof *cpu));
    if (start != NULL) {
        start();
    }
    for (long i = -1; i < samples; i++) { /* the first warms up */
        if (table->prepare != NULL) {
            table->prepare();
        }
        double begin = measure_now_ns(), cpu_begin = measure_processor_ns();
        table->run(workload);
        ns[i < 0 ? 0 : i] = (measure_now_ns() - begin) / (double)task_count(workload);
        cpu[i < 0 ? 0 : i] = (measure_processor_ns() - cpu_begin) / (double)task_count(workload);
    }
    if (table->check != NULL) {
        table->check();
    }
    if (stop != NULL) {
        stop();
    }
    char params[64];
    snprintf(params, sizeof params, "\"tasks\":%ld", task_count(workload));
    measure_report_both(workload, params, ns, cpu, samples);
    free(ns);
    free(cpu);
    free(cells);
    return 0;
}

#endif
