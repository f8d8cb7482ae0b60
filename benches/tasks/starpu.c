/* The workloads with StarPU: dependences from data handles, one for each cell. Handles are registered before the clock runs.
 * Its workers are threads besides the one that creates tasks. fib is missing: its tasks cannot wait for others. */
#include "potrf.h"
#include "tasks.h"

#include <starpu.h>

static starpu_data_handle_t *handles;
static size_t handle_count;

static void nothing(void *buffers[], void *argument) {
    (void)buffers, (void)argument;
}
static struct starpu_codelet codelets[4];

static void submit(struct starpu_task *task) {
    if (starpu_task_submit(task) != 0) {
        fprintf(stderr, "starpu_task_submit failed\n");
        exit(1);
    }
}

static void empty(const char *workload) {
    (void)workload;
    for (long i = 0; i < sizes.tasks; i++) {
        struct starpu_task *task = starpu_task_create();
        task->cl = &codelets[0];
        submit(task);
    }
    starpu_task_wait_for_all();
}

static void halve_task(void *buffers[], void *argument);
static struct starpu_codelet halving = {.cpu_funcs = {halve_task}, .nbuffers = 0, .name = "halve"};

static void halve(long elements) {
    if (elements <= sizes.block) {
        spin(elements);
        return;
    }
    long parts[2] = {elements / 2, elements - elements / 2};
    for (int i = 0; i < 2; i++) {
        struct starpu_task *task = starpu_task_create();
        task->cl = &halving;
        task->cl_arg = (void *)parts[i];
        task->cl_arg_size = sizeof(long);
        submit(task);
    }
}

static void halve_task(void *buffers[], void *argument) {
    (void)buffers;
    halve((long)argument);
}

static void axpy(const char *workload) {
    (void)workload;
    halve(sizes.elements);
    starpu_task_wait_for_all();
}

/* What a task reads and writes; how many that are. */
static int set_handles(struct starpu_task *task, const long *in0, const long *in1, const long *inout) {
    int count = 0;
    if (in0 != NULL) {
        task->handles[count++] = handles[in0 - cells];
    }
    if (in1 != NULL) {
        task->handles[count++] = handles[in1 - cells];
    }
    task->handles[count++] = handles[inout - cells];
    return count;
}

static void node(long *in0, long *in1, long *inout) {
    struct starpu_task *task = starpu_task_create();
    int count = set_handles(task, in0, in1, inout);
    task->cl = &codelets[count];
    submit(task);
}

/* Its argument is an array of the three cells. */
static void kernel(void *buffers[], void *argument) {
    long **at = (long **)argument;
    (void)buffers;
    potrf_task(at[0], at[1], at[2]);
}
static struct starpu_codelet kernels[4];

static void kernel_node(long *in0, long *in1, long *inout) {
    struct starpu_task *task = starpu_task_create();
    long **at = (long **)measure_checked(malloc(3 * sizeof *at));
    at[0] = in0, at[1] = in1, at[2] = inout;
    int count = set_handles(task, in0, in1, inout);
    task->cl = &kernels[count];
    task->cl_arg = at;
    task->cl_arg_size = 3 * sizeof *at;
    task->cl_arg_free = 1;
    submit(task);
}

static void potrf(const char *workload) {
    for_each_node(workload, kernel_node);
    starpu_task_wait_for_all();
}

static void dependent(const char *workload) {
    for_each_node(workload, node);
    starpu_task_wait_for_all();
}

static void start(void) {
    for (int count = 0; count < 4; count++) {
        codelets[count] = (struct starpu_codelet){.cpu_funcs = {nothing}, .nbuffers = count, .name = "empty"};
        for (int i = 0; i < count; i++) {
            codelets[count].modes[i] = i + 1 == count ? STARPU_RW : STARPU_R;
        }
        kernels[count] = codelets[count];
        kernels[count].cpu_funcs[0] = kernel;
        kernels[count].name = "kernel";
    }
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = sizes.workers;
    if (starpu_init(&conf) != 0) {
        fprintf(stderr, "starpu_init failed\n");
        exit(1);
    }
    handle_count = (size_t)(sizes.chains * CELL_CHAIN);
    handle_count = handle_count < (size_t)(sizes.side * sizes.side) ? (size_t)(sizes.side * sizes.side) : handle_count;
    handle_count = handle_count < (size_t)(sizes.tiles * sizes.tiles) ? (size_t)(sizes.tiles * sizes.tiles) : handle_count;
    handles = measure_checked(malloc(handle_count * sizeof *handles));
    for (size_t i = 0; i < handle_count; i++) {
        starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, (uintptr_t)&cells[i], sizeof cells[i]);
    }
}

static void stop(void) {
    for (size_t i = 0; i < handle_count; i++) {
        starpu_data_unregister(handles[i]);
    }
    free(handles);
    starpu_shutdown();
}

int main(int argc, char **argv) {
    static const struct bench table[] = {{"empty", empty},      {"axpy", axpy},      {"chain", dependent},
                                         {"chains", dependent}, {"wave", dependent}, {"chol", dependent},
                                         {"potrf", potrf, potrf_prepare, potrf_check},
                                         {NULL, NULL}};
    return tasks_main(argc, argv, table, start, stop);
}
