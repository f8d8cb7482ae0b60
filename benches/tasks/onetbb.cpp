// The workloads with oneTBB: task groups, and for dependent tasks a flow graph, which is told each task's predecessors. The
// graph is built and run in each sample; with --again it is built once, and its runs alone are measured. With --order tasks of a
// group are put behind others, where the library knows that (2022.3 and later).
#define TBB_PREVIEW_TASK_GROUP_EXTENSIONS 1
#include "last.hpp"

#include <deque>
#include <memory>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>
#include <vector>

namespace tbb = oneapi::tbb;

static tbb::task_arena *arena;

static void empty(const char *) {
    arena->execute([] {
        tbb::task_group group;
        for (long i = 0; i < sizes.tasks; i++) {
            group.run([] {});
        }
        group.wait();
    });
}

static void halve(tbb::task_group &group, long elements) {
    if (elements <= sizes.block) {
        spin(elements);
        return;
    }
    long half = elements / 2;
    group.run([&group, half] { halve(group, half); });
    group.run([&group, half, elements] { halve(group, elements - half); });
}

static void axpy(const char *) {
    arena->execute([] {
        tbb::task_group group;
        halve(group, sizes.elements);
        group.wait();
    });
}

static long fib(long number) {
    if (number < 2) {
        return number;
    }
    long a, b;
    tbb::task_group group;
    group.run([&a, number] { a = fib(number - 1); });
    group.run([&b, number] { b = fib(number - 2); });
    group.wait();
    return a + b;
}

static void fibonacci_run(const char *) {
    long result = 0;
    arena->execute([&result] { result = fib(sizes.number); });
    fibonacci_check(sizes.number, result);
}

using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;

struct Graph {
    tbb::flow::graph graph;
    std::deque<Node> nodes;
    Last<Node *> last;
    std::vector<Node *> first;
};
static Graph *building;
static std::unique_ptr<Graph> built;

static void add_node(long *in0, long *in1, long *inout) {
    static std::vector<Node *> before;
    Graph &g = *building;
    Node &node = g.nodes.emplace_back(g.graph, [](const tbb::flow::continue_msg &) {});
    g.last.before(in0, in1, inout, before);
    for (Node *task : before) {
        tbb::flow::make_edge(*task, node);
    }
    if (before.empty()) {
        g.first.push_back(&node);
    }
    g.last.after(in0, in1, inout, &node);
}

static std::unique_ptr<Graph> build(const char *workload) {
    auto graph = std::make_unique<Graph>();
    building = graph.get();
    for_each_node(workload, add_node);
    return graph;
}

static void graph(const char *workload) {
    arena->execute([workload] {
        if (!sizes.again || built == nullptr) {
            built = nullptr;
            built = build(workload);
        }
        for (Node *node : built->first) {
            node->try_put(tbb::flow::continue_msg());
        }
        built->graph.wait_for_all();
    });
}

#if TBB_INTERFACE_VERSION >= 12170
static tbb::task_group *ordered_group;
static Last<tbb::task_completion_handle> *ordered_last;

static void add_ordered(long *in0, long *in1, long *inout) {
    static std::vector<tbb::task_completion_handle> before;
    tbb::task_handle task = ordered_group->defer([] {});
    ordered_last->before(in0, in1, inout, before);
    for (tbb::task_completion_handle &pred : before) {
        tbb::task_group::set_task_order(pred, task);
    }
    ordered_last->after(in0, in1, inout, tbb::task_completion_handle(task));
    ordered_group->run(std::move(task));
    before.clear();
}

static void ordered(const char *workload) {
    arena->execute([workload] {
        tbb::task_group group;
        Last<tbb::task_completion_handle> last;
        ordered_group = &group;
        ordered_last = &last;
        for_each_node(workload, add_ordered);
        group.wait();
    });
}
#define ORDERED {"chain", ordered}, {"chains", ordered}, {"wave", ordered}, {"chol", ordered},
#else
#define ORDERED
#endif

static void start() {
    static tbb::global_control control(tbb::global_control::max_allowed_parallelism, sizes.workers);
    arena = new tbb::task_arena(sizes.workers);
}

static void stop() {
    built = nullptr;
    delete arena;
}

int main(int argc, char **argv) {
    static const bench all[] = {{"empty", empty},  {"axpy", axpy},   {"fib", fibonacci_run}, {"chain", graph},
                                {"chains", graph}, {"wave", graph},  {"chol", graph},        {nullptr, nullptr}};
    static const bench again[] = {
        {"chain", graph}, {"chains", graph}, {"wave", graph}, {"chol", graph}, {nullptr, nullptr}};
    static const bench order[] = {ORDERED{nullptr, nullptr}};
    const bench *table = measure_word(argc, argv, "--again") != nullptr   ? again
                         : measure_word(argc, argv, "--order") != nullptr ? order
                                                                          : all;
    return tasks_main(argc, argv, table, start, stop);
}
