/* A = L L^T on OpenBLAS, tile by tile: the dependences between tiles are the whole synchronisation. The result is compared
 * with LAPACK's own, and the number of tasks with 1 + n + n(n-1) + n(n-1)(n-2)/6.
 *
 *   cholesky [order of the matrix] [order of a tile]
 */
#include <castell_tasks.h>
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void openblas_set_num_threads(int threads);

static int order = 512, tile = 64;
static double *tiles, *expected;

/* Tiles lie one after the other, each column by column. */
static double *at(int row, int column) { return tiles + ((size_t)column * (order / tile) + row) * tile * tile; }

static castell_access whole(int kind, double *start) {
    castell_access access = {kind, start, sizeof(double) * tile * tile, 0, 0, NULL};
    return access;
}

static void potrf(void *argument) {
    double **a = argument;
    int info = 0;
    dpotrf_("L", &tile, a[0], &tile, &info);
    if (info != 0) {
        castell_fail("the matrix is not positive definite", NULL, NULL);
    }
}

static void trsm(void *argument) {
    double **a = argument;
    cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, tile, tile, 1.0, a[0], tile, a[1], tile);
}

static void syrk(void *argument) {
    double **a = argument;
    cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, tile, tile, -1.0, a[0], tile, 1.0, a[1], tile);
}

static void gemm(void *argument) {
    double **a = argument;
    cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, tile, tile, tile, -1.0, a[0], tile, a[1], tile, 1.0, a[2], tile);
}

/* A task that reads all tiles but the last, which it changes. */
static void submit(void (*body)(void *), const char *label, int priority, double **arguments, size_t count) {
    castell_access accesses[3];
    for (size_t i = 0; i < count; i++) {
        accesses[i] = whole(i + 1 == count ? CASTELL_INOUT : CASTELL_IN, arguments[i]);
    }
    castell_task task = {.label = label, .priority = priority};
    if (castell_submit(body, arguments, count * sizeof *arguments, accesses, count, &task) != 0) {
        fprintf(stderr, "%s: %s\n", label, castell_tasks_error());
        exit(1);
    }
}

static void factor(void *argument) {
    (void)argument;
    const int n = order / tile;
    for (int k = 0; k < n; k++) {
        submit(potrf, "potrf", 3, (double *[]){at(k, k)}, 1);
        for (int i = k + 1; i < n; i++) {
            submit(trsm, "trsm", 2, (double *[]){at(k, k), at(i, k)}, 2);
        }
        for (int i = k + 1; i < n; i++) {
            for (int j = k + 1; j < i; j++) {
                submit(gemm, "gemm", 0, (double *[]){at(i, k), at(j, k), at(i, j)}, 3);
            }
            submit(syrk, "syrk", 1, (double *[]){at(i, k), at(i, i)}, 2);
        }
    }
}

static double element(int row, int column) {
    return row == column ? order : 1.0 / (1.0 + fabs((double)(row - column)));
}

int main(int argc, char **argv) {
    order = argc > 1 ? atoi(argv[1]) : order;
    tile = argc > 2 ? atoi(argv[2]) : tile;
    if (order <= 0 || tile <= 0 || order % tile != 0) {
        fprintf(stderr, "usage: %s [order] [order of a tile, by which the first can be divided]\n", argv[0]);
        return 2;
    }
    openblas_set_num_threads(1); /* the tasks are the parallelism */
    tiles = malloc(sizeof(double) * order * order);
    expected = malloc(sizeof(double) * order * order);
    for (int column = 0; column < order; column++) {
        for (int row = 0; row < order; row++) {
            expected[(size_t)column * order + row] = element(row, column);
            at(row / tile, column / tile)[(column % tile) * tile + row % tile] = element(row, column);
        }
    }

    castell_runtime *runtime;
    if (castell_start(&runtime, NULL) != 0 || castell_run(runtime, factor, NULL) != 0) {
        fprintf(stderr, "%s\n", castell_tasks_error());
        return 1;
    }
    const unsigned long long n = order / tile, created = castell_tasks_created(runtime);
    castell_stop(runtime);

    int info;
    dpotrf_("L", &order, expected, &order, &info);
    double difference = 0;
    for (int column = 0; column < order; column++) {
        for (int row = column; row < order; row++) {
            double value = at(row / tile, column / tile)[(column % tile) * tile + row % tile];
            difference = fmax(difference, fabs(value - expected[(size_t)column * order + row]));
        }
    }
    const unsigned long long tasks = 1 + n + n * (n - 1) + (n > 2 ? n * (n - 1) * (n - 2) / 6 : 0);
    printf("%llu x %llu tiles of %d: %llu tasks, LAPACK's result up to %.1e\n", n, n, tile, created, difference);
    free(tiles);
    free(expected);
    return info == 0 && difference < 1e-8 && created == tasks ? 0 : 1;
}
