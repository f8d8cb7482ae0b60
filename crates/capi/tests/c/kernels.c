/* castell_kernels.h without a daemon: where kernels run, who waits for whom, and what is refused. */
#define _DEFAULT_SOURCE
#include <castell_kernels.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                              \
    do {                                                                                                              \
        if (!(condition)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, castell_kernels_error());             \
            exit(1);                                                                                                  \
        }                                                                                                             \
    } while (0)

enum { THREADS = 70, ROUNDS = 20 };

static atomic_int busy[2], steps_run[2];

static void work(int resource, void *argument, uint32_t step) {
    uint32_t *next = argument;
    CHECK(step == (*next)++);
    CHECK(atomic_fetch_add(&busy[resource], 1) == 0); /* nobody else is on it */
    usleep(20);
    steps_run[resource]++;
    atomic_fetch_sub(&busy[resource], 1);
}

static void on_one_core(void *argument, uint32_t step) { work(0, argument, step); }
static void on_gpu(void *argument, uint32_t step) { work(1, argument, step); }

static void *run_some(void *collection) {
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t next = 0;
        CHECK(castell_collection_run(collection, &next, 1 + round % 3) == 0);
        CHECK(next == 1u + (uint32_t)round % 3);
    }
    return NULL;
}

int main(void) {
    castell_application *application;
    castell_collection *collection, *other;
    const castell_kernel kernels[] = {{"one_core", on_one_core, 0}, {"gpu", on_gpu, .5}};
    const char *const order[] = {"gpu", "one_core"}, *const foreign[] = {"gpu", "fpga"};
    const castell_ranking energy = {"energy", order, 2}, wrong = {"accuracy", foreign, 2};

    CHECK(castell_application_open(NULL, "x") == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_application_open(&application, NULL) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_application_open(&application, "kernels") == 0);
    CHECK(castell_application_has_daemon(application) == 0);

    /* Nobody is there who could read a strategy: it waits for a daemon, and the ranking decides. */
    char why[8] = "before";
    CHECK(castell_application_strategy_state(application, why, sizeof why) == CASTELL_STRATEGY_NONE && !why[0]);
    CHECK(castell_application_strategy(application, "mine", "return {}") == 0);
    CHECK(castell_application_strategy_state(application, NULL, 0) == CASTELL_STRATEGY_ALONE);
    CHECK(castell_application_strategy(application, "banking:limit", NULL) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(strstr(castell_kernels_error(), "`limit` is no parameter"));
    CHECK(castell_application_strategy(application, NULL, "return {}") == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_application_strategy(NULL, "banking", NULL) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_application_strategy_file(application, "/there/is/no.luau") == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(strstr(castell_kernels_error(), "/there/is/no.luau"));
    CHECK(castell_application_strategy(application, NULL, NULL) == 0);
    CHECK(castell_application_strategy_state(application, NULL, 0) == CASTELL_STRATEGY_NONE);

    CHECK(castell_collection_register(&collection, application, kernels, 2, &energy, 1) == 0);
    uint32_t next = 0;
    CHECK(castell_collection_run(collection, &next, 1) == 0);
    CHECK(steps_run[0] == 0 && steps_run[1] == 1); /* the best of the ranking, where all are free */

    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, run_some, collection) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    int wanted = 1;
    for (int round = 0; round < ROUNDS; round++) wanted += THREADS * (1 + round % 3);
    CHECK(steps_run[0] + steps_run[1] == wanted && steps_run[0] > 0);

    CHECK(castell_collection_register(&other, application, kernels, 0, NULL, 0) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_collection_register(&other, application, NULL, 2, NULL, 0) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_collection_register(&other, NULL, kernels, 2, NULL, 0) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_collection_register(&other, application, kernels, 2, &wrong, 1) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(strstr(castell_kernels_error(), "accuracy"));
    const castell_kernel twice[] = {kernels[0], kernels[0]}, none = {"gpu", NULL, 0}, never = {"gpu", on_gpu, -1};
    CHECK(castell_collection_register(&other, application, twice, 2, NULL, 0) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_collection_register(&other, application, &none, 1, NULL, 0) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_collection_register(&other, application, &never, 1, NULL, 0) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_collection_run(collection, &next, 0) == CASTELL_KERNELS_ERR_REFUSED);
    CHECK(castell_collection_run(NULL, &next, 1) == CASTELL_KERNELS_ERR_ARGUMENT);

    CHECK(castell_application_close(application) == 0);
    CHECK(castell_collection_run(collection, &next, 1) == CASTELL_KERNELS_ERR_REFUSED);
    CHECK(castell_collection_free(collection) == 0);
    CHECK(castell_collection_free(NULL) == CASTELL_KERNELS_ERR_ARGUMENT);
    CHECK(castell_application_close(NULL) == CASTELL_KERNELS_ERR_ARGUMENT);
    printf("kernels in steps: %d\n", wanted);
    return 0;
}
