/* A matrix product on the first OpenCL device. The library is loaded when it is asked for, and its few functions are declared here: neither
 * is needed to build this.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef EXAMPLES_KERNELS_OPENCL_H
#define EXAMPLES_KERNELS_OPENCL_H

#include "kernels/library.h"
#include <stdint.h>

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

/* 0: there is no OpenCL here. */
static int opencl_open(opencl *cl) {
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *platform, *device;
    uint32_t count = 0;
    int32_t error;
    if (!library) return 0;
    LIBRARY_FUNCTION(library, int32_t (*clGetPlatformIDs)(uint32_t, void *, uint32_t *), clGetPlatformIDs);
    LIBRARY_FUNCTION(library, int32_t (*clGetDeviceIDs)(void *, uint64_t, uint32_t, void *, uint32_t *), clGetDeviceIDs);
    LIBRARY_FUNCTION(library, void *(*clCreateContext)(const void *, uint32_t, void *, void *, void *, int32_t *), clCreateContext);
    LIBRARY_FUNCTION(library, void *(*clCreateCommandQueue)(void *, void *, uint64_t, int32_t *), clCreateCommandQueue);
    LIBRARY_FUNCTION(library, void *(*clCreateProgramWithSource)(void *, uint32_t, const char **, const size_t *, int32_t *),
             clCreateProgramWithSource);
    LIBRARY_FUNCTION(library, int32_t (*clBuildProgram)(void *, uint32_t, void *, const char *, void *, void *), clBuildProgram);
    LIBRARY_FUNCTION(library, void *(*clCreateKernel)(void *, const char *, int32_t *), clCreateKernel);
    *(void **)&cl->create_buffer = library_function(library, "clCreateBuffer");
    *(void **)&cl->set_argument = library_function(library, "clSetKernelArg");
    *(void **)&cl->run = library_function(library, "clEnqueueNDRangeKernel");
    *(void **)&cl->read = library_function(library, "clEnqueueReadBuffer");
    *(void **)&cl->release = library_function(library, "clReleaseMemObject");
    if (clGetPlatformIDs(1, &platform, &count) != 0 || count == 0) return 0;
    if (clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &device, &count) != 0 || count == 0) return 0;
    cl->context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    library_check(error == 0, "OpenCL", "make a context");
    cl->queue = clCreateCommandQueue(cl->context, device, 0, &error);
    library_check(error == 0, "OpenCL", "make a queue");
    const char *source = opencl_source;
    void *program = clCreateProgramWithSource(cl->context, 1, &source, NULL, &error);
    library_check(error == 0 && clBuildProgram(program, 1, &device, "", NULL, NULL) == 0, "OpenCL", "build the kernel");
    cl->kernel = clCreateKernel(program, "product", &error);
    library_check(error == 0, "OpenCL", "make the kernel");
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
    library_check(errors[0] == 0 && errors[1] == 0 && errors[2] == 0, "OpenCL", "make buffers");
    for (uint32_t i = 0; i < 3; i++) library_check(cl->set_argument(cl->kernel, i, sizeof buffers[i], &buffers[i]) == 0, "OpenCL", "pass one");
    library_check(cl->set_argument(cl->kernel, 3, sizeof size, &size) == 0, "OpenCL", "pass the size");
    library_check(cl->run(cl->queue, cl->kernel, 2, NULL, items, NULL, 0, NULL, NULL) == 0, "OpenCL", "run the kernel");
    library_check(cl->read(cl->queue, buffers[2], 1, 0, bytes, c, 0, NULL, NULL) == 0, "OpenCL", "read the product");
    for (int i = 0; i < 3; i++) cl->release(buffers[i]);
}

#endif
