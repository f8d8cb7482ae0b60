/* Depend clauses: what is printed is the same in every order that they allow. */
#include <omp.h>
#include <stdio.h>

static void chain(void) {
    unsigned value = 0;
#pragma omp parallel
#pragma omp single
    for (unsigned i = 0; i < 2000; i++) {
#pragma omp task depend(inout : value) shared(value)
        value = value * 31 + i;
    }
    printf("chain %u\n", value);
}

static void wave(void) {
    enum { SIDE = 24 };
    static long cells[SIDE + 1][SIDE + 1];
    for (int i = 0; i <= SIDE; i++) {
        cells[i][0] = cells[0][i] = 1;
    }
#pragma omp parallel
#pragma omp single
    for (int i = 1; i <= SIDE; i++) {
        for (int j = 1; j <= SIDE; j++) {
#pragma omp task depend(in : cells[i - 1][j], cells[i][j - 1]) depend(out : cells[i][j]) firstprivate(i, j)
            cells[i][j] = (cells[i - 1][j] + cells[i][j - 1]) % 1000003;
        }
    }
    printf("wave %ld\n", cells[SIDE][SIDE]);
}

static void kinds(void) {
    int x = 0, inside = 0, most = 0, concurrent = 0, seen = 0;
#pragma omp parallel
#pragma omp single
    {
        for (int i = 0; i < 50; i++) {
#pragma omp task depend(mutexinoutset : x) shared(x, inside, most)
            {
                int now;
#pragma omp atomic capture
                now = ++inside;
                if (now > most) {
                    most = now;
                }
                x++;
#pragma omp atomic
                inside--;
            }
        }
        for (int i = 0; i < 10; i++) {
#if __GNUC__ >= 13
#pragma omp task depend(inoutset : x) shared(concurrent)
#else
#pragma omp task depend(inout : x) shared(concurrent)
#endif
#pragma omp atomic
            concurrent++;
        }
#pragma omp task depend(in : x) shared(x, seen, concurrent)
        seen = x + concurrent;
    }
    printf("kinds: at most %d at once, %d seen\n", most, seen);
}

static void all_memory(void) {
    int a = 0, b = 0, sum = 0, later = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task depend(out : a) shared(a)
        a = 1;
#pragma omp task depend(out : b) shared(b)
        b = 2;
#if __GNUC__ >= 13
#pragma omp task depend(inout : omp_all_memory) shared(a, b, sum)
#else
#pragma omp task depend(in : a, b) depend(out : sum) shared(a, b, sum)
#endif
        sum = a + b;
#pragma omp task depend(in : a) depend(in : sum) shared(later, sum)
        later = sum * 10;
    }
    printf("all memory %d %d\n", sum, later);
}

static void objects(void) {
    int x = 0, got = 0;
    omp_depend_t writes, reads;
#pragma omp depobj(writes) depend(inout : x)
#pragma omp depobj(reads) depend(in : x)
#pragma omp parallel
#pragma omp single
    {
#pragma omp task depend(depobj : writes) shared(x)
        x = 7;
#pragma omp task depend(depobj : reads) shared(x, got)
        got = x;
    }
#pragma omp depobj(writes) destroy
#pragma omp depobj(reads) destroy
    printf("objects %d\n", got);
}

static void waits(void) {
    int x = 0, y = 0, first = 0, undeferred = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task depend(out : x) shared(x)
        x = 1;
#pragma omp task depend(out : y) shared(y)
        y = 2;
#pragma omp taskwait depend(in : x)
        first = x;
#pragma omp task if (0) depend(in : y) shared(y, undeferred)
        undeferred = y;
    }
    printf("waits %d %d\n", first, undeferred);
}

/* Target regions, which run on the host where there is no device, are ordered with tasks. */
static void targets(void) {
    int x = 0, got = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task depend(out : x) shared(x)
        {
            volatile int slowly = 100000;
            while (slowly > 0) {
                slowly--;
            }
            x = 1;
        }
#pragma omp target depend(inout : x) map(tofrom : x) nowait
        x = x * 10 + 2;
#pragma omp task depend(in : x) shared(x, got)
        got = x;
    }
    printf("targets %d\n", got);
}

/* Children depend on each other, not on their parents' siblings. */
static void nesting(void) {
    int x = 0, result = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task depend(inout : x) shared(x)
        {
#pragma omp task depend(out : x) shared(x)
            x = 1;
#pragma omp task depend(inout : x) shared(x)
            x = x * 10 + 2;
#pragma omp taskwait
        }
#pragma omp task depend(in : x) shared(x, result)
        result = x;
    }
    printf("nesting %d\n", result);
}

static void detached(void) {
    int done = 0, after = 0, before_end = 0;
    omp_event_handle_t event;
#pragma omp parallel
#pragma omp single
    {
#pragma omp task detach(event) depend(out : done) shared(done)
        done = 1;
#pragma omp task depend(in : done) shared(after, done)
        after = done;
#pragma omp task shared(before_end)
        {
            before_end = 1;
            omp_fulfill_event(event);
        }
#pragma omp taskwait
    }
    printf("detached %d %d\n", after, before_end);
}

int main(void) {
    chain();
    wave();
    kinds();
    all_memory();
    objects();
    waits();
    targets();
    nesting();
    detached();
    return 0;
}
