/* What tasks have to do with what is around them: loops that are cancelled, loops whose reductions tasks take part in, groups that need tasks from
   outside of them, target regions beside the program. */
#include <stdio.h>
#include <unistd.h>

enum { ROUNDS = 30, LENGTH = 64 };

/* Behind a loop that was cancelled another one runs to its end, and a third one is cancelled again. */
static void cancelled_loops(void) {
    int before = 0, between = 0, after = 0;
    volatile int is_wanted = 0;
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < 1000; i++) {
#pragma omp cancel for
#pragma omp atomic
            before++;
        }
#pragma omp for
        for (int i = 0; i < 1000; i++) {
#pragma omp cancel for if (cancel : is_wanted)
#pragma omp atomic
            between++;
        }
#pragma omp for
        for (int i = 0; i < 1000; i++) {
#pragma omp cancel for
#pragma omp atomic
            after++;
        }
    }
    printf("loops: %d %d %d\n", before, between, after);
}

/* Threads that are late in the barrier between two loops run tasks of the second one. */
static void reductions(void) {
    int sum = 0, other = 0;
    long long i;
#pragma omp parallel private(i)
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp for schedule(dynamic, 2) reduction(task, + : sum)
        for (int i = 0; i < LENGTH; i++) {
            sum++;
#pragma omp task in_reduction(+ : sum)
            sum++;
        }
#pragma omp barrier
#pragma omp for schedule(static, 1) reduction(task, + : sum)
        for (i = 0; i < LENGTH; i++) {
#pragma omp task in_reduction(+ : sum)
            sum++;
        }
#pragma omp sections reduction(task, + : other)
        {
#pragma omp task in_reduction(+ : other)
            other++;
#pragma omp section
#pragma omp task in_reduction(+ : other)
            other += 2;
        }
    }
    printf("reductions: %d %d\n", sum, other);
}

/* The task in the inner group waits for two that are outside of it. */
static void groups(void) {
    int x = 1, seen = 0, then = 0;
#pragma omp parallel
#pragma omp single
#pragma omp taskgroup
    {
        for (int i = 0; i < 2; i++) {
#pragma omp task depend(in : x) shared(x, seen)
            {
                usleep(1000);
#pragma omp atomic
                seen += x;
            }
        }
#pragma omp taskgroup
        {
#pragma omp task depend(out : x) shared(x)
            x = 5;
        }
        then = x;
    }
    printf("groups: %d %d\n", seen, then);
}

/* Tasks of a loop with such reductions cancel the group around it. Each thread has one, and tasks in its loop: nothing begins behind that. */
static void cancelled_group(void) {
    int begun = 0, behind = 0, sum = 0;
#pragma omp parallel
#pragma omp taskgroup
    {
#pragma omp for reduction(task, + : sum)
        for (int i = 0; i < LENGTH; i++) {
            sum++;
#pragma omp task in_reduction(+ : sum) shared(begun)
            {
                sum += 0;
#pragma omp atomic
                begun++;
#pragma omp cancel taskgroup
            }
        }
#pragma omp task shared(behind)
        {
#pragma omp cancellation point taskgroup
#pragma omp atomic
            behind++;
        }
    }
    printf("group: %d %d\n", sum, begun > 0 && behind == 0);
}

/* On this machine, but beside the program: over at the next barrier, and at the end of a group. */
static void targets(void) {
    int a = 0, b = 0, grouped = 0, met = 0;
#pragma omp parallel
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp single
        {
#pragma omp taskgroup
            {
#pragma omp target map(tofrom : b) nowait
                {
                    usleep(200);
                    b++;
                }
            }
            grouped += b == round + 1;
#pragma omp target map(tofrom : a) nowait
            {
                usleep(200);
                a++;
            }
        }
#pragma omp master
        met += a == round + 1;
#pragma omp barrier
    }
    printf("targets: %d %d\n", grouped, met);
}

int main(void) {
    cancelled_loops();
    reductions();
    groups();
    cancelled_group();
    targets();
    return 0;
}
