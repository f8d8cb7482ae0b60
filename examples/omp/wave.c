/* A wavefront: each cell of a grid waits for the one above and the one to the left.
 *
 *     gcc -O2 -fopenmp wave.c -o wave && castell omp -- ./wave 200 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int side = argc > 1 ? atoi(argv[1]) : 200;
    if (side < 1 || side > 5000) {
        fprintf(stderr, "usage: wave SIDE, from 1 to 5000\n");
        return 2;
    }
    size_t row = (size_t)side + 1;
    unsigned *cell = malloc(row * row * sizeof *cell);
    if (cell == NULL) {
        fprintf(stderr, "wave: no memory for %d x %d cells\n", side, side);
        return 1;
    }
    for (size_t i = 0; i < row; i++) {
        cell[i] = cell[i * row] = 1;
    }
    double start = omp_get_wtime();
#pragma omp parallel
#pragma omp single
    for (size_t i = 1; i < row; i++) {
        for (size_t j = 1; j < row; j++) {
            unsigned *here = &cell[i * row + j], *above = here - row, *left = here - 1;
#pragma omp task depend(in : *above, *left) depend(out : *here) firstprivate(here, above, left)
            *here = (*above + *left) % 1000003;
        }
    }
    double seconds = omp_get_wtime() - start;
    printf("last cell %u\n", cell[row * row - 1]);
    fprintf(stderr, "%.0f ns a task on %d threads\n", 1e9 * seconds / ((double)side * side), omp_get_max_threads());
    free(cell);
    return 0;
}
