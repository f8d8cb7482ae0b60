/* A program that brings a strategy of its own to a daemon, and says where its kernels ran.
 *
 *     own STRATEGY|FILE RUNS */
#define _DEFAULT_SOURCE
#include <castell_kernels.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int on[2];

static void on_one_core(void *argument, uint32_t step) { (void)argument, (void)step, on[0]++; }
static void on_gpu(void *argument, uint32_t step) { (void)argument, (void)step, on[1]++; }

static int fail(const char *what) {
    fprintf(stderr, "own: %s: %s\n", what, castell_kernels_error());
    return 1;
}

int main(int count, char **words) {
    castell_application *application;
    castell_collection *collection;
    const castell_kernel kernels[] = {{"one_core", on_one_core, .1}, {"gpu", on_gpu, .2}};
    if (count != 3) return 2;
    if (castell_application_open(&application, "own") != 0) return fail("open");
    if (!castell_application_has_daemon(application)) usleep(100000);
    if (castell_collection_register(&collection, application, kernels, 2, NULL, 0) != 0) return fail("register");
    int is_file = access(words[1], R_OK) == 0;
    int brought = is_file ? castell_application_strategy_file(application, words[1])
                          : castell_application_strategy(application, words[1], NULL);
    for (int run = 0; run < atoi(words[2]); run++) {
        if (castell_collection_run(collection, NULL, 2) != 0) return fail("run");
    }
    char why[400];
    int state = castell_application_strategy_state(application, why, sizeof why);
    printf("brought %d, state %d, daemon %d: %d on one core, %d on the GPU; %s\n", brought, state,
           castell_application_has_daemon(application), on[0], on[1], why);
    castell_collection_free(collection);
    return castell_application_close(application);
}
