/* Matrix products that can be computed on one core or on all of them: the node's daemon, or this program where there is none, says where
 * each runs.
 *
 *     matrix [SIZE [PRODUCTS [THREADS [gpu|cuda|opencl]]]]     by default 256 24 4
 *
 * With SIZE 0 the kernels do nothing, and what is left is the way to the daemon and back. With `gpu` there is a third kernel, through CUDA or, where
 * there is none, OpenCL: PoCL runs it on the processors where there is no GPU. `cuda` and `opencl` take that one or none. The program then measures
 * each kernel first, and tells the daemon what it takes.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#define _DEFAULT_SOURCE
#include "kernels/gpu.h"
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
    double took;
} product;

typedef struct rows {
    const product *of;
    int first, end;
} rows;

static atomic_int left, on[3];
static int size = 256, products = 24, threads = 4;
static castell_collection *collection;
static gpu_device device;
static double *took; /* by each product, in seconds */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

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

static void on_one_core(product *p) { multiply(&(rows){p, 0, p->size}); }

static void on_all_cores(product *p) {
    pthread_t helpers[p->cores];
    rows parts[p->cores];
    for (int i = 0; i < p->cores && p->size > 0; i++) {
        parts[i] = (rows){p, i * p->size / p->cores, (i + 1) * p->size / p->cores};
        if (pthread_create(&helpers[i], NULL, multiply, &parts[i]) != 0) abort();
    }
    for (int i = 0; i < p->cores && p->size > 0; i++) pthread_join(helpers[i], NULL);
}

static void on_gpu(product *p) {
    if (p->size > 0) gpu_product(&device, p->size, p->a, p->b, p->c);
}

static void (*const kernels_of[])(product *) = {on_one_core, on_all_cores, on_gpu};

static void run(int kernel, product *p) {
    double begin = now();
    kernels_of[kernel](p);
    p->took = now() - begin;
    on[kernel]++;
}

static void one_core(void *p, uint32_t step) { (void)step, run(0, p); }
static void all_cores(void *p, uint32_t step) { (void)step, run(1, p); }
static void gpu(void *p, uint32_t step) { (void)step, run(2, p); }

static double *filled(double value) {
    double *matrix = malloc(((size_t)size * size + 1) * sizeof *matrix);
    if (!matrix) abort();
    for (int i = 0; i < size * size; i++) matrix[i] = value;
    return matrix;
}

static product begin_product(void) {
    return (product){size, (int)sysconf(_SC_NPROCESSORS_ONLN), filled(2), filled(3), filled(0), 0};
}

static void end_product(product *p) { free((void *)p->a), free((void *)p->b), free(p->c); }

static void *work(void *unused) {
    product p = begin_product();
    for (int number; (number = atomic_fetch_sub(&left, 1)) > 0;) {
        for (int i = 0; i < size * size; i++) p.c[i] = 0;
        if (castell_collection_run(collection, &p, 1) != 0) {
            fprintf(stderr, "matrix: %s\n", castell_kernels_error());
            exit(1);
        }
        took[number - 1] = p.took;
        for (int i = 0; i < size * size; i++) {
            if (p.c[i] != 6. * size) abort(); /* each element is right, wherever it was computed */
        }
    }
    end_product(&p);
    return unused;
}

/* The second of two runs alone: the first one builds and warms up. */
static double measured(int kernel) {
    product p = begin_product();
    run(kernel, &p), run(kernel, &p);
    on[kernel] = 0;
    end_product(&p);
    return p.took;
}

static int by_value(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

int main(int count, char **words) {
    if (count > 1) size = atoi(words[1]);
    if (count > 2) products = atoi(words[2]);
    if (count > 3) threads = atoi(words[3]);
    int has_gpu = count == 5 && (strcmp(words[4], "gpu") == 0 || strcmp(words[4], "cuda") == 0 || strcmp(words[4], "opencl") == 0);
    if (size < 0 || size > 8192 || products < 1 || threads < 1 || threads > 256 || count > 4 + has_gpu) {
        fprintf(stderr, "usage: matrix [SIZE [PRODUCTS [THREADS [gpu|cuda|opencl]]]]\n");
        return 2;
    }
    if (has_gpu && !gpu_open(&device, words[4])) {
        fprintf(stderr, "matrix: there is no device of CUDA (libcuda.so.1 with libnvrtc.so) or of OpenCL (Debian: pocl-opencl-icd)\n");
        return 1;
    }
    castell_application *application;
    castell_kernel kernels[] = {{"one_core", one_core, 0}, {"all_cores", all_cores, 0}, {"gpu", gpu, 0}};
    const char *const order[] = {"all_cores", "one_core"};
    const castell_ranking performance = {"performance", order, 2};
    for (int i = 0; has_gpu && i < 3; i++) kernels[i].step_s = measured(i);
    if (castell_application_open(&application, "matrix") != 0 ||
        castell_collection_register(&collection, application, kernels, 2 + has_gpu, &performance, !has_gpu) != 0) {
        fprintf(stderr, "matrix: %s\n", castell_kernels_error());
        return 1;
    }
    left = products;
    if (!(took = calloc(products, sizeof *took))) abort();
    double begin = now();
    pthread_t workers[threads];
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&workers[i], NULL, work, NULL) != 0) abort();
    }
    for (int i = 0; i < threads; i++) pthread_join(workers[i], NULL);
    double us = (now() - begin) * 1e6;
    printf("%d products, %s: %d on one core, %d on all", products,
           castell_application_has_daemon(application) ? "by the daemon" : "by itself", on[0], on[1]);
    if (has_gpu) {
        qsort(took, products, sizeof *took, by_value);
        printf(", %d on the GPU through %s (alone %.0f, %.0f and %.0f us; median %.0f us)", on[2], device.through, kernels[0].step_s * 1e6,
               kernels[1].step_s * 1e6, kernels[2].step_s * 1e6, took[products / 2] * 1e6);
    }
    printf("; %.2f us each\n", us / products);
    free(took);
    castell_collection_free(collection);
    castell_application_close(application);
    return 0;
}
