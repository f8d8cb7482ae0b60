/* Cholesky factorisation of a real matrix, tile by tile, with OpenBLAS's kernels in one thread each: the tasks of `chol`, which
 * do their work. The tiles of the lower half lie one after the other, columns first in each. */
#ifndef CASTELL_BENCH_POTRF_H
#define CASTELL_BENCH_POTRF_H

#include "tasks.h"

#include <dlfcn.h>

typedef void (*potrf_kernel)(const char *, const int *, double *, const int *, int *);
typedef void (*trsm_kernel)(const char *, const char *, const char *, const char *, const int *, const int *, const double *,
                            const double *, const int *, double *, const int *);
typedef void (*syrk_kernel)(const char *, const char *, const int *, const int *, const double *, const double *,
                            const int *, const double *, double *, const int *);
typedef void (*gemm_kernel)(const char *, const char *, const int *, const int *, const int *, const double *,
                            const double *, const int *, const double *, const int *, const double *, double *,
                            const int *);
static struct {
    potrf_kernel potrf;
    trsm_kernel trsm;
    syrk_kernel syrk;
    gemm_kernel gemm;
} blas;
static double *matrix;

static inline void *blas_symbol(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        fprintf(stderr, "OpenBLAS has no %s\n", name);
        exit(1);
    }
    return symbol;
}

/* Of the matrix that is factorised: symmetric, and positive because its diagonal outweighs the rest. */
static inline double potrf_element(long row, long column) {
    long apart = row > column ? row - column : column - row;
    return 1.0 / (double)(1 + apart) + (apart == 0 ? (double)sizes.order : 0.0);
}

static inline double *potrf_tile(long row, long column) {
    return matrix + (row * sizes.tiles + column) * sizes.tile * sizes.tile;
}

/* Before each run, outside of what is measured. Ends the program with 3 where there is no OpenBLAS. */
static inline void potrf_prepare(void) {
    if (matrix == NULL) {
        void *library = dlopen("libopenblas.so.0", RTLD_NOW);
        if (library == NULL) {
            exit(3);
        }
        blas.potrf = (potrf_kernel)blas_symbol(library, "dpotrf_");
        blas.trsm = (trsm_kernel)blas_symbol(library, "dtrsm_");
        blas.syrk = (syrk_kernel)blas_symbol(library, "dsyrk_");
        blas.gemm = (gemm_kernel)blas_symbol(library, "dgemm_");
        ((void (*)(int))blas_symbol(library, "openblas_set_num_threads"))(1);
        matrix = (double *)measure_checked(malloc((size_t)(sizes.order * sizes.order) * sizeof *matrix));
    }
    for (long i = 0; i < sizes.tiles; i++) {
        for (long j = 0; j <= i; j++) {
            double *tile = potrf_tile(i, j);
            for (long column = 0; column < sizes.tile; column++) {
                for (long row = 0; row < sizes.tile; row++) {
                    *tile++ = potrf_element(i * sizes.tile + row, j * sizes.tile + column);
                }
            }
        }
    }
}

/* The task that reads these tiles and writes the last; which kernel that is says the place in the matrix. */
static inline void potrf_task(const long *in0, const long *in1, const long *inout) {
    const int n = (int)sizes.tile;
    const double one = 1.0, minus = -1.0;
    double *own = matrix + (inout - cells) * sizes.tile * sizes.tile;
    const double *first = in0 != NULL ? matrix + (in0 - cells) * sizes.tile * sizes.tile : NULL;
    const double *second = in1 != NULL ? matrix + (in1 - cells) * sizes.tile * sizes.tile : NULL;
    int diagonal = (inout - cells) / sizes.tiles == (inout - cells) % sizes.tiles;
    if (second != NULL) {
        blas.gemm("N", "T", &n, &n, &n, &minus, first, &n, second, &n, &one, own, &n);
    } else if (first != NULL && diagonal) {
        blas.syrk("L", "N", &n, &n, &minus, first, &n, &one, own, &n);
    } else if (first != NULL) {
        blas.trsm("R", "L", "T", "N", &n, &n, &one, first, &n, own, &n);
    } else {
        int info = 0;
        blas.potrf("L", &n, own, &n, &info);
        if (info != 0) {
            fprintf(stderr, "dpotrf: info %d\n", info);
            exit(1);
        }
    }
}

/* L (L' x) against A x for a vector of ones. */
static inline void potrf_check(void) {
    long order = sizes.order;
    double *inner = (double *)measure_checked(calloc((size_t)order, sizeof *inner));
    double *outer = (double *)measure_checked(calloc((size_t)order, sizeof *outer));
    for (int pass = 0; pass < 2; pass++) {
        for (long column = 0; column < order; column++) {
            for (long row = column; row < order; row++) {
                const double *tile = potrf_tile(row / sizes.tile, column / sizes.tile);
                double value = tile[column % sizes.tile * sizes.tile + row % sizes.tile];
                if (pass == 0) {
                    inner[column] += value;
                } else {
                    outer[row] += value * inner[column];
                }
            }
        }
    }
    for (long row = 0; row < order; row++) {
        double expected = 0;
        for (long column = 0; column < order; column++) {
            expected += potrf_element(row, column);
        }
        double error = outer[row] / expected - 1;
        if (!(error < 1e-9 && error > -1e-9)) {
            fprintf(stderr, "potrf: row %ld of L L' x is %g, of A x %g\n", row, outer[row], expected);
            exit(1);
        }
    }
    free(inner);
    free(outer);
}

#endif
