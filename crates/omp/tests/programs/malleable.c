/* For each line on standard input: tasks, and which threads ran some of them. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

enum { TASKS = 32, THREADS_MAX = 64 };

static void batch(void) {
    static int ran[THREADS_MAX];
    for (int i = 0; i < THREADS_MAX; i++) {
        ran[i] = 0;
    }
    for (int i = 0; i < TASKS; i++) {
#pragma omp task
        {
            usleep(500);
#pragma omp atomic
            ran[omp_get_thread_num()]++;
        }
    }
#pragma omp taskwait
    int all = 0;
    for (int i = 0; i < THREADS_MAX; i++) {
        all += ran[i];
        if (ran[i] > 0) {
            printf("%d ", i);
        }
    }
    printf("%s\n", all == TASKS ? "" : "and some nowhere");
    fflush(stdout);
}

int main(void) {
#pragma omp parallel
#pragma omp single
    {
        printf("%d\n", omp_get_thread_num());
        fflush(stdout);
        while (getchar() == '\n') {
            batch();
        }
    }
    return 0;
}
