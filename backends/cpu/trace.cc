// Chrome trace event format, "complete" events.
#include "backends/cpu/trace.h"

#include <fmt/format.h>

#include <iterator>

namespace gshard::cpu {

std::string Trace::ToJson() const {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  for (size_t row = 0; row < rows_.size(); ++row) {
    fmt::format_to(
        std::back_inserter(out),
        "{{\"ph\":\"M\",\"pid\":0,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":"
        "\"{}\"}}}},\n",
        row, row == 0 ? "steps" : fmt::format("worker {}", row - 1));
    for (const Event& event : rows_[row]) {
      using Microseconds = std::chrono::duration<double, std::micro>;
      fmt::format_to(
          std::back_inserter(out),
          "{{\"ph\":\"X\",\"pid\":0,\"tid\":{},\"name\":\"{}\",\"ts\":{:.3f},\"dur\":{:.3f}}},"
          "\n",
          row, event.name, Microseconds(event.begin - start_).count(),
          Microseconds(event.end - event.begin).count());
    }
  }
  out += "{}]}\n";
  return out;
}

}  // namespace gshard::cpu
