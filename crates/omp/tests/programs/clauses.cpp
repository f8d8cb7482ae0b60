// What the two compilers' interfaces do in different ways: many shared variables, untied tasks with several parts, objects in loops,
// reductions over regions, the ends of constructs while tasks wait.
#include <cstdio>
#include <omp.h>
#include <vector>

static int live, wrong;

static void expect(bool right, const char *what) {
    if (!right) {
#pragma omp atomic
        wrong++;
        std::printf("%s\n", what);
    }
}

struct Object {
    std::vector<long> values;
    explicit Object(long value) : values(3, value) {
#pragma omp atomic
        live++;
    }
    Object(const Object &other) : values(other.values) {
#pragma omp atomic
        live++;
    }
    ~Object() {
#pragma omp atomic
        live--;
    }
};

static void many_variables() {
    long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10, k = 11, l = 12, sum = 0;
    double x = .5, y = .25;
#pragma omp parallel num_threads(2) shared(a, b, c, d, e, f, g, h, i, j, k, l, x, y, sum)
#pragma omp single
    {
#pragma omp task shared(a, b, c, d, e, f, g, h, i, j, k, l, x, y, sum)
        {
            sum = a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k + 12 * l;
            sum += (long)(x * 4 + y * 4);
        }
#pragma omp taskwait
        a = l = 0;
    }
    std::printf("sum %ld, then %ld\n", sum, a + l);
}

static long parts(int depth) {
    long left = 0, right = 0;
    if (depth < 2) {
        return depth;
    }
#pragma omp task untied shared(left)
    {
#pragma omp taskyield
        left = parts(depth - 1);
#pragma omp taskyield
    }
#pragma omp task untied shared(right) if (depth % 2)
    {
        right = parts(depth - 2);
#pragma omp taskyield
    }
#pragma omp taskwait
    return left + right;
}

static void objects_in_loops() {
    long sum = 0;
    int last = -1;
    {
        Object object(2);
#pragma omp parallel shared(sum, last, object)
#pragma omp single
        {
#pragma omp taskloop firstprivate(object) lastprivate(last) shared(sum) grainsize(3)
            for (int i = 0; i < 50; i++) {
                last = i * 2;
#pragma omp atomic
                sum += object.values[i % 3] * i;
            }
#pragma omp taskgroup
            {
#pragma omp task firstprivate(object) shared(sum)
                {
#pragma omp atomic
                    sum += object.values[0];
                }
#pragma omp task firstprivate(object) shared(sum) if (0)
                {
#pragma omp atomic
                    sum += object.values[1];
                }
            }
            std::printf("of a loop %ld, last %d\n", sum, last);
        }
    }
    expect(live == 0, "objects are left");
}

static void skipped_objects() {
    {
        Object object(1);
#pragma omp parallel
#pragma omp single
#pragma omp taskgroup
        {
            for (int i = 0; i < 20; i++) {
#pragma omp task firstprivate(object)
                {
                    expect(object.values[2] == 1, "a copy");
#pragma omp cancel taskgroup
                }
            }
        }
    }
    expect(live == 0, "objects of tasks that were skipped are left");
}

/* Somewhere else: the compiler does not see the reduction. */
__attribute__((noinline)) static void add(long &sum, long value) {
#pragma omp task in_reduction(+ : sum) firstprivate(value)
    sum += value;
}

static void reductions() {
    long region = 0, loop = 0, inner = 0, plain = 0;
#pragma omp parallel num_threads(3) reduction(task, + : region)
    {
        add(region, 1);
#pragma omp barrier
        add(region, 10);
#pragma omp for reduction(task, + : loop)
        for (int i = 0; i < 60; i++) {
#pragma omp task in_reduction(+ : loop) firstprivate(i)
            {
#pragma omp task in_reduction(+ : loop)
                loop += i;
                loop += 1;
            }
        }
#pragma omp single
        {
#pragma omp taskgroup task_reduction(+ : inner)
            {
                for (int i = 0; i < 10; i++) {
                    add(inner, i);
                }
#pragma omp taskgroup task_reduction(+ : inner)
                add(inner, 100);
            }
        }
#pragma omp task
        {
#pragma omp atomic
            live += 1;
        }
#pragma omp for reduction(+ : plain)
        for (int i = 0; i < 12; i++) {
#pragma omp task firstprivate(i)
            {
#pragma omp atomic
                live += i;
            }
            plain += 1;
        }
    }
    std::printf("region %ld, loop %ld, group %ld, beside %ld, %d\n", region, loop, inner, plain, live);
    live = 0;
}

static int copied;
#pragma omp threadprivate(copied)

static void ends() {
    int sum = 0, ran = 0, sections = 0;
#pragma omp parallel num_threads(3) shared(sum, ran, sections)
    {
#pragma omp task shared(ran)
        {
#pragma omp atomic
            ran++;
        }
#pragma omp single copyprivate(copied)
        copied = 7;
#pragma omp atomic
        sum += copied;
#pragma omp sections
        {
#pragma omp section
            {
#pragma omp task shared(sections)
                sections += 1;
            }
#pragma omp section
            {
#pragma omp taskwait
            }
        }
        expect(sections == 1, "sections ended before a task");
#pragma omp parallel num_threads(2) if (sum < 0) shared(ran)
        {
            expect(omp_get_num_threads() == 1, "a region of one thread");
            int done = 0;
#pragma omp task shared(done)
            done = 1;
#pragma omp taskwait
            expect(done, "a task in a region of one thread");
#pragma omp atomic
            ran += 10;
        }
#pragma omp parallel num_threads(2) shared(ran)
        {
#pragma omp task shared(ran)
            {
#pragma omp atomic
                ran += 100;
            }
        }
    }
    expect(ran >= 33 + 300, "tasks of regions inside regions");
    std::printf("copied %d, sections %d\n", sum, sections);
}

static void events() {
    int order = 0;
#pragma omp parallel num_threads(2) shared(order)
#pragma omp single
    {
        omp_event_handle_t event;
#pragma omp task detach(event) depend(out : order) shared(order)
        {
#pragma omp atomic
            order += 1;
        }
#pragma omp task firstprivate(event) if (0)
        omp_fulfill_event(event);
#pragma omp task depend(in : order) shared(order)
        {
            expect(order == 1, "an event's successor");
#pragma omp atomic
            order += 10;
        }
#pragma omp taskwait
        omp_event_handle_t early;
#pragma omp task detach(early) final(1) shared(order)
        {
            omp_fulfill_event(early);
            order += 100;
        }
    }
    std::printf("events %d\n", order);
}

int main() {
    omp_set_max_active_levels(2);
    many_variables();
    long fibonacci = 0;
#pragma omp parallel
#pragma omp single
    fibonacci = parts(15);
    std::printf("untied %ld, alone %ld\n", fibonacci, parts(7));
    objects_in_loops();
    skipped_objects();
    reductions();
    ends();
    events();
    std::printf("wrong %d\n", wrong);
    return wrong != 0;
}
