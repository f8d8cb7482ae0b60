/* What tasks have of their own: what they set is theirs and their children's, and so are the nest locks that they hold. */
#include <omp.h>
#include <stdio.h>

static int wrong;

static void expect(int found, int expected, const char *what) {
    if (found != expected) {
#pragma omp atomic
        wrong++;
        printf("%s: %d, expected %d\n", what, found, expected);
    }
}

static void expect_all(int threads, int dynamic, int chunk, const char *what) {
    omp_sched_t kind;
    int size;
    omp_get_schedule(&kind, &size);
    expect(omp_get_max_threads(), threads, what);
    expect(omp_get_dynamic(), dynamic, what);
    expect(size, chunk, what);
    expect(omp_get_default_device(), chunk, what);
}

static void set_all(int threads, int dynamic, int chunk) {
    omp_set_num_threads(threads);
    omp_set_dynamic(dynamic);
    omp_set_schedule(omp_sched_dynamic, chunk);
    omp_set_default_device(chunk);
}

/* A tree of tasks, each of which sets what its children are to find. */
static void tree(int depth, int expected) {
    expect_all(expected, expected % 2, expected, "a task begins with what its creator had");
    set_all(expected + 1, (expected + 1) % 2, expected + 1);
    if (depth > 0) {
#pragma omp task firstprivate(depth, expected)
        tree(depth - 1, expected + 1);
#pragma omp task if (0) firstprivate(depth, expected)
        tree(depth - 1, expected + 1);
        omp_set_num_threads(expected + 2);
        omp_set_dynamic(expected % 2);
        omp_set_schedule(omp_sched_static, expected + 2);
        omp_set_default_device(expected + 2);
#pragma omp task firstprivate(depth, expected)
        tree(depth - 1, expected + 2);
#pragma omp taskwait
        expect_all(expected + 2, expected % 2, expected + 2, "and its children change nothing of it");
    }
}

/* The first setting of a region, in a task that others created before know nothing of. */
static void first(void) {
#pragma omp parallel num_threads(1)
    {
        int before = omp_get_max_threads();
#pragma omp task if (0)
        {
            omp_set_num_threads(before + 5);
            expect(omp_get_max_threads(), before + 5, "what a task sets");
            int inside = 0;
#pragma omp parallel reduction(+ : inside) num_threads(1)
            inside += omp_get_max_threads() == before + 5;
            expect(inside, 1, "what a region in a task begins with");
        }
        expect(omp_get_max_threads(), before, "it set for itself only");
#pragma omp task
        omp_set_num_threads(before + 7);
#pragma omp taskwait
        expect(omp_get_max_threads(), before, "also where it runs later");
    }
    int before = omp_get_max_threads();
#pragma omp task
    omp_set_num_threads(before + 3);
    expect(omp_get_max_threads(), before, "a task outside of regions");
}

#ifndef __clang__ /* In LLVM's library threads own locks. */
static void locks(void) {
    omp_nest_lock_t lock;
    omp_init_nest_lock(&lock);
#pragma omp parallel num_threads(1)
    {
        expect(omp_test_nest_lock(&lock), 1, "a lock");
#pragma omp task if (0) shared(lock)
        {
            expect(omp_test_nest_lock(&lock), 0, "another task's lock, at once");
#pragma omp task if (0) shared(lock)
            expect(omp_test_nest_lock(&lock), 0, "another task's lock, one deeper");
        }
#pragma omp task shared(lock)
        expect(omp_test_nest_lock(&lock), 0, "another task's lock, later");
#pragma omp taskwait
        expect(omp_test_nest_lock(&lock), 2, "a lock of one's own");
        omp_unset_nest_lock(&lock);
        omp_unset_nest_lock(&lock);
    }
    long count = 0;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task shared(lock, count)
        {
            omp_set_nest_lock(&lock);
            omp_set_nest_lock(&lock);
            count++;
            omp_unset_nest_lock(&lock);
            omp_unset_nest_lock(&lock);
        }
    }
    expect((int)count, 100, "tasks that take turns");
    omp_destroy_nest_lock(&lock);
}
#endif

int main(void) {
    first();
#pragma omp parallel
    {
        set_all(3, 1, 3);
        tree(5, 3);
#pragma omp barrier
        set_all(40, 0, 40);
#pragma omp single nowait
        for (int i = 0; i < 50; i++) {
#pragma omp task
            expect_all(40, 0, 40, "every thread's tasks");
        }
#pragma omp barrier
        expect_all(40, 0, 40, "an implicit task");
    }
#ifndef __clang__
    locks();
#endif
    printf("wrong %d\n", wrong);
    return wrong != 0;
}
