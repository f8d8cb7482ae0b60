// The workloads with Taskflow (C++20). Dependent tasks are told their predecessors: as a graph that is built and run in each
// sample; with --again as one that is built once, its runs alone being measured; with --async as asynchronous tasks that
// name the tasks before them.
#include "last.hpp"

#include <memory>
#include <taskflow/taskflow.hpp>
#include <vector>

static tf::Executor *executor;
static bool as_async;

static void empty(const char *) {
    for (long i = 0; i < sizes.tasks; i++) {
        executor->silent_async([] {});
    }
    executor->wait_for_all();
}

static void halve(long elements) {
    if (elements <= sizes.block) {
        spin(elements);
        return;
    }
    long half = elements / 2;
    executor->silent_async([half] { halve(half); });
    executor->silent_async([half, elements] { halve(elements - half); });
}

static void axpy(const char *) {
    executor->silent_async([] { halve(sizes.elements); });
    executor->wait_for_all();
}

static long fib(long number) {
    if (number < 2) {
        return number;
    }
    long a, b;
    tf::TaskGroup group = executor->task_group();
    group.silent_async([&a, number] { a = fib(number - 1); });
    group.silent_async([&b, number] { b = fib(number - 2); });
    group.corun();
    return a + b;
}

static void fibonacci_run(const char *) {
    fibonacci_check(sizes.number, executor->async([] { return fib(sizes.number); }).get());
}

static tf::Taskflow *flow;
static std::unique_ptr<tf::Taskflow> built;
static Last<tf::Task> *last_node;
static Last<tf::AsyncTask> *last_async;

static void add_node(long *in0, long *in1, long *inout) {
    static std::vector<tf::Task> before;
    last_node->before(in0, in1, inout, before);
    tf::Task node = flow->emplace([] {});
    for (tf::Task &task : before) {
        node.succeed(task);
    }
    last_node->after(in0, in1, inout, node);
}

static void add_async(long *in0, long *in1, long *inout) {
    static std::vector<tf::AsyncTask> before;
    last_async->before(in0, in1, inout, before);
    tf::AsyncTask task = executor->silent_dependent_async([] {}, before.begin(), before.end());
    last_async->after(in0, in1, inout, task);
    before.clear();
}

static void graph(const char *workload) {
    if (as_async) {
        Last<tf::AsyncTask> last;
        last_async = &last;
        for_each_node(workload, add_async);
        executor->wait_for_all();
        return;
    }
    if (!sizes.again || built == nullptr) {
        Last<tf::Task> last;
        last_node = &last;
        built = std::make_unique<tf::Taskflow>();
        flow = built.get();
        for_each_node(workload, add_node);
    }
    executor->run(*built).wait();
}

static void start() { executor = new tf::Executor(sizes.workers); }

static void stop() {
    built = nullptr;
    delete executor;
}

int main(int argc, char **argv) {
    static const bench all[] = {{"empty", empty},  {"axpy", axpy},  {"fib", fibonacci_run}, {"chain", graph},
                                {"chains", graph}, {"wave", graph}, {"chol", graph},        {nullptr, nullptr}};
    static const bench graphs[] = {
        {"chain", graph}, {"chains", graph}, {"wave", graph}, {"chol", graph}, {nullptr, nullptr}};
    as_async = measure_word(argc, argv, "--async") != nullptr;
    bool only_graphs = as_async || measure_word(argc, argv, "--again") != nullptr;
    return tasks_main(argc, argv, only_graphs ? graphs : all, start, stop);
}
