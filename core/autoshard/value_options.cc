// See value_options.h.

#include "core/autoshard/value_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>

#include "core/analysis/axis_text.h"
#include "core/autoshard/plan_rules.h"
#include "core/autoshard/prepared_program.h"
#include "core/autoshard/search.h"
#include "core/estimate/device_program.h"
#include "core/report/mesh_sweep.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"
#include "ir/dims.h"
#include "ir/traversal.h"

namespace gshard::autoshard {
namespace {

// Plans priced for one option at least, so that what touches the value can follow it.
constexpr int64_t kMinEvaluationsOfOption = 32;
// Rows of changes that the text tells of an option.
constexpr size_t kMaxChangesInText = 4;

using Collectives = std::map<std::pair<std::string, std::vector<std::string>>, CollectiveChange>;

class ValueExplorer {
 public:
  ValueExplorer(const AutoOptions& options, PreparedProgram prepared)
      : options_(options), prepared_(std::move(prepared)) {
    search_.limit_bytes = options.limit_bytes;
    search_.zero = options.zero;
  }

  Expected<ValueOptions> Run(const std::string& name) {
    auto pricer =
        PlanPricer::Make(prepared_.text, prepared_.written, options_.mesh, options_.pricing);
    if (!pricer) return Fail(std::move(pricer.error()));
    pricer_ = std::move(*pricer);
    search_.evaluations = EvaluationLimit(pricer_->module(), options_);
    auto member = MemberFor(name);
    if (!member) return Fail(std::move(member.error()));
    auto found = SearchPlans(*pricer_, search_);
    if (!found) return Fail(std::move(found.error()));
    const PricedPlan& best = found->plans[0];
    auto sent = CollectivesOf(best.plan);
    if (!sent) return Fail(std::move(sent.error()));
    const size_t group = group_of_.at(*member);
    const Group& described = pricer_->space().groups()[group];
    ValueOptions result;
    result.value = (*member)->name();
    result.group = GroupName(described.kind);
    result.shape = ToString((*member)->shape(), false);
    result.members = static_cast<int64_t>(described.members.size());
    result.chip = options_.pricing.chip.name;
    result.mesh = options_.mesh;
    result.limit_bytes = options_.limit_bytes;
    std::vector<std::pair<PricedPlan, ValueOption>> priced;
    const auto count = static_cast<int64_t>(described.options.size());
    const int64_t each = std::max(kMinEvaluationsOfOption, search_.evaluations / count);
    for (int option = best.plan.choices[group] == Plan::kAsWritten ? Plan::kAsWritten : 0;
         option < static_cast<int>(count); ++option) {
      const bool is_of_best = option == best.plan.choices[group];
      std::optional<PricedPlan> plan = best;
      if (!is_of_best) {
        plan = BestWithOption(*pricer_, search_, best.plan, group, option, each);
      }
      if (!plan) {
        ++result.refused;
        continue;
      }
      auto told = Describe(*plan, best.plan, group, *sent);
      if (!told) return Fail(std::move(told.error()));
      told->is_of_best_plan = is_of_best;
      priced.emplace_back(*plan, *std::move(told));
    }
    std::stable_sort(priced.begin(), priced.end(), [&](const auto& a, const auto& b) {
      if (a.second.is_of_best_plan != b.second.is_of_best_plan) return a.second.is_of_best_plan;
      return IsBetter(a.first, b.first, options_.limit_bytes);
    });
    for (auto& [plan, option] : priced) result.options.push_back(std::move(option));
    result.evaluations = pricer_->evaluations();
    return result;
  }

 private:
  // The instruction of a group that `name` is, or the nearest one that it is computed from, or
  // that is computed from it.
  Expected<const Instruction*> MemberFor(const std::string& name) {
    const Module& module = pricer_->module();
    const Instruction* asked = nullptr;
    by_id_.resize(module.instruction_limit(), nullptr);
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        by_id_[x->id()] = x;
        if (x->name() == name) asked = x;
      }
    }
    if (asked == nullptr) {
      return Fail(MakeError("E-EXPLAIN-001", fmt::format("no instruction is called '{}'", name)));
    }
    for (size_t g = 0; g < pricer_->space().groups().size(); ++g) {
      for (const uint32_t id : pricer_->space().groups()[g].members) group_of_[by_id_[id]] = g;
    }
    if (asked->sharding() != nullptr) {
      return Fail(MakeError("E-AUTO-004", fmt::format("the annotation of '{}' stays", name),
                            "--keep none or --free frees it: then a plan may choose"));
    }
    const Users users(module);
    std::deque<const Instruction*> queue = {asked};
    std::set<const Instruction*> seen = {asked};
    while (!queue.empty()) {
      const Instruction* x = queue.front();
      queue.pop_front();
      // What stands between gets its sharding from tensors that are cut one way or another.
      const auto member = group_of_.find(x);
      const bool has_cuts = member != group_of_.end() &&
                            pricer_->space().groups()[member->second].kind != GroupKind::kWritten;
      if (has_cuts || (member != group_of_.end() && x == asked)) return x;
      const auto visit = [&](const Instruction* next) {
        if (seen.insert(next).second) queue.push_back(next);
      };
      for (const Instruction* operand : x->operands()) visit(operand);
      for (const Instruction* user : users.of(x)) visit(user);
    }
    return Fail(
        MakeError("E-AUTO-004", fmt::format("no plan annotates '{}'", name),
                  "plans cut parameters, products, and results that propagation does not reach"));
  }

  Expected<Collectives> CollectivesOf(const Plan& plan) const {
    auto module = pricer_->Apply(plan);
    if (!module) return Fail(std::move(module.error()));
    DeviceProgramOptions program = options_.pricing.program;
    program.is_partitioned = false;
    auto made = MakeDeviceProgram(std::move(*module), program);
    if (!made) return Fail(std::move(made.error()));
    auto report = ReportCost(*made, options_.pricing.chip, options_.pricing.cost);
    if (!report) return Fail(std::move(report.error()));
    Collectives sent;
    for (const CollectiveRow& row : report->collectives) {
      sent[{row.kind, row.axes}] = {row.kind, row.axes, row.count, row.bytes_per_device};
    }
    return sent;
  }

  std::string SpecOf(size_t group, int choice) const {
    if (choice == Plan::kAsWritten) return "as written";
    const Group& of = pricer_->space().groups()[group];
    const std::optional<Cut>& cut = of.options[At(choice)];
    return cut ? SpecText(pricer_->space().mesh(), of.shape, *cut) : "";
  }

  Expected<ValueOption> Describe(const PricedPlan& plan, const Plan& best, size_t group,
                                 const Collectives& sent_by_best) const {
    ValueOption option;
    option.spec = SpecOf(group, plan.plan.choices[group]);
    option.step_time_s = plan.figures.step.step_time_s;
    option.exposed_communication_s = plan.figures.step.exposed_communication_s;
    option.peak_bytes = plan.figures.step.peak_bytes;
    option.fits = options_.limit_bytes == 0 || option.peak_bytes <= options_.limit_bytes;
    option.zero = plan.plan.cuts_weight_updates;
    for (size_t g = 0; g < pricer_->space().groups().size(); ++g) {
      if (g == group || plan.plan.choices[g] == best.choices[g]) continue;
      const Group& other = pricer_->space().groups()[g];
      const std::string spec = SpecOf(g, plan.plan.choices[g]);
      option.followed.push_back(fmt::format("{} {}: {}", GroupName(other.kind),
                                            by_id_[other.members[0]]->name(),
                                            spec.empty() ? "no annotation" : spec));
    }
    auto sent = CollectivesOf(plan.plan);
    if (!sent) return Fail(std::move(sent.error()));
    Collectives changes = *sent;
    for (const auto& [key, before] : sent_by_best) {
      CollectiveChange& change = changes[key];
      change = {before.kind, before.axes, change.count - before.count, change.bytes - before.bytes};
    }
    for (auto& [key, change] : changes) {
      if (std::abs(change.count) < .5 && std::abs(change.bytes) < .5) continue;
      option.changes.push_back(std::move(change));
    }
    std::ranges::stable_sort(option.changes, std::greater<>(),
                             [](const CollectiveChange& x) { return std::abs(x.bytes); });
    return option;
  }

  const AutoOptions& options_;
  const PreparedProgram prepared_;
  SearchOptions search_;
  std::unique_ptr<PlanPricer> pricer_;
  std::vector<const Instruction*> by_id_;
  std::map<const Instruction*, size_t> group_of_;
};

// "+2 all-reduce over model, 1.50 MiB"; of the same number: "all-reduce over model -1 MiB".
std::string ChangeText(const CollectiveChange& change) {
  const std::string bytes = HumanBytes(std::abs(change.bytes));
  const std::string what = fmt::format("{} over {}", change.kind, fmt::join(change.axes, "+"));
  const auto count = static_cast<int64_t>(std::round(change.count));
  if (count != 0)
    return fmt::format("{:+} {}, {}{}", count, what, change.bytes < 0 ? "-" : "", bytes);
  return fmt::format("{} {}{}", what, change.bytes < 0 ? "-" : "+", bytes);
}

std::string ChangesText(const std::vector<CollectiveChange>& changes) {
  std::string text;
  for (size_t i = 0; i < std::min(changes.size(), kMaxChangesInText); ++i) {
    text += (i > 0 ? "; " : "") + ChangeText(changes[i]);
  }
  if (changes.size() > kMaxChangesInText) {
    text += fmt::format("; {} more", changes.size() - kMaxChangesInText);
  }
  return text;
}

}  // namespace

Expected<ValueOptions> OptionsOfValue(std::unique_ptr<Module> module, const std::string& input,
                                      const std::string& name, const AutoOptions& options) {
  auto prepared = Prepare(std::move(module), input, options);
  if (!prepared) return Fail(std::move(prepared.error()));
  return ValueExplorer(options, std::move(*prepared)).Run(name);
}

std::string OptionsAsText(const ValueOptions& options) {
  std::string text = fmt::format("{} {}", options.value, options.shape);
  if (options.members > 1) {
    text +=
        fmt::format(", cut like the {} other {} of its kind", options.members - 1, options.group);
  }
  std::vector<MeshAxis> mesh = options.mesh;
  std::erase_if(mesh, [](const MeshAxis& axis) { return axis.size == 1; });
  text += fmt::format(": {} choices over {} on {}", options.options.size(), MeshText(mesh),
                      options.chip);
  if (options.limit_bytes > 0) {
    text += fmt::format(" of {}", HumanBytes(static_cast<double>(options.limit_bytes)));
  }
  text += fmt::format(", {} plans priced\n", options.evaluations);
  TextTable table{{{"", false},
                   {"choice", false},
                   {"step time", true},
                   {"exposed", true},
                   {"peak memory", true},
                   {"zero", false},
                   {"", false},
                   {"collectives against the best plan", false}},
                  {}};
  for (const ValueOption& option : options.options) {
    table.rows.push_back(
        {option.is_of_best_plan ? "*" : "", option.spec.empty() ? "no annotation" : option.spec,
         HumanSeconds(option.step_time_s), HumanSeconds(option.exposed_communication_s),
         HumanBytes(static_cast<double>(option.peak_bytes)), option.zero ? "yes" : "no",
         option.fits ? "" : "does not fit", ChangesText(option.changes)});
  }
  text += TableAsText(table);
  text += "* of the best plan found; around each other choice one round of changes of the rest\n";
  for (const ValueOption& option : options.options) {
    if (option.followed.empty()) continue;
    text += fmt::format("with {}: {}\n", option.spec.empty() ? "no annotation" : option.spec,
                        fmt::join(option.followed, "; "));
  }
  if (options.refused > 0)
    text += fmt::format("{} choices cannot be partitioned\n", options.refused);
  return text;
}

Json OptionsAsJson(const ValueOptions& options) {
  Json choices = Json::Array();
  for (const ValueOption& option : options.options) {
    Json changes = Json::Array();
    for (const CollectiveChange& change : option.changes) {
      changes.Append({{"kind", change.kind},
                      {"axes", change.axes},
                      {"count", change.count},
                      {"bytes_per_device", change.bytes}});
    }
    choices.Append({{"sharding", option.spec},
                    {"of_best_plan", option.is_of_best_plan},
                    {"step_time_s", option.step_time_s},
                    {"exposed_communication_s", option.exposed_communication_s},
                    {"peak_bytes", option.peak_bytes},
                    {"fits", option.fits},
                    {"zero", option.zero},
                    {"followed", option.followed},
                    {"collective_changes", std::move(changes)}});
  }
  return {{"value", options.value},
          {"group", options.group},
          {"shape", options.shape},
          {"members", options.members},
          {"chip", options.chip},
          {"mesh", MeshAsJson(options.mesh)},
          {"limit_bytes", options.limit_bytes},
          {"evaluations", options.evaluations},
          {"refused", options.refused},
          {"options", std::move(choices)}};
}

}  // namespace gshard::autoshard
