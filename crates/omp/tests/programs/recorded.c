/* Tasks whose longest chain is known: 4 in a row, then one of three in a group, an undeferred one, one of two beside each other, and in
 * another region one before a taskwait and one behind it: 9 of 13. */
static void work(volatile long *sum) {
    for (int i = 0; i < 1000; i++) {
#pragma omp atomic
        *sum += i;
    }
}

int main(void) {
    volatile long sum = 0;
    int chain = 0;
    (void)chain;
#pragma omp parallel
    {
#pragma omp single
        for (int i = 0; i < 4; i++) {
#pragma omp task depend(inout : chain) shared(sum)
            work(&sum);
        }
#pragma omp single
        {
#pragma omp taskgroup
            for (int i = 0; i < 3; i++) {
#pragma omp task shared(sum)
                work(&sum);
            }
#pragma omp task if (0) shared(sum)
            work(&sum);
            for (int i = 0; i < 2; i++) {
#pragma omp task shared(sum)
                work(&sum);
            }
        }
    }
    work(&sum);
#pragma omp parallel
#pragma omp single
    {
#pragma omp task shared(sum)
        work(&sum);
#pragma omp taskwait
        for (int i = 0; i < 2; i++) {
#pragma omp task shared(sum)
            work(&sum);
        }
    }
    return sum == 0;
}
