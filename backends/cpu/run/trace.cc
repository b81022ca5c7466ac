// Chrome trace event format: metadata that names the rows, "complete" events.
#include "backends/cpu/run/trace.h"

#include <fmt/format.h>

#include "core/json.h"

namespace gshard::cpu {

std::string Trace::ToJson() const {
  using Microseconds = std::chrono::duration<double, std::micro>;
  std::string out =
      "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
      "{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"gshard-run\"}}";
  for (size_t row = 0; row < rows_.size(); ++row) {
    out += fmt::format(
        ",\n{{\"ph\":\"M\",\"pid\":0,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":"
        "{}}}}}",
        row, JsonString(row == 0 ? "steps" : fmt::format("worker {}", row - 1)));
    for (const Event& event : rows_[row]) {
      out += fmt::format(
          ",\n{{\"ph\":\"X\",\"pid\":0,\"tid\":{},\"name\":{},\"ts\":{:.3f},\"dur\":{:.3f}}}", row,
          JsonString(event.name), Microseconds(event.begin - start_).count(),
          Microseconds(event.end - event.begin).count());
    }
  }
  out += "\n]}\n";
  return out;
}

}  // namespace gshard::cpu
