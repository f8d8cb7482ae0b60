/* Regions whose tasks are known by when they ran, and regions whose threads wait for each other in every way; beside other programs of its kind. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

enum { STAMPS_MAX = 1 << 20 };

static unsigned long long begins[STAMPS_MAX], ends[STAMPS_MAX];
static int stamps;

static unsigned long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void spin(int us) {
    unsigned long long begin = now_ns(), end = begin;
    while (end < begin + us * 1000ULL) {
        end = now_ns();
    }
    int mine;
#pragma omp atomic capture
    mine = stamps++;
    if (mine < STAMPS_MAX) {
        begins[mine] = begin;
        ends[mine] = end;
    }
}

static void phases(int count, int tasks, int us, int pause_ms) {
    for (int phase = 0; phase < count; phase++) {
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < tasks; i++) {
#pragma omp task
            spin(us);
        }
        usleep(pause_ms * 1000);
    }
    for (int i = 0; i < stamps; i++) {
        printf("ran %llu %llu\n", begins[i], ends[i]);
    }
}

/* The iterations of a loop are no tasks: each thread's part is one stretch, in which it is at no boundary. */
static void loops(int count, int us, int pause_ms) {
    for (int phase = 0; phase < count; phase++) {
#pragma omp parallel
        {
            spin(us);
#pragma omp barrier
            spin(us);
        }
        usleep(pause_ms * 1000);
    }
    for (int i = 0; i < stamps; i++) {
        printf("ran %llu %llu\n", begins[i], ends[i]);
    }
}

static void hold(void) {
    int is_over = 0;
#pragma omp parallel
#pragma omp single
    {
        printf("begins\n");
        fflush(stdout);
        while (!is_over) {
            for (int i = 0; i < 64; i++) {
#pragma omp task
                {
                    unsigned long long end = now_ns() + 100000;
                    while (now_ns() < end) {
                    }
                }
            }
#pragma omp taskwait
            struct timeval none = {0, 0};
            fd_set in;
            FD_ZERO(&in);
            FD_SET(0, &in);
            is_over = select(1, &in, NULL, NULL, &none) > 0;
        }
    }
}

/* Two threads that wait for each other without telling anybody. */
static void flags(int count) {
    int turn = 0;
#pragma omp parallel num_threads(2)
    for (int i = 0; i < count; i++) {
        int seen;
        do {
#pragma omp atomic read
            seen = turn;
        } while (seen != 2 * i + omp_get_thread_num());
#pragma omp atomic write
        turn = seen + 1;
    }
    printf("%d turns\n", turn);
}

/* Threads that wait for each other in the library below castell's, and while they hold something. */
static void waits(int count) {
    long sum = 0, copied = 0, ordered = 0;
#pragma omp parallel
    for (int round = 0; round < count; round++) {
#pragma omp critical
        {
            int inner = 0;
            for (int i = 0; i < 3; i++) {
#pragma omp task shared(inner)
                {
#pragma omp atomic
                    inner++;
                }
            }
#pragma omp taskwait
            sum += inner;
        }
        long value;
#pragma omp single copyprivate(value)
        value = round + 1;
#pragma omp atomic
        copied += value;
#pragma omp for ordered schedule(static, 1)
        for (int i = 0; i < 8; i++) {
#pragma omp ordered
            ordered = ordered * 3 + i;
        }
#pragma omp parallel num_threads(2)
        {
#pragma omp atomic
            sum++;
#pragma omp barrier
#pragma omp single
#pragma omp task
            {
#pragma omp atomic
                sum++;
            }
        }
    }
    printf("%ld %ld %ld\n", sum, copied, ordered);
}

int main(int count, char **words) {
    int number[5] = {0};
    for (int i = 2; i < count && i < 7; i++) {
        number[i - 2] = atoi(words[i]);
    }
    omp_set_max_active_levels(2);
    if (count > 1 && strcmp(words[1], "phases") == 0) {
        phases(number[0], number[1], number[2], number[3]);
    } else if (count > 1 && strcmp(words[1], "loops") == 0) {
        loops(number[0], number[1], number[2]);
    } else if (count > 1 && strcmp(words[1], "hold") == 0) {
        hold();
    } else if (count > 1 && strcmp(words[1], "flags") == 0) {
        flags(number[0]);
    } else {
        waits(number[0]);
    }
    return 0;
}
