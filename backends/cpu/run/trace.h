// Who ran what when, one process a rank, one row a thread: Chrome trace events, or Perfetto's own
// format (ui.perfetto.dev opens both).
#ifndef GSHARD_BACKENDS_CPU_RUN_TRACE_H_
#define GSHARD_BACKENDS_CPU_RUN_TRACE_H_

#include <chrono>
#include <cstdint>
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
  enum class Format : uint8_t { kChrome, kPerfetto };
  // Which one a file of this name holds.
  static Format FormatOf(std::string_view path);
  // The events of this process, its rank and its name first; times are since this was made.
  std::string Events(int rank, std::string_view process, Format format) const;
  // A whole document of the events of one or more processes, all of this format.
  static std::string Document(std::span<const std::string> processes, Format format);

 private:
  std::string PerfettoEvents(int rank, std::string_view process) const;
  static std::string RowName(size_t row);

  struct Event {
    std::string name;
    Clock::time_point begin, end;
  };
  Clock::time_point start_ = Clock::now();
  std::vector<std::vector<Event>> rows_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_TRACE_H_
