/* Tasks, waits, groups and barriers, each with a result that does not depend on who runs what. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static long fib(int n) {
    if (n < 2) {
        return n;
    }
    long a, b;
#pragma omp task shared(a) if (n > 6)
    a = fib(n - 1);
#pragma omp task shared(b) final(n < 4) mergeable
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

static void recursion(void) {
    long result = 0;
#pragma omp parallel
#pragma omp single
    result = fib(18);
    printf("recursion %ld\n", result);
}

/* All threads create tasks, and read what others' tasks wrote behind the barrier. */
static void barriers(void) {
    enum { ROUNDS = 50, CELLS = 32 };
    long cells[CELLS] = {0};
    long wrong = 0;
#pragma omp parallel reduction(+ : wrong)
    {
        for (int round = 1; round <= ROUNDS; round++) {
#pragma omp for nowait
            for (int i = 0; i < CELLS; i++) {
#pragma omp task firstprivate(i, round) shared(cells)
                cells[i] += round;
            }
#pragma omp barrier
            for (int i = 0; i < CELLS; i++) {
                wrong += cells[i] != (long)round * (round + 1) / 2;
            }
#pragma omp barrier
        }
    }
    printf("barriers %ld wrong\n", wrong);
}

static void loops_and_sections(void) {
    long seen[64] = {0};
    long parts[2] = {0};
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < 64; i++) {
#pragma omp task firstprivate(i) shared(seen)
            seen[i]++;
        }
#pragma omp for schedule(guided, 2) ordered
        for (int i = 0; i < 64; i++) {
#pragma omp ordered
            seen[i] += i;
        }
#pragma omp sections
        {
#pragma omp section
#pragma omp task shared(parts)
            parts[0] = 1;
#pragma omp section
#pragma omp task shared(parts)
            parts[1] = 2;
        }
    }
    long sum = 0;
    for (int i = 0; i < 64; i++) {
        sum += seen[i];
    }
    long direct = 0;
#pragma omp parallel for schedule(dynamic, 3) reduction(+ : direct)
    for (int i = 0; i < 100; i++) {
        direct += i;
    }
#pragma omp parallel sections
    {
#pragma omp section
#pragma omp task shared(parts)
        parts[0] += 10;
#pragma omp section
#pragma omp task shared(parts)
        parts[1] += 10;
    }
    printf("loops %ld %ld, sections %ld %ld\n", sum, direct, parts[0], parts[1]);
}

static void nested_regions(void) {
    long sum = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 4; i++) {
#pragma omp task firstprivate(i) shared(sum)
        {
            long inner = 0;
#pragma omp parallel num_threads(3) shared(inner)
            {
#pragma omp for
                for (int j = 0; j < 30; j++) {
#pragma omp task firstprivate(j) shared(inner)
#pragma omp atomic
                    inner += j;
                }
            }
#pragma omp atomic
            sum += inner * (i + 1);
        }
    }
    printf("nested %ld\n", sum);
}

static void groups(void) {
    int inside = 0, all = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(all)
#pragma omp atomic
        all++;
#pragma omp taskgroup
        {
            for (int i = 0; i < 20; i++) {
#pragma omp task shared(inside)
                {
#pragma omp task shared(inside)
#pragma omp atomic
                    inside++;
                }
            }
        }
        printf("group %d\n", inside);
    }
    printf("after the region %d\n", all);
}

/* Every thread has a group of its own open while all meet in barriers, and creates before, between and behind them. */
static void groups_across_barriers(void) {
    long sum = 0, early = 0;
#pragma omp parallel reduction(+ : early)
#pragma omp taskgroup
    {
        long seen = 0;
        for (int round = 0; round < 20; round++) {
#pragma omp task shared(sum, seen)
            {
#pragma omp task shared(sum)
                {
#pragma omp atomic
                    sum++;
                }
#pragma omp atomic
                seen++;
            }
            if (round % 3 == 0) {
#pragma omp barrier
                early += seen != round + 1;
            }
        }
#pragma omp taskgroup
        {
#pragma omp task shared(seen)
#pragma omp atomic
            seen++;
#pragma omp barrier
        }
        early += seen != 21;
    }
    printf("groups across barriers %ld, early %ld\n", sum / omp_get_max_threads(), early);
}

static void finals(void) {
    int outside = omp_in_final(), in = 0, below = 0;
#pragma omp parallel
#pragma omp single
#pragma omp task final(1) shared(in, below)
    {
        in = omp_in_final();
#pragma omp task shared(below)
        {
            below = omp_in_final();
        }
    }
    printf("final %d %d %d\n", outside, in, below);
}

static void orphans(void) {
    int order = 0, x = 0;
    omp_event_handle_t event;
#pragma omp task shared(order)
    order = order * 10 + 1;
#pragma omp taskgroup
    {
#pragma omp task depend(out : x) shared(order)
        order = order * 10 + 2;
#pragma omp task depend(in : x) shared(order)
        order = order * 10 + 3;
    }
#pragma omp task detach(event) shared(order)
    {
        order = order * 10 + 4;
        omp_fulfill_event(event);
    }
#pragma omp taskwait
    printf("outside of regions %d\n", order);
}

static void large_arguments(void) {
    struct {
        long values[40000];
    } large;
    long sum = 0;
    for (int i = 0; i < 40000; i++) {
        large.values[i] = i;
    }
#pragma omp parallel
#pragma omp single
    {
        for (int k = 0; k < 3; k++) {
#pragma omp task firstprivate(large) shared(sum)
            {
                long own = 0;
                for (int i = 0; i < 40000; i++) {
                    own += large.values[i];
                }
#pragma omp atomic
                sum += own;
            }
            large.values[0] += 1;
        }
    }
    struct {
        _Alignas(64) double line[8];
    } aligned = {{1, 2, 3, 4, 5, 6, 7, 8}};
    int misplaced = 0;
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < 10; k++) {
#pragma omp task firstprivate(aligned) shared(misplaced)
        if ((size_t)&aligned % 64 != 0 || aligned.line[7] != 8) {
#pragma omp atomic
            misplaced++;
        }
    }
    printf("large %ld, misplaced %d\n", sum, misplaced);
}

int main(void) {
    recursion();
    barriers();
    loops_and_sections();
    nested_regions();
    groups();
    groups_across_barriers();
    finals();
    orphans();
    large_arguments();
    return 0;
}
