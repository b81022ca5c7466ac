// Chrome trace event format: metadata that names processes and rows, "complete" events. Perfetto's:
// packets, of which those of several ranks follow each other.
#include "backends/cpu/run/trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/json.h"
#include "core/report/trace/perfetto.h"

namespace gshard::cpu {

Trace::Format Trace::FormatOf(std::string_view path) {
  return IsPerfettoFile(path) ? Format::kPerfetto : Format::kChrome;
}

std::string Trace::RowName(size_t row) {
  return row == 0 ? "steps" : fmt::format("worker {}", row - 1);
}

std::string Trace::PerfettoEvents(int rank, std::string_view process) const {
  const auto nanoseconds = [&](Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time - start_).count();
  };
  PerfettoTrace trace(static_cast<uint32_t>(rank) + 1);
  const uint64_t group = trace.AddProcess(process);
  for (size_t row = 0; row < rows_.size(); ++row) {
    std::vector<TraceSlice> slices;
    for (const Event& event : rows_[row]) {
      slices.push_back({nanoseconds(event.begin), nanoseconds(event.end), event.name});
    }
    trace.AddLane(group, RowName(row), std::move(slices));
  }
  return trace.bytes();
}

std::string Trace::Events(int rank, std::string_view process, Format format) const {
  if (format == Format::kPerfetto) return PerfettoEvents(rank, process);
  using Microseconds = std::chrono::duration<double, std::micro>;
  std::string out =
      fmt::format(R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":{}}}}})", rank,
                  JsonString(process));
  for (size_t row = 0; row < rows_.size(); ++row) {
    out += fmt::format(
        ",\n"
        R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
        rank, row, JsonString(RowName(row)));
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

std::string Trace::Document(std::span<const std::string> processes, Format format) {
  if (format == Format::kPerfetto) return fmt::format("{}", fmt::join(processes, ""));
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n",
                     fmt::join(processes, ",\n"));
}

}  // namespace gshard::cpu
