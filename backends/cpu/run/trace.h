// Who ran what when: Chrome trace events, one process a rank, one row a thread (opens in Perfetto).
#ifndef GSHARD_BACKENDS_CPU_RUN_TRACE_H_
#define GSHARD_BACKENDS_CPU_RUN_TRACE_H_

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gshard::cpu {

class Trace {
 public:
  explicit Trace(int threads) : rows_(static_cast<size_t>(threads) + 1) {}

  using Clock = std::chrono::steady_clock;
  // Row 0 holds the steps, row 1 + worker what a worker ran. Each row belongs to one thread. A row
  // ends after so many events: a loop would fill the memory, and no viewer shows them.
  static constexpr size_t kMaxEvents = 1'000'000;
  void Add(int row, std::string_view name, Clock::time_point begin, Clock::time_point end) {
    std::vector<Event>& events = rows_[static_cast<size_t>(row)];
    if (events.size() < kMaxEvents) events.push_back({std::string(name), begin, end});
  }
  // The events of this process, its rank and its name first; times are since this was made.
  std::string Events(int rank, std::string_view process) const;
  // A whole document of the events of one or more processes.
  static std::string ToJson(std::span<const std::string> processes);

 private:
  struct Event {
    std::string name;
    Clock::time_point begin, end;
  };
  Clock::time_point start_ = Clock::now();
  std::vector<std::vector<Event>> rows_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_TRACE_H_
