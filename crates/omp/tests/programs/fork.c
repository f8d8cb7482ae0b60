/* A process that forks between regions; the child goes on with regions of its own. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int count(void) {
    int sum = 0;
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task shared(sum)
#pragma omp atomic
        sum++;
    }
    return sum;
}

int main(void) {
    int before = 0;
#pragma omp task shared(before)
    before = 1;
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit(count());
    }
    waitpid(child, &status, 0);
    printf("before %d, child %d, parent %d\n", before, WEXITSTATUS(status), count());
    return 0;
}
