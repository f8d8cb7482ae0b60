/* Tasks all of which wait for the one that creates them. */
#include <omp.h>
#include <stdio.h>

int main(void) {
    int is_open = 0, run = 0;
#pragma omp parallel
#pragma omp single
    {
        for (int i = 0; i < 2000; i++) {
#pragma omp task shared(is_open, run)
            {
                int is_seen = 0;
                while (!is_seen) {
#pragma omp atomic read
                    is_seen = is_open;
                }
#pragma omp atomic
                run++;
            }
        }
#pragma omp atomic write
        is_open = 1;
    }
    printf("%d tasks\n", run);
    return 0;
}
