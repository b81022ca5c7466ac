// See report.h.

#include "core/autoshard/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/analysis/axis_text.h"
#include "core/autoshard/prepared_program.h"
#include "core/json.h"
#include "core/report/embedded_page.h"
#include "core/report/mesh_sweep.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"

namespace gshard::autoshard {
namespace {

std::string ShortPattern(const PlannedRule& rule) {
  constexpr size_t kMax = 48;
  return rule.pattern.size() <= kMax ? rule.pattern : rule.pattern.substr(0, kMax - 2) + "..";
}

// "8 x 32 1f1b"; empty: none.
std::string StagesText(const AutoPlan& plan) {
  if (plan.stages < 2) return "";
  return fmt::format("{} x {} {}", plan.stages, plan.microbatches, plan.schedule);
}

std::string TableOfPlans(const AutoResult& result) {
  const bool has_stages =
      std::ranges::any_of(result.plans, [](const AutoPlan& plan) { return plan.stages > 1; });
  TextTable table{{{"", false},
                   {"mesh", false},
                   {"zero", false},
                   {"remat", false},
                   {"step time", true},
                   {"exposed", true},
                   {"MFU", true},
                   {"peak memory", true},
                   {"annotations", true},
                   {"most time", false},
                   {"", false}},
                  {}};
  if (has_stages) {
    table.columns.insert(table.columns.begin() + 2, {"stages x micro-batches", false});
  }
  for (const AutoPlan& plan : result.plans) {
    table.rows.push_back(
        {plan.pareto ? "*" : "", MeshText(plan.mesh), plan.zero ? "yes" : "no",
         plan.remat ? "yes" : "no", HumanSeconds(plan.step_time_s),
         HumanSeconds(plan.exposed_communication_s), fmt::format("{:.1f}%", 100 * plan.mfu),
         HumanBytes(static_cast<double>(plan.peak_bytes)), fmt::format("{}", plan.annotations),
         plan.why, plan.fits ? "" : "does not fit"});
    if (has_stages) table.rows.back().insert(table.rows.back().begin() + 2, StagesText(plan));
  }
  return TableAsText(table);
}

std::string TableOfRules(const AutoPlan& plan) {
  TextTable table{{{"of", false},
                   {"instructions", true},
                   {"shape", false},
                   {"such as", false},
                   {"sharding", false},
                   {"rule", false}},
                  {}};
  for (const PlannedRule& rule : plan.rules) {
    table.rows.push_back({rule.what, fmt::format("{}", rule.instructions), rule.shape, rule.example,
                          rule.spec, ShortPattern(rule)});
  }
  return TableAsText(table);
}

std::string WrittenText(const AutoPlan& plan) {
  return fmt::format("as it is written: {} a step, {} exposed, {} a device{}; most time: {}\n",
                     HumanSeconds(plan.step_time_s), HumanSeconds(plan.exposed_communication_s),
                     HumanBytes(static_cast<double>(plan.peak_bytes)),
                     plan.fits ? "" : ", which does not fit", plan.why);
}

}  // namespace

std::string KeptAnnotationsText(const AutoResult& result) {
  if (result.plans.front().fits || result.kept_annotations == 0) return "";
  const bool is_one = result.kept_annotations == 1;
  return fmt::format(
      "{} annotation{}{} {} kept as IN has {}: --keep none frees all of them, --free PATTERN some",
      result.kept_annotations, is_one ? "" : "s",
      result.keeps == Keep::kAll ? "" : " of inputs and outputs", is_one ? "is" : "are",
      is_one ? "it" : "them");
}

namespace {

std::string AgainstPerfectScaling(double step, double perfect) {
  if (perfect <= 0) return "";
  if (step >= perfect)
    return fmt::format("; the plan is {:.1f} % above it", 100 * (step / perfect - 1));
  return fmt::format("; the plan takes {:.1f} % less, as some kernels are faster than their share",
                     100 * (1 - step / perfect));
}

}  // namespace

std::string AutoSummary(const AutoResult& result) {
  const AutoPlan& best = result.plans.front();
  std::string text = fmt::format("{} on {} {}", result.module, result.devices, result.chip);
  if (result.limit_bytes > 0) {
    text += fmt::format(" of {}", HumanBytes(static_cast<double>(result.limit_bytes)));
  }
  text += fmt::format(": {} a step, {} a device{}\n", HumanSeconds(best.step_time_s),
                      HumanBytes(static_cast<double>(best.peak_bytes)),
                      best.fits ? "" : ", which does NOT fit");
  text +=
      fmt::format("perfect scaling of one device's step: {}{}\n", HumanSeconds(result.perfect_s),
                  AgainstPerfectScaling(best.step_time_s, result.perfect_s));
  text += fmt::format(
      "{} plans priced{}: {}{}\n\n", result.evaluations,
      result.refused > 0 ? fmt::format(" ({} cannot be partitioned)", result.refused) : "",
      result.searched,
      result.counts_flash_kernels
          ? "; attention that is spelled out counts as flash kernels, which XLA does not make of "
            "it (--attention materialized)"
          : "");
  text += TableOfPlans(result);
  text += "* no other of these is better in both time and memory\n";
  if (const std::string kept = KeptAnnotationsText(result); !kept.empty()) text += kept + "\n";
  if (result.written) text += WrittenText(*result.written);
  if (best.is_written) {
    text += "\nthe first is the program with the annotations it came with\n";
  } else if (best.rules.empty()) {
    text += "\nthe first needs no annotations\n";
  } else {
    text += "\nannotations of the first:\n" + TableOfRules(best);
  }
  return text;
}

std::string AutoAsText(const AutoResult& result) {
  return AutoSummary(result) + "\n" + result.plans.front().command + "\n";
}

namespace {

Json JsonOf(const AutoPlan& plan) {
  std::vector<std::string> rules;
  for (const PlannedRule& rule : plan.rules) rules.push_back(rule.pattern + "=" + rule.spec);
  return {{"mesh", MeshAsJson(plan.mesh)},
          {"stages", plan.stages},
          {"microbatches", plan.microbatches},
          {"schedule", plan.schedule},
          {"zero", plan.zero},
          {"remat", plan.remat},
          {"step_time_s", plan.step_time_s},
          {"peak_bytes", plan.peak_bytes},
          {"mfu", plan.mfu},
          {"exposed_communication_s", plan.exposed_communication_s},
          {"bubble_share", plan.bubble_share},
          {"fits", plan.fits},
          {"pareto", plan.pareto},
          {"why", plan.why},
          {"rules", rules},
          {"annotations", plan.annotations},
          {"command", plan.command}};
}

Json JsonOf(const AutoResult& result) {
  Json plans = Json::Array();
  for (const AutoPlan& plan : result.plans) plans.Append(JsonOf(plan));
  return {{"schema", "gshard.auto/1"},
          {"module", result.module},
          {"chip", result.chip},
          {"devices", result.devices},
          {"limit_bytes", result.limit_bytes},
          {"overlap", result.overlap},
          {"evaluations", result.evaluations},
          {"refused", result.refused},
          {"bound_s", result.bound_s},
          {"gap", result.gap},
          {"searched", result.searched},
          {"kept_annotations", result.kept_annotations},
          {"counts_flash_kernels", result.counts_flash_kernels},
          {"written", result.written ? JsonOf(*result.written) : Json()},
          {"plans", std::move(plans)}};
}

}  // namespace

std::string AutoAsJson(const AutoResult& result) { return JsonOf(result).Text(); }

std::string AutoAsPage(const AutoResult& result) {
  const std::string title =
      fmt::format("{}: plans for {} {}", result.module, result.devices, result.chip);
  return HtmlPage(title, JsonOf(result), PageScript::kPlans);
}

std::string RulesFile(const AutoResult& result, const AutoPlan& plan) {
  std::string text =
      fmt::format("# {} on {}: {} a step, {} a device\n# mesh {}\n", result.module, result.chip,
                  HumanSeconds(plan.step_time_s), HumanBytes(static_cast<double>(plan.peak_bytes)),
                  MeshText(plan.mesh));
  if (plan.is_written) text += "# no rules: the program with the annotations it came with\n";
  for (const PlannedRule& rule : plan.rules) {
    text += fmt::format("# {}: {} such as {} {}\n{}={}\n", rule.what, rule.instructions, rule.shape,
                        rule.example, rule.pattern, rule.spec);
  }
  return text;
}

}  // namespace gshard::autoshard
