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

template <class T> castell_access access(int kind, T *start, std::size_t count) {
    using plain = std::remove_const_t<T>;
    return {kind, const_cast<plain *>(start), count * sizeof(T), 0, 1, nullptr};
}

template <class T> castell_access in(const T &value) { return access(CASTELL_IN, &value, 1); }
template <class T> castell_access in(const T *start, std::size_t count) { return access(CASTELL_IN, start, count); }
template <class T> castell_access out(T &value) { return access(CASTELL_OUT, &value, 1); }
template <class T> castell_access out(T *start, std::size_t count) { return access(CASTELL_OUT, start, count); }
template <class T> castell_access inout(T &value) { return access(CASTELL_INOUT, &value, 1); }
template <class T> castell_access inout(T *start, std::size_t count) { return access(CASTELL_INOUT, start, count); }
template <class T> castell_access commutative(T &value) { return access(CASTELL_COMMUTATIVE, &value, 1); }
template <class T> castell_access concurrent(T &value) { return access(CASTELL_CONCURRENT, &value, 1); }
inline castell_access weak(castell_access strong) {
    strong.kind |= CASTELL_WEAK;
    return strong;
}

/* A sum of numbers; the task adds to castell::local(value). */
template <class T> castell_access sum(T &value) {
    static const castell_reduction reduction = {
        sizeof(T), [](void *element) { new (element) T{}; },
        [](void *into, const void *from) { *static_cast<T *>(into) += *static_cast<const T *>(from); }};
    castell_access result = access(CASTELL_REDUCTION, &value, 1);
    result.reduction = &reduction;
    return result;
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

template <class Function, class... Access> void submit(const castell_task &task, Function &&function, Access... accesses) {
    const std::array<castell_access, sizeof...(Access)> list{accesses...};
    submit(task, std::forward<Function>(function), list.data(), list.size());
}

template <class Function, class... Access,
          class = std::enable_if_t<!std::is_same_v<std::decay_t<Function>, castell_task>>>
void submit(Function &&function, Access... accesses) {
    submit(castell_task{}, std::forward<Function>(function), accesses...);
}

inline void taskwait() { detail::check(castell_taskwait()); }

template <class... Access> void taskwait_on(Access... accesses) {
    const std::array<castell_access, sizeof...(Access)> list{accesses...};
    detail::check(castell_taskwait_on(list.data(), list.size()));
}

/* Calls `function` and waits for the tasks that it creates. */
template <class Function> void group(Function &&function) {
    detail::kept<std::remove_reference_t<Function>> kept{&function, nullptr};
    kept.finish(castell_group(kept.call, &kept));
}

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
