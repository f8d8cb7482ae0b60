/* Tasks that wait for their own while they hold a lock for which others wait, in barriers, single constructs and nested regions. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

static long outer, inner, singles, nested;

static void create(int count) {
    for (int i = 0; i < count; i++) {
#pragma omp task
        {
#pragma omp critical
            {
                outer++;
#pragma omp task
                {
                    usleep(100);
#pragma omp atomic
                    inner++;
                }
#pragma omp taskwait
            }
        }
    }
}

int main(void) {
    omp_set_max_active_levels(2);
#pragma omp parallel
    {
        for (int round = 0; round < 5; round++) {
            create(24 / omp_get_num_threads());
#pragma omp barrier
#pragma omp single
            {
                singles++;
                create(8);
            }
            long given = 0;
#pragma omp single copyprivate(given)
            {
                create(2);
#pragma omp taskwait
                given = 1;
            }
#pragma omp atomic
            nested += given;
        }
#pragma omp master
#pragma omp task
        {
#pragma omp parallel num_threads(2)
#pragma omp single
            create(6);
        }
    }
    printf("outer %ld, inner %ld, singles %ld, given to all %d\n", outer, inner, singles, nested % 5 == 0);
    return 0;
}
