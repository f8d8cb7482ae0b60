/* A matrix product on the first OpenCL device. The library is loaded when it is asked for, and its few functions are declared here: neither
 * is needed to build this.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef EXAMPLES_KERNELS_OPENCL_H
#define EXAMPLES_KERNELS_OPENCL_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct opencl {
    void *context, *queue, *kernel;
    void *(*create_buffer)(void *, uint64_t, size_t, void *, int32_t *);
    int32_t (*set_argument)(void *, uint32_t, size_t, const void *);
    int32_t (*run)(void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, void *, void *);
    int32_t (*read)(void *, void *, uint32_t, size_t, size_t, void *, uint32_t, void *, void *);
    int32_t (*release)(void *);
} opencl;

static const char opencl_source[] =
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "kernel void product(global const double *a, global const double *b, global double *c, int size) {\n"
    "    int column = get_global_id(0), row = get_global_id(1);\n"
    "    double sum = 0;\n"
    "    for (int k = 0; k < size; k++) sum += a[row * size + k] * b[k * size + column];\n"
    "    c[row * size + column] = sum;\n"
    "}\n";

static void opencl_check(int is_right, const char *what) {
    if (is_right) return;
    fprintf(stderr, "OpenCL: cannot %s\n", what);
    exit(1);
}

static void *opencl_function(void *library, const char *name) {
    void *function = dlsym(library, name);
    opencl_check(function != NULL, name);
    return function;
}

/* 0: there is no OpenCL here. */
static int opencl_open(opencl *cl) {
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *platform, *device;
    uint32_t count = 0;
    int32_t error;
    if (!library) return 0;
#define FUNCTION(type, name) type; *(void **)&name = opencl_function(library, #name)
    FUNCTION(int32_t (*clGetPlatformIDs)(uint32_t, void *, uint32_t *), clGetPlatformIDs);
    FUNCTION(int32_t (*clGetDeviceIDs)(void *, uint64_t, uint32_t, void *, uint32_t *), clGetDeviceIDs);
    FUNCTION(void *(*clCreateContext)(const void *, uint32_t, void *, void *, void *, int32_t *), clCreateContext);
    FUNCTION(void *(*clCreateCommandQueue)(void *, void *, uint64_t, int32_t *), clCreateCommandQueue);
    FUNCTION(void *(*clCreateProgramWithSource)(void *, uint32_t, const char **, const size_t *, int32_t *),
             clCreateProgramWithSource);
    FUNCTION(int32_t (*clBuildProgram)(void *, uint32_t, void *, const char *, void *, void *), clBuildProgram);
    FUNCTION(void *(*clCreateKernel)(void *, const char *, int32_t *), clCreateKernel);
#undef FUNCTION
    *(void **)&cl->create_buffer = opencl_function(library, "clCreateBuffer");
    *(void **)&cl->set_argument = opencl_function(library, "clSetKernelArg");
    *(void **)&cl->run = opencl_function(library, "clEnqueueNDRangeKernel");
    *(void **)&cl->read = opencl_function(library, "clEnqueueReadBuffer");
    *(void **)&cl->release = opencl_function(library, "clReleaseMemObject");
    if (clGetPlatformIDs(1, &platform, &count) != 0 || count == 0) return 0;
    if (clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &device, &count) != 0 || count == 0) return 0;
    cl->context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    opencl_check(error == 0, "make a context");
    cl->queue = clCreateCommandQueue(cl->context, device, 0, &error);
    opencl_check(error == 0, "make a queue");
    const char *source = opencl_source;
    void *program = clCreateProgramWithSource(cl->context, 1, &source, NULL, &error);
    opencl_check(error == 0 && clBuildProgram(program, 1, &device, "", NULL, NULL) == 0, "build the kernel");
    cl->kernel = clCreateKernel(program, "product", &error);
    opencl_check(error == 0, "make the kernel");
    return 1;
}

/* c = a b, of this size; one at a time. */
static void opencl_product(opencl *cl, int size, const double *a, const double *b, double *c) {
    enum { WRITTEN = 1 << 1, READ = 1 << 2, COPIED = 1 << 5 };
    size_t bytes = (size_t)size * size * sizeof *a, items[2] = {(size_t)size, (size_t)size};
    int32_t errors[3];
    void *buffers[3] = {cl->create_buffer(cl->context, READ | COPIED, bytes, (void *)a, &errors[0]),
                        cl->create_buffer(cl->context, READ | COPIED, bytes, (void *)b, &errors[1]),
                        cl->create_buffer(cl->context, WRITTEN, bytes, NULL, &errors[2])};
    opencl_check(errors[0] == 0 && errors[1] == 0 && errors[2] == 0, "make buffers");
    for (uint32_t i = 0; i < 3; i++) opencl_check(cl->set_argument(cl->kernel, i, sizeof buffers[i], &buffers[i]) == 0, "pass one");
    opencl_check(cl->set_argument(cl->kernel, 3, sizeof size, &size) == 0, "pass the size");
    opencl_check(cl->run(cl->queue, cl->kernel, 2, NULL, items, NULL, 0, NULL, NULL) == 0, "run the kernel");
    opencl_check(cl->read(cl->queue, buffers[2], 1, 0, bytes, c, 0, NULL, NULL) == 0, "read the product");
    for (int i = 0; i < 3; i++) cl->release(buffers[i]);
}

#endif
