/* MPI between processes, OpenMP tasks inside: what both doors loaded into one program give. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { CELLS = 64, ROUNDS = 20 };

/* Names of castell's libraries that are loaded. */
static int loaded(const char *name) {
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        found |= strstr(line, name) != NULL;
    }
    if (maps != NULL) {
        fclose(maps);
    }
    return found;
}

int main(int argc, char **argv) {
    int given = 0, rank = 0, size = 0, wrong = 0;
    long cells[CELLS], sum = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < CELLS; i++) {
        cells[i] = rank + 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        long expected = 0, all = 0;
#pragma omp parallel num_threads(3)
#pragma omp master
        {
            for (int i = 0; i < CELLS; i++) {
                /* Each cell takes over its left neighbour's new value. */
#pragma omp task depend(in : cells[i > 0 ? i - 1 : 0]) depend(inout : cells[i]) firstprivate(i)
                cells[i] = i > 0 ? cells[i - 1] : cells[0] + 1;
            }
#pragma omp taskwait
            sum = 0;
            for (int i = 0; i < CELLS; i++) {
#pragma omp task firstprivate(i)
                {
#pragma omp atomic
                    sum += cells[i];
                }
            }
#pragma omp taskwait
            MPI_Allreduce(&sum, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        }
        for (int other = 0; other < size; other++) {
            expected += (long)CELLS * (other + 2 + round);
        }
        wrong += all != expected;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d wrong of %d, omp %d, mpi %d\n", wrong, ROUNDS * size, loaded("libcastell_omp.so"),
               loaded("libcastell_mpi_"));
    }
    MPI_Finalize();
    return 0;
}
