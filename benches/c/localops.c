/* The plain loop b[i] = a[i] + b[i] over doubles; a sample is the mean over at least 4 MiB.
 *
 *     localops [--bytes 4096] [--samples 1000] */
#include "measure.h"

enum { BATCH_BYTES = 4 << 20 };

/* Not inlined, so that the compiler cannot merge rounds. */
__attribute__((noinline)) static void add(const double *restrict a, double *restrict b, int count) {
    for (int i = 0; i < count; i++) {
        b[i] = a[i] + b[i];
    }
}

int main(int argc, char **argv) {
    int bytes = (int)measure_number(argc, argv, "--bytes", 4096);
    long samples = measure_number(argc, argv, "--samples", 1000);
    int count = bytes / (int)sizeof(double), rounds = bytes < BATCH_BYTES ? BATCH_BYTES / bytes : 1;
    double *a = measure_checked(malloc((size_t)bytes)), *b = measure_checked(malloc((size_t)bytes));
    double *ns = measure_checked(malloc((size_t)samples * sizeof *ns));
    for (int i = 0; i < count; i++) {
        a[i] = 1e-9 * i;
        b[i] = 1.0;
    }
    for (long i = -1 - samples / 10; i < samples; i++) { /* the first ones warm up */
        double start = measure_now_ns();
        for (int j = 0; j < rounds; j++) {
            add(a, b, count);
        }
        if (i >= 0) {
            ns[i] = (measure_now_ns() - start) / rounds;
        }
    }
    char params[32];
    snprintf(params, sizeof params, "\"bytes\":%d", bytes);
    measure_report("localops", params, ns, samples);
    free(ns);
    free(b);
    free(a);
    return 0;
}
