/* y += a x, ten times: each time a task halves the vector until a block is small enough, with weak accesses on the way. */
#include <castell_tasks.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 1 << 16, BLOCK = 1 << 10, ITERATIONS = 10 };
static double x[LENGTH], y[LENGTH], expected[LENGTH];

typedef struct range {
    int first, length;
} range;

static void axpy(void *argument) {
    const range *part = argument;
    for (int i = part->first; i < part->first + part->length; i++) {
        y[i] += 0.5 * x[i];
    }
}

static void submit(range part);

static void halve(void *argument) {
    const range *part = argument;
    const int half = part->length / 2;
    submit((range){part->first, half});
    submit((range){part->first + half, part->length - half});
}

static void submit(range part) {
    const int is_leaf = part.length <= BLOCK, weak = is_leaf ? 0 : CASTELL_WEAK;
    const size_t bytes = sizeof(double) * part.length;
    const castell_access accesses[2] = {{CASTELL_IN | weak, x + part.first, bytes, 0, 0, NULL},
                                        {CASTELL_INOUT | weak, y + part.first, bytes, 0, 0, NULL}};
    const castell_task task = {.label = is_leaf ? "axpy" : "halve"};
    if (castell_submit(is_leaf ? axpy : halve, &part, sizeof part, accesses, 2, &task) != 0) {
        fprintf(stderr, "%s\n", castell_tasks_error());
        exit(1);
    }
}

static void iterate(void *argument) {
    (void)argument;
    for (int i = 0; i < ITERATIONS; i++) {
        submit((range){0, LENGTH});
    }
}

int main(void) {
    for (int i = 0; i < LENGTH; i++) {
        x[i] = y[i] = expected[i] = i;
    }
    castell_runtime *runtime;
    if (castell_start(&runtime, NULL) != 0 || castell_run(runtime, iterate, NULL) != 0) {
        fprintf(stderr, "%s\n", castell_tasks_error());
        return 1;
    }
    const unsigned long long created = castell_tasks_created(runtime);
    castell_stop(runtime);
    for (int k = 0; k < ITERATIONS; k++) {
        for (int i = 0; i < LENGTH; i++) {
            expected[i] += 0.5 * x[i];
        }
    }
    for (int i = 0; i < LENGTH; i++) {
        if (y[i] != expected[i]) {
            fprintf(stderr, "element %d: %g instead of %g\n", i, y[i], expected[i]);
            return 1;
        }
    }
    printf("%d iterations: the serial result, with %llu tasks\n", ITERATIONS, created);
    return created == 1 + ITERATIONS * (2 * (LENGTH / BLOCK) - 1) ? 0 : 1;
}
