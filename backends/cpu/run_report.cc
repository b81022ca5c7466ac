// Views of a run's figures.
#include "backends/cpu/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/report/quantity_text.h"

namespace gshard::cpu {
namespace {

using Json = nlohmann::ordered_json;

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// JSON has no infinities.
Json NumberJson(double value) { return std::isfinite(value) ? Json(value) : Json("inf"); }

Json MismatchJson(const char* what, const Mismatch& mismatch) {
  return {{what, mismatch.name},           {"index", mismatch.index},
          {"device", mismatch.device},     {"value", mismatch.value},
          {"expected", mismatch.expected}, {"ulps", NumberJson(mismatch.ulps)}};
}

Json InstructionsJson(const InstructionsResult& result) {
  Json json = {{"compared", result.compared},
               {"skipped", result.skipped},
               {"max_rel_error", NumberJson(result.max_rel_error)},
               {"worst", result.worst}};
  if (result.first) json["first"] = MismatchJson("instruction", *result.first);
  json["growth"] = Json::array();
  for (const ErrorStep& step : result.growth) {
    json["growth"].push_back({{"instruction", step.name},
                              {"rel_error", NumberJson(step.rel_error)},
                              {"ulps", NumberJson(step.ulps)}});
  }
  return json;
}

Json VerifyJson(const VerifyResult& verify) {
  auto number = NumberJson;
  Json json = {{"ok", verify.ok},
               {"max_abs_error", number(verify.max_abs_error)},
               {"max_rel_error", number(verify.max_rel_error)},
               {"worst", verify.worst},
               {"outputs", verify.compared},
               {"outputs_shape_only", verify.shape_only},
               {"discrete",
                {{"outputs", verify.discrete_outputs},
                 {"differences", verify.discrete_differences},
                 {"elements", verify.discrete_elements}}}};
  if (!verify.ok) json["mismatch"] = MismatchJson("output", verify.mismatch);
  if (verify.instructions) json["instructions"] = InstructionsJson(*verify.instructions);
  return json;
}

std::string MismatchText(const Mismatch& mismatch) {
  return fmt::format("{}[{}] on device {}: {}, unpartitioned {} ({:.3g} ulp)", mismatch.name,
                     fmt::join(mismatch.index, ","), mismatch.device, mismatch.value,
                     mismatch.expected, mismatch.ulps);
}

void AppendInstructions(const InstructionsResult& result, std::string& out) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "              {} instruction{} compared, largest relative error {:.3g}{}\n",
                 result.compared, result.compared == 1 ? "" : "s", result.max_rel_error,
                 result.worst.empty() ? "" : " at " + result.worst);
  if (result.skipped > 0) {
    fmt::format_to(to, "              {} left out: of random streams, or without room\n",
                   result.skipped);
  }
  if (result.first) {
    fmt::format_to(to, "first         {}\n", MismatchText(*result.first));
  }
  if (result.growth.size() > 1) {
    out += "growth       ";
    for (const ErrorStep& step : result.growth) {
      fmt::format_to(to, " {} {:.2g}{}", step.name, step.rel_error,
                     &step == &result.growth.back() ? "\n" : " >");
    }
  }
}

void AppendVerify(const VerifyResult& verify, std::string& out) {
  auto to = std::back_inserter(out);
  fmt::format_to(to, "verify        {}: {} output{}, largest error {:.3g} ({:.3g} relative, {})\n",
                 verify.ok ? "ok" : "MISMATCH", verify.compared, verify.compared == 1 ? "" : "s",
                 verify.max_abs_error, verify.max_rel_error,
                 verify.worst.empty() ? "none" : verify.worst);
  if (!verify.ok) {
    fmt::format_to(to, "              {}\n", MismatchText(verify.mismatch));
  }
  if (verify.discrete_differences > 0) {
    fmt::format_to(
        to,
        "              {} of {} elements differ in {} output{} that follow from sorting or "
        "picking floats\n",
        verify.discrete_differences, verify.discrete_elements, verify.discrete_outputs,
        verify.discrete_outputs == 1 ? "" : "s");
    if (!verify.ok) {
      out +=
          "              where two picks are within rounding, either is right: see what another "
          "--seed says\n";
    }
  }
  if (verify.shape_only > 0) {
    fmt::format_to(to, "              {} output{} of random streams: shapes compared only\n",
                   verify.shape_only, verify.shape_only == 1 ? "" : "s");
  }
  if (verify.instructions) AppendInstructions(*verify.instructions, out);
}

}  // namespace

double RunReport::MedianStepTime() const {
  if (step_times_s.empty()) return 0;
  std::vector<double> sorted = step_times_s;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

std::string ToJson(const RunReport& report) {
  const double step = report.MedianStepTime();
  Json json = {
      {"schema", "gshard.run/1"},
      {"devices", report.devices},
      {"threads", report.threads},
      {"partition_time_s", report.partition_time_s},
      {"plan_time_s", report.plan_time_s},
      {"step_time_s", step},
      {"step_times_s", report.step_times_s},
      {"peak_memory_bytes", report.peak_memory_bytes},
      {"flops", report.flops},
      {"flops_per_s", step > 0 ? static_cast<double>(report.flops) / step : 0.0},
      {"partial_sum_bytes", report.partial_sum_bytes},
      {"per_device", {{"peak_bytes", report.device_peak_bytes}, {"flops", report.device_flops}}},
      {"collectives", Json::array()}};
  for (const RunReport::Collective& collective : report.collectives) {
    json["collectives"].push_back({{"kind", collective.kind},
                                   {"count", collective.count},
                                   {"bytes_per_device", collective.bytes_per_device}});
  }
  if (report.verify) json["verify"] = VerifyJson(*report.verify);
  if (report.interrupted) json["interrupted"] = true;
  return json.dump(2) + "\n";
}

std::string ToText(const RunReport& report) {
  std::string out;
  auto to = std::back_inserter(out);
  const double step = report.MedianStepTime();
  fmt::format_to(to, "devices       {} on {} thread{}\n", report.devices, report.threads,
                 report.threads == 1 ? "" : "s");
  if (report.partition_time_s > 0) {
    fmt::format_to(to, "partition     {}\n", HumanSeconds(report.partition_time_s));
  }
  fmt::format_to(to, "plan          {}\n", HumanSeconds(report.plan_time_s));
  if (!report.step_times_s.empty()) {
    fmt::format_to(to, "step          {}", HumanSeconds(step));
    if (report.step_times_s.size() > 1) {
      fmt::format_to(to, "  (median of {})", report.step_times_s.size());
    }
    fmt::format_to(to, "\n");
  }
  fmt::format_to(to, "memory        {} in all, {} on one device of the real mesh\n",
                 Bytes(report.peak_memory_bytes), Bytes(report.device_peak_bytes));
  fmt::format_to(to, "arithmetic    {}", HumanFlops(static_cast<double>(report.flops)));
  if (step > 0) {
    fmt::format_to(to, " ({}/s)", HumanFlops(static_cast<double>(report.flops) / step));
  }
  fmt::format_to(to, ", {} per device\n", HumanFlops(static_cast<double>(report.device_flops)));
  for (const RunReport::Collective& collective : report.collectives) {
    fmt::format_to(to, "{:<20} {:>6} x, {} sent per device\n", collective.kind, collective.count,
                   Bytes(collective.bytes_per_device));
  }
  if (report.verify) AppendVerify(*report.verify, out);
  return out;
}

}  // namespace gshard::cpu
