/* Random graphs of tasks with versions for the processors and for two kinds of devices: whatever is chosen, by whom, they do what they do in
 * order. Says how often which version ran.
 *
 *     versions SEED TASKS ROUNDS [DAEMON] */
#define _DEFAULT_SOURCE
#include <castell_tasks.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CELLS = 12, GPU = 1, FAR = 7 };
static uint64_t cells[CELLS], in_order[CELLS], state;
static atomic_uint on[3], runs;
static unsigned tasks, asked;

typedef struct job {
    unsigned number, first, end, read, sleeps_us, has_child;
} job;

static unsigned below(unsigned limit) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)((state >> 32) % limit);
}

static void mix(const job *it, unsigned first, unsigned end, uint64_t *on_cells, uint64_t read) {
    for (unsigned i = first; i < end; i++) on_cells[i] = (on_cells[i] ^ it->number) * 0x9e3779b97f4a7c15u + read;
}

static uint64_t read_for(const job *it, const uint64_t *of) { return it->read >= it->first && it->read < it->end ? 0 : of[it->read]; }

static void child(void *argument) {
    const job *it = argument;
    mix(it, it->first, it->end, cells, it->read);
}

static void submit_child(const job *it, uint64_t read);

static void work(void *argument) {
    const job *it = argument;
    uint64_t read = read_for(it, cells);
    runs++;
    /* One that sleeps gives its place back: another one may need it to wake this. */
    if (it->sleeps_us > 0) castell_block_for(it->sleeps_us * 1000);
    if (it->has_child) {
        submit_child(it, read);
        if (castell_taskwait() != 0) castell_fail("the child failed", NULL, NULL);
    } else {
        mix(it, it->first, it->end, cells, read);
    }
}

static void here(void *it) { atomic_fetch_add(&on[0], 1), work(it); }
static void near(void *it) { atomic_fetch_add(&on[1], 1), work(it); }
static void far(void *it) { atomic_fetch_add(&on[2], 1), work(it); }

static castell_access whole(int kind, unsigned first, unsigned end) {
    return (castell_access){.kind = kind, .start = &cells[first], .bytes = (end - first) * sizeof *cells};
}

static void submit_child(const job *it, uint64_t read) {
    static const castell_version versions[] = {{.body = child}, {GPU, child, 0}, {FAR, child, 0}};
    job part = *it;
    part.read = (unsigned)read;
    castell_access access = whole(CASTELL_INOUT, it->first, it->end);
    castell_task task = {.label = "child"};
    if (castell_submit_versions(versions, 3, &part, sizeof part, &access, 1, &task) != 0) abort();
}

static void program(void *unused) {
    static const castell_version all[] = {{.body = here}, {GPU, near, 0}, {FAR, far, 0}};
    static const char *const labels[] = {"one", "two", "three"};
    for (unsigned number = 0; number < tasks; number++) {
        unsigned first = below(CELLS), left_out = below(6), count = 0;
        job it = {number, first, first + 1 + below(CELLS - first), below(CELLS), below(8) ? 0 : below(300), 0};
        it.has_child = it.sleeps_us == 0 && below(8) == 0; /* whose parent still has its place: it asks for none */
        castell_version versions[3];
        for (unsigned i = 0; i < 3; i++)
            if (i != left_out) versions[count++] = all[i];
        castell_access accesses[] = {whole(CASTELL_INOUT, it.first, it.end), whole(CASTELL_IN, it.read, it.read + 1)};
        castell_task task = {.label = labels[below(3)], .flags = below(4) ? 0 : CASTELL_RANKED};
        uint64_t read = read_for(&it, in_order);
        mix(&it, it.first, it.end, in_order, it.has_child ? (unsigned)read : read);
        if (castell_submit_versions(versions, count, &it, sizeof it, accesses, 2, &task) != 0) abort();
    }
    (void)unused;
}

int main(int count, char **words) {
    if (count < 4) return 2;
    unsigned rounds = (unsigned)atoi(words[3]);
    tasks = (unsigned)atoi(words[2]);
    for (unsigned round = 0; round < rounds; round++) {
        state = (strtoull(words[1], NULL, 10) + round) * 0x9e3779b97f4a7c15u | 1;
        int handle = 0;
        const castell_device devices[] = {{GPU, &handle, NULL}, {FAR, &handle, "fpga"}};
        castell_options options = {.workers = 2, .devices = devices, .device_count = 2, .resource = "one_core"};
        options.daemon = count > 4 ? words[4] : NULL;
        castell_runtime *runtime;
        if (castell_start(&runtime, &options) != 0 || castell_run(runtime, program, NULL) != 0) {
            fprintf(stderr, "seed %s, round %u: %s\n", words[1], round, castell_tasks_error());
            return 1;
        }
        castell_stop(runtime);
        asked += tasks;
        for (unsigned i = 0; i < CELLS; i++) {
            if (cells[i] != in_order[i] || runs != asked) {
                fprintf(stderr, "seed %s, round %u: cell %u differs, or one of %u tasks ran %u times\n", words[1], round, i, asked, runs);
                return 1;
            }
        }
    }
    printf("%u tasks as in order: %u here, %u on the GPU, %u far\n", asked, on[0], on[1], on[2]);
    return 0;
}
