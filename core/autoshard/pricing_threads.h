// Threads that price plans: first those that somebody waits for, then those that are likely to be
// asked for next.
#ifndef GSHARD_CORE_AUTOSHARD_PRICING_THREADS_H_
#define GSHARD_CORE_AUTOSHARD_PRICING_THREADS_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/autoshard/plan_space.h"
#include "core/estimate/plan.h"

namespace gshard::autoshard {

// A plan to be priced. Plans of one space with equal keys have equal figures.
struct PlanToPrice {
  std::string key;
  Plan plan;
};

// For one caller. What it gets does not depend on the number of threads.
class PricingThreads {
 public:
  // Prices a plan; nothing where it cannot be partitioned. Called on thread `thread` < the number
  // of threads, never twice at a time for the same one.
  using Price = std::function<std::optional<PlanFigures>(const Plan& plan, size_t thread)>;

  PricingThreads(size_t threads, Price price);
  ~PricingThreads();  // waits for what is being priced
  PricingThreads(const PricingThreads&) = delete;
  PricingThreads& operator=(const PricingThreads&) = delete;

  // Returns the figures of `plans`, in their order, each with another key. Threads that find no
  // more of them to price go on with `next`, also after this has returned; one thread alone does
  // not, as `next` would only keep it from `plans`. Throws what pricing one
  // of `plans` has thrown.
  std::vector<std::optional<PlanFigures>> Run(const std::vector<PlanToPrice>& plans,
                                              const std::vector<PlanToPrice>& next);

 private:
  struct Task {
    explicit Task(Plan of) : plan(std::move(of)) {}

    Plan plan;
    enum class State : uint8_t { kWaiting, kRunning, kDone } state = State::kWaiting;
    std::optional<PlanFigures> figures;
    std::exception_ptr thrown;
  };
  void Work(size_t thread);
  // A task that waits to be run, if there is one.
  std::shared_ptr<Task> Take();

  const Price price_;
  std::mutex mutex_;  // of all that follows but the threads
  std::condition_variable to_do_, done_;
  bool ends_ = false;
  std::deque<std::shared_ptr<Task>> asked_, ahead_;                // some of them already taken
  std::unordered_map<std::string, std::shared_ptr<Task>> by_key_;  // not yet asked for
  std::vector<std::jthread> threads_;
};

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PRICING_THREADS_H_
