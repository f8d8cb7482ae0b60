/* What memory a rank has after thirteen barriers, KiB, as a line of memory.csv: of its own, that of files, and pages of the job's segment that it
 * has touched, which are there once for all ranks of a host; and how long a barrier took, us. */
#include <castell.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * now.tv_sec + now.tv_nsec / 1e3;
}

/* A barrier that many ranks have gone through. */
static int barriers(int count) {
    for (int at = 0; at < count; at++)
        if (castell_barrier(CASTELL_WORLD) != GOAL_SUCCESS)
            return 1;
    return 0;
}

int main(void) {
    GOAL_Init();
    if (barriers(3))
        return 1;
    double start = now_us();
    if (barriers(10))
        return 1;
    double barrier_us = (now_us() - start) / 10;
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (!maps)
        return 1;
    char line[512], name[512] = "";
    long own = 0, files = 0, segment = 0, kib;
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char found[400] = "";
        if (sscanf(line, "%lx-%lx %*s %*x %*s %*d %399[^\n]", &from, &to, found) >= 2)
            strcpy(name, found);
        else if (sscanf(line, "Rss: %ld", &kib) == 1)
            *(strstr(name, "memfd") ? &segment : name[0] == '/' ? &files : &own) += kib;
    }
    fclose(maps);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%d,%d,%ld,%ld,%ld,%ld,%.1f\n", castell_comm_size(CASTELL_WORLD), castell_comm_rank(CASTELL_WORLD), own, files, segment,
           usage.ru_maxrss, barrier_us);
    GOAL_Finalize();
    return 0;
}
