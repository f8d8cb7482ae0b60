/* castell_tasks.h: accesses, nesting, loops, reductions, groups, failures, events, pauses, services. */
#define _DEFAULT_SOURCE
#include <castell_tasks.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, castell_tasks_error());               \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

enum { LENGTH = 64 };
static long chain;
static int numbers[LENGTH];
static int doubled[LENGTH];
static long total;
static int skipped_ran;
static castell_current *sleeper;
static castell_current *awaiting;
static int in_flight, seen_in_flight;

static castell_access whole(int kind, void *start, size_t bytes) {
    castell_access access = {kind, start, bytes, 0, 0, NULL};
    return access;
}

static void link_of_chain(void *argument) {
    int expected = *(int *)argument;
    CHECK(chain == expected);
    chain++;
}

static void add_one(void *argument) {
    int *number = *(int **)argument;
    *number += 1;
}

static void children_of_weak(void *argument) {
    (void)argument;
    for (int i = 0; i < LENGTH; i++) {
        int *number = &numbers[i];
        castell_access access = whole(CASTELL_INOUT, number, sizeof *number);
        CHECK(castell_submit(add_one, &number, sizeof number, &access, 1, NULL) == 0);
    }
}

static void double_range(void *argument, size_t first, size_t end) {
    (void)argument;
    for (size_t i = first; i < end; i++) {
        doubled[i] = 2 * numbers[i];
    }
}

static void initialize_long(void *element) { *(long *)element = 0; }
static void add_long(void *into, const void *from) { *(long *)into += *(const long *)from; }
static const castell_reduction add_longs = {sizeof(long), initialize_long, add_long};

static int ran_twice;
static void must_not_run(void *argument);

static void sum_more(void *argument, size_t first, size_t end) {
    long *sum = castell_private(argument);
    CHECK(sum != NULL && sum != argument);
    for (size_t i = first; i < end; i++) {
        *sum += doubled[i];
    }
}

static void sum_range(void *argument, size_t first, size_t end) {
    long *sum = castell_private(argument);
    CHECK(sum != NULL && sum != argument && *sum == 0);
    for (size_t i = first; i < end; i++) {
        *sum += doubled[i];
    }
}

/* Not commutative: the order shows. */
typedef struct text {
    size_t length;
    char letters[LENGTH];
} text;
static text written;
static void initialize_text(void *element) { ((text *)element)->length = 0; }
static void append_text(void *into, const void *from) {
    text *to = into;
    const text *other = from;
    memcpy(to->letters + to->length, other->letters, other->length);
    to->length += other->length;
}
static const castell_reduction append_texts = {sizeof(text), initialize_text, append_text};

static void append_range(void *argument, size_t first, size_t end) {
    (void)argument;
    text *mine = castell_private(&written);
    CHECK(mine != NULL && mine != &written);
    usleep((LENGTH - first) * 10);
    for (size_t i = first; i < end; i++) {
        mine->letters[mine->length++] = (char)('0' + i);
    }
}

static int destroyed;
static void count_destroyed(void *argument) {
    (void)argument;
    __atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
}

/* Copies of worksharing loops, with and without an order; declarations that contradict each other. */
static void reductions(void) {
    castell_access sums[2] = {whole(CASTELL_IN, doubled, sizeof doubled), whole(CASTELL_REDUCTION, &total, sizeof total)};
    sums[1].reduction = &add_longs;
    long expected = 0;
    for (int i = 0; i < LENGTH; i++) {
        expected += doubled[i];
    }
    total = 1;
    castell_task counted = {.destroy = count_destroyed};
    /* Each worker that comes has one copy for all its ranges: the ranges may find what they added before. */
    CHECK(castell_taskfor(sum_more, &total, 0, LENGTH, 3, sums, 2, &counted) == 0);
    CHECK(castell_taskwait() == 0 && total == 1 + expected && destroyed == 1);

    castell_access texts = whole(CASTELL_REDUCTION | CASTELL_ORDERED, &written, sizeof written);
    texts.reduction = &append_texts;
    CHECK(castell_taskfor(append_range, NULL, 0, 20, 3, &texts, 1, NULL) == 0);
    CHECK(castell_taskloop(append_range, NULL, 20, 50, 4, &texts, 1, &counted) == 0);
    CHECK(castell_taskwait() == 0 && written.length == 50 && destroyed == 2);
    for (int i = 0; i < 50; i++) {
        CHECK(written.letters[i] == (char)('0' + i));
    }

    castell_access against[2] = {sums[1], whole(CASTELL_IN, &total, 1)};
    int *number = &numbers[0];
    castell_task by_reference = {.flags = CASTELL_BY_REFERENCE, .destroy = count_destroyed};
    CHECK(castell_submit(must_not_run, &number, 0, against, 2, &by_reference) == CASTELL_ERR_ARGUMENT);
    CHECK(strstr(castell_tasks_error(), "declares a reduction on") != NULL);
    CHECK(castell_taskfor(sum_range, NULL, 0, 1, 1, against, 2, &by_reference) == CASTELL_ERR_ARGUMENT);
    CHECK(castell_taskloop(sum_range, NULL, 0, 1, 1, against, 2, &by_reference) == CASTELL_ERR_ARGUMENT);
    CHECK(destroyed == 2);
    castell_access twice[2] = {whole(CASTELL_COMMUTATIVE, &ran_twice, sizeof ran_twice),
                               whole(CASTELL_COMMUTATIVE, &ran_twice, sizeof ran_twice)};
    int *ran = &ran_twice;
    for (int i = 0; i < 20; i++) {
        CHECK(castell_submit(add_one, &ran, sizeof ran, twice, 2, NULL) == 0);
    }
    CHECK(castell_taskwait() == 0 && ran_twice == 20);
}

static int payload;
static void drop_payload(void *dropped) { CHECK(dropped == &payload); }

static void fail(void *argument) {
    (void)argument;
    CHECK(castell_fail("as asked", &payload, drop_payload) == 0);
}

static void ask_whether_final(void *argument) { **(int **)argument = castell_is_final(); }

/* Two numbers, of which the first is given to its reader before the task ends. */
static int early[2], seen_early;

static void read_early(void *argument) {
    (void)argument;
    __atomic_store_n(&seen_early, early[0], __ATOMIC_RELEASE);
}

static void give_early(void *argument) {
    (void)argument;
    castell_access first = whole(CASTELL_OUT, &early[0], sizeof early[0]);
    early[0] = 7;
    CHECK(castell_release(&first, 1) == 0);
    while (__atomic_load_n(&seen_early, __ATOMIC_ACQUIRE) == 0) sched_yield();
    early[1] = 8;
}

static void attributes_and_releases(void) {
    int is_final = -1, is_other = -1, *asked = &is_final;
    castell_task final = {.flags = CASTELL_FINAL};
    CHECK(castell_submit(ask_whether_final, &asked, sizeof asked, NULL, 0, &final) == 0);
    asked = &is_other;
    CHECK(castell_submit(ask_whether_final, &asked, sizeof asked, NULL, 0, NULL) == 0);
    CHECK(castell_taskwait() == 0 && is_final == 1 && is_other == 0);
    castell_access both = whole(CASTELL_OUT, early, sizeof early), first = whole(CASTELL_IN, &early[0], sizeof early[0]);
    CHECK(castell_submit(give_early, NULL, 0, &both, 1, NULL) == 0);
    CHECK(castell_submit(read_early, NULL, 0, &first, 1, NULL) == 0);
    CHECK(castell_taskwait() == 0 && seen_early == 7 && early[1] == 8);
}

static void must_not_run(void *argument) {
    (void)argument;
    skipped_ran = 1;
}

static void pause_here(void *argument) {
    (void)argument;
    __atomic_store_n(&sleeper, castell_self(), __ATOMIC_RELEASE);
    CHECK(castell_block() == 0);
    CHECK(castell_block_for(1000) == 0);
}

static void begin_flight(void *argument) {
    (void)argument;
    CHECK(castell_add_events(1) == 0);
    __atomic_store_n(&awaiting, castell_self(), __ATOMIC_RELEASE);
}

static void see_flight(void *argument) {
    (void)argument;
    seen_in_flight = in_flight;
}

static int service(void *argument) {
    (void)argument;
    castell_current *task = __atomic_exchange_n(&awaiting, NULL, __ATOMIC_ACQ_REL);
    if (task != NULL) {
        in_flight = 42;
        castell_fulfil_events(task, 1);
    }
    return 0;
}

static void *unblock(void *argument) {
    (void)argument;
    castell_current *task;
    while ((task = __atomic_load_n(&sleeper, __ATOMIC_ACQUIRE)) == NULL) {
        usleep(100);
    }
    castell_unblock(task);
    return NULL;
}

static void cancel_and_count(void *argument) {
    int *count = *(int **)argument;
    *count += 1;
    CHECK(castell_cancel() == 1);
}

static void in_group(void *argument) {
    castell_access access = whole(CASTELL_INOUT, argument, sizeof(int));
    for (int i = 0; i < 10; i++) {
        CHECK(castell_submit(cancel_and_count, &argument, sizeof argument, &access, 1, NULL) == 0);
    }
}

static uint64_t stages[2];
static int looped_destroyed;

static void first_stage(void *argument) {
    (void)argument;
    CHECK(stages[0] == castell_iteration() && stages[1] == castell_iteration());
    stages[0]++;
}

static void second_stage(void *argument) {
    int *calls = argument; /* the same copy every time */
    CHECK((uint64_t)(*calls)++ == castell_iteration() && stages[0] == castell_iteration() + 1);
    stages[1]++;
}

static void count_looped(void *argument) { looped_destroyed += *(int *)argument; }

static int describe_stages(void *argument) {
    int calls = 0;
    castell_access access = whole(CASTELL_INOUT, stages, sizeof stages);
    castell_task counted = {.label = "second", .destroy = count_looped};
    castell_task undeferred = {.flags = CASTELL_UNDEFERRED};
    CHECK(castell_submit(first_stage, NULL, 0, &access, 1, NULL) == 0);
    CHECK(castell_submit(second_stage, &calls, sizeof calls, &access, 1, &counted) == 0);
    CHECK(stages[0] == 0 && argument == stages);
    CHECK(castell_submit(first_stage, NULL, 0, NULL, 0, &undeferred) == CASTELL_ERR_ARGUMENT);
    CHECK(castell_taskwait() == CASTELL_ERR_ARGUMENT && strstr(castell_tasks_error(), "castell_iterate") != NULL);
    access.kind |= CASTELL_WEAK;
    CHECK(castell_submit(first_stage, NULL, 0, &access, 1, &counted) == CASTELL_ERR_TASK);
    return 0;
}

static int give_up(void *argument) {
    int calls = 1000;
    castell_task counted = {.destroy = count_looped};
    CHECK(castell_submit(second_stage, &calls, sizeof calls, NULL, 0, &counted) == 0);
    return argument == NULL;
}

static void program(void *argument) {
    (void)argument;
    CHECK(castell_iterate(describe_stages, stages, 100) == 0 && stages[0] == 100 && stages[1] == 100);
    CHECK(looped_destroyed == 100 && castell_iteration() == 0);
    CHECK(castell_iterate(give_up, NULL, 100) == CASTELL_ERR_ARGUMENT && looped_destroyed == 1100);
    castell_access access = whole(CASTELL_INOUT, &chain, sizeof chain);
    for (int i = 0; i < 100; i++) {
        CHECK(castell_submit(link_of_chain, &i, sizeof i, &access, 1, NULL) == 0);
    }
    CHECK(castell_taskwait_on(&access, 1) == 0 && chain == 100);

    castell_task labelled = {.label = "weak", .priority = 1, .flags = CASTELL_WAIT};
    access = whole(CASTELL_INOUT | CASTELL_WEAK, numbers, sizeof numbers);
    for (int i = 0; i < 3; i++) {
        CHECK(castell_submit(children_of_weak, NULL, 0, &access, 1, &labelled) == 0);
    }
    castell_access both[2] = {whole(CASTELL_IN, numbers, sizeof numbers), whole(CASTELL_OUT, doubled, sizeof doubled)};
    CHECK(castell_taskfor(double_range, NULL, 0, LENGTH, 5, both, 2, NULL) == 0);
    castell_access sums[2] = {whole(CASTELL_IN, doubled, sizeof doubled), whole(CASTELL_REDUCTION, &total, sizeof total)};
    sums[1].reduction = &add_longs;
    CHECK(castell_taskloop(sum_range, &total, 0, LENGTH, 7, sums, 2, NULL) == 0);
    CHECK(castell_taskwait() == 0 && total == LENGTH * 6);

    reductions();
    attributes_and_releases();

    /* Rows of a matrix of 8 x 8: the left half waits, the right does not. */
    castell_access left = {CASTELL_INOUT, numbers, 4 * sizeof(int), 8 * sizeof(int), 8, NULL};
    castell_access right = {CASTELL_INOUT, numbers + 4, 4 * sizeof(int), 8 * sizeof(int), 8, NULL};
    castell_task failing = {.label = "failing"};
    CHECK(castell_submit(fail, NULL, 0, &left, 1, &failing) == 0);
    CHECK(castell_submit(must_not_run, NULL, 0, &left, 1, NULL) == 0);
    int *number = &numbers[4];
    CHECK(castell_submit(add_one, &number, sizeof number, &right, 1, NULL) == 0);
    CHECK(castell_taskwait() == CASTELL_ERR_TASK && !skipped_ran && numbers[4] == 4);
    CHECK(strstr(castell_tasks_error(), "`failing`") != NULL && strstr(castell_tasks_error(), "as asked") != NULL);
    CHECK(castell_failure_payload() == &payload);

    pthread_t waker;
    CHECK(pthread_create(&waker, NULL, unblock, NULL) == 0);
    CHECK(castell_submit(pause_here, NULL, 0, NULL, 0, NULL) == 0);
    access = whole(CASTELL_OUT, &in_flight, sizeof in_flight);
    CHECK(castell_submit(begin_flight, NULL, 0, &access, 1, NULL) == 0);
    access = whole(CASTELL_IN, &in_flight, sizeof in_flight);
    CHECK(castell_submit(see_flight, NULL, 0, &access, 1, NULL) == 0);
    CHECK(castell_taskwait() == 0 && seen_in_flight == 42);
    pthread_join(waker, NULL);

    int ran = 0;
    CHECK(castell_group(in_group, &ran) == 0 && ran == 1);
    CHECK(castell_cancel() == 0 && castell_is_cancelled() == 0);

    castell_task in_place = {.flags = CASTELL_FINAL | CASTELL_UNDEFERRED};
    number = &ran;
    CHECK(castell_submit(add_one, &number, sizeof number, NULL, 0, &in_place) == 0 && ran == 2);
    access = whole(77, numbers, 1);
    CHECK(castell_submit(add_one, &number, sizeof number, &access, 1, NULL) == CASTELL_ERR_ARGUMENT);
}

static void touch(void *argument) { (*(int **)argument)[1] = 1; }

static void touch_undeclared(void *argument) {
    int *place = argument;
    castell_access access = whole(CASTELL_INOUT, place, sizeof *place);
    castell_task toucher = {.label = "toucher"};
    CHECK(castell_submit(touch, &place, sizeof place, &access, 1, &toucher) == 0);
    CHECK(castell_taskwait() == CASTELL_ERR_TASK && place[1] == 1);
    CHECK(strstr(castell_tasks_error(), "`toucher` wrote to 0x") != NULL);
    access.bytes *= 2;
    CHECK(castell_submit(touch, &place, sizeof place, &access, 1, &toucher) == 0);
    CHECK(castell_taskwait() == 0);
}

/* What a fork of the process may do: nothing with this runtime, all with one of its own. */
static void fork_from(castell_runtime *runtime) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(castell_run(runtime, program, NULL) == CASTELL_ERR_START);
        CHECK(strstr(castell_tasks_error(), "fork") != NULL && strstr(castell_tasks_error(), "of its own") != NULL);
        CHECK(castell_register_service(runtime, service, NULL, -1, 1000000) == NULL);
        CHECK(castell_stop(runtime) == 0);
        castell_options options = {.workers = 2, .debug = 1};
        CHECK(castell_start(&runtime, &options) == 0);
        void *memory = castell_debug_alloc(100);
        CHECK(memory != NULL && castell_run(runtime, touch_undeclared, memory) == 0);
        castell_print_waits(runtime);
        CHECK(castell_stop(runtime) == 0);
        castell_debug_free(memory);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A device is a number here; its tasks count. */
static void on_device(void *argument) {
    int *device = castell_device_handle();
    CHECK(device != NULL);
    ++*device;
    **(int **)argument += 1;
}

static void on_processor(void *argument) {
    CHECK(castell_device_handle() == NULL);
    **(int **)argument *= 2;
}

static void alternate(void *unused) {
    (void)unused;
    static int value = 1;
    int *place = &value;
    castell_access access = whole(CASTELL_INOUT, place, sizeof value);
    castell_task device = {.label = "on the device", .device = 3};
    for (int round = 0; round < 5; ++round) {
        CHECK(castell_submit(on_device, &place, sizeof place, &access, 1, &device) == 0);
        CHECK(castell_submit(on_processor, &place, sizeof place, &access, 1, NULL) == 0);
    }
    CHECK(castell_taskwait() == 0 && value == 94);
    device.device = 4;
    CHECK(castell_submit(on_device, &place, sizeof place, &access, 1, &device) == 0);
    CHECK(castell_taskwait() == CASTELL_ERR_TASK && strstr(castell_tasks_error(), "kind 4") != NULL);
    device.device = 8;
    CHECK(castell_submit(on_device, &place, sizeof place, &access, 1, &device) == CASTELL_ERR_ARGUMENT);
}

/* Each version says where it runs, and does the same. */
struct versioned {
    int *value;
    int add;
};
static int by_version[2], ended;

static void by_processor(void *argument) {
    struct versioned *it = argument;
    CHECK(castell_device_handle() == NULL);
    *it->value += it->add;
    by_version[0]++;
}

static void by_device(void *argument) {
    struct versioned *it = argument;
    CHECK(castell_device_handle() != NULL);
    *it->value += it->add;
    by_version[1]++;
}

static void by_neither(void *argument) {
    (void)argument;
    CHECK(0);
}

static void count_ended(void *argument) { ended += ((struct versioned *)argument)->add; }

static const castell_version all_versions[] = {{.body = by_processor}, {3, by_device, 0}, {5, by_neither, 0}};

static int describe_versions(void *argument) {
    castell_access access = whole(CASTELL_INOUT, ((struct versioned *)argument)->value, sizeof(int));
    castell_task task = {.label = "described", .destroy = count_ended};
    return castell_submit_versions(all_versions, 3, argument, sizeof(struct versioned), &access, 1, &task);
}

static void versions(void *unused) {
    (void)unused;
    static int value;
    static long sum;
    castell_access access = whole(CASTELL_INOUT, &value, sizeof value);
    castell_access reduces = whole(CASTELL_REDUCTION, &sum, sizeof sum);
    reduces.reduction = &add_longs;
    castell_access both[2] = {access, reduces};
    castell_task task = {.label = "versions", .destroy = count_ended, .cost = 2};
    struct versioned it = {&value, 1};
    for (int round = 0; round < 20; ++round) {
        task.flags = round % 2 ? CASTELL_RANKED : 0;
        CHECK(castell_submit_versions(all_versions, 3, &it, sizeof it, both, 2, &task) == 0);
    }
    CHECK(castell_taskwait() == 0 && value == 20 && ended == 20);
    CHECK(by_version[0] > 0 && by_version[1] > 0 && by_version[0] + by_version[1] == 20);
    it.add = 3;
    CHECK(castell_iterate(describe_versions, &it, 10) == 0 && value == 50 && ended == 23);

    CHECK(castell_submit_versions(all_versions + 2, 1, &it, sizeof it, &access, 1, &task) == 0);
    CHECK(castell_taskwait() == CASTELL_ERR_TASK && strstr(castell_tasks_error(), "devices of kind 5") != NULL);
    CHECK(ended == 26);
    const castell_version twice[2] = {{3, by_device, 0}, {3, by_device, 0}}, nobody = {8, by_device, 0};
    const castell_version empty = {0, NULL, 0}, before = {0, by_processor, -1};
    CHECK(castell_submit_versions(twice, 2, &it, sizeof it, &access, 1, &task) == CASTELL_ERR_ARGUMENT);
    CHECK(strstr(castell_tasks_error(), "version 1 of the task is the second one") != NULL);
    CHECK(castell_submit_versions(&nobody, 1, &it, sizeof it, &access, 1, &task) == CASTELL_ERR_ARGUMENT);
    CHECK(castell_submit_versions(&empty, 1, &it, sizeof it, &access, 1, &task) == CASTELL_ERR_ARGUMENT);
    CHECK(castell_submit_versions(&before, 1, &it, sizeof it, &access, 1, &task) == CASTELL_ERR_ARGUMENT);
    CHECK(castell_submit_versions(NULL, 2, &it, sizeof it, &access, 1, &task) == CASTELL_ERR_ARGUMENT);
    CHECK(castell_submit_versions(NULL, 0, &it, sizeof it, &access, 1, &task) == CASTELL_ERR_ARGUMENT);
    task.device = 3;
    CHECK(castell_submit_versions(all_versions, 3, &it, sizeof it, &access, 1, &task) == CASTELL_ERR_ARGUMENT);
    CHECK(castell_taskwait() == 0 && ended == 26);
}

static void devices(void) {
    int ran = 0;
    castell_device device = {.kind = 3, .handle = &ran};
    castell_options options = {.workers = 1, .devices = &device, .device_count = 1};
    castell_runtime *runtime;
    CHECK(castell_start(&runtime, &options) == 0);
    CHECK(castell_run(runtime, alternate, NULL) == 0);
    CHECK(castell_run(runtime, versions, NULL) == 0);
    CHECK(castell_stop(runtime) == 0 && ran == 5);
    device.kind = 0;
    CHECK(castell_start(&runtime, &options) == CASTELL_ERR_START);
}

int main(void) {
    CHECK(castell_taskwait() == CASTELL_ERR_NO_TASK && castell_self() == NULL);
    castell_options options = {.workers = 3, .seed = 1};
    castell_runtime *runtime;
    CHECK(castell_start(&runtime, &options) == 0);
    castell_service *polled = castell_register_service(runtime, service, NULL, -1, 1000000);
    CHECK(polled != NULL);
    CHECK(castell_tasks_created(runtime) == 0 && castell_run(runtime, program, NULL) == 0);
    CHECK(castell_tasks_created(runtime) > 200);
    fork_from(runtime);
    castell_unregister_service(polled);
    CHECK(castell_stop(runtime) == 0);
    devices();
    options.scheduler = "bush";
    CHECK(castell_start(&runtime, &options) == CASTELL_ERR_START && strstr(castell_tasks_error(), "bush") != NULL);
    puts("fine");
    return 0;
}
