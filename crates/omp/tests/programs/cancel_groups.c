/* The way to the end of a cancelled region leads through the ends of groups, behind a barrier that is not waited for. Of GCC only:
 * with LLVM's OpenMP library, 14 at least, such a region waits for ever by itself. */
#include <omp.h>
#include <stdio.h>

int main(void) {
    int cells[64] = {0}, behind = 0;
#pragma omp parallel
    {
#pragma omp barrier
        if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
        }
#pragma omp taskgroup
        {
#pragma omp for
            for (int i = 0; i < 64; i++) {
#pragma omp task shared(cells) firstprivate(i)
                cells[i]++;
            }
#pragma omp atomic write
            behind = 1;
        }
    }
    int twice = 0;
    for (int i = 0; i < 64; i++) {
        twice += cells[i] > 1;
    }
    printf("groups of a cancelled region: behind %d, twice %d\n", behind, twice);
    return 0;
}
