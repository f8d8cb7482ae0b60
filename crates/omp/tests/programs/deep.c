/* How much of the stack lies between tasks that run where they are created, one in the other. */
#include <stdint.h>
#include <stdio.h>

enum { LEVELS = 1000 };

static uintptr_t last;

static __attribute__((noinline)) void level(int left) {
    last = (uintptr_t)__builtin_frame_address(0);
    if (left > 0) {
#pragma omp task
        level(left - 1);
    }
}

int main(void) {
    uintptr_t first = 0;
#pragma omp parallel
#pragma omp single
#pragma omp task final(1) shared(first)
    {
        level(0);
        first = last;
        level(LEVELS);
        printf("%lu\n", (unsigned long)(first - last) / LEVELS);
    }
    return 0;
}
