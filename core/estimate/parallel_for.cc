#include "core/estimate/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gshard {

int ThreadsOrCores(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void ParallelFor(size_t count, int threads,
                 const std::function<void(size_t index, size_t thread)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr thrown;
  auto run = [&](size_t thread) {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i, thread);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!thrown) thrown = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::jthread> workers;
  for (size_t i = 1; i < static_cast<size_t>(threads) && i < count; ++i) {
    workers.emplace_back(run, i);
  }
  run(0);
  workers.clear();  // joins
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace gshard
