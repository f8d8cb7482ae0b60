/* Tasks that run where they are created: because they are told to, or because many others wait. Whatever they create, open and wait for
 * is theirs, however many of them lie one in the other. */
#include <omp.h>
#include <stdio.h>

static int wrong;

static void expect(int right, const char *what, int depth) {
    if (!right) {
#pragma omp atomic
        wrong++;
        printf("%s, %d deep\n", what, depth);
    }
}

/* What a task below creates before it waits is done then; what it has created without waiting outlasts it. */
static void below(int depth, long *late) {
    if (depth == 0) {
        return;
    }
    int done = 0, chain = 0;
#pragma omp task if (0) firstprivate(late)
    {
        expect(!omp_in_final(), "final", depth);
        below(depth - 1, late);
        if (depth % 3 == 0) {
#pragma omp task shared(done)
            {
#pragma omp atomic write
                done = 1;
            }
#pragma omp taskwait
            int seen;
#pragma omp atomic read
            seen = done;
            expect(seen, "taskwait went past a child", depth);
        }
        if (depth % 3 == 1) {
#pragma omp taskgroup
            for (int i = 0; i < 4; i++) {
#pragma omp task if (0) shared(chain) firstprivate(i)
                {
#pragma omp task depend(inout : chain) shared(chain)
                    chain = chain * 2 + i;
#pragma omp taskwait
                }
            }
            expect(chain == 11, "children of tasks in a group", depth);
        }
#pragma omp task firstprivate(late)
        {
#pragma omp atomic
            *late += depth;
        }
    }
}

static void finals(int depth) {
    expect(omp_in_final(), "not final", depth);
    if (depth > 0) {
#pragma omp task
        finals(depth - 1);
#pragma omp taskwait
    }
}

/* Far more tasks than a thread keeps: those that run at once create, too. */
static void many(int depth, long *count) {
    for (int i = 0; i < 12; i++) {
#pragma omp task firstprivate(count) firstprivate(depth)
        {
            long own = 0;
            if (depth > 0) {
                many(depth - 1, &own);
#pragma omp taskwait
            }
#pragma omp atomic
            *count += own + 1;
        }
    }
}

/* Each creates the next one: not on top of each other, however many there are. */
static void line(int left, int *reached) {
    char room[1024]; /* 50 MB in all, if they lay on one stack */
    __asm__ volatile("" : : "r"(room) : "memory");
    if (left == 0) {
        *reached = 1;
        return;
    }
#pragma omp task firstprivate(left, reached)
    line(left - 1, reached);
}

/* A group that is cancelled inside a task that runs at once is that task's alone. */
static long cancelled(void) {
    long ran = 0, after = 0;
#pragma omp taskgroup
    {
#pragma omp task if (0) shared(ran)
        {
#pragma omp taskgroup
            {
#pragma omp task if (0) shared(ran)
                {
#pragma omp atomic
                    ran++;
#pragma omp cancel taskgroup
                }
#pragma omp task if (0) shared(ran)
                {
#pragma omp atomic
                    ran += 100;
                }
            }
        }
#pragma omp task shared(after)
        {
#pragma omp atomic
            after++;
        }
    }
#ifdef __clang__
    ran %= 100; /* its code runs undeferred tasks of a cancelled group, too */
#else
    ran -= omp_get_cancellation() ? 0 : 100;
#endif
    return after * 1000 + ran;
}

int main(void) {
    long late = 0, count = 0, of_group = 0;
    int reached = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task if (0)
        below(20, &late);
#pragma omp task final(1)
        finals(5);
#pragma omp taskwait
        many(4, &count);
#pragma omp taskwait
        of_group = cancelled();
#pragma omp task shared(reached)
        line(50000, &reached);
#pragma omp taskwait
    }
    expect(reached, "the end of a line of tasks", 50000);
    printf("late %ld, many %ld, cancelled %ld, wrong %d\n", late, count, of_group, wrong);
    return wrong != 0;
}
