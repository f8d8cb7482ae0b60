/* C = A B, tile by tile, where each product of two tiles has two versions: one for the processors, one for a GPU, through CUDA or OpenCL (whose PoCL has
 * the processors for one). The runtime sees what each takes, and has run where it is over first; where a node's daemon says so (castell
 * daemon --resource one_core --resource gpu), the daemon does. Without a GPU its versions are left out.
 *
 *   product [tiles in a row [order of a tile]]     by default 4 64
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#define _DEFAULT_SOURCE
#include "kernels/gpu.h"
#include <castell_tasks.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPU = 1 }; /* a kind of devices: the number is this program's */

static int tiles = 4, order = 64;
static double *a, *b, *c;
static double *there; /* the device's result, before it is added */
static gpu_device device;
static atomic_int on_processors, on_device;

typedef struct product {
    const double *a, *b;
    double *c;
} product;

static double *at(double *matrix, int row, int column) { return matrix + ((size_t)row * tiles + column) * order * order; }

static void multiply_here(void *argument) {
    const product *p = argument;
    for (int i = 0; i < order; i++)
        for (int k = 0; k < order; k++)
            for (int j = 0; j < order; j++) p->c[i * order + j] += p->a[i * order + k] * p->b[k * order + j];
    on_processors++;
}

/* The device has one worker, so there is one of these at a time. */
static void multiply_there(void *argument) {
    const product *p = argument;
    gpu_product(castell_device_handle(), order, p->a, p->b, there);
    for (int i = 0; i < order * order; i++) p->c[i] += there[i];
    on_device++;
}

static void multiply(void *unused) {
    const castell_version versions[] = {{.body = multiply_here}, {.device = GPU, .body = multiply_there}};
    const castell_task task = {.label = "tile product"};
    size_t bytes = sizeof(double) * order * order;
    for (int k = 0; k < tiles; k++) {
        for (int i = 0; i < tiles; i++) {
            for (int j = 0; j < tiles; j++) {
                product p = {at(a, i, k), at(b, k, j), at(c, i, j)};
                castell_access accesses[] = {{.kind = CASTELL_IN, .start = (void *)p.a, .bytes = bytes},
                                             {.kind = CASTELL_IN, .start = (void *)p.b, .bytes = bytes},
                                             {.kind = CASTELL_INOUT, .start = p.c, .bytes = bytes}};
                if (castell_submit_versions(versions, 2, &p, sizeof p, accesses, 3, &task) != 0) castell_fail(castell_tasks_error(), NULL, NULL);
            }
        }
    }
    (void)unused;
}

static double *filled(double value, size_t count) {
    double *matrix = malloc(count * sizeof *matrix);
    if (!matrix) abort();
    for (size_t i = 0; i < count; i++) matrix[i] = value;
    return matrix;
}

int main(int count, char **words) {
    if (count > 1) tiles = atoi(words[1]);
    if (count > 2) order = atoi(words[2]);
    if (count > 3 || tiles < 1 || tiles > 64 || order < 1 || order > 1024) {
        fprintf(stderr, "usage: product [TILES [ORDER OF A TILE]]\n");
        return 2;
    }
    size_t elements = (size_t)tiles * tiles * order * order;
    a = filled(2, elements), b = filled(3, elements), c = filled(0, elements), there = filled(0, (size_t)order * order);
    const castell_device devices[] = {{.kind = GPU, .handle = &device}};
    castell_options options = {.devices = devices, .device_count = gpu_open(&device, "gpu") ? 1 : 0};
    castell_runtime *runtime;
    if (castell_start(&runtime, &options) != 0 || castell_run(runtime, multiply, NULL) != 0) {
        fprintf(stderr, "product: %s\n", castell_tasks_error());
        return 1;
    }
    castell_stop(runtime);
    for (size_t i = 0; i < elements; i++) {
        if (c[i] != 6. * order * tiles) {
            fprintf(stderr, "product: element %zu is %g\n", i, c[i]);
            return 1;
        }
    }
    printf("%d products of tiles: %d by the processors, %d through %s\n", tiles * tiles * tiles, (int)on_processors, (int)on_device,
           device.through ? device.through : "a device that is not here");
    free(a), free(b), free(c), free(there);
    return 0;
}
