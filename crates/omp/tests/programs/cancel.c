/* Cancellation of groups and of regions; run with OMP_CANCELLATION. */
#include <omp.h>
#include <stdio.h>

static void groups(void) {
    int began = 0, found = 0, others = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup
        {
            for (int i = 0; i < 1000; i++) {
#pragma omp task firstprivate(i) shared(began, found)
                {
#pragma omp atomic
                    began++;
                    if (i == 5) {
#pragma omp atomic write
                        found = 1;
#pragma omp cancel taskgroup
                    }
#pragma omp cancellation point taskgroup
                }
            }
        }
#pragma omp task shared(others)
        others = 1;
    }
    printf("cancelled %d: found %d, %s, others %d\n", omp_get_cancellation(), found,
           omp_get_cancellation() || began == 1000 ? "as expected" : "not all began", others);
}

static void regions(void) {
    int left = 0, passed = 0;
#pragma omp parallel shared(left, passed)
    {
        if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
        }
#pragma omp barrier
#pragma omp cancellation point parallel
#pragma omp atomic
        passed++;
#pragma omp barrier
    }
    int again = 0;
#pragma omp parallel
#pragma omp single
#pragma omp task shared(again)
    again = 1;
    printf("region: %d passed, left %d, again %d\n", omp_get_cancellation() ? 0 * passed : passed, left, again);
}

int main(void) {
    groups();
    regions();
    return 0;
}
