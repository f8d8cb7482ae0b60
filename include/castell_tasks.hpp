/* castell_tasks.hpp: castell_tasks.h with lambdas, for C++17. Exceptions of tasks come out of the wait.
 *
 *   castell::runtime runtime;
 *   runtime.run([&] {
 *       castell::submit([&] { a = f(); }, castell::out(a));
 *       castell::submit([&] { b = g(a); }, castell::in(a), castell::out(b));
 *       castell::taskwait();
 *   });
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef CASTELL_TASKS_HPP
#define CASTELL_TASKS_HPP

#include "castell_tasks.h"

#include <array>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace castell {

/* A failure that was no exception: castell_fail, a limit, a panic in Rust. */
class error : public std::runtime_error {
  public:
    explicit error(const char *message) : std::runtime_error(message) {}
};

namespace detail {

/* Throws what a failed call means. */
inline void check(int result) {
    if (result >= 0) {
        return;
    }
    if (void *payload = castell_failure_payload()) {
        std::rethrow_exception(*static_cast<std::exception_ptr *>(payload));
    }
    throw error(castell_tasks_error());
}

/* Turns the exception that is being handled into a failure of the task. */
inline void fail_with_current_exception() noexcept {
    auto *payload = new (std::nothrow) std::exception_ptr(std::current_exception());
    auto drop = [](void *pointer) { delete static_cast<std::exception_ptr *>(pointer); };
    try {
        throw;
    } catch (const std::exception &exception) {
        castell_fail(exception.what(), payload, drop);
    } catch (...) {
        castell_fail("an exception that is no std::exception", payload, drop);
    }
}

template <class Function> void call(void *argument) noexcept {
    try {
        (*static_cast<Function *>(argument))();
    } catch (...) {
        fail_with_current_exception();
    }
}

/* A function that runs below this stack frame: its exception is kept for the caller. */
template <class Function> struct kept {
    Function *function;
    std::exception_ptr thrown;

    static void call(void *argument) noexcept {
        auto *self = static_cast<kept *>(argument);
        try {
            (*self->function)();
        } catch (...) {
            self->thrown = std::current_exception();
        }
    }

    void finish(int result) const {
        if (thrown) {
            std::rethrow_exception(thrown);
        }
        check(result);
    }
};

} // namespace detail

/* --------------------------------------------------------------------------------------------------------- Accesses */

/* Accesses of a castell_kind to `count` values from `start` on. */
template <class T> castell_access access(int kind, T *start, std::size_t count) {
    using plain = std::remove_const_t<T>;
    return {kind, const_cast<plain *>(start), count * sizeof(T), 0, 1, nullptr};
}

/* What a task does with a value, or with `count` of them: reads, overwrites, both; both in any order with its neighbours, one at a time;
 * anything at the same time as its neighbours. */
template <class T> castell_access in(const T &value) { return access(CASTELL_IN, &value, 1); }
template <class T> castell_access in(const T *start, std::size_t count) { return access(CASTELL_IN, start, count); }
template <class T> castell_access out(T &value) { return access(CASTELL_OUT, &value, 1); }
template <class T> castell_access out(T *start, std::size_t count) { return access(CASTELL_OUT, start, count); }
template <class T> castell_access inout(T &value) { return access(CASTELL_INOUT, &value, 1); }
template <class T> castell_access inout(T *start, std::size_t count) { return access(CASTELL_INOUT, start, count); }
template <class T> castell_access commutative(T &value) { return access(CASTELL_COMMUTATIVE, &value, 1); }
template <class T> castell_access commutative(T *start, std::size_t count) {
    return access(CASTELL_COMMUTATIVE, start, count);
}
template <class T> castell_access concurrent(T &value) { return access(CASTELL_CONCURRENT, &value, 1); }
template <class T> castell_access concurrent(T *start, std::size_t count) {
    return access(CASTELL_CONCURRENT, start, count);
}
/* The same for `rows` rows, `stride` elements from one start to the next. */
template <class T> castell_access rows(castell_access row, std::size_t rows, std::size_t stride) {
    row.rows = rows;
    row.stride = stride * sizeof(T);
    return row;
}
/* Not the task, only its descendants. */
inline castell_access weak(castell_access strong) {
    strong.kind |= CASTELL_WEAK;
    return strong;
}

/* A reduction with an operation of the program's own; the task accumulates into castell::local(value). `Operation` has static
 * functions `T identity()` and `void combine(T &into, const T &from)`; T needs no destructor. */
template <class Operation, class T> castell_access reduction(T *start, std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T>, "copies are not destroyed");
    static const castell_reduction reduction = {
        sizeof(T), [](void *element) { new (element) T(Operation::identity()); },
        [](void *into, const void *from) { Operation::combine(*static_cast<T *>(into), *static_cast<const T *>(from)); }};
    castell_access result = access(CASTELL_REDUCTION, start, count);
    result.reduction = &reduction;
    return result;
}
template <class Operation, class T> castell_access reduction(T &value) { return reduction<Operation>(&value, 1); }

namespace detail {
template <class T> struct addition {
    static T identity() { return T{}; }
    static void combine(T &into, const T &from) { into += from; }
};
} // namespace detail

/* A sum of numbers. */
template <class T> castell_access sum(T &value) { return reduction<detail::addition<T>>(value); }

/* The copies of a reduction are combined in the order in which the tasks were created. */
inline castell_access in_order(castell_access reduction) {
    reduction.kind |= CASTELL_ORDERED;
    return reduction;
}

/* The task's own copy for a reduction. */
template <class T> T &local(T &value) { return *static_cast<T *>(castell_private(&value)); }

/* ------------------------------------------------------------------------------------------------------------ Tasks */

/* Creates a task that calls `function`, which is moved into it. */
template <class Function> void submit(const castell_task &task, Function &&function, const castell_access *accesses,
                                      std::size_t access_count) {
    using plain = std::decay_t<Function>;
    castell_task described = task;
    if constexpr (std::is_trivially_copyable_v<plain> && alignof(plain) <= 16) {
        detail::check(castell_submit(detail::call<plain>, &function, sizeof(plain), accesses, access_count, &described));
    } else {
        auto *moved = new plain(std::forward<Function>(function));
        described.flags |= CASTELL_BY_REFERENCE;
        described.destroy = [](void *argument) { delete static_cast<plain *>(argument); };
        const int result = castell_submit(detail::call<plain>, moved, 0, accesses, access_count, &described);
        if (result < 0) {
            delete moved;
        }
        detail::check(result);
    }
}

/* The same with the accesses as arguments. */
template <class Function, class... Access> void submit(const castell_task &task, Function &&function, Access... accesses) {
    const std::array<castell_access, sizeof...(Access)> list{accesses...};
    submit(task, std::forward<Function>(function), list.data(), list.size());
}

/* The same for a task without a label, a priority and so on. */
template <class Function, class... Access,
          class = std::enable_if_t<!std::is_same_v<std::decay_t<Function>, castell_task>>>
void submit(Function &&function, Access... accesses) {
    submit(castell_task{}, std::forward<Function>(function), accesses...);
}

namespace detail {
template <class Function> void call_range(void *argument, std::size_t first, std::size_t end) noexcept {
    try {
        (*static_cast<Function *>(argument))(first, end);
    } catch (...) {
        fail_with_current_exception();
    }
}

template <class Function, class Create> void create_loop(castell_task task, Function &&function, Create create) {
    using plain = std::decay_t<Function>;
    auto *moved = new plain(std::forward<Function>(function));
    task.destroy = [](void *argument) { delete static_cast<plain *>(argument); };
    const int result = create(call_range<plain>, moved, &task);
    if (result < 0) {
        delete moved;
    }
    check(result);
}
} // namespace detail

/* Creates a task for every `grain` numbers from `first` up to `end`, which calls `function(its first, its end)`. */
template <class Function, class... Access>
void taskloop(std::size_t first, std::size_t end, std::size_t grain, Function &&function, Access... accesses) {
    const std::array<castell_access, sizeof...(Access)> list{accesses...};
    detail::create_loop(castell_task{}, std::forward<Function>(function), [&](auto body, void *argument, auto *task) {
        return castell_taskloop(body, argument, first, end, grain, list.data(), list.size(), task);
    });
}

/* Creates one task whose ranges of `chunk` numbers are run by as many workers as come. */
template <class Function, class... Access>
void taskfor(std::size_t first, std::size_t end, std::size_t chunk, Function &&function, Access... accesses) {
    const std::array<castell_access, sizeof...(Access)> list{accesses...};
    detail::create_loop(castell_task{}, std::forward<Function>(function), [&](auto body, void *argument, auto *task) {
        return castell_taskfor(body, argument, first, end, chunk, list.data(), list.size(), task);
    });
}

/* The task needs these parts of what it declared no more. */
template <class... Access> void release(Access... accesses) {
    const std::array<castell_access, sizeof...(Access)> list{accesses...};
    detail::check(castell_release(list.data(), list.size()));
}

/* Waits for all tasks that this one created; throws the first exception, or failure, among them. */
inline void taskwait() { detail::check(castell_taskwait()); }

/* Waits for those of them that these accesses would have to wait for. */
template <class... Access> void taskwait_on(Access... accesses) {
    const std::array<castell_access, sizeof...(Access)> list{accesses...};
    detail::check(castell_taskwait_on(list.data(), list.size()));
}

/* Calls `function` once, in which submit describes the tasks of an iteration, and runs them so many times. */
template <class Function> void iterate(std::uint64_t iterations, Function &&function) {
    detail::kept<std::remove_reference_t<Function>> kept{&function, nullptr};
    auto describe = [](void *argument) noexcept -> int {
        auto *self = static_cast<decltype(kept) *>(argument);
        self->call(self);
        return self->thrown ? 1 : 0;
    };
    kept.finish(castell_iterate(describe, &kept, iterations));
}

/* Calls `function` and waits for the tasks that it creates. */
template <class Function> void group(Function &&function) {
    detail::kept<std::remove_reference_t<Function>> kept{&function, nullptr};
    kept.finish(castell_group(kept.call, &kept));
}

/* A runtime from castell_start; going out of scope waits for its tasks and ends it. */
class runtime {
  public:
    runtime() : runtime(castell_options{}) {}
    explicit runtime(const castell_options &options) { detail::check(castell_start(&handle_, &options)); }
    runtime(const runtime &) = delete;
    runtime &operator=(const runtime &) = delete;
    ~runtime() { castell_stop(handle_); }

    /* Runs `function` as a task and waits for it and for all that it creates. */
    template <class Function> void run(Function &&function) {
        detail::kept<std::remove_reference_t<Function>> kept{&function, nullptr};
        kept.finish(castell_run(handle_, kept.call, &kept));
    }

    castell_runtime *handle() const { return handle_; }

  private:
    castell_runtime *handle_ = nullptr;
};

} // namespace castell

#endif /* CASTELL_TASKS_HPP */
