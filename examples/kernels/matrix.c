/* Matrix products that can be computed on one core or on all of them: the node's daemon, or this program where there is none, says where
 * each runs.
 *
 *     matrix [SIZE [PRODUCTS [THREADS]]]     by default 256 24 4
 *
 * With SIZE 0 the kernels do nothing, and what is left is the way to the daemon and back.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#define _DEFAULT_SOURCE
#include <castell_kernels.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct product {
    int size, cores;
    const double *a, *b;
    double *c;
} product;

typedef struct rows {
    const product *of;
    int first, end;
} rows;

static atomic_int left, on[2];
static int size = 256, products = 24, threads = 4;
static castell_collection *collection;

static void *multiply(void *argument) {
    const rows *part = argument;
    const product *p = part->of;
    for (int i = part->first; i < part->end; i++) {
        for (int j = 0; j < p->size; j++) p->c[i * p->size + j] = 0;
        for (int k = 0; k < p->size; k++)
            for (int j = 0; j < p->size; j++) p->c[i * p->size + j] += p->a[i * p->size + k] * p->b[k * p->size + j];
    }
    return NULL;
}

static void one_core(void *argument, uint32_t step) {
    (void)step;
    product *p = argument;
    multiply(&(rows){p, 0, p->size});
    on[0]++;
}

static void all_cores(void *argument, uint32_t step) {
    (void)step;
    product *p = argument;
    pthread_t helpers[p->cores];
    rows parts[p->cores];
    for (int i = 0; i < p->cores && p->size > 0; i++) {
        parts[i] = (rows){p, i * p->size / p->cores, (i + 1) * p->size / p->cores};
        if (pthread_create(&helpers[i], NULL, multiply, &parts[i]) != 0) abort();
    }
    for (int i = 0; i < p->cores && p->size > 0; i++) pthread_join(helpers[i], NULL);
    on[1]++;
}

static double *filled(double value) {
    double *matrix = malloc(((size_t)size * size + 1) * sizeof *matrix);
    if (!matrix) abort();
    for (int i = 0; i < size * size; i++) matrix[i] = value;
    return matrix;
}

static void *work(void *unused) {
    product p = {size, (int)sysconf(_SC_NPROCESSORS_ONLN), filled(2), filled(3), filled(0)};
    while (atomic_fetch_sub(&left, 1) > 0) {
        if (castell_collection_run(collection, &p, 1) != 0) {
            fprintf(stderr, "matrix: %s\n", castell_kernels_error());
            exit(1);
        }
        for (int i = 0; i < size * size; i++) {
            if (p.c[i] != 6. * size) abort(); /* each element is right, wherever it was computed */
        }
    }
    free((void *)p.a), free((void *)p.b), free(p.c);
    return unused;
}

int main(int count, char **words) {
    if (count > 1) size = atoi(words[1]);
    if (count > 2) products = atoi(words[2]);
    if (count > 3) threads = atoi(words[3]);
    if (size < 0 || size > 8192 || products < 1 || threads < 1 || threads > 256) {
        fprintf(stderr, "usage: matrix [SIZE [PRODUCTS [THREADS]]]\n");
        return 2;
    }
    castell_application *application;
    const castell_kernel kernels[] = {{"one_core", one_core, 0}, {"all_cores", all_cores, 0}};
    const char *const order[] = {"all_cores", "one_core"};
    const castell_ranking performance = {"performance", order, 2};
    if (castell_application_open(&application, "matrix") != 0 ||
        castell_collection_register(&collection, application, kernels, 2, &performance, 1) != 0) {
        fprintf(stderr, "matrix: %s\n", castell_kernels_error());
        return 1;
    }
    left = products;
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    pthread_t workers[threads];
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&workers[i], NULL, work, NULL) != 0) abort();
    }
    for (int i = 0; i < threads; i++) pthread_join(workers[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double us = (end.tv_sec - begin.tv_sec) * 1e6 + (end.tv_nsec - begin.tv_nsec) / 1e3;
    printf("%d products, %s: %d on one core, %d on all; %.2f us each\n", products,
           castell_application_has_daemon(application) ? "by the daemon" : "by itself", on[0], on[1], us / products);
    castell_collection_free(collection);
    castell_application_close(application);
    return 0;
}
