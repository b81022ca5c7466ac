// Views of a run's figures.
#include "backends/cpu/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"
#include "core/report/quantity_text.h"

namespace gshard::cpu {
namespace {

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// JSON has no infinities.
Json NumberJson(double value) { return std::isfinite(value) ? Json(value) : Json("inf"); }

Json MismatchJson(const char* what, const Mismatch& mismatch) {
  return {{what, mismatch.name},
          {"index", mismatch.index},
          {"device", mismatch.device},
          {"value", mismatch.value},
          {"expected", mismatch.expected},
          {"ulps", NumberJson(mismatch.ulps)},
          {"differences", mismatch.differences},
          {"elements", mismatch.elements}};
}

Json NearTieJson(const NearTie& tie) {
  Json json = MismatchJson("instruction", tie.pick);
  json.Set("opcode", tie.opcode);
  Json candidates = Json::Array();
  for (const NearTie::Candidate& candidate : tie.candidates) {
    candidates.Append({{"instruction", candidate.name},
                       {"index", candidate.index},
                       {"value", candidate.value},
                       {"expected", candidate.expected}});
  }
  json.Set("candidates", std::move(candidates));
  // Of the floats that decide: of the picks they say nothing.
  json.Set("ulps", tie.candidates.empty() ? Json() : NumberJson(tie.ulps));
  if (!tie.candidates.empty()) {
    json.Set("apart", NumberJson(tie.apart));
    json.Set("allowed", tie.allowed);
  }
  return json;
}

const char* StatusName(VerifyStatus status) {
  switch (status) {
    case VerifyStatus::kOk:
      return "ok";
    case VerifyStatus::kNearTie:
      return "near-tie";
    case VerifyStatus::kMismatch:
      return "mismatch";
  }
  return "";
}

Json InstructionsJson(const InstructionsResult& result) {
  Json json = {{"compared", result.compared},
               {"skipped", result.skipped},
               {"max_rel_error", NumberJson(result.max_rel_error)},
               {"worst", result.worst},
               {"peak_memory_bytes", result.peak_memory_bytes}};
  if (result.first) json.Set("first", MismatchJson("instruction", *result.first));
  Json growth = Json::Array();
  for (const ErrorStep& step : result.growth) {
    growth.Append({{"instruction", step.name},
                   {"rel_error", NumberJson(step.rel_error)},
                   {"ulps", NumberJson(step.ulps)}});
  }
  json.Set("growth", std::move(growth));
  return json;
}

Json VerifyJson(const VerifyResult& verify) {
  auto number = NumberJson;
  Json json = {{"ok", verify.ok},
               {"status", StatusName(verify.Status())},
               {"max_abs_error", number(verify.max_abs_error)},
               {"max_rel_error", number(verify.max_rel_error)},
               {"worst", verify.worst},
               {"outputs", verify.compared},
               {"outputs_shape_only", verify.shape_only},
               {"discrete",
                {{"outputs", verify.discrete_outputs},
                 {"differences", verify.discrete_differences},
                 {"elements", verify.discrete_elements}}}};
  if (!verify.mismatch.name.empty()) {
    json.Set("mismatch", MismatchJson("output", verify.mismatch));
  }
  Json ties = Json::Array();
  for (const NearTie& tie : verify.near_ties) ties.Append(NearTieJson(tie));
  json.Set("near_ties", std::move(ties));
  if (verify.instructions) json.Set("instructions", InstructionsJson(*verify.instructions));
  return json;
}

std::string MismatchText(const Mismatch& mismatch) {
  std::string text = fmt::format("{}[{}] on device {}: {}, unpartitioned {} ({:.3g} ulp)",
                                 mismatch.name, fmt::join(mismatch.index, ","), mismatch.device,
                                 mismatch.value, mismatch.expected, mismatch.ulps);
  if (mismatch.differences > 1) {
    text += fmt::format("; {} of {} elements differ", mismatch.differences, mismatch.elements);
  }
  return text;
}

// What it was picked from: the mesh's and the other graph's floats.
std::string CandidatesText(const NearTie& tie) {
  std::string out;
  for (const NearTie::Candidate& candidate : tie.candidates) {
    out +=
        fmt::format("{}{}[{}] = {} (unpartitioned {})", out.empty() ? "" : " and ", candidate.name,
                    fmt::join(candidate.index, ","), candidate.value, candidate.expected);
  }
  if (!tie.candidates.empty()) {
    out += fmt::format(", {:.3g} ulp apart: {:.2g}, where {:.2g} is rounding", tie.ulps, tie.apart,
                       tie.allowed);
  }
  return out;
}

void AppendNearTies(const VerifyResult& verify, std::string& out) {
  constexpr size_t kMostShown = 8;
  for (size_t i = 0; i < std::min(verify.near_ties.size(), kMostShown); ++i) {
    const NearTie& tie = verify.near_ties[i];
    out += fmt::format("near tie      {}[{}] on device {}: {} picks {}, unpartitioned {}",
                       tie.pick.name, fmt::join(tie.pick.index, ","), tie.pick.device, tie.opcode,
                       tie.pick.value, tie.pick.expected);
    if (tie.pick.differences > 1) {
      out += fmt::format("; {} of {} elements flip", tie.pick.differences, tie.pick.elements);
    }
    out += "\n";
    const std::string candidates = CandidatesText(tie);
    if (!candidates.empty()) out += fmt::format("              from {}\n", candidates);
  }
  if (verify.near_ties.size() > kMostShown) {
    out += fmt::format("              and {} more: see --json\n",
                       verify.near_ties.size() - kMostShown);
  }
  if (!verify.near_ties.empty()) {
    out += fmt::format("              with these picks in the unpartitioned graph {}\n",
                       verify.ok ? "all outputs agree" : "outputs still differ");
  }
}

void AppendInstructions(const InstructionsResult& result, std::string& out) {
  out += fmt::format(
      "              {} instruction{} compared in {}, largest relative error {:.3g}{}\n",
      result.compared, result.compared == 1 ? "" : "s", Bytes(result.peak_memory_bytes),
      result.max_rel_error, result.worst.empty() ? "" : " at " + result.worst);
  if (result.skipped > 0) {
    out += fmt::format("              {} left out: of random streams, or without room\n",
                       result.skipped);
  }
  if (result.first) {
    out += fmt::format("first         {}\n", MismatchText(*result.first));
  }
  if (result.growth.size() > 1) {
    out += "growth       ";
    for (const ErrorStep& step : result.growth) {
      out += fmt::format(" {} {:.2g}{}", step.name, step.rel_error,
                         &step == &result.growth.back() ? "\n" : " >");
    }
  }
}

const char* StatusText(const VerifyResult& verify) {
  switch (verify.Status()) {
    case VerifyStatus::kOk:
      return "ok";
    case VerifyStatus::kNearTie:
      return verify.near_ties.empty() ? "ok but for picks" : "ok but for near ties";
    case VerifyStatus::kMismatch:
      return "MISMATCH";
  }
  return "";
}

void AppendVerify(const VerifyResult& verify, std::string& out) {
  out += fmt::format("verify        {}: {} output{}, largest error {:.3g} ({:.3g} relative, {})\n",
                     StatusText(verify), verify.compared, verify.compared == 1 ? "" : "s",
                     verify.max_abs_error, verify.max_rel_error,
                     verify.worst.empty() ? "none" : verify.worst);
  if (!verify.ok && !verify.mismatch.name.empty()) {
    out += fmt::format("              {}\n", MismatchText(verify.mismatch));
  }
  if (verify.discrete_differences > 0) {
    out += fmt::format(
        "              {} of {} elements differ in {} output{} that follow from sorting or "
        "picking floats\n",
        verify.discrete_differences, verify.discrete_elements, verify.discrete_outputs,
        verify.discrete_outputs == 1 ? "" : "s");
  }
  AppendNearTies(verify, out);
  if (verify.shape_only > 0) {
    out += fmt::format("              {} output{} of random streams: shapes compared only\n",
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
  Json collectives = Json::Array();
  for (const RunReport::Collective& collective : report.collectives) {
    collectives.Append({{"kind", collective.kind},
                        {"count", collective.count},
                        {"bytes_per_device", collective.bytes_per_device}});
  }
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
      {"collectives", std::move(collectives)}};
  if (report.verify) json.Set("verify", VerifyJson(*report.verify));
  if (report.interrupted) json.Set("interrupted", true);
  return json.Text();
}

std::string ToText(const RunReport& report) {
  std::string out;
  const double step = report.MedianStepTime();
  out += fmt::format("devices       {} on {} thread{}\n", report.devices, report.threads,
                     report.threads == 1 ? "" : "s");
  if (report.partition_time_s > 0) {
    out += fmt::format("partition     {}\n", HumanSeconds(report.partition_time_s));
  }
  out += fmt::format("plan          {}\n", HumanSeconds(report.plan_time_s));
  if (!report.step_times_s.empty()) {
    out += fmt::format("step          {}", HumanSeconds(step));
    if (report.step_times_s.size() > 1) {
      out += fmt::format("  (median of {})", report.step_times_s.size());
    }
    out += fmt::format("\n");
  }
  out += fmt::format("memory        {} in all, {} on one device of the real mesh\n",
                     Bytes(report.peak_memory_bytes), Bytes(report.device_peak_bytes));
  out += fmt::format("arithmetic    {}", HumanFlops(static_cast<double>(report.flops)));
  if (step > 0) {
    out += fmt::format(" ({}/s)", HumanFlops(static_cast<double>(report.flops) / step));
  }
  out += fmt::format(", {} per device\n", HumanFlops(static_cast<double>(report.device_flops)));
  for (const RunReport::Collective& collective : report.collectives) {
    out += fmt::format("{:<20} {:>6} x, {} sent per device\n", collective.kind, collective.count,
                       Bytes(collective.bytes_per_device));
  }
  if (report.verify) AppendVerify(*report.verify, out);
  return out;
}

}  // namespace gshard::cpu
