/* Calls that compilers make which are newer than the one at hand, written out for clang: `omp_all_memory` as an address, and `taskwait nowait`, a
   task without a function. GCC's way is the same with clauses that it knows. */
#include <stdio.h>
#include <unistd.h>

#ifdef __clang__
#include <stddef.h>
struct dependence {
    size_t address, bytes;
    unsigned char kind;
};
struct task {
    void *shared, *function;
    int part;
    void *destructors;
    long more[2];
};
extern int __kmpc_global_thread_num(void *);
extern struct task *__kmpc_omp_task_alloc(void *, int, int, size_t, size_t, int (*)(int, struct task *));
extern int __kmpc_omp_task_with_deps(void *, int, struct task *, int, struct dependence *, int, struct dependence *);
static struct {
    int reserved, flags, more[2];
    const char *source;
} here = {0, 2, {0, 0}, ";file;function;0;0;;"};

static void create(int (*function)(int, struct task *), int count, struct dependence *list) {
    int thread = __kmpc_global_thread_num(&here);
    struct task *task = __kmpc_omp_task_alloc(&here, thread, 1, sizeof(struct task), 0, function);
    __kmpc_omp_task_with_deps(&here, thread, task, count, list, 0, NULL);
}
#endif

static int a, b, seen;

#ifdef __clang__
static int after_all(int thread, struct task *task) {
    (void)thread, (void)task;
    seen = 10 * a + b;
    usleep(2000);
    a = b = 7;
    return 0;
}
#endif

int main(void) {
    for (int round = 0; round < 20; round++) {
        int first = 0, second = 0;
        a = b = seen = 0;
#pragma omp parallel
#pragma omp single
        {
#pragma omp task depend(out : a)
            {
                usleep(1000);
                a = 1;
            }
#pragma omp task depend(out : b)
            {
                usleep(1000);
                b = 2;
            }
#ifdef __clang__
            create(after_all, 1, &(struct dependence){(size_t)-1, 0, 2});
#else
#pragma omp task depend(inout : a, b)
            {
                seen = 10 * a + b;
                usleep(2000);
                a = b = 7;
            }
#endif
#pragma omp task depend(in : a) shared(first)
            first = a;
#pragma omp task depend(in : b) shared(second)
            second = b;
        }
        printf("all memory: %d, then %d and %d\n", seen, first, second);

        a = b = first = 0;
#pragma omp parallel
#pragma omp single
        {
#pragma omp task depend(out : a)
            {
                usleep(1000);
                a = 3;
            }
#ifdef __clang__
            create(NULL, 2, (struct dependence[]){{(size_t)&a, 0, 1}, {(size_t)&b, 0, 2}});
#else
#pragma omp task depend(in : a) depend(out : b)
            {}
#endif
#pragma omp task depend(in : b) shared(first)
            first = a;
        }
        printf("taskwait nowait: %d\n", first);
    }
    return 0;
}
