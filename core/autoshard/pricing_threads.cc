// See pricing_threads.h.

#include "core/autoshard/pricing_threads.h"

#include <algorithm>
#include <utility>

namespace gshard::autoshard {

PricingThreads::PricingThreads(size_t threads, Price price) : price_(std::move(price)) {
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { Work(i); });
}

PricingThreads::~PricingThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  to_do_.notify_all();
  threads_.clear();  // joins
}

std::vector<std::optional<PlanFigures>> PricingThreads::Run(const std::vector<PlanToPrice>& plans,
                                                            const std::vector<PlanToPrice>& next) {
  std::vector<std::shared_ptr<Task>> tasks;
  std::unique_lock lock(mutex_);
  for (const PlanToPrice& plan : plans) {
    if (auto known = by_key_.extract(plan.key)) {
      tasks.push_back(std::move(known.mapped()));
    } else {
      tasks.push_back(std::make_shared<Task>(plan.plan));
    }
    if (tasks.back()->state == Task::State::kWaiting) asked_.push_back(tasks.back());
  }
  ahead_.clear();
  std::erase_if(by_key_,
                [](const auto& one) { return one.second->state == Task::State::kWaiting; });
  for (const PlanToPrice& plan : next) {
    if (threads_.size() == 1) break;
    const auto [task, is_new] = by_key_.try_emplace(plan.key, nullptr);
    if (!is_new) continue;
    task->second = std::make_shared<Task>(plan.plan);
    ahead_.push_back(task->second);
  }
  to_do_.notify_all();
  std::vector<std::optional<PlanFigures>> figures;
  for (const std::shared_ptr<Task>& task : tasks) {
    done_.wait(lock, [&] { return task->state == Task::State::kDone; });
    if (task->thrown) {
      asked_.clear();
      std::rethrow_exception(task->thrown);
    }
    figures.push_back(std::move(task->figures));
  }
  return figures;
}

std::shared_ptr<PricingThreads::Task> PricingThreads::Take() {
  for (std::deque<std::shared_ptr<Task>>* list : {&asked_, &ahead_}) {
    while (!list->empty()) {
      std::shared_ptr<Task> task = std::move(list->front());
      list->pop_front();
      if (task->state == Task::State::kWaiting) return task;
    }
  }
  return nullptr;
}

void PricingThreads::Work(size_t thread) {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    const std::shared_ptr<Task> task = Take();
    if (task == nullptr) {
      to_do_.wait(lock);
      continue;
    }
    task->state = Task::State::kRunning;
    lock.unlock();
    try {
      task->figures = price_(task->plan, thread);
    } catch (...) {
      task->thrown = std::current_exception();
    }
    lock.lock();
    task->state = Task::State::kDone;
    done_.notify_one();
  }
}

}  // namespace gshard::autoshard
