/* Random task graphs: who names what is drawn from a seed, and what the depend clauses mean is checked afterwards, pair by pair.
 *
 *     random SEED GRAPHS */
#include <omp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { TASKS = 40, CELLS = 6, NAMES = 3, DEPTH = 2 };
/* GCC has sets, in which tasks run in any order, since version 13. */
#if __GNUC__ >= 13
enum kind { IN, OUT, INOUT, EXCLUSIVE, SET, KINDS };
#else
enum kind { IN, OUT, INOUT, EXCLUSIVE, KINDS, SET };
#endif

static atomic_long ticket;
static char cells[CELLS];

struct task {
    int names, cell[NAMES];
    enum kind kind[NAMES];
    int children, is_undeferred;
    struct task *child;
    long begin, end;
    char own[NAMES];
};

static uint64_t state;

static unsigned draw(unsigned below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % below;
}

static struct task *describe(int count, int depth) {
    struct task *tasks = calloc((size_t)count, sizeof *tasks);
    for (int i = 0; i < count; i++) {
        struct task *task = &tasks[i];
        task->names = (int)draw(NAMES + 1);
        for (int k = 0; k < task->names; k++) {
            task->cell[k] = (int)draw(CELLS);
            task->kind[k] = (enum kind)draw(KINDS);
        }
        task->is_undeferred = draw(12) == 0;
        if (depth > 0 && draw(4) == 0) {
            task->children = 1 + (int)draw(8);
            task->child = describe(task->children, depth - 1);
        }
    }
    return tasks;
}

static void create(struct task *tasks, int count, int waits);

static void body(struct task *task) {
    task->begin = atomic_fetch_add(&ticket, 1);
    volatile unsigned work = (unsigned)(task->begin * 37 % 400);
    while (work > 0) {
        work--;
    }
    if (task->children > 0) {
        create(task->child, task->children, (int)(task->begin % 2));
    }
    task->end = atomic_fetch_add(&ticket, 1);
}

static void create(struct task *tasks, int count, int waits) {
    for (int i = 0; i < count; i++) {
        struct task *task = &tasks[i];
        omp_depend_t object[NAMES];
        for (int k = task->names; k < NAMES; k++) {
            /* As good as no name: nobody else has this one. */
#pragma omp depobj(object[k]) depend(in : task->own[k])
        }
        for (int k = 0; k < task->names; k++) {
            char *cell = &cells[task->cell[k]];
            switch (task->kind[k]) {
            case IN: {
#pragma omp depobj(object[k]) depend(in : *cell)
                break;
            }
            case OUT: {
#pragma omp depobj(object[k]) depend(out : *cell)
                break;
            }
            case INOUT: {
#pragma omp depobj(object[k]) depend(inout : *cell)
                break;
            }
            case EXCLUSIVE: {
#pragma omp depobj(object[k]) depend(mutexinoutset : *cell)
                break;
            }
            default: {
#if __GNUC__ >= 13
#pragma omp depobj(object[k]) depend(inoutset : *cell)
#endif
                break;
            }
            }
        }
        omp_depend_t *first = &object[0], *second = &object[1], *third = &object[2];
#pragma omp task depend(depobj : *first, *second, *third) firstprivate(task) if (!task->is_undeferred)
        body(task);
    }
    if (waits) {
#pragma omp taskwait
    }
}

/* Tasks that name a cell alike run in any order: readers, and those of a set. */
static int are_alike(enum kind one, enum kind other) { return one == other && (one == IN || one == SET); }

static int check(const struct task *tasks, int count) {
    int wrong = 0;
    for (int j = 0; j < count; j++) {
        for (int i = 0; i < j; i++) {
            const struct task *one = &tasks[i], *other = &tasks[j];
            int ordered = 0, exclusive = 0;
            for (int k = 0; k < one->names; k++) {
                for (int l = 0; l < other->names; l++) {
                    if (one->cell[k] != other->cell[l] || are_alike(one->kind[k], other->kind[l])) {
                        continue;
                    }
                    if (one->kind[k] == EXCLUSIVE && other->kind[l] == EXCLUSIVE) {
                        exclusive = 1;
                    } else {
                        ordered = 1;
                    }
                }
            }
            int overlap = one->begin < other->end && other->begin < one->end;
            wrong += (ordered && one->end > other->begin) || (exclusive && overlap);
        }
        wrong += tasks[j].end == 0 || check(tasks[j].child, tasks[j].children);
    }
    return wrong;
}

int main(int argc, char **argv) {
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int graphs = argc > 2 ? atoi(argv[2]) : 1;
    for (int graph = 0; graph < graphs; graph++) {
        state = (seed + (uint64_t)graph) * 0x9e3779b97f4a7c15u | 1;
        struct task *tasks = describe(TASKS, DEPTH);
#pragma omp parallel
#pragma omp single nowait
        create(tasks, TASKS, 0);
        int wrong = check(tasks, TASKS);
        if (wrong != 0) {
            printf("graph of seed %llu: %d pairs in the wrong order\n", (unsigned long long)(seed + (uint64_t)graph), wrong);
            return 1;
        }
    }
    printf("%d graphs\n", graphs);
    return 0;
}
