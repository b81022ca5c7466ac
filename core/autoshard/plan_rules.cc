// See plan_rules.h.

#include "core/autoshard/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/analysis/axis_text.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/sharding_text.h"

namespace gshard::autoshard {
namespace {

// Matches `text` alone; with `any_numbers`, whatever its numbers are.
std::string PatternOf(std::string_view text, bool any_numbers) {
  std::string pattern;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (any_numbers && std::isdigit(c)) {
      while (i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1]))) ++i;
      pattern += "[0-9]+";
    } else if (std::isalnum(c) || c == '_' || c == '-' || c == '/' || c == ' ' || c == ',') {
      pattern += text[i];
    } else {
      pattern += fmt::format("\\{}", text[i]);
    }
  }
  return pattern;
}

// By axes, as a user would write it, where they can say it.
std::string SpecOf(Context& context, const Sharding* sharding, const Mesh& mesh) {
  std::string text = AxisText(context, sharding, &mesh);
  if (text == "replicated") return text;
  const bool is_plain = text.size() > 2 && text.front() == '[' && text.back() == ']' &&
                        text.find_first_of("()") == std::string::npos;
  if (!is_plain) return ToString(sharding);
  std::erase(text, ' ');
  return text.substr(1, text.size() - 2);
}

}  // namespace

PlanRules::PlanRules(const Module& module, const PlanSpace& space)
    : module_(module), space_(space), names_(module), by_id_(module.instruction_limit(), nullptr) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) by_id_[x->id()] = x;
  }
}

const std::string& PlanRules::PatternFor(const std::vector<uint32_t>& members) {
  const auto [known, is_first] = pattern_of_.try_emplace(members);
  std::string& joined = known->second;
  if (!is_first) return joined;
  std::set<uint32_t> left(members.begin(), members.end());
  std::set<std::string> patterns;
  for (const uint32_t id : members) {
    const std::string op_name = OpNameOf(*by_id_[id]);
    if (!op_name.empty()) patterns.insert("^" + PatternOf(op_name, true) + "$");
  }
  for (const std::string& pattern : patterns) {
    const auto matches = names_.Matching(pattern);
    const bool is_own = matches && std::ranges::all_of(*matches, [&](const Instruction* x) {
                          return std::ranges::find(members, x->id()) != members.end();
                        });
    if (!is_own) continue;
    bool is_new = false;
    for (const Instruction* x : *matches) is_new |= left.erase(x->id()) > 0;
    if (is_new) joined += (joined.empty() ? "" : "|") + pattern;
  }
  std::string names;
  for (const uint32_t id : left) {
    names += (names.empty() ? "" : "|") + PatternOf(by_id_[id]->name(), false);
  }
  if (!names.empty()) joined += (joined.empty() ? "" : "|") + fmt::format("^({})$", names);
  return joined;
}

PlannedRule PlanRules::RuleFor(const Group& group, const std::vector<uint32_t>& members,
                               const std::string& spec) {
  PlannedRule rule;
  rule.pattern = PatternFor(members);
  rule.spec = spec;
  rule.what = GroupName(group.kind);
  rule.example = by_id_[members[0]]->name();
  rule.shape = ToString(by_id_[members[0]]->shape(), false);
  rule.instructions = static_cast<int64_t>(members.size());
  return rule;
}

std::vector<PlannedRule> PlanRules::Of(const std::vector<const Sharding*>& written,
                                       const Plan& plan) {
  std::vector<PlannedRule> rules;
  const Mesh mesh = MeshOf(space_.mesh());
  for (size_t g = 0; g < space_.groups().size(); ++g) {
    const Group& group = space_.groups()[g];
    const int choice = plan.choices[g];
    if (choice == Plan::kAsWritten) {
      std::map<std::string, std::vector<uint32_t>> by_sharding;
      for (const uint32_t id : group.members) {
        if (written[id] == nullptr) continue;
        by_sharding[SpecOf(module_.context(), written[id], mesh)].push_back(id);
      }
      for (const auto& [text, members] : by_sharding) {
        rules.push_back(RuleFor(group, members, text));
      }
    } else if (const std::optional<Cut>& cut = group.options[At(choice)]) {
      const bool is_cut = std::ranges::any_of(*cut, [](int dim) { return dim >= 0; });
      rules.push_back(RuleFor(group, group.members,
                              is_cut ? SpecText(space_.mesh(), group.shape, *cut) : "replicated"));
    }
  }
  return rules;
}

}  // namespace gshard::autoshard
