/* As crates/tasks/examples/phases.rs, with OpenMP's tasks: phases PHASES TASKS TASK_US PAUSE_MS [DELAY_MS] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* So much work: time on a processor, so that it is as much where processors are shared by turns. */
static void compute(long long time_ns) {
    long long until = ns(CLOCK_THREAD_CPUTIME_ID) + time_ns;
    while (ns(CLOCK_THREAD_CPUTIME_ID) < until) {
    }
}

int main(int count, char **words) {
    if (count < 5) {
        fprintf(stderr, "usage: phases PHASES TASKS TASK_US PAUSE_MS [DELAY_MS]\n");
        return 2;
    }
    int phases = atoi(words[1]), tasks = atoi(words[2]), task_us = atoi(words[3]), pause_ms = atoi(words[4]);
    usleep(count > 5 ? atoi(words[5]) * 1000 : 0);
    long long since = ns(CLOCK_MONOTONIC);
    for (int phase = 0; phase < phases; phase++) {
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < tasks; i++) {
#pragma omp task
            compute(task_us * 1000LL);
        }
        usleep(pause_ms * 1000);
    }
    printf("seconds %.6f\n", (ns(CLOCK_MONOTONIC) - since) / 1e9);
    return 0;
}
