/* Outside of regions: a task that waits for an event which its creator fulfils later, and one that depends on it. */
#include <omp.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int in_a_region(void) {
    int sum = 0;
#pragma omp parallel
#pragma omp single
    for (int i = 1; i <= 10; i++) {
#pragma omp task shared(sum)
#pragma omp atomic
        sum += i;
    }
    return sum;
}

int main(void) {
    omp_event_handle_t first, second;
    int order = 0, ran = 0, after = 0, grouped = 0;
#pragma omp task detach(first) depend(out : order) shared(ran)
    ran = 1;
#pragma omp task depend(inout : order) shared(after, order)
    {
        after = 1 + order;
    }
    int early = after;
    int inside = in_a_region();
    int child = fork();
    if (child == 0) {
        omp_set_num_threads(1); /* the others are the parent's */
        int own = 0;
#pragma omp task depend(out : own) shared(own)
        own = 1;
#pragma omp taskwait
        _exit(in_a_region() + own);
    }
    int status = 0;
    waitpid(child, &status, 0);
    order = 6;
    omp_fulfill_event(first);
#pragma omp taskwait
    printf("%d %d %d\n", ran, early, after);
    printf("in regions: %d, in a child: %d\n", inside, WEXITSTATUS(status));
#pragma omp taskgroup
    {
#pragma omp task detach(second) shared(grouped)
        grouped++;
#pragma omp task shared(grouped)
        grouped++;
        omp_fulfill_event(second);
    }
    printf("in a group: %d\n", grouped);
    return 0;
}
