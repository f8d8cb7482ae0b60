// For runtimes that are told each task's predecessors: who touched a cell last.
#ifndef CASTELL_BENCH_LAST_HPP
#define CASTELL_BENCH_LAST_HPP

#include "tasks.h"

#include <optional>
#include <vector>

template <typename Task> struct Last {
    // By cell: its last writer, and who has read it since.
    std::vector<std::optional<Task>> writer;
    std::vector<std::vector<Task>> readers;

    Last() {
        size_t count = sizes.chains * CELL_CHAIN + sizes.side * sizes.side + sizes.tiles * sizes.tiles;
        writer.resize(count);
        readers.resize(count);
    }

    // The tasks before one that reads and writes these cells.
    void before(long *in0, long *in1, long *inout, std::vector<Task> &tasks) {
        tasks.clear();
        for (long *in : {in0, in1}) {
            if (in != nullptr && writer[in - cells]) {
                tasks.push_back(*writer[in - cells]);
            }
        }
        auto &readers_here = readers[inout - cells];
        tasks.insert(tasks.end(), readers_here.begin(), readers_here.end());
        if (readers_here.empty() && writer[inout - cells]) {
            tasks.push_back(*writer[inout - cells]);
        }
    }

    void after(long *in0, long *in1, long *inout, const Task &task) {
        for (long *in : {in0, in1}) {
            if (in != nullptr) {
                readers[in - cells].push_back(task);
            }
        }
        readers[inout - cells].clear();
        writer[inout - cells] = task;
    }
};

#endif
