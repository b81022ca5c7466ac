#include "core/op_dims/dim_relation.h"

#include <fmt/format.h>

#include <string_view>

namespace gshard {
namespace {

void AppendTensors(std::string& out, const std::vector<std::vector<FactorList>>& tensors) {
  out += '(';
  for (size_t i = 0; i < tensors.size(); ++i) {
    out += i == 0 ? "[" : ", [";
    for (size_t d = 0; d < tensors[i].size(); ++d) {
      if (d > 0) out += ", ";
      for (const int factor : tensors[i][d]) out += FactorName(factor);
    }
    out += ']';
  }
  out += ')';
}

template <typename Filter>
void AppendFactors(std::string& out, const DimRelation& relation, std::string_view title,
                   const Filter& filter) {
  std::string list;
  for (size_t f = 0; f < relation.factors.size(); ++f) {
    if (!filter(relation.factors[f])) continue;
    if (!list.empty()) list += ", ";
    list += FactorName(static_cast<int>(f));
  }
  if (!list.empty()) out += fmt::format(" {}={{{}}}", title, list);
}

}  // namespace

std::string FactorName(int factor) {
  constexpr int kLetters = 'z' - 'i' + 1;
  std::string name(1, static_cast<char>('i' + factor % kLetters));
  if (factor >= kLetters) name += std::to_string(factor / kLetters);
  return name;
}

std::string DimsText(const DimRelation& relation) {
  std::string out;
  AppendTensors(out, relation.operands);
  out += "->";
  AppendTensors(out, relation.results);
  return out;
}

std::string ToString(const DimRelation& relation) {
  std::string out = DimsText(relation);
  if (relation.factors.empty()) return out;
  out += " {";
  for (size_t f = 0; f < relation.factors.size(); ++f) {
    out += fmt::format("{}{}={}", f == 0 ? "" : ", ", FactorName(static_cast<int>(f)), relation.factors[f].size);
  }
  out += '}';
  constexpr std::pair<FactorKind, std::string_view> kKinds[] = {
      {FactorKind::kReduction, "reduction"},
      {FactorKind::kNeedReplication, "need_replication"},
      {FactorKind::kPermutation, "permutation"}};
  for (const auto& [kind, title] : kKinds) {
    AppendFactors(out, relation, title, [kind = kind](const Factor& f) { return f.kind == kind; });
  }
  AppendFactors(out, relation, "blocked_propagation", [](const Factor& f) { return f.blocked; });
  return out;
}

}  // namespace gshard
