/* A matrix product on a GPU: through CUDA where there is one, or through OpenCL, which has the processors for a device where PoCL is installed.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef EXAMPLES_KERNELS_GPU_H
#define EXAMPLES_KERNELS_GPU_H

#include "kernels/cuda.h"
#include "kernels/opencl.h"
#include <string.h>

typedef struct gpu_device {
    const char *through; /* "CUDA" or "OpenCL"; NULL: there is none */
    cuda cuda;
    opencl opencl;
} gpu_device;

/* `through` is "cuda", "opencl", or "gpu" for what there is. 0: there is none. */
static int gpu_open(gpu_device *device, const char *through) {
    int any = strcmp(through, "gpu") == 0;
    device->through = NULL;
    if ((any || strcmp(through, "cuda") == 0) && cuda_open(&device->cuda)) device->through = "CUDA";
    else if ((any || strcmp(through, "opencl") == 0) && opencl_open(&device->opencl)) device->through = "OpenCL";
    return device->through != NULL;
}

/* c = a b, of this size; one at a time. */
static void gpu_product(gpu_device *device, int size, const double *a, const double *b, double *c) {
    if (strcmp(device->through, "CUDA") == 0) cuda_product(&device->cuda, size, a, b, c);
    else opencl_product(&device->opencl, size, a, b, c);
}

#endif
