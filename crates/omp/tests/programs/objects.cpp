// Objects in tasks: copied once for each task and destroyed; threads that no OpenMP library knows; exceptions inside.
#include <atomic>
#include <cstdio>
#include <omp.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> alive{0};

struct Counted {
    std::string text;
    explicit Counted(const char *from) : text(from) { alive++; }
    Counted(const Counted &other) : text(other.text) { alive++; }
    Counted &operator=(const Counted &) = default;
    ~Counted() { alive--; }
};

int main() {
    std::atomic<int> letters{0}, caught{0};
    {
        Counted word("castell, a tower of people that is longer than a short string");
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < 100; i++) {
#pragma omp task firstprivate(word) shared(letters) if (i % 3 != 0)
            letters += static_cast<int>(word.text.size());
        }
#pragma omp parallel
#pragma omp single
#pragma omp taskloop firstprivate(word) shared(letters) num_tasks(9)
        for (int i = 0; i < 50; i++) {
            letters += static_cast<int>(word.text.size());
        }
    }
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < 10; i++) {
#pragma omp task shared(caught)
        try {
            throw std::runtime_error("inside");
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    std::vector<std::thread> threads;
    std::atomic<long> sum{0};
    for (int t = 0; t < 3; t++) {
        threads.emplace_back([&sum] {
#pragma omp task shared(sum)
            sum += 1;
#pragma omp parallel num_threads(2)
#pragma omp single
            for (int i = 0; i < 100; i++) {
#pragma omp task shared(sum)
                sum += 10;
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    std::printf("letters %d, alive %d, caught %d, sum %ld\n", letters.load(), alive.load(), caught.load(), sum.load());
    return 0;
}
