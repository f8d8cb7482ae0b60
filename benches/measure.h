/* What all C benchmarks share: arguments, a clock, and one JSON line a measurement.
 *
 * A line is {"workload":…,"params":{…},"median_ns":…,"min_ns":…,"samples":…}; a sample is the mean over a batch that is
 * long enough for the clock. Nothing else goes to stdout. */
#ifndef CASTELL_MEASURE_H
#define CASTELL_MEASURE_H

/* clock_gettime under -std=c11: include this header before all others. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Exits with a message if `pointer` is null. */
static inline void *measure_checked(void *pointer) {
    if (pointer == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return pointer;
}

/* The monotonic clock in nanoseconds. */
static inline double measure_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* How long this process's threads have had a processor, in nanoseconds. */
static inline double measure_processor_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* The word behind `--name`, or NULL. */
static inline const char *measure_word(int argc, char **argv, const char *name) {
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return NULL;
}

/* The positive number behind `--name`, or `otherwise`. */
static inline long measure_number(int argc, char **argv, const char *name, long otherwise) {
    const char *word = measure_word(argc, argv, name);
    if (word == NULL) {
        return otherwise;
    }
    char *end;
    long number = strtol(word, &end, 10);
    if (*end != '\0' || end == word || number <= 0) {
        fprintf(stderr, "%s %s: expected a positive number\n", name, word);
        exit(2);
    }
    return number;
}

static inline int measure_compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts `ns`. */
static inline double measure_median(double *ns, long samples) {
    qsort(ns, (size_t)samples, sizeof *ns, measure_compare);
    return samples % 2 ? ns[samples / 2] : 0.5 * (ns[samples / 2 - 1] + ns[samples / 2]);
}

/* Prints the line; sorts `ns`. `params` is the inside of the JSON object. */
static inline void measure_report(const char *workload, const char *params, double *ns, long samples) {
    double median = measure_median(ns, samples);
    printf("{\"workload\":\"%s\",\"params\":{%s},\"median_ns\":%.3f,\"min_ns\":%.3f,\"samples\":%ld}\n", workload, params,
           median, ns[0], samples);
    fflush(stdout);
}

/* As above, with times on processors. */
static inline void measure_report_both(const char *workload, const char *params, double *ns, double *cpu, long samples) {
    double median = measure_median(ns, samples);
    printf("{\"workload\":\"%s\",\"params\":{%s},\"median_ns\":%.3f,\"min_ns\":%.3f,\"cpu_ns\":%.3f,\"samples\":%ld}\n",
           workload, params, median, ns[0], measure_median(cpu, samples), samples);
    fflush(stdout);
}

#endif
