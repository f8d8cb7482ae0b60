/* The program of the Dynamic Job Scheduler Benchmark: processes that each run STREAM's triad over arrays of their own, a number of
 * times, and do not talk to each other. The same program is the long "simulation" and the short "analysis"; experiments/cosh-2 starts
 * several as sessions (`castell session run`).
 *
 *   djsb PROCESSES REPETITIONS [MIB]      arrays of MIB mebibytes a process in all (default 24)
 *
 * Prints the seconds from its start to the end of its last process; exits with 1 where a result is wrong. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* One process's work; 0 if the result is right. */
static int triads(long repetitions, size_t length) {
    double *a = malloc(length * sizeof *a), *b = malloc(length * sizeof *b), *c = malloc(length * sizeof *c);
    if (a == NULL || b == NULL || c == NULL) {
        fprintf(stderr, "djsb: no memory for three arrays of %zu numbers\n", length);
        return 1;
    }
    for (size_t i = 0; i < length; i++) {
        a[i] = 0, b[i] = 2, c[i] = 0.5;
    }
    for (long round = 0; round < repetitions; round++) {
        double factor = (double)(round % 7);
        for (size_t i = 0; i < length; i++) {
            a[i] = b[i] + factor * c[i];
        }
        /* Whatever the compiler thinks of a round whose result nobody reads. */
        __asm__ volatile("" : : "r"(a) : "memory");
    }
    double expected = 2 + 0.5 * (double)((repetitions - 1) % 7);
    int wrong = 0;
    for (size_t i = 0; i < length; i++) {
        wrong |= a[i] != expected;
    }
    free(a), free(b), free(c);
    return wrong;
}

int main(int count, char **arguments) {
    long processes = count > 2 ? strtol(arguments[1], NULL, 10) : 0;
    long repetitions = count > 2 ? strtol(arguments[2], NULL, 10) : 0;
    long mib = count > 3 ? strtol(arguments[3], NULL, 10) : 24;
    if (processes < 1 || processes > 4096 || repetitions < 1 || mib < 1 || mib > 65536) {
        fprintf(stderr, "usage: djsb PROCESSES REPETITIONS [MIB]\n");
        return 2;
    }
    double began = now_s();
    for (long process = 0; process < processes; process++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(triads(repetitions, (size_t)mib * (1 << 20) / 24));
        }
        if (child < 0) {
            perror("djsb: fork");
            return 1;
        }
    }
    int wrong = 0, status = 0;
    while (wait(&status) > 0) {
        wrong |= status;
    }
    printf("%.3f\n", now_s() - began);
    return wrong != 0;
}
