/* The workloads with Nanos6, the runtime of OmpSs-2, through the functions that its compilers call. `--regions 1`: its dependences
 * over byte regions; otherwise those over single addresses. Each run is a function that the runtime runs as a task. */
#define _GNU_SOURCE
#include "potrf.h"
#include "tasks.h"

#include <nanos6.h>
#include <nanos6/bootstrap.h>
#include <nanos6/library-mode.h>
#include <nanos6/multidimensional-dependencies.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

/* What every task gets. */
struct block {
    long number;
    long *result;
    long *in[3];
    long *inout;
};

static nanos6_task_invocation_info_t here = {"castell bench tasks"};

static void submit(nanos6_task_info_t *type, struct block block, size_t accesses) {
    void *place = NULL, *task = NULL;
    nanos6_create_task(type, &here, NULL, sizeof block, &place, &task, 0, accesses);
    memcpy(place, &block, sizeof block);
    nanos6_submit_task(task);
}

static void wait_here(void) { nanos6_taskwait("castell bench tasks"); }

/* Its cell each: a task that reads up to three and writes one. */
static void declare(void *argument, void *bounds, void *handler) {
    struct block *block = argument;
    (void)bounds;
    for (int i = 0; i < 3; i++) {
        if (block->in[i] != NULL) {
            nanos6_register_region_read_depinfo1(handler, i, "in", block->in[i], sizeof(long), 0, sizeof(long));
        }
    }
    nanos6_register_region_readwrite_depinfo1(handler, 3, "inout", block->inout, sizeof(long), 0, sizeof(long));
}

/* A type of task needs its implementation, and the runtime has to know it before the first of it. */
#define TYPE(NAME, DECLARE)                                                                                            \
    static void NAME##_run(void *argument, void *device, nanos6_address_translation_entry_t *table);                   \
    static nanos6_task_implementation_info_t NAME##_implementation = {                                                 \
        .device_type_id = nanos6_host_device, .run = NAME##_run, .task_type_label = #NAME, .declaration_source = #NAME}; \
    static nanos6_task_info_t NAME##_type = {.num_symbols = 4,                                                         \
                                             .register_depinfo = DECLARE,                                              \
                                             .implementation_count = 1,                                                \
                                             .implementations = &NAME##_implementation};                               \
    static void NAME##_run(void *argument, void *device, nanos6_address_translation_entry_t *table)

#define NOT_NEEDED (void)device, (void)table

static void nothing_declared(void *argument, void *bounds, void *handler) {
    (void)argument, (void)bounds, (void)handler;
}

TYPE(empty, nothing_declared) {
    NOT_NEEDED;
    (void)argument;
}

static void halve(long elements);
TYPE(halve, nothing_declared) {
    NOT_NEEDED;
    halve(((struct block *)argument)->number);
}
static void halve(long elements) {
    if (elements <= sizes.block) {
        spin(elements);
        return;
    }
    long half = elements / 2;
    submit(&halve_type, (struct block){.number = half}, 0);
    submit(&halve_type, (struct block){.number = elements - half}, 0);
}

static void fib(long number, long *result);
TYPE(fib, nothing_declared) {
    NOT_NEEDED;
    struct block *block = argument;
    fib(block->number, block->result);
}
static void fib(long number, long *result) {
    if (number < 2) {
        *result = number;
        return;
    }
    long a, b;
    submit(&fib_type, (struct block){.number = number - 1, .result = &a}, 0);
    submit(&fib_type, (struct block){.number = number - 2, .result = &b}, 0);
    wait_here();
    *result = a + b;
}

TYPE(node, declare) {
    NOT_NEEDED;
    (void)argument;
}
static void node(long *in0, long *in1, long *inout) {
    size_t accesses = 1 + (in0 != NULL) + (in1 != NULL);
    submit(&node_type, (struct block){.in = {in0, in1}, .inout = inout}, accesses);
}

TYPE(kernel, declare) {
    NOT_NEEDED;
    struct block *block = argument;
    potrf_task(block->in[0], block->in[1], block->inout);
}
static void kernel(long *in0, long *in1, long *inout) {
    size_t accesses = 1 + (in0 != NULL) + (in1 != NULL);
    submit(&kernel_type, (struct block){.in = {in0, in1}, .inout = inout}, accesses);
}

TYPE(stencil, declare) {
    NOT_NEEDED;
    (void)argument;
    spin(sizes.rounds);
}
/* Stencil of Task Bench: task (t, i) reads the neighbours of the row before; two rows in turns. */
static void stencil(void) {
    long width = sizes.width;
    long *rows = measure_checked(calloc((size_t)(2 * width), sizeof *rows));
    for (long t = 0; t < sizes.steps; t++) {
        long *from = rows + (t + 1) % 2 * width, *to = rows + t % 2 * width;
        for (long i = 0; i < width; i++) {
            long *left = i > 0 ? from + i - 1 : NULL, *right = i + 1 < width ? from + i + 1 : NULL;
            struct block block = {.in = {left, from + i, right}, .inout = to + i};
            submit(&stencil_type, block, (size_t)(2 + (left != NULL) + (right != NULL)));
        }
    }
    wait_here();
    free(rows);
}

static void create(void *argument) {
    const char *workload = argument;
    if (strcmp(workload, "empty") == 0) {
        for (long i = 0; i < sizes.tasks; i++) {
            submit(&empty_type, (struct block){0}, 0);
        }
    } else if (strcmp(workload, "axpy") == 0) {
        halve(sizes.elements);
    } else if (strcmp(workload, "fib") == 0) {
        long result;
        fib(sizes.number, &result);
        fibonacci_check(sizes.number, result);
    } else if (strcmp(workload, "metg") == 0) {
        stencil();
    } else {
        for_each_node(workload, strcmp(workload, "potrf") == 0 ? kernel : node);
    }
    wait_here();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void finished(void *argument) {
    pthread_mutex_lock(&lock);
    *(int *)argument = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void run(const char *workload) {
    int done = 0;
    nanos6_spawn_function(create, (void *)workload, finished, &done, "main");
    pthread_mutex_lock(&lock);
    while (!done) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

/* It has a worker for each processor that the process may use. */
static void start(void) {
    cpu_set_t allowed, chosen;
    CPU_ZERO(&chosen);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int cpu = 0, count = 0; cpu < CPU_SETSIZE && count < sizes.workers; cpu++) {
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &chosen);
            count++;
        }
    }
    if (CPU_COUNT(&chosen) < sizes.workers) {
        fprintf(stderr, "%d workers, but only %d processors: Nanos6 has no more\n", sizes.workers, CPU_COUNT(&chosen));
        exit(1);
    }
    sched_setaffinity(0, sizeof chosen, &chosen);
    const char *refused = nanos6_library_mode_init();
    if (refused != NULL) {
        fprintf(stderr, "Nanos6 does not start: %s\n", refused);
        exit(1);
    }
    nanos6_task_info_t *types[] = {&empty_type, &halve_type, &fib_type, &node_type, &kernel_type, &stencil_type};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        nanos6_register_task_info(types[i]);
    }
}

int main(int argc, char **argv) {
    static const struct bench table[] = {{"empty", run},  {"axpy", run},   {"fib", run},
                                         {"chain", run},  {"chains", run}, {"wave", run},
                                         {"chol", run},   {"potrf", run, potrf_prepare, potrf_check},
                                         {"metg", run},   {NULL, NULL}};
    /* The library reads this when it is loaded, so the program begins again. */
    static const char *const variable = "NANOS6_CONFIG_OVERRIDE";
    if (getenv(variable) == NULL) {
        int regions = measure_word(argc, argv, "--regions") != NULL;
        setenv(variable, regions ? "version.dependencies=regions" : "version.dependencies=discrete", 1);
        execv("/proc/self/exe", argv);
    }
    return tasks_main(argc, argv, table, start, nanos6_shutdown);
}
