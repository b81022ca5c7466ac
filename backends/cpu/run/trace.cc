// Chrome trace event format: metadata that names processes and rows, "complete" events.
#include "backends/cpu/run/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/json.h"

namespace gshard::cpu {

std::string Trace::Events(int rank, std::string_view process) const {
  using Microseconds = std::chrono::duration<double, std::micro>;
  std::string out =
      fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", rank,
                  JsonString(process));
  for (size_t row = 0; row < rows_.size(); ++row) {
    out += fmt::format(
        ",\n"
        R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
        rank, row, JsonString(row == 0 ? "steps" : fmt::format("worker {}", row - 1)));
    for (const Event& event : rows_[row]) {
      out += fmt::format(
          ",\n"
          R"({{"ph":"X","pid":{},"tid":{},"name":{},"ts":{:.3f},"dur":{:.3f}}})",
          rank, row, JsonString(event.name), Microseconds(event.begin - start_).count(),
          Microseconds(event.end - event.begin).count());
    }
  }
  return out;
}

std::string Trace::ToJson(std::span<const std::string> processes) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n",
                     fmt::join(processes, ",\n"));
}

}  // namespace gshard::cpu
