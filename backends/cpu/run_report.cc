// Views of a run's figures.
#include "backends/cpu/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

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
      return "near-ties";
    case VerifyStatus::kIllConditioned:
      return "ill-conditioned";
    case VerifyStatus::kMicrobatchSums:
      return "microbatch-sums";
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

Json FindingJson(const Finding& finding) {
  Json json = MismatchJson("name", finding.mismatch);
  json.Set("diagnosis", finding.diagnosis);
  if (!finding.file.empty()) {
    json.Set("file", finding.file);
    json.Set("line", finding.line);
  }
  if (!finding.cause.empty()) json.Set("cause", finding.cause);
  json.Set("made_by", finding.made_by);
  return json;
}

const char* OutcomeName(WidenedResult::Outcome outcome) {
  switch (outcome) {
    case WidenedResult::Outcome::kRounding:
      return "rounding";
    case WidenedResult::Outcome::kRemains:
      return "remains";
    case WidenedResult::Outcome::kUndecided:
      return "undecided";
  }
  return "";
}

Json WidenedJson(const WidenedResult& widened) {
  Json json = {{"outcome", OutcomeName(widened.outcome)}};
  if (!widened.reason.empty()) json.Set("reason", widened.reason);
  json.Set("max_rel_error", widened.was_run ? NumberJson(widened.max_rel_error) : Json());
  json.Set("worst", widened.worst);
  Json outputs = Json::Array();
  for (const WidenedResult::Output& output : widened.outputs) {
    Json row = MismatchJson("output", output.mismatch);
    row.Set("widened_error", NumberJson(output.error));
    row.Set("widened_rel_error", NumberJson(output.rel_error));
    row.Set("rounding", NumberJson(output.rounding));
    if (output.remains) row.Set("widened", MismatchJson("output", output.widened));
    outputs.Append(std::move(row));
  }
  json.Set("outputs", std::move(outputs));
  return json;
}

Json MicrobatchSumsJson(const MicrobatchSums& found) {
  Json sums = Json::Array();
  for (const MicrobatchSums::Sum& sum : found.sums) {
    sums.Append({{"name", sum.name}, {"op_name", sum.op_name}, {"source", sum.source}});
  }
  std::vector<std::string> outputs;
  for (size_t k : found.outputs) outputs.push_back(fmt::format("o{}", k));
  return {{"microbatches", found.microbatches},
          {"sums", std::move(sums)},
          {"outputs", outputs},
          {"max_abs_error", NumberJson(found.max_abs_error)},
          {"max_rel_error", NumberJson(found.max_rel_error)},
          {"worst", found.worst}};
}

Json VerifyJson(const VerifyResult& verify) {
  auto number = NumberJson;
  Json json = {{"ok", verify.ok && !verify.microbatch_sums},
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
  if (!verify.trivial.empty()) json.Set("trivial", verify.trivial);
  Json with_nan = Json::Array();
  for (const OutputError& output : verify.outputs) {
    if (output.nans == 0) continue;
    with_nan.Append({{"output", fmt::format("o{}", output.output)},
                     {"nans", output.nans},
                     {"elements", output.elements}});
  }
  json.Set("outputs_with_nan", std::move(with_nan));
  if (!verify.mismatch.name.empty()) {
    json.Set("mismatch", MismatchJson("output", verify.mismatch));
  }
  Json ties = Json::Array();
  for (const NearTie& tie : verify.near_ties) ties.Append(NearTieJson(tie));
  json.Set("near_ties", std::move(ties));
  if (verify.finding) json.Set("first", FindingJson(*verify.finding));
  if (verify.ill_conditioned) {
    json.Set("ill_conditioned", {{"instruction", verify.ill_conditioned->name},
                                 {"rel_error", NumberJson(verify.ill_conditioned->rel_error)},
                                 {"growth", NumberJson(verify.ill_conditioned->growth)}});
  }
  if (verify.widened) json.Set("widened", WidenedJson(*verify.widened));
  if (verify.microbatch_sums) {
    json.Set("microbatch_sums", MicrobatchSumsJson(*verify.microbatch_sums));
  }
  if (verify.instructions) json.Set("instructions", InstructionsJson(*verify.instructions));
  return json;
}

Json NotExercisedJson(const std::vector<NotExercised>& not_exercised) {
  Json rows = Json::Array();
  for (const NotExercised& at : not_exercised) {
    Json row = {{"instruction", at.instruction}};
    if (at.dim >= 0) row.Set("dim", at.dim);
    row.Set(at.dim >= 0 ? "tiles" : "branches", at.parts);
    row.Set("missed", at.missed);
    row.Set("below", !at.no_below);
    row.Set("beyond", !at.no_beyond);
    rows.Append(std::move(row));
  }
  return rows;
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
  constexpr size_t kMaxShown = 8;
  for (size_t i = 0; i < std::min(verify.near_ties.size(), kMaxShown); ++i) {
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
  if (verify.near_ties.size() > kMaxShown) {
    out +=
        fmt::format("              and {} more: see --json\n", verify.near_ties.size() - kMaxShown);
  }
  if (!verify.near_ties.empty()) {
    out += fmt::format("              with these picks in the unpartitioned graph {}\n",
                       verify.ok ? "all outputs agree" : "outputs still differ");
  }
}

void AppendInstructions(const InstructionsResult& result, bool tell_first, std::string& out) {
  out += fmt::format(
      "              {} instruction{} compared in {}, largest relative error {:.3g}{}\n",
      result.compared, result.compared == 1 ? "" : "s", Bytes(result.peak_memory_bytes),
      result.max_rel_error, result.worst.empty() ? "" : " at " + result.worst);
  if (result.skipped > 0) {
    out += fmt::format("              {} left out: of random streams, or without room\n",
                       result.skipped);
  }
  if (result.first && tell_first) {
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
    case VerifyStatus::kIllConditioned:
      return "ok but ill-conditioned";
    case VerifyStatus::kMicrobatchSums:
      return "differs as W-PIPELINE-001 says";
    case VerifyStatus::kMismatch:
      return "MISMATCH";
  }
  return "";
}

// The first wrong array, and what kind of mistake makes it.
void AppendFinding(const Finding& finding, std::string& out) {
  out += fmt::format("wrong         {}\n", MismatchText(finding.mismatch));
  if (!finding.diagnosis.empty()) out += fmt::format("              {}\n", finding.diagnosis);
  if (!finding.made_by.empty()) {
    out += fmt::format("              made by {}\n", fmt::join(finding.made_by, ", "));
  }
  if (!finding.cause.empty()) out += fmt::format("              because {}\n", finding.cause);
  if (!finding.file.empty())
    out += fmt::format("              at {}:{}\n", finding.file, finding.line);
}

void AppendIllConditioned(const IllConditioned& found, std::string& out) {
  out += "              every step agrees with its own operands: what differs is rounding";
  if (found.growth > 1) {
    out += fmt::format(", magnified {:.2g} times at {}", found.growth, found.name);
  } else if (!found.name.empty()) {
    out += fmt::format(", {:.2g} of the largest magnitude at {}", found.rel_error, found.name);
  }
  out += "\n";
}

// The one that tells most clearly that what differs is no rounding.
std::string RemainsText(const WidenedResult& widened) {
  for (const WidenedResult::Output& output : widened.outputs) {
    if (output.mismatch.name != widened.worst) continue;
    const Mismatch& at = output.widened;
    return fmt::format(
        "no rounding: in f64 {}[{}] on device {} stays off by {:.3g}: {}, unpartitioned {}, whose "
        "own rounding is {:.2g}",
        at.name, fmt::join(at.index, ","), at.device, output.error, at.value, at.expected,
        output.rounding);
  }
  return "";
}

// `tell_outputs`: those that differ in their own types, too.
void AppendWidened(const WidenedResult& widened, bool tell_outputs, std::string& out) {
  constexpr size_t kMaxShown = 4;
  switch (widened.outcome) {
    case WidenedResult::Outcome::kRemains:
      out += fmt::format("              {}\n", RemainsText(widened));
      return;
    case WidenedResult::Outcome::kUndecided:
      out += fmt::format("              {}\n", widened.reason);
      return;
    case WidenedResult::Outcome::kRounding:
      break;
  }
  out += "              what differs is rounding: in f64 both graphs agree";
  if (widened.max_rel_error > 0) {
    out += fmt::format(" to {:.2g} ({})", widened.max_rel_error, widened.worst);
  }
  out += "\n";
  if (!tell_outputs) return;
  for (size_t i = 0; i < std::min(widened.outputs.size(), kMaxShown); ++i) {
    const WidenedResult::Output& output = widened.outputs[i];
    out += fmt::format("              {}; in f64 off by {:.2g}\n", MismatchText(output.mismatch),
                       output.error);
  }
  if (widened.outputs.size() > kMaxShown) {
    out +=
        fmt::format("              and {} more: see --json\n", widened.outputs.size() - kMaxShown);
  }
}

// "'reduce.12' (unet.py:34) and 23 more"
std::string SumsText(const MicrobatchSums& found) {
  constexpr size_t kMaxNamed = 3;
  std::string text;
  for (size_t i = 0; i < std::min(found.sums.size(), kMaxNamed); ++i) {
    const MicrobatchSums::Sum& sum = found.sums[i];
    const std::string& place = sum.source.empty() ? sum.op_name : sum.source;
    text += fmt::format("{}'{}'{}", i == 0 ? "" : ", ", sum.name,
                        place.empty() ? "" : fmt::format(" ({})", place));
  }
  if (found.sums.size() > kMaxNamed) {
    text += fmt::format(" and {} more", found.sums.size() - kMaxNamed);
  }
  return text;
}

// The verdict and its figures: of what differs from the reference on purpose, the difference.
void AppendSummary(const VerifyResult& verify, std::string& out) {
  const auto errors = [](double absolute, double relative, const std::string& worst) {
    return fmt::format("largest error {:.3g} ({:.3g} relative, {})", absolute, relative,
                       worst.empty() ? "none" : worst);
  };
  const std::string compared = errors(verify.max_abs_error, verify.max_rel_error, verify.worst);
  std::string plural = verify.compared == 1 ? "" : "s";
  if (const int64_t with_nan = verify.OutputsWithNan(); with_nan > 0) {
    plural += fmt::format(", {} of them with NaN", with_nan);
  }
  if (verify.Status() != VerifyStatus::kMicrobatchSums) {
    out += fmt::format("verify        {}: {} output{}, {}\n", StatusText(verify), verify.compared,
                       plural, compared);
  }
  if (!verify.microbatch_sums) return;
  const MicrobatchSums& found = *verify.microbatch_sums;
  if (verify.ok) {
    out += fmt::format("verify        {}: {} of {} output{}, {}\n", StatusText(verify),
                       found.outputs.size(), verify.compared, plural,
                       errors(found.max_abs_error, found.max_rel_error, found.worst));
  }
  out += fmt::format("              {} from sums over a micro-batch: {}\n",
                     verify.ok ? "they follow" : fmt::format("{} follow", found.outputs.size()),
                     SumsText(found));
  out += fmt::format("              compared with the reference in the same {} micro-batches{}\n",
                     found.microbatches, verify.ok ? ": " + compared : "");
}

// Scalars that index something.
std::vector<const InputSummary::Random*> DrawnScalars(const InputSummary& inputs) {
  std::vector<const InputSummary::Random*> scalars;
  for (const InputSummary::Random& random : inputs.random) {
    if (random.value) scalars.push_back(&random);
  }
  return scalars;
}

// With which starts and branches the verdict was found, and in how many draws.
void AppendDraws(const RunReport& report, std::string& out) {
  constexpr size_t kMaxShown = 4;
  const RunReport::Draws& draws = report.draws;
  const auto scalars = DrawnScalars(report.inputs);
  if (draws.wanted <= 1) return;
  const bool is_ok = report.verify->Status() == VerifyStatus::kOk;
  std::string names;
  for (size_t i = 0; i < std::min(scalars.size(), kMaxShown); ++i) {
    names += (i == 0 ? "" : ", ") + scalars[i]->name;
    if (!is_ok) names += fmt::format(" = {}", *scalars[i]->value);
  }
  if (scalars.size() > kMaxShown) names += fmt::format(" and {} more", scalars.size() - kMaxShown);
  if (!is_ok) {
    out += fmt::format("              in draw {} of {}{}{}\n", draws.told + 1, draws.wanted,
                       names.empty() ? "" : ": ", names);
  } else {
    out += fmt::format("              in {} draw{} of {}", draws.done, draws.done == 1 ? "" : "s",
                       names.empty() ? "the inputs" : names);
    if (draws.done < draws.wanted) {
      out += fmt::format("; {} reach all: --seed takes another", draws.wanted);
    }
    out += "\n";
  }
}

// "gather.3 (tiles 5, 7 of 8 along 0)"
std::string MissedText(const NotExercised& at) {
  constexpr size_t kMaxShown = 4;
  std::string which;
  for (size_t i = 0; i < std::min(at.missed.size(), kMaxShown); ++i) {
    which += fmt::format("{}{}", i == 0 ? "" : ", ", at.missed[i]);
  }
  if (at.missed.size() > kMaxShown) which += ", ..";
  if (at.dim < 0) return fmt::format("{} ({} of {})", at.instruction, which, at.parts);
  return fmt::format("{} ({} of {} along {})", at.instruction, which, at.parts, at.dim);
}

void AppendNotExercised(std::string_view what, const std::vector<std::string>& names,
                        std::string& out) {
  constexpr size_t kMaxShown = 3;
  if (names.empty()) return;
  out += fmt::format("not exercised {}: ", what);
  for (size_t i = 0; i < std::min(names.size(), kMaxShown); ++i) {
    out += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > kMaxShown) out += fmt::format(" and {} more", names.size() - kMaxShown);
  out += "\n";
}

// Outputs that are NaN in the unpartitioned graph, with their share.
void AppendNanOutputs(const VerifyResult& verify, std::string& out) {
  std::vector<std::string> names;
  for (const OutputError& output : verify.outputs) {
    if (output.nans == 0) continue;
    const double share =
        100 * static_cast<double>(output.nans) / static_cast<double>(output.elements);
    names.push_back(fmt::format("o{} ({:.3g} %)", output.output, share));
  }
  AppendNotExercised("outputs that are NaN in both programs", names, out);
}

// Where a wrong program may have passed.
void AppendNotExercised(const std::vector<NotExercised>& not_exercised, std::string& out) {
  std::vector<std::string> tiles, branches, below, beyond;
  for (const NotExercised& at : not_exercised) {
    if (!at.missed.empty()) (at.dim < 0 ? branches : tiles).push_back(MissedText(at));
    const auto add = [&](std::vector<std::string>& names) {
      if (names.empty() || names.back() != at.instruction) names.push_back(at.instruction);
    };
    if (at.no_below) add(below);
    if (at.no_beyond) add(beyond);
  }
  AppendNotExercised("tiles", tiles, out);
  AppendNotExercised("branches", branches, out);
  AppendNotExercised("indices below 0", below, out);
  AppendNotExercised("indices beyond the end", beyond, out);
}

void AppendVerify(const VerifyResult& verify, std::string& out) {
  AppendSummary(verify, out);
  if (!verify.trivial.empty()) out += fmt::format("              trivial: {}\n", verify.trivial);
  if (verify.finding) {
    AppendFinding(*verify.finding, out);
  } else if (!verify.ok && !verify.mismatch.name.empty()) {
    out += fmt::format("              {}\n", MismatchText(verify.mismatch));
  }
  if (verify.ill_conditioned) AppendIllConditioned(*verify.ill_conditioned, out);
  if (verify.widened) AppendWidened(*verify.widened, verify.ok, out);
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
  if (verify.instructions) AppendInstructions(*verify.instructions, !verify.finding, out);
}

}  // namespace

double RunReport::MedianStepTime() const {
  if (step_times_s.empty()) return 0;
  std::vector<double> sorted = step_times_s;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

std::string RunReport::Rank::Pack() const {
  return fmt::format("{} {} {} {} {} {}", memory_bytes, wait_s, messages, bytes, shared_bytes,
                     host);
}

RunReport::Rank RunReport::Rank::Unpack(const std::string& text) {
  Rank rank;
  std::istringstream in(text);
  in >> rank.memory_bytes >> rank.wait_s >> rank.messages >> rank.bytes >> rank.shared_bytes >>
      rank.host;
  return rank;
}

namespace {

Json DeviceGroupsJson(const RunReport& report) {
  Json groups = Json::Array();
  for (const RunReport::DeviceGroup& group : report.device_groups) {
    groups.Append({{"first_device", group.first_device},
                   {"count", group.count},
                   {"peak_bytes", group.peak_bytes},
                   {"flops", group.flops}});
  }
  return groups;
}

// As gshard-cost has it.
Json ModelJson(const RunReport& report) {
  if (!report.model) return Json();
  return {{"peak_bytes", report.model->peak_bytes}, {"flops", report.model->flops}};
}

// Where devices differ: each group's figures, of many the first.
std::string DeviceGroupsText(const RunReport& report) {
  constexpr size_t kMax = 16;
  const std::vector<RunReport::DeviceGroup>& groups = report.device_groups;
  std::string out;
  for (size_t i = 0; groups.size() > 1 && i < std::min(groups.size(), kMax); ++i) {
    const RunReport::DeviceGroup& group = groups[i];
    std::string devices = fmt::format("{}", group.first_device);
    if (group.count > 1) devices += fmt::format("..{}", group.first_device + group.count - 1);
    out += fmt::format("  device {:<12} {}, {}\n", devices,
                       HumanFlops(static_cast<double>(group.flops)), Bytes(group.peak_bytes));
  }
  if (groups.size() > kMax) out += fmt::format("  and {} more\n", groups.size() - kMax);
  return out;
}

}  // namespace

std::vector<FailedCheck> RunReport::FailedChecks(bool fail_on_near_ties,
                                                 bool allow_microbatch_sums) const {
  if (!verify) return {};
  if (!verify->ok) {
    const bool has_finding = verify->finding.has_value();
    std::string message = MismatchText(has_finding ? verify->finding->mismatch : verify->mismatch);
    if (has_finding && !verify->finding->diagnosis.empty()) {
      message += "; " + verify->finding->diagnosis;
    }
    if (verify->widened && verify->widened->outcome == WidenedResult::Outcome::kRemains) {
      message += "; " + RemainsText(*verify->widened);
    }
    return {{"verify", std::move(message), "", {}, {}}};
  }
  std::vector<FailedCheck> failed;
  if (verify->microbatch_sums && !allow_microbatch_sums) {
    const MicrobatchSums& found = *verify->microbatch_sums;
    failed.push_back({"microbatch-sums",
                      fmt::format("as W-PIPELINE-001 says, {} outputs follow from sums over a "
                                  "micro-batch and differ by up to {:.3g} of the largest "
                                  "magnitude: {}",
                                  found.outputs.size(), found.max_rel_error, SumsText(found)),
                      "",
                      {},
                      {}});
  }
  const bool settles_picks = verify->ill_conditioned || verify->widened;
  if (fail_on_near_ties && !settles_picks && verify->HasNearTies()) {
    failed.push_back(
        {"near-ties", "picks among floats within rounding of each other differ", "", {}, {}});
  }
  return failed;
}

std::string ToJson(const RunReport& report, std::span<const FailedCheck> failed, bool measured) {
  auto figure = [&](auto value) { return measured ? Json(value) : Json(); };
  const double step = report.MedianStepTime();
  Json collectives = Json::Array();
  for (const RunReport::Collective& collective : report.collectives) {
    collectives.Append({{"kind", collective.kind},
                        {"count", collective.count},
                        {"bytes_per_device", collective.bytes_per_device}});
  }
  Json json = {{"schema", "gshard.run/1"},
               {"failed_checks", FailedChecksAsJson(failed)},
               {"devices", figure(report.devices)},
               {"threads", figure(report.threads)},
               {"machine",
                {{"processor", report.machine.processor},
                 {"instruction_set", NameOf(report.machine.instructions)},
                 {"blas", report.machine.blas},
                 {"blas_kernel", report.machine.blas_kernel}}},
               {"propagation", ModeName(report.propagated_as)},
               {"partition_time_s", figure(report.partition_time_s)},
               {"plan_time_s", figure(report.plan_time_s)},
               {"step_time_s", figure(step)},
               {"step_times_s", report.step_times_s},
               {"step_was_verified", figure(report.step_was_verified)},
               {"peak_memory_bytes", figure(report.peak_memory_bytes)},
               {"flops", figure(report.flops)},
               {"flops_per_s", figure(step > 0 ? static_cast<double>(report.flops) / step : 0.0)},
               {"partial_sum_bytes", figure(report.partial_sum_bytes)},
               {"per_device",
                {{"peak_bytes", figure(report.device_peak_bytes)},
                 {"flops", figure(report.device_flops)},
                 {"groups", DeviceGroupsJson(report)},
                 {"model", ModelJson(report)}}},
               {"collectives", std::move(collectives)}};
  if (!report.ranks.empty()) {
    Json ranks = Json::Array();
    for (const RunReport::Rank& rank : report.ranks) {
      ranks.Append({{"host", rank.host},
                    {"memory_bytes", rank.memory_bytes},
                    {"wait_s", rank.wait_s},
                    {"messages", rank.messages},
                    {"bytes", rank.bytes},
                    {"shared_bytes", rank.shared_bytes}});
    }
    json.Set("ranks", std::move(ranks));
  }
  json.Set("inputs", ToJson(report.inputs));
  if (report.verify) {
    Json verify = VerifyJson(*report.verify);
    verify.Set("draws", {{"done", report.draws.done},
                         {"wanted", report.draws.wanted},
                         {"told", report.draws.told}});
    verify.Set("not_exercised", NotExercisedJson(report.not_exercised));
    json.Set("verify", std::move(verify));
  }
  if (report.interrupted) json.Set("interrupted", true);
  return json.Text();
}

std::string ToText(const RunReport& report) {
  std::string out;
  const double step = report.MedianStepTime();
  out += fmt::format("devices       {} on {} thread{}\n", report.devices, report.threads,
                     report.threads == 1 ? "" : "s");
  out += fmt::format("machine       {}\n", ToText(report.machine));
  out += ToText(report.inputs);
  if (report.partition_time_s > 0) {
    out += fmt::format(
        "partition     {}{}\n", HumanSeconds(report.partition_time_s),
        report.propagated_as == PropagationMode::kShardy ? ", propagated by Shardy's rules" : "");
  }
  out += fmt::format("plan          {}\n", HumanSeconds(report.plan_time_s));
  if (!report.step_times_s.empty()) {
    out += fmt::format("step          {}", HumanSeconds(step));
    if (report.step_times_s.size() > 1) {
      out += fmt::format("  (median of {})", report.step_times_s.size());
    }
    if (report.step_was_verified) out += "  (verified as it ran; --repeat 1 times it alone)";
    out += fmt::format("\n");
  }
  out += fmt::format("memory        {} in all, {} on one device of the real mesh\n",
                     Bytes(report.peak_memory_bytes), Bytes(report.device_peak_bytes));
  out += fmt::format("arithmetic    {}", HumanFlops(static_cast<double>(report.flops)));
  if (step > 0) {
    out += fmt::format(" ({}/s)", HumanFlops(static_cast<double>(report.flops) / step));
  }
  out += fmt::format(", {} per device\n", HumanFlops(static_cast<double>(report.device_flops)));
  out += DeviceGroupsText(report);
  if (report.model) {
    out += fmt::format(
        "gshard-cost   {}, {} per device: estimated for a chip, not for this emulation\n",
        Bytes(report.model->peak_bytes), HumanFlops(report.model->flops));
  }
  for (const RunReport::Collective& collective : report.collectives) {
    out += fmt::format("{:<20} {:>6} x, {} sent per device\n", collective.kind, collective.count,
                       Bytes(collective.bytes_per_device));
  }
  for (size_t r = 0; r < report.ranks.size(); ++r) {
    const RunReport::Rank& rank = report.ranks[r];
    out += fmt::format("rank {:<8} {} on {}, {} sent in {} message{}", r, Bytes(rank.memory_bytes),
                       rank.host, Bytes(rank.bytes), rank.messages, rank.messages == 1 ? "" : "s");
    if (rank.shared_bytes > 0) {
      out += fmt::format(" ({} through shared memory)", Bytes(rank.shared_bytes));
    }
    out += fmt::format(", {} waiting\n", HumanSeconds(rank.wait_s));
  }
  if (report.verify) {
    AppendVerify(*report.verify, out);
    AppendDraws(report, out);
    if (report.verify->ok) {
      AppendNanOutputs(*report.verify, out);
      AppendNotExercised(report.not_exercised, out);
    }
  }
  return out;
}

}  // namespace gshard::cpu
