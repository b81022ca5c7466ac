// A refusal that names what is large.
#include "backends/cpu/plan/memory_error.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "backends/cpu/plan/program.h"
#include "core/report/quantity_text.h"

namespace gshard::cpu {
namespace {

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

Diagnostic Note(std::string message) {
  Diagnostic note;
  note.severity = Severity::kNote;
  note.message = std::move(message);
  return note;
}

}  // namespace

Diagnostic MemoryError(const Plan& plan, std::string_view name, int64_t limit,
                       std::string_view first) {
  Diagnostic error = MakeError(
      "E-RUN-MEMORY",
      fmt::format("the run needs {}, more than the {}{}", Bytes(plan.memory.arena_bytes()), name,
                  Bytes(limit)),
      fmt::format("{}run fewer layers or smaller sizes; gshard-cost tells time and memory without "
                  "running",
                  first));
  for (const PlanMemory::LiveBuffer& holding : plan.memory.largest) {
    const Value& value = plan.program->values[holding.value];
    const uint32_t count = value.classes->count();
    error.notes.push_back(Note(fmt::format(
        "{:>10}  {} {}{}", Bytes(holding.bytes),
        value.source == nullptr ? "" : value.source->name(), ToString(value.shape, false),
        count > 1 ? fmt::format(", {} that differ", count) : std::string())));
  }
  error.notes.push_back(Note(
      fmt::format("one device of the real mesh holds {}", Bytes(plan.memory.device_peak_bytes))));
  return error;
}

}  // namespace gshard::cpu
