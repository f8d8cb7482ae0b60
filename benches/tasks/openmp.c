/* The workloads with OpenMP tasks: GCC's libgomp or LLVM's libomp, whichever compiler builds it. A run is a parallel region of
 * its own; the threads are there from the warm-up on. */
#include "potrf.h"
#include "tasks.h"

#include <omp.h>

static const char *running;

/* The empty statement for the assembler keeps the compiler from leaving tasks without a body out. */
static void empty(void) {
    for (long i = 0; i < sizes.tasks; i++) {
#pragma omp task
        __asm__ volatile("");
    }
}

static void halve(long elements) {
    if (elements <= sizes.block) {
        spin(elements);
        return;
    }
    long half = elements / 2;
#pragma omp task firstprivate(half)
    halve(half);
#pragma omp task firstprivate(elements, half)
    halve(elements - half);
}

static void fib(long number, long *result) {
    if (number < 2) {
        *result = number;
        return;
    }
    long a, b;
#pragma omp task shared(a) firstprivate(number)
    fib(number - 1, &a);
#pragma omp task shared(b) firstprivate(number)
    fib(number - 2, &b);
#pragma omp taskwait
    *result = a + b;
}

static void node(long *in0, long *in1, long *inout) {
    (void)in0, (void)in1, (void)inout;
    if (in1 != NULL) {
#pragma omp task depend(in : in0[0], in1[0]) depend(inout : inout[0])
        {
        }
    } else if (in0 != NULL) {
#pragma omp task depend(in : in0[0]) depend(inout : inout[0])
        {
        }
    } else {
#pragma omp task depend(inout : inout[0])
        {
        }
    }
}

static void kernel(long *in0, long *in1, long *inout) {
    if (in1 != NULL) {
#pragma omp task depend(in : in0[0], in1[0]) depend(inout : inout[0]) firstprivate(in0, in1, inout)
        potrf_task(in0, in1, inout);
    } else if (in0 != NULL) {
#pragma omp task depend(in : in0[0]) depend(inout : inout[0]) firstprivate(in0, inout)
        potrf_task(in0, NULL, inout);
    } else {
#pragma omp task depend(inout : inout[0]) firstprivate(inout)
        potrf_task(NULL, NULL, inout);
    }
}

static void create(void) {
    if (strcmp(running, "empty") == 0) {
        empty();
    } else if (strcmp(running, "axpy") == 0) {
        halve(sizes.elements);
    } else if (strcmp(running, "fib") == 0) {
        long result;
        fib(sizes.number, &result);
        fibonacci_check(sizes.number, result);
    } else {
        for_each_node(running, strcmp(running, "potrf") == 0 ? kernel : node);
    }
}

/* The barrier at the end waits for all tasks. */
static void run(const char *workload) {
    running = workload;
#pragma omp parallel num_threads(sizes.workers)
#pragma omp single
    create();
}

/* Stencil of Task Bench: task (t, i) reads the neighbours of the row before; two rows in turns. */
static void metg(const char *workload) {
    (void)workload;
    long width = sizes.width;
    long *rows = (long *)measure_checked(calloc((size_t)(2 * width), sizeof *rows));
#pragma omp parallel num_threads(sizes.workers)
#pragma omp single
    for (long t = 0; t < sizes.steps; t++) {
        long *from = rows + (t + 1) % 2 * width, *to = rows + t % 2 * width;
        for (long i = 0; i < width; i++) {
            long *left = from + (i > 0 ? i - 1 : 0), *right = from + (i + 1 < width ? i + 1 : i), *mid = from + i;
            long *own = to + i;
            (void)left, (void)right, (void)mid, (void)own;
#pragma omp task depend(in : left[0], mid[0], right[0]) depend(inout : own[0])
            spin(sizes.rounds);
        }
    }
    free(rows);
}

/* One thread creates, and all run: tasks of so many rounds. */
static void creator(const char *workload) {
    (void)workload;
#pragma omp parallel num_threads(sizes.workers)
#pragma omp single
    for (long i = 0; i < sizes.tasks; i++) {
#pragma omp task
        spin(sizes.rounds);
    }
}

/* No tasks: barriers. */
static void barrier(const char *workload) {
    (void)workload;
#pragma omp parallel num_threads(sizes.workers)
    for (long i = 0; i < sizes.tasks; i++) {
#pragma omp barrier
    }
}

int main(int argc, char **argv) {
    static const struct bench table[] = {{"empty", run},  {"axpy", run}, {"fib", run},
                                         {"chain", run},  {"chains", run}, {"wave", run},
                                         {"chol", run},   {"potrf", run, potrf_prepare, potrf_check},
                                         {"metg", metg},  {"creator", creator}, {"barrier", barrier},
                                         {NULL, NULL}};
    return tasks_main(argc, argv, table, NULL, NULL);
}
