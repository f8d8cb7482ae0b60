/* alpi.h: all functions, as a library that makes something asynchronous known to the runtime uses them. */
#define _DEFAULT_SOURCE
#include <alpi.h>
#include <assert.h>
#include <castell_tasks.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

/* The numbers are the interface's. */
static_assert(ALPI_ERR_VERSION == 1 && ALPI_ERR_NOT_INITIALIZED == 2 && ALPI_ERR_PARAMETER == 3, "codes");
static_assert(ALPI_ERR_OUT_OF_MEMORY == 4 && ALPI_ERR_OUTSIDE_TASK == 5 && ALPI_ERR_UNKNOWN == 6, "codes");
static_assert(ALPI_ERR_FEATURE_UNKNOWN == 7 && ALPI_ERR_MAX == 8, "codes");
static_assert(ALPI_INFO_RUNTIME_NAME == 0 && ALPI_INFO_RUNTIME_VENDOR == 1 && ALPI_INFO_VERSION == 2, "queries");
static_assert(ALPI_SUSPEND_NONE == 0 && ALPI_SUSPEND_SUBMIT == 1, "modes");
static_assert(ALPI_SUSPEND_TIMEOUT_SUBMIT == 2 && ALPI_SUSPEND_EVENT_SUBMIT == 3, "modes");

enum { ALL_FEATURES = ALPI_FEATURE_BLOCKING | ALPI_FEATURE_EVENTS | ALPI_FEATURE_RESOURCES | ALPI_FEATURE_SUSPEND };

static struct alpi_task *self(void) {
    struct alpi_task *task = NULL;
    CHECK(alpi_task_self(&task) == ALPI_SUCCESS && task != NULL);
    return task;
}

static void nothing(void *argument) { (void)argument; }

/* ------------------------------------------------------------------------------------------------- without a runtime */

static void versions_and_texts(void) {
    int major = 0, minor = 0, length = 0;
    CHECK(alpi_version_get(&major, &minor) == ALPI_SUCCESS && major == 1 && minor == 2);
    CHECK(alpi_version_get(NULL, &minor) == ALPI_ERR_PARAMETER && alpi_version_get(&major, NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_version_check(ALPI_VERSION_MAJOR, ALPI_VERSION_MINOR) == ALPI_SUCCESS);
    CHECK(alpi_version_check(1, 0) == ALPI_SUCCESS && alpi_version_check(1, 3) == ALPI_ERR_VERSION);
    CHECK(alpi_version_check(2, 0) == ALPI_ERR_VERSION && alpi_version_check(0, 9) == ALPI_ERR_VERSION);
    CHECK(alpi_feature_check(ALL_FEATURES) == ALPI_SUCCESS && alpi_feature_check(0) == ALPI_SUCCESS);
    CHECK(alpi_feature_check(ALL_FEATURES | 1 << 7) == ALPI_ERR_FEATURE_UNKNOWN);
    for (int code = 0; code < ALPI_ERR_MAX; code++) {
        for (int other = 0; other < code; other++) {
            CHECK(strcmp(alpi_error_string((alpi_error_t)code), alpi_error_string((alpi_error_t)other)) != 0);
        }
    }
    CHECK(strlen(alpi_error_string((alpi_error_t)1234)) > 0);
    char text[64];
    CHECK(alpi_info_get(ALPI_INFO_RUNTIME_NAME, text, sizeof text, &length) == ALPI_SUCCESS);
    CHECK(strcmp(text, "castell") == 0 && length == 7);
    CHECK(alpi_info_get(ALPI_INFO_RUNTIME_VENDOR, text, sizeof text, NULL) == ALPI_SUCCESS && strlen(text) > 0);
    CHECK(alpi_info_get(ALPI_INFO_VERSION, text, sizeof text, &length) == ALPI_SUCCESS && strlen(text) == (size_t)length);
    CHECK(alpi_info_get(ALPI_INFO_RUNTIME_NAME, text, 5, &length) == ALPI_SUCCESS && strcmp(text, "cast") == 0 && length == 4);
    CHECK(alpi_info_get((alpi_info_t)9, text, sizeof text, NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_info_get(ALPI_INFO_VERSION, NULL, 9, NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_info_get(ALPI_INFO_VERSION, text, 0, NULL) == ALPI_ERR_PARAMETER);
}

static void attributes(void) {
    struct alpi_attr *attr = NULL;
    CHECK(alpi_attr_create(&attr) == ALPI_SUCCESS && attr != NULL && alpi_attr_create(NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_attr_init(attr) == ALPI_SUCCESS && alpi_attr_destroy(attr) == ALPI_SUCCESS);
    uint64_t size = 0;
    CHECK(alpi_attr_size(&size) == ALPI_SUCCESS && size > 0 && alpi_attr_size(NULL) == ALPI_ERR_PARAMETER);
    attr = malloc(size);
    CHECK(attr != NULL && alpi_attr_init(attr) == ALPI_SUCCESS && alpi_attr_init(NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_attr_destroy(attr) == ALPI_ERR_PARAMETER && alpi_attr_destroy(NULL) == ALPI_ERR_PARAMETER);
    free(attr);
}

static void outside_of_tasks(int runs) {
    struct alpi_task *task = (struct alpi_task *)&task;
    uint64_t number;
    CHECK(alpi_task_self(&task) == ALPI_SUCCESS && task == NULL && alpi_task_self(NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_block(NULL) == ALPI_ERR_OUTSIDE_TASK && alpi_task_unblock(NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_waitfor_ns(1, &number) == ALPI_ERR_OUTSIDE_TASK);
    CHECK(alpi_task_events_increase(NULL, 1) == ALPI_ERR_OUTSIDE_TASK);
    CHECK(alpi_task_events_test(NULL, &number) == ALPI_ERR_OUTSIDE_TASK);
    CHECK(alpi_task_events_decrease(NULL, 1) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_suspend(NULL) == ALPI_ERR_OUTSIDE_TASK);
    CHECK(alpi_task_suspend_mode_set(NULL, ALPI_SUSPEND_NONE, 0) == ALPI_ERR_OUTSIDE_TASK);
    CHECK(alpi_cpu_logical_id(&number) == ALPI_ERR_OUTSIDE_TASK && alpi_cpu_system_id(&number) == ALPI_ERR_OUTSIDE_TASK);
    CHECK(alpi_cpu_count(&number) == (runs ? ALPI_SUCCESS : ALPI_ERR_NOT_INITIALIZED));
    if (!runs) CHECK(alpi_task_spawn(nothing, NULL, nothing, NULL, NULL, NULL) == ALPI_ERR_NOT_INITIALIZED);
}

/* --------------------------------------------------------------------------------------------------- spawned tasks */

typedef struct {
    _Atomic(struct alpi_task *) task;
    atomic_int ran, over; /* `over`: the completion callback was called */
    int seen;
} spawned;

static void completed(void *argument) {
    spawned *it = argument;
    CHECK(it->over == 0);
    it->over = 1;
}

static void rest_until(atomic_int *flag, int value) {
    while (*flag != value) {
        uint64_t rested = 0;
        CHECK(alpi_task_waitfor_ns(100000, &rested) == ALPI_SUCCESS && rested >= 100000);
    }
}

static void spawn(void (*body)(void *), spawned *it, const char *label) {
    CHECK(alpi_task_spawn(body, it, completed, it, label, NULL) == ALPI_SUCCESS);
}

static void child(void *argument) {
    spawned *it = *(spawned **)argument;
    CHECK(alpi_task_waitfor_ns(2000000, NULL) == ALPI_SUCCESS);
    CHECK(it->over == 0); /* not before its descendants */
    it->seen++;
}

static void has_children(void *argument) {
    spawned *it = argument;
    CHECK(castell_submit(child, &it, sizeof it, NULL, 0, NULL) == 0);
    CHECK(castell_submit(child, &it, sizeof it, NULL, 0, NULL) == 0);
    it->ran = 1;
}

static void blocks(void *argument) {
    spawned *it = argument;
    struct alpi_task *task = self();
    uint64_t logical = 99, system = 99, count = 0;
    CHECK(alpi_cpu_count(&count) == ALPI_SUCCESS && count == 2 && alpi_cpu_count(NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_cpu_logical_id(&logical) == ALPI_SUCCESS && logical < count);
    CHECK(alpi_cpu_system_id(&system) == ALPI_SUCCESS && system < 1 << 16);
    CHECK(alpi_cpu_logical_id(NULL) == ALPI_ERR_PARAMETER && alpi_cpu_system_id(NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_block(NULL) == ALPI_ERR_PARAMETER);
    it->task = task;
    CHECK(alpi_task_block(task) == ALPI_SUCCESS);
    CHECK(it->seen == 1 && self() == task);
    CHECK(alpi_task_unblock(task) == ALPI_SUCCESS); /* before its pause, which is none then; a rest leaves it alone */
    CHECK(alpi_task_waitfor_ns(1000, NULL) == ALPI_SUCCESS);
    CHECK(alpi_task_block(task) == ALPI_SUCCESS);
    it->ran = 1;
}

static void waits_for_events(void *argument) {
    spawned *it = argument;
    struct alpi_task *task = self();
    uint64_t has = 7;
    CHECK(alpi_task_events_test(task, &has) == ALPI_SUCCESS && has == 0);
    CHECK(alpi_task_events_test(task, NULL) == ALPI_ERR_PARAMETER && alpi_task_events_test(NULL, &has) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_events_increase(NULL, 1) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_events_increase(task, UINT64_MAX) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_events_increase(task, 0) == ALPI_SUCCESS);
    CHECK(alpi_task_events_increase(task, 3) == ALPI_SUCCESS);
    CHECK(alpi_task_events_test(task, &has) == ALPI_SUCCESS && has == 1);
    CHECK(alpi_task_events_decrease(task, 1) == ALPI_SUCCESS && alpi_task_events_decrease(task, 0) == ALPI_SUCCESS);
    it->task = task;
    it->ran = 1;
}

static void blocking_and_events(void) {
    spawned family = {0}, blocked = {0}, eventful = {0};
    char label[] = "family"; /* copied */
    spawn(has_children, &family, label);
    memset(label, 'x', sizeof label - 1);
    rest_until(&family.over, 1);
    CHECK(family.ran == 1 && family.seen == 2);

    spawn(blocks, &blocked, NULL);
    while (blocked.task == NULL) CHECK(alpi_task_waitfor_ns(0, NULL) == ALPI_SUCCESS);
    blocked.seen = 1;
    CHECK(alpi_task_unblock(blocked.task) == ALPI_SUCCESS);
    rest_until(&blocked.over, 1);
    CHECK(blocked.ran == 1);

    spawn(waits_for_events, &eventful, "eventful");
    rest_until(&eventful.ran, 1);
    CHECK(alpi_task_waitfor_ns(1000000, NULL) == ALPI_SUCCESS && eventful.over == 0);
    CHECK(alpi_task_events_decrease(eventful.task, 1) == ALPI_SUCCESS);
    CHECK(alpi_task_waitfor_ns(1000000, NULL) == ALPI_SUCCESS && eventful.over == 0);
    CHECK(alpi_task_events_decrease(eventful.task, 1) == ALPI_SUCCESS);
    rest_until(&eventful.over, 1);

    struct alpi_attr *attr = NULL;
    CHECK(alpi_attr_create(&attr) == ALPI_SUCCESS);
    spawned described = {0};
    CHECK(alpi_task_spawn(nothing, NULL, completed, &described, "described", attr) == ALPI_SUCCESS);
    rest_until(&described.over, 1);
    uint64_t zeros[64] = {0};
    CHECK(alpi_task_spawn(nothing, NULL, nothing, NULL, "", (struct alpi_attr *)zeros) == ALPI_ERR_PARAMETER);
    CHECK(alpi_attr_destroy(attr) == ALPI_SUCCESS && alpi_attr_destroy(attr) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_spawn(NULL, NULL, nothing, NULL, "", NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_spawn(nothing, NULL, NULL, NULL, "", NULL) == ALPI_ERR_PARAMETER);
}

/* ----------------------------------------------------------------------------------------------------- suspension */

enum { TIMES = 50 };

/* Comes back after each mode in turn, then ends. */
static void comes_back(void *argument) {
    spawned *it = argument;
    struct alpi_task *task = self();
    CHECK(it->over == 0);
    it->ran++;
    if (it->ran == TIMES) return;
    switch (it->ran % 3) {
    case 0: CHECK(alpi_task_suspend_mode_set(task, ALPI_SUSPEND_SUBMIT, 0) == ALPI_SUCCESS); break;
    case 1: CHECK(alpi_task_suspend_mode_set(task, ALPI_SUSPEND_SUBMIT, 1) == ALPI_SUCCESS); break;
    default: CHECK(alpi_task_suspend_mode_set(task, ALPI_SUSPEND_TIMEOUT_SUBMIT, 50000) == ALPI_SUCCESS); break;
    }
    CHECK(alpi_task_suspend(task) == ALPI_SUCCESS);
    uint64_t has = 7; /* being suspended is no event */
    CHECK(alpi_task_events_test(task, &has) == ALPI_SUCCESS && has == 0);
    if (it->ran % 5 == 0) CHECK(alpi_task_suspend(task) == ALPI_SUCCESS); /* said twice: once */
}

/* Runs again when it is unblocked; the mode of the time before does not hold any more. */
static void until_unblocked(void *argument) {
    spawned *it = argument;
    struct alpi_task *task = self();
    it->ran++;
    if (it->ran == 1) {
        CHECK(alpi_task_suspend_mode_set(task, ALPI_SUSPEND_SUBMIT, 0) == ALPI_SUCCESS);
        CHECK(alpi_task_suspend(task) == ALPI_SUCCESS);
    } else if (it->ran == 2) {
        CHECK(alpi_task_suspend(task) == ALPI_SUCCESS);
        it->task = task;
    }
}

/* Runs again when its event is fulfilled, and then when none was added. */
static void until_event(void *argument) {
    spawned *it = argument;
    struct alpi_task *task = self();
    it->ran++;
    if (it->ran < 3) {
        CHECK(alpi_task_suspend_mode_set(task, ALPI_SUSPEND_EVENT_SUBMIT, 0) == ALPI_SUCCESS);
        CHECK(alpi_task_suspend(task) == ALPI_SUCCESS);
    }
    if (it->ran == 1) {
        CHECK(alpi_task_events_increase(task, 1) == ALPI_SUCCESS);
        it->task = task;
    }
}

static int order[2], ordered, destroyed;

/* A task with data: what waits for the data waits until the task has come back and ended. */
static void writes_later(void *argument) {
    int *times = argument; /* its copy of the argument stays from time to time */
    CHECK(destroyed == 0);
    if (++*times < 3) {
        CHECK(alpi_task_suspend_mode_set(self(), ALPI_SUSPEND_TIMEOUT_SUBMIT, 1000) == ALPI_SUCCESS);
        CHECK(alpi_task_suspend(self()) == ALPI_SUCCESS);
        return;
    }
    order[ordered++] = 1;
}

static void destroy(void *argument) {
    CHECK(*(int *)argument == 3);
    destroyed++;
}

static void reads(void *argument) {
    (void)argument;
    order[ordered++] = 2;
}

static void refuses(void *argument) {
    (void)argument;
    CHECK(alpi_task_suspend(self()) == ALPI_ERR_FEATURE_UNKNOWN);
}

static void suspending(void) {
    struct alpi_task *task = self();
    CHECK(alpi_task_suspend_mode_set(task, (alpi_suspend_mode_t)9, 0) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_suspend_mode_set(task, ALPI_SUSPEND_SUBMIT, 2) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_suspend_mode_set(NULL, ALPI_SUSPEND_NONE, 0) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_suspend(NULL) == ALPI_ERR_PARAMETER);
    CHECK(alpi_task_suspend(task) == ALPI_ERR_FEATURE_UNKNOWN); /* castell_run's */

    spawned returning[8] = {{0}}, unblocked = {0}, event = {0};
    for (int i = 0; i < 8; i++) spawn(comes_back, &returning[i], "comes back");
    for (int i = 0; i < 8; i++) rest_until(&returning[i].over, 1);
    for (int i = 0; i < 8; i++) CHECK(returning[i].ran == TIMES);

    spawn(until_unblocked, &unblocked, "until unblocked");
    while (unblocked.task == NULL) CHECK(alpi_task_waitfor_ns(1000, NULL) == ALPI_SUCCESS);
    CHECK(alpi_task_waitfor_ns(1000000, NULL) == ALPI_SUCCESS && unblocked.ran == 2 && unblocked.over == 0);
    CHECK(alpi_task_unblock(unblocked.task) == ALPI_SUCCESS);
    rest_until(&unblocked.over, 1);
    CHECK(unblocked.ran == 3);

    spawn(until_event, &event, "until event");
    while (event.task == NULL) CHECK(alpi_task_waitfor_ns(1000, NULL) == ALPI_SUCCESS);
    CHECK(alpi_task_waitfor_ns(1000000, NULL) == ALPI_SUCCESS && event.ran == 1 && event.over == 0);
    CHECK(alpi_task_events_decrease(event.task, 1) == ALPI_SUCCESS);
    rest_until(&event.over, 1);
    CHECK(event.ran == 3);

    castell_access out = {CASTELL_OUT, order, sizeof order, 0, 0, NULL}, in = {CASTELL_IN, order, sizeof order, 0, 0, NULL};
    castell_task destroys = {0};
    destroys.destroy = destroy;
    int times = 0;
    CHECK(castell_submit(writes_later, &times, sizeof times, &out, 1, &destroys) == 0);
    CHECK(castell_submit(reads, NULL, 0, &in, 1, NULL) == 0);
    castell_task by_reference = {0};
    by_reference.flags = CASTELL_BY_REFERENCE;
    CHECK(castell_submit(refuses, &times, 0, NULL, 0, &by_reference) == 0);
    CHECK(castell_taskwait() == 0 && order[0] == 1 && order[1] == 2 && destroyed == 1 && times == 0);
}

/* ---------------------------------------------------------------------------------------------------- a busy pair */

/* Pauses and unblockings from a thread that is none of the runtime's, many times. */
static spawned partner;

static void *world(void *argument) {
    (void)argument;
    for (int i = 0; i < 1000; i++) {
        struct alpi_task *task;
        while ((task = atomic_exchange(&partner.task, NULL)) == NULL) usleep(1);
        partner.seen++;
        CHECK(alpi_task_unblock(task) == ALPI_SUCCESS);
    }
    return NULL;
}

static void pairs(void *argument) {
    spawned *it = argument;
    struct alpi_task *task = self();
    int suspends = it->ran % 2;
    it->ran++;
    CHECK(it->seen >= it->ran - 1);
    if (it->ran > 1000) return;
    if (suspends) {
        CHECK(alpi_task_suspend(task) == ALPI_SUCCESS);
        it->task = task;
        return;
    }
    it->task = task;
    CHECK(alpi_task_block(task) == ALPI_SUCCESS);
    CHECK(alpi_task_suspend_mode_set(task, ALPI_SUSPEND_SUBMIT, 0) == ALPI_SUCCESS);
    CHECK(alpi_task_suspend(task) == ALPI_SUCCESS);
}

static void body(void *argument) {
    (void)argument;
    blocking_and_events();
    suspending();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, world, NULL) == 0);
    spawn(pairs, &partner, "pairs");
    rest_until(&partner.over, 1);
    CHECK(pthread_join(thread, NULL) == 0 && partner.ran == 1001 && partner.seen == 1000);
}

int main(void) {
    versions_and_texts();
    attributes();
    outside_of_tasks(0);
    castell_options options = {0};
    options.workers = 2;
    castell_runtime *runtime = NULL, *other = NULL;
    const char *schedulers[] = {"tree", "tree:fifo", "central", "delegation"};
    for (int i = 0; i < 4; i++) {
        options.scheduler = schedulers[i];
        ordered = destroyed = 0;
        memset(&partner, 0, sizeof partner);
        CHECK(castell_start(&runtime, &options) == 0);
        outside_of_tasks(1);
        CHECK(castell_run(runtime, body, NULL) == 0);
        spawned left = {0};
        CHECK(castell_start(&other, NULL) == 0);
        spawn(has_children, &left, "left"); /* from outside: on the first; stopping waits for it */
        CHECK(castell_stop(runtime) == 0);
        CHECK(left.over == 1 && left.seen == 2);
        CHECK(castell_stop(other) == 0);
    }
    outside_of_tasks(0);
    puts("alpi: all 22 functions, on four schedulers");
    return 0;
}
