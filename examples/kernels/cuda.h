/* A matrix product on the first CUDA device. The driver and NVRTC, which compiles the kernel, are loaded when they are asked for, and their few
 * functions are declared here: neither is needed to build this.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef EXAMPLES_KERNELS_CUDA_H
#define EXAMPLES_KERNELS_CUDA_H

#include "kernels/library.h"
#include <stdint.h>

typedef struct cuda {
    void *context, *kernel;
    int (*use)(void *);
    int (*allocate)(uint64_t *, size_t);
    int (*release)(uint64_t);
    int (*to_device)(uint64_t, const void *, size_t);
    int (*from_device)(void *, uint64_t, size_t);
    int (*run)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
} cuda;

static const char cuda_source[] =
    "extern \"C\" __global__ void product(const double *a, const double *b, double *c, int size) {\n"
    "    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;\n"
    "    if (column >= size || row >= size) return;\n"
    "    double sum = 0;\n"
    "    for (int k = 0; k < size; k++) sum += a[row * size + k] * b[k * size + column];\n"
    "    c[row * size + column] = sum;\n"
    "}\n";

/* The kernel's text for any device: what the driver compiles once more for the one at hand. */
static char *cuda_compiled(void *nvrtc) {
    void *program;
    size_t bytes;
    LIBRARY_FUNCTION(nvrtc, int (*nvrtcCreateProgram)(void **, const char *, const char *, int, const char **, const char **), nvrtcCreateProgram);
    LIBRARY_FUNCTION(nvrtc, int (*nvrtcCompileProgram)(void *, int, const char **), nvrtcCompileProgram);
    LIBRARY_FUNCTION(nvrtc, int (*nvrtcGetPTXSize)(void *, size_t *), nvrtcGetPTXSize);
    LIBRARY_FUNCTION(nvrtc, int (*nvrtcGetPTX)(void *, char *), nvrtcGetPTX);
    LIBRARY_FUNCTION(nvrtc, int (*nvrtcDestroyProgram)(void **), nvrtcDestroyProgram);
    library_check(nvrtcCreateProgram(&program, cuda_source, "product.cu", 0, NULL, NULL) == 0, "NVRTC", "take the source");
    library_check(nvrtcCompileProgram(program, 0, NULL) == 0 && nvrtcGetPTXSize(program, &bytes) == 0, "NVRTC", "compile the kernel");
    char *text = malloc(bytes);
    library_check(text != NULL && nvrtcGetPTX(program, text) == 0, "NVRTC", "give the compiled kernel");
    nvrtcDestroyProgram(&program);
    return text;
}

/* 0: there is no CUDA here. */
static int cuda_open(cuda *cu) {
    enum { SLEEP_WHILE_WAITING = 4 };
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *nvrtc = dlopen("libnvrtc.so", RTLD_NOW), *module;
    int device, count = 0;
    if (!nvrtc) nvrtc = dlopen("libnvrtc.so.13", RTLD_NOW);
    if (!nvrtc) nvrtc = dlopen("libnvrtc.so.12", RTLD_NOW);
    if (!driver || !nvrtc) return 0;
    LIBRARY_FUNCTION(driver, int (*cuInit)(unsigned), cuInit);
    LIBRARY_FUNCTION(driver, int (*cuDeviceGetCount)(int *), cuDeviceGetCount);
    LIBRARY_FUNCTION(driver, int (*cuDeviceGet)(int *, int), cuDeviceGet);
    LIBRARY_FUNCTION(driver, int (*cuDevicePrimaryCtxSetFlags_v2)(int, unsigned), cuDevicePrimaryCtxSetFlags_v2);
    LIBRARY_FUNCTION(driver, int (*cuDevicePrimaryCtxRetain)(void **, int), cuDevicePrimaryCtxRetain);
    LIBRARY_FUNCTION(driver, int (*cuModuleLoadData)(void **, const void *), cuModuleLoadData);
    LIBRARY_FUNCTION(driver, int (*cuModuleGetFunction)(void **, void *, const char *), cuModuleGetFunction);
    *(void **)&cu->use = library_function(driver, "cuCtxSetCurrent");
    *(void **)&cu->allocate = library_function(driver, "cuMemAlloc_v2");
    *(void **)&cu->release = library_function(driver, "cuMemFree_v2");
    *(void **)&cu->to_device = library_function(driver, "cuMemcpyHtoD_v2");
    *(void **)&cu->from_device = library_function(driver, "cuMemcpyDtoH_v2");
    *(void **)&cu->run = library_function(driver, "cuLaunchKernel");
    if (cuInit(0) != 0 || cuDeviceGetCount(&count) != 0 || count == 0) return 0;
    library_check(cuDeviceGet(&device, 0) == 0, "CUDA", "take the first device");
    library_check(cuDevicePrimaryCtxSetFlags_v2(device, SLEEP_WHILE_WAITING) == 0, "CUDA", "have threads sleep while they wait");
    library_check(cuDevicePrimaryCtxRetain(&cu->context, device) == 0 && cu->use(cu->context) == 0, "CUDA", "make a context");
    char *text = cuda_compiled(nvrtc);
    library_check(cuModuleLoadData(&module, text) == 0, "CUDA", "load the kernel");
    library_check(cuModuleGetFunction(&cu->kernel, module, "product") == 0, "CUDA", "find the kernel");
    free(text);
    return 1;
}

/* c = a b, of this size. */
static void cuda_product(cuda *cu, int size, const double *a, const double *b, double *c) {
    enum { SIDE = 16 }; /* of a block of threads */
    size_t bytes = (size_t)size * size * sizeof *a;
    unsigned blocks = ((unsigned)size + SIDE - 1) / SIDE;
    uint64_t on_device[3];
    void *arguments[] = {&on_device[0], &on_device[1], &on_device[2], &size};
    library_check(cu->use(cu->context) == 0, "CUDA", "use the device on this thread");
    for (int i = 0; i < 3; i++) library_check(cu->allocate(&on_device[i], bytes) == 0, "CUDA", "make a buffer");
    library_check(cu->to_device(on_device[0], a, bytes) == 0 && cu->to_device(on_device[1], b, bytes) == 0, "CUDA", "copy to the device");
    library_check(cu->run(cu->kernel, blocks, blocks, 1, SIDE, SIDE, 1, 0, NULL, arguments, NULL) == 0, "CUDA", "run the kernel");
    library_check(cu->from_device(c, on_device[2], bytes) == 0, "CUDA", "read the product");
    for (int i = 0; i < 3; i++) cu->release(on_device[i]);
}

#endif
