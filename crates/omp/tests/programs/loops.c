/* Task loops and task reductions. */
#include <stdio.h>

static void bounds(void) {
    long sums[6] = {0};
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskloop grainsize(7) shared(sums)
        for (int i = 3; i < 1000; i += 3) {
#pragma omp atomic
            sums[0] += i;
        }
#pragma omp taskloop num_tasks(5) shared(sums)
        for (long i = 1000; i > -20; i -= 7) {
#pragma omp atomic
            sums[1] += i;
        }
#pragma omp taskloop shared(sums) nogroup
        for (unsigned long long i = 10; i < 20; i++) {
#pragma omp atomic
            sums[2] += (long)i;
        }
#pragma omp taskwait
#if defined(__clang__) && __clang_major__ < 16
#pragma omp taskloop grainsize(4) shared(sums)
#else
#pragma omp taskloop grainsize(strict : 4) shared(sums)
#endif
        for (unsigned long long i = 30; i > 3; i -= 2) {
#pragma omp atomic
            sums[3] += (long)i;
        }
#pragma omp taskloop shared(sums) collapse(2)
        for (int i = 0; i < 7; i++) {
            for (int j = 0; j < 9; j++) {
#pragma omp atomic
                sums[4] += i * j;
            }
        }
#pragma omp taskloop shared(sums) if (0)
        for (int i = 0; i < 10; i++) {
            sums[5] += i;
        }
    }
    for (int i = 0; i < 6; i++) {
        printf("loop %d: %ld\n", i, sums[i]);
    }
#pragma omp taskloop
    for (int i = 0; i < 10; i++) {
        sums[5] += i;
    }
    printf("outside of regions: %ld\n", sums[5]);
}

static void reductions(void) {
    long sum = 0, product = 1, loop = 0, region = 0, workshare = 0;
    double array[5] = {0};
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup task_reduction(+ : sum, array) task_reduction(* : product)
        for (int i = 1; i <= 10; i++) {
#pragma omp task in_reduction(+ : sum, array) in_reduction(* : product) firstprivate(i)
            {
                sum += i;
                product *= i;
                array[i % 5] += i;
#pragma omp task in_reduction(+ : sum)
                sum += 100;
#pragma omp taskwait
            }
        }
#pragma omp taskloop reduction(+ : loop)
        for (int i = 0; i < 1000; i++) {
            loop += i;
        }
    }
#pragma omp parallel reduction(task, + : region)
    {
#pragma omp for
        for (int i = 0; i < 100; i++) {
#pragma omp task in_reduction(+ : region)
            region += i;
        }
    }
#pragma omp parallel
#pragma omp for reduction(task, + : workshare)
    for (int i = 0; i < 100; i++) {
#pragma omp task in_reduction(+ : workshare)
        workshare += i;
    }
    printf("reductions %ld %ld %ld %ld %ld", sum, product, loop, region, workshare);
    for (int i = 0; i < 5; i++) {
        printf(" %g", array[i]);
    }
    printf("\n");
}

static void orphaned(void) {
    int sum = 0;
#pragma omp taskgroup task_reduction(+ : sum)
    {
#pragma omp task in_reduction(+ : sum)
        sum += 5;
    }
    printf("reduced outside of regions %d\n", sum);
}

int main(void) {
    bounds();
    reductions();
    orphaned();
    return 0;
}
