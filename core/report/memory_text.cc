#include "core/report/memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "core/cost/memory/buffer_size.h"
#include "core/report/quantity_text.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

std::string BytesText(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// "while.26#3" of a loop's carries, else the instruction's name.
std::string LeafName(const LiveBuffer& row) {
  const Instruction& x = *row.instruction;
  return x.shape()->IsTuple() ? fmt::format("{}#{}", x.name(), row.leaf) : std::string(x.name());
}

// "f32[512,2048] of f32[4096,2048] [data, _], replicated though model was free".
std::string TensorText(const LiveBuffer& row) {
  constexpr double kPaddingWorthTelling = 1.1;
  std::string text = ToString(row.shape, false);
  const double padding = static_cast<double>(row.bytes) / static_cast<double>(DenseBytes(row));
  if (row.shape->IsArray() && padding >= kPaddingWorthTelling)
    text += fmt::format(" padded {:.1f}x", padding);
  if (row.global_shape == nullptr) return text;
  if (row.global_shape->bare() != row.shape->bare())
    text += " of " + ToString(row.global_shape, false);
  bool whole = row.global_shape->bare() == row.shape->bare();
  if (whole && !row.free_axes.empty())
    return text + fmt::format(" replicated though {} was free", row.free_axes);
  if (!row.sharding_text.empty()) text += " " + row.sharding_text;
  if (!row.free_axes.empty()) text += fmt::format(", replicated though {} was free", row.free_axes);
  return text;
}

// Values that are looked at for one with a source line, by their users and operands.
constexpr size_t kMaxExpanded = 200, kMaxLooked = 2000;

bool HasLine(const Module& module, const SourceLines& lines) {
  return std::ranges::any_of(module.computations(), [&](const Computation* computation) {
    return std::ranges::any_of(computation->instructions(),
                               [&](const Instruction* x) { return !lines.TextOf(*x).empty(); });
  });
}

}  // namespace

BufferPlaces::BufferPlaces(const Module& module, const MemoryReport& report)
    : module_(report.compiled ? *report.compiled : module),
      lines_(module_),
      users_(module_),
      has_line_(HasLine(module_, lines_)) {}

std::string BufferPlaces::Of(const LiveBuffer& buffer) const {
  const Instruction& x = *buffer.instruction;
  std::string own = lines_.TextOf(x);
  if (!own.empty()) return own;
  for (const bool is_user : {true, false}) {
    if (const Instruction* nearest = Nearest(x, is_user)) return lines_.TextOf(*nearest);
  }
  return "";
}

std::string BufferPlaces::TextOf(const LiveBuffer& buffer) const {
  const Instruction& x = *buffer.instruction;
  std::string own = lines_.ShortTextOf(x);
  if (!own.empty()) return own;
  if (const Instruction* user = Nearest(x, true)) return "used at " + lines_.ShortTextOf(*user);
  const Instruction* made_of = Nearest(x, false);
  return made_of == nullptr ? "" : "made of what is at " + lines_.ShortTextOf(*made_of);
}

// Breadth first.
const Instruction* BufferPlaces::Nearest(const Instruction& x, bool is_user) const {
  if (!has_line_) return nullptr;
  std::vector<const Instruction*> queue = {&x};
  std::unordered_set<const Instruction*> seen = {&x};
  for (size_t i = 0; i < queue.size() && i < kMaxExpanded; ++i) {
    const std::span<Instruction* const> next = is_user ? users_.of(queue[i]) : queue[i]->operands();
    for (const Instruction* one : next) {
      if (!seen.insert(one).second) continue;
      if (!lines_.TextOf(*one).empty()) return one;
      if (queue.size() == kMaxLooked) return nullptr;
      queue.push_back(one);
    }
  }
  return nullptr;
}

int64_t DenseBytes(const LiveBuffer& buffer) {
  if (buffer.kind == BufferClass::kFragmentation) return buffer.bytes;
  return std::max<int64_t>(1, BufferBytes(buffer.shape, Tiling::kDense));
}

std::string VerdictText(const MemoryReport& report) {
  if (report.limit_bytes == 0) return "";
  std::string limit = BytesText(report.limit_bytes), peak = BytesText(report.peak_bytes);
  if (report.Fits()) {
    return report.limit_name.empty()
               ? fmt::format("fits {}: {}\n", limit, peak)
               : fmt::format("fits {} ({}): {}\n", report.limit_name, limit, peak);
  }
  std::string over = BytesText(report.peak_bytes - report.limit_bytes);
  return fmt::format("does NOT fit: over by {} ({}; {} {})\n", over, peak,
                     report.limit_name.empty() ? "the limit is" : report.limit_name + " has",
                     limit);
}

std::string AtPeakText(const Module& module, const MemoryReport& report, size_t rows) {
  if (report.at_peak.empty()) return "";
  const BufferPlaces places(module, report);
  std::string when = "the end of the step";
  if (report.peak != nullptr) {
    std::string place = places.TextOf({report.peak, 0, nullptr, 0});
    when = fmt::format("{}{}", report.peak->name(), place.empty() ? "" : " (" + place + ")");
  }
  std::string out = fmt::format("\n  {:>12}  alive at the memory peak, at {}\n", "bytes", when);
  for (size_t i = 0; i < std::min(rows, report.at_peak.size()); ++i) {
    const LiveBuffer& row = report.at_peak[i];
    std::string place = places.TextOf(row);
    std::string op = OpNameOf(*row.instruction);
    out += fmt::format("  {:>12}  {:<10} {} {}{}{}\n", BytesText(row.bytes),
                       BufferClassName(row.kind), LeafName(row), TensorText(row),
                       op.empty() ? "" : "  " + op, place.empty() ? "" : "  " + place);
  }
  if (report.at_peak.size() > rows) {
    int64_t rest = 0;
    for (size_t i = rows; i < report.at_peak.size(); ++i) rest += report.at_peak[i].bytes;
    out += fmt::format("  {:>12}  in {} more\n", BytesText(rest), report.at_peak.size() - rows);
  }
  return out;
}

}  // namespace gshard
