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

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The numbers in `text`, in their order.
std::vector<std::string> NumbersIn(std::string_view text) {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!IsDigit(text[i])) continue;
    if (i == 0 || !IsDigit(text[i - 1])) numbers.emplace_back();
    numbers.back() += text[i];
  }
  return numbers;
}

// Matches `text` with these numbers, or any where one is empty, in the places of its own.
std::string PatternOf(std::string_view text, const std::vector<std::string>& numbers) {
  constexpr std::string_view kPlain = "_-/ ,'";
  std::string pattern;
  size_t next = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (IsDigit(text[i])) {
      if (i > 0 && IsDigit(text[i - 1])) continue;
      const std::string& number = numbers[next++];
      pattern += number.empty() ? "[0-9]+" : number;
    } else if (std::isalnum(c) || kPlain.find(text[i]) != std::string_view::npos) {
      pattern += text[i];
    } else {
      pattern += fmt::format("\\{}", text[i]);
    }
  }
  return pattern;
}

std::string WithAnyNumbers(const std::string& text) {
  return PatternOf(text, std::vector<std::string>(NumbersIn(text).size()));
}

// Patterns of these texts, with any numbers only in places where texts alike differ: those of
// layers, not "Dense_0".
std::set<std::string> WithVaryingNumbers(const std::set<std::string>& texts) {
  std::map<std::string, std::vector<std::string>> numbers_of;  // by pattern: those that all share
  std::map<std::string, std::string> example_of;
  for (const std::string& text : texts) {
    const std::string pattern = WithAnyNumbers(text);
    std::vector<std::string> numbers = NumbersIn(text);
    const auto [known, is_first] = numbers_of.try_emplace(pattern, numbers);
    example_of.try_emplace(pattern, text);
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (known->second[i] != numbers[i]) known->second[i].clear();
    }
  }
  std::set<std::string> patterns;
  for (const auto& [pattern, numbers] : numbers_of) {
    patterns.insert(PatternOf(example_of[pattern], numbers));
  }
  return patterns;
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
  // Takes the patterns that find nothing but members, and new ones.
  const auto add = [&](const std::set<std::string>& patterns) {
    for (const std::string& text : patterns) {
      const std::string pattern = "^" + text + "$";
      const auto matches = names_.Matching(pattern);
      const bool is_own = matches && std::ranges::all_of(*matches, [&](const Instruction* x) {
                            return std::ranges::find(members, x->id()) != members.end();
                          });
      if (!is_own) continue;
      bool is_new = false;
      for (const Instruction* x : *matches) is_new |= left.erase(x->id()) > 0;
      if (is_new) joined += (joined.empty() ? "" : "|") + pattern;
    }
  };
  const auto op_names = [&](const auto& ids) {
    std::set<std::string> found;
    for (const uint32_t id : ids) found.insert(OpNameOf(*by_id_[id]));
    found.erase("");
    return found;
  };
  std::set<std::string> patterns;
  for (const std::string& op_name : op_names(members)) patterns.insert(WithAnyNumbers(op_name));
  add(patterns);
  add(WithVaryingNumbers(op_names(left)));
  std::set<std::string> names;
  for (const uint32_t id : left) names.emplace(by_id_[id]->name());
  patterns = WithVaryingNumbers(names);
  if (patterns.size() < names.size()) add(patterns);
  std::string rest;
  for (const uint32_t id : left) {
    const std::string_view name = by_id_[id]->name();
    rest += (rest.empty() ? "" : "|") + PatternOf(name, NumbersIn(name));
  }
  if (!rest.empty()) joined += (joined.empty() ? "" : "|") + fmt::format("^({})$", rest);
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
