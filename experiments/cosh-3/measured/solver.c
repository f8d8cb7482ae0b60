/* Conjugate gradients for the 5-point matrix of an n x n grid, in compressed rows: `solver N ROUNDS`. */
#include <stdio.h>
#include <stdlib.h>

static void multiply(int rows, const int *start, const int *column, const double *value, const double *x, double *y) {
    for (int row = 0; row < rows; row++) {
        double sum = 0;
        for (int at = start[row]; at < start[row + 1]; at++)
            sum += value[at] * x[column[at]];
        y[row] = sum;
    }
}

static double product(int rows, const double *a, const double *b) {
    double sum = 0;
    for (int row = 0; row < rows; row++)
        sum += a[row] * b[row];
    return sum;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return fprintf(stderr, "solver N ROUNDS\n"), 2;
    int n = atoi(argv[1]), rounds = atoi(argv[2]), rows = n * n, used = 0;
    int *start = malloc((rows + 1) * sizeof *start), *column = malloc(5L * rows * sizeof *column);
    double *value = malloc(5L * rows * sizeof *value), *vectors = calloc(4L * rows, sizeof *vectors);
    double *x = vectors, *r = x + rows, *p = r + rows, *q = p + rows;
    for (int row = 0; row < rows; row++) {
        int i = row / n, j = row % n, neighbour[] = {i > 0 ? row - n : -1, j > 0 ? row - 1 : -1, row, j < n - 1 ? row + 1 : -1, i < n - 1 ? row + n : -1};
        start[row] = used;
        for (int k = 0; k < 5; k++)
            if (neighbour[k] >= 0)
                column[used] = neighbour[k], value[used++] = k == 2 ? 4 : -1;
        r[row] = p[row] = 1;
    }
    start[rows] = used;
    double before = product(rows, r, r);
    for (int round = 0; round < rounds; round++) {
        multiply(rows, start, column, value, p, q);
        double alpha = before / product(rows, p, q);
        for (int row = 0; row < rows; row++)
            x[row] += alpha * p[row];
        for (int row = 0; row < rows; row++)
            r[row] -= alpha * q[row];
        double now = product(rows, r, r), beta = now / before;
        for (int row = 0; row < rows; row++)
            p[row] = r[row] + beta * p[row];
        before = now;
    }
    return printf("%g\n", before) < 0;
}
