/* Applications whose kernels only take their time: an application's row of a table says how long a run takes on which resource, and its
 * kernels sleep so long, times a factor. So strategies can be tried with a real daemon and real processes, whatever devices there are.
 *
 *     paced TABLE.csv FACTOR APPLICATION RUNS
 *
 * The table is one of `castell strategy simulate`: a column NAME_s for each resource, in seconds. Each run has a thread, 64 at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#define _DEFAULT_SOURCE
#include <castell_kernels.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RESOURCES_MAX = 8 };

static int resources;
static char names[RESOURCES_MAX][64];
static double seconds[RESOURCES_MAX];
static atomic_int ran[RESOURCES_MAX];
static castell_collection *collection;

typedef struct run {
    pthread_t thread;
    double asked, began, ended;
} run;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void pace(int resource, void *argument) {
    run *r = argument;
    struct timespec left = {(time_t)seconds[resource], (long)((seconds[resource] - (time_t)seconds[resource]) * 1e9)};
    r->began = now();
    while (nanosleep(&left, &left) != 0) {}
    r->ended = now();
    ran[resource]++;
}

#define KERNEL(n) static void kernel_##n(void *argument, uint32_t step) { (void)step, pace(n, argument); }
KERNEL(0) KERNEL(1) KERNEL(2) KERNEL(3) KERNEL(4) KERNEL(5) KERNEL(6) KERNEL(7)
static void (*const functions[RESOURCES_MAX])(void *, uint32_t) = {kernel_0, kernel_1, kernel_2, kernel_3,
                                                                  kernel_4, kernel_5, kernel_6, kernel_7};

static void *one(void *argument) {
    if (castell_collection_run(collection, argument, 1) != 0) {
        fprintf(stderr, "paced: %s\n", castell_kernels_error());
        exit(1);
    }
    return NULL;
}

/* A column of a resource, and what this application takes there. */
static void column(const char *name, const char *cell, double factor) {
    size_t length = strlen(name);
    int is_time = length > 2 && strcmp(name + length - 2, "_s") == 0;
    if (!is_time || !cell[0] || strcmp(name, "arrival_s") == 0 || strcmp(name, "every_s") == 0) return;
    if (resources == RESOURCES_MAX) return;
    snprintf(names[resources], sizeof names[0], "%.*s", (int)length - 2, name);
    seconds[resources++] = atof(cell) * factor;
}

static void read_table(const char *path, const char *application, double factor) {
    FILE *file = fopen(path, "r");
    char line[1024], head[1024] = "";
    while (file && resources == 0 && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        if (line[0] == '#') continue;
        if (!head[0]) {
            strcpy(head, line);
            continue;
        }
        char *rest = line, *heads, copy[sizeof head], *name, *cell;
        strcpy(copy, head);
        heads = copy;
        int is_that = 1;
        for (int at = 0; is_that && (name = strsep(&heads, ",")) && (cell = strsep(&rest, ",")); at++) {
            if (at == 0) is_that = strcmp(cell, application) == 0;
            else column(name, cell, factor);
        }
    }
    if (file) fclose(file);
}

static int by_value(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

int main(int count, char **words) {
    int runs = count == 5 ? atoi(words[4]) : 0;
    if (runs < 1 || atof(words[2]) <= 0) {
        fprintf(stderr, "usage: paced TABLE.csv FACTOR APPLICATION RUNS\n");
        return 2;
    }
    read_table(words[1], words[3], atof(words[2]));
    if (resources == 0) {
        fprintf(stderr, "paced: no times of %s in %s\n", words[3], words[1]);
        return 1;
    }
    castell_application *application;
    castell_kernel kernels[RESOURCES_MAX];
    for (int i = 0; i < resources; i++) kernels[i] = (castell_kernel){names[i], functions[i], seconds[i]};
    if (castell_application_open(&application, words[3]) != 0 ||
        castell_collection_register(&collection, application, kernels, resources, NULL, 0) != 0) {
        fprintf(stderr, "paced: %s\n", castell_kernels_error());
        return 1;
    }
    run *all = calloc(runs, sizeof *all);
    double *took = calloc(runs, sizeof *took), begin = now(), last = begin, waited = 0;
    for (int i = 0; i < runs; i++) {
        all[i].asked = now();
        if (pthread_create(&all[i].thread, NULL, one, &all[i]) != 0) abort();
    }
    for (int i = 0; i < runs; i++) {
        pthread_join(all[i].thread, NULL);
        took[i] = all[i].ended - all[i].began;
        waited += all[i].began - all[i].asked;
        if (all[i].ended > last) last = all[i].ended;
    }
    qsort(took, runs, sizeof *took, by_value);
    printf("%d %s, %s:", runs, words[3], castell_application_has_daemon(application) ? "by the daemon" : "by itself");
    for (int i = 0; i < resources; i++) printf(" %d on %s,", ran[i], names[i]);
    printf(" %.4f s; median %.4f s a run, mean wait %.4f s\n", last - begin, took[runs / 2], waited / runs);
    free(all), free(took);
    castell_collection_free(collection);
    castell_application_close(application);
    return 0;
}
