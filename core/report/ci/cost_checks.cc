// See cost_checks.h.

#include "core/report/ci/cost_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "core/report/quantity_text.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

struct Cause {
  std::string text;  // "most of it: wi f32[64] 1 MiB"; may be empty
  CiPlace place;
};

// The largest tensor at the peak, and the line of the largest that has one.
Cause OfMemory(const Module& module, const CostReport& report) {
  Cause cause;
  const SourceLines lines(module);
  for (const LiveBuffer& buffer : report.memory.at_peak) {
    if (cause.text.empty()) {
      cause.text = fmt::format(
          "the largest alive at the peak is {} {}, {}{}", buffer.instruction->name(),
          ToString(buffer.shape, false), HumanBytes(static_cast<double>(buffer.bytes)),
          buffer.free_axes.empty() ? "" : ", replicated though " + buffer.free_axes + " was free");
    }
    const std::string source = lines.TextOf(*buffer.instruction);
    if (source.empty()) continue;
    cause.place = SourcePlace(source);
    break;
  }
  return cause;
}

// The line that takes the most time.
Cause OfTime(const CostReport& report) {
  for (const WorkRow& row : report.by_source) {
    if (row.key.empty()) continue;
    return {fmt::format("{} takes {} of it", row.key, HumanSeconds(row.time_s)),
            SourcePlace(row.key)};
  }
  return {};
}

// Of the collectives that `counts` picks, the one that sends most.
Cause OfCollectives(const Module& module, const CostReport& report,
                    const std::function<bool(const CollectiveCost&)>& counts) {
  const CollectiveCall* most = nullptr;
  auto bytes = [](const CollectiveCall& call) { return call.count * call.cost.bytes_per_device; };
  for (const CollectiveCall& call : report.collective_calls) {
    if (counts(call.cost) && (most == nullptr || bytes(call) > bytes(*most))) most = &call;
  }
  if (most == nullptr) return {};
  std::string text = fmt::format("{} {} sends {}", most->cost.kind, most->instruction->name(),
                                 HumanBytes(bytes(*most)));
  if (!most->cost.cause.empty()) text += ": " + most->cost.cause;
  const std::string source = SourceLineOf(module, *most->instruction);
  return {std::move(text), source.empty() ? CiPlace() : SourcePlace(source)};
}

// The first value that is whole on every device.
Cause OfRematerializations(const Module& module, const CollectiveReport* collectives) {
  if (collectives == nullptr || collectives->rematerializations.empty()) return {};
  const CollectiveCause& first = collectives->rematerializations.front().cause;
  const Instruction* at = first.value != nullptr ? first.value : first.user;
  if (at == nullptr) return {};
  const std::string source = SourceLineOf(module, *at);
  return {fmt::format("{} becomes whole on every device", at->name()),
          source.empty() ? CiPlace() : SourcePlace(source)};
}

// Names the part of a key behind its dot.
bool Covers(std::string_view key, std::string_view family, const std::string& name) {
  const std::string_view part = key.substr(family.size());
  return part == "*" || part == name.substr(0, name.find(':'));
}

Cause OfBound(const Module& module, const CostReport& report, const CollectiveReport* collectives,
              std::string_view key) {
  constexpr std::string_view kBytes = "bytes_per_device.", kCounts = "collectives.";
  if (key == "peak_bytes") return OfMemory(module, report);
  if (key == "step_time_s") return OfTime(report);
  if (key == "full_rematerializations") return OfRematerializations(module, collectives);
  return OfCollectives(module, report, [&](const CollectiveCost& cost) {
    if (key.starts_with(kCounts)) return Covers(key, kCounts, cost.kind);
    if (!key.starts_with(kBytes)) return false;
    return key == "bytes_per_device.*" ||
           std::ranges::any_of(cost.axes,
                               [&](const std::string& axis) { return Covers(key, kBytes, axis); });
  });
}

CiCheck BoundCheck(std::string name, const char* rule, const std::string& value,
                   const std::string& allowed, bool is_exceeded,
                   const std::function<Cause()>& cause) {
  CiCheck check;
  check.name = std::move(name);
  check.rule = rule;
  check.message = fmt::format("{} of {}", value, allowed);
  if (!is_exceeded) return check;
  Cause found = cause();
  check.outcome = CiOutcome::kFailed;
  check.message = fmt::format("{}, allowed are {}", value, allowed);
  if (!found.text.empty()) check.message += "; " + found.text;
  check.place = std::move(found.place);
  return check;
}

}  // namespace

std::vector<CiCheck> CostChecks(const Module& module, const CostReport& report,
                                const std::vector<BoundedFigure>& bounds,
                                std::optional<int64_t> limit_bytes,
                                const CollectiveReport* collectives) {
  std::vector<CiCheck> checks;
  if (limit_bytes) {
    const int64_t peak = report.memory.peak_bytes;
    checks.push_back(BoundCheck("limit", "limit", HumanBytes(static_cast<double>(peak)),
                                HumanBytes(static_cast<double>(*limit_bytes)), peak > *limit_bytes,
                                [&] { return OfMemory(module, report); }));
  }
  for (const BoundedFigure& bound : bounds) {
    checks.push_back(BoundCheck(bound.key, "budget", BoundText(bound.key, bound.value),
                                BoundText(bound.key, bound.allowed), bound.IsExceeded(),
                                [&] { return OfBound(module, report, collectives, bound.key); }));
  }
  return checks;
}

}  // namespace gshard
