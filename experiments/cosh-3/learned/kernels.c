// Five kernels that run until they are stopped; KERNEL chooses one, so that each is a program of its own. Each writes a byte to /dev/null now
// and then, as a program that tells how far it is: on machines without counters that is its pace.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB (1 << 20)

static int null;

static void tell(void) {
    if (write(null, "", 1) != 1) exit(1);
}

#if KERNEL == 0 // triad: streams through three arrays, far larger than any cache
static void run(void) {
    size_t n = 64 * MIB / sizeof(double);
    double *a = calloc(n, sizeof *a), *b = calloc(n, sizeof *b), *c = calloc(n, sizeof *c);
    for (;;)
        for (size_t part = 0; part < n; part += 1 << 15, tell())
            for (size_t i = part; i < part + (1 << 15); i++) a[i] = b[i] + 3.0 * c[i];
}
#elif KERNEL == 1 // chase: follows a list through 12 MiB in an order that nothing foresees
static void run(void) {
    size_t n = 12 * MIB / 64;
    uint64_t (*line)[8] = malloc(n * 64);
    uint32_t *order = malloc(n * sizeof *order), state = 1;
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t i = n - 1; i > 0; i--) {
        state = state * 1664525u + 1013904223u;
        size_t j = (uint64_t)state * (i + 1) >> 32;
        uint32_t other = order[i]; order[i] = order[j]; order[j] = other;
    }
    for (size_t i = 0; i < n; i++) line[order[i]][0] = order[(i + 1) % n];
    volatile uint64_t at = 0;
    for (;; tell())
        for (int step = 0; step < 1 << 12; step++) at = line[at][0];
}
#elif KERNEL == 2 // matrix: a product in blocks that stay in L2
static void run(void) {
    enum { N = 48 };
    static double a[N][N], b[N][N], c[N][N];
    for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = i + j, b[i][j] = i - j;
    for (;; tell())
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                for (int j = 0; j < N; j++) c[i][j] = c[i][j] * 0.5 + a[i][k] * b[k][j];
}
#elif KERNEL == 3 // solver: sweeps over a grid of 8 MiB
static void run(void) {
    enum { N = 1024, ROWS = 64 };
    static double a[N][N], b[N][N];
    for (int i = 0; i < N; i++) a[i][0] = b[i][0] = 1.0;
    for (;;)
        for (int sweep = 0; sweep < 2; sweep++)
            for (int first = 1; first < N - 1; first += ROWS, tell())
                for (int i = first; i < first + ROWS && i < N - 1; i++)
                    for (int j = 1; j < N - 1; j++) {
                        double (*from)[N] = sweep ? b : a, (*to)[N] = sweep ? a : b;
                        to[i][j] = 0.25 * (from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1]);
                    }
}
#else // spin: touches no memory
static void run(void) {
    volatile uint64_t state = 1;
    for (;; tell())
        for (int step = 0; step < 1 << 17; step++) state = state * 6364136223846793005u + 1442695040888963407u;
}
#endif

int main(void) {
    null = open("/dev/null", O_WRONLY);
    run();
    return 0;
}
